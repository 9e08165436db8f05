//! Elementwise programs: the interpreted counterpart of the loops in `cpu/elementwise`, with the same strategies.
// Imports: `error`, `scalar`, `kernel`, `device`.

use super::cache::Cache;
use super::execute::{Operand, run_rows};
use super::frame::{BytecodePair, Machine};
use super::inputs::{ExternalInputs, first_loads, operand_types};
use super::instructions::CHUNK_ELEMENTS;
use super::reduce::{ROWS_AT_ONCE, ReduceProgram, ReduceRun};
use super::scratch::{ScratchArena, ScratchMemory};
use crate::device::cpu::cursor::NO_OPERAND;
use crate::device::cpu::elementwise::call::{Loops, RowAdvance, RowsFn};
use crate::device::cpu::elementwise::kernel::MapKernel;
use crate::device::cpu::elementwise::{run_kernel, stream_target};
use crate::device::cpu::isa::Level;
use crate::device::cpu::reduce::accumulate::BLOCK_ELEMENTS;
use crate::device::cpu::reduce::operands::Output;
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{
    KernelIr, Program, Recorder, RowConstant, RunTimeNumbers, numbers, trace_elements, trace_program,
};
use crate::scalar::{self, Graph};
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

/// The description of a program whose type is erased.
struct ErasedProgram {
    id: TypeId,
    kernel: MapKernel,
    trace: Trace,
    /// [`numbers`] of a program of this type, if it has run-time parameters.
    numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers>,
}

impl ErasedProgram {
    const fn of<P: Program>() -> ErasedProgram {
        let first: Option<RowsFn> = if P::IN_PLACE { None } else { Some(rows::<0>) };
        let numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers> =
            if P::FIXED { None } else { Some(numbers_of::<P>) };
        let kernel = MapKernel::by::<P>(Loops {
            rows: rows::<NO_OPERAND>,
            broadcast_row: [first, Some(rows::<1>)],
            streaming: stream_target::program_can_stream::<P>(),
        });
        let trace = if P::BY_ROWS { Trace::ByRows(trace_of::<P>) } else { Trace::Elements(run_of::<P>) };
        ErasedProgram { id: TypeId::of::<P>(), kernel, trace, numbers }
    }
}

/// The way to trace a program: by [`trace_program`] if it prepares rows, by a run of the program otherwise,
/// which compiles to less code.
enum Trace {
    ByRows(unsafe fn(*const (), &[u8]) -> KernelIr),
    Elements(unsafe fn(*const (), &mut Recorder<'_>)),
}

impl Trace {
    /// Traces a program.
    ///
    /// # Safety
    /// `program` points to a program of the described type.
    unsafe fn write(&self, program: *const (), reads: &[u8]) -> KernelIr {
        match self {
            // SAFETY: the caller's promise.
            Trace::ByRows(trace) => unsafe { trace(program, reads) },
            Trace::Elements(run) => trace_elements(reads, &mut |recorder| {
                // SAFETY: the caller's promise.
                unsafe { run(program, recorder) };
            }),
        }
    }
}

/// # Safety
/// `program` points to a `P`.
unsafe fn trace_of<P: Program>(program: *const (), reads: &[u8]) -> KernelIr {
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
unsafe fn numbers_of<P: Program>(program: *const ()) -> RunTimeNumbers {
    // SAFETY: the caller's promise.
    numbers(unsafe { &*program.cast::<P>() })
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
    let mapped = PROGRAMS.get("map", (*id, variant), inputs.reads, &mut || {
        // SAFETY: (2).
        MapProgram::new(&unsafe { trace.write(program, inputs.reads) }, inputs.reads, kernel.in_place)
    })?;
    // SAFETY: (2).
    let numbers = numbers.map_or_else(RunTimeNumbers::new, |numbers| unsafe { numbers(program) });
    let context = MapContext { mapped, numbers };
    // SAFETY: (1); the kernel was made for a `MapContext`.
    unsafe { run_kernel(kernel, std::ptr::from_ref(&context).cast(), sizes, row, outputs, inputs) }
}

impl MapProgram {
    fn new(traced: &KernelIr, reads: &[u8], in_place: bool) -> Option<MapProgram> {
        let types =
            operand_types(traced.row_constants.iter().map(RowConstant::body).chain([&traced.graph]), reads);
        // Operands, then the earlier row constants. Equal row constants are computed once.
        let mut external = types.clone();
        let firsts = traced.first_equals();
        let (mut row_constants, mut param, mut known_constants) = (Vec::new(), 0, Vec::new());
        let write = |body: &Graph, external: &ExternalInputs<'_>, param: usize, direct: bool| {
            BytecodePair::new(direct, &|compiler| {
                let (inputs, given) = external.values(compiler);
                compiler.graph(body, &inputs, &given, param)
            })
        };
        for (number, one) in traced.row_constants.iter().enumerate() {
            if firsts[number] != number {
                known_constants.push(known_constants[firsts[number]]);
                continue;
            }
            let here =
                ExternalInputs { types: &external, operands: types.len(), constants: &known_constants };
            let (constant, dtype) = match one {
                RowConstant::Cached { body } => {
                    let dtype = body.outputs().next()?.0;
                    (
                        RowConstantProgram::Held(Box::new(write(body, &here, param, true)?), dtype.size()),
                        dtype,
                    )
                }
                RowConstant::Reduced { body, reducer, is_operand } => {
                    let dtype = reducer.finalize.outputs().next()?.0;
                    let reduction = ReduceProgram::new(body, reducer, &here, param, dtype, *is_operand)?;
                    (RowConstantProgram::Reduced(Box::new(reduction), dtype.size()), dtype)
                }
            };
            param += one.body().params();
            known_constants.push(row_constants.len());
            row_constants.push(constant);
            external.push(dtype);
        }
        let all = ExternalInputs { types: &external, operands: types.len(), constants: &known_constants };
        let program = write(&traced.graph, &all, param, !in_place)?;
        Some(MapProgram {
            row_constants,
            program,
            inputs: first_loads(&types, reads),
            outputs: traced.graph.outputs().map(|(dtype, _)| dtype.size()).collect(),
            reads: reads.to_vec(),
            in_place,
        })
    }
}

/// The argument of the loops: a program and its run-time parameters.
struct MapContext {
    mapped: &'static MapProgram,
    numbers: RunTimeNumbers,
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
    let MapContext { mapped, numbers } = unsafe { &*program.cast::<MapContext>() };
    let MapProgram { row_constants, program, inputs, outputs, reads, in_place } = *mapped;
    let first = if *in_place { 0 } else { outputs.len() };
    let broadcast_operand = reads.get(STILL).map_or(NO_OPERAND, |&operand| operand as usize);
    // SAFETY: (2) gives a pointer and a step for each output and load; in place the first loads are the
    // outputs.
    let of = |k: usize, width: usize, is_broadcast: bool| unsafe {
        Operand { at: *pointers.add(k), row_step: (*down).steps[k], width, is_broadcast }
    };
    let read =
        inputs.iter().enumerate().map(|(k, &(load, width))| of(first + load, width, k == broadcast_operand));
    let operands: Vec<Operand> =
        read.chain(outputs.iter().enumerate().map(|(k, &width)| of(k, width, false))).collect();
    if row_constants.is_empty() {
        let mut running = Machine::new(program, numbers, rows.saturating_mul(n / CHUNK_ELEMENTS).max(rows));
        // SAFETY: (2).
        if let Some(stream) = unsafe { (*down).stream.as_ref() } {
            let tiles: Vec<*mut u8> = operands[inputs.len()..].iter().map(|output| output.at).collect();
            for row in 0..rows {
                let here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
                // SAFETY: (2); the row was written to its tiles.
                unsafe {
                    run_rows(&mut running, &here, outputs.len(), 1, n);
                    stream.store_row(false, outputs.len(), row, &tiles);
                }
            }
            return;
        }
        // SAFETY: (2).
        return unsafe { run_rows(&mut running, &operands, outputs.len(), rows, n) };
    }
    // SAFETY: (2).
    unsafe { by_rows(mapped, numbers, &operands, rows, n) };
}

/// A machine for a row constant.
enum RowPreparation<'a> {
    Reduced(Box<ReduceRun<'a>>),
    Held(Machine<'a>),
}

/// Runs a program with row constants, which are computed for several rows at a time before the program runs
/// on these rows.
///
/// # Safety
/// As [`run_rows`], for the program's operands and outputs.
unsafe fn by_rows(
    mapped: &MapProgram,
    numbers: &RunTimeNumbers,
    operands: &[Operand],
    rows: usize,
    n: usize,
) {
    let side = if n <= BLOCK_ELEMENTS { ROWS_AT_ONCE } else { 1 };
    let (inputs, outputs) = operands.split_at(mapped.inputs.len());
    let mut widths: Vec<usize> = inputs.iter().map(|operand| operand.width).collect();
    let mut total = 0;
    let mut parts = Vec::with_capacity(mapped.row_constants.len());
    for one in &mapped.row_constants {
        let (part, width, nbytes) = match one {
            RowConstantProgram::Reduced(reduction, width) => {
                let run = ReduceRun::new(reduction, numbers, &widths, reduction.chunks_for(ROWS_AT_ONCE));
                (RowPreparation::Reduced(Box::new(run)), *width, side * 16)
            }
            RowConstantProgram::Held(program, width) => (
                RowPreparation::Held(Machine::new(program, numbers, side * (n / CHUNK_ELEMENTS).max(1))),
                *width,
                side * (n * width + 64),
            ),
        };
        parts.push(part);
        widths.push(width);
        total += nbytes + 64;
    }
    let mut program = Machine::new(&mapped.program, numbers, side * (n / CHUNK_ELEMENTS).max(1));
    let mut memory = ScratchMemory::new(total);
    for row in (0..rows).step_by(side) {
        let some = side.min(rows - row);
        let mut room = ScratchArena::new(&mut memory);
        let mut here: Vec<Operand> = inputs.iter().map(|operand| operand.from(row)).collect();
        for (part, one) in parts.iter_mut().zip(&mapped.row_constants) {
            let made = match (part, one) {
                (RowPreparation::Reduced(run), RowConstantProgram::Reduced(_, width)) => {
                    let made =
                        Operand { at: room.take(side * 16), row_step: 16, width: *width, is_broadcast: true };
                    // SAFETY: the caller's promise; the scratch has room for a value of each row.
                    unsafe {
                        run.whole_rows(
                            &here,
                            some,
                            n,
                            Output { address: made.at, step: made.row_step, is_accumulator: false },
                        )
                    };
                    made
                }
                (RowPreparation::Held(running), RowConstantProgram::Held(_, width)) => {
                    let pitch = (n * width).next_multiple_of(64);
                    let made = Operand {
                        at: room.take(side * pitch),
                        row_step: pitch as isize,
                        width: *width,
                        is_broadcast: false,
                    };
                    here.push(made);
                    // SAFETY: the caller's promise; the scratch has room for each element.
                    unsafe { run_rows(running, &here, 1, some, n) };
                    here.pop();
                    made
                }
                _ => unreachable!("each machine was made for its program"),
            };
            here.push(made);
        }
        here.extend(outputs.iter().map(|operand| operand.from(row)));
        // SAFETY: the caller's promise; the row constants were computed above.
        unsafe { run_rows(&mut program, &here, outputs.len(), some, n) };
    }
}
