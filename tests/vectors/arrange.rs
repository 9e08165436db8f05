//! Operators that create tensors, move their elements or convert them.

use crate::case::{Case, CaseDevice, Operand, Out, Run, Seen, Stop, axis, moved, number, one, unrun, wholes};
use crate::views::View;
use crate::{Row, by_rank, by_type, each_rank};
use rankform::prelude::*;
use rankform::scalar::DType;
use serde_json::Value;

/// The element that an argument asks for, or that the result has.
fn wanted<D: CaseDevice>(case: &Case<D>) -> Result<DType, Stop> {
    case.kw("dtype")
        .get("dt")
        .and_then(|name| crate::set::dtype(name.as_str()?))
        .map_or_else(|| case.dtype(), Ok)
}

/// Tensors of given sizes.
fn made<D: CaseDevice>(case: &Case<D>, value: Option<&Value>) -> Run {
    let Some(size) = wholes(case.arg(0)) else { return unrun("not sizes") };
    by_type!(wanted(case)?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64]
        => by_rank!(size.len(), R in [0 1 2 3 4] => {
        let size: [usize; R] = std::array::from_fn(|axis| size[axis] as usize);
        moved(value.map_or_else(
            || Ok(Tensor::<T, R>::zeros(size, &Cpu)),
            |value| Ok::<_, Stop>(Tensor::full(size, number::<T>(value)?, &Cpu))
        )?)
    }))
}
/// Tensors as large as another.
fn alike<D: CaseDevice>(case: &Case<D>, value: Option<&Value>) -> Run {
    by_type!(wanted(case)?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.operand::<T>(case.arg(0))?;
        let x = x.view()?;
        moved(value.map_or_else(
            || Ok(x.copy()?.zeros_like()),
            |value| Ok::<_, Stop>(Tensor::full(x.size(), number::<T>(value)?, &case.device))
        )?)
    })
}

fn eye<D: CaseDevice>(case: &Case<D>) -> Run {
    let (Some(n), m) = (case.arg(0).as_u64(), case.get(1, "m")) else {
        return unrun("does not compile: a size below 0");
    };
    if !m.is_null() && m.as_u64().is_none() {
        return unrun("does not compile: a size below 0");
    }
    if let Some(m) = m.as_u64().filter(|&m| m != n) {
        return by_type!(wanted(case)?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
            let mut out = Tensor::<T, 2>::zeros([n as usize, m as usize], &Cpu)?;
            out.view_mut()?.diagonal(Axis::<0>, Axis::<1>)?.fill(T::from_f64(1.0))?;
            moved(Ok(out))
        });
    }
    by_type!(
        wanted(case)?,
        T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => moved(Tensor::<T, 2>::eye(n as usize, &Cpu))
    )
}
fn arange<D: CaseDevice>(case: &Case<D>) -> Run {
    let bounds: Vec<&Value> = (0..case.args()).map(|at| case.arg(at)).collect();
    let (start, end, step) = match bounds[..] {
        [start] if !case.kw("end").is_null() => (start, case.kw("end"), &Value::from(1)),
        [end] => (&Value::from(0), end, &Value::from(1)),
        [start, end] => (start, end, &Value::from(1)),
        [start, end, step] => (start, end, step),
        _ => return unrun("bounds by name"),
    };
    // The reference counts in the wider type before it rounds to a narrow one.
    let dtype = if !case.is_error() {
        wanted(case)?
    } else if bounds.iter().any(|bound| bound.as_i64().is_none()) {
        DType::F64
    } else {
        DType::I64
    };
    by_type!(dtype, T in [f16 bf16 f32 f64 i64 i32 u8] => {
        let exact = |value: &Value| Ok::<_, Stop>((
            number::<T>(value)?,
            number::<T>(value)?.scalar() == number::<f64>(value)?.scalar() || value.as_i64().is_some_and(
                |v| number::<T>(value).unwrap().scalar() == crate::case::Scalar::Integer(v as i128)
            )
        ));
        let [first, last, by] = [start, end, step];
        let [(start, a), (end, b), (step, c)] = [exact(start)?, exact(end)?, exact(step)?];
        if !(a && b && c) {
            // The reference counts in f64, and steps in whole numbers where the element is one.
            let [first, last, by] = [first, last, by].map(number::<f64>);
            let (first, by) = (first?, by?);
            let line = Tensor::<f64, 1>::arange(first, last?, by, &Cpu)?;
            if !T::DTYPE.is_discrete() {
                return one(line.cast::<T>());
            }
            let places = Tensor::<i64, 1>::arange(0, line.numel() as i64, 1, &Cpu)?;
            return moved(places.mul(by as i64)?.add(first as i64)?.cast::<T>());
        }
        one(Tensor::<T, 1>::arange(start, end, step, &Cpu))
    })
}
fn linspace<D: CaseDevice>(case: &Case<D>) -> Run {
    let Some(n) = case.get(2, "steps").as_u64() else {
        return unrun("does not compile: a count that is none");
    };
    by_type!(wanted(case)?, T in [f16 bf16 f32 f64 i64 i32 u8 c64] => {
        let (start, end) = (number::<T>(case.arg(0))?, number::<T>(case.arg(1))?);
        let largest = start.scalar().magnitude().max(end.scalar().magnitude());
        let line = Tensor::<T, 1>::linspace(start, end, n as usize, &Cpu)?;
        let magnitude = Tensor::full([n as usize], largest, &Cpu)?;
        Ok(vec![Out::of(line.view()).magnitude(&magnitude).rounded(2.0)])
    })
}

/// Conversions to another element.
fn cast<D: CaseDevice>(case: &Case<D>) -> Run {
    let dtype = case.dtype()?;
    if dtype.is_discrete() {
        return by_type!(
            dtype, T in [bool i8 i16 i32 i64 u8] => moved(case.operand::<T>(case.arg(0))?.view()?.copy())
        );
    }
    by_type!(
        dtype, any T in [f16 bf16 f32 f64 c64 c128] => moved(case.operand::<T>(case.arg(0))?.view()?.copy())
    )
}
fn copy<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        moved(if case.op == "clone" { x.view()?.copy() } else { x.view()?.to_contiguous() })
    })
}

/// Parts one after the other along an axis: the axis goes to the front, where it is a constant one, and back.
pub fn concat<T: Seen, D: CaseDevice>(parts: &[View<T, D>], axis: usize) -> Result<Operand<T, D>, Stop> {
    let Some(first) = parts.first() else { return unrun("does not compile: no parts, of no rank") };
    if parts.iter().any(|part| part.rank() != first.rank()) {
        return unrun("does not compile: parts of different ranks");
    }
    let parts = parts.iter().map(|part| part.moved(axis, 0)).collect::<Result<Vec<_>, _>>()?;
    macro_rules! at {
        ($($R:ident $rank:literal)*) => {
            match parts[0] {
                $(View::$R(_) => {
                    let parts: Vec<_> = parts.iter()
                        .map(|part| if let View::$R(x) = part { *x } else { unreachable!() }).collect();
                    let whole = Tensor::<T, $rank, D>::concat(&parts, Axis::<0>)?;
                    let back = View::$R(whole.view()).moved(0, axis)?;
                    each_rank!(back, |x| Operand::dense(x.copy()?))
                })*
                View::R0(_) => unrun("does not compile: no axis"),
            }
        };
    }
    at!(R1 1 R2 2 R3 3 R4 4 R5 5 R6 6)
}

/// The parts with a new axis each.
fn grown<'a, T: Seen, D: CaseDevice>(
    views: Vec<View<'a, T, D>>,
    axis: usize,
) -> Result<Vec<View<'a, T, D>>, Stop> {
    views.into_iter().map(|view| view.insert(axis)).collect()
}

/// All of an operand as the result.
pub fn whole<T: Seen, D: CaseDevice>(x: Operand<T, D>) -> Run {
    Ok(vec![each_rank!(x.any()?, |x| Out::of(x)).exact()])
}

fn joined<D: CaseDevice>(case: &Case<D>) -> Run {
    let Some(parts) = case.arg(0).as_array() else { return unrun("not a list") };
    if parts.is_empty() {
        return unrun("does not compile: no parts, of no rank");
    }
    case.only(&["dim"])?;
    let dtype = case.dtype().or_else(|_| {
        crate::case::Spec::of(&parts[0]).map_or_else(|| unrun("not a tensor"), |spec| Ok(spec.dtype))
    })?;
    by_type!(dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let operands = parts.iter().map(|part| case.tensor::<T>(part))
            .collect::<Result<Vec<Operand<T, D>>, _>>()?;
        let mut views = operands.iter().map(|part| part.any()).collect::<Result<Vec<_>, _>>()?;
        if case.op == "cat" && !case.is_error() && views.iter().any(|view| view.size() != [0]) {
            views.retain(|view| view.size() != [0]); // the reference skips what is empty, of whatever rank
        }
        let rank = views[0].rank();
        let dim = case.get(1, "dim").as_i64().unwrap_or(0);
        match case.op {
            "cat" => return whole(concat(&views, axis(dim, rank)?)?),
            "stack" => {
                let axis = axis(dim, rank + 1)?;
                return whole(concat(&grown(views, axis)?, axis)?);
            }
            "hstack" if rank == 0 => return whole(concat(&grown(views, 0)?, 0)?),
            "hstack" => return whole(concat(&views, if rank == 1 { 0 } else { 1 })?),
            _ => {}
        }
        for view in &mut views {
            let least = if case.op == "dstack" { 3 } else { 2 };
            while view.rank() < least {
                let column = case.op == "column_stack" && view.rank() == 1 || view.rank() == 2;
                *view = if column { view.insert(view.rank())? } else { view.insert(0)? };
            }
        }
        whole(concat(&views, match case.op { "vstack" => 0, "dstack" => 2, _ => 1 })?)
    })
}

/// A diagonal: read from a matrix, or written into zeros.
fn diag<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let embed = case.op == "diag_embed";
    let offset = case.get(1, if case.op == "diag" { "diagonal" } else { "offset" }).as_i64().unwrap_or(0);
    let skip = offset.unsigned_abs() as usize;
    let (rows, columns) = if offset < 0 { (skip, 0) } else { (0, skip) };
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        match (case.op, spec.rank()) {
            ("diag", 2) => each_rank!(x.any()?.diagonal(0, 1, offset)?, |x| moved(x.copy())),
            ("diag", 0 | 3..) => unrun("does not compile: another rank than 1 and 2"),
            ("diag" | "diagflat", _) => {
                let line = x.view()?.to_shape([spec.numel()])?;
                let n = spec.numel() + skip;
                let mut out = Tensor::<T, 2, D>::zeros([n, n], &case.device)?;
                out.view_mut()?.slice((rows..n - columns, columns..n - rows))?.diagonal(Axis::<0>, Axis::<1>)?
                    .assign(&line)?;
                moved(Ok(out))
            }
            (_, rank @ 1..=5) if embed => {
                let out = x.at::<5>()?.diag_embed(offset as isize)?;
                let dims = [(2, "dim1", -2), (3, "dim2", -1)].map(
                    |(at, name, default)| axis(case.get(at, name).as_i64().unwrap_or(default), rank + 1)
                );
                let [first, second] = [dims[0].as_ref().ok(), dims[1].as_ref().ok()]
                    .map(|axis| axis.copied().filter(|&axis| axis <= rank));
                let (Some(first), Some(second)) = (first, second) else {
                    return unrun("does not compile: no such axis")
                };
                if first == second {
                    return unrun("does not compile: an axis twice");
                }
                let mut order: Vec<usize> = vec![usize::MAX; rank + 1];
                (order[first], order[second]) = (rank - 1, rank);
                let mut rest = 0..rank - 1;
                order.iter_mut().filter(|axis| **axis == usize::MAX)
                    .for_each(|axis| *axis = rest.next().unwrap());
                let view = match rank {
                    1 => View::R2(out.slice((0, 0, 0, 0, .., ..))?),
                    2 => View::R3(out.slice((0, 0, 0, .., .., ..))?),
                    3 => View::R4(out.slice((0, 0, .., .., .., ..))?),
                    4 => View::R5(out.slice((0, .., .., .., .., ..))?),
                    _ => View::R6(out.view()),
                };
                each_rank!(view.permuted(&order)?, |x| moved(x.copy()))
            }
            _ => unrun("another rank"),
        }
    })
}

/// Views of the first argument, copied.
macro_rules! copies {
    ($($name:ident |$case:ident, $x:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!($case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
                let operand = $case.tensor::<T>($case.arg(0))?;
                let $x = operand.any()?;
                let view: View<T, D> = $body;
                each_rank!(view, |x| moved(x.copy()))
            })
        }
    )* };
}
copies! {
    flip |case, x| {
        let axes = match case.op {
            "fliplr" => vec![1],
            "flipud" => vec![0],
            _ => wholes(case.get(1, "dims")).unwrap_or_default(),
        };
        let mut y = x;
        for a in axes {
            let axis = axis(a, x.rank())?;
            if axis >= x.rank() {
                return unrun("does not compile: no such axis");
            }
            y = y.reversed(axis)?;
        }
        y
    };
    turn |case, x| {
        let dims = wholes(case.get(2, "dims")).unwrap_or(vec![0, 1]).into_iter().map(|a| axis(a, x.rank()))
            .collect::<Result<Vec<_>, _>>()?;
        let [from, to] = dims[..] else { return unrun("does not compile: not two axes") };
        if from == to || from.max(to) >= x.rank() {
            return unrun("does not compile: not two axes");
        }
        let mut order: Vec<usize> = (0..x.rank()).collect();
        order.swap(from, to);
        match case.get(1, "k").as_i64().unwrap_or(1).rem_euclid(4) {
            0 => x,
            1 => x.permuted(&order)?.reversed(from)?,
            2 => x.reversed(from)?.reversed(to)?,
            _ => x.permuted(&order)?.reversed(to)?,
        }
    };
    get_part |case, x| {
        let one = [case.arg(1).clone()];
        let entries = case.arg(1).as_array().map_or(&one[..], |entries| &entries[..]);
        let (mut y, mut at) = (x, 0);
        for entry in entries {
            if entry.is_null() {
                y = y.insert(at)?;
                at += 1;
            } else if let Some(position) = entry.as_i64() {
                y = y.index(
                    at, if position < 0 { position + y.size()[at] as i64 } else { position } as usize
                )?;
            } else if let Some(ends) = entry.get("sl") {
                let size = y.size()[at] as i64;
                let end = |value: &Value, default: i64| value.as_i64().map_or(
                    default, |k| if k < 0 { k + size } else { k }
                ).clamp(0, size) as usize;
                let (start, end) = (end(&ends[0], 0), end(&ends[1], size));
                y = y.slice_axis(at, start, end.max(start), ends[2].as_i64().unwrap_or(1) as isize)?;
                at += 1;
            } else {
                // An ellipsis: the entries after it are of the last axes.
                let after = entries.iter().skip_while(|entry| entry.get("el").is_none()).skip(1)
                    .filter(|entry| !entry.is_null()).count();
                at = y.rank() - after;
            }
        }
        y
    };
}

/// A part by positions and ranges, or positions of one axis by a list or a mask.
fn get_item<D: CaseDevice>(case: &Case<D>) -> Run {
    let alone = [case.arg(1).clone()];
    // A list of numbers alone is positions of the first axis.
    let is_list = |entry: &Value| entry.is_array() || entry.get("T").is_some();
    let entries = case
        .arg(1)
        .as_array()
        .filter(|entries| !entries.iter().all(Value::is_number))
        .map_or(&alone[..], |entries| &entries[..]);
    let lists: Vec<usize> = (0..entries.len()).filter(|&at| is_list(&entries[at])).collect();
    let whole = serde_json::json!({ "sl": [null, null, null] });
    match lists[..] {
        [] => get_part(case),
        [at] if entries.iter().enumerate().all(|(k, entry)| k == at || *entry == whole) => {
            crate::index::pick(case, at, &entries[at])
        }
        _ if lists.iter().copied().eq(0..lists.len())
            && entries[lists.len()..].iter().all(|entry| *entry == whole) =>
        {
            crate::index::pick_pairs(case, &entries[..lists.len()])
        }
        _ => unrun("several lists of positions"),
    }
}

/// A part of a copy overwritten.
fn scatter<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let rank = spec.rank();
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let (x, from) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
        let front = |axes: &[usize]| -> Result<Vec<usize>, Stop> {
            if axes.iter().any(|&axis| axis >= rank) {
                return unrun("does not compile: no such axis");
            }
            Ok(axes.iter().copied().chain((0..rank).filter(|axis| !axes.contains(axis))).collect())
        };
        match (case.op, rank) {
            ("select_scatter", 1) => {
                let mut out = x.at::<1>()?.copy()?;
                let at = case.get(3, "index").as_i64().unwrap_or(0);
                let at = if at < 0 { at + spec.size[0] as i64 } else { at } as usize;
                out.view_mut()?.slice((at,))?.assign(from.at::<0>()?)?;
                moved(Ok(out))
            }
            ("select_scatter", 3) => {
                let mut out = x.at::<3>()?.copy()?;
                let axis = axis(case.get(2, "dim").as_i64().unwrap_or(0), 3)?;
                let at = case.get(3, "index").as_i64().unwrap_or(0);
                let at = if at < 0 { at + spec.size[axis] as i64 } else { at } as usize;
                out.view_mut()?.permuted(front(&[axis])?.try_into().unwrap())?.slice((at, .., ..))?
                    .assign(from.at::<2>()?)?;
                moved(Ok(out))
            }
            ("slice_scatter", 3) => {
                let mut out = x.at::<3>()?.copy()?;
                let axis = axis(case.get(2, "dim").as_i64().unwrap_or(0), 3)?;
                let size = spec.size[axis] as i64;
                let end = |value: &Value, default: i64| value.as_i64().map_or(
                    default, |k| if k < 0 { k + size } else { k }
                ).clamp(0, size) as usize;
                let (start, end, step) = (
                    end(case.get(3, "start"), 0), end(case.get(4, "end"), size),
                    case.get(5, "step").as_i64().unwrap_or(1)
                );
                let order = front(&[axis])?.try_into().unwrap();
                out.view_mut()?.permuted(order)?.slice(((start..end.max(start)).step(step as isize), .., ..))?
                    .assign(from.at::<3>()?.permuted(order)?)?;
                moved(Ok(out))
            }
            ("diagonal_scatter", 2 | 3) => {
                let offset = case.get(2, "offset").as_i64().unwrap_or(0);
                let first = axis(case.get(3, "dim1").as_i64().unwrap_or(0), rank)?;
                let second = axis(case.get(4, "dim2").as_i64().unwrap_or(1), rank)?;
                let (skip, right) = (offset.unsigned_abs() as usize, offset > 0);
                let (rows, columns) = (if right { 0 } else { skip }, if right { skip } else { 0 });
                if rank == 2 {
                    let mut out = x.at::<2>()?.copy()?;
                    let view = out.view_mut()?.permuted(front(&[first, second])?.try_into().unwrap())?;
                    let (rows, columns) = (rows.min(view.size()[0]), columns.min(view.size()[1]));
                    view.slice((rows.., columns..))?.diagonal(Axis::<0>, Axis::<1>)?.assign(from.at::<1>()?)?;
                    return moved(Ok(out));
                }
                let mut out = x.at::<3>()?.copy()?;
                let view = out.view_mut()?.permuted(front(&[first, second])?.try_into().unwrap())?;
                let (rows, columns) = (rows.min(view.size()[0]), columns.min(view.size()[1]));
                view.slice((rows.., columns.., ..))?.diagonal(Axis::<0>, Axis::<1>)?.assign(from.at::<2>()?)?;
                moved(Ok(out))
            }
            _ => unrun("another rank"),
        }
    })
}

/// Powers at equal distances.
fn logspace<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8] => {
        let part = |at: usize, name: &str, default: f64| crate::case::real_or(case.get(at, name), default);
        let (start, end, base) = (part(0, "start", 0.0)?, part(1, "end", 0.0)?, part(3, "base", 10.0)?);
        let Some(n) = case.get(2, "steps").as_u64() else {
            return unrun("does not compile: no number of steps")
        };
        // The reference's bounds have the element; here they are real numbers.
        let [start, end] = [start, end].map(|end| if T::DTYPE.is_discrete() { end.trunc() } else { end });
        let out = Out::of(Tensor::<T, 1>::logspace(start, end, n as usize, base, &Cpu)?.view());
        // The reference finds powers in the element's own precision.
        let sizes = out.values.iter()
            .map(|x| x.magnitude() * (4.0 + start.abs().max(end.abs()) * base.abs().ln().abs())).collect();
        Ok(vec![Out { magnitude: Some(sizes), ..out }.rounded(2.0)])
    })
}
fn combinations<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["r", "with_replacement"])?;
    let (r, again) =
        (case.get(1, "r").as_u64().unwrap_or(2), case.get(2, "with_replacement").as_bool() == Some(true));
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        moved(case.tensor::<T>(case.arg(0))?.at::<1>()?.combinations(r as usize, again))
    })
}
fn triangle_indices<D: CaseDevice>(case: &Case<D>) -> Run {
    let part = |at: usize, name: &str| case.get(at, name).as_i64();
    let (Some(rows), Some(columns), offset) =
        (part(0, "row"), part(1, "col"), part(2, "offset").unwrap_or(0))
    else {
        return unrun("no sizes");
    };
    let (rows, columns) = (rows as usize, columns as usize);
    let both = if case.op == "tril_indices" {
        Tensor::tril_indices(rows, columns, offset, &Cpu)?
    } else {
        Tensor::triu_indices(rows, columns, offset, &Cpu)?
    };
    by_type!(case.dtype()?, T in [i64 i32] => moved(both.cast::<T>()))
}
/// Several arguments, each a tensor.
fn blocks<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let parts = (0..case.args()).map(|at| case.tensor::<T>(case.arg(at)))
            .collect::<Result<Vec<Operand<T, D>>, _>>()?;
        if case.op == "block_diag" {
            let views = parts.iter().map(|part| part.at::<2>()).collect::<Result<Vec<_>, _>>()?;
            return moved(Tensor::block_diag(&views));
        }
        let line = |k: usize| parts[k].at::<1>();
        match parts.len() {
            1 => {
                let out = Out::of(Tensor::cartesian_prod([line(0)?])?.view()).exact();
                let size = vec![out.size[0]];
                Ok(vec![out.sized(size)])
            }
            2 => moved(Tensor::cartesian_prod([line(0)?, line(1)?])),
            3 => moved(Tensor::cartesian_prod([line(0)?, line(1)?, line(2)?])),
            _ => unrun("more lines"),
        }
    })
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("combinations", combinations),
        ("block_diag", blocks),
        ("cartesian_prod", blocks),
        ("to", cast),
        ("float", cast),
        ("double", cast),
        ("half", cast),
        ("bfloat16", cast),
        ("cfloat", cast),
        ("cdouble", cast),
        ("clone", copy),
        ("contiguous", copy),
        ("cat", joined),
        ("stack", joined),
        ("hstack", joined),
        ("vstack", joined),
        ("dstack", joined),
        ("column_stack", joined),
        ("flip", flip),
        ("fliplr", flip),
        ("flipud", flip),
        ("rot90", turn),
        ("diag", diag),
        ("diagflat", diag),
        ("diag_embed", diag),
        ("__getitem__", get_item),
        ("select_scatter", scatter),
        ("slice_scatter", scatter),
        ("diagonal_scatter", scatter),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[
    ("logspace", logspace),
    ("tril_indices", triangle_indices),
    ("triu_indices", triangle_indices),
    ("zeros", |c| made(c, None)),
    ("ones", |c| made(c, Some(&1.into()))),
    ("full", |c| made(c, Some(c.arg(1)))),
    ("zeros_like", |c| alike(c, None)),
    ("ones_like", |c| alike(c, Some(&1.into()))),
    ("full_like", |c| alike(c, Some(c.arg(1)))),
    ("eye", eye),
    ("arange", arange),
    ("linspace", linspace),
    ("int", cast),
    ("long", cast),
    ("short", cast),
    ("char", cast),
    ("byte", cast),
    ("bool", cast),
];
