// A kernel for a GPU, given a tensor of the host.
use rankform::Cuda;
use rankform::cuda::{Input, KernelSource, LaunchConfig, Output, Scalar};
use rankform::prelude::*;

type Axpy = KernelSource<(Scalar<f32>, Input<f32, 1>, Output<f32, 1>)>;

fn run(axpy: &Axpy, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1, Cuda>) -> Result<()> {
    axpy.launch(LaunchConfig::over(x.numel(), 128), (2.0, x, y))
}

fn main() {}
