//! A cursor in contiguous operands: how a loop loads and stores elements at one position.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::strided::Pointers;
use crate::device::MAX_OPERANDS;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;

/// The number of no operand.
pub(crate) const NO_OPERAND: usize = usize::MAX;

/// How a loop over a row is compiled.
pub(crate) trait Mode: Copy {
    /// Whether the program has prepared the row and cached its values.
    const HELD: bool;
    /// Whether the loop proceeds element by element, in few instructions. It is the version for x86-64
    /// processors without AVX2: they are rare, and full copies of every loop for them would cost as much
    /// compile time as the other copies.
    const SCALAR: bool;

    /// Blocks vectorization and unrolling of a scalar loop, because the compiler cannot look through a
    /// `black_box`.
    #[inline(always)]
    fn keep_scalar() {
        if Self::SCALAR {
            std::hint::black_box(());
        }
    }
}

/// A [`Mode`], given by constants.
#[derive(Clone, Copy)]
pub(crate) struct By<const HELD: bool, const SCALAR: bool>;

impl<const HELD: bool, const SCALAR: bool> Mode for By<HELD, SCALAR> {
    const HELD: bool = HELD;
    const SCALAR: bool = SCALAR;
}

/// One position of contiguous operands.
pub(crate) struct Cursor<'a, M> {
    /// The outputs, then one pointer for each load; the last points to the cached values of the row.
    pub(crate) pointers: &'a Pointers,
    /// The number of the next load's pointer.
    pub(crate) next: usize,
    /// The number of the pointer whose operand is broadcast (one element for all positions), or
    /// [`NO_OPERAND`].
    pub(crate) broadcast: usize,
    /// The number of the next store's pointer.
    pub(crate) output: usize,
    /// The position.
    pub(crate) i: usize,
    pub(crate) mode: PhantomData<M>,
}

impl<'a, M: Mode> Cursor<'a, M> {
    /// Position `i` of operands without a broadcast one; `next` is the number of the first load's pointer.
    #[inline(always)]
    pub(crate) fn new(pointers: &'a Pointers, next: usize, i: usize) -> Self {
        Self::with_broadcast(pointers, next, NO_OPERAND, i)
    }

    /// Position `i` of operands, of which the one at `broadcast` has one element for all positions.
    #[inline(always)]
    pub(crate) fn with_broadcast(pointers: &'a Pointers, next: usize, broadcast: usize, i: usize) -> Self {
        M::keep_scalar();
        Cursor { pointers, next, broadcast, output: 0, i, mode: PhantomData }
    }
}

// Pointers are dereferenced by `*`. The standard library's functions check the pointer for every element if
// the *user's* crate is compiled with debug assertions, and such checks would dominate the loop.
impl<M: Mode> Io<Eval> for Cursor<'_, M> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Eval, Compute<T>> {
        let pointer = self.pointers[self.next].cast::<T>();
        let at = if self.next == self.broadcast { 0 } else { self.i };
        self.next += 1;
        // SAFETY: the code that made this `Cursor` promised an element of type T here.
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
        // SAFETY: `RowPreparation::hold` wrote the values of the whole row at this address.
        Some(Lane(unsafe { *room.wrapping_add(self.i) }))
    }
}

/// The value of a body at position `i` of a contiguous row; its first load is pointer `first`. It is a
/// function, because a closure would remain a call where the user's crate is compiled incrementally.
#[inline(always)]
pub(crate) fn value<B: Body, M: Mode>(
    body: &B,
    pointers: &Pointers,
    first: usize,
    i: usize,
) -> Lane<Eval, Compute<B::Out>> {
    body.eval::<Eval>(&mut Cursor::<M>::new(pointers, first, i))
}
