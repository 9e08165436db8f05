//! What feeds a kernel: operands as they stand where they are runs, and in tiles where they are not.
//!
//! Nothing here is generic over the program: it is compiled once.
// Imports: `device`.

use super::io::{LINE, ROUNDING, Scratch, Words};
use super::map::WIDEST;
use super::pack;
use super::past::Past;
use super::simd::{self, Level};
use super::threads;
use super::walk::{self, Addresses, Order, Steps, Walk};
use crate::device::{MAX_OPERANDS, OperandRef};

/// Elements of a row that are packed at a time, at most.
const BLOCK: usize = 1024;
/// Rows that are packed side by side where none stands crosswise.
const ROWS: usize = 8;
/// Bytes that a step of the longest vector loops takes of an operand, at most.
const NEAR: usize = 256;
/// The steps of one row.
pub(super) const STAY: Steps = [0; MAX_OPERANDS + 1];
/// Columns of a tile where an operand stands crosswise: so many streams are read at a time, and rows written this long.
pub(super) const STRIP: usize = 256;
/// Bytes of a row that are streamed at a time: a call and the beginning and end of its loop cost 25 ns.
pub(super) const STREAM: usize = 4096;
/// Bytes of a row at a time where only reading takes turns with computing: short pieces overlap best.
const PIECE: usize = 1536;
/// Bytes that are read at a time of several inputs in steps: as much is fetched meanwhile, and the first cache has room for both
/// and for the tiles.
const READ: usize = 4096;
/// How many operands are fetched ahead, at most: with four, what is fetched drives out what is read.
pub(super) const FETCHED: usize = 2;
/// Elements of a chunk: of any width, they are whole cache lines.
pub(super) const CHUNK: usize = 64;
/// Elements of a step that is still read in pieces: longer ones use too little of what is fetched.
const SHORT_STEP: usize = 4;
/// So many rows that repeat an operand, or such rows as long as this, are not worth to be written out as one.
const FEW_ROWS: usize = 64;
/// So many planes of rows, at most, are gone through without a walk.
const FEW_PLANES: usize = 8;
/// Bytes of a row, at most, that goes past the caches with others.
const SHORT_ROW: usize = 2048;
/// Elements of a row that is taken whole although operands are packed for it; of shorter ones a loop of vectors leaves many over.
const LONG_ENOUGH: usize = 32;
/// As [`FEW_ROWS`], the length of rows of more elements than one thread takes.
const LONG_ROW: usize = 256;
/// Bytes of outputs that stay in no cache: half of a large one. Unoptimized builds get there with fewer, so that tests do.
const LARGE: usize = if cfg!(rankform_unoptimized) { 1 << 20 } else { 16 << 20 };
/// Threads whose stores past the caches pay on every processor: lines are not read before they are written.
const MANY_WRITERS: usize = 4;
/// Bytes of packed elements of all operands together: they stay in the first-level cache.
pub(super) const SCRATCH: usize = 32 * 1024;

/// The contiguous loop of a program, by some instructions: so many rows, each of `n` elements; see `map.rs`. Only where
/// [`Loops::past`] says so may rows go on past the caches.
pub(super) type RowsFn = unsafe fn(
    level: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const Down,
);

/// What is done from row to row.
pub(super) struct Down {
    /// What each pointer moves by.
    pub(super) steps: Steps,
    /// Where the outputs of a row go on to, or null.
    pub(super) past: *const Past,
}

/// What is done for one row.
const ONE: &Down = &Down { steps: STAY, past: std::ptr::null() };

/// The contiguous loops of a program.
#[derive(Clone, Copy)]
pub(super) struct Loops {
    pub(super) rows: RowsFn,
    /// The same for a program of two loads of which the first, or the second, has one element a row.
    pub(super) still: [Option<RowsFn>; 2],
    /// Whether `rows` takes rows on past the caches; see `past.rs`.
    pub(super) past: bool,
}

/// Outputs, then inputs.
pub(super) fn together<'a>(
    outputs: &[OperandRef<'a>],
    inputs: &[OperandRef<'a>],
) -> [OperandRef<'a>; MAX_OPERANDS] {
    let mut slots = [OperandRef { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
    slots[..outputs.len()].copy_from_slice(outputs);
    slots[outputs.len()..outputs.len() + inputs.len()].copy_from_slice(inputs);
    slots
}

/// Whether an output goes past the caches: it is larger than these by far, and its writers are faster so, or so many that
/// memory is what they wait for.
pub(super) fn goes_past_caches(sizes: &[usize], output: &OperandRef<'_>) -> bool {
    is_larger_than_caches(sizes, output) && (threads::count() >= MANY_WRITERS || simd::writes_past_caches())
}

/// Whether an output stays in no cache.
pub(super) fn is_larger_than_caches(sizes: &[usize], output: &OperandRef<'_>) -> bool {
    walk::numel(sizes).saturating_mul(output.element) >= LARGE
}

/// A kernel and its program, without their type: so that what feeds it is compiled once.
pub(super) struct Job<'a> {
    pub(super) loops: Loops,
    pub(super) program: *const (),
    /// How many operands are written: the first.
    pub(super) outputs: usize,
    /// The first operand that is read: in place they are the same.
    pub(super) first: usize,
    pub(super) reads: &'a [u8],
    /// The instructions of its loops, which this processor has: `simd::level` or `simd::level_for_memory`.
    pub(super) level: Level,
    /// Whether it computes in a few instructions.
    pub(super) light: bool,
    /// Whether outputs go past the caches.
    pub(super) streams: bool,
    /// Whether outputs go through the caches, are larger than these, and little is computed: memory is what it waits for.
    pub(super) waits: bool,
}
// SAFETY: programs are `Send + Sync` by their trait's bounds and outlive the job.
unsafe impl Sync for Job<'_> {}

/// Where the elements of each operand are packed; `None` where they can be used as they stand.
pub(super) type Packed = [Option<*mut u8>; MAX_OPERANDS];

impl Job<'_> {
    pub(super) unsafe fn drive(
        &self,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) {
        let slots = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        walk::each(sizes, slots, Order::OfOutput, &mut |walk| {
            walk::parallel(walk, 1, &|part| {
                let times = self.joins(part, slots);
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe {
                    times.map_or_else(|| self.part(part, slots), |times| self.joined(part, slots, times))
                }
                pack::fence();
            });
        });
    }

    /// Operands that are one contiguous run each, without threads: nothing to walk. At most `FEW` outputs and loads.
    ///
    /// Inlined, since the numbers of operands are known where it is called, and little is left then.
    #[inline(always)]
    pub(super) unsafe fn one_run<const FEW: usize>(
        &self,
        n: usize,
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) {
        let mut pointers = [std::ptr::null_mut(); FEW];
        for (pointer, slot) in pointers.iter_mut().zip(outputs) {
            *pointer = slot.address;
        }
        for (pointer, &read) in pointers[outputs.len()..].iter_mut().zip(self.reads) {
            *pointer = inputs[read as usize].address;
        }
        let in_place = outputs.is_empty();
        if let (1, Some(output)) = (self.outputs, if in_place { inputs.first() } else { outputs.first() })
            && n * output.element <= NEAR
            && inputs
                .iter()
                .skip(in_place as usize)
                .any(|slot| output.address.addr().wrapping_sub(slot.address.addr()) < NEAR)
        {
            // SAFETY: the caller's promise.
            return unsafe { self.aside(n, n * output.element, in_place, &mut pointers) };
        }
        // SAFETY: the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), ONE) };
    }

    /// As [`one_run`](Job::one_run), shared by threads: each takes parts of the run.
    ///
    /// # Safety
    /// The kernel's promise, for `n` elements.
    pub(super) unsafe fn run(&self, n: usize, outputs: &[OperandRef<'_>], inputs: &[OperandRef<'_>]) {
        let slots = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        walk::parallel_run(n, &|part| {
            let mut base = [std::ptr::null_mut::<u8>(); MAX_OPERANDS + 1];
            for (base, slot) in base.iter_mut().zip(slots) {
                *base = slot.address.wrapping_add(part.start * slot.element);
            }
            // SAFETY: the parts of a run reach each of its elements once.
            unsafe { self.each_row(&base, &STAY, 1, part.len()) }
        });
    }

    /// An output of at most `NEAR` bytes that begins near an input, which the vector loop would take for an overlap and go
    /// element by element: it is computed elsewhere and copied.
    #[inline(never)]
    unsafe fn aside(&self, n: usize, nbytes: usize, in_place: bool, pointers: &mut [*mut u8]) {
        let mut room = Words::<{ NEAR / 8 }>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        let output = std::mem::replace(&mut pointers[0], room);
        // SAFETY: the caller's promise: an output of `nbytes` bytes, for which there is room.
        unsafe {
            if in_place {
                std::ptr::copy_nonoverlapping(output, room, nbytes);
            }
            (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), ONE);
            // Of common sizes in words: a longer vector than those just stored would wait until they have left the core.
            match nbytes {
                64 => output.cast::<[u64; 8]>().write_unaligned(room.cast::<[u64; 8]>().read()),
                128 => output.cast::<[u64; 16]>().write_unaligned(room.cast::<[u64; 16]>().read()),
                _ => std::ptr::copy_nonoverlapping(room, output, nbytes),
            }
        }
    }

    /// What the program's outputs have, then what each of its loads has, from what each operand has.
    pub(super) fn spread<T: Copy>(&self, base: &[T; MAX_OPERANDS + 1]) -> [T; MAX_OPERANDS + 1] {
        let mut pointers = *base;
        for (pointer, &read) in pointers[self.first..].iter_mut().zip(self.reads) {
            *pointer = base[self.first + read as usize];
        }
        pointers
    }

    /// Runs the kernel on `rows` rows of `n` elements, which begin at `base` and stand `down` bytes apart.
    ///
    /// # Safety
    /// The kernel's promise, for every row.
    pub(super) unsafe fn each_row(&self, base: &Addresses, down: &Steps, rows: usize, n: usize) {
        // SAFETY: the caller's promise.
        let down = Down { steps: self.spread(down), past: std::ptr::null() };
        // SAFETY: the caller's promise.
        unsafe { (self.loops.rows)(self.level, self.program, rows, n, self.spread(base).as_ptr(), &down) };
    }

    /// Runs a program over rows that stand at equal distances, each operand contiguous along them or still, if the caches hold
    /// them; says whether they were such. Then there is nothing to walk, and a few elements do not pay for it (4 × 4 plus a row,
    /// Zen 4: 390 → 210 ns).
    ///
    /// # Safety
    /// The kernel's promise, for every index of `sizes`.
    pub(super) unsafe fn equal_rows(
        &self,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: &[OperandRef<'_>],
    ) -> bool {
        let slots = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        let numel = walk::numel(sizes);
        let small = numel < walk::SHARED;
        if numel == 0
            || (!small && slots[..self.outputs].iter().any(|slot| is_larger_than_caches(sizes, slot)))
        {
            return false;
        }
        // The longest rows that are such.
        for axis in 0..sizes.len() {
            let (outer, row) = sizes.split_at(axis);
            let [mut down, mut along] = [[0; MAX_OPERANDS]; 2];
            let Some(n) = walk::one_axis(row, axis, slots, &mut along) else { continue };
            let still = self.still(|k| along[k] == 0);
            let fits = |k: usize| {
                along[k] == slots[k].element as isize || still.is_some_and(|(operand, _)| operand == k)
            };
            if n == 1 || !(0..slots.len()).all(fits) {
                continue;
            }
            // The longest outer axes that are one; those before them are gone through one by one.
            let first = (0..axis)
                .find(|&first| walk::one_axis(&outer[first..], first, slots, &mut down).is_some())
                .unwrap_or(axis);
            let [planes, rows] = [&outer[..first], &outer[first..]].map(walk::numel);
            let few = if small { planes <= FEW_PLANES } else { planes == 1 && walk::shares_rows(rows) };
            // Of few elements a vector loop takes one by one: what computes long is gathered.
            let vectors = self.light || n >= LONG_ENOUGH || numel <= LONG_ENOUGH;
            if !few || !vectors {
                return false;
            }
            // Many short ones, of which an operand is the same in each, are better taken together (`join.rs`).
            let repeats = (self.outputs..slots.len()).any(|k| down[k] == 0 && along[k] != 0);
            let long = if small { FEW_ROWS } else { LONG_ROW };
            if repeats && rows > FEW_ROWS && n < long {
                return false;
            }
            let loops = still.map_or(self.loops, |(_, rows)| Loops { rows, ..self.loops });
            for plane in 0..planes {
                let mut from = [0isize; MAX_OPERANDS];
                for (from, slot) in from.iter_mut().zip(slots) {
                    let mut left = plane;
                    for axis in (0..first).rev() {
                        *from = from.wrapping_add(
                            ((left % outer[axis]) as isize).wrapping_mul(walk::step(slot, axis)),
                        );
                        left /= outer[axis];
                    }
                }
                walk::parallel_rows(rows, n, &|part| {
                    let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], STAY);
                    for (k, slot) in slots.iter().enumerate() {
                        let to = from[k].wrapping_add((part.start as isize).wrapping_mul(down[k]));
                        (base[k], step[k]) = (slot.address.wrapping_offset(to), down[k]);
                    }
                    // SAFETY: the caller's promise: rows of `n` elements of every operand, or of one that stands still.
                    unsafe { Job { loops, ..*self }.each_row(&base, &step, part.len(), n) };
                });
            }
            return true;
        }
        false
    }

    /// The operand of one load of two that stands still along rows, if the other does not, and the loop for that.
    fn still(&self, stands: impl Fn(usize) -> bool) -> Option<(usize, RowsFn)> {
        let &[left, right] = self.reads else { return None };
        let [left, right] = [left, right].map(|read| self.first + read as usize);
        let (load, operand) = match [left, right].map(stands) {
            [true, false] => (0, left),
            [false, true] => (1, right),
            _ => return None,
        };
        self.loops.still[load].map(|rows| (operand, rows))
    }

    /// # Safety
    /// The kernel's promise, for every index of the walk.
    pub(super) unsafe fn part(&self, walk: &Walk, slots: &[OperandRef<'_>]) {
        let linear = |k: usize| walk.is_linear(k, slots[k].element);
        let buffered = |k: usize| k < self.outputs && self.streams;
        let n = walk.numel();
        if (0..slots.len()).all(|k| linear(k) && !buffered(k)) {
            // SAFETY: every operand is one run of `n` elements.
            return unsafe {
                (self.loops.rows)(self.level, self.program, 1, n, self.spread(&walk.address).as_ptr(), ONE)
            };
        }
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        if self.past_caches(walk, slots) {
            // SAFETY: the caller's promise.
            return unsafe { self.by_chunks(walk, slots, &room) };
        }
        // Rows that are long enough, or many that stand as a light program takes them, are taken whole, several side by side;
        // others are gathered, several to a block.
        let still = self.still(|k| walk.inner_step(k) == 0);
        let stands = |k: usize| {
            walk.inner_step(k) == slots[k].element as isize || still.is_some_and(|(operand, _)| operand == k)
        };
        let all_stand = (0..slots.len()).all(stands);
        let many = walk.second().is_some_and(|axis| walk.size(axis) >= FEW_ROWS);
        let whole = walk.inner() >= LONG_ENOUGH || (self.light && all_stand && many);
        // Short rows of outputs that follow each other go past the caches together.
        let row = |k: usize| walk.inner() * slots[k].element;
        let follows = |k: usize| {
            row(k) <= SHORT_ROW && walk.second().is_some_and(|axis| walk.step(axis, k) == row(k) as isize)
        };
        let joint = self.streams && all_stand && whole && (0..self.outputs).all(follows);
        let by_rows = joint || (whole && (!self.streams || walk.inner() >= LONG_ENOUGH));
        let still = still.filter(|_| by_rows);
        let is_packed = |k: usize| buffered(k) || !(linear(k) || (by_rows && stands(k)));
        let in_pieces = |k: usize| match walk.inner_step(k) / slots[k].element as isize {
            1 => true,
            0 => k >= self.outputs,
            // Short rows, and rows among which others stand, are better packed several at a time.
            times => {
                let is_long = walk.inner() * slots[k].element >= 2 * PIECE;
                k >= self.outputs && times.unsigned_abs() <= SHORT_STEP && is_long && !walk.interleaves(k)
            }
        };
        let in_steps = |k: usize| ![0, slots[k].element as isize].contains(&walk.inner_step(k));
        // In place the first inputs are outputs, and stay where they are.
        let fetches = self.waits && self.first > 0 && (self.first..slots.len()).any(in_steps);
        if (self.streams || fetches) && by_rows && !joint && (0..slots.len()).all(in_pieces) {
            // SAFETY: the caller's promise; outputs are contiguous along rows, and inputs too, or still, or in short steps.
            return unsafe { self.by_pieces(walk, slots, &room) };
        }
        let widths: usize = (0..slots.len()).filter(|&k| is_packed(k)).map(|k| slots[k].element).sum();
        let turns = |&k: &usize| by_rows && is_packed(k) && walk.inner_step(k) != 0;
        let crosswise = (0..slots.len()).filter(turns).find_map(|k| walk.crosswise(k, slots[k].element));
        let axis = crosswise.or(walk.second());
        let (rows, block) = if widths == 0 {
            (usize::MAX, usize::MAX)
        } else if joint {
            ((SCRATCH / 2 / (walk.inner() * widths)).max(1), walk.inner())
        } else {
            // A tile is one cache line high where an operand stands crosswise.
            let element = slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, WIDEST);
            let (rows, most) = match (crosswise, axis) {
                (Some(_), _) => (64 / element, STRIP),
                (_, Some(_)) if by_rows => ((SCRATCH / 2 / (walk.inner() * widths)).max(ROWS), BLOCK),
                _ => (1, BLOCK),
            };
            // However many operands: there is room for 16 elements of each row.
            let rows = rows.min(((SCRATCH - ROUNDING) / (16 * widths)).max(1));
            let block = ((SCRATCH - ROUNDING) / (rows * widths)).min(most) / 16 * 16;
            // Parts of one length, as far as it goes.
            let parts = if by_rows { walk.inner().div_ceil(block.max(1)) } else { 1 };
            (rows, if parts > 1 { walk.inner().div_ceil(parts).next_multiple_of(16) } else { block.max(1) })
        };
        let packed = std::array::from_fn(|k| {
            (k < slots.len() && is_packed(k)).then(|| room.take(rows * block * slots[k].element))
        });
        let loops = still.map_or(self.loops, |(_, rows)| Loops { rows, ..self.loops });
        // SAFETY: the caller's promise; there is room for `rows · block` elements of each packed operand.
        unsafe {
            if by_rows {
                Job { loops, ..*self }.in_rows(
                    walk,
                    slots,
                    &packed,
                    (axis, crosswise.is_some()),
                    [rows, block],
                );
            } else {
                self.gathered(walk, slots, &packed, block);
            }
        }
    }

    /// Rows of large outputs, a short piece at a time: what the next reads is fetched, while this one goes past the caches if
    /// outputs do. Every output is contiguous along rows; so is an input, or it stands still, or has a short step.
    unsafe fn by_pieces(&self, walk: &Walk, slots: &[OperandRef<'_>], room: &Scratch<'_>) {
        let contiguous = |k: usize| walk.inner_step(k) == slots[k].element as isize;
        let tiled = |k: usize| if k < self.outputs { self.streams } else { !contiguous(k) };
        let stepped = |&k: &usize| tiled(k) && walk.inner_step(k) != 0;
        let widths: usize = (0..slots.len()).filter(|&k| tiled(k)).map(|k| slots[k].element).sum();
        let piece = if self.streams { STREAM } else { PIECE };
        let mut most = piece / slots[0].element;
        let inputs = self.outputs..slots.len();
        if self.streams && inputs.clone().filter(stepped).count() > 1 {
            let read: usize = inputs.map(|k| walk.inner_step(k).unsigned_abs()).sum();
            most = most.min((READ / read / CHUNK * CHUNK).max(CHUNK));
        }
        let block = most.min((SCRATCH - ROUNDING) / widths).min(walk.inner());
        let tiles: Packed = std::array::from_fn(|k| {
            (k < slots.len() && tiled(k)).then(|| room.take(block * slots[k].element))
        });
        // What an element moves the program's pointers by: tiles stay where they are.
        let mut step = STAY;
        for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| !tiled(k)) {
            step[k] = slot.element as isize;
        }
        let (operands, step) = (self.first + self.reads.len(), self.spread(&step));
        let around = walk.around(None);
        let mut index = around.index_of(0);
        for _ in 0..around.numel() {
            // Where the next piece of each operand stands, and where the program finds it.
            let mut at: [*mut u8; MAX_OPERANDS] = std::array::from_fn(|k| {
                if k < slots.len() { around.address_at(k, &index) } else { std::ptr::null_mut() }
            });
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for k in 0..slots.len() {
                base[k] = tiles[k].unwrap_or(at[k]);
                if k >= self.outputs && walk.inner_step(k) == 0 {
                    // SAFETY: one element, and room for a block of it.
                    unsafe {
                        pack::strided(base[k], slots[k].element as isize, at[k], 0, block, slots[k].element)
                    };
                }
            }
            let mut pointers = self.spread(&base);
            let mut left = walk.inner();
            // The first piece ends where a line of the first output does, so that all others are whole lines.
            let mut n = match at[0].align_offset(LINE) / slots[0].element {
                head @ 1.. if self.streams => head.min(block),
                _ => block,
            };
            while left > 0 {
                n = n.min(left);
                left -= n;
                for k in (self.outputs..slots.len()).filter(stepped) {
                    // SAFETY: `n` elements of an input, into its tile.
                    unsafe {
                        pack::strided(
                            base[k],
                            slots[k].element as isize,
                            at[k],
                            walk.inner_step(k),
                            n,
                            slots[k].element,
                        )
                    };
                }
                // SAFETY: `n` elements of every operand; outputs are tiles, or overlap nothing.
                unsafe { (self.loops.rows)(self.level, self.program, 1, n, pointers.as_ptr(), ONE) };
                for k in 0..operands {
                    pointers[k] = pointers[k].wrapping_offset(step[k].wrapping_mul(n as isize));
                }
                let (mut ahead, mut count) = ([std::ptr::null_mut(); FETCHED * SHORT_STEP], 0);
                // From each place as many bytes are fetched as the first output has.
                let fetched = n * slots[0].element;
                for (operand, k) in
                    (self.outputs..slots.len()).filter(|&k| walk.inner_step(k) != 0).enumerate()
                {
                    let span = walk.inner_step(k).wrapping_mul(n as isize);
                    at[k] = at[k].wrapping_offset(span);
                    let lowest = at[k].wrapping_offset(span.min(0));
                    if !self.streams {
                        if tiled(k) {
                            simd::fetch(lowest, span.unsigned_abs());
                        }
                    } else if operand < FETCHED {
                        for place in 0..span.unsigned_abs().div_ceil(fetched).min(SHORT_STEP) {
                            ahead[count] = lowest.wrapping_add(place * fetched);
                            count += 1;
                        }
                    }
                }
                for k in (0..self.outputs).filter(|_| self.streams) {
                    let nbytes = n * slots[k].element;
                    // SAFETY: `n` elements of an output, from its tile.
                    unsafe {
                        pack::stream_and_fetch(
                            at[k],
                            base[k],
                            nbytes,
                            if k == 0 { &ahead[..count] } else { &[] },
                        )
                    };
                    at[k] = at[k].wrapping_add(nbytes);
                }
                n = block;
            }
            around.advance(&mut index, 1);
        }
    }

    /// Tiles of some rows, which stand along `axis` if there is one, and up to `block` columns; those of one strip of
    /// columns after each other where an operand stands crosswise, so that it is read in order.
    unsafe fn in_rows(
        &self,
        walk: &Walk,
        slots: &[OperandRef<'_>],
        packed: &Packed,
        (axis, strips): (Option<usize>, bool),
        [most, block]: [usize; 2],
    ) {
        let height = axis.map_or(1, |axis| walk.size(axis));
        let step = |k: usize| axis.map_or(0, |axis| walk.step(axis, k));
        let around = walk.around(axis);
        let mut index = around.index_of(0);
        let (high, wide) = (height.div_ceil(most), walk.inner().div_ceil(block));
        // The corner of the tile with some number.
        let place = |tile: usize| {
            let (down, along) = if strips { (tile % high, tile / high) } else { (tile / wide, tile % wide) };
            [down * most, along * block]
        };
        for _ in 0..around.numel() {
            let origin: [*mut u8; MAX_OPERANDS] = std::array::from_fn(|k| {
                if k < slots.len() { around.address_at(k, &index) } else { std::ptr::null_mut() }
            });
            for tile in 0..high * wide {
                let [top, left] = place(tile);
                let (rows, columns) = (most.min(height - top), block.min(walk.inner() - left));
                let at = |k: usize, [top, left]: [usize; 2]| {
                    let to = (top as isize)
                        .wrapping_mul(step(k))
                        .wrapping_add((left as isize).wrapping_mul(walk.inner_step(k)));
                    origin[k].wrapping_offset(to)
                };
                let corner = |k: usize| at(k, [top, left]);
                let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
                for (k, slot) in slots.iter().enumerate() {
                    (base[k], down[k]) = match packed[k] {
                        Some(room) => (room, (block * slot.element) as isize),
                        None => (corner(k), step(k)),
                    };
                    // What stands still along rows is the same in every block of columns.
                    let is_there = !strips && left > 0 && walk.inner_step(k) == 0;
                    if k >= self.first && packed[k].is_some() && !is_there {
                        let (room, steps) = ([down[k], slot.element as isize], [step(k), walk.inner_step(k)]);
                        // SAFETY: a tile of this operand, which the caller promised, into room for it.
                        unsafe {
                            pack::rectangle(base[k], room, corner(k), steps, [rows, columns], slot.element)
                        };
                    }
                }
                // SAFETY: every pointer has rows of `columns` elements; outputs are packed or overlap nothing.
                unsafe { self.each_row(&base, &down, rows, columns) };
                for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                    let Some(room) = packed[k] else { continue };
                    // What the next tile reads as it stands is fetched while the first output of this one is streamed.
                    let plain = |&j: &usize| packed[j].is_none() && slots[j].element == slot.element;
                    let (mut next, mut count) = ([(std::ptr::null_mut(), 0); FETCHED], 0);
                    for j in (self.first..slots.len()).filter(plain).take(if self.streams && k == 0 {
                        FETCHED
                    } else {
                        0
                    }) {
                        next[count] = (at(j, place(tile + 1)), step(j));
                        count += 1;
                    }
                    // Rows that follow each other at both ends are one.
                    let one =
                        columns == block && step(k) == down[k] && walk.inner_step(k) == slot.element as isize;
                    let (rows, columns) = if one { (1, rows * columns) } else { (rows, columns) };
                    for row in 0..rows as isize {
                        let to = corner(k).wrapping_offset(row * step(k));
                        let from = room.wrapping_add(row as usize * block * slot.element);
                        let ahead = next
                            .map(|(at, down): (*mut u8, isize)| at.wrapping_offset(row.wrapping_mul(down)));
                        // SAFETY: a row of the output's tile, which the caller promised, from where it was packed.
                        unsafe {
                            self.put(to, walk.inner_step(k), from, columns, slot.element, &ahead[..count])
                        };
                    }
                }
            }
            around.advance(&mut index, 1);
        }
    }

    pub(super) unsafe fn put(
        &self,
        to: *mut u8,
        step: isize,
        from: *mut u8,
        n: usize,
        element: usize,
        ahead: &[*mut u8],
    ) {
        // SAFETY: the caller's promise: `n` elements at both ends.
        unsafe {
            if self.streams && step == element as isize {
                pack::stream_and_fetch(to, from, n * element, ahead);
            } else {
                pack::strided(to, step, from, element as isize, n, element);
            }
        }
    }

    /// Blocks of several short rows.
    unsafe fn gathered(&self, walk: &Walk, slots: &[OperandRef<'_>], packed: &Packed, block: usize) {
        let (mut index, mut done, n) = (walk.index_of(0), 0, walk.numel());
        while done < n {
            let len = block.min(n - done);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in slots.iter().enumerate() {
                base[k] = packed[k].unwrap_or_else(|| walk.address_at(k, &index));
                if k >= self.first && packed[k].is_some() {
                    // SAFETY: `len` ≤ `block` elements of this operand, which the caller promised, into room for a block.
                    unsafe { pack::gather(walk, k, index, len, slot.element, base[k]) };
                }
            }
            // SAFETY: every pointer has `len` contiguous elements; outputs are packed or overlap nothing.
            unsafe { (self.loops.rows)(self.level, self.program, 1, len, self.spread(&base).as_ptr(), ONE) };
            for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                if packed[k].is_some() {
                    // SAFETY: the block holds `len` elements; the caller promised the output's positions.
                    unsafe { pack::scatter(walk, k, index, len, slot.element, base[k]) };
                }
            }
            walk.advance(&mut index, len);
            done += len;
        }
    }
}
