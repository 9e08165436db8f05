// A view borrows: it ends before its tensor does.
use rankform::prelude::*;

fn first_row() -> TensorView<'static, f32, 1> {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    x.slice((0, ..)).unwrap()
}

fn main() {
    let _ = first_row();
}
