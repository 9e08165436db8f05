//! Short rows with a broadcast operand: several copies of its row are written out, and as many rows become
//! one.
//!
//! The cost of a row hardly depends on its length, whether it gets a call of its own or is packed, so a long
//! row replaces many short ones.
// Imports: `device`.

use super::call::{KernelCall, NOT_PACKED};
use crate::device::OperandRef;
use crate::device::cpu::memory::scratch::{CACHE_LINE_BYTES, ROUNDING_BYTES, Scratch, StackScratch};
use crate::device::cpu::strided::{IterSpace, pack};
use crate::device::cpu::tuning::{REPEATED_BYTES, REPEATED_ROW_ELEMENTS, SAVED_ROWS};

impl KernelCall<'_> {
    /// The number of rows that become one, if it pays off: some operands are the same in each row, and all
    /// others are contiguous over the rows.
    pub(crate) fn rows_per_repeat(&self, space: &IterSpace, slots: &[OperandRef<'_>]) -> Option<usize> {
        let axis = space.outer_axis()?;
        let (rows, n) = (space.size(axis), space.inner());
        let is_run = |k: usize| {
            space.inner_step(k) == slots[k].element as isize
                && space.step(axis, k) == (n * slots[k].element) as isize
        };
        if n > REPEATED_ROW_ELEMENTS || !(0..slots.len()).all(|k| self.stays(space, k) || is_run(k)) {
            return None;
        }
        let widths: usize =
            (0..slots.len()).filter(|&k| self.stays(space, k)).map(|k| slots[k].element).sum();
        let times = (REPEATED_BYTES / (n * widths.max(1))).min(rows);
        // This many rows fill whole cache lines of the narrowest elements.
        let whole = CACHE_LINE_BYTES >> n.trailing_zeros().min(CACHE_LINE_BYTES.trailing_zeros());
        let times = if times > whole { times / whole * whole } else { times };
        (times > 1 && rows - rows.div_ceil(times) >= SAVED_ROWS).then_some(times)
    }

    /// Whether an operand is the same in each row. Outputs never are: overlapping outputs were refused
    /// before.
    fn stays(&self, space: &IterSpace, k: usize) -> bool {
        k >= self.outputs && space.outer_axis().is_some_and(|axis| space.step(axis, k) == 0)
    }

    /// Runs on rows that are `times` rows long.
    ///
    /// # Safety
    /// 1. `times` is the result of [`rows_per_repeat`](KernelCall::rows_per_repeat).
    /// 2. The obligations of the kernel, for every index of the space.
    pub(crate) unsafe fn repeated_rows(&self, space: &IterSpace, slots: &[OperandRef<'_>], times: usize) {
        let mut words = StackScratch::<{ (REPEATED_BYTES + ROUNDING_BYTES) / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let n = space.inner();
        let mut tiles = NOT_PACKED;
        for k in (0..slots.len()).filter(|&k| self.stays(space, k)) {
            tiles[k] = Some(room.take(times * n * slots[k].element));
        }
        let (parts, outer) = (space.repeated(times, slots), space.outer_space(space.outer_axis()));
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let mut base = outer.addresses_at(&index);
            for (k, slot) in slots.iter().enumerate() {
                if let Some(tile) = tiles[k] {
                    // SAFETY: (1) `base[k]` has a row of an input; (2) the tile has room for `times` rows.
                    unsafe { repeated(tile, base[k], space.inner_step(k), n, times, slot.element) };
                    base[k] = tile;
                }
            }
            for part in parts.iter().flatten() {
                let mut address = base;
                for k in 0..slots.len() {
                    let offset = part.address[k].addr().wrapping_sub(space.address[k].addr());
                    address[k] = base[k].wrapping_add(offset);
                }
                // SAFETY: (2) by the caller's promise: the elements are the same, with copies in place of the
                // broadcast operands.
                unsafe { self.run_part(&part.from(address), slots) };
            }
            outer.advance(&mut index, 1);
        }
    }
}

/// Writes a row of `n` elements `times` times, one copy after another. `step` is the row's stride in bytes.
///
/// # Safety
/// 1. `row` has `n` readable elements.
/// 2. `to` has room for `times` rows and does not overlap `row`.
unsafe fn repeated(to: *mut u8, row: *const u8, step: isize, n: usize, times: usize, element: usize) {
    let nbytes = times * n * element;
    // SAFETY: (1), (2) by the caller's promise; each copy reads only elements before its destination.
    unsafe {
        pack::strided(to, element as isize, row, step, n, element);
        let mut done = n * element;
        while done < nbytes {
            let more = done.min(nbytes - done);
            std::ptr::copy_nonoverlapping(to, to.add(done), more);
            done += more;
        }
    }
}
