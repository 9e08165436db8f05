//! Programs over elements, interpreted: the counterpart of the loops in `cpu/map.rs`, and fed as they are.
// Imports: `error`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::code::{Value, Writer};
use super::fold::{Fold, Folded, LINES};
use super::frame::{Both, Memory, Operand, Room, Running, sweep};
use super::steps::WIDTH;
use crate::device::cpu::drive::{Down, Loops, RowsFn};
use crate::device::cpu::fold::LEAF;
use crate::device::cpu::io::NONE;
use crate::device::cpu::map::{MapKernel, run_job};
use crate::device::cpu::past;
use crate::device::cpu::reduce::Output;
use crate::device::cpu::simd::Level;
use crate::device::{Inputs, OperandRef};
use crate::error::Result;
use crate::kernel::{
    KernelIr, Program, Recorder, ReducerIr, RowConstant, RunTimeNumbers, numbers, trace_elements,
    trace_program,
};
use crate::scalar::{self, DType, Graph, Node};
use std::any::TypeId;

/// A program over elements, written for columns.
pub(super) struct Mapped {
    /// What is settled on a row, in order.
    settled: Vec<Settle>,
    /// Of operands, then of what is settled.
    program: Both,
    /// For each operand the first load that reads it, and bytes of an element.
    inputs: Vec<(usize, usize)>,
    /// Bytes of an element of each output.
    outputs: Vec<usize>,
    /// The operand of each load.
    reads: Vec<u8>,
    in_place: bool,
}

/// One thing that is settled on a row, and bytes of its value, or of each.
enum Settle {
    Reduced(Box<Folded>, usize),
    Held(Box<Both>, usize),
}

static WRITTEN: Cache<Mapped> = Cache::new();

/// Runs a program as [`Device::map`](crate::Device::map) does.
///
/// # Errors
/// What that reports.
///
/// # Safety
/// As there.
pub(in crate::device::cpu) unsafe fn map<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let known = const { &Known::of::<P>() };
    // SAFETY: the caller's promise; what is known is of this program.
    unsafe { run(known, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// What is known of a program without its type.
struct Known {
    id: TypeId,
    kernel: MapKernel,
    trace: Trace,
    /// [`numbers`] of a program of this type, if it has some.
    numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers>,
}

impl Known {
    const fn of<P: Program>() -> Known {
        let first: Option<RowsFn> = if P::IN_PLACE { None } else { Some(rows::<0>) };
        let numbers: Option<unsafe fn(*const ()) -> RunTimeNumbers> =
            if P::FIXED { None } else { Some(numbers_of::<P>) };
        let kernel = MapKernel::by::<P>(Loops {
            rows: rows::<NONE>,
            still: [first, Some(rows::<1>)],
            past: past::takes::<P>(),
        });
        let trace = if P::BY_ROWS { Trace::ByRows(trace_of::<P>) } else { Trace::Elements(run_of::<P>) };
        Known { id: TypeId::of::<P>(), kernel, trace, numbers }
    }
}

/// How a program is written down: by [`trace_program`], or as it runs, which is shorter.
enum Trace {
    ByRows(unsafe fn(*const (), &[u8]) -> KernelIr),
    Elements(unsafe fn(*const (), &mut Recorder<'_>)),
}

impl Trace {
    /// # Safety
    /// `program` points to one of the type that this is of.
    unsafe fn write(&self, program: *const (), reads: &[u8]) -> KernelIr {
        match self {
            // SAFETY: the caller's promise; so below.
            Trace::ByRows(trace) => unsafe { trace(program, reads) },
            Trace::Elements(run) => trace_elements(reads, &mut |recorder| {
                // SAFETY: as above.
                unsafe { run(program, recorder) };
            }),
        }
    }
}

/// # Safety
/// `program` points to a `P`; so below.
unsafe fn trace_of<P: Program>(program: *const (), reads: &[u8]) -> KernelIr {
    // SAFETY: the caller's promise.
    trace_program(unsafe { &*program.cast::<P>() }, reads)
}

/// # Safety
/// As above.
unsafe fn run_of<P: Program>(program: *const (), recorder: &mut Recorder<'_>) {
    // SAFETY: the caller's promise.
    unsafe { &*program.cast::<P>() }.run::<scalar::Trace>(recorder);
}

/// # Safety
/// As above.
unsafe fn numbers_of<P: Program>(program: *const ()) -> RunTimeNumbers {
    // SAFETY: the caller's promise.
    numbers(unsafe { &*program.cast::<P>() })
}

/// # Safety
/// As [`map`], of the program that is known.
#[inline(never)]
unsafe fn run(
    known: &Known,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let Known { id, kernel, trace, numbers } = known;
    let mapped = WRITTEN.get("map", *id, inputs.reads, &mut || {
        // SAFETY: the program is of the type that is known; so below.
        Mapped::new(&unsafe { trace.write(program, inputs.reads) }, inputs.reads, kernel.in_place)
    })?;
    // SAFETY: as above.
    let handed = Handed {
        mapped,
        numbers: numbers.map_or_else(RunTimeNumbers::new, |numbers| unsafe { numbers(program) }),
    };
    // SAFETY: the caller's promise; the kernel is that of what it is handed.
    unsafe { run_job(kernel, std::ptr::from_ref(&handed).cast(), sizes, row, outputs, inputs) }
}

/// The type of each operand's elements, as graphs read them.
pub(super) fn operands<'a>(graphs: impl Iterator<Item = &'a Graph>, reads: &[u8]) -> Vec<DType> {
    let mut types = vec![DType::Bool; reads.iter().map(|&read| read as usize + 1).max().unwrap_or(0)];
    for (node, _, dtype) in graphs.flat_map(Graph::nodes) {
        if let Node::Input { index } = node {
            types[index] = dtype;
        }
    }
    types
}

impl Mapped {
    fn new(traced: &KernelIr, reads: &[u8], in_place: bool) -> Option<Mapped> {
        let types =
            operands(traced.row_constants.iter().map(RowConstant::body).chain([&traced.graph]), reads);
        // Operands, then what is settled, as far as it is; what is settled twice is one thing.
        let mut outside = types.clone();
        let (mut settled, mut param, mut things) = (Vec::new(), 0, Vec::new());
        let write = |body: &Graph, outside: &Outside<'_>, param: usize, direct: bool| {
            Both::new(direct, &|writer| {
                let (inputs, given) = outside.values(writer);
                writer.graph(body, &inputs, &given, param)
            })
        };
        for (number, one) in traced.row_constants.iter().enumerate() {
            let before = traced.row_constants[..number]
                .iter()
                .position(|known| one.body().params() == 0 && is_same(known, one, &things));
            if let Some(at) = before {
                things.push(things[at]);
                continue;
            }
            let here = Outside { types: &outside, operands: types.len(), things: &things };
            let (thing, dtype) = match one {
                RowConstant::Cached { body } => {
                    let dtype = body.outputs().next()?.0;
                    (Settle::Held(Box::new(write(body, &here, param, true)?), dtype.size()), dtype)
                }
                RowConstant::Reduced { body, reducer, is_operand } => {
                    let dtype = reducer.finalize.outputs().next()?.0;
                    let folded = Folded::new(body, reducer, &here, param, dtype, *is_operand)?;
                    (Settle::Reduced(Box::new(folded), dtype.size()), dtype)
                }
            };
            param += one.body().params();
            things.push(settled.len());
            settled.push(thing);
            outside.push(dtype);
        }
        let all = Outside { types: &outside, operands: types.len(), things: &things };
        let program = write(&traced.graph, &all, param, !in_place)?;
        Some(Mapped {
            settled,
            program,
            inputs: loads(&types, reads),
            outputs: traced.graph.outputs().map(|(dtype, _)| dtype.size()).collect(),
            reads: reads.to_vec(),
            in_place,
        })
    }
}

/// What comes from outside: operands, then what a row has settled; and which of that each number is.
pub(super) struct Outside<'a> {
    pub(super) types: &'a [DType],
    pub(super) operands: usize,
    pub(super) things: &'a [usize],
}

impl Outside<'_> {
    /// The operands as values, and what is given.
    pub(super) fn values(&self, writer: &mut Writer) -> (Vec<Value>, Vec<Value>) {
        let mut inputs: Vec<Value> = self.types.iter().map(|&dtype| writer.outside(dtype, false)).collect();
        let things = inputs.split_off(self.operands);
        (inputs, self.things.iter().map(|&thing| things[thing]).collect())
    }
}

/// Whether two things that are settled on a row are one; `things` are those before.
fn is_same(a: &RowConstant, b: &RowConstant, things: &[usize]) -> bool {
    let given = |node: Node| match node {
        Node::Given { index } => Node::Given { index: things[index] },
        other => other,
    };
    let (left, right) = (a.body(), b.body());
    let nodes = left.nodes().map(|(node, args, dtype)| (given(node), args, dtype));
    let same = nodes.eq(right.nodes().map(|(node, args, dtype)| (given(node), args, dtype)))
        && left.definitions() == right.definitions();
    same && match (a, b) {
        (RowConstant::Cached { .. }, RowConstant::Cached { .. }) => true,
        (
            RowConstant::Reduced { reducer: a, is_operand: x, .. },
            RowConstant::Reduced { reducer: b, is_operand: y, .. },
        ) => {
            let graphs = |of: &ReducerIr| {
                [of.identity.clone(), of.accumulate.clone(), of.combine.clone(), of.finalize.clone()]
            };
            x == y && a.name == b.name && graphs(a) == graphs(b)
        }
        _ => false,
    }
}

/// For each operand the first load that reads it, and bytes of an element.
pub(super) fn loads(types: &[DType], reads: &[u8]) -> Vec<(usize, usize)> {
    let first = |k: usize| reads.iter().position(|&read| read as usize == k).unwrap_or(0);
    types.iter().enumerate().map(|(k, dtype)| (first(k), dtype.size())).collect()
}

/// A program and its run-time numbers: what the loops are handed.
struct Handed {
    mapped: &'static Mapped,
    numbers: RunTimeNumbers,
}

/// The loop of an interpreted program, as a compiled one is: see [`RowsFn`](crate::device::cpu::drive::RowsFn).
///
/// # Safety
/// `program` points to a [`Handed`]; the rest as there.
unsafe fn rows<const STILL: usize>(
    _: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const Down,
) {
    // SAFETY: the caller's promise.
    let Handed { mapped, numbers } = unsafe { &*program.cast::<Handed>() };
    let Mapped { settled, program, inputs, outputs, reads, in_place } = *mapped;
    let first = if *in_place { 0 } else { outputs.len() };
    let still = reads.get(STILL).map_or(NONE, |&operand| operand as usize);
    // SAFETY: the caller's promise: a pointer and a step for each output and load; in place the first loads are the outputs.
    let of = |k: usize, width: usize, still: bool| unsafe {
        Operand { at: *pointers.add(k), down: (*down).steps[k], width, still }
    };
    let read = inputs.iter().enumerate().map(|(k, &(load, width))| of(first + load, width, k == still));
    let operands: Vec<Operand> =
        read.chain(outputs.iter().enumerate().map(|(k, &width)| of(k, width, false))).collect();
    if settled.is_empty() {
        let mut running = Running::new(program, numbers, rows.saturating_mul(n / WIDTH).max(rows));
        // SAFETY: the caller's promise.
        if let Some(past) = unsafe { (*down).past.as_ref() } {
            let tiles: Vec<*mut u8> = operands[inputs.len()..].iter().map(|output| output.at).collect();
            for row in 0..rows {
                let here: Vec<Operand> = operands.iter().map(|operand| operand.from(row)).collect();
                // SAFETY: the caller's promise; the row is in its tiles.
                unsafe {
                    sweep(&mut running, &here, outputs.len(), 1, n);
                    past.put(false, outputs.len(), row, &tiles);
                }
            }
            return;
        }
        // SAFETY: the caller's promise.
        return unsafe { sweep(&mut running, &operands, outputs.len(), rows, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { by_rows(mapped, numbers, &operands, rows, n) };
}

/// A part of a program by rows that runs.
enum RowPreparation<'a> {
    Reduced(Box<Fold<'a>>),
    Held(Running<'a>),
}

/// Rows on each of which something is settled before the program runs there, some side by side.
///
/// # Safety
/// That of [`sweep`], for the program's operands and outputs.
unsafe fn by_rows(mapped: &Mapped, numbers: &RunTimeNumbers, operands: &[Operand], rows: usize, n: usize) {
    let side = if n <= LEAF { LINES } else { 1 };
    let (inputs, outputs) = operands.split_at(mapped.inputs.len());
    let mut widths: Vec<usize> = inputs.iter().map(|operand| operand.width).collect();
    let mut total = 0;
    let mut parts = Vec::with_capacity(mapped.settled.len());
    for one in &mapped.settled {
        let (part, width, nbytes) = match one {
            Settle::Reduced(folded, width) => {
                let fold = Fold::new(folded, numbers, &widths, folded.chunks_of(LINES));
                (RowPreparation::Reduced(Box::new(fold)), *width, side * 16)
            }
            Settle::Held(program, width) => (
                RowPreparation::Held(Running::new(program, numbers, side * (n / WIDTH).max(1))),
                *width,
                side * (n * width + 64),
            ),
        };
        parts.push(part);
        widths.push(width);
        total += nbytes + 64;
    }
    let mut program = Running::new(&mapped.program, numbers, side * (n / WIDTH).max(1));
    let mut memory = Memory::new(total);
    for row in (0..rows).step_by(side) {
        let some = side.min(rows - row);
        let mut room = Room::new(&mut memory);
        let mut here: Vec<Operand> = inputs.iter().map(|operand| operand.from(row)).collect();
        for (part, one) in parts.iter_mut().zip(&mapped.settled) {
            let made = match (part, one) {
                (RowPreparation::Reduced(fold), Settle::Reduced(_, width)) => {
                    let made = Operand { at: room.take(side * 16), down: 16, width: *width, still: true };
                    // SAFETY: the caller's promise, and room for a value of each row.
                    unsafe {
                        fold.whole_rows(
                            &here,
                            some,
                            n,
                            Output { address: made.at, step: made.down, is_state: false },
                        )
                    };
                    made
                }
                (RowPreparation::Held(running), Settle::Held(_, width)) => {
                    let pitch = (n * width).next_multiple_of(64);
                    let made = Operand {
                        at: room.take(side * pitch),
                        down: pitch as isize,
                        width: *width,
                        still: false,
                    };
                    here.push(made);
                    // SAFETY: as above, of each element.
                    unsafe { sweep(running, &here, 1, some, n) };
                    here.pop();
                    made
                }
                _ => unreachable!("parts were made of these"),
            };
            here.push(made);
        }
        here.extend(outputs.iter().map(|operand| operand.from(row)));
        // SAFETY: as above.
        unsafe { sweep(&mut program, &here, outputs.len(), some, n) };
    }
}
