//! Views: sizes, strides and offset are the reference's, as are the elements read through them.
//!
//! Ranks are types: a view of a run-time rank is one of seven. An axis known at run time is moved to the
//! front, where it is a constant one, and back.

use crate::case::{Case, CaseDevice, Operand, Out, Run, Seen, Stop, axis, axis_of, moved, unrun, wholes};
use crate::{Row, by_rank, by_type};
use rankform::layout::joint_size;
use rankform::prelude::*;
use serde_json::Value;

/// A view of rank 0 to 6.
pub enum View<'a, T, D: CaseDevice = Cpu> {
    R0(TensorView<'a, T, 0, D>),
    R1(TensorView<'a, T, 1, D>),
    R2(TensorView<'a, T, 2, D>),
    R3(TensorView<'a, T, 3, D>),
    R4(TensorView<'a, T, 4, D>),
    R5(TensorView<'a, T, 5, D>),
    R6(TensorView<'a, T, 6, D>),
}
use View::*;
impl<T, D: CaseDevice> Clone for View<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, D: CaseDevice> Copy for View<'_, T, D> {}

/// The same expression for every rank.
#[macro_export]
macro_rules! each_rank {
    ($view:expr, |$x:ident| $body:expr) => {
        match $view {
            $crate::views::View::R0($x) => $body,
            $crate::views::View::R1($x) => $body,
            $crate::views::View::R2($x) => $body,
            $crate::views::View::R3($x) => $body,
            $crate::views::View::R4($x) => $body,
            $crate::views::View::R5($x) => $body,
            $crate::views::View::R6($x) => $body,
        }
    };
}
/// A view of the same rank.
macro_rules! same_rank {
    ($view:expr, |$x:ident| $body:expr) => {
        match $view {
            R0($x) => R0($body),
            R1($x) => R1($body),
            R2($x) => R2($body),
            R3($x) => R3($body),
            R4($x) => R4($body),
            R5($x) => R5($body),
            R6($x) => R6($body),
        }
    };
}

impl<'a, T: Seen, D: CaseDevice> View<'a, T, D> {
    pub fn size(&self) -> Vec<usize> {
        each_rank!(self, |x| x.size().0.to_vec())
    }
    pub fn rank(&self) -> usize {
        self.size().len()
    }
    pub fn out(&self, of: &Operand<T, D>) -> Out {
        each_rank!(self, |x| Out::view(*x, of)).exact()
    }
    pub fn permuted(self, order: &[usize]) -> Result<Self, Stop> {
        if order.len() != self.rank() {
            return unrun("does not compile: an order of other length");
        }
        Ok(same_rank!(self, |x| x.permuted(order.try_into().unwrap())?))
    }
    /// Sizes of 1 stretched to these.
    pub fn broadcast(self, to: &[usize]) -> Result<Self, Stop> {
        Ok(same_rank!(self, |x| x.broadcast_to(<_>::try_from(to).map(Dim).unwrap())?))
    }
    /// Axis `from` moved to place `to`.
    pub fn moved(self, from: usize, to: usize) -> Result<Self, Stop> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        if from >= order.len() || to >= order.len() {
            return unrun("does not compile: no such axis");
        }
        let axis = order.remove(from);
        order.insert(to, axis);
        self.permuted(&order)
    }
    pub fn slice_axis(self, axis: usize, start: usize, end: usize, step: isize) -> Result<Self, Stop> {
        Ok(same_rank!(self, |x| x.slice_axis(axis, start..end, step)?))
    }
    pub fn reversed(self, axis: usize) -> Result<Self, Stop> {
        Ok(same_rank!(self, |x| x.reversed_axis(axis)?))
    }
    /// The part at a position of an axis.
    pub fn index(self, axis: usize, at: usize) -> Result<Self, Stop> {
        Ok(match self.moved(axis, 0)? {
            R1(x) => R0(x.slice((at,))?),
            R2(x) => R1(x.slice((at, ..))?),
            R3(x) => R2(x.slice((at, .., ..))?),
            R4(x) => R3(x.slice((at, .., .., ..))?),
            R5(x) => R4(x.slice((at, .., .., .., ..))?),
            R6(x) => R5(x.slice((at, .., .., .., .., ..))?),
            R0(_) => return unrun("does not compile: no axis"),
        })
    }
    /// Without an axis of size 1.
    pub fn remove(self, axis: usize) -> Result<Self, Stop> {
        Ok(match self.moved(axis, 0)? {
            R1(x) => R0(x.remove_axis(Axis::<0>)?),
            R2(x) => R1(x.remove_axis(Axis::<0>)?),
            R3(x) => R2(x.remove_axis(Axis::<0>)?),
            R4(x) => R3(x.remove_axis(Axis::<0>)?),
            R5(x) => R4(x.remove_axis(Axis::<0>)?),
            R6(x) => R5(x.remove_axis(Axis::<0>)?),
            R0(_) => return unrun("does not compile: no axis"),
        })
    }
    /// A new axis of size 1.
    pub fn insert(self, axis: usize) -> Result<Self, Stop> {
        let new = match self {
            R0(x) => R1(x.insert_axis(Axis::<0>)),
            R1(x) => R2(x.insert_axis(Axis::<0>)),
            R2(x) => R3(x.insert_axis(Axis::<0>)),
            R3(x) => R4(x.insert_axis(Axis::<0>)),
            R4(x) => R5(x.insert_axis(Axis::<0>)),
            R5(x) => R6(x.insert_axis(Axis::<0>)),
            R6(_) => return unrun("rank 7"),
        };
        new.moved(0, axis)
    }
    pub fn windows(self, axis: usize, len: usize, step: usize) -> Result<Self, Stop> {
        let windows = match self.moved(axis, 0)? {
            R1(x) => R2(x.windows(Axis::<0>, len, step)?),
            R2(x) => R3(x.windows(Axis::<0>, len, step)?),
            R3(x) => R4(x.windows(Axis::<0>, len, step)?),
            R4(x) => R5(x.windows(Axis::<0>, len, step)?),
            R5(x) => R6(x.windows(Axis::<0>, len, step)?),
            R0(_) | R6(_) => return unrun("windows of another rank than 1 to 5"),
        };
        windows.moved(0, axis)
    }
    /// The diagonal of two axes, as a new last one; it begins `offset` to the right, or below when that is
    /// negative.
    pub fn diagonal(self, first: usize, second: usize, offset: i64) -> Result<Self, Stop> {
        if first == second || first.max(second) >= self.rank() {
            return unrun("does not compile: the axes of a diagonal");
        }
        let size = self.size();
        let (axis, skip) = if offset < 0 { (first, -offset) } else { (second, offset) };
        let part = self.slice_axis(axis, (skip as usize).min(size[axis]), size[axis], 1)?;
        let order: Vec<usize> = [first, second]
            .into_iter()
            .chain((0..size.len()).filter(|&axis| axis != first && axis != second))
            .collect();
        Ok(match part.permuted(&order)? {
            R2(x) => R1(x.diagonal(Axis::<0>, Axis::<1>)?),
            R3(x) => R2(x.diagonal(Axis::<0>, Axis::<1>)?),
            R4(x) => R3(x.diagonal(Axis::<0>, Axis::<1>)?),
            R5(x) => R4(x.diagonal(Axis::<0>, Axis::<1>)?),
            R6(x) => R5(x.diagonal(Axis::<0>, Axis::<1>)?),
            R0(_) | R1(_) => return unrun("does not compile: the axes of a diagonal"),
        })
    }
    /// Other sizes, as a view.
    pub fn reshaped(self, to: &[usize]) -> Result<Self, Stop> {
        fn at<'a, T: Seen, D: CaseDevice, const R: usize>(
            x: TensorView<'a, T, 6, D>,
            to: &[usize],
        ) -> Result<TensorView<'a, T, R, D>, Stop> {
            Ok(x.reshape::<R>(<[usize; R]>::try_from(to).unwrap())?)
        }
        let x: TensorView<'a, T, 6, D> = each_rank!(self, |x| x.lift());
        Ok(match to.len() {
            0 => R0(at(x, to)?),
            1 => R1(at(x, to)?),
            2 => R2(at(x, to)?),
            3 => R3(at(x, to)?),
            4 => R4(at(x, to)?),
            5 => R5(at(x, to)?),
            6 => R6(at(x, to)?),
            rank => return unrun(format!("rank {rank}")),
        })
    }
}

impl<T: Seen, D: CaseDevice> Operand<T, D> {
    /// A view of the operand's own rank.
    pub fn any(&self) -> Result<View<'_, T, D>, Stop> {
        Ok(match self.spec().rank() {
            0 => R0(self.at()?),
            1 => R1(self.at()?),
            2 => R2(self.at()?),
            3 => R3(self.at()?),
            4 => R4(self.at()?),
            5 => R5(self.at()?),
            6 => R6(self.at()?),
            rank => return unrun(format!("rank {rank}")),
        })
    }
}

/// The same views of the first argument, whatever its element.
macro_rules! views {
    ($($name:ident |$case:ident, $x:ident| $body:expr;)*) => { $(
        fn $name<D: CaseDevice>($case: &Case<D>) -> Run {
            by_type!($case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
                let operand = $case.tensor::<T>($case.arg(0))?;
                let $x = operand.any()?;
                let all: Vec<View<T, D>> = $body;
                Ok(all.iter().map(|view| view.out(&operand)).collect())
            })
        }
    )* };
}

views! {
    permute |case, x| {
        let order = wholes(case.get(1, "dims")).unwrap_or_default().into_iter().map(|a| axis(a, x.rank()))
            .collect::<Result<Vec<_>, _>>()?;
        vec![x.permuted(&order)?]
    };
    transpose |case, x| {
        let mut order: Vec<usize> = (0..x.rank()).collect();
        if x.rank() > 0 {
            order.swap(axis_of(case.get(1, "dim0"), x.rank())?, axis_of(case.get(2, "dim1"), x.rank())?);
        }
        vec![x.permuted(&order)?]
    };
    reverse |case, x| {
        if case.op == "t" && x.rank() > 2 {
            return unrun("does not compile: more than two axes");
        }
        vec![
            match x {
                R1(x) => R1(x.transposed()),
                R2(x) => R2(x.transposed()),
                R3(x) => R3(x.transposed()),
                x => x
            }
        ]
    };
    matrix_transpose |_case, x| {
        let mut order: Vec<usize> = (0..x.rank()).collect();
        order.swap(x.rank() - 1, x.rank() - 2);
        vec![x.permuted(&order)?]
    };
    unfold |case, x| {
        let number = |at, name| case.get(at, name).as_u64().unwrap_or(0) as usize;
        vec![x.windows(axis_of(case.get(1, "dimension"), x.rank())?, number(2, "size"), number(3, "step"))?]
    };
    squeeze |case, x| {
        let named = wholes(case.get(1, "dim"));
        let axes = match named {
            Some(axes) => axes.into_iter().map(|a| axis(a, x.rank())).collect::<Result<Vec<_>, _>>()?,
            None => (0..x.rank()).collect(),
        };
        let size = x.size();
        let mut y = x;
        for axis in (0..size.len()).rev().filter(|axis| axes.contains(axis) && size[*axis] == 1) {
            y = y.remove(axis)?;
        }
        vec![y]
    };
    unsqueeze |case, x| vec![x.insert(axis_of(case.get(1, "dim"), x.rank() + 1)?)?];
    narrow |case, x| {
        let start = match case.get(2, "start") {
            Value::Number(start) => start.as_i64().unwrap_or(0),
            tensor => {
                let start = case.operand::<i64>(tensor)?;
                if start.spec().numel() != 1 {
                    return unrun("does not compile: a tensor as a position");
                }
                start.item()?
            }
        };
        let Some(length) = case.get(3, "length").as_u64() else {
            return unrun("does not compile: a length below 0")
        };
        if x.rank() == 0 {
            return unrun("does not compile: no axis");
        }
        let axis = axis_of(case.get(1, "dim"), x.rank())?;
        let size = x.size().get(axis).copied().unwrap_or(0) as i64;
        let Ok(start) = usize::try_from(if start < 0 { start + size } else { start }) else {
            return unrun("does not compile: a position below 0");
        };
        vec![x.slice_axis(axis, start, start + length as usize, 1)?]
    };
    select |case, x| {
        let axis = axis_of(case.get(1, "dim"), x.rank())?;
        let at = case.get(2, "index").as_i64().unwrap_or(0);
        vec![x.index(axis, if at < 0 { at + x.size()[axis] as i64 } else { at } as usize)?]
    };
    slice |case, x| {
        let axis = case.get(1, "dim").as_i64().unwrap_or(0) as usize;
        let end = case.get(3, "end").as_u64()
            .map_or(x.size()[axis], |end| (end as usize).min(x.size()[axis]));
        vec![
            x.slice_axis(
                axis, case.get(2, "start").as_u64().unwrap_or(0) as usize, end,
                case.get(4, "step").as_i64().unwrap_or(1) as isize
            )?
        ]
    };
    diagonal |case, x| {
        let axes = [
            axis(case.get(2, "dim1").as_i64().unwrap_or(0), x.rank())?,
            axis(case.get(3, "dim2").as_i64().unwrap_or(1), x.rank())?
        ];
        vec![x.diagonal(axes[0], axes[1], case.get(1, "offset").as_i64().unwrap_or(0))?]
    };
    unbind |case, x| {
        let axis = axis(case.get(1, "dim").as_i64().unwrap_or(0), x.rank())?;
        let Some(&size) = x.size().get(axis) else { return unrun("does not compile: no such axis") };
        (0..size).map(|at| x.index(axis, at)).collect::<Result<Vec<_>, _>>()?
    };
    split |case, x| {
        let axis = axis(case.get(2, "dim").as_i64().unwrap_or(0), x.rank())?;
        let size = x.size()[axis];
        let lengths = match case.arg(1) {
            Value::Array(lengths) => lengths.iter().map(|n| n.as_u64().unwrap() as usize).collect(),
            chunks => {
                let n = chunks.as_u64().unwrap() as usize;
                let len = if case.op == "chunk" { size.div_ceil(n) } else { n };
                (0..size.div_ceil(len)).map(|k| len.min(size - k * len)).collect::<Vec<_>>()
            }
        };
        let starts = lengths.iter().scan(0, |at, len| { *at += len; Some(*at - len) });
        starts.zip(&lengths).map(|(start, len)| x.slice_axis(axis, start, start + len, 1))
            .collect::<Result<Vec<_>, _>>()?
    };
    sections |case, x| {
        let named = case.get(2, "dim").as_i64();
        let axis = match case.op {
            "hsplit" => if x.rank() == 1 { 0 } else { 1 },
            "vsplit" => 0,
            "dsplit" => 2,
            _ => axis(named.unwrap_or(0), x.rank())?,
        };
        let Some(&size) = x.size().get(axis) else { return unrun("does not compile: no such axis") };
        let ends: Vec<i64> = match case.arg(1) {
            Value::String(_) => return unrun("does not compile: a word as a number"),
            Value::Array(ends) => ends.iter().map(|n| n.as_i64().unwrap()).collect(),
            Value::Number(n) => cuts(n.as_i64().unwrap(), size)?,
            tensor => {
                let at = case.tensor::<i64>(tensor)?;
                if at.spec().rank() == 0 { cuts(at.item()?, size)? } else { at.to_vec()? }
            }
        };
        let place = |at: i64| (if at < 0 { at + size as i64 } else { at }).clamp(0, size as i64) as usize;
        let places: Vec<usize> = std::iter::once(0).chain(ends.into_iter().map(place)).chain([size])
            .collect();
        places.windows(2).map(|ends| x.slice_axis(axis, ends[0], ends[1].max(ends[0]), 1))
            .collect::<Result<Vec<_>, _>>()?
    };
    movedim |case, x| {
        let axes = |at| wholes(case.arg(at)).unwrap_or_default().into_iter().map(|a| axis(a, x.rank()))
            .collect::<Result<Vec<_>, _>>();
        let (from, to) = (axes(1)?, axes(2)?);
        let unique = |axes: &[usize]| (0..x.rank()).filter(|axis| axes.contains(axis)).count() == axes.len();
        if from.len() != to.len() || !unique(&from) || !unique(&to) {
            return unrun("does not compile: axes that are no permutation");
        }
        let mut rest = (0..x.rank()).filter(|axis| !from.contains(axis));
        let order: Vec<usize> = (0..x.rank())
            .map(|k| to.iter().position(|&t| t == k).map_or_else(|| rest.next().unwrap(), |at| from[at]))
            .collect();
        vec![x.permuted(&order)?]
    };
    at_least |case, x| {
        let rank = case.op.as_bytes()[8] as usize - b'0' as usize;
        let mut y = x;
        while y.rank() < rank {
            // Columns of a page: the third axis is new at the end.
            y = if y.rank() == 2 && rank == 3 { y.insert(2)? } else { y.insert(0)? };
        }
        vec![y]
    };
    itself |_case, x| vec![x];
}

/// Conjugate transposes: a view of real numbers, a copy of complex ones.
fn adjoint<D: CaseDevice>(case: &Case<D>) -> Run {
    if case.spec(0)?.dtype != rankform::scalar::DType::C32 {
        return matrix_transpose(case);
    }
    let x = case.tensor::<num_complex::Complex<f32>>(case.arg(0))?;
    let x = x.at::<4>()?;
    moved(x.permuted([0, 1, 3, 2])?.conj())
}

/// Every tensor along an axis of its own, stretched over the others.
fn grid<D: CaseDevice>(case: &Case<D>) -> Run {
    let parts: Vec<&Value> = match case.arg(0).as_array() {
        Some(parts) => parts.iter().collect(),
        None => (0..case.args()).map(|at| case.arg(at)).collect(),
    };
    let n = parts.len();
    let swapped = case.kw("indexing") == "xy" && n >= 2;
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let operands = parts.iter().map(|part| case.tensor::<T>(part)).collect::<Result<Vec<_>, _>>()?;
        let place = |k: usize| if swapped && k < 2 { 1 - k } else { k };
        let mut size = vec![0; n];
        operands.iter().enumerate().for_each(|(k, x)| size[place(k)] = x.spec().numel());
        let mut all = Vec::new();
        for (k, operand) in operands.iter().enumerate() {
            let mut view = operand.any()?;
            if view.rank() == 0 {
                view = view.insert(0)?;
            }
            for axis in 0..n {
                if axis != place(k) {
                    view = view.insert(axis)?;
                }
            }
            all.push(view.broadcast(&size)?.out(operand));
        }
        Ok(all)
    })
}

/// The inner ends of `n` parts, of which the first are longer by one where they do not come out even.
fn cuts(n: i64, size: usize) -> Result<Vec<i64>, Stop> {
    if n <= 0 {
        return unrun("does not compile: no parts");
    }
    let (n, size) = (n as usize, size);
    Ok((1..n).map(|k| (k * (size / n) + k.min(size % n)) as i64).collect())
}

/// Sizes of which one may be −1, to be derived from the number of elements.
pub fn derived(sizes: &[i64], numel: usize) -> Result<Vec<usize>, Stop> {
    let known: i64 = sizes.iter().filter(|&&n| n != -1).product();
    if sizes.iter().filter(|&&n| n == -1).count() > 1
        || sizes.iter().any(|&n| n < -1)
        || sizes.contains(&-1) && known == 0
    {
        return unrun("does not compile: a size below 0");
    }
    Ok(sizes.iter().map(|&n| if n == -1 { numel / known as usize } else { n as usize }).collect())
}

/// Other sizes: a view where the reference has one, a copy otherwise.
fn reshape<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let rank = spec.rank();
    let to = match case.op {
        "view_as" | "reshape_as" => case.spec(1)?.size,
        "ravel" => vec![spec.numel()],
        "flatten" => {
            let (start, end) = (
                case.get(1, "start_dim").as_i64().unwrap_or(0),
                case.get(2, "end_dim").as_i64().unwrap_or(-1),
            );
            let (start, end) = (axis(start, rank)?, axis(end, rank)?);
            if rank == 0 {
                vec![1]
            } else {
                [&spec.size[..start], &[spec.size[start..=end].iter().product()], &spec.size[end + 1..]]
                    .concat()
            }
        }
        "unflatten" => {
            let axis = axis_of(case.get(1, "dim"), rank)?;
            let inner = derived(&wholes(case.get(2, "sizes")).unwrap_or_default(), spec.size[axis])?;
            [&spec.size[..axis], &inner, &spec.size[axis + 1..]].concat()
        }
        _ => match wholes(case.get(1, "shape")) {
            Some(sizes) => derived(&sizes, spec.numel())?,
            None => return unrun("another element over the same memory"),
        },
    };
    let is_view = case.json["views"][0] == 0;
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        if is_view || case.is_error() {
            return Ok(vec![x.any()?.reshaped(&to)?.out(&x)]);
        }
        by_rank!(
            to.len(),
            R in [0 1 2 3 4 5 6] => moved(x.view()?.to_shape::<R>(<[usize; R]>::try_from(&to[..]).unwrap()))
        )
    })
}

/// Sizes of 1 stretched.
fn expand<D: CaseDevice>(case: &Case<D>) -> Run {
    let spec = case.spec(0)?;
    let to: Vec<i64> = match Value::is_array(case.arg(1)) {
        true => wholes(case.arg(1)).unwrap(),
        false => case.spec(1)?.size.into_iter().map(|n| n as i64).collect(),
    };
    let Some(new) = to.len().checked_sub(spec.rank()) else { return unrun("does not compile: fewer axes") };
    let to: Vec<usize> = to
        .iter()
        .enumerate()
        .map(|(k, &n)| if n == -1 && k >= new { spec.size[k - new] } else { n as usize })
        .collect();
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        by_rank!(
            to.len(),
            R in [0 1 2 3 4 5] => Ok(
                vec![Out::view(x.at::<R>()?.broadcast_to(<[usize; R]>::try_from(&to[..]).unwrap())?, &x)]
            )
        )
    })
}
fn expand_together<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let all = (0..case.args()).map(|at| case.tensor::<T>(case.arg(at))).collect::<Result<Vec<_>, _>>()?;
        let mut size = Dim([1; 3]);
        for x in &all {
            size = joint_size("broadcast_tensors", size, x.at::<3>()?.size())?;
        }
        all.iter().map(|x| Ok(Out::view(x.at::<3>()?.broadcast_to(size)?, x))).collect()
    })
}

/// Any strides over the storage of the first argument.
fn as_strided<D: CaseDevice>(case: &Case<D>) -> Run {
    let (size, stride) =
        (wholes(case.get(1, "size")).unwrap_or_default(), wholes(case.get(2, "stride")).unwrap_or_default());
    let spec = case.spec(0)?;
    let offset = case.get(3, "storage_offset").as_u64().map_or(spec.offset, |offset| offset as usize);
    by_type!(spec.dtype, T in [f16 bf16 f32 f64 i64 i32 u8 bool c64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        by_rank!(size.len(), R in [0 1 2 3 4] => {
            let size: [usize; R] = std::array::from_fn(|axis| size[axis] as usize);
            let stride: [isize; R] = std::array::from_fn(|axis| stride[axis] as isize);
            Ok(vec![Out::view(x.memory().as_strided(size, stride, offset)?, &x)])
        })
    })
}

/// Complex numbers as pairs, and pairs as complex numbers: views of the same memory, with offsets in other
/// elements.
fn parts_of_complex<D: CaseDevice>(case: &Case<D>) -> Run {
    let z = case.tensor::<num_complex::Complex<f32>>(case.arg(0))?;
    by_rank!(z.spec().rank(), R in [0 1 2 3 4 5] => {
        let parts = z.at::<R>()?.view_as_real()?;
        let offset = (parts.raw_ptr() as usize - z.memory().raw_ptr() as usize) / 4;
        Ok(vec![Out { layout: Some((parts.stride().0.to_vec(), offset)), ..Out::of(parts) }])
    })
}
fn complex_of_parts<D: CaseDevice>(case: &Case<D>) -> Run {
    by_type!(case.spec(0)?.dtype, T in [f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        by_rank!(x.spec().rank(), R in [1 2 3 4 5] => {
            let z = x.at::<R>()?.view_as_complex()?;
            let offset = (z.raw_ptr() as usize - x.memory().raw_ptr() as usize) / (2 * size_of::<T>());
            Ok(vec![Out { layout: Some((z.stride().0.to_vec(), offset)), ..Out::of(z) }])
        })
    })
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("as_strided", as_strided),
        ("as_strided.partial_views", as_strided),
        ("permute", permute),
        ("expand", expand),
        ("expand_as", expand),
        ("broadcast_to", expand),
        ("broadcast_tensors", expand_together),
        ("unfold", unfold),
        ("view", reshape),
        ("view_as_complex", complex_of_parts),
        ("view_as", reshape),
        ("reshape", reshape),
        ("reshape_as", reshape),
        ("flatten", reshape),
        ("unflatten", reshape),
        ("ravel", reshape),
        ("transpose", transpose),
        ("t", reverse),
        ("T", reverse),
        ("mT", matrix_transpose),
        ("mH", adjoint),
        ("H", adjoint),
        ("meshgrid.variadic_tensors", grid),
        ("meshgrid.list_of_tensors", grid),
        ("squeeze", squeeze),
        ("squeeze.multiple", squeeze),
        ("unsqueeze", unsqueeze),
        ("narrow", narrow),
        ("select", select),
        ("slice", slice),
        ("diagonal", diagonal),
        ("unbind", unbind),
        ("split", split),
        ("split.list_args", split),
        ("split_with_sizes", split),
        ("chunk", split),
        ("tensor_split", sections),
        ("hsplit", sections),
        ("vsplit", sections),
        ("dsplit", sections),
        ("movedim", movedim),
        ("atleast_1d", at_least),
        ("atleast_2d", at_least),
        ("atleast_3d", at_least),
        ("positive", itself),
    ];
    rows.to_vec()
}
/// Rows of operators without.
pub const DISCRETE: &[Row] = &[("view_as_real", parts_of_complex)];
