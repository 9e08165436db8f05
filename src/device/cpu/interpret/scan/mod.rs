//! Interpreted scans: the kernels that `cpu/scan` calls.
//!
//! Blocks and carried accumulators are those of compiled loops, and the results have the same bits.
// Imports: `error`, `element`, `scalar`, `kernel`, `device`.

mod columns;
mod machine;
mod program;
mod rows;

use super::cache::Cache;
use super::scratch::{Outcome, ScratchArena};
use crate::device::cpu::scan::call::ScanKernel;
use crate::device::cpu::scan::run_kernel;
use crate::device::{Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{
    Body, Reducer, ReducerIr, RunTimeNumber, ScanPlan, Store, numbers, trace_body, trace_reducer,
};
use crate::scalar::{DType, Graph};
use columns::columns;
use program::{ScanContext, ScanProgram};
use rows::rows;
use std::any::TypeId;

static PROGRAMS: Cache<ScanProgram> = Cache::new();

/// Scans as [`Device::scan`](crate::Device::scan) does.
///
/// # Errors
/// As [`Device::scan`](crate::Device::scan); [`Error::Value`](crate::Error::Value) if the interpreter lacks a
/// step of the program.
///
/// # Safety
/// As [`Device::scan`](crate::Device::scan).
pub(in crate::device::cpu) unsafe fn scan<B: Body, R: Reducer<B::Out>>(
    body: &B,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let mut trace = || Ok((trace_body(body, inputs.reads)?, trace_reducer::<B::Out, R>()?));
    let known = ErasedScan {
        types: TypeId::of::<(B, R)>(),
        out: R::Out::DTYPE,
        trace: &mut trace,
        numbers: &|each| numbers(&Store(*body), each),
    };
    // SAFETY: the caller's promise.
    unsafe { run(known, plan, output, inputs) }
}

/// A body and a reducer whose types are erased.
struct ErasedScan<'a> {
    types: TypeId,
    out: DType,
    trace: &'a mut dyn FnMut() -> Result<(Graph, ReducerIr)>,
    /// [`numbers`] of the body.
    numbers: &'a dyn Fn(&mut dyn FnMut(RunTimeNumber)),
}

/// Scans a body whose type is erased.
///
/// # Safety
/// As [`scan`].
unsafe fn run(
    known: ErasedScan<'_>,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let program = PROGRAMS.get((known.types, 0), inputs.reads, &mut || {
        let (body, reducer) = (known.trace)()?;
        ScanProgram::new(&body, &reducer, known.out, inputs.reads)
    })?;
    let scratch = ScratchArena::new();
    let mut numbers = scratch.list(program.params)?;
    (known.numbers)(&mut |number| numbers.push(number));
    let context =
        ScanContext { program, numbers: &numbers, exclusive: plan.exclusive, outcome: Outcome::new() };
    // SAFETY: the caller's promise; the kernel was made for a `ScanContext`.
    unsafe {
        run_kernel(&ScanKernel { rows, columns }, std::ptr::from_ref(&context).cast(), plan, output, inputs)
    };
    context.outcome.into_result()
}
