//! Outputs that go past the caches, written while they are computed: memory then works while the processor does. The program's loop
//! computes a chunk of elements into a tile of some cache lines, which follow each other out before it computes the next.
//!
//! It is the loop that all layouts share: for this it has a few instructions more, and what feeds it is compiled once.
// Imports: `kernel`, `device`.

use super::drive::{Down, FETCHED, Job, Packed, SCRATCH, STAY};
use super::io::{LINE, ROUNDING, Scratch};
use super::pack;
use super::simd::{self, Level};
use super::walk::{Addresses, Steps, Walk};
use crate::device::{MAX_OPERANDS, OperandRef};
use crate::kernel::Program;

/// Outputs of a program that is taken in chunks, at most.
const OUTPUTS: usize = 2;
/// Elements of a chunk: few, so that computing and writing overlap, and enough to hide what is done around them. (4096², one thread of
/// Sapphire Rapids: tanh 5.64 ms by 64, 5.36 by 128, 5.68 by 256; gelu 7.30, 7.06, 7.08; exp 4.94, 4.99, 5.29.)
const CHUNK: usize = 128;
/// Elements of a row that is worth this: one of whole chunks, or with ends that are computed aside.
const WHOLE: usize = CHUNK;
const WITH_ENDS: usize = 10 * CHUNK;
/// Bytes of a row that stays in a cache while rows beside it are streamed.
const CACHED: usize = 256 << 10;
/// Bytes that are moved at a time: elements of any width fill as many in a chunk.
const PAIR: usize = 2 * LINE;
const _: () = assert!(CHUNK.is_multiple_of(PAIR));

/// Where the outputs of rows go on to, past the caches: each row is computed in tiles that stay where they are.
pub(super) struct Past {
    /// Where the first row of each output goes, and the bytes of a row: whole pairs of cache lines, and begin at one.
    to: [*mut u8; OUTPUTS],
    nbytes: [usize; OUTPUTS],
    /// Where the loads stand that are fetched with the first row, and bytes of each with every row: 0 for nothing.
    ahead: [*mut u8; FETCHED],
    fetched: usize,
}

/// Whether the loop of a program takes rows past the caches.
pub(super) const fn takes<P: Program>() -> bool {
    let here = cfg!(all(target_arch = "x86_64", not(miri)));
    here && !P::IN_PLACE && !P::BY_ROWS && !P::COPY && P::OUTPUTS <= OUTPUTS
}

impl Past {
    /// Takes the row with some number from the tiles of its outputs, and fetches. Inlined into the loop, whose constants a call would
    /// take from its registers (a polynomial of 24 steps, 4096²: 11.3 → 13.1 ms).
    ///
    /// # Safety
    /// The tiles hold a row, and there is room for it where it goes; the processor has AVX2, and AVX-512 if this is `wide`.
    #[inline(always)]
    pub(super) unsafe fn put(&self, wide: bool, outputs: usize, row: usize, tiles: &[*mut u8]) {
        let mut asked = row.wrapping_mul(self.fetched);
        let end = asked.wrapping_add(self.fetched);
        for k in 0..outputs {
            let nbytes = self.nbytes[k];
            let (mut to, mut from, mut line) =
                (self.to[k].wrapping_add(row.wrapping_mul(nbytes)), tiles[k], 0);
            while line < nbytes {
                // SAFETY: the caller's promise.
                unsafe {
                    pack::stream_line(wide, to, from);
                    pack::stream_line(wide, to.wrapping_add(LINE), from.wrapping_add(LINE));
                }
                // By turns: many at once would wait for each other (a + row, 4096²: 5.1 → 4.95 ms).
                if asked < end {
                    self.fetch(asked);
                    asked = asked.wrapping_add(PAIR);
                }
                (to, from, line) = (to.wrapping_add(PAIR), from.wrapping_add(PAIR), line.wrapping_add(PAIR));
            }
        }
        while asked < end {
            self.fetch(asked);
            asked = asked.wrapping_add(PAIR);
        }
    }

    /// Fetches a pair of lines of each load.
    #[inline(always)]
    fn fetch(&self, at: usize) {
        simd::fetch(self.ahead[0].wrapping_add(at), PAIR);
        if !self.ahead[1].is_null() {
            simd::fetch(self.ahead[1].wrapping_add(at), PAIR);
        }
    }
}

impl Job<'_> {
    /// Whether rows are worth to be taken in chunks: outputs go past the caches, and every operand is contiguous along rows, or
    /// is read and stands still.
    pub(super) fn past_caches(&self, walk: &Walk, slots: &[OperandRef<'_>]) -> bool {
        if !self.loops.past || !self.streams || self.level == Level::Baseline {
            return false;
        }
        let contiguous = |k: usize| walk.inner_step(k) == slots[k].element as isize;
        let fits = |k: usize| contiguous(k) || (k >= self.outputs && walk.inner_step(k) == 0);
        // Outputs whose first lines begin at one element do so in every row, if they move by as many elements.
        let alike = |k: usize| walk.steps_as(k, slots[k].element, 0, slots[0].element);
        let n = walk.inner();
        let ends = !n.is_multiple_of(CHUNK) || (0..self.outputs).any(|k| !walk.is_aligned(k, LINE));
        let worth = n >= if ends { WITH_ENDS } else { WHOLE }
            && (0..slots.len()).all(fits)
            && (0..self.outputs).all(alike);
        let tiled = (0..slots.len()).filter(|&k| k < self.outputs || walk.inner_step(k) == 0);
        let room = tiled.map(|k| CHUNK * slots[k].element).sum::<usize>() <= SCRATCH - ROUNDING;
        worth && room && self.before(&walk.address, slots).is_some()
    }

    /// Elements of a row before all outputs begin a cache line, if they do so together.
    fn before(&self, base: &Addresses, slots: &[OperandRef<'_>]) -> Option<usize> {
        let narrowest = (0..self.outputs).min_by_key(|&k| slots[k].element)?;
        let before = base[narrowest].align_offset(LINE) / slots[narrowest].element;
        (0..self.outputs)
            .all(|k| base[k].wrapping_add(before * slots[k].element).addr().is_multiple_of(LINE))
            .then_some(before)
    }

    /// The pointers of the loads that are fetched, and bytes of a chunk of each.
    ///
    /// What alone comes from memory is fetched before the processor would, beside a column or a row too (4096² 2.4 and 2.65 → 2.15 ms).
    /// Two are where it takes longer to compute (`x / (exp(-x) + 1) * y`, Sapphire Rapids: 10.3 → 8.75 ms): `a + b` takes longer so
    /// (3.25 → 3.7).
    fn fetched(
        &self,
        walk: &Walk,
        slots: &[OperandRef<'_>],
        steps: &Steps,
    ) -> ([Option<usize>; FETCHED], usize) {
        let nbytes = |k: usize| walk.inner() * slots[k].element;
        let stays = |k: usize| walk.inner_step(k) == 0 || (walk.is_one_row(k) && nbytes(k) <= CACHED);
        let most = if self.light || self.outputs > 1 { 1 } else { FETCHED };
        let (mut loads, mut count, mut fetched) = ([None; FETCHED], 0, 0);
        for k in (self.outputs..slots.len()).filter(|&k| !stays(k)) {
            let load = self.reads.iter().position(|&read| self.outputs + read as usize == k);
            let Some(load) = load.map(|load| self.outputs + load) else { continue };
            let of_chunk = steps[load].unsigned_abs();
            let alike = fetched == 0 || fetched == of_chunk;
            if count == most || !alike || !simd::follows(nbytes(k), walk.down(k)) {
                return ([None; FETCHED], 0);
            }
            (loads[count], fetched) = (Some(load), of_chunk);
            count += 1;
        }
        (loads, fetched)
    }

    /// Rows in chunks; what comes before the first cache line, and after the last chunk, is computed aside.
    ///
    /// # Safety
    /// [`Job::past_caches`] said so; the walk reaches only what the caller of the device promised.
    pub(super) unsafe fn by_chunks(&self, walk: &Walk, slots: &[OperandRef<'_>], room: &Scratch<'_>) {
        let is_still = |k: usize| walk.inner_step(k) == 0;
        // A chunk of what stands still, so that to the program all operands are runs; and of outputs.
        let has_tile = |k: usize| k < self.outputs || is_still(k);
        let tiles: Packed = std::array::from_fn(|k| {
            (k < slots.len() && has_tile(k)).then(|| room.take(CHUNK * slots[k].element))
        });
        let moved = |base: &Addresses, n: usize| {
            let mut base = *base;
            for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !is_still(k)) {
                base[k] = base[k].wrapping_add(n * slot.element);
            }
            base
        };
        // From chunk to chunk the loads move; outputs stay in their tiles.
        let mut steps = STAY;
        for (k, slot) in slots.iter().enumerate().skip(self.outputs).filter(|&(k, _)| !is_still(k)) {
            steps[k] = (CHUNK * slot.element) as isize;
        }
        let (steps, n) = (self.spread(&steps), walk.inner());
        let nbytes: [usize; OUTPUTS] =
            std::array::from_fn(|k| if k < self.outputs { CHUNK * slots[k].element } else { 0 });
        let (loads, fetched) = self.fetched(walk, slots, &steps);
        let around = walk.around(None);
        let mut index = around.index_of(0);
        for _ in 0..around.numel() {
            let mut base = [std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = around.address_at(k, &index);
                if let (Some(tile), true) = (tiles[k], is_still(k)) {
                    // SAFETY: one element, and room for a chunk of it.
                    unsafe { pack::strided(tile, slot.element as isize, base[k], 0, CHUNK, slot.element) };
                    base[k] = tile;
                }
            }
            let aside = |from: usize, to: usize| {
                for start in (from..to).step_by(CHUNK) {
                    // A whole one, which has no end that is computed one by one; what is wanted of it leaves.
                    let (chunk, wanted) = (start.min(n - CHUNK), CHUNK.min(to - start));
                    let mut here = moved(&base, chunk);
                    for k in 0..self.outputs {
                        here[k] = tiles[k].unwrap_or(std::ptr::null_mut());
                    }
                    let at = moved(&base, start);
                    // SAFETY: a chunk of every operand, which is inside the row, and its outputs from their tiles.
                    unsafe {
                        self.each_row(&here, &STAY, 1, CHUNK);
                        for k in 0..self.outputs {
                            let element = slots[k].element;
                            pack::stream(at[k], here[k].add((start - chunk) * element), wanted * element);
                        }
                    }
                }
            };
            let before = self.before(&base, slots).unwrap_or(n).min(n);
            let chunks = (n - before) / CHUNK;
            aside(0, before);
            let mut to = [std::ptr::null_mut(); OUTPUTS];
            let mut first = moved(&base, before);
            for k in 0..self.outputs {
                (to[k], first[k]) = (first[k], tiles[k].unwrap_or(std::ptr::null_mut()));
            }
            let pointers = self.spread(&first);
            let ahead = loads.map(|load| {
                load.map_or(std::ptr::null_mut(), |load| pointers[load].wrapping_add(simd::AHEAD))
            });
            let past = Past { to, nbytes, ahead, fetched };
            let down = Down { steps, past: &past };
            // SAFETY: so many chunks of every load, or one that stands still; outputs have tiles, and begin at cache lines.
            unsafe { (self.loops.rows)(self.level, self.program, chunks, CHUNK, pointers.as_ptr(), &down) };
            aside(before + chunks * CHUNK, n);
            around.advance(&mut index, 1);
        }
    }
}
