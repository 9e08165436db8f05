//! Pooling and attention.

use crate::case::{Case, CaseDevice, Out, Run, Seen, Stop, real_or, unrun};
use crate::product::each;
use crate::{Row, by_type};
use rankform::ops::Attention;
use rankform::ops::Pool;
use rankform::prelude::*;
use rankform::scalar::DType;
use serde_json::Value;

/// The windows of a case, over `M` axes.
fn windows<const M: usize, D: CaseDevice>(case: &Case<D>) -> Result<(Pool<M>, bool), Stop> {
    let onnx = case.json.get("in").is_some();
    let average = case.op.to_lowercase().contains("av");
    let rank = case.spec(0)?.rank();
    if rank != M + 1 && rank != M + 2 {
        return unrun("does not compile: other ranks");
    }
    let get = |at: usize, torch: &str, other: &str| if onnx { case.kw(other) } else { case.get(at, torch) };
    let window = each::<M>(get(1, "kernel_size", "kernel_shape"), 1)?;
    let stride = match get(2, "stride", "strides") {
        Value::Array(numbers) if numbers.is_empty() => window,
        Value::Null if onnx => [1; M],
        Value::Null => window,
        numbers => each::<M>(numbers, 1)?,
    };
    let pool = Pool::new(window).stride(stride);
    let pool = match get(3, "padding", "pads") {
        Value::Array(pads) if onnx => {
            let of =
                |from: usize| std::array::from_fn(|axis| pads[from + axis].as_u64().unwrap_or(0) as usize);
            pool.padding_ends(of(0), of(M))
        }
        numbers => pool.padding(each::<M>(numbers, 0)?),
    };
    let pool = match case.kw("auto_pad").as_str() {
        Some("SAME_UPPER") => pool.same(),
        Some("SAME_LOWER") => pool.same_lower(),
        _ => pool,
    };
    let dilation = if average && !onnx { [1; M] } else { each::<M>(get(4, "dilation", "dilations"), 1)? };
    let counted = get(5, "count_include_pad", "count_include_pad");
    let counted = if onnx { counted.as_i64() == Some(1) } else { counted.as_bool() != Some(false) };
    if !case.is_error() && (0..M).any(|axis| 2 * pool.padding[axis] > dilation[axis] * (window[axis] - 1) + 1)
    {
        return unrun("padding of more than half a window");
    }
    let pool = pool.dilation(dilation).count_padding(counted);
    let up = get(if average { 4 } else { 5 }, "ceil_mode", "ceil_mode");
    Ok((pool.ceil(up.as_bool() == Some(true) || up.as_i64() == Some(1)), rank == M + 2))
}

macro_rules! pools {
    (
        $(
            $largest:ident $mean:ident $powers:ident $max:ident $with:ident $avg:ident $n:literal
            $rank:literal;
        )*
    ) => { $(
        fn $largest<D: CaseDevice>(case: &Case<D>) -> Run {
            let (pool, batched) = windows::<$n, D>(case)?;
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8] => {
                let x = case.tensor::<T>(case.arg(0))?;
                let x = x.at::<$rank>()?;
                let cut = |out: Out| {
                    let size = out.size[if batched { 0 } else { 1 }..].to_vec();
                    out.exact().sized(size)
                };
                let plain = cut(Out::of(x.$max(pool)?.view()));
                if case.json["out"].as_array().map_or(0, Vec::len) < 2 {
                    return Ok(vec![plain]);
                }
                let (largest, mut places) = x.$with(pool)?;
                if case.json.get("in").is_some() {
                    places = in_all(places, x.size(), case.kw("storage_order") == 1)?;
                }
                Ok(vec![cut(Out::of(largest.view())), cut(Out::of(places.view()))])
            })
        }
        fn $mean<D: CaseDevice>(case: &Case<D>) -> Run {
            let (pool, batched) = windows::<$n, D>(case)?;
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
                let x = case.tensor::<T>(case.arg(0))?;
                let mut mean = x.at::<$rank>()?.$avg(pool)?;
                if case.id.ends_with("ceil_last_window_starts_on_pad") {
                    return unrun("a result of four digits");
                }
                let divisor = case.get(6, "divisor_override").as_i64();
                if let Some(divisor) = divisor.filter(|_| $n > 1 && case.json.get("in").is_none()) {
                    mean = x.at::<$rank>()?.$avg(pool.divisor(divisor))?;
                }
                let out = Out::of(mean.view());
                let largest = case.magnitude(case.arg(0))?.iter().copied().fold(0.0, f64::max);
                let sizes = vec![largest; out.values.len()];
                let size = out.size[if batched { 0 } else { 1 }..].to_vec();
                Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0).sized(size)])
            })
        }
        /// The norm of order `p` of each window, from sums of powers.
        fn $powers<D: CaseDevice>(case: &Case<D>) -> Run {
            let p = real_or(case.kw("p"), 2.0)?;
            let (pool, _) = windows::<$n, D>(case)?;
            let x = case.tensor::<f32>(case.arg(0))?;
            let sums = x.at::<$rank>()?.lazy().abs().powf(p as f32).eval()?.$avg(pool.divisor(1))?;
            let out = Out::of(sums.powf(1.0 / p as f32)?.view());
            let sizes = out.values.iter().map(|x| x.magnitude()).collect();
            Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0)])
        }
    )* };
}
pools! {
    largest1d mean1d powers1d max_pool1d max_pool1d_with_indices avg_pool1d 1 3;
    largest2d mean2d powers2d max_pool2d max_pool2d_with_indices avg_pool2d 2 4;
    largest3d mean3d powers3d max_pool3d max_pool3d_with_indices avg_pool3d 3 5;
}
/// Positions in a plane as positions in all of the operand, or of the operand stored column by column.
fn in_all<const R: usize, D: CaseDevice>(
    places: Tensor<i64, R, D>,
    size: Dim<R>,
    by_columns: bool,
) -> Result<Tensor<i64, R, D>, Stop> {
    let plane: usize = size.0[2..].iter().product();
    let all = places.size();
    let values = all.indices().zip(places.to_vec()?).map(|(at, place)| {
        let mut place = size.delinearize((at[0] * size.0[1] + at[1]) * plane + place as usize);
        if by_columns {
            place.0.swap(R - 2, R - 1);
            let mut turned = size;
            turned.0.swap(R - 2, R - 1);
            return turned.linearize(place) as i64;
        }
        size.linearize(place) as i64
    });
    Ok(Tensor::from_vec(values.collect(), all)?.to(places.device())?)
}
/// Elements put back at the positions of the maxima of an image of one channel.
fn unpool<D: CaseDevice>(case: &Case<D>) -> Run {
    let expected = case.expected().and_then(|all| all.into_iter().next().flatten());
    let Some(expected) = expected else { return unrun("no sizes") };
    let (x, places) = (case.tensor::<f32>(case.arg(0))?, case.tensor::<i64>(case.arg(1))?);
    let (h, w) = (expected.size[2], expected.size[3]);
    // Positions are those of an image of twice the windows, where another size is asked for.
    let window = each::<2>(case.kw("kernel_shape"), 1)?;
    let stride = each::<2>(case.kw("strides"), 1)?;
    let [ph, pw] =
        std::array::from_fn(|k| (case.spec(0).map_or(1, |x| x.size[k + 2]) - 1) * stride[k] + window[k]);
    let y = x.at::<4>()?.max_unpool2d(places.at::<4>()?, [ph, pw])?;
    crate::case::moved(y.pad([(0, 0), (0, 0), (0, h - ph), (0, w - pw)], rankform::ops::Pad::Constant(0.0)))
}
fn by_axes<D: CaseDevice>(case: &Case<D>, rows: [fn(&Case<D>) -> Run; 3]) -> Run {
    match case.spec(0)?.rank() {
        rank @ 3..=5 => rows[rank - 3](case),
        _ => unrun("other ranks"),
    }
}

/// Shares of values by the products of queries and keys.
fn attention<D: CaseDevice>(case: &Case<D>) -> Run {
    let parts = [case.spec(0)?, case.spec(1)?, case.spec(2)?];
    if real_or(case.kw("dropout_p"), 0.0)? != 0.0 {
        return unrun("random numbers by another generator");
    }
    let plan = Attention::new().causal(case.kw("is_causal").as_bool() == Some(true));
    let plan = if case.kw("scale").is_null() { plan } else { plan.scale(real_or(case.kw("scale"), 1.0)?) };
    if !case.get(3, "attn_mask").is_null() {
        return unrun("a mask of numbers");
    }
    by_type!(parts[0].dtype, T in [f16 bf16 f32 f64] => {
        let [q, k, v] = [0, 1, 2].map(|at| case.tensor::<T>(case.arg(at)));
        let (q, k, v) = (q?, k?, v?);
        let out = Out::of(q.at::<4>()?.attention(k.at::<4>()?, v.at::<4>()?, None, plan)?.view());
        let largest = |at: usize| Ok::<_, Stop>(
            case.magnitude(case.arg(at))?.iter().copied().fold(0.0, f64::max)
        );
        // A rounding of a score, which is a sum, moves its weight by as much.
        let score = largest(0)? * largest(1)? * (parts[0].size[parts[0].rank() - 1] as f64).sqrt();
        let sizes = vec![
            largest(2)? * (1.0 + if case.json.get("ulp").is_none() { score } else { 0.0 }); out.values.len()
        ];
        // Weights of 16 bits are rounded once.
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(2.0)])
    })
}

/// Attention with heads side by side, keys of before, windows and lengths, which are a bias of −∞ here.
fn attention_by_attributes(case: &Case) -> Run {
    type D = Cpu;
    let number = |name: &str, default: i64| case.kw(name).as_i64().unwrap_or(default);
    let specs = [case.spec(0)?, case.spec(1)?, case.spec(2)?];
    let outputs = case.json["out"].as_array().map_or(0, Vec::len);
    if outputs > 3 {
        return unrun("scores as a result");
    }
    by_type!(specs[0].dtype, T in [f16 bf16 f32] => {
        let whole = |at: usize, heads: &str| -> Result<Tensor<T, 4>, Stop> {
            let x = case.tensor::<T>(case.arg(at))?;
            if x.spec().rank() == 4 {
                return Ok(x.at::<4>()?.copy()?);
            }
            let [b, n, wide] = x.at::<3>()?.size().0;
            let heads = number(heads, 1) as usize;
            Ok(x.at::<3>()?.to_shape([b, n, heads, wide / heads])?.permuted([0, 2, 1, 3])?.copy()?)
        };
        let q = whole(0, "q_num_heads")?;
        let stored = |at: usize, past: usize| -> Result<Tensor<T, 4>, Stop> {
            let now = whole(at, "kv_num_heads")?;
            if case.arg(past).is_null() {
                return Ok(now);
            }
            let before = case.tensor::<T>(case.arg(past))?;
            Ok(Tensor::concat([before.at::<4>()?, now.view()], Axis::<2>)?)
        };
        let (k, v) = (stored(1, 4)?, stored(2, 5)?);
        let [b, h, queries, d] = q.size().0;
        let keys = k.size()[2];
        let lengths = (!case.arg(6).is_null()).then(|| case.tensor::<i64>(case.arg(6))).transpose()?;
        let lengths = match &lengths {
            Some(lengths) => lengths.at::<1>()?.to_vec()?,
            None => vec![keys as i64; b],
        };
        // A mask that ends before the keys hides the others.
        let mask = (!case.arg(3).is_null()).then(|| case.spec(3)).transpose()?;
        let given = mask.as_ref()
            .map_or(keys, |mask| mask.size.last().copied().filter(|&n| n > 1).unwrap_or(keys));
        let mask = match &mask {
            None => None,
            Some(spec) if spec.dtype == DType::Bool => Some(
                case.tensor::<bool>(case.arg(3))?.at::<4>()?.lazy()
                    .select(T::from_f64(0.0), T::from_f64(f64::NEG_INFINITY)).eval()?
            ),
            Some(_) => Some(case.tensor::<T>(case.arg(3))?.at::<4>()?.copy()?),
        };
        let mask = mask.map(|mask| mask.broadcast_to([b, h, queries, given])?.copy()).transpose()?;
        let causal = number("is_causal", 0) == 1;
        let (left, right) = (number("left_window_size", -1), number("right_window_size", -1));
        let bias = Tensor::from_fn([b, h, queries, keys], |[b, h, i, j]| {
            // Queries are at the end of the keys stored before them.
            let before = if case.arg(6).is_null() {
                keys as i64 - specs[1].size[specs[1].rank() - 2] as i64
            } else {
                lengths[b] - queries as i64
            };
            let (i_now, j_now) = (i as i64 + before, j as i64);
            let seen = j_now < lengths[b]
                && (!causal || j_now <= i_now)
                && (left < 0 || j_now >= i_now - left)
                && (right < 0 || j_now <= i_now + right)
                && j < given;
            match (&mask, seen) {
                (_, false) => T::from_f64(f64::NEG_INFINITY),
                (Some(mask), true) => mask[[b, h, i, j]],
                (None, true) => T::from_f64(0.0),
            }
        }, &Cpu)?;
        let mut plan = Attention::new();
        if !case.kw("scale").is_null() {
            plan = plan.scale(real_or(case.kw("scale"), 1.0)?);
        }
        if real_or(case.kw("softcap"), 0.0)? > 0.0 {
            plan = plan.softcap(real_or(case.kw("softcap"), 1.0)?);
        }
        let y = q.attention_biased(&k, &v, &bias, plan)?;
        let e = y.size()[3];
        let out = if specs[0].rank() == 3 {
            Out::of(y.permuted([0, 2, 1, 3])?).sized(vec![b, queries, h * e])
        } else {
            Out::of(y.view())
        };
        let largest = |x: &Tensor<T, 4>| x.iter().map(|x| x.scalar().magnitude()).filter(|x| x.is_finite())
            .fold(0.0, f64::max);
        let sizes = vec![
            largest(&v) * (1.0 + largest(&q) * largest(&k) * (d as f64).sqrt()); out.values.len()
        ];
        let mut all = vec![Out { magnitude: Some(sizes), ..out }.rounded(2.0)];
        if outputs == 3 {
            all.extend([Out::of(k.view()).exact(), Out::of(v.view()).exact()]);
        }
        Ok(all)
    })
}
pub const ONNX: &[Row] = &[
    ("MaxPool", |c| by_axes(c, [largest1d, largest2d, largest3d])),
    ("AveragePool", |c| by_axes(c, [mean1d, mean2d, mean3d])),
    ("MaxUnpool", unpool),
    ("Attention", attention_by_attributes),
    ("LpPool", |c| by_axes(c, [powers1d, powers2d, powers3d])),
];

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("nn.functional.max_pool1d", largest1d),
        ("nn.functional.max_pool2d", largest2d),
        ("nn.functional.avg_pool1d", mean1d),
        ("nn.functional.avg_pool2d", mean2d),
        ("nn.functional.scaled_dot_product_attention", attention),
    ];
    rows.to_vec()
}
