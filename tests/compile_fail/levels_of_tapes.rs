// A variable of the outer level inside the inner one.
use rankform::autograd::grad;
use rankform::prelude::*;

fn main() {
    let x = Tensor::from([1.0, 2.0]);
    let _ = grad(&x, |outer, _| {
        let slope = grad(outer, |inner, _| inner.mul(outer)?.sum(All))?;
        slope.sum(All)
    });
}
