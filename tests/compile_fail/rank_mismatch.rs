// `+` of a matrix and a row: ranks never stretch by themselves.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let row = Tensor::from([1.0_f32, 2.0]);
    let _ = &x + &row;
}
