//! Depthwise convolutions: sums over the elements of a window, each of which is one pass over the output.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `ops`.

use super::windows::Conv;
use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::ops::Add;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// Elements of a window along the last axis that are added in one pass.
const TOGETHER: usize = 3;

/// Sums over the taps of the windows of a padded input. Each group has one channel.
pub(super) fn sum_of_taps<T: Number, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, T, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
) -> Result<()> {
    let (size, places) = (x.size().0, out.size().0);
    // The distances of neighbors in a plane whose axes are one axis in memory.
    let mut steps = [1; N];
    for axis in (1..N).rev() {
        steps[axis - 1] = steps[axis] * size[axis + 2];
    }
    let is_plane = (0..N).all(|axis| x.stride().0[axis + 2] == steps[axis] as isize);
    if conv.stride == [1; N] && is_plane && N > 1 && x.device().task_nbytes().is_some() {
        return sum_over_planes(x, w, out, conv, window, steps);
    }
    let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
    order.swap(0, 1);
    let w = w.permuted(order)?;
    let input = |tap: [usize; N]| {
        let mut part = x;
        for axis in 0..N {
            let first = tap[axis] * conv.dilation[axis];
            let end = first + places[axis + 2].saturating_sub(1) * conv.stride[axis] + 1;
            part = part.slice_axis(axis + 2, first..end, conv.stride[axis] as isize)?;
        }
        Ok(part)
    };
    let weights = |tap: [usize; N]| at_tap(w, tap);
    out.fill(T::zero())?;
    add_taps(out, window, input, weights)
}

/// As [`sum_of_taps`], where the axes of a plane of the input are one axis in memory: a pass takes whole
/// planes, with the elements between the rows of windows, which are left out in the end.
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
    let mut sums = Tensor::<T, 3, D>::zeros([batches, channels, places[2] * steps[0]], x.device())?;
    let length: usize = (0..N).map(|axis| (places[axis + 2] - 1) * steps[axis]).sum::<usize>() + 1;
    let planes = x.reshape([batches, channels, size[2] * steps[0]])?;
    let input = |tap: [usize; N]| {
        let first: usize = (0..N).map(|axis| tap[axis] * conv.dilation[axis] * steps[axis]).sum();
        planes.slice_axis(2, first..first + length, 1)
    };
    let weights = |tap: [usize; N]| at_tap(w, tap)?.reshape([1, channels, 1]);
    let mut part = sums.view_mut()?.slice_axis(2, 0..length, 1)?;
    add_taps(&mut part, window, input, weights)?;
    let mut rows = size;
    rows[2] = places[2];
    let mut result = sums.reshape(rows)?;
    for axis in 1..N {
        result = result.slice_axis(axis + 2, 0..places[axis + 2], 1)?;
    }
    out.assign(result)
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
fn add_taps<'x, T: Number + 'x, const M: usize, const N: usize, D: Device + 'x>(
    out: &mut TensorViewMut<'_, T, M, D>,
    window: [usize; N],
    input: impl Fn([usize; N]) -> Result<TensorView<'x, T, M, D>>,
    weights: impl Fn([usize; N]) -> Result<TensorView<'x, T, M, D>>,
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
