//! One position of contiguous operands, and room to make operands contiguous in.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::walk::Addresses;
use crate::device::MAX_OPERANDS;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io};
use crate::scalar::{Eval, Lane};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// No pointer.
pub(super) const NONE: usize = usize::MAX;

/// What a loop finds on a row, and how it is compiled.
pub(super) trait Mode: Copy {
    /// Whether the program has settled on the row, and held what it holds.
    const HELD: bool;
    /// Whether it goes element by element, in few instructions: for processors of x86-64 without AVX2, which are rare, and whose
    /// copies of every loop cost as much to compile as the others.
    const PLAIN: bool;

    /// What the compiler cannot look through makes no vectors, and is not repeated.
    #[inline(always)]
    fn keep_plain() {
        if Self::PLAIN {
            std::hint::black_box(());
        }
    }
}

/// A [`Mode`].
#[derive(Clone, Copy)]
pub(super) struct By<const HELD: bool, const PLAIN: bool>;

impl<const HELD: bool, const PLAIN: bool> Mode for By<HELD, PLAIN> {
    const HELD: bool = HELD;
    const PLAIN: bool = PLAIN;
}

/// One position of contiguous operands.
pub(super) struct At<'a, M> {
    /// Outputs, then one for each load; last the room for what the row holds.
    pub(super) pointers: &'a Addresses,
    /// The next load's pointer.
    pub(super) next: usize,
    /// The pointer with one element for all positions, or [`NONE`].
    pub(super) still: usize,
    /// The next store's pointer.
    pub(super) output: usize,
    /// The position.
    pub(super) i: usize,
    pub(super) mode: PhantomData<M>,
}

impl<'a, M: Mode> At<'a, M> {
    /// Position `i` of operands that all have an element for each; `next` is the pointer of the first load.
    #[inline(always)]
    pub(super) fn new(pointers: &'a Addresses, next: usize, i: usize) -> Self {
        Self::beside(pointers, next, NONE, i)
    }

    /// Position `i`, where the pointer at `still` has one element for all.
    #[inline(always)]
    pub(super) fn beside(pointers: &'a Addresses, next: usize, still: usize, i: usize) -> Self {
        M::keep_plain();
        At { pointers, next, still, output: 0, i, mode: PhantomData }
    }
}

// Pointers are followed by `*`: the standard library's functions check them where the *user's* crate is compiled with debug
// assertions, element by element, and such a loop takes ten times as long.
impl<M: Mode> Io<Eval> for At<'_, M> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        let pointer = self.pointers[self.next].cast::<T>();
        let at = if self.next == self.still { 0 } else { self.i };
        self.next += 1;
        // SAFETY: whoever made this `At` promised an element of type T here (`row`, `fold`, `columns`).
        Lane(unsafe { *pointer.wrapping_add(at) }.widen())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, value: T) -> Lane<Eval, Compute<T>> {
        Lane(value.widen())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, value: Lane<Eval, Compute<T>>) {
        let pointer = self.pointers[self.output].cast::<T>();
        self.output += 1;
        // SAFETY: as for `load`; stores go to outputs.
        unsafe { *pointer.wrapping_add(self.i) = T::narrow(value.0) };
    }
    #[inline(always)]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Eval, Compute<T>> {
        self.next += loads;
        Lane(value)
    }
    #[inline(always)]
    fn cached<T: Element>(&mut self, place: usize, loads: usize) -> Option<Lane<Eval, Compute<T>>> {
        if !M::HELD {
            return None;
        }
        self.next += loads;
        let room = self.pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<T>>();
        // SAFETY: `RowPreparation::hold` wrote the values of the whole row there.
        Some(Lane(unsafe { *room.wrapping_add(self.i) }))
    }
}

/// The body's value at position `i` of a contiguous row; its first load is pointer `first`. A closure would stay a call where
/// the user's crate is compiled incrementally.
#[inline(always)]
pub(super) fn value<B: Body, M: Mode>(
    body: &B,
    pointers: &Addresses,
    first: usize,
    i: usize,
) -> Lane<Eval, Compute<B::Out>> {
    body.eval::<Eval>(&mut At::<M>::new(pointers, first, i))
}

/// Words on the stack that nobody has written, from a cache line on: vectors that lie across two take twice as long.
///
/// A variable of its own: beside a number that is written, the compiler would fill all of it with zeros.
#[repr(align(64))]
pub(super) struct Words<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> Words<WORDS> {
    #[inline(always)]
    pub(super) const fn uninit() -> Self {
        Words(MaybeUninit::uninit())
    }

    #[inline(always)]
    pub(super) const fn as_mut_ptr(&mut self) -> *mut u64 {
        self.0.as_mut_ptr().cast()
    }
}

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// Bytes that are lost, at most, where every operand takes room: what each takes is rounded up to cache lines.
pub(super) const ROUNDING: usize = LINE * MAX_OPERANDS;

/// Room for packed elements.
///
/// It is written through the pointers that it gave; its own are never made from an exclusive reference, which would end theirs.
pub(super) struct Scratch<'a> {
    start: *mut u64,
    words: usize,
    used: Cell<usize>,
    _room: PhantomData<&'a mut u64>,
}

impl<'a> Scratch<'a> {
    #[inline(always)]
    pub(super) fn over<const WORDS: usize>(words: &'a mut Words<WORDS>) -> Self {
        Scratch { start: words.as_mut_ptr(), words: WORDS, used: Cell::new(0), _room: PhantomData }
    }

    /// The next `nbytes`, from a cache line on; the caller has counted them.
    pub(super) fn take(&self, nbytes: usize) -> *mut u8 {
        let at = self.used.get();
        self.used.set(at + nbytes.next_multiple_of(LINE) / 8);
        assert!(self.used.get() <= self.words, "scratch: blocks are counted before they are taken");
        self.start.wrapping_add(at).cast()
    }
}
