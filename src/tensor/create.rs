//! Where tensors come from: values, slices, vectors, arrays, functions, ranges.
//!
//! Imports: `error`, `shared`, `dim`, `layout`, `element`, `device`, `allocation`, `tensor`.

use super::Tensor;
use super::adopt::checked;
use crate::allocation::Allocation;
use crate::device::{Device, Fresh};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::Result;
use crate::layout::Layout;
use crate::shared::Shared;

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Memory for a dense layout that the caller is about to write, every element of it.
    pub(crate) fn unwritten(op: &'static str, layout: Layout<RANK>, device: &D) -> Result<Self> {
        Self::fresh(op, layout, device, Fresh::Unspecified)
    }

    fn fresh(op: &'static str, layout: Layout<RANK>, device: &D, fresh: Fresh) -> Result<Self> {
        let numel = layout.size().numel_of(op, size_of::<T>())?;
        let memory = Shared::new(Allocation::fresh(device, numel * size_of::<T>(), fresh)?)?;
        // SAFETY: a dense layout of `numel` elements; zeros are valid elements, and unspecified bytes are written by the
        // caller before they are read.
        Ok(unsafe { Tensor::assemble(memory, layout) })
    }

    /// All elements 0 (`false` for booleans).
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`].
    pub fn zeros(size: impl Into<Dim<RANK>>, device: &D) -> Result<Self> {
        let size = size.into();
        size.numel_of("zeros", size_of::<T>())?;
        Self::fresh("zeros", Layout::row_major(size), device, Fresh::Zeroed)
    }

    /// The elements of `values`, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] when their number does not fit `size`, [`Error::Overflow`], [`Error::OutOfMemory`].
    pub fn from_slice(values: &[T], size: impl Into<Dim<RANK>>, device: &D) -> Result<Self> {
        let size = checked("from_slice", size.into(), values.len(), size_of::<T>())?;
        let mut tensor = Self::unwritten("from_slice", Layout::row_major(size), device)?;
        let to = tensor.writable("from_slice")?.raw_ptr().cast();
        // SAFETY: fresh memory for exactly these elements.
        unsafe { device.write(to, bytemuck::cast_slice(values))? };
        Ok(tensor)
    }
}
