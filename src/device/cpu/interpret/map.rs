//! Programs over elements, interpreted: the counterpart of the loops in `cpu/map.rs`, and fed as they are.
//!
//! Imports: `error`, `scalar`, `kernel`, `device`.

use super::Cache;
use super::code::Value;
use super::frame::{Both, Operand, Running, sweep};
use super::steps::WIDTH;
use crate::device::cpu::drive::Loops;
use crate::device::cpu::io::NONE;
use crate::device::cpu::map::{Shape, run_job};
use crate::device::cpu::simd::Level;
use crate::device::{Inputs, Slot};
use crate::error::Result;
use crate::kernel::{Numbers, Program, Traced, numbers, trace_program};
use crate::scalar::{DType, Graph, Node};
use std::any::TypeId;

/// A program over elements, written for columns.
pub(super) struct Mapped {
    program: Both,
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
    let handed = Handed { mapped, numbers };
    let loops = Loops { rows: rows::<NONE>, still: [(!shape.in_place).then_some(rows::<0> as _), Some(rows::<1>)], past: None };
    // SAFETY: the caller's promise; the loops are those of the program.
    unsafe { run_job(loops, std::ptr::from_ref(&handed).cast(), shape, sizes, row, outputs, inputs) }
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
        let program = Both::new(!shape.in_place, &|writer| {
            let inputs: Vec<Value> = types.iter().map(|&dtype| writer.outside(dtype, false)).collect();
            writer.graph(&traced.graph, &inputs, &[], 0)
        })?;
        Some(Mapped {
            program,
            inputs: loads(&types, reads),
            outputs: traced.graph.outputs().map(|(dtype, _)| dtype.size()).collect(),
            reads: reads.to_vec(),
            in_place: shape.in_place,
        })
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
    numbers: Numbers,
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
    down: *const isize,
) {
    // SAFETY: the caller's promise.
    let Handed { mapped, numbers } = unsafe { &*program.cast::<Handed>() };
    let Mapped { program, inputs, outputs, reads, in_place } = *mapped;
    let first = if *in_place { 0 } else { outputs.len() };
    let still = reads.get(STILL).map_or(NONE, |&operand| operand as usize);
    // SAFETY: the caller's promise: a pointer and a step for each output and load; in place the first loads are the outputs.
    let of = |k: usize, width: usize, still: bool| unsafe { Operand { at: *pointers.add(k), down: *down.add(k), width, still } };
    let read = inputs.iter().enumerate().map(|(k, &(load, width))| of(first + load, width, k == still));
    let operands: Vec<Operand> = read.chain(outputs.iter().enumerate().map(|(k, &width)| of(k, width, false))).collect();
    let mut running = Running::new(program, numbers, rows.saturating_mul(n / WIDTH).max(rows));
    // SAFETY: the caller's promise.
    unsafe { sweep(&mut running, &operands, outputs.len(), rows, n) };
}
