//! One pass over memory for a whole expression: sizes are joined, memory is found, the device runs the kernel.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::contiguous::{ContiguousOperands, FEW};
pub(super) use super::gathered::{Gathered, rows};
use super::gathered::{Laid, Run, in_order, last};
use super::operand::{Expr, Leaves, Marked, RowAxes, joint};
use crate::device::{Device, Inputs, MAX_OPERANDS, MAX_REDUCED, OperandRef, Reduction};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Body, Call, InPlace, Input, Op, Param, Reducer, RowReduce, ScanPlan, Store};
use crate::layout::Layout;
use crate::tensor::{Destination, Leaf, Tensor, TensorViewMut};
use std::marker::PhantomData;

/// The operands of an expression. Inlined: they are many words, to be made where they stay.
#[inline(always)]
fn gather<'a, const RANK: usize, D: Device, E: Expr<RANK, D>, const MOST: usize>(
    op: &'static str,
    expr: &'a E,
    device: &'a D,
) -> Gathered<'a, RANK, D, MOST> {
    let mut gathered = Gathered::new(op, device, 1);
    expr.leaves(&mut gathered);
    gathered
}

/// A fresh tensor with the values of an expression, in the format of its operands.
#[inline]
pub(crate) fn eval<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    by_pointer!(eval_runs::<T, RANK, D, E>, op, expr, device)
}

#[inline]
fn eval_runs<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut runs = ContiguousOperands::new(device);
    runs.take(expr);
    if let Some(size) = runs.size
        && runs.fits
    {
        let mut out = Tensor::unwritten(op, Layout::row_major(size), device)?;
        // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output is fresh.
        unsafe { runs.map(&Store(expr.body()), &out.fresh_leaf())? };
        return Ok(out);
    }
    let eval: fn(_, _, _) -> _ = const {
        if E::Body::LOADS <= FEW {
            eval_few::<T, RANK, D, E, FEW>
        } else {
            eval_few::<T, RANK, D, E, MAX_OPERANDS>
        }
    };
    eval(op, *expr, device)
}

#[inline(never)] // rarer, and large; by value, so that what the common case reads need not be in memory
fn eval_few<T: Element, const RANK: usize, D: Device, E, const MOST: usize>(
    op: &'static str,
    expr: E,
    device: &D,
) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut gathered = gather::<RANK, D, E, MOST>(op, &expr, device);
    let size = gathered.size()?;
    let rows = rows(E::Body::BY_ROWS, op, size, |rows| expr.rows(rows))?;
    let program = Store(expr.body());
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output is fresh.
    gathered.eval(size, rows, &mut |laid| unsafe {
        device.map_apart(&program, laid.sizes, laid.row, laid.outputs, laid.inputs)
    })
}

/// As [`eval`], wherever the result is to go.
pub(crate) fn eval_at<T: Element, const RANK: usize, D: Device, E, P: Destination<T, RANK, D>>(
    op: &'static str,
    expr: &E,
    device: &D,
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut runs = ContiguousOperands::new(device);
    runs.take(expr);
    let layout = match runs.size {
        Some(size) if runs.fits => Layout::row_major(size),
        _ if const { E::Body::LOADS <= FEW } => gather::<RANK, D, E, FEW>(op, expr, device).layout()?,
        _ => gather::<RANK, D, E, MAX_OPERANDS>(op, expr, device).layout()?,
    };
    place.put(op, layout, device, |out| eval_into(op, expr, out))
}

/// Writes the values of an expression, stretched to `out`'s sizes, into `out`.
///
/// The borrow checker keeps `out` apart from every operand.
#[inline]
pub(crate) fn eval_into<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    by_pointer!(eval_runs_into::<T, RANK, D, E>, op, expr, out)
}

#[inline]
fn eval_runs_into<T: Element, const RANK: usize, D: Device, E>(
    op: &'static str,
    expr: &E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut runs = ContiguousOperands::new(out.device());
    runs.take(expr);
    if runs.fit(out.size()) && out.layout().is_contiguous() {
        // SAFETY: as in `eval`; an exclusive view overlaps no operand.
        return unsafe { runs.map(&Store(expr.body()), &out.leaf()) };
    }
    let eval: fn(_, _, &mut _) -> _ = const {
        if E::Body::LOADS <= FEW {
            eval_into_few::<T, RANK, D, E, FEW>
        } else {
            eval_into_few::<T, RANK, D, E, MAX_OPERANDS>
        }
    };
    eval(op, *expr, out)
}

#[inline(never)]
fn eval_into_few<T: Element, const RANK: usize, D: Device, E, const MOST: usize>(
    op: &'static str,
    expr: E,
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let leaf = out.leaf();
    let device = leaf.device();
    let mut gathered = gather::<RANK, D, E, MOST>(op, &expr, device);
    let wanted = leaf.layout().size();
    gathered.fits_into(wanted)?;
    let rows = rows(E::Body::BY_ROWS, op, wanted, |rows| expr.rows(rows))?;
    // SAFETY: as in `eval`; an exclusive view overlaps neither itself nor an operand.
    unsafe { gathered.map(&Store(expr.body()), wanted, rows, &[leaf]) }
}

/// `out ← F(out)`, in place.
#[inline]
pub(crate) fn update<F: Op<(T,), Out = T>, T: Element, const RANK: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    by_pointer!(update_runs::<F, T, RANK, D>, out)
}

#[inline]
fn update_runs<F: Op<(T,), Out = T>, T: Element, const RANK: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let leaf = out.leaf();
    let mut runs = ContiguousOperands::new(leaf.device());
    runs.add(leaf);
    let program = InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData),))));
    if runs.fits {
        // SAFETY: the program loads and stores `out` alone, at the same index.
        return unsafe { runs.map(&program, &leaf) };
    }
    let mut gathered = Gathered::<RANK, D, FEW>::new(F::NAME, leaf.device(), 1);
    gathered.add(leaf);
    gathered.size()?;
    // SAFETY: as above.
    unsafe { gathered.map(&program, leaf.layout().size(), None, &[leaf]) }
}

/// `out ← F(out, other)`, in place, with `other` stretched to `out`'s sizes.
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
    by_pointer!(update_runs_with::<F, T, U, RANK, D, E>, out, other)
}

#[inline]
fn update_runs_with<F, T, U, const RANK: usize, D, E>(
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
    let mut runs = ContiguousOperands::new(leaf.device());
    runs.add(leaf);
    runs.take(other);
    if runs.fits {
        // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the others apart from it.
        return unsafe {
            runs.map(&InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))), &leaf)
        };
    }
    if const { E::Body::LOADS < FEW } {
        update_with_few::<F, T, U, RANK, D, E, FEW>(out, *other)
    } else {
        update_with_few::<F, T, U, RANK, D, E, MAX_OPERANDS>(out, *other)
    }
}

#[inline(never)]
fn update_with_few<F, T, U, const RANK: usize, D, E, const MOST: usize>(
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
    let mut gathered = Gathered::<RANK, D, MOST>::new(F::NAME, leaf.device(), 1);
    gathered.add(leaf);
    other.leaves(&mut gathered);
    let wanted = leaf.layout().size();
    gathered.updates(wanted)?;
    let rows = rows(E::Body::BY_ROWS, F::NAME, wanted, |rows| other.rows(rows))?;
    // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the other leaves apart from it.
    unsafe {
        gathered.map(
            &InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))),
            wanted,
            rows,
            &[leaf],
        )
    }
}

/// A reduction over the marked axes, whose sizes are found.
pub(super) struct Reducing<'a, const RANK: usize, D: Device, const MOST: usize> {
    gathered: Gathered<'a, RANK, D, MOST>,
    gone: [bool; RANK],
    size: Dim<RANK>,
}

impl<'a, const RANK: usize, D: Device, const MOST: usize> Reducing<'a, RANK, D, MOST> {
    #[inline(always)] // as above
    fn new<Q: Reducer<<E::Body as Body>::Out>, E: Expr<RANK, D>>(
        expr: &'a E,
        device: &'a D,
        gone: [bool; RANK],
    ) -> Result<Self> {
        let reducing =
            Reducing::of(gather(Q::NAME, expr, device), gone, size_of::<Q::Out>(), Q::NEEDS_ELEMENTS)?;
        if E::Body::BY_ROWS {
            let mut along = RowAxes::new(Q::NAME, reducing.size);
            along.add(Marked { gone, missing: None }, reducing.size);
            expr.rows(&mut along);
            along.found()?;
        }
        Ok(reducing)
    }

    /// Of these operands to elements of so many bytes; `needs_elements` says that no elements have no value.
    #[inline(never)]
    pub(super) fn of(
        mut gathered: Gathered<'a, RANK, D, MOST>,
        gone: [bool; RANK],
        nbytes: usize,
        needs_elements: bool,
    ) -> Result<Self> {
        let op = gathered.op;
        let size = gathered.size()?;
        size.numel_of(op, nbytes)?;
        let reduced = gone.iter().filter(|&&gone| gone).count();
        if reduced > MAX_REDUCED {
            let what = text(format_args!("{reduced} axes, of which at most {MAX_REDUCED} go at once"));
            return Err(Error::Value { op, what });
        }
        let is_empty = |of_gone: bool| (0..RANK).any(|axis| gone[axis] == of_gone && size.0[axis] == 0);
        if needs_elements && is_empty(true) && !is_empty(false) {
            return Err(Error::Empty { op, sizes: size.0.into() });
        }
        Ok(Reducing { gathered, gone, size })
    }

    /// The sizes of the result.
    fn kept<const M: usize>(&self) -> Dim<M> {
        let (mut kept, mut place) = (Dim([0; M]), 0);
        for axis in (0..RANK).filter(|&axis| !self.gone[axis]) {
            kept.0[place] = self.size.0[axis];
            place += 1;
        }
        kept
    }

    /// Tells `run` where operands and output stand; the output does not move along the axes that go.
    #[inline(never)]
    fn laid_out<const M: usize>(&self, out: Leaf<'_, M, D>, run: &mut Run<'_>) -> Result<()> {
        let mut stride = [0; RANK];
        stride[..M].copy_from_slice(&out.layout().stride().0);
        let row = self.gone.iter().filter(|&&gone| gone).count();
        self.gathered.laid_out(self.size, Some(last(self.gone)), row, &[out.slot(&stride)], run)
    }

    /// A fresh result, which `run` writes.
    #[inline(never)]
    pub(super) fn eval<T: Element, const M: usize>(&self, run: &mut Run<'_>) -> Result<Tensor<T, M, D>> {
        let mut out =
            Tensor::unwritten(self.gathered.op, Layout::row_major(self.kept()), self.gathered.device)?;
        let leaf = out.fresh_leaf();
        self.laid_out(leaf, run)?;
        Ok(out)
    }

    /// As [`eval`](Reducing::eval), with axes of size 1 in place of those that go.
    #[inline(never)]
    fn eval_kept<T: Element>(&self, run: &mut Run<'_>) -> Result<Tensor<T, RANK, D>> {
        let (mut size, order) = (self.size, last(self.gone));
        (0..RANK).filter(|&axis| self.gone[axis]).for_each(|axis| size.0[axis] = 1);
        let mut out = Tensor::unwritten(self.gathered.op, Layout::row_major(size), self.gathered.device)?;
        let leaf = out.fresh_leaf();
        let row = self.gone.iter().filter(|&&gone| gone).count();
        let mut stride = in_order(leaf.layout().stride().0, Some(order));
        stride[RANK - row..].fill(0);
        self.gathered.laid_out(self.size, Some(order), row, &[leaf.slot(&stride)], run)?;
        Ok(out)
    }
}

/// Runs the reduction of a body.
///
/// # Safety
/// The inputs are the loads of `body` in order, with their types; the output has the sizes that stay, overlaps neither itself
/// nor an operand, and nobody else uses it.
unsafe fn reduced<Q: Reducer<B::Out>, B: Body, D: Device>(
    device: &D,
    body: &B,
    reducer: Q,
    laid: Laid<'_>,
) -> Result<()> {
    let Laid { sizes, row, outputs, inputs } = laid;
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    let output = OperandRef { stride: &outputs[0].stride[..kept.len()], ..outputs[0] };
    if B::BY_ROWS {
        if reduced.contains(&0) {
            // Of nothing, whatever it is: no kernel for this body.
            let body = Param(B::Out::narrow(Default::default()));
            // SAFETY: the caller's promise for the output; nothing is read.
            return unsafe {
                device.reduce(
                    &body,
                    reducer,
                    Reduction { kept, reduced },
                    output,
                    Inputs { slots: &[], reads: &[] },
                )
            };
        }
        // What is settled along a row and reduced along it is settled itself: one value a row, written to one place.
        let program = Store(RowReduce::<Q, _>::new(*body));
        // SAFETY: the caller's promise; the output does not move along a row.
        return unsafe { device.map(&program, sizes, row, outputs, inputs) };
    }
    // SAFETY: the caller's promise; strides stand in the order of `kept` and `reduced`.
    unsafe { device.reduce(body, reducer, Reduction { kept, reduced }, output, inputs) }
}

/// Reduces an expression over the marked axes, fused into one pass.
pub(crate) fn reduce<Q, const RANK: usize, const M: usize, D: Device, E>(
    reducer: Q,
    expr: &E,
    device: &D,
    gone: [bool; RANK],
) -> Result<Tensor<Q::Out, M, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _) -> _ = const {
        if E::Body::LOADS <= FEW {
            reduce_few::<Q, RANK, M, D, E, FEW>
        } else {
            reduce_few::<Q, RANK, M, D, E, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, gone)
}

fn reduce_few<Q, const RANK: usize, const M: usize, D: Device, E, const MOST: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    gone: [bool; RANK],
) -> Result<Tensor<Q::Out, M, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reducing = Reducing::<RANK, D, MOST>::new::<Q, E>(expr, device, gone)?;
    let body = expr.body();
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; a fresh tensor of the sizes
    // that stay.
    reducing.eval(&mut |laid| unsafe { reduced(device, &body, reducer, laid) })
}

/// As [`reduce`], with axes of size 1 in place of those that go.
pub(crate) fn reduce_keepdims<Q, const RANK: usize, D: Device, E>(
    reducer: Q,
    expr: &E,
    device: &D,
    axes: Marked<RANK>,
) -> Result<Tensor<Q::Out, RANK, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _) -> _ = const {
        if E::Body::LOADS <= FEW {
            reduce_keep_few::<Q, RANK, D, E, FEW>
        } else {
            reduce_keep_few::<Q, RANK, D, E, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, axes)
}

fn reduce_keep_few<Q, const RANK: usize, D: Device, E, const MOST: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    axes: Marked<RANK>,
) -> Result<Tensor<Q::Out, RANK, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let gone = axes.found(Q::NAME, || joint(expr))?;
    let reducing = Reducing::<RANK, D, MOST>::new::<Q, E>(expr, device, gone)?;
    let body = expr.body();
    // SAFETY: as in `reduce_few`; a fresh tensor with one element for each row.
    reducing.eval_kept(&mut |laid| unsafe { reduced(device, &body, reducer, laid) })
}

/// As [`reduce`], wherever the result is to go.
pub(crate) fn reduce_at<Q, const RANK: usize, const M: usize, D: Device, E, P: Destination<Q::Out, M, D>>(
    reducer: Q,
    expr: &E,
    device: &D,
    gone: [bool; RANK],
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _, _) -> _ = const {
        if E::Body::LOADS <= FEW {
            reduce_at_few::<Q, RANK, M, D, E, P, FEW>
        } else {
            reduce_at_few::<Q, RANK, M, D, E, P, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, gone, place)
}

fn reduce_at_few<
    Q,
    const RANK: usize,
    const M: usize,
    D: Device,
    E,
    P: Destination<Q::Out, M, D>,
    const MOST: usize,
>(
    reducer: Q,
    expr: &E,
    device: &D,
    gone: [bool; RANK],
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reducing = Reducing::<RANK, D, MOST>::new::<Q, E>(expr, device, gone)?;
    let body = expr.body();
    place.put(Q::NAME, Layout::row_major(reducing.kept()), device, |out| {
        // SAFETY: as in `reduce_few`; an exclusive view overlaps neither itself nor an operand.
        reducing.laid_out(out.leaf(), &mut |laid| unsafe { reduced(device, &body, reducer, laid) })
    })
}

/// The running states of a reducer along `axis`, which exists, over the values of an expression, fused into one pass.
pub(crate) fn scan<Q, const RANK: usize, D: Device, E, P: Destination<Q::Out, RANK, D>>(
    reducer: Q,
    expr: &E,
    device: &D,
    along: (usize, bool),
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let scan: fn(_, _, _, _, _) -> _ = const {
        if E::Body::LOADS <= FEW {
            scan_few::<Q, RANK, D, E, P, FEW>
        } else {
            scan_few::<Q, RANK, D, E, P, MAX_OPERANDS>
        }
    };
    scan(reducer, expr, device, along, place)
}

fn scan_few<Q, const RANK: usize, D: Device, E, P: Destination<Q::Out, RANK, D>, const MOST: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    (axis, exclusive): (usize, bool),
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let op = Q::NAME;
    if E::Body::BY_ROWS {
        // What is reduced along a row is not known before the row has been read: it is computed first.
        return scan(reducer, &eval(op, expr, device)?.view(), device, (axis, exclusive), place);
    }
    let mut gathered = gather::<RANK, D, E, MOST>(op, expr, device);
    let size = gathered.size()?;
    let body = expr.body();
    place.put(op, gathered.preserved(size), device, |out| {
        let leaf = out.leaf();
        let mut marked = [false; RANK];
        marked[axis] = true;
        let order = Some(last(marked));
        let stride = in_order(leaf.layout().stride().0, order);
        gathered.laid_out(size, order, 1, &[leaf.slot(&stride)], &mut |laid| {
            let (lines, along) = laid.sizes.split_at(RANK - 1);
            let plan = ScanPlan { lines, along: along[0], exclusive };
            // SAFETY: as in `eval_into`; strides stand in the order of the plan.
            unsafe { device.scan(&body, reducer, plan, laid.outputs[0], laid.inputs) }
        })
    })
}
