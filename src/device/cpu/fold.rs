//! A contiguous row, reduced: the part of every reduction that is generic over the body and the reducer.
//!
//! A row is absorbed by 64 states side by side (32 wide ones), which the compiler keeps in vector registers; a leaf of 4 096 values is
//! collapsed to one state, and leaves are combined pairwise. The tree depends on the sizes only, never on threads.
//! Everything is inlined into the loop that calls it, and so compiled for that loop's instruction set.
// Imports: `element`, `kernel`, `device`, `scalar`.

use super::io::{Mode, value};
use super::simd;
use super::walk::Addresses;
use crate::device::MAX_OPERANDS;
use crate::element::Compute;
use crate::kernel::{Body, Reducer, SLICE_ELEMENTS, ValueSource};
use crate::scalar::{Eval, Lane};
use std::any::TypeId;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Room for the states that absorb a row side by side.
pub(super) const LANES: usize = 64;
/// How many of them are used: wide states have fewer, which fit the registers.
pub(super) const fn lanes<S>() -> usize {
    lanes_of(size_of::<S>())
}
/// As [`lanes`], for states of so many bytes.
pub(super) const fn lanes_of(state: usize) -> usize {
    if state <= 4 { LANES } else { LANES / 2 }
}
/// Values of a short row that are computed together, those beyond its end too.
pub(super) const STEP: usize = 16;
/// Values of a short row, at most.
pub(super) const SHORT: usize = 2 * STEP;
/// Values of a row that are absorbed before their states are collapsed.
pub(super) const LEAF: usize = 4096;
/// Values that are evaluated before they are absorbed.
const BLOCK: usize = 256;

/// What one reducer carries along.
pub(super) type State<B, R> = <R as Reducer<<B as Body>::Out>>::State<Eval>;

/// The number of a value, as reducers are told it.
#[inline(always)]
fn lane(at: usize, i: usize) -> Lane<Eval, i64> {
    Lane(at.wrapping_add(i) as i64)
}

/// The state of a whole row of `n` values, the first of which has number `at`. The body's first load is pointer `first`; what
/// stands in memory `early` bytes on is fetched ([`simd::early`]).
#[inline(always)]
pub(super) fn row<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Addresses,
    first: usize,
    n: usize,
    at: usize,
    early: usize,
) -> State<B, R> {
    let mut digits = [const { MaybeUninit::uninit() }; DIGITS];
    let mut cascade = Cascade::over(&mut digits);
    let mut start = 0;
    // One place for the leaf's loops: a row of one leaf, which most are, is done after the first.
    loop {
        let end = n.min(start + LEAF);
        let state = leaf::<B, R, M>(body, pointers, first, start..end, at.wrapping_add(start), early);
        if n <= LEAF {
            return state;
        }
        cascade.push(state, R::combine::<Eval>);
        if end == n {
            return cascade.join(R::identity::<Eval>(), R::combine::<Eval>);
        }
        start = end;
    }
}

/// The state of part of a row, of one leaf at most; its first value has number `at`.
#[inline(always)]
pub(super) fn leaf<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Addresses,
    first: usize,
    part: Range<usize>,
    at: usize,
    early: usize,
) -> State<B, R> {
    if R::BY_SLICE {
        return by_slice::<B, R, M>(body, pointers, first, part, at);
    }
    collapse::<B, R, M>(accumulate::<B, R, M>(
        body,
        pointers,
        first,
        part,
        at,
        early,
        [R::identity::<Eval>(); LANES],
    ))
}

/// As [`leaf`], for a reducer that takes many values at once.
#[inline(always)]
fn by_slice<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Addresses,
    first: usize,
    part: Range<usize>,
    at: usize,
) -> State<B, R> {
    if part.is_empty() {
        return R::identity::<Eval>();
    }
    if matches!(B::SOURCE, ValueSource::Operand) && TypeId::of::<B::Out>() == TypeId::of::<Compute<B::Out>>()
    {
        let start = pointers[first].cast::<Compute<B::Out>>().wrapping_add(part.start);
        // SAFETY: whoever calls promised elements of `B::Out`, which is its own machine type, in the whole row.
        return R::accumulate_slice(unsafe { std::slice::from_raw_parts(start, part.len()) }, at);
    }
    let mut state = R::identity::<Eval>();
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
        state = R::combine::<Eval>(state, R::accumulate_slice(values, at.wrapping_add(start - part.start)));
    }
    state
}

/// The states of a leaf as one, each half combined with the other.
#[inline(always)]
fn collapse<B: Body, R: Reducer<B::Out>, M: Mode>(mut states: [State<B, R>; LANES]) -> State<B, R> {
    let mut width = lanes::<State<B, R>>();
    while width > STEP {
        width /= 2;
        for j in 0..width {
            M::keep_plain();
            states[j] = R::combine::<Eval>(states[j], states[j + width]);
        }
    }
    collapse_step::<B, R, M>(first_step(&states))
}

/// The first states, of one step.
#[inline(always)]
fn first_step<S: Copy>(states: &[S; LANES]) -> [S; STEP] {
    states.first_chunk().copied().unwrap_or([states[0]; STEP])
}

/// As [`collapse`], of the states of one step.
#[inline(always)]
fn collapse_step<B: Body, R: Reducer<B::Out>, M: Mode>(mut states: [State<B, R>; STEP]) -> State<B, R> {
    // Else the compiler begins at the narrow end of this tree, and takes all states before it apart: those of f64, and where a
    // program settles those of f32 too (126 instructions for 64). Others it leaves together.
    let state = TypeId::of::<State<B, R>>();
    if (M::HELD && state == TypeId::of::<Lane<Eval, f32>>()) || state == TypeId::of::<Lane<Eval, f64>>() {
        states = std::hint::black_box(states);
    }
    let mut width = STEP;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            M::keep_plain();
            states[j] = R::combine::<Eval>(states[j], states[j + width]);
        }
    }
    states[0]
}

/// The state of a whole short row on which a program settles: the same as [`row`]'s. What stands beyond it up to a
/// whole step is read too. The body's first load is pointer `first`.
#[inline(always)]
pub(super) fn padded<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Addresses,
    first: usize,
    n: usize,
) -> State<B, R> {
    debug_assert!(n <= SHORT, "a short row has {SHORT} elements at most");
    if R::BY_SLICE {
        return leaf::<B, R, M>(body, pointers, first, 0..n, 0, 0);
    }
    let mut states = [R::identity::<Eval>(); LANES];
    // What computes long is evaluated by one loop.
    let light = const { B::CHEAP };
    let mut computed = [Compute::<B::Out>::default(); SHORT];
    for step in (0..if light { 0 } else { n.min(SHORT) }).step_by(STEP) {
        for j in 0..STEP {
            computed[step + j] = value::<B, M>(&body, pointers, first, step.wrapping_add(j)).0;
        }
    }
    // Every step that there may be: a place that is not constant would keep the states in memory.
    let mut start = 0;
    while start < SHORT {
        if start < n {
            let mut values = [Compute::<B::Out>::default(); STEP];
            for j in 0..STEP {
                values[j] = if light {
                    value::<B, M>(&body, pointers, first, start.wrapping_add(j)).0
                } else {
                    computed[start + j]
                };
            }
            let left = (n - start) as u32;
            for j in 0..STEP {
                let state = states[start + j];
                let next = R::accumulate::<Eval>(state, Lane(values[j]), lane(0, start.wrapping_add(j)));
                states[start + j] = if (j as u32) < left { next } else { state };
            }
        }
        start += STEP;
    }
    if n <= STEP { collapse_step::<B, R, M>(first_step(&states)) } else { collapse::<B, R, M>(states) }
}

/// Takes a part of a contiguous row into the states; its first value has number `at`. The body's first load is pointer
/// `first`.
#[inline(always)]
fn accumulate<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: B,
    pointers: &Addresses,
    first: usize,
    part: Range<usize>,
    at: usize,
    early: usize,
    mut states: [State<B, R>; LANES],
) -> [State<B, R>; LANES] {
    let Range { mut start, end: n } = part;
    let lanes = const { lanes::<State<B, R>>() };
    // Wrapping sums: the checks of a debug build would keep these loops from vectorizing there.
    let at = at.wrapping_sub(start);
    let in_memory =
        const { matches!((B::SOURCE, M::HELD), (ValueSource::Operand, _) | (ValueSource::Cached, true)) };
    let light = const { B::CHEAP && R::CHEAP };
    if M::PLAIN {
        let (length, whole) = (n - start, (n - start) / lanes * lanes);
        let first_of_row = n < lanes && at.wrapping_add(start.wrapping_add(whole)) == 0;
        for i in 0..length {
            // As below: a place for each of whole turns, and the first or the last ones for what is left.
            let j = match i {
                _ if i < whole => i % lanes,
                _ if first_of_row => i - whole,
                _ => lanes - (length - i),
            };
            let x = value::<B, M>(&body, pointers, first, start.wrapping_add(i));
            states[j] = R::accumulate::<Eval>(states[j], x, lane(at, start.wrapping_add(i)));
        }
        return states;
    }
    // What stands in memory is absorbed from there, and what is computed in a few instructions as it is computed.
    while (in_memory || light) && start + lanes <= n {
        // Else the compiler may make vectors of several turns, with a gather for each state (i64: 8 times as long).
        std::hint::black_box(());
        let (mut here, mut from) = (*pointers, start);
        if in_memory {
            here[first] = here[first].wrapping_add(start * size_of::<B::Out>());
            here[MAX_OPERANDS] = here[MAX_OPERANDS].wrapping_add(start * size_of::<Compute<B::Out>>());
            from = 0;
        }
        // Of operands of other widths a part is fetched, or more.
        for k in 0..if light && early > 0 { B::LOADS } else { 0 } {
            let ahead = pointers[first + k].wrapping_add(start * size_of::<B::Out>() + early);
            simd::fetch_early(ahead, lanes * size_of::<B::Out>());
        }
        for j in 0..lanes {
            let x = value::<B, M>(&body, &here, first, from.wrapping_add(j));
            states[j] = R::accumulate::<Eval>(states[j], x, lane(at, start.wrapping_add(j)));
        }
        start += lanes;
    }
    if !(in_memory || light) {
        return absorb_blocks::<B, R, M>(&body, pointers, first, start..n, at, states);
    }
    if start < n {
        // Every state absorbs, and those beside the rest forget it: an index that is not constant would keep all of them in memory.
        // A whole row has the first states, as in `padded`; what follows other values the last ones.
        let rest = n - start;
        let first_of_row = n < lanes && at.wrapping_add(start) == 0;
        let from = if first_of_row { 0 } else { lanes - rest };
        let mut buffer = [Compute::<B::Out>::default(); LANES];
        if n >= lanes {
            for j in 0..lanes {
                buffer[j] = value::<B, M>(&body, pointers, first, (n - lanes).wrapping_add(j)).0;
            }
        } else {
            for i in 0..rest {
                buffer[from.wrapping_add(i)] = value::<B, M>(&body, pointers, first, start.wrapping_add(i)).0;
            }
        }
        let number = start.wrapping_sub(from);
        for j in 0..lanes {
            let next = R::accumulate::<Eval>(states[j], Lane(buffer[j]), lane(at, number.wrapping_add(j)));
            states[j] = if (j as u32).wrapping_sub(from as u32) < rest as u32 { next } else { states[j] };
        }
    }
    states
}

/// As [`accumulate`], for what is not computed in a few instructions: it goes through a block, so that evaluation and absorption each
/// vectorize, and there is one loop that evaluates. Before the block and behind its beginning is what nothing is made of.
#[inline(always)]
fn absorb_blocks<B: Body, R: Reducer<B::Out>, M: Mode>(
    body: &B,
    pointers: &Addresses,
    first: usize,
    part: Range<usize>,
    at: usize,
    mut states: [State<B, R>; LANES],
) -> [State<B, R>; LANES] {
    let Range { mut start, end: n } = part;
    let lanes = const { lanes::<State<B, R>>() };
    let mut room = MaybeUninit::<[Compute<B::Out>; LANES + BLOCK]>::uninit();
    let room = room.as_mut_ptr().cast::<Compute<B::Out>>();
    for j in 0..2 * LANES {
        // SAFETY: a block is longer than that.
        unsafe { *room.wrapping_add(j) = Default::default() };
    }
    let block = room.wrapping_add(LANES);
    while start < n {
        let len = BLOCK.min(n - start);
        for i in 0..len {
            // SAFETY: `len` is at most `BLOCK`.
            unsafe { *block.wrapping_add(i) = value::<B, M>(body, pointers, first, start.wrapping_add(i)).0 };
        }
        let mut done = 0;
        while done + lanes <= len {
            // Else the compiler may make vectors of several turns.
            std::hint::black_box(());
            for j in 0..lanes {
                // SAFETY: the loop above wrote as many values.
                let x = Lane(unsafe { *block.wrapping_add(done.wrapping_add(j)) });
                states[j] =
                    R::accumulate::<Eval>(states[j], x, lane(at, start.wrapping_add(done).wrapping_add(j)));
            }
            done += lanes;
        }
        if done < len {
            // As in `accumulate`.
            let rest = len - done;
            let first_of_row = n < lanes && at.wrapping_add(start) == 0;
            let from = if first_of_row { 0 } else { lanes - rest };
            let (values, number) =
                (block.wrapping_add(done).wrapping_sub(from), start.wrapping_add(done).wrapping_sub(from));
            for j in 0..lanes {
                // SAFETY: the room before the block, its beginning, which was filled, or values that were written.
                let x = Lane(unsafe { *values.wrapping_add(j) });
                let next = R::accumulate::<Eval>(states[j], x, lane(at, number.wrapping_add(j)));
                states[j] = if (j as u32).wrapping_sub(from as u32) < rest as u32 { next } else { states[j] };
            }
        }
        start += len;
    }
    states
}

/// Binary digits that count the leaves of any row.
pub(super) const DIGITS: usize = 48;

/// States of leaves, combined pairwise as they come: a binary counter whose digits are states. With more leaves than
/// there are digits for, the last digit takes in all that are carried to it.
pub(super) struct Cascade<'a, S> {
    states: &'a mut [MaybeUninit<S>],
    leaves: u64,
}

impl<'a, S: Copy> Cascade<'a, S> {
    /// No leaf yet, and room for the digits.
    #[inline(always)]
    pub(super) fn over(states: &'a mut [MaybeUninit<S>]) -> Self {
        Cascade { states, leaves: 0 }
    }
    #[inline(always)]
    pub(super) fn push(&mut self, mut state: S, combine: impl Fn(S, S) -> S) {
        let last = self.states.len() - 1;
        let mut digit = 0;
        while self.leaves >> digit & 1 == 1 {
            // SAFETY: a set digit of the counter has its state.
            state = combine(unsafe { self.states[digit].assume_init() }, state);
            if digit == last {
                break;
            }
            digit += 1;
        }
        self.states[digit] = MaybeUninit::new(state);
        // The digits below are carried into this one, which stays set if it is the last.
        self.leaves = (self.leaves >> digit | 1) << digit;
    }
    #[inline(always)]
    pub(super) fn join(&self, identity: S, combine: impl Fn(S, S) -> S) -> S {
        let (mut joined, mut left) = (None, self.leaves);
        while left != 0 {
            // SAFETY: a set digit of the counter has its state.
            let state = unsafe { self.states[left.trailing_zeros() as usize].assume_init() };
            joined = Some(joined.map_or(state, |later| combine(state, later)));
            left &= left - 1;
        }
        joined.unwrap_or(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::Cascade;
    use std::mem::MaybeUninit;

    #[test]
    fn leaves_are_combined_in_order_and_pairwise_as_far_as_digits_go() {
        for leaves in 0..40 {
            let mut room = [const { MaybeUninit::uninit() }; 3];
            let mut cascade = Cascade::over(&mut room);
            // From which leaf to which, and how deep the tree is.
            let combine = |a: (u32, u32, u32), b: (u32, u32, u32)| {
                assert_eq!(a.1, b.0, "neighbors, in order");
                (a.0, b.1, a.2.max(b.2) + 1)
            };
            for leaf in 0..leaves {
                cascade.push((leaf, leaf + 1, 0), combine);
            }
            let joined = cascade.join((0, 0, 0), combine);
            assert_eq!((joined.0, joined.1), (0, leaves));
            assert!(leaves > 8 || joined.2 <= 4, "{leaves} leaves, {} deep", joined.2);
        }
    }
}
