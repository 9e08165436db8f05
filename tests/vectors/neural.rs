//! Losses, norms over channels, and images in other sizes.

use crate::case::{Case, CaseDevice, N, Out, Run, Seen, Stop, axis_of, moved, real_or, unrun};
use crate::elementwise::float;
use crate::product::each;
use crate::{Row, by_rank, by_type};
use rankform::ops::Conv;
use rankform::ops::Interpolate;
use rankform::ops::{BinaryCrossEntropyWithLogits, ClassLoss, KlDiv, KlDivLogTarget};
use rankform::prelude::*;
use serde_json::Value;

/// The largest magnitude of an argument, for bounds of rounding.
fn largest<D: CaseDevice>(case: &Case<D>, value: &Value) -> Result<f64, Stop> {
    Ok(if value.is_null() {
        0.0
    } else {
        case.magnitude(value)?.iter().copied().filter(|x| x.is_finite()).fold(0.0, f64::max)
    })
}
/// A result that rounding moves in proportion to `size`.
fn rounded(out: Out, size: f64, roundings: f64) -> Out {
    let sizes = vec![size; out.values.len()];
    Out { magnitude: Some(sizes), ..out }.rounded(roundings)
}
/// A result without the leading axes that the operand was given.
fn of_rank(out: Out, rank: usize) -> Out {
    let size = out.size[out.size.len() - rank..].to_vec();
    out.sized(size)
}

// ------------------------------------------------------------ losses

/// A loss of each element, their sum or their mean.
fn summed<T: Seen + Float, D: CaseDevice>(
    case: &Case<D>,
    each: Tensor<T, N, D>,
    mean_over: f64,
    magnitude: f64,
) -> Run {
    let rank = case.spec(0)?.rank();
    let count = each.numel() as f64;
    let out = match case.kw("reduction").as_str() {
        Some("none") => of_rank(Out::of(each.view()), rank),
        Some("sum") => Out::of(each.sum(All)?.view()),
        Some("batchmean") => Out::of(each.lazy().cast::<f64>().sum(All)?.div(mean_over)?.cast::<T>()?.view()),
        Some("mean") | None => Out::of(each.mean(All)?.view()),
        _ => return unrun("does not compile: no such reduction"),
    };
    let terms =
        if case.kw("reduction") == "sum" || case.kw("reduction") == "batchmean" { count } else { 1.0 };
    Ok(vec![rounded(out, magnitude * terms.max(1.0), 4.0)])
}
fn kl_div<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["reduction", "log_target"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let logs = case.kw("log_target").as_bool() == Some(true);
        let each = if logs {
            x.view()?.zip(KlDivLogTarget, y.view()?)?
        } else {
            x.view()?.zip(KlDiv, y.view()?)?
        };
        let [a, b] = [largest(case, case.arg(0))?, largest(case, case.arg(1))?];
        let size = if logs { b.exp() * (a + b + 1.0) } else { b * (a + b + 1.0) };
        let batch = case.spec(0)?.size.first().copied().unwrap_or(1) as f64;
        summed(case, each, batch, size + 1.0)
    })
}
fn with_logits<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["reduction", "weight", "pos_weight"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let mut size = largest(case, case.arg(0))? + 1.0;
        let mut each = if case.kw("pos_weight").is_null() {
            x.view()?.zip(BinaryCrossEntropyWithLogits, y.view()?)?
        } else {
            size *= largest(case, case.kw("pos_weight"))?.max(1.0);
            let weight = case.operand::<T>(case.kw("pos_weight"))?;
            x.view()?.weighted_binary_cross_entropy_with_logits(y.view()?, weight.view()?)?
        };
        if !case.kw("weight").is_null() {
            let weight = case.operand::<T>(case.kw("weight"))?;
            size *= largest(case, case.kw("weight"))?.max(1.0);
            each = each.mul(weight.view()?)?;
        }
        summed(case, each, 1.0, size)
    })
}
fn smooth_l1<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["reduction", "beta"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let beta = T::from_f64(real_or(case.kw("beta"), 1.0)?);
        let size = largest(case, case.arg(0))? + largest(case, case.arg(1))?;
        summed(case, x.view()?.smooth_l1_loss(y.view()?, beta)?, 1.0, size)
    })
}

/// Losses by classes: PyTorch's axis 1, or 0 of a line; ONNX's too.
fn class_loss<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    case.only(&["weight", "ignore_index", "reduction", "label_smoothing"])?;
    let (x, y) = (case.spec(0)?, case.spec(1)?);
    if x.rank() > N {
        return unrun(format!("rank {}", x.rank()));
    }
    let softmax = case.op.to_lowercase().contains("cross");
    let weight_at = if onnx { case.arg(2) } else { case.get(2, "weight") };
    let ignore = case.kw("ignore_index").as_i64().unwrap_or(-100);
    let smoothing = real_or(case.kw("label_smoothing"), 0.0)?;
    by_type!(x.dtype, T in [f16 bf16 f32 f64] => {
        let weight = if weight_at.is_null() { None } else { Some(case.operand::<T>(weight_at)?) };
        let mut plan = ClassLoss::new().ignore(ignore).smoothing(smoothing);
        if let Some(weight) = &weight {
            plan = plan.weight(weight.at::<1>()?);
        }
        let reduction = case.kw("reduction").as_str().unwrap_or("mean");
        let input = case.tensor::<T>(case.arg(0))?;
        // A vector is one row: a leading axis is its batch.
        let rank = x.rank().max(2);
        let size = largest(case, case.arg(0))? * 2.0 + 2.0;
        let scale = size * largest(case, weight_at)?.max(1.0);
        by_rank!(rank, R in [2 3 4 5] => {
            const M: usize = R - 1;
            let input = input.at::<R>()?;
            let kept: Vec<usize> = y.size.clone();
            let each = if y.dtype == x.dtype {
                let target = case.tensor::<T>(case.arg(1))?;
                input.soft_cross_entropy::<1, M>(Axis::<1>, target.at::<R>()?, plan)?
            } else {
                let target = case.operand::<i64>(case.arg(1))?;
                let target = target.at::<M>()?;
                if reduction == "mean" {
                    let logs = || Ok::<_, Stop>(
                        rounded(Out::of(input.log_softmax(Axis::<1>)?.view()), size, 4.0)
                    );
                    let mean = if softmax {
                        input.cross_entropy_mean::<1, M>(Axis::<1>, target, plan)?
                    } else {
                        input.nll_loss_mean::<1, M>(Axis::<1>, target, plan)?
                    };
                    let mut all = vec![rounded(Out::of(mean.view()), scale, 4.0)];
                    if case.expected().is_some_and(|all| all.len() > 1) {
                        all.push(logs()?);
                    }
                    return Ok(all);
                }
                if softmax {
                    input.cross_entropy::<1, M>(Axis::<1>, target, plan)?
                } else {
                    input.nll_loss::<1, M>(Axis::<1>, target, plan)?
                }
            };
            let count = each.numel().max(1) as f64;
            let mut all = match reduction {
                "none" => {
                    let out = Out::of(each.view());
                    let size = if y.dtype == x.dtype { out.size.clone() } else { kept };
                    vec![rounded(out.sized(size), scale, 4.0)]
                }
                "sum" => vec![rounded(Out::of(each.sum(All)?.view()), scale * count, 4.0)],
                "mean" => vec![rounded(Out::of(each.mean(All)?.view()), scale, 4.0)],
                _ => return unrun("does not compile: no such reduction"),
            };
            if case.expected().is_some_and(|all| all.len() > 1) {
                all.push(rounded(Out::of(input.log_softmax(Axis::<1>)?.view()), size, 4.0));
            }
            Ok(all)
        })
    })
}

// ------------------------------------------------------------ norms

/// `y · weight + bias`, one of each a channel.
fn by_channel<T: Seen + Float, D: CaseDevice>(
    case: &Case<D>,
    y: Tensor<T, N, D>,
    weight: &Value,
    bias: &Value,
    size: f64,
) -> Run {
    let spec = case.spec(0)?;
    let (mut y, mut size) = (y, size);
    let channel = |value: &Value| -> Result<Option<Tensor<T, N, D>>, Stop> {
        if value.is_null() {
            return Ok(None);
        }
        let line = case.operand::<T>(value)?;
        let n = line.spec().numel();
        let sizes = std::array::from_fn(|axis| if axis == N - spec.rank() + 1 { n } else { 1 });
        Ok(Some(line.view()?.to_shape(sizes)?))
    };
    if let Some(line) = channel(weight)? {
        y = y.mul(&line)?;
        size *= largest(case, weight)?.max(1.0);
    }
    if let Some(line) = channel(bias)? {
        y = y.add(&line)?;
        size += largest(case, bias)?;
    }
    Ok(vec![rounded(of_rank(Out::of(y.view()), spec.rank()), size + 1.0, 4.0)])
}
/// One row of rank `$R`; its result has leading axes up to `N` again.
macro_rules! channels {
    ($case:ident, $x:ident, $T:ident => $body:expr) => {{
        let operand = $case.tensor::<$T>($case.arg(0))?;
        let spec = $case.spec(0)?;
        by_rank!(spec.rank(), R in [2 3 4 5] => {
            let $x = operand.at::<R>()?;
            let y: Tensor<$T, R, D> = $body;
            let size: [usize; N] = std::array::from_fn(
                |axis| (axis + R).checked_sub(N).map_or(1, |axis| y.size()[axis])
            );
            y.into_shape(size).map_err(Stop::from)
        })
    }};
}
/// Roots of a variance of rounded numbers lose as many digits as the mean is larger than the deviation.
fn spread<D: CaseDevice>(case: &Case<D>) -> Result<f64, Stop> {
    Ok(8.0 + largest(case, case.arg(0))?)
}
fn group_norm<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    case.only(&["weight", "bias", "eps", "epsilon", "num_groups", "stash_type"])?;
    let groups = if onnx { case.kw("num_groups") } else { case.get(1, "num_groups") };
    let Some(groups) = groups.as_u64() else { return unrun("does not compile: no number") };
    let (weight, bias) = if onnx { (case.arg(1), case.arg(2)) } else { (case.kw("weight"), case.kw("bias")) };
    let epsilon = real_or(case.kw(if onnx { "epsilon" } else { "eps" }), 1e-5)?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let y = channels!(case, x, T => x.group_norm(groups as usize, T::from_f64(epsilon))?)?;
        by_channel(case, y, weight, bias, spread(case)?)
    })
}
fn instance_norm<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    case.only(&[
        "weight",
        "bias",
        "eps",
        "epsilon",
        "running_mean",
        "running_var",
        "momentum",
        "use_input_stats",
    ])?;
    if case.kw("use_input_stats").as_bool() == Some(false) {
        return unrun("statistics of another batch");
    }
    let (weight, bias) = if onnx { (case.arg(1), case.arg(2)) } else { (case.kw("weight"), case.kw("bias")) };
    let epsilon = real_or(case.kw(if onnx { "epsilon" } else { "eps" }), 1e-5)?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let y = channels!(case, x, T => x.instance_norm(T::from_f64(epsilon))?)?;
        by_channel(case, y, weight, bias, spread(case)?)
    })
}
fn batch_norm<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    case.only(&["weight", "bias", "training", "training_mode", "momentum", "eps", "epsilon"])?;
    let training = case.kw("training").as_bool() == Some(true) || case.kw("training_mode") == 1;
    let [mean, var, weight, bias] = if onnx {
        [case.arg(3), case.arg(4), case.arg(1), case.arg(2)]
    } else {
        [case.arg(1), case.arg(2), case.get(3, "weight"), case.get(4, "bias")]
    };
    if case.json["out"].as_array().map_or(0, Vec::len) > 1 {
        return unrun("running statistics, which are reductions");
    }
    let epsilon = real_or(case.kw(if onnx { "epsilon" } else { "eps" }), 1e-5)?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let mut size = spread(case)?;
        let y = if training {
            channels!(case, x, T => x.batch_norm(T::from_f64(epsilon))?)?
        } else {
            let (m, v) = (case.operand::<T>(mean)?, case.operand::<T>(var)?);
            let least = case.magnitude(var)?.iter().copied().fold(f64::INFINITY, f64::min);
            size = (size + largest(case, mean)?) / (least + epsilon).sqrt();
            channels!(case, x, T => x.batch_norm_by(m.at::<1>()?, v.at::<1>()?, T::from_f64(epsilon))?)?
        };
        by_channel(case, y, weight, bias, size)
    })
}
/// The last axes, which are one row here.
fn rms_norm<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    case.only(&["eps", "epsilon", "axis", "weight", "normalized_shape", "stash_type"])?;
    let spec = case.spec(0)?;
    let (weight, from) = if onnx {
        (case.arg(1), crate::case::axis(case.kw("axis").as_i64().unwrap_or(-1), spec.rank())?)
    } else {
        let count = case.get(1, "normalized_shape").as_array().map_or(0, Vec::len);
        let Some(from) = spec.rank().checked_sub(count) else {
            return unrun("does not compile: more axes than there are");
        };
        if case.is_error() {
            return unrun("does not compile: sizes that say what axes are");
        }
        (case.get(2, "weight"), from)
    };
    let inner: usize = spec.size[from..].iter().product();
    by_type!(spec.dtype, T in [f16 bf16 f32 f64] => {
        let default = if onnx { 1e-5 } else { <T as num_traits::Float>::epsilon().scalar().magnitude() };
        let default = if !onnx && size_of::<T>() == 2 { f32::EPSILON as f64 } else { default };
        let epsilon = T::from_f64(real_or(case.kw(if onnx { "epsilon" } else { "eps" }), default)?);
        let x = case.tensor::<T>(case.arg(0))?;
        let mut y = x.view()?.to_shape([spec.numel() / inner.max(1), inner])?.rms_norm(Axis::<1>, epsilon)?;
        let mut size = inner as f64;
        if !weight.is_null() {
            size *= largest(case, weight)?.max(1.0);
            let weight = case.operand::<T>(weight)?;
            let sizes: [usize; N] = std::array::from_fn(
                |axis| (axis + spec.rank()).checked_sub(N)
                    .map_or(1, |axis| if axis < from { 1 } else { spec.size[axis] })
            );
            y = y.mul(&weight.view()?.broadcast_to(sizes)?.to_shape([1, inner])?)?;
        }
        Ok(vec![rounded(Out::of(y.view()), size, 4.0).sized(spec.size)])
    })
}
fn normalize<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["p", "dim", "eps", "axis"])?;
    let onnx = case.json.get("in").is_some();
    let p = real_or(case.kw("p"), 2.0)?;
    let spec = case.spec(0)?;
    let dim =
        if onnx { case.kw("axis").as_i64().unwrap_or(-1) } else { case.kw("dim").as_i64().unwrap_or(1) };
    let axis = crate::case::axis(dim, spec.rank())? + N - spec.rank().max(1);
    let mut order: [usize; N] = std::array::from_fn(|axis| axis);
    order.swap(axis, N - 1);
    by_type!(spec.dtype, T in [f16 bf16 f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let (x, epsilon) = (x.view()?.permuted(order)?, T::from_f64(real_or(case.kw("eps"), 1e-12)?));
        let y = if p == 2.0 {
            x.normalize(Axis::<4>, epsilon)?
        } else {
            x.normalize_p(T::from_f64(p), Axis::<4>, epsilon)?
        };
        Ok(vec![rounded(of_rank(Out::of(y.view().permuted(order)?), spec.rank()), 1.0, 4.0)])
    })
}
fn cosine<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim", "eps"])?;
    let rank = case.spec(0)?.rank();
    let axis = crate::case::axis(case.kw("dim").as_i64().unwrap_or(1), rank)? + N - rank.max(1);
    let mut order: [usize; N] = std::array::from_fn(|axis| axis);
    order[axis..].rotate_left(1);
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let epsilon = T::from_f64(real_or(case.kw("eps"), 1e-8)?);
        let out = x.view()?.permuted(order)?
            .cosine_similarity(y.view()?.permuted(order)?, Axis::<4>, epsilon)?;
        Ok(vec![rounded(Out::of(out.view()), 2.0, 8.0)])
    })
}
fn glu<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim"])?;
    let rank = case.spec(0)?.rank();
    let dim = if case.get(1, "dim").is_null() { rank - 1 } else { axis_of(case.get(1, "dim"), rank)? };
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let y = case.tensor::<T>(case.arg(0))?.view()?.glu_axis(dim + N - rank)?;
        Ok(vec![of_rank(Out::of(y.view()), rank)])
    })
}

// ------------------------------------------------------------ images

fn pixels<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.json.get("in").is_some();
    if onnx && case.op == "DepthToSpace" && case.kw("mode") != "CRD"
        || onnx && case.op == "SpaceToDepth" && case.kw("mode") == "DCR"
    {
        return unrun("channels in another order");
    }
    if onnx && case.op == "SpaceToDepth" && case.spec(0)?.size[1] > 1 {
        return unrun("channels in another order");
    }
    let factor = if onnx { case.kw("blocksize") } else { case.get(1, "upscale_factor") };
    let Some(factor) = factor.as_u64() else { return unrun("does not compile: no factor") };
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.at::<4>()?;
        moved(if case.op == "SpaceToDepth" {
            x.pixel_unshuffle(factor as usize)
        } else {
            x.pixel_shuffle(factor as usize)
        })
    })
}
fn unfold<D: CaseDevice>(case: &Case<D>) -> Run {
    let part = |at: usize, name: &str, default: usize| each::<2>(case.get(at, name), default);
    let conv = Conv::new()
        .dilation(part(2, "dilation", 1)?)
        .padding(part(3, "padding", 0)?)
        .stride(part(4, "stride", 1)?);
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 bool c64] => {
        moved(case.tensor::<T>(case.arg(0))?.at::<4>()?.unfold(part(1, "kernel_size", 1)?, conv))
    })
}
fn adaptive<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    if spec.rank() != 3 && spec.rank() != 4 {
        return unrun("does not compile: other ranks");
    }
    let to = case.get(1, "output_size");
    let side = |k: usize| {
        let value = if to.is_array() { &to[k] } else { to };
        value.as_u64().map_or(spec.size[spec.rank() - 2 + k], |n| n as usize)
    };
    if to.as_array().is_some_and(|to| to.len() != 2) {
        return unrun("does not compile: another number of axes");
    }
    by_type!(spec.dtype, T in [f16 bf16 f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let out = Out::of(x.at::<4>()?.adaptive_avg_pool([side(0), side(1)])?.view());
        Ok(vec![rounded(of_rank(out, spec.rank()), largest(case, case.arg(0))?, 4.0)])
    })
}
/// The whole of each channel.
fn global<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.at::<4>()?;
        let y = if case.op == "GlobalMaxPool" {
            x.adaptive_max_pool([1, 1])?
        } else {
            x.adaptive_avg_pool([1, 1])?
        };
        Ok(vec![rounded(Out::of(y.view()), largest(case, case.arg(0))?, 1.0)])
    })
}

macro_rules! interpolations {
    ($($name:ident $n:literal $rank:literal;)*) => { $(
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            let spec = case.spec(0)?;
            let expected = case.expected().and_then(|all| all.into_iter().next().flatten());
            let Some(expected) = expected else { return unrun("no sizes") };
            let size: [usize; $n] = std::array::from_fn(|k| expected.size[k + 2]);
            let mut plan = Interpolate::new(size)
                .align_corners(case.kw("align_corners").as_bool() == Some(true));
            if !case.kw("scale_factor").is_null()
                && case.kw("recompute_scale_factor").as_bool() != Some(true)
            {
                let value = case.kw("scale_factor");
                let part = |k: usize| crate::case::real(if value.is_array() { &value[k] } else { value })
                    .unwrap_or(1.0);
                plan = plan.scale(std::array::from_fn(part));
            }
            let size = largest(case, case.arg(0))?;
            if case.op.ends_with("nearest") {
                return by_type!(
                    spec.dtype,
                    T in [f16 bf16 f32 f64 u8] => moved(
                        case.tensor::<T>(case.arg(0))?.at::<$rank>()?.interpolate_nearest(plan)
                    )
                );
            }
            by_type!(spec.dtype, T in [f16 bf16 f32 f64] => {
                let y = case.tensor::<T>(case.arg(0))?.at::<$rank>()?.interpolate_linear(plan)?;
                // The reference finds places and weights in single precision.
                Ok(vec![rounded(Out::of(y.view()), size * 4.0, 4.0)])
            })
        }
    )* };
}
interpolations! {
    interpolated1 1 3;
    interpolated2 2 4;
    interpolated3 3 5;
}
fn interpolated<D: CaseDevice>(case: &Case<D>) -> Run {
    match case.spec(0)?.rank() {
        3 => interpolated1(case),
        4 => interpolated2(case),
        5 => interpolated3(case),
        rank => unrun(format!("rank {rank}")),
    }
}

/// Activations with a number of their own.
fn celu<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let alpha = T::from_f64(real_or(case.get(1, "alpha"), 1.0)?);
        crate::case::one(case.tensor::<T>(case.arg(0))?.view()?.celu(alpha))
    })
}
fn softplus<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["beta", "threshold"])?;
    by_type!(float(case.spec(0)?.dtype), T in [f16 bf16 f32 f64] => {
        let (beta, threshold) = (real_or(case.kw("beta"), 1.0)?, real_or(case.kw("threshold"), 20.0)?);
        let x = case.operand::<T>(case.arg(0))?;
        let x = x.view()?;
        let scaled = x.lazy() * T::from_f64(beta);
        let y = scaled.greater(T::from_f64(threshold))
            .select(x, scaled.softplus() / T::from_f64(beta)).eval()?;
        Ok(vec![rounded(Out::of(y.view()), largest(case, case.arg(0))? + 1.0, 2.0)])
    })
}

pub const ONNX: &[Row] = &[
    ("SoftmaxCrossEntropyLoss", class_loss),
    ("NegativeLogLikelihoodLoss", class_loss),
    ("RMSNormalization", rms_norm),
    ("GroupNormalization", group_norm),
    ("InstanceNormalization", instance_norm),
    ("BatchNormalization", batch_norm),
    ("LpNormalization", normalize),
    ("GlobalAveragePool", global),
    ("GlobalMaxPool", global),
    ("DepthToSpace", pixels),
    ("SpaceToDepth", pixels),
];

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("nn.functional.kl_div", kl_div),
        ("nn.functional.binary_cross_entropy_with_logits", with_logits),
        ("nn.functional.smooth_l1_loss", smooth_l1),
        ("nn.functional.nll_loss", class_loss),
        ("nn.functional.cross_entropy", class_loss),
        ("nn.functional.group_norm", group_norm),
        ("nn.functional.instance_norm", instance_norm),
        ("nn.functional.batch_norm", batch_norm),
        ("nn.functional.rms_norm", rms_norm),
        ("nn.functional.normalize", normalize),
        ("nn.functional.cosine_similarity", cosine),
        ("nn.functional.glu", glu),
        ("nn.functional.pixel_shuffle", pixels),
        ("nn.functional.unfold", unfold),
        ("nn.functional.adaptive_avg_pool2d", adaptive),
        ("nn.functional.interpolate.nearest", interpolated),
        ("nn.functional.interpolate.bilinear", interpolated),
        ("nn.functional.celu", celu),
        ("nn.functional.softplus", softplus),
    ];
    rows.to_vec()
}
