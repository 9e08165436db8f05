//! A reducer over a body, compiled to bytecode.
// Imports: `error`, `fallible`, `scalar`, `kernel`, `device`.

use super::super::compiler::{Compiler, Value, padded_to_16};
use super::super::frame::{BytecodePair, Machine};
use super::super::inputs::ExternalInputs;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::operations::known;
use super::super::scratch::ScratchArena;
use crate::device::cpu::reduce::accumulate::accumulator_count_of;
use crate::error::Result;
use crate::fallible::{collect, push, try_collect};
use crate::kernel::{ReducerIr, SliceFn};
use crate::scalar::{DType, Graph, Node};

/// A reducer over a body in bytecode.
pub(crate) struct ReduceProgram {
    /// From external inputs, an accumulator and the position of a value to an accumulator.
    pub(crate) accumulate: BytecodePair,
    pub(crate) reducer: ReducerProgram,
    /// For a reducer that accumulates slices: the program of the values, unless they are an operand's
    /// elements, and the reducer's slice function.
    pub(crate) values: Option<BytecodePair>,
    pub(crate) slice: Option<SliceFn>,
    /// The operand whose elements are the values, if they are an operand's.
    pub(crate) operand: usize,
    /// Bytes of a compiled accumulator, whose lanes follow each other in memory.
    pub(crate) size: usize,
    /// Bytes of a value and of a result.
    pub(crate) value: usize,
    pub(crate) out: usize,
    /// Parallel accumulators of a row; then whether the reducer uses the position of a value.
    pub(crate) accumulators_per_row: usize,
    pub(crate) counts: bool,
}

impl ReduceProgram {
    /// Compiles a reducer over a body, whose run-time parameters are numbered from `param` on. The result is
    /// of type `out`. `in_memory` means that the values are the elements of an operand.
    pub(crate) fn new(
        body: &Graph,
        reducer: &ReducerIr,
        external: &ExternalInputs<'_>,
        param: usize,
        out: DType,
        in_memory: bool,
    ) -> Result<ReduceProgram> {
        let slice = reducer.slice;
        let values = |compiler: &mut Compiler| -> Result<Value> {
            let (inputs, given) = external.values(compiler)?;
            known(compiler.graph(body, &inputs, &given, param)?.first().copied())
        };
        let accumulate = BytecodePair::new(true, &|compiler| {
            let value = values(compiler)?;
            let mut given = compiler.externals(&reducer.state)?;
            push(&mut given, value)?;
            push(&mut given, compiler.external(DType::I64)?)?;
            compiler.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        Ok(ReduceProgram {
            counts: accumulate.reads(external.types.len() + reducer.state.len()),
            accumulate,
            reducer: ReducerProgram::new(reducer, out)?,
            values: match slice {
                Some(_) if !in_memory => {
                    Some(BytecodePair::new(true, &|compiler| try_collect([values(compiler)]))?)
                }
                _ => None,
            },
            slice,
            operand: body
                .nodes()
                .find_map(|(node, _, _)| if let Node::Input { index } = node { Some(index) } else { None })
                .unwrap_or(0),
            size: reducer.nbytes,
            value: known(body.outputs().next())?.0.size(),
            out: out.size(),
            accumulators_per_row: accumulator_count_of(reducer.nbytes),
        })
    }

    /// Chunks for the accumulators of `lines` rows.
    pub(crate) fn chunks_for(&self, lines: usize) -> usize {
        lines * self.accumulators_per_row / CHUNK_ELEMENTS
    }
}

/// The functions of a reducer that do not depend on its values, in bytecode.
pub(crate) struct ReducerProgram {
    /// From two accumulators to one.
    pub(crate) combine: BytecodePair,
    /// From an accumulator and the number of values to a result.
    pub(crate) finalize: BytecodePair,
    pub(crate) identity: Vec<[u8; 16]>,
    /// Bytes of each lane of an accumulator.
    pub(crate) widths: Vec<usize>,
}

impl ReducerProgram {
    /// Compiles a reducer with results of type `out`.
    pub(crate) fn new(reducer: &ReducerIr, out: DType) -> Result<ReducerProgram> {
        let one = BytecodePair::new(false, &|compiler| compiler.graph(&reducer.identity, &[], &[], 0))?;
        Ok(ReducerProgram {
            combine: BytecodePair::new(true, &|compiler| {
                let states = [compiler.externals(&reducer.state)?, compiler.externals(&reducer.state)?];
                compiler.graph(&reducer.combine, &[], &collect(states.into_iter().flatten())?, 0)
            })?,
            finalize: BytecodePair::new(true, &|compiler| {
                let mut given = compiler.externals(&reducer.state)?;
                push(&mut given, compiler.external(DType::I64)?)?;
                let value = known(compiler.graph(&reducer.finalize, &[], &given, 0)?.first().copied())?;
                try_collect([compiler.cast(value, out)])
            })?,
            identity: constants(&one, &reducer.state)?,
            widths: collect(reducer.state.iter().map(|dtype| dtype.size()))?,
        })
    }
}

/// The outputs of a program without operands.
fn constants(program: &BytecodePair, types: &[DType]) -> Result<Vec<[u8; 16]>> {
    let scratch = ScratchArena::new();
    let mut places = scratch.list(types.len())?;
    for _ in types {
        let address = scratch.take(16 * CHUNK_ELEMENTS)?;
        places.push(RegisterRef { address, chunk_step: 0, row_step: 0 });
    }
    // SAFETY: each output has room for a chunk.
    unsafe { Machine::exactly(&scratch, program, &[], 1)?.run(&places, 1, 1) };
    let first = |(place, dtype): (&RegisterRef, &DType)| {
        // SAFETY: the program wrote the first value of each output above.
        padded_to_16(unsafe { std::slice::from_raw_parts(place.address, dtype.size()) })
    };
    collect(places.iter().zip(types).map(first))
}
