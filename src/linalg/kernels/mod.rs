//! Factorizations of one matrix after another, by faer.
//!
//! A kernel reads each operand where it is, works on a copy by columns in scratch memory, and writes results
//! by rows. One matrix is the work of one thread, so that no result depends on the number of threads.
// Imports: `error`.

/// A matrix of zeros in scratch memory, by columns.
macro_rules! zeroed {
    ($stack:ident => $name:ident: $element:ty, $rows:expr, $columns:expr) => {
        let (mut $name, $stack) = faer::linalg::temp_mat_zeroed::<$element, _, _>($rows, $columns, $stack);
        let _ = &$stack; // the last of several matrices leaves it unused
        let mut $name: faer::MatMut<'_, $element> = faer::mat::AsMatMut::as_mat_mut(&mut $name);
    };
}

pub(super) mod eigen;
pub(super) mod lu;
pub(super) mod powers;
pub(super) mod qr;
pub(super) mod svd;
pub(super) mod triangular;

use super::batch::Batch;
use crate::error::Result;
use faer::traits::ComplexField;
use faer::traits::math_utils::{abs, absmax, is_finite, max, mul_real, one, recip, zero};
use faer::traits::math_utils::{eps, from_f64, sqrt_max_positive, sqrt_min_positive};
use faer::{MatMut, MatRef, Par};

/// One matrix is the work of one thread.
const ONE_THREAD: Par = Par::Seq;

/// The elements that an operator reads.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    Lower,
}

impl Part {
    /// The first row that is read of a column.
    fn start(self, column: usize) -> usize {
        match self {
            Part::All => 0,
            Part::Lower => column,
        }
    }
}

/// The matrix of this number, whose elements in `part` must be finite.
fn finite<'a, T: ComplexField>(
    op: &'static str,
    a: &Batch<'a, T>,
    number: usize,
    part: Part,
) -> Result<MatRef<'a, T>> {
    let matrix = a.at(number);
    for column in 0..matrix.ncols() {
        for row in part.start(column)..matrix.nrows() {
            if !is_finite(&matrix[(row, column)]) {
                let found = &matrix[(row, column)];
                return Err(a.error(op, number, format_args!("has {found:?} at [{row}, {column}]")));
            }
        }
    }
    Ok(matrix)
}

/// Copies `part` of a matrix to `to`, with 0 elsewhere, so that squares of its elements neither overflow nor
/// underflow. Returns the power of 2 that multiplies the copy's values back.
fn copy_scaled<T: ComplexField>(mut to: MatMut<'_, T>, from: MatRef<'_, T>, part: Part) -> T::Real {
    let mut largest = zero::<T::Real>();
    for column in 0..from.ncols() {
        for row in part.start(column)..from.nrows() {
            largest = max(&largest, &absmax(&from[(row, column)]));
        }
    }
    let scale = scale_of(largest);
    for column in 0..from.ncols() {
        for row in 0..from.nrows() {
            to[(row, column)] = match row >= part.start(column) {
                true => mul_real(&from[(row, column)], &scale),
                false => zero(),
            };
        }
    }
    recip(&scale)
}

/// A power of 2 that brings this magnitude near 1, if its square is near the limits of the element; else 1.
fn scale_of<R: faer::traits::RealField>(largest: R) -> R {
    let (mut scale, mut scaled) = (one::<R>(), largest);
    let (half, two) = (from_f64::<R>(0.5), from_f64::<R>(2.0));
    if scaled > sqrt_max_positive::<R>() * eps::<R>() {
        // Not further down: the reciprocal of the scale is finite.
        while scaled > from_f64::<R>(4.0) {
            (scale, scaled) = (&scale * &half, &scaled * &half);
        }
    } else if scaled > zero() && scaled < sqrt_min_positive::<R>() / eps::<R>() {
        let most = sqrt_max_positive::<R>() * sqrt_max_positive::<R>() * from_f64::<R>(0.25);
        while scaled < one() && scale < most {
            (scale, scaled) = (&scale * &two, &scaled * &two);
        }
    }
    scale
}

/// The places of a matrix, row by row.
fn places<T>(matrix: &MatMut<'_, T>) -> impl Iterator<Item = (usize, usize)> + use<T> {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

/// `value / divisor`, also where `1 / divisor` overflows.
fn quotient<T: ComplexField>(value: &T, divisor: &T) -> T {
    if T::IS_REAL {
        return value / divisor;
    }
    let inverse = recip(divisor);
    if is_finite(&inverse) {
        return value * &inverse;
    }
    let factor = from_f64::<T::Real>(2.0_f64.powi(64));
    mul_real(value, &factor) * recip(&mul_real(divisor, &factor))
}

/// The largest sum of the moduli of a column.
fn one_norm<T: ComplexField>(matrix: MatRef<'_, T>) -> T::Real {
    (0..matrix.ncols()).fold(zero(), |largest: T::Real, column| {
        let sum = (0..matrix.nrows()).fold(zero(), |sum: T::Real, row| sum + abs(&matrix[(row, column)]));
        max(&largest, &sum)
    })
}
