//! Runs an expression in one pass: broadcasts the sizes, allocates the result, calls the device.
// Imports: `error`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::contiguous::{CONTIGUOUS_OPERANDS, ContiguousOperands};
use super::leaf_list::{LeafList, leaves_of, row_axes};
use super::operand::{Expr, Leaves};
use crate::device::{Device, MAX_OPERANDS};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Call, InPlace, Input, Op, Store};
use crate::layout::Layout;
use crate::tensor::{Destination, Tensor, TensorViewMut};
use std::marker::PhantomData;

/// A new tensor with the values of an expression, in the memory format of its operands.
#[inline]
pub(crate) fn eval<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    by_pointer!(eval_contiguous::<T, RANK, D, E>, op, expr, device)
}

#[inline]
fn eval_contiguous<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut contiguous = ContiguousOperands::new(device);
    contiguous.add_expr(expr);
    if let Some(size) = contiguous.size
        && contiguous.fits
    {
        let mut out = Tensor::uninit(op, Layout::row_major(size), device)?;
        // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the
        // output is new.
        unsafe { contiguous.map(&Store(expr.body()), &out.fresh_leaf())? };
        return Ok(out);
    }
    let eval: fn(_, _, _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            eval_leaves::<T, RANK, D, E, CONTIGUOUS_OPERANDS>
        } else {
            eval_leaves::<T, RANK, D, E, MAX_OPERANDS>
        }
    };
    eval(op, *expr, device)
}

#[inline(never)] // large and less common; by value, to keep the operands of the common case in registers
fn eval_leaves<T: Element, const RANK: usize, D: Device, E, const CAPACITY: usize>(
    op: &'static str,
    expr: E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut list = leaves_of::<RANK, D, E, CAPACITY>(op, &expr, device);
    let size = list.size()?;
    let rows = row_axes(E::Body::BY_ROWS, op, size, |rows| expr.rows(rows))?;
    let program = Store(expr.body());
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output
    // is new.
    list.eval(size, rows, &mut |args| unsafe {
        device.map_apart(&program, args.sizes, args.row, args.outputs, args.inputs)
    })
}

/// As [`eval`], for any destination.
pub(crate) fn eval_at<T: Element, const RANK: usize, D: Device, E, P: Destination<T, RANK, D>>(
    op: &'static str,
    expr: &E,
    device: &D,
    destination: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut contiguous = ContiguousOperands::new(device);
    contiguous.add_expr(expr);
    let layout = match contiguous.size {
        Some(size) if contiguous.fits => Layout::row_major(size),
        _ if const { E::Body::LOADS <= CONTIGUOUS_OPERANDS } => {
            leaves_of::<RANK, D, E, CONTIGUOUS_OPERANDS>(op, expr, device).layout()?
        }
        _ => leaves_of::<RANK, D, E, MAX_OPERANDS>(op, expr, device).layout()?,
    };
    destination.put(op, layout, device, |out| eval_into(op, expr, out))
}

/// Writes the values of an expression, broadcast to the sizes of `out`, into `out`.
///
/// The borrow checker keeps `out` disjoint from every operand.
#[inline]
pub(crate) fn eval_into<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    by_pointer!(eval_contiguous_into::<T, RANK, D, E>, op, expr, out)
}

#[inline]
fn eval_contiguous_into<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut contiguous = ContiguousOperands::new(out.device());
    contiguous.add_expr(expr);
    if contiguous.fits_output(out.size()) && out.layout().is_contiguous() {
        // SAFETY: as in `eval`; an exclusive view overlaps no operand.
        return unsafe { contiguous.map(&Store(expr.body()), &out.leaf()) };
    }
    let eval: fn(_, _, &mut _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            eval_leaves_into::<T, RANK, D, E, CONTIGUOUS_OPERANDS>
        } else {
            eval_leaves_into::<T, RANK, D, E, MAX_OPERANDS>
        }
    };
    eval(op, *expr, out)
}

#[inline(never)]
fn eval_leaves_into<T: Element, const RANK: usize, D: Device, E, const CAPACITY: usize>(
    op: &'static str,
    expr: E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let leaf = out.leaf();
    let device = leaf.device();
    let mut list = leaves_of::<RANK, D, E, CAPACITY>(op, &expr, device);
    let wanted = leaf.layout().size();
    list.check_broadcasts_to(wanted)?;
    let rows = row_axes(E::Body::BY_ROWS, op, wanted, |rows| expr.rows(rows))?;
    // SAFETY: as in `eval`; an exclusive view overlaps neither itself nor an operand.
    unsafe { list.map(&Store(expr.body()), wanted, rows, &[leaf]) }
}

/// `out ← F(out)`, in place.
#[inline]
pub(crate) fn update<F: Op<(T,), Out = T>, T: Element, const RANK: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    by_pointer!(update_contiguous::<F, T, RANK, D>, out)
}

#[inline]
fn update_contiguous<F: Op<(T,), Out = T>, T: Element, const RANK: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let leaf = out.leaf();
    let mut contiguous = ContiguousOperands::new(leaf.device());
    contiguous.add(leaf);
    let program = InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData),))));
    if contiguous.fits {
        // SAFETY: the program loads and stores `out` alone, at the same index.
        return unsafe { contiguous.map(&program, &leaf) };
    }
    let mut list = LeafList::<RANK, D, CONTIGUOUS_OPERANDS>::new(F::NAME, leaf.device(), 1);
    list.add(leaf);
    list.size()?;
    // SAFETY: as above.
    unsafe { list.map(&program, leaf.layout().size(), None, &[leaf]) }
}

/// `out ← F(out, other)`, in place, with `other` broadcast to the sizes of `out`.
#[inline]
pub(crate) fn update_with<F, T, U, const RANK: usize, D, E>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
    other: &E,
) -> Result<()>
where
    T: Element,
    U: Element,
    D: Device,
    F: Op<(T, U), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = U>>,
{
    by_pointer!(update_contiguous_with::<F, T, U, RANK, D, E>, out, other)
}

#[inline]
fn update_contiguous_with<F, T, U, const RANK: usize, D, E>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
    other: &E,
) -> Result<()>
where
    T: Element,
    U: Element,
    D: Device,
    F: Op<(T, U), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = U>>,
{
    let leaf = out.leaf();
    let mut contiguous = ContiguousOperands::new(leaf.device());
    contiguous.add(leaf);
    contiguous.add_expr(other);
    if contiguous.fits {
        // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the others
        // disjoint from it.
        return unsafe {
            contiguous.map(&InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))), &leaf)
        };
    }
    if const { E::Body::LOADS < CONTIGUOUS_OPERANDS } {
        update_leaves_with::<F, T, U, RANK, D, E, CONTIGUOUS_OPERANDS>(out, *other)
    } else {
        update_leaves_with::<F, T, U, RANK, D, E, MAX_OPERANDS>(out, *other)
    }
}

#[inline(never)]
fn update_leaves_with<F, T, U, const RANK: usize, D, E, const CAPACITY: usize>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
    other: E,
) -> Result<()>
where
    T: Element,
    U: Element,
    D: Device,
    F: Op<(T, U), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = U>>,
{
    let leaf = out.leaf();
    let mut list = LeafList::<RANK, D, CAPACITY>::new(F::NAME, leaf.device(), 1);
    list.add(leaf);
    other.leaves(&mut list);
    let wanted = leaf.layout().size();
    list.check_size_is(wanted)?;
    let rows = row_axes(E::Body::BY_ROWS, F::NAME, wanted, |rows| other.rows(rows))?;
    // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the other leaves
    // disjoint from it.
    unsafe {
        list.map(
            &InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))),
            wanted,
            rows,
            &[leaf],
        )
    }
}
