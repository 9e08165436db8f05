//! Short rows of which an operand is the same in each: that is written out several times, so that as many rows are one.
//!
//! A row costs some 3 ns, whether it has a loop of its own or is packed: three colors of a million pixels times three factors
//! took twenty times as long as times one.
// Imports: `device`.

use super::job::Job;
use crate::device::cpu::memory::scratch::{LINE, ROUNDING, Scratch, Words};
use crate::device::cpu::strided::{Walk, pack};
use crate::device::cpu::tuning::{REPEATED_BYTES, REPEATED_ROW_ELEMENTS, SAVED_ROWS};
use crate::device::{MAX_OPERANDS, OperandRef};

impl Job<'_> {
    /// How many rows become one, if it is worth it: some operands are the same in each, and all others are runs over them.
    pub(crate) fn joins(&self, walk: &Walk, slots: &[OperandRef<'_>]) -> Option<usize> {
        let axis = walk.second()?;
        let (rows, n) = (walk.size(axis), walk.inner());
        let is_run = |k: usize| {
            walk.inner_step(k) == slots[k].element as isize
                && walk.step(axis, k) == (n * slots[k].element) as isize
        };
        if n > REPEATED_ROW_ELEMENTS || !(0..slots.len()).all(|k| self.stays(walk, k) || is_run(k)) {
            return None;
        }
        let widths: usize = (0..slots.len()).filter(|&k| self.stays(walk, k)).map(|k| slots[k].element).sum();
        let times = (REPEATED_BYTES / (n * widths.max(1))).min(rows);
        // So many make whole cache lines of the narrowest elements.
        let whole = LINE >> n.trailing_zeros().min(LINE.trailing_zeros());
        let times = if times > whole { times / whole * whole } else { times };
        (times > 1 && rows - rows.div_ceil(times) >= SAVED_ROWS).then_some(times)
    }

    /// Whether an operand is the same in each row. What is written is not: places that overlap are refused earlier.
    fn stays(&self, walk: &Walk, k: usize) -> bool {
        k >= self.outputs && walk.second().is_some_and(|axis| walk.step(axis, k) == 0)
    }

    /// Takes so many rows for one.
    ///
    /// # Safety
    /// `times` is what [`Job::joins`] found; the walk reaches only what the caller of the device promised.
    pub(crate) unsafe fn joined(&self, walk: &Walk, slots: &[OperandRef<'_>], times: usize) {
        let mut words = Words::<{ (REPEATED_BYTES + ROUNDING) / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let n = walk.inner();
        let tile = |k: usize| {
            (k < slots.len() && self.stays(walk, k)).then(|| room.take(times * n * slots[k].element))
        };
        let tiles: [_; MAX_OPERANDS] = std::array::from_fn(tile);
        let (parts, around) = (walk.joined(times, slots), walk.around(walk.second()));
        let mut index = around.index_of(0);
        for _ in 0..around.numel() {
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = around.address_at(k, &index);
                if let Some(tile) = tiles[k] {
                    // SAFETY: a row of an input, into room for as many as there are.
                    unsafe { repeated(tile, base[k], walk.inner_step(k), n, times, slot.element) };
                    base[k] = tile;
                }
            }
            for part in parts.iter().flatten() {
                let address = std::array::from_fn(|k| {
                    base[k].wrapping_add(part.address[k].addr().wrapping_sub(walk.address[k].addr()))
                });
                // SAFETY: the same elements, and those written out in place of what stays.
                unsafe { self.part(&part.from(address), slots) };
            }
            around.advance(&mut index, 1);
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
