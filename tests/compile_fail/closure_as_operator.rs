// A closure is not an operator: it has no body for other devices and no derivative.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = x.map(|v: f32| v + 1.0);
}
