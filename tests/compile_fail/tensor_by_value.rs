// A lazy expression borrows its tensors.
use rankform::prelude::*;

fn main() {
    let (x, y) = (Tensor::from([1.0_f32]), Tensor::from([2.0_f32]));
    let _ = x.lazy() + y;
}
