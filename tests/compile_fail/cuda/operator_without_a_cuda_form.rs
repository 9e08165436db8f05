// An operator with its own code for the CPU, called on a GPU.
use rankform::Cuda;
use rankform::ops::{Operator, run};
use rankform::prelude::*;

struct Sort;
impl Operator<Cpu> for Sort {
    type Inputs<'a> = TensorView<'a, f32, 1>;
    type Output = Tensor<f32, 1>;
    fn run_on(&self, _: &Cpu, x: TensorView<'_, f32, 1>) -> Result<Tensor<f32, 1>> {
        x.copy()
    }
}

fn sorted(x: &Tensor<f32, 1, Cuda>) {
    let _ = run(x.device(), &Sort, x.view());
}

fn main() {}
