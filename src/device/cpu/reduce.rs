//! Reducers over axes: rows (the reduced axis is contiguous) and columns (a kept axis is).
//!
//! How one contiguous row is reduced stands in `fold.rs`, how columns are in `columns.rs`, what becomes of states in `states.rs`.
// Imports: `error`, `element`, `kernel`, `device`.

use super::columns::{self, Strips, WIDTH};
use super::fold::{DIGITS, LANES, LEAF, State, leaf};
use super::io::{By, Mode, ROUNDING, Scratch, Words};
use super::memory::CpuBlock;
use super::pack;
use super::simd::{self, Loop};
use super::states::{COLUMN_STATE, Cascade, StateRoom, States, finalize};
use super::threads;
use super::walk::{self, Addresses, Index, Order, Walk};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef, Reduction};
use crate::element::Compute;
use crate::error::Result;
use crate::kernel::{Body, Reducer};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// Columns below which rows are the better choice.
const NARROWEST: usize = 8;
/// Values of a long row that one thread takes at a time: a power of two leaves, so that their state is a node of the tree.
const STRETCH: usize = 16 * LEAF;
/// Leaves of a long row that are reduced in one call.
const LEAVES: usize = 16;
/// Bytes of packed elements of all operands together.
pub(super) const SCRATCH: usize = 32 * 1024;

/// The loops of one body and reducer, with their types erased: one over rows, one over columns, and what is done with states.
#[derive(Clone, Copy)]
pub(super) struct ReduceKernel {
    pub(super) rows: unsafe fn(body: *const (), rows: &Rows),
    pub(super) columns: unsafe fn(body: *const (), strips: &Strips),
    pub(super) states: States,
    /// How many elements are the work of one that a program computes and writes: little is done with what is only read, least
    /// with what is narrow (two threads gain from 2¹⁸ elements of f32 on, and from 2¹⁷ of f64).
    pub(super) light: usize,
}

impl ReduceKernel {
    /// The kernel of reducer `R` over body `B`.
    const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        ReduceKernel {
            rows: rows::<B, R>,
            columns: columns::accumulate::<B, R>,
            states: States::of::<B, R>(),
            light: Self::light_of::<B, R>(),
        }
    }

    pub(super) const fn light_of<B: Body, R: Reducer<B::Out>>() -> usize {
        match size_of::<Compute<B::Out>>() {
            _ if !B::CHEAP || !R::CHEAP => 1,
            0..=4 => 8,
            _ => 4,
        }
    }
}

/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce).
pub(super) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    body: &B,
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &ReduceKernel::of::<B, R>() };
    // SAFETY: the caller's promise; the kernel is that of the types of body and reducer.
    unsafe { run_job(kernel, std::ptr::from_ref(body).cast(), axes, output, inputs) }
}

/// Reduces by a kernel.
///
/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce); the kernel is that of what is at `body`.
pub(super) unsafe fn run_job(
    kernel: &ReduceKernel,
    body: *const (),
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let numel = walk::numel(axes.kept).saturating_mul(walk::numel(axes.reduced));
    let nbytes = inputs.slots.iter().map(|slot| slot.element).sum::<usize>().saturating_mul(numel);
    let job = Job { kernel, body, inputs, early: simd::early(nbytes) };
    // SAFETY: the caller's promise.
    unsafe { job.drive(axes, output) }
}

/// A kernel and its body, without their types: everything in `impl Job` is compiled once.
pub(super) struct Job<'a> {
    pub(super) kernel: &'a ReduceKernel,
    pub(super) body: *const (),
    pub(super) inputs: Inputs<'a>,
    /// How far ahead contiguous rows are fetched, in bytes ([`simd::early`]).
    pub(super) early: usize,
}
// SAFETY: bodies are `Send + Sync` by their trait's bounds and outlive the job; addresses are only followed as promised.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    unsafe fn drive(&self, axes: Reduction<'_>, output: OperandRef<'_>) -> Result<()> {
        let count: usize = axes.reduced.iter().product();
        // SAFETY: as the caller promises.
        if unsafe { self.few_rows(axes, &output)? } {
            return Ok(());
        }
        let operands = self.inputs.slots.len();
        let mut kept = [output; MAX_OPERANDS];
        let mut reduced = [output; MAX_OPERANDS];
        for (k, slot) in self.inputs.slots.iter().enumerate() {
            let (outer, inner) = slot.stride.split_at(axes.kept.len());
            kept[k + 1] = OperandRef { stride: outer, ..*slot };
            reduced[k] = OperandRef { stride: inner, address: std::ptr::null_mut(), ..*slot };
        }
        let inner = walk::only(axes.reduced, &reduced[..operands], Order::RowMajor);
        let result = Mutex::new(Ok(()));
        walk::each(axes.kept, &kept[..operands + 1], Order::OfOutput, &mut |outer| {
            // Rows and columns sum in another order: which they are may not depend on the parts, whose number is that of threads.
            let columns = inner.as_ref().is_some_and(|inner| self.prefers_columns(outer, inner, count));
            walk::parallel_by(
                outer,
                count.div_ceil(self.kernel.light),
                if columns { WIDTH } else { 1 },
                &|part| {
                    // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                    let done = unsafe { self.part(part, inner.as_ref(), count, columns) };
                    if done.is_err() {
                        *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
                    }
                },
            );
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reduces the rows of a small reduction that are contiguous in every operand and stand at equal distances, if they are
    /// such: then there is nothing to walk, and a tensor of a few elements does not pay for it. Says whether they were.
    unsafe fn few_rows(&self, axes: Reduction<'_>, output: &OperandRef<'_>) -> Result<bool> {
        let slots = self.inputs.slots;
        let [mut down, mut out_step, mut along] = [[0; MAX_OPERANDS]; 3];
        let (Some(rows), Some(_), Some(count)) = (
            walk::one_axis(axes.kept, 0, slots, &mut down),
            walk::one_axis(axes.kept, 0, std::slice::from_ref(output), &mut out_step),
            walk::one_axis(axes.reduced, axes.kept.len(), slots, &mut along),
        ) else {
            return Ok(false);
        };
        let contiguous =
            slots.iter().zip(&along).all(|(slot, &step)| count == 1 || step == slot.element as isize);
        let sum = |steps: &[isize]| steps[..slots.len()].iter().map(|step| step.unsigned_abs()).sum();
        let small = rows.saturating_mul(count) / self.kernel.light < walk::SHARED;
        if !contiguous || !small || prefers_columns(count, [rows, rows], sum(&along), sum(&down)) {
            return Ok(false);
        }
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for (k, &read) in self.inputs.reads.iter().enumerate() {
            (pointers[k], steps[k]) = (slots[read as usize].address, down[read as usize]);
        }
        let out = Output { address: output.address, step: out_step[0], is_state: false };
        // SAFETY: as the caller promises.
        unsafe { self.rows(&Rows { pointers, steps, rows, count, at: [0; 2], out, early: 0 })? };
        Ok(true)
    }

    /// Reduces rows that stand at equal distances.
    #[inline]
    unsafe fn rows(&self, rows: &Rows) -> Result<()> {
        if rows.count > LEAF {
            // SAFETY: as the caller promises.
            return unsafe { self.long_rows(rows) };
        }
        // SAFETY: as the caller promises.
        unsafe { (self.kernel.rows)(self.body, rows) };
        Ok(())
    }

    /// As [`rows`](Job::rows), of more than a leaf each: to the kernel some leaves are as many rows, whose states are wanted.
    unsafe fn long_rows(&self, rows: &Rows) -> Result<()> {
        let states = &self.kernel.states;
        let most = (DIGITS * COLUMN_STATE / 2 / states.size.max(1)).clamp(1, LEAVES);
        let most = 1 << most.ilog2();
        let digits = (rows.count / LEAF / most + 1).ilog2() as usize + 1;
        let mut room = StateRoom::new((most + digits) * states.size)?;
        let leaves = room.address();
        let (mut pointers, mut out) = (rows.pointers, rows.out);
        let mut steps = [0; MAX_OPERANDS];
        for (step, &read) in steps.iter_mut().zip(self.inputs.reads) {
            *step = (LEAF * self.inputs.slots[read as usize].element) as isize;
        }
        // Some leaves one behind the other, whose states go to the places from `place` on.
        let reduce = |pointers: &Addresses, from: usize, leaf: usize, count: usize, place: usize| {
            let mut here = *pointers;
            for (here, step) in here.iter_mut().zip(steps).take(self.inputs.reads.len()) {
                *here = here.wrapping_offset(step.wrapping_mul((from / LEAF) as isize));
            }
            let to = Output {
                address: leaves.wrapping_add(place * states.size),
                step: states.size as isize,
                is_state: true,
            };
            let at = [rows.at[0].wrapping_add(from), LEAF];
            let part = Rows { pointers: here, steps, rows: leaf, count, at, out: to, early: rows.early };
            // SAFETY: as the caller promises; there is room for so many states.
            unsafe { (self.kernel.rows)(self.body, &part) };
        };
        for _ in 0..rows.rows {
            let mut cascade = Cascade::over(states, leaves.wrapping_add(most * states.size), digits, 1);
            let mut done = 0;
            loop {
                let whole = ((rows.count - done) / LEAF).min(most);
                if whole > 0 {
                    reduce(&pointers, done, whole, LEAF, 0);
                    done += whole * LEAF;
                }
                let rest = rows.count - done;
                let n = whole + usize::from(whole < most && rest > 0);
                if n > whole {
                    reduce(&pointers, done, 1, rest, whole);
                    done += rest;
                }
                // SAFETY: the states of the leaves were written, and there is room for the digits; the caller's promise for the output.
                unsafe {
                    let node = states.tree(leaves, n);
                    if done < rows.count {
                        cascade.push(node);
                        continue;
                    }
                    cascade.join(node);
                    if out.is_state {
                        std::ptr::copy_nonoverlapping(node, out.address, states.size);
                    } else {
                        states.finalize(node, 1, rows.count, out.address, 0);
                    }
                }
                break;
            }
            out.address = out.address.wrapping_offset(out.step);
            for (pointer, step) in pointers.iter_mut().zip(rows.steps).take(self.inputs.reads.len()) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        Ok(())
    }

    /// Whether a kept axis is the one to go along in memory.
    fn prefers_columns(&self, outer: &Walk, inner: &Walk, count: usize) -> bool {
        let step = |walk: &Walk, k: usize| walk.inner_step(k).unsigned_abs();
        let along: usize = (0..self.inputs.slots.len()).map(|k| step(inner, k)).sum();
        let across: usize = (0..self.inputs.slots.len()).map(|k| step(outer, k + 1)).sum();
        // Columns keep thousands of states on the stack.
        self.kernel.states.size <= COLUMN_STATE
            && prefers_columns(count, [outer.numel(), outer.inner()], along, across)
    }

    unsafe fn part(&self, outer: &Walk, inner: Option<&Walk>, count: usize, columns: bool) -> Result<()> {
        let Some(inner) = inner else {
            // Nothing to reduce: what `finalize` makes of the identity, everywhere.
            let mut identity = StateRoom::new(self.kernel.states.size)?;
            let identity = identity.address();
            let mut index = outer.index_of(0);
            for _ in 0..outer.numel() {
                // SAFETY: room for a state; the output's positions are promised, and no element is read.
                unsafe {
                    self.kernel.states.identity(identity, 1);
                    self.kernel.states.finalize(identity, 1, 0, outer.address_at(0, &index), 0);
                }
                outer.advance(&mut index, 1);
            }
            return Ok(());
        };
        if columns {
            // SAFETY: as the caller promises.
            unsafe { self.by_columns(outer, inner, count) };
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { self.by_rows(outer, inner, count) }
    }

    /// Where each input stands for the output at `index`.
    pub(super) fn addresses(&self, outer: &Walk, index: &Index) -> Addresses {
        std::array::from_fn(|k| {
            if k < self.inputs.slots.len() { outer.address_at(k + 1, index) } else { std::ptr::null_mut() }
        })
    }

    /// How many elements of every buffered operand fit the scratch.
    pub(super) fn block(&self, scratch: usize) -> usize {
        let widths: usize = self.inputs.slots.iter().map(|slot| slot.element).sum();
        ((scratch - ROUNDING) / widths.max(1)) / LANES * LANES
    }

    unsafe fn by_rows(&self, outer: &Walk, inner: &Walk, count: usize) -> Result<()> {
        let packed = self.packs(inner);
        let shared = count >= 2 * STRETCH && outer.numel() < threads::count();
        if inner.is_line() && if packed { count <= self.block(SCRATCH) } else { !shared } {
            // SAFETY: as the caller promises.
            return unsafe { self.by_lines(outer, inner, count, packed) };
        }
        let mut state = StateRoom::new(self.kernel.states.size)?;
        let state = state.address();
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let (base, out) = (self.addresses(outer, &index), outer.address_at(0, &index));
            // SAFETY: the row holds elements that the caller promised; so is this output's position, and a state has room.
            unsafe {
                if !shared || !self.by_stretches(&inner.from(base), count, out)? {
                    self.stretch(&inner.from(base), 0, count, state)?;
                    self.kernel.states.finalize(state, 1, count, out, 0);
                }
            }
            outer.advance(&mut index, 1);
        }
        Ok(())
    }

    /// Whether an operand is not one run along a row.
    fn packs(&self, row: &Walk) -> bool {
        self.inputs.slots.iter().enumerate().any(|(k, slot)| !row.is_linear(k, slot.element))
    }

    /// One long row on every core; `false` where there is no memory for the states of its stretches.
    unsafe fn by_stretches(&self, row: &Walk, count: usize, out: *mut u8) -> Result<bool> {
        let (stretches, size) = (count.div_ceil(STRETCH), self.kernel.states.size);
        let Ok(states) = CpuBlock::scratch(stretches * size) else { return Ok(false) };
        let result = Mutex::new(Ok(()));
        threads::each(stretches, false, &|k| {
            let at = k * STRETCH;
            // SAFETY: the caller's promise for these of the row's values; each stretch has a state of its own.
            let done =
                unsafe { self.stretch(row, at, STRETCH.min(count - at), states.address().add(k * size)) };
            if done.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        // SAFETY: every stretch wrote its state; the caller's promise for the output.
        unsafe {
            let mut digits = StateRoom::new(DIGITS * size)?;
            let mut cascade = Cascade::over(&self.kernel.states, digits.address(), DIGITS, 1);
            for k in 0..stretches - 1 {
                cascade.push(states.address().add(k * size));
            }
            let last = states.address().add((stretches - 1) * size);
            cascade.join(last);
            self.kernel.states.finalize(last, 1, count, out, 0);
        }
        Ok(true)
    }

    /// The state of the `n` values of a row from number `at` on.
    unsafe fn stretch(&self, row: &Walk, at: usize, n: usize, state: *mut u8) -> Result<()> {
        let mut index = row.index_of(at);
        let leaf = |base: &Addresses, at: usize, n: usize, early: usize, state: *mut u8| {
            let out = Output { address: state, step: 0, is_state: true };
            let rows = Rows {
                pointers: self.spread(base),
                steps: [0; MAX_OPERANDS],
                rows: 1,
                count: n,
                at: [at, 0],
                out,
                early,
            };
            // SAFETY: the caller's promise: elements of every operand, and room for a state.
            unsafe { self.rows(&rows) }
        };
        if !self.packs(row) {
            let base = std::array::from_fn(|k| {
                if k < self.inputs.slots.len() { row.address_at(k, &index) } else { std::ptr::null_mut() }
            });
            return leaf(&base, at, n, self.early, state);
        }
        // Leaf by leaf, whatever room they take: so stretches are nodes of the tree, and bits do not depend on who takes them.
        let is_packed = |k: &usize| !row.is_linear(*k, self.inputs.slots[*k].element);
        let nbytes = |k: usize| (LEAF * self.inputs.slots[k].element).next_multiple_of(64);
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let total: usize = (0..self.inputs.slots.len()).filter(is_packed).map(nbytes).sum();
        let block = if total > SCRATCH { Some(CpuBlock::scratch(total)?) } else { None };
        let mut room = block.as_ref().map_or(words.as_mut_ptr().cast(), CpuBlock::address);
        let mut scratch = [None; MAX_OPERANDS];
        for k in (0..self.inputs.slots.len()).filter(is_packed) {
            scratch[k] = Some(room);
            room = room.wrapping_add(nbytes(k));
        }
        let mut digits = StateRoom::new(DIGITS * self.kernel.states.size)?;
        let mut cascade = Cascade::over(&self.kernel.states, digits.address(), DIGITS, 1);
        for done in (0..n).step_by(LEAF) {
            let count = LEAF.min(n - done);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in self.inputs.slots.iter().enumerate() {
                base[k] = scratch[k].unwrap_or_else(|| row.address_at(k, &index));
                if scratch[k].is_some() {
                    // SAFETY: `count` elements of this operand, promised by the caller, into room for as many.
                    unsafe { pack::gather(row, k, index, count, slot.element, base[k]) };
                }
            }
            row.advance(&mut index, count);
            leaf(&base, at + done, count, 0, state)?;
            // SAFETY: it was written just now.
            unsafe { if done + count < n { cascade.push(state) } else { cascade.join(state) } };
        }
        Ok(())
    }

    /// Rows that are contiguous, or are once packed: as many in one call as stand at equal distances.
    unsafe fn by_lines(&self, outer: &Walk, inner: &Walk, count: usize, packed: bool) -> Result<()> {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        for (k, slot) in
            self.inputs.slots.iter().enumerate().filter(|&(k, slot)| !inner.is_linear(k, slot.element))
        {
            scratch[k] = Some(room.take(count * slot.element));
        }
        let (mut index, mut done) = (outer.index_of(0), 0);
        let mut steps = [0; MAX_OPERANDS];
        for (step, &read) in steps.iter_mut().zip(self.inputs.reads) {
            *step = outer.inner_step(read as usize + 1);
        }
        let follows = |(k, slot): (usize, &OperandRef<'_>)| match outer.inner_step(k + 1) {
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
                    unsafe {
                        pack::strided(
                            room,
                            slot.element as isize,
                            base[k],
                            inner.inner_step(k),
                            count,
                            slot.element,
                        )
                    };
                    base[k] = room;
                }
            }
            let rows = if packed { 1 } else { outer.left_in_row(&index) };
            let out =
                Output { address: outer.address_at(0, &index), step: outer.inner_step(0), is_state: false };
            // SAFETY: `rows` rows of promised elements, and their outputs.
            unsafe {
                self.rows(&Rows { pointers: self.spread(&base), steps, rows, count, at: [0; 2], out, early })?
            };
            outer.advance(&mut index, rows);
            done += rows;
        }
        Ok(())
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

/// Contiguous rows, one output a row; to a kernel they are of one leaf at most.
pub(super) struct Rows {
    /// The first row of each load, and the steps from row to row, in bytes.
    pub(super) pointers: Addresses,
    pub(super) steps: [isize; MAX_OPERANDS],
    pub(super) rows: usize,
    pub(super) count: usize,
    /// The number of the first row's first value, and the step to that of the next: not 0 where they are parts of a longer one.
    pub(super) at: [usize; 2],
    pub(super) out: Output,
    /// How far ahead they are fetched, in bytes.
    early: usize,
}

/// Where the result of a row goes, and the step to that of the next, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub(super) address: *mut u8,
    pub(super) step: isize,
    /// Whether the state is wanted, and not yet what it comes to.
    pub(super) is_state: bool,
}

/// Reduces each of some rows to one output.
///
/// # Safety
/// `body` points to a `B`; the rows hold its operands' elements; the outputs have room for one `R::Out` each, or for a state.
unsafe fn rows<B: Body, R: Reducer<B::Out>>(body: *const (), rows: &Rows) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    simd::dispatch(AbsorbRows::<B, R> { body, rows, reducer: PhantomData });
}

struct AbsorbRows<'a, B, R> {
    body: B,
    rows: &'a Rows,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for AbsorbRows<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.each::<By<false, false>>();
    }
    #[inline(always)]
    fn run_plain(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>> AbsorbRows<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let Rows { rows, count, at: [mut at, at_step], mut out, early, .. } = *self.rows;
        // What the body has no load for is not moved.
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..B::LOADS {
            (pointers[k], steps[k]) = (self.rows.pointers[k], self.rows.steps[k]);
        }
        for _ in 0..rows {
            let state = leaf::<B, R, M>(self.body, &pointers, 0, 0..count, at, early);
            // SAFETY: whoever made the rows promised room for each output (`rows`).
            unsafe {
                if out.is_state {
                    out.address.cast::<State<B, R>>().write(state);
                } else {
                    finalize::<B, R>(state, count, out.address);
                }
            }
            out.address = out.address.wrapping_offset(out.step);
            at = at.wrapping_add(at_step);
            for k in 0..B::LOADS {
                pointers[k] = pointers[k].wrapping_offset(steps[k]);
            }
        }
    }
}
