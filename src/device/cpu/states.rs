//! States of a reducer whose type is erased: where they stand, how they are combined, what they come to.
//!
//! What combines them is compiled once, here; a reducer brings three functions, which call its own.
// Imports: `error`, `element`, `kernel`, `scalar`.

use super::fold::{DIGITS, State};
use super::memory::CpuBlock;
use super::memory::scratch::{CACHE_LINE_BYTES as LINE, StackScratch as Words};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};

/// Bytes of a state, at most, of which columns are reduced side by side.
pub(super) const COLUMN_STATE: usize = 64;

/// What is done with states of a reducer, whose type is erased.
#[derive(Clone, Copy)]
pub(super) struct States {
    /// Bytes of a state.
    pub(super) size: usize,
    /// What the functions are told: the reducer, where it is interpreted.
    pub(super) reducer: *const (),
    /// Writes so many states that have absorbed nothing.
    pub(super) identity: unsafe fn(reducer: *const (), to: *mut u8, n: usize),
    /// Combines each of `n` states with a later one, which takes the result.
    pub(super) combine: unsafe fn(reducer: *const (), earlier: *const u8, later: *mut u8, n: usize),
    /// Writes what `n` states that have absorbed `count` values each come to, `step` bytes apart.
    pub(super) finalize:
        unsafe fn(reducer: *const (), states: *const u8, n: usize, count: usize, out: *mut u8, step: isize),
}

impl States {
    pub(super) const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        assert!(
            align_of::<State<B, R>>() <= LINE,
            "states have their places in rooms that begin at cache lines"
        );
        States {
            size: size_of::<State<B, R>>(),
            reducer: std::ptr::null(),
            identity: identity::<B, R>,
            combine: combine::<B, R>,
            finalize: finish_all::<B, R>,
        }
    }

    /// Writes so many states that have absorbed nothing.
    ///
    /// # Safety
    /// There is room for them.
    pub(super) unsafe fn identity(&self, to: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the functions are those of this reducer.
        unsafe { (self.identity)(self.reducer, to, n) };
    }

    /// Combines each of `n` states with a later one, which takes the result.
    ///
    /// # Safety
    /// So many states stand at both.
    unsafe fn combine(&self, earlier: *const u8, later: *mut u8, n: usize) {
        // SAFETY: as above.
        unsafe { (self.combine)(self.reducer, earlier, later, n) };
    }

    /// Writes what `n` states that have absorbed `count` values each come to, `step` bytes apart.
    ///
    /// # Safety
    /// So many states stand there; the outputs have room for an element each.
    pub(super) unsafe fn finalize(
        &self,
        states: *const u8,
        n: usize,
        count: usize,
        out: *mut u8,
        step: isize,
    ) {
        // SAFETY: as above.
        unsafe { (self.finalize)(self.reducer, states, n, count, out, step) };
    }

    /// The state of `n` leaves, pairwise; it stands in the place of the last.
    ///
    /// # Safety
    /// So many states stand there.
    pub(super) unsafe fn tree(&self, leaves: *mut u8, n: usize) -> *mut u8 {
        // A node stands in the place of its last leaf.
        let node = |last: usize| leaves.wrapping_add(last * self.size);
        let mut half = 1;
        while half < n {
            for from in (0..n - half).step_by(2 * half) {
                // SAFETY: the caller's promise.
                unsafe { self.combine(node(from + half - 1), node((from + 2 * half).min(n) - 1), 1) };
            }
            half *= 2;
        }
        node(n - 1)
    }
}

/// Room for states: on the stack where they fit.
pub(super) struct StateRoom {
    words: Words<{ DIGITS * COLUMN_STATE / 8 }>,
    block: Option<CpuBlock>,
}

impl StateRoom {
    /// Room for so many bytes.
    pub(super) fn new(nbytes: usize) -> Result<Self> {
        let block = if nbytes > DIGITS * COLUMN_STATE { Some(CpuBlock::scratch(nbytes)?) } else { None };
        Ok(StateRoom { words: Words::uninit(), block })
    }

    /// Where it is as long as it is not moved.
    pub(super) fn address(&mut self) -> *mut u8 {
        self.block.as_ref().map_or(self.words.as_mut_ptr().cast(), CpuBlock::address)
    }
}

/// States of leaves, some side by side, combined pairwise as they come: as [`fold::Cascade`](super::fold::Cascade), for states
/// whose type is erased.
pub(super) struct Cascade<'a> {
    states: &'a States,
    /// Room for the digits.
    room: *mut u8,
    digits: usize,
    /// How many states stand side by side.
    width: usize,
    leaves: u64,
}

impl<'a> Cascade<'a> {
    /// No leaf yet.
    pub(super) fn over(states: &'a States, room: *mut u8, digits: usize, width: usize) -> Self {
        Cascade { states, room, digits, width, leaves: 0 }
    }

    fn digit(&self, digit: usize) -> *mut u8 {
        self.room.wrapping_add(digit * self.width * self.states.size)
    }

    /// Takes in the states of the next leaf, which may change on the way.
    ///
    /// # Safety
    /// The room is there, and apart from `leaf`, which holds as many states as stand side by side.
    pub(super) unsafe fn push(&mut self, leaf: *mut u8) {
        let mut digit = 0;
        while self.leaves >> digit & 1 == 1 {
            // SAFETY: a set digit of the counter has its states.
            unsafe { self.states.combine(self.digit(digit), leaf, self.width) };
            if digit + 1 == self.digits {
                break;
            }
            digit += 1;
        }
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(leaf, self.digit(digit), self.width * self.states.size) };
        // The digits below are carried into this one, which stays set if it is the last.
        self.leaves = (self.leaves >> digit | 1) << digit;
    }

    /// Takes in the states of the last leaf, and makes them those of all leaves.
    ///
    /// # Safety
    /// As for [`push`](Cascade::push).
    pub(super) unsafe fn join(&self, last: *mut u8) {
        let mut left = self.leaves;
        while left != 0 {
            // SAFETY: a set digit of the counter has its states; the caller's promise for `last`.
            unsafe { self.states.combine(self.digit(left.trailing_zeros() as usize), last, self.width) };
            left &= left - 1;
        }
    }
}

/// # Safety
/// See [`States::identity`]; there is room at a place for states.
unsafe fn identity<B: Body, R: Reducer<B::Out>>(_: *const (), to: *mut u8, n: usize) {
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<State<B, R>>().add(k).write(R::identity::<Eval>()) };
    }
}

/// # Safety
/// See [`States::combine`]; states stand at places for them.
unsafe fn combine<B: Body, R: Reducer<B::Out>>(_: *const (), earlier: *const u8, later: *mut u8, n: usize) {
    let (earlier, later) = (earlier.cast::<State<B, R>>(), later.cast::<State<B, R>>());
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe { later.add(k).write(R::combine::<Eval>(earlier.add(k).read(), later.add(k).read())) };
    }
}

/// # Safety
/// See [`States::finalize`]; the outputs have room for one `R::Out` each.
unsafe fn finish_all<B: Body, R: Reducer<B::Out>>(
    _: *const (),
    states: *const u8,
    n: usize,
    count: usize,
    out: *mut u8,
    step: isize,
) {
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            finalize::<B, R>(
                states.cast::<State<B, R>>().add(k).read(),
                count,
                out.wrapping_offset(k as isize * step),
            )
        };
    }
}

/// Writes what a row of `count` values with this state comes to.
///
/// # Safety
/// `out` has room for one `R::Out`.
#[inline(always)]
pub(super) unsafe fn finalize<B: Body, R: Reducer<B::Out>>(state: State<B, R>, count: usize, out: *mut u8) {
    let value = R::finalize::<Eval>(state, Lane(count as i64)).0;
    // SAFETY: the caller's promise.
    unsafe { *out.cast::<R::Out>() = R::Out::narrow(value) };
}
