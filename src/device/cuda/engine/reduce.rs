//! `reduce`: the threads of a block share the values of one output. If outputs are few, several blocks share
//! them, and a second pass combines their states.
//!
//! A block has `across × along` threads: `across` outputs with `along` threads each. Neighboring threads
//! follow the axis in which the first operand is contiguous. The partition depends on the sizes, the strides
//! and the GPU. A thread takes values at equal distances. States are therefore combined in any order, which
//! the laws of `Reducer` allow.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, all, names};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, read_key_numbers};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{
    c_type, ensure_computable, ensure_states_fit, state_size, unsupported,
};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::{Error, Result};
use crate::kernel::{Body, Reducer, Store, trace_body, trace_reducer};
use crate::scalar::Prim;
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks for each multiprocessor that keep a GPU busy.
pub(in crate::device::cuda) const BLOCKS_PER_MULTIPROCESSOR: usize = 8;

/// Queues a reduction.
///
/// # Errors
/// [`Error::Value`] for elements that kernels cannot compute with, and for states that do not fit in shared
/// memory; [`Error::OutOfMemory`]; those of the launch.
///
/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce).
pub(in crate::device::cuda) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    stream: &Arc<Stream>,
    body: &B,
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    if axes.kept.contains(&0) {
        return Ok(());
    }
    ensure_states_fit(R::NAME, THREADS, state_size::<B::Out, R>())?;
    let slots = outputs_then_inputs(&[output], inputs.slots);
    let kept_rank = axes.kept.len();
    let kept_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..kept_rank]).collect();
    // The output is broadcast along the reduced axes.
    let reduced_strides: Vec<&[isize]> =
        slots.iter().map(|slot| slot.stride.get(kept_rank..).unwrap_or(&[])).collect();
    let kept = Axes::coalesced(axes.kept, &kept_strides, true);
    let reduced = Axes::coalesced(axes.reduced, &reduced_strides, false);
    let (outputs, count) = (kept.numel(), if axes.reduced.contains(&0) { 0 } else { reduced.numel() });
    let step = |axes: &Axes, k: usize| {
        axes.strides.get(k).and_then(|steps| steps.last()).map_or(usize::MAX, |step| step.unsigned_abs())
    };
    let by_rows = kept.rank() == 0 || count <= 1 || reduced.rank() > 0 && step(&reduced, 1) <= step(&kept, 1);
    let along =
        if by_rows { count.next_power_of_two().clamp(1, THREADS) } else { 8.min(count.next_power_of_two()) };
    let across = THREADS / along;
    let blocks = outputs.div_ceil(across);
    let most = count.div_ceil(along * 8).max(1);
    let parts =
        (BLOCKS_PER_MULTIPROCESSOR * stream.gpu.context.multiprocessors).div_ceil(blocks).min(most).min(1024);
    let scratch = match parts {
        1 => None,
        _ => {
            let nbytes =
                outputs.checked_mul(parts).and_then(|states| states.checked_mul(state_size::<B::Out, R>()));
            Some(CudaBlock::scratch(
                stream,
                nbytes.ok_or(Error::OutOfMemory { op: "reduce", nbytes: usize::MAX })?,
            )?)
        }
    };
    let states = scratch.as_ref().map_or(0, |scratch| scratch.address().addr());
    let mut words = ArgBlock::new(is_wide(&[&kept, &reduced], 0));
    words.key_numbers.extend(read_key_numbers(inputs));
    let [outputs_at, count_at, share_at, parts_at, states_at] =
        [outputs, count, count.div_ceil(parts), parts, states].map(|word| words.push(word));
    let plan = Plan {
        outputs: outputs_at,
        count: count_at,
        share: share_at,
        parts: parts_at,
        states: states_at,
        threads: [along, across, usize::from(by_rows)].map(|word| words.push(word)),
        operands: words.operands(&slots),
        kept: words.axes(&kept),
        reduced: words.axes(&reduced),
        params: words.params(&Store(*body)),
    };
    let types = [TypeId::of::<B>(), TypeId::of::<R>()];
    let key = KernelKey { mechanism: "reduce", types, key_numbers: words.key_numbers.clone() };
    let kernel = stream.kernel(key, || source::<B, R>(body, inputs, &words, plan))?;
    let shape =
        LaunchShape { blocks: (block_count(blocks), parts as u32), threads: THREADS as u32, shared: 0 };
    // SAFETY: (1) the words are those of `source`; (2) is the caller's promise.
    unsafe { stream.launch("reduce", kernel, shape, &words.list) }?;
    if parts == 1 {
        return Ok(());
    }
    // The second pass.
    let mut words = ArgBlock::new(is_wide(&[&kept], 0));
    let [count_at, parts_at, states_at] = [count, parts, states].map(|word| words.push(word));
    let to = words.operands(&slots[..1]);
    let to_args = words.axes(&Axes { sizes: kept.sizes, strides: vec![kept.strides[0].clone()] });
    let key = KernelKey { mechanism: "join", types, key_numbers: words.key_numbers.clone() };
    let combine = stream
        .kernel(key, || combine_source::<B::Out, R>(&words, [count_at, parts_at, states_at, to], to_args))?;
    let shape = LaunchShape { blocks: (block_count(outputs), 1), threads: THREADS as u32, shared: 0 };
    // SAFETY: (1) the words are those of `combine_source`; (2) is the caller's promise.
    unsafe { stream.launch("reduce", combine, shape, &words.list) }
}

/// The indices of the words of the first pass.
#[derive(Clone, Copy)]
struct Plan {
    outputs: usize,
    count: usize,
    /// The number of values that a part has.
    share: usize,
    parts: usize,
    states: usize,
    /// Threads along the values, threads along the outputs, and whether neighboring threads take values of
    /// one output.
    threads: [usize; 3],
    operands: usize,
    kept: AxesArgs,
    reduced: AxesArgs,
    params: usize,
}

/// The source of the first pass.
fn source<B: Body, R: Reducer<B::Out>>(
    body: &B,
    inputs: Inputs<'_>,
    words: &ArgBlock,
    plan: Plan,
) -> Result<String> {
    let Plan { count: count_at, parts: parts_at, states: states_at, operands, .. } = plan;
    let [along_at, across_at, rows_at] = plan.threads;
    let out = c_type(<R::Out as Element>::DTYPE);
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let graph = trace_body(body, inputs.reads)?;
    ensure_computable(R::NAME, graph.foreign().or(unsupported::<B::Out>()).or(unsupported::<R::Out>()))?;
    let signature = s.function("body", &graph, plan.params);
    let value = signature.outputs[0];
    s.reducer("", &trace_reducer::<B::Out, R>()?, value);
    begin(&mut s, &format!("{THREADS}"));
    s.line(format_args!(
        "  const int along = (int)a.v[{along_at}], across = (int)a.v[{across_at}], by_rows = (int)a.v[{rows_at}];"
    ));
    s.line(format_args!(
        "  const int t = threadIdx.x, x = by_rows ? t / along : t % across, y = by_rows ? t % along : t / across;"
    ));
    s.line(format_args!("  const idx output = (idx)blockIdx.x * across + x, count = {};", Word(plan.count)));
    s.line(format_args!("  const bool there = output < {};", Word(plan.outputs)));
    let bases = names("b", plan.kept.operands);
    bases.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    plan.kept.offsets(&mut s, "output", &all(&bases));
    s.line(format_args!(
        "  State state = identity(a);\n  const idx first = (idx)blockIdx.y * {};",
        Word(plan.share)
    ));
    s.line(format_args!(
        "  const idx share = first + {}, end = share < count ? share : count;",
        Word(plan.share)
    ));
    s.line(format_args!("  if (there) for (idx r = first + y; r < end; r += along) {{"));
    let steps = names("o", plan.kept.operands);
    let wanted = |k: usize| (k > 0 && signature.inputs.contains_key(&(k - 1))).then_some(steps[k].as_str());
    let wanted: Vec<_> = (0..steps.len()).map(wanted).collect();
    wanted
        .iter()
        .zip(&bases)
        .for_each(|(name, base)| name.iter().for_each(|name| s.line(format_args!("  idx {name} = {base};"))));
    plan.reduced.offsets(&mut s, "r", &wanted);
    s.line(format_args!("    {} value;", c_type(value)));
    let load = |k: usize| {
        format!("((const {}*)a.v[{}])[o{}]", c_type(signature.inputs[&k]), operands + 1 + k, k + 1)
    };
    s.line(format_args!("    body({});", arguments(&signature, &load, &|_| "value".to_string())));
    s.line(format_args!("    state = accumulate(a, state, value, (i64)r);\n  }}"));
    s.line(format_args!("  shared[threadIdx.x] = state;"));
    combine_tree(&mut s, "", "along", "y", "(by_rows ? 1 : across)");
    s.line(format_args!("  if (there && y == 0) {{\n    const i64 parts = a.v[{parts_at}];"));
    s.line(format_args!("    if (parts > 1) ((State*)a.v[{states_at}])[(i64)output * parts + blockIdx.y] = shared[threadIdx.x];"));
    s.line(format_args!("    else (({out}*)a.v[{operands}])[b0] = cast<{out}>(finalize(a, shared[threadIdx.x], a.v[{count_at}]));"));
    s.line(format_args!("  }}\n}}"));
    Ok(s.text())
}

/// The source of the second pass: a block for each output combines the states of its parts.
fn combine_source<T: Element, R: Reducer<T>>(
    words: &ArgBlock,
    [count_at, parts_at, states_at, to]: [usize; 4],
    to_args: AxesArgs,
) -> Result<String> {
    let out = c_type(<R::Out as Element>::DTYPE);
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    s.reducer("", &trace_reducer::<T, R>()?, <Compute<T> as Prim>::DTYPE);
    // A limit of four blocks stops the assembler from spilling to make room for six.
    begin(&mut s, &format!("{THREADS}, 4"));
    s.line(format_args!("  const i64 parts = a.v[{parts_at}];"));
    s.line(format_args!(
        "  const State* const states = (const State*)a.v[{states_at}] + blockIdx.x * parts;"
    ));
    s.line(format_args!("  State state = identity(a);"));
    s.line(format_args!(
        "  for (i64 k = threadIdx.x; k < parts; k += {THREADS}) state = combine(a, state, states[k]);"
    ));
    s.line(format_args!("  shared[threadIdx.x] = state;"));
    combine_tree(&mut s, "", &THREADS.to_string(), "(int)threadIdx.x", "1");
    s.line(format_args!("  if (threadIdx.x == 0) {{\n    idx o = 0;"));
    to_args.offsets(&mut s, "(idx)blockIdx.x", &[Some("o")]);
    s.line(format_args!(
        "    (({out}*)a.v[{to}])[o] = cast<{out}>(finalize(a, shared[0], a.v[{count_at}]));\n  }}\n}}"
    ));
    Ok(s.text())
}

/// Begins a kernel in which each thread has a state in shared memory.
fn begin(s: &mut SourceWriter, launch_bounds: &str) {
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({launch_bounds}) kernel(const Args a) {{"
    ));
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
}

/// Writes the combination of the states `shared[k]` of `along` threads that are `step` apart, as a binary
/// tree, into the state of the first.
pub(in crate::device::cuda) fn combine_tree(
    s: &mut SourceWriter,
    prefix: &str,
    along: &str,
    rank: &str,
    step: &str,
) {
    s.line(format_args!("  for (int half = {along} / 2; half > 0; half /= 2) {{\n    __syncthreads();"));
    s.line(format_args!("    if ({rank} < half) {prefix}shared[threadIdx.x] ="));
    s.line(format_args!("      {prefix}combine(a, {prefix}shared[threadIdx.x], {prefix}shared[threadIdx.x + half * {step}]);\n  }}"));
}
