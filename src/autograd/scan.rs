//! The rule of scans.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `ops`, `autograd`.

use super::backward::{Buffer, Target, VjpOf, with_element};
use super::device::{flow_of, no_slope, saved_slots, variables};
use super::facts::facts_of;
use super::state::{Begun, OutputType};
use super::tape::Tape;
use super::vjp::ConstantsAsLoads;
use crate::device::{Device, Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Input, Reducer, ScanPlan, Slope, Store};
use crate::ops::CumSum;
use std::marker::PhantomData;

/// Runs a scan and records it.
///
/// # Safety
/// As [`Device::scan`].
pub(super) unsafe fn record<B: Body, R: Reducer<B::Out>, D: Device>(
    tape: &Tape<D>,
    body: &B,
    reducer: R,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let program = Store(ConstantsAsLoads(*body));
    let facts = facts_of(&program);
    let sizes = [plan.lines, &[plan.along]].concat();
    let outputs = [(output, OutputType::Is(R::Out::DTYPE))];
    let begun = tape.begin(R::NAME, &sizes, inputs.slots, &outputs, &mut |active| {
        let flow = flow_of(facts, inputs.reads, active);
        if !matches!(R::SLOPE, Slope::Constant) && flow.to.iter().any(Option::is_some) {
            return Err(no_slope(R::NAME));
        }
        Ok(flow)
    })?;
    let Begun { inputs: slots, outputs: to, step, is_recorded } = begun;
    let inner_inputs = Inputs { slots: &slots, reads: inputs.reads };
    // SAFETY: the caller's promise, on the same memory of the inner device.
    unsafe { tape.0.inner.scan(body, reducer, plan, to[0], inner_inputs)? };
    let exclusive = plan.exclusive;
    tape.end(step, is_recorded, &[output], || {
        let reads = inputs.reads.to_vec();
        Box::new(move |b, step| {
            // A value contributes to all later sums: a scan in the reverse order.
            let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
            let last = step.sizes.len() - 1;
            let along = step.sizes[last];
            let sums = Buffer::<D>::new(&b.inner, &step.sizes, gradient.element)?;
            let (from_stride, to_stride) = (reversed(gradient, last), reversed(sums.slot(), last));
            let from = at_end(gradient, along, &from_stride);
            let to = at_end(sums.slot(), along, &to_stride);
            let plan = ScanPlan { lines: &step.sizes[..last], along, exclusive };
            let inputs = Inputs { slots: &[from], reads: &[0] };
            // SAFETY: (1) both operands begin at their last element along the axis, with its stride reversed;
            // (2) the output is new memory.
            with_element!(step.outputs[0].spot.dtype, T => unsafe {
                b.inner.scan(&Input::<T>(PhantomData), CumSum, plan, to, inputs)
            })?;
            let operands = saved_slots(b, step);
            let mut slots: Vec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
            slots.push(sums.slot());
            for (operand, ks) in variables(&reads, 0..reads.len(), step, facts) {
                if let Some(spot) = &step.inputs[operand].spot {
                    let program = VjpOf::<_, false>(program);
                    b.vjp(&program, facts, &ks, (&step.sizes, 0), &slots, Target::Spot(spot))?;
                }
            }
            Ok(())
        })
    });
    Ok(())
}

/// The strides with the one of `axis` reversed.
fn reversed(slot: OperandRef<'_>, axis: usize) -> Vec<isize> {
    let mut stride = slot.stride.to_vec();
    stride[axis] = -stride[axis];
    stride
}

/// The operand from its last element along the last axis, of `along` elements, with reversed strides.
fn at_end<'a>(slot: OperandRef<'_>, along: usize, reversed: &'a [isize]) -> OperandRef<'a> {
    let bytes = reversed[reversed.len() - 1] * (1 - along as isize) * slot.element as isize;
    OperandRef { address: slot.address.wrapping_offset(bytes), stride: reversed, element: slot.element }
}
