//! `asin`, `acos`, `atan`, `atan2`.
//!
//! `asin` is an odd polynomial up to 1/2 and uses half angles above. `atan` takes a quotient that is at most
//! `tan π/8`, after another quotient has removed `π/4`.
// Imports: `scalar`.

use super::bits::{clamp, exponent_mask, pick, sign, signed, single, word};
use super::double_double::Double;
use super::polynomial::poly;
use crate::scalar::{Function, IntoLane, Lane, Lanes, Real};

/// `π` as a double-double.
const PI: [[f64; 2]; 2] =
    [[3.1415927410125732, -8.742277657347586e-08], [std::f64::consts::PI, 1.2246467991473532e-16]];

/// `π · part` as a double-double, for a power of two.
#[inline(always)]
fn pi<L: Lanes, P: Real>(part: f64) -> Double<L, P> {
    Double::literal(PI[0].map(|x| x * part), PI[1].map(|x| x * part))
}

/// `mask ? a : b`, for both words.
#[inline(always)]
fn choose<L: Lanes, P: Real>(mask: Lane<L, bool>, a: Double<L, P>, b: Double<L, P>) -> Double<L, P> {
    Double::new(mask.select(a.hi, b.hi), mask.select(a.lo, b.lo))
}

/// The double-double 0.
#[inline(always)]
fn none<L: Lanes, P: Real>() -> Double<L, P> {
    Double::new(Lane::zero(), Lane::zero())
}

/// `asin |x|` for `|x| < 1/2`, above that `asin √((1 − |x|) / 2)`, half of `acos |x|`; and whether it is the
/// latter.
#[inline(always)]
fn asin_or_half_acos<L: Lanes, P: Real>(magnitude: Lane<L, P>) -> (Lane<L, bool>, Double<L, P>) {
    let high = magnitude.ge(Lane::real(0.5));
    let z = high.select((1.0 - magnitude) * 0.5, magnitude * magnitude);
    let w = high.select(z.sqrt(), magnitude);
    // The rounding error of the root; the small number prevents 0 / 0.
    let lost = high.select((-w).mul_add(w, z) / (w + w + 1e-30), Lane::zero());
    let cubic = if single::<P>() {
        poly(z, [0.16666754, 0.074952416, 0.045477103, 0.024147572, 0.042218618])
    } else {
        poly(
            z,
            [
                0.16666666666666763,
                0.07499999999970262,
                0.0446428571751202,
                0.030381942683649504,
                0.022372215659390616,
                0.01735160010729471,
                0.013980961283868752,
                0.01139777718601169,
                0.010786523358220978,
                0.0036830596820055005,
                0.02176346482756809,
                -0.02107725497569548,
                0.03267687280844427,
            ],
        )
    };
    (high, Double::new(w, (w * z).mul_add(cubic, lost)))
}

/// `atan(num / den)` as a double-double, for `0 ≤ num ≤ den` in the middle of the range of `P`.
#[inline(always)]
fn atan_quotient<L: Lanes, P: Real>(num: Lane<L, P>, den: Lane<L, P>) -> Double<L, P> {
    let turn = num.gt(den * 0.41421356237309503);
    let over = choose(turn, Double::fast_sum(-den, num), Double::new(num, Lane::zero()));
    let under = choose(turn, Double::fast_sum(den, num), Double::new(den, Lane::zero()));
    let t = over.div(under);
    let z = t.hi * t.hi;
    let cubic = if single::<P>() {
        poly(z, [-0.33333313, 0.19998355, -0.14241166, 0.105752416, -0.06028818])
    } else {
        poly(
            z,
            [
                -0.33333333333333187,
                0.19999999999949727,
                -0.14285714279788508,
                0.11111110762222934,
                -0.09090897125714884,
                0.07692048631678082,
                -0.06662968863286871,
                0.05846882239739361,
                -0.050346700669509956,
                0.03794453771058608,
                -0.01777347258461499,
            ],
        )
    };
    let angle = Double::new(t.hi, (z * t.hi).mul_add(cubic, t.lo));
    choose(turn, pi(0.25), none()).add_smaller(angle)
}

/// `asin x`; see [`Lane::asin`].
pub struct AsinFn;

impl AsinFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AsinFn {
    const NAME: &'static str = "asin";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let (high, angle) = asin_or_half_acos(x.abs());
        let factor = high.select(Lane::real(-2.0), Lane::one());
        let y = choose(high, pi(0.5), none()).add_smaller(angle.scale(factor)).value();
        signed(y, sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / one_minus_square(x).sqrt()]
    }
}

/// `1 − x²`. It is a function because the product rule cancels near 0.
struct OneMinusSquareFn;

impl Function<1> for OneMinusSquareFn {
    const NAME: &'static str = "one_minus_square";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        (1.0 - x) * (1.0 + x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [x * -2.0]
    }
}

/// `1 − x²`, accurate near ±1.
#[inline(always)]
pub(super) fn one_minus_square<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    x.call::<OneMinusSquareFn>()
}

/// `acos x`; see [`Lane::acos`].
pub struct AcosFn;

impl AcosFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AcosFn {
    const NAME: &'static str = "acos";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let (high, angle) = asin_or_half_acos(x.abs());
        // π/2 − asin x;  2·(half) for x > 0, π − 2·(half) for x < 0.
        let negative = x.lt(Lane::zero());
        let base = choose(high, choose(negative, pi(1.0), none()), pi(0.5));
        let factor = signed(high.select(Lane::real(2.0), Lane::real(-1.0)), sign(x));
        base.add_smaller(angle.scale(factor)).value()
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [-1.0 / one_minus_square(x).sqrt()]
    }
}

/// `atan x`; see [`Lane::atan`].
pub struct AtanFn;

impl AtanFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for AtanFn {
    const NAME: &'static str = "atan";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let one = Lane::one();
        let magnitude = x.abs();
        // Beyond 2^60 the result is π/2, rounded.
        let end = Lane::real(2f64.powi(60));
        let clamped = end.lt(magnitude).select(end, magnitude);
        let above = magnitude.gt(one);
        let angle = atan_quotient(above.select(one, clamped), above.select(clamped, one));
        let factor = above.select(-one, one);
        signed(choose(above, pi(0.5), none()).add_smaller(angle.scale(factor)).value(), sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / x.mul_add(x, Lane::one())]
    }
}

/// `num / den` of `atan2`, `0 ≤ num ≤ den`, scaled to the middle of the range: 0/0 as 0/1, ∞/∞ as 1/1, x/∞ as
/// 0/1.
#[inline(always)]
fn centered<L: Lanes, P: Real>(num: Lane<L, P>, den: Lane<L, P>) -> [Lane<L, P>; 2] {
    let (zero, one, infinity) = (Lane::zero(), Lane::one(), Lane::highest());
    let clamped = clamp(den, pick(1e-37, 1e-307), pick(4e37, 4e307));
    let exponent = clamped.to_bits() & word::<L, P>(exponent_mask::<P>());
    let scale = Lane::from_bits(word::<L, P>((2 * P::BIAS as u64) << P::FRACTION) - exponent);
    let edge = den.eq(zero) | den.eq(infinity);
    let num = edge.select(num.eq(infinity).select(one, zero), num * scale);
    [num, edge.select(one, den * scale)]
}

/// `atan2(y, x)` without the case of NaN and the sign of `y`.
#[inline(always)]
fn angle<L: Lanes, P: Real>(y: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    let (a, b) = (y.abs(), x.abs());
    let steep = b.lt(a);
    let [num, den] = centered(steep.select(b, a), steep.select(a, b));
    let angle = atan_quotient(num, den);
    let left = sign(x).ne(word::<L, P>(0));
    let base = choose(steep, pi(0.5), choose(left, pi(1.0), none()));
    let factor = (steep ^ left).select(Lane::real(-1.0), Lane::one());
    base.add_smaller(angle.scale(factor)).value()
}

/// The angle of the point `(x, y)`; see [`Lane::atan2`].
pub struct Atan2Fn;

impl Atan2Fn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<2> for Atan2Fn {
    const NAME: &'static str = "atan2";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([y, x]: [Lane<L, P>; 2]) -> Lane<L, P> {
        let magnitude = angle(y, x);
        (x.is_nan() | y.is_nan()).select(x + y, signed(magnitude, sign(y)))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([y, x]: [Lane<L, P>; 2], _: Lane<L, P>) -> [Lane<L, P>; 2] {
        let radius = x.hypot(y);
        [x / radius / radius, -y / radius / radius]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The inverse of `sin`, to 1 unit in the last place; NaN beyond ±1.
    #[inline(always)]
    pub fn asin(self) -> Self {
        self.call::<AsinFn>()
    }
    /// The inverse of `cos`, to 1 unit in the last place; NaN beyond ±1.
    #[inline(always)]
    pub fn acos(self) -> Self {
        self.call::<AcosFn>()
    }
    /// The inverse of `tan`, to 1 unit in the last place.
    #[inline(always)]
    pub fn atan(self) -> Self {
        self.call::<AtanFn>()
    }
    /// The angle of the point `(x, self)`, from −π to π, to 1 unit in the last place: `y.atan2(x)`. Zeros and
    /// infinities as in C.
    #[inline(always)]
    pub fn atan2(self, x: impl IntoLane<L, P>) -> Self {
        self.call2::<Atan2Fn>(x.into_lane())
    }
}
