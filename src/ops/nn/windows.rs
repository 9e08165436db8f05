//! Sliding windows over the spatial axes: padding, the number of windows, and the input elements of each
//! window.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::ops::Range;

/// The geometry of a convolution over `N` axes: stride, padding and dilation of its windows, and groups of
/// channels.
///
/// # Examples
/// ```
/// use rankform::ops::Conv;
/// let conv = Conv::<2>::new().stride([2, 2]).padding([1, 1]);
/// assert_eq!((conv.dilation, conv.groups), ([1, 1], 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv<const N: usize> {
    /// The distance between neighboring windows, in elements.
    pub stride: [usize; N],
    /// Zeros before the first index of each axis.
    pub padding: [usize; N],
    /// Zeros after the last index of each axis.
    pub ends: Ends<N>,
    /// The distance between neighboring elements of a window.
    pub dilation: [usize; N],
    /// The number of groups of channels; each group of outputs depends on one group of inputs.
    pub groups: usize,
}

impl<const N: usize> Conv<N> {
    /// Stride 1, no padding, dilation 1, one group.
    pub const fn new() -> Self {
        Conv { stride: [1; N], padding: [0; N], ends: Ends::Alike, dilation: [1; N], groups: 1 }
    }
    /// With another stride.
    pub const fn stride(self, stride: [usize; N]) -> Self {
        Conv { stride, ..self }
    }
    /// With padding by zeros, the same at both ends of an axis.
    pub const fn padding(self, padding: [usize; N]) -> Self {
        Conv { padding, ends: Ends::Alike, ..self }
    }
    /// With padding by zeros that differs between the ends: before the first index of each axis, and after
    /// the last.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// // Causal: no element of the result depends on later ones.
    /// let (x, ones) = (Tensor::from([[[1, 2, 3, 4]]]), Tensor::from([[[1, 1, 1]]]));
    /// let y = x.conv1d(&ones, Conv::new().padding_ends([2], [0]))?;
    /// assert_eq!(y.to_vec()?, [1, 3, 6, 9]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub const fn padding_ends(self, before: [usize; N], after: [usize; N]) -> Self {
        Conv { padding: before, ends: Ends::After(after), ..self }
    }
    /// With padding by zeros to `size / stride` windows, rounded up: half at each end, the odd element at the
    /// end. A transposed convolution gives `size · stride`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, w) = (Tensor::<f32, 4>::ones([1, 1, 5, 6], &Cpu)?, Tensor::ones([1, 1, 3, 2], &Cpu)?);
    /// assert_eq!(x.conv2d(&w, Conv::new().same())?.size(), x.size());
    /// assert_eq!(x.conv2d(&w, Conv::new().stride([2, 2]).same())?.size(), dim![1, 1, 3, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `padding='same'`, with a stride of 1; ONNX's `SAME_UPPER`.
    pub const fn same(self) -> Self {
        Conv { ends: Ends::SameUpper, ..self }
    }
    /// As [`same`](Conv::same), with the odd element at the start: ONNX's `SAME_LOWER`.
    pub const fn same_lower(self) -> Self {
        Conv { ends: Ends::SameLower, ..self }
    }
    /// With another dilation: gaps inside the windows.
    pub const fn dilation(self, dilation: [usize; N]) -> Self {
        Conv { dilation, ..self }
    }
    /// With another number of groups of channels.
    pub const fn groups(self, groups: usize) -> Self {
        Conv { groups, ..self }
    }
}

impl<const N: usize> Default for Conv<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The padding at the end of each axis; the padding at its start is `padding`.
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
    /// As many elements as at the start.
    Alike,
    /// This number of elements on each axis.
    After([usize; N]),
    /// Padding computed from the sizes: half at each end, the odd element at the end. The number of windows
    /// is `size / stride`, rounded up. A transposed convolution gives `size · stride` elements, or the extent
    /// of its windows if that is smaller. `padding` is not read.
    SameUpper,
    /// As `SameUpper`, with the odd element at the start.
    SameLower,
}

impl<const N: usize> Ends<N> {
    /// The padding before and after an axis that needs `total` elements of padding.
    pub(super) fn split_padding(self, axis: usize, before: usize, total: usize) -> [usize; 2] {
        match self {
            Ends::Alike => [before, before],
            Ends::After(after) => [before, after[axis]],
            Ends::SameUpper => [total / 2, total.div_ceil(2)],
            Ends::SameLower => [total.div_ceil(2), total / 2],
        }
    }
    /// The padding before and after the axes of `sizes` from axis 2 on, for windows of these lengths.
    pub(super) fn resolve(self, sizes: &[usize], windows: [usize; N], conv: &Conv<N>) -> [[usize; N]; 2] {
        let mut found = [[0; N]; 2];
        for axis in 0..N {
            let (n, stride) = (sizes[axis + 2], conv.stride[axis].max(1));
            let reach = windows[axis].saturating_sub(1).saturating_mul(conv.dilation[axis]).saturating_add(1);
            let wanted = n.div_ceil(stride).saturating_sub(1).saturating_mul(stride).saturating_add(reach);
            let total = if n == 0 { 0 } else { wanted.saturating_sub(n) };
            [found[0][axis], found[1][axis]] = self.split_padding(axis, conv.padding[axis], total);
        }
        found
    }
}

/// The number of windows that fit an axis.
pub(super) fn window_count(
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

/// The sizes of a convolution of a padded input.
pub(super) struct ConvSizes<const RANK: usize, const N: usize> {
    /// The convolution with its padding in numbers.
    pub(super) conv: Conv<N>,
    /// The elements of a window along each axis.
    pub(super) window: [usize; N],
    /// Zeros before the first index of each axis.
    pub(super) before: [usize; N],
    /// The spatial sizes of the input with its padding.
    pub(super) padded: [usize; N],
    /// The sizes of the result.
    pub(super) out: [usize; RANK],
}

impl<const RANK: usize, const N: usize> ConvSizes<RANK, N> {
    /// The sizes of a convolution of an input of sizes `size` by weights of sizes `kernel`.
    ///
    /// # Errors
    /// [`Error::Value`] when channels, groups or windows do not fit.
    pub(super) fn new(
        op: &'static str,
        size: [usize; RANK],
        kernel: [usize; RANK],
        conv: Conv<N>,
    ) -> Result<Self> {
        let groups = conv.groups;
        if groups == 0 || size[1] != kernel[1].saturating_mul(groups) || !kernel[0].is_multiple_of(groups) {
            return Err(channels_error(op, &kernel, size[1], groups));
        }
        let window: [usize; N] = std::array::from_fn(|axis| kernel[axis + 2]);
        let [before, after] = conv.ends.resolve(&size, window, &conv);
        let (mut out, mut padded) = (size, [0; N]);
        out[1] = kernel[0];
        for axis in 0..N {
            let (n, steps) =
                (size[axis + 2], [conv.stride[axis], before[axis], after[axis], conv.dilation[axis]]);
            out[axis + 2] = window_count(op, axis + 2, n, window[axis], steps)?;
            padded[axis] = n + before[axis] + after[axis];
        }
        Ok(ConvSizes { conv: conv.padding_ends(before, after), window, before, padded, out })
    }

    /// The elements over which a window reaches along an axis.
    pub(super) fn reach(&self, axis: usize) -> usize {
        (self.window[axis] - 1) * self.conv.dilation[axis] + 1
    }
}

/// The error of weights that do not fit the number of channels.
pub(super) fn channels_error(op: &'static str, weights: &[usize], channels: usize, groups: usize) -> Error {
    let s = if groups == 1 { "" } else { "s" };
    Error::Value {
        op,
        what: text(format_args!("weights {weights:?} do not fit {channels} channels in {groups} group{s}")),
    }
}

/// The windows along one axis whose element `at` lies inside the input: their range, and the input index of
/// that element for the first of them.
fn windows_inside<const N: usize>(
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
    // If the range is empty, the product with a stride larger than the axis could overflow.
    (first, end, if first < end { first * stride + shift - padding } else { 0 })
}

/// Ranges along the axes from 2 on: of the windows, and of the input with its step.
type TapRanges<const N: usize> = ([Range<usize>; N], [(Range<usize>, usize); N]);

/// The windows whose element `tap` lies inside the input, and the input elements at that tap. The padding is
/// the one before each axis.
pub(super) fn tap_ranges<const RANK: usize, const N: usize>(
    conv: &Conv<N>,
    tap: [usize; N],
    windows: Dim<RANK>,
    size: Dim<RANK>,
) -> TapRanges<N> {
    let parts: [_; N] = std::array::from_fn(|axis| {
        let (size, windows) = (size.0[axis + 2], windows.0[axis + 2]);
        let (first, end, from) = windows_inside(conv, axis, tap[axis], windows, size);
        let last = if end > first { from + (end - first - 1) * conv.stride[axis] + 1 } else { from };
        (first..end, (from.min(size)..last.min(size), conv.stride[axis]))
    });
    (std::array::from_fn(|axis| parts[axis].0.clone()), std::array::from_fn(|axis| parts[axis].1.clone()))
}

/// The part of a view that windows read, from axis 2 on.
pub(super) fn input_part<'x, T, const RANK: usize, D: Device>(
    mut x: TensorView<'x, T, RANK, D>,
    parts: &[(Range<usize>, usize)],
) -> Result<TensorView<'x, T, RANK, D>> {
    for (axis, (range, step)) in parts.iter().enumerate() {
        x = x.slice_axis(axis + 2, range.clone(), *step as isize)?;
    }
    Ok(x)
}

/// The part of a result that belongs to these windows.
pub(super) fn output_part<'x, T, const RANK: usize, D: Device>(
    mut out: TensorViewMut<'x, T, RANK, D>,
    parts: &[Range<usize>],
) -> Result<TensorViewMut<'x, T, RANK, D>> {
    for (axis, range) in parts.iter().enumerate() {
        out = out.slice_axis(axis + 2, range.clone(), 1)?;
    }
    Ok(out)
}

/// Calls `f` for every tap of a window, with the results of the windows whose tap lies inside the input and
/// the part of the input at that tap.
pub(super) fn for_each_tap<T, U, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    out: &mut TensorViewMut<'_, U, RANK, D>,
    conv: &Conv<N>,
    window: [usize; N],
    mut f: impl FnMut([usize; N], TensorViewMut<'_, U, RANK, D>, TensorView<'_, T, RANK, D>) -> Result<()>,
) -> Result<()> {
    for tap in Dim(window).indices() {
        let (own, other) = tap_ranges(conv, tap, out.size(), x.size());
        f(tap, output_part(out.reborrow(), &own)?, input_part(x, &other)?)?;
    }
    Ok(())
}

/// Bytes of padded images that are copied together on a device that names no size for tasks: the copies fill it
/// with work, and take little memory.
pub(super) const DEVICE_BLOCK_BYTES: usize = 256 << 20;

/// The axes of [`windows`]: batch and channel, the positions of windows, the elements of a window. Of the
/// last two there are three each; those of axes that the input lacks have size 1.
pub(super) const WINDOW_AXES: usize = 8;
/// Those without the elements of a window.
pub(super) const PLACE_AXES: usize = 5;

/// Which of the [`WINDOW_AXES`] a reduction of windows removes.
pub(super) const IN_WINDOW: [bool; WINDOW_AXES] = [false, false, false, false, false, true, true, true];

/// The sizes of a result with an axis for each spatial axis that it lacks, of size 1.
pub(super) fn place_sizes<const RANK: usize>(size: Dim<RANK>) -> [usize; PLACE_AXES] {
    std::array::from_fn(|axis| size.0.get(axis).copied().unwrap_or(1))
}

/// The number of elements that the windows at `places` positions reach over.
pub(super) fn reach_of<const N: usize>(conv: &Conv<N>, axis: usize, places: usize, window: usize) -> usize {
    let last = places.saturating_sub(1).saturating_mul(conv.stride[axis]);
    last.saturating_add(window.saturating_sub(1).saturating_mul(conv.dilation[axis])).saturating_add(1)
}

/// The elements of every window of `x`, which has its padding: a view in which they have axes of their own.
///
/// # Errors
/// [`Error::Value`] if a window reaches beyond `x`.
pub(super) fn windows<'x, T, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'x, T, RANK, D>,
    places: Dim<RANK>,
    conv: &Conv<N>,
    window: [usize; N],
) -> Result<TensorView<'x, T, WINDOW_AXES, D>> {
    let (mut size, mut along, mut steps) = ([1; WINDOW_AXES], [0; WINDOW_AXES], [0; WINDOW_AXES]);
    for axis in 0..2 {
        (size[axis], along[axis], steps[axis]) = (x.size().0[axis], axis, 1);
    }
    for axis in 0..N {
        let (place, tap) = (2 + axis, PLACE_AXES + axis);
        (size[place], along[place], steps[place]) = (places.0[axis + 2], axis + 2, conv.stride[axis]);
        (size[tap], along[tap], steps[tap]) = (window[axis], axis + 2, conv.dilation[axis]);
    }
    x.stepped(size, along, steps).ok_or_else(|| {
        let what = format_args!("windows {window:?} reach beyond sizes {}", x.size());
        Error::Value { op, what: text(what) }
    })
}

/// A copy surrounded by `padding`, in the given layout: along each axis, the elements of `x` are `steps`
/// apart, from `starts` on.
pub(super) fn padded_copy<T: Element, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    sizes: [usize; N],
    starts: [usize; N],
    steps: [usize; N],
    layout: fn(Dim<RANK>) -> Layout<RANK>,
    padding: T,
) -> Result<Tensor<T, RANK, D>> {
    let size = Dim(std::array::from_fn(|axis| if axis < 2 { x.size().0[axis] } else { sizes[axis - 2] }));
    size.numel_of(op, size_of::<T>())?;
    let mut out = Tensor::<T, RANK, D>::uninit(op, layout(size), x.device())?;
    let mut view = out.try_view_mut(op)?;
    if size.0 != x.size().0 {
        view.fill(padding)?;
    }
    for axis in 0..N {
        let last_index = starts[axis] + (x.size().0[axis + 2].max(1) - 1) * steps[axis];
        let end = if x.size().0[axis + 2] == 0 { starts[axis] } else { last_index + 1 };
        view = view.slice_axis(axis + 2, starts[axis]..end, steps[axis] as isize)?;
    }
    view.assign(x)?;
    Ok(out)
}
