// Nothing says what the elements are.
use rankform::prelude::*;

fn main() {
    let _ = Tensor::zeros([2, 3], &Cpu);
}
