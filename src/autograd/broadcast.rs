//! Gradients of operands that are broadcast along the first axis. They are computed in blocks that stay in
//! the second cache, and summed there.
// Imports: `error`, `device`.

use super::axes::Axes;
use super::backward::{Backward, Buffer};
use super::step::Spot;
use crate::device::{Inputs, OperandRef, Reduction};
use crate::error::Result;

/// Bytes of a block.
const BLOCK_BYTES: usize = 1 << 19;

/// A kernel that writes a contribution: its sizes, its output and its operands.
pub(super) type Kernel<'a> = dyn FnMut(&[usize], OperandRef<'_>, Inputs<'_>) -> Result<()> + 'a;

impl Backward {
    /// Adds what a kernel writes to the gradient of an operand, block by block. Returns `false`, and runs
    /// nothing, if the operand is not broadcast along the first axis or the kernel is small.
    pub(super) fn add_by_blocks(
        &mut self,
        spot: &Spot,
        sizes: &[usize],
        inputs: Inputs<'_>,
        kernel: &mut Kernel<'_>,
    ) -> Result<bool> {
        let (Some((&rows, row)), element) = (sizes.split_first(), spot.dtype.size()) else {
            return Ok(false);
        };
        let row_bytes = row.iter().product::<usize>() * element;
        let span = BLOCK_BYTES / row_bytes.max(1);
        if spot.stride[0] != 0 || span < 2 || rows < 2 * span || spot.dtype.is_complex() {
            return Ok(false);
        }
        let block = Buffer::new(&*self.inner, &[&[span], row].concat(), element)?;
        let kept: Vec<usize> = (1..sizes.len()).filter(|&axis| spot.stride[axis] != 0).collect();
        let summed: Vec<usize> = (1..sizes.len()).filter(|&axis| spot.stride[axis] == 0).collect();
        let pick = |axes: &[usize], of: &[isize]| axes.iter().map(|&axis| of[axis]).collect::<Vec<_>>();
        let kept_sizes: Vec<usize> = kept.iter().map(|&axis| sizes[axis]).collect();
        let blocks = rows.div_ceil(span);
        let sums = Buffer::new(&*self.inner, &[&[blocks], &kept_sizes[..]].concat(), element)?;
        for number in 0..blocks {
            let (first, count) = (number * span, span.min(rows - number * span));
            let slots: Vec<_> = inputs.slots.iter().map(|slot| from_row(*slot, first)).collect();
            let inputs = Inputs { slots: &slots, reads: inputs.reads };
            kernel(&[&[count], row].concat(), block.slot(), inputs)?;
            let from = block.slot();
            let stride =
                [pick(&kept, from.stride), vec![from.stride[0]], pick(&summed, from.stride)].concat();
            let mut reduced = vec![count];
            reduced.extend(summed.iter().map(|&axis| sizes[axis]));
            let axes = Reduction { kept: &kept_sizes, reduced: &reduced };
            let to = from_row(sums.slot(), number);
            let to = OperandRef { stride: &to.stride[1..], ..to };
            // SAFETY: (1) values of the element, with strides for both groups of axes; (2) new memory of the
            // sizes that are kept.
            unsafe { self.inner.sum(spot.dtype, axes, to, OperandRef { stride: &stride, ..from })? };
        }
        let stride = [vec![0], pick(&kept, &spot.stride)].concat();
        let spot = Spot { stride: Axes::new(&stride), ..spot.clone() };
        self.add_values(&spot, &[&[blocks], &kept_sizes[..]].concat(), sums.slot())?;
        Ok(true)
    }
}

/// An operand from an index of its first axis on.
fn from_row(slot: OperandRef<'_>, first: usize) -> OperandRef<'_> {
    let step = slot.stride[0].wrapping_mul(first as isize).wrapping_mul(slot.element as isize);
    OperandRef { address: slot.address.wrapping_offset(step), ..slot }
}
