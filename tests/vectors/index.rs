//! Elements by index and by mask; padding, rolling, repeating, triangles.

use crate::case::{
    Case, CaseDevice, N, Operand, Out, Run, Seen, Spec, Stop, axis, axis_of, moved, number, one, real_or,
    size_of_number, unrun, wholes,
};
use crate::{Row, by_rank, by_type};
use rankform::kernel::Op;
use rankform::ops::{self, FloorDivide, Maximum, Minimum, Pad, Remainder, Replace, ScatterReduction};
use rankform::prelude::*;
use rankform::scalar::DType;
use rankform::{bf16, f16};
use serde_json::Value;

/// Positions along an axis of `n` elements: those below 0 count from the end there, and from the start here.
pub fn positions<D: CaseDevice>(case: &Case<D>, value: &Value, n: usize) -> Result<Operand<i64, D>, Stop> {
    let Some(spec) = Spec::of(value) else { return unrun("not a tensor") };
    let from_start = |at: i64| if at < 0 && !case.is_error() { at + n as i64 } else { at };
    let positions = case.integers(value)?.into_iter().map(from_start).collect();
    Operand::new(positions, &spec.size, &case.device)
}
/// The axis that an argument names, among those of rank `N`.
fn axis_in(value: &Value, rank: usize) -> Result<usize, Stop> {
    Ok(axis_of(value, rank)? + N - rank.max(1))
}
fn cut<'a, T: Seen, D: CaseDevice>(
    x: TensorView<'a, T, N, D>,
    size: [usize; N],
    but: usize,
) -> Result<TensorView<'a, T, N, D>, Stop> {
    let mut x = x;
    for (axis, n) in size.into_iter().enumerate() {
        if axis != but && n < x.size()[axis] {
            x = x.slice_axis(axis, 0..n, 1)?;
        }
    }
    Ok(x)
}

/// The sum of two elements; of truth values whether either is.
#[derive(Clone, Copy, Debug)]
struct Sum;
macro_rules! sums {
    ($($t:ty: $op:ident;)*) => { $(
        impl Op<($t, $t)> for Sum {
            const NAME: &'static str = "sum";
            type Out = $t;
            fn call<L: Lanes>(pair: (Lane<L, Compute<$t>>, Lane<L, Compute<$t>>)) -> Lane<L, Compute<$t>> {
                <ops::$op as Op<($t, $t)>>::call::<L>(pair)
            }
        }
    )* };
}
sums! {
    f16: Add;
    bf16: Add;
    f32: Add;
    f64: Add;
    i64: Add;
    i32: Add;
    u8: Add;
    bool: BitOr;
    num_complex::Complex<f32>: Add;
}

/// The same for every element.
macro_rules! elements {
    ($($name:ident [$($t:ident)*] |$case:ident, $T:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!($case.spec(0)?.dtype, $T in [$($t)*] => $body)
        }
    )* };
}
elements! {
    gather [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        case.only(&["sparse_grad", "axis"])?;
        let x = case.tensor::<T>(case.arg(0))?;
        let rank = x.spec().rank();
        let dim = if case.op == "GatherElements" {
            axis(case.kw("axis").as_i64().unwrap_or(0), rank)? + N - rank
        } else {
            axis_in(case.get(1, "dim"), rank)?
        };
        let index = case.arg(if case.op == "GatherElements" { 1 } else { 2 });
        if Spec::of(index).is_some_and(|spec| spec.rank() != rank && case.is_error()) {
            return unrun("does not compile: an index of another rank");
        }
        let index = positions(case, index, x.view()?.size()[dim])?;
        let index = index.view()?;
        moved(cut(x.view()?, index.size().0, dim)?.gather_axis(dim, index))
    };
    take_along [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        if case.get(2, "dim").is_null() {
            let n = x.spec().numel();
            let index = positions(case, case.arg(1), n)?;
            return moved(x.view()?.take(&index.view()?.to_shape([index.spec().numel()])?));
        }
        let dim = axis_in(case.get(2, "dim"), x.spec().rank())?;
        moved(x.view()?.gather_axis(dim, positions(case, case.arg(1), x.view()?.size()[dim])?.view()?))
    };
    take [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        case.only(&[])?;
        let x = case.tensor::<T>(case.arg(0))?;
        moved(x.view()?.take(positions(case, case.arg(1), x.spec().numel())?.view()?))
    };
    index_select [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        case.only(&[])?;
        let x = case.tensor::<T>(case.arg(0))?;
        let dim = axis_in(case.get(1, "dim"), x.spec().rank())?;
        let index = positions(case, case.get(2, "index"), x.view()?.size()[dim])?;
        moved(x.view()?.index_select_axis(dim, index.at::<1>()?))
    };
    masked_select [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        case.only(&[])?;
        moved(case.tensor::<T>(case.arg(0))?.view()?.masked_select(case.tensor::<bool>(case.arg(1))?.view()?))
    };
    nonzero [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        by_rank!(x.spec().rank(), R in [0 1 2 3 4] => {
            let found = x.at::<R>()?.nonzero()?;
            if case.op == "NonZero" { moved(found.transposed().copy()) } else { moved(Ok(found)) }
        })
    };
    roll [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        let rank = x.spec().rank();
        let shifts = wholes(case.get(1, "shifts")).unwrap_or_default();
        let Some(dims) = wholes(case.get(2, "dims")) else {
            if shifts.len() != 1 {
                return unrun("does not compile: no shift");
            }
            let line = x.view()?.to_shape([x.spec().numel()])?.roll(Axis::<0>, shifts[0] as isize)?;
            return moved(line.into_shape(x.view()?.size()));
        };
        if dims.len() != shifts.len() || rank == 0 {
            return unrun("does not compile: shifts and axes");
        }
        let mut y = x.view()?.copy()?;
        for (dim, shift) in dims.into_iter().zip(shifts) {
            y = y.roll_axis(axis(dim, rank)? + N - rank, shift as isize)?;
        }
        moved(Ok(y))
    };
    repeat_interleave [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        let Some(times) = case.get(1, "repeats").as_u64() else {
            let counts = case.operand::<i64>(case.get(1, "repeats"))?;
            let counts = counts.view()?.to_shape([counts.spec().numel()])?;
            if case.kw("dim").is_null() {
                let line = x.view()?.to_shape([x.spec().numel()])?;
                let counts = counts.broadcast_to(
                    if counts.numel() == 1 { line.size() } else { counts.size() }
                )?;
                return moved(line.repeat_each(Axis::<0>, counts));
            }
            let dim = axis_in(case.kw("dim"), x.spec().rank())?;
            let counts = counts.broadcast_to(
                if counts.numel() == 1 { [x.view()?.size()[dim]].into() } else { counts.size() }
            )?;
            return moved(x.view()?.repeat_each_axis(dim, counts));
        };
        if case.kw("dim").is_null() {
            return moved(x.view()?.to_shape([x.spec().numel()])?.repeat(Axis::<0>, times as usize));
        }
        moved(x.view()?.repeat_axis(axis_in(case.kw("dim"), x.spec().rank())?, times as usize))
    };
    triangle [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        if x.spec().rank() < 2 {
            return unrun("does not compile: a line has no triangle");
        }
        let diagonal = match case.get(1, "diagonal") {
            Value::Null => 0,
            Value::Number(n) => n.as_i64().unwrap_or(0),
            tensor => case.tensor::<i64>(tensor)?.item()?,
        };
        let upper = case.op == "triu" || case.op == "Trilu" && case.kw("upper") != 0;
        moved(if upper { x.view()?.triu(diagonal) } else { x.view()?.tril(diagonal) })
    };
    index_copy [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let from = case.tensor::<T>(case.get(3, "source"))?;
        index_written::<T, _, D>(case, Replace, from.view()?)
    };
    index_fill [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let value = case.operand::<T>(case.get(3, "value"))?;
        index_written::<T, _, D>(case, Replace, value.view()?)
    };
    index_put [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        let places = case.arg(1).as_array().unwrap();
        let Ok([rows, columns]) = <[usize; 2]>::try_from(x.spec().size.clone()) else {
            return unrun("another rank")
        };
        let index = match Spec::of(&places[0]).map(|spec| spec.dtype) {
            Some(DType::Bool) => case.tensor::<bool>(&places[0])?.at::<1>()?.nonzero()?.into_slice((.., 0))?
                .to_contiguous()?,
            _ => positions(case, &places[0], rows)?.at::<1>()?.copy()?,
        };
        let mut cells = x.at::<2>()?.copy()?;
        let from = case.tensor::<T>(case.arg(2))?;
        // Sums are those of every element in its class.
        if places.len() == 2 {
            let more = positions(case, &places[1], columns)?.at::<1>()?.copy()?;
            let from = from.at::<1>()?;
            match case.kw("accumulate").as_bool() == Some(true) {
                true => cells.index_put(Sum, (&index, &more), from)?,
                false => cells.index_put(Replace, (&index, &more), from)?,
            }
        } else {
            let from = from.at::<2>()?;
            match case.kw("accumulate").as_bool() == Some(true) {
                true => cells.index_put(Sum, (&index,), from)?,
                false => cells.index_put(Replace, (&index,), from)?,
            }
        }
        let out = Out::of(cells.view());
        let largest = case.magnitude(case.arg(0))?.iter().copied().fold(0.0, f64::max)
            + case.magnitude(case.arg(2))?.iter().sum::<f64>();
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0)])
    };
    // At the positions of a strided view.
    as_strided_scatter [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let (x, from) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let (size, stride) = (
            wholes(case.get(2, "size")).unwrap_or_default(), wholes(case.get(3, "stride")).unwrap_or_default()
        );
        let Some(new) = N.checked_sub(size.len()) else { return unrun(format!("rank {}", size.len())) };
        let [size, stride] = [(size, 1), (stride, 0)].map(|(numbers, none)| std::array::from_fn::<_, N, _>(
            |axis| if axis < new { none } else { numbers[axis - new] as isize }
        ));
        let mut cells = x.memory().copy()?;
        let all = Tensor::<i64, 1, D>::arange(0, cells.numel() as i64, 1, &case.device)?;
        let places = all.as_strided(
            size.map(|n| n as usize), stride, case.get(4, "storage_offset").as_u64().unwrap_or(0) as usize
        )?;
        cells.scatter(
            Replace, Axis::<0>, &places.to_shape([places.numel()])?,
            &from.view()?.to_shape([from.spec().numel()])?
        )?;
        let (size, stride) = (x.view()?.size(), x.view()?.stride());
        moved(cells.as_strided(size, stride, x.spec().offset)?.copy())
    };
    tiled [f16 bf16 f32 f64 i64 i32 u8 bool c64] |case, T| {
        let x = case.tensor::<T>(case.arg(0))?;
        let times = if case.op == "Tile" {
            case.integers(case.arg(1))?
        } else {
            wholes(case.arg(1)).unwrap_or_default()
        };
        moved(x.view()?.tile(
            std::array::from_fn(
                |axis| (axis + times.len()).checked_sub(N).map_or(1, |axis| times[axis] as usize)
            )
        ))
    };
    embedding [f16 bf16 f32 f64] |case, T| {
        case.only(&["padding_idx", "scale_grad_by_freq", "sparse"])?;
        if !D::EVERY_ELEMENT && (!case.kw("padding_idx").is_null() || case.kw("scale_grad_by_freq") == true) {
            return unrun("a gradient other than that of the function");
        }
        if case.spec(0)?.rank() != 2 {
            return unrun("does not compile: a table of another rank than 2");
        }
        let (table, index) = (case.tensor::<T>(case.arg(0))?, case.operand::<i64>(case.arg(1))?);
        by_rank!(index.spec().rank(), R in [0 1 2 3] => moved(table.at::<2>()?.embedding(index.at::<R>()?)))
    };
    one_hot [i64] |case, T| {
        let index = case.tensor::<T>(case.arg(0))?;
        let classes = case.get(1, "num_classes").as_i64().unwrap_or(-1);
        let classes = if classes < 0 {
            case.integers(case.arg(0))?.into_iter().max().map_or(0, |last| last + 1)
        } else {
            classes
        };
        by_rank!(
            index.spec().rank(), R in [0 1 2 3] => moved(index.at::<R>()?.one_hot::<i64, _>(classes as usize))
        )
    };
    bincount [i64 i32 u8] |case, T| {
        let _ = T::DTYPE;
        let index = case.operand::<i64>(case.arg(0))?;
        let index = index.at::<1>()?;
        let bins = case.integers(case.arg(0))?.into_iter().max().map_or(0, |last| last + 1).max(
            case.kw("minlength").as_i64().unwrap_or(0)
        ) as usize;
        if case.kw("weights").is_null() {
            return one(index.bincount(bins));
        }
        by_type!(case.dtype()?, W in [f32 f64] => {
            let weights = case.operand::<W>(case.kw("weights"))?;
            let sums = index.bincount_of(weights.at::<1>()?, bins)?;
            let largest = case.magnitude(case.kw("weights"))?.iter().sum::<f64>();
            Ok(vec![Out::of(sums.view()).magnitude(&Tensor::full([bins], largest, &Cpu)?)])
        })
    };
}

/// Elements written at positions of the flattened tensor, or added to its elements.
fn put<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.get(3, "accumulate").as_bool() == Some(true) {
        if case.spec(0)?.dtype == DType::Bool {
            return Ok(vec![put_by::<bool, _, D>(case, ops::BitOr)?.exact()]);
        }
        return by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
            let largest = case.magnitude(case.arg(0))?.iter().copied().fold(0.0, f64::max)
                + case.magnitude(case.arg(2))?.iter().sum::<f64>();
            let out = put_by::<T, _, D>(case, ops::Add)?;
            let sizes = vec![largest; out.values.len()];
            Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0)])
        });
    }
    by_type!(
        case.spec(0)?.dtype,
        T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => Ok(vec![put_by::<T, _, D>(case, Replace)?.exact()])
    )
}
fn put_by<T: Seen, F: Op<(T, T), Out = T>, D: CaseDevice>(case: &Case<D>, f: F) -> Result<Out, Stop> {
    let (x, from) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(2))?);
    let index = positions(case, case.arg(1), x.spec().numel())?;
    let index = index.view()?.to_shape([index.spec().numel()])?;
    let mut cells = x.view()?.to_shape([x.spec().numel()])?;
    cells.scatter(f, Axis::<0>, &index, &from.view()?.to_shape([from.spec().numel()])?)?;
    Ok(Out::of(cells.into_shape(x.view()?.size())?.view()))
}

/// A copy of the first argument with `values` written, by an operator, at positions of an axis.
fn index_written<T: Seen, F: Op<(T, T), Out = T>, D: CaseDevice>(
    case: &Case<D>,
    f: F,
    values: TensorView<'_, T, N, D>,
) -> Run {
    let x = case.tensor::<T>(case.arg(0))?;
    let dim = axis_in(case.get(1, "dim"), x.spec().rank())?;
    let mut cells = x.view()?.copy()?;
    let index = positions(case, case.get(2, "index"), cells.size()[dim])?;
    cells.index_scatter_axis(f, dim, index.at::<1>()?, values)?;
    Ok(vec![Out::of(cells.view())])
}
fn index_add<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.spec(0)?.dtype == DType::Bool {
        let values = case.tensor::<bool>(case.get(3, "source"))?;
        let values = values.view()?.zip(ops::BitAnd, case.kw("alpha").as_bool() != Some(false))?;
        return index_written::<bool, _, D>(case, ops::BitOr, values.view());
    }
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let alpha = if case.kw("alpha").is_null() {
            T::from_f64(1.0)
        } else {
            number::<T>(case.kw("alpha"))?
        };
        let values = case.tensor::<T>(case.get(3, "source"))?.view()?.zip(ops::Mul, alpha)?;
        let total = case.magnitude(case.get(3, "source"))?.iter().sum::<f64>()
            * size_of_number(case.kw("alpha"));
        let largest = case.magnitude(case.arg(0))?.iter().copied().fold(0.0, f64::max) + total;
        let out = index_written::<T, _, D>(case, ops::Add, values.view())?.remove(0);
        let sizes = vec![largest; out.values.len()];
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(4.0)])
    })
}

/// Elements written at positions along an axis, by an operator between the old and the new element.
fn scatter<D: CaseDevice>(case: &Case<D>) -> Run {
    let (index_at, from_at) =
        if case.op == "ScatterElements" || case.op == "Scatter" { (1, 2) } else { (2, 3) };
    let spec = case.spec(0)?;
    let others = [Spec::of(case.arg(index_at)), Spec::of(case.arg(from_at))];
    if others.iter().flatten().any(|other| other.rank() != spec.rank() && case.is_error()) {
        return unrun("does not compile: an index of another rank");
    }
    if case.is_error() && others[1].as_ref().is_some_and(|other| other.dtype != spec.dtype) {
        return unrun("does not compile: other elements");
    }
    let word = |value: &Value| value.as_str().map(str::to_string);
    let named = word(case.kw("reduce")).or_else(|| word(case.arg(4))).or_else(|| word(case.kw("reduction")));
    let kind =
        named.or_else(|| case.op.starts_with("scatter_add").then(|| "add".into())).unwrap_or("none".into());
    let alone = case.kw("include_self").as_bool() == Some(false);
    let dim = if from_at == 2 {
        axis(case.kw("axis").as_i64().unwrap_or(0), spec.rank())? + N - spec.rank()
    } else {
        axis_in(case.get(1, "dim"), spec.rank())?
    };
    let largest = case.magnitude(case.arg(0))?.iter().copied().fold(1.0, f64::max)
        + case.magnitude(case.arg(from_at))?.iter().sum::<f64>();
    let plan = Scatter { dim, index: case.arg(index_at), from: case.arg(from_at), alone };
    // Sums and products of 16-bit floats are rounded at every step.
    Ok(vec![match &*kind {
        "none" => by_type!(
            spec.dtype,
            T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => plan.run::<T, _, D>(case, Replace, None)
        )?
        .exact(),
        "add" | "sum" if spec.dtype == DType::Bool => {
            plan.run::<bool, _, D>(case, ops::BitOr, Some(0.0))?.exact()
        }
        "multiply" | "prod" | "mul" if spec.dtype == DType::Bool => {
            plan.run::<bool, _, D>(case, ops::BitAnd, Some(1.0))?.exact()
        }
        "add" | "sum" => {
            let out = by_type!(
                spec.dtype,
                T in [f16 bf16 f32 f64 i64 i32 u8 c64] => plan.run::<T, _, D>(case, ops::Add, Some(0.0))
            )?;
            let sizes = vec![largest; out.values.len()];
            Out { magnitude: Some(sizes), ..out }.rounded(8.0)
        }
        "multiply" | "prod" | "mul" => {
            let out = by_type!(
                spec.dtype,
                T in [f16 bf16 f32 f64 i64 i32 u8 c64] => plan.run::<T, _, D>(case, ops::Mul, Some(1.0))
            )?;
            let sizes = out.values.iter().map(|x| x.magnitude() * 2.0).collect();
            Out { magnitude: Some(sizes), ..out }.rounded(8.0)
        }
        "amin" | "min" => by_type!(
            spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => plan.run::<T, _, D>(case, Minimum, None)
        )?
        .exact(),
        "amax" | "max" => by_type!(
            spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => plan.run::<T, _, D>(case, Maximum, None)
        )?
        .exact(),
        _ => return unrun("means"),
    }])
}
/// The elements written, and their positions.
struct Scatter<'a> {
    dim: usize,
    index: &'a Value,
    from: &'a Value,
    /// Without the old elements: the identity first, or one of the new elements where the operator is an
    /// extreme.
    alone: bool,
}
impl Scatter<'_> {
    fn run<T: Seen, F: Op<(T, T), Out = T>, D: CaseDevice>(
        &self,
        case: &Case<D>,
        f: F,
        neutral: Option<f64>,
    ) -> Result<Out, Stop> {
        let x = case.tensor::<T>(case.arg(0))?;
        let mut out = x.view()?.copy()?;
        let size = out.size();
        let index = positions(case, self.index, size[self.dim])?;
        let index = index.view()?;
        let from = case.operand::<T>(self.from)?;
        let from = from.view()?;
        // Only the cells of the index axis are written, and only as many are read.
        let from = if from.numel() == 1 { from } else { cut(from, index.size().0, N)? }
            .broadcast_to(index.size())?;
        let [a, b, c, d, e] =
            std::array::from_fn(|axis| if axis == self.dim { size[axis] } else { index.size()[axis] });
        let mut cells = out.view_mut()?.slice((0..a, 0..b, 0..c, 0..d, 0..e))?;
        match neutral {
            Some(neutral) if self.alone => {
                cells.scatter_axis(
                    Replace,
                    self.dim,
                    index,
                    Tensor::full(index.size(), T::from_f64(neutral), &case.device)?.view(),
                )?;
            }
            None if self.alone => cells.scatter_axis(Replace, self.dim, index, from)?,
            _ => {}
        }
        cells.scatter_axis(f, self.dim, index, from)?;
        Ok(Out::of(out.view()))
    }
}

/// Elements reduced with the new ones, with and without the old ones.
fn reduced<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let word = case.get(4, "reduce").as_str().unwrap_or("");
    let meeting = match word {
        "sum" => ScatterReduction::Sum,
        "prod" => ScatterReduction::Prod,
        "mean" => ScatterReduction::Mean,
        "amax" => ScatterReduction::Max,
        "amin" => ScatterReduction::Min,
        _ => return unrun("does not compile: no such reduction"),
    };
    let whole = case.kw("include_self").as_bool() != Some(false);
    let dim = axis_in(case.get(1, "dim"), spec.rank())?;
    let largest = case.magnitude(case.arg(0))?.iter().copied().fold(1.0, f64::max)
        + case.magnitude(case.arg(3))?.iter().sum::<f64>();
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
        let (x, from) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(3))?);
        let mut out = x.view()?.copy()?;
        let size = out.size();
        let index = positions(case, case.get(2, "index"), size[dim])?;
        if case.op.starts_with("index") {
            out.index_reduce_axis(meeting, dim, index.at::<1>()?, from.view()?, whole)?;
        } else {
            let index = index.view()?;
            let from = cut(from.view()?, index.size().0, N)?;
            let [a, b, c, d, e] = std::array::from_fn(
                |axis| if axis == dim { size[axis] } else { index.size()[axis] }
            );
            out.view_mut()?.slice((0..a, 0..b, 0..c, 0..d, 0..e))?
                .scatter_reduce_axis(meeting, dim, index, from, whole)?;
        }
        let out = Out::of(out.view());
        let sizes = match meeting {
            ScatterReduction::Max | ScatterReduction::Min => return Ok(vec![out.exact()]),
            ScatterReduction::Prod => out.values.iter().map(|x| x.magnitude() * 2.0).collect(),
            _ => vec![largest; out.values.len()],
        };
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(8.0)])
    })
}

/// Values in order where a mask holds.
fn masked_scatter<D: CaseDevice>(case: &Case<D>) -> Run {
    let specs = [case.spec(0)?, case.spec(1)?];
    if specs[1].dtype != DType::Bool {
        return unrun("does not compile: a mask of numbers");
    }
    by_type!(specs[0].dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let (x, mask, values) = (
            case.tensor::<T>(case.arg(0))?, case.tensor::<bool>(case.arg(1))?, case.tensor::<T>(case.arg(2))?
        );
        // The reference stretches the cells as well.
        let size = std::array::from_fn(
            |axis| x.view().unwrap().size()[axis].max(mask.view().unwrap().size()[axis])
        );
        let mut cells = x.view()?.broadcast_to(size)?.to_contiguous()?;
        cells.masked_scatter(mask.view()?, values.view()?)?;
        moved(Ok(cells))
    })
}
fn members<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["assume_unique", "invert"])?;
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool] => {
        one(case.tensor::<T>(case.arg(0))?.view()?.isin(case.tensor::<T>(case.arg(1))?.view()?))
    })
}

/// More elements at the ends of axes; fewer where a width is below 0.
fn pad<D: CaseDevice>(case: &Case<D>) -> Run {
    let onnx = case.op == "Pad";
    let spec = case.spec(0)?;
    let widths: Vec<i64> =
        if onnx { case.integers(case.arg(1))? } else { wholes(case.get(1, "pad")).unwrap_or_default() };
    if onnx && !case.arg(3).is_null() {
        return unrun("named axes");
    }
    let mut ends = [(0i64, 0i64); N];
    let half = widths.len() / 2;
    for k in 0..half {
        let (axis, pair) = if onnx {
            (N - half + k, (widths[k], widths[half + k]))
        } else {
            (N - 1 - k, (widths[2 * k], widths[2 * k + 1]))
        };
        ends[axis] = pair;
    }
    let mode = if onnx {
        case.kw("mode").as_str()
    } else if case.op == "constant_pad_nd" {
        Some("constant")
    } else {
        case.get(2, "mode").as_str()
    };
    let value = if onnx {
        case.arg(2)
    } else if case.op == "constant_pad_nd" {
        case.get(2, "value")
    } else {
        case.get(3, "value")
    };
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let mut x = x.view()?;
        let constant = if value.is_null() { T::default() } else { case.operand::<T>(value)?.item()? };
        for (axis, (before, after)) in ends.iter().enumerate() {
            let n = x.size()[axis] as i64;
            let (start, end) = ((-before).max(0), n - (-after).max(0));
            x = x.slice_axis(axis, start.min(n) as usize..end.max(start.min(n)) as usize, 1)?;
        }
        let widths = ends.map(|(before, after)| (before.max(0) as usize, after.max(0) as usize));
        let pad = match mode {
            Some("reflect") => Pad::Reflect,
            Some("replicate" | "edge") => Pad::Edge,
            Some("circular" | "wrap") => Pad::Wrap,
            _ => Pad::Constant(constant),
        };
        moved(x.pad(widths, pad))
    })
}

/// Integers as a line on the device of the case.
fn line<D: CaseDevice>(case: &Case<D>, integers: Vec<i64>) -> Result<Tensor<i64, 1, D>, Stop> {
    let size = [integers.len()];
    Ok(Operand::new(integers, &size, &case.device)?.at::<1>()?.copy()?)
}
/// Positions of one axis, by a list, a tensor or a mask.
pub fn pick<D: CaseDevice>(case: &Case<D>, dim: usize, index: &Value) -> Run {
    let spec = case.spec(0)?;
    let index = match Spec::of(index).map(|spec| spec.dtype) {
        Some(DType::Bool) => {
            case.tensor::<bool>(index)?.at::<1>()?.nonzero()?.into_slice((.., 0))?.to_contiguous()?
        }
        Some(_) => positions(case, index, spec.size[dim])?.at::<1>()?.copy()?,
        None => line(case, wholes(index).unwrap_or_default())?,
    };
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        moved(case.tensor::<T>(case.arg(0))?.view()?.index_select_axis(dim + N - spec.rank(), &index))
    })
}
/// The elements at several lists of positions, one for each of the first axes, broadcast against each other.
pub fn pick_pairs<D: CaseDevice>(case: &Case<D>, lists: &[Value]) -> Run {
    let spec = case.spec(0)?;
    let index = lists.iter().zip(&spec.size).map(|(list, &n)| match wholes(list) {
        Some(list) => {
            line(case, list.into_iter().map(|at| if at < 0 { at + n as i64 } else { at }).collect())
        }
        None => Ok::<_, Stop>(positions(case, list, n)?.at::<1>()?.copy()?),
    });
    let index = index.collect::<Result<Vec<_>, _>>()?;
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        match (spec.rank(), &index[..]) {
            (3, [i, j, k]) => moved(x.at::<3>()?.index((i, j, k))),
            (3, [i, j]) => moved(x.at::<3>()?.index((i, j))),
            (2, [i, j]) => moved(x.at::<2>()?.index((i, j))),
            _ => unrun("several lists of positions"),
        }
    })
}
/// The place on each axis of sizes, from a position counted through all of them.
fn unravelled<D: CaseDevice>(case: &Case<D>) -> Run {
    let index = case.operand::<i64>(case.arg(0))?;
    let Some(sizes) = wholes(case.get(1, "shape")) else { return unrun("sizes in a tensor") };
    let place = |axis: usize| {
        let below: i64 = sizes[axis + 1..].iter().product();
        Ok(Out::of(index.view()?.zip(FloorDivide, below)?.zip(Remainder, sizes[axis])?.view()))
    };
    (0..sizes.len()).map(place).collect()
}

/// Of ONNX: elements and slices with their indices in the last axis of one tensor.
fn gather_nd<D: CaseDevice>(case: &Case<D>) -> Run {
    let (spec, index) = (case.spec(0)?, case.operand::<i64>(case.arg(1))?);
    let batch = real_or(case.kw("batch_dims"), 0.0)? != 0.0;
    by_type!(spec.dtype, T in [i32 f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        match (spec.rank(), &index.spec().size[..], batch) {
            (2, [_, 2], false) => {
                let all = index.at::<2>()?;
                moved(x.at::<2>()?.index((all.slice((.., 0))?, all.slice((.., 1))?)))
            }
            (3, [_, _, 2], false) => {
                let all = index.at::<3>()?;
                moved(x.at::<3>()?.index((all.slice((.., .., 0))?, all.slice((.., .., 1))?)))
            }
            (3, &[n, 1], true) => {
                let first = Tensor::arange(0, n as i64, 1, &case.device)?;
                moved(x.at::<3>()?.index((&first, index.at::<2>()?.slice((.., 0))?)))
            }
            _ => unrun("other ranks"),
        }
    })
}
fn scatter_nd<D: CaseDevice>(case: &Case<D>) -> Run {
    fn run<F: Op<(f32, f32), Out = f32>, D: CaseDevice>(case: &Case<D>, f: F) -> Run {
        let (x, from, index) = (
            case.tensor::<f32>(case.arg(0))?,
            case.tensor::<f32>(case.arg(2))?,
            case.operand::<i64>(case.arg(1))?,
        );
        let all = index.at::<2>()?;
        match (x.spec().rank(), all.size().0[1]) {
            (3, 1) => {
                let mut cells = x.at::<3>()?.copy()?;
                cells.index_put(f, (all.slice((.., 0))?,), from.at::<3>()?)?;
                one(Ok(cells))
            }
            (2, 2) => {
                let mut cells = x.at::<2>()?.copy()?;
                cells.index_put(f, (all.slice((.., 0))?, all.slice((.., 1))?), from.at::<1>()?)?;
                one(Ok(cells))
            }
            _ => unrun("other ranks"),
        }
    }
    match case.kw("reduction").as_str() {
        Some("add") => run(case, ops::Add),
        Some("mul") => run(case, ops::Mul),
        Some("max") => run(case, Maximum),
        Some("min") => run(case, Minimum),
        _ => run(case, Replace),
    }
}

/// Of ONNX: rows by an index of any rank.
fn rows_by_index<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let dim = axis(real_or(case.kw("axis"), 0.0)? as i64, spec.rank())?;
    by_type!(spec.dtype, T in [f32] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let index = positions(case, case.arg(1), spec.size[dim])?;
        let line = index.view()?.to_shape([index.spec().numel()])?;
        let picked = x.view()?.index_select_axis(dim + N - spec.rank(), &line)?;
        let size = [&spec.size[..dim], &index.spec().size, &spec.size[dim + 1..]].concat();
        Ok(vec![Out::of(picked.view()).exact().sized(size)])
    })
}
/// Of ONNX: positions of an axis, or elements, where a line of truth values holds.
fn compress<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    by_type!(spec.dtype, T in [f32 bf16] => {
        let (x, mask) = (case.tensor::<T>(case.arg(0))?, case.tensor::<bool>(case.arg(1))?);
        let index = mask.at::<1>()?.nonzero()?.into_slice((.., 0))?.to_contiguous()?;
        match case.kw("axis").as_i64() {
            Some(dim) => moved(
                x.view()?.index_select_axis(axis(dim, spec.rank())? + N - spec.rank(), &index)
            ),
            None => moved(x.view()?.take(&index)),
        }
    })
}

pub const ONNX: &[Row] = &[
    ("Pad", pad),
    ("Gather", rows_by_index),
    ("GatherElements", gather),
    ("ScatterElements", scatter),
    ("Scatter", scatter),
    ("Compress", compress),
    ("NonZero", nonzero),
    ("Trilu", triangle),
    ("Tile", tiled),
    ("GatherND", gather_nd),
    ("ScatterND", scatter_nd),
];

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("gather", gather),
        ("take_along_dim", take_along),
        ("take", take),
        ("index_select", index_select),
        ("masked_select", masked_select),
        ("put", put),
        ("scatter", scatter),
        ("scatter_add", scatter),
        ("scatter_reduce.sum", scatter),
        ("scatter_reduce.prod", scatter),
        ("scatter_reduce.amin", scatter),
        ("scatter_reduce.amax", scatter),
        ("scatter_reduce.mean", reduced),
        ("index_reduce.mean", reduced),
        ("index_reduce.prod", reduced),
        ("index_reduce.amin", reduced),
        ("index_reduce.amax", reduced),
        ("masked_scatter", masked_scatter),
        ("index_add", index_add),
        ("index_copy", index_copy),
        ("index_fill", index_fill),
        ("as_strided_scatter", as_strided_scatter),
        ("index_put", index_put),
        ("roll", roll),
        ("repeat_interleave", repeat_interleave),
        ("repeat", tiled),
        ("tile", tiled),
        ("tril", triangle),
        ("triu", triangle),
        ("nn.functional.pad.constant", pad),
        ("nn.functional.pad.reflect", pad),
        ("nn.functional.pad.replicate", pad),
        ("nn.functional.pad.circular", pad),
        ("constant_pad_nd", pad),
        ("nn.functional.embedding", embedding),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[
    ("nonzero", nonzero),
    ("argwhere", nonzero),
    ("isin", members),
    ("unravel_index", unravelled),
    ("nn.functional.one_hot", one_hot),
    ("bincount", bincount),
];
