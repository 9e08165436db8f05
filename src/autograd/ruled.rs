//! The recording of operators that state their own backward pass: one step for each.
// Imports: `error`, `dtype`, `device`.

use super::backward::{Backward, BackwardFn};
use super::small_vec::SmallVec;
use super::state::{BackwardOperands, Begun, OutputType, Saved, Step, TapeState, has_gradient};
use super::tape::Tape;
use crate::device::{
    Device, ErasedRule, OperatorRule, RuleOperand, RuleOperands, RuleOutput, TypedRef, erase_rule,
};
use crate::dtype::DType;
use crate::error::Result;

/// An operand without its address.
struct OperandForm {
    sizes: SmallVec<usize>,
    dtype: DType,
}

impl OperandForm {
    fn of(operand: &TypedRef<'_>) -> Self {
        OperandForm { sizes: SmallVec::new(operand.sizes), dtype: operand.dtype }
    }
    fn at<'a>(&'a self, b: &Backward, saved: Option<&'a Saved>) -> TypedRef<'a> {
        // Nobody reads an operand that was not saved; its size in memory is that of its element.
        let unread = b.zeros(self.sizes.len(), self.dtype.size());
        let slot = saved.map_or(unread, Saved::slot);
        TypedRef { slot, sizes: &self.sizes, dtype: self.dtype }
    }
}

/// The name of an operator, the operands that the gradient of each one reads, and whether the backward pass
/// reads the result.
type Named = (&'static str, fn(usize) -> u64, bool);

impl TapeState {
    /// Runs an operator, and records it if its result depends on a variable.
    ///
    /// # Safety
    /// As [`ErasedRule::forward`], for operands of this tape.
    unsafe fn record_rule(
        &self,
        (op, reads, reads_result): Named,
        inputs: &[TypedRef<'_>],
        output: TypedRef<'_>,
        mut rule: Box<dyn ErasedRule>,
    ) -> Result<()> {
        let slots: SmallVec<_> = inputs.iter().map(|input| input.slot).collect();
        let outputs = [(output.slot, OutputType::Is(output.dtype))];
        let begun = self.begin(op, output.sizes, &slots, &outputs, &mut |active| {
            let to: SmallVec<_> =
                active.iter().map(|dtype| dtype.filter(|dtype| has_gradient(*dtype))).collect();
            let wanting = (0..to.len()).filter(|&k| to[k].is_some());
            let reads = wanting.fold(0, |mask, k| mask | reads(k));
            Ok(BackwardOperands { to, reads, reads_result })
        })?;
        let Begun { inputs: inner, outputs: to, step, is_recorded, .. } = begun;
        let inner: Vec<_> =
            inner.iter().zip(inputs).map(|(slot, input)| TypedRef { slot: *slot, ..*input }).collect();
        // SAFETY: the caller's promise; the operands are the same memory of the inner device.
        unsafe { rule.forward(&inner, TypedRef { slot: to[0], ..output }, is_recorded)? };
        if !is_recorded {
            self.end_unrecorded(step);
            return Ok(());
        }
        let forms: Vec<OperandForm> = inputs.iter().chain([&output]).map(OperandForm::of).collect();
        let backward: BackwardFn = Box::new(move |b, step| backward(b, step, &forms, rule));
        self.end(step, &[output.slot], backward);
        Ok(())
    }
}

fn backward(b: &mut Backward, step: &Step, forms: &[OperandForm], rule: Box<dyn ErasedRule>) -> Result<()> {
    let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
    let of_result = &forms[step.inputs.len()];
    let (mut places, mut inputs) = (Vec::new(), Vec::new());
    for (input, form) in step.inputs.iter().zip(forms) {
        let place = |view| Ok((view, b.place(view, &form.sizes)?));
        places.push(input.view.as_ref().map(place).transpose()?);
        inputs.push(form.at(b, input.saved.as_ref()));
    }
    let targets: Vec<_> = places
        .iter()
        .zip(&inputs)
        .map(|(place, input)| {
            place.as_ref().map(|(view, place)| TypedRef { slot: place.slot(view), ..*input })
        })
        .collect();
    let result = of_result.at(b, step.result.as_ref());
    let gradient = TypedRef { slot: gradient, ..result };
    // SAFETY: (1) saved operands have the layouts of the forward pass, all others are zeros; the gradient has
    // the layout of the result; (2) targets are memory of places.
    unsafe { rule.backward(RuleOperands { inputs: &inputs, result, gradient, targets: &targets })? };
    for (place, form) in places.into_iter().zip(forms) {
        if let Some((view, place)) = place {
            b.accept(view, &form.sizes, place)?;
        }
    }
    Ok(())
}

impl<D: Device> Tape<D> {
    /// Runs an operator on the inner device. If its result depends on a variable, it is recorded as one step.
    ///
    /// # Errors
    /// Those of the operator; [`Error::Value`](crate::Error::Value) for an operand of a recording that
    /// has ended.
    pub(super) fn record_rule<R: OperatorRule>(
        &self,
        rule: R,
        inputs: &[RuleOperand<'_, Self>],
        output: RuleOutput<'_, Self>,
    ) -> Result<()> {
        let mut operands = Vec::with_capacity(inputs.len());
        for input in inputs {
            operands.push(input.parts().0);
        }
        let named = (R::NAME, R::reads as fn(usize) -> u64, R::READS_RESULT);
        let erased = on_inner_device(rule, &self.device);
        // SAFETY: the invariants of the operands.
        unsafe { self.shared.record_rule(named, &operands, output.parts().0, erased) }
    }
}

/// The place where a rule is compiled.
enum Compiled<R, D> {
    InThisCrate(fn(R) -> Box<dyn ErasedRule>),
    ByItsUser(fn(R, &D) -> Box<dyn ErasedRule>),
}

/// A rule on the inner device; on the CPU the one that is compiled with this crate, if there is one.
fn on_inner_device<R: OperatorRule, D: Device>(rule: R, device: &D) -> Box<dyn ErasedRule> {
    // A constant, so that a function that it does not hold is not compiled.
    let compiled = const {
        match R::ON_CPU {
            Some(erase) if D::IS_CPU => Compiled::InThisCrate(erase),
            _ => Compiled::ByItsUser(erase_rule::<R, D>),
        }
    };
    match compiled {
        Compiled::InThisCrate(erase) => erase(rule),
        Compiled::ByItsUser(erase) => erase(rule, device),
    }
}
