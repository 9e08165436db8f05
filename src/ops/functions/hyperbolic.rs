//! `sinh`, `cosh`, `tanh`.
//!
//! `sinh` and `cosh` use the addition theorem around `k·ln2`, where both are exact; `tanh` uses
//! `e^{2|x|} − 1` as a double-double.
// Imports: `scalar`.

use super::bits::{pick, sign, signed, single};
use super::double_double::Double;
use super::exp::{Exponent, LN_2, half_exp_m1, reduce};
use super::logistic::LogisticDensityFn;
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::LOG2_E;

/// `sinh x / 2` and `cosh x / 2` for `x ≥ 0`. The halves overflow only where the result does.
#[inline(always)]
fn half_sinh_cosh<L: Lanes, P: Real>(x: Lane<L, P>) -> [Lane<L, P>; 2] {
    // The result is infinite there, and 2^(k − 2) is still a number.
    let end = pick::<L, P>(89.5, 710.6);
    let (k, r) = reduce(end.lt(x).select(end, x));
    let sum = r.value();
    let z = sum * sum;
    // (sinh r − r) / r³ and (cosh r − 1) / r².
    let (odd, even) = if single::<P>() {
        (poly(z, [0.16666667, 0.008333288, 0.0001990533]), poly(z, [0.5, 0.04166626, 0.0013946564]))
    } else {
        let odd = [
            0.16666666666666677,
            0.008333333333321341,
            0.00019841269886947317,
            2.75572433052631e-06,
            2.5109376591138756e-08,
        ];
        let even = [
            0.5,
            0.04166666666666671,
            0.0013888888888863346,
            2.480158736448966e-05,
            2.755724091406142e-07,
            2.0924705156261768e-09,
        ];
        (poly(z, odd), poly(z, even))
    };
    let odd = (z * sum).mul_add(odd, r.lo);
    let even = z * even;
    // cosh(k·ln2) / 2 and sinh(k·ln2) / 2.
    let up = k.power(-2);
    let down = k.float.lt(Lane::real(100.0)).select(k.inverse_power(-2), Lane::zero());
    let (cosh, sinh) = (Double::fast_sum(up, down), Double::fast_sum(up, -down));
    // a·cosh r + b·sinh r, of which a + b·r is the largest part.
    let combine = |a: Double<L, P>, b: Double<L, P>| {
        let bulk = a.add_smaller(b.mul_float(r.hi));
        bulk.hi + a.hi.mul_add(even, b.hi.mul_add(odd, bulk.lo))
    };
    [combine(sinh, cosh), combine(cosh, sinh)]
}

/// `sinh x`; see [`Lane::sinh`].
pub struct SinhFn;

impl SinhFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for SinhFn {
    const NAME: &'static str = "sinh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let [half, _] = half_sinh_cosh(magnitude);
        // Halving would drop the last bit of a subnormal.
        let tiny = magnitude.lt(pick(1e-10, 1e-20));
        signed(tiny.select(magnitude, half + half), sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.cosh()]
    }
}

/// `cosh x`; see [`Lane::cosh`].
pub struct CoshFn;

impl CoshFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for CoshFn {
    const NAME: &'static str = "cosh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let [_, half] = half_sinh_cosh(x.abs());
        half + half
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x.sinh()]
    }
}

/// `tanh x` for an `x ≥ 0` of type `f32`: an odd polynomial near 0, `1 − 2/(e^{2x} + 1)` further out.
#[inline(always)]
fn tanh_f32<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let square = x * x;
    let bend = poly(
        square,
        [-0.33333322, 0.13332981, -0.053929474, 0.021664094, -0.008265465, 0.0025834409, -0.00045571788],
    );
    let near = (x * square).mul_add(bend, x);
    // x = k·ln2/2 + r, where a large k needs no second word; then (e^{2r} − 1)/2.
    let end = Lane::real(9.1);
    let limited = end.lt(x).select(end, x);
    let k = Exponent::nearest(limited, 2.0 * LOG2_E);
    let r = k.float.mul_add(Lane::real(-0.5 * LN_2[0][0]), limited);
    let quotient = poly(r, [1.0, 0.66666056, 0.33334448, 0.133912784, 0.0443000768]);
    let half = (r * r).mul_add(quotient, r);
    let far = 1.0 - 1.0 / k.power(0).mul_add(half, k.power(-1) + 0.5);
    x.lt(Lane::real(0.9)).select(near, far)
}

/// `tanh x`; see [`Lane::tanh`].
pub struct TanhFn;

impl TanhFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for TanhFn {
    const NAME: &'static str = "tanh";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        if single::<P>() {
            return signed(tanh_f32(magnitude), sign(x));
        }
        let bound = Lane::real(19.1);
        let limited = bound.lt(magnitude).select(bound, magnitude);
        // With h = (e^{2|x|} − 1) / 2:  tanh = h / (h + 1).
        let (half, _) = half_exp_m1(limited + limited);
        // If 1 is too small against `half` for a fast sum, the quotient is 1 anyway.
        let below = Double::fast_sum(Lane::one(), half.hi);
        let y = half.div(Double::new(below.hi, below.lo + half.lo)).value();
        signed(y, sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        // 1/cosh² x; 1 − y² cancels in the tails.
        [(x * 2.0).call::<LogisticDensityFn>() * 4.0]
    }
}

/// `x − tanh x`. It is a function because a difference of derivatives cancels near 0.
pub struct TanhShrinkFn;

impl Function<1> for TanhShrinkFn {
    const NAME: &'static str = "tanh_shrink";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        x - x.tanh()
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let y = x.tanh();
        [y * y]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The hyperbolic sine, to 1 unit in the last place.
    #[inline(always)]
    pub fn sinh(self) -> Self {
        self.call::<SinhFn>()
    }
    /// The hyperbolic cosine, to 1 unit in the last place.
    #[inline(always)]
    pub fn cosh(self) -> Self {
        self.call::<CoshFn>()
    }
    /// The hyperbolic tangent, to 1 unit in the last place.
    #[inline(always)]
    pub fn tanh(self) -> Self {
        self.call::<TanhFn>()
    }
}
