//! `map` of programs with row constants: the threads of a row compute the row constants, then the row.
//!
//! A row has a power of 2 of threads, which depends on its length and its elements alone: a part of a warp, a
//! warp, or several. A block has one row or more. Each thread takes vectors of neighbors along the row. A row
//! that fits in the registers of its threads is read once, and its cached values stay in registers too. A
//! longer row is read again by each step, from the cache if it fits, and its cached values are computed again
//! at each use. If such rows are few, several blocks share one, and each step is a kernel: a block leaves the
//! state of its part for the next. `row_source.rs` writes the kernels.
// Imports: `error`, `kernel`, `device`.

use crate::device::cuda::codegen::args::ArgBlock;
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{outputs_then_inputs, read_key_numbers};
use crate::device::cuda::codegen::types::{ensure_computable, ensure_states_fit, size_of_fields};
use crate::device::cuda::codegen::vectors::{SPECIALIZE_FROM_ELEMENTS, vectors_by_size};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::exchange::WARP;
use crate::device::cuda::engine::row_source::{Cut, Plan, RowShares, THREADS, source};
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef};
use crate::error::{Error, Result};
use crate::kernel::{KernelIr, Program, RowConstant, trace_program};
use std::any::TypeId;
use std::sync::Arc;

/// Registers of 32 bits for the elements of one operand in a thread.
const OPERAND_REGISTERS: usize = 16;
/// Elements of a thread for small tensors. Rows of many lengths then share one kernel.
const SMALL_ELEMENTS: usize = 4;
/// The largest number of threads of a row.
const MAX_LANES: usize = 1024;
/// Blocks for each multiprocessor below which a block has fewer rows.
const FEW_BLOCKS: usize = 2;
/// Vectors of a thread, at least, where several blocks share a row.
const PART_VECTORS: usize = 4;
/// Alignment of the states of a reduction.
const ALIGNMENT: usize = 16;
/// The largest number of blocks that share a row: the lanes of a warp combine their states.
const MAX_PARTS: usize = WARP;

/// Queues a program with row constants; the last `row` axes are the axes of a row.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with, and for states that
/// are too large; those of the launch.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map), for a program with row constants.
pub(in crate::device::cuda) unsafe fn run<P: Program>(
    stream: &Arc<Stream>,
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let slots = outputs_then_inputs(outputs, inputs.slots);
    let (outer_sizes, row_sizes) = sizes.split_at(sizes.len() - row);
    let outer_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..outer_sizes.len()]).collect();
    let row_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[outer_sizes.len()..]).collect();
    let outer = Axes::coalesced(outer_sizes, &outer_strides, true);
    let line = Axes::coalesced(row_sizes, &row_strides, false);
    let (rows, count) = (outer.numel(), line.numel());
    let (vector, kinds) = vectors_by_size(&line, &outer, &slots, 0..slots.len(), usize::MAX);
    let is_small = rows.saturating_mul(count) < SPECIALIZE_FROM_ELEMENTS;
    let widest = slots.iter().map(|slot| slot.element).max().unwrap_or(4);
    let cut = Cut::new(rows, count, vector, widest, is_small, stream.gpu.context.multiprocessors);
    let chunks = line.chunked(vector).numel();
    let mut words = ArgBlock::new(is_wide(&[&outer, &line], 0));
    words.key_numbers.extend(read_key_numbers(inputs));
    words.depends([outputs.len(), slots.len(), cut.lanes, cut.threads, cut.vector, cut.each]);
    words.depends([usize::from(cut.is_whole)].into_iter().chain(kinds.iter().map(|&kind| kind as usize)));
    let [rows_at, count_at, chunks_at] = [rows, count, chunks].map(|word| words.push(word));
    let mut plan = Plan {
        outputs: outputs.len(),
        cut,
        rows: rows_at,
        count: count_at,
        chunks: chunks_at,
        operands: words.operands(&slots),
        outer: words.axes(&outer),
        line: words.axes(&line.chunked(vector)),
        step: (vector > 1).then(|| words.axes(&line.fastest())),
        params: words.params(program),
        parts: None,
    };
    let traced = || -> Result<KernelIr> {
        let traced = trace_program(program, inputs.reads)?;
        ensure_computable("rows", traced.foreign())?;
        for constant in &traced.row_constants {
            if let RowConstant::Reduced { reducer, .. } = constant {
                ensure_states_fit(reducer.name, THREADS, size_of_fields(&reducer.state))?;
            }
        }
        Ok(traced)
    };
    let launch = |words: &ArgBlock, plan: Plan, blocks: (u32, u32)| {
        let types = [TypeId::of::<P>(); 2];
        let key = KernelKey { mechanism: "rows", types, key_numbers: words.key_numbers.clone() };
        let kernel = stream.kernel(key, || source(&traced()?, words, plan, &kinds))?;
        let shape = LaunchShape { blocks, threads: cut.threads as u32, shared: 0 };
        // SAFETY: (1) the words are those of `source`; (2) is the caller's promise.
        unsafe { stream.launch("rows", kernel, shape, &words.list) }
    };
    let parts = cut.parts(rows, chunks, stream.gpu.context.multiprocessors);
    if parts == 1 {
        return launch(&words, plan, (block_count(rows.div_ceil(cut.threads / cut.lanes)), 1));
    }
    // A kernel for each reduction leaves the states of the parts; the last stores the rows.
    let sizes = state_sizes(&traced()?)?;
    let nbytes =
        |size: &usize| rows.checked_mul(parts)?.checked_mul(*size)?.checked_next_multiple_of(ALIGNMENT);
    let all: Option<Vec<usize>> = sizes.iter().map(nbytes).collect();
    let none = Error::OutOfMemory { op: "rows", nbytes: usize::MAX };
    let scratch = CudaBlock::scratch(stream, all.as_ref().ok_or(none)?.iter().sum())?;
    let [parts_at, share_at] = [parts, chunks.div_ceil(parts)].map(|word| words.push(word));
    let states = words.list.len();
    let mut address = scratch.address().addr();
    for nbytes in all.iter().flatten() {
        words.push(address);
        address += nbytes;
    }
    for pass in 0..=sizes.len() {
        let mut words = words.clone();
        words.depends([1, pass]);
        plan.parts = Some(RowShares { pass, parts: parts_at, share: share_at, states });
        launch(&words, plan, (block_count(rows), parts as u32))?;
    }
    Ok(())
}

/// Bytes of a state of each reduction, equal ones once.
fn state_sizes(program: &KernelIr) -> Result<Vec<usize>> {
    let firsts = program.first_equals()?;
    let constants = program.row_constants.iter().enumerate();
    let sizes = constants.filter_map(|(k, constant)| match constant {
        RowConstant::Reduced { reducer, .. } if firsts[k] == k => Some(size_of_fields(&reducer.state)),
        _ => None,
    });
    Ok(sizes.collect())
}

impl Cut {
    /// Of rows of `count` elements, whose widest has `widest` bytes.
    fn new(
        rows: usize,
        count: usize,
        vector: usize,
        widest: usize,
        is_small: bool,
        multiprocessors: usize,
    ) -> Cut {
        let elements = if is_small { SMALL_ELEMENTS } else { OPERAND_REGISTERS * 4 / widest.clamp(2, 16) };
        let least = if is_small { WARP } else { 1 };
        let lanes = count.div_ceil(elements).next_power_of_two().clamp(least, MAX_LANES);
        let chunks = count.div_ceil(vector);
        let each = chunks.div_ceil(lanes).next_power_of_two();
        // The last of these row lengths have twice as many elements in each thread, if they are in vectors:
        // each vector has a position in registers too.
        let most = if vector > 1 { 2 * elements } else { elements };
        let each = if each * vector <= most { each } else { 0 };
        let mut threads = if is_small { lanes } else { lanes.max(THREADS) };
        while threads > lanes.max(WARP) && (rows * lanes).div_ceil(threads) < FEW_BLOCKS * multiprocessors {
            threads /= 2;
        }
        Cut { lanes, threads, vector, each, is_whole: vector > 1 && chunks == lanes * each }
    }

    /// The number of blocks that share a row: several if the row is long, and rows are few.
    fn parts(&self, rows: usize, chunks: usize, multiprocessors: usize) -> usize {
        if self.each > 0 {
            return 1;
        }
        let most = (chunks / (self.lanes * PART_VECTORS)).clamp(1, MAX_PARTS);
        (FEW_BLOCKS * multiprocessors / rows).clamp(1, most)
    }
}
