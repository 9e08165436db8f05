//! Running states along an axis: a block goes along a line, tile by tile.
//!
//! Each thread absorbs a few neighbors from the identity; the threads' states are scanned in shared memory and combined
//! with that of the tiles before. A few long lines are cut in parts for many blocks, in three passes: the state of each
//! part, that of all before it, and the scan from there. Lines that stand side by side in memory are taken by single
//! threads instead.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Source, c_type, foreign, plain, shares, state_size};
use crate::device::cuda::codegen::args::{Axes, Place, Word, Words, all, is_wide, names};
use crate::device::cuda::engine::map::{arguments, reads, together};
use crate::device::cuda::engine::reduce::BUSY;
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::{Inputs, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan, Store, trace_body, trace_reducer};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Neighbors that a thread absorbs in a tile.
const EACH: usize = 4;
const TILE: usize = THREADS * EACH;
/// Parts of a line, at most: one thread goes along their states.
const PARTS: usize = 256;

/// What a kernel of a scan does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    /// A line for each thread.
    Single,
    /// A part of a line for each block: the state of all of it.
    Integer,
    /// A line for each thread: the states of parts become those of what is before them.
    Before,
    /// A part of a line for each block, scanned.
    Scan,
}

/// Where the words of a scan stand.
#[derive(Clone, Copy)]
struct Plan {
    lines: usize,
    along: usize,
    exclusive: usize,
    /// Parts of a line, how long they are, and their states.
    parts: usize,
    share: usize,
    states: usize,
    operands: usize,
    line: Place,
    step: Place,
    numbers: usize,
}

impl Stream {
    /// # Safety
    /// As [`Device::scan`](crate::device::Device::scan).
    pub(in crate::device::cuda) unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        self: &Arc<Self>,
        body: &B,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if plan.lines.contains(&0) || plan.along == 0 {
            return Ok(());
        }
        shares(R::NAME, THREADS, state_size::<B::Out, R>())?;
        let slots = together(&[output], inputs.slots);
        let rank = plan.lines.len();
        let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
        let lines = Axes::merged(plan.lines, &strides, true);
        let along = Axes {
            sizes: vec![plan.along],
            strides: slots.iter().map(|slot| vec![slot.stride[rank]]).collect(),
        };
        let count = lines.numel();
        // Threads side by side where the lines are, if there are enough of them.
        let single = lines.rank() > 0 && lines.inner_step(1.min(slots.len() - 1)) == 1 && count >= 1024
            || plan.along <= EACH;
        let most = plan.along.div_ceil(4 * TILE).min(PARTS);
        let parts = if single { 1 } else { (BUSY * self.multiprocessors).div_ceil(count).clamp(1, most) };
        let share = plan.along.div_ceil(parts).next_multiple_of(TILE);
        let parts = plan.along.div_ceil(share);
        let room = if parts > 1 { Some(self.room(count * parts * state_size::<B::Out, R>())?) } else { None };
        let mut words = Words::new(is_wide(&[&lines, &along], 0));
        words.class.extend(reads(inputs));
        let plan = Plan {
            lines: words.push(count),
            along: words.push(plan.along),
            exclusive: words.push(usize::from(plan.exclusive)),
            parts: words.push(parts),
            share: words.push(share),
            states: words.push(room.as_ref().map_or(0, |room| room.address().addr())),
            operands: words.slots(&slots),
            line: words.axes(&lines),
            step: words.axes(&along),
            numbers: words.numbers(&Store(*body)),
        };
        let run = |pass: Pass, blocks: usize, parts: usize| {
            let mut class = words.class.clone();
            class.push(pass as u32);
            let key = Key { mechanism: "scan", types: [TypeId::of::<B>(), TypeId::of::<R>()], class };
            let kernel = self.generated(key, || source::<B, R>(body, inputs, pass, &words, plan))?;
            let shape =
                Shape { blocks: (count_of(blocks), parts as u32), threads: THREADS as u32, shared: 0 };
            // SAFETY: the caller's promise; the words stand as `source` reads them.
            unsafe { self.launch("scan", kernel, shape, &words.list) }
        };
        if single {
            return run(Pass::Single, count.div_ceil(THREADS), 1);
        }
        if parts > 1 {
            run(Pass::Integer, count, parts)?;
            run(Pass::Before, count.div_ceil(THREADS), 1)?;
        }
        run(Pass::Scan, count, parts)
    }
}

fn source<B: Body, R: Reducer<B::Out>>(
    body: &B,
    inputs: Inputs<'_>,
    pass: Pass,
    words: &Words,
    plan: Plan,
) -> Result<String> {
    let mut s = Source::new();
    words.head(&mut s);
    let graph = trace_body(body, inputs.reads);
    plain(R::NAME, graph.foreign().or(foreign::<B::Out>()).or(foreign::<R::Out>()))?;
    let signature = s.function("body", &graph, plan.numbers);
    let value = c_type(signature.outputs[0]);
    s.reducer("", &trace_reducer::<B::Out, R>(), signature.outputs[0]);
    let (step, operands) = (plan.step, plan.operands);
    let load = |k: usize| {
        format!(
            "((const {}*)a.v[{}])[b{} + i * {}]",
            c_type(signature.inputs[&k]),
            operands + 1 + k,
            k + 1,
            step.step(k + 1)
        )
    };
    // The value at position `i`, and what is stored there.
    let fetch = format!("{value} value; body({});", arguments(&signature, &load, &|_| "value".to_string()));
    let c = c_type(<R::Out as Element>::DTYPE);
    let put = |at: &str, state: &str, count: &str| {
        format!(
            "(({c}*)a.v[{operands}])[b0 + ({at}) * {}] = cast<{c}>(finalize(a, {state}, (i64)({count})));",
            step.step(0)
        )
    };
    // A position that leaves itself out has the bits of the one before it, which stores them there.
    let first = put("0", "identity(a)", "0");
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    let by_thread = matches!(pass, Pass::Single | Pass::Before);
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
    if pass == Pass::Before {
        s.line(format_args!(
            "  State before = identity(a);\n  for (i64 k = 0; k < a.v[{}]; k++) {{",
            plan.parts
        ));
        s.line(format_args!("    const State own = states[k];\n    states[k] = before; before = combine(a, before, own);\n  }}\n}}"));
        return Ok(s.text());
    }
    let bases = names("b", plan.line.operands);
    bases.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    plan.line.offsets(&mut s, "line", &all(&bases));
    if pass == Pass::Single {
        s.line(format_args!(
            "  State state = identity(a);\n  if (later) {first}\n  for (idx i = 0; i + later < count; i++) {{"
        ));
        s.line(format_args!(
            "    {fetch}\n    state = accumulate(a, state, value, (i64)i);\n    {}\n  }}\n}}",
            put("i + later", "state", "i + 1")
        ));
        return Ok(s.text());
    }
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
    s.line(format_args!(
        "  const idx begin = (idx)blockIdx.y * {}, share = begin + {};",
        Word(plan.share),
        Word(plan.share)
    ));
    s.line(format_args!("  const idx end = share < count ? share : count;\n  const int t = threadIdx.x;"));
    let whole = pass == Pass::Integer;
    let before = if whole {
        "identity(a)".to_string()
    } else {
        format!("a.v[{}] > 1 ? states[blockIdx.y] : identity(a)", plan.parts)
    };
    s.line(format_args!(
        "  State before = {before};\n  for (idx tile = begin; tile < end; tile += {TILE}) {{"
    ));
    s.line(format_args!(
        "    State own[{EACH}]; State state = identity(a); const idx first = tile + t * {EACH};"
    ));
    s.line(format_args!(
        "#pragma unroll\n    for (int u = 0; u < {EACH}; u++) {{ const idx i = first + u; if (i < end) {{"
    ));
    s.line(format_args!("      {fetch} state = accumulate(a, state, value, (i64)i); own[u] = state; }} }}"));
    s.line(format_args!("    shared[t] = state;"));
    // Hillis and Steele 1986: after the step of 2ⁿ each state covers 2ⁿ⁺¹ threads.
    s.line(format_args!("    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();"));
    s.line(format_args!("      const State mine = shared[t], earlier = shared[t >= far ? t - far : 0];\n      __syncthreads();"));
    s.line(format_args!(
        "      shared[t] = t >= far ? combine(a, earlier, mine) : mine;\n    }}\n    __syncthreads();"
    ));
    if !whole {
        s.line(format_args!("    const State prefix = t > 0 ? combine(a, before, shared[t - 1]) : before;"));
        s.line(format_args!(
            "#pragma unroll\n    for (int u = 0; u < {EACH}; u++) {{ const idx i = first + u; if (i < end && i + later < count) {{"
        ));
        s.line(format_args!("      {} }} }}", put("i + later", "combine(a, prefix, own[u])", "i + 1")));
    }
    s.line(format_args!(
        "    before = combine(a, before, shared[{THREADS} - 1]);\n    __syncthreads();\n  }}"
    ));
    if !whole {
        s.line(format_args!("  if (later && begin == 0 && t == 0) {first}"));
    }
    if whole {
        s.line(format_args!("  if (t == 0) states[blockIdx.y] = before;"));
    }
    s.line(format_args!("}}"));
    Ok(s.text())
}
