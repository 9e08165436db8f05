// An element that kernels do not compute with.
use rankform::prelude::*;

fn main() {
    let names = Tensor::from_vec(vec!["ada".to_string()], [1]).unwrap();
    let _ = names.exp();
}
