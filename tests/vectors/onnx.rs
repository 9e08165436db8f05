//! The operators of ONNX, a row each.
//!
//! Their numbers come from NumPy in the element's own precision, and floats may be off by some roundings
//! there too.

use crate::arrange::{concat, whole};
use crate::case::{
    Case, N, Operand, Out, Run, Scalar, Stop, axis, moved, number, one, real_or, unrun, wholes,
};
use crate::elementwise::{self, function, gelu, ordered, rounding, truth};
use crate::normalize::{rows_normalized, scaled};
use crate::reduce::Axes;
use crate::views::{View, derived};
use crate::{Row, by_type, contract, each_rank};
use rankform::kernel::Op;
use rankform::ops::{self, *};
use rankform::prelude::*;
use rankform::scalar::DType;
use serde_json::Value;

/// The device of these cases.
type D = Cpu;

/// Whole numbers of an attribute, or of a tensor argument.
fn integers(case: &Case, name: &str, at: usize) -> Result<Option<Vec<i64>>, Stop> {
    if let Some(numbers) = wholes(case.kw(name)) {
        return Ok(Some(numbers));
    }
    if case.arg(at).is_null() {
        return Ok(None);
    }
    let numbers = case.operand::<i64>(case.arg(at))?;
    Ok(Some(numbers.view()?.iter().copied().collect()))
}
/// How many arguments there are.
fn count(case: &Case) -> usize {
    case.json["in"].as_array().map_or(0, Vec::len)
}

/// An operator of two tensors of every number.
macro_rules! pairs {
    ($($name:ident $op:ident [$($t:ident)*];)*) => { $(
        fn $name(case: &Case) -> Run {
            by_type!(case.spec(0)?.dtype, T in [$($t)*] => {
                let [x, y] = [case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?];
                one(x.view()?.zip($op, y.view()?))
            })
        }
    )* };
}
pairs! {
    add Add [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    sub Sub [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    mul Mul [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    div Div [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    remainder Rem [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    modulo Remainder [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    shift_left Shl [u8 u16 u32 u64 i8 i16 i32 i64];
    shift_right Shr [u8 u16 u32 u64 i8 i16 i32 i64];
    equal Equal [bool f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    less Less [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    less_equal LessEqual [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    greater Greater [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    greater_equal GreaterEqual [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    bit_and BitAnd [bool i8 i16 i32 i64 u8 u16 u32 u64];
    bit_or BitOr [bool i8 i16 i32 i64 u8 u16 u32 u64];
    bit_xor BitXor [bool i8 i16 i32 i64 u8 u16 u32 u64];
}

fn shift(case: &Case) -> Run {
    if case.kw("direction") == "LEFT" { shift_left(case) } else { shift_right(case) }
}

/// The same operator between each argument and the intermediate result.
macro_rules! chains {
    ($($name:ident $op:ident [$($t:ident)*];)*) => { $(
        fn $name(case: &Case) -> Run {
            by_type!(case.spec(0)?.dtype, T in [$($t)*] => {
                let mut all = case.tensor::<T>(case.arg(0))?.view()?.copy()?;
                for at in 1..count(case) {
                    all = all.zip($op, case.tensor::<T>(case.arg(at))?.view()?)?;
                }
                if case.op == "Mean" {
                    all = all.zip(Div, number::<T>(&count(case).into())?)?;
                }
                one(Ok(all))
            })
        }
    )* };
}
chains! {
    largest Maximum [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    smallest Minimum [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64];
    total Add [f16 bf16 f32 f64];
}

fn not(case: &Case) -> Run {
    by_type!(
        case.spec(0)?.dtype,
        T in [bool i8 i16 i32 i64 u8 u16 u32 u64] => one(case.tensor::<T>(case.arg(0))?.view()?.not())
    )
}
fn neg(case: &Case) -> Run {
    by_type!(
        case.spec(0)?.dtype,
        T in [f16 bf16 f32 f64 i8 i16 i32 i64] => one(case.tensor::<T>(case.arg(0))?.view()?.map(ops::Neg))
    )
}
fn clip(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64] => {
        let mut y = case.tensor::<T>(case.arg(0))?.view()?.copy()?;
        if !case.arg(1).is_null() {
            y = y.zip(Maximum, case.tensor::<T>(case.arg(1))?.view()?)?;
        }
        if !case.arg(2).is_null() {
            y = y.zip(Minimum, case.tensor::<T>(case.arg(2))?.view()?)?;
        }
        moved(Ok(y))
    })
}
fn chosen(case: &Case) -> Run {
    by_type!(case.spec(1)?.dtype, T in [f16 bf16 f32 f64 i32 i64 u8] => {
        let (mask, yes, no) = (
            case.tensor::<bool>(case.arg(0))?, case.tensor::<T>(case.arg(1))?, case.tensor::<T>(case.arg(2))?
        );
        moved(mask.view()?.select(yes.view()?, no.view()?))
    })
}
fn power(case: &Case) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64] => {
        let (x, y) = (case.tensor::<T>(case.arg(0))?, case.operand::<T>(case.arg(1))?);
        one(x.view()?.powf(y.view()?))
    })
}
fn cast(case: &Case) -> Run {
    by_type!(case.dtype()?, T in [bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64] => {
        let x = case.operand::<T>(case.arg(0))?;
        moved(x.view()?.copy())
    })
}
fn infinite(case: &Case) -> Run {
    let (negative, positive) =
        (real_or(case.kw("detect_negative"), 1.0)? != 0.0, real_or(case.kw("detect_positive"), 1.0)? != 0.0);
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.view()?;
        one(match (negative, positive) {
            (true, true) => x.is_infinite(),
            (true, false) => x.equal(number::<T>(&serde_json::json!({ "f": "-inf" }))?),
            (false, true) => x.equal(number::<T>(&serde_json::json!({ "f": "inf" }))?),
            (false, false) => x.less(x),
        })
    })
}

elementwise! {
    fn exponential_below(x, alpha, gamma) { gamma * x.gt(0.0).select(x, alpha * x.min(0.0).exp_m1()) }
    fn scaled_exponential_below(x, alpha) { x.max(0.0) + (alpha * (x / alpha).exp_m1()).min(0.0) }
    fn line_between(x, slope, at) { (x * slope + at).max(0.0).min(1.0) }
    fn above(x, least) { x.gt(least).select(x, 0.0) }
    fn shrunk(x, width, bias) { x.lt(-width).select(x + bias, x.gt(width).select(x - bias, 0.0)) }
    fn gated(x, beta) { x / ((-x * beta).exp() + 1.0) }
}

/// A function with run-time numbers: attributes with their defaults.
macro_rules! activations {
    ($($name:ident($op:ident $(, $attribute:literal $default:expr)+);)*) => { $(
        fn $name(case: &Case) -> Run {
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
                let x = case.tensor::<T>(case.arg(0))?;
                let out = Out::of(
                    apply(
                        $op, (x.view()?, $(number::<T>(&real_or(case.kw($attribute), $default)?.into())?),+)
                    )?.view()
                );
                // The attributes are rounded to the element.
                let magnitude = case.magnitude(case.arg(0))?.add(1.0)?;
                Ok(vec![out.magnitude(&magnitude).rounded(2.0)])
            })
        }
    )* };
}
activations! {
    elu(exponential_below, "alpha" 1.0, "gamma" 1.0);
    selu(exponential_below, "alpha" 1.6732632423543772, "gamma" 1.0507009873554805);
    celu(scaled_exponential_below, "alpha" 1.0);
    hard_sigmoid(line_between, "alpha" 0.2, "beta" 0.5);
    thresholded(above, "alpha" 1.0);
    shrink(shrunk, "lambd" 0.5, "bias" 0.0);
    swish(gated, "alpha" 1.0);
}
fn leaky(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64] => {
        let slope = if case.op == "PRelu" {
            case.operand::<T>(case.arg(1))?
        } else {
            case.operand::<T>(&real_or(case.kw("alpha"), 0.01)?.into())?
        };
        one(case.tensor::<T>(case.arg(0))?.view()?.leaky_relu(slope.view()?))
    })
}
fn hard_swish(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.view()?;
        let magnitude = case.magnitude(case.arg(0))?;
        Ok(vec![Out::of((x.lazy() * x.lazy().hard_sigmoid()).eval()?.view()).magnitude(&magnitude)])
    })
}

// ------------------------------------------------------------ reductions

fn axes(case: &Case) -> Result<Axes, Stop> {
    let named = match wholes(case.kw("axis")) {
        Some(axis) => Some(axis),
        None => integers(case, "axes", 1)?,
    };
    if named.as_ref().is_none_or(Vec::is_empty) && real_or(case.kw("noop_with_empty_axes"), 0.0)? != 0.0 {
        return unrun("a reduction of no axes");
    }
    let keep = real_or(case.kw("keepdims"), 1.0)? != 0.0;
    Axes::of(case, &Value::from(named.unwrap_or_default()), &keep.into())
}

macro_rules! reductions {
    ($($name:ident [$($t:ident)*] |$case:ident, $x:ident, $axes:ident, $T:ident| $body:expr;)*) => { $(
        fn $name($case: &Case) -> Run {
            let $axes = axes($case)?;
            by_type!($case.spec(0)?.dtype, $T in [$($t)*] => {
                let operand = $case.tensor::<$T>($case.arg(0))?;
                let $x = operand.view()?;
                let mut out: Out = $body;
                out.magnitude = Some($axes.magnitude(&$case.magnitude($case.arg(0))?)?);
                if $case.op == "ReduceProd" {
                    out.budget = 4.0 + $x.numel() as f64;
                    out.magnitude = None;
                }
                Ok(vec![out])
            })
        }
    )* };
}
reductions! {
    reduce_sum [f16 bf16 f32 f64 i32 i64] |case, x, axes, T| axes.reduce(Sum, x)?;
    reduce_prod [f16 bf16 f32 f64 i32 i64] |case, x, axes, T| axes.reduce(Prod, x)?;
    reduce_mean [f16 bf16 f32 f64] |case, x, axes, T| axes.reduce(Mean, x)?;
    reduce_l1 [f16 bf16 f32 f64] |case, x, axes, T| axes.reduce(Sum, x.abs()?.view())?;
    reduce_squares [f16 bf16 f32 f64] |case, x, axes, T| axes.reduce(Sum, x.square()?.view())?;
    reduce_l2 [f16 bf16 f32 f64] |case, x, axes, T| root(axes.reduce(Sum, x.square()?.view())?)?;
}
fn root(out: Out) -> Result<Out, Stop> {
    let size = out.size.clone();
    by_type!(
        out.dtype,
        T in [f16 bf16 f32 f64] => Ok(Out::of(crate::reduce::values::<T>(&out)?.sqrt()?.view()).sized(size))
    )
}
fn reduce_log(case: &Case) -> Run {
    let axes = axes(case)?;
    by_type!(case.spec(0)?.dtype, T in [f32 f64] => {
        let sum = axes.reduce(Sum, case.tensor::<T>(case.arg(0))?.view()?)?;
        let magnitude = crate::reduce::values::<f64>(&sum)?.map(Square)?.mul(0.0)?.add(1.0)?;
        Ok(vec![
            Out::of(crate::reduce::values::<T>(&sum)?.ln()?.view()).magnitude(&magnitude).sized(sum.size)
        ])
    })
}
fn reduce_log_sum_exp(case: &Case) -> Run {
    let axes = axes(case)?;
    by_type!(case.spec(0)?.dtype, T in [f32 f64] => {
        let out = axes.reduce(LogSumExp, case.tensor::<T>(case.arg(0))?.view()?)?;
        let largest = case.magnitude(case.arg(0))?.iter().copied().fold(1.0, f64::max);
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }])
    })
}
fn extreme(case: &Case) -> Run {
    let axes = axes(case)?;
    if case.spec(0)?.numel() == 0 {
        return unrun("an extreme of nothing");
    }
    if case.spec(0)?.dtype == DType::Bool {
        let x = truth(case, 0)?;
        return Ok(vec![if case.op == "ReduceMax" {
            axes.reduce(Any, x.view())?
        } else {
            axes.reduce(AllTrue, x.view())?
        }]);
    }
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i8 i32 i64 u8] => {
        let x = case.tensor::<T>(case.arg(0))?;
        Ok(vec![
            if case.op == "ReduceMax" {
                axes.reduce(Max, x.view()?)?
            } else {
                axes.reduce(Min, x.view()?)?
            }.exact()
        ])
    })
}
fn place(case: &Case) -> Run {
    // The last of equals is the first from the end.
    let last = real_or(case.kw("select_last_index"), 0.0)? != 0.0;
    let dim = Value::from(case.kw("axis").as_i64().unwrap_or(0));
    let axes = Axes::of(case, &dim, &(real_or(case.kw("keepdims"), 1.0)? != 0.0).into())?;
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let operand = case.tensor::<T>(case.arg(0))?;
        let along = axis(dim.as_i64().unwrap_or(0), operand.spec().rank())? + N - operand.spec().rank();
        let x = if last { operand.view()?.reversed_axis(along)? } else { operand.view()? };
        let mut out = if case.op == "ArgMax" { axes.reduce(ArgMax, x)? } else { axes.reduce(ArgMin, x)? };
        for value in out.values.iter_mut().filter(|_| last) {
            let Scalar::Integer(place) = value else { return unrun("not a place") };
            *place = x.size()[along] as i128 - 1 - *place;
        }
        Ok(vec![out])
    })
}
/// 1 at the first of the largest elements along an axis.
fn hardmax(case: &Case) -> Run {
    let x = case.tensor::<f32>(case.arg(0))?;
    let along = axis(case.kw("axis").as_i64().unwrap_or(-1), x.spec().rank())? + N - x.spec().rank();
    let mut order = std::array::from_fn::<_, N, _>(|k| k);
    order.swap(along, N - 1);
    let x = x.view()?.permuted(order)?;
    moved(Ok(x.argmax(Axis::<{ N - 1 }>)?.one_hot::<f32, N>(x.size()[N - 1])?.into_permuted(order)?))
}
/// One of two values by whether a class is the place on a new axis; classes count from either end.
fn one_hot(case: &Case) -> Run {
    let index = case.operand::<i64>(case.arg(0))?;
    let depth = case.operand::<i64>(case.arg(1))?.view()?[[0; N]];
    let new = axis(case.kw("axis").as_i64().unwrap_or(-1), index.spec().rank() + 1)?;
    let mut size = index.spec().size.clone();
    size.insert(new, 1);
    let classes = index.view()?.iter().map(|&k| if k < 0 { k + depth } else { k }).collect();
    let classes = Operand::new(classes, &size, &Cpu)?;
    size.fill(1);
    size[new] = depth as usize;
    let places = Operand::new((0..depth).collect(), &size, &Cpu)?;
    by_type!(case.spec(2)?.dtype, T in [f32 bf16 i32] => {
        let values = case.tensor::<T>(case.arg(2))?;
        let values = values.at::<1>()?;
        moved(classes.view()?.equal(places.view()?)?.select(values[[1]], values[[0]]))
    })
}

// ------------------------------------------------------------ views and moves

/// Views of the first argument, copied.
macro_rules! arranged {
    ($($name:ident |$case:ident, $x:ident| $body:expr;)*) => { $(
        fn $name($case: &Case) -> Run {
            by_type!($case.spec(0)?.dtype, T in [bool i32 i64 u8 u64 f16 f32 f64] => {
                let operand = $case.tensor::<T>($case.arg(0))?;
                let $x = operand.any()?;
                let views: Vec<View<T>> = $body;
                views.into_iter().map(|view| Ok(each_rank!(view, |x| Out::of(x)).exact())).collect()
            })
        }
    )* };
}
arranged! {
    itself |case, x| vec![x];
    transpose |case, x| {
        let order: Vec<usize> = match wholes(case.kw("perm")) {
            Some(order) => order.into_iter().map(|axis| axis as usize).collect(),
            None => (0..x.rank()).rev().collect(),
        };
        vec![x.permuted(&order)?]
    };
    reshape |case, x| {
        let mut to = integers(case, "shape", 1)?.unwrap_or_default();
        if real_or(case.kw("allowzero"), 0.0)? == 0.0 {
            let size = x.size();
            to.iter_mut().enumerate().filter(|(_, n)| **n == 0).for_each(|(axis, n)| *n = size[axis] as i64);
        }
        vec![x.reshaped(&derived(&to, x.size().iter().product())?)?]
    };
    flatten |case, x| {
        let size = x.size();
        let at = axis(case.kw("axis").as_i64().unwrap_or(1), size.len())?;
        vec![x.reshaped(&[size[..at].iter().product(), size[at..].iter().product()])?]
    };
    squeeze |case, x| {
        let size = x.size();
        let named = integers(case, "axes", 1)?
            .unwrap_or((0..size.len()).filter(|&axis| size[axis] == 1).map(|axis| axis as i64).collect());
        let mut axes = named.into_iter().map(|a| axis(a, size.len())).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        let mut y = x;
        for axis in axes.into_iter().rev() {
            y = y.remove(axis)?;
        }
        vec![y]
    };
    unsqueeze |case, x| {
        let named = integers(case, "axes", 1)?.unwrap_or_default();
        let mut axes = named.iter().map(|&a| axis(a, x.rank() + named.len())).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        let mut y = x;
        for axis in axes {
            y = y.insert(axis)?;
        }
        vec![y]
    };
    slice |case, x| {
        let part = |name, at| integers(case, name, at);
        let (Some(starts), Some(ends)) = (part("starts", 1)?, part("ends", 2)?) else {
            return unrun("no ends")
        };
        let axes = part("axes", 3)?.unwrap_or((0..starts.len() as i64).collect());
        let steps = part("steps", 4)?.unwrap_or(vec![1; starts.len()]);
        let mut y = x;
        for k in 0..starts.len() {
            let axis = axis(axes[k], x.rank())?;
            let size = y.size()[axis] as i64;
            let from_start = |at: i64| if at < 0 { at + size } else { at };
            y = if steps[k] > 0 {
                let (start, end) = (from_start(starts[k]).clamp(0, size), from_start(ends[k]).clamp(0, size));
                y.slice_axis(axis, start as usize, end.max(start) as usize, steps[k] as isize)?
            } else {
                // From `start` down to the position above `end`: that range, from its last.
                let (start, end) = (
                    from_start(starts[k]).clamp(-1, size - 1), from_start(ends[k]).clamp(-1, size - 1)
                );
                y.slice_axis(axis, (end + 1) as usize, (start + 1).max(end + 1) as usize, steps[k] as isize)?
            };
        }
        vec![y]
    };
    split |case, x| {
        let axis = axis(case.kw("axis").as_i64().unwrap_or(0), x.rank())?;
        let size = x.size()[axis];
        let parts = case.kw("num_outputs").as_u64()
            .map_or(case.json["out"].as_array().unwrap().len(), |n| n as usize);
        let len = size.div_ceil(parts);
        let equal = (0..parts).map(|k| len.min(size - (k * len).min(size)) as i64).collect();
        let lengths = integers(case, "split", 1)?.unwrap_or(equal);
        let starts = lengths.iter().scan(0, |at, len| { *at += len; Some(*at - len) });
        starts.zip(&lengths).map(|(start, len)| x.slice_axis(axis, start as usize, (start + len) as usize, 1))
            .collect::<Result<Vec<_>, _>>()?
    };
}
fn joined(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let parts = (0..count(case)).map(|at| case.tensor::<T>(case.arg(at)))
            .collect::<Result<Vec<Operand<T>>, _>>()?;
        let views = parts.iter().map(|part| part.any()).collect::<Result<Vec<_>, _>>()?;
        whole(concat(&views, axis(case.kw("axis").as_i64().unwrap_or(0), views[0].rank())?)?)
    })
}
fn expand(case: &Case) -> Run {
    let to = integers(case, "shape", 1)?.unwrap_or_default();
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let x = x.view()?;
        let to: [usize; N] = std::array::from_fn(
            |axis| (axis + to.len()).checked_sub(N).map_or(1, |axis| to[axis] as usize)
        );
        let size = rankform::layout::joint_size("expand", x.size(), Dim(to))?;
        Ok(vec![Out::of(x.broadcast_to(size)?).exact()])
    })
}
fn shape(case: &Case) -> Run {
    let x = case.spec(0)?;
    let rank = x.rank() as i64;
    let end = |name: &str, default: i64| {
        case.kw(name).as_i64().map_or(default, |k| if k < 0 { k + rank } else { k }).clamp(0, rank) as usize
    };
    let (start, end) = (end("start", 0), end("end", rank));
    by_type!(x.dtype, T in [f32] => {
        let size = case.tensor::<T>(case.arg(0))?.any()?.size();
        one(Tensor::<i64, 1>::from_iter(size[start..end.max(start)].iter().map(|&n| n as i64)))
    })
}
fn numel(case: &Case) -> Run {
    by_type!(
        case.spec(0)?.dtype,
        T in [f32] => one(Ok(Tensor::from(case.tensor::<T>(case.arg(0))?.view()?.numel() as i64)))
    )
}
fn range(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i32 i64] => {
        let item = |at| Ok::<_, Stop>(case.tensor::<T>(case.arg(at))?.view()?[[0; N]]);
        one(Tensor::<T, 1>::arange(item(0)?, item(1)?, item(2)?, &Cpu))
    })
}
fn constant(case: &Case) -> Run {
    if case.op == "Constant" {
        return by_type!(
            case.dtype()?, T in [f32] => moved(case.tensor::<T>(case.kw("value"))?.view()?.copy())
        );
    }
    let size = integers(case, "", 0)?.unwrap_or_default();
    by_type!(case.dtype()?, T in [f32 i32] => {
        let value = case.tensor::<T>(case.kw("value"))?.view()?[[0; N]];
        let size: [usize; N] = std::array::from_fn(
            |axis| (axis + size.len()).checked_sub(N).map_or(1, |axis| size[axis] as usize)
        );
        moved(Tensor::<T, N>::full(size, value, &Cpu))
    })
}
fn identity(case: &Case) -> Run {
    let size = case.spec(0)?.size;
    if size[0] != size[1] || !case.kw("k").is_null() {
        return unrun("an identity that is not square");
    }
    by_type!(case.dtype()?, T in [i32 f64 f32] => moved(Tensor::<T, 2>::eye(size[0], &Cpu)))
}

// ------------------------------------------------------------ products and norms

fn gemm(case: &Case) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f32] => {
        let turned = |name: &str, at| {
            let factor = contract::Factor::<T>::of(case, case.arg(at))?;
            if case.kw(name).as_i64() == Some(1) { factor.transposed() } else { Ok(factor) }
        };
        let product = turned("transA", 0)?.times(&turned("transB", 1)?)?;
        let zero = Value::from(0.0);
        let bias = if case.arg(2).is_null() { &zero } else { case.arg(2) };
        Ok(vec![contract::plus(case, bias, product, case.kw("beta"), case.kw("alpha"))?])
    })
}
fn shares(case: &Case) -> Run {
    let rank = case.spec(0)?.rank();
    let axis = axis(case.kw("axis").as_i64().unwrap_or(-1), rank)? + N - rank;
    by_type!(
        case.spec(0)?.dtype,
        T in [f32] => crate::normalize::shares_along::<T, D>(
            case, case.arg(0), axis, case.op == "LogSoftmax", false
        )
    )
}
fn layer_norm(case: &Case) -> Run {
    let spec = case.spec(0)?;
    let at = axis(case.kw("axis").as_i64().unwrap_or(-1), spec.rank())?;
    let inner: usize = spec.size[at..].iter().product();
    let kept: Vec<usize> = (0..spec.rank()).map(|axis| if axis < at { spec.size[axis] } else { 1 }).collect();
    by_type!(spec.dtype, T in [f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let rows = x.view()?.to_shape([spec.numel() / inner, inner])?;
        let eps = real_or(case.kw("epsilon"), 1e-5)?;
        let bias = if case.arg(2).is_null() { None } else { Some(case.operand::<T>(case.arg(2))?) };
        let mut all = scaled(
            rows_normalized(&rows, eps)?, Some(case.operand::<T>(case.arg(1))?), bias, spec.size.clone()
        )?;
        // The mean and the inverse deviation, where they are asked for: reductions of the same rows.
        let mean = rows.mean(Axis::<1>)?;
        let magnitude = rows.abs()?.mean(Axis::<1>)?.cast::<f64>()?;
        all.push(Out::of(mean.view()).magnitude(&magnitude).sized(kept.clone()));
        let deviation = (rows.lazy().var(Axis::<1>)?.lazy() + eps as f32).rsqrt().eval()?;
        let magnitude = deviation.cast::<f64>()?;
        all.push(Out::of(deviation.view()).magnitude(&magnitude).sized(kept));
        all.truncate(case.json["out"].as_array().map_or(1, Vec::len));
        Ok(all)
    })
}

/// A logical operator of truth values.
fn logic<F: Op<(bool, bool), Out = bool>>(case: &Case, f: F) -> Run {
    one(case.tensor::<bool>(case.arg(0))?.view()?.zip(f, case.tensor::<bool>(case.arg(1))?.view()?))
}

pub const ROWS: &[Row] = &[
    ("Abs", |c| ordered(c, Abs)),
    ("Acos", |c| function(c, Acos)),
    ("Acosh", |c| function(c, Acosh)),
    ("Asin", |c| function(c, Asin)),
    ("Asinh", |c| function(c, Asinh)),
    ("Atan", |c| function(c, Atan)),
    ("Atanh", |c| function(c, Atanh)),
    ("Cos", |c| function(c, Cos)),
    ("Cosh", |c| function(c, Cosh)),
    ("Erf", |c| function(c, Erf)),
    ("Exp", |c| function(c, Exp)),
    ("Log", |c| function(c, Ln)),
    ("Mish", |c| function(c, Mish)),
    ("Reciprocal", |c| function(c, Recip)),
    ("Sigmoid", |c| function(c, Sigmoid)),
    ("Sin", |c| function(c, Sin)),
    ("Sinh", |c| function(c, Sinh)),
    ("Softplus", |c| function(c, Softplus)),
    ("Softsign", |c| function(c, Softsign)),
    ("Sqrt", |c| function(c, Sqrt)),
    ("Tan", |c| function(c, Tan)),
    ("Tanh", |c| function(c, Tanh)),
    ("Gelu", |c| if c.kw("approximate") == "tanh" { gelu(c, GeluTanh) } else { gelu(c, Gelu) }),
    ("Ceil", |c| rounding(c, Ceil)),
    ("Floor", |c| rounding(c, Floor)),
    ("Round", |c| rounding(c, Round)),
    ("Relu", |c| ordered(c, Relu)),
    ("Sign", |c| ordered(c, Signum)),
    ("Neg", neg),
    ("Not", not),
    ("BitwiseNot", not),
    ("IsNaN", elementwise::number_or_not),
    ("IsInf", infinite),
    ("Elu", elu),
    ("Selu", selu),
    ("Celu", celu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", hard_swish),
    ("LeakyRelu", leaky),
    ("PRelu", leaky),
    ("Shrink", shrink),
    ("Swish", swish),
    ("ThresholdedRelu", thresholded),
    ("Add", add),
    ("Sub", sub),
    ("Mul", mul),
    ("Div", div),
    ("Mod", |c| if real_or(c.kw("fmod"), 0.0)? == 0.0 { modulo(c) } else { remainder(c) }),
    ("BitShift", shift),
    ("Pow", power),
    ("Max", largest),
    ("Min", smallest),
    ("Sum", total),
    ("Mean", total),
    ("Clip", clip),
    ("Equal", equal),
    ("Less", less),
    ("LessOrEqual", less_equal),
    ("Greater", greater),
    ("GreaterOrEqual", greater_equal),
    ("And", |c| logic(c, ops::BitAnd)),
    ("Or", |c| logic(c, ops::BitOr)),
    ("Xor", |c| logic(c, ops::BitXor)),
    ("BitwiseAnd", bit_and),
    ("BitwiseOr", bit_or),
    ("BitwiseXor", bit_xor),
    ("Where", chosen),
    ("Cast", cast),
    ("CastLike", cast),
    ("ReduceSum", reduce_sum),
    ("ReduceProd", reduce_prod),
    ("ReduceMean", reduce_mean),
    ("ReduceL1", reduce_l1),
    ("ReduceL2", reduce_l2),
    ("ReduceSumSquare", reduce_squares),
    ("ReduceLogSum", reduce_log),
    ("ReduceLogSumExp", reduce_log_sum_exp),
    ("ReduceMax", extreme),
    ("ReduceMin", extreme),
    ("ArgMax", place),
    ("ArgMin", place),
    ("Hardmax", hardmax),
    ("OneHot", one_hot),
    ("Identity", itself),
    ("Transpose", transpose),
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Slice", slice),
    ("Split", split),
    ("Concat", joined),
    ("Expand", expand),
    ("Shape", shape),
    ("Size", numel),
    ("Range", range),
    ("Constant", constant),
    ("ConstantOfShape", constant),
    ("EyeLike", identity),
    ("MatMul", |c| {
        by_type!(c.spec(0)?.dtype, T in [f32] => {
            Ok(vec![
                contract::Factor::<T>::of(c, c.arg(0))?.times(&contract::Factor::of(c, c.arg(1))?)?.out()?
            ])
        })
    }),
    ("Gemm", gemm),
    ("Softmax", shares),
    ("LogSoftmax", shares),
    ("LayerNormalization", layer_norm),
];
