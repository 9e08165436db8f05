//! A matrix times a vector (GEMV). The product is memory-bound, so each element of the matrix is read once,
//! in the order of memory.
//!
//! | file | |
//! |---|---|
//! | `mod.rs` | the products that are a GEMV, and the loop of three element types |
//! | `task.rs` | the rows of one task |
//! | `loops.rs` | the loops over contiguous rows and over contiguous columns |
//! | `packed_row.rs` | one row by packed panels, with the bits of a GEMV |
// Imports: `error`, `scalar`, `element`.

mod loops;
mod packed_row;
mod task;

use super::super::parallel;
use super::packing::*;
use super::problem::GemmProblem;
use super::tasks::{PARALLEL_MULTIPLY_ADDS, SyncPtr, try_for_each};
use crate::element::{bf16, f16};
use crate::error::Result;
use crate::scalar::DType;
use loops::{lanes, three_isas, two_isas};
use num_complex::Complex;
pub(super) use packed_row::{Bf16Pairs, Single, row_by_panels};
use task::{GemvFns, GemvTask, MAX_TASK_ROWS, store, widen, widened_vector};

/// A product with a vector on the right.
pub(super) struct Gemv {
    problem: GemmProblem,
    /// Whether the operands changed places: the vector was the left one.
    is_transposed: bool,
    /// Whether the rows of the matrix are contiguous, or its columns.
    by_rows: bool,
}

impl Gemv {
    /// The product, if one operand is a vector and the matrix has contiguous rows or columns.
    pub(super) fn from_problem(problem: &GemmProblem) -> Option<Gemv> {
        let is_transposed = problem.n.total() != 1;
        if is_transposed && problem.m.total() != 1 {
            return None;
        }
        let problem = if is_transposed { problem.transposed() } else { *problem };
        let ([out_stride, row_stride], [k_stride, _]) =
            (problem.m.as_single_axis()?, problem.k.as_single_axis()?);
        let by_rows = match (k_stride, row_stride, problem.m.total()) {
            (1, ..) | (_, _, 1) => true,
            (_, 1, _) if out_stride == 1 => false,
            _ => return None,
        };
        Some(Gemv { problem, is_transposed, by_rows })
    }

    /// Computes it; returns whether there is a loop for its elements.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract), with the elements that `types` names; `k` is
    /// not 0.
    pub(super) unsafe fn run(self, types: [DType; 3]) -> Result<bool> {
        let Gemv { problem, is_transposed, by_rows } = self;
        let [out, left, right] = types;
        let Some(fns) = (if is_transposed { fns(out, right, left) } else { fns(out, left, right) }) else {
            return Ok(false);
        };
        let (m, terms) = (problem.m.total(), problem.k.total());
        // SAFETY: the caller's promise.
        let vector = unsafe { widened_vector(problem.right, &problem.k, 1, fns.widen, fns.sum_nbytes)? };
        let vector = SyncPtr(vector.start().cast_const());
        let parallel = m.saturating_mul(terms) >= PARALLEL_MULTIPLY_ADDS;
        let rows = if parallel { m.div_ceil(2 * parallel::count()).clamp(64, MAX_TASK_ROWS) } else { m };
        try_for_each(m.div_ceil(rows), parallel, &|index| {
            let (first, vector) = (index * rows, vector.get());
            let count = rows.min(m - first);
            let task = GemvTask { problem: &problem, by_rows, vector, first, count, store: fns.store };
            // SAFETY: the caller's promise, with the elements of these functions.
            unsafe { (fns.run)(&task) };
            Ok(())
        })?;
        Ok(true)
    }
}

/// The functions for a matrix of `$Left` and a vector of `$Right`, with elements `$T` of the output. The loop
/// is compiled for three instruction sets or for two.
macro_rules! fns {
    (three $Left:ty, $Right:ty, $T:ty) => { fns!(@ three_isas, $Left, $Right, $T) };
    (two $Left:ty, $Right:ty, $T:ty) => { fns!(@ two_isas, $Left, $Right, $T) };
    (@ $run:ident, $Left:ty, $Right:ty, $T:ty) => {
        GemvFns {
            run: $run::<$Left, { lanes::<$Left>() }>,
            widen: widen::<$Right>,
            store: store::<<$Left as Convert>::To, $T>,
            sum_nbytes: size_of::<<$Left as Convert>::To>(),
        }
    };
}

/// The functions for a matrix of `left` and a vector of `right`, if there are any.
///
/// Sums of integers wrap, and their lower bits do not depend on the signs of the factors: unsigned elements
/// use the functions of signed ones where the bits are the same.
fn fns(out: DType, left: DType, right: DType) -> Option<GemvFns> {
    use DType::*;
    Some(match (left, right, out) {
        (F32, F32, F32) => fns!(three Same<f32>, Same<f32>, f32),
        (F64, F64, F64) => fns!(three Same<f64>, Same<f64>, f64),
        (F32, F32, F64) => fns!(two F32AsF64, F32AsF64, f64),
        (BF16, BF16, BF16) => fns!(three Bf16AsF32, Bf16AsF32, bf16),
        (BF16, BF16, F32) => fns!(three Bf16AsF32, Bf16AsF32, f32),
        (F16, F16, F16) => fns!(three F16AsF32, F16AsF32, f16),
        (F16, F16, F32) => fns!(three F16AsF32, F16AsF32, f32),
        (I8, I8, I8) | (U8, U8, U8) => fns!(three I8AsI32, I8AsI32, i8),
        (I8, I8, I32) => fns!(three I8AsI32, I8AsI32, i32),
        (U8, I8, I32) => fns!(two U8AsI32, I8AsI32, i32),
        (I8, U8, I32) => fns!(three I8AsI32, U8AsI32, i32),
        (U8, U8, I32 | U32) => fns!(two U8AsI32, U8AsI32, i32),
        (I16, I16, I16) | (U16, U16, U16) => fns!(two I16AsI32, I16AsI32, i16),
        (I16, I16, I32) => fns!(two I16AsI32, I16AsI32, i32),
        (U16, U16, U32) => fns!(two U16AsI32, U16AsI32, i32),
        (I32, I32, I32) | (U32, U32, U32) => fns!(two Same<i32>, Same<i32>, i32),
        (I32, I32, I64) => fns!(three I32AsI64, I32AsI64, i64),
        (U32, U32, U64) => fns!(two U32AsI64, U32AsI64, i64),
        (I64, I64, I64) | (U64, U64, U64) => fns!(two Same<i64>, Same<i64>, i64),
        (C32, C32, C32) => fns!(two Same<Complex<f32>>, Same<Complex<f32>>, Complex<f32>),
        (C64, C64, C64) => fns!(two Same<Complex<f64>>, Same<Complex<f64>>, Complex<f64>),
        _ => return None,
    })
}
