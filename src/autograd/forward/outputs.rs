//! Tangents of outputs: in memory of their own first, or without values.
// Imports: `error`, `dtype`, `device`.

use super::loads::{LoadOperands, MaskedKernel, run_each_mask};
use crate::autograd::backward::{Backward, Temporary};
use crate::autograd::facts::Facts;
use crate::autograd::inner::Inner;
use crate::device::OperandRef;
use crate::dtype::DType;
use crate::error::Result;

/// Memory for the tangent of each output, from which it is copied to the output later.
pub(super) struct TangentBuffers(Vec<Temporary>);

impl TangentBuffers {
    pub(super) fn new(inner: &dyn Inner, sizes: &[usize], outputs: &[OperandRef<'_>]) -> Result<Self> {
        let buffer = |slot: &OperandRef<'_>| Temporary::new(inner, sizes, slot.element);
        Ok(TangentBuffers(outputs.iter().map(buffer).collect::<Result<_>>()?))
    }
    pub(super) fn outputs(&self, facts: &Facts) -> Vec<(OperandRef<'_>, DType)> {
        self.0.iter().map(Temporary::slot).zip(facts.outputs.iter().copied()).collect()
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
    kernel: &MaskedKernel<'_>,
    sizes: &[usize],
    loads: &LoadOperands<'_>,
    outputs: &[(OperandRef<'_>, DType)],
) -> Result<()> {
    if loads.has_tangents() {
        return run_each_mask(pass, kernel, loads, &[], (sizes, sizes), outputs);
    }
    for (slot, _) in outputs {
        let zeros = pass.zeros(sizes.len(), slot.element);
        // SAFETY: (1) outputs of these sizes, and zeros are one element; (2) and (3) the caller passes memory
        // of its own.
        unsafe { pass.inner.copy(sizes, *slot, zeros)? };
    }
    Ok(())
}
