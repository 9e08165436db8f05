//! Programs over elements: chooses how a compiled kernel visits its operands.
//!
//! The first strategy that fits is taken:
//!
//! 1. A small contiguous call runs at once, in the calling thread.
//! 2. A plain copy is a copy between layouts (`strided/copy.rs`).
//! 3. Rows at equal distances need no iteration space (`equidistant.rs`).
//! 4. Programs with row constants are computed row by row (`row_fused.rs`).
//! 5. A contiguous call is shared by threads, unless its outputs use non-temporal stores.
//! 6. Each part of the iteration space replicates short rows (`repeat.rs`), stores chunks non-temporally
//!    (`non_temporal_chunks.rs`), or uses tiles (`tiles.rs`).
// Imports: `error`, `kernel`, `device`.

pub(super) mod call;
mod equidistant;
pub(super) mod kernel;
mod non_temporal_chunks;
pub(super) mod non_temporal_target;
mod repeat;
mod row_constants;
mod row_fused;
mod tiles;

use super::isa;
use super::memory::non_temporal;
use super::strided::{self, AxisOrder};
use super::tuning::{self, SHARED_ELEMENTS, STACK_OPERANDS};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::kernel::Program;
use call::{KernelCall, concat_operands};
use kernel::MapKernel;

/// Runs a program over the indices of `sizes`.
///
/// # Safety
/// As for [`Device::map`](crate::device::Device::map).
#[inline(always)] // the code for a small contiguous call; the other code is in `choose`
pub(crate) unsafe fn run<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: by the caller's promise; the kernel belongs to the program's type.
    unsafe { run_kernel(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// As [`run`], for large calls: none of it is inlined.
///
/// # Safety
/// As for [`Device::map`](crate::device::Device::map).
#[inline(always)]
pub(crate) unsafe fn run_large<P: Program>(
    program: &P,
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &MapKernel::of::<P>() };
    // SAFETY: by the caller's promise; the kernel belongs to the program's type.
    unsafe { choose(kernel, std::ptr::from_ref(program).cast(), sizes, row, outputs, inputs) }
}

/// Runs a program by a kernel.
///
/// # Safety
/// 1. As for [`Device::map`](crate::device::Device::map).
/// 2. `kernel` belongs to the type of the program at `program`.
#[inline(always)]
pub(crate) unsafe fn run_kernel(
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
        && kernel.operands <= STACK_OPERANDS
        && outputs.iter().all(one_axis)
        && inputs.slots.iter().all(one_axis)
    {
        let (call, out_of_place) = kernel_call(kernel, program, outputs, inputs);
        // SAFETY: (1), (2) by the caller's promise; every operand has `n` contiguous elements.
        unsafe { call.run_contiguous::<STACK_OPERANDS>(n, out_of_place, inputs.slots) };
        return Ok(());
    }
    // SAFETY: (1), (2) by the caller's promise.
    unsafe { choose(kernel, program, sizes, row, outputs, inputs) }
}

/// The call of a kernel, and the outputs that are not inputs.
#[inline(always)]
fn kernel_call<'a, 's>(
    kernel: &MapKernel,
    program: *const (),
    outputs: &'s [OperandRef<'s>],
    inputs: Inputs<'a>,
) -> (KernelCall<'a>, &'s [OperandRef<'s>]) {
    let first = if kernel.in_place { 0 } else { outputs.len() };
    let call = KernelCall {
        loops: kernel.loops,
        program,
        outputs: outputs.len(),
        first,
        reads: inputs.reads,
        level: isa::level(),
        cheap: kernel.cheap,
        non_temporal: false,
        memory_bound: false,
    };
    (call, &outputs[..first])
}

/// Chooses a strategy and runs it.
///
/// # Safety
/// As for [`run_kernel`].
#[inline(never)]
unsafe fn choose(
    kernel: &MapKernel,
    program: *const (),
    sizes: &[usize],
    row: usize,
    outputs: &[OperandRef<'_>],
    inputs: Inputs<'_>,
) -> Result<()> {
    let (call, out_of_place) = kernel_call(kernel, program, outputs, inputs);
    let run =
        if kernel.by_rows { None } else { strided::contiguous_numel(sizes, out_of_place, inputs.slots) };
    if let Some(n @ 0..SHARED_ELEMENTS) = run {
        // SAFETY: (1), (2) by the caller's promise; every operand has `n` contiguous elements.
        unsafe { call.run_contiguous::<MAX_OPERANDS>(n, out_of_place, inputs.slots) };
        return Ok(());
    }
    if let ([to], [from], true) = (out_of_place, inputs.slots, kernel.copy) {
        // SAFETY: (1) by the caller's promise; both operands have the same element type.
        unsafe { strided::copy::copy(sizes, *to, *from) };
        return Ok(());
    }
    // SAFETY: (1), (2) by the caller's promise.
    if !kernel.by_rows && unsafe { call.run_equidistant(sizes, out_of_place, inputs.slots) } {
        return Ok(());
    }
    let non_temporal = out_of_place.iter().any(|slot| non_temporal::pays_off(sizes, slot))
        && (kernel.loads > 0 || !tuning::stores_whole_lines());
    let memory_bound =
        kernel.cheap && !non_temporal && outputs.iter().any(|slot| non_temporal::exceeds_caches(sizes, slot));
    // A kernel without loads is limited by its stores.
    let level = if memory_bound || kernel.loads == 0 { tuning::memory_bound_level() } else { call.level };
    let call = KernelCall { level, non_temporal, memory_bound, ..call };
    // SAFETY: (1), (2) by the caller's promise.
    unsafe {
        if kernel.by_rows {
            if row_fused::run_small(&call, kernel.cached_nbytes, sizes, row, out_of_place, inputs.slots) {
                return Ok(());
            }
            return row_fused::run(&call, kernel.cached_nbytes, sizes, row, out_of_place, inputs.slots);
        }
        if let (Some(n), false) = (run, non_temporal) {
            call.run_contiguous_parallel(n, out_of_place, inputs.slots);
            return Ok(());
        }
        call.run_parallel(sizes, out_of_place, inputs.slots);
    }
    Ok(())
}

impl KernelCall<'_> {
    /// Runs on parts of the iteration space, on all threads: by replicated rows, non-temporal chunks or
    /// tiles.
    ///
    /// # Safety
    /// The obligations of the kernel, for every index of `sizes`.
    unsafe fn run_parallel(&self, sizes: &[usize], outputs: &[OperandRef<'_>], inputs: &[OperandRef<'_>]) {
        let slots = concat_operands(outputs, inputs);
        let slots = &slots[..outputs.len() + inputs.len()];
        strided::for_each_space(sizes, slots, AxisOrder::OfOutput, &mut |space| {
            strided::parallel(space, 1, &|part| {
                let times = self.rows_per_repeat(part, slots);
                // SAFETY: by the caller's promise; the parts of the space reach each output once.
                unsafe {
                    times.map_or_else(
                        || self.run_part(part, slots),
                        |times| self.repeated_rows(part, slots, times),
                    )
                }
                non_temporal::fence();
            });
        });
    }
}
