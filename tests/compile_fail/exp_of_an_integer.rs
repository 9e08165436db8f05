// An element type without the operation.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1_i32, 2]);
    let _ = x.exp();
}
