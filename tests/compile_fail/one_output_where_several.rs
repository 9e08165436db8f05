// An operator that updates tensors gives a tuple, of one output too.
use rankform::prelude::*;

elementwise! {
    fn halved(x) { x * 0.5 }
}

fn main() {
    let mut x = Tensor::from([1.0, 2.0]);
    apply_in_place(halved, (&mut x,), ()).unwrap();
}
