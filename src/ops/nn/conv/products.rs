//! The products of convolutions, of windows with weights or with a result.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::layout::Layout;
use crate::ops::nn::windows::Conv;
use crate::tensor::{TensorView, TensorViewMut};

/// Returns whether the channels of `[batch, channel, …]` are the innermost axis in memory.
pub(super) fn is_channels_last<const RANK: usize>(layout: &Layout<RANK>) -> bool {
    layout.size().0[1] > 1 && layout.stride().0[1] == 1 && !layout.is_contiguous()
}

pub(super) fn ordered_layout<const RANK: usize>(size: Dim<RANK>, channels_last: bool) -> Layout<RANK> {
    if channels_last { Layout::with_channel_fastest(size) } else { Layout::row_major(size) }
}

/// The sizes and strides of the products of windows, for a result, its input and weights.
struct Windows<const RANK: usize> {
    groups: usize,
    /// Batch and positions of windows.
    places: [usize; RANK],
    /// Channels of a group and positions inside a window.
    taps: [usize; RANK],
    /// The outputs of a group.
    outputs: usize,
    /// Strides of the result: the group, the places, the outputs.
    of_result: [isize; 20],
    /// Strides of the input: the group, the places, the taps.
    of_input: [isize; 20],
    /// Strides of the weights: the group, the taps, the outputs.
    of_weights: [isize; 20],
}

impl<const RANK: usize> Windows<RANK> {
    fn new<const N: usize>(
        size: [usize; RANK],
        [out, x, w]: [[isize; RANK]; 3],
        conv: &Conv<N>,
        kernel: [usize; RANK],
    ) -> Self {
        let outputs = kernel[0] / conv.groups;
        let (mut places, mut taps) = (size, kernel);
        (places[1], taps[0]) = (1, 1);
        let times = |count: usize, step: isize| (count as isize).wrapping_mul(step);
        let (mut of_result, mut of_input, mut of_weights) = ([0; 20], [0; 20], [0; 20]);
        (of_result[0], of_input[0], of_weights[0]) =
            (times(outputs, out[1]), times(kernel[1], x[1]), times(outputs, w[0]));
        for axis in 0..RANK {
            let spatial = axis.checked_sub(2);
            of_result[1 + axis] = out[axis];
            of_input[1 + axis] = spatial.map_or(x[axis], |at| times(conv.stride[at], x[axis]));
            of_input[1 + RANK + axis] = spatial.map_or(x[axis], |at| times(conv.dilation[at], x[axis]));
            of_weights[1 + axis] = w[axis];
        }
        of_result[1 + RANK] = out[1];
        of_weights[1 + RANK] = w[0];
        Windows { groups: conv.groups, places, taps, outputs, of_result, of_input, of_weights }
    }
}

/// The product of the windows of `x` and the weights: the batch is the groups, `m` the positions of windows,
/// `k` the elements of a window, `n` the outputs.
///
/// # Safety
/// 1. Every window lies inside `x`.
/// 2. The channels of `x`, `w` and `out` agree with each other and the groups.
pub(super) unsafe fn product<T: Number, const RANK: usize, const N: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
) -> Result<()> {
    let strides = [out.stride().0, x.stride().0, w.stride().0];
    let windows = Windows::new(out.size().0, strides, &conv, w.size().0);
    let Windows { groups, places, taps, outputs, .. } = windows;
    let plan = ContractPlan { batch: &[groups], m: &places, k: &taps, n: &[outputs] };
    let out_ref = out.leaf().slot(&windows.of_result);
    let x_ref = x.leaf().slot(&windows.of_input);
    let w_ref = w.leaf().slot(&windows.of_weights);
    // SAFETY: (1) and (2) keep every step of the plan inside the operands; `out` is an exclusive view.
    unsafe { x.device().contract::<T, T, T>(plan, out_ref, x_ref, w_ref) }
}

/// The strides of a result or of weights with the outputs after the group, before the other axes.
fn outputs_second<const RANK: usize>(strides: [isize; 20]) -> [isize; 20] {
    let mut moved = strides;
    moved[1] = strides[1 + RANK];
    moved[2..2 + RANK].copy_from_slice(&strides[1..1 + RANK]);
    moved
}

/// Writes the product of `y` and the weights, summed over the outputs, to the windows of `out`.
///
/// # Safety
/// As [`product`], where `y` is the result and `out` the input; and
/// 3. no two windows overlap.
pub(super) unsafe fn to_windows<T: Number, const RANK: usize, const N: usize, D: Device>(
    y: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: &Conv<N>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let strides = [y.stride().0, out.stride().0, w.stride().0];
    let windows = Windows::new(y.size().0, strides, conv, w.size().0);
    let Windows { groups, places, taps, outputs, .. } = windows;
    let plan = ContractPlan { batch: &[groups], m: &places, k: &[outputs], n: &taps };
    let of_weights = outputs_second::<RANK>(windows.of_weights);
    let out_ref = out.leaf().slot(&windows.of_input);
    let (y_ref, w_ref) = (y.leaf().slot(&windows.of_result), w.leaf().slot(&of_weights));
    // SAFETY: (1) and (2) keep every step of the plan inside the operands; `out` is an exclusive view, and by
    // (3) each of its elements is written once.
    unsafe { y.device().contract::<T, T, T>(plan, out_ref, y_ref, w_ref) }
}

/// The product of the windows of `x` and `y`, summed over the windows: `m` are the elements of a window, `k`
/// the positions of windows, `n` the outputs.
///
/// # Safety
/// As [`product`], where `y` is the result and `out` the weights.
pub(super) unsafe fn windows_by<T: Number, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    y: TensorView<'_, T, RANK, D>,
    conv: &Conv<N>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let strides = [y.stride().0, x.stride().0, out.stride().0];
    let windows = Windows::new(y.size().0, strides, conv, out.size().0);
    let Windows { groups, places, taps, outputs, mut of_input, .. } = windows;
    of_input[1..1 + 2 * RANK].rotate_left(RANK);
    let plan = ContractPlan { batch: &[groups], m: &taps, k: &places, n: &[outputs] };
    let out_ref = out.leaf().slot(&windows.of_weights);
    let (x_ref, y_ref) = (x.leaf().slot(&of_input), y.leaf().slot(&windows.of_result));
    // SAFETY: (1) and (2) keep every step of the plan inside the operands; `out` is an exclusive view.
    unsafe { x.device().contract::<T, T, T>(plan, out_ref, x_ref, y_ref) }
}
