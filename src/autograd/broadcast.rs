//! Gradients of operands that are broadcast along the first axis. They are computed in blocks that stay in
//! the cache of a core, and summed there.
// Imports: `error`, `device`.

use super::backward::{Backward, Temporary};
use super::row_blocks::{BlockSums, Division};
use super::small_vec::SmallVec;
use super::step::BlockView;
use crate::device::{Inputs, OperandRef, Reduction};
use crate::error::Result;

/// A kernel that writes a contribution: its sizes, its output and its operands.
pub(super) type ContributionKernel<'a> =
    dyn Fn(&[usize], OperandRef<'_>, Inputs<'_>) -> Result<()> + Sync + 'a;

impl Backward {
    /// Adds what a kernel writes to the gradient of an operand, block by block. Returns `false`, and runs
    /// nothing, if the operand is not broadcast along the first axis, the kernel is small, or the device
    /// prefers large ones.
    pub(super) fn add_by_blocks(
        &mut self,
        view: &BlockView,
        sizes: &[usize],
        inputs: Inputs<'_>,
        kernel: &ContributionKernel<'_>,
    ) -> Result<bool> {
        if view.stride.first() != Some(&0) || view.dtype.is_complex() {
            return Ok(false);
        }
        let Some(nbytes) = self.inner.task_nbytes() else { return Ok(false) };
        let Some(division) = Division::new(sizes, 1, nbytes / view.element) else { return Ok(false) };
        let sums = BlockSums::new(&*self.inner, division.blocks, view, sizes)?;
        let inner = &*self.inner;
        let (kept, summed): (Vec<usize>, Vec<usize>) = (0..sizes.len()).partition(|&k| view.stride[k] != 0);
        inner.for_each_task(division.blocks, &|number| {
            let block = division.block(number);
            let slots = block.of_all(inputs.slots);
            let values = Temporary::new(inner, &block.sizes, view.element)?;
            kernel(&block.sizes, values.slot(), Inputs { slots: &slots, reads: inputs.reads })?;
            let from = values.slot();
            let stride: SmallVec<isize> = kept.iter().chain(&summed).map(|&axis| from.stride[axis]).collect();
            let reduced: SmallVec<usize> = summed.iter().map(|&axis| block.sizes[axis]).collect();
            let axes = Reduction { kept: sums.sizes(), reduced: &reduced };
            // SAFETY: (1) values of the element, with strides for both groups of axes; (2) the sums of this
            // block, in new memory.
            unsafe {
                inner.sum(view.dtype, axes, sums.of_block(number), OperandRef { stride: &stride, ..from })
            }
        })?;
        sums.add_to(self, view)?;
        Ok(true)
    }
}
