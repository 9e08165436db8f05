//! Singular values and vectors, and solutions by them.
// Imports: `error`.

use super::{ONE_THREAD, Part, copy_scaled, finite, places, quotient};
use crate::error::Result;
use crate::linalg::Factors;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::linalg::svd::{ComputeSvdVectors, svd as svd_of, svd_scratch};
use faer::linalg::temp_mat_scratch;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::ComplexField;
use faer::traits::math_utils::{conj, from_f64, mul_real, one, real, recip, zero};
use faer::{Accum, MatMut, MatRef};

/// The vectors that faer computes.
fn vectors(factors: Option<Factors>) -> ComputeSvdVectors {
    match factors {
        None => ComputeSvdVectors::No,
        Some(Factors::Thin) => ComputeSvdVectors::Thin,
        Some(Factors::Full) => ComputeSvdVectors::Full,
    }
}

/// The numbers of columns of both matrices of singular vectors.
fn widths([rows, columns]: [usize; 2], factors: Option<Factors>) -> [usize; 2] {
    match factors {
        None => [0, 0],
        Some(Factors::Thin) => [rows.min(columns); 2],
        Some(Factors::Full) => [rows, columns],
    }
}

/// The scratch memory of [`decomposed`], with `more` for its continuation.
fn scratch<T: ComplexField>(size: [usize; 2], factors: Option<Factors>, more: StackReq) -> StackReq {
    let ([rows, columns], [of_u, of_v]) = (size, widths(size, factors));
    let vectors = vectors(factors);
    StackReq::all_of(&[
        temp_mat_scratch::<T>(rows, columns),
        temp_mat_scratch::<T>(rows.min(columns), 1),
        temp_mat_scratch::<T>(rows, of_u),
        temp_mat_scratch::<T>(columns, of_v),
        StackReq::any_of(&[
            svd_scratch::<T>(rows, columns, vectors, vectors, ONE_THREAD, Default::default()),
            more,
        ]),
    ])
}

/// The multiplications of a decomposition.
fn work([rows, columns]: [usize; 2]) -> usize {
    rows.saturating_mul(columns).saturating_mul(rows.min(columns)).saturating_mul(8)
}

/// The factors of one matrix in scratch memory: `a = u · diag(back · s) · vᴴ`, the values descending, as
/// elements. `back` is a power of 2; the values `s` do not overflow where those of the matrix do.
struct Decomposed<'s, T: ComplexField> {
    u: MatMut<'s, T>,
    s: MatMut<'s, T>,
    v: MatMut<'s, T>,
    back: T::Real,
}

/// Decomposes a matrix, and passes the factors on with the remaining scratch memory.
fn decomposed<T: ComplexField, R>(
    op: &'static str,
    a: &Batch<'_, T>,
    number: usize,
    factors: Option<Factors>,
    stack: &mut MemStack,
    then: impl FnOnce(Decomposed<'_, T>, &mut MemStack) -> R,
) -> Result<R> {
    let matrix = finite(op, a, number, Part::All)?;
    let ([rows, columns], [of_u, of_v]) = (a.size(), widths(a.size(), factors));
    zeroed!(stack => scaled: T, rows, columns);
    zeroed!(stack => s: T, rows.min(columns), 1);
    zeroed!(stack => u: T, rows, of_u);
    zeroed!(stack => v: T, columns, of_v);
    let back = copy_scaled(scaled.rb_mut(), matrix, Part::All);
    if rows.min(columns) > 0 {
        let (to_u, to_v) = (factors.map(|_| u.rb_mut()), factors.map(|_| v.rb_mut()));
        let values = s.rb_mut().col_mut(0).as_diagonal_mut();
        svd_of(scaled.rb(), values, to_u, to_v, ONE_THREAD, stack, Default::default())
            .map_err(|_| a.error(op, number, format_args!("has singular values that did not converge")))?;
    } else {
        // Without elements every orthogonal matrix is right.
        for vectors in [&mut u, &mut v] {
            for i in 0..vectors.nrows().min(vectors.ncols()) {
                vectors[(i, i)] = one();
            }
        }
    }
    Ok(then(Decomposed { u, s, v, back }, stack))
}

impl<T: ComplexField> Decomposed<'_, T> {
    /// The singular value `i` of the matrix.
    fn value(&self, i: usize) -> T::Real {
        &real(&self.s[(i, 0)]) * &self.back
    }
}

/// `a = u · diag(s) · vh`.
pub(in crate::linalg) fn svd<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    factors: Factors,
    u: BatchMut<'_, T>,
    s: BatchMut<'_, T::Real>,
    vh: BatchMut<'_, T>,
) -> Result<()> {
    let scratch = scratch::<T>(a.size(), Some(factors), StackReq::EMPTY);
    for_each(op, work(a.size()), scratch, (u, s, vh), |number, (mut u, mut s, mut vh), stack| {
        decomposed(op, &a, number, Some(factors), stack, |found, _| {
            u.copy_from(&found.u);
            for i in 0..s.nrows() {
                s[(i, 0)] = found.value(i);
            }
            for (row, column) in places(&vh) {
                vh[(row, column)] = conj(&found.v[(column, row)]);
            }
        })
    })
}

/// The singular values, or, for ratios of them, multiples that do not overflow.
pub(in crate::linalg) fn values<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    are_scaled: bool,
    s: BatchMut<'_, T::Real>,
) -> Result<()> {
    let scratch = scratch::<T>(a.size(), None, StackReq::EMPTY);
    for_each(op, work(a.size()) / 4, scratch, s, |number, mut s, stack| {
        decomposed(op, &a, number, None, stack, |found, _| {
            for i in 0..s.nrows() {
                s[(i, 0)] = if are_scaled { real(&found.s[(i, 0)]) } else { found.value(i) };
            }
        })
    })
}

/// Divides row `i` of `matrix` by `back` times the singular value `i`; rows of values of at most `tolerance`
/// times the largest become 0. Returns the number of other rows.
fn divide_rows<T: ComplexField>(
    mut matrix: MatMut<'_, T>,
    s: MatRef<'_, T>,
    back: &T::Real,
    tolerance: f64,
) -> usize {
    let largest = if s.nrows() > 0 { real(&s[(0, 0)]) } else { zero() };
    let (least, scale) = (largest * from_f64::<T::Real>(tolerance), recip(back));
    let mut rank = 0;
    for i in 0..s.nrows() {
        let value = real(&s[(i, 0)]);
        let is_kept = value > least;
        rank += usize::from(is_kept);
        for column in 0..matrix.ncols() {
            matrix[(i, column)] = match is_kept {
                true => mul_real(&quotient(&matrix[(i, column)], &s[(i, 0)]), &scale),
                false => zero(),
            };
        }
    }
    rank
}

/// The pseudoinverse.
pub(in crate::linalg) fn pseudo_inverse<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    tolerance: f64,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let scratch = scratch::<T>(a.size(), Some(Factors::Thin), StackReq::EMPTY);
    for_each(op, work(a.size()), scratch, x, |number, x, stack| {
        decomposed(op, &a, number, Some(Factors::Thin), stack, |mut found, _| {
            divide_rows(found.v.rb_mut().transpose_mut(), found.s.rb(), &found.back, tolerance);
            matmul(x, Accum::Replace, found.v.rb(), found.u.rb().adjoint(), one(), ONE_THREAD);
        })
    })
}

/// The shortest `x` for which `a · x` is nearest to `b`.
pub(in crate::linalg) fn least_squares<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    b: Batch<'_, T>,
    tolerance: f64,
    x: BatchMut<'_, T>,
    rank: BatchMut<'_, i64>,
    s: BatchMut<'_, T::Real>,
) -> Result<()> {
    let ([rows, columns], [_, width]) = (a.size(), b.size());
    let least = rows.min(columns);
    let scratch = scratch::<T>(a.size(), Some(Factors::Thin), temp_mat_scratch::<T>(least, width));
    for_each(op, work(a.size()), scratch, (x, rank, s), |number, (x, mut rank, mut s), stack| {
        decomposed(op, &a, number, Some(Factors::Thin), stack, |found, stack| {
            zeroed!(stack => along: T, least, width);
            let right = b.at(number);
            matmul(along.rb_mut(), Accum::Replace, found.u.rb().adjoint(), right, one(), ONE_THREAD);
            rank[(0, 0)] = divide_rows(along.rb_mut(), found.s.rb(), &found.back, tolerance) as i64;
            matmul(x, Accum::Replace, found.v.rb(), along.rb(), one(), ONE_THREAD);
            for i in 0..least {
                s[(i, 0)] = found.value(i);
            }
        })
    })
}
