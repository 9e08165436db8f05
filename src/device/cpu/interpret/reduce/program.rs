//! A reducer over a body, compiled to bytecode.
// Imports: `scalar`, `kernel`, `device`.

use super::super::compiler::{Compiler, Value, padded_to_16};
use super::super::frame::{BytecodePair, Machine, NO_NUMBERS};
use super::super::inputs::ExternalInputs;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{ScratchArena, ScratchMemory};
use crate::device::cpu::reduce::accumulate::accumulator_count_of;
use crate::kernel::{ReducerIr, SliceFn};
use crate::scalar::{DType, Graph, Node};

/// A reducer over a body in bytecode.
pub(crate) struct ReduceProgram {
    /// From external inputs, an accumulator and the position of a value to an accumulator.
    pub(crate) accumulate: BytecodePair,
    /// From two accumulators to one.
    pub(crate) combine: BytecodePair,
    /// From an accumulator and the number of values to a result.
    pub(crate) finalize: BytecodePair,
    /// For a reducer that accumulates slices: the program of the values, unless they are an operand's
    /// elements, and the reducer's slice function.
    pub(crate) values: Option<BytecodePair>,
    pub(crate) slice: Option<SliceFn>,
    /// The operand whose elements are the values, if they are an operand's.
    pub(crate) operand: usize,
    pub(crate) identity: Vec<[u8; 16]>,
    /// Bytes of a compiled accumulator, and of each of its lanes, which follow each other in memory.
    pub(crate) size: usize,
    pub(crate) widths: Vec<usize>,
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
    ) -> Option<ReduceProgram> {
        let slice = reducer.slice;
        let accumulator = |compiler: &mut Compiler| -> Vec<Value> {
            reducer.state.iter().map(|&dtype| compiler.external(dtype, false)).collect()
        };
        let values = |compiler: &mut Compiler| -> Option<Value> {
            let (inputs, given) = external.values(compiler);
            compiler.graph(body, &inputs, &given, param)?.first().copied()
        };
        let one = BytecodePair::new(false, &|compiler| compiler.graph(&reducer.identity, &[], &[], 0))?;
        let identity = constants(&one, &reducer.state);
        let accumulate = BytecodePair::new(true, &|compiler| {
            let value = values(compiler)?;
            let mut given = accumulator(compiler);
            given.push(value);
            given.push(compiler.external(DType::I64, false));
            compiler.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        Some(ReduceProgram {
            counts: accumulate.reads(external.types.len() + reducer.state.len()),
            accumulate,
            combine: BytecodePair::new(true, &|compiler| {
                let mut given = accumulator(compiler);
                given.extend(accumulator(compiler));
                compiler.graph(&reducer.combine, &[], &given, 0)
            })?,
            finalize: BytecodePair::new(true, &|compiler| {
                let mut given = accumulator(compiler);
                given.push(compiler.external(DType::I64, false));
                let value = compiler.graph(&reducer.finalize, &[], &given, 0)?.first().copied()?;
                Some(vec![compiler.cast(value, out)?])
            })?,
            values: match slice {
                Some(_) if !in_memory => {
                    Some(BytecodePair::new(true, &|compiler| Some(vec![values(compiler)?]))?)
                }
                _ => None,
            },
            slice,
            operand: body
                .nodes()
                .find_map(|(node, _, _)| if let Node::Input { index } = node { Some(index) } else { None })
                .unwrap_or(0),
            identity,
            size: reducer.nbytes,
            widths: reducer.state.iter().map(|dtype| dtype.size()).collect(),
            value: body.outputs().next()?.0.size(),
            out: out.size(),
            accumulators_per_row: accumulator_count_of(reducer.nbytes),
        })
    }

    /// Chunks for the accumulators of `lines` rows.
    pub(crate) fn chunks_for(&self, lines: usize) -> usize {
        lines * self.accumulators_per_row / CHUNK_ELEMENTS
    }
}

/// The outputs of a program without operands.
pub(crate) fn constants(program: &BytecodePair, types: &[DType]) -> Vec<[u8; 16]> {
    let mut memory = ScratchMemory::new(types.len() * 16 * CHUNK_ELEMENTS);
    let mut room = ScratchArena::new(&mut memory);
    let places: Vec<RegisterRef> = types
        .iter()
        .map(|_| RegisterRef { address: room.take(16 * CHUNK_ELEMENTS), chunk_step: 0, row_step: 0 })
        .collect();
    // SAFETY: each output has room for a chunk.
    unsafe { Machine::exactly(program, &NO_NUMBERS, 1).run(&places, 1, 1) };
    let first = |(place, dtype): (&RegisterRef, &DType)| {
        // SAFETY: the program wrote the first value of each output above.
        padded_to_16(unsafe { std::slice::from_raw_parts(place.address, dtype.size()) })
    };
    places.iter().zip(types).map(first).collect()
}
