// Indices of another rank or element, a mask of another rank.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let _ = x.gather(Axis::<1>, &Tensor::from([0, 1]));
    let _ = x.index_select(Axis::<0>, &Tensor::from([0.0]));
    let _ = x.masked_select(&Tensor::from([true, false]));
}
