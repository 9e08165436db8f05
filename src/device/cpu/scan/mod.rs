//! Scans: running results of a reducer along an axis, by rows where the axis is contiguous, by columns where
//! another axis is.
//!
//! A row is cut into blocks of 256 positions. Each block starts from the identity, and each of its
//! accumulators is then combined with the accumulator of all earlier blocks. The error of a running sum
//! therefore grows with the number of blocks, not of elements, and the result is the same for rows and
//! columns and for any number of threads.
//!
//! A running accumulator is a chain of dependent steps. Several chains are computed in parallel: neighboring
//! columns, rows that are transposed in tiles, or eight rows (or eight blocks of one row) at a time.
// Imports: `error`, `kernel`, `device`.

pub(crate) mod call;
mod loops;

use super::memory::non_temporal;
use super::strided::{self, AxisOrder};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan};
use call::{ScanCall, ScanKernel};

impl ScanKernel {
    /// The kernel of reducer `R` over body `B`.
    const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        ScanKernel { rows: loops::rows::<B, R>, columns: loops::columns::<B, R> }
    }
}

/// Scans the values of a body along an axis.
///
/// # Safety
/// As [`Device::scan`](crate::device::Device::scan).
pub(super) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    body: &B,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &ScanKernel::of::<B, R>() };
    // SAFETY: (1) the caller's promise; (2) the kernel was made for the types of this body and reducer.
    unsafe { run_kernel(kernel, std::ptr::from_ref(body).cast(), plan, output, inputs) };
    Ok(())
}

/// Scans by a kernel.
///
/// # Safety
/// 1. As [`Device::scan`](crate::device::Device::scan).
/// 2. The kernel was made for the type of the body at `body`.
pub(super) unsafe fn run_kernel(
    kernel: &ScanKernel,
    body: *const (),
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) {
    let axis = plan.lines.len();
    let mut call = ScanCall {
        kernel,
        body,
        reads: inputs.reads,
        operands: inputs.slots.len() + 1,
        along: [0; MAX_OPERANDS],
        element: [0; MAX_OPERANDS],
        count: plan.along,
        exclusive: plan.exclusive,
        non_temporal: non_temporal::pays_off(
            plan.lines,
            &OperandRef { element: output.element.saturating_mul(plan.along), ..output },
        ),
    };
    let mut slots = [output; MAX_OPERANDS];
    slots[1..call.operands].copy_from_slice(inputs.slots);
    for (k, slot) in slots[..call.operands].iter_mut().enumerate() {
        call.along[k] = slot.stride[axis].wrapping_mul(slot.element as isize);
        call.element[k] = slot.element;
        slot.stride = &slot.stride[..axis];
    }
    if plan.along == 0 {
        return;
    }
    let call = &call;
    strided::for_each_space(plan.lines, &slots[..call.operands], AxisOrder::OfOutput, &mut |lines| {
        strided::parallel(lines, plan.along, &|part| {
            // SAFETY: the tasks partition the rows: each reaches only operands that the caller promised, and
            // each output belongs to one task.
            unsafe { call.part(part) }
            non_temporal::fence();
        });
    });
}
