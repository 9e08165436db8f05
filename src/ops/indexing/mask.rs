//! Elements that a mask picks.
// Imports: `error`, `dim`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::All;
use crate::element::Element;
use crate::error::Result;
use crate::expr::eval_at;
use crate::kernel::{Call, Param};
use crate::ops::{Reductions as _, Select};
use crate::tensor::{Destination, TensorView, TensorViewMut};

/// `x` where a mask does not hold, `value` where it does.
pub(super) fn masked<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    mask: TensorView<'_, bool, RANK, D>,
    value: T,
    place: P,
) -> Result<P::Done> {
    eval_at(op, &Call::<Select, _>::new((mask, Param(value), x)), x.device(), place)
}

/// The elements of `from` where `mask` holds, `count` times, in row-major order, to the positions of `to`.
pub(super) fn compact<T: Element, const RANK: usize, D: Device>(
    from: TensorView<'_, T, RANK, D>,
    mask: TensorView<'_, bool, RANK, D>,
    to: &mut TensorViewMut<'_, T, 1, D>,
) -> Result<()> {
    let (from_stride, mask_stride, to_stride) = (from.stride(), mask.stride(), to.stride());
    let (size, count) = (mask.size(), to.numel());
    let to = to.leaf().slot(&to_stride.0);
    // SAFETY: private callers: two ready views of one size on one device, and room for as many elements as the mask picks.
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

/// How many times a mask holds.
pub(super) fn count<const RANK: usize, D: Device>(mask: TensorView<'_, bool, RANK, D>) -> Result<usize> {
    Ok(mask.count(All)?.item()? as usize)
}
