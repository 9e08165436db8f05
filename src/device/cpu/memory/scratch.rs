//! Scratch space on the stack, into which the engines pack operands.
// Imports: `device`.

use crate::device::MAX_OPERANDS;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Bytes of a cache line.
pub(crate) const CACHE_LINE_BYTES: usize = 64;
/// Bytes that rounding up to cache lines can add where every operand takes a part of a [`Scratch`].
pub(crate) const ROUNDING_BYTES: usize = CACHE_LINE_BYTES * MAX_OPERANDS;

/// Uninitialized words on the stack. They begin at a cache line, because a vector that spans two cache lines
/// takes twice as long to load.
///
/// Keep it in a variable of its own: in a struct with an initialized field, the compiler would fill all of it
/// with zeros.
#[repr(align(64))]
pub(crate) struct StackScratch<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> StackScratch<WORDS> {
    #[inline(always)]
    pub(crate) const fn uninit() -> Self {
        StackScratch(MaybeUninit::uninit())
    }

    #[inline(always)]
    pub(crate) const fn as_mut_ptr(&mut self) -> *mut u64 {
        self.0.as_mut_ptr().cast()
    }
}

/// Hands out parts of a [`StackScratch`], one after another.
///
/// The parts are written through the pointers that [`take`](Scratch::take) returned. `Scratch` never makes a
/// pointer from an exclusive reference again, because that would invalidate the pointers given before.
pub(crate) struct Scratch<'a> {
    start: *mut u64,
    words: usize,
    used: Cell<usize>,
    _room: PhantomData<&'a mut u64>,
}

impl<'a> Scratch<'a> {
    #[inline(always)]
    pub(crate) fn over<const WORDS: usize>(words: &'a mut StackScratch<WORDS>) -> Self {
        Scratch { start: words.as_mut_ptr(), words: WORDS, used: Cell::new(0), _room: PhantomData }
    }

    /// The next `nbytes` bytes, from a cache line on. The caller has counted the bytes of all parts.
    pub(crate) fn take(&self, nbytes: usize) -> *mut u8 {
        let at = self.used.get();
        self.used.set(at + nbytes.next_multiple_of(CACHE_LINE_BYTES) / 8);
        assert!(self.used.get() <= self.words, "scratch: blocks are counted before they are taken");
        self.start.wrapping_add(at).cast()
    }
}
