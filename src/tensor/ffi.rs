//! Handles for other languages: a tensor as one thin pointer.
// Imports: `error`, `device`.

use super::Tensor;
use crate::device::Device;
use crate::error::{Error, Result};
use std::alloc::Layout;
use std::ptr::NonNull;

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// This handle as one thin pointer, which other languages can keep: c10's `intrusive_ptr::release`. The
    /// memory lives until [`from_raw`](Tensor::from_raw) takes the handle back; call `share_data()` first to
    /// keep another handle.
    ///
    /// # Cost
    /// One heap block of the size of the struct.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the handle is dropped.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let raw = Tensor::from([1.0, 2.0]).into_raw()?.as_ptr().cast::<std::ffi::c_void>();
    /// // … through C and back …
    /// let raw = std::ptr::NonNull::new(raw).unwrap().cast::<Tensor<f64, 1>>();
    /// // SAFETY: from `into_raw`, of this type, and taken back once.
    /// let x = unsafe { Tensor::from_raw(raw) };
    /// assert_eq!(x.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn into_raw(self) -> Result<NonNull<Self>> {
        let layout = Layout::new::<Self>();
        // SAFETY: the layout is not empty: it holds at least the handle on the memory.
        let Some(raw) = NonNull::new(unsafe { std::alloc::alloc(layout) }.cast::<Self>()) else {
            return Err(Error::OutOfMemory { op: "into_raw", nbytes: layout.size() });
        };
        // SAFETY: fresh memory of that layout.
        unsafe { raw.write(self) };
        Ok(raw)
    }

    /// Takes back the handle of [`into_raw`](Tensor::into_raw): c10's `intrusive_ptr::reclaim`. Until then,
    /// `raw.as_ref()` reads the tensor.
    ///
    /// # Safety
    /// 1. `raw` comes from `into_raw` of a tensor of this element, rank and kind of device, and is taken back
    ///    once.
    /// 2. A tensor that is not `Send` is taken back on the thread that called `into_raw`.
    pub unsafe fn from_raw(raw: NonNull<Self>) -> Self {
        // SAFETY: (1) a block of the global allocator with this layout, as a `Box` requires, which holds a
        // tensor; (2) is the caller's promise.
        *unsafe { Box::from_raw(raw.as_ptr()) }
    }
}
