// Three sizes for two axes.
use rankform::prelude::*;

fn main() {
    let _ = Tensor::<f32, 2>::zeros([1, 2, 3], &Cpu);
}
