// A tensor is not `Clone`: `copy` makes new memory, `share_data` another handle.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _: Tensor<f32, 1> = x.clone();
}
