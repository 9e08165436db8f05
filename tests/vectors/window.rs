//! Pooling and attention.

use crate::case::{Case, Out, Run, Seen, Stop, real_or, unrun};
use crate::judge;
use crate::product::each;
use crate::{Row, by_type};
use rankform::ops::attention::Attention;
use rankform::ops::pool::Pool;
use rankform::prelude::*;
use serde_json::Value;

/// The windows of a case, over `M` axes.
fn windows<const M: usize>(case: &Case) -> Result<(Pool<M>, bool), Stop> {
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
    let padding = match get(3, "padding", "pads") {
        Value::Array(pads) if onnx => {
            if pads[..M] != pads[M..] {
                return unrun("padding that is not the same at both ends");
            }
            std::array::from_fn(|axis| pads[axis].as_u64().unwrap_or(0) as usize)
        }
        numbers => each::<M>(numbers, 0)?,
    };
    if case.kw("auto_pad").as_str().is_some_and(|word| word != "NOTSET") {
        return unrun("padding from sizes");
    }
    let dilation = if average && !onnx { [1; M] } else { each::<M>(get(4, "dilation", "dilations"), 1)? };
    let counted = get(5, "count_include_pad", "count_include_pad");
    let counted = if onnx { counted.as_i64() == Some(1) } else { counted.as_bool() != Some(false) };
    if !case.is_error() && (0..M).any(|axis| 2 * padding[axis] > dilation[axis] * (window[axis] - 1) + 1) {
        return unrun("padding of more than half a window");
    }
    let pool = Pool::new(window).stride(stride).padding(padding).dilation(dilation).count_padding(counted);
    let up = get(if average { 4 } else { 5 }, "ceil_mode", "ceil_mode");
    Ok((pool.ceil(up.as_bool() == Some(true) || up.as_i64() == Some(1)), rank == M + 2))
}

macro_rules! pools {
    ($($largest:ident $mean:ident $max:ident $avg:ident $n:literal $rank:literal;)*) => { $(
        fn $largest(case: &Case) -> Run {
            let (pool, batched) = windows::<$n>(case)?;
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8] => {
                let out = Out::of(case.tensor::<T>(case.arg(0))?.at::<$rank>()?.$max(pool)?.view()).exact();
                let size = out.size[if batched { 0 } else { 1 }..].to_vec();
                let out = out.sized(size);
                if case.json["out"].as_array().map_or(0, Vec::len) > 1 {
                    // The values are compared all the same.
                    judge::one(case, 0, &out).or_else(|wrong| case.complain(wrong))?;
                    return unrun("where the largest stand");
                }
                Ok(vec![out])
            })
        }
        fn $mean(case: &Case) -> Run {
            let (pool, batched) = windows::<$n>(case)?;
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
                let x = case.tensor::<T>(case.arg(0))?;
                let mut mean = x.at::<$rank>()?.$avg(pool)?;
                if case.id.ends_with("ceil_last_window_starts_on_pad") {
                    return unrun("a result of four digits");
                }
                if let Some(divisor) = case.get(6, "divisor_override").as_f64().filter(|_| $n > 1 && case.json.get("in").is_none()) {
                    // A sum over another number than that of the elements.
                    if pool.ceil {
                        return unrun("another divisor of windows that leave the input");
                    }
                    let count = pool.window.iter().product::<usize>() as f64;
                    mean = x.at::<$rank>()?.$avg(pool.count_padding(true))?.mul(T::from_f64(count / divisor))?;
                }
                let out = Out::of(mean.view());
                let largest = case.magnitude(case.arg(0))?.iter().copied().fold(0.0, f64::max);
                let sizes = vec![largest; out.values.len()];
                let size = out.size[if batched { 0 } else { 1 }..].to_vec();
                Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0).sized(size)])
            })
        }
    )* };
}
pools! {
    largest1d mean1d max_pool1d avg_pool1d 1 3;
    largest2d mean2d max_pool2d avg_pool2d 2 4;
    largest3d mean3d max_pool3d avg_pool3d 3 5;
}
fn by_axes(case: &Case, rows: [fn(&Case) -> Run; 3]) -> Run {
    match case.spec(0)?.rank() {
        rank @ 3..=5 => rows[rank - 3](case),
        _ => unrun("other ranks"),
    }
}

/// Shares of values by the products of queries and keys.
fn attention(case: &Case) -> Run {
    let parts = [case.spec(0)?, case.spec(1)?, case.spec(2)?];
    if real_or(case.kw("dropout_p"), 0.0)? != 0.0 {
        return unrun("random numbers by another generator");
    }
    let plan = Attention::new().causal(case.kw("is_causal").as_bool() == Some(true));
    let plan = if case.kw("scale").is_null() { plan } else { plan.scale(real_or(case.kw("scale"), 1.0)?) };
    if !case.get(3, "attn_mask").is_null() {
        return unrun("a mask of numbers");
    }
    if parts.iter().any(|part| part.rank() != parts[0].rank()) {
        return unrun("queries that stretch");
    }
    by_type!(parts[0].dtype, T in [f16 bf16 f32 f64] => {
        let [q, k, v] = [0, 1, 2].map(|at| case.tensor::<T>(case.arg(at)));
        let (q, k, v) = (q?, k?, v?);
        let out = Out::of(q.at::<4>()?.attention(k.at::<4>()?, v.at::<4>()?, None, plan)?.view());
        let largest = |at: usize| Ok::<_, Stop>(case.magnitude(case.arg(at))?.iter().copied().fold(0.0, f64::max));
        // A rounding of a score, which is a sum, moves its weight by as much.
        let score = largest(0)? * largest(1)? * (parts[0].size[parts[0].rank() - 1] as f64).sqrt();
        let sizes = vec![largest(2)? * (1.0 + if case.json.get("ulp").is_none() { score } else { 0.0 }); out.values.len()];
        // Weights of 16 bits are rounded once.
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(2.0)])
    })
}

pub const ONNX: &[Row] =
    &[("MaxPool", |c| by_axes(c, [largest1d, largest2d, largest3d])), ("AveragePool", |c| by_axes(c, [mean1d, mean2d, mean3d]))];

pub const ROWS: &[Row] = &[
    ("nn.functional.max_pool1d", largest1d),
    ("nn.functional.max_pool2d", largest2d),
    ("nn.functional.avg_pool1d", mean1d),
    ("nn.functional.avg_pool2d", mean2d),
    ("nn.functional.scaled_dot_product_attention", attention),
];
