//! Operators that state their own backward pass on one device, with their types erased.
// Imports: `dtype`, `error`, `element`, `device`.

use super::operator_rule::{ErasedRule, RuleOperands};
use super::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput, TypedRef};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Result;

/// The rank up to which rules are compiled with this crate. They have this rank: operands of a lower one have
/// more axes of size 1 before their own.
pub(crate) const COMPILED_RANK: usize = 4;

/// Whether a rule for operands of this element and rank is compiled with this crate.
pub(crate) const fn is_compiled<T: Element>(rank: usize) -> bool {
    matches!(T::DTYPE, DType::F32) && T::PLAIN && rank <= COMPILED_RANK
}

/// A rule with its device and its saved values.
struct RuleOn<R, S, D> {
    rule: R,
    saved: S,
    device: D,
}

/// Erases the types of a rule on a device.
pub(crate) fn erase_rule<R: OperatorRule, D: Device>(rule: R, device: &D) -> Box<dyn ErasedRule> {
    Box::new(RuleOn::<R, R::Saved<D>, D> { rule, saved: Default::default(), device: device.clone() })
}

// SAFETY: the rule receives the operands as tensors.
unsafe impl<R: OperatorRule, D: Device> ErasedRule for RuleOn<R, R::Saved<D>, D> {
    unsafe fn forward(&mut self, inputs: &[TypedRef<'_>], output: TypedRef<'_>, saves: bool) -> Result<()> {
        // SAFETY: (of both) (1) and (2) are the caller's promises.
        let (inputs, output) =
            unsafe { (operands_on(inputs, &self.device), RuleOutput::new(output, &self.device)) };
        if !saves {
            return self.rule.forward::<D>(&inputs, output);
        }
        self.saved = self.rule.forward_and_save::<D>(&inputs, output)?;
        Ok(())
    }

    unsafe fn backward(self: Box<Self>, operands: RuleOperands<'_>) -> Result<()> {
        let RuleOn { rule, saved, device } = *self;
        let mut targets = Vec::with_capacity(operands.targets.len());
        for &target in operands.targets {
            // SAFETY: (2) is the caller's promise.
            targets.push(target.map(|target| unsafe { RuleOutput::new(target, &device) }));
        }
        // SAFETY: (1) is the caller's promise.
        let (inputs, result, gradient) = unsafe {
            (
                operands_on(operands.inputs, &device),
                RuleOperand::new(operands.result, &device),
                RuleOperand::new(operands.gradient, &device),
            )
        };
        rule.backward::<D>(Recorded { inputs: &inputs, result, saved, gradient }, targets)
    }
}

/// Operands that are read, on their device.
///
/// # Safety
/// The invariant of [`RuleOperand`].
unsafe fn operands_on<'a, D>(operands: &[TypedRef<'a>], device: &'a D) -> Vec<RuleOperand<'a, D>> {
    let mut on_device = Vec::with_capacity(operands.len());
    for &operand in operands {
        // SAFETY: the caller's promise.
        on_device.push(unsafe { RuleOperand::new(operand, device) });
    }
    on_device
}
