// An operand of einsum! with a rank other than the number of its letters.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let _ = einsum!("bij,jk->bik", &x, &x);
}
