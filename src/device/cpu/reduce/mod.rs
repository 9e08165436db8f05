//! Reductions over axes: by rows where the reduced axis is contiguous, by columns where a kept axis is.
//!
//! `accumulate.rs` reduces one contiguous row, `rows.rs` finds these rows, `columns.rs` reduces neighboring
//! columns, and `pairwise.rs` combines the accumulators of blocks as a binary tree. The order of the
//! additions depends on sizes and strides only, never on the number of threads.
// Imports: `error`, `kernel`, `device`.

pub(crate) mod accumulate;
pub(crate) mod accumulators;
pub(crate) mod call;
pub(crate) mod columns;
pub(crate) mod operands;
mod packed_columns;
pub(crate) mod pairwise;
mod rows;

use super::strided::{self, AxisOrder, IterSpace};
use super::tuning;
use crate::device::{Inputs, MAX_OPERANDS, OperandRef, Reduction};
use crate::error::Result;
use crate::kernel::{Body, Reducer};
use accumulate::MAX_ACCUMULATORS;
use accumulators::{AccumulatorFns, COLUMN_ACCUMULATOR_BYTES};
use call::{ReduceCall, ReduceKernel};
use operands::{EquidistantRows, ReduceInputs, RowOutput, STRIP_COLUMNS};
use pairwise::AccumulatorScratch;
use std::sync::{Mutex, PoisonError};

/// The smallest number of neighboring columns that are reduced by columns, if their values are many.
const MIN_COLUMNS: usize = 8;

impl ReduceKernel<'static> {
    /// The kernel of reducer `R` over body `B`.
    const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        ReduceKernel {
            rows: rows::rows::<B, R>,
            columns: columns::accumulate::<B, R>,
            accumulators: AccumulatorFns::of::<B, R>(),
            work_unit: Self::work_unit_elements::<B, R>(),
        }
    }
}

/// Reduces the values of a body over axes.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::error::Error::OutOfMemory) if scratch memory cannot be allocated.
///
/// # Safety
/// As [`Device::reduce`](crate::device::Device::reduce).
pub(super) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    body: &B,
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &ReduceKernel::of::<B, R>() };
    // SAFETY: the caller's promise; the kernel was made for the types of this body and reducer.
    unsafe { run_kernel(kernel, std::ptr::from_ref(body).cast(), axes, output, inputs) }
}

/// Reduces by a kernel.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::error::Error::OutOfMemory) if scratch memory cannot be allocated.
///
/// # Safety
/// 1. As [`Device::reduce`](crate::device::Device::reduce).
/// 2. The kernel was made for the type of the body at `body`.
pub(super) unsafe fn run_kernel(
    kernel: &ReduceKernel<'_>,
    body: *const (),
    axes: Reduction<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let numel = strided::numel(axes.kept).saturating_mul(strided::numel(axes.reduced));
    let nbytes = inputs.slots.iter().map(|slot| slot.element).sum::<usize>().saturating_mul(numel);
    let operands = ReduceInputs {
        slots: inputs.slots,
        reads: inputs.reads,
        prefetch_bytes: tuning::l2_prefetch_bytes(nbytes),
    };
    let call = ReduceCall { kernel, body, operands };
    // SAFETY: (1) and (2) are the caller's promise.
    unsafe { call.run(axes, output) }
}

impl ReduceCall<'_> {
    /// Reduces by columns or rows, in tasks on several threads.
    ///
    /// # Safety
    /// 1. The kernel was made for the type of the body.
    /// 2. Operands and output reach only elements that the caller of [`run_kernel`] promised, and each output
    ///    once.
    unsafe fn run(&self, axes: Reduction<'_>, output: OperandRef<'_>) -> Result<()> {
        let count: usize = axes.reduced.iter().product();
        // SAFETY: the caller's promise.
        if unsafe { self.run_small(axes, &output)? } {
            return Ok(());
        }
        let operands = self.operands.slots.len();
        let mut kept = [output; MAX_OPERANDS];
        let mut reduced = [output; MAX_OPERANDS];
        for (k, slot) in self.operands.slots.iter().enumerate() {
            let (outer, inner) = slot.stride.split_at(axes.kept.len());
            kept[k + 1] = OperandRef { stride: outer, ..*slot };
            reduced[k] = OperandRef { stride: inner, address: std::ptr::null_mut(), ..*slot };
        }
        let inner = strided::single_space(axes.reduced, &reduced[..operands], AxisOrder::RowMajor);
        let result = Mutex::new(Ok(()));
        strided::for_each_space(axes.kept, &kept[..operands + 1], AxisOrder::OfOutput, &mut |outer| {
            // Rows and columns are added in different orders. The choice must not depend on the tasks,
            // because their number depends on the number of threads.
            let columns = inner.as_ref().is_some_and(|inner| self.prefers_columns(outer, inner, count));
            strided::parallel_by(
                outer,
                count.div_ceil(self.kernel.work_unit),
                if columns { STRIP_COLUMNS } else { 1 },
                &|part| {
                    // SAFETY: (1) the caller's promise; (2) the tasks partition the kept axes: each reaches
                    // only operands that the caller promised, and each output belongs to one task.
                    let done = unsafe { self.run_task(part, inner.as_ref(), count, columns) };
                    if done.is_err() {
                        *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
                    }
                },
            );
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reduces the rows of a small reduction if they are contiguous in every operand and equidistant. Then no
    /// iteration space is needed, and a tensor of a few elements does not pay for one. Returns whether the
    /// rows were reduced.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    unsafe fn run_small(&self, axes: Reduction<'_>, output: &OperandRef<'_>) -> Result<bool> {
        let slots = self.operands.slots;
        let [mut down, mut out_step, mut along] = [[0; MAX_OPERANDS]; 3];
        let (Some(rows), Some(_), Some(count)) = (
            strided::as_single_axis(axes.kept, 0, slots, &mut down),
            strided::as_single_axis(axes.kept, 0, std::slice::from_ref(output), &mut out_step),
            strided::as_single_axis(axes.reduced, axes.kept.len(), slots, &mut along),
        ) else {
            return Ok(false);
        };
        let contiguous =
            slots.iter().zip(&along).all(|(slot, &step)| count == 1 || step == slot.element as isize);
        let sum = |steps: &[isize]| steps[..slots.len()].iter().map(|step| step.unsigned_abs()).sum();
        let small = rows.saturating_mul(count) / self.kernel.work_unit < super::tuning::SHARED_ELEMENTS;
        if !contiguous || !small || prefers_columns(count, [rows, rows], sum(&along), sum(&down)) {
            return Ok(false);
        }
        let (mut pointers, mut steps) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for (k, &read) in self.operands.reads.iter().enumerate() {
            (pointers[k], steps[k]) = (slots[read as usize].address, down[read as usize]);
        }
        let out = RowOutput { address: output.address, step: out_step[0], is_accumulator: false };
        // SAFETY: (1) the caller's promise: one kept and one reduced axis cover exactly these elements; (2)
        // the output's address and stride are the caller's.
        unsafe {
            self.reduce_rows(&EquidistantRows {
                pointers,
                steps,
                rows,
                count,
                at: [0; 2],
                out,
                prefetch_bytes: 0,
            })?
        };
        Ok(true)
    }

    /// Whether the reduction goes by columns: a kept axis has the smallest strides, and the accumulators are
    /// small enough.
    fn prefers_columns(&self, outer: &IterSpace, inner: &IterSpace, count: usize) -> bool {
        let step = |walk: &IterSpace, k: usize| walk.inner_step(k).unsigned_abs();
        let along: usize = (0..self.operands.slots.len()).map(|k| step(inner, k)).sum();
        let across: usize = (0..self.operands.slots.len()).map(|k| step(outer, k + 1)).sum();
        // Thousands of column accumulators are kept on the stack.
        self.kernel.accumulators.size <= COLUMN_ACCUMULATOR_BYTES
            && prefers_columns(count, [outer.numel(), outer.inner()], along, across)
    }

    /// Computes a part of the outputs.
    ///
    /// # Safety
    /// As [`run`](Self::run), for the outputs of `outer`.
    unsafe fn run_task(
        &self,
        outer: &IterSpace,
        inner: Option<&IterSpace>,
        count: usize,
        columns: bool,
    ) -> Result<()> {
        let Some(inner) = inner else {
            // An empty reduction: every output is `finalize` of the identity.
            let mut identity = AccumulatorScratch::new(self.kernel.accumulators.size)?;
            let identity = identity.address();
            let mut index = outer.index_of(0);
            for _ in 0..outer.numel() {
                // SAFETY: the scratch has room for one accumulator; the caller promised the positions of the
                // output; no element is read.
                unsafe {
                    self.kernel.accumulators.identity(identity, 1);
                    self.kernel.accumulators.finalize(identity, 1, 0, outer.address_at(0, &index));
                }
                outer.advance(&mut index, 1);
            }
            return Ok(());
        };
        if columns {
            // SAFETY: the caller's promise, and the reduction goes by columns.
            unsafe { self.by_columns(outer, inner, count) };
            return Ok(());
        }
        // SAFETY: the caller's promise, and the reduction goes by rows.
        unsafe { self.by_rows(outer, inner, count) }
    }
}

/// Whether rows of `count` values are reduced by columns: `rows` of them in all, `inner` of them along the
/// fastest kept axis. `along` is the sum of the operands' steps in bytes from value to value, `across` that
/// from row to row.
fn prefers_columns(count: usize, [rows, inner]: [usize; 2], along: usize, across: usize) -> bool {
    let narrow = count < MAX_ACCUMULATORS && rows >= STRIP_COLUMNS;
    narrow || (inner >= MIN_COLUMNS && across != 0 && across < along)
}
