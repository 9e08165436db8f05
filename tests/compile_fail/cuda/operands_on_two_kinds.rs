// An operand on the host and one on a GPU.
use rankform::Cuda;
use rankform::prelude::*;

fn sum(x: &Tensor<f32, 2>, there: &Tensor<f32, 2, Cuda>) -> Result<Tensor<f32, 2>> {
    x.add(there)
}

fn main() {}
