// Parameters that are not references.
use rankform::autograd::grad;
use rankform::prelude::*;

fn main() {
    let (w, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    let _ = grad((w, b), |(w, b), _| w.mul(b)?.sum(All));
}
