//! Quantiles and medians along an axis.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute, Float};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, apply_into};
use crate::kernel::Op;
use crate::layout::Layout;
use crate::ops::axes::{check_axis, with_size};
use crate::ops::sorting::sort::{SortRequest, ordered, values as elements_in_order};
use crate::ops::{Comparisons as _, Reductions as _, Sorts as _};
use crate::rank::{RankMinusOne, RemoveAxis};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// How a quantile between two neighbors in sorted order is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuantileMethod {
    /// Linear interpolation.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The nearer one; of two equally near, the one at an even position.
    Nearest,
    /// Their middle.
    Midpoint,
}

/// Interpolates between two numbers, in f64; NaN if the largest element, NaN above all, is NaN:
/// `(low, high, largest, part)`.
#[derive(Clone, Copy, Debug)]
struct Interpolated;

impl<T: Float> Op<(T, T, T, f64)> for Interpolated {
    const NAME: &'static str = "quantile";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (low, high, last, part): (
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, f64>,
        ),
    ) -> Lane<L, Compute<T>> {
        let (from, to) = (low.cast::<f64>(), high.cast::<f64>());
        // Two equal infinities have no difference, and at the ends the element itself is the result.
        let between = to.mul_add(part, from * (1.0 - part)).cast(); // `to - from` could overflow
        let point =
            (low.eq(high) | part.eq(Lane::zero())).select(low, part.eq(Lane::one()).select(high, between));
        last.is_nan().select(last, point)
    }
}

/// The position of the quantile `q` among `last + 1` elements: two neighbors, and the fraction between them.
fn position_of(
    op: &'static str,
    q: f64,
    between: QuantileMethod,
    last: usize,
) -> Result<(usize, usize, f64)> {
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::Value { op, what: text(format_args!("a share of {q}, not from 0 to 1")) });
    }
    let at = q * last as f64;
    let (low, high) = (at.floor(), at.ceil());
    let part = match between {
        QuantileMethod::Linear => at - low,
        QuantileMethod::Lower => 0.0,
        QuantileMethod::Higher => 1.0,
        QuantileMethod::Nearest => at.round_ties_even() - low,
        QuantileMethod::Midpoint => 0.5,
    };
    Ok((low as usize, (high as usize).min(last), part))
}

/// Several quantiles along an axis; the result has them along a first axis.
fn quantiles_of<T: Float, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (quantiles, between): (&[f64], QuantileMethod),
    axis: usize,
    place: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    x.ensure_allocated(op)?;
    let kept_size = with_size(x.size(), axis, 1);
    // Axes before the removed one move one position back, behind the new first axis.
    let size: [usize; RANK] =
        std::array::from_fn(
            |a| if a == 0 { quantiles.len() } else { x.size().0[a - usize::from(a <= axis)] },
        );
    let layout = Layout::row_major_of(op, Dim(size), size_of::<T>())?;
    let last = x.size().0[axis].checked_sub(1);
    let points: Vec<_> =
        quantiles.iter().map(|&q| position_of(op, q, between, last.unwrap_or(0))).collect::<Result<_>>()?;
    if size.contains(&0) {
        return place.put(op, layout, x.device(), |_| Ok(()));
    }
    let Some(last) = last else { return Err(Error::Empty { op, sizes: x.size().0.into() }) };
    let sorted = x.sort_axis(axis)?;
    let at = |place: usize| sorted.view().slice_axis(axis, place..place + 1, 1);
    place.put(op, layout, x.device(), |out| {
        for (k, &(low, high, part)) in points.iter().enumerate() {
            let out = out.reborrow().slice_axis(0, k..k + 1, 1)?.reshape(kept_size)?;
            apply_into(Interpolated, (at(low)?, at(high)?, at(last)?, part), out)?;
        }
        Ok(())
    })
}

/// The lower of the middle elements along an axis, and its index; the first NaN if there is one.
fn median_of<
    T: Comparable,
    const RANK: usize,
    const M: usize,
    D: Device,
    V: Destination<T, M, D>,
    P: Destination<i64, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    (values, positions): (V, P),
) -> Result<(V::Done, P::Done)>
where
    Dim<RANK>: RankMinusOne<Output = Dim<M>>,
{
    check_axis(op, axis, x.size())?;
    x.ensure_allocated(op)?;
    let kept_size = with_size(x.size(), axis, 1);
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
            let (mut values, mut positions) =
                (values.reborrow().reshape(kept_size)?, positions.reborrow().reshape(kept_size)?);
            let request = SortRequest { op, axis, first: (n - 1) / 2, keep: Some(1), descending: false };
            if T::DTYPE.is_discrete() {
                return ordered(x, request, (Existing(&mut values), Existing(&mut positions))).map(drop);
            }
            let (lower, indices) = ordered(x, request, (Allocate, Allocate))?;
            let top: Tensor<T, M, D> = x.max_axis(axis)?;
            let first: Tensor<i64, M, D> = x.argmax_axis(axis)?;
            let (top, first) = (top.view().reshape(kept_size)?, first.view().reshape(kept_size)?);
            values.assign(top.lazy().is_nan().select(top, &lower))?;
            positions.assign(top.lazy().is_nan().select(first, &indices))
        })
    })
}

/// One quantile along an axis.
fn quantile_of<T: Float, const RANK: usize, const M: usize, D: Device, P: Destination<T, M, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (q, between): (f64, QuantileMethod),
    axis: usize,
    place: P,
) -> Result<P::Done>
where
    Dim<RANK>: RankMinusOne<Output = Dim<M>>,
{
    check_axis(op, axis, x.size())?;
    let (low, high, part) = position_of(op, q, between, x.size().0[axis].saturating_sub(1))?;
    x.ensure_allocated(op)?;
    let kept: [usize; M] = std::array::from_fn(|a| x.size().0[a + usize::from(a >= axis)]);
    let layout = Layout::row_major(Dim(kept));
    if x.size().0[axis] == 0 {
        return if kept.contains(&0) {
            place.put(op, layout, x.device(), |_| Ok(()))
        } else {
            Err(Error::Empty { op, sizes: x.size().0.into() })
        };
    }
    let kept_size = with_size(x.size(), axis, 1);
    let request = SortRequest { op, axis, first: low, keep: Some(high + 1 - low), descending: false };
    let (neighbors, largest) = (elements_in_order(x, request, Allocate)?, x.max_axis::<M>(axis)?);
    let at = |place: usize| neighbors.view().slice_axis(axis, place..place + 1, 1);
    place.put(op, layout, x.device(), |out| {
        let out = out.reborrow().reshape(kept_size)?;
        let largest = largest.view().reshape(kept_size)?;
        apply_into(Interpolated, (at(0)?, at(high - low)?, largest, part), out)
    })
}

/// Quantiles, for tensors and views.
pub trait Quantiles<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The quantile `q` along axis `A`: position `q · (n − 1)` in sorted order, and between two positions the
    /// value that `between` chooses. NaN if any of the elements is NaN. `q = 0.5` is the median.
    ///
    /// # Cost
    /// A selection along the axis and the largest element; a sort on GPUs.
    ///
    /// # Errors
    /// [`Error::Value`] unless `q` is between 0 and 1; [`Error::Empty`] for an axis without elements;
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::QuantileMethod;
    /// let x = Tensor::from([[4.0, 1.0, 3.0, 2.0]]);
    /// assert_eq!(x.quantile(0.5, Axis::<1>, QuantileMethod::Linear)?.to_vec()?, [2.5]);
    /// assert_eq!(x.quantile(0.5, Axis::<1>, QuantileMethod::Lower)?.to_vec()?, [2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantile<const A: usize, const M: usize>(
        self,
        q: f64,
        axis: Axis<A>,
        between: QuantileMethod,
    ) -> Result<Tensor<T, M, D>>
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
    fn quantile_axis<const M: usize>(
        self,
        q: f64,
        axis: usize,
        between: QuantileMethod,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float,
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        quantile_of("quantile", self.into_view(), (q, between), axis, Allocate)
    }

    /// Several quantiles along axis `A`, by one sort: a first axis with one position per quantile, then the
    /// other axes. See [`quantile`](Quantiles::quantile).
    ///
    /// # Errors
    /// As [`quantile`](Quantiles::quantile).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::QuantileMethod;
    /// let x = Tensor::from([[4.0, 1.0, 3.0, 2.0], [0.0, 0.0, 6.0, 6.0]]);
    /// let quartiles = x.quantiles(&[0.25, 0.5], Axis::<1>, QuantileMethod::Linear)?;
    /// assert_eq!(quartiles, Tensor::from([[1.75, 0.0], [2.5, 3.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantiles<const A: usize>(
        self,
        quantiles: &[f64],
        axis: Axis<A>,
        between: QuantileMethod,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.quantiles_axis(quantiles, A, between)
    }

    /// As [`quantiles`](Quantiles::quantiles), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn quantiles_axis(
        self,
        quantiles: &[f64],
        axis: usize,
        between: QuantileMethod,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
    {
        quantiles_of("quantiles", self.into_view(), (quantiles, between), axis, Allocate)
    }

    /// As [`quantiles`](Quantiles::quantiles), into an existing tensor or exclusive view. The sorted elements
    /// are allocated.
    ///
    /// # Errors
    /// As [`quantiles`](Quantiles::quantiles); [`Error::Output`] when `out` has other sizes,
    /// [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::QuantileMethod;
    /// let (x, mut ends) = (Tensor::from([[4.0, 1.0, 3.0]]), Tensor::from([[0.0], [0.0]]));
    /// x.quantiles_into(&[0.0, 1.0], Axis::<1>, QuantileMethod::Linear, &mut ends)?;
    /// assert_eq!(ends.to_vec()?, [1.0, 4.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantiles_into<'o, const A: usize>(
        self,
        quantiles: &[f64],
        axis: Axis<A>,
        between: QuantileMethod,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        quantiles_of("quantiles_into", self.into_view(), (quantiles, between), A, Existing(out))
    }

    /// The middle element along axis `A` in sorted order, the lower one of two, and its index, as PyTorch's
    /// `median`. If there are NaNs, the first NaN.
    ///
    /// NumPy's median is the mean of the two middle elements: `quantile(0.5, axis, QuantileMethod::Linear)`.
    ///
    /// # Cost
    /// A selection along the axis, and of floats the largest element; a sort on GPUs.
    ///
    /// # Errors
    /// [`Error::Empty`] for an axis without elements; [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[4, 1, 3, 2], [7, 9, 8, 7]]);
    /// let (values, indices) = x.median(Axis::<1>)?;
    /// assert_eq!((values.to_vec()?, indices.to_vec()?), (vec![2, 7], vec![3, 3]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn median<const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
    ) -> Result<(Tensor<T, M, D>, Tensor<i64, M, D>)>
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
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        median_of("median", self.into_view(), axis, (Allocate, Allocate))
    }

    /// As [`median`](Quantiles::median), into two existing tensors or exclusive views: the elements and their
    /// indices. The sorted elements are allocated.
    ///
    /// # Errors
    /// As [`median`](Quantiles::median); [`Error::Output`] when one has other sizes, [`Error::Shared`] when
    /// it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mut values, mut indices) = (Tensor::from([0]), Tensor::from([0_i64]));
    /// Tensor::from([[4, 1, 3]]).median_into(Axis::<1>, &mut values, &mut indices)?;
    /// assert_eq!((values.to_vec()?, indices.to_vec()?), (vec![3], vec![2]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn median_into<'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        values: impl IntoViewMut<'o, T, M, D>,
        indices: impl IntoViewMut<'o, i64, M, D>,
    ) -> Result<()>
    where
        T: Comparable,
        D: 'o,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        median_of("median_into", self.into_view(), A, (Existing(values), Existing(indices))).map(|_| ())
    }

    /// As [`quantile`](Quantiles::quantile), into an existing tensor or exclusive view. The sorted elements
    /// are allocated.
    ///
    /// # Errors
    /// As [`quantile`](Quantiles::quantile); [`Error::Output`] when `out` has other sizes, [`Error::Shared`]
    /// when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::QuantileMethod;
    /// let (x, mut medians) = (Tensor::from([[4.0, 1.0, 3.0, 2.0]]), Tensor::from([0.0]));
    /// x.quantile_into(0.5, Axis::<1>, QuantileMethod::Linear, &mut medians)?;
    /// assert_eq!(medians.to_vec()?, [2.5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn quantile_into<'o, const A: usize, const M: usize>(
        self,
        q: f64,
        axis: Axis<A>,
        between: QuantileMethod,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        quantile_of("quantile_into", self.into_view(), (q, between), A, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Quantiles<'a, T, RANK, D> for X {}
