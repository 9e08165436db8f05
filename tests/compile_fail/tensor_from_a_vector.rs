// A vector is not an element: its sizes must be said.
use rankform::prelude::*;

fn main() {
    let _ = Tensor::from(vec![1.0_f32, 2.0]);
}
