//! Group, instance and batch normalization.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::Float;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::ops::Math as _;
use crate::ops::axes::sizes_along;
use crate::rank::RemoveAxes;
use crate::tensor::{Destination, TensorView};

/// Normalizes `x`, reshaped to `size`, to mean 0 and variance 1 along `axes`: through reshaped views if the
/// strides allow them, through copies otherwise.
pub(super) fn normalized<
    T: Float,
    AXES: Copy,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (size, axes): ([usize; 3], AXES),
    epsilon: T,
    destination: P,
) -> Result<P::Done>
where
    Dim<3>: RemoveAxes<AXES, Output = Dim<M>>,
{
    x.ensure_allocated(op)?;
    let copy;
    let (from, layout) = match x.reshape(size) {
        Ok(view) => (view, x.layout().preserved()),
        Err(_) => {
            copy = x.to_shape(size).map_err(|error| error.with_op(op))?;
            (copy.view(), Layout::row_major(x.size()))
        }
    };
    destination.put(op, layout, x.device(), |out| match out.reborrow().reshape(size) {
        Ok(out) => from.layer_norm_into(axes, epsilon, out),
        Err(_) => out.assign(from.layer_norm(axes, epsilon)?.reshape(x.size())?),
    })
}

/// [`Channels::group_norm`] for any destination.
pub(super) fn group_normalized<T: Float, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    groups: usize,
    epsilon: T,
    destination: P,
) -> Result<P::Done> {
    let [batch, channels, rest] = flat(x.size());
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Error::Value { op, what: text(format_args!("{channels} channels in {groups} groups")) });
    }
    normalized(
        op,
        x,
        ([batch, groups, (channels / groups).saturating_mul(rest)], Axis::<2>),
        epsilon,
        destination,
    )
}

/// [`Channels::batch_norm_by`] for any destination.
pub(super) fn normalized_by<T: Float, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    [mean, var]: [TensorView<'_, T, 1, D>; 2],
    epsilon: T,
    destination: P,
) -> Result<P::Done> {
    let channels = x.size().0[1];
    for statistic in [mean, var] {
        if statistic.numel() != channels {
            return Err(Error::Sizes { op, left: x.size().0.into(), right: statistic.size().0.into() });
        }
    }
    let size = sizes_along::<RANK>(1, channels);
    ((x.lazy() - mean.reshape(size)?) * (var.reshape(size)?.lazy() + epsilon).rsqrt())
        .eval_at(op, destination)
}

/// `[batch, channels, all other axes]`. A product that overflows is saturated; the allocation refuses it.
pub(super) fn flat<const RANK: usize>(size: Dim<RANK>) -> [usize; 3] {
    [size.0[0], size.0[1], size.0[2..].iter().fold(1, |product, n| product.saturating_mul(*n))]
}
