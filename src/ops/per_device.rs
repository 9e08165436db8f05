//! Operators that need code of their own on each device, checked by type.
//!
//! Most operators are bodies (`elementwise!`) or reducers and do not need this trait. A sort, a filter with a
//! window, or a call of another library does.
// Imports: `error`, `device`.

use crate::device::Device;
use crate::error::Result;

/// An operator with its own code for device `D`: implement it once for each device that it supports.
///
/// The operands are views *on `D`*. A call with operands on two kinds of device, or on an unsupported kind,
/// does not compile. `run_on` itself has to check that operands on two devices of one kind are on the same
/// one.
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
    note = "implement `Operator<{D}>` for it, or move the operands to a device that it supports: \
            `.to(&device)`"
)]
pub trait Operator<D: Device> {
    /// The operands: a view on `D`, or a tuple of views and numbers.
    type Inputs<'a>;
    /// The result.
    type Output;
    /// Runs the operator on this device.
    ///
    /// # Errors
    /// The operator's own errors.
    fn run_on(&self, device: &D, inputs: Self::Inputs<'_>) -> Result<Self::Output>;
}

/// Runs an operator on a device; see [`Operator`].
///
/// # Errors
/// The operator's errors.
pub fn run<D: Device, O: Operator<D>>(device: &D, operator: &O, inputs: O::Inputs<'_>) -> Result<O::Output> {
    operator.run_on(device, inputs)
}
