//! Forward mode of reductions and scans: the tangent of a reduction is the sum of the slopes of its reducer
//! times the tangents of its values.
// Imports: `error`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{Loads, depends, sum_over_masks, with_mask};
use super::programs::{JvpBody, JvpReduce, TangentSum, others_of};
use super::state::Write;
use crate::autograd::backward::{Backward, distinct};
use crate::autograd::device::no_slope;
use crate::autograd::facts::{facts_of, facts_of_reduction};
use crate::autograd::reduce::{Reduced, extra_of};
use crate::autograd::state::OutputType;
use crate::autograd::vjp::ConstantsAsLoads;
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan, Slope, Store};
use std::marker::PhantomData;

/// Writes the tangents of a reduction over the last `row` axes to `to`. `result` is what was reduced, along all
/// axes.
pub(super) fn reduce_tangents<B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool>(
    pass: &Backward<D>,
    body: &B,
    (sizes, row): (&[usize], usize),
    loads: &Loads<'_>,
    result: OperandRef<'_>,
    to: OperandRef<'_>,
) -> Result<()> {
    let (kept, reduced) = sizes.split_at(sizes.len() - row);
    let axes = Reduction { kept, reduced };
    let count = reduced.iter().product::<usize>() as f64;
    let extra = extra_of(pass, &Reduced::<B, R, BY_NAME>::new(*body), (sizes, row), &loads.values, result)?;
    let extra = OperandRef { element: size_of::<B::Out>(), ..extra.slot(pass, sizes.len()) };
    let numbers = if matches!(R::SLOPE, Slope::Constant) { vec![] } else { vec![result, extra] };
    let zeros = pass.zeros(sizes.len());
    let masks = loads.masks(others_of(R::SLOPE))?;
    let outputs = [(to, R::Out::DTYPE)];
    sum_over_masks(&pass.inner, &masks, kept, &outputs, &mut |mask, to| {
        with_mask!(B::LOADS, others_of(R::SLOPE), false, mask, MASK => {
            let body = JvpReduce::<B, R, MASK> { body: *body, count, reducer: PhantomData };
            let mut slots = loads.slots(MASK, others_of(R::SLOPE), zeros);
            slots.extend(&numbers);
            let (slots, reads) = distinct(&slots)?;
            let inputs = Inputs { slots: &slots, reads: &reads };
            // SAFETY: (1) the operands of the body and their tangents, and two numbers for each result; (2) the
            // output is the tangent of the reduction's output, or new memory.
            unsafe {
                match BY_NAME {
                    true => pass.inner.reduce_by_name(&body, TangentSum, axes, to[0], inputs),
                    false => pass.inner.reduce(&body, TangentSum, axes, to[0], inputs),
                }
            }
        })
    })
}

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::reduce`].
    pub(super) unsafe fn reduce_with_tangents<B: Body, R: Reducer<B::Out>, const BY_NAME: bool>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of_reduction::<B, R>(body);
        let outputs = [(output, OutputType::Is(R::Out::DTYPE))];
        let operands =
            self.0.prepare(
                axes.kept,
                inputs.slots,
                &outputs,
                Write::Replaced,
                &mut |active| match depends(facts, inputs.reads, active) {
                    true if matches!(R::SLOPE, Slope::None) => Err(no_slope(R::NAME)),
                    flows => Ok(flows),
                },
            )?;
        let (inner, to) = (&self.0.inner, operands.outputs[0]);
        let inner_inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
        // SAFETY: (1) and (2) are the caller's promises; the operands are the same memory of the inner device.
        unsafe {
            match BY_NAME {
                true => inner.reduce_by_name(body, reducer, axes, to, inner_inputs)?,
                false => inner.reduce(body, reducer, axes, to, inner_inputs)?,
            }
        }
        let Some(tangent) = operands.output_tangents[0] else { return Ok(()) };
        if const { matches!(R::SLOPE, Slope::None) } {
            return Ok(());
        }
        let sizes = [axes.kept, axes.reduced].concat();
        let mut stride = to.stride[..axes.kept.len()].to_vec();
        stride.resize(sizes.len(), 0);
        let result = OperandRef { stride: &stride, ..to };
        let loads = Loads::new(&operands, inputs.reads, facts);
        let sizes = (&sizes[..], axes.reduced.len());
        reduce_tangents::<B, R, D, BY_NAME>(self.0.pass()?, body, sizes, &loads, result, tangent)
    }

    /// # Safety
    /// As [`Device::scan`].
    pub(super) unsafe fn scan_with_tangents<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of(&Store(ConstantsAsLoads(*body)));
        let sizes = [plan.lines, &[plan.along]].concat();
        let outputs = [(output, OutputType::Is(R::Out::DTYPE))];
        let operands =
            self.0.prepare(&sizes, inputs.slots, &outputs, Write::Replaced, &mut |active| match depends(
                facts,
                inputs.reads,
                active,
            ) {
                true if !matches!(R::SLOPE, Slope::Constant) => Err(no_slope(R::NAME)),
                flows => Ok(flows),
            })?;
        let (inner, to) = (&self.0.inner, operands.outputs[0]);
        let inner_inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
        // SAFETY: the caller's promise; the operands are the same memory of the inner device.
        unsafe { inner.scan(body, reducer, plan, to, inner_inputs)? };
        let Some(tangent) = operands.output_tangents[0] else { return Ok(()) };
        if const { !matches!(R::SLOPE, Slope::Constant) } {
            return Ok(());
        }
        // A sum is linear: the tangents have the same sums.
        let loads = Loads::new(&operands, inputs.reads, facts);
        let zeros = self.0.pass()?.zeros(sizes.len());
        let masks = loads.masks(1)?;
        let outputs = [(tangent, R::Out::DTYPE)];
        sum_over_masks(inner, &masks, &sizes, &outputs, &mut |mask, to| {
            with_mask!(B::LOADS, 1, false, mask, MASK => {
                let body = JvpBody::<B, MASK>(*body);
                let (slots, reads) = distinct(&loads.slots(MASK, 1, zeros))?;
                let inputs = Inputs { slots: &slots, reads: &reads };
                // SAFETY: (1) the operands of the body and their tangents; (2) the output is the tangent of the
                // scan's output, or new memory.
                unsafe { inner.scan(&body, reducer, plan, to[0], inputs) }
            })
        })
    }
}
