//! Outputs that go past the caches, written by the very loop that computes them: memory then works while the processor
//! computes. A chunk of elements is computed into a tile of a few cache lines, which follow each other out.
//! Imports: `kernel`, `device`.

use super::drive::{CHUNK, Job, Packed, RowsFn, SCRATCH, STAY};
use super::io::{At, LINE, NONE, ROUNDING, Scratch};
use super::map::WIDEST;
use super::pack;
use super::simd::{self, Call, Level};
use super::walk::{Addresses, Walk};
use crate::device::{MAX_OPERANDS, Slot};
use crate::kernel::{Program, run_row_in_place};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

const _: () = assert!(SCRATCH - ROUNDING >= MAX_OPERANDS * CHUNK * WIDEST, "a chunk of every operand fits");
/// Outputs of a program that is taken in chunks, at most.
const OUTPUTS: usize = 2;
/// Elements of a row that is worth this: one of whole chunks, or with ends that are computed aside.
const WHOLE: usize = 2 * CHUNK;
const WITH_ENDS: usize = 20 * CHUNK;
/// Bytes of a row that stays in a cache while rows beside it are streamed.
const CACHED: usize = 256 << 10;

/// The loop of a program over chunks, if it has one; as [`RowsFn`], where each row is a chunk, and instead of its length it is
/// told the load that it fetches, a number beyond them for none. Its outputs are aligned to cache lines and go past the caches.
pub(super) const fn loop_of<P: Program>() -> Option<RowsFn> {
    let here = cfg!(all(target_arch = "x86_64", not(miri)));
    if !here || P::IN_PLACE || P::BY_ROWS || P::COPY || P::OUTPUTS > OUTPUTS { None } else { Some(chunks_of::<P>) }
}

/// # Safety
/// As [`RowsFn`], for rows of [`CHUNK`] elements whose outputs begin at cache lines and follow each other; the processor
/// has AVX2.
unsafe fn chunks_of<P: Program>(level: Level, program: *const (), chunks: usize, fetched: usize, from: *const *mut u8, down: *const isize) {
    // Two loops only over two loads: that over two runs takes 5 % longer if it could fetch.
    if const { P::LOADS == 1 } || (const { P::LOADS == 2 } && fetched < P::LOADS) {
        // SAFETY: the caller's promise.
        unsafe { simd::dispatch_call::<Chunks<P, true>, _, _, _>(level, program, chunks, fetched, from, down) }
    } else {
        // SAFETY: as above.
        unsafe { simd::dispatch_call::<Chunks<P, false>, _, _, _>(level, program, chunks, fetched, from, down) }
    }
}

struct Chunks<P, const FETCHES: bool>(PhantomData<P>);

#[repr(align(64))]
struct Tile(MaybeUninit<[u8; OUTPUTS * CHUNK * WIDEST]>);

impl<P: Program, const FETCHES: bool> Call<*const (), *const *mut u8, *const isize> for Chunks<P, FETCHES> {
    const VECTORS: bool = true;
    #[inline(always)]
    unsafe fn call(program: *const (), chunks: usize, fetched: usize, from: *const *mut u8, down: *const isize) {
        // SAFETY: the caller's promise; programs are `Copy`.
        let program = unsafe { program.cast::<P>().read() };
        let mut tile = Tile(MaybeUninit::uninit());
        let tile = tile.0.as_mut_ptr().cast::<u8>();
        let (mut next, mut step) = ([std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..P::OUTPUTS + P::LOADS {
            // SAFETY: the caller's promise: a pointer and a step for each output and load.
            (next[k], step[k]) = unsafe { (*from.add(k), *down.add(k)) };
        }
        let (mut ahead, mut by) = (std::ptr::null_mut::<u8>(), 0);
        if FETCHES && fetched < P::LOADS {
            // SAFETY: as above.
            (ahead, by) = unsafe { ((*from.add(P::OUTPUTS + fetched)).wrapping_add(simd::AHEAD), *down.add(P::OUTPUTS + fetched)) };
        }
        for _ in 0..chunks {
            let mut pointers = next;
            if FETCHES {
                simd::fetch(ahead, by.unsigned_abs());
                ahead = ahead.wrapping_offset(by);
            }
            for k in 0..P::OUTPUTS {
                pointers[k] = tile.wrapping_add(k * CHUNK * WIDEST);
            }
            let at = |i| At::<false> { pointers: &pointers, next: P::OUTPUTS, still: NONE, output: 0, i };
            run_row_in_place(&program, CHUNK, CHUNK, at, |_| {}, |_| {});
            for k in 0..P::OUTPUTS {
                // From chunk to chunk an output moves by the bytes of one.
                for line in (0..step[k]).step_by(LINE) {
                    // SAFETY: the caller's promise; the loop above wrote all of a chunk, which is `WIDEST` at most.
                    unsafe { pack::stream_line(next[k].wrapping_offset(line), pointers[k].wrapping_offset(line)) };
                }
            }
            for k in 0..P::OUTPUTS + P::LOADS {
                next[k] = next[k].wrapping_offset(step[k]);
            }
        }
    }
}

impl Job<'_> {
    /// The loop over chunks, if rows are worth it: outputs go past the caches, and every operand is contiguous along rows, or
    /// is read and stands still.
    pub(super) fn past_caches(&self, walk: &Walk, slots: &[Slot<'_>]) -> Option<RowsFn> {
        if !self.streams || self.level == Level::Baseline {
            return None;
        }
        let contiguous = |k: usize| walk.inner_step(k) == slots[k].element as isize;
        let fits = |k: usize| contiguous(k) || (k >= self.outputs && walk.inner_step(k) == 0);
        // Outputs whose first lines begin at one element do so in every row, if they move by as many elements.
        let alike = |k: usize| walk.steps_as(k, slots[k].element, 0, slots[0].element);
        let n = walk.inner();
        let ends = !n.is_multiple_of(CHUNK) || (0..self.outputs).any(|k| !walk.is_aligned(k, LINE));
        let worth = n >= if ends { WITH_ENDS } else { WHOLE } && (0..slots.len()).all(fits) && (0..self.outputs).all(alike);
        self.loops.past.filter(|_| worth && self.before(&walk.address, slots).is_some())
    }

    /// Elements of a row before all outputs begin a cache line, if they do so together.
    fn before(&self, base: &Addresses, slots: &[Slot<'_>]) -> Option<usize> {
        let narrowest = (0..self.outputs).min_by_key(|&k| slots[k].element)?;
        let before = base[narrowest].align_offset(LINE) / slots[narrowest].element;
        (0..self.outputs).all(|k| base[k].wrapping_add(before * slots[k].element).addr().is_multiple_of(LINE)).then_some(before)
    }

    /// Rows in chunks; what comes before the first cache line, and after the last chunk, is computed aside.
    ///
    /// # Safety
    /// `run` is what [`Job::past_caches`] found; the walk reaches only what the caller of the device promised.
    pub(super) unsafe fn by_chunks(&self, run: RowsFn, walk: &Walk, slots: &[Slot<'_>], room: &Scratch<'_>) {
        let is_still = |k: usize| walk.inner_step(k) == 0;
        // A chunk of what stands still, so that to the program all operands are runs; and of outputs, for what is no chunk.
        let has_tile = |k: usize| k < self.outputs || is_still(k);
        let tiles: Packed = std::array::from_fn(|k| (k < slots.len() && has_tile(k)).then(|| room.take(CHUNK * slots[k].element)));
        let moved = |base: &Addresses, n: usize| {
            let mut base = *base;
            for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !is_still(k)) {
                base[k] = base[k].wrapping_add(n * slot.element);
            }
            base
        };
        let mut down = STAY;
        for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !is_still(k)) {
            down[k] = (CHUNK * slot.element) as isize;
        }
        let (down, n) = (self.spread(&down), walk.inner());
        // What alone comes from memory is fetched before the processor would, beside a column or a row too (4096² 2.4 and 2.65 →
        // 2.15 ms); two runs would take longer (3.25 → 3.7).
        let nbytes = |k: usize| n * slots[k].element;
        let stays = |k: usize| is_still(k) || (walk.is_one_row(k) && nbytes(k) <= CACHED);
        let mut far = (self.outputs..slots.len()).filter(|&k| !stays(k));
        let alone = far.next().filter(|&k| far.next().is_none() && simd::follows(nbytes(k), walk.down(k)));
        let fetched = self.reads.iter().position(|&read| alone == Some(self.outputs + read as usize)).unwrap_or(usize::MAX);
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
            let first = self.spread(&moved(&base, before));
            // SAFETY: so many chunks of every operand, or one of what stands still; outputs begin at cache lines.
            unsafe { run(self.level, self.program, chunks, fetched, first.as_ptr(), down.as_ptr()) };
            aside(before + chunks * CHUNK, n);
            around.advance(&mut index, 1);
        }
    }
}
