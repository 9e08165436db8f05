//! Scans, sorts and other operators of ordered elements.

use crate::case::{Case, CaseDevice, N, Out, Run, Seen, Stop, axis, moved, one, real_or, unrun};
use crate::{Row, by_type};
use rankform::ops::{Bins, BitOr, CumProd, CumSum, Side};
use rankform::prelude::*;
use serde_json::Value;

/// The axis that an argument names, or the last.
fn axis_or_last(value: &Value, rank: usize) -> Result<usize, Stop> {
    Ok(axis(value.as_i64().unwrap_or(-1), rank)? + N - rank.max(1))
}

/// Running sums, products and extremes along an axis.
macro_rules! scans {
    ($($name:ident $method:ident [$($t:ident)*];)*) => { $(
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            case.only(&["dim", "dtype"])?;
            by_type!(case.dtype()?, T in [$($t)*] => {
                let x = case.operand::<T>(case.arg(0))?;
                let dim = axis_or_last(case.get(1, "dim"), x.spec().rank())?;
                let out = Out::of(x.view()?.$method(dim)?.view());
                let sizes = case.magnitude(case.arg(0))?;
                let total = match stringify!($name) {
                    "running_product" => out.values.iter()
                        .map(|x| x.magnitude() * sizes.size()[dim] as f64 / 4.0).collect(),
                    "running_logarithm" => vec![
                        sizes.iter().copied().filter(|x| x.is_finite()).fold(1.0, f64::max); out.values.len()
                    ],
                    _ => sizes.cumsum_axis(dim)?.iter().copied().collect(),
                };
                // The reference may round 16-bit floats at every step.
                Ok(vec![Out { magnitude: Some(total), ..out }])
            })
        }
    )* };
}
scans! {
    running_sum cumsum_axis [f16 bf16 f32 f64 i64 i32 u8 c64];
    running_product cumprod_axis [f16 bf16 f32 f64 i64 i32 u8 c64];
    running_logarithm logcumsumexp_axis [f16 bf16 f32 f64];
}
/// Cumulative extremes, and the last position of an equal element up to each.
fn running_extreme<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let dim = axis_or_last(case.get(1, "dim"), x.spec().rank())?;
        let x = x.view()?;
        let y = if case.op == "cummax" { x.cummax_axis(dim)? } else { x.cummin_axis(dim)? };
        let places = Tensor::<i64, N, D>::from_fn(x.size(), |at| at[dim] as i64, &case.device)?;
        // NaN equals no element, not even itself.
        let is = x.equal(&y)?.zip(BitOr, &x.not_equal(x)?)?;
        Ok(vec![Out::of(y.view()).exact(), Out::of(is.select(&places, -1)?.cummax_axis(dim)?.view())])
    })
}
/// Of ONNX, from either end, with or without the element itself.
fn running<D: CaseDevice>(case: &Case<D>) -> Run {
    let exclusive = real_or(case.kw("exclusive"), 0.0)? != 0.0;
    let back = real_or(case.kw("reverse"), 0.0)? != 0.0;
    by_type!(case.spec(0)?.dtype, T in [f64 i32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let dim = axis(case.operand::<i64>(case.arg(1))?.item()?, x.spec().rank())? + N - x.spec().rank();
        let x = if back { x.view()?.reversed_axis(dim)? } else { x.view()? };
        let y = if case.op == "CumSum" {
            x.scan_by(CumSum, dim, exclusive)?
        } else {
            x.scan_by(CumProd, dim, exclusive)?
        };
        Ok(vec![Out::of(if back { y.view().reversed_axis(dim)? } else { y.view() })])
    })
}

/// The same for every element with an order.
macro_rules! ordered {
    ($($name:ident |$case:ident, $x:ident, $T:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!($case.spec(0)?.dtype, $T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
                let $x = $case.tensor::<$T>($case.arg(0))?;
                $body
            })
        }
    )* };
}
ordered! {
    sort |case, x, T| {
        let dim = if case.op == "msort" {
            N - x.spec().rank()
        } else {
            axis_or_last(case.get(1, "dim"), x.spec().rank())?
        };
        let x = x.view()?;
        let falling = case.get(2, "descending").as_bool() == Some(true);
        let places = || if falling { x.argsort_descending_axis(dim) } else { x.argsort_axis(dim) };
        if case.op == "argsort" {
            return Ok(vec![agreed(case, 0, x, dim, places()?)?]);
        }
        let mut all = moved(if falling { x.sort_descending_axis(dim) } else { x.sort_axis(dim) })?;
        if case.op == "sort" {
            all.push(agreed(case, 1, x, dim, places()?)?);
        }
        Ok(all)
    };
    topk |case, x, T| {
        let (k, dim, largest) = if case.op == "TopK" {
            (
                case.operand::<i64>(case.arg(1))?.item()?, axis_or_last(case.kw("axis"), x.spec().rank())?,
                real_or(case.kw("largest"), 1.0)? != 0.0
            )
        } else {
            (
                case.get(1, "k").as_i64().unwrap_or(0), axis_or_last(case.get(2, "dim"), x.spec().rank())?,
                case.get(3, "largest").as_bool() != Some(false)
            )
        };
        if case.get(4, "sorted").as_bool() == Some(false) {
            return unrun("in no order");
        }
        let (values, places) = if largest {
            x.view()?.topk_axis(dim, k as usize)?
        } else {
            x.view()?.bottomk_axis(dim, k as usize)?
        };
        Ok(vec![Out::of(values.view()).exact(), agreed(case, 1, x.view()?, dim, places)?])
    };
    kth_value |case, x, T| {
        case.only(&["dim", "keepdim"])?;
        let dim = axis_or_last(case.get(2, "dim"), x.spec().rank())?;
        nth(case, x.view()?, dim, case.get(1, "k").as_i64().unwrap_or(0) as usize, case.get(3, "keepdim"))
    };
    median |case, x, T| {
        if case.get(1, "dim").is_null() {
            let line = x.view()?.to_shape([1, 1, 1, 1, x.spec().numel()])?;
            let n = line.numel();
            return Ok(
                vec![nth(case, line.view(), N - 1, n.div_ceil(2), &Value::Null)?.remove(0).sized(vec![])]
            );
        }
        let dim = axis_or_last(case.get(1, "dim"), x.spec().rank())?;
        let n = x.view()?.size()[dim];
        nth(case, x.view()?, dim, n.div_ceil(2), case.get(2, "keepdim"))
    };
    unique |case, x, T| {
        if let Some(dim) = case.kw("dim").as_i64().or(case.kw("axis").as_i64()) {
            let rank = x.spec().rank();
            let parts = x.view()?.unique_axis(axis(dim, rank)? + N - rank.max(1))?;
            let out = Out::of(parts.values.view()).exact();
            let size = out.size[N - rank..].to_vec();
            let [positions, inverse, counts] = [&parts.positions, &parts.inverse, &parts.counts]
                .map(|found| Out::of(found.view()));
            if case.op == "Unique" {
                return Ok(vec![out.sized(size), positions, inverse, counts]);
            }
            let wanted = [("return_inverse", inverse), ("return_counts", counts)];
            let more = wanted.into_iter().filter(|(name, _)| case.kw(name).as_bool() == Some(true))
                .map(|(_, out)| out);
            return Ok(std::iter::once(out.sized(size)).chain(more).collect());
        }
        if case.op == "Unique" {
            if real_or(case.kw("sorted"), 1.0)? == 0.0 {
                return unrun("in the order of the operand");
            }
            let all = x.view()?.unique_all()?;
            let inverse = all.inverse.to_shape([x.spec().numel()])?;
            return Ok(vec![
                Out::of(all.values.view()).exact(), Out::of(all.positions.view()), Out::of(inverse.view()),
                Out::of(all.counts.view())
            ]);
        }
        let wanted = |name: &str| case.kw(name).as_bool() == Some(true);
        if !wanted("return_inverse") && !wanted("return_counts") {
            return moved(x.view()?.unique());
        }
        let all = x.view()?.unique_all()?;
        let mut out = vec![Out::of(all.values.view()).exact()];
        if wanted("return_inverse") {
            out.push(Out::of(all.inverse.view()).sized(x.spec().size.clone()));
        }
        if wanted("return_counts") {
            out.push(Out::of(all.counts.view()));
        }
        Ok(out)
    };
    most_frequent |case, x, T| {
        let rank = x.spec().rank();
        let dim = axis_or_last(case.get(1, "dim"), rank)?;
        let (values, places) = x.view()?.mode_axis(dim)?;
        let mut size = x.spec().size.clone();
        if rank > 0 {
            if case.get(2, "keepdim").as_bool() == Some(true) {
                size[dim + rank - N] = 1;
            } else {
                size.remove(dim + rank - N);
            }
        }
        let (values, mut places) = (
            Out::of(values.view()).exact().sized(size.clone()), Out::of(places.view()).sized(size)
        );
        // The reference may name another place of an element that is equal.
        let given = case.expected().and_then(|all| all.into_iter().nth(1).flatten())
            .map(|spec| case.values(&spec)).unwrap_or_default();
        if rank == 1 && let [crate::case::Scalar::Integer(at)] = given[..] {
            let line = x.to_vec()?;
            if line.get(at as usize).map(|x| x.scalar()) == Some(values.values[0]) {
                places.values = given;
            }
        }
        Ok(vec![values, places])
    };
    bucketize |case, x, T| {
        let line = case.tensor::<T>(case.get(1, "boundaries"))?;
        if line.spec().rank() != 1 {
            return unrun("does not compile: a line of another rank than 1");
        }
        let side = if case.kw("right").as_bool() == Some(true) { Side::Right } else { Side::Left };
        narrow(case, line.at::<1>()?.searchsorted(x.view()?, side)?)
    };
    search |case, x, T| {
        let values = case.operand::<T>(case.arg(1))?;
        let right = case.kw("right").as_bool() == Some(true) || case.kw("side") == "right";
        let side = if right { Side::Right } else { Side::Left };
        let sorted = match case.kw("sorter") {
            Value::Null => x.view()?.copy()?,
            order => x.view()?.gather_axis(N - 1, case.tensor::<i64>(order)?.view()?)?,
        };
        if x.spec().rank() == 1 {
            return narrow(case, sorted.slice((0, 0, 0, 0, ..))?.searchsorted(values.view()?, side)?);
        }
        narrow(case, sorted.searchsorted_along(Axis::<4>, values.view()?, side)?)
    };
    histogram |case, x, T| {
        if size_of::<T>() == 2 {
            return unrun("16-bit floats, of which the reference finds the part in 16 bits");
        }
        let (low, high) = (real_or(case.get(2, "min"), 0.0)?, real_or(case.get(3, "max"), 0.0)?);
        let bins = case.get(1, "bins").as_u64().unwrap_or(100) as usize;
        if low == high {
            // The reference goes a whole unit on where all are one number.
            let [least, most] = [x.view()?.min(All), x.view()?.max(All)]
                .map(|end| end.and_then(|end| end.cast::<f64>()?.item()));
            let plan = Bins::new([bins]);
            let plan = match (least, most) {
                (Ok(least), Ok(most)) if least == most => plan.range([(least - 1.0, least + 1.0)]),
                _ => plan,
            };
            return moved(x.view()?.histogram_with(plan)?.values.cast::<T>());
        }
        moved(x.view()?.histogram(bins, low, high)?.cast::<T>())
    };
}
/// Runs of equal neighbors, of any elements.
fn neighbors<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let wanted = |name: &str| case.kw(name).as_bool() == Some(true);
        let rank = x.spec().rank();
        let (mut out, inverse, counts) = match case.kw("dim").as_i64() {
            Some(dim) => {
                let parts = x.view()?.unique_consecutive_axis(axis(dim, rank)? + N - rank)?;
                let out = Out::of(parts.values.view()).exact();
                let size = out.size[N - rank..].to_vec();
                (vec![out.sized(size)], Out::of(parts.inverse.view()), parts.counts)
            }
            None => {
                let runs = x.view()?.unique_consecutive()?;
                (
                    vec![Out::of(runs.values.view()).exact()],
                    Out::of(runs.inverse.view()).sized(x.spec().size.clone()), runs.counts
                )
            }
        };
        if wanted("return_inverse") {
            out.push(inverse);
        }
        if wanted("return_counts") {
            out.push(Out::of(counts.view()));
        }
        Ok(out)
    })
}
/// The `k`-th smallest of each line, and its position.
fn nth<T: Seen + Comparable, D: CaseDevice>(
    case: &Case<D>,
    x: TensorView<'_, T, N, D>,
    dim: usize,
    k: usize,
    keep: &Value,
) -> Run {
    let Some(last) = k.checked_sub(1) else { return unrun("of none") };
    let (values, places) = x.bottomk_axis(dim, k)?;
    let size = |out: Out| -> Out {
        let rank = case.spec(0).map_or(0, |spec| spec.rank());
        let mut size = out.size[N - rank..].to_vec();
        if keep.as_bool() != Some(true) && rank > 0 && dim + rank >= N {
            size.remove(dim + rank - N);
        }
        if size.iter().product::<usize>() == out.values.len() { out.sized(size) } else { out }
    };
    let places = places.slice_axis(dim, last..k, 1)?.copy()?;
    let mut all = vec![size(Out::of(values.view().slice_axis(dim, last..k, 1)?).exact())];
    if case.json["out"].as_array().map_or(0, Vec::len) > 1 {
        all.push(size(agreed(case, 1, x, dim, places)?));
    }
    Ok(all)
}
/// Places along an axis. Where the reference names another place of an equal element, which it may, that is
/// taken for the one found; no line may name a place twice.
fn agreed<T: Seen, D: CaseDevice>(
    case: &Case<D>,
    result: usize,
    x: TensorView<'_, T, N, D>,
    dim: usize,
    places: Tensor<i64, N, D>,
) -> Result<Out, Stop> {
    let mut out = Out::of(places.view());
    let Some(spec) = case.expected().and_then(|all| all.into_iter().nth(result).flatten()) else {
        return Ok(out);
    };
    let given = case.values(&spec);
    if given.len() != out.values.len() || case.kw("stable").as_bool() == Some(true) {
        return Ok(out);
    }
    let (x, places) = (x.to(&Cpu)?, places.to(&Cpu)?);
    let mut seen = std::collections::HashSet::new();
    for (k, (index, &place)) in places.indexed_iter().enumerate() {
        let crate::case::Scalar::Integer(other) = given[k] else { continue };
        let at = |place: i64| {
            x.get(std::array::from_fn(|axis| if axis == dim { place as usize } else { index[axis] }))
                .map(|x| x.scalar())
        };
        let mut line = index;
        line[dim] = place as usize;
        if seen.insert(line) && at(place).is_some() && at(place) == at(other as i64) {
            out.values[k] = given[k];
        }
    }
    Ok(out)
}
/// Positions, as 32-bit integers where those are asked for.
fn narrow<D: CaseDevice>(case: &Case<D>, places: Tensor<i64, N, D>) -> Run {
    if case.kw("out_int32").as_bool() == Some(true) { one(places.cast::<i32>()) } else { one(Ok(places)) }
}

pub const ONNX: &[Row] = &[("CumSum", running), ("CumProd", running), ("TopK", topk), ("Unique", unique)];

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("cumsum", running_sum),
        ("cumprod", running_product),
        ("logcumsumexp", running_logarithm),
        ("cummax", running_extreme),
        ("cummin", running_extreme),
        ("sort", sort),
        ("msort", sort),
        ("topk", topk),
        ("kthvalue", kth_value),
        ("median", median),
        ("nanmedian", median),
        ("mode", most_frequent),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[
    ("argsort", sort),
    ("unique", unique),
    ("unique_consecutive", neighbors),
    ("searchsorted", search),
    ("bucketize", bucketize),
    ("histc", histogram),
];
