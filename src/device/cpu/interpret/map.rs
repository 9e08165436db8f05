//! Programs over elements, interpreted: the counterpart of the loops in `cpu/map.rs`, and fed as they are.
//!
//! Imports: `error`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::code::{Code, Value, Writer};
use super::frame::{Frame, Memory, Room, splat};
use super::steps::{Place, WIDTH};
use crate::device::cpu::drive::Loops;
use crate::device::cpu::io::NONE;
use crate::device::cpu::map::{Shape, run_job};
use crate::device::cpu::simd::Level;
use crate::device::{Inputs, MAX_OPERANDS, Slot};
use crate::error::Result;
use crate::kernel::{Numbers, Program, Traced, numbers, trace_program};
use crate::scalar::{DType, Graph, Node};
use std::any::TypeId;

/// A program over elements, written for columns.
pub(super) struct Mapped {
    /// By quick forms of its functions, if there are any, and in full.
    quick: Option<Code>,
    full: Code,
    /// For each operand the first load that reads it, and bytes of an element.
    inputs: Vec<(usize, usize)>,
    /// Bytes of an element of each output.
    outputs: Vec<usize>,
    /// The operand of each load.
    reads: Vec<u8>,
    in_place: bool,
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
    outputs: &[Slot<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let shape = const { &Shape::of::<P>() };
    let mut trace = || trace_program(program, inputs.reads);
    // SAFETY: the caller's promise.
    unsafe { run(TypeId::of::<P>(), &mut trace, numbers(program), shape, sizes, row, outputs, inputs) }
}

/// # Safety
/// As [`map`], of the program that is traced.
#[allow(clippy::too_many_arguments)] // those of a map, and what is known of the program
unsafe fn run(
    program: TypeId,
    trace: &mut dyn FnMut() -> Traced,
    numbers: Numbers,
    shape: &Shape,
    sizes: &[usize],
    row: usize,
    outputs: &[Slot<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let mapped = WRITTEN.get("map", program, inputs.reads, &mut || Mapped::new(&trace(), inputs.reads, shape))?;
    let running = Running { mapped, numbers };
    let loops = Loops { rows: rows::<NONE>, still: [(!shape.in_place).then_some(rows::<0> as _), Some(rows::<1>)], past: None };
    // SAFETY: the caller's promise; the loops are those of the program.
    unsafe { run_job(loops, std::ptr::from_ref(&running).cast(), shape, sizes, row, outputs, inputs) }
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
    fn new(traced: &Traced, reads: &[u8], shape: &Shape) -> Option<Mapped> {
        let types = operands([&traced.graph].into_iter(), reads);
        let write = |quick: bool| {
            let mut writer = Writer::new(quick);
            let inputs: Vec<Value> = types.iter().map(|&dtype| writer.outside(dtype, false)).collect();
            let outputs = writer.graph(&traced.graph, &inputs, &[], 0)?;
            writer.finish(&outputs, !shape.in_place)
        };
        let quick = write(true)?;
        Some(Mapped {
            quick: quick.doubt.is_some().then_some(quick),
            full: write(false)?,
            inputs: (0..types.len())
                .map(|k| (reads.iter().position(|&read| read as usize == k).unwrap_or(0), types[k].size()))
                .collect(),
            outputs: traced.graph.outputs().map(|(dtype, _)| dtype.size()).collect(),
            reads: reads.to_vec(),
            in_place: shape.in_place,
        })
    }
}

/// A program and its run-time numbers: what the loops are handed.
struct Running {
    mapped: &'static Mapped,
    numbers: Numbers,
}

/// Blocks of the program, by quick forms first.
struct Blocks<'a> {
    running: &'a Running,
    quick: Option<Frame<'a>>,
    full: Option<Frame<'a>>,
    chunks: usize,
}

impl<'a> Blocks<'a> {
    fn new(running: &'a Running, most: usize) -> Self {
        let Mapped { quick, full, .. } = running.mapped;
        let chunks = quick.as_ref().map_or(full.chunks, |quick| quick.chunks).min(full.chunks).min(most);
        Blocks { running, quick: quick.as_ref().map(|code| Frame::new(code, &running.numbers, chunks)), full: None, chunks }
    }

    /// # Safety
    /// That of [`Frame::run`], for at most `chunks` chunks in all.
    unsafe fn run(&mut self, outside: &[Place], rows: usize, chunks: usize) {
        if let Some(quick) = &mut self.quick {
            // SAFETY: the caller's promise.
            if !unsafe { quick.run(outside, rows, chunks) } {
                return;
            }
        }
        let full = self.full.get_or_insert_with(|| Frame::new(&self.running.mapped.full, &self.running.numbers, self.chunks));
        // SAFETY: the caller's promise.
        unsafe { full.run(outside, rows, chunks) };
    }
}

/// The loop of an interpreted program, as a compiled one is: see [`RowsFn`](crate::device::cpu::drive::RowsFn).
///
/// # Safety
/// `program` points to a [`Running`]; the rest as there.
unsafe fn rows<const STILL: usize>(
    _: Level,
    program: *const (),
    rows: usize,
    n: usize,
    pointers: *const *mut u8,
    down: *const isize,
) {
    // SAFETY: the caller's promise.
    let running = unsafe { &*program.cast::<Running>() };
    let Mapped { inputs, outputs, reads, in_place, .. } = running.mapped;
    let first = if *in_place { 0 } else { outputs.len() };
    let still = reads.get(STILL).map_or(NONE, |&operand| operand as usize);
    // Operands, then outputs: where the first row of each stands, the step from row to row, and the width.
    let mut operands = [(std::ptr::null_mut::<u8>(), 0isize, 0usize); MAX_OPERANDS];
    let count = inputs.len() + outputs.len();
    for (k, &(load, width)) in inputs.iter().enumerate() {
        // SAFETY: the caller's promise: a pointer and a step for each output and load.
        operands[k] = unsafe { (*pointers.add(first + load), *down.add(first + load), width) };
    }
    for (k, &width) in outputs.iter().enumerate() {
        // SAFETY: as above; in place the first loads are the outputs.
        operands[inputs.len() + k] = unsafe { (*pointers.add(k), *down.add(k), width) };
    }
    let operands = &operands[..count];
    let (full, tail) = (n / WIDTH, n % WIDTH);
    let mut blocks = Blocks::new(running, (rows.saturating_mul(full.max(1))).max(1));
    let most = blocks.chunks;
    let mut outside = [Place::NONE; MAX_OPERANDS];
    let mut memory = Memory::new(operands.iter().map(|&(_, _, width)| width * WIDTH * most + 64).sum());
    let mut room = Room::new(memory.start());
    let rooms: [*mut u8; MAX_OPERANDS] =
        std::array::from_fn(|k| operands.get(k).map_or(std::ptr::null_mut(), |&(_, _, width)| room.take(width * WIDTH * most)));
    // Whole chunks: of one row, some at a time, or of several rows.
    let side = if full == 0 { 0 } else { (most / full).max(1) };
    let mut row = 0;
    while row < rows && full > 0 {
        let some = side.min(rows - row);
        for (k, &(at, down, width)) in operands.iter().enumerate() {
            let at = at.wrapping_offset((row as isize).wrapping_mul(down));
            outside[k] = Place { at, along: (width * WIDTH) as isize, down };
            if k == still {
                for row in 0..some {
                    // SAFETY: one element of a row, and room for a chunk of each.
                    unsafe { splat(rooms[k].wrapping_add(row * width * WIDTH), at.wrapping_offset(row as isize * down), width) };
                }
                outside[k] = Place { at: rooms[k], along: 0, down: (width * WIDTH) as isize };
            }
        }
        for start in (0..full).step_by(most) {
            // SAFETY: whole chunks of every operand, by the caller's promise.
            unsafe { blocks.run(&outside[..count], some, most.min(full - start)) };
            for place in &mut outside[..count] {
                place.at = place.at.wrapping_offset(place.along * most as isize);
            }
        }
        row += some;
    }
    // What is left of each row, in a chunk of its own.
    let mut row = 0;
    while row < rows && tail > 0 {
        let some = most.min(rows - row);
        for (k, &(at, down, width)) in operands.iter().enumerate() {
            outside[k] = Place { at: rooms[k], along: (width * WIDTH) as isize, down: 0 };
            for row in (row..row + some).filter(|_| k < inputs.len()).map(|at| at - row).map(|of| (of, row + of)) {
                let (to, from) = (rooms[k].wrapping_add(row.0 * width * WIDTH), at.wrapping_offset((row.1 as isize).wrapping_mul(down)));
                // SAFETY: `tail` elements of a row, or one, and room for a chunk.
                unsafe {
                    if k == still {
                        splat(to, from, width);
                    } else {
                        let from = from.wrapping_add(full * WIDTH * width);
                        splat(to, from, width);
                        std::ptr::copy_nonoverlapping(from, to, tail * width);
                    }
                }
            }
        }
        // SAFETY: chunks of every operand.
        unsafe { blocks.run(&outside[..count], 1, some) };
        for (k, &(at, down, width)) in operands.iter().enumerate().skip(inputs.len()) {
            for of in 0..some {
                let to = at.wrapping_offset(((row + of) as isize).wrapping_mul(down)).wrapping_add(full * WIDTH * width);
                // SAFETY: `tail` elements of a row, computed just now.
                unsafe { std::ptr::copy_nonoverlapping(rooms[k].wrapping_add(of * width * WIDTH), to, tail * width) };
            }
        }
        row += some;
    }
}
