// Two views for writing at once: `split_at_mut` gives disjoint ones.
use rankform::prelude::*;

fn main() {
    let mut x = Tensor::from([[1.0_f32, 2.0]]);
    let mut a = x.view_mut().unwrap();
    let mut b = x.view_mut().unwrap();
    let _ = (a.fill(0.0), b.fill(1.0));
}
