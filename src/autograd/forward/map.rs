//! Forward mode of programs: values and tangents in one kernel.
// Imports: `error`, `dtype`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{LoadOperands, MaskedKernel, depends, run, with_mask};
use super::outputs::{TangentBuffers, tangents_only};
use super::programs::{JvpMap, is_wide};
use super::rows::{self, TangentConstant};
use super::state::{JvpState, TangentOperands, WriteKind};
use crate::autograd::backward::Temporary;
use crate::autograd::facts::{Facts, facts_of};
use crate::autograd::rows::{Collect, RowConstants};
use crate::autograd::state::OutputType;
use crate::autograd::vjp::ConstantsAsLoads;
use crate::device::{Device, Init, Inputs, OperandRef};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::Program;

impl JvpState {
    fn prepare_map<'a>(
        &'a self,
        facts: &Facts,
        by_rows: bool,
        write: WriteKind,
        sizes: &[usize],
        outputs: &[OperandRef<'a>],
        inputs: Inputs<'a>,
    ) -> Result<TangentOperands<'a>> {
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
        kernel: &MaskedKernel<'_>,
        sizes: &[usize],
        loads: LoadOperands<'_>,
        operands: &TangentOperands<'_>,
        in_place: bool,
    ) -> Result<()> {
        // Outputs that are discrete have no tangent; the kernel writes zeros to memory of its own.
        let mut unused = Vec::new();
        for (slot, tangent) in operands.outputs.iter().zip(&operands.output_tangents) {
            unused.push(match tangent {
                Some(_) => None,
                None => Some(Temporary::with_content(&*self.inner, sizes, slot.element, Init::Zeroed)?),
            });
        }
        let mut outputs = Vec::with_capacity(2 * operands.outputs.len());
        for (j, slot) in operands.outputs.iter().enumerate() {
            let buffers = unused[j].as_ref().map(Temporary::slot);
            let Some(tangent) = operands.output_tangents[j].or(buffers) else { continue };
            outputs.extend([*slot, tangent]);
        }
        let mut loads = loads;
        if in_place {
            for (j, tangent) in outputs.iter().skip(1).step_by(2).enumerate() {
                loads.tangents[j] = Some(*tangent);
            }
        }
        for &mask in loads.masks(outputs.len())?.iter() {
            let slots = loads.slots(mask, outputs.len(), self.pass()?.zeros(sizes.len(), size_of::<u8>()));
            run(kernel, mask, sizes, &outputs, &slots)?;
        }
        Ok(())
    }

    /// The tangents, of some loads at a time, and then the values: for programs of so many loads that a
    /// kernel has no room for all tangents.
    fn separately(
        &self,
        kernel: &MaskedKernel<'_>,
        facts: &Facts,
        sizes: &[usize],
        loads: &LoadOperands<'_>,
        operands: &TangentOperands<'_>,
        values: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let buffers = TangentBuffers::new(&*self.inner, sizes, &operands.outputs)?;
        tangents_only(self.pass()?, kernel, sizes, loads, &buffers.outputs(facts))?;
        values()?;
        // SAFETY: the tangents have the layouts of the outputs, to which the caller has the only access.
        unsafe { buffers.copy_to(&*self.inner, sizes, &operands.output_tangents) }
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
        let write = if P::IN_PLACE { WriteKind::Updated } else { WriteKind::Replaced };
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
            let mut constants = RowConstants::<dyn TangentConstant>::new();
            let mut copy = *program;
            copy.prepare_row(&mut Collect(&mut constants, &self.device));
            let program = ConstantsAsLoads(*program);
            let kernel = |mask, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
                self.run_tangents::<_, false>(&program, mask, sizes, to, inputs)
            };
            let loads = LoadOperands::of_rows(&operands, inputs.reads);
            return rows::run(
                shared.pass()?,
                &kernel,
                constants,
                facts,
                (sizes, row),
                &loads,
                &operands,
                &values,
            );
        }
        let loads = LoadOperands::new(&operands, inputs.reads, facts);
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
