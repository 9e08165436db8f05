//! The backward pass of convolutions, for devices that record: a transposed convolution for the input, a
//! product of windows for the weights.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use super::conv::{convolve, convolve_transposed, weights_of};
use super::windows::Conv;
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::layout::Layout;
use crate::tensor::{Destination, Existing, TensorView, TensorViewMut};
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

impl<T: Number, const RANK: usize, const N: usize> Rule for ConvRule<T, RANK, N> {
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
