//! Forward mode of programs: values and tangents in one kernel.
// Imports: `error`, `dtype`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{Loads, depends, sum_over_masks, with_mask};
use super::programs::{JvpMap, is_wide};
use super::rows;
use super::state::{Operands, Write};
use crate::autograd::backward::{Backward, Buffer, distinct, fill_with_zeros};
use crate::autograd::device::typed_outputs;
use crate::autograd::facts::{Facts, facts_of};
use crate::autograd::state::has_gradient;
use crate::device::{Device, Init, Inputs, OperandRef};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::Program;

/// Runs a program whose k-th load reads `slots[k]`.
///
/// # Safety
/// As [`Device::map`].
unsafe fn run<P: Program, D: Device, const BY_NAME: bool>(
    inner: &D,
    program: &P,
    sizes: &[usize],
    outputs: &[OperandRef<'_>],
    slots: &[OperandRef<'_>],
) -> Result<()> {
    let (slots, reads) = distinct(slots)?;
    let inputs = Inputs { slots: &slots, reads: &reads };
    // SAFETY: the caller's promise.
    unsafe {
        match BY_NAME {
            true => inner.map_by_name(program, sizes, outputs, inputs),
            false => inner.map_apart(program, sizes, 0, outputs, inputs),
        }
    }
}

/// Memory for each output, for a caller that copies it to the output later.
pub(super) struct Beside<D: Device>(Vec<Buffer<D>>);

impl<D: Device> Beside<D> {
    pub(super) fn new(inner: &D, sizes: &[usize], outputs: &[OperandRef<'_>]) -> Result<Self> {
        let buffer = |slot: &OperandRef<'_>| Buffer::new(inner, sizes, slot.element);
        Ok(Beside(outputs.iter().map(buffer).collect::<Result<_>>()?))
    }
    pub(super) fn slots(&self) -> Vec<OperandRef<'_>> {
        self.0.iter().map(Buffer::slot).collect()
    }
    /// Copies the results to the tangents of the outputs. Of an output with stride 0 along an axis, the first
    /// element remains, as they are equal.
    ///
    /// # Safety
    /// The tangents have these sizes, and nothing else uses them.
    pub(super) unsafe fn copy_to(
        &self,
        inner: &D,
        sizes: &[usize],
        tangents: &[Option<OperandRef<'_>>],
    ) -> Result<()> {
        for (to, from) in tangents.iter().zip(self.slots()) {
            let Some(to) = to else { continue };
            let cut = sizes.iter().zip(to.stride).map(|(&size, &stride)| if stride == 0 { 1 } else { size });
            let sizes: Vec<usize> = cut.collect();
            // SAFETY: (1) both have these sizes; (2) the axes of stride 0 are cut, and the memory is new; (3)
            // the caller's promise.
            unsafe { inner.copy(&sizes, *to, from)? };
        }
        Ok(())
    }
}

/// Writes the tangents of the outputs of a program, and no values.
pub(super) fn tangents_only<P: Program, D: Device, const BY_NAME: bool>(
    pass: &Backward<D>,
    program: &P,
    sizes: &[usize],
    loads: &Loads<'_>,
    outputs: &[(OperandRef<'_>, DType)],
) -> Result<()> {
    let (inner, zeros) = (&pass.inner, pass.zeros(sizes.len()));
    let masks = loads.masks(P::OUTPUTS)?;
    if masks.iter().all(|&mask| mask == 0) {
        return fill(inner, sizes, outputs);
    }
    sum_over_masks(inner, &masks, sizes, outputs, &mut |mask, to| {
        with_mask!(P::LOADS, P::OUTPUTS, false, mask, MASK => {
            let program = JvpMap::<P, MASK, false>(*program);
            let slots = loads.slots(MASK, P::OUTPUTS, zeros);
            // SAFETY: (1) the operands of the program and their tangents, at its sizes; (2) to (4) the outputs
            // are tangents of outputs of the program, or new memory.
            unsafe { run::<_, _, BY_NAME>(inner, &program, sizes, to, &slots) }
        })
    })
}

/// Sets the tangents of outputs to 0.
fn fill<D: Device>(inner: &D, sizes: &[usize], outputs: &[(OperandRef<'_>, DType)]) -> Result<()> {
    for (slot, dtype) in outputs.iter().filter(|(_, dtype)| has_gradient(*dtype)) {
        // SAFETY: (1) tangents of these sizes; (2) the caller of the kernel has the only access to its outputs.
        unsafe { fill_with_zeros(inner, *dtype, sizes, *slot)? };
    }
    Ok(())
}

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::map`].
    pub(super) unsafe fn map_with_tangents<P: Program, const BY_NAME: bool>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of(program);
        let typed = typed_outputs(outputs, facts);
        let write = if P::IN_PLACE { Write::Updated } else { Write::Replaced };
        let operands = self.0.prepare(sizes, inputs.slots, &typed, write, &mut |active| {
            Ok(P::BY_ROWS || depends(facts, inputs.reads, active))
        })?;
        let values = || {
            let inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
            // SAFETY: (1) to (4) are the caller's promises; the operands are the same memory of the inner
            // device.
            unsafe {
                match BY_NAME {
                    true => self.0.inner.map_by_name(program, sizes, &operands.outputs, inputs),
                    false => self.0.inner.map_apart(program, sizes, row, &operands.outputs, inputs),
                }
            }
        };
        if !operands.flows || sizes.contains(&0) {
            return values();
        }
        let pass = self.0.pass()?;
        if const { P::BY_ROWS } {
            let loads = Loads::of_rows(&operands, inputs.reads);
            return rows::run(pass, program, facts, (sizes, row), &loads, &operands, &values);
        }
        let loads = Loads::new(&operands, inputs.reads, facts);
        if const { is_wide(P::LOADS, 2 * P::OUTPUTS) } {
            return separately::<P, D, BY_NAME>(pass, program, facts, sizes, &loads, &operands, &values);
        }
        together::<P, D, BY_NAME>(pass, program, sizes, loads, &operands)
    }
}

/// Values and tangents in one kernel.
fn together<P: Program, D: Device, const BY_NAME: bool>(
    pass: &Backward<D>,
    program: &P,
    sizes: &[usize],
    loads: Loads<'_>,
    operands: &Operands<'_>,
) -> Result<()> {
    // Outputs that are discrete have no tangent; the kernel writes zeros to memory of its own.
    let mut unused = Vec::new();
    for (slot, tangent) in operands.outputs.iter().zip(&operands.output_tangents) {
        unused.push(match tangent {
            Some(_) => None,
            None => Some(Buffer::with_content(&pass.inner, sizes, slot.element, Init::Zeroed)?),
        });
    }
    let mut outputs = Vec::with_capacity(2 * P::OUTPUTS);
    for (j, slot) in operands.outputs.iter().enumerate() {
        let beside = unused[j].as_ref().map(Buffer::slot);
        let Some(tangent) = operands.output_tangents[j].or(beside) else { continue };
        outputs.extend([*slot, tangent]);
    }
    let zeros = pass.zeros(sizes.len());
    let mut loads = loads;
    for j in 0..if P::IN_PLACE { P::OUTPUTS } else { 0 } {
        loads.tangents[j] = Some(outputs[2 * j + 1]);
    }
    let mask = loads.masks(2 * P::OUTPUTS)?[0];
    with_mask!(P::LOADS, 2 * P::OUTPUTS, P::IN_PLACE, mask, MASK => {
        let program = JvpMap::<P, MASK, true>(*program);
        let slots = loads.slots(MASK, 2 * P::OUTPUTS, zeros);
        // SAFETY: (1) the operands of the program and their tangents, at its sizes; (2) and (3) tangents have
        // the layouts of the operands, in memory of their own, and those that a program in place updates follow
        // the operand, as its outputs do; (4) the caller of the kernel has the only access to its outputs.
        unsafe { run::<_, _, BY_NAME>(&pass.inner, &program, sizes, &outputs, &slots) }
    })
}

/// The tangents, of some loads at a time, and then the values: for programs of so many loads that a kernel
/// has no room for all tangents.
fn separately<P: Program, D: Device, const BY_NAME: bool>(
    pass: &Backward<D>,
    program: &P,
    facts: &Facts,
    sizes: &[usize],
    loads: &Loads<'_>,
    operands: &Operands<'_>,
    values: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let beside = Beside::new(&pass.inner, sizes, &operands.outputs)?;
    let outputs: Vec<_> = beside.slots().into_iter().zip(facts.outputs.iter().copied()).collect();
    tangents_only::<P, D, BY_NAME>(pass, program, sizes, loads, &outputs)?;
    values()?;
    // SAFETY: the tangents have the layouts of the outputs, to which the caller has the only access.
    unsafe { beside.copy_to(&pass.inner, sizes, &operands.output_tangents) }
}
