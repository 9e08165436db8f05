//! LU factorization with partial pivoting: solutions, inverses, determinants.
// Imports: `error`.

use super::triangular::substitute;
use super::{ONE_THREAD, Part, finite, places, quotient};
use crate::error::Result;
use crate::linalg::Triangle;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::{inverse as inverse_of, solve as solve_by};
use faer::linalg::temp_mat_scratch;
use faer::perm::PermRef;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::math_utils::{
    abs, copy, from_f64, from_real, infinity, is_finite, mul_real, neg, one, recip, zero,
};
use faer::traits::{ComplexField, RealField};
use faer::{ColRef, MatMut, MatRef};
use std::cmp::Ordering;

/// A factorization in scratch memory: both triangles in one matrix, the order of the rows, whether that order
/// is an odd permutation, and whether a pivot has no finite reciprocal.
pub(super) struct Factored<'s, T> {
    both: MatRef<'s, T>,
    rows: PermRef<'s, usize>,
    is_odd: bool,
    needs_division: bool,
}

impl<T: ComplexField> Factored<'_, T> {
    /// The sign of the permutation.
    fn sign(&self) -> T {
        if self.is_odd { neg(&one::<T>()) } else { one() }
    }

    /// The first pivot that is 0.
    fn zero_pivot(&self) -> Option<usize> {
        (0..self.both.nrows().min(self.both.ncols())).find(|&i| self.both[(i, i)] == zero())
    }

    /// Writes the solutions for right-hand sides whose elements `right` gives, by substitution with divisions.
    fn substitute(&self, right: impl Fn(usize, usize) -> T, mut x: MatMut<'_, T>) {
        for column in 0..x.ncols() {
            for (row, &from) in self.rows.arrays().0.iter().enumerate() {
                x[(row, column)] = right(from, column);
            }
        }
        substitute(self.both, Triangle::UnitLower, x.rb_mut());
        substitute(self.both, Triangle::Upper, x);
    }

    /// The solution for one right-hand side up to a positive factor, which keeps its elements from
    /// overflowing. Pivots smaller than `least` count as `least`.
    pub(super) fn solve_direction(&self, right: ColRef<'_, T>, least: &T::Real, mut x: MatMut<'_, T>) {
        let (both, n) = (self.both, x.nrows());
        for (row, &from) in self.rows.arrays().0.iter().enumerate() {
            x[(row, 0)] = copy(&right[from]);
        }
        substitute(both, Triangle::UnitLower, x.rb_mut());
        for i in (0..n).rev() {
            let pivot = match abs(&both[(i, i)]) < *least {
                true => from_real(least),
                false => copy(&both[(i, i)]),
            };
            let (size, bound) = (abs(&x[(i, 0)]), abs(&pivot));
            if size > bound {
                let factor = bound / size;
                (0..n).for_each(|row| x[(row, 0)] = mul_real(&x[(row, 0)], &factor));
            }
            x[(i, 0)] = quotient(&x[(i, 0)], &pivot);
            for row in 0..i {
                x[(row, 0)] = &x[(row, 0)] - &(&both[(row, i)] * &x[(i, 0)]);
            }
        }
    }
}

/// The scratch memory of [`factored`], with `more` for its continuation.
fn scratch<T: ComplexField>([rows, columns]: [usize; 2], more: StackReq) -> StackReq {
    let factor = lu_in_place_scratch::<usize, T>(rows, columns, ONE_THREAD, Default::default());
    StackReq::all_of(&[
        temp_mat_scratch::<T>(rows, columns),
        StackReq::new::<usize>(rows),
        StackReq::new::<usize>(rows),
        StackReq::any_of(&[factor, more]),
    ])
}

/// The scratch memory of [`factored`] for a square matrix.
pub(super) fn factored_scratch<T: ComplexField>(n: usize) -> StackReq {
    scratch::<T>([n, n], StackReq::EMPTY)
}

/// Factors a matrix, and passes it on with the remaining scratch memory. Where a pivot has no finite
/// reciprocal, by which faer multiplies, the matrix is factored again with divisions.
pub(super) fn factored<T: ComplexField, R>(
    matrix: MatRef<'_, T>,
    stack: &mut MemStack,
    then: impl FnOnce(Factored<'_, T>, &mut MemStack) -> R,
) -> R {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    zeroed!(stack => both: T, rows, columns);
    both.copy_from(matrix);
    let (mut order, stack) = stack.make_with::<usize>(rows, |row| row);
    let (mut inverse, stack) = stack.make_with::<usize>(rows, |row| row);
    let (info, _) =
        lu_in_place(both.rb_mut(), &mut order, &mut inverse, ONE_THREAD, stack, Default::default());
    let mut is_odd = info.transposition_count % 2 == 1;
    let needs_division = (0..rows.min(columns)).any(|i| !is_finite(&recip(&both[(i, i)])));
    if needs_division {
        both.copy_from(matrix);
        is_odd = eliminate(both.rb_mut(), &mut order);
        order.iter().enumerate().for_each(|(row, &from)| inverse[from] = row);
    }
    let rows = PermRef::new_checked(&order, &inverse, rows);
    then(Factored { both: both.rb(), rows, is_odd, needs_division }, stack)
}

/// Factors a matrix in place with divisions, column by column, and writes the order of its rows. Returns
/// whether that is an odd permutation. The column below a pivot of 0 is 0 already.
fn eliminate<T: ComplexField>(mut both: MatMut<'_, T>, order: &mut [usize]) -> bool {
    order.iter_mut().enumerate().for_each(|(row, from)| *from = row);
    let mut is_odd = false;
    for k in 0..both.nrows().min(both.ncols()) {
        let mut pivot = k;
        for row in k + 1..both.nrows() {
            if abs(&both[(row, k)]) > abs(&both[(pivot, k)]) {
                pivot = row;
            }
        }
        order.swap(k, pivot);
        is_odd ^= pivot != k;
        for column in 0..both.ncols() {
            let (upper, lower) = (copy(&both[(k, column)]), copy(&both[(pivot, column)]));
            (both[(k, column)], both[(pivot, column)]) = (lower, upper);
        }
        if both[(k, k)] == zero() {
            continue;
        }
        for row in k + 1..both.nrows() {
            both[(row, k)] = quotient(&both[(row, k)], &both[(k, k)]);
        }
        for column in k + 1..both.ncols() {
            for row in k + 1..both.nrows() {
                both[(row, column)] = &both[(row, column)] - &(&both[(row, k)] * &both[(k, column)]);
            }
        }
    }
    is_odd
}

/// The multiplications of an elimination.
fn work([rows, columns]: [usize; 2]) -> usize {
    rows.saturating_mul(columns).saturating_mul(rows.min(columns))
}

/// `a · x = b`.
pub(in crate::linalg) fn solve<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    b: Batch<'_, T>,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let ([n, _], [_, columns]) = (a.size(), b.size());
    let more = solve_by::solve_in_place_scratch::<usize, T>(n, columns, ONE_THREAD);
    let work = work(a.size()).saturating_add(n.saturating_mul(n).saturating_mul(columns));
    for_each(op, work, scratch::<T>(a.size(), more), x, |number, mut x, stack| {
        factored(finite(op, &a, number, Part::All)?, stack, |lu, stack| {
            if let Some(i) = lu.zero_pivot() {
                return Err(a.error(op, number, format_args!("is singular: pivot {i} is 0")));
            }
            let right = b.at(number);
            if lu.needs_division {
                lu.substitute(|row, column| copy(&right[(row, column)]), x);
                return Ok(());
            }
            x.copy_from(right);
            solve_by::solve_in_place(lu.both, lu.both, lu.rows, x, ONE_THREAD, stack);
            Ok(())
        })
    })
}

/// The inverse.
pub(in crate::linalg) fn inverse<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let [n, _] = a.size();
    let more = inverse_of::inverse_scratch::<usize, T>(n, ONE_THREAD);
    for_each(op, work(a.size()).saturating_mul(3), scratch::<T>(a.size(), more), x, |number, x, stack| {
        invert(op, &a, number, finite(op, &a, number, Part::All)?, x, stack)
    })
}

/// The scratch memory of [`invert`].
pub(super) fn invert_scratch<T: ComplexField>(n: usize) -> StackReq {
    scratch::<T>([n, n], inverse_of::inverse_scratch::<usize, T>(n, ONE_THREAD))
}

/// The inverse of one matrix; `a` and `number` name it in an error.
pub(super) fn invert<T: ComplexField>(
    op: &'static str,
    a: &Batch<'_, T>,
    number: usize,
    matrix: MatRef<'_, T>,
    x: MatMut<'_, T>,
    stack: &mut MemStack,
) -> Result<()> {
    factored(matrix, stack, |lu, stack| {
        if let Some(i) = lu.zero_pivot() {
            return Err(a.error(op, number, format_args!("is singular: pivot {i} is 0")));
        }
        if lu.needs_division {
            lu.substitute(|row, column| if row == column { one() } else { zero() }, x);
            return Ok(());
        }
        inverse_of::inverse(x, lu.both, lu.both, lu.rows, ONE_THREAD, stack);
        Ok(())
    })
}

/// The scratch memory of [`solve_one`].
pub(super) fn solve_one_scratch<T: ComplexField>(n: usize) -> StackReq {
    scratch::<T>([n, n], solve_by::solve_in_place_scratch::<usize, T>(n, n, ONE_THREAD))
}

/// Replaces `x` by the solution for `x` of a matrix whose pivots are not small.
pub(super) fn solve_one<T: ComplexField>(matrix: MatRef<'_, T>, x: MatMut<'_, T>, stack: &mut MemStack) {
    factored(matrix, stack, |lu, stack| {
        solve_by::solve_in_place(lu.both, lu.both, lu.rows, x, ONE_THREAD, stack);
    });
}

/// The triangles, and the order of the rows.
pub(in crate::linalg) fn lu<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    permutation: BatchMut<'_, i64>,
    lower: BatchMut<'_, T>,
    upper: BatchMut<'_, T>,
) -> Result<()> {
    let outputs = (permutation, lower, upper);
    let scratch = scratch::<T>(a.size(), StackReq::EMPTY);
    for_each(op, work(a.size()), scratch, outputs, |number, outputs, stack| {
        let matrix = finite(op, &a, number, Part::All)?;
        factored(matrix, stack, |lu, _| write_factors(lu.both, lu.rows.arrays().0, outputs));
        Ok(())
    })
}

/// Writes the order of the rows, and both triangles of a matrix.
fn write_factors<T: ComplexField>(
    both: MatRef<'_, T>,
    order: &[usize],
    (mut permutation, mut lower, mut upper): (MatMut<'_, i64>, MatMut<'_, T>, MatMut<'_, T>),
) {
    for (row, &from) in order.iter().enumerate() {
        permutation[(row, 0)] = from as i64;
    }
    for (row, column) in places(&lower) {
        lower[(row, column)] = match row.cmp(&column) {
            Ordering::Less => zero(),
            Ordering::Equal => one(),
            Ordering::Greater => copy(&both[(row, column)]),
        };
    }
    for (row, column) in places(&upper) {
        upper[(row, column)] = if row > column { zero() } else { copy(&both[(row, column)]) };
    }
}

/// The determinant, as the product of the pivots.
pub(in crate::linalg) fn determinant<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    out: BatchMut<'_, T>,
) -> Result<()> {
    let scratch = scratch::<T>(a.size(), StackReq::EMPTY);
    for_each(op, work(a.size()), scratch, out, |number, mut out, stack| {
        out[(0, 0)] = factored(finite(op, &a, number, Part::All)?, stack, |lu, _| match lu.zero_pivot() {
            Some(_) => zero(),
            None => (0..lu.both.ncols()).fold(lu.sign(), |product, i| &product * &lu.both[(i, i)]),
        });
        Ok(())
    })
}

/// The determinant as a number of modulus 1, or 0, and the logarithm of the modulus.
pub(in crate::linalg) fn log_determinant<T: ComplexField<Real: Logarithm>>(
    op: &'static str,
    a: Batch<'_, T>,
    sign: BatchMut<'_, T>,
    ln_abs: BatchMut<'_, T::Real>,
) -> Result<()> {
    let scratch = scratch::<T>(a.size(), StackReq::EMPTY);
    for_each(op, work(a.size()), scratch, (sign, ln_abs), |number, (mut sign, mut ln_abs), stack| {
        factored(finite(op, &a, number, Part::All)?, stack, |lu, _| {
            let is_singular = lu.zero_pivot().is_some();
            let (mut product, mut sum) = (lu.sign(), zero::<T::Real>());
            for i in 0..if is_singular { 0 } else { lu.both.ncols() } {
                sum += abs(&lu.both[(i, i)]).logarithm();
                product = &product * &unit(&lu.both[(i, i)]);
            }
            if is_singular {
                (product, sum) = (zero(), neg(&infinity::<T::Real>()));
            }
            (sign[(0, 0)], ln_abs[(0, 0)]) = (product, sum);
            Ok(())
        })
    })
}

/// `value / |value|`. The modulus of a number whose reciprocal overflows has too few bits.
fn unit<T: ComplexField>(value: &T) -> T {
    let value = match is_finite(&recip(value)) {
        true => copy(value),
        false => mul_real(value, &from_f64(2.0_f64.powi(64))),
    };
    quotient(&value, &from_real(&abs(&value)))
}

/// The natural logarithm, which faer does not have.
pub(in crate::linalg) trait Logarithm: RealField {
    /// `ln(self)`.
    fn logarithm(&self) -> Self;
}

impl Logarithm for f32 {
    fn logarithm(&self) -> Self {
        self.ln()
    }
}

impl Logarithm for f64 {
    fn logarithm(&self) -> Self {
        self.ln()
    }
}
