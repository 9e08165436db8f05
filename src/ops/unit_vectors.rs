//! Vectors divided by their norm of any order.
// Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Float;
use crate::error::Result;
use crate::expr::{Elementwise as _, Reduce as _, Zip as _};
use crate::ops::normalize::{Divisor, Over, least};
use crate::ops::norms::{IsNotZero, Unit, order_of};
use crate::ops::{Arithmetic as _, Cast as _, Math as _, Min, NormF64, NormMax, Reductions as _};
use crate::rank::RemoveAxes;
use crate::tensor::{Destination, TensorView};

/// `x / max(‖x‖ₚ, epsilon)`, where `‖x‖ₚ` is that of `norm_p`, one expression for each kind of order.
pub(super) fn by_norm<
    T: Float,
    AXES: Copy,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    p: T,
    axes: AXES,
    epsilon: T,
    place: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
{
    let p = order_of(op, p)?;
    let size = x.lazy().cast::<f64>().abs();
    macro_rules! over {
        ($norm:expr) => {
            x.lazy().zip(Over, $norm.maximum(least(epsilon)).map(Divisor::<T>::NEW)).eval_at(op, place)
        };
    }
    if p == 2.0 {
        over!(x.along(NormF64, axes))
    } else if p == 1.0 {
        over!(size.sum_along(axes))
    } else if p == 0.0 {
        over!(size.map(IsNotZero).sum_along(axes))
    } else if p == f64::INFINITY {
        over!(size.along(NormMax, axes))
    } else if p == f64::NEG_INFINITY {
        over!(size.along(Min, axes))
    } else if p > 0.0 {
        let unit = size.along(NormMax, axes).map(Unit);
        over!(unit * (size / unit).powf(p).sum_along(axes).powf(1.0 / p))
    } else {
        let unit = size.along(Min, axes).map(Unit);
        over!(unit * (size / unit).powf(p).sum_along(axes).powf(1.0 / p))
    }
}
