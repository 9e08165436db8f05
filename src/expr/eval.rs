//! One pass over memory for a whole expression: sizes are joined, memory is found, the device runs the kernel.
//!
//! Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::operand::{Expr, Leaves, RowAxes};
use super::runs::{FEW, Runs};
use crate::device::{Device, Inputs, MAX_OPERANDS, MAX_REDUCED, Reduction, Slot, same_device};
use crate::dim::{Dim, Stride};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Along, Body, Call, InPlace, Input, Op, Program, Reducer, Scanning, Store};
use crate::layout::{Layout, joint_size};
use crate::tensor::{Leaf, Place, Tensor, TensorViewMut};
use std::marker::PhantomData;

/// How many outputs one program has, at most.
const MAX_OUTPUTS: usize = 6;

/// The operands of one kernel, `MOST` of them at most: each different one once, and which of them each load reads.
pub(super) struct Gathered<'a, const RANK: usize, D: Device, const MOST: usize> {
    op: &'static str,
    device: &'a D,
    leaves: [Option<Leaf<'a, RANK, D>>; MOST],
    count: usize,
    reads: [u8; MOST],
    loads: usize,
    limit: usize,
    size: Dim<RANK>,
    /// Whether all of them so far have one size and are row-major.
    flat: bool,
    error: Option<Error>,
}

impl<'a, const RANK: usize, D: Device, const MOST: usize> Leaves<'a, RANK, D> for Gathered<'a, RANK, D, MOST> {
    fn add(&mut self, leaf: Leaf<'a, RANK, D>) {
        if self.error.is_none()
            && let Err(error) = self.try_add(leaf)
        {
            self.error = Some(error);
        }
    }
}

impl<'a, const RANK: usize, D: Device, const MOST: usize> Gathered<'a, RANK, D, MOST> {
    pub(super) fn new(op: &'static str, device: &'a D, outputs: usize) -> Self {
        Gathered {
            op,
            device,
            leaves: [None; MOST],
            count: 0,
            reads: [0; MOST],
            loads: 0,
            limit: MAX_OPERANDS - outputs,
            size: Dim([1; RANK]),
            flat: true,
            error: None,
        }
    }

    /// Adds an operand.
    pub(super) fn take(&mut self, leaf: Leaf<'a, RANK, D>) {
        self.add(leaf);
    }

    fn try_add(&mut self, leaf: Leaf<'a, RANK, D>) -> Result<()> {
        let op = self.op;
        same_device(op, self.device, leaf.device())?;
        if !leaf.is_ready() {
            return Err(Error::Unallocated { op, sizes: leaf.layout().size().0.into() });
        }
        let size = leaf.layout().size();
        self.flat &= leaf.layout().is_contiguous() && (self.count == 0 || self.size == size);
        if self.size != size {
            self.size = joint_size(op, self.size, size)?;
        }
        let known = self.leaves[..self.count].iter().position(|known| known.is_some_and(|known| known.is_same(&leaf)));
        if self.loads == self.limit {
            return Err(Error::Operands { op, limit: self.limit });
        }
        let at = known.unwrap_or(self.count);
        if known.is_none() {
            self.leaves[at] = Some(leaf);
            self.count += 1;
        }
        self.reads[self.loads] = at as u8;
        self.loads += 1;
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = Leaf<'a, RANK, D>> {
        self.leaves[..self.count].iter().copied().flatten()
    }

    /// The sizes of the result, or what was wrong with an operand.
    pub(super) fn size(&mut self) -> Result<Dim<RANK>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.size),
        }
    }

    /// The layout of a fresh result: that of the first operand of full size that is dense, row-major otherwise.
    pub(super) fn preserved(&self, size: Dim<RANK>) -> Layout<RANK> {
        if self.flat {
            return Layout::row_major(size);
        }
        let full = self.all().find(|leaf| leaf.layout().size() == size && leaf.layout().is_non_overlapping_and_dense());
        full.map_or(Layout::row_major(size), |leaf| leaf.layout().preserved())
    }

    /// Runs `program` for every index inside `size`, along `rows` if there are any.
    ///
    /// # Safety
    /// The leaves are the loads of `program` in order, and `outputs` its stores, with their element types; the outputs
    /// have that size, and overlap no input, but that those of a program in place are its first leaves. A program that
    /// is settled has `rows`.
    pub(super) unsafe fn map<P: Program>(
        &self,
        program: &P,
        size: Dim<RANK>,
        rows: Option<[bool; RANK]>,
        outputs: &[Leaf<'_, RANK, D>],
    ) -> Result<()> {
        let run = |sizes: &[usize], row: usize, outputs: &[Slot<'_>], inputs: Inputs<'_>| {
            // SAFETY: the caller's promise; views reach inside their memory, which their borrows keep and protect.
            unsafe { self.device.map(program, sizes, row, outputs, inputs) }
        };
        self.each(size, rows, outputs, run)
    }

    /// What [`map`](Self::map) calls its device with.
    #[inline(always)]
    pub(super) fn each(
        &self,
        size: Dim<RANK>,
        rows: Option<[bool; RANK]>,
        outputs: &[Leaf<'_, RANK, D>],
        run: impl FnOnce(&[usize], usize, &[Slot<'_>], Inputs<'_>) -> Result<()>,
    ) -> Result<()> {
        let reads = &self.reads[..self.loads];
        if rows.is_none() && self.flat && self.size == size && outputs.iter().all(|out| out.layout().is_contiguous()) {
            // One run of memory each: to the device it is one axis.
            let numel = Layout::row_major(size).numel();
            let (ones, out_ones) = ([Stride([1]); MOST], [Stride([1]); MAX_OUTPUTS]);
            let slots_in = slots(self.all(), &ones);
            let outs = slots(outputs.iter().copied(), &out_ones);
            let inputs = Inputs { slots: &slots_in[..self.count], reads };
            return run(&[numel], 0, &outs[..outputs.len()], inputs);
        }
        let order = rows.map(last);
        let ordered = |layout: Layout<RANK>| order.map_or(layout, |order| layout.reordered(order));
        let strides = self.strides(|layout| ordered(layout.stretched(size)).stride());
        let outs: [Stride<RANK>; MAX_OUTPUTS] =
            std::array::from_fn(|k| outputs.get(k).map_or(Stride([0; RANK]), |out| ordered(*out.layout()).stride()));
        let (slots, out_slots) = (slots(self.all(), &strides), slots(outputs.iter().copied(), &outs));
        let inputs = Inputs { slots: &slots[..self.count], reads };
        let sizes = order.map_or(size.0, |order| order.map(|axis| size.0[axis]));
        let row = rows.map_or(0, |rows| rows.iter().filter(|&&of_row| of_row).count());
        run(&sizes, row, &out_slots[..outputs.len()], inputs)
    }

    fn strides(&self, stretch: impl Fn(&Layout<RANK>) -> Stride<RANK>) -> [Stride<RANK>; MOST] {
        let mut strides = [Stride([0; RANK]); MOST];
        for (stride, leaf) in strides.iter_mut().zip(self.all()) {
            *stride = stretch(leaf.layout());
        }
        strides
    }
}

/// What a device sees of some leaves, walked by `strides`; empty slots after them.
pub(super) fn slots<'s, 'l, const RANK: usize, const AXES: usize, D: Device + 'l, const MOST: usize>(
    leaves: impl Iterator<Item = Leaf<'l, RANK, D>>,
    strides: &'s [Stride<AXES>; MOST],
) -> [Slot<'s>; MOST] {
    let mut slots = [Slot { address: std::ptr::null_mut(), stride: &[], element: 0 }; MOST];
    for (slot, (leaf, stride)) in slots.iter_mut().zip(leaves.zip(strides)) {
        *slot = leaf.slot(&stride.0);
    }
    slots
}

/// The axes, the marked ones last.
pub(super) fn last<const RANK: usize>(marked: [bool; RANK]) -> [usize; RANK] {
    let mut order = [0; RANK];
    let mut place = 0;
    for pass in [false, true] {
        for axis in (0..RANK).filter(|&axis| marked[axis] == pass) {
            order[place] = axis;
            place += 1;
        }
    }
    order
}

/// The axes along which parts of the expression of a program are reduced.
pub(super) fn rows<const RANK: usize>(
    by_rows: bool,
    op: &'static str,
    size: Dim<RANK>,
    tell: impl FnOnce(&mut RowAxes<RANK>),
) -> Result<Option<[bool; RANK]>> {
    if !by_rows {
        return Ok(None);
    }
    let mut rows = RowAxes::new(op, size);
    tell(&mut rows);
    rows.found()
}

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
pub(crate) fn eval<T: Element, const RANK: usize, D: Device, E>(op: &'static str, expr: &E, device: &D) -> Result<Tensor<T, RANK, D>>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut runs = Runs::new(device);
    runs.take(expr);
    if let Some(size) = runs.size
        && runs.fits
    {
        let mut out = Tensor::unwritten(op, Layout::row_major(size), device)?;
        // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output is fresh.
        unsafe { runs.map(&Store(expr.body()), &out.fresh_leaf())? };
        return Ok(out);
    }
    if const { E::Body::LOADS <= FEW } {
        eval_few::<T, RANK, D, E, FEW>(op, *expr, device)
    } else {
        eval_few::<T, RANK, D, E, MAX_OPERANDS>(op, *expr, device)
    }
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
    let mut out = Tensor::unwritten(op, gathered.preserved(size), device)?;
    let leaf = out.fresh_leaf();
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output is fresh.
    unsafe { gathered.map(&Store(expr.body()), size, rows, &[leaf])? };
    Ok(out)
}

/// As [`eval`], wherever the result is to go.
pub(crate) fn eval_at<T: Element, const RANK: usize, D: Device, E, P: Place<T, RANK, D>>(
    op: &'static str,
    expr: &E,
    device: &D,
    place: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let mut runs = Runs::new(device);
    runs.take(expr);
    let layout = match runs.size {
        Some(size) if runs.fits => Layout::row_major(size),
        _ => {
            let mut gathered = gather::<RANK, D, E, MAX_OPERANDS>(op, expr, device);
            let size = gathered.size()?;
            gathered.preserved(size)
        }
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
    let mut runs = Runs::new(out.device());
    runs.take(expr);
    if runs.fit(out.size()) && out.layout().is_contiguous() {
        // SAFETY: as in `eval`; an exclusive view overlaps no operand.
        return unsafe { runs.map(&Store(expr.body()), &out.leaf()) };
    }
    if const { E::Body::LOADS <= FEW } {
        eval_into_few::<T, RANK, D, E, FEW>(op, *expr, out)
    } else {
        eval_into_few::<T, RANK, D, E, MAX_OPERANDS>(op, *expr, out)
    }
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
    let mut gathered = gather::<RANK, D, E, MOST>(op, &expr, out.device());
    let (size, wanted) = (gathered.size()?, out.size());
    if !joint_size(op, size, wanted).is_ok_and(|joint| joint == wanted) {
        return Err(Error::Output { op, sizes: size.0.into(), found: wanted.0.into() });
    }
    let rows = rows(E::Body::BY_ROWS, op, wanted, |rows| expr.rows(rows))?;
    // SAFETY: as in `eval`; an exclusive view overlaps neither itself nor an operand.
    unsafe { gathered.map(&Store(expr.body()), wanted, rows, &[out.leaf()]) }
}

/// `out ← F(out)`, in place.
#[inline]
pub(crate) fn update<F: Op<(T,), Out = T>, T: Element, const RANK: usize, D: Device>(
    out: &mut TensorViewMut<'_, T, RANK, D>,
) -> Result<()> {
    let leaf = out.leaf();
    let mut runs = Runs::new(leaf.device());
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
pub(crate) fn update_with<F, T, U, const RANK: usize, D, E>(out: &mut TensorViewMut<'_, T, RANK, D>, other: &E) -> Result<()>
where
    T: Element,
    U: Element,
    D: Device,
    F: Op<(T, U), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = U>>,
{
    let leaf = out.leaf();
    let mut runs = Runs::new(leaf.device());
    runs.add(leaf);
    runs.take(other);
    if runs.fits {
        // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the others apart from it.
        return unsafe { runs.map(&InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))), &leaf) };
    }
    if const { E::Body::LOADS < FEW } {
        update_with_few::<F, T, U, RANK, D, E, FEW>(out, *other)
    } else {
        update_with_few::<F, T, U, RANK, D, E, MAX_OPERANDS>(out, *other)
    }
}

#[inline(never)]
fn update_with_few<F, T, U, const RANK: usize, D, E, const MOST: usize>(out: &mut TensorViewMut<'_, T, RANK, D>, other: E) -> Result<()>
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
    let (size, wanted) = (gathered.size()?, leaf.layout().size());
    if size != wanted {
        return Err(Error::Output { op: F::NAME, sizes: size.0.into(), found: wanted.0.into() });
    }
    let rows = rows(E::Body::BY_ROWS, F::NAME, wanted, |rows| other.rows(rows))?;
    // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the other leaves apart from it.
    unsafe { gathered.map(&InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))), wanted, rows, &[leaf]) }
}

/// A reduction of an expression over the marked axes, whose sizes are found.
struct Reducing<'a, const RANK: usize, D: Device, E, const MOST: usize> {
    gathered: Gathered<'a, RANK, D, MOST>,
    expr: &'a E,
    gone: [bool; RANK],
    size: Dim<RANK>,
    /// Sizes of the axes that stay, then of those that go.
    sizes: [usize; RANK],
}

impl<'a, const RANK: usize, D: Device, E: Expr<RANK, D>, const MOST: usize> Reducing<'a, RANK, D, E, MOST> {
    #[inline(always)] // as above
    fn new<Q: Reducer<<E::Body as Body>::Out>>(expr: &'a E, device: &'a D, gone: [bool; RANK]) -> Result<Self> {
        let op = Q::NAME;
        let mut gathered = gather::<RANK, D, E, MOST>(op, expr, device);
        let size = gathered.size()?;
        size.numel_of(op, size_of::<Q::Out>())?;
        let sizes = last(gone).map(|axis| size.0[axis]);
        let reducing = Reducing { gathered, expr, gone, size, sizes };
        let (kept, reduced) = reducing.axes();
        if reduced.len() > MAX_REDUCED {
            let what = text(format_args!("{} axes, of which at most {MAX_REDUCED} go at once", reduced.len()));
            return Err(Error::Value { op, what });
        }
        if Q::NEEDS_ELEMENTS && reduced.contains(&0) && !kept.contains(&0) {
            return Err(Error::Empty { op, sizes: size.0.into() });
        }
        if E::Body::BY_ROWS {
            let mut along = RowAxes::new(op, size);
            along.add(gone, size);
            expr.rows(&mut along);
            along.found()?;
        }
        Ok(reducing)
    }

    /// Sizes of the axes that stay, and of those that go.
    fn axes(&self) -> (&[usize], &[usize]) {
        self.sizes.split_at(self.gone.iter().filter(|&&gone| !gone).count())
    }

    /// The sizes of the result.
    fn kept<const M: usize>(&self) -> Dim<M> {
        Dim(std::array::from_fn(|axis| self.axes().0[axis]))
    }

    /// # Safety
    /// `out` has the sizes that stay, overlaps neither itself nor an operand, and nobody else uses it.
    unsafe fn run<Q: Reducer<<E::Body as Body>::Out>, const M: usize>(&self, reducer: Q, out: Leaf<'_, M, D>) -> Result<()> {
        let Reducing { gathered, expr, size, sizes, .. } = self;
        let (kept, reduced) = self.axes();
        let order = last(self.gone);
        let strides = gathered.strides(|layout| layout.stretched(*size).reordered(order).stride());
        let slots = slots(gathered.all(), &strides);
        let inputs = Inputs { slots: &slots[..gathered.count], reads: &gathered.reads[..gathered.loads] };
        let stride = out.layout().stride();
        if E::Body::BY_ROWS && !reduced.contains(&0) {
            // What is settled along a row and reduced along it is settled itself: one value a row, written to one place.
            let stride: [isize; RANK] = std::array::from_fn(|axis| stride.0.get(axis).copied().unwrap_or(0));
            let program = Store(Along::<Q, _>::new(expr.body()));
            // SAFETY: as below; the output does not move along a row.
            return unsafe { gathered.device.map(&program, sizes, reduced.len(), &[out.slot(&stride)], inputs) };
        }
        // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; strides stand in the
        // order of `kept` and `reduced`; the output is as the caller promises.
        unsafe { gathered.device.reduce(&expr.body(), reducer, Reduction { kept, reduced }, out.slot(&stride.0), inputs) }
    }
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
    if const { E::Body::LOADS <= FEW } {
        reduce_few::<Q, RANK, M, D, E, FEW>(reducer, expr, device, gone)
    } else {
        reduce_few::<Q, RANK, M, D, E, MAX_OPERANDS>(reducer, expr, device, gone)
    }
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
    let reducing = Reducing::<RANK, D, E, MOST>::new::<Q>(expr, device, gone)?;
    let mut out = Tensor::<Q::Out, M, D>::unwritten(Q::NAME, Layout::row_major(reducing.kept()), device)?;
    let leaf = out.fresh_leaf();
    // SAFETY: a fresh tensor of the sizes that stay.
    unsafe { reducing.run(reducer, leaf)? };
    Ok(out)
}

/// As [`reduce`], wherever the result is to go.
pub(crate) fn reduce_at<Q, const RANK: usize, const M: usize, D: Device, E, P: Place<Q::Out, M, D>>(
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
    let reducing = Reducing::<RANK, D, E, MAX_OPERANDS>::new::<Q>(expr, device, gone)?;
    place.put(Q::NAME, Layout::row_major(reducing.kept()), device, |out| {
        // SAFETY: of the sizes that stay; an exclusive view overlaps neither itself nor an operand.
        unsafe { reducing.run(reducer, out.leaf()) }
    })
}

/// The running states of a reducer along `axis`, which exists, over the values of an expression, fused into one pass.
pub(crate) fn scan<Q, const RANK: usize, D: Device, E, P: Place<Q::Out, RANK, D>>(
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
    let mut gathered = gather::<RANK, D, E, MAX_OPERANDS>(op, expr, device);
    let size = gathered.size()?;
    place.put(op, gathered.preserved(size), device, |out| {
        let leaf = out.leaf();
        let order = last(std::array::from_fn(|a| a == axis));
        let sizes = order.map(|axis| size.0[axis]);
        let plan = Scanning { lines: &sizes[..RANK - 1], along: size.0[axis], exclusive };
        let strides = gathered.strides(|layout| layout.stretched(size).reordered(order).stride());
        let slots = slots(gathered.all(), &strides);
        let inputs = Inputs { slots: &slots[..gathered.count], reads: &gathered.reads[..gathered.loads] };
        let stride = leaf.layout().reordered(order).stride();
        // SAFETY: as in `eval_into`; strides stand in the order of the plan.
        unsafe { device.scan(&expr.body(), reducer, plan, leaf.slot(&stride.0), inputs) }
    })
}
