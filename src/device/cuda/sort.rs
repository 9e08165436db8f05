//! Lines in order: keys with their places, sorted by a bitonic network (Batcher 1968), in shared memory where it can.
//!
//! Of equal keys the place decides, so the order is stable. A line is padded to a power of two with keys that come last.
//! Imports: `error`, `element`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type};
use super::geometry::{Axes, Place};
use super::map::head;
use crate::device::Slot;
use crate::element::Comparable;
use crate::error::{Error, Result};
use crate::kernel::Sorting;
use std::any::TypeId;
use std::sync::Arc;

const THREADS: usize = 256;
/// Items that one block sorts in shared memory.
const LOCAL: usize = 2048;

impl Context {
    /// # Safety
    /// As [`Device::sort`](crate::device::Device::sort).
    pub(super) unsafe fn sort<T: Comparable>(
        self: &Arc<Self>,
        plan: Sorting<'_>,
        values: Option<Slot<'_>>,
        positions: Option<Slot<'_>>,
        from: Slot<'_>,
    ) -> Result<()> {
        if plan.lines.contains(&0) || plan.along == 0 || plan.keep == 0 {
            return Ok(());
        }
        let rank = plan.lines.len();
        let zeros = vec![0isize; rank + 1];
        let none = Slot { address: std::ptr::null_mut(), stride: &zeros, element: 1 };
        let slots = [from, values.unwrap_or(none), positions.unwrap_or(none)];
        let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
        let lines = Axes::merged(plan.lines, &strides, false);
        let (count, padded) = (lines.numel(), plan.along.next_power_of_two());
        let total = count.checked_mul(padded).filter(|&total| total <= isize::MAX as usize / 16);
        let total = total.ok_or(Error::OutOfMemory { op: "sort", nbytes: usize::MAX })?;
        let (keys, places) = (self.room(total * 8)?, self.room(total * 8)?);
        let place = Place { word: 15, rank: lines.rank(), operands: 3 };
        let mut words = vec![total as i64, padded as i64, plan.along as i64, plan.keep as i64, i64::from(plan.descending)];
        words.extend(
            [keys.address(), places.address(), slots[0].address, slots[1].address, slots[2].address].map(|address| address.addr() as i64),
        );
        words.extend([0, 0]);
        words.extend(slots.map(|slot| slot.stride[rank] as i64));
        words.extend(lines.words());
        let kernel = |part: &'static str| {
            let class = vec![lines.rank() as u32, u32::from(values.is_some()), u32::from(positions.is_some())];
            let key = Key { mechanism: part, types: [TypeId::of::<T>(); 2], class };
            self.kernel(key, || source(part, c_type(T::DTYPE), values.is_some(), positions.is_some(), place))
        };
        let shape = |blocks: usize| Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
        let (apart, local, swap, leave) = (kernel("sort keys")?, kernel("sort local")?, kernel("sort swap")?, kernel("sort leave")?);
        let mut run = |part, blocks, from: usize, to: usize| {
            (words[10], words[11]) = (from as i64, to as i64);
            // SAFETY: the caller's promise; the words stand as `source` reads them.
            unsafe { self.launch("sort", part, shape(blocks), &words) }
        };
        run(apart, total.div_ceil(THREADS), 0, 0)?;
        run(local, total.div_ceil(LOCAL), 2, padded.min(LOCAL))?;
        let mut run_length = 2 * LOCAL;
        while run_length <= padded {
            let mut far = run_length / 2;
            while far >= LOCAL {
                run(swap, (total / 2).div_ceil(THREADS), run_length, far)?;
                far /= 2;
            }
            run(local, total.div_ceil(LOCAL), run_length, run_length)?;
            run_length *= 2;
        }
        run(leave, (count * plan.keep).div_ceil(THREADS), 0, 0)
    }
}

fn source(part: &str, c: &str, values: bool, positions: bool, place: Place) -> String {
    let mut s = Source::new();
    head(&mut s, place.end(), true);
    // Words: 0 items, 1 items of a line, 2 elements of a line, 3 kept, 4 descending, 5 keys, 6 places, 7 from, 8 values,
    // 9 positions, 10 and 11 the step of the network, 12 to 14 steps along a line.
    s.line(format_args!(
        "DI bool after(u64 key, i64 place, u64 other, i64 elsewhere) {{ return key > other || key == other && place > elsewhere; }}"
    ));
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  u64* const keys = (u64*)a.v[5]; i64* const places = (i64*)a.v[6];\n  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x, inside = a.v[1] - 1;"));
    let bases = |s: &mut Source, line: &str| {
        s.line(format_args!("  idx b0 = 0, b1 = 0, b2 = 0;"));
        place.offsets(s, line, &["b0", "b1", "b2"].map(String::from));
    };
    match part {
        "sort keys" => {
            s.line(format_args!("  if (thread >= a.v[0]) return;\n  const i64 i = thread & inside;"));
            bases(&mut s, "thread / a.v[1]");
            s.line(format_args!("  u64 key = 0xffffffffffffffffull;\n  if (i < a.v[2]) {{ key = order_key(((const {c}*)a.v[7])[b0 + i * a.v[12]]); if (a.v[4]) key = ~key; }}"));
            s.line(format_args!("  keys[thread] = key; places[thread] = i;\n}}"));
        }
        "sort swap" => {
            s.line(format_args!(
                "  if (thread >= a.v[0] / 2) return;\n  const i64 far = a.v[11], i = thread / far * far * 2 + thread % far, j = i + far;"
            ));
            s.line(format_args!("  const u64 ki = keys[i], kj = keys[j]; const i64 pi = places[i], pj = places[j];"));
            s.line(format_args!("  if (after(ki, pi, kj, pj) == ((i & inside & a.v[10]) == 0)) {{ keys[i] = kj; keys[j] = ki; places[i] = pj; places[j] = pi; }}\n}}"));
        }
        "sort local" => {
            s.line(format_args!("  __shared__ u64 k[{LOCAL}]; __shared__ i64 p[{LOCAL}];\n  const i64 first = (i64)blockIdx.x * {LOCAL};"));
            s.line(format_args!("  for (int t = threadIdx.x; t < {LOCAL}; t += {THREADS}) if (first + t < a.v[0]) {{ k[t] = keys[first + t]; p[t] = places[first + t]; }}"));
            s.line(format_args!("  for (i64 run = a.v[10]; run <= a.v[11]; run *= 2) for (int far = run / 2 < {} ? (int)(run / 2) : {}; far > 0; far /= 2) {{", LOCAL / 2, LOCAL / 2));
            s.line(format_args!("    __syncthreads();\n    for (int t = threadIdx.x; t < {}; t += {THREADS}) {{\n      const int i = t / far * far * 2 + t % far, j = i + far;", LOCAL / 2));
            s.line(format_args!(
                "      if (first + j < a.v[0] && after(k[i], p[i], k[j], p[j]) == (((first + i) & inside & run) == 0)) {{"
            ));
            s.line(format_args!("        const u64 key = k[i]; k[i] = k[j]; k[j] = key; const i64 place = p[i]; p[i] = p[j]; p[j] = place;\n      }}\n    }}\n  }}\n  __syncthreads();"));
            s.line(format_args!("  for (int t = threadIdx.x; t < {LOCAL}; t += {THREADS}) if (first + t < a.v[0]) {{ keys[first + t] = k[t]; places[first + t] = p[t]; }}\n}}"));
        }
        _ => {
            s.line(format_args!(
                "  if (thread >= a.v[0] / a.v[1] * a.v[3]) return;\n  const i64 line = thread / a.v[3], i = thread % a.v[3];"
            ));
            bases(&mut s, "line");
            s.line(format_args!("  const i64 at = places[line * a.v[1] + i];"));
            if values {
                s.line(format_args!("  (({c}*)a.v[8])[b1 + i * a.v[13]] = ((const {c}*)a.v[7])[b0 + at * a.v[12]];"));
            }
            if positions {
                s.line(format_args!("  ((i64*)a.v[9])[b2 + i * a.v[14]] = at;"));
            }
            s.line(format_args!("}}"));
        }
    }
    s.text()
}
