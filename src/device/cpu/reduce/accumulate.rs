//! Reduces a contiguous row: the part of every reduction that is generic over the body and the reducer.
//!
//! Up to 64 accumulators (32 if they are wide) take the values of a row in turn, and the compiler keeps them
//! in vector registers. After a block of 4096 values they are combined into one accumulator, and the
//! accumulators of blocks are combined pairwise. The tree depends on the sizes only, never on threads. Every
//! function is inlined into the loop that calls it, and is compiled for the instruction set of that loop.
// Imports: `element`, `kernel`, `device`, `scalar`.

use super::super::cursor::{Mode, value};
use super::super::memory::prefetch;
use super::super::strided::Pointers;
use super::accumulators::AccumulatorOf;
use super::pairwise::{LEVELS, PairwiseSum};
use crate::device::MAX_OPERANDS;
use crate::element::Compute;
use crate::kernel::{Body, Reducer, SLICE_ELEMENTS, ValueSource};
use crate::scalar::{Eval, Lane};
use std::any::TypeId;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The largest number of parallel accumulators of a row.
pub(crate) const MAX_ACCUMULATORS: usize = 64;
/// The number of parallel accumulators of type `S`: wide ones are fewer, so that they fit into the registers.
pub(crate) const fn accumulator_count<S>() -> usize {
    accumulator_count_of(size_of::<S>())
}
/// As [`accumulator_count`], for accumulators of `accumulator` bytes.
pub(crate) const fn accumulator_count_of(accumulator: usize) -> usize {
    if accumulator <= 4 { MAX_ACCUMULATORS } else { MAX_ACCUMULATORS / 2 }
}
/// Elements of a short row that are computed together; the last step may compute some beyond the end of the
/// row.
pub(crate) const STEP_ELEMENTS: usize = 16;
/// The longest row that counts as short.
pub(crate) const SHORT_ROW_ELEMENTS: usize = 2 * STEP_ELEMENTS;
/// Values of a row that form one block of the pairwise sum.
pub(crate) const BLOCK_ELEMENTS: usize = 4096;
/// Values that are evaluated into a buffer before they are accumulated.
const STAGED_ELEMENTS: usize = 256;

/// The position of a value, as reducers receive it.
#[inline(always)]
fn lane(at: usize, i: usize) -> Lane<Eval, i64> {
    Lane(at.wrapping_add(i) as i64)
}

/// The accumulator of a row of `n` values, the first of which has position `at`. The body's first load is
/// pointer `first`. The loop prefetches memory `prefetch_bytes` ahead ([`tuning::l2_prefetch_bytes`]), if
/// that is not 0.
#[inline(always)]
pub(crate) fn accumulate_row<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Pointers,
    first: usize,
    n: usize,
    at: usize,
    prefetch_bytes: usize,
) -> AccumulatorOf<B, R> {
    let mut levels = [const { MaybeUninit::uninit() }; LEVELS];
    let mut sum = PairwiseSum::over(&mut levels);
    let mut start = 0;
    // The loops of a block are inlined once. Most rows have one block, and return after the first iteration.
    loop {
        let end = n.min(start + BLOCK_ELEMENTS);
        let accumulator = accumulate_block::<B, R, M>(
            body,
            pointers,
            first,
            start..end,
            at.wrapping_add(start),
            prefetch_bytes,
        );
        if n <= BLOCK_ELEMENTS {
            return accumulator;
        }
        sum.push(accumulator, R::combine::<Eval>);
        if end == n {
            return sum.join(R::identity::<Eval>(), R::combine::<Eval>);
        }
        start = end;
    }
}

/// The accumulator of a part of a row, of one block at most; its first value has position `at`.
#[inline(always)]
pub(crate) fn accumulate_block<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Pointers,
    first: usize,
    part: Range<usize>,
    at: usize,
    prefetch_bytes: usize,
) -> AccumulatorOf<B, R> {
    if R::BY_SLICE {
        return by_slice::<B, R, M>(body, pointers, first, part, at);
    }
    combine_all::<B, R, M>(accumulate_part::<B, R, M>(
        body,
        pointers,
        first,
        part,
        at,
        prefetch_bytes,
        [R::identity::<Eval>(); MAX_ACCUMULATORS],
    ))
}

/// As [`accumulate_block`], for a reducer that accumulates slices.
#[inline(always)]
fn by_slice<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Pointers,
    first: usize,
    part: Range<usize>,
    at: usize,
) -> AccumulatorOf<B, R> {
    if part.is_empty() {
        return R::identity::<Eval>();
    }
    if matches!(B::SOURCE, ValueSource::Operand) && TypeId::of::<B::Out>() == TypeId::of::<Compute<B::Out>>()
    {
        let start = pointers[first].cast::<Compute<B::Out>>().wrapping_add(part.start);
        // SAFETY: the caller promised elements of `B::Out` along the whole row, and this element is its own
        // compute type.
        return R::accumulate_slice(unsafe { std::slice::from_raw_parts(start, part.len()) }, at);
    }
    let mut accumulator = R::identity::<Eval>();
    let mut block = MaybeUninit::<[Compute<B::Out>; SLICE_ELEMENTS]>::uninit();
    let block = block.as_mut_ptr().cast::<Compute<B::Out>>();
    for start in part.clone().step_by(SLICE_ELEMENTS) {
        let len = SLICE_ELEMENTS.min(part.end - start);
        for i in 0..len {
            // SAFETY: `len` is at most `SLICE_ELEMENTS`.
            unsafe {
                *block.wrapping_add(i) = value::<B, M>(&body, pointers, first, start.wrapping_add(i)).0
            };
        }
        // SAFETY: the loop above wrote `len` values.
        let values = unsafe { std::slice::from_raw_parts(block, len) };
        accumulator =
            R::combine::<Eval>(accumulator, R::accumulate_slice(values, at.wrapping_add(start - part.start)));
    }
    accumulator
}

/// Combines all accumulators into one, each half with the other.
#[inline(always)]
fn combine_all<B: Body, R: Reducer<B::Out>, M: Mode>(
    mut accumulators: [AccumulatorOf<B, R>; MAX_ACCUMULATORS],
) -> AccumulatorOf<B, R> {
    const { assert!(MAX_ACCUMULATORS == 4 * STEP_ELEMENTS) };
    // The widths are constants: of a loop over widths the compiler makes a loop over single accumulators.
    if const { accumulator_count::<AccumulatorOf<B, R>>() == MAX_ACCUMULATORS } {
        combine_halves::<B, R, M, { 2 * STEP_ELEMENTS }>(&mut accumulators);
    }
    combine_halves::<B, R, M, STEP_ELEMENTS>(&mut accumulators);
    combine_step::<B, R, M>(first_step(&accumulators))
}

/// Combines each of the first `WIDTH` accumulators with the one `WIDTH` after it.
#[inline(always)]
fn combine_halves<B: Body, R: Reducer<B::Out>, M: Mode, const WIDTH: usize>(
    accumulators: &mut [AccumulatorOf<B, R>; MAX_ACCUMULATORS],
) {
    for j in 0..WIDTH {
        M::keep_scalar();
        accumulators[j] = R::combine::<Eval>(accumulators[j], accumulators[j + WIDTH]);
    }
}

/// The first accumulators, as many as a step has elements.
#[inline(always)]
fn first_step<S: Copy>(accumulators: &[S; MAX_ACCUMULATORS]) -> [S; STEP_ELEMENTS] {
    accumulators.first_chunk().copied().unwrap_or([accumulators[0]; STEP_ELEMENTS])
}

/// As [`combine_all`], for the accumulators of one step.
#[inline(always)]
fn combine_step<B: Body, R: Reducer<B::Out>, M: Mode>(
    mut accumulators: [AccumulatorOf<B, R>; STEP_ELEMENTS],
) -> AccumulatorOf<B, R> {
    // Without this barrier the compiler starts from the narrow end of the tree and scalarizes all
    // accumulators before it. It does so for f64, and for f32 if a program prepares rows. Accumulators of
    // other types stay in vectors.
    let accumulator = TypeId::of::<AccumulatorOf<B, R>>();
    if (M::HELD && accumulator == TypeId::of::<Lane<Eval, f32>>())
        || accumulator == TypeId::of::<Lane<Eval, f64>>()
    {
        accumulators = std::hint::black_box(accumulators);
    }
    let mut width = STEP_ELEMENTS;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            M::keep_scalar();
            accumulators[j] = R::combine::<Eval>(accumulators[j], accumulators[j + width]);
        }
    }
    accumulators[0]
}

/// The accumulator of a whole short row that a program prepares; it has the same bits as that of
/// [`accumulate_row`]. Elements beyond the row's end are read up to the end of a step. The body's first load
/// is pointer `first`.
#[inline(always)]
pub(crate) fn accumulate_padded_row<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Pointers,
    first: usize,
    n: usize,
) -> AccumulatorOf<B, R> {
    debug_assert!(n <= SHORT_ROW_ELEMENTS, "a short row has {SHORT_ROW_ELEMENTS} elements at most");
    if R::BY_SLICE {
        return accumulate_block::<B, R, M>(body, pointers, first, 0..n, 0, 0);
    }
    let mut accumulators = [R::identity::<Eval>(); MAX_ACCUMULATORS];
    // An expensive body is evaluated by one loop.
    let is_cheap = const { B::CHEAP };
    let mut computed = [Compute::<B::Out>::default(); SHORT_ROW_ELEMENTS];
    for step in (0..if is_cheap { 0 } else { n.min(SHORT_ROW_ELEMENTS) }).step_by(STEP_ELEMENTS) {
        for j in 0..STEP_ELEMENTS {
            computed[step + j] = value::<B, M>(&body, pointers, first, step.wrapping_add(j)).0;
        }
    }
    // The loop runs over every possible step: a variable index would force the accumulators out of registers.
    let mut start = 0;
    while start < SHORT_ROW_ELEMENTS {
        if start < n {
            let mut values = [Compute::<B::Out>::default(); STEP_ELEMENTS];
            for j in 0..STEP_ELEMENTS {
                values[j] = if is_cheap {
                    value::<B, M>(&body, pointers, first, start.wrapping_add(j)).0
                } else {
                    computed[start + j]
                };
            }
            let left = (n - start) as u32;
            for j in 0..STEP_ELEMENTS {
                let accumulator = accumulators[start + j];
                let next =
                    R::accumulate::<Eval>(accumulator, Lane(values[j]), lane(0, start.wrapping_add(j)));
                accumulators[start + j] = if (j as u32) < left { next } else { accumulator };
            }
        }
        start += STEP_ELEMENTS;
    }
    if n <= STEP_ELEMENTS {
        combine_step::<B, R, M>(first_step(&accumulators))
    } else {
        combine_all::<B, R, M>(accumulators)
    }
}

/// Accumulates a part of a contiguous row; its first value has position `at`. The body's first load is
/// pointer `first`.
#[inline(always)]
fn accumulate_part<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Pointers,
    first: usize,
    part: Range<usize>,
    at: usize,
    prefetch_bytes: usize,
    mut accumulators: [AccumulatorOf<B, R>; MAX_ACCUMULATORS],
) -> [AccumulatorOf<B, R>; MAX_ACCUMULATORS] {
    let Range { mut start, end: n } = part;
    let count = const { accumulator_count::<AccumulatorOf<B, R>>() };
    // Wrapping additions: the overflow checks of a debug build would prevent the vectorization of these
    // loops.
    let at = at.wrapping_sub(start);
    let in_memory =
        const { matches!((B::SOURCE, M::HELD), (ValueSource::Operand, _) | (ValueSource::Cached, true)) };
    let is_cheap = const { B::CHEAP && R::CHEAP };
    if M::SCALAR {
        let (length, whole) = (n - start, (n - start) / count * count);
        let first_of_row = n < count && at.wrapping_add(start.wrapping_add(whole)) == 0;
        for i in 0..length {
            // As below: whole groups go to all accumulators in turn, the remainder goes to the first or the
            // last ones.
            let j = match i {
                _ if i < whole => i % count,
                _ if first_of_row => i - whole,
                _ => count - (length - i),
            };
            let x = value::<B, M>(&body, pointers, first, start.wrapping_add(i));
            accumulators[j] = R::accumulate::<Eval>(accumulators[j], x, lane(at, start.wrapping_add(i)));
        }
        return accumulators;
    }
    // Values in memory are accumulated from there. Values of a cheap body are accumulated as they are
    // computed.
    while (in_memory || is_cheap) && start + count <= n {
        // Without this barrier the compiler may vectorize across iterations, with a gather for each
        // accumulator.
        std::hint::black_box(());
        let (mut here, mut from) = (*pointers, start);
        if in_memory {
            here[first] = here[first].wrapping_add(start * size_of::<B::Out>());
            here[MAX_OPERANDS] = here[MAX_OPERANDS].wrapping_add(start * size_of::<Compute<B::Out>>());
            from = 0;
        }
        // If operands have elements of another width, a smaller or larger part is prefetched.
        for k in 0..if is_cheap && prefetch_bytes > 0 { B::LOADS } else { 0 } {
            let ahead = pointers[first + k].wrapping_add(start * size_of::<B::Out>() + prefetch_bytes);
            prefetch::into_l2(ahead, count * size_of::<B::Out>());
        }
        for j in 0..count {
            let x = value::<B, M>(&body, &here, first, from.wrapping_add(j));
            accumulators[j] = R::accumulate::<Eval>(accumulators[j], x, lane(at, start.wrapping_add(j)));
        }
        start += count;
    }
    if !(in_memory || is_cheap) {
        return accumulate_staged::<B, R, M>(&body, pointers, first, start..n, at, accumulators);
    }
    if start < n {
        // The remainder: every accumulator executes the step, and those without a value discard the result. A
        // variable index would force all accumulators into memory. The remainder of a row without a whole
        // group goes to the first accumulators, as in `accumulate_padded_row`; any other goes to the last
        // ones.
        let rest = n - start;
        let first_of_row = n < count && at.wrapping_add(start) == 0;
        let from = if first_of_row { 0 } else { count - rest };
        let mut buffer = [Compute::<B::Out>::default(); MAX_ACCUMULATORS];
        if n >= count {
            for j in 0..count {
                buffer[j] = value::<B, M>(&body, pointers, first, (n - count).wrapping_add(j)).0;
            }
        } else {
            for i in 0..rest {
                buffer[from.wrapping_add(i)] = value::<B, M>(&body, pointers, first, start.wrapping_add(i)).0;
            }
        }
        let number = start.wrapping_sub(from);
        for j in 0..count {
            let next =
                R::accumulate::<Eval>(accumulators[j], Lane(buffer[j]), lane(at, number.wrapping_add(j)));
            accumulators[j] =
                if (j as u32).wrapping_sub(from as u32) < rest as u32 { next } else { accumulators[j] };
        }
    }
    accumulators
}

/// As [`accumulate_part`], for expensive bodies. The values go through a buffer, so that both evaluation and
/// accumulation vectorize, and so that only one loop contains the body. Default values fill the space before
/// the buffer and the buffer's start, because the remainder step reads them.
#[inline(always)]
fn accumulate_staged<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: &B,
    pointers: &Pointers,
    first: usize,
    part: Range<usize>,
    at: usize,
    mut accumulators: [AccumulatorOf<B, R>; MAX_ACCUMULATORS],
) -> [AccumulatorOf<B, R>; MAX_ACCUMULATORS] {
    let Range { mut start, end: n } = part;
    let count = const { accumulator_count::<AccumulatorOf<B, R>>() };
    let mut room = MaybeUninit::<[Compute<B::Out>; MAX_ACCUMULATORS + STAGED_ELEMENTS]>::uninit();
    let room = room.as_mut_ptr().cast::<Compute<B::Out>>();
    for j in 0..2 * MAX_ACCUMULATORS {
        // SAFETY: the memory has `MAX_ACCUMULATORS + STAGED_ELEMENTS` values, which are more.
        unsafe { *room.wrapping_add(j) = Default::default() };
    }
    let block = room.wrapping_add(MAX_ACCUMULATORS);
    while start < n {
        let len = STAGED_ELEMENTS.min(n - start);
        for i in 0..len {
            // SAFETY: `len` is at most `STAGED_ELEMENTS`.
            unsafe { *block.wrapping_add(i) = value::<B, M>(body, pointers, first, start.wrapping_add(i)).0 };
        }
        let mut done = 0;
        while done + count <= len {
            // Without this barrier the compiler may vectorize across iterations.
            std::hint::black_box(());
            for j in 0..count {
                // SAFETY: the loop above wrote `len` values.
                let x = Lane(unsafe { *block.wrapping_add(done.wrapping_add(j)) });
                accumulators[j] = R::accumulate::<Eval>(
                    accumulators[j],
                    x,
                    lane(at, start.wrapping_add(done).wrapping_add(j)),
                );
            }
            done += count;
        }
        if done < len {
            // As in `accumulate_part`.
            let rest = len - done;
            let first_of_row = n < count && at.wrapping_add(start) == 0;
            let from = if first_of_row { 0 } else { count - rest };
            let (values, number) =
                (block.wrapping_add(done).wrapping_sub(from), start.wrapping_add(done).wrapping_sub(from));
            for j in 0..count {
                // SAFETY: the value is in the initialized space before the buffer, in its initialized start,
                // or was written by the loop above.
                let x = Lane(unsafe { *values.wrapping_add(j) });
                let next = R::accumulate::<Eval>(accumulators[j], x, lane(at, number.wrapping_add(j)));
                accumulators[j] =
                    if (j as u32).wrapping_sub(from as u32) < rest as u32 { next } else { accumulators[j] };
            }
        }
        start += len;
    }
    accumulators
}
