//! A reducer over a body as a scan uses it, compiled to bytecode.
// Imports: `error`, `fallible`, `scalar`, `kernel`.

use super::super::frame::BytecodePair;
use super::super::inputs::{first_loads, operand_types};
use super::super::operations::known;
use super::super::reduce::ReducerProgram;
use super::super::scratch::Outcome;
use crate::error::Result;
use crate::fallible::push;
use crate::kernel::{ReducerIr, RunTimeNumber};
use crate::scalar::{DType, Graph};

/// A reducer over a body in bytecode.
pub(super) struct ScanProgram {
    /// From operands to a value.
    pub(super) values: BytecodePair,
    /// From an accumulator, a value and its position to an accumulator.
    pub(super) accumulate: BytecodePair,
    pub(super) reducer: ReducerProgram,
    /// Bytes of a value and of a result.
    pub(super) value: usize,
    pub(super) out: usize,
    /// Whether the reducer uses the position of a value.
    pub(super) uses_position: bool,
    /// Whether results depend on the number of values.
    pub(super) uses_count: bool,
    /// For each operand the first load that reads it, and the bytes of an element.
    pub(super) inputs: Vec<(usize, usize)>,
    /// The number of run-time parameters.
    pub(super) params: usize,
}

/// The argument of the kernels.
pub(super) struct ScanContext<'a> {
    pub(super) program: &'static ScanProgram,
    pub(super) numbers: &'a [RunTimeNumber],
    pub(super) exclusive: bool,
    pub(super) outcome: Outcome,
}

impl ScanProgram {
    /// Compiles a reducer over a body with results of type `out`, for loads that read the operands `reads`.
    pub(super) fn new(body: &Graph, reducer: &ReducerIr, out: DType, reads: &[u8]) -> Result<ScanProgram> {
        let types = operand_types([body].into_iter(), reads)?;
        let value = known(body.outputs().next())?.0;
        let accumulate = BytecodePair::new(true, &|compiler| {
            let x = compiler.external(value)?;
            let mut given = compiler.externals(&reducer.state)?;
            push(&mut given, x)?;
            push(&mut given, compiler.external(DType::I64)?)?;
            compiler.graph(&reducer.accumulate, &[], &given, 0)
        })?;
        let functions = ReducerProgram::new(reducer, out)?;
        Ok(ScanProgram {
            values: BytecodePair::new(true, &|compiler| {
                let inputs = compiler.externals(&types)?;
                compiler.graph(body, &inputs, &[], 0)
            })?,
            uses_position: accumulate.reads(reducer.state.len() + 1),
            accumulate,
            uses_count: functions.finalize.reads(reducer.state.len()),
            reducer: functions,
            value: value.size(),
            out: out.size(),
            inputs: first_loads(&types, reads)?,
            params: body.params(),
        })
    }
}
