//! The recording and the backward function of maps, for programs of any type.
// Imports: `error`, `dtype`, `device`.

use super::backward::{Backward, Target, Temporary, Vjp, saved_slots, variables};
use super::facts::Facts;
use super::record::{FactsOfLoads, ensure_as_stated, ensure_room, flow_of};
use super::rows::{RowConstants, rows_backward};
use super::small_vec::SmallVec;
use super::state::{
    BackwardFn, BackwardOperands, Before, Begun, BlockView, OutputType, Saved, Step, TapeState,
};
use crate::device::{Inputs, OperandRef};
use crate::dtype::DType;
use crate::error::Result;

impl TapeState {
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
                ensure_as_stated("map", facts, &flow)?;
                Ok(flow)
            }
            // The constants of a row program have derivatives of their own, which may read every operand.
            true => {
                let flow =
                    BackwardOperands { to: SmallVec::new(active), reads: u64::MAX, reads_result: false };
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
        (facts, reads): FactsOfLoads<'_>,
        in_place: bool,
        vjp: Box<dyn Vjp>,
    ) {
        if in_place {
            step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
        }
        let reads = SmallVec::new(reads);
        let run: BackwardFn = Box::new(move |b, step| map_backward(b, step, &*vjp, facts, &reads, in_place));
        self.end(step, outputs, run);
    }

    pub(super) fn end_rows(
        &self,
        (mut step, in_place): (Box<Step>, bool),
        outputs: &[OperandRef<'_>],
        (facts, reads): FactsOfLoads<'_>,
        constants: RowConstants,
        row: usize,
        vjp: Box<dyn Vjp>,
    ) {
        if in_place {
            step.outputs.iter_mut().for_each(|output| output.before = Before::Updated);
        }
        let reads = SmallVec::new(reads);
        let run: BackwardFn = Box::new(move |b, step| {
            let taken = if in_place { take_gradients(b, step)? } else { Vec::new() };
            rows_backward(b, step, &*vjp, facts, &constants, (row, &reads), &taken)
        });
        self.end(step, outputs, run);
    }
}

/// Copies of the gradients of outputs that were updated in place, which are cleared: they are at the
/// addresses of the operands' gradients.
fn take_gradients(b: &mut Backward, step: &Step) -> Result<Vec<Option<Temporary>>> {
    let sizes = &step.sizes[..];
    let mut copies = Vec::new();
    for output in step.outputs.iter() {
        let gradient = b.gradient(&output.view);
        copies.push(gradient.map(|gradient| Temporary::copy_of(&*b.inner, sizes, gradient)).transpose()?);
    }
    step.outputs.iter().try_for_each(|output| b.clear(&output.view, sizes))?;
    Ok(copies)
}

/// The backward function of a program without row constants: one kernel for each operand.
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
    let mut slots: SmallVec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
    let copies = if in_place { take_gradients(b, step)? } else { Vec::new() };
    if facts.loads.len() > reads.len() {
        let zeros = b.zeros(sizes.len(), step.outputs[0].view.element);
        slots.push(step.result.as_ref().map_or(zeros, Saved::slot));
    }
    for (k, output) in step.outputs.iter().enumerate() {
        let zeros = b.zeros(sizes.len(), output.view.element);
        slots.push(match copies.get(k) {
            Some(copy) => copy.as_ref().map_or(zeros, Temporary::slot),
            None => b.gradient(&output.view).unwrap_or(zeros),
        });
    }
    let variables = variables(reads, 0..reads.len(), step, facts);
    let mut done = 0u64;
    for (position, &(operand, mask)) in variables.iter().enumerate() {
        let Some(view) = &step.inputs[operand].view else { continue };
        if done >> position & 1 == 1 {
            continue;
        }
        let equal = equal_variables(step, facts, &variables[position..]);
        if equal == 1 {
            b.vjp(program, facts, mask, (sizes, 0), &slots, Target::BlockView(view))?;
            continue;
        }
        let is_equal = |at: &usize| equal >> (at - position) & 1 == 1;
        let views = (position..variables.len()).filter(is_equal);
        let views: Vec<&BlockView> =
            views.filter_map(|at| step.inputs[variables[at].0].view.as_ref()).collect();
        b.vjp_of_several(program, facts, mask.trailing_zeros() as usize, sizes, &slots, &views)?;
        done |= equal << position;
    }
    Ok(())
}

/// The variables whose gradients are equal to that of the first one, which is among them, as bits: operands
/// in different blocks, of one load each, by which the derivatives are the same expression. A derivative of 1
/// needs no kernel.
fn equal_variables(step: &Step, facts: &Facts, variables: &[(usize, u64)]) -> u64 {
    let (first, mask) = variables[0];
    let k = mask.trailing_zeros() as usize;
    let id_of = |operand: usize| step.inputs[operand].view.as_ref().map(|view| view.id);
    let mut equal = 1;
    if !mask.is_power_of_two() || facts.slopes[k].is_some_and(|slope| slope.literal == Some(1.0)) {
        return equal;
    }
    let mut ids = SmallVec::new(&[id_of(first)]);
    for (position, &(operand, mask)) in variables.iter().enumerate().skip(1) {
        let other = mask.trailing_zeros() as usize;
        if mask.is_power_of_two() && facts.are_equal(k, other) && !ids.contains(&id_of(operand)) {
            ids.push(id_of(operand));
            equal |= 1 << position;
        }
    }
    equal
}
