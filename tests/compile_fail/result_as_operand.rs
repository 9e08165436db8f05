// A `?` forgotten.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = &x - x.mean(All);
    let _ = x.matmul(x.exp());
}
