//! Reductions: threads of a block share the values of one output, blocks may share them further in two passes.
//!
//! A block is `across × along` threads: that many outputs, that many threads for each. Neighbouring threads stand along
//! whatever the first operand is contiguous in. How the values are shared out depends on sizes, strides and the card.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type, state_size};
use super::geometry::{Axes, Place};
use super::map::{arguments, head, number_words, together, words_of};
use crate::device::{Inputs, Reduction, Slot};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::kernel::{Body, Reducer, Store, TracedReducer, numbers, trace_body, trace_reducer};
use crate::scalar::{DType, Graph, Prim};
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks for each multiprocessor that keep a card busy.
const BUSY: usize = 8;

/// How threads are shared out.
#[derive(Clone, Copy)]
struct Sharing {
    /// Outputs of a block.
    across: usize,
    /// Threads for each of them.
    along: usize,
    /// Whether neighbouring threads stand along the reduced axes.
    by_rows: bool,
}

impl Context {
    /// # Safety
    /// As [`Device::reduce`](crate::device::Device::reduce).
    pub(super) unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        self: &Arc<Self>,
        body: &B,
        axes: Reduction<'_>,
        output: Slot<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if axes.kept.contains(&0) {
            return Ok(());
        }
        let slots = together(&[output], inputs.slots);
        let kept_rank = axes.kept.len();
        let kept_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..kept_rank]).collect();
        let reduced_strides: Vec<&[isize]> = inputs.slots.iter().map(|slot| &slot.stride[kept_rank..]).collect();
        let kept = Axes::merged(axes.kept, &kept_strides, true);
        let reduced = Axes::merged(axes.reduced, &reduced_strides, false);
        let (outputs, count) = (kept.numel(), if axes.reduced.contains(&0) { 0 } else { reduced.numel() });
        let wide = kept.is_wide() || reduced.is_wide() || count > (i32::MAX / 2) as usize;
        let step =
            |axes: &Axes, k: usize| axes.strides.get(k).and_then(|steps| steps.last()).map_or(usize::MAX, |step| step.unsigned_abs());
        let by_rows = kept.rank() == 0 || count <= 1 || reduced.rank() > 0 && step(&reduced, 0) <= step(&kept, 1);
        let along = if by_rows { count.next_power_of_two().clamp(1, THREADS) } else { 8.min(count.next_power_of_two()) };
        let across = THREADS / along;
        let blocks = outputs.div_ceil(across);
        let most = count.div_ceil(along * 8).max(1);
        let parts = (BUSY * self.multiprocessors).div_ceil(blocks).min(most).min(1024);
        let sharing = Sharing { across, along, by_rows };
        let kept_place = Place { word: 6 + slots.len(), rank: kept.rank(), operands: slots.len() };
        let reduced_place = Place { word: kept_place.end(), rank: reduced.rank(), operands: inputs.slots.len() };
        let mut class: Vec<u32> = inputs.reads.iter().map(|&read| u32::from(read)).collect();
        class.push(u32::MAX);
        class.extend([along, usize::from(by_rows), kept.rank(), reduced.rank(), usize::from(wide)].map(|n| n as u32));
        let types = [TypeId::of::<B>(), TypeId::of::<R>()];
        let traced = || trace_reducer::<B::Out, R>();
        let key = Key { mechanism: "reduce", types, class: class.clone() };
        let kernel = self.kernel(key, || {
            let graph = trace_body(body, inputs.reads);
            source(&graph, &traced(), <R::Out as Element>::DTYPE, sharing, wide, kept_place, reduced_place)
        })?;
        let room = if parts > 1 { Some(self.room(outputs * parts * state_size(&traced()))?) } else { None };
        let states = room.as_ref().map_or(0, |room| room.address().addr() as i64);
        let share = count.div_ceil(parts);
        let mut words = vec![outputs as i64, count as i64, share as i64, parts as i64, states, 0];
        words.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        words.extend(kept.words());
        words.extend(reduced.words());
        words.extend(words_of(&numbers(&Store(*body))));
        let shape = Shape { blocks: (count_of(blocks), parts as u32), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `source` reads them.
        unsafe { self.launch("reduce", kernel, shape, &words) }?;
        if parts > 1 {
            class.push(1);
            let key = Key { mechanism: "join", types, class };
            let place = Place { word: 6, rank: kept.rank(), operands: 1 };
            let joined = self.kernel(key, || join(&traced(), <Compute<B::Out> as Prim>::DTYPE, <R::Out as Element>::DTYPE, wide, place))?;
            let mut words = vec![outputs as i64, count as i64, parts as i64, states, output.address.addr() as i64, 0];
            words.extend(Axes { sizes: kept.sizes.clone(), strides: kept.strides[..1].to_vec() }.words());
            let shape = Shape { blocks: (count_of(outputs), 1), threads: THREADS as u32, shared: 0 };
            // SAFETY: as above, for `join`.
            unsafe { self.launch("reduce", joined, shape, &words) }?;
        }
        Ok(())
    }
}

/// Combines the states `shared[k]` of threads that are `STEP · 2ⁿ` apart, into that of the first.
pub(super) fn tree(s: &mut Source, prefix: &str, along: usize, rank: &str, step: &str) {
    s.line(format_args!("  for (int half = {along} / 2; half > 0; half /= 2) {{"));
    s.line(format_args!("    __syncthreads();"));
    s.line(format_args!(
        "    if ({rank} < half) {prefix}shared[threadIdx.x] = {prefix}combine(a, {prefix}shared[threadIdx.x], {prefix}shared[threadIdx.x + half * {step}]);"
    ));
    s.line(format_args!("  }}"));
}

fn source(graph: &Graph, reducer: &TracedReducer, out: DType, sharing: Sharing, wide: bool, kept: Place, reduced: Place) -> String {
    let Sharing { across, along, by_rows } = sharing;
    let mut s = Source::new();
    head(&mut s, reduced.end() + number_words(graph), wide);
    let signature = s.function("body", graph, reduced.end());
    let value = signature.outputs[0];
    s.reducer("", reducer, value);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
    let (x, y) = if by_rows {
        (format!("threadIdx.x / {along}"), format!("threadIdx.x % {along}"))
    } else {
        (format!("threadIdx.x % {across}"), format!("threadIdx.x / {across}"))
    };
    s.line(format_args!(
        "  const int y = {y};\n  const idx output = (idx)blockIdx.x * {across} + {x};\n  const bool there = output < (idx)a.v[0];"
    ));
    let inputs = kept.operands - 1;
    let names: Vec<_> = (0..kept.operands).map(|k| format!("b{k}")).collect();
    names.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
    kept.offsets(&mut s, "output", &names);
    s.line(format_args!("  State state = identity(a);"));
    s.line(format_args!(
        "  const idx first = (idx)blockIdx.y * (idx)a.v[2], share = first + (idx)a.v[2], end = share < (idx)a.v[1] ? share : (idx)a.v[1];"
    ));
    s.line(format_args!("  if (there) for (idx r = first + y; r < end; r += {along}) {{"));
    let steps: Vec<_> = (0..inputs).map(|k| format!("o{k}")).collect();
    steps.iter().enumerate().for_each(|(k, name)| s.line(format_args!("  idx {name} = b{};", k + 1)));
    reduced.offsets(&mut s, "r", &steps);
    s.line(format_args!("    {} value;", c_type(value)));
    let load = |k: usize| format!("((const {}*)a.v[{}])[o{k}]", c_type(signature.inputs[&k]), 7 + k);
    s.line(format_args!("    body({});", arguments(&signature, &load, &|_| "value".to_string())));
    s.line(format_args!("    state = absorb(a, state, value, (i64)r);\n  }}"));
    s.line(format_args!("  shared[threadIdx.x] = state;"));
    tree(&mut s, "", along, "y", if by_rows { "1" } else { "ACROSS" });
    s.line(format_args!("  if (there && y == 0) {{"));
    s.line(format_args!("    if (a.v[3] > 1) ((State*)a.v[4])[output * (idx)a.v[3] + blockIdx.y] = shared[threadIdx.x];"));
    let c = c_type(out);
    s.line(format_args!("    else (({c}*)a.v[6])[b0] = cast<{c}>(finish(a, shared[threadIdx.x], a.v[1]));\n  }}\n}}"));
    s.text().replace("ACROSS", &across.to_string())
}

/// The second pass: a block for each output combines the states of its parts.
fn join(reducer: &TracedReducer, value: DType, out: DType, wide: bool, kept: Place) -> String {
    let mut s = Source::new();
    head(&mut s, kept.end(), wide);
    s.reducer("", reducer, value);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
    s.line(format_args!("  const idx output = blockIdx.x;\n  const State* const states = (const State*)a.v[3] + output * (idx)a.v[2];"));
    s.line(format_args!("  State state = identity(a);"));
    s.line(format_args!("  for (idx k = threadIdx.x; k < (idx)a.v[2]; k += {THREADS}) state = combine(a, state, states[k]);"));
    s.line(format_args!("  shared[threadIdx.x] = state;"));
    tree(&mut s, "", THREADS, "(int)threadIdx.x", "1");
    s.line(format_args!("  if (threadIdx.x == 0) {{\n    idx o = 0;"));
    kept.offsets(&mut s, "output", &["o".to_string()]);
    let c = c_type(out);
    s.line(format_args!("    (({c}*)a.v[4])[o] = cast<{c}>(finish(a, shared[0], a.v[1]));\n  }}\n}}"));
    s.text()
}
