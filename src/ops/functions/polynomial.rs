//! Polynomials by Horner's rule, in floats and in double-doubles.
// Imports: `scalar`.

use super::bits::single;
use super::double_double::Double;
use crate::scalar::{Lane, Lanes, Real};

/// `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule. In `f64`, long polynomials take two coefficients per step.
///
/// Pairs of coefficients are independent of each other. With few lanes in a register, loops are limited by
/// latency rather than by throughput, and shorter dependency chains pay.
#[inline(always)]
pub(super) fn poly<L: Lanes, P: Real, const N: usize>(x: Lane<L, P>, c: [f64; N]) -> Lane<L, P> {
    let c = |i: usize| Lane::<L, P>::real(c[i]);
    let singles = if single::<P>() || N < 5 { N - 1 } else { 2 - N % 2 };
    let mut sum = c(N - 1);
    if singles < N - 1 {
        let square = x * x;
        let pair = |i: usize| c(i + 1).mul_add(x, c(i));
        sum = pair(N - 2);
        for i in (0..(N - singles) / 2 - 1).rev() {
            sum = sum.mul_add(square, pair(singles + 2 * i));
        }
    }
    for i in (0..singles).rev() {
        sum = sum.mul_add(x, c(i));
    }
    sum
}

/// `lead[0] + lead[1]·x + … + x^K·(rest[0] + …)` as a double-double, or as a float if the result is rounded
/// to `f32`.
#[inline(always)]
pub(super) fn long_poly<L: Lanes, R: Real, const K: usize, const N: usize>(
    x: Double<L, f64>,
    lead: [[f64; 2]; K],
    rest: [f64; N],
) -> Double<L, f64> {
    let mut sum = Double::new(poly(x.hi, rest), Lane::zero());
    for k in (0..K).rev() {
        let [high, low] = lead[k];
        if single::<R>() {
            sum.hi = sum.hi.mul_add(x.hi, Lane::real(high));
            continue;
        }
        let product = sum.mul(x);
        let next = Double::sum(Lane::real(high), product.hi);
        sum = Double::new(next.hi, next.lo + (product.lo + low));
    }
    sum
}
