//! The rows of one task of a GEMV.
// Imports: `error`, `scalar`, `element`.

use super::super::axis_group::AxisGroup;
use super::super::packing::Convert;
use super::super::panels::PanelBuffer;
use super::super::problem::GemmProblem;
use crate::element::Element;
use crate::error::Result;
use crate::scalar::{Num, Prim};

/// The functions that depend on the elements.
#[derive(Clone, Copy)]
pub(super) struct GemvFns {
    /// The loop over the rows of a task.
    pub(super) run: unsafe fn(&GemvTask<'_>),
    /// The conversion of elements of the matrix, if the loop does not convert them itself.
    pub(super) convert: Option<ConvertFn>,
    /// Bytes of an element of the matrix.
    pub(super) from_nbytes: usize,
    pub(super) widen: WidenFn,
    pub(super) store: StoreRowsFn,
    pub(super) sum_nbytes: usize,
}

/// Converts contiguous elements.
pub(super) type ConvertFn = unsafe fn(from: *const u8, count: usize, to: *mut u8);

/// Writes the elements at some offsets, widened, to contiguous memory.
type WidenFn = unsafe fn(from: *const u8, offsets: &[isize], to: *mut u8);

/// Writes sums, narrowed, to the rows from `first` on; rows are `stride` elements apart.
pub(super) type StoreRowsFn =
    unsafe fn(sums: *const u8, count: usize, to: *mut u8, first: isize, stride: isize);

/// The [`WidenFn`] of a conversion.
///
/// # Safety
/// 1. Each offset from `from` is an element.   2. `to` has room for as many values.
pub(super) unsafe fn widen<C: Convert>(from: *const u8, offsets: &[isize], to: *mut u8) {
    for (i, &offset) in offsets.iter().enumerate() {
        // SAFETY: (1) an element at each offset; (2) room for it.
        unsafe { to.cast::<C::To>().add(i).write(C::convert(from.cast::<C::From>().offset(offset).read())) };
    }
}

/// The [`StoreRowsFn`] of sums `S` and elements `T`.
///
/// # Safety
/// 1. `sums` holds `count` sums.   2. `to` is the address of row 0 of an output that has these rows.
pub(super) unsafe fn store<S: Num, T: Element>(
    sums: *const u8,
    count: usize,
    to: *mut u8,
    first: isize,
    stride: isize,
) {
    for i in 0..count {
        let offset = (first + i as isize).wrapping_mul(stride);
        // SAFETY: (1) a sum; (2) its row of the output.
        unsafe { to.cast::<T>().offset(offset).write(T::narrow(Prim::cast(sums.cast::<S>().add(i).read()))) };
    }
}

/// The most rows of a task. A task over contiguous columns reads spans of this length.
pub(super) const MAX_TASK_ROWS: usize = 4096;
/// Rows that are read together.
pub(super) const ROWS: usize = 4;

/// A vector, widened and contiguous: the elements of an operand along `k`.
///
/// # Safety
/// The operand holds the elements of `widen` at every index of `k`; `sum_nbytes` are the bytes of a widened
/// one.
pub(super) unsafe fn widened_vector(
    from: *const u8,
    k: &AxisGroup<2>,
    operand: usize,
    widen: WidenFn,
    sum_nbytes: usize,
) -> Result<PanelBuffer> {
    const CHUNK: usize = 256;
    let terms = k.total();
    let vector = PanelBuffer::new(terms, 1, sum_nbytes)?;
    for first in (0..terms).step_by(CHUNK) {
        let mut offsets = [0; CHUNK];
        let offsets = &mut offsets[..CHUNK.min(terms - first)];
        k.offsets(operand, first, offsets);
        // SAFETY: (1) the caller's promise; (2) the buffer has room for all of `k`.
        unsafe { widen(from, offsets, vector.start().add(first * sum_nbytes)) };
    }
    Ok(vector)
}

/// Some rows of the output.
pub(super) struct GemvTask<'a> {
    pub(super) problem: &'a GemmProblem,
    /// Whether the rows of the matrix are contiguous, or its columns.
    pub(super) by_rows: bool,
    /// The widened vector.
    pub(super) vector: *const u8,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) store: StoreRowsFn,
}

impl GemvTask<'_> {
    /// Computes the task, some rows at a time: their elements are converted before the loop reads them.
    ///
    /// # Safety
    /// As the loop of `fns`, for the converted elements; the operands hold the elements of `convert`.
    pub(super) unsafe fn run_converted(&self, fns: GemvFns, convert: ConvertFn) -> Result<()> {
        /// Bytes of elements that are converted together.
        const CONVERTED_BYTES: usize = 32 << 10;
        /// The fewest rows that are converted together, if rows are contiguous and if columns are.
        const MIN_ROWS: [usize; 2] = [ROWS, 64];
        let GemmProblem { m, k, left, .. } = *self.problem;
        let (Some([out_stride, row_stride]), Some([k_stride, vector_stride])) =
            (m.as_single_axis(), k.as_single_axis())
        else {
            return Ok(());
        };
        let (terms, GemvFns { from_nbytes, sum_nbytes, .. }) = (k.total(), fns);
        let together = (CONVERTED_BYTES / (terms * sum_nbytes))
            .max(MIN_ROWS[usize::from(!self.by_rows)])
            .min(self.count);
        let buffer = PanelBuffer::new(together, terms, sum_nbytes)?;
        for first in (self.first..self.first + self.count).step_by(together) {
            let count = together.min(self.first + self.count - first);
            // Lines: rows, or parts of columns. A single row or column may have any stride; its elements are
            // then converted one by one.
            let (lines, length, line_stride, stride) =
                if self.by_rows { (count, terms, row_stride, k_stride) } else { (terms, count, k_stride, 1) };
            let start = left.wrapping_offset(
                (first as isize).wrapping_mul(row_stride).wrapping_mul(from_nbytes as isize),
            );
            for line in 0..lines {
                let from = start.wrapping_offset(
                    (line as isize).wrapping_mul(line_stride).wrapping_mul(from_nbytes as isize),
                );
                let to = buffer.start().wrapping_add(line * length * sum_nbytes);
                let (spans, span) = if stride == 1 { (1, length) } else { (length, 1) };
                for at in 0..spans {
                    let from = from.wrapping_offset(
                        (at as isize).wrapping_mul(stride).wrapping_mul(from_nbytes as isize),
                    );
                    // SAFETY: the caller's promise; the buffer has room for every element.
                    unsafe { convert(from, span, to.wrapping_add(at * sum_nbytes)) };
                }
            }
            let mut problem = *self.problem;
            (problem.m, problem.k) = (AxisGroup::new(), AxisGroup::new());
            let (row, term) = if self.by_rows { (terms, 1) } else { (1, count) };
            problem.m.push(m.total(), [out_stride, row as isize]);
            problem.k.push(terms, [term as isize, vector_stride]);
            problem.left = buffer.start().cast_const().wrapping_sub(first * row * sum_nbytes);
            // SAFETY: the caller's promise, for the rows from `first` on, which were converted.
            unsafe { (fns.run)(&GemvTask { problem: &problem, first, count, ..*self }) };
        }
        Ok(())
    }
}
