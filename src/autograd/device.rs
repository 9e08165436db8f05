//! The tape as a device: it runs every mechanism on the inner device, and records those of which an output
//! depends on a variable. There is one rule for each mechanism, and none for operators.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `allocation`, `ops`, `autograd`.

use super::backward::{Backward, Buffer, Target, VjpOf};
use super::contract;
use super::facts::{Facts, facts_of, facts_of_reduction};
use super::moves;
use super::reduce::{Reduced, extra_of};
use super::rows::{Part, Parts, rows_backward};
use super::state::{Before, Begun, Flow, Input, OutputType, Rule, Step, TapeBlock};
use super::tape::Tape;
use crate::allocation::Allocation;
use crate::device::{Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::dtype::DType;
use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result, text};
use crate::fallible_arc::FallibleArc;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, Slope, SortPlan};
use std::mem::MaybeUninit;

impl<D: Device> Tape<D> {
    /// See [`State::begin`](super::state::State::begin).
    pub(super) fn begin<'a>(
        &self,
        op: &'static str,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<Flow>,
    ) -> Result<Begun<'a, D>> {
        self.0.lock().begin(&self.0.inner, op, sizes, inputs, outputs, flow)
    }

    /// Records a step after its kernel has run, unless nothing has to be recorded.
    pub(super) fn end(
        &self,
        step: Step<D>,
        is_recorded: bool,
        outputs: &[OperandRef<'_>],
        rule: impl FnOnce() -> Rule<D>,
    ) {
        if is_recorded || !step.outputs.is_empty() {
            let addresses: Vec<*mut u8> = outputs.iter().map(|slot| slot.address).collect();
            self.0.lock().end(step, is_recorded, &addresses, rule);
        }
    }

    /// # Safety
    /// As [`Device::map`].
    unsafe fn record_map<P: Program, const BY_NAME: bool>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of(program);
        let outs = typed_outputs(outputs, facts);
        let begun = self.begin("map", sizes, inputs.slots, &outs, &mut |active| match P::BY_ROWS {
            false => Ok(flow_of(facts, inputs.reads, active)),
            // The parts of a row program have derivatives of their own, which may read every operand.
            true => Ok(Flow { to: active.to_vec(), reads: u64::MAX }),
        })?;
        let Begun { inputs: slots, outputs: to, mut step, is_recorded } = begun;
        let inner_inputs = Inputs { slots: &slots, reads: inputs.reads };
        let run = || {
            // SAFETY: (1) to (4) are the caller's promises; the operands are the same memory of the inner
            // device.
            unsafe {
                match BY_NAME {
                    true => self.0.inner.map_by_name(program, sizes, &to, inner_inputs),
                    false => self.0.inner.map_apart(program, sizes, row, &to, inner_inputs),
                }
            }
        };
        run()?;
        let (program, reads) = (*program, inputs.reads);
        if const { P::BY_ROWS } {
            let mut parts = Parts::<dyn Part<D>>::new();
            if is_recorded {
                parts.collect(program)?;
            }
            self.end(step, is_recorded, outputs, || {
                let reads = reads.to_vec();
                Box::new(move |b, step| rows_backward(b, step, &program, facts, &parts, row, &reads))
            });
            return Ok(());
        }
        if P::IN_PLACE {
            step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
        }
        self.end(step, is_recorded, outputs, || {
            let reads = reads.to_vec();
            Box::new(move |b, step| {
                map_backward(b, step, &VjpOf::<P, BY_NAME>(program), facts, &reads, P::IN_PLACE)
            })
        });
        Ok(())
    }

    /// # Safety
    /// As [`Device::reduce`].
    unsafe fn record_reduce<B: Body, R: Reducer<B::Out>, const BY_NAME: bool>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of_reduction::<B, R>(body);
        let sizes = super::axes::Axes::new(&[axes.kept, axes.reduced].concat());
        let outs = [(output, OutputType::Is(R::Out::DTYPE))];
        let begun = self.begin(R::NAME, &sizes, inputs.slots, &outs, &mut |active| {
            let flow = flow_of(facts, inputs.reads, active);
            if matches!(R::SLOPE, Slope::None) && flow.to.iter().any(Option::is_some) {
                return Err(no_slope(R::NAME));
            }
            Ok(flow)
        })?;
        let Begun { inputs: slots, outputs: to, step, is_recorded } = begun;
        let inner_inputs = Inputs { slots: &slots, reads: inputs.reads };
        // SAFETY: (1) and (2) are the caller's promises; the operands are the same memory of the inner device.
        unsafe {
            match BY_NAME {
                true => self.0.inner.reduce_by_name(body, reducer, axes, to[0], inner_inputs)?,
                false => self.0.inner.reduce(body, reducer, axes, to[0], inner_inputs)?,
            }
        }
        let result = match R::SLOPE {
            Slope::Values | Slope::Shared if is_recorded => self.0.lock().save(&output),
            _ => None,
        };
        let (body, reads, kept) = (*body, inputs.reads, axes.kept.len());
        self.end(step, is_recorded, &[output], || {
            let reads = reads.to_vec();
            Box::new(move |b, step| {
                let reduced = Reduced::<B, R, BY_NAME>::new(body);
                let operands = saved_slots(b, step);
                let loads: Vec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
                let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
                let (kept, axes) = (&step.sizes[..kept], step.sizes.len());
                let broadcast = |stride: &[isize]| {
                    let mut stride = stride[..kept.len()].to_vec();
                    stride.resize(axes, 0);
                    stride
                };
                let result = result.as_ref().map(|saved| saved.slot());
                let result_stride = result.map(|result| broadcast(result.stride));
                let result = match (&result, &result_stride) {
                    (Some(result), Some(stride)) => OperandRef { stride, ..*result },
                    _ => b.zeros(axes),
                };
                let stride = broadcast(gradient.stride);
                let gradient = OperandRef { stride: &stride, ..gradient };
                let sizes = (&step.sizes[..], axes - kept.len());
                let extra = extra_of(b, &reduced, sizes, &loads, result)?;
                for (operand, ks) in variables(&reads, 0..loads.len(), step, facts) {
                    if let Some(spot) = &step.inputs[operand].spot {
                        let numbers = [result, extra.slot(b, axes), gradient];
                        reduced.vjp(b, facts, &ks, sizes, &loads, numbers, Target::Spot(spot))?;
                    }
                }
                Ok(())
            })
        });
        Ok(())
    }
}

/// The error for a reducer that states no slope.
pub(super) fn no_slope(name: &'static str) -> Error {
    let what = text(format_args!("`{name}` has no derivative: its reducer states no `slope`"));
    Error::Value { op: name, what }
}

/// The outputs of a program, with their element types.
pub(super) fn typed_outputs<'a>(
    outputs: &[OperandRef<'a>],
    facts: &Facts,
) -> Vec<(OperandRef<'a>, OutputType)> {
    outputs.iter().zip(&facts.outputs).map(|(slot, dtype)| (*slot, OutputType::Is(*dtype))).collect()
}

/// From loads to operands: those to which a gradient flows, and those that the backward pass reads.
pub(super) fn flow_of(facts: &Facts, reads: &[u8], active: &[Option<DType>]) -> Flow {
    let mut flow = Flow { to: vec![None; active.len()], reads: 0 };
    let mut loads = 0;
    for (k, &operand) in reads.iter().enumerate() {
        if active[operand as usize].is_some()
            && let Some(slope) = facts.slopes[k]
        {
            flow.to[operand as usize] = Some(facts.loads[k]);
            loads |= slope.loads;
        }
    }
    let is_read = |(k, operand): (usize, &u8)| (loads >> k.min(63) & 1) << operand;
    flow.reads = reads.iter().enumerate().fold(0, |all, load| all | is_read(load));
    flow
}

/// The saved operands of a step; zeros where nothing was saved.
pub(super) fn saved_slots<'s, D: Device>(b: &Backward<D>, step: &'s Step<D>) -> Vec<OperandRef<'s>> {
    let slot = |input: &'s Input<D>| match &input.saved {
        Some(saved) => saved.slot(),
        None => b.zeros(step.sizes.len()),
    };
    step.inputs.iter().map(slot).collect()
}

/// The operands that receive a gradient through some of the loads, each with these loads.
pub(super) fn variables<D: Device>(
    reads: &[u8],
    loads: std::ops::Range<usize>,
    step: &Step<D>,
    facts: &Facts,
) -> Vec<(usize, Vec<usize>)> {
    let mut variables: Vec<(usize, Vec<usize>)> = Vec::new();
    for load in loads.clone() {
        let (k, operand) = (load - loads.start, reads[load] as usize);
        if step.inputs[operand].spot.is_none() || facts.slopes[k].is_none() {
            continue;
        }
        match variables.iter_mut().find(|(known, _)| *known == operand) {
            Some((_, ks)) => ks.push(k),
            None => variables.push((operand, vec![k])),
        }
    }
    variables
}

/// The rule of a program without row constants: one kernel for each operand.
fn map_backward<D: Device>(
    b: &mut Backward<D>,
    step: &Step<D>,
    program: &dyn super::backward::Vjp<D>,
    facts: &Facts,
    reads: &[u8],
    in_place: bool,
) -> Result<()> {
    let sizes = &step.sizes[..];
    let operands = saved_slots(b, step);
    let mut slots: Vec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
    // The gradient of an output that was updated in place is at the address of the operand's gradient: it is
    // copied first.
    let mut copies: Vec<Option<Buffer<D>>> = Vec::new();
    for output in &step.outputs {
        copies.push(match b.gradient(&output.spot) {
            Some(gradient) if in_place => {
                let copy = Buffer::new(&b.inner, sizes, gradient.element)?;
                // SAFETY: (1) the gradient has the layout of the output, the copy has its sizes; (2) the copy
                // is new; (3) the pass owns both.
                unsafe { b.inner.copy(sizes, copy.slot(), gradient)? };
                Some(copy)
            }
            _ => None,
        });
    }
    if in_place {
        step.outputs.iter().try_for_each(|output| b.clear(&output.spot, sizes))?;
    }
    for (output, copy) in step.outputs.iter().zip(&copies) {
        slots.push(match copy {
            Some(copy) => copy.slot(),
            None => b.gradient(&output.spot).unwrap_or(b.zeros(sizes.len())),
        });
    }
    for (operand, ks) in variables(reads, 0..reads.len(), step, facts) {
        if let Some(spot) = &step.inputs[operand].spot {
            b.vjp(program, facts, &ks, (sizes, 0), &slots, Target::Spot(spot))?;
        }
    }
    Ok(())
}

// SAFETY: (1) a block is an allocation of the inner device, under an address of its own, until it is dropped;
// (2) and (3) kernels run on the inner device, on the operands that the caller promised; those of the backward
// pass have the layouts of these operands, in memory of the same sizes.
unsafe impl<D: Device> Device for Tape<D> {
    type Block = TapeBlock<D>;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<TapeBlock<D>> {
        TapeBlock::new(&self.0, Allocation::fresh(&self.0.inner, nbytes, fresh)?, false)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<TapeBlock<D>> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Allocation::external(&self.0.inner, address, nbytes, free)? };
        TapeBlock::new(&self.0, FallibleArc::new(memory)?, true)
    }

    fn address(block: &TapeBlock<D>) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        let slot = OperandRef { address: to, stride: &[1], element: 1 };
        let outputs = [(slot, OutputType::Is(DType::U8))];
        let begun = self.begin("write", &[bytes.len()], &[], &outputs, &mut |_| Ok(Flow::default()))?;
        if !begun.step.outputs.is_empty() {
            let what =
                "bytes of the host would replace elements that have a gradient; assign a tensor instead";
            return Err(Error::Value { op: "write", what: what.into() });
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.inner.write(begun.outputs[0].address, bytes) }
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        let from = self.0.lock().inner_address(from);
        // SAFETY: the caller's promise.
        unsafe { self.0.inner.read(from, bytes) }
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let begun = self.begin("copy", sizes, &[from], &outputs, &mut |active| {
            Ok(Flow { to: active.to_vec(), reads: 0 })
        })?;
        // SAFETY: (1) to (3) are the caller's promises.
        unsafe { self.0.inner.copy(sizes, begun.outputs[0], begun.inputs[0])? };
        self.end(begun.step, begun.is_recorded, &[to], || Box::new(moves::copy_backward));
        Ok(())
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_map::<P, false>(program, sizes, row, outputs, inputs) }
    }

    unsafe fn map_by_name<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_map::<P, true>(program, sizes, 0, outputs, inputs) }
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_reduce::<B, R, false>(body, reducer, axes, output, inputs) }
    }

    unsafe fn reduce_by_name<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_reduce::<B, R, true>(body, reducer, axes, output, inputs) }
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { contract::record::<T, L, R, D>(self, plan, output, left, right) }
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { super::scan::record(self, body, reducer, plan, output, inputs) }
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { moves::gather(self, plan, to, cells, index) }
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { moves::scatter(self, operator, plan, cells, from, index) }
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { moves::compact(self, sizes, count, to, from, mask) }
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { moves::sort::<T, D>(self, plan, values, positions, from) }
    }

    fn synchronize(&self) -> Result<()> {
        self.0.inner.synchronize()
    }

    fn check(&self) -> Result<()> {
        self.0.inner.check()
    }
}
