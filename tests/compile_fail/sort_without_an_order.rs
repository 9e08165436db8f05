// Sorting what has no order, a running sum along an axis that is not there, a triangle of a line.
use rankform::{Complex, prelude::*};

fn main() {
    let x = Tensor::from([[Complex::new(1.0, 2.0)]]);
    let _ = x.sort(Axis::<1>);
    let y = Tensor::from([[1.0_f32, 2.0]]);
    let _ = y.cumsum(Axis::<2>);
    let _ = y.slice((0, ..)).unwrap().tril(0);
}
