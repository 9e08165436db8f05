//! The recording of maps and reductions, for programs of any type.
// Imports: `error`, `dtype`, `kernel`, `device`.

use super::axes::Axes;
use super::backward::{Backward, Buffer, Target, Vjp};
pub(super) use super::backward::{no_slope, saved_slots, variables};
use super::facts::Facts;
use super::reduce::ReduceRule;
use super::rows::{Parts, rows_backward};
use super::state::{Before, Begun, Flow, OutputType, Rule, Saved, Shared, Spot, Step};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef, Reduction};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::Slope;
use std::sync::RwLockWriteGuard;

/// The facts of a program, and the operand of each of its loads.
pub(super) type Loads<'a> = (&'static Facts, &'a [u8]);

impl Shared {
    /// See [`State::begin`](super::state::State::begin).
    pub(super) fn begin<'a>(
        &'a self,
        op: &'static str,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<Flow>,
    ) -> Result<Begun<'a>> {
        let mut begun = Begun::new(op);
        self.fill(&mut begun, sizes, inputs, outputs, flow)?;
        Ok(begun)
    }

    /// As [`begin`](Shared::begin), in place: a step of small tensors notices a copy.
    fn fill<'a>(
        &'a self,
        begun: &mut Begun<'a>,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<Flow>,
    ) -> Result<()> {
        let running = self.running();
        let mut state = self.lock();
        if !state.may_move(inputs, outputs) {
            begun._running = Some(running);
            return state.begin(&*self.inner, sizes, inputs, outputs, flow, begun);
        }
        drop(state);
        drop(running);
        let moving = self.moving();
        self.lock().begin(&*self.inner, sizes, inputs, outputs, flow, begun)?;
        begun._running = Some(RwLockWriteGuard::downgrade(moving));
        Ok(())
    }

    /// Records a step after its kernel has run.
    #[inline]
    pub(super) fn end(&self, step: Box<Step>, outputs: &[OperandRef<'_>], rule: Rule) {
        let ended = self.lock().end(step, outputs, rule);
        drop(ended); // after the lock is released
    }

    /// After a kernel of which no output depends on a variable.
    pub(super) fn end_unrecorded(&self, step: Box<Step>) {
        if !step.outputs.is_empty() {
            self.lock().end_unrecorded(step);
        }
    }

    pub(super) fn begin_write(&self, to: *mut u8, nbytes: usize) -> Result<Begun<'_>> {
        let outputs = [(OperandRef { address: to, stride: &[1], element: 1 }, OutputType::Is(DType::U8))];
        let begun = self.begin("write", &[nbytes], &[], &outputs, &mut |_| Ok(Flow::default()))?;
        if !begun.step.outputs.is_empty() {
            let what =
                "bytes of the host would replace elements that have a gradient; assign a tensor instead";
            return Err(Error::Value { op: "write", what: what.into() });
        }
        Ok(begun)
    }

    pub(super) fn begin_map<'a>(
        &'a self,
        facts: &'static Facts,
        by_rows: bool,
        sizes: &[usize],
        outputs: &[OperandRef<'a>],
        inputs: Inputs<'a>,
    ) -> Result<Begun<'a>> {
        let mut begun = Begun::new("map");
        self.fill_map(&mut begun, (facts, by_rows), sizes, outputs, inputs)?;
        Ok(begun)
    }

    fn fill_map<'a>(
        &'a self,
        begun: &mut Begun<'a>,
        (facts, by_rows): (&'static Facts, bool),
        sizes: &[usize],
        outputs: &[OperandRef<'a>],
        inputs: Inputs<'a>,
    ) -> Result<()> {
        let typed = |(slot, dtype): (&OperandRef<'a>, &DType)| (*slot, OutputType::Is(*dtype));
        let (one, several);
        let outputs: &[_] = match (outputs, &facts.outputs[..]) {
            ([slot], [dtype]) => {
                one = [typed((slot, dtype))];
                &one
            }
            (slots, dtypes) => {
                several = slots.iter().zip(dtypes).map(typed).collect::<Vec<_>>();
                &several
            }
        };
        self.fill(begun, sizes, inputs.slots, outputs, &mut |active| match by_rows {
            false => {
                let flow = flow_of(facts, inputs.reads, active);
                ensure_room("map", facts.loads.len(), facts.outputs.len(), &flow)?;
                Ok(flow)
            }
            // The parts of a row program have derivatives of their own, which may read every operand.
            true => {
                let flow = Flow { to: Axes::new(active), reads: u64::MAX, reads_result: false };
                ensure_room("map", facts.loads.len(), facts.outputs.len().max(3), &flow)?;
                Ok(flow)
            }
        })
    }

    /// Runs a program without row constants, and records it if an output depends on a variable.
    pub(super) fn record_map(
        &self,
        (facts, in_place): (&'static Facts, bool),
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
        run: &dyn Fn(&[OperandRef<'_>], Inputs<'_>) -> Result<()>,
        vjp: &dyn Fn() -> Box<dyn Vjp>,
    ) -> Result<()> {
        let mut begun = Begun::new("map");
        self.fill_map(&mut begun, (facts, false), sizes, outputs, inputs)?;
        run(&begun.outputs, Inputs { slots: &begun.inputs, reads: inputs.reads })?;
        match begun.is_recorded {
            true => self.end_map(begun.step, outputs, (facts, inputs.reads), in_place, vjp()),
            false => self.end_unrecorded(begun.step),
        }
        Ok(())
    }

    #[inline]
    fn end_map(
        &self,
        mut step: Box<Step>,
        outputs: &[OperandRef<'_>],
        (facts, reads): Loads<'_>,
        in_place: bool,
        vjp: Box<dyn Vjp>,
    ) {
        if in_place {
            step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
        }
        let reads = Axes::new(reads);
        let rule: Rule = Box::new(move |b, step| map_backward(b, step, &*vjp, facts, &reads, in_place));
        self.end(step, outputs, rule);
    }

    pub(super) fn end_rows(
        &self,
        step: Box<Step>,
        outputs: &[OperandRef<'_>],
        (facts, reads): Loads<'_>,
        parts: Parts,
        row: usize,
        vjp: Box<dyn Vjp>,
    ) {
        let reads = Axes::new(reads);
        let rule: Rule = Box::new(move |b, step| rows_backward(b, step, &*vjp, facts, &parts, row, &reads));
        self.end(step, outputs, rule);
    }

    pub(super) fn begin_reduce<'a>(
        &'a self,
        (op, slope): (&'static str, Slope),
        facts: &'static Facts,
        axes: Reduction<'_>,
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<Begun<'a>> {
        let sizes = [axes.kept, axes.reduced].concat();
        let outputs = [(output, OutputType::Is(facts.outputs[0]))];
        self.begin(op, &sizes, inputs.slots, &outputs, &mut |active| {
            let mut flow = flow_of(facts, inputs.reads, active);
            flow.reads_result = matches!(slope, Slope::Values | Slope::Shared | Slope::Parts);
            ensure_room(op, facts.loads.len(), 3, &flow)?;
            if matches!(slope, Slope::None) && flow.to.iter().any(Option::is_some) {
                return Err(no_slope(op));
            }
            Ok(flow)
        })
    }

    pub(super) fn end_reduce(
        &self,
        step: Box<Step>,
        output: OperandRef<'_>,
        (facts, reads): Loads<'_>,
        kept: usize,
        reduce: Box<dyn ReduceRule + Send>,
    ) {
        let reads = Axes::new(reads);
        let rule: Rule = Box::new(move |b, step| {
            let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
            let operands = saved_slots(b, step);
            let loads: Axes<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
            let axes = step.sizes.len();
            let broadcast = |stride: &[isize]| {
                let mut stride = stride[..kept].to_vec();
                stride.resize(axes, 0);
                stride
            };
            let result = step.result.as_ref().map_or(b.zeros(axes), |saved| saved.slot());
            let strides = [broadcast(result.stride), broadcast(gradient.stride)];
            let result = OperandRef { stride: &strides[0], ..result };
            let gradient = OperandRef { stride: &strides[1], ..gradient };
            let sizes = (&step.sizes[..], axes - kept);
            let extra = reduce.extra(b, sizes, &loads, result)?;
            let extra = extra.as_ref().map_or(b.zeros(axes), Buffer::slot);
            for &(operand, mask) in variables(&reads, 0..loads.len(), step, facts).iter() {
                if let Some(spot) = &step.inputs[operand].spot {
                    let numbers = [result, extra, gradient];
                    reduce.vjp(b, facts, mask, sizes, &loads, numbers, Target::Spot(spot))?;
                }
            }
            Ok(())
        });
        self.end(step, &[output], rule);
    }
}

/// From loads to operands: those to which a gradient flows, and those that the backward pass reads.
pub(super) fn flow_of(facts: &Facts, reads: &[u8], active: &[Option<DType>]) -> Flow {
    let mut flow = Flow { to: active.iter().map(|_| None).collect(), ..Flow::default() };
    let mut loads = 0;
    for (k, &operand) in reads.iter().enumerate() {
        if active[operand as usize].is_some()
            && let Some(slope) = facts.slopes[k]
        {
            flow.to[operand as usize] = Some(facts.loads[k]);
            loads |= slope.loads;
        }
    }
    for (k, &operand) in reads.iter().enumerate() {
        flow.reads |= (loads >> k & 1) << operand;
    }
    flow.reads_result = facts.loads.len() > reads.len() && loads >> reads.len() & 1 == 1;
    flow
}

/// [`Error::Operands`] if a gradient flows and the kernel of the backward pass would have too many operands:
/// the loads, `numbers` more, and an output.
fn ensure_room(op: &'static str, loads: usize, numbers: usize, flow: &Flow) -> Result<()> {
    if loads + numbers < MAX_OPERANDS || flow.to.iter().all(Option::is_none) {
        return Ok(());
    }
    Err(Error::Operands { op, limit: MAX_OPERANDS - 1 - numbers })
}

/// The rule of a program without row constants: one kernel for each operand.
fn map_backward(
    b: &mut Backward,
    step: &Step,
    program: &dyn Vjp,
    facts: &Facts,
    reads: &[u8],
    in_place: bool,
) -> Result<()> {
    let sizes = &step.sizes[..];
    let operands = saved_slots(b, step);
    let mut slots: Axes<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
    // The gradient of an output that was updated in place is at the address of the operand's gradient: it is
    // copied first.
    let mut copies: Vec<Option<Buffer>> = Vec::new();
    if in_place {
        for output in step.outputs.iter() {
            let copy = match b.gradient(&output.spot) {
                Some(gradient) => {
                    let copy = Buffer::new(&*b.inner, sizes, gradient.element)?;
                    // SAFETY: (1) the gradient has the layout of the output, the copy has its sizes; (2) the
                    // copy is new; (3) the pass owns both.
                    unsafe { b.inner.copy(sizes, copy.slot(), gradient)? };
                    Some(copy)
                }
                None => None,
            };
            copies.push(copy);
        }
        step.outputs.iter().try_for_each(|output| b.clear(&output.spot, sizes))?;
    }
    if facts.loads.len() > reads.len() {
        slots.push(step.result.as_ref().map_or(b.zeros(sizes.len()), Saved::slot));
    }
    for (k, output) in step.outputs.iter().enumerate() {
        slots.push(match copies.get(k) {
            Some(copy) => copy.as_ref().map_or(b.zeros(sizes.len()), Buffer::slot),
            None => b.gradient(&output.spot).unwrap_or(b.zeros(sizes.len())),
        });
    }
    let variables = variables(reads, 0..reads.len(), step, facts);
    let mut done = 0u64;
    for (position, &(operand, mask)) in variables.iter().enumerate() {
        let Some(spot) = &step.inputs[operand].spot else { continue };
        if done >> position & 1 == 1 {
            continue;
        }
        let equal = equal_variables(step, facts, &variables[position..]);
        if equal == 1 {
            b.vjp(program, facts, mask, (sizes, 0), &slots, Target::Spot(spot))?;
            continue;
        }
        let is_equal = |at: &usize| equal >> (at - position) & 1 == 1;
        let spots = (position..variables.len()).filter(is_equal);
        let spots: Vec<&Spot> = spots.filter_map(|at| step.inputs[variables[at].0].spot.as_ref()).collect();
        b.vjp_of_several(program, facts, mask.trailing_zeros() as usize, sizes, &slots, &spots)?;
        done |= equal << position;
    }
    Ok(())
}

/// The variables whose gradients are equal to that of the first one, which is among them, as bits: operands in
/// different blocks, of one load each, by which the derivatives are the same expression. A derivative of 1
/// needs no kernel.
fn equal_variables(step: &Step, facts: &Facts, variables: &[(usize, u64)]) -> u64 {
    let (first, mask) = variables[0];
    let k = mask.trailing_zeros() as usize;
    let id_of = |operand: usize| step.inputs[operand].spot.as_ref().map(|spot| spot.id);
    let mut equal = 1;
    if !mask.is_power_of_two() || facts.slopes[k].is_some_and(|slope| slope.literal == Some(1.0)) {
        return equal;
    }
    let mut ids = Axes::new(&[id_of(first)]);
    for (position, &(operand, mask)) in variables.iter().enumerate().skip(1) {
        let other = mask.trailing_zeros() as usize;
        if mask.is_power_of_two() && facts.are_equal(k, other) && !ids.contains(&id_of(operand)) {
            ids.push(id_of(operand));
            equal |= 1 << position;
        }
    }
    equal
}
