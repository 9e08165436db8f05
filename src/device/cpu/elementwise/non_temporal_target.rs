//! The destination of rows that are stored non-temporally: a kernel computes a chunk into a tile, then stores
//! the tile by non-temporal stores.
// Imports: `kernel`, `device`.

use crate::device::cpu::memory::scratch::CACHE_LINE_BYTES;
use crate::device::cpu::memory::{non_temporal, prefetch};
use crate::device::cpu::tuning::{NON_TEMPORAL_CHUNK_ELEMENTS, PREFETCHED_OPERANDS};
use crate::kernel::Program;

/// Outputs of a program that stores chunks non-temporally, at most.
pub(super) const NON_TEMPORAL_OUTPUTS: usize = 2;
/// Bytes that are moved at a time. A chunk of elements of any width consists of whole pairs of cache lines.
const LINE_PAIR_BYTES: usize = 2 * CACHE_LINE_BYTES;
const _: () = assert!(NON_TEMPORAL_CHUNK_ELEMENTS.is_multiple_of(LINE_PAIR_BYTES));

/// The destination of rows that are stored non-temporally. The kernel computes each row in the same tiles,
/// and the rows go from there to memory.
pub(crate) struct NonTemporalTarget {
    /// The address of the first row of each output, and the bytes of a row. A row consists of whole pairs of
    /// cache lines and begins at a cache line.
    pub(super) to: [*mut u8; NON_TEMPORAL_OUTPUTS],
    pub(super) nbytes: [usize; NON_TEMPORAL_OUTPUTS],
    /// The addresses of the loads that are prefetched with the first row, and the bytes of each with every
    /// row: 0 for none.
    pub(super) ahead: [*mut u8; PREFETCHED_OPERANDS],
    pub(super) prefetch_nbytes: usize,
}

/// Whether the loop of a program can store its outputs non-temporally.
pub(crate) const fn program_can_store_non_temporal<P: Program>() -> bool {
    let here = cfg!(all(target_arch = "x86_64", not(miri)));
    here && !P::IN_PLACE && !P::BY_ROWS && !P::COPY && P::OUTPUTS <= NON_TEMPORAL_OUTPUTS
}

impl NonTemporalTarget {
    /// Stores row number `row` from the tiles of the outputs by non-temporal stores, and prefetches loads. It
    /// is inlined into the loop, since a call would evict the loop's constants from registers.
    ///
    /// # Safety
    /// 1. The tiles hold a row, and its destination has room for it.
    /// 2. The processor has AVX2, and AVX-512 if `wide`.
    #[inline(always)]
    pub(crate) unsafe fn store_row(&self, wide: bool, outputs: usize, row: usize, tiles: &[*mut u8]) {
        let mut asked = row.wrapping_mul(self.prefetch_nbytes);
        let end = asked.wrapping_add(self.prefetch_nbytes);
        for k in 0..outputs {
            let nbytes = self.nbytes[k];
            let (mut to, mut from, mut line) =
                (self.to[k].wrapping_add(row.wrapping_mul(nbytes)), tiles[k], 0);
            while line < nbytes {
                // SAFETY: (1), (2) by the caller's promise; both lines of a pair are aligned.
                unsafe {
                    non_temporal::copy_line(wide, to, from);
                    non_temporal::copy_line(
                        wide,
                        to.wrapping_add(CACHE_LINE_BYTES),
                        from.wrapping_add(CACHE_LINE_BYTES),
                    );
                }
                // Stores and hints alternate, because many hints at once would wait for each other.
                if asked < end {
                    self.prefetch_pair(asked);
                    asked = asked.wrapping_add(LINE_PAIR_BYTES);
                }
                (to, from, line) = (
                    to.wrapping_add(LINE_PAIR_BYTES),
                    from.wrapping_add(LINE_PAIR_BYTES),
                    line.wrapping_add(LINE_PAIR_BYTES),
                );
            }
        }
        while asked < end {
            self.prefetch_pair(asked);
            asked = asked.wrapping_add(LINE_PAIR_BYTES);
        }
    }

    /// Prefetches a pair of cache lines of each load.
    #[inline(always)]
    fn prefetch_pair(&self, at: usize) {
        prefetch::into_l1(self.ahead[0].wrapping_add(at), LINE_PAIR_BYTES);
        if !self.ahead[1].is_null() {
            prefetch::into_l1(self.ahead[1].wrapping_add(at), LINE_PAIR_BYTES);
        }
    }
}
