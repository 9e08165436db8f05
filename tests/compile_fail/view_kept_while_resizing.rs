// Resizing may move the elements: no view is left then.
use rankform::prelude::*;

fn main() {
    let mut x = Tensor::from([[1.0_f32, 2.0]]);
    let row = x.slice((0, ..)).unwrap();
    x.resize([3, 2]).unwrap();
    println!("{row}");
}
