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
    pub(super) widen: WidenFn,
    pub(super) store: StoreRowsFn,
    pub(super) sum_nbytes: usize,
}

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
