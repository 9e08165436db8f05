//! Softmax and log-softmax along axes.
//!
//! Each is one expression and one pass over memory: row constants are computed while the row is in the cache.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::rules::{BackwardAlong, Flow};
#[cfg(feature = "autograd")]
use super::rules::{CompiledAlong, compiled_along};
use crate::device::Device;
use crate::dim::{AxisAt, Dim, MarkedAxes};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Zip as _};
use crate::kernel::{Body, Op};
use crate::ops::define::along_axes;
use crate::ops::functions::ExpDifferenceFn;
use crate::ops::{Arithmetic as _, Math as _, Reductions as _};
use crate::rank::HasAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// `e^(x − y)` to one ULP, independent of the rounding of the difference. A narrow element has too few digits
/// for that rounding to show.
#[derive(Clone, Copy, Debug)]
struct ExpDifference;

impl<T: Float> Op<(T, T)> for ExpDifference {
    const NAME: &'static str = "softmax";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        if size_of::<T>() < size_of::<Compute<T>>() { (x - y).exp() } else { x.call2::<ExpDifferenceFn>(y) }
    }
}

along_axes! {
    /// `e^(x − max) / Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`.
    ///
    /// A row that consists of −∞ gives NaN, as does a row with +∞ or NaN. The result has the sizes of `x`.
    /// One kernel reads each row from memory once.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let scores = Tensor::from([[1000.0, 1000.0], [0.0, f64::ln(3.0)]]);
    /// let mut p = scores.softmax(Axis::<1>)?;
    /// assert_eq!(p.slice((0, ..))?.to_vec()?, [0.5, 0.5]);
    /// assert!((p[[1, 1]] - 0.75).abs() < 1e-15);
    /// scores.softmax_into(Axis::<0>, &mut p)?; // no allocation
    /// assert_eq!(p[[0, 1]], 1.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn softmax, softmax_axis, softmax_into() by SoftmaxRule = |x, axes| {
        let powers = x.zip(ExpDifference, x.max_along(axes)).cached();
        // One division per row, because a multiplication is much cheaper than a division.
        powers * powers.sum_along(axes).recip()
    }

    /// `x − max − ln Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`: the
    /// logarithm of [`softmax`](Tensor::softmax), exact even if the softmax underflows to 0.
    fn log_softmax, log_softmax_axis, log_softmax_into() by LogSoftmaxRule = |x, axes| {
        let shifted = x - x.max_along(axes);
        shifted - shifted.exp().sum_along(axes).ln()
    }
}

#[cfg(feature = "autograd")]
compiled_along! {
    softmax_of_f32: SoftmaxRule;
    log_softmax_of_f32: LogSoftmaxRule;
}

/// The backward pass of softmax: `y · (g − Σ g · y)`.
#[derive(Clone, Copy)]
struct SoftmaxRule;

impl<T: Float> BackwardAlong<T> for SoftmaxRule {
    const READS_RESULT: bool = true;
    #[cfg(feature = "autograd")]
    const ON_CPU: CompiledAlong = softmax_of_f32;
    fn backward<const RANK: usize, D: Device>(
        _: (),
        axes: MarkedAxes<RANK>,
        y: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let common = gradient.lazy().zip(Flow, y).sum_along(axes);
        (gradient.lazy() - common).zip(Flow, y).eval_into(out)
    }
}

/// The backward pass of log-softmax: `g − e^y · Σ g`.
#[derive(Clone, Copy)]
struct LogSoftmaxRule;

impl<T: Float> BackwardAlong<T> for LogSoftmaxRule {
    const READS_RESULT: bool = true;
    #[cfg(feature = "autograd")]
    const ON_CPU: CompiledAlong = log_softmax_of_f32;
    fn backward<const RANK: usize, D: Device>(
        _: (),
        axes: MarkedAxes<RANK>,
        y: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        (gradient.lazy() - gradient.sum_along(axes).zip(Flow, y.lazy().exp())).eval_into(out)
    }
}
