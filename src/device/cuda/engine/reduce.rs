//! Reductions: threads of a block share the values of one output, blocks may share them further in two passes.
//!
//! A block is `across × along` threads: that many outputs, that many threads for each. Neighboring threads stand along
//! whatever the first operand is contiguous in. How the values are shared out depends on sizes, strides and the card; a
//! thread takes every so many values, so states come together in any order, which the laws of `Reducer` allow.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Source, c_type, foreign, plain, shares, state_size};
use crate::device::cuda::codegen::args::{Axes, Word, Words, all, is_wide, names};
use crate::device::cuda::engine::map::{arguments, reads, together};
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::{Inputs, OperandRef, Reduction};
use crate::element::{Compute, Element};
use crate::error::{Error, Result};
use crate::kernel::{Body, Reducer, Store, trace_body, trace_reducer};
use crate::scalar::Prim;
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks for each multiprocessor that keep a card busy.
pub(in crate::device::cuda) const BUSY: usize = 8;

impl Stream {
    /// # Safety
    /// As [`Device::reduce`](crate::device::Device::reduce).
    pub(in crate::device::cuda) unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        self: &Arc<Self>,
        body: &B,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        if axes.kept.contains(&0) {
            return Ok(());
        }
        shares(R::NAME, THREADS, state_size::<B::Out, R>())?;
        let slots = together(&[output], inputs.slots);
        let kept_rank = axes.kept.len();
        let kept_strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..kept_rank]).collect();
        // The output stands still along what is reduced.
        let reduced_strides: Vec<&[isize]> =
            slots.iter().map(|slot| slot.stride.get(kept_rank..).unwrap_or(&[])).collect();
        let kept = Axes::merged(axes.kept, &kept_strides, true);
        let reduced = Axes::merged(axes.reduced, &reduced_strides, false);
        let (outputs, count) = (kept.numel(), if axes.reduced.contains(&0) { 0 } else { reduced.numel() });
        let step = |axes: &Axes, k: usize| {
            axes.strides.get(k).and_then(|steps| steps.last()).map_or(usize::MAX, |step| step.unsigned_abs())
        };
        let by_rows =
            kept.rank() == 0 || count <= 1 || reduced.rank() > 0 && step(&reduced, 1) <= step(&kept, 1);
        let along = if by_rows {
            count.next_power_of_two().clamp(1, THREADS)
        } else {
            8.min(count.next_power_of_two())
        };
        let across = THREADS / along;
        let blocks = outputs.div_ceil(across);
        let most = count.div_ceil(along * 8).max(1);
        let parts = (BUSY * self.multiprocessors).div_ceil(blocks).min(most).min(1024);
        let room = match parts {
            1 => None,
            _ => {
                let nbytes = outputs
                    .checked_mul(parts)
                    .and_then(|states| states.checked_mul(state_size::<B::Out, R>()));
                Some(self.room(nbytes.ok_or(Error::OutOfMemory { op: "reduce", nbytes: usize::MAX })?)?)
            }
        };
        let states = room.as_ref().map_or(0, |room| room.address().addr());
        let mut words = Words::new(is_wide(&[&kept, &reduced], 0));
        words.class.extend(reads(inputs));
        let [outputs_at, count_at, share_at, parts_at, states_at] =
            [outputs, count, count.div_ceil(parts), parts, states].map(|word| words.push(word));
        // Of a thread: how many there are beside it along the outputs and along the values, and whether the latter are neighbors.
        let [along_at, across_at, rows_at] =
            [along, across, usize::from(by_rows)].map(|word| words.push(word));
        let operands = words.slots(&slots);
        let (kept_place, reduced_place) = (words.axes(&kept), words.axes(&reduced));
        let numbers = words.numbers(&Store(*body));
        let types = [TypeId::of::<B>(), TypeId::of::<R>()];
        let out = c_type(<R::Out as Element>::DTYPE);
        let key = Key { mechanism: "reduce", types, class: words.class.clone() };
        let kernel = self.generated(key, || {
            let mut s = Source::new();
            words.head(&mut s);
            let graph = trace_body(body, inputs.reads);
            plain(R::NAME, graph.foreign().or(foreign::<B::Out>()).or(foreign::<R::Out>()))?;
            let signature = s.function("body", &graph, numbers);
            let value = signature.outputs[0];
            s.reducer("", &trace_reducer::<B::Out, R>(), value);
            begin(&mut s);
            s.line(format_args!(
                "  const int along = (int)a.v[{along_at}], across = (int)a.v[{across_at}], by_rows = (int)a.v[{rows_at}];"
            ));
            s.line(format_args!(
                "  const int t = threadIdx.x, x = by_rows ? t / along : t % across, y = by_rows ? t % along : t / across;"
            ));
            s.line(format_args!("  const idx output = (idx)blockIdx.x * across + x, count = {};", Word(count_at)));
            s.line(format_args!("  const bool there = output < {};", Word(outputs_at)));
            let bases = names("b", kept_place.operands);
            bases.iter().for_each(|name| s.line(format_args!("  idx {name} = 0;")));
            kept_place.offsets(&mut s, "output", &all(&bases));
            s.line(format_args!("  State state = identity(a);\n  const idx first = (idx)blockIdx.y * {};", Word(share_at)));
            s.line(format_args!("  const idx share = first + {}, end = share < count ? share : count;", Word(share_at)));
            s.line(format_args!("  if (there) for (idx r = first + y; r < end; r += along) {{"));
            let steps = names("o", kept_place.operands);
            let wanted = |k: usize| (k > 0 && signature.inputs.contains_key(&(k - 1))).then_some(steps[k].as_str());
            let wanted: Vec<_> = (0..steps.len()).map(wanted).collect();
            wanted.iter().zip(&bases).for_each(|(name, base)| name.iter().for_each(|name| s.line(format_args!("  idx {name} = {base};"))));
            reduced_place.offsets(&mut s, "r", &wanted);
            s.line(format_args!("    {} value;", c_type(value)));
            let load = |k: usize| format!("((const {}*)a.v[{}])[o{}]", c_type(signature.inputs[&k]), operands + 1 + k, k + 1);
            s.line(format_args!("    body({});", arguments(&signature, &load, &|_| "value".to_string())));
            s.line(format_args!("    state = accumulate(a, state, value, (i64)r);\n  }}"));
            s.line(format_args!("  shared[threadIdx.x] = state;"));
            tree(&mut s, "", "along", "y", "(by_rows ? 1 : across)");
            s.line(format_args!("  if (there && y == 0) {{\n    const i64 parts = a.v[{parts_at}];"));
            s.line(format_args!("    if (parts > 1) ((State*)a.v[{states_at}])[(i64)output * parts + blockIdx.y] = shared[threadIdx.x];"));
            s.line(format_args!("    else (({out}*)a.v[{operands}])[b0] = cast<{out}>(finalize(a, shared[threadIdx.x], a.v[{count_at}]));"));
            s.line(format_args!("  }}\n}}"));
            Ok(s.text())
        })?;
        let shape = Shape { blocks: (count_of(blocks), parts as u32), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as the source reads them.
        unsafe { self.launch("reduce", kernel, shape, &words.list) }?;
        if parts == 1 {
            return Ok(());
        }
        // The second pass: a block for each output combines the states of its parts.
        let mut words = Words::new(is_wide(&[&kept], 0));
        let [count_at, parts_at, states_at] = [count, parts, states].map(|word| words.push(word));
        let to = words.slots(&slots[..1]);
        let place = words.axes(&Axes { sizes: kept.sizes, strides: vec![kept.strides[0].clone()] });
        let key = Key { mechanism: "join", types, class: words.class.clone() };
        let joined = self.kernel(key, || {
            let mut s = Source::new();
            words.head(&mut s);
            s.reducer("", &trace_reducer::<B::Out, R>(), <Compute<B::Out> as Prim>::DTYPE);
            begin(&mut s);
            s.line(format_args!("  const i64 parts = a.v[{parts_at}];"));
            s.line(format_args!(
                "  const State* const states = (const State*)a.v[{states_at}] + blockIdx.x * parts;"
            ));
            s.line(format_args!("  State state = identity(a);"));
            s.line(format_args!(
                "  for (i64 k = threadIdx.x; k < parts; k += {THREADS}) state = combine(a, state, states[k]);"
            ));
            s.line(format_args!("  shared[threadIdx.x] = state;"));
            tree(&mut s, "", &THREADS.to_string(), "(int)threadIdx.x", "1");
            s.line(format_args!("  if (threadIdx.x == 0) {{\n    idx o = 0;"));
            place.offsets(&mut s, "(idx)blockIdx.x", &[Some("o")]);
            s.line(format_args!(
                "    (({out}*)a.v[{to}])[o] = cast<{out}>(finalize(a, shared[0], a.v[{count_at}]));\n  }}\n}}"
            ));
            s.text()
        })?;
        let shape = Shape { blocks: (count_of(outputs), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: as above.
        unsafe { self.launch("reduce", joined, shape, &words.list) }
    }
}

/// The head of a kernel whose threads have a state each in shared memory.
fn begin(s: &mut Source) {
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ __align__(16) u8 room[sizeof(State) * {THREADS}];\n  State* const shared = (State*)room;"));
}

/// Combines the states `shared[k]` of threads that are `step · 2ⁿ` apart, into that of the first.
pub(in crate::device::cuda) fn tree(s: &mut Source, prefix: &str, along: &str, rank: &str, step: &str) {
    s.line(format_args!("  for (int half = {along} / 2; half > 0; half /= 2) {{\n    __syncthreads();"));
    s.line(format_args!("    if ({rank} < half) {prefix}shared[threadIdx.x] ="));
    s.line(format_args!("      {prefix}combine(a, {prefix}shared[threadIdx.x], {prefix}shared[threadIdx.x + half * {step}]);\n  }}"));
}
