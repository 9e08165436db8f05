//! Tapes beside each other, and memory that a tape shares with plain tensors.

use rankform::autograd::Tape;
use rankform::prelude::*;

#[test]
fn gradients_of_one_tape_refuse_tensors_of_another() -> Result<()> {
    let (a, b) = (Tape::new(&Cpu), Tape::new(&Cpu));
    let small = a.watch(&Tensor::from([1.0]))?;
    let large = b.watch(&Tensor::from([[1.0; 100]; 10]))?;
    let gradients = a.backward(&small.sum(All)?)?;
    let error = gradients.of(&large).unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
    Ok(())
}

#[test]
fn a_custom_gradient_of_other_sizes_is_refused() -> Result<()> {
    let tape = Tape::new(&Cpu);
    let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    let y = tape.custom((&x,), |(x,)| Ok(x.share_data()), |_, _, _| Ok((Tensor::from([1.0; 1000]),)))?;
    let error = tape.backward(&y.sum(All)?).unwrap_err();
    assert!(matches!(error, Error::Output { .. } | Error::Sizes { .. }), "{error}");
    Ok(())
}
