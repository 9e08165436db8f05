//! The kernels of scatters that reduce the values of each cell.
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `ops`, `autograd`.

use super::vjp::{SlopeOf, Variable, VjpReduce};
use crate::device::{Device, Inputs, OperandRef};
use crate::dtype::DType;
use crate::element::{Compute, Element, Number};
use crate::error::{Error, Result, text};
use crate::kernel::{Call, GatherPlan, Input, Op, Program, Reducer, Store};
use crate::ops::{Max, Mul, Prod};
use crate::scalar::{Lane, Lanes};
use std::marker::PhantomData;

/// The error for elements that have no gradients.
pub(super) fn no_gradient(dtype: DType) -> Error {
    Error::Value { op: "backward", what: text(format_args!("elements {dtype} have no gradient")) }
}

/// The reduction of the values of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CellReducer {
    /// Their product.
    Product,
    /// The largest or the smallest of them, which share the gradient.
    Extreme,
}

/// A function of numbers at each element.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellMap {
    /// `[x, result]`: 1 if `x` is the extreme, else 0.
    IsExtreme,
    /// `[x]`: 1 in place of 0.
    Nonzero,
    /// `[x]`: 1 if `x` is 0, else 0.
    IsZero,
    /// `[product, zeros]`: the product of the values that are not 0, or 0 if two values are.
    ProductIfOneZero,
    /// `[x, result, extra, gradient]`: the gradient of `x`.
    Vjp(CellReducer),
}

/// Multiplies cells by elements, by index; of f32 and f64.
///
/// # Safety
/// As [`Device::scatter`].
pub(super) unsafe fn scatter_multiply<D: Device>(
    device: &D,
    dtype: DType,
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    from: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F32 => device.scatter::<f32, Mul>(Mul, plan, cells, from, index),
            DType::F64 => device.scatter::<f64, Mul>(Mul, plan, cells, from, index),
            dtype => Err(no_gradient(dtype)),
        }
    }
}

/// Runs a function at each element, of f32 and f64.
///
/// # Safety
/// As [`Device::map`].
pub(super) unsafe fn map_cells<D: Device>(
    device: &D,
    map: CellMap,
    dtype: DType,
    sizes: &[usize],
    to: OperandRef<'_>,
    operands: &[OperandRef<'_>],
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F32 => map_cells_of::<f32, D>(device, map, sizes, to, operands),
            DType::F64 => map_cells_of::<f64, D>(device, map, sizes, to, operands),
            dtype => Err(no_gradient(dtype)),
        }
    }
}

/// # Safety
/// As [`Device::map`].
unsafe fn map_cells_of<T: Number, D: Device>(
    device: &D,
    map: CellMap,
    sizes: &[usize],
    to: OperandRef<'_>,
    slots: &[OperandRef<'_>],
) -> Result<()>
where
    Max: Reducer<T, Out = T>,
{
    let x = || Input::<T>(PhantomData);
    // SAFETY: the caller's promise.
    unsafe {
        match map {
            CellMap::IsExtreme => run(device, &Store(SlopeOf::<_, Max>(x(), PhantomData)), sizes, to, slots),
            CellMap::Nonzero => run(device, &Store(Call::<Nonzero, _>::new((x(),))), sizes, to, slots),
            CellMap::IsZero => run(device, &Store(Call::<IsZero, _>::new((x(),))), sizes, to, slots),
            CellMap::ProductIfOneZero => {
                run(device, &Store(Call::<ProductIfOneZero, _>::new((x(), x()))), sizes, to, slots)
            }
            CellMap::Vjp(CellReducer::Product) => run(device, &vjp::<T, Prod>(), sizes, to, slots),
            CellMap::Vjp(CellReducer::Extreme) => run(device, &vjp::<T, Max>(), sizes, to, slots),
        }
    }
}

/// # Safety
/// As [`Device::map`]: load `k` reads operand `k`.
unsafe fn run<P: Program, D: Device>(
    device: &D,
    program: &P,
    sizes: &[usize],
    to: OperandRef<'_>,
    slots: &[OperandRef<'_>],
) -> Result<()> {
    let reads = &[0, 1, 2, 3][..slots.len()];
    // SAFETY: the caller's promise.
    unsafe { device.map_apart(program, sizes, 0, &[to], Inputs { slots, reads }) }
}

/// The gradient of a value that a reducer reduces.
fn vjp<T: Element, R: Reducer<T>>() -> VjpReduce<Input<T>, R> {
    let variable = Variable { mask: 1, is_imaginary: false };
    // The slopes of products and extremes do not read the number of values.
    VjpReduce { body: Input(PhantomData), variable, count: 0.0, reducer: PhantomData }
}

/// 1 in place of 0.
#[derive(Clone, Copy, Debug)]
struct Nonzero;

impl<T: Number> Op<(T,)> for Nonzero {
    const CHEAP: bool = true;
    const NAME: &'static str = "nonzero";
    type Out = T;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<T>> {
        x.eq(Lane::zero()).select(Lane::one(), x)
    }
}

/// 1 for 0, and 0 for other numbers.
#[derive(Clone, Copy, Debug)]
struct IsZero;

impl<T: Number> Op<(T,)> for IsZero {
    const CHEAP: bool = true;
    const NAME: &'static str = "is_zero";
    type Out = T;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<T>> {
        x.eq(Lane::zero()).select(Lane::one(), Lane::zero())
    }
}

/// The product of the values that are not 0 if at most one value is 0, else 0.
#[derive(Clone, Copy, Debug)]
struct ProductIfOneZero;

impl<T: Number> Op<(T, T)> for ProductIfOneZero {
    const CHEAP: bool = true;
    const NAME: &'static str = "all_but_one_zero";
    type Out = T;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call<L: Lanes>((product, zeros): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        (zeros.eq(Lane::zero()) | zeros.eq(Lane::one())).select(product, Lane::zero())
    }
}

/// 1 for every number.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneFor;

impl<T: Element> Op<(T,)> for OneFor {
    const CHEAP: bool = true;
    const NAME: &'static str = "one";
    type Out = i64;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call<L: Lanes>(_: (Lane<L, Compute<T>>,)) -> Lane<L, i64> {
        Lane::literal(1)
    }
}
