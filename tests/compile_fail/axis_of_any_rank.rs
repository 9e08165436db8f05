// In code for any rank, an axis needs a bound.
use rankform::prelude::*;

fn totals<const RANK: usize, const M: usize>(x: &Tensor<f32, RANK>) -> Result<Tensor<f32, M>> {
    x.sum(Axis::<0>)
}

fn main() {
    let _ = totals::<2, 1>(&Tensor::from([[1.0]]));
}
