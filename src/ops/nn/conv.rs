//! Convolutions over one, two or three axes: a product of strided windows of the input and the weights, without a copy
//! of the windows.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::windows::Ends;
use super::windows::{places, windows};
use crate::device::{Device, same_device};
use crate::dim::{All, Dim};
use crate::element::{Compute, Number};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::kernel::ContractPlan;
use crate::layout::Layout;
use crate::ops::{Add, Comparisons as _, Reductions as _};
use crate::rank::Spatial;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// How the windows of a convolution over `N` axes move, and how channels are grouped.
///
/// # Examples
/// ```
/// use rankform::ops::Conv;
/// let conv = Conv::<2>::new().stride([2, 2]).padding([1, 1]);
/// assert_eq!((conv.dilation, conv.groups), ([1, 1], 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv<const N: usize> {
    /// From window to window.
    pub stride: [usize; N],
    /// Zeros before the first index of each axis.
    pub padding: [usize; N],
    /// Zeros after the last index of each axis.
    pub ends: Ends<N>,
    /// From element to element inside a window.
    pub dilation: [usize; N],
    /// Into how many groups the channels are cut; each group of outputs sees one group of inputs.
    pub groups: usize,
}

impl<const N: usize> Conv<N> {
    /// Windows one apart, no padding, one group.
    pub const fn new() -> Self {
        Conv { stride: [1; N], padding: [0; N], ends: Ends::Alike, dilation: [1; N], groups: 1 }
    }
    /// With another stride.
    pub const fn stride(self, stride: [usize; N]) -> Self {
        Conv { stride, ..self }
    }
    /// With padding by zeros, as much at the end of an axis as at its start.
    pub const fn padding(self, padding: [usize; N]) -> Self {
        Conv { padding, ends: Ends::Alike, ..self }
    }
    /// With padding by zeros that differs at both ends: before the first index of each axis, and after the last.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// // Causal: no element of the result sees what comes later.
    /// let (x, ones) = (Tensor::from([[[1, 2, 3, 4]]]), Tensor::from([[[1, 1, 1]]]));
    /// let y = x.conv1d(&ones, Conv::new().padding_ends([2], [0]))?;
    /// assert_eq!(y.to_vec()?, [1, 3, 6, 9]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub const fn padding_ends(self, before: [usize; N], after: [usize; N]) -> Self {
        Conv { padding: before, ends: Ends::After(after), ..self }
    }
    /// With padding by zeros to `size / stride` windows, rounded up: half at each end, an odd place at the end.
    /// A transposed convolution gives `size · stride`.
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
    /// As [`same`](Conv::same), an odd place at the start: ONNX's `SAME_LOWER`.
    pub const fn same_lower(self) -> Self {
        Conv { ends: Ends::SameLower, ..self }
    }
    /// With gaps inside the windows.
    pub const fn dilation(self, dilation: [usize; N]) -> Self {
        Conv { dilation, ..self }
    }
    /// With grouped channels.
    pub const fn groups(self, groups: usize) -> Self {
        Conv { groups, ..self }
    }
}

impl<const N: usize> Default for Conv<N> {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! convolutions {
    ($($name:ident $into:ident $transposed:ident $transposed_into:ident $n:literal $sizes:literal;)*) => { $(
        impl<T: Number, const RANK: usize, D: Device> Tensor<T, RANK, D> {
            /// A convolution, as neural networks call it: the weights are not flipped.
            ///
            /// `y[b, o, p] = Σ x[b, c, stride · p + dilation · q − padding] · w[o, c, q]`, over the channels `c` of the
            /// group of `o` and the positions `q` in a window; outside, `x` is 0. A bias is one more expression.
            ///
            /// # Shapes
            #[doc = $sizes]
            ///
            /// # Cost
            /// One product, which reads the windows where they stand; when there is padding, or the windows are larger than 1
            /// and the channels not last, images are copied first, channels last, about 1 MiB at a time. The output is channels
            /// last when the input is. Sums as in [`matmul`](Tensor::matmul); depthwise (groups of one channel in and out), one
            /// pass over the output for each place of a window, without a copy; outside the input nothing is added, whatever the weight.
            ///
            /// # Errors
            /// [`Error::Value`] when channels, groups or windows do not fit, [`Error::Device`], [`Error::Unallocated`],
            /// [`Error::Overflow`], [`Error::OutOfMemory`].
            ///
            /// # Source
            /// PyTorch's `conv1d`, `conv2d`, `conv3d`.
            pub fn $name<'w>(&self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>) -> Result<Self>
            where
                T: 'w,
                D: 'w,
                Dim<RANK>: Spatial<$n>,
            {
                self.view().$name(weight, conv)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), into an existing tensor or exclusive view, of any strides.")]
            ///
            /// # Errors
            /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
            pub fn $into<'w, 'o>(&self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
            where
                T: 'w + 'o,
                D: 'w + 'o,
                Dim<RANK>: Spatial<$n>,
            {
                self.view().$into(weight, conv, out)
            }

            /// The transposed convolution: the gradient by its input of the convolution with the same weights, which
            /// spreads every element of the input over a window of the output.
            ///
            /// # Shapes
            /// The weights are `[inputs, outputs / groups, …]`; an axis of `n` becomes
            /// `(n − 1) · stride − padding at both ends + dilation · (k − 1) + 1`, and `extra` more at its end.
            ///
            /// # Cost
            /// A copy of the input with zeros in between, and a convolution of it.
            ///
            /// # Errors
            /// As the convolution; [`Error::Value`] unless `extra` is below the stride or the dilation.
            ///
            /// # Source
            /// PyTorch's `conv_transpose1d` … `conv_transpose3d`; `extra` is `output_padding`.
            pub fn $transposed<'w>(&self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>, extra: [usize; $n]) -> Result<Self>
            where
                T: 'w,
                D: 'w,
                Dim<RANK>: Spatial<$n>,
            {
                self.view().$transposed(weight, conv, extra)
            }

            #[doc = concat!("As [`", stringify!($transposed), "`](Tensor::", stringify!($transposed), "), into an existing tensor or exclusive view, of any strides.")]
            ///
            /// # Errors
            /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
            pub fn $transposed_into<'w, 'o>(
                &self,
                weight: impl IntoView<'w, T, RANK, D>,
                conv: Conv<$n>,
                extra: [usize; $n],
                out: impl IntoViewMut<'o, T, RANK, D>,
            ) -> Result<()>
            where
                T: 'w + 'o,
                D: 'w + 'o,
                Dim<RANK>: Spatial<$n>,
            {
                self.view().$transposed_into(weight, conv, extra, out)
            }
        }
        impl<T: Number, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
            #[doc = concat!("A convolution; see [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $name<'w>(self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>) -> Result<Tensor<T, RANK, D>>
            where
                T: 'w,
                D: 'w,
                Dim<RANK>: Spatial<$n>,
            {
                convolve(stringify!($name), self, weight.into_view(), conv, Allocate)
            }

            #[doc = concat!("A convolution into an existing tensor or exclusive view; see [`Tensor::", stringify!($into), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $into<'w, 'o>(self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
            where
                T: 'w + 'o,
                D: 'w + 'o,
                Dim<RANK>: Spatial<$n>,
            {
                convolve(stringify!($into), self, weight.into_view(), conv, Existing(out))
            }

            #[doc = concat!("A transposed convolution; see [`Tensor::", stringify!($transposed), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $transposed<'w>(self, weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>, extra: [usize; $n]) -> Result<Tensor<T, RANK, D>>
            where
                T: 'w,
                D: 'w,
                Dim<RANK>: Spatial<$n>,
            {
                spread(stringify!($transposed), self, weight.into_view(), conv, extra, Allocate)
            }

            #[doc = concat!("A transposed convolution into an existing tensor or exclusive view; see [`Tensor::", stringify!($transposed_into), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $transposed_into<'w, 'o>(
                self,
                weight: impl IntoView<'w, T, RANK, D>,
                conv: Conv<$n>,
                extra: [usize; $n],
                out: impl IntoViewMut<'o, T, RANK, D>,
            ) -> Result<()>
            where
                T: 'w + 'o,
                D: 'w + 'o,
                Dim<RANK>: Spatial<$n>,
            {
                spread(stringify!($transposed_into), self, weight.into_view(), conv, extra, Existing(out))
            }
        }
    )* };
}
convolutions! {
    conv1d conv1d_into conv_transpose1d conv_transpose1d_into 1 "`[batch, inputs, n] * [outputs, inputs / groups, k] → [batch, outputs, n']`, `n' = (n + padding at both ends − dilation · (k − 1) − 1) / stride + 1`.";
    conv2d conv2d_into conv_transpose2d conv_transpose2d_into 2 "`[batch, inputs, h, w] * [outputs, inputs / groups, kh, kw] → [batch, outputs, h', w']`; each axis as in [`conv1d`](Tensor::conv1d).";
    conv3d conv3d_into conv_transpose3d conv_transpose3d_into 3 "`[batch, inputs, d, h, w] * [outputs, inputs / groups, kd, kh, kw] → [batch, outputs, d', h', w']`; each axis as in [`conv1d`](Tensor::conv1d).";
}

/// Whether the channels of `[batch, channel, …]` are the fastest axis.
fn is_channels_last<const RANK: usize>(layout: &Layout<RANK>) -> bool {
    layout.size().0[1] > 1 && layout.stride().0[1] == 1 && !layout.is_contiguous()
}

/// A copy with the channels last, in the middle of zeros; every `step`-th place of an axis is one of `x`.
fn framed<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    sizes: [usize; N],
    starts: [usize; N],
    steps: [usize; N],
) -> Result<Tensor<T, RANK, D>> {
    let size = Dim(std::array::from_fn(|axis| if axis < 2 { x.size().0[axis] } else { sizes[axis - 2] }));
    size.numel_of(op, size_of::<T>())?;
    let mut out = Tensor::<T, RANK, D>::uninit(op, Layout::with_channel_fastest(size), x.device())?;
    let mut view = out.try_view_mut(op)?;
    if size.0 != x.size().0 {
        view.fill(T::zero())?;
    }
    for axis in 0..N {
        let last = starts[axis] + (x.size().0[axis + 2].max(1) - 1) * steps[axis];
        let end = if x.size().0[axis + 2] == 0 { starts[axis] } else { last + 1 };
        view = view.slice_axis(axis + 2, starts[axis]..end, steps[axis] as isize)?;
    }
    view.assign(x)?;
    Ok(out)
}

/// Bytes of images that are convolved together, where something is made for them or they are read many times.
const NEAR: usize = 1 << 20;

/// That weights do not fit so many channels.
fn misfit(op: &'static str, weights: &[usize], channels: usize, groups: usize) -> Error {
    let s = if groups == 1 { "" } else { "s" };
    Error::Value {
        op,
        what: text(format_args!("weights {weights:?} do not fit {channels} channels in {groups} group{s}")),
    }
}

fn convolve<T: Number, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    place: P,
) -> Result<P::Done> {
    same_device(op, x.device(), w.device())?;
    x.ensure_allocated(op)?;
    w.ensure_allocated(op)?;
    let (size, kernel) = (x.size().0, w.size().0);
    let groups = conv.groups;
    if groups == 0 || size[1] != kernel[1].saturating_mul(groups) || !kernel[0].is_multiple_of(groups) {
        return Err(misfit(op, &kernel, size[1], groups));
    }
    let mut out_size = [size[0]; RANK];
    out_size[1] = kernel[0];
    let window: [usize; N] = std::array::from_fn(|axis| kernel[axis + 2]);
    let [before, after] = conv.ends.found(&size, window, &conv);
    let conv = conv.padding_ends(before, after);
    let mut padded = [0; N];
    for axis in 0..N {
        let (n, steps) =
            (size[axis + 2], [conv.stride[axis], before[axis], after[axis], conv.dilation[axis]]);
        out_size[axis + 2] = windows(op, axis + 2, n, window[axis], steps)?;
        padded[axis] = n + before[axis] + after[axis];
    }
    let is_padded = padded != size[2..];
    Dim(out_size).numel_of(op, size_of::<T>())?;
    let last = is_channels_last(x.layout());
    let layout =
        if last { Layout::with_channel_fastest(Dim(out_size)) } else { Layout::row_major(Dim(out_size)) };
    // One channel in and one out: sums over the places of a window, where elements are what is summed in.
    let depthwise = kernel[1] == 1 && kernel[0] == groups && size_of::<T>() == size_of::<Compute<T>>();
    // Sums over places leave padding out, whose product with an infinite weight is NaN.
    let depthwise = depthwise && (!is_padded || all_finite(w)?);
    let point = kernel[2..].iter().all(|&len| len == 1);
    let frames = !depthwise && (is_padded || !point && x.stride().0[1] != 1);
    // Images go through the caches in turn, each with what is made for it.
    let image =
        padded.iter().fold(size_of::<T>().saturating_mul(size[1]), |bytes, &n| bytes.saturating_mul(n));
    let together = if depthwise || frames { (NEAR / image.max(1)).max(1) } else { size[0].max(1) };
    place.put(op, layout, x.device(), |whole| {
        for first in (0..size[0]).step_by(together) {
            let images = first..size[0].min(first + together);
            let (mut out, x) =
                (whole.reborrow().slice_axis(0, images.clone(), 1)?, x.slice_axis(0, images, 1)?);
            if depthwise {
                out.fill(T::zero())?;
                places(x, &mut out, &conv, window, |place: [usize; N], mut part, seen| {
                    let mut w = w;
                    for axis in 0..N {
                        w = w.slice_axis(axis + 2, place[axis]..place[axis] + 1, 1)?;
                    }
                    let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
                    order.swap(0, 1);
                    part.zip_in_place(Add, seen.lazy() * w.permuted(order)?)
                })?;
                continue;
            }
            let frame = if frames { Some(framed(op, x, padded, before, [1; N])?) } else { None };
            let x = frame.as_ref().map_or(x, |frame| frame.view());
            // SAFETY: windows that fit the padded input; channels that are cut into groups without a rest; an exclusive output.
            unsafe { product(&mut out, x, w, conv, kernel)? };
        }
        Ok(())
    })
}

/// Whether every weight is a finite number; taken for true where that cannot be asked: there is no data, or a graph is recorded.
fn all_finite<T: Number, const RANK: usize, D: Device>(w: TensorView<'_, T, RANK, D>) -> Result<bool> {
    Ok(T::DTYPE.is_discrete() || (w.lazy() * T::zero()).equal(T::zero()).all(All)?.item().unwrap_or(true))
}

/// The product of the windows of `x` and the weights: the batch is the groups, `m` the places of windows, `k` what is in
/// one, `n` the outputs.
///
/// # Safety
/// Every window lies inside `x`; the channels of `x`, `w` and `out` fit each other and the groups.
unsafe fn product<T: Number, const RANK: usize, const N: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    kernel: [usize; RANK],
) -> Result<()> {
    let (size, stride) = (out.size().0, out.stride().0);
    let (xs, ws) = (x.stride().0, w.stride().0);
    let outputs = kernel[0] / conv.groups;
    // Batch and the places of windows; the channels of a group and the places inside a window.
    let (mut m, mut k) = (size, kernel);
    (m[1], k[0]) = (1, 1);
    let times = |count: usize, step: isize| (count as isize).wrapping_mul(step);
    let (mut out_steps, mut x_steps, mut w_steps) = ([0; 20], [0; 20], [0; 20]);
    (out_steps[0], x_steps[0], w_steps[0]) =
        (times(outputs, stride[1]), times(kernel[1], xs[1]), times(outputs, ws[0]));
    for axis in 0..RANK {
        let spatial = axis.checked_sub(2);
        out_steps[1 + axis] = stride[axis];
        x_steps[1 + axis] = spatial.map_or(xs[axis], |at| times(conv.stride[at], xs[axis]));
        x_steps[1 + RANK + axis] = spatial.map_or(xs[axis], |at| times(conv.dilation[at], xs[axis]));
        w_steps[1 + axis] = ws[axis];
    }
    out_steps[1 + RANK] = stride[1];
    w_steps[1 + RANK] = ws[0];
    let plan = ContractPlan { batch: &[conv.groups], m: &m, k: &k, n: &[outputs] };
    let out_slot = out.leaf().slot(&out_steps);
    let x_slot = x.leaf().slot(&x_steps);
    let w_slot = w.leaf().slot(&w_steps);
    // SAFETY: the caller's promise.
    unsafe { x.device().contract::<T, T, T>(plan, out_slot, x_slot, w_slot) }
}

fn spread<T: Number, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    extra: [usize; N],
    place: P,
) -> Result<P::Done> {
    let (size, kernel) = (x.size().0, w.size().0);
    let groups = conv.groups;
    let wrong = |what: std::fmt::Arguments<'_>| Error::Value { op, what: text(what) };
    if groups == 0 || size[1] != kernel[0] || !kernel[0].is_multiple_of(groups) {
        return Err(misfit(op, &kernel, size[1], groups));
    }
    same_device(op, x.device(), w.device())?;
    x.ensure_allocated(op)?;
    w.ensure_allocated(op)?;
    let (mut sizes, mut starts, mut crops, mut out_size) =
        ([0; N], [0; N], [const { 0..0 }; N], [size[0]; RANK]);
    out_size[1] = kernel[1].saturating_mul(groups);
    let mut flipped = w;
    for axis in 0..N {
        let (n, len) = (size[axis + 2], kernel[axis + 2]);
        let (stride, dilation) = (conv.stride[axis], conv.dilation[axis]);
        if n == 0 || len == 0 || stride == 0 || dilation == 0 || extra[axis] >= stride.max(dilation) {
            let what = format_args!(
                "axis {}: {n} places, window {len}, stride {stride}, dilation {dilation}, extra {}",
                axis + 2,
                extra[axis]
            );
            return Err(wrong(what));
        }
        let numbers = || {
            let reach = (len - 1).checked_mul(dilation)?;
            let spread = (n - 1).checked_mul(stride)?.checked_add(1)?;
            let whole = spread.checked_add(reach)?.checked_add(extra[axis])?;
            // Zeros around: the reach of a window on both sides; what padding takes off comes off the result.
            let framed = whole.checked_add(reach)?;
            let [before, after] =
                conv.ends.of(axis, conv.padding[axis], whole.saturating_sub(n.checked_mul(stride)?));
            Some((reach, framed, before, whole.checked_sub(before.checked_add(after)?)?))
        };
        let Some((reach, framed, before, left)) = numbers() else {
            let padding = conv.padding[axis];
            return Err(wrong(format_args!(
                "axis {}: padding {padding} leaves nothing of {n} windows of {len}",
                axis + 2
            )));
        };
        (sizes[axis], starts[axis], out_size[axis + 2]) = (framed, reach, left);
        // As many windows as there are places of the result.
        crops[axis] = before..before + left + reach;
        flipped = flipped.reversed_axis(axis + 2)?;
    }
    Dim(out_size).numel_of(op, size_of::<T>())?;
    let last = is_channels_last(x.layout());
    let layout =
        if last { Layout::with_channel_fastest(Dim(out_size)) } else { Layout::row_major(Dim(out_size)) };
    place.put(op, layout, x.device(), |out| {
        let frame = framed(op, x, sizes, starts, conv.stride)?;
        let mut windows = frame.view();
        for axis in 0..N {
            windows = windows.slice_axis(axis + 2, crops[axis].clone(), 1)?;
        }
        // Group by group, since the weights have the inputs first: `[inputs, outputs / groups, …]`.
        let (inputs, outputs) = (kernel[0] / groups, kernel[1]);
        let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
        order.swap(0, 1);
        for group in 0..groups {
            let w = flipped.slice_axis(0, group * inputs..(group + 1) * inputs, 1)?.permuted(order)?;
            let x = windows.slice_axis(1, group * inputs..(group + 1) * inputs, 1)?;
            let plain = Conv::new().dilation(conv.dilation);
            convolve(
                op,
                x,
                w,
                plain,
                Existing(out.reborrow().slice_axis(1, group * outputs..(group + 1) * outputs, 1)?),
            )?;
        }
        Ok(())
    })
}
