//! Resampling along the spatial axes: adaptive pooling to given sizes, nearest and linear interpolation.
//!
//! All of them are separable: each axis is processed on its own, by its positions and weights.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::pool_windows::{SumF64, each_window, is_few};
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

/// The parameters of an interpolation over `N` axes.
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
    /// Elements of the result for one of the input, along each axis; without it, the ratio of the sizes.
    pub scale: Option<[f64; N]>,
    /// Whether the first and last elements of input and result coincide, for linear interpolation.
    pub align_corners: bool,
}

impl<const N: usize> Interpolate<N> {
    /// To these sizes; the edges of the first and last elements coincide, not their centers.
    pub const fn new(size: [usize; N]) -> Self {
        Interpolate { size, scale: None, align_corners: false }
    }
    /// With scales that are not the ratio of the sizes.
    pub const fn scale(self, scale: [f64; N]) -> Self {
        Interpolate { scale: Some(scale), ..self }
    }
    /// With the first and last elements of input and result aligned, or not.
    pub const fn align_corners(self, align_corners: bool) -> Self {
        Interpolate { align_corners, ..self }
    }
}

/// `n` positions along an axis as a tensor.
fn positions<D: Device>(n: usize, at: impl Fn(usize) -> usize, device: &D) -> Result<Tensor<i64, 1, D>> {
    Tensor::from_fn([n], |[i]| at(i) as i64, device)
}

/// [`Error::Value`] for an empty axis whose result is not empty, or a scale that is not positive and finite.
fn check_sizes<const RANK: usize, const N: usize>(
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

/// The start and end of window `i` of `parts` along an axis of `n` elements.
fn window(i: usize, n: usize, parts: usize) -> (usize, usize) {
    let end = (i as u128 + 1) * n as u128;
    (part(i, n, parts), end.div_ceil(parts as u128) as usize)
}

/// The position of element `tap` of each window, or of its last element if the window is shorter.
fn positions_in_windows<D: Device>(
    tap: usize,
    n: usize,
    parts: usize,
    device: &D,
) -> Result<Tensor<i64, 1, D>> {
    let at = |i: usize| {
        let (start, end) = window(i, n, parts);
        (start + tap).min(end - 1)
    };
    positions(parts, at, device)
}

/// The length of the longest window.
fn longest_window(n: usize, parts: usize) -> usize {
    (0..parts).map(|i| window(i, n, parts)).map(|(start, end)| end - start).max().unwrap_or(0)
}

/// Returns whether the windows of an input are few enough to be reduced one by one.
fn are_few<const RANK: usize, const N: usize>(x: Dim<RANK>, size: [usize; N]) -> bool {
    is_few(&size, &std::array::from_fn::<usize, N, _>(|k| longest_window(x.0[k + 2], size[k])))
}

/// The sizes of an input after its spatial axes are replaced by `size` windows.
fn pooled<const RANK: usize, const N: usize>(mut x: Dim<RANK>, size: [usize; N]) -> Dim<RANK> {
    x.0[2..].copy_from_slice(&size);
    x
}

/// The positions of a window along a spatial axis, and the step between them, in the form that
/// [`each_window`] takes.
fn range_of<const RANK: usize, const N: usize>(
    x: Dim<RANK>,
    size: [usize; N],
) -> impl Fn(usize, usize) -> (Range<usize>, usize) {
    move |axis, i| {
        let (start, end) = window(i, x.0[axis + 2], size[axis]);
        (start..end, 1)
    }
}

/// Applies `step` to one spatial axis after the other. Step `k` gives axis `k` the size `to[k]`; the last one
/// writes to the destination.
fn separably<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    to: [usize; N],
    destination: P,
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
    destination.put(op, layout(from.size(), N - 1)?, x.device(), |out| step(N - 1, from, out))
}

/// [`Resample::adaptive_avg_pool`] for any destination.
fn adaptive_average<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    size: [usize; N],
    destination: P,
) -> Result<P::Done> {
    check_sizes(op, x.size(), size, None)?;
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
        return means.lazy().cast::<T>().eval_at(op, destination);
    }
    let means = separably(
        op,
        x.cast::<f64>().map_err(|error| error.with_op(op))?.view(),
        size,
        Allocate,
        |k, y, out| {
            let (axis, n, parts) = (k + 2, y.size().0[k + 2], size[k]);
            selected(
                op,
                y,
                axis,
                positions_in_windows(0, n, parts, x.device())?.view(),
                Existing(&mut *out),
            )?;
            for tap in 1..longest_window(n, parts) {
                // Elements beyond a shorter window are replaced by `select`, because 0 · ∞ is NaN.
                let inside = |i: usize| {
                    let (start, end) = window(i, n, parts);
                    start + tap < end
                };
                let inside = Tensor::from_fn(
                    sizes_along::<RANK>(axis, parts),
                    |index| inside(index[axis]),
                    x.device(),
                )?;
                let next = y.index_select_axis(axis, &positions_in_windows(tap, n, parts, x.device())?)?;
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
    means.lazy().cast::<T>().eval_at(op, destination)
}

/// [`Resample::adaptive_max_pool`] for any destination.
fn adaptive_largest<
    T: Comparable,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    size: [usize; N],
    destination: P,
) -> Result<P::Done> {
    check_sizes(op, x.size(), size, None)?;
    if are_few(x.size(), size) {
        x.ensure_allocated(op)?;
        let layout = Layout::row_major_of(op, pooled(x.size(), size), size_of::<T>())?;
        return destination
            .put(op, layout, x.device(), |out| each_window(Max, x, out, range_of(x.size(), size)));
    }
    separably(op, x, size, destination, |k, y, out| {
        let (axis, n, parts) = (k + 2, y.size().0[k + 2], size[k]);
        selected(op, y, axis, positions_in_windows(0, n, parts, x.device())?.view(), Existing(&mut *out))?;
        for tap in 1..longest_window(n, parts) {
            out.zip_in_place(
                Maximum,
                &y.index_select_axis(axis, &positions_in_windows(tap, n, parts, x.device())?)?,
            )?;
        }
        Ok(())
    })
}

/// [`Resample::interpolate_nearest`] for any destination.
fn nearest<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    plan: Interpolate<N>,
    destination: P,
) -> Result<P::Done> {
    check_sizes(op, x.size(), plan.size, plan.scale)?;
    separably(op, x, plan.size, destination, |k, y, out| {
        let (n, m) = (y.size().0[k + 2], plan.size[k]);
        let at = |i: usize| match plan.scale {
            Some(scale) => ((i as f64 / scale[k]).floor() as usize).min(n - 1),
            None => part(i, n, m),
        };
        selected(op, y, k + 2, positions(m, at, x.device())?.view(), Existing(out))
    })
}

/// [`Resample::interpolate_linear`] for any destination.
fn linear<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    plan: Interpolate<N>,
    destination: P,
) -> Result<P::Done> {
    check_sizes(op, x.size(), plan.size, plan.scale)?;
    let interpolated = separably(
        op,
        x.cast::<f64>().map_err(|error| error.with_op(op))?.view(),
        plan.size,
        Allocate,
        |k, y, out| {
            let (axis, n, m) = (k + 2, y.size().0[k + 2], plan.size[k]);
            let at = |i: usize| {
                let position = match (plan.align_corners, plan.scale) {
                    (true, _) => i as f64 * n.saturating_sub(1) as f64 / m.saturating_sub(1).max(1) as f64,
                    (false, Some(scale)) => (i as f64 + 0.5) / scale[k] - 0.5,
                    (false, None) => (i as f64 + 0.5) * n as f64 / m as f64 - 0.5,
                };
                position.clamp(0.0, n.saturating_sub(1) as f64)
            };
            let below = y.index_select_axis(axis, &positions(m, |i| at(i) as usize, x.device())?)?;
            let above =
                y.index_select_axis(axis, &positions(m, |i| (at(i) as usize + 1).min(n - 1), x.device())?)?;
            let weight =
                Tensor::from_fn(sizes_along::<RANK>(axis, m), |index| at(index[axis]).fract(), x.device())?;
            // A position at an element takes nothing of the next one, by `select`, because 0 · ∞ is NaN.
            let next = weight.lazy().equal(0.0).select(0.0, above.lazy() * &weight);
            (below.lazy() * (1.0 - weight.lazy()) + next).eval_into(out)
        },
    )?;
    interpolated.lazy().cast::<T>().eval_at(op, destination)
}

/// Adaptive pooling and interpolation of tensors and views `[batch, channel, …]` with `N` spatial axes; the
/// rank is `N + 2`.
pub trait Resample<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The mean of each of `size` windows, which divide each axis as equally as possible: element `i` of `m`
    /// is the mean of elements `⌊i · n / m⌋` to `⌈(i + 1) · n / m⌉ − 1` of `n`. Summed in f64.
    ///
    /// # Cost
    /// As many gathers along each axis as its longest window has elements; one reduction per window if
    /// windows are long and few.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty axis; [`Error::Overflow`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
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
        adaptive_average("adaptive_avg_pool", self.into_view(), size, Allocate)
    }

    /// As [`adaptive_avg_pool`](Resample::adaptive_avg_pool), into an existing tensor or exclusive view. The
    /// sums are allocated.
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
        adaptive_average("adaptive_avg_pool_into", self.into_view(), size, Existing(out))
    }

    /// The largest element of each of `size` windows, the same as in
    /// [`adaptive_avg_pool`](Resample::adaptive_avg_pool); NaN if any element is.
    ///
    /// # Errors
    /// As there.
    fn adaptive_max_pool<const N: usize>(self, size: [usize; N]) -> Result<Tensor<T, RANK, D>>
    where
        T: Comparable,
        Dim<RANK>: Spatial<N>,
    {
        adaptive_largest("adaptive_max_pool", self.into_view(), size, Allocate)
    }

    /// As [`adaptive_max_pool`](Resample::adaptive_max_pool), into an existing tensor or exclusive view. The
    /// gathered elements are allocated.
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
        adaptive_largest("adaptive_max_pool_into", self.into_view(), size, Existing(out))
    }

    /// Nearest-neighbor interpolation: element `i` of the result is the element at `⌊i · n / m⌋` along each
    /// axis; with a scale, at `⌊i / scale⌋`.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty axis or a scale that is not positive and finite; [`Error::Overflow`],
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
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

    /// Linear, bilinear or trilinear interpolation between the two nearest elements along each axis, in f64.
    ///
    /// Element `i` of `m` is at position `(i + ½) · n / m − ½` of `n`, clamped to the axis; with
    /// `align_corners` at `i · (n − 1) / (m − 1)`, with a scale at `(i + ½) / scale − ½`.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty axis or a scale that is not positive and finite; [`Error::Overflow`],
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
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

    /// As [`interpolate_linear`](Resample::interpolate_linear), into an existing tensor or exclusive view.
    /// Intermediate results are allocated, in f64.
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
