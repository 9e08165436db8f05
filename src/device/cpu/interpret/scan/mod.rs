//! Interpreted scans: the kernels that `cpu/scan` calls.
//!
//! Blocks and carried accumulators are those of compiled loops, and the results have the same bits.
// Imports: `error`, `element`, `scalar`, `kernel`, `device`.

mod columns;
mod machine;
mod program;
mod rows;

use super::cache::Cache;
use crate::device::cpu::scan::call::ScanKernel;
use crate::device::cpu::scan::run_kernel;
use crate::device::{Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{
    Body, Reducer, ReducerIr, RunTimeNumbers, ScanPlan, Store, numbers, trace_body, trace_reducer,
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
    let mut trace = || (trace_body(body, inputs.reads), trace_reducer::<B::Out, R>());
    // SAFETY: the caller's promise.
    unsafe {
        run(TypeId::of::<(B, R)>(), &mut trace, numbers(&Store(*body)), R::Out::DTYPE, plan, output, inputs)
    }
}

/// Scans the body and reducer that `trace` gives.
///
/// # Safety
/// As [`scan`].
unsafe fn run(
    types: TypeId,
    trace: &mut dyn FnMut() -> (Graph, ReducerIr),
    numbers: RunTimeNumbers,
    out: DType,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let program = PROGRAMS.get("scan", (types, 0), inputs.reads, &mut || {
        let (body, reducer) = trace();
        ScanProgram::new(&body, &reducer, out, inputs.reads)
    })?;
    let context = ScanContext { program, numbers, exclusive: plan.exclusive };
    // SAFETY: the caller's promise; the kernel was made for a `ScanContext`.
    unsafe {
        run_kernel(&ScanKernel { rows, columns }, std::ptr::from_ref(&context).cast(), plan, output, inputs)
    };
    Ok(())
}
