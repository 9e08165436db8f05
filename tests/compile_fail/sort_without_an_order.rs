// Sorting elements without an order, a cumulative sum along a missing axis, a triangle of a vector.
use rankform::{Complex, prelude::*};

fn main() {
    let x = Tensor::from([[Complex::new(1.0, 2.0)]]);
    let _ = x.sort(Axis::<1>);
    let y = Tensor::from([[1.0_f32, 2.0]]);
    let _ = y.cumsum(Axis::<2>);
    let _ = y.slice((0, ..)).unwrap().tril(0);
}
