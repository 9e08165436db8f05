//! Memory of the backward pass: temporary values, places for contributions, and blocks to use again.
// Imports: `error`, `device`, `erased_memory`.

use super::inner::Inner;
use super::small_vec::SmallVec;
use super::step::{BlockView, Saved};
use crate::device::{Init, OperandRef};
use crate::erased_memory::Memory;
use crate::error::Result;

/// The most bytes of a block that a pass keeps to use again. Larger blocks are kept by devices.
const REUSED_BYTES: usize = 32 << 10;
/// The most blocks that a pass keeps to use again.
const REUSED_BLOCKS: usize = 8;

/// Row-major memory of the backward pass.
pub(super) struct Temporary {
    memory: Memory,
    stride: SmallVec<isize>,
    element: usize,
}

impl Temporary {
    pub(super) fn new(device: &dyn Inner, sizes: &[usize], element: usize) -> Result<Self> {
        Temporary::with_content(device, sizes, element, Init::Unspecified)
    }
    pub(super) fn with_content(
        device: &dyn Inner,
        sizes: &[usize],
        element: usize,
        init: Init,
    ) -> Result<Self> {
        Temporary::on(sizes, element, |nbytes| device.fresh(nbytes, init))
    }
    /// On memory of the given function of the number of bytes.
    pub(super) fn on(
        sizes: &[usize],
        element: usize,
        memory: impl FnOnce(usize) -> Result<Memory>,
    ) -> Result<Self> {
        let mut stride: SmallVec<isize> = sizes.iter().map(|_| 0).collect();
        let mut step = 1usize;
        for axis in (0..sizes.len()).rev() {
            stride[axis] = step as isize;
            step = step.saturating_mul(sizes[axis]);
        }
        let memory = memory(step.saturating_mul(element))?;
        Ok(Temporary { memory, stride, element })
    }
    pub(super) fn slot(&self) -> OperandRef<'_> {
        OperandRef { address: self.memory.address(), stride: &self.stride, element: self.element }
    }
    /// A copy of an operand of these sizes, whose elements the tape owns.
    pub(super) fn copy_of(device: &dyn Inner, sizes: &[usize], from: OperandRef<'_>) -> Result<Self> {
        let copy = Temporary::new(device, sizes, from.element)?;
        // SAFETY: (1) the operand and the copy have these sizes; (2) the copy is new; (3) the tape owns both.
        unsafe { device.copy(sizes, copy.slot(), from)? };
        Ok(copy)
    }
    pub(super) fn into_saved(self) -> Saved {
        let Temporary { memory, stride, element } = self;
        Saved { version: memory.version(), memory, offset: 0, stride, element }
    }
    pub(super) fn into_memory(self) -> Memory {
        self.memory
    }
    /// The buffer with more axes at the end, along which it is broadcast.
    pub(super) fn broadcast(mut self, axes: usize) -> Self {
        (0..axes).for_each(|_| self.stride.push(0));
        self
    }
}

/// Memory for a contribution to the gradient of an operand.
pub(super) enum Place {
    /// The memory of a gradient that does not exist yet.
    Gradient(Memory),
    /// The memory of a gradient in which the elements of the operand are still 0. It may be written as new
    /// memory: the operand addresses each element once, no other place has one of them, and the step reads no
    /// gradient of this block.
    Part(Memory),
    /// Memory of its own.
    Temporary(Temporary),
}

impl Place {
    /// The memory as an operand.
    pub(super) fn slot<'s>(&'s self, view: &'s BlockView) -> OperandRef<'s> {
        match self {
            Place::Gradient(memory) | Place::Part(memory) => view.slot(memory),
            Place::Temporary(buffer) => buffer.slot(),
        }
    }

    pub(super) fn into_memory(self) -> Memory {
        match self {
            Place::Gradient(memory) | Place::Part(memory) => memory,
            Place::Temporary(buffer) => buffer.memory,
        }
    }
}

/// Small blocks that a pass does not need any more, with their numbers of bytes.
#[derive(Default)]
pub(super) struct FreeBlocks {
    blocks: [Option<(usize, Memory)>; REUSED_BLOCKS],
    /// The number of blocks that others have replaced.
    replaced: usize,
}

impl FreeBlocks {
    /// A block of this number of bytes, of unspecified content.
    pub(super) fn take(&mut self, nbytes: usize) -> Option<Memory> {
        let is_fit = |block: &&mut Option<(usize, Memory)>| block.as_ref().is_some_and(|b| b.0 == nbytes);
        self.blocks.iter_mut().find(is_fit).and_then(Option::take).map(|(_, memory)| memory)
    }

    /// Keeps a small block that has no other handle, if there is no room in place of another.
    pub(super) fn keep(&mut self, memory: Memory) {
        let nbytes = memory.nbytes();
        if nbytes > REUSED_BYTES || memory.handles() > 1 {
            return;
        }
        let at = self.blocks.iter().position(Option::is_none).unwrap_or_else(|| {
            self.replaced += 1;
            self.replaced % REUSED_BLOCKS
        });
        self.blocks[at] = Some((nbytes, memory));
    }
}
