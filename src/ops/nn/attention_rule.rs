//! The backward pass of attention, for devices that record: scores are computed again, block by block.
// Imports: `error`, `dim`, `layout`, `device`, `tensor`, `expr`, `ops`.

use super::attention_scores::{
    Attention, AttentionFloat, BiasedScore, CapSlope, Capped, FiniteOrZero, Masked, Normalized, Scaling,
    Weight, mask_later_keys,
};
use super::rules::Flow;
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput};
use crate::dim::{Dim, Last, MarkedAxes};
use crate::error::Result;
use crate::expr::{Elementwise as _, Reduce as _, Zip as _, apply, apply_in_place};
use crate::layout::Layout;
use crate::ops::linalg::matmul::labelled;
use crate::ops::{Add, Cast as _, Mul, Reductions as _, Sum};
use crate::tensor::{Allocate, Destination, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// The most scores of a block, unless one head of keys has more for [`MIN_QUERIES`]: the four matrices of a
/// block stay in L2.
const SCORES: usize = 1 << 17;
/// The same on a device that names no size of its own: the four matrices take 256 MiB there.
const DEVICE_SCORES: usize = 1 << 24;
const MIN_QUERIES: usize = 16;
/// As many queries of a causal block still make large products.
const CAUSAL_QUERIES: usize = 64;

/// Hides keys or changes scores: a mask with the sizes of the scores, or a bias, whose sizes of 1 stretch.
pub(super) enum Change<'x, T, D: Device> {
    Mask(TensorView<'x, bool, 4, D>),
    Bias(TensorView<'x, T, 4, D>),
}

/// Attention on a device that records. `q` is `[b, h, queries, d]`; `k` and `v` have `h` or fewer heads.
pub(super) fn attend_by_rule<T: AttentionFloat, D: Device, P: Destination<T, 4, D>>(
    op: &'static str,
    [q, k, v]: [TensorView<'_, T, 4, D>; 3],
    change: Option<Change<'_, T, D>>,
    attention: Attention,
    destination: P,
) -> Result<P::Done> {
    let (Dim([b, h, queries, _]), Dim([.., e])) = (q.size(), v.size());
    let is_biased = matches!(change, Some(Change::Bias(_)));
    let rule = AttentionRule::<T> { attention, is_biased, element: PhantomData };
    let layout = Layout::row_major_of(op, Dim([b, h, queries, e]), size_of::<T>())?;
    destination.put(op, layout, q.device(), |out| {
        let mut operands = vec![q.rule_operand(), k.rule_operand(), v.rule_operand()];
        operands.extend(change.as_ref().map(|change| match change {
            Change::Mask(mask) => mask.rule_operand(),
            Change::Bias(bias) => bias.rule_operand(),
        }));
        q.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of attention. Its operands are queries, keys, values, and possibly a mask or a bias.
#[derive(Clone, Copy)]
struct AttentionRule<T> {
    attention: Attention,
    is_biased: bool,
    element: PhantomData<fn() -> T>,
}

impl<T: AttentionFloat> AttentionRule<T> {
    /// The mask or the bias.
    fn change<'x, D: Device>(&self, inputs: &[RuleOperand<'x, D>]) -> Result<Option<Change<'x, T, D>>> {
        let change = inputs.get(3).map(|change| match self.is_biased {
            true => change.view().map(Change::Bias),
            false => change.view().map(Change::Mask),
        });
        change.transpose()
    }
}

impl<T: AttentionFloat> OperatorRule for AttentionRule<T> {
    const NAME: &'static str = "attention";
    const READS_RESULT: bool = false;
    type Saved<D: Device> = ();
    fn reads(of: usize) -> u64 {
        if of == 2 { 0b1011 } else { 0b1111 }
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let [q, k, v] = [inputs[0].view::<T, 4>()?, inputs[1].view()?, inputs[2].view()?];
        let out = output.view_mut()?;
        match self.change(inputs)? {
            None => q.attention_into(k, v, None, self.attention, out),
            Some(Change::Mask(mask)) => q.attention_into(k, v, Some(mask), self.attention, out),
            Some(Change::Bias(bias)) => q.attention_biased_into(k, v, bias, self.attention, out),
        }
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let inputs = recorded.inputs;
        let operands = [inputs[0].view::<T, 4>()?, inputs[1].view()?, inputs[2].view()?];
        let [q, k, _] = operands;
        let change = self.change(inputs)?;
        let gradient = recorded.gradient.view::<T, 4>()?;
        let (mut out, mut bias) = ([const { None }; 3], None);
        for (at, target) in targets.into_iter().enumerate().filter(|(_, target)| target.is_some()) {
            *out.get_mut(at).unwrap_or(&mut bias) = target.map(RuleOutput::view_mut::<T, 4>).transpose()?;
        }
        let mut of_bias = match &bias {
            Some(bias) => Some(Tensor::<T::Score, 4, D>::zeros(bias.size(), bias.device())?),
            None => None,
        };
        let (Dim([batch, h, queries, d]), Dim([_, heads, keys, _])) = (q.size(), k.size());
        let scaling = Scaling::<T>::new("attention", self.attention, d)?;
        let row = keys.max(1).saturating_mul(h / heads.max(1));
        let scores = if q.device().task_nbytes().is_some() { SCORES } else { DEVICE_SCORES };
        let span = (scores / row).clamp(MIN_QUERIES, queries.max(MIN_QUERIES));
        // Later keys are left out block by block.
        let span = if self.attention.causal { span.min((keys / 4).max(CAUSAL_QUERIES)) } else { span };
        let fitting = scores / row.saturating_mul(span).max(1);
        let (group, some_images) = (fitting.clamp(1, heads.max(1)), (fitting / heads.max(1)).max(1));
        for first in (0..batch).step_by(some_images) {
            let images = first..batch.min(first + some_images);
            for from in (0..heads).step_by(group) {
                let (images, some) = (images.clone(), from..heads.min(from + group));
                let (shared, change, causal) = (h / heads, change.as_ref(), self.attention.causal);
                let block = KeyBlock { images, some, shared, scaling, change, span, causal };
                block.backward(operands, gradient, &mut out, &mut of_bias)?;
            }
        }
        match (bias, of_bias) {
            (Some(out), Some(sums)) => sums.lazy().cast::<T>().eval_into(out),
            _ => Ok(()),
        }
    }
}

/// Some heads of keys of some images.
struct KeyBlock<'x, T: AttentionFloat, D: Device> {
    images: Range<usize>,
    some: Range<usize>,
    /// The heads of queries that share a head of keys.
    shared: usize,
    scaling: Scaling<T>,
    change: Option<&'x Change<'x, T, D>>,
    /// The number of queries of which the scores are computed at once.
    span: usize,
    causal: bool,
}

/// The weights of some queries, which sum to 1, or to 0 if no key is visible.
struct Weights<S: AttentionFloat, D: Device> {
    weights: Tensor<S, 5, D>,
    /// The factor of the gradient of the last scores.
    scale: S,
    /// The gradient of the products by that of the last scores.
    slope: ScoreSlope<S, D>,
}

/// A derivative of the last scores by the products of queries and keys.
enum ScoreSlope<S: AttentionFloat, D: Device> {
    One,
    Scale(S),
    OfCap(Tensor<S, 5, D>),
}

impl<T: AttentionFloat, D: Device> KeyBlock<'_, T, D> {
    /// The part of an operand with the heads of keys: `[images, heads, …]`.
    fn of_keys<'x>(&self, x: TensorView<'x, T, 4, D>) -> Result<TensorView<'x, T, 4, D>> {
        x.slice_axis(0, self.images.clone(), 1)?.slice_axis(1, self.some.clone(), 1)
    }

    /// The heads of queries.
    fn heads(&self) -> Range<usize> {
        self.some.start * self.shared..self.some.end * self.shared
    }

    /// The part of an operand with the heads of queries: `[images, heads of keys, shared, queries, …]`.
    fn of_queries<'x, U>(
        &self,
        x: TensorView<'x, U, 4, D>,
        queries: Range<usize>,
    ) -> Result<TensorView<'x, U, 5, D>> {
        let x = x.slice_axis(0, self.images.clone(), 1)?.slice_axis(1, self.heads(), 1)?;
        let x = x.slice_axis(2, queries, 1)?;
        let Dim([.., n, m]) = x.size();
        x.reshape([self.images.len(), self.some.len(), self.shared, n, m])
    }

    /// A copy with 0 for infinities and NaN, if keys may be hidden: a product multiplies them by 0. Visible
    /// ones give NaN to the weights.
    fn finite<const RANK: usize>(&self, x: TensorView<'_, T, RANK, D>) -> Result<Option<Tensor<T, RANK, D>>> {
        (self.change.is_some() || self.causal).then(|| x.map(FiniteOrZero)).transpose()
    }

    /// The weights of `queries`, from their products with the first `seen` keys.
    fn weights(
        &self,
        mut scores: Tensor<T::Score, 5, D>,
        whole: Dim<4>,
        queries: Range<usize>,
        seen: usize,
    ) -> Result<Weights<T::Score, D>> {
        let Scaling { mut scale, cap, .. } = self.scaling;
        let mut slope = ScoreSlope::One;
        if let Some(cap) = cap {
            apply_in_place(Capped, (&mut scores,), (scale, cap))?;
            slope = ScoreSlope::OfCap(apply(CapSlope, (&scores, scale, cap))?);
            scale = Scaling::<T>::number(1.0);
        }
        match self.change {
            Some(Change::Bias(bias)) => {
                let bias = self.of_queries(bias.broadcast_to(whole)?, queries.clone())?;
                let bias = bias.slice_axis(4, 0..seen, 1)?;
                apply_in_place(BiasedScore::<T>(PhantomData), (&mut scores,), (bias, scale))?;
                if let ScoreSlope::One = slope {
                    slope = ScoreSlope::Scale(scale);
                }
                scale = Scaling::<T>::number(1.0);
            }
            Some(Change::Mask(mask)) => {
                let mask = self.of_queries(*mask, queries.clone())?.slice_axis(4, 0..seen, 1)?;
                scores.zip_in_place(Masked, mask)?;
            }
            None => {}
        }
        if self.causal && seen > queries.start {
            mask_later_keys(&mut scores, &queries, 0..seen)?;
        }
        let powers =
            scores.lazy().apply(Weight::<T::Score>(PhantomData), (scores.max_along(Last), scale)).cached();
        let weights = powers.apply(Normalized::<T::Score>(PhantomData), (powers.sum_along(Last),)).eval()?;
        Ok(Weights { weights, scale, slope })
    }

    /// Adds the gradient of scores to that of the bias, which has sizes of 1 where the bias is stretched.
    fn add_to_bias(
        &self,
        sums: &mut Tensor<T::Score, 4, D>,
        of_scores: TensorView<'_, T::Score, 5, D>,
        queries: Range<usize>,
    ) -> Result<()> {
        let Dim([_, _, _, n, seen]) = of_scores.size();
        let part = of_scores.reshape([self.images.len(), self.heads().len(), n, seen])?;
        let ranges = [self.images.clone(), self.heads(), queries, 0..seen];
        let marked = sums.size().0.map(|size| size == 1);
        let mut to = sums.view_mut()?;
        for (axis, range) in ranges.into_iter().enumerate().filter(|(axis, _)| !marked[*axis]) {
            to = to.slice_axis(axis, range, 1)?;
        }
        to.zip_in_place(Add, &part.reduce_keepdims(Sum, MarkedAxes { marked, missing: None })?)
    }

    fn backward(
        &self,
        [q, k, v]: [TensorView<'_, T, 4, D>; 3],
        gradient: TensorView<'_, T, 4, D>,
        [to_q, to_k, to_v]: &mut [Option<TensorViewMut<'_, T, 4, D>>; 3],
        of_bias: &mut Option<Tensor<T::Score, 4, D>>,
    ) -> Result<()> {
        let op = "attention";
        let (Dim([batch, h, queries, _]), Dim([.., keys, _])) = (q.size(), k.size());
        let whole = Dim([batch, h, queries, keys]);
        let (k, v) = (self.of_keys(k)?, self.of_keys(v)?);
        let finite = if to_q.is_some() { self.finite(k)? } else { None };
        let finite_k = finite.as_ref().map_or(k, Tensor::view);
        let sums = |x: &TensorView<'_, T, 4, D>| Tensor::<T::Score, 4, D>::zeros(x.size(), x.device());
        let wants = to_q.is_some() || to_k.is_some() || of_bias.is_some();
        let factor = self.scaling.query_factor;
        let mut of_k = if to_k.is_some() { Some(sums(&k)?) } else { None };
        let mut of_v = if to_v.is_some() { Some(sums(&v)?) } else { None };
        for first in (0..queries).step_by(self.span) {
            let end = queries.min(first + self.span);
            let seen = if self.causal { keys.min(end) } else { keys };
            let (q, g) = (self.of_queries(q, first..end)?, self.of_queries(gradient, first..end)?);
            let scaled = factor.map(|factor| (q.lazy() * factor).eval()).transpose()?;
            let q = scaled.as_ref().map_or(q, Tensor::view);
            let (k, v) = (k.slice_axis(2, 0..seen, 1)?, v.slice_axis(2, 0..seen, 1)?);
            let scores = labelled(op, [b"bhgqd", b"bhkd", b"bhgqk"], q, k, Allocate)?;
            let Weights { weights, scale, slope } = self.weights(scores, whole, first..end, seen)?;
            if let Some(sum) = &mut of_v {
                let part: Tensor<T::Score, 4, D> =
                    labelled(op, [b"bhgqk", b"bhgqe", b"bhke"], weights.view(), g, Allocate)?;
                sum.view_mut()?.slice_axis(2, 0..seen, 1)?.zip_in_place(Add, &part)?;
            }
            if !wants {
                continue;
            }
            // The gradient of the weights, of the last scores, and of the products.
            let of_weights: Tensor<T::Score, 5, D> =
                labelled(op, [b"bhgqe", b"bhke", b"bhgqk"], g, v, Allocate)?;
            let common = weights.lazy().zip(Flow, &of_weights).sum_along(Last);
            let mut of_scores = (weights.lazy().zip(Flow, of_weights.lazy() - common) * scale).eval()?;
            if let Some(sums) = of_bias {
                self.add_to_bias(sums, of_scores.view(), first..end)?;
            }
            match slope {
                ScoreSlope::One => {}
                ScoreSlope::Scale(scale) => of_scores.zip_in_place(Mul, scale)?,
                ScoreSlope::OfCap(slope) => of_scores.zip_in_place(Flow, &slope)?,
            }
            if let Some(out) = to_q {
                let k = finite_k.slice_axis(2, 0..seen, 1)?;
                let part: Tensor<T::Score, 5, D> =
                    labelled(op, [b"bhgqk", b"bhkd", b"bhgqd"], of_scores.view(), k, Allocate)?;
                let out = out.reborrow().slice_axis(0, self.images.clone(), 1)?;
                let out = out.slice_axis(1, self.heads(), 1)?.slice_axis(2, first..end, 1)?;
                let part = part.reshape(out.size())?.lazy().cast::<T>();
                match factor {
                    Some(factor) => (part * factor).eval_into(out)?,
                    None => part.eval_into(out)?,
                }
            }
            if let Some(sum) = &mut of_k {
                let finite = self.finite(q)?;
                let q = finite.as_ref().map_or(q, Tensor::view);
                let part: Tensor<T::Score, 4, D> =
                    labelled(op, [b"bhgqk", b"bhgqd", b"bhkd"], of_scores.view(), q, Allocate)?;
                sum.view_mut()?.slice_axis(2, 0..seen, 1)?.zip_in_place(Add, &part)?;
            }
        }
        for (out, sum) in [(to_k, of_k), (to_v, of_v)] {
            if let (Some(out), Some(sum)) = (out, sum) {
                let out = out.reborrow().slice_axis(0, self.images.clone(), 1)?;
                sum.lazy().cast::<T>().eval_into(out.slice_axis(1, self.some.clone(), 1)?)?;
            }
        }
        Ok(())
    }
}
