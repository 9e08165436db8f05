//! Operands in generated source: their pointers, their types, and calls of a graph's function.
// Imports: `scalar`, `device`.

use crate::device::cuda::codegen::args::{AxesArgs, names};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::c_type;
use crate::device::{Inputs, OperandRef};
use crate::scalar::DType;

/// All operands: outputs first, then inputs.
pub(in crate::device::cuda) fn outputs_then_inputs<'a>(
    outputs: &[OperandRef<'a>],
    inputs: &[OperandRef<'a>],
) -> Vec<OperandRef<'a>> {
    outputs.iter().chain(inputs).copied().collect()
}

/// The operand that each load reads, as numbers of a key.
pub(in crate::device::cuda) fn read_key_numbers(inputs: Inputs<'_>) -> Vec<u32> {
    inputs.reads.iter().map(|&read| u32::from(read)).chain([u32::MAX]).collect()
}

/// Declares the pointers `p0…` of operands at a position, and returns the types of the operands. `operands`
/// is the index of the first address in the argument block.
pub(in crate::device::cuda) fn pointers(
    s: &mut SourceWriter,
    signature: &Signature,
    outputs: usize,
    count: usize,
    operands: usize,
    axes: AxesArgs,
    position: &str,
) -> Vec<Option<DType>> {
    let types = operand_types(signature, outputs, count);
    let own = names("b", count);
    own.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    let wanted: Vec<_> = own.iter().zip(&types).map(|(name, dtype)| dtype.map(|_| name.as_str())).collect();
    axes.offsets(s, position, &wanted);
    for (k, dtype) in types.iter().enumerate() {
        let Some(dtype) = dtype else { continue };
        let (c, constant) = (c_type(*dtype), if k < outputs { "" } else { "const " });
        s.line(format_args!("  {constant}{c}* const p{k} = ({constant}{c}*)a.v[{}] + b{k};", operands + k));
    }
    types
}

/// The arguments of a call of a graph's function: the inputs `x` and the outputs `y`.
pub(in crate::device::cuda) fn arguments(
    signature: &Signature,
    x: &dyn Fn(usize) -> String,
    y: &dyn Fn(usize) -> String,
) -> String {
    arguments_with(signature, x, &|index| format!("g{index}"), y)
}

/// As [`arguments`], with the names `g` of the given values.
pub(in crate::device::cuda) fn arguments_with(
    signature: &Signature,
    x: &dyn Fn(usize) -> String,
    g: &dyn Fn(usize) -> String,
    y: &dyn Fn(usize) -> String,
) -> String {
    let mut all = vec!["a".to_string()];
    all.extend(signature.inputs.keys().map(|&index| x(index)));
    all.extend(signature.given.keys().map(|&index| g(index)));
    all.extend((0..signature.outputs.len()).map(y));
    all.join(", ")
}

/// The types of operands in memory, outputs first; `None` for an operand that is not read.
fn operand_types(signature: &Signature, outputs: usize, count: usize) -> Vec<Option<DType>> {
    let input = |k: usize| signature.inputs.get(&k).copied();
    (0..count)
        .map(|k| if k < outputs { signature.outputs.get(k).copied() } else { input(k - outputs) })
        .collect()
}
