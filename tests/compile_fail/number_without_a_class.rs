// Generic code needs a bound for the operators of its elements.
use rankform::prelude::*;

fn twice<T: Element, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Tensor<T, RANK, D> {
    x + x
}

fn main() {
    let _ = twice(&Tensor::from([1.0]));
}
