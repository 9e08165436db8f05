//! Other numbers of places along the spatial axes: pooling to given sizes, nearest and linear interpolation.
//!
//! One axis after the other, by positions and weights of that axis: all are separable.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::pooling::{SumF64, each_window, is_few};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Comparable, Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::axes::{sizes_along, with_size};
use crate::ops::indexing::gather::selected;
use crate::ops::{Add, Cast as _, Comparisons as _, Div, Indexing as _, Max, Maximum};
use crate::rank::Spatial;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::ops::Range;

/// Where an interpolation looks, over `N` axes.
///
/// # Examples
/// ```
/// use rankform::ops::Interpolate;
/// let plan = Interpolate::new([4, 6]).align_corners(true);
/// assert_eq!((plan.size, plan.align_corners, plan.scale), ([4, 6], true, None));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interpolate<const N: usize> {
    /// The sizes of the result.
    pub size: [usize; N],
    /// How many places of the result one of the input becomes; the ratio of the sizes without.
    pub scale: Option<[f64; N]>,
    /// Whether the first and last places of both stand on each other, for linear interpolation.
    pub align_corners: bool,
}

impl<const N: usize> Interpolate<N> {
    /// To these sizes; places are parts of the axis, whose ends stand on each other.
    pub const fn new(size: [usize; N]) -> Self {
        Interpolate { size, scale: None, align_corners: false }
    }
    /// With scales that are not the ratio of the sizes.
    pub const fn scale(self, scale: [f64; N]) -> Self {
        Interpolate { scale: Some(scale), ..self }
    }
    /// With the first and last places on each other.
    pub const fn align_corners(self, align_corners: bool) -> Self {
        Interpolate { align_corners, ..self }
    }
}

/// `n` positions along an axis as a tensor.
fn positions<D: Device>(n: usize, at: impl Fn(usize) -> usize, device: &D) -> Result<Tensor<i64, 1, D>> {
    Tensor::from_fn([n], |[i]| at(i) as i64, device)
}

/// [`Error::Value`] for an axis of nothing that something is wanted of, or a scale that is none.
fn wanted<const RANK: usize, const N: usize>(
    op: &'static str,
    size: Dim<RANK>,
    to: [usize; N],
    scale: Option<[f64; N]>,
) -> Result<()> {
    for axis in 0..N {
        if size.0[axis + 2] == 0 && to[axis] > 0 {
            return Err(Error::Value {
                op,
                what: text(format_args!("{} places of axis {} of sizes {size}", to[axis], axis + 2)),
            });
        }
    }
    match scale {
        Some(scale) if !scale.iter().all(|&scale| scale > 0.0 && scale.is_finite()) => {
            Err(Error::Value { op, what: text(format_args!("scales {scale:?}")) })
        }
        _ => Ok(()),
    }
}

/// `⌊i · n / parts⌋`, exactly.
fn part(i: usize, n: usize, parts: usize) -> usize {
    (i as u128 * n as u128 / parts as u128) as usize
}

/// Where each of `parts` windows along an axis of `n` places starts and ends.
fn window(i: usize, n: usize, parts: usize) -> (usize, usize) {
    let end = (i as u128 + 1) * n as u128;
    (part(i, n, parts), end.div_ceil(parts as u128) as usize)
}

/// Place `place` of each window as a position, the last where it has fewer places.
fn of_windows<D: Device>(place: usize, n: usize, parts: usize, device: &D) -> Result<Tensor<i64, 1, D>> {
    let at = |i: usize| {
        let (start, end) = window(i, n, parts);
        (start + place).min(end - 1)
    };
    positions(parts, at, device)
}

/// How many places the longest window has.
fn longest(n: usize, parts: usize) -> usize {
    (0..parts).map(|i| window(i, n, parts)).map(|(start, end)| end - start).max().unwrap_or(0)
}

/// Whether so many windows of an input are few enough to be reduced one by one.
fn are_few<const RANK: usize, const N: usize>(x: Dim<RANK>, size: [usize; N]) -> bool {
    is_few(&size, &std::array::from_fn::<usize, N, _>(|k| longest(x.0[k + 2], size[k])))
}

/// The sizes of an input with so many windows along its spatial axes.
fn pooled<const RANK: usize, const N: usize>(mut x: Dim<RANK>, size: [usize; N]) -> Dim<RANK> {
    x.0[2..].copy_from_slice(&size);
    x
}

/// The places of a window along a spatial axis, and the step between them, as [`each_window`] asks for them.
fn range_of<const RANK: usize, const N: usize>(
    x: Dim<RANK>,
    size: [usize; N],
) -> impl Fn(usize, usize) -> (Range<usize>, usize) {
    move |axis, i| {
        let (start, end) = window(i, x.0[axis + 2], size[axis]);
        (start..end, 1)
    }
}

/// One spatial axis after the other: what `step` writes of axis `k`, which gets the size `to[k]`; of the last, in its place.
fn separably<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    to: [usize; N],
    place: P,
    step: impl Fn(usize, TensorView<'_, T, RANK, D>, &mut TensorViewMut<'_, T, RANK, D>) -> Result<()>,
) -> Result<P::Done> {
    let layout =
        |from: Dim<RANK>, k: usize| Layout::row_major_of(op, with_size(from, k + 2, to[k]), size_of::<T>());
    let mut y = None;
    for k in 0..N - 1 {
        let from: TensorView<'_, T, RANK, D> = y.as_ref().map_or(x, Tensor::view);
        y = Some(Allocate.put(op, layout(from.size(), k)?, x.device(), |out| step(k, from, out))?);
    }
    let from = y.as_ref().map_or(x, Tensor::view);
    place.put(op, layout(from.size(), N - 1)?, x.device(), |out| step(N - 1, from, out))
}

/// [`Resample::adaptive_avg_pool`], wherever the result is to go.
fn averaged<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    size: [usize; N],
    place: P,
) -> Result<P::Done> {
    wanted(op, x.size(), size, None)?;
    if are_few(x.size(), size) {
        x.ensure_allocated(op)?;
        let range = range_of(x.size(), size);
        let mut means = Tensor::<f64, RANK, D>::zeros(pooled(x.size(), size), x.device())?;
        let mut out = means.try_view_mut(op)?;
        each_window(SumF64, x, &mut out, &range)?;
        for axis in 0..N {
            let count = |index: [usize; RANK]| range(axis, index[axis + 2]).0.len() as f64;
            out.zip_in_place(
                Div,
                &Tensor::from_fn(sizes_along::<RANK>(axis + 2, size[axis]), count, x.device())?,
            )?;
        }
        return means.lazy().cast::<T>().eval_at(op, place);
    }
    let means = separably(
        op,
        x.cast::<f64>().map_err(|error| error.with_op(op))?.view(),
        size,
        Allocate,
        |k, y, out| {
            let (axis, n, parts) = (k + 2, y.size().0[k + 2], size[k]);
            selected(op, y, axis, of_windows(0, n, parts, x.device())?.view(), Existing(&mut *out))?;
            for place in 1..longest(n, parts) {
                // 0 · ∞ is NaN: what a shorter window lacks is chosen away.
                let inside = |i: usize| {
                    let (start, end) = window(i, n, parts);
                    start + place < end
                };
                let inside = Tensor::from_fn(
                    sizes_along::<RANK>(axis, parts),
                    |index| inside(index[axis]),
                    x.device(),
                )?;
                let next = y.index_select_axis(axis, &of_windows(place, n, parts, x.device())?)?;
                out.zip_in_place(Add, inside.lazy().select(&next, 0.0))?;
            }
            let count = |i: usize| {
                let (start, end) = window(i, n, parts);
                (end - start) as f64
            };
            out.zip_in_place(
                Div,
                &Tensor::from_fn(sizes_along::<RANK>(axis, parts), |index| count(index[axis]), x.device())?,
            )
        },
    )?;
    means.lazy().cast::<T>().eval_at(op, place)
}

/// [`Resample::adaptive_max_pool`], wherever the result is to go.
fn largest<T: Comparable, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    size: [usize; N],
    place: P,
) -> Result<P::Done> {
    wanted(op, x.size(), size, None)?;
    if are_few(x.size(), size) {
        x.ensure_allocated(op)?;
        let layout = Layout::row_major_of(op, pooled(x.size(), size), size_of::<T>())?;
        return place.put(op, layout, x.device(), |out| each_window(Max, x, out, range_of(x.size(), size)));
    }
    separably(op, x, size, place, |k, y, out| {
        let (axis, n, parts) = (k + 2, y.size().0[k + 2], size[k]);
        selected(op, y, axis, of_windows(0, n, parts, x.device())?.view(), Existing(&mut *out))?;
        for place in 1..longest(n, parts) {
            out.zip_in_place(
                Maximum,
                &y.index_select_axis(axis, &of_windows(place, n, parts, x.device())?)?,
            )?;
        }
        Ok(())
    })
}

/// [`Resample::interpolate_nearest`], wherever the result is to go.
fn nearest<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    plan: Interpolate<N>,
    place: P,
) -> Result<P::Done> {
    wanted(op, x.size(), plan.size, plan.scale)?;
    separably(op, x, plan.size, place, |k, y, out| {
        let (n, m) = (y.size().0[k + 2], plan.size[k]);
        let at = |i: usize| match plan.scale {
            Some(scale) => ((i as f64 / scale[k]).floor() as usize).min(n - 1),
            None => part(i, n, m),
        };
        selected(op, y, k + 2, positions(m, at, x.device())?.view(), Existing(out))
    })
}

/// [`Resample::interpolate_linear`], wherever the result is to go.
fn linear<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    plan: Interpolate<N>,
    place: P,
) -> Result<P::Done> {
    wanted(op, x.size(), plan.size, plan.scale)?;
    let between = separably(
        op,
        x.cast::<f64>().map_err(|error| error.with_op(op))?.view(),
        plan.size,
        Allocate,
        |k, y, out| {
            let (axis, n, m) = (k + 2, y.size().0[k + 2], plan.size[k]);
            let at = |i: usize| {
                let place = match (plan.align_corners, plan.scale) {
                    (true, _) => i as f64 * n.saturating_sub(1) as f64 / m.saturating_sub(1).max(1) as f64,
                    (false, Some(scale)) => (i as f64 + 0.5) / scale[k] - 0.5,
                    (false, None) => (i as f64 + 0.5) * n as f64 / m as f64 - 0.5,
                };
                place.clamp(0.0, n.saturating_sub(1) as f64)
            };
            let below = y.index_select_axis(axis, &positions(m, |i| at(i) as usize, x.device())?)?;
            let above =
                y.index_select_axis(axis, &positions(m, |i| (at(i) as usize + 1).min(n - 1), x.device())?)?;
            let weight =
                Tensor::from_fn(sizes_along::<RANK>(axis, m), |index| at(index[axis]).fract(), x.device())?;
            // 0 · ∞ is NaN: a place that stands on another takes nothing of the next.
            let next = weight.lazy().equal(0.0).select(0.0, above.lazy() * &weight);
            (below.lazy() * (1.0 - weight.lazy()) + next).eval_into(out)
        },
    )?;
    between.lazy().cast::<T>().eval_at(op, place)
}

/// Sizes changed by pooling and interpolation, of tensors and views `[batch, channel, …]` with `N` spatial axes, which the
/// rank must have.
pub trait Resample<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The mean of each of `size` windows, which cut each axis into parts as equal as can be: place `i` of `m` is the mean of
    /// places `⌊i · n / m⌋` to `⌈(i + 1) · n / m⌉ − 1` of `n`. Summed in f64.
    ///
    /// # Cost
    /// As many gathers along each axis as its windows have places; a reduction of each where windows are long and few.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis of nothing; [`Error::Overflow`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[[1.0, 2.0, 3.0, 5.0]]]);
    /// assert_eq!(x.adaptive_avg_pool([3])?, Tensor::from([[[1.5, 2.5, 4.0]]]));
    /// assert_eq!(x.adaptive_max_pool([2])?, Tensor::from([[[2.0, 5.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `adaptive_avg_pool1d` … `adaptive_avg_pool3d`.
    fn adaptive_avg_pool<const N: usize>(self, size: [usize; N]) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: Spatial<N>,
    {
        averaged("adaptive_avg_pool", self.into_view(), size, Allocate)
    }

    /// As [`adaptive_avg_pool`](Resample::adaptive_avg_pool), into an existing tensor or exclusive view. Sums are allocated.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[[0.0; 3]]]);
    /// Tensor::from([[[1.0, 2.0, 3.0, 5.0]]]).adaptive_avg_pool_into([3], &mut y)?;
    /// assert_eq!(y, Tensor::from([[[1.5, 2.5, 4.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn adaptive_avg_pool_into<'o, const N: usize>(
        self,
        size: [usize; N],
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: Spatial<N>,
    {
        averaged("adaptive_avg_pool_into", self.into_view(), size, Existing(out))
    }

    /// The largest of each of `size` windows, which are those of [`adaptive_avg_pool`](Resample::adaptive_avg_pool); NaN if
    /// any is.
    ///
    /// # Errors
    /// As there.
    fn adaptive_max_pool<const N: usize>(self, size: [usize; N]) -> Result<Tensor<T, RANK, D>>
    where
        T: Comparable,
        Dim<RANK>: Spatial<N>,
    {
        largest("adaptive_max_pool", self.into_view(), size, Allocate)
    }

    /// As [`adaptive_max_pool`](Resample::adaptive_max_pool), into an existing tensor or exclusive view. What a place in each
    /// window has is allocated.
    ///
    /// # Errors
    /// As [`adaptive_avg_pool_into`](Resample::adaptive_avg_pool_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[[0.0; 2]]]);
    /// Tensor::from([[[1.0, 2.0, 3.0, 5.0]]]).adaptive_max_pool_into([2], &mut y)?;
    /// assert_eq!(y, Tensor::from([[[2.0, 5.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn adaptive_max_pool_into<'o, const N: usize>(
        self,
        size: [usize; N],
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Comparable,
        D: 'o,
        Dim<RANK>: Spatial<N>,
    {
        largest("adaptive_max_pool_into", self.into_view(), size, Existing(out))
    }

    /// For each place of the result the element at `⌊i · n / m⌋` along each axis; with a scale, at `⌊i / scale⌋`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis of nothing or a scale that is none; [`Error::Overflow`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Interpolate;
    /// let x = Tensor::from([[[1, 2, 3]]]);
    /// assert_eq!(x.interpolate_nearest(Interpolate::new([6]))?, Tensor::from([[[1, 1, 2, 2, 3, 3]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `interpolate` with `mode='nearest'`.
    fn interpolate_nearest<const N: usize>(self, plan: Interpolate<N>) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: Spatial<N>,
    {
        nearest("interpolate_nearest", self.into_view(), plan, Allocate)
    }

    /// As [`interpolate_nearest`](Resample::interpolate_nearest), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Interpolate;
    /// let mut y = Tensor::from([[[0; 6]]]);
    /// Tensor::from([[[1, 2, 3]]]).interpolate_nearest_into(Interpolate::new([6]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[[1, 1, 2, 2, 3, 3]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn interpolate_nearest_into<'o, const N: usize>(
        self,
        plan: Interpolate<N>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: Spatial<N>,
    {
        nearest("interpolate_nearest_into", self.into_view(), plan, Existing(out))
    }

    /// Between the two nearest places along each axis, by distance, in f64: linear, bilinear, trilinear.
    ///
    /// Place `i` of `m` stands at `(i + ½) · n / m − ½` of `n`, not before the first place; with `align_corners` at
    /// `i · (n − 1) / (m − 1)`, with a scale at `(i + ½) / scale − ½`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis of nothing or a scale that is none; [`Error::Overflow`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Interpolate;
    /// let x = Tensor::from([[[0.0, 4.0]]]);
    /// assert_eq!(x.interpolate_linear(Interpolate::new([4]))?, Tensor::from([[[0.0, 1.0, 3.0, 4.0]]]));
    /// let corners = Interpolate::new([5]).align_corners(true);
    /// assert_eq!(x.interpolate_linear(corners)?, Tensor::from([[[0.0, 1.0, 2.0, 3.0, 4.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `interpolate` with `mode='linear'`, `'bilinear'`, `'trilinear'`.
    fn interpolate_linear<const N: usize>(self, plan: Interpolate<N>) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: Spatial<N>,
    {
        linear("interpolate_linear", self.into_view(), plan, Allocate)
    }

    /// As [`interpolate_linear`](Resample::interpolate_linear), into an existing tensor or exclusive view. What stands between
    /// is allocated, in f64.
    ///
    /// # Errors
    /// As [`interpolate_nearest_into`](Resample::interpolate_nearest_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Interpolate;
    /// let mut y = Tensor::from([[[0.0; 4]]]);
    /// Tensor::from([[[0.0, 4.0]]]).interpolate_linear_into(Interpolate::new([4]), &mut y)?;
    /// assert_eq!(y, Tensor::from([[[0.0, 1.0, 3.0, 4.0]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn interpolate_linear_into<'o, const N: usize>(
        self,
        plan: Interpolate<N>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: Spatial<N>,
    {
        linear("interpolate_linear_into", self.into_view(), plan, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Resample<'a, T, RANK, D> for X {}
