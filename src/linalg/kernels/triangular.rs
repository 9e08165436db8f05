//! Triangular systems, and the Cholesky factorization.
// Imports: `error`.

use super::{ONE_THREAD, Part, finite, places, quotient};
use crate::error::Result;
use crate::linalg::Triangle;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::StackReq;
use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::{temp_mat_scratch, triangular_solve};
use faer::reborrow::ReborrowMut as _;
use faer::traits::ComplexField;
use faer::traits::math_utils::{copy, from_real, is_finite, real, recip, zero};
use faer::{MatMut, MatRef};
use std::cmp::Ordering;

/// `a · x = b`, of a triangle of `a`.
pub(in crate::linalg) fn solve<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    b: Batch<'_, T>,
    triangle: Triangle,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let work = a.size()[0].saturating_mul(a.size()[0]).saturating_mul(b.size()[1]);
    let has_diagonal = matches!(triangle, Triangle::Lower | Triangle::Upper);
    for_each(op, work, StackReq::EMPTY, x, |number, mut x, _| {
        let matrix = a.at(number);
        let is_zero = |&i: &usize| matrix[(i, i)] == zero();
        if has_diagonal && let Some(i) = (0..matrix.nrows()).find(is_zero) {
            return Err(a.error(op, number, format_args!("is singular: element [{i}, {i}] is 0")));
        }
        x.copy_from(b.at(number));
        if has_diagonal && (0..matrix.nrows()).any(|i| !is_finite(&recip(&matrix[(i, i)]))) {
            substitute(matrix, triangle, x);
            return Ok(());
        }
        match triangle {
            Triangle::Lower => triangular_solve::solve_lower_triangular_in_place(matrix, x, ONE_THREAD),
            Triangle::Upper => triangular_solve::solve_upper_triangular_in_place(matrix, x, ONE_THREAD),
            Triangle::UnitLower => {
                triangular_solve::solve_unit_lower_triangular_in_place(matrix, x, ONE_THREAD);
            }
            Triangle::UnitUpper => {
                triangular_solve::solve_unit_upper_triangular_in_place(matrix, x, ONE_THREAD);
            }
        }
        Ok(())
    })
}

/// Replaces `x` by the solutions for `x`, with divisions: faer multiplies by reciprocals, which are infinite
/// for the smallest numbers.
pub(super) fn substitute<T: ComplexField>(matrix: MatRef<'_, T>, triangle: Triangle, mut x: MatMut<'_, T>) {
    let n = matrix.nrows();
    let is_lower = matches!(triangle, Triangle::Lower | Triangle::UnitLower);
    let has_diagonal = matches!(triangle, Triangle::Lower | Triangle::Upper);
    for column in 0..x.ncols() {
        for step in 0..n {
            let (i, rest) = if is_lower { (step, step + 1..n) } else { (n - 1 - step, 0..n - 1 - step) };
            if has_diagonal {
                x[(i, column)] = quotient(&x[(i, column)], &matrix[(i, i)]);
            }
            for row in rest {
                x[(row, column)] = &x[(row, column)] - &(&matrix[(row, i)] * &x[(i, column)]);
            }
        }
    }
}

/// The lower triangle whose product with its adjoint is `a`.
pub(in crate::linalg) fn cholesky<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    lower: BatchMut<'_, T>,
) -> Result<()> {
    let [n, _] = a.size();
    let factor = cholesky_in_place_scratch::<T>(n, ONE_THREAD, Default::default());
    let scratch = StackReq::all_of(&[temp_mat_scratch::<T>(n, n), factor]);
    for_each(op, n.saturating_mul(n).saturating_mul(n) / 3, scratch, lower, |number, mut lower, stack| {
        let matrix = finite(op, &a, number, Part::Lower)?;
        zeroed!(stack => factor: T, n, n);
        factor.copy_from_triangular_lower(matrix);
        cholesky_in_place(factor.rb_mut(), Default::default(), ONE_THREAD, stack, Default::default())
            .map_err(|LltError::NonPositivePivot { index }| {
                a.error(op, number, format_args!("is not positive definite: pivot {index} is not positive"))
            })?;
        for (row, column) in places(&lower) {
            lower[(row, column)] = match row.cmp(&column) {
                Ordering::Less => zero(),
                Ordering::Equal => from_real(&real(&factor[(row, column)])),
                Ordering::Greater => copy(&factor[(row, column)]),
            };
        }
        Ok(())
    })
}
