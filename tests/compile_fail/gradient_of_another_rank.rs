// A gradient has the rank of its variable.
use rankform::autograd::Tape;
use rankform::prelude::*;

fn main() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([[1.0, 2.0]]))?;
    let gradients = tape.backward(&x.sum(All)?)?;
    let _: Tensor<f64, 1> = gradients.of(&x)?;
    Ok(())
}
