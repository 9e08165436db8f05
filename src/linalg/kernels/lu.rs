//! Elimination with row exchanges: solutions, inverses, determinants.
// Imports: `error`.

use super::{ONE_THREAD, Part, finite};
use crate::error::Result;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::{inverse as inverse_of, solve as solve_by};
use faer::linalg::temp_mat_scratch;
use faer::perm::PermRef;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::math_utils::{abs, copy, from_f64, infinity, mul_real, neg, one, recip, zero};
use faer::traits::{ComplexField, RealField};
use faer::{MatMut, MatRef};
use std::cmp::Ordering;

/// A factorization in scratch memory: both triangles in one matrix, the order of the rows, and whether that
/// order is an odd permutation.
struct Factored<'s, T> {
    both: MatRef<'s, T>,
    rows: PermRef<'s, usize>,
    is_odd: bool,
}

impl<T: ComplexField> Factored<'_, T> {
    /// The sign of the permutation.
    fn sign(&self) -> T {
        if self.is_odd { neg(&one::<T>()) } else { one() }
    }

    /// The first pivot that is 0. The numbers behind it are not usable.
    fn zero_pivot(&self) -> Option<usize> {
        (0..self.both.nrows().min(self.both.ncols())).find(|&i| self.both[(i, i)] == zero())
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

/// Factors a matrix, and passes it on with the remaining scratch memory.
fn factored<T: ComplexField, R>(
    matrix: MatRef<'_, T>,
    stack: &mut MemStack,
    then: impl FnOnce(Factored<'_, T>, &mut MemStack) -> R,
) -> R {
    zeroed!(stack => both: T, matrix.nrows(), matrix.ncols());
    both.copy_from(matrix);
    let (mut order, stack) = stack.make_with::<usize>(matrix.nrows(), |row| row);
    let (mut inverse, stack) = stack.make_with::<usize>(matrix.nrows(), |row| row);
    let (info, rows) =
        lu_in_place(both.rb_mut(), &mut order, &mut inverse, ONE_THREAD, stack, Default::default());
    then(Factored { both: both.rb(), rows, is_odd: info.transposition_count % 2 == 1 }, stack)
}

/// Factors a matrix of which a pivot is 0, column by column: the column below such a pivot is 0 already, and
/// faer would divide by it.
fn eliminate<T: ComplexField>(mut both: MatMut<'_, T>, matrix: MatRef<'_, T>, order: &mut [usize]) {
    both.copy_from(matrix);
    order.iter_mut().enumerate().for_each(|(row, from)| *from = row);
    for k in 0..both.nrows().min(both.ncols()) {
        let mut pivot = k;
        for row in k + 1..both.nrows() {
            if abs(&both[(row, k)]) > abs(&both[(pivot, k)]) {
                pivot = row;
            }
        }
        order.swap(k, pivot);
        for column in 0..both.ncols() {
            let (upper, lower) = (copy(&both[(k, column)]), copy(&both[(pivot, column)]));
            (both[(k, column)], both[(pivot, column)]) = (lower, upper);
        }
        if both[(k, k)] == zero() {
            continue;
        }
        let inverse = recip(&both[(k, k)]);
        for row in k + 1..both.nrows() {
            let factor = &both[(row, k)] * &inverse;
            for column in k + 1..both.ncols() {
                both[(row, column)] = &both[(row, column)] - &(&factor * &both[(k, column)]);
            }
            both[(row, k)] = factor;
        }
    }
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
    let work = work(a.size()).saturating_add(n * n * columns);
    for_each(op, work, scratch::<T>(a.size(), more), x, |number, mut x, stack| {
        factored(finite(op, &a, number, Part::All)?, stack, |lu, stack| {
            if let Some(i) = lu.zero_pivot() {
                return Err(a.error(op, number, format_args!("is singular: pivot {i} is 0")));
            }
            x.copy_from(b.at(number));
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
        inverse_of::inverse(x, lu.both, lu.both, lu.rows, ONE_THREAD, stack);
        Ok(())
    })
}

/// The scratch memory of [`solve_one`].
pub(super) fn solve_one_scratch<T: ComplexField>(n: usize) -> StackReq {
    scratch::<T>([n, n], solve_by::solve_in_place_scratch::<usize, T>(n, n, ONE_THREAD))
}

/// Solves `matrix · x = x` of a matrix that is known to be regular.
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
    let ([rows, columns], outputs) = (a.size(), (permutation, lower, upper));
    let again = StackReq::and(temp_mat_scratch::<T>(rows, columns), StackReq::new::<usize>(rows));
    let scratch = scratch::<T>(a.size(), again);
    for_each(op, work(a.size()), scratch, outputs, |number, outputs, stack| {
        let matrix = finite(op, &a, number, Part::All)?;
        factored(matrix, stack, |lu, stack| match lu.zero_pivot() {
            None => write_factors(lu.both, lu.rows.arrays().0, outputs),
            Some(_) => {
                zeroed!(stack => both: T, rows, columns);
                let (mut order, _) = stack.make_with::<usize>(rows, |row| row);
                eliminate(both.rb_mut(), matrix, &mut order);
                write_factors(both.rb(), &order, outputs);
            }
        });
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

/// The places of a matrix, row by row.
pub(super) fn places<T>(matrix: &MatMut<'_, T>) -> impl Iterator<Item = (usize, usize)> + use<T> {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
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
                let (pivot, modulus) = (&lu.both[(i, i)], abs(&lu.both[(i, i)]));
                sum += modulus.logarithm();
                product = &product * &unit(pivot, &modulus);
            }
            if is_singular {
                (product, sum) = (zero(), neg(&infinity::<T::Real>()));
            }
            (sign[(0, 0)], ln_abs[(0, 0)]) = (product, sum);
            Ok(())
        })
    })
}

/// `value / modulus`, also where `1 / modulus` overflows.
fn unit<T: ComplexField>(value: &T, modulus: &T::Real) -> T {
    let small = from_f64::<T::Real>(0.25) * modulus < recip(&from_f64::<T::Real>(f64::from(f32::MAX)));
    match small {
        true => {
            let factor = from_f64::<T::Real>(f64::from(1_u32 << 30));
            mul_real(&mul_real(value, &factor), &recip(&(&factor * modulus)))
        }
        false => mul_real(value, &recip(modulus)),
    }
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
