//! nalgebra: matrices as tensors of two axes and the reverse, and views without a copy.
//!
//! ```
//! use rankform::interop::nalgebra as na;
//! use rankform::prelude::*;
//! let m = nalgebra::DMatrix::from_row_slice(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! assert_eq!(na::view(m.as_view())?.to_vec()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let x = na::tensor(m)?; // the same memory, its first axis fastest
//! assert_eq!((x.size(), x.stride()), (dim![3, 2], [1, 3].into()));
//! assert_eq!(na::matrix_view(x.view())?[(2, 0)], 5.0);
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `tensor`.

use crate::error::{Error, Result};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, Dyn, Matrix, Scalar, ViewStorage, ViewStorageMut};

/// A view of a matrix's elements, without a copy.
///
/// # Errors
/// None for a matrix that nalgebra made.
pub fn view<T: Scalar>(matrix: DMatrixView<'_, T, Dyn, Dyn>) -> Result<TensorView<'_, T, 2>> {
    let ((rows, columns), (down, right)) = (matrix.shape(), matrix.strides());
    // SAFETY: these are the elements of the matrix, which is borrowed as long.
    unsafe { TensorView::from_raw_parts(matrix.as_ptr(), [rows, columns], [down as isize, right as isize]) }
}

/// A mutable view of a matrix's elements, without a copy.
///
/// # Errors
/// None for a matrix that nalgebra made.
pub fn view_mut<T: Scalar>(mut matrix: DMatrixViewMut<'_, T, Dyn, Dyn>) -> Result<TensorViewMut<'_, T, 2>> {
    let ((rows, columns), (down, right)) = (matrix.shape(), matrix.strides());
    // SAFETY: as above, exclusively.
    unsafe {
        TensorViewMut::from_raw_parts(matrix.as_mut_ptr(), [rows, columns], [down as isize, right as isize])
    }
}

/// A tensor in the memory of a matrix, column-major.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn tensor<T: Scalar + Send + Sync>(matrix: DMatrix<T>) -> Result<Tensor<T, 2>> {
    let (rows, columns) = matrix.shape();
    Tensor::from_vec(matrix.data.into(), [columns, rows])?.into_transposed()
}

/// A matrix in the memory of a tensor, if the tensor is column-major and the only handle on all of its
/// memory, and that was a vector; else a copy.
///
/// # Errors
/// [`Error::Unallocated`], [`Error::OutOfMemory`].
pub fn matrix<T: Scalar + Send + Sync>(tensor: Tensor<T, 2>) -> Result<DMatrix<T>> {
    let [rows, columns] = tensor.size().0;
    Ok(DMatrix::from_vec(rows, columns, tensor.into_transposed()?.into_vec()?))
}

/// A tensor's elements as a matrix, without a copy.
///
/// # Errors
/// [`Error::Unallocated`]; [`Error::NeedsCopy`] for a negative stride, which nalgebra does not support.
pub fn matrix_view<T: Scalar>(view: TensorView<'_, T, 2>) -> Result<DMatrixView<'_, T, Dyn, Dyn>> {
    view.ensure_allocated("nalgebra::matrix_view")?;
    let ([rows, columns], [down, right]) =
        (view.size().0, forwards("nalgebra::matrix_view", view.size().0, view.stride().0)?);
    // SAFETY: sizes and strides reach the elements of the view, which are borrowed as long.
    Ok(Matrix::from_data(unsafe {
        ViewStorage::from_raw_parts(view.raw_ptr(), (Dyn(rows), Dyn(columns)), (Dyn(down), Dyn(right)))
    }))
}

/// A tensor's elements as a mutable matrix, without a copy.
///
/// # Errors
/// [`Error::NeedsCopy`] for a negative stride, which nalgebra does not support.
pub fn matrix_view_mut<T: Scalar>(
    mut view: TensorViewMut<'_, T, 2>,
) -> Result<DMatrixViewMut<'_, T, Dyn, Dyn>> {
    let ([rows, columns], [down, right]) =
        (view.size().0, forwards("nalgebra::matrix_view_mut", view.size().0, view.stride().0)?);
    // SAFETY: as above, exclusively; the view is consumed.
    Ok(Matrix::from_data(unsafe {
        ViewStorageMut::from_raw_parts(view.raw_ptr(), (Dyn(rows), Dyn(columns)), (Dyn(down), Dyn(right)))
    }))
}

/// Strides as nalgebra represents them. A negative stride of an axis of size 0 or 1 becomes 0.
fn forwards(op: &'static str, size: [usize; 2], stride: [isize; 2]) -> Result<[usize; 2]> {
    if (0..2).any(|axis| stride[axis] < 0 && size[axis] > 1) {
        return Err(Error::NeedsCopy { op, sizes: size.into(), strides: stride.into(), to: size.into() });
    }
    Ok(stride.map(|stride| stride.max(0) as usize))
}
