//! Convolutions over one, two or three axes: one product of the weights and the strided windows of the input,
//! which are not copied.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::conv_products::{is_channels_last, ordered_layout, padded_copy, product};
use super::conv_rule::convolve_by_rule;
use super::depthwise::sum_of_taps;
use super::windows::{Conv, window_count};
use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::{Compute, Number};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::rank::Spatial;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// Convolutions over `$n` axes.
macro_rules! convolutions {
    ($($name:ident $into:ident $n:literal $sizes:literal;)*) => { $(methods_with_into! {
        [[T: Number, const RANK: usize,] T, RANK -> T]
        /// A convolution in the sense of neural networks: the weights are not flipped.
        ///
        /// `y[b, o, p] = Σ x[b, c, stride · p + dilation · q − padding] · w[o, c, q]`, over the channels `c`
        /// of the group of `o` and the positions `q` in a window; `x` is 0 outside its sizes. A bias is a
        /// separate expression.
        ///
        /// # Shapes
        #[doc = $sizes]
        ///
        /// # Cost
        /// One product, which reads the windows in place. When there is padding, or the windows are larger
        /// than 1 and the channels not last, some images or some rows of one are first copied, channels last,
        /// and the weights once. The order of sums is that of [`matmul`](Tensor::matmul). A depthwise
        /// convolution (groups of one channel in and out) takes a pass over the output for three elements of
        /// a window along the last axis.
        ///
        /// # Errors
        /// [`Error::Value`] when channels, groups or windows do not fit, [`Error::Device`],
        /// [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
        ///
        /// # Source
        /// PyTorch's `conv1d`, `conv2d`, `conv3d`.
        fn $name, $into ['w](weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>) -> RANK
        where [T: 'w, D: 'w, Dim<RANK>: Spatial<$n>]
        = |op, x, place| convolve(op, x, weight.into_view(), conv, place);
    })* };
}

/// Transposed convolutions over `$n` axes.
macro_rules! transposed_convolutions {
    ($($name:ident $into:ident $n:literal;)*) => { $(methods_with_into! {
        [[T: Number, const RANK: usize,] T, RANK -> T]
        /// The transposed convolution: the gradient of the convolution with the same weights with respect to
        /// its input. It adds every element of the input, times the weights, to a window of the output.
        ///
        /// # Shapes
        /// The weights are `[inputs, outputs / groups, …]`; an axis of `n` becomes
        /// `(n − 1) · stride − padding at both ends + dilation · (k − 1) + 1`, plus `extra` at its end.
        ///
        /// # Cost
        /// A copy of the input with zeros between its elements, and a convolution of that copy.
        ///
        /// # Errors
        /// As the convolution; [`Error::Value`] unless `extra` is below the stride or the dilation.
        ///
        /// # Source
        /// PyTorch's `conv_transpose1d` … `conv_transpose3d`; `extra` is `output_padding`.
        fn $name, $into ['w](
            weight: impl IntoView<'w, T, RANK, D>, conv: Conv<$n>, extra: [usize; $n]
        ) -> RANK
        where [T: 'w, D: 'w, Dim<RANK>: Spatial<$n>]
        = |op, x, place| convolve_transposed(op, x, weight.into_view(), conv, extra, place);
    })* };
}

convolutions! {
    conv1d conv1d_into 1 "`[batch, inputs, n] * [outputs, inputs / groups, k] → [batch, outputs, n']`, `n' = (n + padding at both ends − dilation · (k − 1) − 1) / stride + 1`.";
    conv2d conv2d_into 2 "`[batch, inputs, h, w] * [outputs, inputs / groups, kh, kw] → [batch, outputs, h', w']`; each axis as in [`conv1d`](Tensor::conv1d).";
    conv3d conv3d_into 3 "`[batch, inputs, d, h, w] * [outputs, inputs / groups, kd, kh, kw] → [batch, outputs, d', h', w']`; each axis as in [`conv1d`](Tensor::conv1d).";
}
transposed_convolutions! {
    conv_transpose1d conv_transpose1d_into 1;
    conv_transpose2d conv_transpose2d_into 2;
    conv_transpose3d conv_transpose3d_into 3;
}

/// Bytes of images that are copied and convolved together on a device that names no size of its own.
const IMAGE_BLOCK_BYTES: usize = 1 << 20;
/// The same for weights that are too large for a cache: more images share a pass over them.
const LARGE_IMAGE_BLOCK_BYTES: usize = 16 << 20;
/// Up to this many bytes, weights are brought into the order in which a product reads them in place.
const ORDERED_WEIGHT_BYTES: usize = 1 << 20;

/// The number of images of these channels and sizes that fit in the cache together with their copy.
pub(super) fn images_per_block<T>(channels: usize, sizes: &[usize]) -> usize {
    let image =
        sizes.iter().fold(size_of::<T>().saturating_mul(channels), |bytes, &n| bytes.saturating_mul(n));
    (IMAGE_BLOCK_BYTES / image.max(1)).max(1)
}

/// The error of weights that do not fit the number of channels.
pub(super) fn channels_error(op: &'static str, weights: &[usize], channels: usize, groups: usize) -> Error {
    let s = if groups == 1 { "" } else { "s" };
    Error::Value {
        op,
        what: text(format_args!("weights {weights:?} do not fit {channels} channels in {groups} group{s}")),
    }
}

pub(super) fn convolve<
    T: Number,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    destination: P,
) -> Result<P::Done> {
    same_device(op, x.device(), w.device())?;
    x.ensure_allocated(op)?;
    w.ensure_allocated(op)?;
    let (size, kernel) = (x.size().0, w.size().0);
    let groups = conv.groups;
    if groups == 0 || size[1] != kernel[1].saturating_mul(groups) || !kernel[0].is_multiple_of(groups) {
        return Err(channels_error(op, &kernel, size[1], groups));
    }
    let mut out_size = [size[0]; RANK];
    out_size[1] = kernel[0];
    let window: [usize; N] = std::array::from_fn(|axis| kernel[axis + 2]);
    let [before, after] = conv.ends.resolve(&size, window, &conv);
    let conv = conv.padding_ends(before, after);
    let mut padded = [0; N];
    for axis in 0..N {
        let (n, steps) =
            (size[axis + 2], [conv.stride[axis], before[axis], after[axis], conv.dilation[axis]]);
        out_size[axis + 2] = window_count(op, axis + 2, n, window[axis], steps)?;
        padded[axis] = n + before[axis] + after[axis];
    }
    let is_padded = padded != size[2..];
    Dim(out_size).numel_of(op, size_of::<T>())?;
    let channels_last = is_channels_last(x.layout());
    let layout = ordered_layout(Dim(out_size), channels_last);
    // One channel in and one out: sums over the taps of a window, if elements are their own accumulators.
    let depthwise = kernel[1] == 1 && kernel[0] == groups && size_of::<T>() == size_of::<Compute<T>>();
    if const { D::RECORDS && !T::DTYPE.is_discrete() && !T::DTYPE.is_complex() } && !depthwise {
        return convolve_by_rule(op, x, w, conv, layout, destination);
    }
    let is_pointwise = kernel[2..].iter().all(|&len| len == 1);
    let form = if depthwise {
        Form::Taps
    } else if is_padded || !is_pointwise && x.stride().0[1] != 1 {
        Form::Frames
    } else {
        Form::InPlace
    };
    let is_ordered = form == Form::Taps || form == Form::InPlace && is_pointwise;
    let w = if is_ordered { None } else { ordered_weights(w)? }.map_or(Weights::Given(w), Weights::Ordered);
    let w = w.view();
    let block = image_block::<T, D, RANK, N>(x, w, out_size, padded, form, &conv);
    destination.put(op, layout, x.device(), |whole| {
        whole.reborrow().for_each_block(block, &|ranges, mut out| {
            let [images, channels, rows] = [0, 1, 2].map(|axis| ranges[axis].clone());
            let mut x = x.slice_axis(0, images, 1)?;
            if form == Form::Taps {
                x = x.slice_axis(1, channels.clone(), 1)?;
            }
            // The rows of the input that these rows of windows read, and the padding before them.
            let (first, reach) = (rows.start * conv.stride[0], (window[0] - 1) * conv.dilation[0] + 1);
            let end = first + rows.len().saturating_sub(1) * conv.stride[0] + reach;
            let inside = |at: usize| at.saturating_sub(before[0]).min(size[2]);
            let x = x.slice_axis(2, inside(first)..inside(end), 1)?;
            let (mut sizes, mut starts) = (padded, before);
            (sizes[0], starts[0]) = (end - first, before[0].saturating_sub(first).min(end - first));
            let format = if form == Form::Frames || channels_last {
                Layout::with_channel_fastest
            } else {
                Layout::row_major
            };
            let frame = if is_padded || form == Form::Frames {
                Some(padded_copy(op, x, sizes, starts, [1; N], format)?)
            } else {
                None
            };
            let x = frame.as_ref().map_or(x, |frame| frame.view());
            if form == Form::Taps {
                return sum_of_taps(x, w.slice_axis(0, channels, 1)?, &mut out, &conv, window);
            }
            // SAFETY: (1) `window_count` checked that the windows fit the padded input, of which these rows
            // are a part; (2) the channels were checked against the weights and the groups; the output is
            // exclusive.
            unsafe { product(&mut out, x, w, conv, kernel) }
        })
    })
}

/// How the windows of a convolution are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In place, as the left operand of a product.
    InPlace,
    /// As above, in a copy of some images surrounded by zeros, channels last.
    Frames,
    /// Some elements of all windows after the others, in such a copy if there is padding.
    Taps,
}

/// Weights in the order in which they were given, or another one.
enum Weights<'w, T: Number, const RANK: usize, D: Device> {
    Given(TensorView<'w, T, RANK, D>),
    Ordered(Tensor<T, RANK, D>),
}

impl<T: Number, const RANK: usize, D: Device> Weights<'_, T, RANK, D> {
    fn view(&self) -> TensorView<'_, T, RANK, D> {
        match self {
            Weights::Given(weights) => *weights,
            Weights::Ordered(weights) => weights.view(),
        }
    }
}

/// The weights with the outputs innermost in memory, as a product reads its right operand. The other axes are
/// in the order of windows in channels-last images, or as they were if the weights are large: then a product
/// packs them, and only the transpose must be fast.
fn ordered_weights<T: Number, const RANK: usize, D: Device>(
    w: TensorView<'_, T, RANK, D>,
) -> Result<Option<Tensor<T, RANK, D>>> {
    if w.device().task_nbytes().is_none() {
        return Ok(None);
    }
    let is_small = w.numel().saturating_mul(size_of::<T>()) <= ORDERED_WEIGHT_BYTES;
    let mut order: [usize; RANK] = std::array::from_fn(|axis| (axis + if is_small { 2 } else { 1 }) % RANK);
    if is_small {
        order[RANK - 2..].reverse();
    }
    let mut back = order;
    for (at, &axis) in order.iter().enumerate() {
        back[axis] = at;
    }
    Ok(Some(w.permuted(order)?.to_contiguous()?.into_permuted(back)?))
}

/// The sizes of the blocks of an output that are computed one by one: their images, or parts of one, and
/// their results fit in a cache together. They depend on sizes alone.
fn image_block<T: Number, D: Device, const RANK: usize, const N: usize>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    out_size: [usize; RANK],
    padded: [usize; N],
    form: Form,
    conv: &Conv<N>,
) -> [usize; RANK] {
    let (mut block, size) = (out_size, x.size().0);
    let task_nbytes = x.device().task_nbytes();
    let w_nbytes = w.numel().saturating_mul(size_of::<T>());
    let nbytes = match task_nbytes {
        Some(_) if form != Form::Taps && w_nbytes > ORDERED_WEIGHT_BYTES => LARGE_IMAGE_BLOCK_BYTES,
        Some(nbytes) => nbytes,
        None if form == Form::InPlace => return block,
        None => IMAGE_BLOCK_BYTES,
    };
    let product =
        |sizes: &[usize]| sizes.iter().fold(size_of::<T>(), |bytes, &n| bytes.saturating_mul(n)).max(1);
    let plane = product(&padded);
    block[0] = (nbytes / plane.saturating_mul(size[1]).max(1)).max(1);
    if block[0] > 1 || task_nbytes.is_none() {
        return block;
    }
    if form == Form::Taps {
        block[1] = (nbytes / plane).max(1);
        return block;
    }
    let row = product(&padded[1..]).saturating_mul(size[1]);
    let reach = w.size().0[2].saturating_sub(1).saturating_mul(conv.dilation[0]).saturating_add(1);
    // At least as many rows as windows share with their neighbors: the copies of shared rows are few.
    block[2] =
        ((nbytes / row).saturating_sub(reach) / conv.stride[0] + 1).max(reach.div_ceil(conv.stride[0]));
    block[2] = out_size[2].div_ceil(out_size[2].div_ceil(block[2]).max(1));
    block
}

pub(super) fn convolve_transposed<
    T: Number,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    extra: [usize; N],
    destination: P,
) -> Result<P::Done> {
    let (size, kernel) = (x.size().0, w.size().0);
    let groups = conv.groups;
    let wrong = |what: std::fmt::Arguments<'_>| Error::Value { op, what: text(what) };
    if groups == 0 || size[1] != kernel[0] || !kernel[0].is_multiple_of(groups) {
        return Err(channels_error(op, &kernel, size[1], groups));
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
            let dilated_size = (n - 1).checked_mul(stride)?.checked_add(1)?;
            let whole = dilated_size.checked_add(reach)?.checked_add(extra[axis])?;
            // Zeros on both sides, as many as a window reaches over; padding shortens the result.
            let padded_size = whole.checked_add(reach)?;
            let [before, after] = conv.ends.split_padding(
                axis,
                conv.padding[axis],
                whole.saturating_sub(n.checked_mul(stride)?),
            );
            Some((reach, padded_size, before, whole.checked_sub(before.checked_add(after)?)?))
        };
        let Some((reach, padded_size, before, left)) = numbers() else {
            let padding = conv.padding[axis];
            return Err(wrong(format_args!(
                "axis {}: padding {padding} leaves nothing of {n} windows of {len}",
                axis + 2
            )));
        };
        (sizes[axis], starts[axis], out_size[axis + 2]) = (padded_size, reach, left);
        // One window for each element of the result.
        crops[axis] = before..before + left + reach;
        flipped = flipped.reversed_axis(axis + 2)?;
    }
    Dim(out_size).numel_of(op, size_of::<T>())?;
    let channels_last = is_channels_last(x.layout());
    let layout = ordered_layout(Dim(out_size), channels_last);
    destination.put(op, layout, x.device(), |out| {
        // One group after the other, because the weights have the inputs first:
        // `[inputs, outputs / groups, …]`.
        let (inputs, outputs) = (kernel[0] / groups, kernel[1]);
        let mut order: [usize; RANK] = std::array::from_fn(|axis| axis);
        order.swap(0, 1);
        let images_per_block = images_per_block::<T>(size[1], &sizes);
        for first in (0..size[0]).step_by(images_per_block) {
            let images = first..size[0].min(first + images_per_block);
            let mut out = out.reborrow().slice_axis(0, images.clone(), 1)?;
            let (x, format) = (x.slice_axis(0, images, 1)?, Layout::with_channel_fastest);
            let frame = padded_copy(op, x, sizes, starts, conv.stride, format)?;
            let mut windows = frame.view();
            for axis in 0..N {
                windows = windows.slice_axis(axis + 2, crops[axis].clone(), 1)?;
            }
            for group in 0..groups {
                let w = flipped.slice_axis(0, group * inputs..(group + 1) * inputs, 1)?.permuted(order)?;
                let x = windows.slice_axis(1, group * inputs..(group + 1) * inputs, 1)?;
                let plain = Conv::new().dilation(conv.dilation);
                let part = out.reborrow().slice_axis(1, group * outputs..(group + 1) * outputs, 1)?;
                convolve(op, x, w, plain, Existing(part))?;
            }
        }
        Ok(())
    })
}
