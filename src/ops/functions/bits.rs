//! Bits of floats, and literals that depend on the precision.
// Imports: `scalar`.

use crate::scalar::{DType, Lane, Lanes, Prim as _, Real};

/// Whether the body computes in `f32`; a constant in every instance.
#[inline(always)]
pub(super) fn single<P: Real>() -> bool {
    P::DTYPE == DType::F32
}

/// One of two literals, chosen by the precision.
#[inline(always)]
pub(super) fn pick<L: Lanes, P: Real>(f32: f64, f64: f64) -> Lane<L, P> {
    Lane::real(if single::<P>() { f32 } else { f64 })
}

/// An integer literal as wide as `P`.
#[inline(always)]
pub(super) fn word<L: Lanes, P: Real>(value: u64) -> Lane<L, P::Bits> {
    Lane::literal(P::Bits::from_u64(value))
}

/// The bits of the float 1: the number `BIAS` in the exponent field.
#[inline(always)]
pub(super) fn one_bits<P: Real>() -> u64 {
    (P::BIAS as u64) << P::FRACTION
}

/// The mask of the exponent field.
#[inline(always)]
pub(super) fn exponent_mask<P: Real>() -> u64 {
    (2 * P::BIAS as u64 + 1) << P::FRACTION
}

/// The sign bit of `x`; the other bits are 0.
#[inline(always)]
pub(in crate::ops) fn sign<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P::Bits> {
    x.to_bits() & word::<L, P>(1 << (8 * size_of::<P>() - 1))
}

/// `y` with its sign flipped where `sign` has the bit set; a `y ≥ 0` takes the sign.
#[inline(always)]
pub(super) fn signed<L: Lanes, P: Real>(y: Lane<L, P>, sign: Lane<L, P::Bits>) -> Lane<L, P> {
    Lane::from_bits(y.to_bits() ^ sign)
}

/// `2^(n − BIAS)` from the biased exponent, an integer; bits of `n` above the exponent's width must be 0
/// after the shift.
#[inline(always)]
pub(super) fn power_of_two<L: Lanes, P: Real>(biased: Lane<L, P::Bits>) -> Lane<L, P> {
    Lane::from_bits(biased.shl(P::FRACTION))
}

/// `1.5 · 2^FRACTION`. The last bit of a float of this size is a unit, and adding it rounds to an integer.
#[inline(always)]
pub(super) fn shifter<P: Real>() -> f64 {
    if single::<P>() { 12_582_912.0 } else { 6_755_399_441_055_744.0 }
}

/// `x` clamped to an interval; NaN stays.
#[inline(always)]
pub(super) fn clamp<L: Lanes, P: Real>(x: Lane<L, P>, low: Lane<L, P>, high: Lane<L, P>) -> Lane<L, P> {
    let x = high.lt(x).select(high, x);
    low.gt(x).select(low, x)
}

/// Not a number.
#[inline(always)]
pub(super) fn nan<L: Lanes, P: Real>() -> Lane<L, P> {
    Lane::real(f64::NAN)
}
