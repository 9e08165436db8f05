// Mistakes that only the compiler can report, in its words; the page has a table of them.
use rankform::prelude::*;

elementwise! {
    fn above(x) {
        if x > 6.0 { x } else { -x }
    }
    fn soft(x) { x.softsign() }
}

#[derive(Clone)]
struct Layer {
    weight: Tensor<f32, 2>,
}

fn main() {
    let mut x = Tensor::from([1.0_f32, 2.0, 3.0]);
    let _ = &x > 1.5;
    let _ = x.sum(Axis(0));
    let _ = x[0];
    let _ = x.reshape([-1]);
    x[1..] = x[..2];
    let _ = (x.view([3, 1]), x.size(0), x.sum());
    let _ = Tensor::<f32, 1>::zeros([3], &Meta::new());
}
