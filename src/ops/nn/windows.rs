//! Windows that move over axes: how far axes are padded, how many windows there are, and what each of them sees.
// Imports: `error`, `dim`, `device`, `tensor`.

use super::Conv;
use crate::device::Device;
use crate::dim::Dim;
use crate::error::{Error, Result, text};
use crate::tensor::{TensorView, TensorViewMut};
use std::ops::Range;

/// The padding at the end of each axis, beside `padding` at its start.
///
/// # Examples
/// ```
/// use rankform::ops::Ends;
/// use rankform::prelude::*;
/// let conv = Conv::new().padding_ends([1], [2]);
/// assert_eq!((conv.padding, conv.ends), ([1], Ends::After([2])));
/// assert_eq!(Conv::<2>::new().padding([1, 1]).ends, Ends::Alike);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends<const N: usize> {
    /// As much as at the start.
    Alike,
    /// So many places.
    After([usize; N]),
    /// Padding found from the sizes, half at each end, an odd place at the end: there are `size / stride` windows, rounded up.
    /// A transposed convolution gives `size · stride`, or as many as its windows reach over where these are fewer. `padding` is not
    /// read.
    SameUpper,
    /// As `SameUpper`, an odd place at the start.
    SameLower,
}

impl<const N: usize> Ends<N> {
    /// What stands before and after an axis that needs `total` places in all.
    pub(super) fn of(self, axis: usize, before: usize, total: usize) -> [usize; 2] {
        match self {
            Ends::Alike => [before, before],
            Ends::After(after) => [before, after[axis]],
            Ends::SameUpper => [total / 2, total.div_ceil(2)],
            Ends::SameLower => [total.div_ceil(2), total / 2],
        }
    }
    /// The padding around axes of these sizes, from 2 on, for windows of these lengths: before, and after.
    pub(super) fn found(self, sizes: &[usize], windows: [usize; N], steps: &Conv<N>) -> [[usize; N]; 2] {
        let mut found = [[0; N]; 2];
        for axis in 0..N {
            let (n, stride) = (sizes[axis + 2], steps.stride[axis].max(1));
            let reach =
                windows[axis].saturating_sub(1).saturating_mul(steps.dilation[axis]).saturating_add(1);
            let wanted = n.div_ceil(stride).saturating_sub(1).saturating_mul(stride).saturating_add(reach);
            let total = if n == 0 { 0 } else { wanted.saturating_sub(n) };
            [found[0][axis], found[1][axis]] = self.of(axis, steps.padding[axis], total);
        }
        found
    }
}

/// How many windows fit an axis.
pub(super) fn windows(
    op: &'static str,
    axis: usize,
    size: usize,
    len: usize,
    [stride, before, after, dilation]: [usize; 4],
) -> Result<usize> {
    let wrong = |what: std::fmt::Arguments<'_>| Error::Value {
        op,
        what: text(format_args!("axis {axis} of size {size}: {what}")),
    };
    if stride == 0 || dilation == 0 || len == 0 {
        return Err(wrong(format_args!(
            "a window of {len}, stride {stride}, dilation {dilation}: none may be 0"
        )));
    }
    let reach = (len - 1).checked_mul(dilation).and_then(|reach| reach.checked_add(1));
    let padded = before.checked_add(after).and_then(|both| both.checked_add(size));
    match (padded, reach) {
        (Some(padded), Some(reach)) if reach <= padded => Ok((padded - reach) / stride + 1),
        _ if before != after => {
            let padding = format_args!("padding {before} before and {after} after it");
            Err(wrong(format_args!(
                "a window of {len} with dilation {dilation} is longer than the axis with {padding}"
            )))
        }
        _ => Err(wrong(format_args!(
            "a window of {len} with dilation {dilation} is longer than the axis with padding {before}"
        ))),
    }
}

/// Along one axis, the windows whose place `at` lies in the input: their range, and where the first of them is.
fn inside<const N: usize>(
    conv: &Conv<N>,
    axis: usize,
    at: usize,
    windows: usize,
    size: usize,
) -> (usize, usize, usize) {
    let (stride, shift) = (conv.stride[axis], at * conv.dilation[axis]);
    let padding = conv.padding[axis];
    let first = padding.saturating_sub(shift).div_ceil(stride).min(windows);
    let end = (size + padding).saturating_sub(shift).div_ceil(stride).min(windows).max(first);
    // Where no window is left, a stride that is too large for the axis may be too large to count with.
    (first, end, if first < end { first * stride + shift - padding } else { 0 })
}

/// A part of the axes from 2 on: of the windows, and what these see with a step between.
type Cut<const N: usize> = ([Range<usize>; N], [(Range<usize>, usize); N]);

/// The windows that have a place of theirs inside the input, and what they see there. Padding is that before an axis.
pub(super) fn cut<const RANK: usize, const N: usize>(
    conv: &Conv<N>,
    place: [usize; N],
    windows: Dim<RANK>,
    size: Dim<RANK>,
) -> Cut<N> {
    let parts: [_; N] = std::array::from_fn(|axis| {
        let (size, windows) = (size.0[axis + 2], windows.0[axis + 2]);
        let (first, end, from) = inside(conv, axis, place[axis], windows, size);
        let last = if end > first { from + (end - first - 1) * conv.stride[axis] + 1 } else { from };
        (first..end, (from.min(size)..last.min(size), conv.stride[axis]))
    });
    (std::array::from_fn(|axis| parts[axis].0.clone()), std::array::from_fn(|axis| parts[axis].1.clone()))
}

/// The part of a view that windows see.
pub(super) fn seen<'x, T, const RANK: usize, D: Device>(
    mut x: TensorView<'x, T, RANK, D>,
    parts: &[(Range<usize>, usize)],
) -> Result<TensorView<'x, T, RANK, D>> {
    for (axis, (range, step)) in parts.iter().enumerate() {
        x = x.slice_axis(axis + 2, range.clone(), *step as isize)?;
    }
    Ok(x)
}

/// The part of a result that belongs to some of the windows.
pub(super) fn part<'x, T, const RANK: usize, D: Device>(
    mut out: TensorViewMut<'x, T, RANK, D>,
    parts: &[Range<usize>],
) -> Result<TensorViewMut<'x, T, RANK, D>> {
    for (axis, range) in parts.iter().enumerate() {
        out = out.slice_axis(axis + 2, range.clone(), 1)?;
    }
    Ok(out)
}

/// Calls `f` for every place in a window, with the windows that have it inside and the part of the input that they see.
pub(super) fn places<T, U, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, U, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
    mut f: impl FnMut([usize; N], TensorViewMut<'_, U, RANK, D>, TensorView<'_, T, RANK, D>) -> Result<()>,
) -> Result<()> {
    for place in Dim(window).indices() {
        let (own, other) = cut(conv, place, out.size(), x.size());
        f(place, part(out.reborrow(), &own)?, seen(x, &other)?)?;
    }
    Ok(())
}
