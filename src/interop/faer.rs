//! faer: matrices as tensors of two axes and the reverse, without a copy, whatever their strides.
//!
//! ```
//! use rankform::interop::faer as fa;
//! use rankform::prelude::*;
//! let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
//! let m = fa::mat_ref(x.transposed())?;
//! assert_eq!((m.nrows(), m.ncols(), m[(2, 1)]), (3, 2, 6.0));
//! let product = m * m.transpose(); // computed by faer
//! assert_eq!(fa::view(product.as_ref())?.to_vec()?, x.transposed().matmul(&x)?.to_vec()?);
//! # Ok::<(), rankform::Error>(())
//! ```
// Imports: `error`, `tensor`.

use crate::error::Result;
use crate::tensor::{TensorView, TensorViewMut};
use faer::{MatMut, MatRef};

/// A view of a matrix's elements, without a copy.
///
/// # Errors
/// None for a matrix that faer made.
pub fn view<T>(matrix: MatRef<'_, T>) -> Result<TensorView<'_, T, 2>> {
    let (size, stride) = ([matrix.nrows(), matrix.ncols()], [matrix.row_stride(), matrix.col_stride()]);
    // SAFETY: these are the elements of the matrix, which is borrowed as long.
    unsafe { TensorView::from_raw_parts(matrix.as_ptr(), size, stride) }
}

/// A mutable view of a matrix's elements, without a copy.
///
/// # Errors
/// None for a matrix that faer made.
pub fn view_mut<T>(matrix: MatMut<'_, T>) -> Result<TensorViewMut<'_, T, 2>> {
    let (size, stride) = ([matrix.nrows(), matrix.ncols()], [matrix.row_stride(), matrix.col_stride()]);
    // SAFETY: these are the elements of the matrix, which is exclusively borrowed as long.
    unsafe { TensorViewMut::from_raw_parts(matrix.as_ptr_mut(), size, stride) }
}

/// A tensor's elements as a matrix, without a copy.
///
/// # Errors
/// [`Error::Unallocated`](crate::Error::Unallocated).
pub fn mat_ref<T>(view: TensorView<'_, T, 2>) -> Result<MatRef<'_, T>> {
    view.ensure_allocated("faer::mat_ref")?;
    let ([rows, columns], [down, right]) = (view.size().0, view.stride().0);
    // SAFETY: sizes and strides reach the elements of the view, which are borrowed as long.
    Ok(unsafe { MatRef::from_raw_parts(view.raw_ptr(), rows, columns, down, right) })
}

/// A tensor's elements as a mutable matrix, without a copy.
///
/// # Errors
/// None: the memory of an exclusive view is allocated.
pub fn mat_mut<T>(mut view: TensorViewMut<'_, T, 2>) -> Result<MatMut<'_, T>> {
    let ([rows, columns], [down, right]) = (view.size().0, view.stride().0);
    // SAFETY: as above, exclusively; the view is consumed.
    Ok(unsafe { MatMut::from_raw_parts_mut(view.raw_ptr(), rows, columns, down, right) })
}
