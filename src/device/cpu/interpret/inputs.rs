//! The external inputs of a program: its operands, and the values that were prepared for a row.
// Imports: `error`, `fallible`, `scalar`.

use super::compiler::{Compiler, Value};
use crate::error::Result;
use crate::fallible::collect;
use crate::scalar::{DType, Graph, Node};

/// The element type of each operand, from the loads of the graphs.
pub(super) fn operand_types<'a>(graphs: impl Iterator<Item = &'a Graph>, reads: &[u8]) -> Result<Vec<DType>> {
    let operands = reads.iter().map(|&read| read as usize + 1).max().unwrap_or(0);
    let mut types = collect((0..operands).map(|_| DType::Bool))?;
    for (node, _, dtype) in graphs.flat_map(Graph::nodes) {
        if let Node::Input { index } = node {
            types[index] = dtype;
        }
    }
    Ok(types)
}

/// For each operand the first load that reads it, and the bytes of an element.
pub(super) fn first_loads(types: &[DType], reads: &[u8]) -> Result<Vec<(usize, usize)>> {
    let first = |k: usize| reads.iter().position(|&read| read as usize == k).unwrap_or(0);
    collect(types.iter().enumerate().map(|(k, dtype)| (first(k), dtype.size())))
}

/// The external inputs of a program: operands, then row constants. `constants` maps the number of each row
/// constant to its input.
pub(super) struct ExternalInputs<'a> {
    pub(super) types: &'a [DType],
    pub(super) operands: usize,
    pub(super) constants: &'a [usize],
}

impl ExternalInputs<'_> {
    /// The operands as values, and the row constants by their numbers.
    pub(super) fn values(&self, compiler: &mut Compiler) -> Result<(Vec<Value>, Vec<Value>)> {
        let mut inputs = compiler.externals(self.types)?;
        let constants = collect(self.constants.iter().map(|&input| inputs[self.operands + input]))?;
        inputs.truncate(self.operands);
        Ok((inputs, constants))
    }
}
