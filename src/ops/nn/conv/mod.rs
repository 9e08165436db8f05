//! Convolutions over one, two or three axes: one product of the weights and the strided windows of the input,
//! which are not copied.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

mod depthwise;
mod products;
mod rule;

use super::windows::{Conv, ConvSizes, DEVICE_BLOCK_BYTES, channels_error, padded_copy};
use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::Number;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::rank::Spatial;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use depthwise::{is_depthwise, sum_of_taps};
use products::{is_channels_last, ordered_layout, product};
use rule::convolve_by_rule;

/// Convolutions over `$n` axes.
macro_rules! convolutions {
    ($($name:ident $into:ident $n:literal, $sizes:literal, $example:literal;)*) => { $(methods_with_into! {
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
        /// a window along the last axis, and its copies have channels first. On a GPU padding costs a copy in the memory order of the input, and
        /// the rest is one kernel, for up to 256 MiB of padded images at a time.
        ///
        /// # Errors
        /// [`Error::Value`] when channels, groups or windows do not fit, [`Error::Device`],
        /// [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// use rankform::ops::Conv;
        #[doc = $example]
        /// # Ok::<(), rankform::Error>(())
        /// ```
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
    ($($name:ident $into:ident $n:literal, $example:literal;)*) => { $(methods_with_into! {
        [[T: Number, const RANK: usize,] T, RANK -> T]
        /// The transposed convolution: the gradient of the convolution with the same weights with respect to
        /// its input. It adds every element of the input, times the weights, to a window of the output.
        ///
        /// # Shapes
        /// The weights are `[inputs, outputs / groups, …]`; an axis of `n` becomes
        /// `(n − 1) · stride − padding at both ends + dilation · (k − 1) + 1`, plus `extra` at its end.
        ///
        /// # Cost
        /// A convolution by the weights in reverse order; with a stride, of a copy of the input with zeros
        /// between its elements.
        ///
        /// # Errors
        /// As the convolution; [`Error::Value`] unless `extra` is below the stride or the dilation.
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// use rankform::ops::Conv;
        #[doc = $example]
        /// # Ok::<(), rankform::Error>(())
        /// ```
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
    conv1d conv1d_into 1,
        "`[batch, inputs, n] * [outputs, inputs / groups, k] → [batch, outputs, n']`, \
         `n' = (n + padding at both ends − dilation · (k − 1) − 1) / stride + 1`.",
        "let y = Tensor::from([[[1, 2, 4]]]).conv1d(&Tensor::from([[[-1, 1]]]), Conv::new())?;
        assert_eq!(y, Tensor::from([[[1, 2]]])); // differences";
    conv2d conv2d_into 2,
        "`[batch, inputs, h, w] * [outputs, inputs / groups, kh, kw] → [batch, outputs, h', w']`; \
         each axis as in [`conv1d`](Tensor::conv1d).",
        "let (x, w) = (Tensor::<f32, 4>::ones([8, 3, 32, 32], &Cpu)?, Tensor::ones([16, 3, 3, 3], &Cpu)?);
        let y = x.conv2d(&w, Conv::new().padding([1, 1]).stride([2, 2]))?;
        assert_eq!((y.size(), y[[0, 0, 5, 5]], y[[0, 0, 0, 0]]), (dim![8, 16, 16, 16], 27.0, 12.0));";
    conv3d conv3d_into 3,
        "`[batch, inputs, d, h, w] * [outputs, inputs / groups, kd, kh, kw] → [batch, outputs, d', h', w']`; \
         each axis as in [`conv1d`](Tensor::conv1d).",
        "let (x, w) = (Tensor::<f32, 5>::ones([1, 2, 4, 4, 4], &Cpu)?, Tensor::ones([3, 2, 2, 2, 2], &Cpu)?);
        assert_eq!(x.conv3d(&w, Conv::new())?, Tensor::full([1, 3, 3, 3, 3], 16.0, &Cpu)?);";
}
transposed_convolutions! {
    conv_transpose1d conv_transpose1d_into 1,
        "let y = Tensor::from([[[1, 2]]]).conv_transpose1d(&Tensor::from([[[1, 10]]]), Conv::new(), [0])?;
        assert_eq!(y, Tensor::from([[[1, 12, 20]]]));";
    conv_transpose2d conv_transpose2d_into 2,
        "let x = Tensor::from([[[[1, 2]]]]);
        let y = x.conv_transpose2d(&Tensor::from([[[[1], [10]]]]), Conv::new(), [0, 0])?;
        assert_eq!(y, Tensor::from([[[[1, 2], [10, 20]]]]));";
    conv_transpose3d conv_transpose3d_into 3,
        "let (x, w) = (Tensor::<f32, 5>::ones([1, 2, 2, 2, 2], &Cpu)?, Tensor::ones([2, 3, 1, 1, 1], &Cpu)?);
        assert_eq!(x.conv_transpose3d(&w, Conv::new(), [0; 3])?, Tensor::full([1, 3, 2, 2, 2], 2.0, &Cpu)?);";
}

/// Bytes of images that are copied and convolved together where a cache holds them.
const IMAGE_BLOCK_BYTES: usize = 1 << 20;
/// The same for weights that are too large for a cache: more images share a pass over them.
const LARGE_IMAGE_BLOCK_BYTES: usize = 16 << 20;
/// Up to this many bytes, weights are brought into the order in which a product reads them all at once; of
/// larger ones, those of some outputs at a time.
const ORDERED_WEIGHT_BYTES: usize = 1 << 20;
/// The weights of this many outputs, or a multiple, are ordered together: whole vectors of any processor.
const ORDERED_OUTPUTS: usize = 32;
/// Bytes of an image of one group of channels from which on groups are copied and convolved one by one.
const GROUP_IMAGE_BYTES: usize = 8 << 10;

/// Bytes of the planes of one channel that a depthwise convolution takes together.
const CHANNEL_BYTES: usize = 16 << 10;

/// The bytes of elements of these sizes; saturates.
pub(super) fn nbytes_of<T>(sizes: &[usize]) -> usize {
    sizes.iter().fold(size_of::<T>(), |bytes, &n| bytes.saturating_mul(n))
}

/// The number of images of these channels and sizes that are copied together, for weights of `w_nbytes`.
pub(super) fn images_per_block<T, D: Device>(
    device: &D,
    channels: usize,
    sizes: &[usize],
    w_nbytes: usize,
) -> usize {
    let most = match device.task_nbytes() {
        None => DEVICE_BLOCK_BYTES,
        Some(_) if w_nbytes > ORDERED_WEIGHT_BYTES => LARGE_IMAGE_BLOCK_BYTES,
        Some(_) => IMAGE_BLOCK_BYTES,
    };
    (most / nbytes_of::<T>(sizes).saturating_mul(channels).max(1)).max(1)
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
    let sizes = ConvSizes::new(op, x.size().0, w.size().0, conv)?;
    Dim(sizes.out).numel_of(op, size_of::<T>())?;
    let layout = ordered_layout(Dim(sizes.out), is_channels_last(x.layout()));
    if const { D::RECORDS && !T::DTYPE.is_discrete() && !T::DTYPE.is_complex() } {
        return convolve_by_rule(op, x, w, sizes.conv, layout, destination);
    }
    let is_pointwise = sizes.window == [1; N];
    let has_tasks = x.device().task_nbytes().is_some();
    let form = if is_depthwise::<T, RANK, N>(w.size().0, &sizes.conv) {
        WindowForm::Taps
    } else if sizes.padded != x.size().0[2..] || has_tasks && !is_pointwise && x.stride().0[1] != 1 {
        WindowForm::Frames
    } else {
        WindowForm::InPlace
    };
    let is_large = nbytes_of::<T>(&w.size().0) / sizes.conv.groups > ORDERED_WEIGHT_BYTES;
    let is_ordered = !has_tasks || form == WindowForm::Taps || form == WindowForm::InPlace && is_pointwise;
    destination.put(op, layout, x.device(), |out| {
        if is_ordered {
            return by_blocks(op, x, w, &sizes, form, WeightOrder::Given, out);
        }
        if !is_large {
            return by_blocks(op, x, ordered(w)?.view(), &sizes, form, WeightOrder::Given, out);
        }
        if form == WindowForm::InPlace {
            return by_blocks(op, x, w, &sizes, form, WeightOrder::ByTask, out);
        }
        // All blocks of outputs read the same copies of images.
        let images_per_block = images_per_block::<T, D>(x.device(), x.size().0[1], &sizes.padded, usize::MAX);
        for first in (0..sizes.out[0]).step_by(images_per_block) {
            let images = first..sizes.out[0].min(first + images_per_block);
            let x = x.slice_axis(0, images.clone(), 1)?;
            let (padded, format) = (sizes.padded, Layout::with_channel_fastest);
            let frame = padded_copy(op, x, padded, sizes.before, [1; N], format, T::zero())?;
            let conv = sizes.conv.padding([0; N]);
            let sizes = ConvSizes::new(op, frame.size().0, w.size().0, conv)?;
            let mut out = out.reborrow().slice_axis(0, images, 1)?;
            by_blocks(op, frame.view(), w, &sizes, WindowForm::InPlace, WeightOrder::ByTask, &mut out)?;
        }
        Ok(())
    })
}

/// How the windows of a convolution are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WindowForm {
    /// In place, as the left operand of a product.
    InPlace,
    /// As above, in a copy of some images surrounded by zeros; channels last on a device with tasks.
    Frames,
    /// Some elements of all windows after the others, in such a copy if there is padding.
    Taps,
}

/// The order of the weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WeightOrder {
    /// A product reads them as they are.
    Given,
    /// Each task orders the weights of its outputs.
    ByTask,
}

/// Convolves one block of the output after the other, as tasks of the device.
fn by_blocks<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    sizes: &ConvSizes<RANK, N>,
    form: WindowForm,
    order: WeightOrder,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let ConvSizes { conv, window, before, padded, .. } = *sizes;
    let (size, kernel) = (x.size().0, w.size().0);
    let is_padded = padded != size[2..];
    let has_tasks = x.device().task_nbytes().is_some();
    // Sums over taps are computed plane by plane.
    let (in_planes, is_channels_last) = (form == WindowForm::Taps && has_tasks, is_channels_last(x.layout()));
    let copies = is_padded || form == WindowForm::Frames || in_planes && is_channels_last;
    let format = if !in_planes && (form == WindowForm::Frames && has_tasks || is_channels_last) {
        Layout::with_channel_fastest
    } else {
        Layout::row_major
    };
    let block = block_sizes(x, w, sizes, form, order);
    out.reborrow().for_each_block(block, &|ranges, mut out| {
        let [images, outputs, rows] = [0, 1, 2].map(|axis| ranges[axis].clone());
        // Whole groups, or a part of one.
        let of_group = (kernel[0] / conv.groups).max(1);
        let groups = outputs.start / of_group..outputs.end.div_ceil(of_group);
        let conv = conv.groups(groups.len());
        let w = w.slice_axis(0, outputs, 1)?;
        let x =
            x.slice_axis(0, images, 1)?.slice_axis(1, groups.start * kernel[1]..groups.end * kernel[1], 1)?;
        // The rows of the input that these rows of windows read, and the padding before them.
        let first = rows.start * conv.stride[0];
        let end = first + rows.len().saturating_sub(1) * conv.stride[0] + sizes.reach(0);
        let inside = |at: usize| at.saturating_sub(before[0]).min(size[2]);
        let x = x.slice_axis(2, inside(first)..inside(end), 1)?;
        let (mut sizes, mut starts) = (padded, before);
        (sizes[0], starts[0]) = (end - first, before[0].saturating_sub(first).min(end - first));
        let frame =
            if copies { Some(padded_copy(op, x, sizes, starts, [1; N], format, T::zero())?) } else { None };
        let x = frame.as_ref().map_or(x, |frame| frame.view());
        if form == WindowForm::Taps {
            return sum_of_taps(x, w, &mut out, &conv, window);
        }
        let ordered = if order == WeightOrder::ByTask { Some(ordered(w)?) } else { None };
        let w = ordered.as_ref().map_or(w, |ordered| ordered.view());
        // SAFETY: (1) `ConvSizes` checked that the windows fit the padded input, of which these rows are a
        // part; (2) the channels were checked against the weights and the groups; the output is exclusive.
        unsafe { product(&mut out, x, w, conv) }
    })
}

/// The weights with the outputs innermost in memory, as a product reads its right operand; the other axes are
/// in the order of windows in channels-last images.
fn ordered<T: Number, const RANK: usize, D: Device>(
    w: TensorView<'_, T, RANK, D>,
) -> Result<Tensor<T, RANK, D>> {
    // The spatial axes, the inputs, the outputs; and the way back.
    let mut order: [usize; RANK] = std::array::from_fn(|place| (place + 2) % RANK);
    order[RANK - 2..].reverse();
    let mut back = order;
    for (place, &axis) in order.iter().enumerate() {
        back[axis] = place;
    }
    w.permuted(order)?.to_contiguous()?.into_permuted(back)
}

/// The sizes of the blocks of an output that are computed one by one: their images, or parts of one, and
/// their results fit in a cache together, or the weights of some outputs. They depend on sizes alone.
fn block_sizes<T: Number, D: Device, const RANK: usize, const N: usize>(
    x: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    sizes: &ConvSizes<RANK, N>,
    form: WindowForm,
    order: WeightOrder,
) -> [usize; RANK] {
    let (mut block, kernel, conv) = (sizes.out, w.size().0, &sizes.conv);
    let task_nbytes = x.device().task_nbytes();
    let plane = nbytes_of::<T>(&sizes.padded).max(1);
    let of_group = kernel[1].saturating_mul(plane);
    if order == WeightOrder::ByTask {
        // A block is a whole group, or a part of the only one.
        let of_output = nbytes_of::<T>(&kernel[1..]).max(1);
        let part = (ORDERED_WEIGHT_BYTES / 2 / of_output).max(1).next_multiple_of(ORDERED_OUTPUTS);
        block[1] = if conv.groups == 1 { part } else { kernel[0] / conv.groups };
        return block;
    }
    let copies = form == WindowForm::Frames || sizes.padded != x.size().0[2..];
    let nbytes = match task_nbytes {
        // The product packs the weights in each block.
        Some(_) if form == WindowForm::InPlace && nbytes_of::<T>(&kernel) > ORDERED_WEIGHT_BYTES => {
            LARGE_IMAGE_BLOCK_BYTES
        }
        Some(nbytes) => nbytes,
        None if !copies => return block,
        None => DEVICE_BLOCK_BYTES,
    };
    // Groups whose images are large are copied one by one.
    let mut image = of_group.saturating_mul(conv.groups);
    if form == WindowForm::Frames && task_nbytes.is_some() && of_group >= GROUP_IMAGE_BYTES {
        (block[1], image) = (kernel[0] / conv.groups, of_group);
    }
    if form == WindowForm::Taps && task_nbytes.is_some() {
        // The small planes of one channel are taken together.
        block[0] = (CHANNEL_BYTES / plane).clamp(1, block[0].max(1));
        block[1] = (nbytes / plane / block[0]).max(1);
        return block;
    }
    block[0] = (nbytes / image.max(1)).max(1);
    if block[0] > 1 || task_nbytes.is_none() {
        return block;
    }
    let row = nbytes_of::<T>(&sizes.padded[1..]).max(1).saturating_mul(image / plane);
    let (reach, stride) = (sizes.reach(0), conv.stride[0]);
    // At least as many rows as windows share with their neighbors: the copies of shared rows are few.
    block[2] = ((nbytes / row.max(1)).saturating_sub(reach) / stride + 1).max(reach.div_ceil(stride));
    block[2] = sizes.out[2].div_ceil(sizes.out[2].div_ceil(block[2]).max(1));
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
    // The padding of a convolution of `x` itself.
    let (mut before_x, mut after_x, mut is_plain) = ([0; N], [0; N], conv.stride == [1; N]);
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
            Some((reach, padded_size, [before, after], whole.checked_sub(before.checked_add(after)?)?))
        };
        let Some((reach, padded_size, [before, after], left)) = numbers() else {
            let padding = conv.padding[axis];
            return Err(wrong(format_args!(
                "axis {}: padding {padding} leaves nothing of {n} windows of {len}",
                axis + 2
            )));
        };
        is_plain &= before <= reach && after <= reach + extra[axis] && left > 0;
        (before_x[axis], after_x[axis]) =
            (reach.saturating_sub(before), (reach + extra[axis]).saturating_sub(after));
        (sizes[axis], starts[axis], out_size[axis + 2]) = (padded_size, reach, left);
        // One window for each element of the result.
        crops[axis] = before..before + left + reach;
        flipped = flipped.reversed_axis(axis + 2)?;
    }
    Dim(out_size).numel_of(op, size_of::<T>())?;
    let layout = ordered_layout(Dim(out_size), is_channels_last(x.layout()));
    destination.put(op, layout, x.device(), |out| {
        let mut copy = None;
        let w = with_outputs_first(op, flipped, groups, &mut copy)?;
        let plain = Conv::new().dilation(conv.dilation).groups(groups);
        if is_plain {
            return convolve(op, x, w, plain.padding_ends(before_x, after_x), Existing(out.reborrow()));
        }
        let images_per_block = images_per_block::<T, D>(x.device(), size[1], &sizes, nbytes_of::<T>(&kernel));
        for first in (0..size[0]).step_by(images_per_block) {
            let images = first..size[0].min(first + images_per_block);
            let out = out.reborrow().slice_axis(0, images.clone(), 1)?;
            let (x, format) = (x.slice_axis(0, images, 1)?, Layout::with_channel_fastest);
            let frame = padded_copy(op, x, sizes, starts, conv.stride, format, T::zero())?;
            let mut windows = frame.view();
            for axis in 0..N {
                windows = windows.slice_axis(axis + 2, crops[axis].clone(), 1)?;
            }
            convolve(op, windows, w, plain, Existing(out))?;
        }
        Ok(())
    })
}

/// The weights `[inputs, outputs / groups, …]` of a transposed convolution with the outputs first; `copy`
/// holds them if there are several groups of several channels.
fn with_outputs_first<'w, T: Number, const RANK: usize, D: Device>(
    op: &'static str,
    w: TensorView<'w, T, RANK, D>,
    groups: usize,
    copy: &'w mut Option<Tensor<T, RANK, D>>,
) -> Result<TensorView<'w, T, RANK, D>> {
    let (size, mut order) = (w.size().0, std::array::from_fn(|axis| axis));
    order.swap(0, 1);
    let (inputs, outputs) = (size[0] / groups, size[1]);
    if groups == 1 || inputs == 1 && outputs == 1 {
        return if groups == 1 { w.permuted(order) } else { Ok(w) };
    }
    let mut turned = size;
    (turned[0], turned[1]) = (outputs * groups, inputs);
    let copy = copy.insert(Tensor::uninit(op, Layout::row_major(Dim(turned)), w.device())?);
    for group in 0..groups {
        let part = w.slice_axis(0, group * inputs..(group + 1) * inputs, 1)?.permuted(order)?;
        copy.try_view_mut(op)?.slice_axis(0, group * outputs..(group + 1) * outputs, 1)?.assign(part)?;
    }
    Ok(copy.view())
}
