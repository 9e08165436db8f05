//! Reduces or scans the values of an expression in one pass.
// Imports: `error`, `dim`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::contiguous::CONTIGUOUS_OPERANDS;
use super::eval::eval;
use super::leaf_list::{KernelArgs, LaunchFn, LeafList, leaves_of, marked_last, reordered};
use super::operand::{Expr, RowAxes, joint};
use crate::device::{Device, Inputs, MAX_AXES, MAX_OPERANDS, OperandRef, Reduction};
use crate::dim::{Dim, MarkedAxes};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Body, Param, Reducer, RowReduce, ScanPlan, Store};
use crate::layout::Layout;
use crate::tensor::{Destination, Leaf, Tensor};

/// A reduction over the marked axes, after its sizes have been checked.
pub(super) struct LeafReduction<'a, const RANK: usize, D: Device, const CAPACITY: usize> {
    list: LeafList<'a, RANK, D, CAPACITY>,
    marked: [bool; RANK],
    size: Dim<RANK>,
}

impl<'a, const RANK: usize, D: Device, const CAPACITY: usize> LeafReduction<'a, RANK, D, CAPACITY> {
    #[inline(always)] // inlined as `leaves_of` is
    fn new<Q: Reducer<<E::Body as Body>::Out>, E: Expr<RANK, D>>(
        expr: &'a E,
        device: &'a D,
        marked: [bool; RANK],
    ) -> Result<Self> {
        let reduction = LeafReduction::from_operands(
            leaves_of(Q::NAME, expr, device),
            marked,
            size_of::<Q::Out>(),
            Q::NEEDS_ELEMENTS,
        )?;
        if E::Body::BY_ROWS {
            let mut along = RowAxes::new(Q::NAME, reduction.size);
            along.add(MarkedAxes { marked, missing: None }, reduction.size);
            expr.rows(&mut along);
            along.found()?;
        }
        Ok(reduction)
    }

    /// A reduction of these operands to elements of `nbytes` bytes; `needs_elements` states that no elements
    /// have no value.
    #[inline(never)]
    pub(super) fn from_operands(
        mut list: LeafList<'a, RANK, D, CAPACITY>,
        marked: [bool; RANK],
        nbytes: usize,
        needs_elements: bool,
    ) -> Result<Self> {
        let op = list.op;
        let size = list.size()?;
        size.numel_of(op, nbytes)?;
        let reduced = marked.iter().filter(|&&marked| marked).count();
        if reduced > MAX_AXES {
            let what = text(format_args!("{reduced} axes, of which at most {MAX_AXES} go at once"));
            return Err(Error::Value { op, what });
        }
        let is_empty = |of_marked: bool| (0..RANK).any(|axis| marked[axis] == of_marked && size.0[axis] == 0);
        if needs_elements && is_empty(true) && !is_empty(false) {
            return Err(Error::Empty { op, sizes: size.0.into() });
        }
        Ok(LeafReduction { list, marked, size })
    }

    /// The sizes of the result.
    fn kept_size<const M: usize>(&self) -> Dim<M> {
        let (mut kept, mut place) = (Dim([0; M]), 0);
        for axis in (0..RANK).filter(|&axis| !self.marked[axis]) {
            kept.0[place] = self.size.0[axis];
            place += 1;
        }
        kept
    }

    /// Passes operands and output to `launch`; the output has no strides along the reduced axes.
    #[inline(never)]
    fn launch_strided<const M: usize>(&self, out: Leaf<'_, M, D>, launch: &mut LaunchFn<'_>) -> Result<()> {
        let mut stride = [0; RANK];
        stride[..M].copy_from_slice(&out.layout().stride().0);
        let row = self.marked.iter().filter(|&&marked| marked).count();
        self.list.launch_strided(self.size, Some(marked_last(self.marked)), row, &[out.slot(&stride)], launch)
    }

    /// A new result, which `launch` writes.
    #[inline(never)]
    pub(super) fn eval<T: Element, const M: usize>(
        &self,
        launch: &mut LaunchFn<'_>,
    ) -> Result<Tensor<T, M, D>> {
        let mut out = Tensor::uninit(self.list.op, Layout::row_major(self.kept_size()), self.list.device)?;
        let leaf = out.fresh_leaf();
        self.launch_strided(leaf, launch)?;
        Ok(out)
    }

    /// As [`eval`](LeafReduction::eval), with axes of size 1 in place of the reduced ones.
    #[inline(never)]
    fn eval_kept<T: Element>(&self, launch: &mut LaunchFn<'_>) -> Result<Tensor<T, RANK, D>> {
        let (mut size, order) = (self.size, marked_last(self.marked));
        (0..RANK).filter(|&axis| self.marked[axis]).for_each(|axis| size.0[axis] = 1);
        let mut out = Tensor::uninit(self.list.op, Layout::row_major(size), self.list.device)?;
        let leaf = out.fresh_leaf();
        let row = self.marked.iter().filter(|&&marked| marked).count();
        let mut stride = reordered(leaf.layout().stride().0, Some(order));
        stride[RANK - row..].fill(0);
        self.list.launch_strided(self.size, Some(order), row, &[leaf.slot(&stride)], launch)?;
        Ok(out)
    }
}

/// Runs the reduction of a body.
///
/// # Safety
/// 1. The inputs are the loads of `body` in order, with their types.
/// 2. The output has the sizes of the remaining axes, overlaps neither itself nor an operand, and no other
///    code uses it.
unsafe fn launch_reduction<Q: Reducer<B::Out>, B: Body, D: Device>(
    device: &D,
    body: &B,
    reducer: Q,
    args: KernelArgs<'_>,
) -> Result<()> {
    let KernelArgs { sizes, row, outputs, inputs } = args;
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    let output = OperandRef { stride: &outputs[0].stride[..kept.len()], ..outputs[0] };
    if B::BY_ROWS {
        if reduced.contains(&0) {
            // A reduction of no elements does not depend on the body: any body serves.
            let body = Param(B::Out::narrow(Default::default()));
            // SAFETY: (1) nothing is read; (2) is the caller's promise.
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
        // The reduction of a row constant expression is itself a row constant: one value for each row,
        // written once.
        let program = Store(RowReduce::<Q, _>::new(*body));
        // SAFETY: (1) and (2) are the caller's promises; the output has no strides along a row.
        return unsafe { device.map(&program, sizes, row, outputs, inputs) };
    }
    // SAFETY: (1) and (2) are the caller's promises; the strides are in the order of `kept` and `reduced`.
    unsafe { device.reduce(body, reducer, Reduction { kept, reduced }, output, inputs) }
}

/// Reduces an expression over the marked axes, fused into one pass.
pub(crate) fn reduce<Q, const RANK: usize, const M: usize, D: Device, E>(
    reducer: Q,
    expr: &E,
    device: &D,
    marked: [bool; RANK],
) -> Result<Tensor<Q::Out, M, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            reduce_leaves::<Q, RANK, M, D, E, CONTIGUOUS_OPERANDS>
        } else {
            reduce_leaves::<Q, RANK, M, D, E, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, marked)
}

fn reduce_leaves<Q, const RANK: usize, const M: usize, D: Device, E, const CAPACITY: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    marked: [bool; RANK],
) -> Result<Tensor<Q::Out, M, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduction = LeafReduction::<RANK, D, CAPACITY>::new::<Q, E>(expr, device, marked)?;
    let body = expr.body();
    // SAFETY: (1) an expression visits its leaves in the order of its body's loads, with their types; (2) a
    // new tensor with the sizes of the remaining axes.
    reduction.eval(&mut |args| unsafe { launch_reduction(device, &body, reducer, args) })
}

/// As [`reduce`], with axes of size 1 in place of the reduced ones.
pub(crate) fn reduce_keepdims<Q, const RANK: usize, D: Device, E>(
    reducer: Q,
    expr: &E,
    device: &D,
    axes: MarkedAxes<RANK>,
) -> Result<Tensor<Q::Out, RANK, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            reduce_keepdims_leaves::<Q, RANK, D, E, CONTIGUOUS_OPERANDS>
        } else {
            reduce_keepdims_leaves::<Q, RANK, D, E, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, axes)
}

fn reduce_keepdims_leaves<Q, const RANK: usize, D: Device, E, const CAPACITY: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    axes: MarkedAxes<RANK>,
) -> Result<Tensor<Q::Out, RANK, D>>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let marked = axes.found(Q::NAME, || joint(expr))?;
    let reduction = LeafReduction::<RANK, D, CAPACITY>::new::<Q, E>(expr, device, marked)?;
    let body = expr.body();
    // SAFETY: as in `reduce_leaves`; a new tensor with one element for each row.
    reduction.eval_kept(&mut |args| unsafe { launch_reduction(device, &body, reducer, args) })
}

/// As [`reduce`], for any destination.
pub(crate) fn reduce_at<Q, const RANK: usize, const M: usize, D: Device, E, P: Destination<Q::Out, M, D>>(
    reducer: Q,
    expr: &E,
    device: &D,
    marked: [bool; RANK],
    destination: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduce: fn(_, _, _, _, _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            reduce_at_leaves::<Q, RANK, M, D, E, P, CONTIGUOUS_OPERANDS>
        } else {
            reduce_at_leaves::<Q, RANK, M, D, E, P, MAX_OPERANDS>
        }
    };
    reduce(reducer, expr, device, marked, destination)
}

fn reduce_at_leaves<
    Q,
    const RANK: usize,
    const M: usize,
    D: Device,
    E,
    P: Destination<Q::Out, M, D>,
    const CAPACITY: usize,
>(
    reducer: Q,
    expr: &E,
    device: &D,
    marked: [bool; RANK],
    destination: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let reduction = LeafReduction::<RANK, D, CAPACITY>::new::<Q, E>(expr, device, marked)?;
    let body = expr.body();
    destination.put(Q::NAME, Layout::row_major(reduction.kept_size()), device, |out| {
        // SAFETY: as in `reduce_leaves`; an exclusive view overlaps neither itself nor an operand.
        reduction
            .launch_strided(out.leaf(), &mut |args| unsafe { launch_reduction(device, &body, reducer, args) })
    })
}

/// The running accumulators of a reducer along `axis`, which exists, over the values of an expression, fused
/// into one pass.
pub(crate) fn scan<Q, const RANK: usize, D: Device, E, P: Destination<Q::Out, RANK, D>>(
    reducer: Q,
    expr: &E,
    device: &D,
    along: (usize, bool),
    destination: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let scan: fn(_, _, _, _, _) -> _ = const {
        if E::Body::LOADS <= CONTIGUOUS_OPERANDS {
            scan_leaves::<Q, RANK, D, E, P, CONTIGUOUS_OPERANDS>
        } else {
            scan_leaves::<Q, RANK, D, E, P, MAX_OPERANDS>
        }
    };
    scan(reducer, expr, device, along, destination)
}

fn scan_leaves<Q, const RANK: usize, D: Device, E, P: Destination<Q::Out, RANK, D>, const CAPACITY: usize>(
    reducer: Q,
    expr: &E,
    device: &D,
    (axis, exclusive): (usize, bool),
    destination: P,
) -> Result<P::Done>
where
    E: Expr<RANK, D>,
    Q: Reducer<<E::Body as Body>::Out>,
{
    let op = Q::NAME;
    if E::Body::BY_ROWS {
        // A reduction along a row needs the whole row, therefore the expression is evaluated first.
        return scan(reducer, &eval(op, expr, device)?.view(), device, (axis, exclusive), destination);
    }
    let mut list = leaves_of::<RANK, D, E, CAPACITY>(op, expr, device);
    let size = list.size()?;
    let body = expr.body();
    destination.put(op, list.output_layout(size), device, |out| {
        let leaf = out.leaf();
        let mut marked = [false; RANK];
        marked[axis] = true;
        let order = Some(marked_last(marked));
        let stride = reordered(leaf.layout().stride().0, order);
        list.launch_strided(size, order, 1, &[leaf.slot(&stride)], &mut |args| {
            let (lines, along) = args.sizes.split_at(RANK - 1);
            let plan = ScanPlan { lines, along: along[0], exclusive };
            // SAFETY: as in `eval_into`; the strides are in the order of the plan.
            unsafe { device.scan(&body, reducer, plan, args.outputs[0], args.inputs) }
        })
    })
}
