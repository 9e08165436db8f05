//! Eigenvalues and eigenvectors.
// Imports: `error`.

use super::lu::{factored, factored_scratch};
use super::{ONE_THREAD, Part, copy_scaled, finite, one_norm, places};
use crate::error::{Error, Result};
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors, EvdError};
use faer::linalg::matmul::matmul;
use faer::linalg::temp_mat_scratch;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::ComplexField;
use faer::traits::math_utils::sqrt_min_positive;
use faer::traits::math_utils::{
    abs, eps, from_f64, from_real, is_finite, max, mul_real, one, real, recip, zero,
};
use faer::{Accum, ColMut, MatMut, MatRef};
use num_complex::Complex;

fn not_converged<T>(op: &'static str, a: &Batch<'_, T>, number: usize) -> Error {
    a.error(op, number, format_args!("has eigenvalues that did not converge"))
}

/// The multiplications of a decomposition.
fn work(n: usize) -> usize {
    n.saturating_mul(n).saturating_mul(n).saturating_mul(8)
}

/// One Hermitian matrix, by its lower triangle.
fn hermitian_of<T: ComplexField>(
    op: &'static str,
    a: &Batch<'_, T>,
    number: usize,
    mut values: MatMut<'_, T::Real>,
    vectors: Option<MatMut<'_, T>>,
    stack: &mut MemStack,
) -> Result<()> {
    let (matrix, n) = (finite(op, a, number, Part::Lower)?, a.size()[0]);
    if n == 0 {
        return Ok(());
    }
    zeroed!(stack => scaled: T, n, n);
    zeroed!(stack => found: T, n, 1);
    let back = copy_scaled(scaled.rb_mut(), matrix, Part::Lower);
    let width = if vectors.is_some() { n } else { 0 };
    zeroed!(stack => columns: T, n, width);
    let to = vectors.is_some().then(|| columns.rb_mut());
    let diagonal = found.rb_mut().col_mut(0).as_diagonal_mut();
    evd::self_adjoint_evd(scaled.rb(), diagonal, to, ONE_THREAD, stack, Default::default())
        .map_err(|EvdError::NoConvergence| not_converged(op, a, number))?;
    for i in 0..n {
        values[(i, 0)] = real(&found[(i, 0)]) * &back;
    }
    if let Some(mut vectors) = vectors {
        vectors.copy_from(&columns);
    }
    Ok(())
}

/// The scratch memory of [`hermitian_of`].
fn hermitian_scratch<T: ComplexField>(n: usize, vectors: ComputeEigenvectors) -> StackReq {
    if n == 0 {
        return StackReq::EMPTY;
    }
    StackReq::all_of(&[
        temp_mat_scratch::<T>(n, n),
        temp_mat_scratch::<T>(n, 1),
        temp_mat_scratch::<T>(n, if vectors == ComputeEigenvectors::Yes { n } else { 0 }),
        evd::self_adjoint_evd_scratch::<T>(n, vectors, ONE_THREAD, Default::default()),
    ])
}

/// Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices.
pub(in crate::linalg) fn hermitian<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    values: BatchMut<'_, T::Real>,
    vectors: BatchMut<'_, T>,
) -> Result<()> {
    let n = a.size()[0];
    let scratch = hermitian_scratch::<T>(n, ComputeEigenvectors::Yes);
    for_each(op, work(n), scratch, (values, vectors), |number, (values, vectors), stack| {
        hermitian_of(op, &a, number, values, Some(vectors), stack)
    })
}

/// Eigenvalues of Hermitian matrices, ascending.
pub(in crate::linalg) fn hermitian_values<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    values: BatchMut<'_, T::Real>,
) -> Result<()> {
    let n = a.size()[0];
    let scratch = hermitian_scratch::<T>(n, ComputeEigenvectors::No);
    for_each(op, work(n) / 4, scratch, values, |number, values, stack| {
        hermitian_of(op, &a, number, values, None, stack)
    })
}

/// Elements whose matrices have complex eigenvalues.
pub(in crate::linalg) trait General: ComplexField {
    /// The columns of scratch memory for the eigenvalues.
    const VALUES: usize;
    /// Eigenvalues in the columns of `values`, and eigenvectors, in this element.
    fn evd(
        matrix: MatRef<'_, Self>,
        values: MatMut<'_, Self>,
        vectors: Option<MatMut<'_, Self>>,
        stack: &mut MemStack,
    ) -> std::result::Result<(), EvdError>;
    /// The same number as a complex one.
    fn with_imaginary(&self) -> Complex<Self::Real>;
    /// The eigenvalue `i` of `values`.
    fn value(values: &MatMut<'_, Self>, i: usize) -> Complex<Self::Real>;
    /// Element `row` of the eigenvector `column`, whose eigenvalue `values` has.
    fn element(
        values: &MatMut<'_, Self>,
        vectors: &MatMut<'_, Self>,
        row: usize,
        column: usize,
    ) -> Complex<Self::Real>;
}

macro_rules! general {
    ($($part:ty),*) => { $(
        impl General for $part {
            const VALUES: usize = 2;
            fn evd(
                matrix: MatRef<'_, Self>,
                values: MatMut<'_, Self>,
                vectors: Option<MatMut<'_, Self>>,
                stack: &mut MemStack,
            ) -> std::result::Result<(), EvdError> {
                let (re, im) = values.split_at_col_mut(1);
                let (re, im) = (re.col_mut(0).as_diagonal_mut(), im.col_mut(0).as_diagonal_mut());
                evd::evd_real(matrix, re, im, None, vectors, ONE_THREAD, stack, Default::default())
            }
            fn with_imaginary(&self) -> Complex<Self> {
                Complex::new(*self, 0.0)
            }
            fn value(values: &MatMut<'_, Self>, i: usize) -> Complex<Self> {
                Complex::new(values[(i, 0)], values[(i, 1)])
            }
            // The columns of a conjugate pair are the real and the imaginary parts of its first vector.
            fn element(
                values: &MatMut<'_, Self>,
                vectors: &MatMut<'_, Self>,
                row: usize,
                column: usize,
            ) -> Complex<Self> {
                let is_first = |i: usize| values[(i, 1)] > 0.0 && i + 1 < values.nrows();
                match values[(column, 1)] != 0.0 {
                    true if is_first(column) => {
                        Complex::new(vectors[(row, column)], vectors[(row, column + 1)])
                    }
                    true => Complex::new(vectors[(row, column - 1)], -vectors[(row, column)]),
                    false => Complex::new(vectors[(row, column)], 0.0),
                }
            }
        }
        impl General for Complex<$part> {
            const VALUES: usize = 1;
            fn evd(
                matrix: MatRef<'_, Self>,
                values: MatMut<'_, Self>,
                vectors: Option<MatMut<'_, Self>>,
                stack: &mut MemStack,
            ) -> std::result::Result<(), EvdError> {
                let values = values.col_mut(0).as_diagonal_mut();
                evd::evd_cplx(matrix, values, None, vectors, ONE_THREAD, stack, Default::default())
            }
            fn with_imaginary(&self) -> Self {
                *self
            }
            fn value(values: &MatMut<'_, Self>, i: usize) -> Self {
                values[(i, 0)]
            }
            fn element(_: &MatMut<'_, Self>, vectors: &MatMut<'_, Self>, row: usize, column: usize) -> Self {
                vectors[(row, column)]
            }
        }
    )* };
}
general!(f32, f64);

/// The scratch memory of [`general_of`].
fn general_scratch<T: General>(n: usize, vectors: ComputeEigenvectors) -> StackReq
where
    Complex<T::Real>: ComplexField<Real = T::Real>,
{
    let refinement = match vectors {
        ComputeEigenvectors::Yes => {
            StackReq::and(temp_mat_scratch::<Complex<T::Real>>(n, n), refine_scratch::<Complex<T::Real>>(n))
        }
        ComputeEigenvectors::No => StackReq::EMPTY,
    };
    StackReq::all_of(&[
        temp_mat_scratch::<T>(n, n),
        temp_mat_scratch::<T>(n, T::VALUES),
        temp_mat_scratch::<T>(n, if vectors == ComputeEigenvectors::Yes { n } else { 0 }),
        StackReq::any_of(&[
            evd::evd_scratch::<T>(n, ComputeEigenvectors::No, vectors, ONE_THREAD, Default::default()),
            refinement,
        ]),
    ])
}

/// Divides a column by its length.
fn normalize<T: ComplexField>(mut column: ColMut<'_, T>) {
    let factor = recip(&column.norm_l2());
    for i in 0..column.nrows() {
        column[i] = mul_real(&column[i], &factor);
    }
}

/// The scratch memory of [`refine`].
fn refine_scratch<T: ComplexField>(n: usize) -> StackReq {
    StackReq::all_of(&[
        temp_mat_scratch::<T>(n, n).array(2),
        temp_mat_scratch::<T>(n, 1),
        factored_scratch::<T>(n),
    ])
}

/// Improves eigenvectors with a large residual by inverse iteration. The vectors of faer are wrong for some
/// small conjugate eigenvalues, and not finite for many matrices with fewer eigenvectors than rows, because
/// its substitution does not scale. Returns whether every vector is finite.
fn refine<T: ComplexField>(
    matrix: MatRef<'_, T>,
    value: impl Fn(usize) -> T,
    mut vectors: MatMut<'_, T>,
    stack: &mut MemStack,
) -> bool {
    let n = matrix.nrows();
    zeroed!(stack => product: T, n, n);
    zeroed!(stack => shifted: T, n, n);
    zeroed!(stack => next: T, n, 1);
    matmul(product.rb_mut(), Accum::Replace, matrix, vectors.rb(), one(), ONE_THREAD);
    let unit = max(&(one_norm(matrix) * eps::<T::Real>()), &sqrt_min_positive());
    let bound = &unit * &from_f64::<T::Real>(2.0 * n as f64);
    let mut are_finite = true;
    for column in 0..n {
        let value = value(column);
        let residual = (0..n).fold(zero(), |sum: T::Real, row| {
            sum + abs(&(&product[(row, column)] - &(&value * &vectors[(row, column)])))
        });
        // A vector of faer that overflowed is not finite or 0.
        let is_usable = is_finite(&residual) && vectors.rb().col(column).norm_l2() > from_f64(0.5);
        if is_usable && residual <= bound {
            continue;
        }
        if !is_usable {
            (0..n).for_each(|row| vectors[(row, column)] = one());
        }
        shifted.copy_from(matrix);
        let shift = &value + &from_real::<T>(&unit);
        for i in 0..n {
            shifted[(i, i)] = &shifted[(i, i)] - &shift;
        }
        are_finite &= factored(shifted.rb(), stack, |lu, _| {
            (0..2).all(|_| {
                lu.solve_direction(vectors.rb().col(column), &unit, next.rb_mut());
                normalize(next.rb_mut().col_mut(0));
                let is_vector = (0..n).all(|row| is_finite(&next[(row, 0)]));
                if is_vector {
                    vectors.rb_mut().col_mut(column).copy_from(next.rb().col(0));
                }
                is_vector
            })
        }) || is_usable;
    }
    are_finite
}

/// One matrix of any kind.
fn general_of<T: General>(
    op: &'static str,
    a: &Batch<'_, T>,
    number: usize,
    mut values: MatMut<'_, Complex<T::Real>>,
    vectors: Option<MatMut<'_, Complex<T::Real>>>,
    stack: &mut MemStack,
) -> Result<()>
where
    Complex<T::Real>: ComplexField<Real = T::Real>,
{
    let (matrix, n) = (finite(op, a, number, Part::All)?, a.size()[0]);
    zeroed!(stack => scaled: T, n, n);
    zeroed!(stack => found: T, n, T::VALUES);
    let back = copy_scaled(scaled.rb_mut(), matrix, Part::All);
    let width = if vectors.is_some() { n } else { 0 };
    zeroed!(stack => columns: T, n, width);
    let to = vectors.is_some().then(|| columns.rb_mut());
    T::evd(scaled.rb(), found.rb_mut(), to, stack)
        .map_err(|EvdError::NoConvergence| not_converged(op, a, number))?;
    for i in 0..n {
        values[(i, 0)] = mul_real(&T::value(&found, i), &back);
    }
    if let Some(mut vectors) = vectors {
        for (row, column) in places(&vectors) {
            vectors[(row, column)] = T::element(&found, &columns, row, column);
        }
        for column in 0..n {
            normalize(vectors.rb_mut().col_mut(column));
        }
        zeroed!(stack => complex: Complex<T::Real>, n, n);
        for (row, column) in places(&complex) {
            complex[(row, column)] = scaled[(row, column)].with_imaginary();
        }
        if !refine(complex.rb(), |i| T::value(&found, i), vectors, stack) {
            return Err(not_converged(op, a, number));
        }
    }
    Ok(())
}

/// Eigenvalues, and eigenvectors of length 1.
pub(in crate::linalg) fn general<T: General>(
    op: &'static str,
    a: Batch<'_, T>,
    values: BatchMut<'_, Complex<T::Real>>,
    vectors: BatchMut<'_, Complex<T::Real>>,
) -> Result<()>
where
    Complex<T::Real>: ComplexField<Real = T::Real>,
{
    let n = a.size()[0];
    let scratch = general_scratch::<T>(n, ComputeEigenvectors::Yes);
    for_each(op, work(n).saturating_mul(3), scratch, (values, vectors), |number, (values, vectors), stack| {
        general_of(op, &a, number, values, Some(vectors), stack)
    })
}

/// Eigenvalues.
pub(in crate::linalg) fn general_values<T: General>(
    op: &'static str,
    a: Batch<'_, T>,
    values: BatchMut<'_, Complex<T::Real>>,
) -> Result<()>
where
    Complex<T::Real>: ComplexField<Real = T::Real>,
{
    let n = a.size()[0];
    let scratch = general_scratch::<T>(n, ComputeEigenvectors::No);
    for_each(op, work(n), scratch, values, |number, values, stack| {
        general_of(op, &a, number, values, None, stack)
    })
}
