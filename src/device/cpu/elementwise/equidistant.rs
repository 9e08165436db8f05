//! Rows at equal distances: the kernel visits them without an iteration space.
// Imports: `device`.

use super::call::{KernelCall, Loops, concat_operands};
use crate::device::cpu::memory::non_temporal;
use crate::device::cpu::parallel::partition;
use crate::device::cpu::strided::{self, ZERO_STRIDES};
use crate::device::cpu::tuning::{
    FEW_PLANES, FEW_ROWS, LONG_ROW_ELEMENTS, SHARED_ELEMENTS, WHOLE_ROW_ELEMENTS,
};
use crate::device::{MAX_OPERANDS, OperandRef};

impl KernelCall<'_> {
    /// Runs a program over rows at equal distances, if the caches hold them; each operand is contiguous along
    /// rows, or one is broadcast. Returns whether it ran. It needs no iteration space, which would dominate
    /// the cost of a few elements.
    ///
    /// # Safety
    /// The obligations of the kernel, for every index of `sizes`.
    pub(crate) unsafe fn run_equidistant(
        &self,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) -> bool {
        let slots = concat_operands(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        let numel = strided::numel(sizes);
        let small = numel < SHARED_ELEMENTS;
        if numel == 0
            || (!small && slots[..self.outputs].iter().any(|slot| non_temporal::exceeds_caches(sizes, slot)))
        {
            return false;
        }
        // Looks for the longest rows of this form.
        for axis in 0..sizes.len() {
            let (outer, row) = sizes.split_at(axis);
            let [mut down, mut along] = [[0; MAX_OPERANDS]; 2];
            let Some(n) = strided::as_single_axis(row, axis, slots, &mut along) else { continue };
            let broadcast = self.broadcast_load(|k| along[k] == 0);
            let fits = |k: usize| {
                along[k] == slots[k].element as isize || broadcast.is_some_and(|(operand, _)| operand == k)
            };
            if n == 1 || !(0..slots.len()).all(fits) {
                continue;
            }
            // The longest outer axes that form one axis. The loop below visits the axes before them one by
            // one.
            let first = (0..axis)
                .find(|&first| strided::as_single_axis(&outer[first..], first, slots, &mut down).is_some())
                .unwrap_or(axis);
            let [planes, rows] = [&outer[..first], &outer[first..]].map(strided::numel);
            let few = if small { planes <= FEW_PLANES } else { planes == 1 && partition::shares_rows(rows) };
            // In short rows the tail loop dominates, so an expensive program packs them instead.
            let vectors = self.cheap || n >= WHOLE_ROW_ELEMENTS || numel <= WHOLE_ROW_ELEMENTS;
            if !few || !vectors {
                return false;
            }
            // It is better to replicate the broadcast operand of many short rows (`repeat.rs`).
            let repeats = (self.outputs..slots.len()).any(|k| down[k] == 0 && along[k] != 0);
            let long = if small { FEW_ROWS } else { LONG_ROW_ELEMENTS };
            if repeats && rows > FEW_ROWS && n < long {
                return false;
            }
            let loops = broadcast.map_or(self.loops, |(_, rows)| Loops { rows, ..self.loops });
            for plane in 0..planes {
                let mut from = [0isize; MAX_OPERANDS];
                for (from, slot) in from.iter_mut().zip(slots) {
                    let mut left = plane;
                    for axis in (0..first).rev() {
                        *from = from.wrapping_add(
                            ((left % outer[axis]) as isize).wrapping_mul(strided::byte_stride(slot, axis)),
                        );
                        left /= outer[axis];
                    }
                }
                partition::parallel_rows(rows, n, &|part| {
                    let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], ZERO_STRIDES);
                    for (k, slot) in slots.iter().enumerate() {
                        let to = from[k].wrapping_add((part.start as isize).wrapping_mul(down[k]));
                        (base[k], step[k]) = (slot.address.wrapping_offset(to), down[k]);
                    }
                    // SAFETY: by the caller's promise: rows of `n` elements of every operand, or one element
                    // of the broadcast operand.
                    unsafe { KernelCall { loops, ..*self }.run_rows(&base, &step, part.len(), n) };
                });
            }
            return true;
        }
        false
    }
}
