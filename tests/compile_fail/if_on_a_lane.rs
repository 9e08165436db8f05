// `if` on an element: a body is one straight line for all of them.
use rankform::prelude::*;

elementwise! {
    fn relu(x) {
        if x.gt(Lane::zero()) { x } else { Lane::zero() }
    }
}

fn main() {
    let x = Tensor::from([1.0_f32, -2.0]);
    let _ = x.map(relu);
}
