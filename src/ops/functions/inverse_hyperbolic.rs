//! `asinh`, `acosh`, `atanh`: each the logarithm of `1 + a`, with `a` as a double-double.
// Imports: `scalar`.

use super::bits::{nan, pick, sign, signed};
use super::double_double::Double;
use super::inverse_trig::one_minus_square;
use super::log::ln_sum;
use crate::scalar::{Function, Lane, Lanes, Real};

/// From here on `asinh x` and `acosh x` are `ln 2x`, which avoids the overflow of squares.
#[inline(always)]
fn large<L: Lanes, P: Real>() -> Lane<L, P> {
    pick(8192.0, 1_073_741_824.0)
}

/// `ln(1 + a)`, or `ln 2x` where `x` is large.
#[inline(always)]
fn ln_1p_or_twice<L: Lanes, P: Real>(x: Lane<L, P>, a: Double<L, P>) -> Lane<L, P> {
    let (zero, one) = (Lane::zero(), Lane::one());
    let big = x.ge(large());
    let a = Double::new(big.select(x, a.hi), big.select(zero, a.lo));
    let y = ln_sum(big.select(zero, one), a, big.select(one, zero));
    x.lt(Lane::highest()).select(y, x)
}

/// `asinh x`; see [`Lane::asinh`].
pub struct AsinhFn;

impl AsinhFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AsinhFn {
    const NAME: &'static str = "asinh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let clamped = large().lt(magnitude).select(large(), magnitude);
        // a = x + x² / (1 + √(1 + x²)).
        let square = Double::product(clamped, clamped);
        let below = Double::sum(Lane::one(), square.hi);
        let root = Double::new(below.hi, below.lo + square.lo).sqrt();
        let below = Double::fast_sum(root.hi, Lane::one());
        let a = Double::new(clamped, Lane::zero())
            .add_smaller(square.div(Double::new(below.hi, below.lo + root.lo)));
        let y = ln_1p_or_twice(magnitude, a);
        let tiny = magnitude.lt(pick(1e-5, 1e-10));
        signed(tiny.select(magnitude, y), sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / x.hypot(Lane::one())]
    }
}

/// `acosh x`; see [`Lane::acosh`].
pub struct AcoshFn;

impl AcoshFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AcoshFn {
    const NAME: &'static str = "acosh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let clamped = large().lt(x).select(large(), x);
        // a = t + √(t·(t + 2)) with t = x − 1.
        let t = Double::fast_sum(clamped, Lane::real(-1.0));
        let root = t.mul(Double::fast_sum(clamped, Lane::one())).sqrt();
        let y = ln_1p_or_twice(x, root.add_smaller(t));
        let y = x.eq(Lane::one()).select(Lane::zero(), y);
        x.lt(Lane::one()).select(nan(), y)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / ((x - 1.0).sqrt() * (x + 1.0).sqrt())]
    }
}

/// `atanh x`; see [`Lane::atanh`].
pub struct AtanhFn;

impl AtanhFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AtanhFn {
    const NAME: &'static str = "atanh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let (zero, one) = (Lane::zero(), Lane::one());
        let magnitude = x.abs();
        // a = 2x / (1 − x), twice the result is ln(1 + a).
        let a = Double::new(magnitude + magnitude, zero).div(Double::fast_sum(one, -magnitude));
        let y = ln_sum(one, a, zero) * 0.5;
        let tiny = magnitude.lt(pick(1e-5, 1e-10));
        let y = tiny.select(magnitude, y);
        let y = magnitude.eq(one).select(Lane::highest(), y);
        signed(magnitude.gt(one).select(nan(), y), sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / one_minus_square(x)]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The inverse of `sinh`, to 1 unit in the last place.
    #[inline(always)]
    pub fn asinh(self) -> Self {
        self.call::<AsinhFn>()
    }
    /// The inverse of `cosh`, to 1 unit in the last place; NaN below 1.
    #[inline(always)]
    pub fn acosh(self) -> Self {
        self.call::<AcoshFn>()
    }
    /// The inverse of `tanh`, to 1 unit in the last place; NaN beyond ±1, where it is infinite.
    #[inline(always)]
    pub fn atanh(self) -> Self {
        self.call::<AtanhFn>()
    }
}
