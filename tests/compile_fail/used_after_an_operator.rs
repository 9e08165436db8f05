// A tensor by value on the left of an operator gives its memory to the result.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let y = x + 1.0;
    let _ = &y - &x;
}
