// An output of a kernel, passed as read-only.
use rankform::Cuda;
use rankform::cuda::{Grid, In, Out, Source, Value};
use rankform::prelude::*;

type Axpy = Source<(Value<f32>, In<f32, 1>, Out<f32, 1>)>;

fn run(axpy: &Axpy, x: &Tensor<f32, 1, Cuda>, y: &Tensor<f32, 1, Cuda>) -> Result<()> {
    axpy.launch(Grid::over(x.numel(), 128), (2.0, x, y))
}

fn main() {}
