//! `sigmoid`, `silu` and `gelu`, which multiply by it.
//!
//! All are `n / (1 + e^u)` or close to it: numerator and denominator are scaled by one power of two, chosen so that
//! neither leaves the range of normal numbers; so the one division rounds results down to the subnormals. Where `u`
//! is large its own error counts `u` times, hence its second word.
//! Imports: `scalar`.

use super::error_function::{erfc_scaled, excess};
use super::exp::{Exponent, exp_double, exp_m1_reduced, reduce};
use super::{Double, pick, poly, single};
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E};

/// What numerators and denominators are scaled by, as an exponent.
#[inline(always)]
fn scale<P: Real>() -> i64 {
    if single::<P>() { -64 } else { -512 }
}

/// `2^scale`.
#[inline(always)]
fn unit<L: Lanes, P: Real>() -> Lane<L, P> {
    Lane::real(2f64.powi(scale::<P>() as i32))
}

/// `x`, held where `1 / (1 + e^(−x))` is neither 0 nor 1 to the last place, and a little beyond; NaN stays.
#[inline(always)]
fn held<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    super::clamp(x, pick(-110.0, -760.0), Lane::real(41.0))
}

/// `(1 + e^(−x)) · 2^scale` for an `x` that is [`held`].
#[inline(always)]
fn one_plus_exp<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let power = if single::<P>() {
        let k = Exponent::nearest(x, -LOG2_E);
        let [high, low] = super::exp::LN_2[0];
        let r = k.float.mul_add(Lane::real(-low), k.float.mul_add(Lane::real(-high), -x));
        poly(r, EXP) * k.power(scale::<P>())
    } else {
        let (k, r) = reduce(-x);
        (exp_m1_reduced(r) + 1.0) * k.power(scale::<P>())
    };
    power + unit()
}

/// `e^r` for `|r| ≤ ln2 / 2`, to 2^-27.
const EXP: [f64; 7] = [1.0, 1.0, 0.5, 0.16666487, 0.04166555, 0.008372415, 0.0014034038];
/// `2^r` for `|r| ≤ 1/2`, to 2^-27.
const EXP2: [f64; 7] = [1.0, 0.69314724, 0.24022655, 0.055502728, 0.009617064, 0.0013418492, 0.0001581804];

/// `1 / (1 + e^(−x))`; see [`Lane::sigmoid`].
pub struct SigmoidFn;

impl SigmoidFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 2.5;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 2.5;
}

impl Function<1> for SigmoidFn {
    const NAME: &'static str = "sigmoid";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        unit::<L, P>() / one_plus_exp(held(x))
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y * (-x).sigmoid()]
    }
}

/// `x / (1 + e^(−x))`; see [`Lane::silu`].
pub struct SiluFn;

impl SiluFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 3.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 3.0;
}

impl Function<1> for SiluFn {
    const NAME: &'static str = "silu";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        // −∞ · 0 has no value, and the limit is −0: below the range x stands still too.
        let end = pick::<L, P>(-110.0, -760.0);
        let x = end.gt(x).select(end, x);
        x * unit() / one_plus_exp(held(x))
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let s = x.sigmoid();
        // s + x·s·(1 − s); the product has the limit 0 on both sides.
        let bound = pick::<L, P>(1e3, 1e4);
        [(super::clamp(x, -bound, bound) * s).mul_add((-x).sigmoid(), s)]
    }
}

/// `x·Φ(x)`, `Φ` the normal distribution; see [`Lane::gelu`].
pub struct GeluFn;

impl GeluFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 3.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 3.0;
}

/// `Φ(−t)·e^(t²/2)` for `0 ≤ t ≤ 14.6` to 2^-27, as a quotient: this
const MILLS_OVER: [f64; 5] = [0.5000000029634919, 0.4385013078214816, 0.18338819949653817, 0.04068487335747575, 0.004123984752115419];
/// … over this, which is scaled by 2^64.
const MILLS_UNDER: [f64; 6] = {
    let mut c = [1.0, 1.6748876004688429, 1.2031385195062194, 0.46987472934061997, 0.10198823114728926, 0.010337178754133683];
    let mut i = 0;
    while i < c.len() {
        c[i] *= 18446744073709551616.0;
        i += 1;
    }
    c
};

/// `t·Φ(−t)` for `t ≥ 0` of type `f32`.
#[inline(always)]
fn tail_f32<L: Lanes, P: Real>(t: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(14.6);
    let t = end.lt(t).select(end, t);
    // e^(−t²/2) = 2^(k + r); the rounding errors of the square and of the constant count in r.
    let [high, low] = [-0.7213475108146667, -9.629815167500055e-09].map(Lane::real);
    let square = Double::product(t, t);
    let k = Exponent::nearest(square.hi, -0.7213475108146667);
    let r = square.hi.mul_add(low, square.lo.mul_add(high, square.hi.mul_add(high, -k.float)));
    t * poly(t, MILLS_OVER) * poly(r, EXP2) * k.power(64) / poly(t, MILLS_UNDER)
}

/// `t·Φ(−t)` for `t ≥ 0` of type `f64`.
#[inline(always)]
fn tail_f64<L: Lanes, P: Real>(t: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(38.7);
    let t = end.lt(t).select(end, t);
    let s = t * FRAC_1_SQRT_2;
    let near = (-0.5 * t).mul_add(s + excess(s), 0.5 * t);
    let square = Double::product(t, t);
    let (k, power) = exp_double(square.scale(Lane::real(-0.5)));
    let far = k.scale(erfc_scaled(s).mul(power).value() * (t * 0.5));
    s.lt(Lane::real(0.5)).select(near, far)
}

impl Function<1> for GeluFn {
    const NAME: &'static str = "gelu";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let tail = if single::<P>() { tail_f32(x.abs()) } else { tail_f64(x.abs()) };
        // Φ(−t) = 1 − Φ(t).
        x.lt(Lane::zero()).select(-Lane::zero(), x) - tail
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let x = super::clamp(x, Lane::real(-50.0), Lane::real(50.0));
        let density = (x * x * -0.5).exp() * 0.3989422804014327;
        [x.mul_add(density, (x * -FRAC_1_SQRT_2).erfc() * 0.5)]
    }
}

/// `x / (1 + e^(−2u))` with `u = √(2/π)·(x + 0.044715·x³)`; see [`Lane::gelu_tanh`].
pub struct GeluTanhFn;

impl GeluTanhFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 3.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 3.0;
}

/// `first + second·x²` in two words; `first` has so few bits that the rounding error of the sum is exact.
#[inline(always)]
fn quadratic<L: Lanes, P: Real>(x: Lane<L, P>, first: [f64; 2], second: [f64; 2]) -> Double<L, P> {
    let [first, second] = [first, second].map(|c| c.map(Lane::<L, P>::real));
    let square = Double::product(x, x);
    let hi = square.hi.mul_add(second[0], first[0]);
    let lost = square.hi.mul_add(second[0], first[0] - hi);
    Double::new(hi, square.lo.mul_add(second[0], square.hi.mul_add(second[1], first[1]) + lost))
}

impl Function<1> for GeluTanhFn {
    const NAME: &'static str = "gelu_tanh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        // Below the range the result is −0.
        let end = pick::<L, P>(-12.0, -23.0);
        let x = end.gt(x).select(end, x);
        let above = Lane::real(7.5); // where e^(−2u) no longer counts
        let t = above.lt(x).select(above, x);
        let power = if single::<P>() {
            // −2u/ln2 = t·(a + b·t²)
            let w = quadratic(t, [-2.30224609375, 3.7895606510574e-05], [-0.10294324159622192, 2.016198541454628e-09]);
            let k = Exponent::product(t, w.hi);
            let r = t.mul_add(w.lo, t.mul_add(w.hi, -k.float));
            poly(r, EXP2) * k.power(scale::<P>())
        } else {
            let w = quadratic(t, [-1.595768928527832, -1.930778986805098e-07], [-0.07135481627260025, 6.175149918155315e-19]);
            let u = Double::product(t, w.hi);
            let (k, r) = reduce(u.hi);
            (exp_m1_reduced(Double::new(r.hi, r.lo + t.mul_add(w.lo, u.lo))) + 1.0) * k.power(scale::<P>())
        };
        x * unit() / (power + unit())
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let x = super::clamp(x, Lane::real(-50.0), Lane::real(50.0));
        let square = x * x;
        let s = (x * 1.595_769_121_605_731 * (square * 0.044715 + 1.0)).sigmoid();
        let du = (square * 0.134145 + 1.0) * 1.595_769_121_605_731;
        [s.mul_add((x * du).mul_add(-s, x * du), s)]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The logistic function `1 / (1 + e^(−x))`, to 2.5 units in the last place, tails included.
    #[inline(always)]
    pub fn sigmoid(self) -> Self {
        self.call::<SigmoidFn>()
    }
    /// `x · sigmoid(x)`, to 3 units in the last place, tails included; −0 at −∞.
    #[inline(always)]
    pub fn silu(self) -> Self {
        self.call::<SiluFn>()
    }
    /// `x·Φ(x)` with the normal distribution `Φ`, to 3 units in the last place, tails included; −0 at −∞.
    #[inline(always)]
    pub fn gelu(self) -> Self {
        self.call::<GeluFn>()
    }
    /// The tanh form of [`gelu`](Lane::gelu), `x·sigmoid(2·√(2/π)·(x + 0.044715·x³))`, to 3 units in the last place.
    #[inline(always)]
    pub fn gelu_tanh(self) -> Self {
        self.call::<GeluTanhFn>()
    }
}
