//! Handles for other languages: a tensor as one pointer, which is retained and released. `include/rankform.h`
//! declares the functions.
// Imports: `error`, `fallible`, `dynamic`.

use super::tensor::DynTensor;
use crate::error::Result;
use crate::fallible::FallibleArc;
use std::ptr::NonNull;

/// A reference-counted handle on a tensor, behind a pointer: the type `rankform_tensor` in C.
pub struct RawTensor {
    _opaque: [u8; 0],
}

impl DynTensor {
    /// Converts this handle to one thin pointer with a count of 1, which other languages keep, retain and
    /// release.
    ///
    /// # Cost
    /// One allocation on the heap.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); the handle is dropped.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// use rankform::dynamic::{rankform_tensor_rank, rankform_tensor_release, rankform_tensor_retain};
    /// let raw = DynTensor::from(Tensor::from([[1.0, 2.0]])).into_raw()?;
    /// // SAFETY: a handle from `into_raw`, retained once and released twice, the second time by `from_raw`.
    /// let x = unsafe {
    ///     rankform_tensor_retain(raw.as_ptr());
    ///     assert_eq!(rankform_tensor_rank(raw.as_ptr()), 2);
    ///     rankform_tensor_release(raw.as_ptr());
    ///     DynTensor::from_raw(raw)
    /// };
    /// assert_eq!(x.downcast::<f64, 2, Cpu>()?.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn into_raw(self) -> Result<NonNull<RawTensor>> {
        Ok(FallibleArc::new(self)?.into_raw().cast())
    }

    /// A handle on the tensor behind a pointer. The pointer's count decreases by one.
    ///
    /// # Safety
    /// `raw` is from [`DynTensor::into_raw`], and it was released fewer times than it was retained
    /// (`into_raw` counts as the first time, this call as a release).
    pub unsafe fn from_raw(raw: NonNull<RawTensor>) -> DynTensor {
        // SAFETY: the caller's promise.
        let shared = unsafe { FallibleArc::<DynTensor>::from_raw(raw.cast()) };
        shared.share_data()
    }
}

/// The tensor behind a pointer.
///
/// # Safety
/// `raw` is from [`DynTensor::into_raw`] and lives as long as the borrow.
unsafe fn tensor<'a>(raw: *mut RawTensor) -> &'a DynTensor {
    // SAFETY: the caller's promise. Pointers from `into_raw` are not null.
    unsafe { FallibleArc::peek(NonNull::new_unchecked(raw).cast()) }
}

/// Increases the count by one and returns the pointer.
///
/// # Safety
/// `raw` is a live pointer from [`DynTensor::into_raw`]. Every function here requires this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_retain(raw: *mut RawTensor) -> *mut RawTensor {
    // SAFETY: the caller's promise. Neither the pointer's own count nor the new one is dropped.
    unsafe {
        let shared = FallibleArc::<DynTensor>::from_raw(NonNull::new_unchecked(raw).cast());
        std::mem::forget(shared.share());
        std::mem::forget(shared);
    }
    raw
}

/// Decreases the count by one. At 0 the handle is dropped, and with the last handle the memory is freed.
///
/// # Safety
/// As [`rankform_tensor_retain`], and the pointer is not used after the last release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_release(raw: *mut RawTensor) {
    // SAFETY: the caller's promise.
    drop(unsafe { FallibleArc::<DynTensor>::from_raw(NonNull::new_unchecked(raw).cast()) });
}

/// The number of axes.
///
/// # Safety
/// As [`rankform_tensor_retain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_rank(raw: *mut RawTensor) -> usize {
    // SAFETY: the caller's promise, also in the functions below.
    unsafe { tensor(raw) }.rank()
}

/// The sizes, one for each axis. The pointer is valid as long as the handle.
///
/// # Safety
/// As [`rankform_tensor_retain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_sizes(raw: *mut RawTensor) -> *const usize {
    // SAFETY: as above.
    unsafe { tensor(raw) }.size().as_ptr()
}

/// The strides in elements, one for each axis. The pointer is valid as long as the handle.
///
/// # Safety
/// As [`rankform_tensor_retain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_strides(raw: *mut RawTensor) -> *const isize {
    // SAFETY: as above.
    unsafe { tensor(raw) }.stride().as_ptr()
}

/// Writes the name of the element type, as `float32`, with a final 0, to at most `room` bytes. Returns the
/// length of the whole name.
///
/// # Safety
/// As [`rankform_tensor_retain`]; `to` has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_dtype(raw: *mut RawTensor, to: *mut u8, room: usize) -> usize {
    // SAFETY: as above.
    let name = unsafe { tensor(raw) }.dtype().name().as_bytes();
    if let Some(last) = room.checked_sub(1) {
        let count = name.len().min(last);
        // SAFETY: the caller's promise: `room` bytes hold `count` bytes and the 0.
        unsafe {
            to.copy_from_nonoverlapping(name.as_ptr(), count);
            to.wrapping_add(count).write(0);
        }
    }
    name.len()
}

/// The address of the element with index 0, for reading; null for a lazy view and if access is forbidden.
///
/// # Safety
/// As [`rankform_tensor_retain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankform_tensor_data(raw: *mut RawTensor) -> *const u8 {
    // SAFETY: as above.
    let tensor = unsafe { tensor(raw) };
    if tensor.ensure_allocated("data").is_ok() { tensor.raw_ptr() } else { std::ptr::null() }
}
