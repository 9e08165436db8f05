//! Programs over elements: chooses how a compiled kernel visits its operands.
//!
//! A contiguous call runs at once. Otherwise rows at equal distances, replicated rows, streamed chunks and tiles are tried,
//! in this order.
// Imports: `error`, `kernel`, `device`.

mod equidistant;
pub(super) mod job;
pub(super) mod kernel;
mod repeat;
mod row_constants;
mod row_fused;
pub(super) mod stream_target;
mod streaming;
mod tiles;

use super::isa;
use super::memory::non_temporal;
use super::strided::{self, Order};
use super::tuning::{self, FEW_OPERANDS, SHARED_ELEMENTS};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::kernel::Program;
use job::{Job, together};
use kernel::MapKernel;

/// # Safety
/// As [`Device::map`](crate::device::Device::map).
#[inline(always)] // the little that a small run needs; the rest is apart
pub(crate) unsafe fn run<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe { run_job(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// As [`run`], of what is not small: nothing of it is inlined.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map).
#[inline(always)]
pub(crate) unsafe fn run_apart<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe { drive(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// Runs a program by a kernel.
///
/// # Safety
/// As [`Device::map`](crate::device::Device::map); the kernel is that of what is at `program`.
#[inline(always)]
pub(crate) unsafe fn run_job(
    kernel: &MapKernel,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let one_axis = |slot: &OperandRef<'_>| matches!(slot.stride, [1]);
    if let [n @ 0..SHARED_ELEMENTS] = *sizes
        && !kernel.by_rows
        && kernel.operands <= FEW_OPERANDS
        && outputs.iter().all(one_axis)
        && inputs.slots.iter().all(one_axis)
    {
        let (job, apart) = job(kernel, program, outputs, inputs);
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program.
        unsafe { job.one_run::<FEW_OPERANDS>(n, apart, inputs.slots) };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { drive(kernel, program, sizes, row, outputs, inputs) }
}

/// The work of a program, and the outputs that are no inputs.
#[inline(always)]
fn job<'a, 's>(
    kernel: &MapKernel,
    program: *const (),
    outputs: &'s [OperandRef<'s>],
    inputs: Inputs<'a>,
) -> (Job<'a>, &'s [OperandRef<'s>]) {
    let first = if kernel.in_place { 0 } else { outputs.len() };
    let job = Job {
        loops: kernel.loops,
        program,
        outputs: outputs.len(),
        first,
        reads: inputs.reads,
        level: isa::level(),
        light: kernel.light,
        streams: false,
        waits: false,
    };
    (job, &outputs[..first])
}

/// # Safety
/// As [`run_job`].
#[inline(never)]
unsafe fn drive(
    kernel: &MapKernel,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let (job, apart) = job(kernel, program, outputs, inputs);
    let run = if kernel.by_rows { None } else { strided::one_run(sizes, apart, inputs.slots) };
    if let Some(n @ 0..SHARED_ELEMENTS) = run {
        // SAFETY: every operand is one run of `n` elements; the kernel is that of the program.
        unsafe { job.one_run::<MAX_OPERANDS>(n, apart, inputs.slots) };
        return Ok(());
    }
    if let ([to], [from], true) = (apart, inputs.slots, kernel.copy) {
        // SAFETY: the caller's promise; both hold elements of one type.
        unsafe { strided::copy::copy(sizes, *to, *from) };
        return Ok(());
    }
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    if !kernel.by_rows && unsafe { job.equal_rows(sizes, apart, inputs.slots) } {
        return Ok(());
    }
    let streams = apart.iter().any(|slot| non_temporal::pays_off(sizes, slot))
        && (kernel.loads > 0 || !tuning::stores_whole_lines());
    let waits =
        kernel.light && !streams && outputs.iter().any(|slot| non_temporal::exceeds_caches(sizes, slot));
    // What reads nothing waits for its stores.
    let level = if waits || kernel.loads == 0 { tuning::memory_bound_level() } else { job.level };
    let job = Job { level, streams, waits, ..job };
    // SAFETY: the caller's promise; the kernel is that of the program's type.
    unsafe {
        if kernel.by_rows {
            if row_fused::small(&job, kernel.held, sizes, row, apart, inputs.slots) {
                return Ok(());
            }
            return row_fused::drive(&job, kernel.held, sizes, row, apart, inputs.slots);
        }
        if let (Some(n), false) = (run, streams) {
            job.run(n, apart, inputs.slots);
            return Ok(());
        }
        job.in_parts(sizes, apart, inputs.slots);
    }
    Ok(())
}

impl Job<'_> {
    unsafe fn in_parts(&self, sizes: &[usize], outputs: &[OperandRef<'_>], inputs: &[OperandRef<'_>]) {
        let slots = together(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        strided::each(sizes, slots, Order::OfOutput, &mut |walk| {
            strided::parallel(walk, 1, &|part| {
                let times = self.joins(part, slots);
                // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
                unsafe {
                    times.map_or_else(|| self.part(part, slots), |times| self.joined(part, slots, times))
                }
                non_temporal::fence();
            });
        });
    }
}
