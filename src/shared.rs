//! `Shared<T>`: a reference-counted value whose allocation can fail.
//!
//! `std::sync::Arc` aborts the process when memory runs out, and its fallible constructor is not stable; a tensor
//! library must answer with an `Err`. There are no weak references, so "the only handle" is one load of the counter.
//! Imports: `error`.

use crate::error::{Error, Result};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

struct Counted<T> {
    handles: AtomicUsize,
    value: T,
}

/// A handle on a value that lives as long as its last handle.
///
/// Invariant 1: `inner` points to a live `Counted<T>` from the global allocator, whose counter is the number of handles.
pub(crate) struct Shared<T> {
    inner: NonNull<Counted<T>>,
    _owns: PhantomData<Counted<T>>,
}

// SAFETY: as `Arc`: handles on two threads share `&T` (needs Sync) and the last one drops `T` where it stands (needs Send).
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above; `&Shared<T>` gives `&T` and new handles.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The first handle on `value`. One heap block.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; `value` is dropped.
    pub(crate) fn new(value: T) -> Result<Self> {
        let layout = Layout::new::<Counted<T>>();
        // SAFETY: the layout is not empty, it holds at least the counter.
        let Some(inner) = NonNull::new(unsafe { std::alloc::alloc(layout) }.cast::<Counted<T>>()) else {
            return Err(Error::OutOfMemory { op: "handle", nbytes: layout.size() });
        };
        // SAFETY: fresh memory of that layout.
        unsafe { inner.write(Counted { handles: AtomicUsize::new(1), value }) };
        Ok(Shared { inner, _owns: PhantomData })
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: invariant 1; this handle keeps it alive.
        unsafe { self.inner.as_ref() }
    }

    /// How many handles there are, at this moment.
    pub(crate) fn handles(&self) -> usize {
        self.counted().handles.load(Ordering::Acquire)
    }

    /// Another handle.
    pub(crate) fn share(&self) -> Self {
        // More handles than isize::MAX cannot be held in memory unless they are leaked; stop before the counter wraps.
        if self.counted().handles.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
        Shared { inner: self.inner, _owns: PhantomData }
    }

    /// Whether this is the only handle; what other threads did with theirs is then visible here.
    pub(crate) fn is_unique(&self) -> bool {
        self.handles() == 1
    }

    /// The value, if this is the only handle; the handle otherwise.
    pub(crate) fn try_into_inner(self) -> std::result::Result<T, Self> {
        if !self.is_unique() {
            return Err(self);
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the only handle (acquired above) gives up the value and, by ManuallyDrop, never touches it again.
        let value = unsafe { std::ptr::read(&this.inner.as_ref().value) };
        // SAFETY: invariant 1: from the global allocator with this layout; the value has been moved out.
        unsafe { std::alloc::dealloc(this.inner.as_ptr().cast(), Layout::new::<Counted<T>>()) };
        Ok(value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.counted().handles.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        /// Frees the block even when the value's destructor panics.
        struct Free<T>(NonNull<Counted<T>>);
        impl<T> Drop for Free<T> {
            fn drop(&mut self) {
                // SAFETY: invariant 1; the value has been dropped or its destructor has unwound.
                unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), Layout::new::<Counted<T>>()) }
            }
        }
        let free = Free(self.inner);
        // SAFETY: the counter reached 0 here, so this was the last handle; the fence orders all others' uses before.
        unsafe { std::ptr::drop_in_place(&raw mut (*free.0.as_ptr()).value) };
    }
}
