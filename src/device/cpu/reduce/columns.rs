//! Reductions across memory: neighboring columns are reduced together, because a kept axis has the smallest
//! strides.
// Imports: `scalar`, `kernel`, `device`.

use super::super::cursor::{By, Mode, value};
use super::super::isa::{self, Loop};
use super::super::memory::prefetch;
use super::super::memory::scratch::{Scratch, StackScratch};
use super::super::strided::pack;
use super::super::strided::{IterSpace, Pointers, SpacePosition};
use super::accumulators::AccumulatorOf;
use super::call::ReduceCall;
use super::operands::{ColumnStrips, SCRATCH_BYTES, STRIP_COLUMNS};
use super::packed_columns::{
    ACCUMULATOR_BYTES, BLOCK_ROWS, GroupShape, MAX_STRIPS, PackedColumns, STRIP_ROWS, strips_and_levels,
};
use super::pairwise::ErasedPairwiseSum;
use crate::device::MAX_OPERANDS;
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;

/// Bytes of stack memory for results whose outputs do not follow each other: those of the widest elements of
/// a strip.
const RESULT_BYTES: usize = STRIP_COLUMNS * 16;

impl ReduceCall<'_> {
    /// Reduces by columns.
    ///
    /// # Safety
    /// The iteration spaces reach only elements and outputs that the caller of `run` promised.
    pub(super) unsafe fn by_columns(&self, outer: &IterSpace, inner: &IterSpace, count: usize) {
        let shape = GroupShape::new(&self.operands, outer, inner, count, self.kernel.accumulators.size);
        let most = shape.columns;
        if outer.inner() > most && shape.repeats(outer) {
            // All groups of one part of the rows follow each other, so that an operand that is the same in
            // each row is packed once.
            let mut rest = *outer;
            while rest.inner() > most {
                let (part, others) = rest.cut_inner(most);
                rest = others;
                // SAFETY: the caller's promise, for a part of the outputs.
                unsafe { self.by_columns(&part, inner, count) };
            }
            // SAFETY: as above.
            return unsafe { self.by_columns(&rest, inner, count) };
        }
        let mut words = StackScratch::<{ SCRATCH_BYTES / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut columns = PackedColumns::new(&self.operands, outer, *inner, shape, &room);
        let (mut index, mut done) = (outer.index_of(0), 0);
        while done < outer.numel() {
            let width = columns.start(&index, count);
            // SAFETY: the caller's promise, for `width` outputs from `index` on.
            unsafe { self.reduce_columns(&mut columns, count, outer, &index) };
            outer.advance(&mut index, width);
            done += width;
        }
    }

    /// Reduces the columns of a group to as many outputs, which begin at `index`.
    ///
    /// # Safety
    /// 1. `columns` gives elements of the operands.
    /// 2. The outputs are those that the caller of `run` promised.
    unsafe fn reduce_columns(
        &self,
        columns: &mut PackedColumns<'_>,
        count: usize,
        outer: &IterSpace,
        index: &SpacePosition,
    ) {
        let (accumulators, width) = (&self.kernel.accumulators, columns.width());
        let (used, strip) = (width.div_ceil(STRIP_COLUMNS), STRIP_COLUMNS * accumulators.size);
        let levels = strips_and_levels(count, accumulators.size).1;
        let mut room = StackScratch::<{ ACCUMULATOR_BYTES / 8 }>::uninit();
        // First the accumulators of the current block, strip by strip, then the levels of each strip.
        let current = room.as_mut_ptr().cast::<u8>();
        let mut sums: [ErasedPairwiseSum<'_>; MAX_STRIPS] = std::array::from_fn(|k| {
            ErasedPairwiseSum::over(
                accumulators,
                current.wrapping_add((used + k * levels) * strip),
                levels,
                STRIP_COLUMNS,
            )
        });
        let prefetch = self.operands.prefetch_bytes > 0 && !columns.is_packed();
        let mut at = 0;
        loop {
            // SAFETY: the stack memory has room for these accumulators.
            unsafe { accumulators.identity(current, used * STRIP_COLUMNS) };
            let mut filled = 0;
            while filled < BLOCK_ROWS && at < count {
                // SAFETY: (1).
                let (pointers, steps, n) = unsafe { columns.next(BLOCK_ROWS - filled) };
                // SAFETY: (1) the caller's promise; the accumulators were written above.
                unsafe {
                    (self.kernel.columns)(
                        self.body,
                        &ColumnStrips { pointers, steps, n, width, at, prefetch, accumulators: current },
                    )
                };
                at += n;
                filled += n;
            }
            if at == count {
                break;
            }
            for (k, sum) in sums[..used].iter_mut().enumerate() {
                // SAFETY: the accumulators of one strip; its levels have room ([`strips_and_levels`]).
                unsafe { sum.push(current.add(k * strip)) };
            }
        }
        let is_dense = outer.inner_step(0) == accumulators.out as isize
            && (outer.left_in_row(index) >= width || outer.is_linear(0, accumulators.out));
        let to = outer.address_at(0, index);
        for (k, sum) in sums[..used].iter().enumerate() {
            let start = strip_start(k, width);
            let n = STRIP_COLUMNS.min(width - start);
            // SAFETY: the accumulators of one strip; its levels were written; (2) is the caller's promise.
            unsafe {
                let last = current.add(k * strip);
                sum.join(last);
                if is_dense {
                    accumulators.finalize(last, n, count, to.add(start * accumulators.out));
                } else {
                    let mut at = *index;
                    outer.advance(&mut at, start);
                    self.scatter_results(last, n, count, outer, at);
                }
            }
        }
    }

    /// Writes the results of `n` accumulators to the outputs from `index` on, which do not follow each other.
    ///
    /// # Safety
    /// 1. `accumulators` holds `n` accumulators.
    /// 2. The outputs are those that the caller of `run` promised.
    unsafe fn scatter_results(
        &self,
        accumulators: *const u8,
        n: usize,
        count: usize,
        outer: &IterSpace,
        mut index: SpacePosition,
    ) {
        let fns = &self.kernel.accumulators;
        let mut room = StackScratch::<{ RESULT_BYTES / 8 }>::uninit();
        let results = room.as_mut_ptr().cast::<u8>();
        let most = (RESULT_BYTES / fns.out.max(1)).max(1);
        for start in (0..n).step_by(most) {
            let some = most.min(n - start);
            // SAFETY: (1) and (2); the room holds `most` results.
            unsafe {
                fns.finalize(accumulators.add(start * fns.size), some, count, results);
                pack::unpack_elements(outer, 0, index, some, fns.out, results);
            }
            outer.advance(&mut index, some);
        }
    }
}

/// The first column of a strip. The last of several strips ends with the columns: the part that it shares
/// with the previous strip is computed twice, with the same result.
#[inline(always)]
pub(crate) fn strip_start(strip: usize, width: usize) -> usize {
    (strip * STRIP_COLUMNS).min(width.saturating_sub(STRIP_COLUMNS))
}

/// Accumulates some rows of neighboring columns.
///
/// # Safety
/// 1. `body` points to a `B`.
/// 2. The strips hold elements of its operands.
/// 3. Each strip has initialized accumulators.
pub(super) unsafe fn accumulate<B: Body, R: Reducer<B::Out>>(body: *const (), strips: &ColumnStrips) {
    // SAFETY: (1); bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let accumulate = ReduceColumns::<B, R> { body, strips, reducer: PhantomData };
    // Cheap columns are memory-bound, whatever the width of vectors.
    if const { B::CHEAP && R::CHEAP } {
        isa::dispatch_up_to_avx2(accumulate)
    } else {
        isa::dispatch(accumulate)
    }
}

struct ReduceColumns<'a, B, R> {
    body: B,
    strips: &'a ColumnStrips,
    reducer: PhantomData<R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for ReduceColumns<'_, B, R> {
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

impl<B: Body, R: Reducer<B::Out>> ReduceColumns<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let (body, ColumnStrips { mut pointers, steps, n, width, at, prefetch, accumulators }) =
            (self.body, *self.strips);
        // Accumulators of several lanes do not form vectors, so they stay in memory, as those of few columns
        // do.
        let in_memory =
            width < STRIP_COLUMNS || const { size_of::<AccumulatorOf<B, R>>() > size_of::<u64>() };
        let turn = if width < STRIP_COLUMNS { n } else { STRIP_ROWS };
        for from in (0..n).step_by(turn.max(1)) {
            let rows = turn.min(n - from);
            for strip in 0..width.div_ceil(STRIP_COLUMNS) {
                let start = strip_start(strip, width);
                for k in 0..if prefetch && width >= STRIP_COLUMNS { B::LOADS } else { 0 } {
                    for row in 0..rows {
                        let next = pointers[k].wrapping_offset((row + STRIP_ROWS) as isize * steps[k]);
                        prefetch::into_l2(
                            next.wrapping_add(start * size_of::<B::Out>()),
                            STRIP_COLUMNS * size_of::<B::Out>(),
                        );
                    }
                }
                let accumulators =
                    accumulators.cast::<[AccumulatorOf<B, R>; STRIP_COLUMNS]>().wrapping_add(strip);
                // SAFETY: (3) of `accumulate`.
                unsafe {
                    if in_memory {
                        let accumulators =
                            std::slice::from_raw_parts_mut(accumulators.cast(), width.min(STRIP_COLUMNS));
                        accumulate_in_memory::<B, R, M>(
                            body,
                            pointers,
                            steps,
                            rows,
                            at + from,
                            start,
                            accumulators,
                        );
                    } else {
                        accumulators.write(accumulate_strip::<B, R, M>(
                            body,
                            pointers,
                            steps,
                            rows,
                            at + from,
                            start,
                            accumulators.read(),
                        ));
                    }
                }
            }
            for k in 0..B::LOADS {
                pointers[k] = pointers[k].wrapping_offset(rows as isize * steps[k]);
            }
        }
    }
}

/// Accumulates some rows of one strip, whose first column is `start`; returns the accumulators.
#[inline(always)]
fn accumulate_strip<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    mut pointers: Pointers,
    steps: [isize; MAX_OPERANDS],
    rows: usize,
    at: usize,
    start: usize,
    mut accumulators: [AccumulatorOf<B, R>; STRIP_COLUMNS],
) -> [AccumulatorOf<B, R>; STRIP_COLUMNS] {
    for row in 0..rows {
        let (at, here) = (Lane((at + row) as i64), pointers);
        for j in 0..STRIP_COLUMNS {
            accumulators[j] = R::accumulate::<Eval>(
                accumulators[j],
                value::<B, M>(&body, &here, 0, start.wrapping_add(j)),
                at,
            );
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
    accumulators
}

/// Accumulates some rows of columns, the first of which is `start`; the accumulators stay in memory.
#[inline(always)]
fn accumulate_in_memory<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    mut pointers: Pointers,
    steps: [isize; MAX_OPERANDS],
    rows: usize,
    at: usize,
    start: usize,
    accumulators: &mut [AccumulatorOf<B, R>],
) {
    for row in 0..rows {
        let (at, here) = (Lane((at + row) as i64), pointers);
        for (j, accumulator) in accumulators.iter_mut().enumerate() {
            *accumulator = R::accumulate::<Eval>(
                *accumulator,
                value::<B, M>(&body, &here, 0, start.wrapping_add(j)),
                at,
            );
        }
        for k in 0..B::LOADS {
            pointers[k] = pointers[k].wrapping_offset(steps[k]);
        }
    }
}
