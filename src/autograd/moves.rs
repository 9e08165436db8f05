//! The backward functions of the mechanisms that move elements: copy, gather, compact, sort.
// Imports: `error`, `dtype`, `kernel`, `device`.

use super::backward::{Backward, Temporary};
use super::small_vec::SmallVec;
use super::state::{
    BackwardFn, BackwardOperands, Begun, BlockView, OutputType, Step, TapeState, has_gradient,
};
use crate::device::{Init, OperandRef};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::{GatherPlan, IndexKind, IndexedAxes, SortPlan};

/// The values that a [`GatherPlan`] has besides its sizes.
pub(super) struct Addressing {
    op: &'static str,
    own: usize,
    step: isize,
    bound: usize,
    kind: IndexKind,
    indexed: SmallVec<usize>,
}

impl Addressing {
    pub(super) fn of(plan: GatherPlan<'_>) -> Self {
        let GatherPlan { op, own, step, bound, of, .. } = plan;
        Addressing { op, own, step, bound, kind: of.kind, indexed: SmallVec::new(of.sizes) }
    }
    pub(super) fn plan<'a>(&'a self, sizes: &'a [usize]) -> GatherPlan<'a> {
        let of = IndexedAxes { kind: self.kind, sizes: &self.indexed };
        GatherPlan { op: self.op, sizes, own: self.own, step: self.step, bound: self.bound, of }
    }
}

/// A plan with indices that this crate made itself: positions of lines with `line[0]` elements.
pub(super) fn own_indices<'a>(
    op: &'static str,
    sizes: &'a [usize],
    step: isize,
    line: &'a [usize; 1],
) -> GatherPlan<'a> {
    let of = IndexedAxes { kind: IndexKind::Element, sizes: line };
    GatherPlan { op, sizes, own: 0, step, bound: line[0], of }
}

/// Runs a kernel on operands of the inner device.
pub(super) type Sort<'a> =
    dyn Fn(Option<OperandRef<'_>>, Option<OperandRef<'_>>, OperandRef<'_>) -> Result<()> + 'a;

impl TapeState {
    /// # Safety
    /// As [`Device::copy`](crate::Device::copy).
    pub(super) unsafe fn copy(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let begun = self.begin("copy", sizes, &[from], &outputs, &mut |active| {
            Ok(BackwardOperands { to: SmallVec::new(active), reads: 0, ..BackwardOperands::default() })
        })?;
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { self.inner.copy(sizes, begun.outputs[0], begun.inputs[0])? };
        if !begun.is_recorded {
            self.end_unrecorded(begun.step);
            return Ok(());
        }
        let run: BackwardFn = Box::new(|b, step| {
            // The gradient goes back to the elements that were copied.
            match (&step.inputs[0].view, b.gradient(&step.outputs[0].view)) {
                (Some(view), Some(gradient)) => b.add_values(view, &step.sizes, gradient),
                _ => Ok(()),
            }
        });
        self.end(begun.step, &[to], run);
        Ok(())
    }

    /// # Safety
    /// As [`Device::gather`](crate::Device::gather).
    pub(super) unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let begun = self.begin(plan.op, plan.sizes, &[cells, index], &outputs, &mut |active| {
            Ok(BackwardOperands {
                to: SmallVec::new(&[active[0], None]),
                reads: 0b10,
                ..BackwardOperands::default()
            })
        })?;
        let Begun { inputs, outputs, step, is_recorded, .. } = begun;
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { self.inner.gather(plan, outputs[0], inputs[0], inputs[1])? };
        if !is_recorded {
            self.end_unrecorded(step);
            return Ok(());
        }
        let addressing = Addressing::of(plan);
        let run: BackwardFn = Box::new(move |b, step| {
            let (cells, index) = (&step.inputs[0].view, &step.inputs[1].saved);
            match (cells, index, b.gradient(&step.outputs[0].view)) {
                (Some(cells), Some(index), Some(gradient)) => {
                    scatter_add(b, addressing.plan(&step.sizes), cells, gradient, index.slot())
                }
                _ => Ok(()),
            }
        });
        self.end(step, &[to], run);
        Ok(())
    }

    /// # Safety
    /// As [`Device::compact`](crate::Device::compact).
    pub(super) unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let begun = self.begin("compact", &[count], &[from, mask], &outputs, &mut |active| {
            Ok(BackwardOperands {
                to: SmallVec::new(&[active[0], None]),
                reads: 0b10,
                ..BackwardOperands::default()
            })
        })?;
        let Begun { inputs, outputs, step, is_recorded, .. } = begun;
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { self.inner.compact(sizes, count, outputs[0], inputs[0], inputs[1])? };
        if !is_recorded {
            self.end_unrecorded(step);
            return Ok(());
        }
        let sizes = SmallVec::new(sizes);
        let run: BackwardFn = Box::new(move |b, step| compact_backward(b, step, &sizes, count));
        self.end(step, &[to], run);
        Ok(())
    }

    /// Runs `run` on the values, the positions and the input of the inner device.
    pub(super) fn sort(
        &self,
        dtype: DType,
        run: &Sort<'_>,
        plan: SortPlan<'_>,
        (values, positions): (Option<OperandRef<'_>>, Option<OperandRef<'_>>),
        from: OperandRef<'_>,
    ) -> Result<()> {
        let sizes = [plan.lines, &[plan.keep]].concat();
        let mut operands = Vec::new();
        operands.extend(values.map(|slot| (slot, OutputType::Is(dtype))));
        operands.extend(positions.map(|slot| (slot, OutputType::Is(DType::I64))));
        let is_smooth = has_gradient(dtype) && values.is_some();
        let begun = self.begin("sort", &sizes, &[from], &operands, &mut |active| {
            Ok(BackwardOperands {
                to: SmallVec::new(&[active[0].filter(|_| is_smooth)]),
                reads: 0,
                ..BackwardOperands::default()
            })
        })?;
        let Begun { inputs, outputs, mut step, is_recorded, .. } = begun;
        let mut outputs = outputs.iter().copied();
        let inner_values = values.and_then(|_| outputs.next());
        let inner_positions = positions.and_then(|_| outputs.next());
        // The backward pass needs the positions, also where the caller does not.
        let buffer = match inner_positions {
            None if is_recorded => Some(Temporary::new(&*self.inner, &sizes, size_of::<i64>())?),
            _ => None,
        };
        run(inner_values, inner_positions.or(buffer.as_ref().map(Temporary::slot)), inputs[0])?;
        if !is_recorded {
            self.end_unrecorded(step);
            return Ok(());
        }
        step.result = positions.and_then(|slot| self.lock().save(&slot));
        let addresses: Vec<OperandRef<'_>> = operands.iter().map(|(slot, _)| *slot).collect();
        let line = [plan.along];
        let run: BackwardFn = Box::new(move |b, step| {
            let Some(view) = &step.inputs[0].view else { return Ok(()) };
            let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
            let saved = step.result.as_ref().map(|saved| saved.slot());
            let Some(positions) = buffer.as_ref().map(Temporary::slot).or(saved) else { return Ok(()) };
            let last = step.sizes.len() - 1;
            let mut stride = view.stride.to_vec();
            let step_along = std::mem::replace(&mut stride[last], 0);
            let cells = BlockView { stride: SmallVec::new(&stride), ..view.clone() };
            let plan = own_indices("sort", &step.sizes, step_along, &line);
            scatter_add(b, plan, &cells, gradient, positions)
        });
        self.end(step, &addresses, run);
        Ok(())
    }
}

/// Adds gradients to the cells from which elements came.
fn scatter_add(
    b: &mut Backward,
    plan: GatherPlan<'_>,
    cells: &BlockView,
    gradient: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    b.ensure_gradient(cells)?;
    let Some(to) = b.gradient(cells) else { return Ok(()) };
    // SAFETY: (1) the gradient of the cells has their layout; (2) the indices are those of the forward pass;
    // (3) gradients and indices are different memory; (4) the pass owns its gradients.
    unsafe { b.inner.scatter_add(cells.dtype, plan, to, gradient, index) }
}

/// The backward function of a compaction: the numbers of the elements that were kept, and a sum of the
/// gradients by number.
fn compact_backward(b: &mut Backward, step: &Step, sizes: &[usize], count: usize) -> Result<()> {
    let (Some(view), Some(mask)) = (&step.inputs[0].view, &step.inputs[1].saved) else { return Ok(()) };
    let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
    let numel: usize = sizes.iter().product();
    let numbers = b.positions(sizes)?;
    let kept = Temporary::new(&*b.inner, &[count], size_of::<i64>())?;
    let all = Temporary::with_content(&*b.inner, sizes, gradient.element, Init::Zeroed)?;
    // SAFETY: (1) new memory for the numbers, which no other code uses; (2) the mask of the forward pass is
    // true `count` times.
    unsafe { b.inner.compact(sizes, count, kept.slot(), numbers.slot(), mask.slot())? };
    let (kept_size, line) = ([count], [numel]);
    let plan = own_indices("compact", &kept_size, 1, &line);
    let cells = OperandRef { stride: &[0], ..all.slot() };
    // SAFETY: (1) and (2) the numbers lie inside the new memory; (3) and (4) which no other code uses.
    unsafe { b.inner.scatter_add(view.dtype, plan, cells, gradient, kept.slot())? };
    b.add_values(view, sizes, all.slot())
}
