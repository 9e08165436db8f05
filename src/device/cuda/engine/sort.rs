//! Lines in order: keys with their places, sorted by a bitonic network (Batcher 1968), in shared memory where it can.
//!
//! Of equal keys the place decides, so the order is stable. A line is padded to a power of two with keys that come last.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Source, c_type, foreign, plain};
use crate::device::cuda::codegen::args::{Axes, Place, Words};
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::OperandRef;
use crate::element::Comparable;
use crate::error::{Error, Result};
use crate::kernel::SortPlan;
use std::any::TypeId;
use std::sync::Arc;

const THREADS: usize = 256;
/// Items that one block sorts in shared memory.
const LOCAL: usize = 2048;

impl Stream {
    /// # Safety
    /// As [`Device::sort`](crate::device::Device::sort).
    pub(in crate::device::cuda) unsafe fn sort<T: Comparable>(
        self: &Arc<Self>,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        plain("sort", foreign::<T>())?;
        if plan.lines.contains(&0) || plan.along == 0 || plan.keep == 0 {
            return Ok(());
        }
        let rank = plan.lines.len();
        let zeros = vec![0isize; rank + 1];
        let none = OperandRef { address: std::ptr::null_mut(), stride: &zeros, element: 1 };
        let slots = [from, values.unwrap_or(none), positions.unwrap_or(none)];
        let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
        let lines = Axes::merged(plan.lines, &strides, false);
        let (count, mut pairs) = (lines.numel(), Pairs::new(self, "sort", lines.numel(), plan.along)?);
        let mut words = Words::new(true);
        words.depends([usize::from(values.is_some()), usize::from(positions.is_some())]);
        pairs.words(&mut words);
        words.list.extend([plan.keep as i64, i64::from(plan.descending)]);
        words.slots(&slots);
        words.list.extend(slots.map(|slot| slot.stride[rank] as i64));
        let place = words.axes(&lines);
        let run = |part: &'static str, blocks: usize| {
            let key = Key { mechanism: part, types: [TypeId::of::<T>(); 2], class: words.class.clone() };
            let kernel = self.kernel(key, || {
                let mut s = Source::new();
                words.head(&mut s);
                ends(&mut s, part, c_type(T::DTYPE), values.is_some(), positions.is_some(), place);
                s.text()
            })?;
            let shape = Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
            // SAFETY: the caller's promise; the words stand as `ends` reads them.
            unsafe { self.launch("sort", kernel, shape, &words.list) }
        };
        run(KEYS, pairs.total.div_ceil(THREADS))?;
        pairs.order(self, "sort")?;
        run("sort leave", (count * plan.keep).div_ceil(THREADS))
    }
}

const KEYS: &str = "sort keys";

/// Lines of keys, each with its place in the line, padded to a power of two.
pub(in crate::device::cuda) struct Pairs {
    keys: CudaBlock,
    places: CudaBlock,
    along: usize,
    padded: usize,
    pub(in crate::device::cuda) total: usize,
}

impl Pairs {
    /// Room for `lines` lines of `along` keys.
    pub(in crate::device::cuda) fn new(stream: &Arc<Stream>, op: &'static str, lines: usize, along: usize) -> Result<Pairs> {
        let padded = along.checked_next_power_of_two();
        let total = padded
            .and_then(|padded| lines.checked_mul(padded))
            .filter(|&total| total <= isize::MAX as usize / 16);
        let total = total.ok_or(Error::OutOfMemory { op, nbytes: usize::MAX })?;
        let (keys, places) = (stream.room(total * 8)?, stream.room(total * 8)?);
        Ok(Pairs { keys, places, along, padded: total / lines.max(1), total })
    }

    /// Adds the words of [`WORDS`]; they stand first.
    pub(in crate::device::cuda) fn words(&self, words: &mut Words) {
        for word in
            [self.total, self.padded, self.along, self.keys.address().addr(), self.places.address().addr()]
        {
            words.push(word);
        }
    }

    /// Puts every line in order.
    pub(in crate::device::cuda) fn order(&mut self, stream: &Arc<Stream>, op: &'static str) -> Result<()> {
        let mut words = Words::new(true);
        self.words(&mut words);
        words.list.extend([0, 0]);
        let mut run = |part: &'static str, blocks: usize, from: usize, to: usize| {
            words.list[5..].copy_from_slice(&[from as i64, to as i64]);
            let key = Key { mechanism: part, types: [TypeId::of::<()>(); 2], class: words.class.clone() };
            let kernel = stream.kernel(key, || {
                let mut s = Source::new();
                words.head(&mut s);
                steps(&mut s, part);
                s.text()
            })?;
            let shape = Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
            // SAFETY: keys and places are there; the words stand as `steps` reads them.
            unsafe { stream.launch(op, kernel, shape, &words.list) }
        };
        let (local, padded) = (self.total.div_ceil(LOCAL), self.padded);
        run(NEAR, local, 2, padded.min(LOCAL))?;
        let mut run_length = 2 * LOCAL;
        while run_length <= padded {
            let mut far = run_length / 2;
            while far >= LOCAL {
                run("sort far", (self.total / 2).div_ceil(THREADS), run_length, far)?;
                far /= 2;
            }
            run(NEAR, local, run_length, run_length)?;
            run_length *= 2;
        }
        Ok(())
    }
}

const NEAR: &str = "sort near";

/// What [`Pairs::words`] are called in a source.
pub(in crate::device::cuda) const WORDS: &str = "  const i64 total = a.v[0], padded = a.v[1], along = a.v[2];
  u64* const keys = (u64*)a.v[3]; i64* const places = (i64*)a.v[4];";

/// The steps of the network: of items that are far apart in memory, or of those that a block holds.
fn steps(s: &mut Source, part: &str) {
    s.line(format_args!(
        "DI bool after(u64 key, i64 place, u64 other, i64 elsewhere) {{ return key > other || key == other && place > elsewhere; }}"
    ));
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{\n{WORDS}"
    ));
    s.line(format_args!("  const i64 from = a.v[5], to = a.v[6], inside = padded - 1; (void)along;"));
    if part != NEAR {
        s.line(format_args!("  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x;\n  if (thread >= total / 2) return;"));
        s.line(format_args!("  const i64 i = thread / to * to * 2 + thread % to, j = i + to;"));
        s.line(format_args!(
            "  const u64 ki = keys[i], kj = keys[j]; const i64 pi = places[i], pj = places[j];"
        ));
        s.line(format_args!("  if (after(ki, pi, kj, pj) == ((i & inside & from) == 0)) {{ keys[i] = kj; keys[j] = ki; places[i] = pj; places[j] = pi; }}\n}}"));
        return;
    }
    let half = LOCAL / 2;
    s.line(format_args!("  __shared__ u64 k[{LOCAL}]; __shared__ i64 p[{LOCAL}];\n  const i64 first = (i64)blockIdx.x * {LOCAL};"));
    s.line(format_args!("  for (int t = threadIdx.x; t < {LOCAL}; t += {THREADS}) if (first + t < total) {{ k[t] = keys[first + t]; p[t] = places[first + t]; }}"));
    s.line(format_args!(
        "  for (i64 run = from; run <= to; run *= 2) for (int far = run / 2 < {half} ? (int)(run / 2) : {half}; far > 0; far /= 2) {{"
    ));
    s.line(format_args!(
        "    __syncthreads();\n    for (int t = threadIdx.x; t < {half}; t += {THREADS}) {{"
    ));
    s.line(format_args!("      const int i = t / far * far * 2 + t % far, j = i + far;"));
    s.line(format_args!("      if (first + j < total && after(k[i], p[i], k[j], p[j]) == (((first + i) & inside & run) == 0)) {{"));
    s.line(format_args!("        const u64 key = k[i]; k[i] = k[j]; k[j] = key; const i64 place = p[i]; p[i] = p[j]; p[j] = place;"));
    s.line(format_args!("      }}\n    }}\n  }}\n  __syncthreads();"));
    s.line(format_args!("  for (int t = threadIdx.x; t < {LOCAL}; t += {THREADS}) if (first + t < total) {{ keys[first + t] = k[t]; places[first + t] = p[t]; }}\n}}"));
}

/// From elements to keys and places, and from places to what was asked for. Words after those of the pairs: 5 how many are
/// kept, 6 whether the order is reversed, 7 to 9 elements, values and positions, 10 to 12 their steps along a line.
fn ends(s: &mut Source, part: &str, c: &str, values: bool, positions: bool, place: Place) {
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{\n{WORDS}"
    ));
    s.line(format_args!("  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x, keep = a.v[5];\n  idx b0 = 0, b1 = 0, b2 = 0;"));
    if part == KEYS {
        s.line(format_args!("  if (thread >= total) return;\n  const i64 i = thread % padded;"));
        place.offsets(s, "thread / padded", &[Some("b0"), None, None]);
        s.line(format_args!("  u64 key = 0xffffffffffffffffull;"));
        s.line(format_args!("  if (i < along) {{ key = order_key(((const {c}*)a.v[7])[b0 + i * a.v[10]]); if (a.v[6]) key = ~key; }}"));
        s.line(format_args!("  keys[thread] = key; places[thread] = i; (void)keep; (void)b1; (void)b2;\n}}"));
        return;
    }
    s.line(format_args!(
        "  if (thread >= total / padded * keep) return;\n  const i64 line = thread / keep, i = thread % keep; (void)keys; (void)along;"
    ));
    place.offsets(s, "line", &[Some("b0"), Some("b1"), Some("b2")]);
    s.line(format_args!("  const i64 at = places[line * padded + i];"));
    if values {
        s.line(format_args!("  (({c}*)a.v[8])[b1 + i * a.v[11]] = ((const {c}*)a.v[7])[b0 + at * a.v[10]];"));
    }
    if positions {
        s.line(format_args!("  ((i64*)a.v[9])[b2 + i * a.v[12]] = at;"));
    }
    s.line(format_args!("}}"));
}
