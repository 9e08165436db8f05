//! Covariances and correlations of the rows of a matrix.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::{All, Axis};
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::ops::{Arithmetic as _, Cast as _, Math as _, Reductions as _};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// How a [`covariance`](Covariances::cov) counts observations.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::ops::Cov;
/// let times = Tensor::from([1_i64, 2, 1]);
/// let plan = Cov::<f64, Cpu>::new().correction(0.0).frequencies(times.view());
/// assert_eq!(plan.correction, 0.0);
/// ```
#[derive(Clone, Copy)]
pub struct Cov<'a, T, D: Device> {
    /// The number subtracted from the number of observations: 1, Bessel's correction, or 0 for a whole
    /// population.
    pub correction: f64,
    /// How often each observation was made.
    pub frequencies: Option<TensorView<'a, i64, 1, D>>,
    /// The weight of each observation.
    pub weights: Option<TensorView<'a, T, 1, D>>,
}

impl<'a, T, D: Device> Cov<'a, T, D> {
    /// Each observation once, with Bessel's correction.
    pub const fn new() -> Self {
        Cov { correction: 1.0, frequencies: None, weights: None }
    }
    /// With another correction.
    pub fn correction(self, correction: f64) -> Self {
        Cov { correction, ..self }
    }
    /// With a count for each observation.
    pub fn frequencies(self, frequencies: TensorView<'a, i64, 1, D>) -> Self {
        Cov { frequencies: Some(frequencies), ..self }
    }
    /// With a weight for each observation.
    pub fn weights(self, weights: TensorView<'a, T, 1, D>) -> Self {
        Cov { weights: Some(weights), ..self }
    }
}

impl<T, D: Device> Default for Cov<'_, T, D> {
    fn default() -> Self {
        Self::new()
    }
}

/// A number for each observation of `x`, as f64; 1 by default.
fn checked_weights<T: Element, U: Element, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    (of, numbers): (&str, Option<TensorView<'_, U, 1, D>>),
) -> Result<Tensor<f64, 1, D>> {
    let n = x.size().0[1];
    let Some(numbers) = numbers else { return Tensor::ones([n], x.device()) };
    same_device(op, x.device(), numbers.device())?;
    numbers.ensure_allocated(op)?;
    if numbers.numel() != n {
        return Err(Error::Sizes { op, left: x.size().0.into(), right: numbers.size().0.into() });
    }
    let numbers = numbers.cast::<f64>()?;
    // The check is skipped on devices without data.
    let least = if n == 0 { 0.0 } else { numbers.min(All)?.item().unwrap_or(0.0) };
    if least < 0.0 {
        return Err(Error::Value { op, what: text(format_args!("{of} of {least}")) });
    }
    Ok(numbers)
}

/// The first observation of each variable, if there is one.
fn first_observation<D: Device>(x: TensorView<'_, f64, 2, D>) -> Result<TensorView<'_, f64, 2, D>> {
    x.slice_axis(1, 0..x.size().0[1].min(1), 1)
}

/// The covariance, computed in f64, because 16-bit floats would lose the deviations.
fn covariance<T: Float, U: Float, D: Device, P: Destination<U, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    plan: Cov<'_, T, D>,
    place: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let is_unweighted = plan.frequencies.is_none() && plan.weights.is_none();
    let (frequencies, weights) = (
        checked_weights(op, x, ("a frequency", plan.frequencies))?,
        checked_weights(op, x, ("a weight", plan.weights))?,
    );
    let shares = frequencies.mul(&weights)?;
    let total = shares.sum(All)?;
    // The share of the correction that corresponds to the weight of one observation.
    let part = (shares.lazy() * &weights).sum(All)?;
    let below = (total.lazy() - (part.lazy() / &total) * plan.correction).maximum(0.0).eval()?;
    let line = shares.insert_axis(Axis::<0>);
    let x = x.cast::<f64>().map_err(|error| error.with_op(op))?;
    // Centered twice, to remove the rounding error of the mean. Without weights the first step subtracts an
    // observation, which makes rows of equal numbers exactly 0. With weights it subtracts the mean, because
    // the observation may have weight 0.
    let mean = |x: &Tensor<f64, 2, D>| (x.lazy() * line).sum(Axis::<1>)?.div(total.lift());
    let near = if is_unweighted {
        x.sub(first_observation(x.view())?)?
    } else {
        x.sub(mean(&x)?.insert_axis(Axis::<1>))?
    };
    let centered = near.sub(mean(&near)?.insert_axis(Axis::<1>))?;
    let product = centered.mul(line)?.matmul(centered.transposed())?;
    (product.lazy() / below.lift()).cast::<U>().eval_at(op, place)
}

/// The correlation of every pair of rows.
fn correlation<T: Float, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    place: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let x = x.cast::<f64>().map_err(|error| error.with_op(op))?;
    let near = x.sub(first_observation(x.view())?)?;
    // Each row is divided by its largest distance, which keeps squares in range; 0/0 in a row of equal
    // numbers.
    let unit = if near.size().0[1] == 0 {
        near
    } else {
        (near.lazy() / near.lazy().abs().max_along(Axis::<1>)).eval()?
    };
    let cov: Tensor<f64, 2, D> = covariance(op, unit.view(), Cov::new(), Allocate)?;
    let deviations = cov.diagonal(Axis::<0>, Axis::<1>)?.sqrt()?;
    let (rows, columns) = (deviations.insert_axis(Axis::<1>), deviations.insert_axis(Axis::<0>));
    (cov.lazy() / rows / columns).clamp(-1.0, 1.0).cast::<T>().eval_at(op, place)
}

/// Covariances and correlations, for tensors and views `[variables, observations]`.
pub trait Covariances<'a, T: 'a, D: Device>: IntoView<'a, T, 2, D> + Sized {
    /// The covariance of every pair of rows: `Σ (x − mean)(y − mean) / (n − correction)`, computed in f64.
    ///
    /// With weights, sums and means are weighted, as in NumPy and PyTorch. A divisor below 0 counts as 0.
    ///
    /// # Errors
    /// [`Error::Sizes`] if the number of weights differs from the number of observations;
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::{Cov, Covariances};
    /// let x = Tensor::from([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]);
    /// assert_eq!(x.cov(Cov::new())?, Tensor::from([[1.0, -1.0], [-1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cov(self, plan: Cov<'_, T, D>) -> Result<Tensor<T, 2, D>>
    where
        T: Float,
    {
        covariance("cov", self.into_view(), plan, Allocate)
    }

    /// As [`cov`](Covariances::cov), into an existing tensor or exclusive view. Deviations and products are
    /// allocated, in f64.
    ///
    /// # Errors
    /// As [`cov`](Covariances::cov); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it
    /// has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::{Cov, Covariances};
    /// let mut y = Tensor::from([[0.0; 2]; 2]);
    /// Tensor::from([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).cov_into(Cov::new(), &mut y)?;
    /// assert_eq!(y, Tensor::from([[1.0, -1.0], [-1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cov_into<'o>(self, plan: Cov<'_, T, D>, out: impl IntoViewMut<'o, T, 2, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
    {
        covariance("cov_into", self.into_view(), plan, Existing(out))
    }

    /// The correlation of every pair of rows: their covariance over both deviations, clamped to [−1, 1]; NaN
    /// for a constant row.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Covariances;
    /// let x = Tensor::from([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]);
    /// assert_eq!(x.corrcoef()?, Tensor::from([[1.0, -1.0], [-1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn corrcoef(self) -> Result<Tensor<T, 2, D>>
    where
        T: Float,
    {
        correlation("corrcoef", self.into_view(), Allocate)
    }

    /// As [`corrcoef`](Covariances::corrcoef), into an existing tensor or exclusive view. Deviations and
    /// products are allocated, in f64.
    ///
    /// # Errors
    /// As [`corrcoef`](Covariances::corrcoef); [`Error::Output`] when `out` has other sizes,
    /// [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Covariances;
    /// let mut y = Tensor::from([[0.0; 2]; 2]);
    /// Tensor::from([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]).corrcoef_into(&mut y)?;
    /// assert_eq!(y, Tensor::from([[1.0, -1.0], [-1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn corrcoef_into<'o>(self, out: impl IntoViewMut<'o, T, 2, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
    {
        correlation("corrcoef_into", self.into_view(), Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, 2, D>, T: 'a, D: Device> Covariances<'a, T, D> for X {}
