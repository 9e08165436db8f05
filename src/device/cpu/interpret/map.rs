//! Elementwise programs: the interpreted counterpart of the loops in `cpu/elementwise`, with the same
//! strategies.
// Imports: `error`, `fallible`, `scalar`, `kernel`, `device`.

use super::cache::Cache;
use super::execute::{OperandRows, RowMachine};
use super::frame::BytecodePair;
use super::inputs::{ExternalInputs, first_loads, operand_types};
use super::instructions::CHUNK_ELEMENTS;
use super::operations::known;
use super::reduce::{ROWS_AT_ONCE, ReduceProgram, ReduceRun};
use super::scratch::{List, Outcome, ScratchArena};
use crate::device::cpu::cursor::NO_OPERAND;
use crate::device::cpu::elementwise::call::{Loops, RowAdvance, RowsFn};
use crate::device::cpu::elementwise::kernel::MapKernel;
use crate::device::cpu::elementwise::{non_temporal_target, run_kernel};
use crate::device::cpu::isa::Level;
use crate::device::cpu::reduce::accumulate::BLOCK_ELEMENTS;
use crate::device::cpu::reduce::operands::RowOutput;
use crate::device::cpu::strided::Pointers;
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::fallible::{collect, push, try_box};
use crate::kernel::{
    KernelIr, Program, Recorder, RowConstant, RunTimeNumber, numbers, trace_elements, trace_program,
};
use crate::scalar::{self, DType, Graph};
use std::any::TypeId;

/// An elementwise program in bytecode.
pub(super) struct MapProgram {
    /// The programs of row constants, in order.
    row_constants: Vec<RowConstantProgram>,
    /// The program of operands and row constants.
    program: BytecodePair,
    /// For each operand the first load that reads it, and the bytes of an element.
    inputs: Vec<(usize, usize)>,
    /// Bytes of an element of each output.
    outputs: Vec<usize>,
    /// The operand of each load.
    reads: Vec<u8>,
    /// Bytes of the widest operand, output or row constant.
    widest: usize,
    /// The number of run-time parameters.
    params: usize,
    in_place: bool,
}

/// The program of a row constant, and the bytes of its value, or of each of its values.
enum RowConstantProgram {
    Reduced(Box<ReduceProgram>, usize),
    Held(Box<BytecodePair>, usize),
}

static PROGRAMS: Cache<MapProgram> = Cache::new();

/// Runs a program as [`Device::map`](crate::Device::map) does.
///
/// # Errors
/// As [`Device::map`](crate::Device::map); [`Error::Value`](crate::Error::Value) if the interpreter lacks a
/// step of the program.
///
/// # Safety
/// As [`Device::map`](crate::Device::map).
pub(in crate::device::cpu) unsafe fn map<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let known = const { &ErasedProgram::of::<P>() };
    // SAFETY: the caller's promise; the description is of this program's type.
    unsafe {
        let erased = (std::ptr::from_ref(program).cast(), program.variant());
        run(known, erased, sizes, row, outputs, inputs)
    }
}

/// [`numbers`] of a program or body whose type is erased.
pub(super) type NumbersFn = unsafe fn(*const (), &mut dyn FnMut(RunTimeNumber));

/// The description of a program whose type is erased.
struct ErasedProgram {
    id: TypeId,
    kernel: MapKernel,
    trace: ProgramTrace,
    /// [`numbers`] of a program of this type, if it has run-time parameters.
    numbers: Option<NumbersFn>,
}

impl ErasedProgram {
    const fn of<P: Program>() -> ErasedProgram {
        let first: Option<RowsFn> = if P::IN_PLACE { None } else { Some(rows::<0>) };
        let kernel = MapKernel::by::<P>(Loops {
            rows: rows::<NO_OPERAND>,
            broadcast_row: [first, Some(rows::<1>)],
            non_temporal: non_temporal_target::program_can_store_non_temporal::<P>(),
        });
        let trace = if P::BY_ROWS {
            ProgramTrace::ByRows(trace_of::<P>)
        } else {
            ProgramTrace::Elements(run_of::<P>)
        };
        let numbers: Option<NumbersFn> = if P::FIXED { None } else { Some(numbers_of::<P>) };
        ErasedProgram { id: TypeId::of::<P>(), kernel, trace, numbers }
    }
}

/// The way to trace a program: by [`trace_program`] if it prepares rows, by a run of the program otherwise,
/// which compiles to less code.
enum ProgramTrace {
    ByRows(unsafe fn(*const (), &[u8]) -> Result<KernelIr>),
    Elements(unsafe fn(*const (), &mut Recorder<'_>)),
}

impl ProgramTrace {
    /// Traces a program.
    ///
    /// # Safety
    /// `program` points to a program of the described type.
    unsafe fn write(&self, program: *const (), reads: &[u8]) -> Result<KernelIr> {
        match self {
            // SAFETY: the caller's promise.
            ProgramTrace::ByRows(trace) => unsafe { trace(program, reads) },
            ProgramTrace::Elements(run) => trace_elements(reads, &mut |recorder| {
                // SAFETY: the caller's promise.
                unsafe { run(program, recorder) };
            }),
        }
    }
}

/// # Safety
/// `program` points to a `P`.
unsafe fn trace_of<P: Program>(program: *const (), reads: &[u8]) -> Result<KernelIr> {
    // SAFETY: the caller's promise.
    trace_program(unsafe { &*program.cast::<P>() }, reads)
}

/// # Safety
/// `program` points to a `P`.
unsafe fn run_of<P: Program>(program: *const (), recorder: &mut Recorder<'_>) {
    // SAFETY: the caller's promise.
    unsafe { &*program.cast::<P>() }.run::<scalar::Trace>(recorder);
}

/// # Safety
/// `program` points to a `P`.
unsafe fn numbers_of<P: Program>(program: *const (), each: &mut dyn FnMut(RunTimeNumber)) {
    // SAFETY: the caller's promise.
    numbers(unsafe { &*program.cast::<P>() }, each);
}

/// Runs a program whose type is erased.
///
/// # Safety
/// 1. As [`map`].
/// 2. `program` points to a program of the described type and of this variant.
#[inline(never)]
unsafe fn run(
    known: &ErasedProgram,
    (program, variant): (*const (), u64),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let ErasedProgram { id, kernel, trace, numbers } = known;
    let mapped = PROGRAMS.get((*id, variant), inputs.reads, &mut || {
        // SAFETY: (2).
        MapProgram::new(&unsafe { trace.write(program, inputs.reads) }?, inputs.reads, kernel.in_place)
    })?;
    let scratch = ScratchArena::new();
    let mut list = scratch.list(mapped.params)?;
    if let Some(numbers) = numbers {
        // SAFETY: (2).
        unsafe { numbers(program, &mut |number| list.push(number)) };
    }
    let context = MapContext { mapped, numbers: &list, outcome: Outcome::new() };
    // SAFETY: (1); the kernel was made for a `MapContext`.
    unsafe { run_kernel(kernel, std::ptr::from_ref(&context).cast(), sizes, row, outputs, inputs)? };
    context.outcome.into_result()
}

impl MapProgram {
    fn new(traced: &KernelIr, reads: &[u8], in_place: bool) -> Result<MapProgram> {
        let graphs = traced.row_constants.iter().map(RowConstant::body).chain([&traced.graph]);
        let types = operand_types(graphs, reads)?;
        // Operands, then the earlier row constants. Equal row constants are computed once.
        let mut external = collect(types.iter().copied())?;
        let firsts = traced.first_equals()?;
        let (mut row_constants, mut param, mut known_constants) = (Vec::new(), 0, Vec::new());
        let write = |body: &Graph, external: &ExternalInputs<'_>, param: usize, direct: bool| {
            BytecodePair::new(direct, &|compiler| {
                let (inputs, given) = external.values(compiler)?;
                compiler.graph(body, &inputs, &given, param)
            })
        };
        for (number, one) in traced.row_constants.iter().enumerate() {
            if firsts[number] != number {
                let place = known_constants[firsts[number]];
                push(&mut known_constants, place)?;
                continue;
            }
            let here =
                ExternalInputs { types: &external, operands: types.len(), constants: &known_constants };
            let (constant, dtype) = match one {
                RowConstant::Cached { body } => {
                    let dtype = known(body.outputs().next())?.0;
                    let program = try_box(write(body, &here, param, true)?)?;
                    (RowConstantProgram::Held(program, dtype.size()), dtype)
                }
                RowConstant::Reduced { body, reducer, is_operand } => {
                    let dtype = known(reducer.finalize.outputs().next())?.0;
                    let reduction = ReduceProgram::new(body, reducer, &here, param, dtype, *is_operand)?;
                    (RowConstantProgram::Reduced(try_box(reduction)?, dtype.size()), dtype)
                }
            };
            param += one.body().params();
            push(&mut known_constants, row_constants.len())?;
            push(&mut row_constants, constant)?;
            push(&mut external, dtype)?;
        }
        let all = ExternalInputs { types: &external, operands: types.len(), constants: &known_constants };
        let program = write(&traced.graph, &all, param, !in_place)?;
        let outputs = || traced.graph.outputs().map(|(dtype, _)| dtype);
        Ok(MapProgram {
            row_constants,
            program,
            inputs: first_loads(&types, reads)?,
            outputs: collect(outputs().map(DType::size))?,
            reads: collect(reads.iter().copied())?,
            widest: external.iter().copied().chain(outputs()).map(DType::size).max().unwrap_or(0),
            params: param + traced.graph.params(),
            in_place,
        })
    }
}

/// The argument of the loops: a program, its run-time parameters, and the results of the tasks.
struct MapContext<'a> {
    mapped: &'static MapProgram,
    numbers: &'a [RunTimeNumber],
    outcome: Outcome,
}

/// The loop of an interpreted program, in place of a compiled one: see
/// [`RowsFn`](crate::device::cpu::elementwise::call::RowsFn).
///
/// # Safety
/// 1. `program` points to a [`MapContext`].
/// 2. As for every loop of this type.
unsafe fn rows<const STILL: usize>(
    _: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const RowAdvance,
) {
    // SAFETY: (1).
    let context = unsafe { &*program.cast::<MapContext<'_>>() };
    // SAFETY: (2).
    unsafe {
        let done = run_rows(context, STILL, [rows, n], pointers, &*down);
        if done.is_err() && !context.mapped.in_place {
            // The caller copies outputs from its scratch, where they must be values of their types.
            for (k, &width) in context.mapped.outputs.iter().enumerate() {
                let output = OperandRows::rows(*pointers.add(k), (*down).steps[k], width);
                (0..rows).for_each(|row| output.row(row).write_bytes(0, n * width));
            }
        }
        context.outcome.add(done);
    }
}

/// Runs a program over `rows` rows of `n` elements; load number `still` has one element for each row.
///
/// # Safety
/// As for every loop of the type [`RowsFn`].
unsafe fn run_rows(
    context: &MapContext<'_>,
    still: usize,
    [rows, n]: [usize; 2],
    pointers: *const *mut u8,
    down: &RowAdvance,
) -> Result<()> {
    let MapContext { mapped, numbers, .. } = context;
    let MapProgram { row_constants, program, inputs, outputs, reads, in_place, .. } = *mapped;
    let first = if *in_place { 0 } else { outputs.len() };
    let broadcast_operand = reads.get(still).map_or(NO_OPERAND, |&operand| operand as usize);
    // SAFETY: the caller gives a pointer and a step for each output and load; in place the first loads are
    // the outputs.
    let of = |k: usize, width: usize| unsafe { OperandRows::rows(*pointers.add(k), down.steps[k], width) };
    let read = inputs.iter().enumerate().map(|(k, &(load, width))| {
        let step = if k == broadcast_operand { 0 } else { width };
        OperandRows { step, ..of(first + load, width) }
    });
    let operands = read.chain(outputs.iter().enumerate().map(|(k, &width)| of(k, width)));
    let (scratch, count) = (ScratchArena::new(), inputs.len() + outputs.len());
    if !row_constants.is_empty() {
        let operands = scratch.list_of(count, operands)?;
        // SAFETY: the caller's promise.
        return unsafe { by_rows(mapped, numbers, &operands, rows, n) };
    }
    let most = rows.saturating_mul(n / CHUNK_ELEMENTS).max(rows);
    let mut running = RowMachine::new(&scratch, program, numbers, most, (count, mapped.widest))?;
    running.set(operands);
    // SAFETY: the caller's promise.
    let Some(target) = (unsafe { down.target.as_ref() }) else {
        // SAFETY: the caller's promise.
        unsafe { running.run(outputs.len(), rows, n) };
        return Ok(());
    };
    let mut tiles: Pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
    for (tile, output) in tiles.iter_mut().zip(&running.operands[inputs.len()..]) {
        *tile = output.at;
    }
    for row in 0..rows {
        // SAFETY: the caller's promise; the row was written to its tiles.
        unsafe {
            running.run(outputs.len(), 1, n);
            target.store_row(false, outputs.len(), row, &tiles);
        }
        running.operands.iter_mut().for_each(|operand| *operand = operand.from(1));
    }
    Ok(())
}

/// A machine for a row constant.
enum ConstantMachine<'a> {
    Reduced(Box<ReduceRun<'a>>),
    Held(Box<RowMachine<'a>>),
}

impl<'a> ConstantMachine<'a> {
    /// A machine for up to `side` rows of `n` elements of these operands, with elements of at most `widest`
    /// bytes.
    fn new(
        scratch: &'a ScratchArena,
        one: &'a RowConstantProgram,
        numbers: &'a [RunTimeNumber],
        operands: &[OperandRows],
        [side, n, widest]: [usize; 3],
    ) -> Result<Self> {
        Ok(match one {
            RowConstantProgram::Reduced(reduction, _) => {
                let widths = scratch.list_of(operands.len(), operands.iter().map(|operand| operand.width))?;
                let chunks = reduction.chunks_for(ROWS_AT_ONCE);
                let run = ReduceRun::new(scratch, reduction, numbers, &widths, chunks)?;
                ConstantMachine::Reduced(try_box(run)?)
            }
            RowConstantProgram::Held(program, _) => {
                let (most, operands) = (side * (n / CHUNK_ELEMENTS).max(1), (operands.len() + 1, widest));
                let machine = RowMachine::new(scratch, program, numbers, most, operands)?;
                ConstantMachine::Held(try_box(machine)?)
            }
        })
    }

    /// Computes the constants of `rows` rows.
    ///
    /// # Safety
    /// As [`RowMachine::run`], for the operands, and for the constants as the output.
    unsafe fn run(
        &mut self,
        operands: &[OperandRows],
        made: OperandRows,
        rows: usize,
        n: usize,
    ) -> Result<()> {
        match self {
            ConstantMachine::Reduced(run) => {
                let out = RowOutput { address: made.at, step: made.row_step, is_accumulator: false };
                // SAFETY: the caller's promise.
                unsafe { run.whole_rows(operands, rows, n, out) }
            }
            ConstantMachine::Held(running) => {
                running.set(operands.iter().copied().chain([made]));
                // SAFETY: the caller's promise.
                unsafe { running.run(1, rows, n) };
                Ok(())
            }
        }
    }
}

/// Runs a program with row constants, which are computed for several rows at a time before the program runs
/// on these rows.
///
/// # Safety
/// As [`RowMachine::run`], for the program's operands and outputs.
unsafe fn by_rows(
    mapped: &MapProgram,
    numbers: &[RunTimeNumber],
    operands: &[OperandRows],
    rows: usize,
    n: usize,
) -> Result<()> {
    let side = if n <= BLOCK_ELEMENTS { ROWS_AT_ONCE } else { 1 };
    let (inputs, outputs) = operands.split_at(mapped.inputs.len());
    let scratch = ScratchArena::new();
    let constants = mapped.row_constants.len();
    let mut here: List<'_, OperandRows> = scratch.list(operands.len() + constants)?;
    here.extend(inputs.iter().copied());
    let mut parts = Vec::new();
    for one in &mapped.row_constants {
        push(&mut parts, ConstantMachine::new(&scratch, one, numbers, &here, [side, n, mapped.widest])?)?;
        // A value for each row, or one for each element.
        let (width, pitch, step) = match *one {
            RowConstantProgram::Reduced(_, width) => (width, 16, 0),
            RowConstantProgram::Held(_, width) => (width, (n * width).next_multiple_of(64), width),
        };
        here.push(OperandRows { at: scratch.take(side * pitch)?, row_step: pitch as isize, width, step });
    }
    here.extend(outputs.iter().copied());
    let most = side * (n / CHUNK_ELEMENTS).max(1);
    let mut program = RowMachine::new(&scratch, &mapped.program, numbers, most, (here.len(), mapped.widest))?;
    for row in (0..rows).step_by(side) {
        let some = side.min(rows - row);
        for (k, operand) in inputs.iter().enumerate() {
            here[k] = operand.from(row);
        }
        for (k, part) in parts.iter_mut().enumerate() {
            let (before, made) = (&here[..inputs.len() + k], here[inputs.len() + k]);
            // SAFETY: the caller's promise; the scratch has room for the constants of so many rows.
            unsafe { part.run(before, made, some, n)? };
        }
        for (k, operand) in outputs.iter().enumerate() {
            here[inputs.len() + constants + k] = operand.from(row);
        }
        program.set(here.iter().copied());
        // SAFETY: the caller's promise; the row constants were computed above.
        unsafe { program.run(outputs.len(), some, n) };
    }
    Ok(())
}
