// A product of elements that have no wider one.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1_i64, 2]);
    let _ = x.matmul_wide(&x);
}
