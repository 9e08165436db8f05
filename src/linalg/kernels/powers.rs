//! Powers and exponentials of matrices.
// Imports: `error`.

use super::lu::{invert, invert_scratch, solve_one, solve_one_scratch};
use super::{ONE_THREAD, Part, finite, one_norm, places};
use crate::error::Result;
use crate::linalg::batch::{Batch, BatchMut, for_each};
use faer::dyn_stack::StackReq;
use faer::linalg::matmul::matmul;
use faer::linalg::temp_mat_scratch;
use faer::reborrow::{Reborrow as _, ReborrowMut as _};
use faer::traits::ComplexField;
use faer::traits::math_utils::{from_f64, is_finite, mul_real, one, zero};
use faer::{Accum, MatMut, MatRef};

/// `to = left · right`.
fn multiply<T: ComplexField>(to: MatMut<'_, T>, left: MatRef<'_, T>, right: MatRef<'_, T>) {
    matmul(to, Accum::Replace, left, right, one(), ONE_THREAD);
}

/// Writes the identity.
fn identity<T: ComplexField>(mut to: MatMut<'_, T>) {
    for (row, column) in places(&to) {
        to[(row, column)] = if row == column { one() } else { zero() };
    }
}

/// `aⁿ`, of the inverse for negative `n`.
pub(in crate::linalg) fn power<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    n: i64,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let size = a.size()[0];
    let matrix = temp_mat_scratch::<T>(size, size);
    let scratch = StackReq::all_of(&[matrix, matrix, invert_scratch::<T>(size)]);
    let steps = 2 * (64 - n.unsigned_abs().leading_zeros() as usize) + 3;
    let work = size.saturating_mul(size).saturating_mul(size).saturating_mul(steps);
    for_each(op, work, scratch, x, |number, mut x, stack| {
        let from = finite(op, &a, number, Part::All)?;
        zeroed!(stack => base: T, size, size);
        zeroed!(stack => product: T, size, size);
        match n < 0 {
            true => invert(op, &a, number, from, base.rb_mut(), stack)?,
            false => base.copy_from(from),
        }
        let mut rest = n.unsigned_abs();
        if rest == 0 {
            identity(x.rb_mut());
        }
        let mut is_first = true;
        while rest > 0 {
            if rest % 2 == 1 {
                // A product with the identity would make NaN of 0 and an infinity.
                if is_first {
                    x.copy_from(&base);
                } else {
                    multiply(product.rb_mut(), x.rb(), base.rb());
                    x.copy_from(&product);
                }
                is_first = false;
            }
            rest /= 2;
            if rest > 0 {
                multiply(product.rb_mut(), base.rb(), base.rb());
                base.copy_from(&product);
            }
        }
        Ok(())
    })
}

/// The coefficients of the Padé approximant of degree 13 of the exponential function.
const PADE: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// The largest 1-norm for which the approximant has the accuracy of f64 (Higham 2005).
const PADE_NORM: f64 = 5.371920351148152;

/// The halvings after which the norm of every finite matrix is finite.
const NORM_HALVINGS: i32 = 64;

/// Multiplies each element.
fn multiply_by<T: ComplexField>(mut x: MatMut<'_, T>, factor: &T::Real) {
    for (row, column) in places(&x) {
        x[(row, column)] = mul_real(&x[(row, column)], factor);
    }
}

/// `to = c[6]·p6 + c[4]·p4 + c[2]·p2 + c[0]`, of even powers of a matrix and coefficients from `first` on.
fn even<T: ComplexField>(mut to: MatMut<'_, T>, powers: [MatRef<'_, T>; 3], first: usize, constant: bool) {
    let [p2, p4, p6] = powers;
    let number = |i: usize| from_f64::<T::Real>(PADE[i]);
    for (row, column) in places(&to) {
        let at = |power: MatRef<'_, T>, i: usize| mul_real(&power[(row, column)], &number(i));
        // With a constant term: c₀ + c₂·p2 + c₄·p4 + c₆·p6. Without: c₀·p2 + c₂·p4 + c₄·p6.
        to[(row, column)] = match constant {
            true if row == column => {
                at(p6, first + 6) + at(p4, first + 4) + at(p2, first + 2) + from_f64::<T>(PADE[first])
            }
            true => at(p6, first + 6) + at(p4, first + 4) + at(p2, first + 2),
            false => at(p6, first + 4) + at(p4, first + 2) + at(p2, first),
        };
    }
}

/// `exp(a)`: scaling, a Padé approximant, and squarings.
pub(in crate::linalg) fn exponential<T: ComplexField>(
    op: &'static str,
    a: Batch<'_, T>,
    x: BatchMut<'_, T>,
) -> Result<()> {
    let n = a.size()[0];
    let scratch = StackReq::all_of(&[temp_mat_scratch::<T>(n, n).array(7), solve_one_scratch::<T>(n)]);
    let work = n.saturating_mul(n).saturating_mul(n).saturating_mul(10);
    for_each(op, work, scratch, x, |number, mut x, stack| {
        let from = finite(op, &a, number, Part::All)?;
        let (half, mut scale, mut squarings) = (from_f64::<T::Real>(0.5), one::<T::Real>(), 0);
        zeroed!(stack => base: T, n, n);
        base.copy_from(from);
        let mut norm = one_norm(base.rb());
        if !is_finite(&norm) {
            multiply_by(base.rb_mut(), &from_f64(0.5_f64.powi(NORM_HALVINGS)));
            (norm, squarings) = (one_norm(base.rb()), NORM_HALVINGS);
        }
        while &norm * &scale > from_f64::<T::Real>(PADE_NORM) {
            (scale, squarings) = (scale * &half, squarings + 1);
        }
        multiply_by(base.rb_mut(), &scale);
        zeroed!(stack => p2: T, n, n);
        zeroed!(stack => p4: T, n, n);
        zeroed!(stack => p6: T, n, n);
        zeroed!(stack => odd: T, n, n);
        zeroed!(stack => sum: T, n, n);
        zeroed!(stack => work: T, n, n);
        multiply(p2.rb_mut(), base.rb(), base.rb());
        multiply(p4.rb_mut(), p2.rb(), p2.rb());
        multiply(p6.rb_mut(), p4.rb(), p2.rb());
        let powers = [p2.rb(), p4.rb(), p6.rb()];
        // The odd part: base · (p6 · (…) + …).
        even(work.rb_mut(), powers, 9, false);
        even(sum.rb_mut(), powers, 1, true);
        matmul(sum.rb_mut(), Accum::Add, powers[2], work.rb(), one(), ONE_THREAD);
        multiply(odd.rb_mut(), base.rb(), sum.rb());
        // The even part.
        even(work.rb_mut(), powers, 8, false);
        even(sum.rb_mut(), powers, 0, true);
        matmul(sum.rb_mut(), Accum::Add, powers[2], work.rb(), one(), ONE_THREAD);
        for (row, column) in places(&x) {
            x[(row, column)] = &sum[(row, column)] + &odd[(row, column)];
            work[(row, column)] = &sum[(row, column)] - &odd[(row, column)];
        }
        solve_one(work.rb(), x.rb_mut(), stack);
        for _ in 0..squarings {
            multiply(work.rb_mut(), x.rb(), x.rb());
            x.copy_from(&work);
        }
        Ok(())
    })
}
