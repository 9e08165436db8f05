//! One pass over memory for a whole expression: sizes are joined, memory is found, the device runs the kernel.
//!
//! Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::operand::{Expr, Leaves, RowAxes};
use super::runs::{FEW, Runs};
use crate::device::{Device, Inputs, MAX_OPERANDS, MAX_REDUCED, Reduction, Slot, same_device};
use crate::dim::Dim;
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
        // SAFETY: the caller's promise; views reach inside their memory, which their borrows keep and protect.
        self.mapped(size, rows, outputs, &mut |laid| unsafe {
            self.device.map(program, laid.sizes, laid.row, laid.outputs, laid.inputs)
        })
    }

    /// Tells `run` what a program is to be told of its operands. It is the same for every program, and compiled once.
    #[inline(never)]
    fn mapped(&self, size: Dim<RANK>, rows: Option<[bool; RANK]>, outputs: &[Leaf<'_, RANK, D>], run: &mut Run<'_>) -> Result<()> {
        let mut slots = [NO_SLOT; MAX_OUTPUTS];
        if rows.is_none() && self.flat && self.size == size && outputs.iter().all(|out| out.layout().is_contiguous()) {
            // One run of memory each: to the device it is one axis.
            for (slot, out) in slots.iter_mut().zip(outputs) {
                *slot = out.slot(&[1]);
            }
            let mut inputs = [NO_SLOT; MOST];
            for (slot, leaf) in inputs.iter_mut().zip(self.all()) {
                *slot = leaf.slot(&[1]);
            }
            let inputs = Inputs { slots: &inputs[..self.count], reads: &self.reads[..self.loads] };
            return run(Laid { sizes: &[Layout::row_major(size).numel()], row: 0, outputs: &slots[..outputs.len()], inputs });
        }
        let mut strides = [[0; RANK]; MAX_OUTPUTS];
        let order = rows.map(last);
        for (stride, out) in strides.iter_mut().zip(outputs) {
            *stride = in_order(out.layout().stride().0, order);
        }
        for ((slot, stride), out) in slots.iter_mut().zip(&strides).zip(outputs) {
            *slot = out.slot(stride);
        }
        let row = rows.map_or(0, |rows| rows.iter().filter(|&&of_row| of_row).count());
        self.laid_out(size, order, row, &slots[..outputs.len()], run)
    }

    /// Tells `run` where the operands stand for every index inside `size`, whose axes come in this order; so do those of the
    /// outputs. The last `row` of them are told apart.
    #[inline(never)]
    fn laid_out(&self, size: Dim<RANK>, order: Option<[usize; RANK]>, row: usize, outputs: &[Slot<'_>], run: &mut Run<'_>) -> Result<()> {
        let mut strides = [[0; RANK]; MOST];
        for (stride, leaf) in strides.iter_mut().zip(self.all()) {
            *stride = in_order(leaf.layout().stretched(size).stride().0, order);
        }
        let mut slots = [NO_SLOT; MOST];
        for ((slot, stride), leaf) in slots.iter_mut().zip(&strides).zip(self.all()) {
            *slot = leaf.slot(stride);
        }
        let inputs = Inputs { slots: &slots[..self.count], reads: &self.reads[..self.loads] };
        run(Laid { sizes: &in_order(size.0, order), row, outputs, inputs })
    }

    /// A fresh tensor of `size`, in the format of the operands, which `run` writes; `rows` as for [`map`](Self::map).
    #[inline(never)]
    fn eval<T: Element>(&self, size: Dim<RANK>, rows: Option<[bool; RANK]>, run: &mut Run<'_>) -> Result<Tensor<T, RANK, D>> {
        let mut out = Tensor::unwritten(self.op, self.preserved(size), self.device)?;
        let leaf = out.fresh_leaf();
        self.mapped(size, rows, &[leaf], run)?;
        Ok(out)
    }

    /// Checks that the joint size stretches to `wanted`.
    #[inline(never)]
    fn fits_into(&mut self, wanted: Dim<RANK>) -> Result<()> {
        let size = self.size()?;
        if !joint_size(self.op, size, wanted).is_ok_and(|joint| joint == wanted) {
            return Err(Error::Output { op: self.op, sizes: size.0.into(), found: wanted.0.into() });
        }
        Ok(())
    }

    /// Checks that the joint size is `wanted`.
    #[inline(never)]
    fn updates(&mut self, wanted: Dim<RANK>) -> Result<()> {
        let size = self.size()?;
        if size != wanted {
            return Err(Error::Output { op: self.op, sizes: size.0.into(), found: wanted.0.into() });
        }
        Ok(())
    }
}

/// What a device is told of a program, reduction or scan, but what it computes.
pub(super) struct Laid<'a> {
    sizes: &'a [usize],
    /// How many of the axes, the last, are those of a row, or are reduced.
    row: usize,
    outputs: &'a [Slot<'a>],
    inputs: Inputs<'a>,
}

/// What hands it to the device, with a kernel.
type Run<'r> = dyn FnMut(Laid<'_>) -> Result<()> + 'r;

const NO_SLOT: Slot<'static> = Slot { address: std::ptr::null_mut(), stride: &[], element: 0 };

/// What each axis has, with the axes in this order.
fn in_order<V: Copy + Default, const RANK: usize>(values: [V; RANK], order: Option<[usize; RANK]>) -> [V; RANK] {
    let Some(order) = order else { return values };
    let mut ordered = [V::default(); RANK];
    for (place, &axis) in order.iter().enumerate() {
        ordered[place] = values[axis];
    }
    ordered
}

/// The axes, the marked ones last.
fn last<const RANK: usize>(marked: [bool; RANK]) -> [usize; RANK] {
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
    let program = Store(expr.body());
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; the output is fresh.
    gathered.eval(size, rows, &mut |laid| unsafe { device.map(&program, laid.sizes, laid.row, laid.outputs, laid.inputs) })
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
    let wanted = leaf.layout().size();
    gathered.updates(wanted)?;
    let rows = rows(E::Body::BY_ROWS, F::NAME, wanted, |rows| other.rows(rows))?;
    // SAFETY: the first load is `out`, at the index that is stored; the borrow checker keeps the other leaves apart from it.
    unsafe { gathered.map(&InPlace(Store(Call::<F, _>::new((Input::<T>(PhantomData), other.body())))), wanted, rows, &[leaf]) }
}

/// A reduction over the marked axes, whose sizes are found.
struct Reducing<'a, const RANK: usize, D: Device, const MOST: usize> {
    gathered: Gathered<'a, RANK, D, MOST>,
    gone: [bool; RANK],
    size: Dim<RANK>,
}

impl<'a, const RANK: usize, D: Device, const MOST: usize> Reducing<'a, RANK, D, MOST> {
    #[inline(always)] // as above
    fn new<Q: Reducer<<E::Body as Body>::Out>, E: Expr<RANK, D>>(expr: &'a E, device: &'a D, gone: [bool; RANK]) -> Result<Self> {
        let mut reducing = Reducing { gathered: gather(Q::NAME, expr, device), gone, size: Dim([1; RANK]) };
        reducing.check(size_of::<Q::Out>(), Q::NEEDS_ELEMENTS)?;
        if E::Body::BY_ROWS {
            let mut along = RowAxes::new(Q::NAME, reducing.size);
            along.add(gone, reducing.size);
            expr.rows(&mut along);
            along.found()?;
        }
        Ok(reducing)
    }

    #[inline(never)]
    fn check(&mut self, nbytes: usize, needs_elements: bool) -> Result<()> {
        let op = self.gathered.op;
        let size = self.gathered.size()?;
        self.size = size;
        size.numel_of(op, nbytes)?;
        let reduced = self.gone.iter().filter(|&&gone| gone).count();
        if reduced > MAX_REDUCED {
            let what = text(format_args!("{reduced} axes, of which at most {MAX_REDUCED} go at once"));
            return Err(Error::Value { op, what });
        }
        let is_empty = |of_gone: bool| (0..RANK).any(|axis| self.gone[axis] == of_gone && size.0[axis] == 0);
        if needs_elements && is_empty(true) && !is_empty(false) {
            return Err(Error::Empty { op, sizes: size.0.into() });
        }
        Ok(())
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
    fn eval<T: Element, const M: usize>(&self, run: &mut Run<'_>) -> Result<Tensor<T, M, D>> {
        let mut out = Tensor::unwritten(self.gathered.op, Layout::row_major(self.kept()), self.gathered.device)?;
        let leaf = out.fresh_leaf();
        self.laid_out(leaf, run)?;
        Ok(out)
    }
}

/// Runs the reduction of a body.
///
/// # Safety
/// The inputs are the loads of `body` in order, with their types; the output has the sizes that stay, overlaps neither itself
/// nor an operand, and nobody else uses it.
unsafe fn reduced<Q: Reducer<B::Out>, B: Body, D: Device>(device: &D, body: &B, reducer: Q, laid: Laid<'_>) -> Result<()> {
    let Laid { sizes, row, outputs, inputs } = laid;
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    if B::BY_ROWS && !reduced.contains(&0) {
        // What is settled along a row and reduced along it is settled itself: one value a row, written to one place.
        let program = Store(Along::<Q, _>::new(*body));
        // SAFETY: the caller's promise; the output does not move along a row.
        return unsafe { device.map(&program, sizes, row, outputs, inputs) };
    }
    let output = Slot { stride: &outputs[0].stride[..kept.len()], ..outputs[0] };
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
    let reducing = Reducing::<RANK, D, MOST>::new::<Q, E>(expr, device, gone)?;
    let body = expr.body();
    // SAFETY: an expression visits its leaves in the order of its body's loads, with their types; a fresh tensor of the sizes
    // that stay.
    reducing.eval(&mut |laid| unsafe { reduced(device, &body, reducer, laid) })
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
    let reducing = Reducing::<RANK, D, MAX_OPERANDS>::new::<Q, E>(expr, device, gone)?;
    let body = expr.body();
    place.put(Q::NAME, Layout::row_major(reducing.kept()), device, |out| {
        // SAFETY: as in `reduce_few`; an exclusive view overlaps neither itself nor an operand.
        reducing.laid_out(out.leaf(), &mut |laid| unsafe { reduced(device, &body, reducer, laid) })
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
    let body = expr.body();
    place.put(op, gathered.preserved(size), device, |out| {
        let leaf = out.leaf();
        let mut marked = [false; RANK];
        marked[axis] = true;
        let order = Some(last(marked));
        let stride = in_order(leaf.layout().stride().0, order);
        gathered.laid_out(size, order, 1, &[leaf.slot(&stride)], &mut |laid| {
            let (lines, along) = laid.sizes.split_at(RANK - 1);
            let plan = Scanning { lines, along: along[0], exclusive };
            // SAFETY: as in `eval_into`; strides stand in the order of the plan.
            unsafe { device.scan(&body, reducer, plan, laid.outputs[0], laid.inputs) }
        })
    })
}
