// `lift` adds axes; it does not drop any.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let row = Tensor::from([1.0_f32, 2.0]);
    let _ = &row + x.lift();
}
