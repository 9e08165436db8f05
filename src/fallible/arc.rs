//! `FallibleArc<T>`: a reference-counted value whose allocation can fail.
//!
//! `std::sync::Arc` aborts the process when memory runs out, and its fallible constructor is not stable; a
//! tensor library must return an error. There are no weak references, therefore one load of the counter shows
//! whether a handle is the only one. A handle may carry inline bytes in the same heap block: a small tensor
//! takes one block instead of two.
// Imports: `error`.

use crate::error::{Error, Result};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

struct Counted<T> {
    handles: AtomicUsize,
    /// Number of inline bytes in the block, behind this struct.
    inline_bytes: usize,
    value: T,
}

/// Minimal alignment of every block and of its inline bytes; allocators provide it at no cost.
const MIN_ALIGNMENT_BYTES: usize = 16;

impl<T> Counted<T> {
    /// The offset of the inline bytes in the block.
    const HEADER_BYTES: usize = size_of::<Self>().next_multiple_of(MIN_ALIGNMENT_BYTES);

    /// The layout of a block with that many inline bytes behind the value.
    fn block(inline_bytes: usize) -> Option<Layout> {
        Layout::from_size_align(
            Self::HEADER_BYTES.checked_add(inline_bytes)?,
            align_of::<Self>().max(MIN_ALIGNMENT_BYTES),
        )
        .ok()
    }

    /// Frees the block.
    ///
    /// # Safety
    /// 1. Invariant 1 of [`FallibleArc`] holds.
    /// 2. No handle uses the block any more.
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: (1) the block was allocated with this layout, which is therefore valid; (2) nothing reads
        // it afterwards.
        unsafe {
            let layout = Self::block((*this.as_ptr()).inline_bytes).unwrap_unchecked();
            std::alloc::dealloc(this.as_ptr().cast(), layout);
        }
    }
}

/// A handle on a value that lives as long as its last handle.
///
/// Invariant 1: `inner` points to a live `Counted<T>` at the start of a block that the global allocator
/// returned for the layout `Counted::block(inline_bytes)`; its counter is the number of handles.
pub(crate) struct FallibleArc<T> {
    inner: NonNull<Counted<T>>,
    _owns: PhantomData<Counted<T>>,
}

// SAFETY: as `Arc`: handles on two threads share `&T` (needs Sync), and the last one drops `T` on its thread
// (needs Send).
unsafe impl<T: Send + Sync> Send for FallibleArc<T> {}
// SAFETY: as above; `&FallibleArc<T>` gives `&T` and new handles.
unsafe impl<T: Send + Sync> Sync for FallibleArc<T> {}

impl<T> FallibleArc<T> {
    /// The first handle on `value`. One heap block.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; `value` is dropped.
    pub(crate) fn new(value: T) -> Result<Self> {
        Self::with_inline_bytes(0, 1, |_| value)
            .ok_or(Error::OutOfMemory { op: "handle", nbytes: size_of::<Counted<T>>() })
    }

    /// The first handle on the value that `make` returns. `make` receives `nbytes` inline bytes, which live
    /// as long as the value, at an address that is a multiple of `alignment`, a power of two. One heap block;
    /// `None` when there is no memory for it.
    #[inline]
    pub(crate) fn with_inline_bytes(
        nbytes: usize,
        alignment: usize,
        make: impl FnOnce(NonNull<u8>) -> T,
    ) -> Option<Self> {
        let inline_bytes = nbytes.checked_add(alignment.saturating_sub(MIN_ALIGNMENT_BYTES))?;
        let layout = Counted::<T>::block(inline_bytes)?;
        // SAFETY: the layout is not empty, it holds at least the counter.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        // SAFETY: the inline bytes begin inside the block or at its end, and their number includes the bytes
        // that the alignment skips.
        let start = unsafe {
            let start = block.add(Counted::<T>::HEADER_BYTES);
            start.add(start.addr().get().wrapping_neg() & (alignment - 1))
        };
        let inner = block.cast::<Counted<T>>();
        /// Frees the block if `make` unwinds.
        struct FreeOnUnwind(*mut u8, Layout);
        impl Drop for FreeOnUnwind {
            fn drop(&mut self) {
                // SAFETY: allocated above with this layout; no other code has the pointer.
                unsafe { std::alloc::dealloc(self.0, self.1) }
            }
        }
        let free_on_unwind = FreeOnUnwind(block.as_ptr(), layout);
        let value = make(start);
        std::mem::forget(free_on_unwind);
        // SAFETY: fresh memory of that layout.
        unsafe { inner.write(Counted { handles: AtomicUsize::new(1), inline_bytes, value }) };
        Some(FallibleArc { inner, _owns: PhantomData })
    }

    /// This handle as a pointer, for [`FallibleArc::from_raw`].
    #[cfg(any(feature = "autograd", feature = "dynamic"))]
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<()> {
        std::mem::ManuallyDrop::new(self).inner.cast()
    }

    /// The handle that [`FallibleArc::into_raw`] gave away.
    ///
    /// # Safety
    /// 1. `raw` comes from `into_raw` of a `FallibleArc<T>`.
    /// 2. It is taken back once.
    #[cfg(any(feature = "autograd", feature = "dynamic"))]
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        FallibleArc { inner: raw.cast(), _owns: PhantomData }
    }

    /// The value of a handle that [`FallibleArc::into_raw`] gave away.
    ///
    /// # Safety
    /// 1. As [`FallibleArc::from_raw`].
    /// 2. The handle is taken back only after `'a`.
    #[cfg(any(feature = "autograd", feature = "dynamic"))]
    #[inline]
    pub(crate) unsafe fn peek<'a>(raw: NonNull<()>) -> &'a T {
        // SAFETY: (1) invariant 1 of the handle; (2) the handle keeps the value alive for `'a`.
        unsafe { &(*raw.cast::<Counted<T>>().as_ptr()).value }
    }

    #[inline]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: invariant 1; this handle keeps it alive.
        unsafe { self.inner.as_ref() }
    }

    /// The number of handles at this moment.
    #[inline]
    pub(crate) fn handles(&self) -> usize {
        self.counted().handles.load(Ordering::Acquire)
    }

    /// Another handle.
    #[inline]
    pub(crate) fn share(&self) -> Self {
        // The handles in memory cannot exceed isize::MAX unless they are leaked; the process stops before the
        // counter wraps.
        if self.counted().handles.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
        FallibleArc { inner: self.inner, _owns: PhantomData }
    }

    /// Whether this is the only handle. If it is, the accesses of other threads through theirs are visible
    /// here.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.handles() == 1
    }

    /// The value itself, if this is the only handle; the block and its inline bytes are freed.
    pub(crate) fn into_value(self) -> Option<T> {
        if !self.is_unique() {
            return None;
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the only handle (acquired here), which is not used again: the value is read once, and the
        // block is freed.
        unsafe {
            let value = (&raw const (*this.inner.as_ptr()).value).read();
            Counted::free(this.inner);
            Some(value)
        }
    }

    /// The value to write, if this is the only handle.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the only handle (acquired here), borrowed exclusively.
        self.is_unique().then(|| unsafe { &mut (*self.inner.as_ptr()).value })
    }
}

impl<T> Deref for FallibleArc<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for FallibleArc<T> {
    #[inline]
    fn drop(&mut self) {
        // The only handle needs no agreement with others: a load is much cheaper than an atomic subtraction.
        if !self.is_unique() {
            if self.counted().handles.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        /// Frees the block even when the value's destructor panics.
        struct FreeOnDrop<T>(NonNull<Counted<T>>);
        impl<T> Drop for FreeOnDrop<T> {
            fn drop(&mut self) {
                // SAFETY: invariant 1; the value has been dropped or its destructor has unwound.
                unsafe { Counted::free(self.0) }
            }
        }
        let free = FreeOnDrop(self.inner);
        // SAFETY: this was the last handle; the load or the fence orders all uses by other handles before the
        // drop.
        unsafe { std::ptr::drop_in_place(&raw mut (*free.0.as_ptr()).value) };
    }
}
