//! Depthwise convolutions: sums over the elements of a window, each of which is one pass over the output.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::expr::{Operand, reduce_at};
use crate::kernel::Call;
use crate::layout::Layout;
use crate::ops::nn::windows::{
    Conv, ConvSizes, IN_WINDOW, PLACE_AXES, WINDOW_AXES, padded_copy, place_sizes, windows,
};
use crate::ops::{Add, Mul, Sum};
use crate::tensor::{Existing, Tensor, TensorView, TensorViewMut};

/// Elements of a window along the last axis that are added in one pass.
const TOGETHER: usize = 3;
/// Up to this many places of the input for one window, sums are computed at all of them, and most are left
/// out: that is faster than to read the input with a stride.
const MAX_BETWEEN: usize = 4;
/// Elements of the planes of one channel from which on they are worth passes of their own.
const CHANNEL_ELEMENTS: usize = 640;

/// Whether weights of sizes `kernel` are those of a depthwise convolution that is computed as sums over the
/// elements of a window: one channel in and one out, of elements that are their own accumulators.
pub(super) fn is_depthwise<T: Number, const RANK: usize, const N: usize>(
    kernel: [usize; RANK],
    conv: &Conv<N>,
) -> bool {
    kernel[1] == 1 && kernel[0] == conv.groups && size_of::<T>() == size_of::<Compute<T>>()
}

/// Sums over the taps of the windows of a padded input. Each group has one channel.
pub(super) fn sum_of_taps<T: Number, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
) -> Result<()> {
    let at_once: fn(_, _, &mut _, &_, _) -> Result<bool> =
        const { if D::IS_CPU { |_, _, _, _, _| Ok(false) } else { sum_of_windows::<T, RANK, N, D> } };
    if at_once(x, w, out, conv, window)? {
        return Ok(());
    }
    let (size, places) = (x.size().0, out.size().0);
    // The distances of neighbors in a plane whose axes are one axis in memory.
    let mut steps = [1; N];
    for axis in (1..N).rev() {
        steps[axis - 1] = steps[axis] * size[axis + 2];
    }
    let is_plane = (0..N).all(|axis| x.stride().0[axis + 2] == steps[axis] as isize);
    let between = conv.stride.iter().fold(1, |all: usize, &step| all.saturating_mul(step));
    if is_plane && between <= MAX_BETWEEN && x.device().task_nbytes().is_some() {
        return sum_over_planes(x, w, out, conv, window, steps);
    }
    let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
    order.swap(0, 1);
    let w = w.permuted(order)?;
    let input = |tap: [usize; N]| input_at(x, places, conv, tap);
    let weights = |tap: [usize; N]| at_tap(w, tap);
    out.fill(T::zero())?;
    add_taps(out, window, input, weights)
}

/// As [`sum_of_taps`], in one pass over all windows, on a device other than the CPU for which large parts are
/// better; otherwise it does nothing and returns `false`.
fn sum_of_windows<T: Number, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
) -> Result<bool> {
    if x.device().task_nbytes().is_some() {
        return Ok(false);
    }
    let op = "conv";
    let elements = windows(op, x, out.size(), conv, window)?;
    // (channel, 1, window) as (1, channel, 1, 1, 1, window).
    let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
    order.swap(0, 1);
    let mut size = elements.size().0;
    [0, 2, 3, 4].into_iter().for_each(|axis| size[axis] = 1);
    let products = Call::<Mul, _>::new((elements, w.permuted(order)?.reshape(size)?));
    let places = place_sizes(out.size());
    let sums = out.reborrow().reshape(places)?;
    reduce_at::<Sum, WINDOW_AXES, PLACE_AXES, D, _, _>(Sum, &products, x.device(), IN_WINDOW, Existing(sums))
        .map_err(|error| error.with_op(op))?;
    Ok(true)
}

/// As [`sum_of_taps`], where the axes of a plane of the input are one axis in memory: a pass takes whole
/// planes, with the elements between the rows of windows and between the windows, which are left out in the
/// end. Large planes are taken channel by channel: the weights are then numbers, which need not be repeated
/// along a plane.
fn sum_over_planes<T: Number, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
    steps: [usize; N],
) -> Result<()> {
    let (size, places) = (x.size().0, out.size().0);
    if places.contains(&0) {
        return Ok(());
    }
    let [batches, channels] = [size[0], size[1]];
    // The last of the windows along each axis, whose first one is 0.
    let last: [usize; N] = std::array::from_fn(|axis| (places[axis + 2] - 1) * conv.stride[axis]);
    let length = (0..N).map(|axis| last[axis] * steps[axis]).sum::<usize>() + 1;
    let planes = x.reshape([batches, channels, size[2] * steps[0]])?;
    let input = |tap: [usize; N]| {
        let first: usize = (0..N).map(|axis| tap[axis] * conv.dilation[axis] * steps[axis]).sum();
        planes.slice_axis(2, first..first + length, 1)
    };
    let mut rows = size;
    rows[2] = last[0] + 1;
    let mut sums = Tensor::<T, 3, D>::zeros([batches, channels, rows[2] * steps[0]], x.device())?;
    let mut part = sums.view_mut()?.slice_axis(2, 0..length, 1)?;
    // Other devices may compute more than values with their weights, as the tangents of forward mode.
    if !D::IS_CPU || batches * length < CHANNEL_ELEMENTS {
        add_taps(&mut part, window, input, |tap| at_tap(w, tap)?.reshape([1, channels, 1]))?;
    } else {
        for (channel, weights) in w.to_vec()?.chunks_exact(window.iter().product()).enumerate() {
            let of_channel = channel..channel + 1;
            let mut part = part.reborrow().slice_axis(1, of_channel.clone(), 1)?;
            let input = |tap| input(tap)?.slice_axis(1, of_channel.clone(), 1);
            let place = |tap: [usize; N]| (0..N).fold(0, |place, axis| place * window[axis] + tap[axis]);
            add_taps(&mut part, window, input, |tap| Ok(weights[place(tap)]))?;
        }
    }
    let mut result = sums.reshape(rows)?;
    for axis in 0..N {
        result = result.slice_axis(axis + 2, 0..last[axis] + 1, conv.stride[axis] as isize)?;
    }
    out.assign(result)
}

/// The elements at `tap` of all windows of a padded input; there are `places` of them.
fn input_at<'x, T, const RANK: usize, const N: usize, D: Device>(
    mut x: TensorView<'x, T, RANK, D>,
    places: [usize; RANK],
    conv: &Conv<N>,
    tap: [usize; N],
) -> Result<TensorView<'x, T, RANK, D>> {
    for axis in 0..N {
        let first = tap[axis] * conv.dilation[axis];
        let end = first + places[axis + 2].saturating_sub(1) * conv.stride[axis] + 1;
        x = x.slice_axis(axis + 2, first..end, conv.stride[axis] as isize)?;
    }
    Ok(x)
}

/// The sums over all windows of the products of their elements and `y`, a tensor of the sizes of the result:
/// the gradient of the weights, if `y` is that of the result. Blocks of channels are tasks, and stay in a
/// cache for all elements of a window.
pub(super) fn sums_by_taps<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: TensorView<'_, T, RANK, D>,
    sizes: &ConvSizes<RANK, N>,
    out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let ConvSizes { conv, window, before, padded, .. } = sizes;
    let mut block = out.size().0;
    if let Some(nbytes) = x.device().task_nbytes() {
        let plane = padded.iter().fold(x.size().0[0], |count, &n| count.saturating_mul(n));
        block[0] = (nbytes / plane.saturating_mul(size_of::<T>()).max(1)).max(1);
    }
    let is_padded = *padded != x.size().0[2..];
    out.for_each_block(block, &|ranges, mut out| {
        let channels = ranges[0].clone();
        let (x, y) = (x.slice_axis(1, channels.clone(), 1)?, y.slice_axis(1, channels.clone(), 1)?);
        let frame = if is_padded {
            Some(padded_copy(op, x, *padded, *before, [1; N], Layout::row_major, T::zero())?)
        } else {
            None
        };
        let x = frame.as_ref().map_or(x, |frame| frame.view());
        for tap in Dim(*window).indices() {
            let mut sum = out.reborrow();
            for axis in 0..N {
                sum = sum.slice_axis(axis + 2, tap[axis]..tap[axis] + 1, 1)?;
            }
            let products = Call::<Mul, _>::new((input_at(x, y.size().0, conv, tap)?, y));
            let (others, sum) = (std::array::from_fn(|axis| axis != 1), sum.reshape([channels.len()])?);
            reduce_at::<Sum, RANK, 1, D, _, _>(Sum, &products, x.device(), others, Existing(sum))
                .map_err(|error| error.with_op(op))?;
        }
        Ok(())
    })
}

/// The weights of an element of the window.
fn at_tap<'x, T, const RANK: usize, const N: usize, D: Device>(
    mut w: TensorView<'x, T, RANK, D>,
    tap: [usize; N],
) -> Result<TensorView<'x, T, RANK, D>> {
    for axis in 0..N {
        w = w.slice_axis(axis + 2, tap[axis]..tap[axis] + 1, 1)?;
    }
    Ok(w)
}

/// Adds the products of the elements of a window and their weights.
fn add_taps<'x, T: Number + 'x, const M: usize, const N: usize, D: Device + 'x, W: Operand<T, M, D>>(
    out: &mut TensorViewMut<'_, T, M, D>,
    window: [usize; N],
    input: impl Fn([usize; N]) -> Result<TensorView<'x, T, M, D>>,
    weights: impl Fn([usize; N]) -> Result<W>,
) -> Result<()> {
    let mut groups = window;
    groups[N - 1] = window[N - 1].div_ceil(TOGETHER);
    for group in Dim(groups).indices() {
        let operands = |i: usize| {
            let mut tap = group;
            tap[N - 1] = TOGETHER * group[N - 1] + i;
            Ok((input(tap)?, weights(tap)?))
        };
        match window[N - 1] - TOGETHER * group[N - 1] {
            count @ ..TOGETHER => {
                for i in 0..count {
                    let (x, w) = operands(i)?;
                    out.zip_in_place(Add, x.lazy() * w)?;
                }
            }
            _ => {
                let ((x0, w0), (x1, w1), (x2, w2)) = (operands(0)?, operands(1)?, operands(2)?);
                out.zip_in_place(Add, x0.lazy() * w0 + x1.lazy() * w1 + x2.lazy() * w2)?;
            }
        }
    }
    Ok(())
}
