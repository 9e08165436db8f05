// A `TensorView` reads.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let mut view = x.view();
    let _ = view.fill(0.0);
    view[[0]] = 1.0;
}
