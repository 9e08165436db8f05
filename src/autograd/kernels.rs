//! The kernels of the backward pass of a program, with its type erased.
// Imports: `error`, `kernel`, `device`.

use super::vjp::{MASKED, Variable, VjpMap};
use crate::device::{Device, Inputs, OperandRef};
use crate::error::{Error, Result};
use crate::kernel::{Program, Slopes};

/// The number of loads up to which each has a kernel of its own. The loads of longer programs share one
/// kernel, which multiplies by a run-time number for each load. This limits no program.
const MAX_OWN_KERNELS: usize = 4;

/// The kernels of the backward pass of a program, with its type erased.
pub(super) trait Vjp: Send + Sync {
    /// Whether one kernel serves several loads of one operand.
    fn has_mask(&self) -> bool;
    /// Runs the kernel of a variable, whose first load is `k`.
    fn run(
        &self,
        k: usize,
        variable: Variable,
        sizes: &[usize],
        to: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()>;
}

/// A program, its device, and the way in which the device runs it.
pub(super) struct VjpOf<P, D, const BY_NAME: bool>(pub(super) P, pub(super) D);

impl<P: Program, D: Device, const BY_NAME: bool> VjpOf<P, D, BY_NAME> {
    /// No kernel: the gradient of an operand is that of the output.
    const IS_SUM: bool = matches!(P::SLOPES, Slopes::One);
    /// One kernel for all loads: they have the same derivative.
    const IS_ONE_SLOPE: bool = matches!(P::SLOPES, Slopes::Equal);
    /// One kernel for all variables: for complex elements, which need run-time directions, and for many
    /// loads, of which each would need a kernel.
    const HAS_MASK: bool = !Self::IS_SUM && (P::COMPLEX || P::LOADS > MAX_OWN_KERNELS && !Self::IS_ONE_SLOPE);
}

impl<P: Program, D: Device, const BY_NAME: bool> Vjp for VjpOf<P, D, BY_NAME> {
    fn has_mask(&self) -> bool {
        Self::HAS_MASK
    }
    fn run(
        &self,
        k: usize,
        variable: Variable,
        sizes: &[usize],
        to: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        macro_rules! run {
            ($k:expr) => {{
                let program = VjpMap::<P, { $k }> { program: self.0, variable };
                // SAFETY: (1) the operands of the program, at its sizes, and its gradients; (2) and (3) the
                // output is memory of a place for the element of the variable; (4) the pass owns it.
                unsafe {
                    match BY_NAME {
                        true => self.1.map_by_name(&program, sizes, &[to], inputs),
                        false => self.1.map_apart(&program, sizes, 0, &[to], inputs),
                    }
                }
            }};
        }
        if const { Self::IS_SUM } {
            return Err(Error::Value { op: "backward", what: "a sum has no kernel".into() });
        }
        if const { Self::HAS_MASK } {
            return run!(MASKED);
        }
        if const { Self::IS_ONE_SLOPE } {
            return run!(0);
        }
        if const { P::LOADS > 3 } && k == 3 {
            return run!(3);
        }
        if const { P::LOADS > 2 } && k == 2 {
            return run!(2);
        }
        if const { P::LOADS > 1 } && k == 1 {
            return run!(1);
        }
        if const { P::LOADS >= 1 } {
            return run!(0);
        }
        Ok(())
    }
}
