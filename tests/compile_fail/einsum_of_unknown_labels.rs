// Letters of einsum! that say nothing.
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([[1.0_f32, 2.0]]);
    let _ = einsum!("ij,jk->il", &x, &x);
    let _ = einsum!("ij,jk", &x, &x);
}
