// Operands of two element types.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let i = Tensor::from([1_i32, 2]);
    let _ = &x + &i;
}
