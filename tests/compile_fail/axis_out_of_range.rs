// Reducing over an axis that the tensor does not have.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let _ = x.sum(Axis::<5>);
    let _ = x.reversed(Axis::<2>);
}
