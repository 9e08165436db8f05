//! Covariances and correlations of the rows of a matrix; quantiles and medians along an axis.
//!
//! Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::index::{exists, with};
use super::sort::{Wanted, ordered};
use super::{Arithmetic as _, Cast as _, Comparisons as _, Math as _, Reductions as _, Sorts as _};
use crate::device::{Device, same_device};
use crate::dim::{All, Axis, Dim};
use crate::element::{Comparable, Compute, Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::{Stored, apply_into};
use crate::kernel::Op;
use crate::layout::Layout;
use crate::rank::{RemoveAxis, Smaller};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Fresh, Place, Tensor, TensorView, There, Writable};

/// How observations count in a [`covariance`](Covariances::cov).
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
    /// What is taken off the number of observations: 1, Bessel's correction, or 0, as for a whole population.
    pub correction: f64,
    /// How often each observation was made.
    pub frequencies: Option<TensorView<'a, i64, 1, D>>,
    /// How much each observation weighs.
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

/// A number for each observation of `x`; 1 without.
fn observed<T: Element, U: Element, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    (of, numbers): (&str, Option<TensorView<'_, U, 1, D>>),
) -> Result<Tensor<f64, 1, D>> {
    let n = x.size().0[1];
    let Some(numbers) = numbers else { return Tensor::ones([n], x.device()) };
    same_device(op, x.device(), numbers.device())?;
    numbers.ready(op)?;
    if numbers.numel() != n {
        return Err(Error::Sizes { op, left: x.size().0.into(), right: numbers.size().0.into() });
    }
    let numbers = numbers.cast::<f64>()?;
    // Not asked where there is no data.
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

/// The covariance, computed in f64: 16-bit floats would lose the deviations.
fn covariance<T: Float, U: Float, D: Device, P: Place<U, 2, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    plan: Cov<'_, T, D>,
    place: P,
) -> Result<P::Done> {
    x.ready(op)?;
    let alike = plan.frequencies.is_none() && plan.weights.is_none();
    let (frequencies, weights) = (observed(op, x, ("a frequency", plan.frequencies))?, observed(op, x, ("a weight", plan.weights))?);
    let shares = frequencies.mul(&weights)?;
    let total = shares.sum(All)?;
    // Of the correction as much as the weights have of one observation.
    let part = (shares.lazy() * &weights).sum(All)?;
    let below = (total.lazy() - (part.lazy() / &total) * plan.correction).maximum(0.0).eval()?;
    let line = shares.insert_axis(Axis::<0>);
    let x = x.cast::<f64>().map_err(|error| error.renamed(op))?;
    // Centred twice: what is left over of a mean that was rounded. First by an observation, so that nothing is left of rows of one number,
    // or by the mean, where an observation may count for nothing.
    let mean = |x: &Tensor<f64, 2, D>| (x.lazy() * line).sum(Axis::<1>)?.div(total.lift());
    let near = if alike { x.sub(first_observation(x.view())?)? } else { x.sub(mean(&x)?.insert_axis(Axis::<1>))? };
    let centred = near.sub(mean(&near)?.insert_axis(Axis::<1>))?;
    let product = centred.mul(line)?.matmul(centred.transposed())?;
    (product.lazy() / below.lift()).cast::<U>().eval_at(op, place)
}

/// The correlation of every pair of rows.
fn correlation<T: Float, D: Device, P: Place<T, 2, D>>(op: &'static str, x: TensorView<'_, T, 2, D>, place: P) -> Result<P::Done> {
    x.ready(op)?;
    let x = x.cast::<f64>().map_err(|error| error.renamed(op))?;
    let near = x.sub(first_observation(x.view())?)?;
    // Each row in units of its largest distance, so that no square overflows or underflows; 0/0 in a row of one number.
    let unit = if near.size().0[1] == 0 { near } else { (near.lazy() / near.lazy().abs().max_along(Axis::<1>)).eval()? };
    let cov: Tensor<f64, 2, D> = covariance(op, unit.view(), Cov::new(), Fresh)?;
    let deviations = cov.diagonal(Axis::<0>, Axis::<1>)?.sqrt()?;
    let (rows, columns) = (deviations.insert_axis(Axis::<1>), deviations.insert_axis(Axis::<0>));
    (cov.lazy() / rows / columns).clamp(-1.0, 1.0).cast::<T>().eval_at(op, place)
}

/// Covariances and correlations, of tensors and views `[variables, observations]`.
pub trait Covariances<'a, T: 'a, D: Device>: Stored<'a, T, 2, D> + Sized {
    /// The covariance of every pair of rows: `Σ (x − mean)(y − mean) / (n − correction)`, computed in f64.
    ///
    /// With weights, sums and means are weighted, as in NumPy and PyTorch. Where the divisor is not above 0 it is 0.
    ///
    /// # Errors
    /// [`Error::Sizes`] for another number of weights than of observations; [`Error::Unallocated`], [`Error::OutOfMemory`].
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
        covariance("cov", self.into_view(), plan, Fresh)
    }

    /// As [`cov`](Covariances::cov), into an existing tensor or exclusive view. Deviations and products are allocated, in f64.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
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
    fn cov_into<'o>(self, plan: Cov<'_, T, D>, out: impl Writable<'o, T, 2, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
    {
        covariance("cov_into", self.into_view(), plan, There(out))
    }

    /// The correlation of every pair of rows, their covariance over both deviations, held to −1 … 1; NaN for a constant row.
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
        correlation("corrcoef", self.into_view(), Fresh)
    }

    /// As [`corrcoef`](Covariances::corrcoef), into an existing tensor or exclusive view. Deviations and products are allocated,
    /// in f64.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
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
    fn corrcoef_into<'o>(self, out: impl Writable<'o, T, 2, D>) -> Result<()>
    where
        T: Float,
        D: 'o,
    {
        correlation("corrcoef_into", self.into_view(), There(out))
    }
}
impl<'a, X: Stored<'a, T, 2, D>, T: 'a, D: Device> Covariances<'a, T, D> for X {}

/// What stands between two neighbours of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// The point of the line that joins them.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The nearer one, of both the one at an even place.
    Nearest,
    /// Their middle.
    Midpoint,
}

/// A point between two numbers, in f64; NaN if the last of the line is: `(low, high, last, part)`.
#[derive(Clone, Copy, Debug)]
struct Point;

impl<T: Float> Op<(T, T, T, f64)> for Point {
    const NAME: &'static str = "quantile";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (low, high, last, part): (Lane<L, Compute<T>>, Lane<L, Compute<T>>, Lane<L, Compute<T>>, Lane<L, f64>),
    ) -> Lane<L, Compute<T>> {
        let (from, to) = (low.cast::<f64>(), high.cast::<f64>());
        // Two equal infinities have no difference, and an end stays itself.
        let between = to.mul_add(part, from * (1.0 - part)).cast(); // `to - from` could be beyond all numbers
        let point = (low.eq(high) | part.eq(Lane::zero())).select(low, part.eq(Lane::one()).select(high, between));
        last.is_nan().select(last, point)
    }
}

/// Where the share `q` of a line of `last + 1` elements lies: between two places, and how far on the way.
fn place_of(op: &'static str, q: f64, between: Between, last: usize) -> Result<(usize, usize, f64)> {
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::Value { op, what: text(format_args!("a share of {q}, not from 0 to 1")) });
    }
    let at = q * last as f64;
    let (low, high) = (at.floor(), at.ceil());
    let part = match between {
        Between::Linear => at - low,
        Between::Lower => 0.0,
        Between::Higher => 1.0,
        Between::Nearest => at.round_ties_even() - low,
        Between::Midpoint => 0.5,
    };
    Ok((low as usize, (high as usize).min(last), part))
}

/// The elements at some shares of each line, along a first axis.
fn at_shares<T: Float, const RANK: usize, D: Device, P: Place<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (shares, between): (&[f64], Between),
    axis: usize,
    place: P,
) -> Result<P::Done> {
    exists(op, axis, x.size())?;
    x.ready(op)?;
    let beside = with(x.size(), axis, 1);
    // The lines' own axes, one place on where they stand before the one that goes.
    let size: [usize; RANK] = std::array::from_fn(|a| if a == 0 { shares.len() } else { x.size().0[a - usize::from(a <= axis)] });
    let layout = Layout::row_major_of(op, Dim(size), size_of::<T>())?;
    let last = x.size().0[axis].checked_sub(1);
    let places: Vec<_> = shares.iter().map(|&q| place_of(op, q, between, last.unwrap_or(0))).collect::<Result<_>>()?;
    if size.contains(&0) {
        return place.put(op, layout, x.device(), |_| Ok(()));
    }
    let Some(last) = last else { return Err(Error::Empty { op, sizes: x.size().0.into() }) };
    let sorted = x.sort_axis(axis)?;
    let at = |place: usize| sorted.view().slice_axis(axis, place..place + 1, 1);
    place.put(op, layout, x.device(), |out| {
        for (k, &(low, high, part)) in places.iter().enumerate() {
            let out = out.reborrow().slice_axis(0, k..k + 1, 1)?.reshape(beside)?;
            apply_into(Point, (at(low)?, at(high)?, at(last)?, part), out)?;
        }
        Ok(())
    })
}

/// The lower of the middle elements of each line, and where it stands; the first NaN of a line that has one.
fn middle<T: Comparable, const RANK: usize, const M: usize, D: Device, V: Place<T, M, D>, P: Place<i64, M, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    (values, positions): (V, P),
) -> Result<(V::Done, P::Done)>
where
    Dim<RANK>: Smaller<Output = Dim<M>>,
{
    exists(op, axis, x.size())?;
    x.ready(op)?;
    let beside = with(x.size(), axis, 1);
    let kept: [usize; M] = std::array::from_fn(|a| x.size().0[a + usize::from(a >= axis)]);
    let layout = Layout::row_major(Dim(kept));
    let n = x.size().0[axis];
    if n == 0 && !kept.contains(&0) {
        return Err(Error::Empty { op, sizes: x.size().0.into() });
    }
    values.put_with(op, layout, x.device(), |values| {
        positions.put(op, layout, x.device(), |positions| {
            if kept.contains(&0) {
                return Ok(());
            }
            let (mut values, mut positions) = (values.reborrow().reshape(beside)?, positions.reborrow().reshape(beside)?);
            let half = n.div_ceil(2);
            let (lower, places) = ordered(x, Wanted { op, axis, keep: Some(half), descending: false }, (Fresh, Fresh))?;
            let last = |n: usize| n - 1..n;
            let (lower, places) = (lower.view().slice_axis(axis, last(half), 1)?, places.view().slice_axis(axis, last(half), 1)?);
            if T::DTYPE.is_discrete() {
                values.assign(lower)?;
                return positions.assign(places);
            }
            let top: Tensor<T, M, D> = x.max_axis(axis)?;
            let first: Tensor<i64, M, D> = x.argmax_axis(axis)?;
            let (top, first) = (top.view().reshape(beside)?, first.view().reshape(beside)?);
            values.assign(top.lazy().is_nan().select(top, lower))?;
            positions.assign(top.lazy().is_nan().select(first, places))
        })
    })
}

/// The element at the share `q` of each line.
fn at_share<T: Float, const RANK: usize, const M: usize, D: Device, P: Place<T, M, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (q, between): (f64, Between),
    axis: usize,
    place: P,
) -> Result<P::Done> {
    exists(op, axis, x.size())?;
    let (low, high, part) = place_of(op, q, between, x.size().0[axis].saturating_sub(1))?;
    x.ready(op)?;
    let kept: [usize; M] = std::array::from_fn(|a| x.size().0[a + usize::from(a >= axis)]);
    let layout = Layout::row_major(Dim(kept));
    let Some(last) = x.size().0[axis].checked_sub(1) else {
        return if kept.contains(&0) {
            place.put(op, layout, x.device(), |_| Ok(()))
        } else {
            Err(Error::Empty { op, sizes: x.size().0.into() })
        };
    };
    let sorted = x.sort_axis(axis)?;
    let at = |place: usize| sorted.view().slice_axis(axis, place..place + 1, 1);
    place.put(op, layout, x.device(), |out| {
        let out = out.reborrow().reshape(with(x.size(), axis, 1))?;
        apply_into(Point, (at(low)?, at(high)?, at(last)?, part), out)
    })
}

/// Quantiles, of tensors and views.
pub trait Quantiles<'a, T: 'a, const RANK: usize, D: Device>: Stored<'a, T, RANK, D> + Sized {
    /// The element at the share `q` of each line along axis `A` in order: place `q · (n − 1)`, and between two places as
    /// `between` says. NaN for a line with one. `q = 0.5` is the median.
    ///
    /// # Cost
    /// A sort of every line.
    ///
    /// # Errors
    /// [`Error::Value`] unless `q` is between 0 and 1; [`Error::Empty`] for lines of no elements; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Between;
    /// let x = Tensor::from([[4.0, 1.0, 3.0, 2.0]]);
    /// assert_eq!(x.quantile(0.5, Axis::<1>, Between::Linear)?.to_vec()?, [2.5]);
    /// assert_eq!(x.quantile(0.5, Axis::<1>, Between::Lower)?.to_vec()?, [2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantile<const A: usize, const M: usize>(self, q: f64, axis: Axis<A>, between: Between) -> Result<Tensor<T, M, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        self.quantile_axis(q, A, between)
    }

    /// As [`quantile`](Quantiles::quantile), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn quantile_axis<const M: usize>(self, q: f64, axis: usize, between: Between) -> Result<Tensor<T, M, D>>
    where
        T: Float,
        Dim<RANK>: Smaller<Output = Dim<M>>,
    {
        at_share("quantile", self.into_view(), (q, between), axis, Fresh)
    }

    /// The elements at several shares of each line along axis `A`, by one sort: a first axis with one position a share, then
    /// the axes of the lines. See [`quantile`](Quantiles::quantile).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Between;
    /// let x = Tensor::from([[4.0, 1.0, 3.0, 2.0], [0.0, 0.0, 6.0, 6.0]]);
    /// let quartiles = x.quantiles(&[0.25, 0.5], Axis::<1>, Between::Linear)?;
    /// assert_eq!(quartiles, Tensor::from([[1.75, 0.0], [2.5, 3.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantiles<const A: usize>(self, shares: &[f64], axis: Axis<A>, between: Between) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.quantiles_axis(shares, A, between)
    }

    /// As [`quantiles`](Quantiles::quantiles), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn quantiles_axis(self, shares: &[f64], axis: usize, between: Between) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
    {
        at_shares("quantiles", self.into_view(), (shares, between), axis, Fresh)
    }

    /// The middle element of each line along axis `A` in order, of two the lower, and where it stands: PyTorch's `median`. A line
    /// with a NaN has the first NaN.
    ///
    /// NumPy's median is the mean of the two: `quantile(0.5, axis, Between::Linear)`.
    ///
    /// # Cost
    /// The lower half of every line is sorted.
    ///
    /// # Errors
    /// [`Error::Empty`] for lines of no elements; [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[4, 1, 3, 2], [7, 9, 8, 7]]);
    /// let (values, places) = x.median(Axis::<1>)?;
    /// assert_eq!((values.to_vec()?, places.to_vec()?), (vec![2, 7], vec![3, 3]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn median<const A: usize, const M: usize>(self, axis: Axis<A>) -> Result<(Tensor<T, M, D>, Tensor<i64, M, D>)>
    where
        T: Comparable,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        self.median_axis(A)
    }

    /// As [`median`](Quantiles::median), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn median_axis<const M: usize>(self, axis: usize) -> Result<(Tensor<T, M, D>, Tensor<i64, M, D>)>
    where
        T: Comparable,
        Dim<RANK>: Smaller<Output = Dim<M>>,
    {
        middle("median", self.into_view(), axis, (Fresh, Fresh))
    }

    /// As [`median`](Quantiles::median), into two existing tensors or exclusive views: the elements, and where they stand. What is
    /// sorted is allocated.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when one has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mut values, mut places) = (Tensor::from([0]), Tensor::from([0_i64]));
    /// Tensor::from([[4, 1, 3]]).median_into(Axis::<1>, &mut values, &mut places)?;
    /// assert_eq!((values.to_vec()?, places.to_vec()?), (vec![3], vec![2]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn median_into<'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        values: impl Writable<'o, T, M, D>,
        places: impl Writable<'o, i64, M, D>,
    ) -> Result<()>
    where
        T: Comparable,
        D: 'o,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        middle("median_into", self.into_view(), A, (There(values), There(places))).map(|_| ())
    }

    /// As [`quantile`](Quantiles::quantile), into an existing tensor or exclusive view. The lines in order are allocated.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Between;
    /// let mut medians = Tensor::from([0.0]);
    /// Tensor::from([[4.0, 1.0, 3.0, 2.0]]).quantile_into(0.5, Axis::<1>, Between::Linear, &mut medians)?;
    /// assert_eq!(medians.to_vec()?, [2.5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantile_into<'o, const A: usize, const M: usize>(
        self,
        q: f64,
        axis: Axis<A>,
        between: Between,
        out: impl Writable<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        at_share("quantile_into", self.into_view(), (q, between), A, There(out))
    }
}
impl<'a, X: Stored<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Quantiles<'a, T, RANK, D> for X {}
