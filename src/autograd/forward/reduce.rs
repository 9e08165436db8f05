//! Forward mode of reductions: the tangent of a reduction is the sum of the slopes of its reducer times the
//! tangents of its values.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{LoadOperands, depends, run_each_mask, with_mask};
use super::programs::{JvpReduce, TangentSum, others_of};
use super::state::{JvpState, TangentOperands, WriteKind};
use crate::autograd::backward::Backward;
use crate::autograd::backward::no_slope;
use crate::autograd::facts::{Facts, facts_of_reduction};
use crate::autograd::reduce::{ReduceBackward as _, ReducedBody};
use crate::autograd::state::OutputType;
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, Slope};
use std::marker::PhantomData;

/// The kernels of a reduced body and its reducer, on a device.
pub(super) struct ReduceKernels<'a, B, R, D, const BY_NAME: bool> {
    body: &'a B,
    device: &'a D,
    reducer: PhantomData<R>,
}

impl<'a, B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool> ReduceKernels<'a, B, R, D, BY_NAME> {
    pub(super) fn new(body: &'a B, device: &'a D) -> Self {
        ReduceKernels { body, device, reducer: PhantomData }
    }

    /// Writes the tangents of the reduction over the last `row` axes to `to`. `result` is what was reduced,
    /// along all axes.
    pub(super) fn tangents(
        &self,
        pass: &Backward,
        (sizes, row): (&[usize], usize),
        loads: &LoadOperands<'_>,
        result: OperandRef<'_>,
        to: OperandRef<'_>,
    ) -> Result<()> {
        let kept = sizes.len() - row;
        let count = sizes[kept..].iter().product::<usize>() as f64;
        let reduced = ReducedBody::<B, R, D, BY_NAME>::new(*self.body, self.device.clone());
        let extra = reduced.extra(pass, (sizes, row), &loads.values, result)?;
        let zeros = pass.zeros(sizes.len(), size_of::<B::Out>());
        let numbers = [result, extra.as_ref().map_or(zeros, |extra| extra.slot())];
        let numbers = if matches!(R::SLOPE, Slope::Constant) { &[] } else { &numbers[..] };
        let kernel = |mask: u64, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            let axes = Reduction { kept: &sizes[..kept], reduced: &sizes[kept..] };
            with_mask!(B::LOADS, others_of(R::SLOPE), false, mask, MASK => {
                let body = JvpReduce::<B, R, MASK> { body: *self.body, count, reducer: PhantomData };
                // SAFETY: (1) the operands of the body and their tangents, and two numbers for each result;
                // (2) the output is the tangent of the reduction's output, or new memory.
                unsafe {
                    match BY_NAME {
                        true => self.device.reduce_by_name(&body, TangentSum, axes, to[0], inputs),
                        false => self.device.reduce(&body, TangentSum, axes, to[0], inputs),
                    }
                }
            })
        };
        let outputs = [(to, R::Out::DTYPE)];
        run_each_mask(pass, &kernel, loads, numbers, (sizes, &sizes[..kept]), &outputs)
    }
}

impl JvpState {
    fn prepare_reduce<'a>(
        &'a self,
        (op, dtype): (&'static str, DType),
        has_slope: bool,
        facts: &Facts,
        sizes: &[usize],
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<TangentOperands<'a>> {
        let outputs = [(output, OutputType::Is(dtype))];
        self.prepare(sizes, inputs.slots, &outputs, WriteKind::Replaced, &mut |active| match depends(
            facts,
            inputs.reads,
            active,
        ) {
            true if !has_slope => Err(no_slope(op)),
            flows => Ok(flows),
        })
    }
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
        let (facts, shared) = (facts_of_reduction::<B, R>(body), &*self.shared);
        let has_slope = !matches!(R::SLOPE, Slope::None);
        let named = (R::NAME, R::Out::DTYPE);
        let operands = shared.prepare_reduce(named, has_slope, facts, axes.kept, output, inputs)?;
        let to = operands.outputs[0];
        let inner_inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
        // SAFETY: (1) and (2) are the caller's promises; the operands are the same memory of the inner
        // device.
        unsafe {
            match BY_NAME {
                true => self.device.reduce_by_name(body, reducer, axes, to, inner_inputs)?,
                false => self.device.reduce(body, reducer, axes, to, inner_inputs)?,
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
        let loads = LoadOperands::new(&operands, inputs.reads, facts);
        let kernels = ReduceKernels::<B, R, D, BY_NAME>::new(body, &self.device);
        kernels.tangents(shared.pass()?, (&sizes, axes.reduced.len()), &loads, result, tangent)
    }
}
