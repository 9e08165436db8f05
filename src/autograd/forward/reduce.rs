//! Forward mode of reductions and scans: the tangent of a reduction is the sum of the slopes of its reducer
//! times the tangents of its values. Without slopes, the reducer runs on dual numbers.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`.

use super::dual_reducer::{DualReducer, Narrow, Pair, PairBody, runs_on_duals};
use super::jvp::Jvp;
use super::loads::{Kernel, Loads, depends, run_each_mask, with_mask};
use super::programs::{JvpBody, JvpReduce, TangentSum, others_of};
use super::state::{Operands, Shared, Write};
use crate::autograd::backward::{Backward, Buffer};
use crate::autograd::facts::{Facts, facts_of, facts_of_reduction};
use crate::autograd::record::no_slope;
use crate::autograd::reduce::{ReduceRule as _, Reduced};
use crate::autograd::state::OutputType;
use crate::autograd::vjp::ConstantsAsLoads;
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan, Slope, Store};
use std::marker::PhantomData;

/// The kernels of a reduced body and its reducer, on a device.
pub(super) struct ReduceKernels<'a, B, R, D, const BY_NAME: bool> {
    body: &'a B,
    device: &'a D,
    reducer: PhantomData<R>,
}

impl<'a, B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool> ReduceKernels<'a, B, R, D, BY_NAME> {
    /// Whether the reducer states no slope and runs on dual numbers.
    const ON_DUALS: bool =
        matches!(R::SLOPE, Slope::None) && runs_on_duals(<B::Out as Element>::DTYPE, R::Out::DTYPE);
    /// Whether a result has a tangent.
    pub(super) const HAS_TANGENT: bool = !matches!(R::SLOPE, Slope::None) || Self::ON_DUALS;

    pub(super) fn new(body: &'a B, device: &'a D) -> Self {
        ReduceKernels { body, device, reducer: PhantomData }
    }

    fn tangents_on_duals(
        &self,
        pass: &Backward,
        sizes: &[usize],
        kept: usize,
        loads: &Loads<'_>,
        to: OperandRef<'_>,
    ) -> Result<()> {
        let kernel = |mask: u64, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            let axes = Reduction { kept: &sizes[..kept], reduced: &sizes[kept..] };
            with_mask!(B::LOADS, 1, false, mask, MASK => {
                let (body, reducer) = (PairBody::<B, MASK>(*self.body), DualReducer::<R, B::Out>::new());
                // SAFETY: (1) the operands of the body and their tangents; (2) the output is new memory.
                unsafe { self.device.reduce(&body, reducer, axes, to[0], inputs) }
            })
        };
        store_tangents::<R::Out, D>(pass, self.device, &kernel, loads, (sizes, &sizes[..kept]), to)
    }

    /// Writes the tangents of the reduction over the last `row` axes to `to`. `result` is what was reduced,
    /// along all axes.
    pub(super) fn tangents(
        &self,
        pass: &Backward,
        (sizes, row): (&[usize], usize),
        loads: &Loads<'_>,
        result: OperandRef<'_>,
        to: OperandRef<'_>,
    ) -> Result<()> {
        let kept = sizes.len() - row;
        if const { Self::ON_DUALS } {
            return self.tangents_on_duals(pass, sizes, kept, loads, to);
        }
        let count = sizes[kept..].iter().product::<usize>() as f64;
        let reduced = Reduced::<B, R, D, BY_NAME>::new(*self.body, self.device.clone());
        let extra = reduced.extra(pass, (sizes, row), &loads.values, result)?;
        let zeros = OperandRef { element: size_of::<B::Out>(), ..pass.zeros(sizes.len()) };
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

/// Runs a kernel that writes pairs, and stores the tangents of them to `to`, of the sizes `written`.
fn store_tangents<T: Element, D: Device>(
    pass: &Backward,
    device: &D,
    kernel: &Kernel<'_>,
    loads: &Loads<'_>,
    (sizes, written): (&[usize], &[usize]),
    to: OperandRef<'_>,
) -> Result<()> {
    let pairs = Buffer::new(&*pass.inner, written, size_of::<Pair>())?;
    let outputs = [(pairs.slot(), Pair::DTYPE)];
    run_each_mask(pass, kernel, loads, &[], (sizes, written), &outputs)?;
    // The tangents are the second half of each pair.
    let (slot, element) = (pairs.slot(), size_of::<f64>());
    let stride: Vec<isize> = slot.stride.iter().map(|stride| stride * 2).collect();
    let from = OperandRef { address: slot.address.wrapping_add(element), stride: &stride, element };
    let inputs = Inputs { slots: &[from], reads: &[0] };
    // SAFETY: (1) the parts of numbers in new memory, and an output of these sizes; (2) and (3) the output of a
    // kernel overlaps neither itself nor new memory; (4) the caller of the kernel has the only access to it.
    unsafe { device.map_apart(&Narrow::<T>::new(), written, 0, &[to], inputs) }
}

impl Shared {
    /// Prepares a reduction or a scan, which is refused if an operand has a tangent and the result has none.
    fn prepare_one<'a>(
        &self,
        (op, dtype): (&'static str, DType),
        has_tangent: bool,
        facts: &Facts,
        sizes: &[usize],
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<Operands<'a>> {
        let outputs = [(output, OutputType::Is(dtype))];
        self.prepare(sizes, inputs.slots, &outputs, Write::Replaced, &mut |active| match depends(
            facts,
            inputs.reads,
            active,
        ) {
            true if !has_tangent => Err(no_slope(op)),
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
        let has_tangent = ReduceKernels::<B, R, D, BY_NAME>::HAS_TANGENT;
        let named = (R::NAME, R::Out::DTYPE);
        let operands = shared.prepare_one(named, has_tangent, facts, axes.kept, output, inputs)?;
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
        if const { !ReduceKernels::<B, R, D, BY_NAME>::HAS_TANGENT } {
            return Ok(());
        }
        let sizes = [axes.kept, axes.reduced].concat();
        let mut stride = to.stride[..axes.kept.len()].to_vec();
        stride.resize(sizes.len(), 0);
        let result = OperandRef { stride: &stride, ..to };
        let loads = Loads::new(&operands, inputs.reads, facts);
        let kernels = ReduceKernels::<B, R, D, BY_NAME>::new(body, &self.device);
        kernels.tangents(shared.pass()?, (&sizes, axes.reduced.len()), &loads, result, tangent)
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
        let (facts, shared) = (facts_of(&Store(ConstantsAsLoads(*body))), &*self.shared);
        let is_sum = matches!(R::SLOPE, Slope::Constant);
        let has_tangent = is_sum || runs_on_duals(<B::Out as Element>::DTYPE, R::Out::DTYPE);
        let sizes = [plan.lines, &[plan.along]].concat();
        let named = (R::NAME, R::Out::DTYPE);
        let operands = shared.prepare_one(named, has_tangent, facts, &sizes, output, inputs)?;
        let inner_inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
        // SAFETY: the caller's promise; the operands are the same memory of the inner device.
        unsafe { self.device.scan(body, reducer, plan, operands.outputs[0], inner_inputs)? };
        let Some(tangent) = operands.output_tangents[0] else { return Ok(()) };
        let (pass, loads) = (shared.pass()?, Loads::new(&operands, inputs.reads, facts));
        if const { !matches!(R::SLOPE, Slope::Constant) } {
            let kernel = |mask: u64, _: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
                with_mask!(B::LOADS, 1, false, mask, MASK => {
                    let (body, reducer) = (PairBody::<B, MASK>(*body), DualReducer::<R, B::Out>::new());
                    // SAFETY: (1) the operands of the body and their tangents; (2) the output is new memory.
                    unsafe { self.device.scan(&body, reducer, plan, to[0], inputs) }
                })
            };
            return store_tangents::<R::Out, D>(
                pass,
                &self.device,
                &kernel,
                &loads,
                (&sizes, &sizes),
                tangent,
            );
        }
        // A sum is linear: the tangents have the same sums.
        let kernel = |mask: u64, _: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            with_mask!(B::LOADS, 1, false, mask, MASK => {
                let body = JvpBody::<B, MASK>(*body);
                // SAFETY: (1) the operands of the body and their tangents; (2) the output is the tangent of
                // the scan's output, or new memory.
                unsafe { self.device.scan(&body, reducer, plan, to[0], inputs) }
            })
        };
        let outputs = [(tangent, R::Out::DTYPE)];
        run_each_mask(pass, &kernel, &loads, &[], (&sizes, &sizes), &outputs)
    }
}
