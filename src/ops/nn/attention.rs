//! Scaled dot-product attention in blocks of queries; the full matrix of scores is never allocated.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::attention_rule::{Change, attend_by_rule};
use super::attention_scores::{
    AddInfinity, Attention, AttentionFloat, BiasedScore, Capped, FiniteOrZero, IsInfinityOrNan, IsVisible,
    Masked, Normalized, Rescaled, Scaling, Weight, all_finite, mask_later_keys,
};
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::expr::{Elementwise as _, IntoView, apply, apply_in_place, apply_into};
use crate::layout::Layout;
use crate::ops::linalg::matmul::labelled;
use crate::ops::methods::methods_with_into;
use crate::ops::{Cast as _, Maximum, Reductions as _};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// Values of which some are infinite or NaN, split: the finite ones, and masks of the others, which are added
/// for the queries that attend to them.
struct Infinities<T, D: Device> {
    finite: Tensor<T, 4, D>,
    above: Tensor<f32, 4, D>,
    below: Tensor<f32, 4, D>,
}

impl<T: AttentionFloat, D: Device> Infinities<T, D> {
    fn of(v: TensorView<'_, T, 4, D>) -> Result<Self> {
        Ok(Infinities {
            finite: v.map(FiniteOrZero)?,
            above: v.map(IsInfinityOrNan::<1>)?,
            below: v.map(IsInfinityOrNan::<-1>)?,
        })
    }

    /// Adds the infinities of the first `seen` keys to the rows of queries that attend to them, of a block of
    /// the result.
    fn add(
        &self,
        op: &'static str,
        visible: &Tensor<f32, 5, D>,
        ranges: &[Range<usize>; 5],
        seen: usize,
        out: &mut TensorViewMut<'_, T, 5, D>,
    ) -> Result<()> {
        let count = |ones: &Tensor<f32, 4, D>| -> Result<Tensor<f32, 5, D>> {
            labelled(
                op,
                [b"bhgqk", b"bhke", b"bhgqe"],
                visible.view(),
                part_of_heads(ones.view(), ranges, 0..seen)?,
                Allocate,
            )
        };
        out.zip_in_place(AddInfinity::<1>, &count(&self.above)?)?;
        out.zip_in_place(AddInfinity::<-1>, &count(&self.below)?)
    }
}

/// The most scores of a block of queries, unless the block has only `MIN_BLOCK_QUERIES`, on a device that
/// names no size of its own: products of 128 queries of each of 128 heads occupy a GPU.
const SCORES_PER_BLOCK: usize = 1 << 25;
const MIN_BLOCK_QUERIES: usize = 16;
/// Causal queries on such a device have at least so many blocks, of at least so many queries.
const CAUSAL_BLOCKS: usize = 8;
const CAUSAL_QUERIES: usize = 64;
/// The most queries and keys of a block on other devices: keys are packed once for all queries of a block.
const BLOCK_QUERIES: usize = 128;
const BLOCK_KEYS: usize = 512;

methods_with_into! {
    [[T: AttentionFloat,] T, 4 -> T]
    /// Scaled dot-product attention: `softmax(scale · q · kᵀ) · v` for every batch and head.
    ///
    /// Numerically stable: the largest score of each query is subtracted before `exp`. Scores and sums are
    /// f32 (f64 for f64); 16-bit weights are rounded once before they multiply `v`. The result of a query
    /// with no visible key is 0. Infinities and NaN in values hidden from a query do not reach its result;
    /// those of a visible key do, however small its weight.
    ///
    /// # Shapes
    /// `q [b, h, queries, d]`, `k [b, g, keys, d]`, `v [b, g, keys, e]` → `[b, h, queries, e]`; sizes of 1 of
    /// `b`, `h` and `g` stretch, in any operand. If `h` is a multiple of `g`, each head of keys and values is
    /// shared by `h / g` consecutive heads of queries: grouped-query attention. `mask [b, h, queries, keys]`
    /// is `true` for visible keys; its sizes of 1 stretch.
    ///
    /// # Cost
    /// Two products. If keys are hidden, a check of the result, which synchronizes with the device. Queries
    /// are processed in blocks. The allocations are the scores of one block, a sum for each query, and on the
    /// CPU a transposed copy of the keys: memory grows with the number of keys, not with the product of keys
    /// and queries. With `causal`, keys that no query of a block attends to are skipped.
    ///
    /// # Errors
    /// [`Error::Inner`] when `d` differs, [`Error::Sizes`] for other sizes, [`Error::Value`] unless the scale
    /// is positive, [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Attention;
    /// let q = Tensor::<f32, 4>::ones([2, 4, 10, 8], &Cpu)?;
    /// let v = Tensor::from_fn([2, 1, 10, 3], |[_, _, key, _]| key as f32, &Cpu)?;
    /// let y = q.attention(&q, &v, None, Attention::new().causal(true))?; // the mean of the visible keys
    /// assert_eq!((y.size(), y[[0, 0, 0, 0]], y[[1, 3, 9, 2]]), (dim![2, 4, 10, 3], 0.0, 4.5));
    ///
    /// let k = Tensor::ones([2, 2, 10, 8], &Cpu)?;
    /// let v = Tensor::from_fn([1, 2, 10, 1], |[_, head, ..]| head as f32, &Cpu)?;
    /// let y = q.attention(&k, &v, None, Attention::new())?; // two heads of keys for four of queries
    /// assert_eq!(y.slice((1, .., 0, 0))?.to_vec()?, [0.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// Vaswani et al. 2017; Ainslie et al. 2023 for grouped queries; Milakov, Gimelshein 2018 for the blocks.
    fn attention, attention_into ['b](
        keys: impl IntoView<'b, T, 4, D>,
        values: impl IntoView<'b, T, 4, D>,
        mask: Option<TensorView<'_, bool, 4, D>>,
        attention: Attention
    ) -> 4
    where [T: 'b, D: 'b]
    = |op, x, place| attend(op, [x, keys.into_view(), values.into_view()], (mask, None), attention, place);

    /// [`attention`](Tensor::attention) with a number added to each scaled score:
    /// `softmax(scale · q · kᵀ + bias) · v`, for relative positions. A bias of −∞ hides a key.
    ///
    /// # Shapes
    /// As there; `bias [b, h, queries, keys]`, whose sizes of 1 stretch.
    ///
    /// # Cost
    /// As there, and one pass over the scores.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let q = Tensor::<f64, 4>::zeros([1, 1, 1, 4], &Cpu)?;
    /// let v = Tensor::from([[[[1.0], [5.0], [9.0]]]]);
    /// let bias = Tensor::from([[[[0.0, f64::ln(3.0), f64::NEG_INFINITY]]]]);
    /// let y = q.attention_biased(&Tensor::zeros([1, 1, 3, 4], &Cpu)?, &v, &bias, Attention::new())?;
    /// assert!((y.item()? - 4.0).abs() < 1e-14); // (1 · 1 + 3 · 5) / 4
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `attn_mask` of numbers; Press et al. 2022.
    #[doc(alias = "attn_mask")]
    fn attention_biased, attention_biased_into ['b](
        keys: impl IntoView<'b, T, 4, D>,
        values: impl IntoView<'b, T, 4, D>,
        bias: impl IntoView<'b, T, 4, D>,
        attention: Attention
    ) -> 4
    where [T: 'b, D: 'b]
    = |op, x, place| {
        let operands = [x, keys.into_view(), values.into_view()];
        attend(op, operands, (None, Some(bias.into_view())), attention, place)
    };
}

/// A mask or bias, broadcast to the sizes of the scores.
fn broadcast_to_scores<'x, T, D: Device>(
    op: &'static str,
    x: TensorView<'x, T, 4, D>,
    device: &D,
    whole: Dim<4>,
) -> Result<TensorView<'x, T, 4, D>> {
    same_device(op, device, x.device())?;
    x.ensure_allocated(op)?;
    x.broadcast_to(whole).map_err(|error| error.with_op(op))
}

/// The joint size of the batch, the number of heads of keys and values, and the number of heads of queries
/// that share one of them.
fn joint_heads(op: &'static str, q: Dim<4>, k: Dim<4>, v: Dim<4>) -> Result<[usize; 3]> {
    let (Dim([qb, qh, _, d]), Dim([kb, kh, count, kd]), Dim([vb, vh, vcount, _])) = (q, k, v);
    if kd != d {
        return Err(Error::Inner { op, inner: [d, kd], left: q.0.into(), right: k.0.into() });
    }
    let sizes_error =
        |left: Dim<4>, right: Dim<4>| Error::Sizes { op, left: left.0.into(), right: right.0.into() };
    let joint = |a: usize, b: usize| if a == b || b == 1 { Some(a) } else { (a == 1).then_some(b) };
    let both = (joint(kb, vb), joint(kh, vh), vcount == count);
    let (Some(stored), Some(heads), true) = both else { return Err(sizes_error(k, v)) };
    let group = if qh == 1 || heads == 0 { 1 } else { qh / heads };
    let (Some(b), true) = (joint(qb, stored), qh == 1 || qh == group * heads) else {
        return Err(sizes_error(q, if kb == stored && kh == heads { k } else { v }));
    };
    Ok([b, heads, group])
}

fn attend<T: AttentionFloat, D: Device, P: Destination<T, 4, D>>(
    op: &'static str,
    [q, k, v]: [TensorView<'_, T, 4, D>; 3],
    (mask, bias): (Option<TensorView<'_, bool, 4, D>>, Option<TensorView<'_, T, 4, D>>),
    attention: Attention,
    destination: P,
) -> Result<P::Done> {
    same_device(op, q.device(), k.device())?;
    same_device(op, q.device(), v.device())?;
    for operand in [q, k, v] {
        operand.ensure_allocated(op)?;
    }
    let [b, heads, group] = joint_heads(op, q.size(), k.size(), v.size())?;
    let (h, Dim([.., queries, d]), Dim([.., count, e])) = (group * heads, q.size(), v.size());
    let (whole, parts) = (Dim([b, h, queries, count]), Dim([b, heads, group, queries, count]));
    let mask = mask.map(|mask| broadcast_to_scores(op, mask, q.device(), whole)).transpose()?;
    let stretched = bias.map(|bias| broadcast_to_scores(op, bias, q.device(), whole)).transpose()?;
    if const { D::RECORDS } && count > 0 {
        let operands = [
            q.broadcast_to([b, h, queries, d])?,
            k.broadcast_to([b, heads, count, d])?,
            v.broadcast_to([b, heads, count, e])?,
        ];
        let change = mask.map(Change::Mask).or(bias.map(Change::Bias));
        return attend_by_rule(op, operands, change, attention, destination);
    }
    let mask = mask.map(|mask| mask.reshape(parts)).transpose().map_err(|error| error.with_op(op))?;
    let bias = stretched.map(|bias| bias.reshape(parts)).transpose().map_err(|error| error.with_op(op))?;
    let scaling = Scaling::<T>::new(op, attention, d)?;
    let (block, key_block) = block_sizes::<T, D>(q.device(), parts, e, attention.causal);
    // Keys that several blocks of queries multiply are transposed once.
    let transposed = if block[3] < queries && q.device().task_nbytes().is_some() {
        Some(k.permuted([0, 1, 3, 2])?.to_contiguous()?)
    } else {
        None
    };
    let k = match &transposed {
        Some(k) => k.permuted([0, 1, 3, 2])?,
        None => k,
    };
    let call = AttentionCall {
        op,
        q: q.broadcast_to([b, h, queries, d])?.reshape([b, heads, group, queries, d])?,
        k: k.broadcast_to([b, heads, count, d])?,
        v: v.broadcast_to([b, heads, count, e])?,
        mask,
        bias,
        is_causal: attention.causal,
        scaling,
    };
    let (size, v) = (Dim([b, h, queries, e]), call.v);
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, q.device(), |out| {
        if count == 0 {
            return out.fill(T::zero());
        }
        let (may_hide, mut hidden) = (mask.is_some() || bias.is_some() || attention.causal, None);
        let mut out = out.reborrow().reshape([b, heads, group, queries, e])?;
        loop {
            // Infinities are split off for all keys of a query together.
            let key_block = if hidden.is_some() { count } else { key_block };
            out.reborrow()
                .for_each_block(block, &|ranges, out| call.block(ranges, key_block, &hidden, out))?;
            // The product multiplies hidden infinities by 0, which gives NaN; then it is repeated with the
            // infinities split off.
            if hidden.is_some() || !may_hide || all_finite(out.as_view())? || all_finite(v)? {
                return Ok(());
            }
            hidden = Some(Infinities::of(v)?);
            // On a tape no gradient flows to the first attempt.
            out.fill(T::zero())?;
        }
    })
}

/// The sizes of blocks of the result, whose axes are batch, heads, queries of a head of keys, queries and
/// elements, and the number of keys that a block takes at a time: the scores of a block stay in a cache. They
/// depend on sizes alone.
fn block_sizes<T: AttentionFloat, D: Device>(
    device: &D,
    Dim([b, heads, group, queries, count]): Dim<5>,
    e: usize,
    is_causal: bool,
) -> ([usize; 5], usize) {
    let Some(nbytes) = device.task_nbytes() else {
        let row = b.saturating_mul(heads * group).saturating_mul(count).max(1);
        // A block of causal queries sees the keys up to its last query: the products of later ones are left
        // out.
        let most = if is_causal { (queries / CAUSAL_BLOCKS).max(CAUSAL_QUERIES) } else { queries };
        let rows = (SCORES_PER_BLOCK / row).min(most).max(MIN_BLOCK_QUERIES);
        return ([b, heads, group, rows, e], count);
    };
    let keys = count.div_ceil(count.div_ceil(BLOCK_KEYS).max(1)).max(1);
    let rows = (nbytes / size_of::<T::Score>() / keys).max(1);
    let group = group.max(1);
    let block_queries = (rows / group).clamp(MIN_BLOCK_QUERIES, BLOCK_QUERIES).min(queries.max(1));
    let block_heads = (rows / (group * block_queries)).clamp(1, heads.max(1));
    let batches = if block_heads == heads { rows / (group * block_queries * heads).max(1) } else { 1 };
    ([batches.max(1), block_heads, group, block_queries, e], keys)
}

/// The operands of one call: queries `[b, heads, group, queries, d]`, keys and values `[b, heads, keys, …]`,
/// and what changes the scores, with their sizes.
struct AttentionCall<'x, T: AttentionFloat, D: Device> {
    op: &'static str,
    q: TensorView<'x, T, 5, D>,
    k: TensorView<'x, T, 4, D>,
    v: TensorView<'x, T, 4, D>,
    mask: Option<TensorView<'x, bool, 5, D>>,
    bias: Option<TensorView<'x, T, 5, D>>,
    is_causal: bool,
    scaling: Scaling<T>,
}

/// The sums over some keys: the largest score of each query, the sum of weights relative to it, and the sums
/// of weighted values.
struct Sums<S: Float, D: Device> {
    largest: Tensor<S, 4, D>,
    total: Tensor<S, 4, D>,
    values: Tensor<S, 5, D>,
}

impl<T: AttentionFloat, D: Device> AttentionCall<'_, T, D> {
    /// Computes a block of the result, `key_block` keys at a time.
    fn block(
        &self,
        ranges: [Range<usize>; 5],
        key_block: usize,
        hidden: &Option<Infinities<T, D>>,
        mut out: TensorViewMut<'_, T, 5, D>,
    ) -> Result<()> {
        let [batches, heads, _, queries, _] = &ranges;
        let seen = if self.is_causal { self.k.size().0[2].min(queries.end) } else { self.k.size().0[2] };
        let q = self.q.slice_axis(0, batches.clone(), 1)?.slice_axis(1, heads.clone(), 1)?;
        let q = q.slice_axis(3, queries.clone(), 1)?;
        let scaled = self.scaling.query_factor.map(|factor| (q.lazy() * factor).eval()).transpose()?;
        let q = scaled.as_ref().map_or(q, Tensor::view);
        let v = hidden.as_ref().map_or(self.v, |hidden| hidden.finite.view());
        let mut sums: Option<Sums<T::Score, D>> = None;
        for first in (0..seen).step_by(key_block) {
            let keys = first..seen.min(first + key_block);
            let (scores, scale) = self.scores(q, &ranges, keys.clone())?;
            let mut largest = scores.max(Axis::<4>)?;
            if let Some(before) = &sums {
                largest.zip_in_place(Maximum, &before.largest)?;
            }
            let visible = hidden.as_ref().map(|_| scores.map(IsVisible)).transpose()?;
            let weights: Tensor<T, 5, D> =
                apply(Weight::<T>(PhantomData), (&scores, largest.insert_axis(Axis::<4>), scale))?;
            drop(scores);
            let total = weights.lazy().cast::<T::Score>().sum(Axis::<4>)?;
            let v = part_of_heads(v, &ranges, keys)?;
            let labels: [&[u8]; 3] = [b"bhgqk", b"bhke", b"bhgqe"];
            let values: Tensor<T::Score, 5, D> = labelled(self.op, labels, weights.view(), v, Allocate)?;
            sums = Some(match sums {
                None => Sums { largest, total, values },
                Some(before) => before.then(Sums { largest, total, values }, scale)?,
            });
            if let (Some(hidden), Some(visible), Some(sums)) = (hidden, visible, &sums) {
                sums.normalize::<T>(out.reborrow())?;
                return hidden.add(self.op, &visible, &ranges, seen, &mut out);
            }
        }
        match sums {
            Some(sums) => sums.normalize::<T>(out),
            None => out.fill(T::zero()),
        }
    }

    /// The scores of a block of queries and some keys, −∞ where a key is hidden, and the scale that their
    /// differences have.
    fn scores(
        &self,
        q: TensorView<'_, T, 5, D>,
        ranges: &[Range<usize>; 5],
        keys: Range<usize>,
    ) -> Result<(Tensor<T::Score, 5, D>, T::Score)> {
        let Scaling { mut scale, cap, .. } = self.scaling;
        let (queries, k) = (&ranges[3], part_of_heads(self.k, ranges, keys.clone())?);
        let labels: [&[u8]; 3] = [b"bhgqd", b"bhkd", b"bhgqk"];
        let mut scores: Tensor<T::Score, 5, D> = labelled(self.op, labels, q, k, Allocate)?;
        if let Some(cap) = cap {
            apply_in_place(Capped, (&mut scores,), (scale, cap))?;
            scale = Scaling::<T>::number(1.0);
        }
        if let Some(bias) = self.bias {
            let bias = part_of_scores(bias, ranges, keys.clone())?;
            apply_in_place(BiasedScore::<T>(PhantomData), (&mut scores,), (bias, scale))?;
            scale = Scaling::<T>::number(1.0);
        }
        if let Some(mask) = self.mask {
            scores.zip_in_place(Masked, part_of_scores(mask, ranges, keys.clone())?)?;
        }
        if self.is_causal && keys.end > queries.start {
            mask_later_keys(&mut scores, queries, keys)?;
        }
        Ok((scores, scale))
    }
}

impl<S: AttentionFloat<Score = S>, D: Device> Sums<S, D> {
    /// The sums over more keys. The largest scores of `later` are those of all keys.
    fn then(self, later: Self, scale: S) -> Result<Self> {
        let Sums { largest, mut total, mut values } = self;
        let factor: Tensor<S, 4, D> = apply(Weight::<S>(PhantomData), (&largest, &later.largest, scale))?;
        apply_in_place(Rescaled, (&mut total,), (&factor, &later.total))?;
        apply_in_place(Rescaled, (&mut values,), (factor.insert_axis(Axis::<4>), &later.values))?;
        Ok(Sums { largest: later.largest, total, values })
    }

    /// Writes the weighted means of the values.
    fn normalize<T: AttentionFloat<Score = S>>(&self, out: TensorViewMut<'_, T, 5, D>) -> Result<()> {
        apply_into(Normalized::<T>(PhantomData), (&self.values, self.total.insert_axis(Axis::<4>)), out)
    }
}

/// The keys or values of a block of the result.
fn part_of_heads<'x, T, D: Device>(
    x: TensorView<'x, T, 4, D>,
    [batches, heads, ..]: &[Range<usize>; 5],
    keys: Range<usize>,
) -> Result<TensorView<'x, T, 4, D>> {
    x.slice_axis(0, batches.clone(), 1)?.slice_axis(1, heads.clone(), 1)?.slice_axis(2, keys, 1)
}

/// The part of a mask or bias that belongs to a block of queries and some keys.
fn part_of_scores<'x, T, D: Device>(
    x: TensorView<'x, T, 5, D>,
    [batches, heads, _, queries, _]: &[Range<usize>; 5],
    keys: Range<usize>,
) -> Result<TensorView<'x, T, 5, D>> {
    let x = x.slice_axis(0, batches.clone(), 1)?.slice_axis(1, heads.clone(), 1)?;
    x.slice_axis(3, queries.clone(), 1)?.slice_axis(4, keys, 1)
}
