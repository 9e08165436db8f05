//! `reduce`: the threads of a block share the values of one output or several. If outputs are few, several
//! blocks share them, and a second pass combines their states.
//!
//! By rows, a power of 2 of neighboring threads takes one output, each thread vectors of neighbors along the
//! reduced axis. By columns, neighboring threads take neighboring vectors of outputs, and each thread values
//! of each at equal distances. The partition depends on sizes and strides and on the GPU, not on addresses.
//! States are therefore combined in any order, which the laws of `Reducer` allow; the order is the same in
//! every run.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs, Word, all, names};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::operands::{arguments, outputs_then_inputs, read_key_numbers};
use crate::device::cuda::codegen::source::{Signature, SourceWriter};
use crate::device::cuda::codegen::types::{
    c_type, ensure_computable, ensure_states_fit, state_size, unsupported,
};
use crate::device::cuda::codegen::vectors::{
    SPECIALIZE_FROM_ELEMENTS, StrideClass, step_of, vectors_by_size,
};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::exchange::{WARP, lane_functions};
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::device::{Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::{Error, Result};
use crate::kernel::{Body, Reducer, Store, trace_body, trace_reducer};
use crate::scalar::{DType, Prim};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks for each multiprocessor that keep a GPU busy.
pub(in crate::device::cuda) const BLOCKS_PER_MULTIPROCESSOR: usize = 8;
/// The largest number of vectors that a thread loads before it uses the first, and their registers.
const IN_FLIGHT: usize = 4;
const FLIGHT_REGISTERS: usize = 16;
/// Bytes of the states of a thread by columns, if it has several.
const MAX_COLUMN_STATES: usize = 64;
/// The most values of an output that one thread takes by rows.
const MAX_WINDOW: usize = 64;
/// Threads that share the values of an output by columns.
const ALONG_COLUMNS: usize = 8;

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
    let state = state_size::<B::Out, R>();
    ensure_states_fit(R::NAME, THREADS, state)?;
    let slots = outputs_then_inputs(&[output], inputs.slots);
    let kept_rank = axes.kept.len();
    let kept_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..kept_rank]).collect();
    // The output is broadcast along the reduced axes.
    let reduced_strides: Vec<&[isize]> =
        slots.iter().map(|slot| slot.stride.get(kept_rank..).unwrap_or(&[])).collect();
    let kept = Axes::coalesced(axes.kept, &kept_strides, true);
    let reduced = Axes::coalesced(axes.reduced, &reduced_strides, false);
    let count = if axes.reduced.contains(&0) { 0 } else { reduced.numel() };
    let cut = Cut::new::<R, B>(&kept, &reduced, count, &slots, stream.gpu.context.multiprocessors);
    let (outputs, parts) = (kept.numel(), cut.parts);
    let scratch = match parts {
        1 => None,
        _ => {
            let nbytes = outputs.checked_mul(parts).and_then(|states| states.checked_mul(state));
            Some(CudaBlock::scratch(
                stream,
                nbytes.ok_or(Error::OutOfMemory { op: "reduce", nbytes: usize::MAX })?,
            )?)
        }
    };
    let states = scratch.as_ref().map_or(0, |scratch| scratch.address().addr());
    // A position is a vector: along the reduced axes by rows, along the kept ones by columns.
    let (kept_step, reduced_step) = if cut.by_rows { (1, cut.vector) } else { (cut.vector, 1) };
    let fastest = if cut.by_rows { reduced.fastest() } else { kept.fastest() };
    let mut words = ArgBlock::new(is_wide(&[&kept, &reduced], 0));
    words.key_numbers.extend(read_key_numbers(inputs));
    words.depends([usize::from(cut.by_rows), cut.vector]);
    if cut.vector > 1 {
        words.depends(cut.kinds.iter().map(|&kind| kind as usize));
    }
    let chunks = count.div_ceil(reduced_step);
    let [groups_at, count_at, chunks_at, share_at, parts_at, states_at] =
        [outputs.div_ceil(kept_step), count, chunks, chunks.div_ceil(parts), parts, states]
            .map(|word| words.push(word));
    let plan = Plan {
        vector: cut.vector,
        by_rows: cut.by_rows,
        groups: groups_at,
        count: count_at,
        chunks: chunks_at,
        share: share_at,
        parts: parts_at,
        states: states_at,
        threads: [cut.threads, cut.threads.trailing_zeros() as usize].map(|word| words.push(word)),
        operands: words.operands(&slots),
        kept: words.axes(&kept.chunked(kept_step)),
        reduced: words.axes(&reduced.chunked(reduced_step)),
        step: (cut.vector > 1).then(|| words.axes(&fastest)),
        params: words.params(&Store(*body)),
    };
    let types = [TypeId::of::<B>(), TypeId::of::<R>()];
    let key = KernelKey { mechanism: "reduce", types, key_numbers: words.key_numbers.clone() };
    let kernel = stream.kernel(key, || source::<B, R>(body, inputs, &words, plan, &cut.kinds))?;
    let shape =
        LaunchShape { blocks: (block_count(cut.blocks), parts as u32), threads: THREADS as u32, shared: 0 };
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

/// The partition of a reduction between threads.
struct Cut {
    by_rows: bool,
    /// Elements of a vector, and the class of each operand along it.
    vector: usize,
    kinds: Vec<StrideClass>,
    /// Neighboring threads: those of an output by rows, those of different outputs by columns.
    threads: usize,
    blocks: usize,
    parts: usize,
}

impl Cut {
    fn new<R: Reducer<B::Out>, B: Body>(
        kept: &Axes,
        reduced: &Axes,
        count: usize,
        slots: &[OperandRef<'_>],
        multiprocessors: usize,
    ) -> Cut {
        let outputs = kept.numel();
        let is_small = outputs.saturating_mul(count) < SPECIALIZE_FROM_ELEMENTS;
        let step = |axes: &Axes, k: usize| {
            axes.strides.get(k).and_then(|steps| steps.last()).map_or(usize::MAX, |step| step.unsigned_abs())
        };
        // All small reductions share one kernel.
        let by_rows = is_small
            || kept.rank() == 0
            || count <= 1
            || reduced.rank() > 0 && step(reduced, 1) <= step(kept, 1);
        let (inner, outer) = if by_rows { (reduced, kept) } else { (kept, reduced) };
        // By columns a thread has a state for each element of a vector, in registers and in shared memory.
        let most = if by_rows { usize::MAX } else { MAX_COLUMN_STATES / state_size::<B::Out, R>() };
        let most = most.checked_ilog2().map_or(1, |power| 1 << power);
        let (vector, kinds) = vectors_by_size(inner, outer, slots, 1..slots.len(), most);
        let (threads, values, groups) = if by_rows {
            let chunks = count.div_ceil(vector);
            // Windows that overlap share elements with those of neighboring threads: each takes an output.
            let overlap =
                kept.rank() > 0 && step(kept, 1) < count && count <= MAX_WINDOW && outputs >= THREADS;
            let lanes =
                if overlap { 1 } else { chunks.div_ceil(IN_FLIGHT).next_power_of_two().clamp(1, THREADS) };
            (lanes, chunks.div_ceil(lanes), outputs.div_ceil(THREADS / lanes))
        } else {
            let columns = outputs.div_ceil(vector);
            let across = columns.next_power_of_two().min(THREADS / ALONG_COLUMNS);
            (across, count.div_ceil(THREADS / across), columns.div_ceil(across))
        };
        // Each part gives its threads a few vectors.
        let most = values.div_ceil(2 * IN_FLIGHT).max(1);
        let parts = (BLOCKS_PER_MULTIPROCESSOR * multiprocessors).div_ceil(groups).min(most).min(1024);
        Cut { by_rows, vector, kinds, threads, blocks: groups, parts }
    }
}

/// The indices of the words of the first pass.
#[derive(Clone, Copy)]
struct Plan {
    vector: usize,
    by_rows: bool,
    /// The number of outputs, in vectors by columns.
    groups: usize,
    count: usize,
    /// The number of values of an output, in vectors by rows, and that of a part.
    chunks: usize,
    share: usize,
    parts: usize,
    states: usize,
    /// Neighboring threads ([`Cut::threads`]), and the logarithm of their number.
    threads: [usize; 2],
    operands: usize,
    kept: AxesArgs,
    reduced: AxesArgs,
    /// The axis of vectors, in elements, if a vector has several.
    step: Option<AxesArgs>,
    params: usize,
}

/// The source of the first pass.
fn source<B: Body, R: Reducer<B::Out>>(
    body: &B,
    inputs: Inputs<'_>,
    words: &ArgBlock,
    plan: Plan,
    kinds: &[StrideClass],
) -> Result<String> {
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    let graph = trace_body(body, inputs.reads)?;
    ensure_computable(R::NAME, graph.foreign().or(unsupported::<B::Out>()).or(unsupported::<R::Out>()))?;
    let signature = s.function("body", &graph, plan.params);
    let reducer = trace_reducer::<B::Out, R>()?;
    s.reducer("", &reducer, signature.outputs[0]);
    let out = c_type(<R::Out as Element>::DTYPE);
    let mut source = ReduceSource { s, signature, plan, kinds, out };
    if plan.by_rows {
        lane_functions(&mut source.s, "", reducer.state.len());
        source.by_rows(if reducer.state.len() == 1 { 4 } else { 1 });
    } else {
        source.by_columns();
    }
    Ok(source.s.text())
}

/// The source of the first pass, as it is written.
struct ReduceSource<'a> {
    s: SourceWriter,
    signature: Signature,
    plan: Plan,
    kinds: &'a [StrideClass],
    /// The type of the results.
    out: &'static str,
}

impl ReduceSource<'_> {
    /// A thread takes vectors of one output, into `states` states that do not depend on each other.
    fn by_rows(&mut self, states: usize) {
        let Plan { parts, threads: [lanes, shift], .. } = self.plan;
        // Four blocks share a multiprocessor: loads in flight beside a large state would take more registers.
        let (room, bounds) = (THREADS / WARP, format!("{THREADS}, 4"));
        let indices = format!(
            "  const int lanes = (int)a.v[{lanes}], step = lanes, lane = threadIdx.x & (lanes - 1);
  const idx own = (idx)blockIdx.x * ({THREADS} >> (int)a.v[{shift}]) + (threadIdx.x >> (int)a.v[{shift}]);"
        );
        self.accumulate(room, &bounds, [&indices, "lane"], states, &|at| format!("state[{at} % {states}]"));
        let result = self.result("    ", "(i64)output", "b0");
        let s = &mut self.s;
        s.line(format_args!(
            "#pragma unroll\n  for (int half = {states} / 2; half > 0; half /= 2)\n#pragma unroll"
        ));
        s.line(format_args!(
            "    for (int k = 0; k < half; k++) state[k] = combine(a, state[k], state[k + half]);"
        ));
        s.line(format_args!("  const State whole = lanes_sync(a, state[0], lanes, (State*)room);"));
        s.line(format_args!("  if (there && lane == 0) {{\n    const i64 parts = a.v[{parts}];"));
        s.line(format_args!("{result}\n  }}\n}}"));
    }

    /// A thread takes values of a vector of outputs, with a state for each.
    fn by_columns(&mut self) {
        let Plan { vector, parts, threads: [across, shift], step, .. } = self.plan;
        let (room, bounds) = (THREADS * vector, format!("{THREADS}"));
        let indices = format!(
            "  const int across = (int)a.v[{across}], step = {THREADS} >> (int)a.v[{shift}], \
             x = threadIdx.x & (across - 1), y = threadIdx.x >> (int)a.v[{shift}];
  const idx own = (idx)blockIdx.x * across + x;"
        );
        self.accumulate(room, &bounds, [&indices, "y"], vector, &|_| "state[j]".to_string());
        let index = format!("((i64)output * {vector} + j)");
        let result = self.result("      ", &index, &format!("b0 + j * {}", step_of(step, 0)));
        self.s.line(format_args!(
            "  State* const shared = (State*)room;\n  const int width = across * {vector};\n#pragma unroll
  for (int j = 0; j < {vector}; j++) shared[y * width + x * {vector} + j] = state[j];
  for (int half = step / 2; half > 0; half /= 2) {{
    __syncthreads();
    for (int k = threadIdx.x; k < half * width; k += {THREADS}) \
    shared[k] = combine(a, shared[k], shared[k + half * width]);
  }}
  __syncthreads();
  if (there && y == 0) {{
    const i64 parts = a.v[{parts}];
#pragma unroll
    for (int j = 0; j < {vector}; j++) {{
      const State whole = shared[x * {vector} + j];
{result}
    }}
  }}
}}"
        ));
    }

    /// The kernel up to the states of a thread, with all its values: `room` states of shared memory, the
    /// bounds of the launch, the lines that declare `own`, the number of a thread's outputs, and `step`, and
    /// the name of its first vector along the values.
    ///
    /// Threads after the last output compute it again, since all lanes of a warp exchange states.
    fn accumulate(
        &mut self,
        room: usize,
        bounds: &str,
        [indices, first]: [&str; 2],
        states: usize,
        state: &dyn Fn(&str) -> String,
    ) {
        let groups = Word(self.plan.groups);
        self.s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({bounds}) kernel(const Args a) {{
  __shared__ __align__(16) u8 room[sizeof(State) * {room}];
{indices}
  const bool there = own < {groups};
  const idx output = there ? own : {groups} - 1;"
        ));
        self.range(first);
        self.s.line(format_args!(
            "  State state[{states}];\n#pragma unroll\n  \
             for (int k = 0; k < {states}; k++) state[k] = identity(a);"
        ));
        for count in self.counts() {
            self.values(count, state);
        }
    }

    /// The lines that leave the state `whole` of output `index` to the second pass if there are several
    /// parts, and otherwise store its result at the offset `at`.
    fn result(&self, indent: &str, index: &str, at: &str) -> String {
        let (Plan { count, states, operands, .. }, out) = (self.plan, self.out);
        format!(
            "{indent}if (parts > 1) ((State*)a.v[{states}])[{index} * parts + blockIdx.y] = whole;
{indent}else (({out}*)a.v[{operands}])[{at}] = cast<{out}>(finalize(a, whole, a.v[{count}]));"
        )
    }

    /// The offsets of the operands at the output, and the range of this block's vectors along the values; the
    /// thread begins at `own`.
    fn range(&mut self, own: &str) {
        let Plan { kept, chunks, share, .. } = self.plan;
        let bases = names("b", kept.operands);
        bases.iter().for_each(|name| self.s.line(format_args!("  idx {name} = 0;")));
        kept.offsets(&mut self.s, "output", &all(&bases));
        self.s.line(format_args!(
            "  const idx first = (idx)blockIdx.y * {0}, past = first + {0}, end = past < {1} ? past : \
             {1};\n  idx r = first + {own};",
            Word(share),
            Word(chunks)
        ));
    }

    /// The numbers of vectors of the two loops over the values: as many as may be in flight, then one. The
    /// number decides which state takes a value of vectors of less than four elements, and must not depend on
    /// strides there.
    fn counts(&self) -> Vec<usize> {
        let vector = self.plan.vector;
        let registers = |(&index, dtype): (&usize, &DType)| {
            let is_packed = vector >= 4 && self.kinds[index + 1] == StrideClass::Contiguous;
            if is_packed { (dtype.size() * vector).div_ceil(4) } else { vector * dtype.size().div_ceil(4) }
        };
        let each: usize = self.signature.inputs.iter().map(registers).sum();
        let most = [IN_FLIGHT, IN_FLIGHT / 2].into_iter().find(|count| count * each <= FLIGHT_REGISTERS);
        most.into_iter().chain([1]).collect()
    }

    /// A loop over the values of the thread, with `count` vectors at a time: loads, then their values, each
    /// accumulated by the state `state(position of the element among them)`.
    fn values(&mut self, count: usize, state: &dyn Fn(&str) -> String) {
        let Plan { vector, by_rows, operands, kept, reduced, step, .. } = self.plan;
        let elements = count * vector;
        self.s.line(format_args!("  for (; r + {} * step < end; r += {count} * step) {{", count - 1));
        for (&index, &dtype) in &self.signature.inputs {
            self.s.line(format_args!("    {} x{index}[{elements}];", c_type(dtype)));
        }
        self.s.line(format_args!("#pragma unroll\n    for (int u = 0; u < {count}; u++) {{"));
        let offsets = names("o", kept.operands);
        let wanted: Vec<_> = (0..kept.operands)
            .map(|k| (k > 0 && self.signature.inputs.contains_key(&(k - 1))).then_some(offsets[k].as_str()))
            .collect();
        for (k, name) in wanted.iter().enumerate() {
            name.iter().for_each(|name| self.s.line(format_args!("    idx {name} = b{k};")));
        }
        reduced.offsets(&mut self.s, "(r + u * step)", &wanted);
        for (&index, &dtype) in &self.signature.inputs {
            let (k, c) = (index + 1, c_type(dtype));
            let (to, from) =
                (format!("(x{index} + u * {vector})"), format!("(const {c}*)a.v[{}] + o{k}", operands + k));
            self.kinds[k].load(&mut self.s, (c, vector), &to, &from, step_of(step, k));
        }
        self.s.line(format_args!(
            "    }}\n#pragma unroll\n    for (int i = 0; i < {elements}; i++) {{\n      \
             const int u = i / {vector}, j = i % {vector};"
        ));
        let value = c_type(self.signature.outputs[0]);
        let x = |index: usize| format!("x{index}[i]");
        let call = arguments(&self.signature, &x, &|_| "value".to_string());
        let at =
            if by_rows { format!("((i64)r + u * step) * {vector} + j") } else { "(i64)r + u * step".into() };
        let state = state("i");
        self.s.line(format_args!(
            "      {value} value; body({call});\n      {state} = accumulate(a, {state}, value, {at});\n    \
             }}\n  }}"
        ));
    }
}

/// The source of the second pass: a block combines the states of the parts of one output. The limit of blocks
/// on a multiprocessor keeps the assembler from spilling registers to make room for more.
fn combine_source<T: Element, R: Reducer<T>>(
    words: &ArgBlock,
    [count_at, parts_at, states_at, to]: [usize; 4],
    to_args: AxesArgs,
) -> Result<String> {
    let out = c_type(<R::Out as Element>::DTYPE);
    let reducer = trace_reducer::<T, R>()?;
    let mut s = SourceWriter::new();
    words.declare(&mut s);
    s.reducer("", &reducer, <Compute<T> as Prim>::DTYPE);
    lane_functions(&mut s, "", reducer.state.len());
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}, 4) kernel(const Args a) {{
  __shared__ __align__(16) u8 room[sizeof(State) * {}];
  const i64 parts = a.v[{parts_at}];
  const State* const states = (const State*)a.v[{states_at}] + blockIdx.x * parts;
  State state = identity(a);
  for (i64 k = threadIdx.x; k < parts; k += {THREADS}) state = combine(a, state, states[k]);
  const State whole = lanes_sync(a, state, {THREADS}, (State*)room);
  if (threadIdx.x == 0) {{\n    idx o = 0;",
        THREADS / WARP
    ));
    to_args.offsets(&mut s, "(idx)blockIdx.x", &[Some("o")]);
    s.line(format_args!(
        "    (({out}*)a.v[{to}])[o] = cast<{out}>(finalize(a, whole, a.v[{count_at}]));\n  }}\n}}"
    ));
    Ok(s.text())
}
