//! Vectors in scratch memory: all buffers of a sort are parts of one block, which the pool keeps.
// Imports: `error`.

use super::super::memory::CpuBlock;
use crate::error::Result;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Bytes at whose multiples buffers begin.
const ALIGNMENT: usize = 64;

/// A vector of plain items. Its memory has its capacity from the start, and belongs to a [`Buffers`].
pub(super) struct Items<X> {
    start: *mut X,
    len: usize,
    capacity: usize,
}

impl<X: Copy> Items<X> {
    /// An empty vector.
    ///
    /// # Safety
    /// There is memory for `capacity` items at `start`, which nothing else uses while the vector is in use.
    pub(super) unsafe fn over(start: *mut X, capacity: usize) -> Self {
        Items { start, len: 0, capacity }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n);
    }

    /// Sets the length; new items are `fill`.
    pub(super) fn resize(&mut self, n: usize, fill: X) {
        assert!(n <= self.capacity, "the buffers of a sort are counted before it");
        for i in self.len..n {
            // SAFETY: the memory has room for the capacity.
            unsafe { self.start.add(i).write(fill) };
        }
        self.len = n;
    }

    /// Sets the length to `n`. `write` writes all items.
    ///
    /// # Safety
    /// `write` does so.
    pub(super) unsafe fn written(&mut self, n: usize, write: impl FnOnce(&mut [MaybeUninit<X>])) {
        assert!(n <= self.capacity, "the buffers of a sort are counted before it");
        // SAFETY: the memory has room for the capacity, and only this vector uses it.
        write(unsafe { std::slice::from_raw_parts_mut(self.start.cast(), n) });
        self.len = n;
    }

    pub(super) fn push(&mut self, item: X) {
        self.resize(self.len + 1, item);
    }

    /// Appends items.
    pub(super) fn extend(&mut self, items: impl ExactSizeIterator<Item = X>) {
        let (from, n) = (self.len, items.len());
        assert!(n <= self.capacity - from, "the buffers of a sort are counted before it");
        for (i, item) in (0..n).zip(items) {
            // SAFETY: the memory has room for the capacity.
            unsafe { self.start.add(from + i).write(item) };
            self.len = from + i + 1;
        }
    }

    /// Removes the items for which `keeps` is false.
    pub(super) fn retain(&mut self, keeps: impl Fn(&X) -> bool) {
        let mut kept = 0;
        for i in 0..self.len {
            if keeps(&self[i]) {
                self[kept] = self[i];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl<X> Deref for Items<X> {
    type Target = [X];
    #[inline(always)]
    fn deref(&self) -> &[X] {
        // SAFETY: the first `len` items were written.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
impl<X> DerefMut for Items<X> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [X] {
        // SAFETY: as above; only this vector uses the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A block of memory, and the bytes of it that are in use.
pub(super) struct Buffers {
    block: CpuBlock,
    nbytes: usize,
    used: usize,
}

impl Buffers {
    /// Bytes of a buffer of `n` items in a block of several buffers.
    pub(super) fn nbytes<X>(n: usize) -> usize {
        n.saturating_mul(size_of::<X>()).saturating_add(ALIGNMENT)
    }

    /// Memory for buffers of `nbytes` bytes together ([`nbytes`](Self::nbytes)).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::error::Error::OutOfMemory).
    pub(super) fn new(nbytes: usize) -> Result<Self> {
        Ok(Buffers { block: CpuBlock::scratch(nbytes)?, nbytes, used: 0 })
    }

    /// The next buffer. It is valid as long as these buffers are.
    pub(super) fn take<X: Copy>(&mut self, n: usize) -> Items<X> {
        let start = self.block.address().wrapping_add(self.used);
        let start = start.wrapping_add(start.align_offset(ALIGNMENT));
        self.used += Self::nbytes::<X>(n);
        assert!(self.used <= self.nbytes, "the buffers of a sort are counted before it");
        // SAFETY: each buffer takes a part of its own, with the room for its alignment.
        unsafe { Items::over(start.cast(), n) }
    }
}
