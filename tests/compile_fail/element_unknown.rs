// The type of the elements cannot be inferred.
use rankform::prelude::*;

fn main() {
    let _ = Tensor::zeros([2, 3], &Cpu);
}
