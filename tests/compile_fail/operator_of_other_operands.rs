// An operator of two operands, given one.
use rankform::prelude::*;

elementwise! {
    fn scaled(x, by) { x * by }
}

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = x.map(scaled);
    let _ = x.zip(derivative::<_, 2>(scaled), 0.5);
}
