//! Tensors on a tape whose types are known at run time: questions to a block, and the backward pass from an
//! operand without its types.
// Imports: `error`, `dtype`, `device`, `erased_memory`, `autograd`.

use super::state::{BlockView, TapeBlock, has_gradient};
use super::tape::{Gradients, Tape};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use std::sync::Arc;

impl TapeBlock {
    /// Whether the values depend on a variable.
    pub(crate) fn is_active(&self) -> bool {
        self.shared.lock().dependence(self.number()).0
    }

    /// Whether the tape is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.shared.lock().paused > 0
    }

    pub(crate) fn is_on_tape_of(&self, other: &TapeBlock) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Makes the block a variable, or a constant.
    ///
    /// # Errors
    /// [`Error::Value`] for elements without gradients, and for the result of a recorded step, which cannot
    /// become a constant.
    pub(crate) fn set_variable(&self, op: &'static str, dtype: DType, is_variable: bool) -> Result<()> {
        let mut state = self.shared.lock();
        let (is_active, was_variable) = state.dependence(self.number());
        let refuse = |what: String| Err(Error::Value { op, what });
        match is_variable {
            true if !has_gradient(dtype) => refuse(text(format_args!(
                "tensors of {dtype} have no gradient: a variable has elements f16, bf16, f32, f64, c32 or c64"
            ))),
            false if is_active && !was_variable => refuse(
                "the tensor is a result that depends on a variable; `x.value()?` has no history".into(),
            ),
            true => {
                // A result of recorded steps keeps its history.
                if !is_active {
                    state.watch(self.number(), dtype);
                }
                Ok(())
            }
            false => {
                state.unwatch(self.number());
                Ok(())
            }
        }
    }

    /// The memory of the inner device.
    pub(crate) fn values(&self) -> Option<Memory> {
        self.shared.lock().entry(self.number()).map(|entry| entry.memory().share())
    }

    /// Memory of the inner device as a constant of this tape.
    ///
    /// # Errors
    /// [`Error::Device`] for memory of another device, [`Error::OutOfMemory`].
    pub(crate) fn constant(&self, memory: Memory) -> Result<Memory> {
        (self.shared.on_tape)(&self.shared, memory)
    }
}

impl<D: Device> Tape<D> {
    /// Memory of the inner device as a constant of this tape; see [`TapeBlock::constant`].
    pub(crate) fn constant_memory(&self, memory: Memory) -> Result<Memory> {
        (self.shared.on_tape)(&self.shared, memory)
    }

    /// As [`vjp`](Tape::vjp), for an operand on this tape and its gradient on the inner device, of these
    /// sizes.
    pub(crate) fn vjp_of_operand(
        &self,
        y: &OperandRef<'_>,
        dtype: DType,
        sizes: &[usize],
        gradient: OperandRef<'_>,
    ) -> Result<Gradients<D>> {
        self.run_back(y, dtype, &mut |b, view: &BlockView| match sizes.contains(&0) {
            true => b.ensure_gradient(view),
            false => b.add_values(view, sizes, gradient),
        })
    }
}

impl<D: Device> Gradients<D> {
    /// The device of the gradients, and the gradient of a block of a tape.
    pub(crate) fn of_block(&self, tape: &Tape<D>, block: &TapeBlock) -> Result<(&D, Option<Memory>)> {
        Ok((&self.device, self.memory_of(tape, block)?))
    }
}
