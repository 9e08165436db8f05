//! Reductions along a contiguous axis: rows one by one, several equidistant rows in one call, or one long row
//! on all threads.
// Imports: `error`, `kernel`, `device`.

use super::super::cursor::{By, Mode};
use super::super::isa::{self, Loop};
use super::super::memory::CpuBlock;
use super::super::memory::scratch::{Scratch, StackScratch};
use super::super::parallel;
use super::super::strided::pack;
use super::super::strided::{IterSpace, Pointers};
use super::super::tuning;
use super::accumulate::{BLOCK_ELEMENTS, accumulate_block};
use super::accumulators::{AccumulatorOf, COLUMN_ACCUMULATOR_BYTES, finalize};
use super::call::ReduceCall;
use super::operands::{EquidistantRows, RowOutput, SCRATCH_BYTES};
use super::pairwise::{AccumulatorScratch, ErasedPairwiseSum, LEVELS, combine_tree};
use crate::device::{MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::kernel::{Body, Reducer};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// Values of a long row that one thread reduces at a time. It is a power of two blocks, so that the
/// accumulator of a task is a node of the tree.
const TASK_ELEMENTS: usize = 16 * BLOCK_ELEMENTS;
/// The largest number of blocks of a long row that one call of the kernel reduces.
const MAX_BLOCKS: usize = 16;

impl ReduceCall<'_> {
    /// Reduces equidistant contiguous rows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::error::Error::OutOfMemory) if the accumulators of blocks cannot be
    /// allocated.
    ///
    /// # Safety
    /// 1. The rows are elements of the operands, of the types of the kernel's body.
    /// 2. The outputs have room for the results, or for accumulators.
    #[inline]
    pub(super) unsafe fn reduce_rows(&self, rows: &EquidistantRows) -> Result<()> {
        if rows.count > BLOCK_ELEMENTS {
            // SAFETY: (1) and (2) are the caller's promise.
            return unsafe { self.reduce_long_rows(rows) };
        }
        // SAFETY: (1) the kernel was made for the body; (2) and (3) are the caller's promise.
        unsafe { (self.kernel.rows)(self.body, rows) };
        Ok(())
    }

    /// As [`reduce_rows`](ReduceCall::reduce_rows), for rows of several blocks. The kernel receives the
    /// blocks as rows, whose accumulators are stored.
    ///
    /// # Safety
    /// As [`reduce_rows`](ReduceCall::reduce_rows).
    unsafe fn reduce_long_rows(&self, rows: &EquidistantRows) -> Result<()> {
        let accumulators = &self.kernel.accumulators;
        let most = (LEVELS * COLUMN_ACCUMULATOR_BYTES / 2 / accumulators.size.max(1)).clamp(1, MAX_BLOCKS);
        let most = 1 << most.ilog2();
        let levels = (rows.count / BLOCK_ELEMENTS / most + 1).ilog2() as usize + 1;
        let mut room = AccumulatorScratch::new((most + levels) * accumulators.size)?;
        let blocks = room.address();
        let (mut pointers, mut out) = (rows.pointers, rows.out);
        let mut steps = [0; MAX_OPERANDS];
        for (step, &read) in steps.iter_mut().zip(self.operands.reads) {
            *step = (BLOCK_ELEMENTS * self.operands.slots[read as usize].element) as isize;
        }
        // Reduces consecutive blocks; their accumulators are stored from index `place` on.
        let reduce = |pointers: &Pointers, from: usize, n: usize, count: usize, place: usize| {
            let mut here = *pointers;
            for (here, step) in here.iter_mut().zip(steps).take(self.operands.reads.len()) {
                *here = here.wrapping_offset(step.wrapping_mul((from / BLOCK_ELEMENTS) as isize));
            }
            let to = RowOutput {
                address: blocks.wrapping_add(place * accumulators.size),
                step: accumulators.size as isize,
                is_accumulator: true,
            };
            let at = [rows.at[0].wrapping_add(from), BLOCK_ELEMENTS];
            let part = EquidistantRows {
                pointers: here,
                steps,
                rows: n,
                count,
                at,
                out: to,
                prefetch_bytes: rows.prefetch_bytes,
            };
            // SAFETY: (1) the kernel was made for the body; (2) the caller's promise; (3) the scratch has
            // room for the accumulators.
            unsafe { (self.kernel.rows)(self.body, &part) };
        };
        for _ in 0..rows.rows {
            let mut sum = ErasedPairwiseSum::over(
                accumulators,
                blocks.wrapping_add(most * accumulators.size),
                levels,
                1,
            );
            let mut done = 0;
            loop {
                let whole = ((rows.count - done) / BLOCK_ELEMENTS).min(most);
                if whole > 0 {
                    reduce(&pointers, done, whole, BLOCK_ELEMENTS, 0);
                    done += whole * BLOCK_ELEMENTS;
                }
                let rest = rows.count - done;
                let n = whole + usize::from(whole < most && rest > 0);
                if n > whole {
                    reduce(&pointers, done, 1, rest, whole);
                    done += rest;
                }
                // SAFETY: the accumulators of the blocks were written, and the scratch has room for the
                // levels; the caller promised the output.
                unsafe {
                    let node = combine_tree(accumulators, blocks, n);
                    if done < rows.count {
                        sum.push(node);
                        continue;
                    }
                    sum.join(node);
                    if out.is_accumulator {
                        std::ptr::copy_nonoverlapping(node, out.address, accumulators.size);
                    } else {
                        accumulators.finalize(node, 1, rows.count, out.address);
                    }
                }
                break;
            }
            out.address = out.address.wrapping_offset(out.step);
            for (pointer, step) in pointers.iter_mut().zip(rows.steps).take(self.operands.reads.len()) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        Ok(())
    }

    /// Reduces along a contiguous axis, or an axis that is packed to become one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::error::Error::OutOfMemory) if scratch memory cannot be allocated.
    ///
    /// # Safety
    /// The iteration spaces reach only elements and outputs that the caller of `run` promised.
    pub(super) unsafe fn by_rows(&self, outer: &IterSpace, inner: &IterSpace, count: usize) -> Result<()> {
        let packed = self.operands.needs_packing(inner);
        let shared = count >= 2 * TASK_ELEMENTS && outer.numel() < parallel::count();
        if inner.is_line() && if packed { count <= self.operands.block(SCRATCH_BYTES) } else { !shared } {
            // SAFETY: the caller's promise.
            return unsafe { self.contiguous_rows(outer, inner, count, packed) };
        }
        let mut accumulator = AccumulatorScratch::new(self.kernel.accumulators.size)?;
        let accumulator = accumulator.address();
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let (base, out) = (self.operands.addresses(outer, &index), outer.address_at(0, &index));
            // SAFETY: the caller promised the elements of the row and the position of this output; the
            // scratch has room for one accumulator.
            unsafe {
                if !shared || !self.row_in_tasks(&inner.from(base), count, out)? {
                    self.accumulate_range(&inner.from(base), 0, count, accumulator)?;
                    self.kernel.accumulators.finalize(accumulator, 1, count, out);
                }
            }
            outer.advance(&mut index, 1);
        }
        Ok(())
    }

    /// Reduces one long row on all threads. Returns `false` if the accumulators of its tasks cannot be
    /// allocated.
    ///
    /// # Safety
    /// The row has `count` elements of each operand, and `out` has room for the result.
    unsafe fn row_in_tasks(&self, row: &IterSpace, count: usize, out: *mut u8) -> Result<bool> {
        let (tasks, size) = (count.div_ceil(TASK_ELEMENTS), self.kernel.accumulators.size);
        let Ok(accumulators) = CpuBlock::scratch(tasks * size) else { return Ok(false) };
        let result = Mutex::new(Ok(()));
        parallel::for_each_task(tasks, false, &|k| {
            let at = k * TASK_ELEMENTS;
            // SAFETY: the caller's promise, for this part of the row; each task has an accumulator of its
            // own.
            let done = unsafe {
                self.accumulate_range(
                    row,
                    at,
                    TASK_ELEMENTS.min(count - at),
                    accumulators.address().add(k * size),
                )
            };
            if done.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        // SAFETY: every task wrote its accumulator; the caller promised the output.
        unsafe {
            let mut levels = AccumulatorScratch::new(LEVELS * size)?;
            let mut sum = ErasedPairwiseSum::over(&self.kernel.accumulators, levels.address(), LEVELS, 1);
            for k in 0..tasks - 1 {
                sum.push(accumulators.address().add(k * size));
            }
            let last = accumulators.address().add((tasks - 1) * size);
            sum.join(last);
            self.kernel.accumulators.finalize(last, 1, count, out);
        }
        Ok(true)
    }

    /// Computes the accumulator of `n` values of a row, from position `at` on.
    ///
    /// # Safety
    /// The row has these elements of each operand, and `accumulator` has room for one.
    unsafe fn accumulate_range(
        &self,
        row: &IterSpace,
        at: usize,
        n: usize,
        accumulator: *mut u8,
    ) -> Result<()> {
        let mut index = row.index_of(at);
        let accumulate_block =
            |base: &Pointers, at: usize, n: usize, prefetch_bytes: usize, accumulator: *mut u8| {
                let out = RowOutput { address: accumulator, step: 0, is_accumulator: true };
                let rows = EquidistantRows {
                    pointers: self.operands.expand_loads(base),
                    steps: [0; MAX_OPERANDS],
                    rows: 1,
                    count: n,
                    at: [at, 0],
                    out,
                    prefetch_bytes,
                };
                // SAFETY: (1) the caller's promise; (2) the accumulator has room.
                unsafe { self.reduce_rows(&rows) }
            };
        if !self.operands.needs_packing(row) {
            let base = row.addresses_at(&index);
            return accumulate_block(&base, at, n, self.operands.prefetch_bytes, accumulator);
        }
        // Whole blocks are packed, whatever scratch they need. Tasks are then nodes of the tree, and the bits
        // do not depend on the threads that take them.
        let is_packed = |k: &usize| !row.is_linear(*k, self.operands.slots[*k].element);
        let nbytes = |k: usize| (BLOCK_ELEMENTS * self.operands.slots[k].element).next_multiple_of(64);
        let mut words = StackScratch::<{ SCRATCH_BYTES / 8 }>::uninit();
        let total: usize = (0..self.operands.slots.len()).filter(is_packed).map(nbytes).sum();
        let block = if total > SCRATCH_BYTES { Some(CpuBlock::scratch(total)?) } else { None };
        let mut room = block.as_ref().map_or(words.as_mut_ptr().cast(), CpuBlock::address);
        let mut scratch = [None; MAX_OPERANDS];
        for k in (0..self.operands.slots.len()).filter(is_packed) {
            scratch[k] = Some(room);
            room = room.wrapping_add(nbytes(k));
        }
        let mut levels = AccumulatorScratch::new(LEVELS * self.kernel.accumulators.size)?;
        let mut sum = ErasedPairwiseSum::over(&self.kernel.accumulators, levels.address(), LEVELS, 1);
        for done in (0..n).step_by(BLOCK_ELEMENTS) {
            let count = BLOCK_ELEMENTS.min(n - done);
            let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
            for (k, slot) in self.operands.slots.iter().enumerate() {
                base[k] = scratch[k].unwrap_or_else(|| row.address_at(k, &index));
                if scratch[k].is_some() {
                    // SAFETY: the caller promised `count` elements of this operand; the scratch has room for
                    // as many.
                    unsafe { pack::pack_elements(row, k, index, count, slot.element, base[k]) };
                }
            }
            row.advance(&mut index, count);
            accumulate_block(&base, at + done, count, 0, accumulator)?;
            // SAFETY: the accumulator was written by the call above, and the levels have room.
            unsafe { if done + count < n { sum.push(accumulator) } else { sum.join(accumulator) } };
        }
        Ok(())
    }

    /// Reduces rows that are contiguous, or that fit into scratch once packed. Equidistant rows go to the
    /// kernel in one call.
    ///
    /// # Safety
    /// As [`by_rows`](Self::by_rows).
    unsafe fn contiguous_rows(
        &self,
        outer: &IterSpace,
        inner: &IterSpace,
        count: usize,
        packed: bool,
    ) -> Result<()> {
        let mut words = StackScratch::<{ SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        for (k, slot) in
            self.operands.slots.iter().enumerate().filter(|&(k, slot)| !inner.is_linear(k, slot.element))
        {
            scratch[k] = Some(room.take(count * slot.element));
        }
        let (mut index, mut done) = (outer.index_of(0), 0);
        let mut steps = [0; MAX_OPERANDS];
        for (step, &read) in steps.iter_mut().zip(self.operands.reads) {
            *step = outer.inner_step(read as usize + 1);
        }
        let follows = |(k, slot): (usize, &OperandRef<'_>)| match outer.inner_step(k + 1) {
            0 => true,
            down => tuning::is_worth_prefetching(count.saturating_mul(slot.element), down),
        };
        let is_fetched = !packed
            && self.operands.prefetch_bytes > 0
            && self.operands.slots.iter().enumerate().all(follows);
        let prefetch_bytes = if is_fetched { self.operands.prefetch_bytes } else { 0 };
        while done < outer.numel() {
            let mut base = self.operands.addresses(outer, &index);
            for (k, slot) in self.operands.slots.iter().enumerate() {
                if let Some(room) = scratch[k] {
                    // SAFETY: the caller promised `count` elements of this operand; the scratch has room for
                    // as many.
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
            let out = RowOutput {
                address: outer.address_at(0, &index),
                step: outer.inner_step(0),
                is_accumulator: false,
            };
            // SAFETY: (1) `rows` rows of elements that the caller promised, or of packed ones; (2) the caller
            // promised their outputs.
            unsafe {
                self.reduce_rows(&EquidistantRows {
                    pointers: self.operands.expand_loads(&base),
                    steps,
                    rows,
                    count,
                    at: [0; 2],
                    out,
                    prefetch_bytes,
                })?
            };
            outer.advance(&mut index, rows);
            done += rows;
        }
        Ok(())
    }
}

/// Reduces each row to one output.
///
/// # Safety
/// 1. `body` points to a `B`.
/// 2. The rows are elements of its operands.
/// 3. The outputs have room for one `R::Out` each, or for an accumulator.
pub(super) unsafe fn rows<B: Body, R: Reducer<B::Out>>(body: *const (), rows: &EquidistantRows) {
    // SAFETY: (1); bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    isa::dispatch(ReduceRows::<B, R> { body, rows, reducer: PhantomData });
}

struct ReduceRows<'a, B, R> {
    body: B,
    rows: &'a EquidistantRows,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for ReduceRows<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.each::<By<false, false>>();
    }
    #[inline(always)]
    fn run_scalar(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>> ReduceRows<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let EquidistantRows { rows, count, at: [mut at, at_step], mut out, prefetch_bytes, .. } = *self.rows;
        // Only the pointers of the body's loads move.
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..B::LOADS {
            (pointers[k], steps[k]) = (self.rows.pointers[k], self.rows.steps[k]);
        }
        for _ in 0..rows {
            let accumulator =
                accumulate_block::<B, R, M>(self.body, &pointers, 0, 0..count, at, prefetch_bytes);
            // SAFETY: (3) of `rows`.
            unsafe {
                if out.is_accumulator {
                    out.address.cast::<AccumulatorOf<B, R>>().write(accumulator);
                } else {
                    finalize::<B, R>(accumulator, count, out.address);
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
