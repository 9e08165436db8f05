//! Gradients: the cases of PyTorch with recorded gradients, on a tape.
//!
//! The row of a case runs once more, with its operands on a tape. Its results are judged as those on the CPU
//! are. Then the recorded gradients of the results are pulled back to the arguments. The gradient of a complex
//! result is `∂L/∂re + i ∂L/∂im`, which is pulled back through its two parts.

use crate::Row;
use crate::case::{Case, CaseDevice, Line, Out, Scalar, Seen, Spec, Stop, unrun};
use crate::judge;
use crate::set::Set;
use rankform::autograd::{Gradients, Tape};
use rankform::prelude::*;
use serde_json::Value;

/// The device of these cases.
pub type OnTape = Tape<Cpu>;

impl CaseDevice for OnTape {
    const EVERY_ELEMENT: bool = false;

    fn constant<T: Seen>(&self, memory: Tensor<T, 1>) -> Result<Tensor<T, 1, Self>, Stop> {
        Ok(Tape::constant(self, &memory)?)
    }
    fn variable(&self, memory: Tensor<f64, 1>) -> Result<Tensor<f64, 1, Self>, Stop> {
        Ok(self.watch(&memory)?)
    }
    fn keep<T: Seen, const R: usize>(x: TensorView<'_, T, R, Self>) -> Option<Line<Self>> {
        T::line(x)
    }
}

/// The tensors in the arguments of a case, in their order in the file.
fn tensors<'s>(value: &'s Value, found: &mut Vec<&'s Value>) {
    match value {
        Value::Object(map) if map.contains_key("T") => found.push(value),
        Value::Object(map) => map.values().for_each(|value| tensors(value, found)),
        Value::Array(values) => values.iter().for_each(|value| tensors(value, found)),
        _ => {}
    }
}

/// Runs a case on a tape; compares its results and gradients, and describes a difference.
pub fn check(set: &Set, json: &Value, row: Row<OnTape>) -> Result<Result<(), String>, Stop> {
    let tape = Tape::new(&Cpu);
    let case = Case::on(tape.clone(), set, json);
    let grad = &json["grad"];
    let mut arguments = Vec::new();
    tensors(&json["args"], &mut arguments);
    tensors(&json["kw"], &mut arguments);
    let wanted = grad["wrt"].as_array().into_iter().flatten();
    let wanted = wanted.map(|k| arguments[k.as_u64().unwrap() as usize]);
    case.variables.borrow_mut().extend(wanted.map(|argument| (argument, None)));
    let found = row.1(&case)?;
    if let Err(wrong) = judge::judge(&case, &found) {
        return Ok(Err(wrong));
    }
    let gradients = pulled(&case, &found)?;
    let expected = grad["g"].as_array().into_iter().flatten();
    for (k, expected) in expected.enumerate() {
        if let Some(expected) = Spec::of(expected)
            && let Err(wrong) = compare(&case, k, gradients.as_ref(), &expected)
        {
            return Ok(Err(format!("the gradient of tensor {}: {wrong}", grad["wrt"][k])));
        }
    }
    Ok(Ok(()))
}

/// The gradients of all results of a case together; nothing where no result depends on a variable.
fn pulled(case: &Case<OnTape>, found: &[Out]) -> Result<Option<Gradients>, Stop> {
    let (mut lines, mut weights) = (Vec::new(), Vec::new());
    for (out, given) in found.iter().zip(case.json["grad"]["go"].as_array().into_iter().flatten()) {
        let Some(given) = Spec::of(given) else { continue };
        let line = out.kept.as_ref().and_then(|kept| kept.downcast_ref::<Line<OnTape>>());
        let Some(line) = line else { return unrun("a result without a gradient") };
        lines.push(line.as_ref().map_err(|error| Stop::Unrun(error.to_string()))?);
        for weight in case.values(&given) {
            match weight {
                Scalar::Real(x) => weights.push(x),
                Scalar::Complex(re, im) => weights.extend([re, im]),
                Scalar::Integer(_) => return unrun("a gradient of integers"),
            }
        }
    }
    let [first, others @ ..] = &lines[..] else { return unrun("no result") };
    let count = weights.len();
    let weights = Tensor::from_vec(weights, [count])?;
    let line = if others.is_empty() { first.share_data() } else { Tensor::concat(&lines, Axis::<0>)? };
    if !case.device.depends_on_variable(&line) {
        return Ok(None);
    }
    Ok(Some(case.device.pull(&line, &weights)?))
}

/// Compares the gradient of the `k`-th variable.
fn compare(
    case: &Case<OnTape>,
    k: usize,
    gradients: Option<&Gradients>,
    expected: &Spec,
) -> Result<(), String> {
    let variables = case.variables.borrow();
    let (argument, memory) = &variables[k];
    let spec = Spec::of(argument).ok_or("not a tensor")?;
    let storage = match (gradients, memory) {
        (Some(gradients), Some(memory)) => {
            gradients.of(memory).and_then(|gradient| gradient.to_vec()).map_err(|error| error.to_string())?
        }
        _ => vec![0.0; case.set.storages[spec.storage].2],
    };
    if expected.size != spec.size {
        return Err(format!("sizes {:?}, expected {:?}", spec.size, expected.size));
    }
    let real = |x: Scalar| if let Scalar::Real(x) = x { x } else { f64::NAN };
    let given: Vec<f64> = case.values(expected).into_iter().map(real).collect();
    let largest = given.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()));
    for (at, (place, given)) in spec.positions().into_iter().zip(given).enumerate() {
        let found = storage[place];
        let same = found == given || found.is_nan() && given.is_nan();
        // Terms of a sum cancel: rounding is in proportion to the largest of the gradient.
        if !same && !((found - given).abs() <= RELATIVE * given.abs() + ABSOLUTE * largest) {
            return Err(format!("element {at} of {:?} is {found:e}, expected {given:e}", spec.size));
        }
    }
    Ok(())
}
/// How far off a gradient may be, as a part of its own magnitude.
const RELATIVE: f64 = 1e-9;
/// How far off it may be as a part of the largest magnitude in its tensor.
const ABSOLUTE: f64 = 1e-12;
