//! The backward pass of attention, for devices that record: scores are computed again, block by block.
// Imports: `error`, `dim`, `layout`, `device`, `tensor`, `expr`, `ops`.

use super::attention_scores::{
    Attention, AttentionFloat, FiniteOrZero, Masked, Normalized, Scaling, Weight, all_finite, mask_later_keys,
};
use super::rules::Flow;
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::{Dim, Last};
use crate::error::Result;
use crate::expr::{Elementwise as _, Zip as _};
use crate::layout::Layout;
use crate::ops::linalg::matmul::labelled;
use crate::ops::{Add, Cast as _, Reductions as _};
use crate::tensor::{Allocate, Destination, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// The most scores of a block, unless one head of keys has more for [`MIN_QUERIES`]: the four matrices of a
/// block stay in the second cache.
const SCORES: usize = 1 << 17;
const MIN_QUERIES: usize = 16;

/// Attention without a bias and a cap, on a device that records. `q` is `[b, h, queries, d]`, `k` and `v`
/// have `h` or fewer heads, and the mask has the sizes of the scores.
pub(super) fn attend_by_rule<T: AttentionFloat, D: Device, P: Destination<T, 4, D>>(
    op: &'static str,
    [q, k, v]: [TensorView<'_, T, 4, D>; 3],
    mask: Option<TensorView<'_, bool, 4, D>>,
    attention: Attention,
    destination: P,
) -> Result<P::Done> {
    let (Dim([b, h, queries, _]), Dim([.., e])) = (q.size(), v.size());
    let rule = AttentionRule::<T> { attention, element: PhantomData };
    let layout = Layout::row_major_of(op, Dim([b, h, queries, e]), size_of::<T>())?;
    destination.put(op, layout, q.device(), |out| {
        let mut operands = vec![q.rule_operand(), k.rule_operand(), v.rule_operand()];
        operands.extend(mask.as_ref().map(TensorView::rule_operand));
        q.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of attention. Its operands are queries, keys, values, and possibly a mask.
struct AttentionRule<T> {
    attention: Attention,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for AttentionRule<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for AttentionRule<T> {}

impl<T: AttentionFloat> Rule for AttentionRule<T> {
    const NAME: &'static str = "attention";
    const READS_RESULT: bool = false;
    type Saved<D: Device> = ();
    fn reads(of: usize) -> u64 {
        if of == 2 { 0b1011 } else { 0b1111 }
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let [q, k, v] = [inputs[0].view::<T, 4>()?, inputs[1].view()?, inputs[2].view()?];
        let mask = inputs.get(3).map(RuleOperand::view::<bool, 4>).transpose()?;
        q.attention_into(k, v, mask, self.attention, output.view_mut()?)
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let inputs = recorded.inputs;
        let [q, k, v] = [inputs[0].view::<T, 4>()?, inputs[1].view()?, inputs[2].view()?];
        let mask = inputs.get(3).map(RuleOperand::view::<bool, 4>).transpose()?;
        let gradient = recorded.gradient.view::<T, 4>()?;
        let mut out = [const { None }; 3];
        for (out, target) in out.iter_mut().zip(targets) {
            *out = target.map(RuleOutput::view_mut::<T, 4>).transpose()?;
        }
        let (Dim([batch, h, queries, d]), Dim([_, heads, keys, _])) = (q.size(), k.size());
        let scaling = Scaling::<T>::new("attention", self.attention, d)?;
        // A product multiplies hidden infinities by 0, which gives NaN. Visible ones give NaN to the weights.
        let may_hide = mask.is_some() || self.attention.causal;
        let has_infinities = may_hide && !(all_finite(q)? && all_finite(k)?);
        let row = keys.max(1).saturating_mul(h / heads.max(1));
        let span = (SCORES / row).clamp(MIN_QUERIES, queries.max(MIN_QUERIES));
        let group = (SCORES / row.saturating_mul(span).max(1)).clamp(1, heads.max(1));
        for image in 0..batch {
            for from in (0..heads).step_by(group) {
                let some = from..heads.min(from + group);
                let block = Block {
                    image,
                    some,
                    shared: h / heads,
                    scaling,
                    has_infinities,
                    span,
                    causal: self.attention.causal,
                };
                block.backward([q, k, v], mask, gradient, &mut out)?;
            }
        }
        Ok(())
    }
}

/// Some heads of keys of one image.
struct Block<T: AttentionFloat> {
    image: usize,
    some: std::ops::Range<usize>,
    /// The heads of queries that share a head of keys.
    shared: usize,
    scaling: Scaling<T>,
    /// Whether queries or keys that may be hidden are infinite or NaN.
    has_infinities: bool,
    /// The number of queries of which the scores are computed at once.
    span: usize,
    causal: bool,
}

impl<T: AttentionFloat> Block<T> {
    /// The part of an operand with the heads of keys: `[1, heads, …]`.
    fn of_keys<'x, D: Device>(&self, x: TensorView<'x, T, 4, D>) -> Result<TensorView<'x, T, 4, D>> {
        x.slice_axis(0, self.image..self.image + 1, 1)?.slice_axis(1, self.some.clone(), 1)
    }

    /// The part of an operand with the heads of queries: `[1, heads of keys, shared, queries, …]`.
    fn of_queries<'x, U, D: Device>(
        &self,
        x: TensorView<'x, U, 4, D>,
        queries: std::ops::Range<usize>,
    ) -> Result<TensorView<'x, U, 5, D>> {
        let heads = self.some.start * self.shared..self.some.end * self.shared;
        let x = x.slice_axis(0, self.image..self.image + 1, 1)?.slice_axis(1, heads, 1)?;
        let x = x.slice_axis(2, queries, 1)?;
        let Dim([.., n, m]) = x.size();
        x.reshape([1, self.some.len(), self.shared, n, m])
    }

    /// A copy with 0 for infinities and NaN, if there are any.
    fn finite<const RANK: usize, D: Device>(
        &self,
        x: TensorView<'_, T, RANK, D>,
    ) -> Result<Option<Tensor<T, RANK, D>>> {
        if self.has_infinities { x.map(FiniteOrZero).map(Some) } else { Ok(None) }
    }

    fn backward<D: Device>(
        &self,
        [q, k, v]: [TensorView<'_, T, 4, D>; 3],
        mask: Option<TensorView<'_, bool, 4, D>>,
        gradient: TensorView<'_, T, 4, D>,
        [to_q, to_k, to_v]: &mut [Option<TensorViewMut<'_, T, 4, D>>; 3],
    ) -> Result<()> {
        let op = "attention";
        let (queries, keys) = (q.size().0[2], k.size().0[2]);
        let (k, v) = (self.of_keys(k)?, self.of_keys(v)?);
        let sums = |x: &TensorView<'_, T, 4, D>| Tensor::<T::Score, 4, D>::zeros(x.size(), x.device());
        let wants = to_q.is_some() || to_k.is_some();
        let Scaling { query_factor: factor, scale, .. } = self.scaling;
        let mut of_k = if to_k.is_some() { Some(sums(&k)?) } else { None };
        let mut of_v = if to_v.is_some() { Some(sums(&v)?) } else { None };
        for first in (0..queries).step_by(self.span) {
            let end = queries.min(first + self.span);
            let seen = if self.causal { keys.min(end) } else { keys };
            let (q, g) = (self.of_queries(q, first..end)?, self.of_queries(gradient, first..end)?);
            let scaled = factor.map(|factor| (q.lazy() * factor).eval()).transpose()?;
            let q = scaled.as_ref().map_or(q, Tensor::view);
            let (k, v) = (k.slice_axis(2, 0..seen, 1)?, v.slice_axis(2, 0..seen, 1)?);
            let mut scores: Tensor<T::Score, 5, D> =
                labelled(op, [b"bhgqd", b"bhkd", b"bhgqk"], q, k, Allocate)?;
            if let Some(mask) = mask {
                scores.zip_in_place(Masked, self.of_queries(mask, first..end)?.slice_axis(4, 0..seen, 1)?)?;
            }
            if self.causal && seen > first {
                mask_later_keys(&mut scores, &(first..end), 0..seen)?;
            }
            // The weights of a query, which sum to 1, or to 0 if no key is visible.
            let powers = scores
                .lazy()
                .apply(Weight::<T::Score>(PhantomData), (scores.max_along(Last), scale))
                .cached();
            let weights =
                powers.apply(Normalized::<T::Score>(PhantomData), (powers.sum_along(Last),)).eval()?;
            drop(scores);
            if let Some(sum) = &mut of_v {
                let part: Tensor<T::Score, 4, D> =
                    labelled(op, [b"bhgqk", b"bhgqe", b"bhke"], weights.view(), g, Allocate)?;
                sum.view_mut()?.slice_axis(2, 0..seen, 1)?.zip_in_place(Add, &part)?;
            }
            if !wants {
                continue;
            }
            // The gradient of the weights, and of the scaled scores.
            let of_weights: Tensor<T::Score, 5, D> =
                labelled(op, [b"bhgqe", b"bhke", b"bhgqk"], g, v, Allocate)?;
            let common = weights.lazy().zip(Flow, &of_weights).sum_along(Last);
            let of_scores = (weights.lazy().zip(Flow, of_weights.lazy() - common) * scale).eval()?;
            if let Some(out) = to_q {
                let finite = self.finite(k)?;
                let k = finite.as_ref().map_or(k, Tensor::view);
                let part: Tensor<T::Score, 5, D> =
                    labelled(op, [b"bhgqk", b"bhkd", b"bhgqd"], of_scores.view(), k, Allocate)?;
                let heads = self.some.start * self.shared..self.some.end * self.shared;
                let out = out.reborrow().slice_axis(0, self.image..self.image + 1, 1)?;
                let out = out.slice_axis(1, heads, 1)?.slice_axis(2, first..end, 1)?;
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
                let out = out.reborrow().slice_axis(0, self.image..self.image + 1, 1)?;
                sum.lazy().cast::<T>().eval_into(out.slice_axis(1, self.some.clone(), 1)?)?;
            }
        }
        Ok(())
    }
}
