//! The destination of streamed rows: a kernel computes a chunk into a tile, then stores the tile by non-temporal stores.
// Imports: `kernel`, `device`.

use crate::device::cpu::memory::scratch::CACHE_LINE_BYTES;
use crate::device::cpu::memory::{non_temporal, prefetch};
use crate::device::cpu::tuning::{PREFETCHED_OPERANDS, STREAM_CHUNK_ELEMENTS};
use crate::kernel::Program;

/// Outputs of a program that streams chunks, at most.
pub(super) const STREAMED_OUTPUTS: usize = 2;
/// Bytes that are moved at a time. A chunk of elements of any width consists of whole pairs of cache lines.
const LINE_PAIR_BYTES: usize = 2 * CACHE_LINE_BYTES;
const _: () = assert!(STREAM_CHUNK_ELEMENTS.is_multiple_of(LINE_PAIR_BYTES));

/// Where the outputs of rows go on to, past the caches: each row is computed in tiles that stay where they are.
pub(crate) struct StreamTarget {
    /// Where the first row of each output goes, and the bytes of a row: whole pairs of cache lines, and begin at one.
    pub(super) to: [*mut u8; STREAMED_OUTPUTS],
    pub(super) nbytes: [usize; STREAMED_OUTPUTS],
    /// Where the loads stand that are fetched with the first row, and bytes of each with every row: 0 for nothing.
    pub(super) ahead: [*mut u8; PREFETCHED_OPERANDS],
    pub(super) fetched: usize,
}

/// Whether the loop of a program takes rows past the caches.
pub(crate) const fn can_stream<P: Program>() -> bool {
    let here = cfg!(all(target_arch = "x86_64", not(miri)));
    here && !P::IN_PLACE && !P::BY_ROWS && !P::COPY && P::OUTPUTS <= STREAMED_OUTPUTS
}

impl StreamTarget {
    /// Takes the row with some number from the tiles of its outputs, and fetches. Inlined into the loop, whose constants a call would
    /// take from its registers (a polynomial of 24 steps, 4096²: 11.3 → 13.1 ms).
    ///
    /// # Safety
    /// The tiles hold a row, and there is room for it where it goes; the processor has AVX2, and AVX-512 if this is `wide`.
    #[inline(always)]
    pub(crate) unsafe fn store_row(&self, wide: bool, outputs: usize, row: usize, tiles: &[*mut u8]) {
        let mut asked = row.wrapping_mul(self.fetched);
        let end = asked.wrapping_add(self.fetched);
        for k in 0..outputs {
            let nbytes = self.nbytes[k];
            let (mut to, mut from, mut line) =
                (self.to[k].wrapping_add(row.wrapping_mul(nbytes)), tiles[k], 0);
            while line < nbytes {
                // SAFETY: the caller's promise.
                unsafe {
                    non_temporal::copy_line(wide, to, from);
                    non_temporal::copy_line(
                        wide,
                        to.wrapping_add(CACHE_LINE_BYTES),
                        from.wrapping_add(CACHE_LINE_BYTES),
                    );
                }
                // By turns: many at once would wait for each other (a + row, 4096²: 5.1 → 4.95 ms).
                if asked < end {
                    self.fetch(asked);
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
            self.fetch(asked);
            asked = asked.wrapping_add(LINE_PAIR_BYTES);
        }
    }

    /// Fetches a pair of lines of each load.
    #[inline(always)]
    fn fetch(&self, at: usize) {
        prefetch::into_l1(self.ahead[0].wrapping_add(at), LINE_PAIR_BYTES);
        if !self.ahead[1].is_null() {
            prefetch::into_l1(self.ahead[1].wrapping_add(at), LINE_PAIR_BYTES);
        }
    }
}
