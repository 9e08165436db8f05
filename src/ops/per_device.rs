//! Operators that need code of their own on each device, checked by type.
//!
//! Most operators are bodies (`elementwise!`) or reducers and need none of this. A sort, a filter with a window, a call
//! of another library does.
// Imports: `error`, `device`.

use crate::device::Device;
use crate::error::Result;

/// An operator with its own code for device `D`: implement it once for each device that it supports.
///
/// The operands are views *on `D`*, so calling it with operands on two kinds of device, or on a kind it does not
/// support, does not compile. Two devices of one kind are for `run_on` to check.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::ops::{Operator, run};
///
/// /// Sorts a vector, on the CPU.
/// struct Sort;
/// impl Operator<Cpu> for Sort {
///     type Inputs<'a> = TensorView<'a, i32, 1>;
///     type Output = Tensor<i32, 1>;
///     fn run_on(&self, _: &Cpu, x: TensorView<'_, i32, 1>) -> Result<Tensor<i32, 1>> {
///         let mut values = x.to_vec()?;
///         values.sort();
///         Tensor::from_vec(values, x.size())
///     }
/// }
/// let x = Tensor::from([3, 1, 2]);
/// assert_eq!(run(x.device(), &Sort, x.view())?.to_vec()?, [1, 2, 3]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` has no code for device `{D}`",
    label = "`{Self}` cannot run on `{D}`",
    note = "implement `Operator<{D}>` for it, or move the operands to a device that it supports: `.to(&device)`"
)]
pub trait Operator<D: Device> {
    /// What it reads: a view on `D`, or a tuple of them and of numbers.
    type Inputs<'a>;
    /// What it makes.
    type Output;
    /// Its code for this device.
    ///
    /// # Errors
    /// Its own.
    fn run_on(&self, device: &D, inputs: Self::Inputs<'_>) -> Result<Self::Output>;
}

/// Runs an operator on a device; see [`Operator`].
///
/// # Errors
/// Those of the operator.
pub fn run<D: Device, O: Operator<D>>(device: &D, operator: &O, inputs: O::Inputs<'_>) -> Result<O::Output> {
    operator.run_on(device, inputs)
}
