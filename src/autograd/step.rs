//! A recorded step: its operands, and what the backward pass keeps of them.
// Imports: `error`, `dtype`, `device`, `erased_memory`.

use super::small_vec::{Few, SmallVec};
use crate::device::OperandRef;
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};

/// Whether elements of this type have gradients.
pub(super) const fn has_gradient(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::C32 | DType::C64)
}

/// A strided operand of a recorded step, by the block's id. It keeps no memory.
#[derive(Clone, Debug)]
pub(super) struct BlockView {
    pub(super) id: u64,
    /// Bytes of the block.
    pub(super) nbytes: usize,
    /// Bytes from the start of the block to the element with index `[0, …, 0]`.
    pub(super) offset: usize,
    pub(super) stride: SmallVec<isize>,
    /// The type of the elements that have a gradient; of other elements the bytes are known alone.
    pub(super) dtype: DType,
    /// Bytes of an element.
    pub(super) element: usize,
}

impl BlockView {
    /// The operand in memory of its block's size.
    pub(super) fn slot(&self, memory: &Memory) -> OperandRef<'_> {
        let address = memory.address().wrapping_add(self.offset);
        OperandRef { address, stride: &self.stride, element: self.element }
    }

    /// An operand of these sizes in row-major memory of its own, broadcast along the axes of this one.
    pub(super) fn dense(&self, id: u64, sizes: &[usize]) -> BlockView {
        let (mut stride, mut numel) = (self.stride.clone(), 1);
        for axis in (0..sizes.len()).rev().filter(|&axis| self.stride[axis] != 0) {
            stride[axis] = numel as isize;
            numel *= sizes[axis];
        }
        BlockView { id, nbytes: numel * self.element, offset: 0, stride, ..*self }
    }
}

/// The values of an operand, for the backward pass.
pub(super) struct Saved {
    pub(super) memory: Memory,
    pub(super) version: u64,
    pub(super) offset: usize,
    pub(super) stride: SmallVec<isize>,
    pub(super) element: usize,
}

impl Saved {
    pub(super) fn slot(&self) -> OperandRef<'_> {
        OperandRef {
            address: self.memory.address().wrapping_add(self.offset),
            stride: &self.stride,
            element: self.element,
        }
    }
    /// [`Error::Value`] if the values were written after the step `op` read them.
    fn check(&self, op: &'static str, name: std::fmt::Arguments<'_>) -> Result<()> {
        let version = self.memory.version();
        if version == self.version {
            return Ok(());
        }
        let what = text(format_args!(
            "{name} of `{op}` was saved at version {} of its memory, which is now at version {version}: it \
             was written outside of the tape after `{op}` had used it; copy it before: `x.copy()?`",
            self.version
        ));
        Err(Error::Value { op: "backward", what })
    }
}

/// An operand that a recorded step read.
pub(super) struct StepInput {
    /// The place of its gradient, if it depends on a variable.
    pub(super) view: Option<BlockView>,
    /// Its values, if the backward pass reads them.
    pub(super) saved: Option<Saved>,
    /// Bytes of an element.
    pub(super) element: usize,
}

/// The content of an output before a step wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Before {
    /// New memory: no earlier step writes it.
    Nothing,
    /// Earlier values, which the step replaces.
    Replaced,
    /// Earlier values, which the step reads and updates in place.
    Updated,
}

/// An operand that a recorded step wrote.
#[derive(Clone, Debug)]
pub(super) struct StepOutput {
    pub(super) view: BlockView,
    pub(super) before: Before,
    /// Whether the block depended on a variable before the step.
    pub(super) was_active: bool,
}

impl StepOutput {
    pub(super) fn new(view: BlockView, before: Before) -> Self {
        StepOutput { view, before, was_active: false }
    }
}

/// A recorded kernel.
#[derive(Default)]
pub(super) struct Step {
    pub(super) op: &'static str,
    /// The recording in which it began.
    pub(super) recording: u64,
    pub(super) sizes: SmallVec<usize>,
    pub(super) inputs: Vec<StepInput>,
    pub(super) outputs: Few<StepOutput>,
    /// Whether the backward pass reads the values of the result.
    pub(super) reads_result: bool,
    /// These values, once the step has ended.
    pub(super) result: Option<Saved>,
}

impl Step {
    /// Checks that no saved operand and no saved result was written since.
    pub(super) fn check_versions(&self) -> Result<()> {
        let saved = |(k, input): (usize, &StepInput)| match &input.saved {
            Some(saved) => saved.check(self.op, format_args!("operand {k}")),
            None => Ok(()),
        };
        self.inputs.iter().enumerate().try_for_each(saved)?;
        self.result.as_ref().map_or(Ok(()), |result| result.check(self.op, format_args!("the result")))
    }
}
