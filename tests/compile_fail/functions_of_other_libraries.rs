// Functions of NumPy and PyTorch that make tensors, and have another name here.
use rankform::prelude::*;

fn main() -> Result<()> {
    let x = Tensor::from([1.0_f32, 2.0]);
    let _ = Tensor::<f32, 2>::randn([2, 3], &Cpu)?;
    let _ = Tensor::<f32, 2>::rand([2, 3], &Cpu)?;
    let _ = Tensor::<i64, 2>::randint(0, 10, [2, 3])?;
    let _ = Tensor::<bool, 1>::bernoulli(0.5, [8])?;
    let _ = Tensor::<i64, 1>::randperm(8)?;
    let _ = Tensor::cat(&[x.view(), x.view()], 0)?;
    let _: Tensor<f32, 1> = Tensor::concatenate(&[x.view(), x.view()], Axis::<0>)?;
    Ok(())
}
