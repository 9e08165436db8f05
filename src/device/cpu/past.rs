//! Outputs that go past the caches, written by the very loop that computes them: memory then works while the processor
//! computes. A chunk of elements is computed into a tile of a few cache lines, which follow each other out.
//! Imports: `element`, `kernel`, `scalar`, `device`.

use super::drive::{Job, Packed, RowsFn, SCRATCH, STAY};
use super::io::{At, NONE, Scratch};
use super::map::WIDEST;
use super::pack;
use super::simd::{self, Call, Level};
use super::walk::{Addresses, Walk};
use crate::device::{MAX_OPERANDS, Slot};
use crate::element::{Compute, Element};
use crate::kernel::{Io, Program, run_row_in_place};
use crate::scalar::{Lane, Run};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements of a chunk: of any width, they are whole cache lines.
const CHUNK: usize = 64;
/// Outputs that have a tile.
const OUTPUTS: usize = 2;
/// Chunks of a row that is worth this: one of whole chunks, or with ends that are computed aside.
const WHOLE: usize = 2;
const WITH_ENDS: usize = 20;
const _: () = assert!(SCRATCH - 8 * MAX_OPERANDS >= MAX_OPERANDS * CHUNK * WIDEST, "a chunk of every operand fits");
/// Bytes of a cache line.
const LINE: usize = 64;

/// The loop of a program over chunks, if it has one; as [`RowsFn`], where each row is a chunk. Its outputs are aligned to
/// cache lines and go past the caches.
pub(super) const fn chunks_of<P: Program>() -> Option<RowsFn> {
    if P::IN_PLACE || P::BY_ROWS || P::COPY || P::OUTPUTS > OUTPUTS { None } else { Some(chunks::<P>) }
}

/// # Safety
/// As [`RowsFn`], for rows of [`CHUNK`] elements; outputs are aligned to cache lines; the processor has AVX2.
unsafe fn chunks<P: Program>(level: Level, program: *const (), chunks: usize, n: usize, from: *const *mut u8, down: *const isize) {
    // SAFETY: the caller's promise.
    unsafe { simd::dispatch_call::<Chunks<P>, _, _, _>(level, program, chunks, n, from, down) }
}

struct Chunks<P>(PhantomData<P>);

#[repr(align(64))]
struct Tile(MaybeUninit<[u8; OUTPUTS * CHUNK * WIDEST]>);

impl<P: Program> Call<*const (), *const *mut u8, *const isize> for Chunks<P> {
    const VECTORS: bool = true;
    #[inline(always)]
    unsafe fn call(program: *const (), chunks: usize, _: usize, from: *const *mut u8, down: *const isize) {
        // SAFETY: the caller's promise; programs are `Copy`.
        let program = unsafe { program.cast::<P>().read() };
        let mut tile = Tile(MaybeUninit::uninit());
        let tile = tile.0.as_mut_ptr().cast::<u8>();
        let (mut next, mut step) = ([std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..P::OUTPUTS + P::LOADS {
            // SAFETY: the caller's promise: a pointer and a step for each output and load.
            (next[k], step[k]) = unsafe { (*from.add(k), *down.add(k)) };
        }
        for _ in 0..chunks {
            let mut pointers = next;
            for k in 0..P::OUTPUTS {
                pointers[k] = tile.wrapping_add(k * CHUNK * WIDEST);
            }
            let at = |i| At::<false> { pointers: &pointers, next: P::OUTPUTS, still: NONE, output: 0, i };
            run_row_in_place(&program, CHUNK, CHUNK, at, |_| {}, |_| {});
            program.run::<Run>(&mut Leave { from: &pointers, to: &next, output: 0 });
            for k in 0..P::OUTPUTS + P::LOADS {
                next[k] = next[k].wrapping_offset(step[k]);
            }
        }
    }
}

/// What a program stores says how wide its outputs are: their tiles leave for where they belong.
struct Leave<'a> {
    from: &'a Addresses,
    to: &'a Addresses,
    output: usize,
}

impl Io<Run> for Leave<'_> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Run, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, _: T) -> Lane<Run, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, _: Lane<Run, Compute<T>>) {
        const { assert!(size_of::<T>() <= WIDEST) };
        for at in (0..CHUNK * size_of::<T>()).step_by(LINE) {
            // SAFETY: the promise of `chunks`: a chunk of elements, aligned to cache lines, which the tile holds.
            unsafe { pack::stream_line(self.to[self.output].wrapping_add(at), self.from[self.output].wrapping_add(at)) };
        }
        self.output += 1;
    }
    #[inline(always)]
    fn settled<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<Run, Compute<T>> {
        Lane(Default::default())
    }
    #[inline(always)]
    fn held<T: Element>(&mut self, _: usize, _: usize) -> Option<Lane<Run, Compute<T>>> {
        Some(Lane(Default::default()))
    }
}

impl Job<'_> {
    /// The loop over chunks, where outputs go past the caches and every operand is contiguous along rows, or stands still.
    pub(super) fn chunks(&self, walk: &Walk, slots: &[Slot<'_>]) -> Option<RowsFn> {
        let fits = |k: usize| {
            let step = walk.inner_step(k);
            step == slots[k].element as isize || (step == 0 && k >= self.outputs)
        };
        let chunks = if self.streams && self.level > Level::Baseline { self.loops.chunks } else { None };
        let n = walk.inner();
        let worth = CHUNK * if n % CHUNK == 0 { WHOLE } else { WITH_ENDS };
        chunks.filter(|_| n >= worth && (0..slots.len()).all(fits))
    }

    /// Rows in chunks; what comes before the first cache line, and after the last chunk, is computed aside.
    ///
    /// # Safety
    /// `chunks` is what [`Job::chunks`] found; the walk reaches only what the caller of the device promised.
    pub(super) unsafe fn by_chunks(&self, chunks: RowsFn, walk: &Walk, slots: &[Slot<'_>], room: &Scratch<'_>) {
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
            let before = base[0].align_offset(LINE) / slots[0].element;
            let first = moved(&base, before);
            // Rows whose outputs do not begin alike have no chunks.
            let aligned = first[..self.outputs].iter().all(|to| to.addr() % LINE == 0);
            let before = if aligned { before.min(n) } else { n };
            let count = (n - before) / CHUNK;
            let aside = |from: usize, to: usize| {
                for start in (from..to).step_by(CHUNK) {
                    // A whole one, which has no end that is computed one by one; what is wanted of it leaves.
                    let (chunk, wanted) = (start.min(n - CHUNK), CHUNK.min(to - start));
                    let mut here = moved(&base, chunk);
                    for k in 0..self.outputs {
                        here[k] = tiles[k].unwrap_or(here[k]);
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
            aside(0, before);
            // SAFETY: so many chunks of every operand, or one of what stands still; outputs are aligned.
            unsafe { chunks(self.level, self.program, count, CHUNK, self.spread(&first).as_ptr(), down.as_ptr()) };
            aside(before + count * CHUNK, n);
            around.advance(&mut index, 1);
        }
    }
}
