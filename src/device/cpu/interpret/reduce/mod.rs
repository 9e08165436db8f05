//! Interpreted reductions: the kernels that `cpu/reduce` calls, and the slice function of a reducer.
// Imports: `error`, `element`, `scalar`, `kernel`, `device`.

mod accumulate;
mod accumulators;
mod program;

pub(super) use accumulate::{ROWS_AT_ONCE, ReduceRun};
pub(super) use program::{ReduceProgram, ReducerProgram};

use super::cache::Cache;
use super::execute::OperandRows;
use super::inputs::{ExternalInputs, first_loads, operand_types};
use super::instructions::CHUNK_ELEMENTS;
use super::map::NumbersFn;
use super::scratch::{List, Outcome, ScratchArena};
use crate::device::cpu::isa::{self, Loop};
use crate::device::cpu::reduce::call::ReduceKernel;
use crate::device::cpu::reduce::operands::{ColumnStrips, EquidistantRows, STRIP_COLUMNS};
use crate::device::cpu::reduce::run_kernel;
use crate::device::{Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{
    Accumulator, Body, Input, LaneVisitor, Reducer, ReducerIr, RunTimeNumber, Store, numbers, trace_body,
    trace_reducer,
};
use crate::scalar::{DType, Eval, Graph, Lane, Prim};
use accumulators::Accumulation;
use std::any::TypeId;

/// The [`SliceFn`](crate::kernel::SliceFn) of a reducer that accumulates slices.
///
/// # Safety
/// 1. `values` holds `n` values of the compute type of `T`.
/// 2. `accumulator` has room for all lanes of an accumulator.
pub(crate) unsafe fn slice_of<T: Element, R: Reducer<T>>(
    values: *const u8,
    n: usize,
    at: usize,
    accumulator: *mut u8,
) {
    struct Slice<'a, T: Element, R>(&'a [Compute<T>], usize, std::marker::PhantomData<R>);
    impl<T: Element, R: Reducer<T>> Loop for Slice<'_, T, R> {
        type Output = R::State<Eval>;
        #[inline(always)]
        fn run(self) -> R::State<Eval> {
            R::accumulate_slice(self.0, self.1)
        }
    }
    struct LaneWriter(*mut u8);
    impl LaneVisitor<Eval> for LaneWriter {
        fn lane<P: Prim>(&mut self, lane: Lane<Eval, P>) -> Lane<Eval, P> {
            // SAFETY: (2) of `slice_of`.
            unsafe { self.0.cast::<P>().write_unaligned(lane.value()) };
            self.0 = self.0.wrapping_add(size_of::<P>());
            lane
        }
    }
    // SAFETY: (1).
    let values = unsafe { std::slice::from_raw_parts(values.cast::<Compute<T>>(), n) };
    isa::dispatch(Slice::<T, R>(values, at, std::marker::PhantomData)).each(&mut LaneWriter(accumulator));
}

/// The description of a reducer over a body whose types are erased.
struct ErasedReduction {
    id: TypeId,
    work_unit: usize,
    out: DType,
    /// Whether the values of the body are the elements of an operand, as stored in memory.
    in_memory: bool,
    trace: unsafe fn(*const (), &[u8]) -> Result<(Graph, ReducerIr)>,
    /// [`numbers`] of the body, if it has run-time parameters.
    numbers: Option<NumbersFn>,
}

impl ErasedReduction {
    fn of<B: Body, R: Reducer<B::Out>>() -> ErasedReduction {
        ErasedReduction {
            id: TypeId::of::<(B, R)>(),
            work_unit: ReduceKernel::work_unit_elements::<B, R>(),
            out: R::Out::DTYPE,
            in_memory: TypeId::of::<B>() == TypeId::of::<Input<Compute<B::Out>>>(),
            trace: trace_of::<B, R>,
            numbers: if B::FIXED { None } else { Some(numbers_of::<B>) },
        }
    }
}

/// # Safety
/// `body` points to a `B`.
unsafe fn trace_of<B: Body, R: Reducer<B::Out>>(body: *const (), reads: &[u8]) -> Result<(Graph, ReducerIr)> {
    // SAFETY: the caller's promise.
    Ok((trace_body(unsafe { &*body.cast::<B>() }, reads)?, trace_reducer::<B::Out, R>()?))
}

/// # Safety
/// `body` points to a `B`.
unsafe fn numbers_of<B: Body>(body: *const (), each: &mut dyn FnMut(RunTimeNumber)) {
    // SAFETY: the caller's promise.
    numbers(&Store(unsafe { *body.cast::<B>() }), each);
}

/// A reducer over a body, with the loads of its operands.
struct TracedReduction {
    program: ReduceProgram,
    /// For each operand the first load that reads it, and the bytes of an element.
    inputs: Vec<(usize, usize)>,
    /// The number of run-time parameters.
    params: usize,
}

/// The argument of the kernels.
struct ReduceContext<'a> {
    reduced: &'static TracedReduction,
    numbers: &'a [RunTimeNumber],
    outcome: Outcome,
}

static PROGRAMS: Cache<TracedReduction> = Cache::new();

/// Reduces as [`Device::reduce`](crate::Device::reduce) does.
///
/// # Errors
/// As [`Device::reduce`](crate::Device::reduce); [`Error::Value`](crate::Error::Value) if the interpreter
/// lacks a step of the program.
///
/// # Safety
/// As [`Device::reduce`](crate::Device::reduce).
pub(in crate::device::cpu) unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
    body: &B,
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise; the description is of this body and reducer.
    unsafe { run(&ErasedReduction::of::<B, R>(), std::ptr::from_ref(body).cast(), axes, output, inputs) }
}

/// Reduces a body whose type is erased.
///
/// # Safety
/// 1. As [`reduce`].
/// 2. `body` points to a body of the described type.
#[inline(never)]
unsafe fn run(
    known: &ErasedReduction,
    body: *const (),
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let reduced = PROGRAMS.get((known.id, 0), inputs.reads, &mut || {
        // SAFETY: (2).
        let (body, reducer) = unsafe { (known.trace)(body, inputs.reads)? };
        let types = operand_types([&body].into_iter(), inputs.reads)?;
        let external = ExternalInputs { types: &types, operands: types.len(), constants: &[] };
        let program = ReduceProgram::new(&body, &reducer, &external, 0, known.out, known.in_memory)?;
        Ok(TracedReduction { program, inputs: first_loads(&types, inputs.reads)?, params: body.params() })
    })?;
    let scratch = ScratchArena::new();
    let mut numbers = scratch.list(reduced.params)?;
    if let Some(of) = known.numbers {
        // SAFETY: (2).
        unsafe { of(body, &mut |number| numbers.push(number)) };
    }
    let context = ReduceContext { reduced, numbers: &numbers, outcome: Outcome::new() };
    let accumulation = Accumulation { program: &reduced.program, outcome: &context.outcome };
    let kernel = ReduceKernel {
        rows,
        columns: columns_of,
        accumulators: accumulation.fns(),
        work_unit: known.work_unit,
    };
    // SAFETY: (1); the kernel was made for a `ReduceContext`.
    unsafe { run_kernel(&kernel, std::ptr::from_ref(&context).cast(), axes, output, inputs)? };
    context.outcome.into_result()
}

impl ReduceContext<'_> {
    /// A run with at most `chunks` chunks of accumulators.
    fn reduction<'a>(&'a self, scratch: &'a ScratchArena, chunks: usize) -> Result<ReduceRun<'a>> {
        let inputs = &self.reduced.inputs;
        let widths = scratch.list_of(inputs.len(), inputs.iter().map(|&(_, width)| width))?;
        ReduceRun::new(scratch, &self.reduced.program, self.numbers, &widths, chunks)
    }

    /// The operands, from the pointers and steps of the loads.
    fn operands<'a>(
        &self,
        scratch: &'a ScratchArena,
        pointers: &[*mut u8],
        steps: &[isize],
    ) -> Result<List<'a, OperandRows>> {
        let inputs = &self.reduced.inputs;
        scratch.list_of(inputs.len(), inputs.iter().map(|input| OperandRows::of_load(input, pointers, steps)))
    }
}

/// # Safety
/// 1. `context` points to a [`ReduceContext`].
/// 2. As for the kernel of rows.
unsafe fn rows(context: *const (), rows: &EquidistantRows) {
    // SAFETY: (1).
    let context = unsafe { &*context.cast::<ReduceContext<'_>>() };
    let (program, scratch) = (&context.reduced.program, ScratchArena::new());
    let run = context.reduction(&scratch, program.chunks_for(rows.rows.clamp(1, ROWS_AT_ONCE)));
    let done = context.operands(&scratch, &rows.pointers, &rows.steps).and_then(|operands| {
        // SAFETY: (2).
        run.map(|mut run| unsafe { run.rows(&operands, rows.rows, rows.count, rows.at, rows.out) })
    });
    for row in 0..if done.is_err() && rows.out.is_accumulator { rows.rows } else { 0 } {
        let to = rows.out.address.wrapping_offset((row as isize).wrapping_mul(rows.out.step));
        // SAFETY: (2). The caller combines the accumulators, which must be initialized.
        unsafe { program.write_identities(to, 1) };
    }
    context.outcome.add(done);
}

/// # Safety
/// 1. `context` points to a [`ReduceContext`].
/// 2. As for the kernel of columns.
unsafe fn columns_of(context: *const (), strips: &ColumnStrips) {
    // SAFETY: (1).
    let context = unsafe { &*context.cast::<ReduceContext<'_>>() };
    let (scratch, chunks) =
        (ScratchArena::new(), strips.width.div_ceil(STRIP_COLUMNS) * STRIP_COLUMNS / CHUNK_ELEMENTS);
    let run = context.reduction(&scratch, chunks);
    context.outcome.add(context.operands(&scratch, &strips.pointers, &strips.steps).and_then(|operands| {
        // SAFETY: (2).
        run.map(|mut run| unsafe { run.columns(&operands, strips) })
    }));
}
