//! The recording of a kernel: what comes before and after it, for mechanisms of any kind.
// Imports: `error`, `dtype`, `device`.

use super::backward::Temporary;
use super::facts::Facts;
use super::state::{BackwardFn, BackwardOperands, Begun, OutputType, Saved, Step, TapeState};
use crate::device::{MAX_OPERANDS, OperandRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::sync::RwLockWriteGuard;

/// The facts of a program, and the operand of each of its loads.
pub(super) type FactsOfLoads<'a> = (&'static Facts, &'a [u8]);

impl TapeState {
    /// See [`TapeContents::begin`](super::state::TapeContents::begin).
    pub(super) fn begin<'a>(
        &'a self,
        op: &'static str,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<BackwardOperands>,
    ) -> Result<Begun<'a>> {
        let mut begun = Begun::new(op);
        self.fill(&mut begun, sizes, inputs, outputs, flow)?;
        Ok(begun)
    }

    /// As [`begin`](TapeState::begin), in place: a copy would slow steps of small tensors.
    pub(super) fn fill<'a>(
        &'a self,
        begun: &mut Begun<'a>,
        sizes: &[usize],
        inputs: &[OperandRef<'a>],
        outputs: &[(OperandRef<'a>, OutputType)],
        flow: &mut dyn FnMut(&[Option<DType>]) -> Result<BackwardOperands>,
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
    pub(super) fn end(&self, mut step: Box<Step>, outputs: &[OperandRef<'_>], run: BackwardFn) {
        if step.reads_result {
            step.result = self.result_of(&outputs[0], &step.sizes);
        }
        let ended = self.lock().end(step, outputs, run);
        drop(ended); // after the lock is released
    }

    /// The result of a step, for its backward pass. A part of a block is copied: it would keep the whole
    /// block, and the next write to another part would copy that. The result of a reduction has the first
    /// axes of its sizes.
    fn result_of(&self, output: &OperandRef<'_>, sizes: &[usize]) -> Option<Saved> {
        let sizes = &sizes[..output.stride.len()];
        let mut state = self.lock();
        let saved = state.save(output)?;
        if state.is_whole_block(output, sizes) {
            return Some(saved);
        }
        drop(state);
        let copy = Temporary::copy_of(&*self.inner, sizes, saved.slot());
        Some(copy.map_or(saved, Temporary::into_saved))
    }

    /// After a kernel of which no output depends on a variable.
    pub(super) fn end_unrecorded(&self, step: Box<Step>) {
        if !step.outputs.is_empty() {
            self.lock().end_unrecorded(step);
        }
    }

    pub(super) fn begin_write(&self, to: *mut u8, nbytes: usize) -> Result<Begun<'_>> {
        let outputs = [(OperandRef { address: to, stride: &[1], element: 1 }, OutputType::Is(DType::U8))];
        let begun =
            self.begin("write", &[nbytes], &[], &outputs, &mut |_| Ok(BackwardOperands::default()))?;
        if !begun.step.outputs.is_empty() {
            let what =
                "bytes of the host would replace elements that have a gradient; assign a tensor instead";
            return Err(Error::Value { op: "write", what: what.into() });
        }
        Ok(begun)
    }
}

/// From loads to operands: those to which a gradient flows, and those that the backward pass reads.
pub(super) fn flow_of(facts: &Facts, reads: &[u8], active: &[Option<DType>]) -> BackwardOperands {
    let mut flow =
        BackwardOperands { to: active.iter().map(|_| None).collect(), ..BackwardOperands::default() };
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
pub(super) fn ensure_room(
    op: &'static str,
    loads: usize,
    numbers: usize,
    flow: &BackwardOperands,
) -> Result<()> {
    if loads + numbers < MAX_OPERANDS || flow.to.iter().all(Option::is_none) {
        return Ok(());
    }
    Err(Error::Operands { op, limit: MAX_OPERANDS - 1 - numbers })
}

/// [`Error::Value`] if a gradient flows and the type of the program states derivatives that it does not have.
pub(super) fn ensure_as_stated(op: &'static str, facts: &Facts, flow: &BackwardOperands) -> Result<()> {
    if facts.is_as_stated || flow.to.iter().all(Option::is_none) {
        return Ok(());
    }
    let what = "an operator says that it is a sum (`Op::IS_SUM`, `Slopes`), but it has other derivatives \
                than that: leave the statement out";
    Err(Error::Value { op, what: what.into() })
}
