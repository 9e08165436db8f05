//! Gradients: the cases of PyTorch with recorded gradients, on a tape.
//!
//! The row of a case runs once more, with its operands on a tape. Its results are judged as those on the CPU.
//! Then the recorded gradients of the results are pulled back to the arguments. The gradient of a complex
//! result is `∂L/∂re + i ∂L/∂im`, which is pulled back through its two parts.

use crate::case::{Case, CaseDevice, Line, Out, Run, Scalar, Seen, Spec, Stop, unrun};
use crate::judge;
use crate::set::Set;
use rankform::autograd::{Gradients, Tape};
use rankform::prelude::*;
use serde_json::Value;
use std::collections::HashSet;

/// How far off a gradient may be, as a part of its own magnitude.
const RELATIVE: f64 = 1e-9;
/// The same for an operator of which the reference's slope has fewer digits.
const BUDGETS: [(&str, f64); 1] = [("nn.functional.hardsigmoid", 1e-7)]; // 1/6 in single precision
/// How far off it may be in proportion to the gradients of the results: a gradient is a sum of products with
/// them, and where these cancel only their rounding is left.
const ABSOLUTE: f64 = 1e-12;

/// The device of these cases.
pub type OnTape = Tape<Cpu>;

impl CaseDevice for OnTape {
    const EVERY_ELEMENT: bool = false;

    fn with_element<R>(_: impl FnOnce() -> Result<R, Stop>) -> Result<R, Stop> {
        unrun("another element than f64")
    }
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
pub fn check(
    set: &Set,
    json: &Value,
    (_, row): (&str, fn(&Case<OnTape>) -> Run),
) -> Result<Result<(), String>, Stop> {
    let tape = Tape::new(&Cpu);
    let case = Case::on(tape.clone(), set, json);
    let grad = &json["grad"];
    let mut arguments = Vec::new();
    tensors(&json["args"], &mut arguments);
    let names = json["order"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.for_each(|name| tensors(&json["kw"][name], &mut arguments));
    let wanted = grad["wrt"].as_array().into_iter().flatten();
    let wanted = wanted.map(|k| arguments[k.as_u64().unwrap() as usize]);
    case.variables.borrow_mut().extend(wanted.map(|argument| (argument, None)));
    let found = row(&case)?;
    if let Err(wrong) = judge::judge(&case, &found) {
        return Ok(Err(wrong));
    }
    let gradients = pulled(&case, &found)?;
    let expected = grad["g"].as_array().into_iter().flatten();
    for (k, expected) in expected.enumerate() {
        if let Some(expected) = Spec::of(expected)
            && let Err(wrong) = compare(&case, k, gradients.as_ref(), &expected)?
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
    Ok(Some(case.device.vjp(&line, &weights)?))
}

/// Compares the gradient of the `k`-th variable.
fn compare(
    case: &Case<OnTape>,
    k: usize,
    gradients: Option<&Gradients>,
    expected: &Spec,
) -> Result<Result<(), String>, Stop> {
    let variables = case.variables.borrow();
    let (argument, Some(memory)) = &variables[k] else { return unrun("a tensor that is read as numbers") };
    let spec = Spec::of(argument).map_or_else(|| unrun("not a tensor"), Ok)?;
    let storage = match gradients {
        Some(gradients) => gradients.of(memory)?.to_vec()?,
        None => vec![0.0; memory.numel()],
    };
    if expected.size != spec.size {
        return Ok(Err(format!("sizes {:?}, expected {:?}", spec.size, expected.size)));
    }
    let positions = spec.positions();
    if positions.iter().collect::<HashSet<_>>().len() < positions.len() {
        return unrun("elements that share memory");
    }
    let given: Vec<f64> = case.values(expected).into_iter().map(real).collect();
    let results = case.json["grad"]["go"].as_array().into_iter().flatten().filter_map(Spec::of);
    let scale = results.flat_map(|spec| case.values(&spec)).map(Scalar::magnitude);
    let scale = scale.chain(given.iter().map(|x| x.abs())).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let relative = BUDGETS.iter().find(|row| row.0 == case.op).map_or(RELATIVE, |row| row.1);
    for (at, (place, given)) in positions.into_iter().zip(given).enumerate() {
        let found = storage[place];
        let same = found == given || found.is_nan() && given.is_nan();
        // NaN is near nothing.
        let is_near = (found - given).abs() <= relative * given.abs() + ABSOLUTE * scale;
        if !same && !is_near {
            return Ok(Err(format!("element {at} of {:?} is {found:e}, expected {given:e}", spec.size)));
        }
    }
    Ok(Ok(()))
}
fn real(x: Scalar) -> f64 {
    if let Scalar::Real(x) = x { x } else { f64::NAN }
}
