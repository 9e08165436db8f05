//! Operators by name: every built-in one, on the elements that most programs use.
use rankform::DynTensor;
use rankform::dispatch::Dispatcher;
use rankform::prelude::*;

fn main() -> Result<()> {
    let dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    let x = DynTensor::from(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    println!("{}", dispatcher.call("mul", &[(&x).into(), (&x).into()])?);
    Ok(())
}
