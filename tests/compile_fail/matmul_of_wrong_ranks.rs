// Ranks that have no matrix product.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[[1.0_f32]]]);
    let y = Tensor::from([[1.0_f32]]);
    let _ = x.matmul(&Tensor::from([1.0_f32]));
    let _ = y.matmul(&x);
}
