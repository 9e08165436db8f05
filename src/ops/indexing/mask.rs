//! Elements selected by a mask.
// Imports: `error`, `dim`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::All;
use crate::element::Element;
use crate::error::Result;
use crate::expr::eval_at;
use crate::kernel::{Call, Param};
use crate::ops::{Reductions as _, Select};
use crate::tensor::{Destination, TensorView, TensorViewMut};

/// `value` for elements whose mask is `true`, `x` for the others.
pub(super) fn masked<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    mask: TensorView<'_, bool, RANK, D>,
    value: T,
    destination: P,
) -> Result<P::Done> {
    eval_at(op, &Call::<Select, _>::new((mask, Param(value), x)), x.device(), destination)
}

/// Copies the elements of `from` whose `mask` is `true`, in row-major order, to `to`, which has space for
/// them.
pub(super) fn compact<T: Element, const RANK: usize, D: Device>(
    from: TensorView<'_, T, RANK, D>,
    mask: TensorView<'_, bool, RANK, D>,
    to: &mut TensorViewMut<'_, T, 1, D>,
) -> Result<()> {
    let (from_stride, mask_stride, to_stride) = (from.stride(), mask.stride(), to.stride());
    let (size, count) = (mask.size(), to.numel());
    let to = to.leaf().slot(&to_stride.0);
    // SAFETY: the callers are private: they pass two allocated views of one size on one device, and space for
    // as many elements as the mask selects.
    unsafe {
        from.device().compact(
            &size.0,
            count,
            to,
            from.leaf().slot(&from_stride.0),
            mask.leaf().slot(&mask_stride.0),
        )
    }
}

/// The number of `true` elements of a mask.
pub(super) fn count<const RANK: usize, D: Device>(mask: TensorView<'_, bool, RANK, D>) -> Result<usize> {
    Ok(mask.count(All)?.item()? as usize)
}
