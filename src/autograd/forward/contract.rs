//! Forward mode of contractions: the sum of two contractions, each with the tangent of one operand.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::state::{JvpState, WriteKind};
use crate::autograd::backward::Temporary;
use crate::autograd::state::{OutputType, has_gradient};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;

impl JvpState {
    /// Runs `contract` on the output and both operands of the inner device, of the element types `dtypes`,
    /// and for the tangents.
    fn contract(
        &self,
        dtypes: [DType; 3],
        plan: ContractPlan<'_>,
        [output, left, right]: [OperandRef<'_>; 3],
        contract: &dyn Fn(OperandRef<'_>, OperandRef<'_>, OperandRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let sizes = [plan.batch, plan.m, plan.n].concat();
        // Operands may have more strides than the plan has axes.
        let output = OperandRef { stride: &output.stride[..sizes.len()], ..output };
        let outputs = [(output, OutputType::Is(dtypes[0]))];
        let moves = [has_gradient(dtypes[1]), has_gradient(dtypes[2])];
        let operands =
            self.prepare(&sizes, &[left, right], &outputs, WriteKind::Replaced, &mut |active| {
                Ok(moves[0] && active[0].is_some() || moves[1] && active[1].is_some())
            })?;
        let [left, right] = [operands.inputs[0], operands.inputs[1]];
        contract(operands.outputs[0], left, right)?;
        let Some(tangent) = operands.output_tangents[0] else { return Ok(()) };
        match [0, 1].map(|k| operands.tangents[k].filter(|_| moves[k])) {
            [Some(left_tangent), Some(right_tangent)] => {
                contract(tangent, left_tangent, right)?;
                let term = Temporary::new(&*self.inner, &sizes, output.element)?;
                contract(term.slot(), left, right_tangent)?;
                // SAFETY: (1) both have these sizes; (2) and (3) the output of a kernel overlaps neither
                // itself nor new memory; (4) the caller of the kernel has the only access to its output.
                unsafe { self.inner.add(dtypes[0], &sizes, tangent, term.slot()) }
            }
            [Some(left_tangent), None] => contract(tangent, left_tangent, right),
            [None, Some(right_tangent)] => contract(tangent, left, right_tangent),
            [None, None] => Ok(()),
        }
    }
}

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::contract`].
    pub(super) unsafe fn contract_with_tangents<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        let dtypes = [T::DTYPE, L::DTYPE, R::DTYPE];
        self.shared.contract(dtypes, plan, [output, left, right], &|output, left, right| {
            // SAFETY: (1) to (3) are the caller's promises; the operands are the same memory of the inner
            // device, or tangents, which have the layouts of the operands in memory of their own.
            unsafe { self.device.contract::<T, L, R>(plan, output, left, right) }
        })
    }
}
