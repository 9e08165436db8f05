//! `sort`: elements become integer keys, the keys are sorted with their positions (`key_pairs.rs`), and the
//! positions give the sorted elements.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs};
use crate::device::cuda::codegen::axes::Axes;
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::key_pairs::{DECLARE_PAIRS, KeyPairs};
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::Comparable;
use crate::error::Result;
use crate::kernel::SortPlan;
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// The mechanism of the kernel that makes the keys.
const KEYS: &str = "sort keys";

/// Queues a sort.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) for elements that kernels cannot compute with;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory); those of the launches.
///
/// # Safety
/// As [`Device::sort`](crate::device::Device::sort).
pub(in crate::device::cuda) unsafe fn run<T: Comparable>(
    stream: &Arc<Stream>,
    plan: SortPlan<'_>,
    values: Option<OperandRef<'_>>,
    positions: Option<OperandRef<'_>>,
    from: OperandRef<'_>,
) -> Result<()> {
    ensure_computable("sort", unsupported::<T>())?;
    if plan.lines.contains(&0) || plan.along == 0 || plan.keep == 0 {
        return Ok(());
    }
    let rank = plan.lines.len();
    let zeros = vec![0isize; rank + 1];
    let none = OperandRef { address: std::ptr::null_mut(), stride: &zeros, element: 1 };
    let slots = [from, values.unwrap_or(none), positions.unwrap_or(none)];
    let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
    let lines = Axes::coalesced(plan.lines, &strides, false);
    let (count, mut pairs) = (lines.numel(), KeyPairs::new(stream, "sort", lines.numel(), plan.along)?);
    let mut words = ArgBlock::new(true);
    words.depends([usize::from(values.is_some()), usize::from(positions.is_some())]);
    pairs.add_words(&mut words);
    words.list.extend([plan.keep as i64, i64::from(plan.descending), plan.first as i64]);
    words.operands(&slots);
    words.list.extend(slots.map(|slot| slot.stride[rank] as i64));
    let place = words.axes(&lines);
    let launch = |part: &'static str, blocks: usize| {
        let key = KernelKey {
            mechanism: part,
            types: [TypeId::of::<T>(); 2],
            key_numbers: words.key_numbers.clone(),
        };
        let kernel = stream.kernel(key, || {
            let mut s = SourceWriter::new();
            words.declare(&mut s);
            convert(&mut s, part, c_type(T::DTYPE), values.is_some(), positions.is_some(), place);
            Ok(s.text())
        })?;
        let shape = LaunchShape { blocks: (block_count(blocks), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: (1) the words are those of `convert`; (2) is the caller's promise.
        unsafe { stream.launch("sort", kernel, shape, &words.list) }
    };
    launch(KEYS, pairs.total.div_ceil(THREADS))?;
    pairs.sort(stream, "sort")?;
    launch("sort leave", (count * plan.keep).div_ceil(THREADS))
}

/// Writes the kernel from elements to keys and positions, or the kernel from positions to the results. The
/// words after those of the pairs: 5 is the number of results of a line, 6 whether the order is descending, 7
/// the number of elements before the results, 8 to 10 the addresses of elements, values and positions, 11 to
/// 13 their strides along a line.
fn convert(s: &mut SourceWriter, part: &str, c: &str, values: bool, positions: bool, place: AxesArgs) {
    s.line(format_args!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{\n{DECLARE_PAIRS}"
    ));
    s.line(format_args!("  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x, keep = a.v[5];\n  idx b0 = 0, b1 = 0, b2 = 0;"));
    if part == KEYS {
        s.line(format_args!("  if (thread >= total) return;\n  const i64 i = thread % padded;"));
        place.offsets(s, "thread / padded", &[Some("b0"), None, None]);
        s.line(format_args!("  u64 key = 0xffffffffffffffffull;"));
        s.line(format_args!("  if (i < along) {{ key = order_key(((const {c}*)a.v[8])[b0 + i * a.v[11]]); if (a.v[6]) key = ~key; }}"));
        s.line(format_args!("  keys[thread] = key; places[thread] = i; (void)keep; (void)b1; (void)b2;\n}}"));
        return;
    }
    s.line(format_args!(
        "  if (thread >= total / padded * keep) return;\n  const i64 line = thread / keep, i = thread % keep; (void)keys; (void)along;"
    ));
    place.offsets(s, "line", &[Some("b0"), Some("b1"), Some("b2")]);
    s.line(format_args!("  const i64 at = places[line * padded + a.v[7] + i];"));
    if values {
        s.line(format_args!("  (({c}*)a.v[9])[b1 + i * a.v[12]] = ((const {c}*)a.v[8])[b0 + at * a.v[11]];"));
    }
    if positions {
        s.line(format_args!("  ((i64*)a.v[10])[b2 + i * a.v[13]] = at;"));
    }
    s.line(format_args!("}}"));
}
