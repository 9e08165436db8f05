//! `sin(πx) / (πx)`.
// Imports: `scalar`.

use super::gamma::{cos_pi, sin_pi};
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::PI;

/// The derivative over `x`, in `x²`, for `|x| ≤ 1/2`: Taylor's `(−1)ᵏ π²ᵏ · 2k / (2k + 1)!`.
const SLOPE: [f64; 12] = [
    -3.289868133696453,
    3.2469697011334144,
    -1.1445109447325053,
    0.2091827825412384,
    -0.023460810354558236,
    0.001781145516372852,
    -9.766223126318933e-05,
    4.049947846619244e-06,
    -1.3148481279991994e-07,
    3.4330769499642866e-09,
    -7.365893777096947e-11,
    1.3217901389162318e-12,
];

/// `sin(πx) / (πx)`, 1 at 0. It is a function because the quotient rule cancels near 0.
pub struct SincFn;

impl Function<1> for SincFn {
    const NAME: &'static str = "sinc";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let quotient = sin_pi(x) / (x * PI);
        let quotient = x.abs().eq(Lane::highest()).select(Lane::zero(), quotient);
        x.eq(Lane::zero()).select(Lane::one(), quotient)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let is_near = x.abs().le(0.5);
        let (near, far) = (is_near.select(x, Lane::zero()), is_near.select(Lane::one(), x));
        let outside = (cos_pi(far) - sin_pi(far) / (far * PI)) / far;
        // At ±∞ the limit is 0.
        let outside = far.abs().eq(Lane::highest()).select(Lane::zero(), outside);
        [is_near.select(poly(near * near, SLOPE) * near, outside)]
    }
}
