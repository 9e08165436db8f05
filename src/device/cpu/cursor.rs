//! One position of contiguous operands: how a loop loads and stores elements.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::strided::Pointers;
use crate::device::MAX_OPERANDS;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;

/// No pointer.
pub(crate) const NO_OPERAND: usize = usize::MAX;

/// What a loop finds on a row, and how it is compiled.
pub(crate) trait Mode: Copy {
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
pub(crate) struct By<const HELD: bool, const PLAIN: bool>;

impl<const HELD: bool, const PLAIN: bool> Mode for By<HELD, PLAIN> {
    const HELD: bool = HELD;
    const PLAIN: bool = PLAIN;
}

/// One position of contiguous operands.
pub(crate) struct Cursor<'a, M> {
    /// Outputs, then one for each load; last the room for what the row holds.
    pub(crate) pointers: &'a Pointers,
    /// The next load's pointer.
    pub(crate) next: usize,
    /// The pointer with one element for all positions, or [`NO_OPERAND`].
    pub(crate) broadcast: usize,
    /// The next store's pointer.
    pub(crate) output: usize,
    /// The position.
    pub(crate) i: usize,
    pub(crate) mode: PhantomData<M>,
}

impl<'a, M: Mode> Cursor<'a, M> {
    /// Position `i` of operands that all have an element for each; `next` is the pointer of the first load.
    #[inline(always)]
    pub(crate) fn new(pointers: &'a Pointers, next: usize, i: usize) -> Self {
        Self::with_broadcast(pointers, next, NO_OPERAND, i)
    }

    /// Position `i`, where the pointer at `broadcast` has one element for all.
    #[inline(always)]
    pub(crate) fn with_broadcast(pointers: &'a Pointers, next: usize, broadcast: usize, i: usize) -> Self {
        M::keep_plain();
        Cursor { pointers, next, broadcast, output: 0, i, mode: PhantomData }
    }
}

// Pointers are followed by `*`: the standard library's functions check them where the *user's* crate is compiled with debug
// assertions, element by element, and such a loop takes ten times as long.
impl<M: Mode> Io<Eval> for Cursor<'_, M> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        let pointer = self.pointers[self.next].cast::<T>();
        let at = if self.next == self.broadcast { 0 } else { self.i };
        self.next += 1;
        // SAFETY: whoever made this `Cursor` promised an element of type T here (`row`, `fold`, `columns`).
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
    fn settled<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Eval, Compute<T>> {
        self.next += loads;
        Lane(value)
    }
    #[inline(always)]
    fn held<T: Element>(&mut self, place: usize, loads: usize) -> Option<Lane<Eval, Compute<T>>> {
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
pub(crate) fn value<B: Body, M: Mode>(
    body: &B,
    pointers: &Pointers,
    first: usize,
    i: usize,
) -> Lane<Eval, Compute<B::Out>> {
    body.eval::<Eval>(&mut Cursor::<M>::new(pointers, first, i))
}
