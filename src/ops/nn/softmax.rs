//! Softmax and log-softmax along axes.
//!
//! Each is one expression and one pass over memory: row constants are computed while the row is in the cache.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{AxisAt, Dim};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Zip as _};
use crate::kernel::{Body, Op};
use crate::ops::define::along_axes;
use crate::ops::functions::ExpDifferenceFn;
use crate::ops::{Arithmetic as _, Math as _, Reductions as _};
use crate::rank::HasAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Existing, IntoViewMut, Tensor, TensorView};

/// `e^(x − y)` to one ULP, independent of the rounding of the difference.
#[derive(Clone, Copy, Debug)]
struct ExpDifference;

impl<T: Float> Op<(T, T)> for ExpDifference {
    const NAME: &'static str = "softmax";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        x.call2::<ExpDifferenceFn>(y)
    }
}

along_axes! {
    /// `e^(x − max) / Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`.
    ///
    /// A row that consists of −∞ gives NaN, as does a row with +∞ or NaN.
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
    fn softmax, softmax_axis, softmax_into() = |x, axes| {
        let powers = x.zip(ExpDifference, x.max_along(axes)).cached();
        // One division per row, because a multiplication is much cheaper than a division.
        powers * powers.sum_along(axes).recip()
    }

    /// `x − max − ln Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`: the
    /// logarithm of [`softmax`](Tensor::softmax), exact even if the softmax underflows to 0.
    fn log_softmax, log_softmax_axis, log_softmax_into() = |x, axes| {
        let shifted = x - x.max_along(axes);
        shifted - shifted.exp().sum_along(axes).ln()
    }
}
