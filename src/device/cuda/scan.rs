//! Running states along an axis: a block goes along a line, tile by tile.
//!
//! Each thread absorbs a few neighbours from the identity; the threads' states are scanned in shared memory and combined
//! with that of the tiles before. Lines that stand side by side in memory are taken by single threads instead.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type};
use super::geometry::{Axes, Place};
use super::map::{arguments, head, number_words, together, words_of};
use crate::device::{Inputs, Slot};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, Scanning, Store, TracedReducer, numbers, trace_body, trace_reducer};
use crate::scalar::{DType, Graph};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Neighbours that a thread absorbs in a tile.
const EACH: usize = 4;

impl Context {
    /// # Safety
    /// As [`Device::scan`](crate::device::Device::scan).
    pub(super) unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        self: &Arc<Self>,
        body: &B,
        plan: Scanning<'_>,
        output: Slot<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if plan.lines.contains(&0) || plan.along == 0 {
            return Ok(());
        }
        let slots = together(&[output], inputs.slots);
        let rank = plan.lines.len();
        let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
        let lines = Axes::merged(plan.lines, &strides, true);
        let along = Axes { sizes: vec![plan.along], strides: slots.iter().map(|slot| vec![slot.stride[rank]]).collect() };
        let wide = lines.is_wide() || along.is_wide();
        let count = lines.numel();
        // Threads side by side where the lines are, if there are enough of them.
        let single = lines.rank() > 0 && lines.inner_step(1.min(slots.len() - 1)) == 1 && count >= 1024 || plan.along <= EACH;
        let line_place = Place { word: 2 + slots.len(), rank: lines.rank(), operands: slots.len() };
        let along_place = Place { word: line_place.end(), rank: 1, operands: slots.len() };
        let mut class: Vec<u32> = inputs.reads.iter().map(|&read| u32::from(read)).collect();
        class.push(u32::MAX);
        class.extend([usize::from(single), lines.rank(), usize::from(wide), usize::from(plan.exclusive)].map(|n| n as u32));
        let key = Key { mechanism: "scan", types: [TypeId::of::<B>(), TypeId::of::<R>()], class };
        let kernel = self.kernel(key, || {
            let (graph, reducer) = (trace_body(body, inputs.reads), trace_reducer::<B::Out, R>());
            source(&graph, &reducer, <R::Out as Element>::DTYPE, single, plan.exclusive, wide, line_place, along_place)
        })?;
        let mut words = vec![count as i64, plan.along as i64];
        words.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        words.extend(lines.words());
        words.extend(along.words());
        words.extend(words_of(&numbers(&Store(*body))));
        let blocks = if single { count.div_ceil(THREADS) } else { count };
        let shape = Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("scan", kernel, shape, &words) }
    }
}

#[allow(clippy::too_many_arguments)]
fn source(
    graph: &Graph,
    reducer: &TracedReducer,
    out: DType,
    single: bool,
    exclusive: bool,
    wide: bool,
    lines: Place,
    along: Place,
) -> String {
    let mut s = Source::new();
    head(&mut s, along.end() + number_words(graph), wide);
    let signature = s.function("body", graph, along.end());
    let value = c_type(signature.outputs[0]);
    s.reducer("", reducer, signature.outputs[0]);
    let load = |k: usize| format!("((const {}*)a.v[{}])[b{} + i * {}]", c_type(signature.inputs[&k]), 3 + k, k + 1, along.step(0, k + 1));
    // The value at position `i`, and what is stored there.
    let fetch = format!("{value} value; body({});", arguments(&signature, &load, &|_| "value".to_string()));
    let c = c_type(out);
    let put = |state: &str, count: &str| {
        format!("(({c}*)a.v[2])[b0 + i * {}] = cast<{c}>(finish(a, {state}, (i64)({count})));", along.step(0, 0))
    };
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    let names: Vec<_> = (0..lines.operands).map(|k| format!("b{k}")).collect();
    let line = if single { format!("(idx)blockIdx.x * {THREADS} + threadIdx.x") } else { "(idx)blockIdx.x".to_string() };
    s.line(format_args!("  const idx line = {line}, count = (idx)a.v[1];"));
    if single {
        s.line(format_args!("  if (line >= (idx)a.v[0]) return;"));
    }
    names.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    lines.offsets(&mut s, "line", &names);
    if single {
        s.line(format_args!("  State state = identity(a);\n  for (idx i = 0; i < count; i++) {{"));
        if exclusive {
            s.line(format_args!("    {{ {fetch} {} state = absorb(a, state, value, (i64)i); }}", put("state", "i")));
        } else {
            s.line(format_args!("    {{ {fetch} state = absorb(a, state, value, (i64)i); {} }}", put("state", "i + 1")));
        }
        s.line(format_args!("  }}\n}}"));
        return s.text();
    }
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
    s.line(format_args!("  State before = identity(a);\n  const int t = threadIdx.x;"));
    s.line(format_args!("  for (idx tile = 0; tile < count; tile += {}) {{", THREADS * EACH));
    s.line(format_args!("    State own[{EACH}]; State state = identity(a); const idx first = tile + t * {EACH};"));
    s.line(format_args!("#pragma unroll\n    for (int u = 0; u < {EACH}; u++) {{ const idx i = first + u; if (i < count) {{"));
    if exclusive {
        s.line(format_args!("      {fetch} own[u] = state; state = absorb(a, state, value, (i64)i); }} }}"));
    } else {
        s.line(format_args!("      {fetch} state = absorb(a, state, value, (i64)i); own[u] = state; }} }}"));
    }
    s.line(format_args!("    shared[t] = state;"));
    // Hillis and Steele 1986: after the step of 2ⁿ each state covers 2ⁿ⁺¹ threads.
    s.line(format_args!("    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();"));
    s.line(format_args!("      const State mine = shared[t], earlier = shared[t >= far ? t - far : 0];\n      __syncthreads();"));
    s.line(format_args!("      shared[t] = t >= far ? combine(a, earlier, mine) : mine;\n    }}\n    __syncthreads();"));
    s.line(format_args!("    const State prefix = t > 0 ? combine(a, before, shared[t - 1]) : before;"));
    let number = if exclusive { "i" } else { "i + 1" };
    s.line(format_args!(
        "#pragma unroll\n    for (int u = 0; u < {EACH}; u++) {{ const idx i = first + u; if (i < count) {{ {} }} }}",
        put("combine(a, prefix, own[u])", number)
    ));
    s.line(format_args!("    before = combine(a, before, shared[{THREADS} - 1]);\n    __syncthreads();\n  }}\n}}"));
    s.text()
}
