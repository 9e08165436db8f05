// More pairs of axes than an operand has.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let _ = x.tensordot(&x, [(0, 0), (1, 1), (0, 1)]);
}
