//! Forward mode of contractions: the sum of two contractions, each with the tangent of one operand.
// Imports: `error`, `element`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::add_in_place;
use super::state::Write;
use crate::autograd::backward::Buffer;
use crate::autograd::state::{OutputType, has_gradient};
use crate::device::{Device, OperandRef};
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;

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
        let sizes = [plan.batch, plan.m, plan.n].concat();
        // Operands may have more strides than the plan has axes.
        let output = OperandRef { stride: &output.stride[..sizes.len()], ..output };
        let outputs = [(output, OutputType::Is(T::DTYPE))];
        let operands = self.0.prepare(&sizes, &[left, right], &outputs, Write::Replaced, &mut |active| {
            Ok(active[0].is_some() && has_gradient(L::DTYPE) || active[1].is_some() && has_gradient(R::DTYPE))
        })?;
        let (inner, to) = (&self.0.inner, operands.outputs[0]);
        let [left, right] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: (1) to (3) are the caller's promises; the operands are the same memory of the inner device.
        unsafe { inner.contract::<T, L, R>(plan, to, left, right)? };
        let Some(tangent) = operands.output_tangents[0] else { return Ok(()) };
        let left_tangent = operands.tangents[0].filter(|_| has_gradient(L::DTYPE));
        let right_tangent = operands.tangents[1].filter(|_| has_gradient(R::DTYPE));
        if let Some(left_tangent) = left_tangent {
            // SAFETY: as above; tangents have the layouts of the operands, in memory of their own.
            unsafe { inner.contract::<T, L, R>(plan, tangent, left_tangent, right)? };
        }
        let Some(right_tangent) = right_tangent else { return Ok(()) };
        if left_tangent.is_none() {
            // SAFETY: as above.
            return unsafe { inner.contract::<T, L, R>(plan, tangent, left, right_tangent) };
        }
        let term = Buffer::<D>::new(inner, &sizes, size_of::<T>())?;
        // SAFETY: as above; the memory of the second term is new. The tangent of an output does not overlap
        // itself.
        unsafe {
            inner.contract::<T, L, R>(plan, term.slot(), left, right_tangent)?;
            add_in_place(inner, T::DTYPE, &sizes, tangent, term.slot())
        }
    }
}
