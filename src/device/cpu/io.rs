//! One position of contiguous operands, and room to make operands contiguous in.
//!
//! Imports: `scalar`, `element`, `kernel`, `device`.

use super::walk::Addresses;
use crate::device::MAX_OPERANDS;
use crate::element::{Compute, Element};
use crate::kernel::Io;
use crate::scalar::{Lane, Run};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// One position of contiguous operands; `HELD` when the program has settled on the row, and held what it holds.
pub(super) struct At<'a, const HELD: bool = false> {
    /// Outputs, then one for each load; last the room for what the row holds.
    pub(super) pointers: &'a Addresses,
    /// The next load's pointer.
    pub(super) next: usize,
    /// The next store's pointer.
    pub(super) output: usize,
    /// The position.
    pub(super) i: usize,
}

impl<const HELD: bool> Io<Run> for At<'_, HELD> {
    #[inline(always)]
    fn load<T: Element>(&mut self) -> Lane<Run, Compute<T>> {
        let pointer = self.pointers[self.next].cast::<T>();
        self.next += 1;
        // SAFETY: whoever made this `At` promised an element of type T here (`row`, `fold`, `columns`).
        Lane(unsafe { pointer.add(self.i).read() }.widen())
    }
    #[inline(always)]
    fn param<T: Element>(&mut self, value: T) -> Lane<Run, Compute<T>> {
        Lane(value.widen())
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, value: Lane<Run, Compute<T>>) {
        let pointer = self.pointers[self.output].cast::<T>();
        self.output += 1;
        // SAFETY: as for `load`; stores go to outputs.
        unsafe { pointer.add(self.i).write(T::narrow(value.0)) };
    }
    #[inline(always)]
    fn settled<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Run, Compute<T>> {
        self.next += loads;
        Lane(value)
    }
    #[inline(always)]
    fn held<T: Element>(&mut self, place: usize, loads: usize) -> Option<Lane<Run, Compute<T>>> {
        if !HELD {
            return None;
        }
        self.next += loads;
        let room = self.pointers[MAX_OPERANDS].wrapping_add(place).cast::<Compute<T>>();
        // SAFETY: `Settling::hold` wrote the values of the whole row there.
        Some(Lane(unsafe { room.add(self.i).read() }))
    }
}

/// Room for packed elements, on the stack.
///
/// It is written through the pointers that it gave; its own are never made from an exclusive reference, which would end theirs.
pub(super) struct Scratch<const WORDS: usize> {
    words: UnsafeCell<[MaybeUninit<u64>; WORDS]>,
    used: Cell<usize>,
}

impl<const WORDS: usize> Scratch<WORDS> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Scratch { words: UnsafeCell::new([MaybeUninit::uninit(); WORDS]), used: Cell::new(0) }
    }

    /// The next `nbytes`, aligned for every element; the caller has counted them.
    pub(super) fn take(&self, nbytes: usize) -> *mut u8 {
        let at = self.used.get();
        self.used.set(at + nbytes.div_ceil(8));
        assert!(self.used.get() <= WORDS, "scratch: blocks are counted before they are taken");
        self.words.get().cast::<u64>().wrapping_add(at).cast()
    }
}
