//! Max and average pooling over windows of an input.
//!
//! One pass over the output for each element of a window, along rows of the input, without a copy of windows
//! or padding. If windows are long and few, each is reduced on its own.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::pooling_rules::{avg_pool_by_rule, max_pool_by_rule};
use super::windows::{for_each_tap, window_count};
use super::{Conv, Ends};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Comparable, Compute, Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::reduce_at;
use crate::kernel::Reducer;
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::ops::reduction::slopes::slope;
use crate::ops::{Add, Cast as _, Div, Max, Maximum};
use crate::rank::Spatial;
use crate::scalar::{Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::ops::Range;

/// The windows of a pooling over `N` axes.
///
/// # Examples
/// ```
/// use rankform::ops::Pool;
/// let pool = Pool::new([3, 3]).stride([2, 2]).padding([1, 1]);
/// assert_eq!((pool.window, Pool::new([2]).stride), ([3, 3], [2]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool<const N: usize> {
    /// The sizes of a window.
    pub window: [usize; N],
    /// The distance between neighboring windows, in elements.
    pub stride: [usize; N],
    /// Padding before the first index of each axis, in elements: at most half the extent of a window.
    pub padding: [usize; N],
    /// Padding after the last index of each axis, with the same bound.
    pub ends: Ends<N>,
    /// The distance between neighboring elements of a window.
    pub dilation: [usize; N],
    /// Whether a mean counts the padding, as zeros.
    pub count_padding: bool,
    /// The divisor of every window's sum, instead of the number of its elements.
    pub divisor: Option<i64>,
    /// Whether a last window counts that starts inside the input but extends beyond its padding. Elements
    /// beyond the padding are never counted.
    pub ceil: bool,
}

impl<const N: usize> Pool<N> {
    /// Adjacent windows (the stride is the window), no padding.
    pub const fn new(window: [usize; N]) -> Self {
        let (padding, ends, dilation) = ([0; N], Ends::Alike, [1; N]);
        Pool {
            window,
            stride: window,
            padding,
            ends,
            dilation,
            count_padding: true,
            divisor: None,
            ceil: false,
        }
    }
    /// With another stride.
    pub const fn stride(self, stride: [usize; N]) -> Self {
        Pool { stride, ..self }
    }
    /// With padding, the same at both ends of an axis: −∞ for the maximum, 0 for the mean.
    pub const fn padding(self, padding: [usize; N]) -> Self {
        Pool { padding, ends: Ends::Alike, ..self }
    }
    /// With padding that differs between the ends: before the first index of each axis, and after the last.
    pub const fn padding_ends(self, before: [usize; N], after: [usize; N]) -> Self {
        Pool { padding: before, ends: Ends::After(after), ..self }
    }
    /// With padding to `size / stride` windows, rounded up, with the odd element at the end: ONNX's
    /// `SAME_UPPER`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[[1, 5, 2, 3, 4]]]);
    /// assert_eq!(x.max_pool1d(Pool::new([2]).same())?.to_vec()?, [5, 3, 4]);
    /// assert_eq!(x.max_pool1d(Pool::new([2]).same_lower())?.to_vec()?, [1, 5, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub const fn same(self) -> Self {
        Pool { ends: Ends::SameUpper, ..self }
    }
    /// As [`same`](Pool::same), with the odd element at the start: ONNX's `SAME_LOWER`.
    pub const fn same_lower(self) -> Self {
        Pool { ends: Ends::SameLower, ..self }
    }
    /// With a fixed divisor of each window's sum, PyTorch's `divisor_override`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let sums = Tensor::from([[[1.0, 2.0, 4.0]]]).avg_pool1d(Pool::new([2]).stride([1]).divisor(1))?;
    /// assert_eq!(sums.to_vec()?, [3.0, 6.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub const fn divisor(self, divisor: i64) -> Self {
        Pool { divisor: Some(divisor), ..self }
    }
    /// With another dilation: gaps inside the windows.
    pub const fn dilation(self, dilation: [usize; N]) -> Self {
        Pool { dilation, ..self }
    }
    /// With a last window that extends beyond the padded input, PyTorch's `ceil_mode`.
    pub const fn ceil(self, ceil: bool) -> Self {
        Pool { ceil, ..self }
    }
    /// Whether a mean counts the padding.
    pub const fn count_padding(self, count_padding: bool) -> Self {
        Pool { count_padding, ..self }
    }
}

/// Max pooling over `$n` axes.
macro_rules! max_pools {
    ($($name:ident $into:ident $n:literal;)*) => { $(methods_with_into! {
        [[T: Comparable, const RANK: usize,] T, RANK -> T]
        /// The largest element of each window; NaN if any element is. A dilated window may have no element
        /// inside the input; then the result is the lowest number, −∞ for floats.
        ///
        /// # Shapes
        /// `[batch, channel, n, …] → [batch, channel, n', …]`,
        /// `n' = (n + padding at both ends − dilation · (window − 1) − 1) / stride + 1`; with `ceil` the
        /// quotient is rounded up if that window starts inside.
        ///
        /// # Cost
        /// One allocation; one pass over it for each element of a window, or one reduction per window if they
        /// are long and few.
        ///
        /// # Errors
        /// [`Error::Value`] when a window does not fit, the padding is more than half its extent, or an axis
        /// is empty; [`Error::Unallocated`], [`Error::OutOfMemory`].
        ///
        /// # Source
        /// PyTorch's `max_pool1d` … `max_pool3d`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| max_pool(op, x, pool, place);
    })* };
}

/// Average pooling over `$n` axes.
macro_rules! avg_pools {
    ($($name:ident $into:ident $n:literal;)*) => { $(methods_with_into! {
        [[T: Float, const RANK: usize,] T, RANK -> T]
        /// The mean of each window, summed in f64. Padding counts as zeros unless `count_padding` is false;
        /// then a dilated window with no element inside the input gives NaN.
        ///
        /// Shapes, cost and errors are those of max pooling; one more allocation, of f64.
        ///
        /// # Errors
        /// As there.
        ///
        /// # Source
        /// PyTorch's `avg_pool1d` … `avg_pool3d`; `count_padding` is `count_include_pad`, `divisor` is
        /// `divisor_override`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| avg_pool(op, x, pool, place);
    })* };
}

max_pools! {
    max_pool1d max_pool1d_into 1;
    max_pool2d max_pool2d_into 2;
    max_pool3d max_pool3d_into 3;
}
avg_pools! {
    avg_pool1d avg_pool1d_into 1;
    avg_pool2d avg_pool2d_into 2;
    avg_pool3d avg_pool3d_into 3;
}

/// The layout of the result, which follows the input's, and the pool with its padding in numbers.
pub(super) fn output_layout<T, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: &TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
) -> Result<(Layout<RANK>, Pool<N>)> {
    let mut size = x.size().0;
    let [before, after] = pool.ends.resolve(&size, pool.window, &window_geometry(&pool));
    for axis in 0..N {
        let (window, padding) = (pool.window[axis], before[axis].max(after[axis]));
        let reach = window.saturating_sub(1).saturating_mul(pool.dilation[axis]).saturating_add(1);
        if padding > reach / 2 {
            let what = format_args!(
                "axis {}: padding {padding} is more than half a window that reaches over {reach}",
                axis + 2
            );
            return Err(Error::Value { op, what: text(what) });
        }
        if size[axis + 2] == 0 {
            return Err(Error::Value {
                op,
                what: text(format_args!("axis {} of sizes {} has no places", axis + 2, x.size())),
            });
        }
        let (n, stride) = (size[axis + 2], pool.stride[axis]);
        let count =
            window_count(op, axis + 2, n, window, [stride, before[axis], after[axis], pool.dilation[axis]])?;
        let (slack, start) = (n + before[axis] + after[axis] - reach, count.saturating_mul(stride));
        size[axis + 2] =
            count + usize::from(pool.ceil && !slack.is_multiple_of(stride) && start < n + before[axis]);
    }
    let channels_last = x.layout().is_dense_with_channel_fastest() && !x.layout().is_contiguous();
    let layout =
        if channels_last { Layout::with_channel_fastest(Dim(size)) } else { Layout::row_major(Dim(size)) };
    Ok((layout, pool.padding_ends(before, after)))
}

/// The geometry of the windows as that of a convolution.
pub(super) fn window_geometry<const N: usize>(pool: &Pool<N>) -> Conv<N> {
    Conv { ends: pool.ends, ..Conv::new().stride(pool.stride).padding(pool.padding).dilation(pool.dilation) }
}

/// Returns whether windows are long and few: then each is reduced on its own, instead of one pass per tap.
pub(super) fn is_few(windows: &[usize], places: &[usize]) -> bool {
    /// The cost of a reduction, in passes over as many elements.
    const REDUCTION_PASSES: usize = 4;
    let total = |counts: &[usize]| counts.iter().fold(1, |product: usize, n| product.saturating_mul(*n));
    total(windows).saturating_mul(REDUCTION_PASSES) <= total(places)
}

/// Reduces every window of the axes from 2 on into its element of `out`. Its indices along axis `k` are
/// `range(k, window)`, which must exist. The element of an empty window is not written.
pub(super) fn each_window<Q: Reducer<T>, T: Element, const RANK: usize, D: Device>(
    reducer: Q,
    x: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, Q::Out, RANK, D>,
    range: impl Fn(usize, usize) -> (Range<usize>, usize),
) -> Result<()> {
    let size = out.size();
    let mut windows = size;
    windows.0[..2].fill(1);
    for index in windows.indices() {
        let (mut seen, mut part) = (x, out.reborrow());
        for axis in 2..RANK {
            let (range, step) = range(axis - 2, index[axis]);
            seen = seen.slice_axis(axis, range, step as isize)?;
            part = part.slice_axis(axis, index[axis]..index[axis] + 1, 1)?;
        }
        if seen.numel() > 0 {
            let part = part.reshape([size.0[0], size.0[1]])?;
            reduce_at::<Q, RANK, 2, D, _, _>(
                reducer,
                &seen,
                x.device(),
                std::array::from_fn(|axis| axis >= 2),
                Existing(part),
            )?;
        }
    }
    Ok(())
}

/// The sum of the elements in f64.
#[derive(Clone, Copy)]
pub(super) struct SumF64;

impl<T: Float> Reducer<T> for SumF64 {
    const NAME: &'static str = "avg_pool";
    const NEEDS_ELEMENTS: bool = false;
    type Out = f64;
    type State<L: Lanes> = Lane<L, f64>;
    #[inline(always)]
    fn identity<L: Lanes>() -> Lane<L, f64> {
        Lane::zero()
    }
    #[inline(always)]
    fn accumulate<L: Lanes>(sum: Lane<L, f64>, x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> Lane<L, f64> {
        sum + x.cast()
    }
    #[inline(always)]
    fn combine<L: Lanes>(a: Lane<L, f64>, b: Lane<L, f64>) -> Lane<L, f64> {
        a + b
    }
    #[inline(always)]
    fn finalize<L: Lanes>(sum: Lane<L, f64>, _: Lane<L, i64>) -> Lane<L, f64> {
        sum
    }
    slope! { <T> Constant |_, _, _, _| Lane::one() }
}

/// The positions of a window along an axis that lie in the input, and the step between them.
pub(super) fn positions_of_window<const N: usize>(
    pool: &Pool<N>,
    axis: usize,
    window: usize,
    n: usize,
) -> (Range<usize>, usize) {
    let (step, start) = (pool.dilation[axis], window * pool.stride[axis]);
    let padding = pool.padding[axis];
    // Positions before and after the input are skipped.
    let first = padding.saturating_sub(start).div_ceil(step);
    let from = start + first * step;
    let last = start + pool.window[axis].saturating_sub(1) * step;
    let end = (last + 1).min(n + padding);
    if first >= pool.window[axis] || from >= end { (0..0, 1) } else { (from - padding..end - padding, step) }
}

pub(super) fn max_pool<
    T: Comparable,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let (layout, pool) = output_layout(op, &x, pool)?;
    layout.size().numel_of(op, size_of::<T>())?;
    if const { D::RECORDS && !T::DTYPE.is_discrete() } {
        return max_pool_by_rule(op, x, pool, layout, destination);
    }
    destination.put(op, layout, x.device(), |out| {
        out.fill(T::narrow(Ordered::LOWEST))?;
        if is_few(&layout.size().0[2..], &pool.window) {
            return each_window(Max, x, out, |axis, window| {
                positions_of_window(&pool, axis, window, x.size().0[axis + 2])
            });
        }
        for_each_tap(x, out, &window_geometry(&pool), pool.window, |_, mut part, seen| {
            part.zip_in_place(Maximum, seen)
        })
    })
}

pub(super) fn avg_pool<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    if pool.divisor == Some(0) {
        return Err(Error::Value { op, what: text(format_args!("a divisor of 0")) });
    }
    let (layout, pool) = output_layout(op, &x, pool)?;
    let size = layout.size();
    size.numel_of(op, size_of::<f64>())?;
    if const { D::RECORDS } {
        return avg_pool_by_rule(op, x, pool, layout, destination);
    }
    destination.put(op, layout, x.device(), |out| {
        let mut sums = Tensor::<f64, RANK, D>::uninit(op, layout, x.device())?;
        sums.fill(0.0)?;
        let add = |_, mut part: TensorViewMut<'_, f64, RANK, D>, seen: TensorView<'_, T, RANK, D>| {
            part.zip_in_place(Add, seen.lazy().cast::<f64>())
        };
        if is_few(&size.0[2..], &pool.window) {
            let range = |axis, window| positions_of_window(&pool, axis, window, x.size().0[axis + 2]);
            each_window(SumF64, x, &mut sums.try_view_mut(op)?, range)?;
        } else {
            for_each_tap(x, &mut sums.try_view_mut(op)?, &window_geometry(&pool), pool.window, add)?;
        }
        divide_by_counts(&mut sums, x.size(), &pool)?;
        sums.lazy().cast::<T>().eval_into(out)
    })
}

/// Divides each window by the number of its elements that count, or by the divisor of the pool. The padding
/// of the pool is in numbers.
pub(super) fn divide_by_counts<const RANK: usize, const N: usize, D: Device>(
    sums: &mut Tensor<f64, RANK, D>,
    of: Dim<RANK>,
    pool: &Pool<N>,
) -> Result<()> {
    if let Some(divisor) = pool.divisor {
        return sums.zip_in_place(Div, divisor as f64);
    }
    // One divisor for every window along each axis.
    let Ends::After(after) = pool.ends else { return Ok(()) };
    for axis in 0..N {
        let (n, windows) = (of.0[axis + 2], sums.size().0[axis + 2]);
        let mut line = [1; RANK];
        line[axis + 2] = windows;
        let count = |window: usize| {
            let (start, step) = (window * pool.stride[axis], pool.dilation[axis]);
            let padded = (n + pool.padding[axis] + after[axis])
                .saturating_sub(start)
                .div_ceil(step)
                .min(pool.window[axis]);
            let (range, step) = positions_of_window(pool, axis, window, n);
            if pool.count_padding { padded as f64 } else { range.len().div_ceil(step) as f64 }
        };
        let divisors = Tensor::<f64, RANK, D>::from_fn(line, |index| count(index[axis + 2]), sums.device())?;
        sums.zip_in_place(Div, &divisors)?;
    }
    Ok(())
}
