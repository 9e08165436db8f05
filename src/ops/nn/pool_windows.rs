//! The windows of pooling: their number, and the elements of the input that each one covers.
// Imports: `error`, `dim`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::conv::{images_per_block, nbytes_of};
use super::windows::{
    Conv, DEVICE_BLOCK_BYTES, Ends, IN_WINDOW, PLACE_AXES, WINDOW_AXES, padded_copy, place_sizes, reach_of,
    window_count, windows,
};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Compute, Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::reduce_at;
use crate::kernel::Reducer;
use crate::layout::Layout;
use crate::ops::reduction::slopes::slope;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Existing, TensorView, TensorViewMut};
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

/// Reduces every window in one pass, where the input is surrounded by `padding`, on a device other than the
/// CPU for which large parts are better; otherwise it does nothing and returns `false`. The padding of the
/// pool is in numbers.
pub(super) fn all_windows<Q: Reducer<T>, T: Element, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    reducer: Q,
    x: TensorView<'_, T, RANK, D>,
    (pool, padding): (&Pool<N>, T),
    out: &mut TensorViewMut<'_, Q::Out, RANK, D>,
) -> Result<bool> {
    let reduce: fn(_, _, _, _, &mut _) -> Result<bool> =
        const { if D::IS_CPU { |_, _, _, _, _| Ok(false) } else { all_windows_at_once::<Q, T, RANK, N, D> } };
    reduce(op, reducer, x, (pool, padding), out)
}

fn all_windows_at_once<Q: Reducer<T>, T: Element, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    reducer: Q,
    x: TensorView<'_, T, RANK, D>,
    (pool, padding): (&Pool<N>, T),
    out: &mut TensorViewMut<'_, Q::Out, RANK, D>,
) -> Result<bool> {
    if x.device().task_nbytes().is_some() {
        return Ok(false);
    }
    let (conv, n, places) = (window_geometry(pool), x.size().0, out.size());
    let reach = |axis| reach_of(&conv, axis, places.0[axis + 2], pool.window[axis]);
    let is_inside = (0..N).all(|axis| pool.padding[axis] == 0 && reach(axis) <= n[axis + 2]);
    if is_inside {
        reduce_windows(op, reducer, x, pool, out.reborrow())?;
        return Ok(true);
    }
    let sizes: [usize; N] =
        std::array::from_fn(|axis| reach(axis).max(pool.padding[axis].saturating_add(n[axis + 2])));
    // A copy for a few windows that reach far beyond the input would take more memory than both.
    if nbytes_of::<T>(&sizes).saturating_mul(n[1]) > DEVICE_BLOCK_BYTES {
        return Ok(false);
    }
    let is_contiguous = x.layout().is_contiguous() || !x.layout().is_dense_with_channel_fastest();
    let layout = if is_contiguous { Layout::row_major } else { Layout::with_channel_fastest };
    let images_per_block = images_per_block::<T, D>(x.device(), n[1], &sizes, 0);
    for first in (0..n[0]).step_by(images_per_block) {
        let images = first..n[0].min(first.saturating_add(images_per_block));
        let part = x.slice_axis(0, images.clone(), 1)?;
        let frame = padded_copy(op, part, sizes, pool.padding, [1; N], layout, padding)?;
        reduce_windows(op, reducer, frame.view(), pool, out.reborrow().slice_axis(0, images, 1)?)?;
    }
    Ok(true)
}

/// Reduces every window of an input that has its padding.
fn reduce_windows<Q: Reducer<T>, T: Element, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    reducer: Q,
    x: TensorView<'_, T, RANK, D>,
    pool: &Pool<N>,
    out: TensorViewMut<'_, Q::Out, RANK, D>,
) -> Result<()> {
    let places = out.size();
    let elements = windows(op, x, places, &window_geometry(pool), pool.window)?;
    let out = out.reshape(place_sizes(places))?;
    reduce_at::<Q, WINDOW_AXES, PLACE_AXES, D, _, _>(reducer, &elements, x.device(), IN_WINDOW, Existing(out))
        .map_err(|error| error.with_op(op))
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
