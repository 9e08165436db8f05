//! ndarray: arrays as tensors and the reverse, and views without a copy, whatever their strides.
//!
//! ```
//! use rankform::interop::ndarray as nd;
//! use rankform::prelude::*;
//! let mut a = ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
//! assert_eq!(nd::view(a.t())?.sum(Axis::<0>)?.to_vec()?, [6.0, 15.0]);
//! nd::view_mut(a.view_mut())?.slice((0, ..))?.fill(0.0)?;
//! let x = nd::tensor(a)?; // the same memory
//! assert_eq!(nd::array_view(x.transposed())?[[2, 1]], 6.0);
//! assert_eq!(nd::array(x)?, ndarray::array![[0.0, 0.0, 0.0], [4.0, 5.0, 6.0]]);
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `tensor`.

use crate::error::{Error, Result, text};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use ndarray::{Array, ArrayView, ArrayViewMut, Dim, Dimension, ShapeBuilder};

/// ndarray's dimension type for a rank, up to 6.
pub type ArrayDim<const RANK: usize> = Dim<[usize; RANK]>;

fn numbers<N: Copy + Default, const RANK: usize>(values: &[N]) -> [N; RANK] {
    std::array::from_fn(|axis| values.get(axis).copied().unwrap_or_default())
}

fn axes<const RANK: usize>(values: [usize; RANK]) -> ArrayDim<RANK>
where
    ArrayDim<RANK>: Dimension,
{
    let mut axes = ArrayDim::<RANK>::zeros(RANK);
    axes.slice_mut().copy_from_slice(&values);
    axes
}

/// A view of an array's elements, without a copy.
///
/// # Errors
/// None for an array that ndarray made.
pub fn view<T, const RANK: usize>(array: ArrayView<'_, T, ArrayDim<RANK>>) -> Result<TensorView<'_, T, RANK>>
where
    ArrayDim<RANK>: Dimension,
{
    // SAFETY: these are the elements of the array, which is borrowed as long.
    unsafe { TensorView::from_raw_parts(array.as_ptr(), numbers(array.shape()), numbers(array.strides())) }
}

/// A mutable view of an array's elements, without a copy.
///
/// # Errors
/// None for an array that ndarray made.
pub fn view_mut<T, const RANK: usize>(
    mut array: ArrayViewMut<'_, T, ArrayDim<RANK>>,
) -> Result<TensorViewMut<'_, T, RANK>>
where
    ArrayDim<RANK>: Dimension,
{
    let (size, stride) = (numbers(array.shape()), numbers(array.strides()));
    // SAFETY: these are the elements of the array, which is exclusively borrowed as long.
    unsafe { TensorViewMut::from_raw_parts(array.as_mut_ptr(), size, stride) }
}

/// A tensor in the memory of an array, with a copy only if that is not row-major.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn tensor<T: Clone + Send + Sync + 'static, const RANK: usize>(
    array: Array<T, ArrayDim<RANK>>,
) -> Result<Tensor<T, RANK>>
where
    ArrayDim<RANK>: Dimension,
{
    let size: [usize; RANK] = numbers(array.shape());
    if !array.is_standard_layout() {
        return Tensor::from_vec(array.iter().cloned().collect(), size);
    }
    let (mut values, first) = array.into_raw_vec_and_offset();
    values.drain(..first.unwrap_or(0).min(values.len()));
    values.truncate(size.iter().product());
    Tensor::from_vec(values, size)
}

/// An array in the memory of a tensor, row-major, with a copy if [`Tensor::into_vec`] makes one.
///
/// # Errors
/// [`Error::Unallocated`], [`Error::OutOfMemory`].
pub fn array<T: Clone + Send + Sync + 'static, const RANK: usize>(
    tensor: Tensor<T, RANK>,
) -> Result<Array<T, ArrayDim<RANK>>>
where
    ArrayDim<RANK>: Dimension,
{
    let size = axes(tensor.size().0);
    Array::from_shape_vec(size, tensor.into_vec()?).map_err(|error| refused("ndarray::array", error))
}

/// A tensor's elements as an array, without a copy.
///
/// # Errors
/// [`Error::Unallocated`].
pub fn array_view<T, const RANK: usize>(
    view: TensorView<'_, T, RANK>,
) -> Result<ArrayView<'_, T, ArrayDim<RANK>>>
where
    ArrayDim<RANK>: Dimension,
{
    view.ensure_allocated("ndarray::array_view")?;
    let (size, stride) = (view.size().0, view.stride().0);
    let (first, forwards) = lowest(view.raw_ptr(), size, stride);
    // SAFETY: from the lowest address, sizes and strides reach the elements of the view, which are borrowed
    // as long.
    let mut array = unsafe { ArrayView::from_shape_ptr(axes(size).strides(axes(forwards)), first) };
    backwards(size, stride).for_each(|axis| array.invert_axis(axis));
    Ok(array)
}

/// A tensor's elements as a mutable array, without a copy.
///
/// # Errors
/// None: the memory of an exclusive view is allocated.
pub fn array_view_mut<T, const RANK: usize>(
    mut view: TensorViewMut<'_, T, RANK>,
) -> Result<ArrayViewMut<'_, T, ArrayDim<RANK>>>
where
    ArrayDim<RANK>: Dimension,
{
    let (size, stride) = (view.size().0, view.stride().0);
    let (first, forwards) = lowest(view.raw_ptr(), size, stride);
    // SAFETY: as above, exclusively; the view is consumed, and no two of its indices name the same element.
    let mut array =
        unsafe { ArrayViewMut::from_shape_ptr(axes(size).strides(axes(forwards)), first.cast_mut()) };
    backwards(size, stride).for_each(|axis| array.invert_axis(axis));
    Ok(array)
}

/// The element with the lowest address, and the absolute strides from it; for no elements, strides that reach
/// no memory.
fn lowest<T, const RANK: usize>(
    first: *const T,
    size: [usize; RANK],
    stride: [isize; RANK],
) -> (*const T, [usize; RANK]) {
    if size.contains(&0) {
        return (std::ptr::dangling(), [0; RANK]);
    }
    let behind =
        (0..RANK).map(|axis| stride[axis].min(0).wrapping_mul(size[axis] as isize - 1)).sum::<isize>();
    (first.wrapping_offset(behind), stride.map(isize::unsigned_abs))
}

fn backwards<const RANK: usize>(
    size: [usize; RANK],
    stride: [isize; RANK],
) -> impl Iterator<Item = ndarray::Axis> {
    (0..RANK).filter(move |&axis| stride[axis] < 0 && !size.contains(&0)).map(ndarray::Axis)
}

fn refused(op: &'static str, error: ndarray::ShapeError) -> Error {
    Error::Value { op, what: text(format_args!("{error}")) }
}
