// Slopes of operators with two operands, with a result of another element, with two results.
use rankform::prelude::*;

elementwise! {
    fn scaled(x, by) { (x * by).exp() } slope of y { y * by }
    fn is_large(x) -> bool { x.gt(1e3) } slope of y { Lane::zero() }
    fn both(x) -> (T, T) { (x, -x) } slope of y { y }
}

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = x.zip(scaled, 0.5);
}
