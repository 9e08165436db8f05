//! `exp`, `exp2`, `exp_m1`.
//!
//! `e^x = 2^k · e^r` with `k` the integer nearest to `x·log₂e` and `|r| ≤ ln2 / 2`; `e^r = 1 + r + r²·q(r)`,
//! `q` minimax.
// Imports: `scalar`.

use super::bits::{clamp, pick, power_of_two, shifter, single, word};
use super::double_double::Double;
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};

/// `ln 2` as a double-double.
pub(super) const LN_2: [[f64; 2]; 2] =
    [[0.6931471824645996, -1.904654323148236e-9], [std::f64::consts::LN_2, 2.3190468138462996e-17]];

/// `(e^r − 1 − r) / r²` for `|r| ≤ ln2 / 2`; relative error of `r + r²·q` 2^-28 (f32), 2^-61 (f64).
#[inline(always)]
pub(super) fn quotient<L: Lanes, P: Real>(r: Lane<L, P>) -> Lane<L, P> {
    if single::<P>() {
        poly(r, [0.5, 0.16666667, 0.04166635, 0.00833323, 0.0013941462, 0.00019943679])
    } else {
        poly(
            r,
            [
                0.5,
                0.16666666666666677,
                0.04166666666666667,
                0.008333333333321386,
                0.0013888888888886042,
                0.00019841269886816676,
                2.4801587317858865e-05,
                2.7557243451206648e-06,
                2.755728314126572e-07,
                2.5109321087137e-08,
                2.091080848242556e-09,
            ],
        )
    }
}

/// An integer `k` as a float, and `k + 2·BIAS` in the low bits of an integer.
pub(super) struct Exponent<L: Lanes, P: Real> {
    pub(super) float: Lane<L, P>,
    biased: Lane<L, P::Bits>,
}

impl<L: Lanes, P: Real> Exponent<L, P> {
    /// The integer nearest to `x · by`.
    #[inline(always)]
    pub(super) fn nearest(x: Lane<L, P>, by: f64) -> Self {
        Self::product(x, Lane::real(by))
    }

    /// The integer nearest to `x · by`, where `by` is a lane.
    #[inline(always)]
    pub(super) fn product(x: Lane<L, P>, by: Lane<L, P>) -> Self {
        let shifter = shifter::<P>() + 2.0 * P::BIAS as f64;
        let shifted = x.mul_add(by, Lane::real(shifter));
        Exponent { float: shifted - shifter, biased: shifted.to_bits() }
    }

    /// `2^(k + offset)`, where that is a normal number.
    #[inline(always)]
    pub(super) fn power(&self, offset: i64) -> Lane<L, P> {
        power_of_two(self.biased + (offset - P::BIAS as i64))
    }

    /// `2^(k + offset)`, where that is a normal number and `offset` is a lane.
    #[inline(always)]
    pub(super) fn power_by(&self, offset: Lane<L, P::Bits>) -> Lane<L, P> {
        power_of_two(self.biased + (offset - P::BIAS as i64))
    }

    /// `2^-k`, where that is a normal number.
    #[inline(always)]
    pub(super) fn inverse_power(&self, offset: i64) -> Lane<L, P> {
        power_of_two(word::<L, P>(3 * P::BIAS as u64) + offset - self.biased)
    }

    /// `y · 2^k` for every `k` from twice below to twice above the exponent range, rounded once.
    #[inline(always)]
    pub(super) fn scale(&self, y: Lane<L, P>) -> Lane<L, P> {
        let half = self.biased.shr(1);
        y * power_of_two(half) * power_of_two(self.biased - half)
    }
}

/// `x = k·ln2 + r`, with `r` as a double-double.
#[inline(always)]
pub(super) fn reduce<L: Lanes, P: Real>(x: Lane<L, P>) -> (Exponent<L, P>, Double<L, P>) {
    let k = Exponent::nearest(x, std::f64::consts::LOG2_E);
    let ln_2 = Double::<L, P>::literal(LN_2[0], LN_2[1]);
    let r = Double::new((-k.float).mul_add(ln_2.hi, x), -k.float * ln_2.lo);
    (k, r)
}

/// `e^r − 1` for `|r| ≤ ln2 / 2`.
#[inline(always)]
pub(super) fn exp_m1_reduced<L: Lanes, P: Real>(r: Double<L, P>) -> Lane<L, P> {
    let sum = r.value();
    r.hi + (sum * sum).mul_add(quotient(sum), r.lo)
}

/// As [`exp_m1_reduced`], in `f32` to 2^-28 of `e^r`, which is enough if 1 is added.
#[inline(always)]
pub(super) fn exp_m1_short<L: Lanes, P: Real>(r: Double<L, P>) -> Lane<L, P> {
    let sum = r.value();
    let quotient = if single::<P>() {
        poly(sum, [0.49999994, 0.16666514, 0.04166806, 0.008369549, 0.0013843774])
    } else {
        quotient(sum)
    };
    r.hi + (sum * sum).mul_add(quotient, r.lo)
}

/// `e^r − 1 − hi` for `r = hi + lo`, with a `lo` of any size.
#[inline(always)]
fn exp_m1_tail<L: Lanes, P: Real>(r: Double<L, P>) -> Lane<L, P> {
    let tail = r.hi * r.hi * quotient(r.hi);
    r.lo.mul_add(r.hi + tail, r.lo) + tail
}

/// `e^x` of a double-double `x` as `2^k` and a double-double. Outside of the range of the type `x` is
/// clamped, and `k` overflows or underflows.
#[inline(always)]
pub(super) fn exp_double<L: Lanes, P: Real>(x: Double<L, P>) -> (Exponent<L, P>, Double<L, P>) {
    let limit = pick::<L, P>(120.0, 800.0);
    let inside = x.hi.abs().lt(limit);
    let (k, r) = reduce(clamp(x.hi, -limit, limit));
    let r = Double::new(r.hi, r.lo + inside.select(x.lo, Lane::zero()));
    let head = Double::fast_sum(Lane::one(), r.hi);
    (k, Double::new(head.hi, head.lo + exp_m1_tail(r)))
}

/// Whether `e^x`, and every intermediate power of 2, is a normal number.
#[inline(always)]
fn is_plain<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, bool> {
    x.abs().lt(pick(87.0, 708.0))
}

/// `e^x` of a reduced `x`, and whether it is outside the range of the fast path. Results that underflow to 0
/// are inside, because masks of −∞ or −1e9 produce them.
#[inline(always)]
fn quick_power<L: Lanes, P: Real>(
    x: Lane<L, P>,
    k: Exponent<L, P>,
    r: Double<L, P>,
) -> (Lane<L, P>, Lane<L, bool>) {
    let power = (exp_m1_short(r) + 1.0) * k.power(0);
    let vanishes = x.lt(pick(-104.0, -746.0));
    (vanishes.select(Lane::zero(), power), !(is_plain(x) | vanishes))
}

/// `e^x` for `x ≤ 0` as a term next to a 1. Below −80 it is `e^−80`, and 10¹⁸ of these do not change a 1. It
/// is fast because nothing underflows; NaN stays.
#[inline(always)]
pub(in crate::ops) fn exp_beside_one<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let least = Lane::real(-80.0);
    let (k, r) = reduce(least.gt(x).select(least, x));
    (exp_m1_short(r) + 1.0) * k.power(0)
}

/// `e^(x − y)` with the rounding error of the difference, which in the left tail of a softmax is many units
/// of the result.
pub(in crate::ops) struct ExpDifferenceFn;

impl Function<2> for ExpDifferenceFn {
    const NAME: &'static str = "exp_difference";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2]) -> Lane<L, P> {
        let difference = Double::sum(x, -y);
        // The rounding error of an infinity is NaN.
        let inside = difference.hi.abs().lt(pick(120.0, 800.0));
        let (k, r) = reduce(clamp(difference.hi, pick(-104.0, -746.0), pick(89.0, 710.0)));
        let r = Double::new(r.hi, r.lo + inside.select(difference.lo, Lane::zero()));
        k.scale(exp_m1_short(r) + 1.0)
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2]) -> (Lane<L, P>, Lane<L, bool>) {
        let difference = Double::sum(x, -y);
        let (k, r) = reduce(difference.hi);
        let r = Double::new(r.hi, r.lo + difference.lo);
        quick_power(difference.hi, k, r)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>(_: [Lane<L, P>; 2], z: Lane<L, P>) -> [Lane<L, P>; 2] {
        [z, -z]
    }
}

/// `(e^x − 1) / 2` as a double-double, for `x` up to the overflow of `e^x`. The third term is the rounding
/// error of 1/2 against a large `2^k`.
#[inline(always)]
pub(super) fn half_exp_m1<L: Lanes, P: Real>(x: Lane<L, P>) -> (Double<L, P>, Lane<L, P>) {
    let (k, r) = reduce(x);
    let power = k.power(-1);
    let whole = power - 0.5;
    let head = Double::fast_sum(whole, power * r.hi);
    (Double::fast_sum(head.hi, power.mul_add(exp_m1_tail(r), head.lo)), (power - whole) - 0.5)
}

/// `e^x`; see [`Lane::exp`].
pub struct ExpFn;

impl ExpFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for ExpFn {
    const NAME: &'static str = "exp";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let (k, r) = reduce(clamp(x, pick(-104.0, -746.0), pick(89.0, 710.0)));
        k.scale(exp_m1_short(r) + 1.0)
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
        let (k, r) = reduce(x);
        quick_power(x, k, r)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>(_: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y]
    }
}

/// `2^x`; see [`Lane::exp2`].
pub struct Exp2Fn;

impl Exp2Fn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for Exp2Fn {
    const NAME: &'static str = "exp2";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let x = clamp(x, pick(-151.0, -1076.0), pick(129.0, 1025.0));
        let k = Exponent::nearest(x, 1.0);
        let ln_2 = Double::<L, P>::literal(LN_2[0], LN_2[1]);
        k.scale(exp_m1_reduced(ln_2.mul_float(x - k.float)) + 1.0)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>(_: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y * std::f64::consts::LN_2]
    }
}

/// `e^x − 1`; see [`Lane::exp_m1`].
pub struct ExpM1Fn;

impl ExpM1Fn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for ExpM1Fn {
    const NAME: &'static str = "expm1";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let (half, lost) = half_exp_m1(clamp(x, pick(-20.0, -40.0), pick(89.0, 710.0)));
        let half = half.hi + (half.lo + lost);
        // Halving would drop the last bit of a subnormal, and the sign of a zero.
        x.abs().lt(pick(1e-10, 1e-20)).select(x, half + half)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.exp()] // y + 1 cancels below 0
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// `e^x`, to 1 unit in the last place, subnormal results included.
    #[inline(always)]
    pub fn exp(self) -> Self {
        self.call::<ExpFn>()
    }
    /// `2^x`, to 1 unit in the last place; exact for integers.
    #[inline(always)]
    pub fn exp2(self) -> Self {
        self.call::<Exp2Fn>()
    }
    /// `e^x − 1` without cancellation near 0, to 1 unit in the last place.
    #[inline(always)]
    pub fn exp_m1(self) -> Self {
        self.call::<ExpM1Fn>()
    }
}
