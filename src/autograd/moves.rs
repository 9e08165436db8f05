//! The rules of the mechanisms that move elements: copy, gather, scatter, compact, sort.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `allocation`, `ops`, `autograd`.

use super::backward::{Backward, Buffer, with_element};
use super::state::{Before, Begun, Flow, OutputType, Spot, Step, has_gradient};
use super::tape::Tape;
use crate::device::{Device, Init, OperandRef};
use crate::dtype::DType;
use crate::element::{Comparable, Element};
use crate::error::{Error, Result, text};
use crate::kernel::{GatherPlan, Op, SortPlan};
use crate::ops::{Add, Replace};
use std::any::TypeId;

/// The rule of a copy: the gradient goes back to the elements that were copied.
pub(super) fn copy_backward<D: Device>(b: &mut Backward<D>, step: &Step<D>) -> Result<()> {
    let (Some(spot), Some(gradient)) = (&step.inputs[0].spot, b.gradient(&step.outputs[0].spot)) else {
        return Ok(());
    };
    b.add_values(spot, &step.sizes, gradient)
}

/// The values that a [`GatherPlan`] has besides its sizes.
#[derive(Clone, Copy)]
struct Addressing {
    op: &'static str,
    own: usize,
    step: isize,
    bound: usize,
}

impl Addressing {
    fn of(plan: GatherPlan<'_>) -> Self {
        Addressing { op: plan.op, own: plan.own, step: plan.step, bound: plan.bound }
    }
    fn plan(self, sizes: &[usize]) -> GatherPlan<'_> {
        GatherPlan { op: self.op, sizes, own: self.own, step: self.step, bound: self.bound }
    }
}

/// Adds gradients to the cells from which elements came.
fn scatter_add<D: Device>(
    b: &mut Backward<D>,
    plan: GatherPlan<'_>,
    cells: &Spot,
    gradient: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    b.ensure_gradient(cells)?;
    let Some(to) = b.gradient(cells) else { return Ok(()) };
    // SAFETY: (1) the gradient of the cells has their layout; (2) the indices were checked in the forward
    // pass; (3) gradients and indices are different memory; (4) the pass owns its gradients.
    with_element!(cells.dtype, T => unsafe { b.inner.scatter::<T, Add>(Add, plan, to, gradient, index) })
}

/// # Safety
/// As [`Device::gather`].
pub(super) unsafe fn gather<D: Device>(
    tape: &Tape<D>,
    plan: GatherPlan<'_>,
    to: OperandRef<'_>,
    cells: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    let outputs = [(to, OutputType::OfFirstOperand)];
    let begun = tape.begin(plan.op, plan.sizes, &[cells, index], &outputs, &mut |active| {
        Ok(Flow { to: vec![active[0], None], reads: 0b10 })
    })?;
    let Begun { inputs, outputs, step, is_recorded } = begun;
    // SAFETY: the caller's promise, on the same memory of the inner device.
    unsafe { tape.0.inner.gather(plan, outputs[0], inputs[0], inputs[1])? };
    let addressing = Addressing::of(plan);
    tape.end(step, is_recorded, &[to], || {
        Box::new(move |b, step| {
            let (cells, index) = (&step.inputs[0].spot, &step.inputs[1].saved);
            match (cells, index, b.gradient(&step.outputs[0].spot)) {
                (Some(cells), Some(index), Some(gradient)) => {
                    scatter_add(b, addressing.plan(&step.sizes), cells, gradient, index.slot())
                }
                _ => Ok(()),
            }
        })
    });
    Ok(())
}

/// # Safety
/// As [`Device::scatter`].
pub(super) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>, D: Device>(
    tape: &Tape<D>,
    operator: F,
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    from: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    let (is_sum, replaces) =
        (TypeId::of::<F>() == TypeId::of::<Add>(), TypeId::of::<F>() == TypeId::of::<Replace>());
    let is_smooth = has_gradient(T::DTYPE);
    let outputs = [(cells, OutputType::Is(T::DTYPE))];
    let begun = tape.begin(plan.op, plan.sizes, &[from, index, cells], &outputs, &mut |active| {
        let to = |active: Option<DType>| active.filter(|_| is_smooth);
        let flow = Flow { to: vec![to(active[0]), None, to(active[2])], reads: 0b10 };
        if !is_sum && !replaces && flow.to.iter().any(Option::is_some) {
            let what =
                text(format_args!("scatter with `{}` has no derivative; `Add` and `Replace` have", F::NAME));
            return Err(Error::Value { op: plan.op, what });
        }
        Ok(flow)
    })?;
    let Begun { inputs, outputs, mut step, is_recorded } = begun;
    // SAFETY: the caller's promise, on the same memory of the inner device.
    unsafe { tape.0.inner.scatter(operator, plan, outputs[0], inputs[0], inputs[1])? };
    let addressing = Addressing::of(plan);
    // The gradient of the cells goes on to their earlier values, except where these were replaced.
    step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
    tape.end(step, is_recorded, &[cells], || {
        Box::new(move |b, step| {
            let Some(index) = &step.inputs[1].saved else { return Ok(()) };
            let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
            let plan = addressing.plan(&step.sizes);
            if let Some(spot) = &step.inputs[0].spot {
                // SAFETY: (1) to (4): the operands of the forward pass, with the output in new memory.
                b.add(spot, &step.sizes, &mut |inner, to| unsafe {
                    inner.gather(plan, to, gradient, index.slot())
                })?;
            }
            if replaces {
                let zeros = OperandRef { element: gradient.element, ..b.zeros(step.sizes.len()) };
                // SAFETY: as above, with the gradient of the cells as the output.
                unsafe { b.inner.scatter::<T, Replace>(Replace, plan, gradient, zeros, index.slot())? };
            }
            Ok(())
        })
    });
    Ok(())
}

/// # Safety
/// As [`Device::compact`].
pub(super) unsafe fn compact<D: Device>(
    tape: &Tape<D>,
    sizes: &[usize],
    count: usize,
    to: OperandRef<'_>,
    from: OperandRef<'_>,
    mask: OperandRef<'_>,
) -> Result<()> {
    let outputs = [(to, OutputType::OfFirstOperand)];
    let begun = tape.begin("compact", &[count], &[from, mask], &outputs, &mut |active| {
        Ok(Flow { to: vec![active[0], None], reads: 0b10 })
    })?;
    let Begun { inputs, outputs, step, is_recorded } = begun;
    // SAFETY: the caller's promise, on the same memory of the inner device.
    unsafe { tape.0.inner.compact(sizes, count, outputs[0], inputs[0], inputs[1])? };
    tape.end(step, is_recorded, &[to], || {
        let sizes = sizes.to_vec();
        Box::new(move |b, step| compact_backward(b, step, &sizes, count))
    });
    Ok(())
}

/// The rule of a compaction: the numbers of the elements that were kept, and a sum of the gradients by number.
fn compact_backward<D: Device>(
    b: &mut Backward<D>,
    step: &Step<D>,
    sizes: &[usize],
    count: usize,
) -> Result<()> {
    let (Some(spot), Some(mask)) = (&step.inputs[0].spot, &step.inputs[1].saved) else { return Ok(()) };
    let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
    let numel: usize = sizes.iter().product();
    let numbers = Buffer::<D>::new(&b.inner, sizes, size_of::<i64>())?;
    let kept = Buffer::<D>::new(&b.inner, &[count], size_of::<i64>())?;
    let all = Buffer::<D>::with_content(&b.inner, sizes, gradient.element, Init::Zeroed)?;
    let values: Vec<i64> = (0..numel as i64).collect();
    // SAFETY: (1) new memory for the numbers, which no other code uses; (2) the mask of the forward pass is
    // true `count` times.
    unsafe {
        b.inner.write(numbers.slot().address, bytemuck::cast_slice(&values))?;
        b.inner.compact(sizes, count, kept.slot(), numbers.slot(), mask.slot())?;
    }
    let plan = GatherPlan { op: "compact", sizes: &[count], own: 0, step: 1, bound: numel };
    let cells = OperandRef { stride: &[0], ..all.slot() };
    // SAFETY: (1) and (2) the numbers lie inside the new memory; (3) and (4) which no other code uses.
    with_element!(spot.dtype, T => unsafe { b.inner.scatter::<T, Add>(Add, plan, cells, gradient, kept.slot()) })?;
    b.add_values(spot, sizes, all.slot())
}

/// # Safety
/// As [`Device::sort`].
pub(super) unsafe fn sort<T: Comparable, D: Device>(
    tape: &Tape<D>,
    plan: SortPlan<'_>,
    values: Option<OperandRef<'_>>,
    positions: Option<OperandRef<'_>>,
    from: OperandRef<'_>,
) -> Result<()> {
    let sizes = [plan.lines, &[plan.keep]].concat();
    let mut operands = Vec::new();
    operands.extend(values.map(|slot| (slot, OutputType::Is(T::DTYPE))));
    operands.extend(positions.map(|slot| (slot, OutputType::Is(DType::I64))));
    let is_smooth = has_gradient(T::DTYPE) && values.is_some();
    let begun = tape.begin("sort", &sizes, &[from], &operands, &mut |active| {
        Ok(Flow { to: vec![active[0].filter(|_| is_smooth)], reads: 0 })
    })?;
    let Begun { inputs, outputs, step, is_recorded } = begun;
    let mut outputs = outputs.into_iter();
    let inner_values = values.and_then(|_| outputs.next());
    let inner_positions = positions.and_then(|_| outputs.next());
    // The backward pass needs the positions, also where the caller does not.
    let buffer = match inner_positions {
        None if is_recorded => Some(Buffer::<D>::new(&tape.0.inner, &sizes, size_of::<i64>())?),
        _ => None,
    };
    let found = inner_positions.or(buffer.as_ref().map(Buffer::slot));
    // SAFETY: the caller's promise, on the same memory of the inner device; the buffer is new.
    unsafe { tape.0.inner.sort::<T>(plan, inner_values, found, inputs[0])? };
    let saved = match positions {
        Some(slot) if is_recorded => tape.0.lock().save(&slot),
        _ => None,
    };
    let addresses: Vec<OperandRef<'_>> = operands.iter().map(|(slot, _)| *slot).collect();
    let along = plan.along;
    tape.end(step, is_recorded, &addresses, || {
        Box::new(move |b, step| {
            let Some(spot) = &step.inputs[0].spot else { return Ok(()) };
            let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
            let saved = saved.as_ref().map(|saved| saved.slot());
            let positions = buffer.as_ref().map(Buffer::slot).or(saved).unwrap_or(b.zeros(step.sizes.len()));
            let last = step.sizes.len() - 1;
            let mut stride = spot.stride.to_vec();
            let step_along = std::mem::replace(&mut stride[last], 0);
            let cells = Spot { stride: super::axes::Axes::new(&stride), ..spot.clone() };
            let plan = GatherPlan { op: "sort", sizes: &step.sizes, own: 0, step: step_along, bound: along };
            scatter_add(b, plan, &cells, gradient, positions)
        })
    });
    Ok(())
}
