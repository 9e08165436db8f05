//! Outputs that go past the caches, written while they are computed: memory then works while the processor does. A few chunks
//! of elements are computed into a tile of some cache lines, which follow each other out.
//!
//! The program's loop is the one that all layouts share: what is done around it here is compiled once.
//! Imports: `device`.

use super::drive::{CHUNK, Job, Packed, SCRATCH, STAY};
use super::io::{LINE, ROUNDING, Scratch};
use super::pack;
use super::simd::{self, Level, Loop};
use super::walk::{Addresses, Steps, Walk};
use crate::device::{MAX_OPERANDS, Slot};

/// Outputs of a program that is taken in chunks, at most.
const OUTPUTS: usize = 2;
/// Elements of a row that is worth this: one of whole chunks, or with ends that are computed aside.
const WHOLE: usize = 2 * CHUNK;
const WITH_ENDS: usize = 20 * CHUNK;
/// Bytes of a row that stays in a cache while rows beside it are streamed.
const CACHED: usize = 256 << 10;
/// Elements that are computed before they are written: few, so that both overlap, and enough to hide a call. (4096², one thread of
/// Sapphire Rapids: add 10.6 ms by 128, 8.5 by 256, 8.3 by 512; gelu 10.2, 7.4, 10.0.)
const TURN: usize = 4 * CHUNK;

/// So many chunks of a program, which begin at cache lines, from computing to memory.
struct Chunks<'a> {
    job: &'a Job<'a>,
    chunks: usize,
    /// Where the first chunks of outputs and loads stand, and the steps from one to the next.
    next: Addresses,
    step: Steps,
    /// Where outputs are computed.
    tiles: [*mut u8; OUTPUTS],
    /// What is fetched ahead, and its step; a step of 0 for nothing.
    ahead: *mut u8,
    by: usize,
}

impl Loop for Chunks<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Chunks { job, chunks, next, step, tiles, mut ahead, by } = self;
        let (outputs, operands) = (job.outputs, job.outputs + job.reads.len());
        let mut to = [std::ptr::null_mut(); OUTPUTS];
        to[..outputs].copy_from_slice(&next[..outputs]);
        let mut pointers = next;
        pointers[..outputs].copy_from_slice(&tiles[..outputs]);
        let mut left = chunks;
        while left > 0 {
            let turn = left.min(TURN / CHUNK);
            left -= turn;
            simd::fetch(ahead, turn * by);
            ahead = ahead.wrapping_add(turn * by);
            // SAFETY: whoever made the chunks promised so many of each load, and tiles.
            unsafe { (job.loops.rows)(job.level, job.program, 1, turn * CHUNK, pointers.as_ptr(), STAY.as_ptr()) };
            for k in 0..outputs {
                // From chunk to chunk an output moves by the bytes of one.
                let nbytes = turn * step[k].unsigned_abs();
                for line in (0..nbytes).step_by(LINE) {
                    // SAFETY: as above; the loop wrote all of a turn.
                    unsafe { pack::stream_line(to[k].wrapping_add(line), tiles[k].wrapping_add(line)) };
                }
                to[k] = to[k].wrapping_add(nbytes);
            }
            for k in outputs..operands {
                pointers[k] = pointers[k].wrapping_offset(step[k] * turn as isize);
            }
        }
    }
}

impl Job<'_> {
    /// Whether rows are worth to be taken in chunks: outputs go past the caches, and every operand is contiguous along rows, or
    /// is read and stands still.
    pub(super) fn past_caches(&self, walk: &Walk, slots: &[Slot<'_>]) -> bool {
        let here = cfg!(all(target_arch = "x86_64", not(miri)));
        if !here || !self.streams || self.level == Level::Baseline || self.outputs > OUTPUTS {
            return false;
        }
        let contiguous = |k: usize| walk.inner_step(k) == slots[k].element as isize;
        let fits = |k: usize| contiguous(k) || (k >= self.outputs && walk.inner_step(k) == 0);
        // Outputs whose first lines begin at one element do so in every row, if they move by as many elements.
        let alike = |k: usize| walk.steps_as(k, slots[k].element, 0, slots[0].element);
        let n = walk.inner();
        let ends = !n.is_multiple_of(CHUNK) || (0..self.outputs).any(|k| !walk.is_aligned(k, LINE));
        let worth = n >= if ends { WITH_ENDS } else { WHOLE } && (0..slots.len()).all(fits) && (0..self.outputs).all(alike);
        let tiled = (0..slots.len()).filter(|&k| k < self.outputs || walk.inner_step(k) == 0);
        let room = tiled.map(|k| TURN * slots[k].element).sum::<usize>() <= SCRATCH - ROUNDING;
        worth && room && self.before(&walk.address, slots).is_some()
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
    /// [`Job::past_caches`] said so; the walk reaches only what the caller of the device promised.
    pub(super) unsafe fn by_chunks(&self, walk: &Walk, slots: &[Slot<'_>], room: &Scratch<'_>) {
        let is_still = |k: usize| walk.inner_step(k) == 0;
        // A turn of what stands still, so that to the program all operands are runs; and of outputs.
        let has_tile = |k: usize| k < self.outputs || is_still(k);
        let tiles: Packed = std::array::from_fn(|k| (k < slots.len() && has_tile(k)).then(|| room.take(TURN * slots[k].element)));
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
        let fetched = self.reads.iter().position(|&read| alone == Some(self.outputs + read as usize));
        let around = walk.around(None);
        let mut index = around.index_of(0);
        for _ in 0..around.numel() {
            let mut base = [std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = around.address_at(k, &index);
                if let (Some(tile), true) = (tiles[k], is_still(k)) {
                    // SAFETY: one element, and room for a turn of it.
                    unsafe { pack::strided(tile, slot.element as isize, base[k], 0, TURN, slot.element) };
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
            let next = self.spread(&moved(&base, before));
            let (ahead, by) = match fetched {
                Some(load) => (next[self.outputs + load].wrapping_add(simd::AHEAD), down[self.outputs + load].unsigned_abs()),
                None => (std::ptr::null_mut(), 0),
            };
            let tiles = std::array::from_fn(|k| tiles[k].unwrap_or(std::ptr::null_mut()));
            // So many chunks of every operand, or a turn of what stands still; outputs begin at cache lines.
            simd::dispatch_two(Chunks { job: self, chunks, next, step: down, tiles, ahead, by });
            aside(before + chunks * CHUNK, n);
            around.advance(&mut index, 1);
        }
    }
}
