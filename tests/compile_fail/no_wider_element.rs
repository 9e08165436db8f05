// A product of elements that have no wider one.
use rankform::prelude::*;

fn main() {
    let (x, y) = (Tensor::from([1_i16, 2]), Tensor::from([1_i8, 2]));
    let _ = x.matmul_wide(&y);
}
