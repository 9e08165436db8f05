//! The backward pass of convolutions, for devices that record: a transposed convolution for the input, a
//! product of windows for the weights.
// Imports: `error`, `layout`, `element`, `device`, `tensor`.

use super::conv::{convolve, convolve_transposed, weights_of};
use super::windows::Conv;
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::element::Number;
use crate::error::Result;
use crate::layout::Layout;
use crate::tensor::{Destination, Existing, TensorView};
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
            // The elements behind the last window.
            let extra: [usize; N] = std::array::from_fn(|axis| {
                let reach = conv.dilation[axis] * (window[axis] - 1) + 1;
                let padded = x.size().0[axis + 2] + before[axis] + after[axis];
                (padded - reach) % conv.stride[axis]
            });
            convolve_transposed(op, gradient, w, conv.padding_ends(before, after), extra, Existing(out))?;
        }
        Ok(())
    }
}
