//! Reducers over axes: rows (the reduced axis is contiguous) and columns (a kept axis is).
//!
//! How one contiguous row is reduced stands in `fold.rs`, how columns are in `columns.rs`.
//! Imports: `scalar`, `element`, `kernel`, `device`.

use super::columns::{Tiles, WIDTH, columns};
use super::fold::{Cascade, DIGITS, LANES, LEAF, State, absorb, collapse, leaf, row};
use super::io::{ROUNDING, Scratch, Words};
use super::memory::CpuBlock;
use super::pack;
use super::simd::{self, Loop};
use super::threads;
use super::walk::{self, Addresses, Index, Order, Walk};
use crate::device::{Inputs, MAX_OPERANDS, Reduction, Slot};
use crate::element::{Compute, Element};
use crate::kernel::{Body, Reducer};
use crate::scalar::{Lane, Run};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Columns below which rows are the better choice.
const NARROWEST: usize = 8;
/// Values of a long row that one thread takes at a time: a power of two leaves, so that their state is a node of the tree.
const STRETCH: usize = 16 * LEAF;
/// Bytes of packed elements of all operands together.
pub(super) const SCRATCH: usize = 32 * 1024;

/// The loops of one body and reducer, with their types erased.
#[derive(Clone, Copy)]
pub(crate) struct ReduceKernel {
    pub(super) packed_row: unsafe fn(body: *const (), blocks: &mut Blocks<'_>, count: usize, out: *mut u8),
    pub(super) stretch: unsafe fn(body: *const (), blocks: &mut Blocks<'_>, at: usize, state: *mut u8),
    pub(super) join: unsafe fn(body: *const (), states: *const u8, stretches: usize, count: usize, out: *mut u8),
    /// Bytes of a state.
    pub(super) state: usize,
    /// How many elements are the work of one that a program computes and writes: little is done with what is only read, least
    /// with what is narrow (two threads gain from 2¹⁸ elements of f32 on, and from 2¹⁷ of f64).
    pub(super) light: usize,
    pub(super) short_rows: unsafe fn(body: *const (), rows: &Rows),
    pub(super) long_rows: unsafe fn(body: *const (), rows: &Rows),
    pub(super) columns: unsafe fn(body: *const (), tiles: &mut Tiles<'_>, count: usize, out: *mut u8, out_step: isize),
}

impl ReduceKernel {
    /// The kernel of reducer `R` over body `B`.
    pub(crate) const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        ReduceKernel {
            packed_row: packed_row::<B, R>,
            stretch: stretch::<B, R>,
            join: join::<B, R>,
            state: size_of::<State<B, R>>(),
            light: Self::light::<B, R>(),
            short_rows: rows::<B, R, false>,
            long_rows: rows::<B, R, true>,
            columns: columns::<B, R>,
        }
    }

    pub(super) const fn light<B: Body, R: Reducer<B::Out>>() -> usize {
        match size_of::<Compute<B::Out>>() {
            _ if !B::LIGHT || !R::LIGHT => 1,
            0..=4 => 8,
            _ => 4,
        }
    }
}

/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce).
pub(super) unsafe fn run<B: Body, R: Reducer<B::Out>>(body: &B, _: R, axes: Reduction<'_>, output: Slot<'_>, inputs: Inputs<'_>) {
    let kernel = const { ReduceKernel::of::<B, R>() };
    // SAFETY: the caller's promise; the kernel is that of the types of body and reducer.
    unsafe { run_job(kernel, std::ptr::from_ref(body).cast(), axes, output, inputs) }
}

/// Reduces by a kernel.
///
/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce); the kernel takes what is at `body`.
pub(super) unsafe fn run_job(kernel: ReduceKernel, body: *const (), axes: Reduction<'_>, output: Slot<'_>, inputs: Inputs<'_>) {
    let numel = walk::numel(axes.kept).saturating_mul(walk::numel(axes.reduced));
    let nbytes = inputs.slots.iter().map(|slot| slot.element).sum::<usize>().saturating_mul(numel);
    let job = Job { kernel, body, inputs, early: simd::early(nbytes) };
    // SAFETY: the caller's promise.
    unsafe { job.drive(axes, output) }
}

/// A kernel and its body, without their types: everything in `impl Job` is compiled once.
pub(super) struct Job<'a> {
    pub(super) kernel: ReduceKernel,
    pub(super) body: *const (),
    pub(super) inputs: Inputs<'a>,
    /// How far ahead contiguous rows are fetched, in bytes ([`simd::early`]).
    pub(super) early: usize,
}
// SAFETY: bodies are `Send + Sync` by their trait's bounds and outlive the job; addresses are only followed as promised.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    unsafe fn drive(&self, axes: Reduction<'_>, output: Slot<'_>) {
        let count: usize = axes.reduced.iter().product();
        // SAFETY: as the caller promises.
        if unsafe { self.few_rows(axes, &output) } {
            return;
        }
        let operands = self.inputs.slots.len();
        let mut kept = [output; MAX_OPERANDS];
        let mut reduced = [output; MAX_OPERANDS];
        for (k, slot) in self.inputs.slots.iter().enumerate() {
            let (outer, inner) = slot.stride.split_at(axes.kept.len());
            kept[k + 1] = Slot { stride: outer, ..*slot };
            reduced[k] = Slot { stride: inner, address: std::ptr::null_mut(), ..*slot };
        }
        let inner = walk::only(axes.reduced, &reduced[..operands], Order::RowMajor);
        walk::each(axes.kept, &kept[..operands + 1], Order::OfOutput, &mut |outer| {
            // Rows and columns sum in another order: which they are may not depend on the parts, whose number is that of threads.
            let columns = inner.as_ref().is_some_and(|inner| self.prefers_columns(outer, inner, count));
            walk::parallel_by(outer, count.div_ceil(self.kernel.light), if columns { WIDTH } else { 1 }, &|part| {
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe { self.part(part, inner.as_ref(), count, columns) }
            });
        });
    }

    /// Reduces the rows of a small reduction that are contiguous in every operand and stand at equal distances, if they are
    /// such: then there is nothing to walk, and a tensor of a few elements does not pay for it. Says whether they were.
    unsafe fn few_rows(&self, axes: Reduction<'_>, output: &Slot<'_>) -> bool {
        let slots = self.inputs.slots;
        let [mut down, mut out_step, mut along] = [[0; MAX_OPERANDS]; 3];
        let (Some(rows), Some(_), Some(count)) = (
            walk::one_axis(axes.kept, 0, slots, &mut down),
            walk::one_axis(axes.kept, 0, std::slice::from_ref(output), &mut out_step),
            walk::one_axis(axes.reduced, axes.kept.len(), slots, &mut along),
        ) else {
            return false;
        };
        let contiguous = slots.iter().zip(&along).all(|(slot, &step)| count == 1 || step == slot.element as isize);
        let sum = |steps: &[isize]| steps[..slots.len()].iter().map(|step| step.unsigned_abs()).sum();
        let small = rows.saturating_mul(count) / self.kernel.light < walk::SHARED;
        if !contiguous || !small || prefers_columns(count, [rows, rows], sum(&along), sum(&down)) {
            return false;
        }
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for (k, &read) in self.inputs.reads.iter().enumerate() {
            (pointers[k], steps[k]) = (slots[read as usize].address, down[read as usize]);
        }
        let rows = Rows { pointers, steps, rows, count, out: output.address, out_step: out_step[0], early: 0 };
        // SAFETY: as the caller promises.
        unsafe { self.rows(&rows) }
        true
    }

    /// Reduces rows that stand at equal distances.
    unsafe fn rows(&self, rows: &Rows) {
        let kernel = if rows.count <= LEAF { self.kernel.short_rows } else { self.kernel.long_rows };
        // SAFETY: as the caller promises.
        unsafe { kernel(self.body, rows) }
    }

    /// Whether a kept axis is the one to go along in memory.
    fn prefers_columns(&self, outer: &Walk, inner: &Walk, count: usize) -> bool {
        let step = |walk: &Walk, k: usize| walk.inner_step(k).unsigned_abs();
        let along: usize = (0..self.inputs.slots.len()).map(|k| step(inner, k)).sum();
        let across: usize = (0..self.inputs.slots.len()).map(|k| step(outer, k + 1)).sum();
        // Columns keep thousands of states on the stack.
        self.kernel.state <= COLUMN_STATE && prefers_columns(count, [outer.numel(), outer.inner()], along, across)
    }

    unsafe fn part(&self, outer: &Walk, inner: Option<&Walk>, count: usize, columns: bool) {
        let Some(inner) = inner else {
            // Nothing to reduce: what `finish` makes of the identity, everywhere.
            let mut index = outer.index_of(0);
            for _ in 0..outer.numel() {
                let mut none = Blocks { job: self, walk: None, index: outer.index_of(0), left: 0, scratch: [None; MAX_OPERANDS], block: 0 };
                // SAFETY: the output's positions are promised; no element is read.
                unsafe { (self.kernel.packed_row)(self.body, &mut none, 0, outer.address_at(0, &index)) };
                outer.advance(&mut index, 1);
            }
            return;
        };
        if columns {
            // SAFETY: as the caller promises.
            unsafe { self.by_columns(outer, inner, count) }
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.by_rows(outer, inner, count) }
        }
    }

    /// Where each input stands for the output at `index`.
    pub(super) fn addresses(&self, outer: &Walk, index: &Index) -> Addresses {
        std::array::from_fn(|k| if k < self.inputs.slots.len() { outer.address_at(k + 1, index) } else { std::ptr::null_mut() })
    }

    /// How many elements of every buffered operand fit the scratch.
    pub(super) fn block(&self, scratch: usize) -> usize {
        let widths: usize = self.inputs.slots.iter().map(|slot| slot.element).sum();
        ((scratch - ROUNDING) / widths.max(1)) / LANES * LANES
    }

    unsafe fn by_rows(&self, outer: &Walk, inner: &Walk, count: usize) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        let block = self.block(SCRATCH);
        for (k, slot) in self.inputs.slots.iter().enumerate() {
            if !inner.is_linear(k, slot.element) {
                scratch[k] = Some(room.take(block * slot.element));
            }
        }
        let packed = scratch.iter().any(Option::is_some);
        let shared = count >= 2 * STRETCH && outer.numel() < threads::count();
        if inner.is_line() && if packed { count <= block } else { !shared } {
            // SAFETY: as the caller promises; there is room for a row of every packed operand.
            return unsafe { self.by_lines(outer, inner, count, &scratch, packed) };
        }
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let (base, out) = (self.addresses(outer, &index), outer.address_at(0, &index));
            // SAFETY: the row and the blocks hold elements that the caller promised; so is this output's position.
            unsafe {
                let is_done = shared && self.by_stretches(&inner.from(base), count, out);
                if !is_done && packed {
                    let walk = Some(inner.from(base));
                    let mut blocks = Blocks { job: self, walk, index: inner.index_of(0), left: count, scratch, block };
                    (self.kernel.packed_row)(self.body, &mut blocks, count, out);
                } else if !is_done {
                    self.rows(&Rows {
                        pointers: self.spread(&base),
                        steps: [0; MAX_OPERANDS],
                        rows: 1,
                        count,
                        out,
                        out_step: 0,
                        early: self.early,
                    });
                }
            }
            outer.advance(&mut index, 1);
        }
    }

    /// One long row on every core; `false` where there is no memory for the states of its stretches.
    unsafe fn by_stretches(&self, row: &Walk, count: usize, out: *mut u8) -> bool {
        let (stretches, size) = (count.div_ceil(STRETCH), self.kernel.state);
        let Ok(states) = CpuBlock::scratch(stretches * size) else { return false };
        threads::each(stretches, false, &|k| {
            let at = k * STRETCH;
            // SAFETY: the caller's promise for these of the row's values; each stretch has a state of its own.
            unsafe { self.stretch(row, at, STRETCH.min(count - at), states.address().add(k * size)) }
        });
        // SAFETY: every stretch wrote its state; the caller's promise for the output.
        unsafe { (self.kernel.join)(self.body, states.address(), stretches, count, out) };
        true
    }

    /// The state of the `n` values of a row from number `at` on.
    unsafe fn stretch(&self, row: &Walk, at: usize, n: usize, state: *mut u8) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let block = self.block(SCRATCH);
        let mut scratch = [None; MAX_OPERANDS];
        for (k, slot) in self.inputs.slots.iter().enumerate() {
            if !row.is_linear(k, slot.element) {
                scratch[k] = Some(room.take(block * slot.element));
            }
        }
        let block = if scratch.iter().any(Option::is_some) { block } else { usize::MAX };
        let mut blocks = Blocks { job: self, walk: Some(*row), index: row.index_of(at), left: n, scratch, block };
        // SAFETY: the blocks hold elements that the caller promised, and there is room for a state.
        unsafe { (self.kernel.stretch)(self.body, &mut blocks, at, state) };
    }

    /// Rows that are contiguous, or are once packed: as many in one call as stand at equal distances.
    unsafe fn by_lines(&self, outer: &Walk, inner: &Walk, count: usize, scratch: &[Option<*mut u8>; MAX_OPERANDS], packed: bool) {
        let (mut index, mut done) = (outer.index_of(0), 0);
        let mut steps = [0; MAX_OPERANDS];
        for (step, &read) in steps.iter_mut().zip(self.inputs.reads) {
            *step = outer.inner_step(read as usize + 1);
        }
        let follows = |(k, slot): (usize, &Slot<'_>)| match outer.inner_step(k + 1) {
            0 => true,
            down => simd::follows(count.saturating_mul(slot.element), down),
        };
        let is_fetched = !packed && self.early > 0 && self.inputs.slots.iter().enumerate().all(follows);
        let early = if is_fetched { self.early } else { 0 };
        while done < outer.numel() {
            let mut base = self.addresses(outer, &index);
            for (k, slot) in self.inputs.slots.iter().enumerate() {
                if let Some(room) = scratch[k] {
                    // SAFETY: `count` elements of this operand, promised by the caller, into room for as many.
                    unsafe { pack::strided(room, slot.element as isize, base[k], inner.inner_step(k), count, slot.element) };
                    base[k] = room;
                }
            }
            let rows = if packed { 1 } else { outer.left_in_row(&index) };
            let (out, out_step) = (outer.address_at(0, &index), outer.inner_step(0));
            // SAFETY: `rows` rows of promised elements, and their outputs.
            unsafe { self.rows(&Rows { pointers: self.spread(&base), steps, rows, count, out, out_step, early }) };
            outer.advance(&mut index, rows);
            done += rows;
        }
    }

    /// One pointer for each load of the body.
    pub(super) fn spread(&self, base: &Addresses) -> Addresses {
        let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for (pointer, &read) in pointers.iter_mut().zip(self.inputs.reads) {
            *pointer = base[read as usize];
        }
        pointers
    }
}

/// Whether rows of `count` values, of which there are so many in all and along the fastest axis, are reduced side by side;
/// what the steps from value to value, and from row to row, come to.
fn prefers_columns(count: usize, [rows, inner]: [usize; 2], along: usize, across: usize) -> bool {
    let narrow = count < LANES && rows >= WIDTH;
    inner >= NARROWEST && (narrow || (across != 0 && across < along))
}

/// Bytes of a state, at most, of which columns are reduced side by side.
const COLUMN_STATE: usize = 64;

/// The values of one row, a contiguous block at a time.
pub(super) struct Blocks<'a> {
    job: &'a Job<'a>,
    walk: Option<Walk>,
    index: Index,
    pub(super) left: usize,
    scratch: [Option<*mut u8>; MAX_OPERANDS],
    pub(super) block: usize,
}

impl Blocks<'_> {
    /// The next block of at most `most` values: their pointers and how many; 0 at the end.
    pub(super) fn next(&mut self, most: usize) -> (Addresses, usize) {
        let n = self.left.min(self.block).min(most);
        let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        if let Some(walk) = &self.walk
            && n > 0
        {
            for (k, slot) in self.job.inputs.slots.iter().enumerate() {
                base[k] = self.scratch[k].unwrap_or_else(|| walk.address_at(k, &self.index));
                if self.scratch[k].is_some() {
                    // SAFETY: `n` elements of this operand, promised by the caller of `drive`, into room for a block.
                    unsafe { pack::gather(walk, k, self.index, n, slot.element, base[k]) };
                }
            }
            walk.advance(&mut self.index, n);
        }
        self.left -= n;
        (self.job.spread(&base), n)
    }
}

/// The state of a row, or of a stretch of one, whose first value has number `at`.
#[inline(always)]
fn state_of<B: Body, R: Reducer<B::Out>>(body: B, blocks: &mut Blocks<'_>, mut at: usize) -> State<B, R> {
    let combine = R::combine::<Run>;
    let is_packed = blocks.block != usize::MAX;
    let early = if is_packed { 0 } else { blocks.job.early };
    let contiguous = |(pointers, n), at| simd::dispatch(Contiguous::<B, R> { body, pointers, n, at, early, reducer: PhantomData });
    if !is_packed {
        return contiguous(blocks.next(usize::MAX), at);
    }
    let mut digits = [const { MaybeUninit::uninit() }; DIGITS];
    let mut cascade = Cascade::over(&mut digits);
    while blocks.left > 0 {
        if R::BY_SLICE {
            // A leaf, or as much of one as a block has room for.
            let (pointers, n) = blocks.next(LEAF);
            cascade.push(contiguous((pointers, n), at), combine);
            at += n;
            continue;
        }
        // A leaf of several blocks, which its states take in one after the other.
        let mut states = [R::identity::<Run>(); LANES];
        let mut room = LEAF;
        while room > 0 && blocks.left > 0 {
            let (pointers, n) = blocks.next(room);
            simd::dispatch(Absorb::<B, R> { body, pointers, n, at, states: &mut states });
            (at, room) = (at + n, room - n);
        }
        cascade.push(collapse::<B, R, false>(states), combine);
    }
    cascade.join(R::identity::<Run>(), combine)
}

/// Writes what a row of `count` values with this state comes to.
///
/// # Safety
/// `out` has room for one `R::Out`.
#[inline(always)]
unsafe fn finish<B: Body, R: Reducer<B::Out>>(state: State<B, R>, count: usize, out: *mut u8) {
    let value = R::finish::<Run>(state, Lane(count as i64)).0;
    // SAFETY: the caller's promise.
    unsafe { out.cast::<R::Out>().write(R::Out::narrow(value)) };
}

/// Reduces one row to one output, a block at a time.
///
/// # Safety
/// `body` points to a `B`; the blocks hold its operands' elements; `out` has room for one `R::Out`.
unsafe fn packed_row<B: Body, R: Reducer<B::Out>>(body: *const (), blocks: &mut Blocks<'_>, count: usize, out: *mut u8) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    // SAFETY: the caller's promise.
    unsafe { finish::<B, R>(state_of::<B, R>(body, blocks, 0), count, out) };
}

/// Reduces a stretch of a row, from number `at` on, to one state.
///
/// # Safety
/// As `packed_row`; `state` has room for one of its states.
unsafe fn stretch<B: Body, R: Reducer<B::Out>>(body: *const (), blocks: &mut Blocks<'_>, at: usize, state: *mut u8) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    // SAFETY: the caller's promise.
    unsafe { state.cast::<State<B, R>>().write_unaligned(state_of::<B, R>(body, blocks, at)) };
}

/// Joins the states of a row's stretches, as the leaves would have been joined one by one.
///
/// # Safety
/// `stretches` states stand at `states`; `out` has room for one `R::Out`.
unsafe fn join<B: Body, R: Reducer<B::Out>>(_: *const (), states: *const u8, stretches: usize, count: usize, out: *mut u8) {
    let combine = R::combine::<Run>;
    let mut digits = [const { MaybeUninit::uninit() }; DIGITS];
    let mut cascade = Cascade::over(&mut digits);
    for k in 0..stretches {
        // SAFETY: the caller's promise.
        cascade.push(unsafe { states.cast::<State<B, R>>().add(k).read_unaligned() }, combine);
    }
    // SAFETY: the caller's promise.
    unsafe { finish::<B, R>(cascade.join(R::identity::<Run>(), combine), count, out) };
}

/// Contiguous rows, one output a row.
pub(super) struct Rows {
    /// The first row of each load, and the steps from row to row, in bytes.
    pub(super) pointers: Addresses,
    pub(super) steps: [isize; MAX_OPERANDS],
    pub(super) rows: usize,
    pub(super) count: usize,
    pub(super) out: *mut u8,
    pub(super) out_step: isize,
    /// How far ahead they are fetched, in bytes.
    early: usize,
}

/// Reduces each of some rows to one output.
///
/// # Safety
/// `body` points to a `B`; the rows hold its operands' elements; the outputs have room for one `R::Out` each.
unsafe fn rows<B: Body, R: Reducer<B::Out>, const LONG: bool>(body: *const (), rows: &Rows) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    simd::dispatch(AbsorbRows::<B, R, LONG> { body, rows, reducer: PhantomData });
}

/// Rows of one leaf each at most, or long ones.
struct AbsorbRows<'a, B, R, const LONG: bool> {
    body: B,
    rows: &'a Rows,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>, const LONG: bool> Loop for AbsorbRows<'_, B, R, LONG> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { rows, count, mut out, out_step, early, .. } = *self.rows;
        // What the body has no load for is not moved.
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..B::LOADS {
            (pointers[k], steps[k]) = (self.rows.pointers[k], self.rows.steps[k]);
        }
        for _ in 0..rows {
            let state = if LONG {
                row::<B, R, false>(self.body, &pointers, 0, count, 0, early)
            } else {
                leaf::<B, R, false>(self.body, &pointers, 0, 0..count, 0, early)
            };
            // SAFETY: whoever made the rows promised room for each output (`rows`).
            unsafe { finish::<B, R>(state, count, out) };
            out = out.wrapping_offset(out_step);
            for k in 0..B::LOADS {
                pointers[k] = pointers[k].wrapping_offset(steps[k]);
            }
        }
    }
}

/// A stretch of a row, or a block of one.
struct Contiguous<B, R> {
    body: B,
    pointers: Addresses,
    n: usize,
    at: usize,
    early: usize,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for Contiguous<B, R> {
    type Output = State<B, R>;
    #[inline(always)]
    fn run(self) -> State<B, R> {
        let Contiguous { body, pointers, n, at, early, .. } = self;
        row::<B, R, false>(body, &pointers, 0, n, at, early)
    }
}

struct Absorb<'a, B: Body, R: Reducer<B::Out>> {
    body: B,
    pointers: Addresses,
    n: usize,
    at: usize,
    states: &'a mut [State<B, R>; LANES],
}

impl<B: Body, R: Reducer<B::Out>> Loop for Absorb<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Absorb { body, pointers, n, at, states } = self;
        *states = absorb::<B, R, false>(body, &pointers, 0, 0..n, at, 0, *states);
    }
}
