//! The parameters of a function: a tensor, or a tuple, array or vector of parameters.
// Imports: `error`, `device`, `tensor`, `autograd`.

use super::{Differentiable, Gradients, Tape, Var};
use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

/// Parameters with respect to which gradients are computed: `&Tensor`, or a tuple, array or vector of
/// parameters, on one device.
///
/// # Examples
/// ```
/// use rankform::autograd::grad;
/// use rankform::prelude::*;
/// let layers = [Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0])];
/// let gradients = grad(layers.each_ref(), |[a, b], _| (a.lazy() * b).sum(All))?;
/// assert_eq!(gradients[0].to_vec()?, [3.0, 4.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not parameters on `{D}`",
    label = "expected `&Tensor`, or a tuple, array or `Vec` of parameters",
    note = "parameters are passed by reference: `grad((&w, &b), |(w, b), tape| …)`"
)]
pub trait Parameters<D: Device> {
    /// The parameters as variables of a tape.
    type OnTape;
    /// The gradients, in the same form.
    type Gradients;
    /// The device that holds the parameters.
    fn device(&self) -> &D;
    /// Makes them variables of a tape.
    ///
    /// # Errors
    /// Those of [`Tape::watch`].
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape>;
    /// Their gradients.
    ///
    /// # Errors
    /// Those of [`Gradients::of`].
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients>;
}

impl<T: Differentiable, const RANK: usize, D: Device> Parameters<D> for &Tensor<T, RANK, D> {
    type OnTape = Var<T, RANK, D>;
    type Gradients = Tensor<T, RANK, D>;
    fn device(&self) -> &D {
        Tensor::device(self)
    }
    fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
        tape.watch(self)
    }
    fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
        gradients.of(on_tape)
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)+;)*) => { $(
        impl<$($name: Parameters<D>,)+ D: Device> Parameters<D> for ($($name,)+) {
            type OnTape = ($($name::OnTape,)+);
            type Gradients = ($($name::Gradients,)+);
            fn device(&self) -> &D {
                self.0.device()
            }
            fn watch(&self, tape: &Tape<D>) -> Result<Self::OnTape> {
                Ok(($(self.$index.watch(tape)?,)+))
            }
            fn gradients(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Gradients> {
                Ok(($($name::gradients(&on_tape.$index, gradients)?,)+))
            }
        }
    )* };
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 E 3;
    A 0 B 1 C 2 E 3 F 4;
    A 0 B 1 C 2 E 3 F 4 G 5;
    A 0 B 1 C 2 E 3 F 4 G 5 H 6;
    A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7;
}
