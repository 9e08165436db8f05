//! Programs over elements: one contiguous loop for each program, fed in blocks.
//!
//! Three formulations of that loop fail to vectorise without a word: pointers read through a slice inside it, an output
//! that is an input by another pointer, lanes that are arrays. Hence: pointers in a local array, one scalar evaluation an
//! index, and programs in place store through the pointers of their loads.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::io::{At, Scratch, Words};
use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Addresses, Order, Steps, Walk};
use super::{fold, rows};
use crate::device::{Inputs, MAX_OPERANDS, Slot};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Body, Io, Once, Program, Reducer, Row, run_row, run_row_in_place};
use crate::scalar::{Lane, Run};
use std::any::TypeId;
use std::ops::Range;

/// Elements of a row that are packed at a time, at most.
const BLOCK: usize = 1024;
/// Bytes that hold what a block of a program in place was before.
const BEFORE: usize = 16 << 10;
/// Bytes of an element, at most.
const WIDEST: usize = 16;
/// Rows that are packed side by side where none stands crosswise.
const ROWS: usize = 8;
/// The steps of one row.
const STAY: Steps = [0; MAX_OPERANDS + 1];
/// Columns of a tile where an operand stands crosswise: 128 streams are still followed by what fetches memory ahead.
pub(super) const STRIP: usize = 128;
/// Bytes of a row that are streamed at a time: where reading and writing take turns, short pieces overlap best.
pub(super) const STREAM: usize = 1536;
/// How many operands are fetched ahead, at most.
const FETCHED: usize = 4;
/// Outputs of this many bytes go past the caches: half of a large one.
const STREAMED: usize = 16 << 20;
/// Bytes of packed elements of all operands together: they stay in the first-level cache.
const SCRATCH: usize = 32 * 1024;

/// The contiguous loop of one program, with the program's type erased: over some rows of some length, whose pointers move
/// by steps from row to row.
///
/// Its pointers are the outputs, but those of a program in place, then one for each load.
#[derive(Clone, Copy)]
pub(crate) struct MapKernel {
    /// The program's type: hooks that hand out kernels are safe to write, so what they return is checked.
    program: TypeId,
    rows: RowsFn,
}

/// Runs `rows` rows of `n` elements.
type RowsFn = unsafe fn(program: *const (), size: [usize; 2], pointers: &Addresses, down: &Steps);

impl MapKernel {
    /// The kernel of program `P`.
    pub(crate) const fn of<P: Program>() -> Self {
        MapKernel { program: TypeId::of::<P>(), rows: rows_of::<P> }
    }
}

/// # Safety
/// `program` points to a `P`; each pointer has rows of `n` contiguous elements of the type that `P` loads or stores there;
/// no output overlaps another operand, nor the operand of any other load.
unsafe fn rows_of<P: Program>(program: *const (), size: [usize; 2], pointers: &Addresses, down: &Steps) {
    // SAFETY: the caller's promise; programs are `Copy`.
    let program = unsafe { program.cast::<P>().read() };
    simd::dispatch(Rows { program, size, pointers, down });
}

struct Rows<'a, P> {
    program: P,
    size: [usize; 2],
    pointers: &'a Addresses,
    down: &'a Steps,
}

impl<P: Program> Loop for Rows<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { program, size: [rows, n], pointers, down } = self;
        let (pointers, down, first) = (*pointers, *down, if P::IN_PLACE { 0 } else { P::OUTPUTS });
        for row in 0..rows as isize {
            let mut program = program;
            // A local array: see the module's head.
            let pointers: Addresses = std::array::from_fn(|k| pointers[k].wrapping_offset(row.wrapping_mul(down[k])));
            if P::BY_ROWS {
                let mut known = Known::default();
                program.settle(&mut Settling { pointers: &pointers, first, next: 0, n, held: 0, known: &mut known });
                along::<P, true>(&program, n, &pointers, first);
            } else {
                along::<P, false>(&program, n, &pointers, first);
            }
        }
    }
}

/// One row; the loads' pointers begin with the one at `next`.
#[inline(always)]
fn along<P: Program, const HELD: bool>(program: &P, n: usize, pointers: &Addresses, next: usize) {
    let at = |i| At::<HELD> { pointers, next, output: 0, i };
    if !P::IN_PLACE {
        return run_row(program, n, at);
    }
    let mut words = Words::<{ BEFORE / 8 }>::uninit();
    let before = words.as_mut_ptr().cast::<u8>();
    let block = BEFORE / WIDEST / P::OUTPUTS.max(1) / 64 * 64;
    let kept = |range: Range<usize>, back| {
        for i in range.clone() {
            // What a program stores says which elements it changes.
            program.run::<Run>(&mut Kept { pointers, before, block, from: range.start, i, output: 0, back });
        }
    };
    run_row_in_place(program, n, block, at, |range| kept(range, false), |range| kept(range, true));
}

/// One position of a program in place whose outputs, unchanged, are copied to where they are kept, or back.
struct Kept<'a> {
    pointers: &'a Addresses,
    before: *mut u8,
    /// Elements that are kept of each output, and the position of the first.
    block: usize,
    from: usize,
    i: usize,
    output: usize,
    back: bool,
}

impl Io<Run> for Kept<'_> {
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
        let kept = self.before.wrapping_add(self.output * self.block * WIDEST).cast::<T>();
        let (at, kept) = (self.pointers[self.output].cast::<T>().wrapping_add(self.i), kept.wrapping_add(self.i - self.from));
        self.output += 1;
        let (to, from) = if self.back { (at, kept) } else { (kept, at) };
        // SAFETY: elements of type T stand where the program stores them (`rows_of`); each output has room for a block of
        // the widest elements, which `along` made on the stack, at a place for any.
        unsafe { to.write_unaligned(from.read_unaligned()) };
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

/// A contiguous row, on which a program settles.
struct Settling<'a> {
    pointers: &'a Addresses,
    /// The pointer of the first load.
    first: usize,
    next: usize,
    n: usize,
    /// Bytes that are held.
    held: usize,
    /// Elsewhere: an index that is not constant would keep the numbers above in memory, and loops from vectorising.
    known: &'a mut Known,
}

/// What was found on a row: of what, from which load on, and the value or the place. Parts of an expression recur.
#[derive(Default)]
struct Known {
    found: [Option<(TypeId, usize, [u64; 2])>; 4],
    count: usize,
}

impl Row for Settling<'_> {
    #[inline(always)]
    fn next(&mut self) -> &mut usize {
        &mut self.next
    }
    #[inline(always)]
    fn reduce<B: Body, R: Reducer<B::Out>>(&mut self, body: &B) -> Compute<R::Out> {
        let remembers = const { B::FIXED && size_of::<Compute<R::Out>>() <= 16 };
        let what = remembers.then(TypeId::of::<(B, R)>);
        if let Some(bytes) = self.recall::<B>(what) {
            // SAFETY: bytes that were written below as this very type, which fits and is read at any alignment.
            return unsafe { std::ptr::from_ref(&bytes).cast::<Compute<R::Out>>().read_unaligned() };
        }
        let pointers = *self.pointers; // a local array, again
        let state = fold::row::<B, R, true>(*body, &pointers, self.first + self.next, self.n);
        let value = R::finish::<Run>(state, Lane(self.n as i64)).0;
        let mut bytes = [0u64; 2];
        if remembers {
            // SAFETY: the value fits, or it would not be remembered.
            unsafe { std::ptr::from_mut(&mut bytes).cast::<Compute<R::Out>>().write_unaligned(value) };
        }
        self.remember(what, bytes);
        value
    }
    #[inline(always)]
    fn hold<B: Body>(&mut self, body: &B) -> usize {
        let what = B::FIXED.then(TypeId::of::<Once<B>>);
        if let Some([place, _]) = self.recall::<B>(what) {
            return place as usize;
        }
        let place = self.held.next_multiple_of(64);
        self.held = place + self.n * size_of::<Compute<B::Out>>();
        let pointers = *self.pointers; // a local array, again
        let room = pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<B::Out>>();
        for i in 0..self.n {
            let value = body.eval::<Run>(&mut At::<true> { pointers: &pointers, next: self.first + self.next, output: 0, i });
            // SAFETY: the driver made room for every value that the program holds, each aligned to a cache line.
            unsafe { room.add(i).write(value.0) };
        }
        self.remember(what, [place as u64, 0]);
        place
    }
}

impl Settling<'_> {
    /// What was remembered of this row, made from the same operands as the next `B` would be.
    #[inline(always)]
    fn recall<B: Body>(&self, what: Option<TypeId>) -> Option<[u64; 2]> {
        let what = what?;
        let at = self.first + self.next;
        // What is settled inside a fixed body follows from the same loads, so these say all.
        let same = |from: usize| (0..B::LOADS).all(|k| self.pointers[from + k] == self.pointers[at + k]);
        self.known.found.iter().flatten().find(|&&(of, from, _)| of == what && same(from)).map(|&(_, _, bytes)| bytes)
    }

    #[inline(always)]
    fn remember(&mut self, what: Option<TypeId>, bytes: [u64; 2]) {
        let at = self.first + self.next;
        if let Some(what) = what
            && let Some(free) = self.known.found.get_mut(self.known.count)
        {
            *free = Some((what, at, bytes));
            self.known.count += 1;
        }
    }
}

/// # Safety
/// As [`Device::map`](crate::device::Device::map).
pub(super) unsafe fn run<P: Program>(program: &P, sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()> {
    let compiled = P::compiled(TypeId::of::<P>()).and_then(|kernel| kernel.downcast_ref::<MapKernel>());
    let compiled = compiled.filter(|kernel| kernel.program == TypeId::of::<P>());
    let kernel = compiled.copied().unwrap_or(MapKernel::of::<P>());
    let first = if P::IN_PLACE { 0 } else { outputs.len() };
    debug_assert!(!P::IN_PLACE || (0..outputs.len()).all(|k| inputs.slots[k].address == outputs[k].address && inputs.reads[k] == k as u8));
    let program = std::ptr::from_ref(program).cast();
    let job = Job { rows: kernel.rows, program, outputs: outputs.len(), first, reads: inputs.reads, streams: false };
    let apart = &outputs[..first];
    if !P::BY_ROWS
        && let Some(n) = walk::small_run(sizes, apart, inputs.slots)
    {
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program's type.
        unsafe { job.one_run(n, apart, inputs.slots) };
        return Ok(());
    }
    let streams = apart.iter().any(|slot| is_large(sizes, slot));
    let job = Job { streams, ..job };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe {
        if P::BY_ROWS {
            return rows::drive(&job, P::HELD, sizes, row, apart, inputs.slots);
        }
        job.drive(sizes, apart, inputs.slots);
    }
    Ok(())
}

/// Outputs, then inputs.
pub(super) fn together<'a>(outputs: &[Slot<'a>], inputs: &[Slot<'a>]) -> [Slot<'a>; MAX_OPERANDS] {
    let mut slots = [Slot { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
    slots[..outputs.len()].copy_from_slice(outputs);
    slots[outputs.len()..outputs.len() + inputs.len()].copy_from_slice(inputs);
    slots
}

/// Whether an output is larger than the caches by far.
pub(super) fn is_large(sizes: &[usize], output: &Slot<'_>) -> bool {
    walk::numel(sizes).saturating_mul(output.element) >= STREAMED
}

/// A kernel and its program, without their type: everything from here on is compiled once.
pub(super) struct Job<'a> {
    /// The contiguous loop; see [`MapKernel`].
    rows: RowsFn,
    program: *const (),
    /// How many operands are written: the first.
    pub(super) outputs: usize,
    /// The first operand that is read: in place they are the same.
    pub(super) first: usize,
    reads: &'a [u8],
    /// Whether outputs go past the caches.
    pub(super) streams: bool,
}
// SAFETY: programs are `Send + Sync` by their trait's bounds and outlive the job.
unsafe impl Sync for Job<'_> {}

/// Where the elements of each operand are packed; `None` where they can be used as they stand.
pub(super) type Packed = [Option<*mut u8>; MAX_OPERANDS];

impl Job<'_> {
    unsafe fn drive(&self, sizes: &[usize], outputs: &[Slot<'_>], inputs: &[Slot<'_>]) {
        let slots = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        walk::each(sizes, slots, Order::OfOutput, &mut |walk| {
            walk::parallel(walk, 1, &|part| {
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe { self.part(&part, slots) }
                pack::fence();
            });
        });
    }

    /// Operands that are one contiguous run each, without threads: nothing to walk.
    unsafe fn one_run(&self, n: usize, outputs: &[Slot<'_>], inputs: &[Slot<'_>]) {
        let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        let addresses = outputs.iter().map(|slot| slot.address).chain(self.reads.iter().map(|&read| inputs[read as usize].address));
        for (pointer, address) in pointers.iter_mut().zip(addresses) {
            *pointer = address;
        }
        // SAFETY: the caller's promise.
        unsafe { (self.rows)(self.program, [1, n], &pointers, &STAY) };
    }

    /// What the program's outputs have, then what each of its loads has, from what each operand has.
    fn spread<T: Copy>(&self, base: &[T; MAX_OPERANDS + 1]) -> [T; MAX_OPERANDS + 1] {
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
        unsafe { (self.rows)(self.program, [rows, n], &self.spread(base), &self.spread(down)) };
    }

    unsafe fn part(&self, walk: &Walk, slots: &[Slot<'_>]) {
        let linear = |k: usize| walk.is_linear(k, slots[k].element);
        let buffered = |k: usize| k < self.outputs && self.streams;
        let n = walk.numel();
        if (0..slots.len()).all(|k| linear(k) && !buffered(k)) {
            // SAFETY: every operand is one run of `n` elements.
            return unsafe { (self.rows)(self.program, [1, n], &self.spread(&walk.address), &STAY) };
        }
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        // Rows that are long enough are taken whole, several side by side; short ones are gathered, several to a block.
        let by_rows = walk.inner() >= 32;
        let is_packed = |k: usize| {
            let in_rows = by_rows && walk.inner_step(k) == slots[k].element as isize;
            buffered(k) || !(in_rows || linear(k))
        };
        let widths: usize = (0..slots.len()).filter(|&k| is_packed(k)).map(|k| slots[k].element).sum();
        let crosswise = (0..slots.len()).filter(|&k| by_rows && is_packed(k)).find_map(|k| walk.crosswise(k, slots[k].element));
        let axis = crosswise.or(walk.second());
        let (rows, block) = if widths == 0 {
            (usize::MAX, usize::MAX)
        } else {
            // A tile is one cache line high where an operand stands crosswise.
            let element = slots.iter().map(|slot| slot.element).max().unwrap_or(1).clamp(1, WIDEST);
            let (rows, most) = match (crosswise, axis) {
                (Some(_), _) => (64 / element, STRIP),
                _ if self.streams && by_rows => (1, STREAM / element),
                (_, Some(_)) => (ROWS, BLOCK),
                _ => (1, BLOCK),
            };
            let block = ((SCRATCH - 8 * MAX_OPERANDS) / (rows * widths)).min(most) / 16 * 16;
            // Parts of one length, as far as it goes.
            let parts = if by_rows { walk.inner().div_ceil(block.max(1)) } else { 1 };
            (rows, if parts > 1 { walk.inner().div_ceil(parts).next_multiple_of(16) } else { block.max(1) })
        };
        let packed = std::array::from_fn(|k| (k < slots.len() && is_packed(k)).then(|| room.take(rows * block * slots[k].element)));
        // SAFETY: the caller's promise; there is room for `rows · block` elements of each packed operand.
        unsafe {
            if by_rows {
                self.in_rows(walk, slots, &packed, (axis, crosswise.is_some()), [rows, block]);
            } else {
                self.gathered(walk, slots, &packed, block);
            }
        }
    }

    /// Tiles of some rows, which stand along `axis` if there is one, and up to `block` columns; those of one strip of
    /// columns after each other where an operand stands crosswise, so that it is read in order.
    unsafe fn in_rows(
        &self,
        walk: &Walk,
        slots: &[Slot<'_>],
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
            for tile in 0..high * wide {
                let [top, left] = place(tile);
                let (rows, columns) = (most.min(height - top), block.min(walk.inner() - left));
                let at = |k: usize, [top, left]: [usize; 2]| {
                    let to = (top as isize).wrapping_mul(step(k)).wrapping_add((left as isize).wrapping_mul(walk.inner_step(k)));
                    around.address_at(k, &index).wrapping_offset(to)
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
                        unsafe { pack::rectangle(base[k], room, corner(k), steps, [rows, columns], slot.element) };
                    }
                }
                // SAFETY: every pointer has rows of `columns` elements; outputs are packed or overlap nothing.
                unsafe { self.each_row(&base, &down, rows, columns) };
                for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                    let Some(room) = packed[k] else { continue };
                    // What the next tile reads as it stands is fetched while the first output of this one is streamed.
                    let plain = |&j: &usize| packed[j].is_none() && slots[j].element == slot.element;
                    let (mut next, mut count) = ([(std::ptr::null_mut(), 0); FETCHED], 0);
                    for j in (self.first..slots.len()).filter(plain).take(if self.streams && k == 0 { FETCHED } else { 0 }) {
                        next[count] = (at(j, place(tile + 1)), step(j));
                        count += 1;
                    }
                    for row in 0..rows as isize {
                        let to = corner(k).wrapping_offset(row * step(k));
                        let from = room.wrapping_add(row as usize * block * slot.element);
                        let ahead = next.map(|(at, down): (*mut u8, isize)| at.wrapping_offset(row.wrapping_mul(down)));
                        // SAFETY: a row of the output's tile, which the caller promised, from where it was packed.
                        unsafe { self.put(to, walk.inner_step(k), from, columns, slot.element, &ahead[..count]) };
                    }
                }
            }
            around.advance(&mut index, 1);
        }
    }

    pub(super) unsafe fn put(&self, to: *mut u8, step: isize, from: *mut u8, n: usize, element: usize, ahead: &[*mut u8]) {
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
    unsafe fn gathered(&self, walk: &Walk, slots: &[Slot<'_>], packed: &Packed, block: usize) {
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
            unsafe { (self.rows)(self.program, [1, len], &self.spread(&base), &STAY) };
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
