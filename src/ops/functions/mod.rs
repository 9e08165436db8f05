//! The named functions of `<math.h>`, each a branch-free body that vectorizes, with its error budget beside it.
//!
//! Every function states `ULP_F32` and `ULP_F64`: the largest error, in units in the last place of the true result, over
//! all inputs (over the range that its documentation names, where it names one). 16-bit floats are computed in `f32`.
//! Special values are those of C99 Annex F. Bodies keep what rounding loses in a second word (`Double`), which a fused
//! multiply-add makes cheap; coefficients are minimax fits (Remez) for the interval left after reduction.
// Imports: `scalar`.

#![allow(clippy::approx_constant, clippy::excessive_precision)] // words of double-double constants and coefficients

mod below_zero;
mod bessel;
mod bessel_modified;
mod double;
mod error_function;
mod exp;
mod gamma;
mod hyperbolic;
mod inverse_hyperbolic;
mod inverse_trig;
mod log;
mod logistic;
mod normal;
mod power;
mod root;
mod sinc;
mod softsign;
mod trig;

pub use bessel::{J0Fn, J1Fn, Y0Fn, Y1Fn};
pub use bessel_modified::{I0Fn, I0eFn, I1Fn, I1eFn};
pub use error_function::{ErfFn, ErfcFn};
pub use exp::{Exp2Fn, ExpFn, ExpM1Fn};
pub use gamma::{DigammaFn, GammaFn, LgammaFn};
pub use hyperbolic::{CoshFn, SinhFn, TanhFn};
pub use inverse_hyperbolic::{AcoshFn, AsinhFn, AtanhFn};
pub use inverse_trig::{AcosFn, AsinFn, Atan2Fn, AtanFn};
pub use log::{Ln1pFn, LnFn, Log2Fn, Log10Fn};
pub use logistic::{GeluFn, GeluTanhFn, SigmoidFn, SiluFn};
pub use normal::{ErfInvFn, LogNdtrFn, NdtrFn};
pub use power::PowFn;
pub use root::{CbrtFn, HypotFn};
pub use trig::{CosFn, SinFn, TanFn};

pub(super) use exp::{ExpDifferenceFn, exp_beside_one};
pub(super) use hyperbolic::TanhShrinkFn;
pub(super) use logistic::LogitFn;
pub(super) use sinc::SincFn;
pub(super) use softsign::SoftsignFn;

use crate::scalar::{DType, Lane, Lanes, Prim, Real};
use double::Double;

/// Whether the body computes in `f32`; a constant in every instance.
#[inline(always)]
fn single<P: Real>() -> bool {
    P::DTYPE == DType::F32
}

/// One of two literals, by precision.
#[inline(always)]
fn pick<L: Lanes, P: Real>(f32: f64, f64: f64) -> Lane<L, P> {
    Lane::real(if single::<P>() { f32 } else { f64 })
}

/// `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule; in `f64`, where there are many, in steps of two.
///
/// Pairs do not wait for each other: with fewer lanes in a register, loops wait for results more than they work.
#[inline(always)]
fn poly<L: Lanes, P: Real, const N: usize>(x: Lane<L, P>, c: [f64; N]) -> Lane<L, P> {
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

/// An integer literal as wide as `P`.
#[inline(always)]
fn word<L: Lanes, P: Real>(value: u64) -> Lane<L, P::Bits> {
    Lane::literal(P::Bits::from_u64(value))
}

/// The bits of the number `BIAS` as an exponent alone: the float 1.
#[inline(always)]
fn one_bits<P: Real>() -> u64 {
    (P::BIAS as u64) << P::FRACTION
}

/// The bits of the exponent.
#[inline(always)]
fn exponent_mask<P: Real>() -> u64 {
    (2 * P::BIAS as u64 + 1) << P::FRACTION
}

/// `lead[0] + lead[1]·x + … + x^K·(rest[0] + …)` in two words, or in one where the result is rounded to `f32`.
#[inline(always)]
fn long_poly<L: Lanes, R: Real, const K: usize, const N: usize>(
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

/// The sign bit of `x`, the others 0.
#[inline(always)]
pub(super) fn sign<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P::Bits> {
    x.to_bits() & word::<L, P>(1 << (8 * size_of::<P>() - 1))
}

/// `y` with its sign flipped where `sign` has the bit; `y ≥ 0` takes the sign.
#[inline(always)]
fn signed<L: Lanes, P: Real>(y: Lane<L, P>, sign: Lane<L, P::Bits>) -> Lane<L, P> {
    Lane::from_bits(y.to_bits() ^ sign)
}

/// `2^(n − BIAS)` from the biased exponent, an integer; bits of `n` above the exponent's width must be 0 after the shift.
#[inline(always)]
fn power_of_two<L: Lanes, P: Real>(biased: Lane<L, P::Bits>) -> Lane<L, P> {
    Lane::from_bits(biased.shl(P::FRACTION))
}

/// `1.5 · 2^FRACTION`: a float this large has its units in the last bit, so adding it rounds to an integer.
#[inline(always)]
fn shifter<P: Real>() -> f64 {
    if single::<P>() { 12_582_912.0 } else { 6_755_399_441_055_744.0 }
}

/// `x` held between two numbers; NaN stays.
#[inline(always)]
fn clamp<L: Lanes, P: Real>(x: Lane<L, P>, low: Lane<L, P>, high: Lane<L, P>) -> Lane<L, P> {
    let x = high.lt(x).select(high, x);
    low.gt(x).select(low, x)
}

/// Not a number.
#[inline(always)]
fn nan<L: Lanes, P: Real>() -> Lane<L, P> {
    Lane::real(f64::NAN)
}
