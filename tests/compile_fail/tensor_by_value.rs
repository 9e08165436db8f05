// Lazy expressions and named methods borrow tensors.
use rankform::prelude::*;

fn main() {
    let (x, y) = (Tensor::from([1.0_f32]), Tensor::from([2.0_f32]));
    let table = Tensor::from([[1.0_f32, 2.0]]);
    let _ = x.lazy() + y;
    let _ = table.transposed().matmul(table);
}
