//! The recording of operators that state their own backward pass: one step for each.
// Imports: `error`, `dtype`, `device`.

use super::backward::{Backward, BackwardFn};
use super::small_vec::SmallVec;
use super::state::{BackwardOperands, Begun, OutputType, Saved, Step, TapeState, has_gradient};
use super::tape::Tape;
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput, TypedRef};
use crate::dtype::DType;
use crate::error::Result;

/// The operands of a backward pass, without their device.
struct RuleOperands<'a> {
    inputs: &'a [TypedRef<'a>],
    result: TypedRef<'a>,
    gradient: TypedRef<'a>,
    targets: &'a [Option<TypedRef<'a>>],
}

/// The backward pass of an operator, with its types erased.
///
/// # Safety
/// An implementation reads and writes the operands alone.
unsafe trait ErasedRule: Send {
    /// # Safety
    /// 1. `inputs`, `result` and `gradient` are operands on the device, with valid elements.
    /// 2. `targets` are too, possibly uninitialized; each has one element for each index, and overlaps no
    ///    other operand.
    unsafe fn run(self: Box<Self>, operands: RuleOperands<'_>) -> Result<()>;
}

struct RuleOf<R, S, D> {
    rule: R,
    saved: S,
    device: D,
}

// SAFETY: the rule receives the operands as tensors.
unsafe impl<R: OperatorRule, D: Device> ErasedRule for RuleOf<R, R::Saved<D>, D> {
    unsafe fn run(self: Box<Self>, operands: RuleOperands<'_>) -> Result<()> {
        let RuleOf { rule, saved, device } = *self;
        let RuleOperands { inputs, result, gradient, targets } = operands;
        // SAFETY: (1) is the caller's promise.
        let operand = |operand| unsafe { RuleOperand::new(operand, &device) };
        // SAFETY: (2) is the caller's promise.
        let target = |target: &Option<_>| target.map(|target| unsafe { RuleOutput::new(target, &device) });
        let inputs: Vec<_> = inputs.iter().copied().map(operand).collect();
        let (result, gradient) = (operand(result), operand(gradient));
        let targets = targets.iter().map(target).collect();
        rule.backward::<D>(Recorded { inputs: &inputs, result, saved, gradient }, targets)
    }
}

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

/// Runs an operator. Returns its backward pass if the step is recorded.
type Forward<'a> = dyn FnMut(&[TypedRef<'_>], TypedRef<'_>, bool) -> Result<Option<Box<dyn ErasedRule>>> + 'a;

impl TapeState {
    /// Runs an operator by `forward`, and records it if its result depends on a variable.
    fn record_rule(
        &self,
        (op, reads, reads_result): Named,
        inputs: &[TypedRef<'_>],
        output: TypedRef<'_>,
        forward: &mut Forward<'_>,
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
        let Some(rule) = forward(&inner, TypedRef { slot: to[0], ..output }, is_recorded)? else {
            self.end_unrecorded(step);
            return Ok(());
        };
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
    // the layout of the result; (2) targets are new memory.
    unsafe { rule.run(RuleOperands { inputs: &inputs, result, gradient, targets: &targets })? };
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
        let inputs: Vec<_> = inputs.iter().map(|input| input.parts().0).collect();
        let named = (R::NAME, R::reads as fn(usize) -> u64, R::READS_RESULT);
        self.shared.record_rule(named, &inputs, output.parts().0, &mut |inputs, output, is_recorded| {
            let device = &self.device;
            // SAFETY: (of both) the same operands, in memory of the inner device.
            let (inputs, output): (Vec<_>, _) = unsafe {
                (
                    inputs.iter().map(|input| RuleOperand::new(*input, device)).collect(),
                    RuleOutput::new(output, device),
                )
            };
            if !is_recorded {
                return rule.forward::<D>(&inputs, output).map(|()| None);
            }
            let saved = rule.forward_and_save::<D>(&inputs, output)?;
            Ok(Some(Box::new(RuleOf { rule, saved, device: device.clone() })))
        })
    }
}
