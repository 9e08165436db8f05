//! Constants of a tape: tensors in their own memory, and copies of views.
// Imports: `error`, `element`, `device`, `tensor`.

use super::{Tape, Var};
use crate::device::{Device, same_device};
use crate::element::Element;
use crate::error::Result;
use crate::tensor::{Tensor, TensorView};

/// A tensor or a view on `D`, for [`Tape::constant`].
#[diagnostic::on_unimplemented(
    message = "expected a tensor or view on `{D}`, the device inside the tape, found `{Self}`",
    label = "expected `&Tensor` or a view on `{D}`",
    note = "pass a tensor by reference, `&x`, and a view by value; evaluate a lazy expression first, with \
        `.eval()?`",
    note = "another device: `.to(&device)?`; a tensor that is on the tape needs no `constant`"
)]
pub trait IntoConstant<T: Element, const RANK: usize, D: Device> {
    #[doc(hidden)]
    fn into_constant(self, tape: &Tape<D>) -> Result<Var<T, RANK, D>>;
}

/// References to tensors, which share their memory with the tape.
macro_rules! tensors {
    ($($x:ty)*) => { $(
        impl<T: Element, const RANK: usize, D: Device> IntoConstant<T, RANK, D> for $x {
            fn into_constant(self, tape: &Tape<D>) -> Result<Var<T, RANK, D>> {
                tape.constant_of(self)
            }
        }
    )* };
}
tensors! { &Tensor<T, RANK, D> &mut Tensor<T, RANK, D> &&Tensor<T, RANK, D> }

/// Views, which are copied: they have no handle on the memory.
macro_rules! views {
    ($($x:ty)*) => { $(
        impl<T: Element, const RANK: usize, D: Device> IntoConstant<T, RANK, D> for $x {
            fn into_constant(self, tape: &Tape<D>) -> Result<Var<T, RANK, D>> {
                same_device("constant", tape.inner(), self.device())?;
                tape.constant_of(&self.copy().map_err(|error| error.with_op("constant"))?)
            }
        }
    )* };
}
views! { TensorView<'_, T, RANK, D> &TensorView<'_, T, RANK, D> }

impl<D: Device> Tape<D> {
    /// A tensor of this tape with the elements of `x`, a tensor or a view, which does not depend on a
    /// variable. A tensor is not copied, a view is.
    ///
    /// While the result exists, a tensor `x` cannot be written. A write to the result moves it to memory of
    /// its own.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if `x` is not on the inner device;
    /// [`Error::Unallocated`](crate::Error::Unallocated) if it has no memory yet;
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the handle, or the copy of a view.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::Tape;
    /// use rankform::prelude::*;
    /// let tape = Tape::new(&Cpu);
    /// let x = tape.watch(&Tensor::from([1.0, 2.0]))?;
    /// let weights = Tensor::from([[3.0, 4.0], [5.0, 6.0]]);
    /// let weights = tape.constant(weights.slice((0, ..))?)?;
    /// let gradients = tape.backward(&(x.lazy() * &weights).sum(All)?)?;
    /// assert_eq!(gradients.of(&x)?, Tensor::from([3.0, 4.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn constant<T: Element, const RANK: usize>(
        &self,
        x: impl IntoConstant<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        x.into_constant(self)
    }
}
