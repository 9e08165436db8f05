// A result written into a tensor of another rank, and into one that is only read.
use rankform::prelude::*;

fn main() -> Result<()> {
    let x = Tensor::from([1.0, 2.0]);
    let mut table = Tensor::<f64, 2>::zeros([1, 2], &Cpu)?;
    x.lazy().exp().eval_into(&mut table)?;
    x.matmul_into(&x, &mut table)?;
    let y = x.copy()?;
    x.softmax_into(Axis::<0>, &y)?;
    Ok(())
}
