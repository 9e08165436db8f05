//! The backward pass of convolutions, for devices that record.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `ops`.

use super::depthwise::{is_depthwise, sums_by_taps};
use super::products::{to_windows, windows_by};
use super::{convolve, convolve_transposed, images_per_block};
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput, same_device};
use crate::dim::Dim;
use crate::element::{Compute, Number};
use crate::error::Result;
use crate::layout::Layout;
use crate::ops::Add;
use crate::ops::nn::windows::{Conv, ConvSizes, channels_error, padded_copy};
use crate::tensor::{Destination, Existing, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// A convolution on a device that records. The padding of `conv` is in numbers; `layout` is that of a new
/// result.
pub(super) fn convolve_by_rule<
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
    layout: Layout<RANK>,
    destination: P,
) -> Result<P::Done> {
    let rule = ConvRule::<T, RANK, N> { conv, element: PhantomData };
    destination.put(op, layout, x.device(), |out| {
        let operands = [x.rule_operand(), w.rule_operand()];
        x.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of a convolution of real numbers.
struct ConvRule<T, const RANK: usize, const N: usize> {
    conv: Conv<N>,
    element: PhantomData<fn() -> T>,
}

impl<T, const RANK: usize, const N: usize> Clone for ConvRule<T, RANK, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const RANK: usize, const N: usize> Copy for ConvRule<T, RANK, N> {}

impl<T: Number, const RANK: usize, const N: usize> OperatorRule for ConvRule<T, RANK, N> {
    const NAME: &'static str = "convolution";
    const READS_RESULT: bool = false;
    type Saved<D: Device> = ();
    fn reads(of: usize) -> u64 {
        if of == 0 { 0b10 } else { 0b01 }
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let [x, w] = [inputs[0].view::<T, RANK>()?, inputs[1].view()?];
        convolve(Self::NAME, x, w, self.conv, Existing(output.view_mut()?))
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let (op, conv) = (Self::NAME, self.conv);
        let [x, w] = [recorded.inputs[0].view::<T, RANK>()?, recorded.inputs[1].view()?];
        let gradient = recorded.gradient.view::<T, RANK>()?;
        let window = std::array::from_fn(|axis| w.size().0[axis + 2]);
        let [before, after] = conv.ends.resolve(&x.size().0, window, &conv);
        for (operand, target) in targets.into_iter().enumerate() {
            let Some(out) = target else { continue };
            let out = out.view_mut::<T, RANK>()?;
            if operand == 1 {
                weights_of(op, x, gradient, conv, out)?;
                continue;
            }
            let conv = conv.padding_ends(before, after);
            if conv.dilation == [1; N] && (0..N).all(|axis| window[axis] <= conv.stride[axis]) {
                input_of_separate(op, gradient, w, conv, [before, after], out)?;
                continue;
            }
            if conv.stride != [1; N] && conv.dilation == [1; N] {
                input_of_phases(op, gradient, w, conv, before, out)?;
                continue;
            }
            // The elements behind the last window.
            let extra: [usize; N] = std::array::from_fn(|axis| {
                let reach = conv.dilation[axis] * (window[axis] - 1) + 1;
                let padded = x.size().0[axis + 2] + before[axis] + after[axis];
                (padded - reach) % conv.stride[axis]
            });
            convolve_transposed(op, gradient, w, conv, extra, Existing(out))?;
        }
        Ok(())
    }
}

/// The gradient of the input of a convolution whose windows do not overlap: one product, written to them.
fn input_of_separate<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    gradient: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    [before, after]: [[usize; N]; 2],
    mut out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let size = out.size();
    let mut padded = size;
    for axis in 0..N {
        padded.0[axis + 2] += before[axis] + after[axis];
    }
    if padded == size {
        out.fill(T::zero())?;
        // SAFETY: (1) and (2) as in the forward pass, whose input had these sizes; (3) no window is longer
        // than its stride.
        return unsafe { to_windows(gradient, w, &conv, &mut out) };
    }
    let mut frame = Tensor::uninit(op, Layout::row_major_of(op, padded, size_of::<T>())?, out.device())?;
    frame.fill(T::zero())?;
    // SAFETY: as above, of the padded input.
    unsafe { to_windows(gradient, w, &conv, &mut frame.try_view_mut(op)?)? };
    let mut inside = frame.view();
    for axis in 0..N {
        inside = inside.slice_axis(axis + 2, before[axis]..before[axis] + size.0[axis + 2], 1)?;
    }
    out.assign(inside)
}

/// The gradient of the input of a convolution with strides, without dilation. Input elements whose distance
/// is a multiple of the stride, a phase, read the same elements of the windows: the gradient of a phase is a
/// transposed convolution without strides.
fn input_of_phases<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    gradient: TensorView<'_, T, RANK, D>,
    w: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    before: [usize; N],
    mut out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    out.fill(T::zero())?;
    let sizes: [usize; N] = std::array::from_fn(|axis| out.size().0[axis + 2]);
    let phases = Dim(std::array::from_fn::<usize, N, _>(|axis| conv.stride[axis].min(sizes[axis])));
    for phase in phases.indices() {
        let (mut part, mut taps) = (out.reborrow(), w);
        let (mut crop, mut behind, mut is_empty) = ([0; N], [0; N], false);
        for axis in 0..N {
            let (stride, length) = (conv.stride[axis], w.size().0[axis + 2]);
            let first = (phase[axis] + before[axis]) % stride;
            // The windows reach `whole` elements of the phase, of which the first ones are padding.
            crop[axis] = (phase[axis] + before[axis]) / stride;
            let count = length.saturating_sub(first).div_ceil(stride);
            let whole = (gradient.size().0[axis + 2] + count).saturating_sub(1);
            let own = (sizes[axis] - phase[axis]).div_ceil(stride).min(whole.saturating_sub(crop[axis]));
            is_empty |= count == 0 || own == 0;
            if is_empty {
                break;
            }
            behind[axis] = whole - crop[axis] - own;
            taps = taps.slice_axis(axis + 2, first..length, stride as isize)?;
            let end = phase[axis] + (own - 1) * stride + 1;
            part = part.slice_axis(axis + 2, phase[axis]..end, stride as isize)?;
        }
        if !is_empty {
            let plain = Conv::new().padding_ends(crop, behind).groups(conv.groups);
            convolve_transposed(op, gradient, taps, plain, [0; N], Existing(part))?;
        }
    }
    Ok(())
}

/// The product of the windows of `x` and `y`, a tensor of the sizes of the convolution's result, summed over
/// the windows: the gradient of the weights, if `y` is the gradient of the result.
fn weights_of<T: Number, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: TensorView<'_, T, RANK, D>,
    conv: Conv<N>,
    mut out: TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let (size, kernel) = (x.size().0, out.size().0);
    let sizes = ConvSizes::new(op, size, kernel, conv)?;
    if sizes.out != y.size().0 {
        return Err(channels_error(op, &kernel, size[1], conv.groups));
    }
    same_device(op, x.device(), y.device())?;
    if is_depthwise::<T, RANK, N>(kernel, &conv) {
        return sums_by_taps(op, x, y, &sizes, out);
    }
    // The outputs are the innermost axis of the sums, and of a copy of `y`; the channels that of a copy of
    // `x`. Images are next to it: then the positions of windows are long spans in memory.
    // A device without tasks reads windows of any strides.
    let has_tasks = x.device().task_nbytes().is_some();
    let format = if has_tasks { Layout::with_batch_and_channel_fastest } else { Layout::row_major };
    let is_framed = sizes.padded != size[2..] || has_tasks && x.stride().0[1] != 1;
    let mut order: [usize; RANK] = std::array::from_fn(|place| (place + 2) % RANK);
    order[RANK - 2..].reverse();
    let layout = Layout::dense(Dim(kernel), order);
    let mut sums = Tensor::<T, RANK, D>::uninit(op, layout, x.device())?;
    // Blocks are added in `T`: there are several only of elements that are their own accumulators.
    let in_blocks = is_framed && size_of::<T>() == size_of::<Compute<T>>();
    let w_nbytes = sums.numel().saturating_mul(size_of::<T>());
    let images_per_block = if in_blocks {
        images_per_block::<T, D>(x.device(), size[1], &sizes.padded, w_nbytes)
    } else {
        size[0].max(1)
    };
    for first in (0..size[0]).step_by(images_per_block) {
        let images = first..size[0].min(first + images_per_block);
        let (x, y) = (x.slice_axis(0, images.clone(), 1)?, y.slice_axis(0, images, 1)?);
        let copy = |x, sizes, starts| padded_copy(op, x, sizes, starts, [1; N], format, T::zero());
        let frame = if is_framed { Some(copy(x, sizes.padded, sizes.before)?) } else { None };
        let places = std::array::from_fn(|axis| y.size().0[axis + 2]);
        let ordered = if !has_tasks || y.stride().0[1] == 1 { None } else { Some(copy(y, places, [0; N])?) };
        let x = frame.as_ref().map_or(x, |frame| frame.view());
        let y = ordered.as_ref().map_or(y, |ordered| ordered.view());
        // SAFETY: `ConvSizes` checked that every window lies inside the padded input, and that the channels
        // of all operands agree.
        let sum = |out: &mut TensorViewMut<'_, T, RANK, D>| unsafe { windows_by(x, y, &sizes.conv, out) };
        if first == 0 {
            sum(&mut sums.try_view_mut(op)?)?;
            continue;
        }
        let mut part = Tensor::<T, RANK, D>::uninit(op, layout, x.device())?;
        sum(&mut part.try_view_mut(op)?)?;
        sums.zip_in_place(Add, &part)?;
    }
    if size[0] == 0 { out.fill(T::zero()) } else { out.assign(&sums) }
}
