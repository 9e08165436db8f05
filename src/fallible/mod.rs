//! Boxes, vectors and shared boxes whose allocation can fail.
//!
//! Those of the standard library abort the process when memory runs out; a tensor library must return an
//! error.
// Imports: `error`.

mod arc;

pub(crate) use arc::FallibleArc;

use crate::error::{Error, Result};
use std::alloc::Layout;

/// Appends a value.
///
/// # Errors
/// [`Error::OutOfMemory`]; `value` is dropped.
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    match list.try_reserve(1) {
        Ok(()) => list.push(value),
        Err(_) => return Err(out_of_memory::<T>(list.len() + 1)),
    }
    Ok(())
}

/// A list of the values.
///
/// # Errors
/// [`Error::OutOfMemory`].
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) fn collect<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    try_collect(values.into_iter().map(Ok))
}

/// A list of the values.
///
/// # Errors
/// The first of the values; [`Error::OutOfMemory`].
#[cfg(any(debug_assertions, feature = "dynamic"))]
pub(crate) fn try_collect<T>(values: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    values.into_iter().try_for_each(|value| push(&mut list, value?))?;
    Ok(list)
}

/// The error for `n` values without memory.
#[cold]
pub(crate) fn out_of_memory<T>(n: usize) -> Error {
    Error::OutOfMemory { op: "allocate", nbytes: n.saturating_mul(size_of::<T>()) }
}

/// `Box::new`, which returns the value when there is no memory for the box.
pub(crate) fn boxed<T>(value: T) -> Result<Box<T>, T> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(Box::new(value)); // a type of size 0 allocates nothing
    }
    // SAFETY: the layout is not empty.
    let room = unsafe { std::alloc::alloc(layout) }.cast::<T>();
    if room.is_null() {
        return Err(value);
    }
    // SAFETY: (1) fresh memory from the global allocator, (2) with the layout of `T`, as a `Box<T>` requires.
    Ok(unsafe {
        room.write(value);
        Box::from_raw(room)
    })
}

/// As [`boxed`].
///
/// # Errors
/// [`Error::OutOfMemory`]; `value` is dropped.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>> {
    boxed(value).map_err(|_| out_of_memory::<T>(1))
}
