//! Programs over elements: one contiguous loop for each program, fed in blocks.
//!
//! Three formulations of that loop fail to vectorise without a word: pointers read through a slice inside it, an output
//! that is also an input, lanes that are arrays. Hence: pointers in a local array, one scalar evaluation an index, and a
//! block buffer where an output is an input.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::io::{At, Scratch, Words};
use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Addresses, Order, Walk};
use super::{fold, rows};
use crate::device::{Inputs, MAX_OPERANDS, Slot};
use crate::element::Compute;
use crate::error::Result;
use crate::kernel::{Body, Once, Program, Reducer, Row, run_row};
use crate::scalar::{Lane, Run};
use std::any::TypeId;

/// Elements of a row that are packed at a time, at most.
const BLOCK: usize = 1024;
/// Bytes that hold a block of outputs which are inputs too.
const IN_PLACE: usize = 4096;
/// Bytes of a short run.
const SHORT: usize = 1024;
/// Rows that are packed side by side where none stands crosswise.
const ROWS: usize = 8;
/// Outputs of this many bytes go past the caches: half of a large one.
const STREAMED: usize = 16 << 20;
/// Bytes of packed elements of all operands together: they stay in the first-level cache.
const SCRATCH: usize = 32 * 1024;

/// The contiguous loop of one program, with the program's type erased.
///
/// Its pointers are the outputs, then one for each load.
#[derive(Clone, Copy)]
pub(crate) struct MapKernel {
    /// The program's type: hooks that hand out kernels are safe to write, so what they return is checked.
    program: TypeId,
    row: unsafe fn(program: *const (), n: usize, pointers: &Addresses),
}

impl MapKernel {
    /// The kernel of program `P`.
    pub(crate) const fn of<P: Program>() -> Self {
        MapKernel { program: TypeId::of::<P>(), row: row::<P> }
    }
}

/// # Safety
/// `program` points to a `P`; each pointer has `n` contiguous elements of the type that `P` loads or stores there; no
/// output overlaps another operand.
unsafe fn row<P: Program>(program: *const (), n: usize, pointers: &Addresses) {
    // SAFETY: the caller's promise; programs are `Copy`.
    let program = unsafe { program.cast::<P>().read() };
    simd::dispatch(Rows { program, n, pointers });
}

struct Rows<'a, P> {
    program: P,
    n: usize,
    pointers: &'a Addresses,
}

impl<P: Program> Loop for Rows<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { mut program, n, pointers } = self;
        let pointers = *pointers; // a local array: see the module's head
        if P::BY_ROWS {
            let (row, mut known) = (pointers, Known::default());
            program.settle(&mut Settling { pointers: &row, first: P::OUTPUTS, next: 0, n, held: 0, known: &mut known });
        }
        let (pointers, next) = (&pointers, P::OUTPUTS);
        if P::BY_ROWS {
            run_row(&program, n, |i| At::<true> { pointers, next, output: 0, i });
        } else {
            run_row(&program, n, |i| At::<false> { pointers, next, output: 0, i });
        }
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
        let state = fold::row::<B, R, true>(*body, &pointers, self.first + self.next, self.n, 0);
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
#[inline(always)] // the little that a small run needs; the rest is apart
pub(super) unsafe fn run<P: Program>(program: &P, sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()> {
    let one_axis = |slot: &Slot<'_>| matches!(slot.stride, [1]);
    if let [n @ 0..walk::PART] = *sizes
        && !P::BY_ROWS
        && outputs.iter().all(one_axis)
        && inputs.slots.iter().all(one_axis)
    {
        let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        let reads = inputs.reads.iter().map(|&read| inputs.slots[read as usize].address);
        for (pointer, address) in pointers.iter_mut().zip(outputs.iter().map(|slot| slot.address).chain(reads)) {
            *pointer = address;
        }
        let (row, program) = (kernel::<P>().row, std::ptr::from_ref(program).cast());
        if !is_in_place(outputs, inputs.slots) {
            // SAFETY: every operand is one run of `n` elements; the kernel is that of the program's type.
            unsafe { row(program, n, &pointers) };
            return Ok(());
        }
        if let [output] = outputs
            && n * output.element <= SHORT
        {
            // SAFETY: as above.
            unsafe { in_place(row, program, n, &mut pointers, output.element) };
            return Ok(());
        }
    }
    // SAFETY: the caller's promise.
    unsafe { drive(program, sizes, row, outputs, inputs) }
}

/// The kernel of a program: the one compiled in advance, if there is one.
#[inline]
fn kernel<P: Program>() -> MapKernel {
    let compiled = P::compiled().and_then(|kernel| kernel.downcast_ref::<MapKernel>());
    let compiled = compiled.filter(|kernel| kernel.program == TypeId::of::<P>());
    compiled.copied().unwrap_or(MapKernel::of::<P>())
}

/// A short run whose output is an input too: by way of a buffer (see the module's head).
unsafe fn in_place(
    row: unsafe fn(program: *const (), n: usize, pointers: &Addresses),
    program: *const (),
    n: usize,
    pointers: &mut Addresses,
    element: usize,
) {
    let mut words = Words::<{ SHORT / 8 }>::uninit();
    let room = words.as_mut_ptr().cast::<u8>();
    let output = std::mem::replace(&mut pointers[0], room);
    // SAFETY: the caller's promise, of `n` elements; there is room for them.
    unsafe {
        row(program, n, pointers);
        std::ptr::copy_nonoverlapping(room, output, n * element);
    }
}

#[inline(never)]
unsafe fn drive<P: Program>(program: &P, sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()> {
    let (row_of, program) = (kernel::<P>().row, std::ptr::from_ref(program).cast());
    let job = Job { row: row_of, program, outputs: outputs.len(), reads: inputs.reads, streams: false };
    if !P::BY_ROWS
        && let Some(n) = walk::small_run(sizes, outputs, inputs.slots)
    {
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program's type.
        unsafe { job.one_run(n, outputs, inputs.slots) };
        return Ok(());
    }
    let streams = outputs.iter().any(|slot| is_large(sizes, slot));
    let job = Job { streams, ..job };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe {
        if P::BY_ROWS {
            if rows::short(&job, P::HELD, sizes, row, outputs, inputs.slots) {
                return Ok(());
            }
            return rows::drive(&job, P::HELD, sizes, row, outputs, inputs.slots);
        }
        job.drive(sizes, outputs, inputs.slots);
    }
    Ok(())
}

/// Copies every element of `from` to the same index of `to`: a program whose elements may be of any type.
///
/// # Safety
/// As [`Device::copy`](crate::device::Device::copy).
pub(super) unsafe fn copy(sizes: &[usize], to: Slot<'_>, from: Slot<'_>) {
    unsafe fn row(element: *const (), n: usize, pointers: &Addresses) {
        // SAFETY: the job's program is the size of an element; `n` of them stand at each pointer.
        unsafe { std::ptr::copy_nonoverlapping(pointers[1], pointers[0], n * element.cast::<usize>().read()) };
    }
    unsafe fn streamed_row(element: *const (), n: usize, pointers: &Addresses) {
        // SAFETY: as above.
        unsafe { pack::stream(pointers[0], pointers[1], n * element.cast::<usize>().read()) };
    }
    let element = to.element;
    let row = if is_large(sizes, &to) { streamed_row } else { row };
    let job = Job { row, program: std::ptr::from_ref(&element).cast(), outputs: 1, reads: &[0], streams: false };
    // SAFETY: the caller's promise.
    unsafe { job.drive(sizes, &[to], &[from]) }
}

/// Outputs, then inputs; and whether one is the other.
pub(super) fn together<'a>(outputs: &[Slot<'a>], inputs: &[Slot<'a>]) -> ([Slot<'a>; MAX_OPERANDS], bool) {
    let mut slots = [Slot { address: std::ptr::null_mut(), stride: &[], element: 0 }; MAX_OPERANDS];
    slots[..outputs.len()].copy_from_slice(outputs);
    slots[outputs.len()..outputs.len() + inputs.len()].copy_from_slice(inputs);
    (slots, is_in_place(outputs, inputs))
}

/// Whether an output is an input.
#[inline]
fn is_in_place(outputs: &[Slot<'_>], inputs: &[Slot<'_>]) -> bool {
    outputs.iter().any(|out| inputs.iter().any(|input| input.address == out.address))
}

/// Whether an output is larger than the caches by far.
pub(super) fn is_large(sizes: &[usize], output: &Slot<'_>) -> bool {
    walk::numel(sizes).saturating_mul(output.element) >= STREAMED
}

/// A kernel and its program, without their type: everything from here on is compiled once.
pub(super) struct Job<'a> {
    /// The contiguous loop; see [`MapKernel`].
    row: unsafe fn(program: *const (), n: usize, pointers: &Addresses),
    program: *const (),
    pub(super) outputs: usize,
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
        let (slots, in_place) = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        walk::each(sizes, slots, Order::OfOutput, &mut |walk| {
            walk::parallel(walk, 1, &|part| {
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe { self.part(&part, slots, in_place) }
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
        if !is_in_place(outputs, inputs) {
            // SAFETY: the caller's promise.
            return unsafe { (self.row)(self.program, n, &pointers) };
        }
        // Outputs that are inputs: block by block through a buffer (see the module's head).
        let mut words = Words::<{ IN_PLACE / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let widths = outputs.iter().map(|slot| slot.element).sum::<usize>();
        let most = IN_PLACE - 8 * outputs.len();
        let block = if n.saturating_mul(widths) <= most { n.max(1) } else { most / widths.max(1) };
        let mut there = [std::ptr::null_mut(); MAX_OPERANDS];
        for (k, slot) in outputs.iter().enumerate() {
            there[k] = std::mem::replace(&mut pointers[k], room.take(block * slot.element));
        }
        for at in (0..n).step_by(block) {
            let len = block.min(n - at);
            // SAFETY: the caller's promise, for `len` elements from `at` on.
            unsafe {
                (self.row)(self.program, len, &pointers);
                for (k, slot) in outputs.iter().enumerate() {
                    std::ptr::copy_nonoverlapping(pointers[k], there[k], len * slot.element);
                    there[k] = there[k].wrapping_add(len * slot.element);
                }
            }
            for (pointer, &read) in pointers[outputs.len()..].iter_mut().zip(self.reads) {
                *pointer = pointer.wrapping_add(len * inputs[read as usize].element);
            }
        }
    }

    /// What the program's outputs have, then what each of its loads has, from what each operand has.
    fn spread<T: Copy>(&self, base: &[T; MAX_OPERANDS + 1]) -> [T; MAX_OPERANDS + 1] {
        let mut pointers = *base;
        for (pointer, &read) in pointers[self.outputs..].iter_mut().zip(self.reads) {
            *pointer = base[self.outputs + read as usize];
        }
        pointers
    }

    /// Runs the kernel on `rows` rows of `n` elements, which begin at `base` and stand `down` bytes apart.
    ///
    /// # Safety
    /// The kernel's promise, for every row.
    pub(super) unsafe fn each_row(&self, base: &Addresses, down: &[isize; MAX_OPERANDS + 1], rows: usize, n: usize) {
        let (mut pointers, down) = (self.spread(base), self.spread(down));
        for _ in 0..rows {
            // SAFETY: the caller's promise.
            unsafe { (self.row)(self.program, n, &pointers) };
            for (pointer, &down) in pointers.iter_mut().zip(&down).take(self.outputs + self.reads.len()) {
                *pointer = pointer.wrapping_offset(down);
            }
        }
    }

    unsafe fn part(&self, walk: &Walk, slots: &[Slot<'_>], in_place: bool) {
        let linear = |k: usize| walk.is_linear(k, slots[k].element);
        let buffered = |k: usize| k < self.outputs && (in_place || self.streams);
        let n = walk.numel();
        if (0..slots.len()).all(|k| linear(k) && !buffered(k)) {
            // SAFETY: every operand is one run of `n` elements.
            return unsafe { (self.row)(self.program, n, &self.spread(&walk.address)) };
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
            let element = slots.iter().map(|slot| slot.element).max().unwrap_or(1);
            let rows = match (crosswise, axis) {
                (Some(_), _) => 64 / element.clamp(1, 16),
                (_, Some(_)) => ROWS,
                _ => 1,
            };
            let block = ((SCRATCH - 8 * MAX_OPERANDS) / (rows * widths)).min(BLOCK);
            (rows, (block / 16 * 16).max(1))
        };
        let packed = std::array::from_fn(|k| (k < slots.len() && is_packed(k)).then(|| room.take(rows * block * slots[k].element)));
        // SAFETY: the caller's promise; there is room for `rows · block` elements of each packed operand.
        unsafe {
            if by_rows {
                self.in_rows(walk, slots, &packed, axis, [rows, block]);
            } else {
                self.gathered(walk, slots, &packed, block);
            }
        }
    }

    /// Tiles of some rows, which stand along `axis` if there is one, and up to `block` columns.
    unsafe fn in_rows(&self, walk: &Walk, slots: &[Slot<'_>], packed: &Packed, axis: Option<usize>, [most, block]: [usize; 2]) {
        let height = axis.map_or(1, |axis| walk.size(axis));
        let step = |k: usize| axis.map_or(0, |axis| walk.step(axis, k));
        let around = walk.around(axis);
        let mut index = around.index_of(0);
        for _ in 0..around.numel() {
            for top in (0..height).step_by(most) {
                let rows = most.min(height - top);
                for left in (0..walk.inner()).step_by(block) {
                    let columns = block.min(walk.inner() - left);
                    let corner = |k: usize| {
                        let to = (top as isize).wrapping_mul(step(k)).wrapping_add((left as isize).wrapping_mul(walk.inner_step(k)));
                        around.address_at(k, &index).wrapping_offset(to)
                    };
                    let (mut base, mut down) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS + 1]);
                    for (k, slot) in slots.iter().enumerate() {
                        (base[k], down[k]) = match packed[k] {
                            Some(room) => (room, (block * slot.element) as isize),
                            None => (corner(k), step(k)),
                        };
                        if k >= self.outputs && packed[k].is_some() {
                            let (room, steps) = ([down[k], slot.element as isize], [step(k), walk.inner_step(k)]);
                            // SAFETY: a tile of this operand, which the caller promised, into room for it.
                            unsafe { pack::rectangle(base[k], room, corner(k), steps, [rows, columns], slot.element) };
                        }
                    }
                    // SAFETY: every pointer has rows of `columns` elements; outputs are packed or overlap nothing.
                    unsafe { self.each_row(&base, &down, rows, columns) };
                    for (k, slot) in slots.iter().enumerate().take(self.outputs) {
                        let Some(room) = packed[k] else { continue };
                        for row in 0..rows {
                            let to = corner(k).wrapping_offset(row as isize * step(k));
                            let from = room.wrapping_add(row * block * slot.element);
                            // SAFETY: a row of the output's tile, which the caller promised, from where it was packed.
                            unsafe { self.put(to, walk.inner_step(k), from, columns, slot.element) };
                        }
                    }
                }
            }
            around.advance(&mut index, 1);
        }
    }

    pub(super) unsafe fn put(&self, to: *mut u8, step: isize, from: *mut u8, n: usize, element: usize) {
        // SAFETY: the caller's promise: `n` elements at both ends.
        unsafe {
            if self.streams && step == element as isize {
                pack::stream(to, from, n * element);
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
                if k >= self.outputs && packed[k].is_some() {
                    // SAFETY: `len` ≤ `block` elements of this operand, which the caller promised, into room for a block.
                    unsafe { pack::gather(walk, k, index, len, slot.element, base[k]) };
                }
            }
            // SAFETY: every pointer has `len` contiguous elements; outputs are packed or overlap nothing.
            unsafe { (self.row)(self.program, len, &self.spread(&base)) };
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
