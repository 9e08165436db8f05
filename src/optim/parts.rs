//! Tensors of any rank as rows of parts: one part for real elements, two for complex ones.
// Imports: `error`, `element`, `device`, `tensor`, `autograd`.

use crate::autograd::Differentiable;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// [`Error::Value`] if a gradient has other sizes than its parameter.
pub(super) fn ensure_same_sizes<T: Differentiable, const RANK: usize, D: Device>(
    op: &'static str,
    parameter: &Tensor<T, RANK, D>,
    gradient: &Tensor<T, RANK, D>,
) -> Result<()> {
    let (wanted, found) = (parameter.size(), gradient.size());
    if found == wanted {
        return Ok(());
    }
    let what = text(format_args!("the gradient has the sizes {found} and the parameter {wanted}"));
    Err(Error::Value { op, what })
}

/// The number of parts of an element.
pub(super) fn parts_count<T: Differentiable>() -> usize {
    if T::DTYPE == T::Part::DTYPE { 1 } else { 2 }
}

/// Calls `read` with the parts of a tensor, as `[elements, parts]` in row-major order. A tensor that is not
/// contiguous is copied.
pub(super) fn parts_of<T: Differentiable, R, const RANK: usize, D: Device>(
    x: &Tensor<T, RANK, D>,
    read: impl FnOnce(TensorView<'_, T::Part, 2, D>) -> Result<R>,
) -> Result<R> {
    let copy = if x.layout().is_contiguous() { None } else { Some(x.to_contiguous()?) };
    read(T::parts(copy.as_ref().unwrap_or(x).reshape([x.numel()])?)?)
}

/// Calls `update` with the parts of a tensor, as `[elements, parts]` in row-major order, to be written. A
/// tensor that is not contiguous is copied and written at the end.
pub(super) fn update_parts<T: Differentiable, const RANK: usize, D: Device>(
    op: &'static str,
    x: &mut Tensor<T, RANK, D>,
    update: impl FnOnce(TensorViewMut<'_, T::Part, 2, D>) -> Result<()>,
) -> Result<()> {
    let rows = [x.numel()];
    let mut copy = if x.layout().is_contiguous() { None } else { Some(x.to_contiguous()?) };
    let whole = match &mut copy {
        Some(copy) => copy.try_view_mut(op)?,
        None => x.try_view_mut(op)?,
    };
    update(T::parts_mut(whole.reshape(rows)?)?)?;
    match copy {
        Some(copy) => copy.copy_to(x),
        None => Ok(()),
    }
}
