//! A reducer over a body as a scan uses it, compiled to bytecode.
// Imports: `scalar`, `kernel`.

use super::super::compiler::{Compiler, Value};
use super::super::frame::BytecodePair;
use super::super::inputs::{first_loads, operand_types};
use super::super::reduce::constants;
use crate::kernel::{ReducerIr, RunTimeNumbers};
use crate::scalar::{DType, Graph};

/// A reducer over a body in bytecode.
pub(super) struct ScanProgram {
    /// From operands to a value.
    pub(super) values: BytecodePair,
    /// From an accumulator, a value and its position to an accumulator.
    pub(super) accumulate: BytecodePair,
    /// From two accumulators to one.
    pub(super) combine: BytecodePair,
    /// From an accumulator and its number of values to a result.
    pub(super) finalize: BytecodePair,
    pub(super) identity: Vec<[u8; 16]>,
    /// Bytes of each lane of an accumulator, of a value and of a result.
    pub(super) widths: Vec<usize>,
    pub(super) value: usize,
    pub(super) out: usize,
    /// Whether the reducer uses the position of a value.
    pub(super) uses_position: bool,
    /// Whether results depend on the number of values.
    pub(super) uses_count: bool,
    /// For each operand the first load that reads it, and the bytes of an element.
    pub(super) inputs: Vec<(usize, usize)>,
}

/// The argument of the kernels.
pub(super) struct ScanContext {
    pub(super) program: &'static ScanProgram,
    pub(super) numbers: RunTimeNumbers,
    pub(super) exclusive: bool,
}

impl ScanProgram {
    /// Compiles a reducer over a body with results of type `out`, for loads that read the operands `reads`.
    pub(super) fn new(body: &Graph, reducer: &ReducerIr, out: DType, reads: &[u8]) -> Option<ScanProgram> {
        let types = operand_types([body].into_iter(), reads);
        let value = body.outputs().next()?.0;
        let accumulator = |compiler: &mut Compiler| -> Vec<Value> {
            reducer.state.iter().map(|&dtype| compiler.external(dtype, false)).collect()
        };
        let identity = BytecodePair::new(false, &|compiler| compiler.graph(&reducer.identity, &[], &[], 0))?;
        let accumulate = BytecodePair::new(true, &|compiler| {
            let x = compiler.external(value, false);
            let mut given = accumulator(compiler);
            given.extend([x, compiler.external(DType::I64, false)]);
            compiler.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        let finalize = BytecodePair::new(true, &|compiler| {
            let mut given = accumulator(compiler);
            given.push(compiler.external(DType::I64, false));
            let value = compiler.graph(&reducer.finalize, &[], &given, 0)?.first().copied()?;
            Some(vec![compiler.cast(value, out)?])
        })?;
        Some(ScanProgram {
            values: BytecodePair::new(true, &|compiler| {
                let inputs: Vec<Value> = types.iter().map(|&dtype| compiler.external(dtype, false)).collect();
                compiler.graph(body, &inputs, &[], 0)
            })?,
            uses_position: accumulate.reads(reducer.state.len() + 1),
            accumulate,
            combine: BytecodePair::new(true, &|compiler| {
                let mut given = accumulator(compiler);
                given.extend(accumulator(compiler));
                compiler.graph(&reducer.combine, &[], &given, 0)
            })?,
            uses_count: finalize.reads(reducer.state.len()),
            finalize,
            identity: constants(&identity, &reducer.state),
            widths: reducer.state.iter().map(|dtype| dtype.size()).collect(),
            value: value.size(),
            out: out.size(),
            inputs: first_loads(&types, reads),
        })
    }
}
