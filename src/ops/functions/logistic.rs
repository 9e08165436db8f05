//! `sigmoid`, and `silu` and `gelu`, which multiply by a sigmoid.
//!
//! All have the form `n / (1 + e^u)` or a similar one. Numerator and denominator are scaled by one power of
//! two, chosen to keep both in the range of normal numbers; the only division then rounds results down to the
//! subnormals. An error of a large `u` counts `u` times, hence the second word of `u`.
// Imports: `scalar`.

use super::bits::{clamp, pick, single};
use super::double_double::Double;
use super::error_function::{erfc_scaled, excess};
use super::exp::{Exponent, exp_double, exp_m1_reduced, reduce};
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LOG2_E};

/// The scale of numerator and denominator: 1, or a small power of two where `e^u` may overflow.
struct ExpScale<L: Lanes, P: Real> {
    factor: Lane<L, P>,
    /// The term added to the exponent of `e^u`.
    offset: Lane<L, P::Bits>,
}

impl<L: Lanes, P: Real> ExpScale<L, P> {
    /// The small scale where `large` holds.
    #[inline(always)]
    fn of(large: Lane<L, bool>) -> Self {
        let small: i64 = if single::<P>() { -64 } else { -512 };
        ExpScale {
            factor: large.select(Lane::<L, P>::real(2f64.powi(small as i32)), Lane::one()),
            offset: large.select(Lane::<L, P::Bits>::int(small), Lane::zero()),
        }
    }
}

/// A number over `1 + e^(−x)`, both scaled.
#[inline(always)]
fn over_one_plus_exp<L: Lanes, P: Real>(over: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    // Outside of these bounds the quotient is `over`, or 0.
    let x = clamp(x, pick(-110.0, -760.0), Lane::real(41.0));
    let scale = ExpScale::of(x.lt(pick(-60.0, -600.0)));
    let (k, power) = if single::<P>() {
        let k = Exponent::nearest(x, -LOG2_E);
        let [high, low] = super::exp::LN_2[0];
        let r = k.float.mul_add(Lane::real(-low), k.float.mul_add(Lane::real(-high), -x));
        (k, poly(r, EXP))
    } else {
        let (k, r) = reduce(-x);
        (k, exp_m1_reduced(r) + 1.0)
    };
    over * scale.factor / power.mul_add(k.power_by(scale.offset), scale.factor)
}

/// `e^r` for `|r| ≤ ln2 / 2`, to 2^-27.
const EXP: [f64; 7] = [1.0, 1.0, 0.5, 0.16666487, 0.04166555, 0.008372415, 0.0014034038];
/// `2^r` for `|r| ≤ 1/2`, to 2^-27.
const EXP2: [f64; 7] = [1.0, 0.69314724, 0.24022655, 0.055502728, 0.009617064, 0.0013418492, 0.0001581804];

/// `2^r − 1` for `|r| ≤ 1/2`, to 2^-27.
const EXP2_M1: [f64; 7] = {
    let mut c = EXP2;
    c[0] = 0.0;
    c
};

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
        over_one_plus_exp(Lane::one(), x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.call::<LogisticDensityFn>()]
    }
}

/// `e^(−x) / (1 + e^(−x))²`, the derivative of `sigmoid`. It is a function because the product rule cancels
/// near 0.
pub(super) struct LogisticDensityFn;

impl Function<1> for LogisticDensityFn {
    const NAME: &'static str = "logistic_density";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        // An even function, by the exponential that does not overflow.
        let small = (-x.abs()).exp();
        let below = small + 1.0;
        small / (below * below)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [-y * (x * 0.5).tanh()]
    }
}

/// `ln(x / (1 − x))`, the inverse of `sigmoid`.
pub struct LogitFn;

impl Function<1> for LogitFn {
    const NAME: &'static str = "logit";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        // Around 1/2, where the result is 0, by a quotient that is exact there.
        let small = x.lt(0.25);
        let quotient = small.select(-x, (x * 2.0 - 1.0) / (1.0 - x));
        let log = quotient.ln_1p();
        small.select(x.ln() - log, log)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y.is_nan().select(y, 1.0 / (x * (1.0 - x)))]
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
        // −∞ · 0 has no value, and the limit is −0: below the range the factor x is clamped as well.
        let end = pick::<L, P>(-110.0, -760.0);
        let x = end.gt(x).select(end, x);
        over_one_plus_exp(x, x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let s = x.sigmoid();
        // s + x·s·(1 − s); the product has the limit 0 on both sides.
        let bound = pick::<L, P>(1e3, 1e4);
        [(clamp(x, -bound, bound) * s).mul_add((-x).sigmoid(), s)]
    }
}

/// `x·Φ(x)`, `Φ` the normal distribution; see [`Lane::gelu`].
pub struct GeluFn;

impl GeluFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 4.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.5;
}

/// `Φ(−t)·e^(t²/2)·(t + 2.5)` to 2^-25 for `0 ≤ t ≤ 14.6`, in `1 − u·17.1/14.6` with `u = t / (t + 2.5)`. At
/// the end of the tail, where the other factors have their largest errors, only the first term counts.
const MILLS: [f64; 10] = [
    0.4650924315994994,
    0.4359204643933783,
    0.3123875161568939,
    0.12967508237909023,
    -0.030951617591813547,
    -0.07390401848759837,
    -0.0792206866526236,
    0.16700843263728912,
    -0.09554986863823159,
    0.01954228158700049,
];

/// A power of two, and a number `r` with `|r| ≤ 1/2`: `e^(−t²/2) = 2^(k + r)` for `0 ≤ t ≤ 14.6` of type
/// `f32`. `r` includes the rounding errors of the square and of the constant.
#[inline(always)]
fn bell_exponent_f32<L: Lanes, P: Real>(t: Lane<L, P>) -> (Exponent<L, P>, Lane<L, P>) {
    let [high, low] = [-0.7213475108146667, -9.629815167500055e-09].map(Lane::real);
    let square = Double::product(t, t);
    let k = Exponent::nearest(square.hi, -0.7213475108146667);
    let r = square.hi.mul_add(low, square.lo.mul_add(high, square.hi.mul_add(high, -k.float)));
    (k, r)
}

/// `t·Φ(−t)` for `t ≥ 0` of type `f32`.
#[inline(always)]
fn weighted_tail_f32<L: Lanes, P: Real>(t: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(14.6);
    let t = end.lt(t).select(end, t);
    let (k, r) = bell_exponent_f32(t);
    let u = t / (t + 2.5);
    let y = u * poly(u.mul_add(Lane::real(-17.1 / 14.6), Lane::one()), MILLS);
    k.scale(y.mul_add(poly(r, EXP2_M1), y))
}

/// The zero of `Φ(−t) − t·φ(t)` in two words of type `f32`.
const SLOPE_ZERO: [f64; 2] = [0.7517915368080139, -1.211444945855772e-08];

/// `(Φ(−t) − t·φ(t))·e^(t²/2) / (zero − t)` to 2^-28 for `0 ≤ t ≤ 14.6`, in the variable of `MILLS`; a
/// minimax polynomial.
const SLOPE: [f64; 10] = [
    0.4186360208941597,
    0.1287074764956411,
    0.08668623474266732,
    0.04028403075118974,
    0.0027699419239171903,
    -0.007145716465477045,
    -0.01923470509142889,
    0.02233093352904357,
    -0.009481558887086095,
    0.0015253356790866802,
];

/// `Φ(x) + x·φ(x)` of type `f32`. The factor that has the zero is exact, so the relative error is small
/// beside it too.
#[inline(always)]
fn gelu_slope_f32<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let (t, end) = (x.abs(), Lane::real(14.6));
    let t = end.lt(t).select(end, t);
    let (k, r) = bell_exponent_f32(t);
    let u = t / (t + 2.5);
    let [zero, rest] = SLOPE_ZERO.map(Lane::real);
    let y = (zero - t + rest) * poly(u.mul_add(Lane::real(-17.1 / 14.6), Lane::one()), SLOPE);
    let tail = k.scale(y.mul_add(poly(r, EXP2_M1), y));
    x.lt(Lane::zero()).select(tail, 1.0 - tail)
}

/// `Φ(x) + x·φ(x)`, the derivative of `gelu`.
pub(super) struct GeluSlopeFn;

impl Function<1> for GeluSlopeFn {
    const NAME: &'static str = "gelu_slope";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        if single::<P>() {
            return gelu_slope_f32(x);
        }
        let x = clamp(x, Lane::real(-50.0), Lane::real(50.0));
        let density = (x * x * -0.5).exp() * 0.3989422804014327;
        x.mul_add(density, (x * -FRAC_1_SQRT_2).erfc() * 0.5)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        // φ(x)·(2 − x²)
        let x = clamp(x, Lane::real(-50.0), Lane::real(50.0));
        let square = x * x;
        [(square * -0.5).exp() * 0.3989422804014327 * (2.0 - square)]
    }
}

/// `t/√2` as a double-double.
#[inline(always)]
pub(super) fn over_root_2<L: Lanes, P: Real>(t: Lane<L, P>) -> Double<L, P> {
    let s = Double::product(t, Lane::real(FRAC_1_SQRT_2));
    Double::new(s.hi, t.mul_add(Lane::real(-4.833646656726457e-17), s.lo))
}

/// `e^(s²)·erfc s` for `s ≥ 0.45` as a double-double.
#[inline(always)]
pub(super) fn erfc_scaled_double<L: Lanes, P: Real>(s: Double<L, P>) -> Double<L, P> {
    let scaled = erfc_scaled(s.hi);
    let slope = (s.hi + s.hi).mul_add(scaled.hi, Lane::real(-FRAC_2_SQRT_PI));
    Double::new(scaled.hi, s.lo.mul_add(slope, scaled.lo))
}

/// `Φ(−t)`, or `t·Φ(−t)` if `weighted`, for `t ≥ 0` of type `f64`, as a double-double: the tail of the normal
/// distribution, down to the subnormals.
#[inline(always)]
pub(super) fn normal_tail<L: Lanes, P: Real>(t: Lane<L, P>, weighted: bool) -> Double<L, P> {
    let end = Lane::real(38.7);
    let t = end.lt(t).select(end, t);
    let half = if weighted { t * 0.5 } else { Lane::real(0.5) };
    let s = over_root_2(t);
    let head = Double::fast_sum(Lane::one(), -s.hi);
    let near = Double::new(head.hi, head.lo - (excess(s.hi) + s.lo)).mul_float(half);
    let square = Double::product(t, t);
    let (k, power) = exp_double(square.scale(Lane::real(-0.5)));
    let far = erfc_scaled_double(s).mul(power).mul_float(half).normal();
    Double::select(s.hi.lt(Lane::real(0.5)), near.normal(), Double::new(k.scale(far.hi), k.scale(far.lo)))
}

impl Function<1> for GeluFn {
    const NAME: &'static str = "gelu";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let tail =
            if single::<P>() { weighted_tail_f32(x.abs()) } else { normal_tail(x.abs(), true).value() };
        // Φ(−t) = 1 − Φ(t).
        x.lt(Lane::zero()).select(-Lane::zero(), x) - tail
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.call::<GeluSlopeFn>()]
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

/// `first + second·x²` as a double-double; `first` has few enough bits that the rounding error of the sum is
/// exact.
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
        let end = pick::<L, P>(-10.9, -23.0);
        let x = end.gt(x).select(end, x);
        let above = Lane::real(7.5); // where e^(−2u) no longer counts
        let t = above.lt(x).select(above, x);
        let scale = ExpScale::of(x.lt(pick(-5.0, -15.0)));
        let (k, power) = if single::<P>() {
            // −2u/ln2 = t·(a + b·t²)
            let w = quadratic(
                t,
                [-2.30224609375, 3.7895606510574e-05],
                [-0.10294324159622192, 2.016198541454628e-09],
            );
            let k = Exponent::product(t, w.hi);
            let r = t.mul_add(w.lo, t.mul_add(w.hi, -k.float));
            (k, poly(r, EXP2))
        } else {
            let w = quadratic(
                t,
                [-1.595768928527832, -1.930778986805098e-07],
                [-0.07135481627260025, 6.175149918155315e-19],
            );
            let u = Double::product(t, w.hi);
            let (k, r) = reduce(u.hi);
            (k, exp_m1_reduced(Double::new(r.hi, r.lo + t.mul_add(w.lo, u.lo))) + 1.0)
        };
        x * scale.factor / power.mul_add(k.power_by(scale.offset), scale.factor)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let x = clamp(x, Lane::real(-50.0), Lane::real(50.0));
        let square = x * x;
        let u = x * 1.595_769_121_605_731 * (square * 0.044715 + 1.0);
        let du = (square * 0.134145 + 1.0) * 1.595_769_121_605_731;
        [(x * du).mul_add(u.call::<LogisticDensityFn>(), u.sigmoid())]
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
    /// `x·Φ(x)` with the normal distribution `Φ`, to 4 (`f32`) or 1.5 (`f64`) units in the last place, tails
    /// included; −0 at −∞.
    #[inline(always)]
    pub fn gelu(self) -> Self {
        self.call::<GeluFn>()
    }
    /// The tanh form of [`gelu`](Lane::gelu), `x·sigmoid(2·√(2/π)·(x + 0.044715·x³))`, to 3 units in the last
    /// place.
    #[inline(always)]
    pub fn gelu_tanh(self) -> Self {
        self.call::<GeluTanhFn>()
    }
}
