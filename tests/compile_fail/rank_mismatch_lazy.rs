// The same inside a lazy expression: reported at the operator, not at `eval`.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let row = Tensor::from([1.0_f32, 2.0]);
    let _ = (x.lazy().exp() * &row).eval();
}
