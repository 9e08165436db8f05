//! Forward mode of programs: values and tangents in one kernel.
// Imports: `error`, `dtype`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{Kernel, Loads, depends, run, run_each_mask, with_mask};
use super::programs::{JvpMap, is_wide};
use super::rows::{self, TangentPart};
use super::state::{Operands, Shared, Write};
use crate::autograd::backward::{Backward, Buffer};
use crate::autograd::facts::{Facts, facts_of};
use crate::autograd::inner::Inner;
use crate::autograd::rows::{Collect, Parts};
use crate::autograd::state::OutputType;
use crate::autograd::vjp::ConstantsAsLoads;
use crate::device::{Device, Init, Inputs, OperandRef};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::Program;

/// Memory for the tangent of each output, from which it is copied to the output later.
pub(super) struct Beside(Vec<Buffer>);

impl Beside {
    pub(super) fn new(inner: &dyn Inner, sizes: &[usize], outputs: &[OperandRef<'_>]) -> Result<Self> {
        let buffer = |slot: &OperandRef<'_>| Buffer::new(inner, sizes, slot.element);
        Ok(Beside(outputs.iter().map(buffer).collect::<Result<_>>()?))
    }
    pub(super) fn outputs(&self, facts: &Facts) -> Vec<(OperandRef<'_>, DType)> {
        self.0.iter().map(Buffer::slot).zip(facts.outputs.iter().copied()).collect()
    }
    /// Copies the results to the tangents of the outputs. Of an output with stride 0 along an axis, the first
    /// element remains, as they are equal.
    ///
    /// # Safety
    /// The tangents have these sizes, and nothing else uses them.
    pub(super) unsafe fn copy_to(
        &self,
        inner: &dyn Inner,
        sizes: &[usize],
        tangents: &[Option<OperandRef<'_>>],
    ) -> Result<()> {
        for (to, from) in tangents.iter().zip(&self.0) {
            let Some(to) = to else { continue };
            let cut = sizes.iter().zip(to.stride).map(|(&size, &stride)| if stride == 0 { 1 } else { size });
            let sizes: Vec<usize> = cut.collect();
            // SAFETY: (1) both have these sizes; (2) the axes of stride 0 are cut, and the memory is new; (3)
            // the caller's promise.
            unsafe { inner.copy(&sizes, *to, from.slot())? };
        }
        Ok(())
    }
}

/// Writes the tangents of the outputs of a program, and no values.
pub(super) fn tangents_only(
    pass: &Backward,
    kernel: &Kernel<'_>,
    sizes: &[usize],
    loads: &Loads<'_>,
    outputs: &[(OperandRef<'_>, DType)],
) -> Result<()> {
    if loads.has_tangents() {
        return run_each_mask(pass, kernel, loads, &[], (sizes, sizes), outputs);
    }
    for (slot, _) in outputs {
        let zeros = OperandRef { element: slot.element, ..pass.zeros(sizes.len()) };
        // SAFETY: (1) outputs of these sizes, and zeros are one element; (2) and (3) the caller passes memory
        // of its own.
        unsafe { pass.inner.copy(sizes, *slot, zeros)? };
    }
    Ok(())
}

impl Shared {
    fn prepare_map<'a>(
        &self,
        facts: &Facts,
        by_rows: bool,
        write: Write,
        sizes: &[usize],
        outputs: &[OperandRef<'a>],
        inputs: Inputs<'a>,
    ) -> Result<Operands<'a>> {
        let typed = |(slot, dtype): (&OperandRef<'a>, &DType)| (*slot, OutputType::Is(*dtype));
        let outputs: Vec<_> = outputs.iter().zip(&facts.outputs).map(typed).collect();
        let mut operands = self.prepare(sizes, inputs.slots, &outputs, write, &mut |active| {
            Ok(by_rows || depends(facts, inputs.reads, active))
        })?;
        operands.flows &= !sizes.contains(&0);
        Ok(operands)
    }

    /// Values and tangents in one kernel. A program in place has a tangent for each of its outputs.
    fn together(
        &self,
        kernel: &Kernel<'_>,
        sizes: &[usize],
        loads: Loads<'_>,
        operands: &Operands<'_>,
        in_place: bool,
    ) -> Result<()> {
        // Outputs that are discrete have no tangent; the kernel writes zeros to memory of its own.
        let mut unused = Vec::new();
        for (slot, tangent) in operands.outputs.iter().zip(&operands.output_tangents) {
            unused.push(match tangent {
                Some(_) => None,
                None => Some(Buffer::with_content(&*self.inner, sizes, slot.element, Init::Zeroed)?),
            });
        }
        let mut outputs = Vec::with_capacity(2 * operands.outputs.len());
        for (j, slot) in operands.outputs.iter().enumerate() {
            let beside = unused[j].as_ref().map(Buffer::slot);
            let Some(tangent) = operands.output_tangents[j].or(beside) else { continue };
            outputs.extend([*slot, tangent]);
        }
        let mut loads = loads;
        if in_place {
            for (j, tangent) in outputs.iter().skip(1).step_by(2).enumerate() {
                loads.tangents[j] = Some(*tangent);
            }
        }
        for &mask in loads.masks(outputs.len())?.iter() {
            let slots = loads.slots(mask, outputs.len(), self.pass()?.zeros(sizes.len()));
            run(kernel, mask, sizes, &outputs, &slots)?;
        }
        Ok(())
    }

    /// The tangents, of some loads at a time, and then the values: for programs of so many loads that a
    /// kernel has no room for all tangents.
    fn separately(
        &self,
        kernel: &Kernel<'_>,
        facts: &Facts,
        sizes: &[usize],
        loads: &Loads<'_>,
        operands: &Operands<'_>,
        values: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let beside = Beside::new(&*self.inner, sizes, &operands.outputs)?;
        tangents_only(self.pass()?, kernel, sizes, loads, &beside.outputs(facts))?;
        values()?;
        // SAFETY: the tangents have the layouts of the outputs, to which the caller has the only access.
        unsafe { beside.copy_to(&*self.inner, sizes, &operands.output_tangents) }
    }
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
        let (facts, shared) = (facts_of(program), &*self.shared);
        let write = if P::IN_PLACE { Write::Updated } else { Write::Replaced };
        let operands = shared.prepare_map(facts, P::BY_ROWS, write, sizes, outputs, inputs)?;
        let values = || {
            let inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
            // SAFETY: (1) to (4) are the caller's promises; the operands are the same memory of the inner
            // device.
            unsafe {
                match BY_NAME {
                    true => self.device.map_by_name(program, sizes, &operands.outputs, inputs),
                    false => self.device.map_apart(program, sizes, row, &operands.outputs, inputs),
                }
            }
        };
        if !operands.flows {
            return values();
        }
        if const { P::BY_ROWS } {
            let mut parts = Parts::<dyn TangentPart>::new();
            let mut copy = *program;
            copy.prepare_row(&mut Collect(&mut parts, &self.device));
            let program = ConstantsAsLoads(*program);
            let kernel = |mask, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
                self.run_tangents::<_, false>(&program, mask, sizes, to, inputs)
            };
            let loads = Loads::of_rows(&operands, inputs.reads);
            return rows::run(
                shared.pass()?,
                &kernel,
                parts,
                facts,
                (sizes, row),
                &loads,
                &operands,
                &values,
            );
        }
        let loads = Loads::new(&operands, inputs.reads, facts);
        if const { is_wide(P::LOADS, 2 * P::OUTPUTS) } {
            let kernel = |mask, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
                self.run_tangents::<P, BY_NAME>(program, mask, sizes, to, inputs)
            };
            return shared.separately(&kernel, facts, sizes, &loads, &operands, &values);
        }
        let kernel = |mask: u64, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            with_mask!(P::LOADS, 2 * P::OUTPUTS, P::IN_PLACE, mask, MASK => {
                let program = JvpMap::<P, MASK, true>(*program);
                // SAFETY: (1) the operands of the program and their tangents, at its sizes; (2) and (3)
                // tangents have the layouts of the operands, in memory of their own, and those that a program
                // in place updates follow the operand, as its outputs do; (4) the caller of the kernel has
                // the only access to its outputs.
                unsafe { self.run_program::<_, BY_NAME>(&program, sizes, to, inputs) }
            })
        };
        shared.together(&kernel, sizes, loads, &operands, P::IN_PLACE)
    }

    /// # Safety
    /// As [`Device::map`].
    unsafe fn run_program<P: Program, const BY_NAME: bool>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match BY_NAME {
                true => self.device.map_by_name(program, sizes, outputs, inputs),
                false => self.device.map_apart(program, sizes, 0, outputs, inputs),
            }
        }
    }

    /// Runs the kernel of the tangents of a program's outputs.
    pub(super) fn run_tangents<P: Program, const BY_NAME: bool>(
        &self,
        program: &P,
        mask: u64,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        with_mask!(P::LOADS, P::OUTPUTS, false, mask, MASK => {
            let program = JvpMap::<P, MASK, false>(*program);
            // SAFETY: (1) the operands of the program and their tangents, at its sizes; (2) to (4) the
            // outputs are new memory.
            unsafe { self.run_program::<_, BY_NAME>(&program, sizes, outputs, inputs) }
        })
    }
}
