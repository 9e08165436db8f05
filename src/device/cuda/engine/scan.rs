//! `scan`: a block scans a line along an axis, tile by tile.
//!
//! Each thread accumulates a few neighbors from the identity. The states of the threads are scanned in shared
//! memory, and combined with the state of the tiles before. If lines are few and long, each is cut into parts
//! for several blocks, in three passes: the state of each part, the state before each part, the scan of each
//! part. If neighboring lines are contiguous in memory, each thread takes one line instead.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, all, names};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, read_key_numbers};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{
    c_type, ensure_computable, ensure_states_fit, state_size, unsupported,
};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::reduce::BLOCKS_PER_MULTIPROCESSOR;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan, Store, trace_body, trace_reducer};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Neighbors of a tile that one thread accumulates.
const ELEMENTS_PER_THREAD: usize = 4;
/// Elements of a tile.
const TILE: usize = THREADS * ELEMENTS_PER_THREAD;
/// The largest number of parts of a line. One thread combines their states.
const MAX_PARTS: usize = 256;

/// The passes of a scan, each with a kernel of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanPass {
    /// A thread for each line: the whole scan.
    Single,
    /// A block for each part of a line: the state of the part.
    PartStates,
    /// A thread for each line: replaces the state of each part by the state before it.
    Before,
    /// A block for each part of a line: its scan.
    Scan,
}

/// The indices of the words.
#[derive(Clone, Copy)]
struct Plan {
    lines: usize,
    along: usize,
    exclusive: usize,
    /// The number of parts of a line, the elements of a part, and the states of the parts.
    parts: usize,
    share: usize,
    states: usize,
    operands: usize,
    line: AxesArgs,
    step: AxesArgs,
    params: usize,
}

/// Queues a scan.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with, and for states that
/// do not fit in shared memory; [`Error::OutOfMemory`](crate::Error::OutOfMemory); those of the launch.
///
/// # Safety
/// As [`Device::scan`](crate::device::Device::scan).
pub(in crate::device::cuda) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    stream: &Arc<Stream>,
    body: &B,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    if plan.lines.contains(&0) || plan.along == 0 {
        return Ok(());
    }
    ensure_states_fit(R::NAME, THREADS, state_size::<B::Out, R>())?;
    let slots = outputs_then_inputs(&[output], inputs.slots);
    let rank = plan.lines.len();
    let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
    let lines = Axes::coalesced(plan.lines, &strides, true);
    let along =
        Axes { sizes: vec![plan.along], strides: slots.iter().map(|slot| vec![slot.stride[rank]]).collect() };
    let count = lines.numel();
    // A thread for each line, if neighboring lines are contiguous and occupy the GPU, or if lines are short.
    let single = lines.rank() > 0 && lines.inner_stride(1.min(slots.len() - 1)) == 1 && count >= 1024
        || plan.along <= ELEMENTS_PER_THREAD;
    let most = plan.along.div_ceil(4 * TILE).min(MAX_PARTS);
    let parts = if single {
        1
    } else {
        (BLOCKS_PER_MULTIPROCESSOR * stream.gpu.context.multiprocessors).div_ceil(count).clamp(1, most)
    };
    let share = plan.along.div_ceil(parts).next_multiple_of(TILE);
    let parts = plan.along.div_ceil(share);
    let scratch = if parts > 1 {
        Some(CudaBlock::scratch(stream, count * parts * state_size::<B::Out, R>())?)
    } else {
        None
    };
    let mut words = ArgBlock::new(is_wide(&[&lines, &along], 0));
    words.key_numbers.extend(read_key_numbers(inputs));
    let plan = Plan {
        lines: words.push(count),
        along: words.push(plan.along),
        exclusive: words.push(usize::from(plan.exclusive)),
        parts: words.push(parts),
        share: words.push(share),
        states: words.push(scratch.as_ref().map_or(0, |scratch| scratch.address().addr())),
        operands: words.operands(&slots),
        line: words.axes(&lines),
        step: words.axes(&along),
        params: words.params(&Store(*body)),
    };
    let launch = |pass: ScanPass, blocks: usize, parts: usize| {
        let mut key_numbers = words.key_numbers.clone();
        key_numbers.push(pass as u32);
        let key = KernelKey { mechanism: "scan", types: [TypeId::of::<B>(), TypeId::of::<R>()], key_numbers };
        let kernel = stream.kernel(key, || source::<B, R>(body, inputs, pass, &words, plan))?;
        let shape =
            LaunchShape { blocks: (block_count(blocks), parts as u32), threads: THREADS as u32, shared: 0 };
        // SAFETY: (1) the words are those of `source`; (2) is the caller's promise.
        unsafe { stream.launch("scan", kernel, shape, &words.list) }
    };
    if single {
        return launch(ScanPass::Single, count.div_ceil(THREADS), 1);
    }
    if parts > 1 {
        launch(ScanPass::PartStates, count, parts)?;
        launch(ScanPass::Before, count.div_ceil(THREADS), 1)?;
    }
    launch(ScanPass::Scan, count, parts)
}

/// The source of one pass.
fn source<B: Body, R: Reducer<B::Out>>(
    body: &B,
    inputs: Inputs<'_>,
    pass: ScanPass,
    words: &ArgBlock,
    plan: Plan,
) -> Result<String> {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let graph = trace_body(body, inputs.reads)?;
    ensure_computable(R::NAME, graph.foreign().or(unsupported::<B::Out>()).or(unsupported::<R::Out>()))?;
    let signature = s.function("body", &graph, plan.params);
    let value = c_type(signature.outputs[0]);
    s.reducer("", &trace_reducer::<B::Out, R>()?, signature.outputs[0]);
    let (step, operands) = (plan.step, plan.operands);
    let load = |k: usize| {
        format!(
            "((const {}*)a.v[{}])[b{} + i * {}]",
            c_type(signature.inputs[&k]),
            operands + 1 + k,
            k + 1,
            step.stride(k + 1)
        )
    };
    // Statements that compute the value at position `i`, and that store a result.
    let load_value =
        format!("{value} value; body({});", arguments(&signature, &load, &|_| "value".to_string()));
    let c = c_type(<R::Out as Element>::DTYPE);
    let store = |at: &str, state: &str, count: &str| {
        format!(
            "(({c}*)a.v[{operands}])[b0 + ({at}) * {}] = cast<{c}>(finalize(a, {state}, (i64)({count})));",
            step.stride(0)
        )
    };
    // An exclusive scan stores the result of each position at the next one, and the identity at the first.
    let first = store("0", "identity(a)", "0");
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    let by_thread = matches!(pass, ScanPass::Single | ScanPass::Before);
    let line = if by_thread {
        format!("(idx)blockIdx.x * {THREADS} + threadIdx.x")
    } else {
        "(idx)blockIdx.x".to_string()
    };
    s.line(format_args!(
        "  const idx line = {line}, count = {}, later = {};",
        Word(plan.along),
        Word(plan.exclusive)
    ));
    s.line(format_args!(
        "  State* const states = (State*)a.v[{}] + (i64)line * a.v[{}];",
        plan.states, plan.parts
    ));
    if by_thread {
        s.line(format_args!("  if (line >= {}) return;", Word(plan.lines)));
    }
    if pass == ScanPass::Before {
        combine_parts(&mut s, plan);
        return Ok(s.text());
    }
    let bases = names("b", plan.line.operands);
    bases.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    plan.line.offsets(&mut s, "line", &all(&bases));
    if pass == ScanPass::Single {
        s.line(format_args!(
            "  State state = identity(a);\n  if (later) {first}\n  for (idx i = 0; i + later < count; i++) {{"
        ));
        s.line(format_args!(
            "    {load_value}\n    state = accumulate(a, state, value, (i64)i);\n    {}\n  }}\n}}",
            store("i + later", "state", "i + 1")
        ));
        return Ok(s.text());
    }
    scan_part(&mut s, plan, pass == ScanPass::PartStates, &load_value, &store);
    Ok(s.text())
}

/// The body of the pass that replaces the state of each part by the state before it.
fn combine_parts(s: &mut SourceWriter, plan: Plan) {
    s.line(format_args!("  State before = identity(a);\n  for (i64 k = 0; k < a.v[{}]; k++) {{", plan.parts));
    s.line(format_args!(
        "    const State own = states[k];\n    states[k] = before; before = combine(a, before, own);\n  \
         }}\n}}"
    ));
}

/// The body of the passes in which a block takes a part of a line, tile by tile. `load_value` computes the
/// value at position `i`; `store` stores a result: position, state, number of values.
fn scan_part(
    s: &mut SourceWriter,
    plan: Plan,
    only_state: bool,
    load_value: &str,
    store: &dyn Fn(&str, &str, &str) -> String,
) {
    s.line(format_args!(
        "  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  \
         State* const shared = (State*)room;"
    ));
    s.line(format_args!(
        "  const idx begin = (idx)blockIdx.y * {}, share = begin + {};",
        Word(plan.share),
        Word(plan.share)
    ));
    s.line(format_args!("  const idx end = share < count ? share : count;\n  const int t = threadIdx.x;"));
    let before = if only_state {
        "identity(a)".to_string()
    } else {
        format!("a.v[{}] > 1 ? states[blockIdx.y] : identity(a)", plan.parts)
    };
    s.line(format_args!(
        "  State before = {before};\n  for (idx tile = begin; tile < end; tile += {TILE}) {{"
    ));
    s.line(format_args!(
        "    State own[{ELEMENTS_PER_THREAD}]; State state = identity(a); \
         const idx first = tile + t * {ELEMENTS_PER_THREAD};"
    ));
    s.line(format_args!(
        "#pragma unroll\n    for (int u = 0; u < {ELEMENTS_PER_THREAD}; u++) {{ const idx i = first + u; \
         if (i < end) {{"
    ));
    s.line(format_args!(
        "      {load_value} state = accumulate(a, state, value, (i64)i); own[u] = state; }} }}"
    ));
    s.line(format_args!("    shared[t] = state;"));
    // Hillis and Steele 1986: after the step of 2ⁿ, each state covers 2ⁿ⁺¹ threads.
    s.line(format_args!("    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();"));
    s.line(format_args!(
        "      const State mine = shared[t], earlier = shared[t >= far ? t - far : 0];\n      \
         __syncthreads();"
    ));
    s.line(format_args!(
        "      shared[t] = t >= far ? combine(a, earlier, mine) : mine;\n    }}\n    __syncthreads();"
    ));
    if !only_state {
        s.line(format_args!("    const State prefix = t > 0 ? combine(a, before, shared[t - 1]) : before;"));
        s.line(format_args!(
            "#pragma unroll\n    for (int u = 0; u < {ELEMENTS_PER_THREAD}; u++) {{ const idx i = first + u; \
             if (i < end && i + later < count) {{"
        ));
        s.line(format_args!("      {} }} }}", store("i + later", "combine(a, prefix, own[u])", "i + 1")));
    }
    s.line(format_args!(
        "    before = combine(a, before, shared[{THREADS} - 1]);\n    __syncthreads();\n  }}"
    ));
    if only_state {
        s.line(format_args!("  if (t == 0) states[blockIdx.y] = before;"));
    } else {
        let first = store("0", "identity(a)", "0");
        s.line(format_args!("  if (later && begin == 0 && t == 0) {first}"));
    }
    s.line(format_args!("}}"));
}
