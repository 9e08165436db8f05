//! Short rows of which an operand is the same in each: that is written out several times, so that as many rows are one.
//!
//! A row costs some 3 ns, whether it has a loop of its own or is packed: three colors of a million pixels times three factors
//! took twenty times as long as times one.
// Imports: `device`.

use super::call::KernelCall;
use crate::device::cpu::memory::scratch::{CACHE_LINE_BYTES, ROUNDING_BYTES, Scratch, StackScratch};
use crate::device::cpu::strided::{IterSpace, pack};
use crate::device::cpu::tuning::{REPEATED_BYTES, REPEATED_ROW_ELEMENTS, SAVED_ROWS};
use crate::device::{MAX_OPERANDS, OperandRef};

impl KernelCall<'_> {
    /// How many rows become one, if it is worth it: some operands are the same in each, and all others are runs over them.
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
        // So many make whole cache lines of the narrowest elements.
        let whole = CACHE_LINE_BYTES >> n.trailing_zeros().min(CACHE_LINE_BYTES.trailing_zeros());
        let times = if times > whole { times / whole * whole } else { times };
        (times > 1 && rows - rows.div_ceil(times) >= SAVED_ROWS).then_some(times)
    }

    /// Whether an operand is the same in each row. What is written is not: places that overlap are refused earlier.
    fn stays(&self, space: &IterSpace, k: usize) -> bool {
        k >= self.outputs && space.outer_axis().is_some_and(|axis| space.step(axis, k) == 0)
    }

    /// Takes so many rows for one.
    ///
    /// # Safety
    /// `times` is what [`Job::joins`] found; the walk reaches only what the caller of the device promised.
    pub(crate) unsafe fn repeated_rows(&self, space: &IterSpace, slots: &[OperandRef<'_>], times: usize) {
        let mut words = StackScratch::<{ (REPEATED_BYTES + ROUNDING_BYTES) / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let n = space.inner();
        let tile = |k: usize| {
            (k < slots.len() && self.stays(space, k)).then(|| room.take(times * n * slots[k].element))
        };
        let tiles: [_; MAX_OPERANDS] = std::array::from_fn(tile);
        let (parts, outer) = (space.repeated(times, slots), space.outer_space(space.outer_axis()));
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = outer.address_at(k, &index);
                if let Some(tile) = tiles[k] {
                    // SAFETY: a row of an input, into room for as many as there are.
                    unsafe { repeated(tile, base[k], space.inner_step(k), n, times, slot.element) };
                    base[k] = tile;
                }
            }
            for part in parts.iter().flatten() {
                let address = std::array::from_fn(|k| {
                    base[k].wrapping_add(part.address[k].addr().wrapping_sub(space.address[k].addr()))
                });
                // SAFETY: the same elements, and those written out in place of what stays.
                unsafe { self.run_part(&part.from(address), slots) };
            }
            outer.advance(&mut index, 1);
        }
    }
}

/// Writes a row of `n` elements `times` times, one after the other; its step in bytes.
///
/// # Safety
/// The row is there, and there is room for all of them.
unsafe fn repeated(to: *mut u8, row: *const u8, step: isize, n: usize, times: usize, element: usize) {
    let nbytes = times * n * element;
    // SAFETY: the caller's promise; what is copied stands before where it goes.
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
