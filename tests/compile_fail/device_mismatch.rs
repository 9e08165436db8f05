// Operands on two kinds of device.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let there = x.to(&Meta::new()).unwrap();
    let _ = &x + &there;
}
