//! `gamma`, `lgamma`, `digamma`, `trigamma`.
//!
//! All are computed in `f64`, `f32` too. Arguments are moved to where Stirling's series holds, `z ≥ 8`, by the recurrence
//! `Γ(z + 1) = z·Γ(z)`, and those below 1/2 to above it by reflection, `Γ(x)·Γ(1 − x) = π / sin πx`. Near the zeros of
//! `lgamma` and `digamma` above 0 polynomials keep the digits.
//! Imports: `scalar`.

use super::exp::{Exponent, exp_double};
use super::power::ln_double;
use super::trig::{sin_half_turns, sin_near, tan_near};
use super::{Double, by_f64, nan, poly};
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::PI;

/// Where Stirling's series begins.
const SERIES: f64 = 8.0;

/// `z·(lnΓ(z) − (z − ½)·ln z + z − ½·ln 2π)` in `1/z²`, for `z ≥ 8`.
const STIRLING: [f64; 9] = [
    0.08333333333333333,
    -0.0027777777777777744,
    0.0007936507936452478,
    -0.000595238091533139,
    0.0008417495974943119,
    -0.0019172906885114506,
    0.006383596314804703,
    -0.02775352601662874,
    0.1101878704318341,
];

/// `z²·(ln z − 1/2z − ψ(z))` likewise.
const DIGAMMA: [f64; 9] = [
    0.08333333333333333,
    -0.008333333333333276,
    0.0039682539681548425,
    -0.0041666666003373504,
    0.007575735255856363,
    -0.02108854733364551,
    0.08285196790336609,
    -0.41060197763083467,
    1.7756995978476946,
];

/// `z³·(ψ′(z) − 1/z − 1/2z²)` likewise.
const TRIGAMMA: [f64; 9] = [
    0.16666666666666666,
    -0.033333333333332264,
    0.02380952380766293,
    -0.03333333208603836,
    0.07575715517442995,
    -0.25303327108711887,
    1.1575341055199624,
    -6.4683751009034065,
    30.23062719382508,
];

/// `lnΓ(1 + e) / e` for `−0.3 ≤ e ≤ 0.5`.
const NEAR_1: [f64; 22] = [
    -0.5772156649015329,
    0.8224670334241135,
    -0.40068563438651705,
    0.27058080842760035,
    -0.20738555103218181,
    0.1695571770314814,
    -0.14404989645773233,
    0.1255096666135032,
    -0.11133427814048293,
    0.10009959154361321,
    -0.09095382892898067,
    0.08335031305899504,
    -0.0769311247502835,
    0.07148560220424699,
    -0.0667614745941642,
    0.06210621165291634,
    -0.05750527774772007,
    0.05616520501767154,
    -0.06021425321991089,
    0.05900466419050844,
    -0.03890490707516425,
    0.011778815573344065,
];

/// `lnΓ(2 + e) / e` for `|e| ≤ 0.5`.
const NEAR_2: [f64; 18] = [
    0.42278433509846713,
    0.3224670334241133,
    -0.06735230105319576,
    0.02058080842776596,
    -0.0073855510289252005,
    0.0028905103318417626,
    -0.0011927539013288698,
    0.0005096694951100305,
    -0.00022315497227342067,
    9.945794422818356e-05,
    -4.492377181694515e-05,
    2.0503543623407032e-05,
    -9.456079430349568e-06,
    4.393522375598164e-06,
    -1.974825150816159e-06,
    8.998983187072228e-07,
    -5.806134800895991e-07,
    2.9770898509254445e-07,
];

/// The zero of `ψ`, in two words, and `ψ(t + 1.5) / (t + 1.5 − zero)` for `|t| ≤ 0.5`.
const ZERO: [f64; 2] = [1.4616321449683622, 9.549995429965697e-17];
const NEAR_ZERO: [f64; 22] = [
    0.951055876031833,
    -0.4236274212814606,
    0.24054248424077398,
    -0.14840492305389008,
    0.0949887244549726,
    -0.06192213327469477,
    0.04076083381080522,
    -0.02697579669128354,
    0.017907252481605723,
    -0.011908219418891197,
    0.007926944015079351,
    -0.0052799462634983965,
    0.0035190121552519586,
    -0.0023454207281545566,
    0.0015565993009934076,
    -0.0010368423931079122,
    0.0007234371771344396,
    -0.00048472961143274963,
    0.0002270246688958577,
    -0.00014697875532038455,
    0.0002598519207389204,
    -0.0001765623691517096,
];

/// `z` moved up to `SERIES`, and the product of the steps, each in two words.
#[inline(always)]
fn moved_up<L: Lanes>(start: Double<L, f64>) -> [Double<L, f64>; 2] {
    let mut z = start;
    let mut product = Double::new(Lane::one(), Lane::zero());
    for step in 1..9 {
        let small = z.hi.lt(Lane::real(SERIES));
        let choose = |a: Double<L, f64>, b: Double<L, f64>| Double::new(small.select(a.hi, b.hi), small.select(a.lo, b.lo));
        product = choose(product.mul(z), product);
        let next = Double::sum(start.hi, Lane::int(step));
        z = choose(Double::new(next.hi, next.lo + start.lo), z);
    }
    [z, product]
}

/// `lnΓ(z)` in two words for `z ≥ SERIES`.
#[inline(always)]
fn stirling<L: Lanes>(z: Double<L, f64>) -> Double<L, f64> {
    let inverse = 1.0 / z.hi;
    let log = ln_double(z.hi);
    let less = Double::sum(log.hi, Lane::real(-1.0));
    let less = Double::new(less.hi, less.lo + log.lo).normal();
    let main = less.mul_float(z.hi - 0.5);
    // ½·ln 2π − ½, in two words.
    let sum = Double::sum(main.hi, Lane::real(0.4189385332046727));
    let series = inverse.mul_add(poly(inverse * inverse, STIRLING), Lane::real(1.6728209650585413e-17));
    // The slope of lnΓ is about ln z − 1/2z.
    let moved = z.lo * inverse.mul_add(Lane::real(-0.5), log.hi);
    Double::sum(sum.hi, sum.lo + (main.lo + (series + moved)))
}

/// `sin πx` with its sign, to a few units in the last place of itself: `x` less the nearest integer is exact.
#[inline(always)]
pub(in crate::ops) fn sin_pi<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    half_turns(x, Lane::sin)
}

/// The same inside a function, whose slope says what its derivative is.
#[inline(always)]
fn sin_pi_inside<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    half_turns(x, sin_near)
}

#[inline(always)]
fn half_turns<L: Lanes, P: Real>(x: Lane<L, P>, sin: impl Fn(Lane<L, P>) -> Lane<L, P>) -> Lane<L, P> {
    let near = x.round();
    let half = near * 0.5;
    let sine = sin((x - near) * PI);
    half.eq(half.round()).select(sine, -sine)
}

/// `1 − x` where it is reflected, in two words, or else `x`.
#[inline(always)]
fn turned<L: Lanes>(reflected: Lane<L, bool>, x: Lane<L, f64>) -> Double<L, f64> {
    let other = Double::sum(Lane::one(), -x);
    Double::new(reflected.select(other.hi, x), reflected.select(other.lo, Lane::zero()))
}

#[inline(always)]
fn is_pole<L: Lanes>(x: Lane<L, f64>) -> Lane<L, bool> {
    x.le(Lane::zero()) & x.eq(x.round())
}

/// `Γ(x)` in `f64`.
#[inline(always)]
fn gamma<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let reflected = x.lt(Lane::real(0.5));
    // Where the result is 0 or ∞ at the latest.
    let held = super::clamp(x, Lane::real(-190.0), Lane::real(180.0));
    let [z, product] = moved_up(turned(reflected, held));
    let (k, power) = exp_double(stirling(z));
    let value = power.normal().div(product.normal());
    let above = k.scale(value.value());
    let pi = Double::literal([PI, 0.0], [PI, 1.2246467991473532e-16]);
    let below = pi.div(sin_half_turns(x).mul(value).normal()).value();
    let below = Exponent::product(k.float, Lane::real(-1.0)).scale(below);
    let y = reflected.select(below, above);
    let y = x.eq(Lane::highest()).select(x, y);
    let y = (x.lt(Lane::zero()) & is_pole(x)).select(nan(), y);
    x.abs().lt(Lane::real(1e-20)).select(1.0 / x, y)
}

/// `ln |Γ(x)|` in `f64`.
#[inline(always)]
fn ln_gamma<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let negative = x.lt(Lane::zero());
    let v = negative.select(1.0 - x, x);
    // Around 1 and 2. Below 0.7, by Γ(v) = Γ(1 + v) / v.
    let low = v.lt(Lane::real(0.7));
    let e = negative.select(-x, low.select(v, v - 1.0));
    let f = low.select(v - 1.0, v - 2.0);
    let f = negative.select(-x - 1.0, f);
    let near = e.lt(Lane::real(0.5)).select(e * poly(e, NEAR_1), f * poly(f, NEAR_2));
    let near = low.select(near - v.ln(), near);
    let [z, product] = moved_up(Double::new(super::clamp(v, Lane::real(2.0), Lane::real(1e308)), turned(negative, x).lo));
    let series = stirling(z);
    let steps = ln_double(product.hi);
    let difference = Double::sum(series.hi, -steps.hi);
    let far = difference.hi + (difference.lo + (series.lo - steps.lo - product.lo / product.hi));
    let far = v.gt(Lane::real(2.5563e305)).select(Lane::highest(), far);
    let above = v.lt(Lane::real(2.5)).select(near, far);
    let tiny = x.gt(Lane::real(-1e-20)); // there 1/x
    let below = tiny.select(-(-x).ln(), (PI / sin_pi_inside(x).abs()).ln() - above);
    let y = negative.select(below, above) + 0.0; // −0 is nowhere
    let y = (is_pole(x) | x.abs().eq(Lane::highest())).select(Lane::highest(), y);
    x.is_nan().select(x, y)
}

/// `ψ(x) = Γ′(x)/Γ(x)` in `f64`.
#[inline(always)]
fn psi<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let reflected = x.lt(Lane::real(0.5));
    let v = reflected.select(1.0 - x, x);
    // Around the zero, from 1 to 2; by one step down to 1/2 and up to 3.
    let (low, high) = (v.lt(Lane::one()), v.gt(Lane::real(2.0)));
    let inner = low.select(v + 1.0, high.select(v - 1.0, v));
    let near = ((inner - ZERO[0]) - ZERO[1]) * poly(inner - 1.5, NEAR_ZERO);
    let near = low.select(near - 1.0 / v, high.select(near + 1.0 / inner, near));
    let (mut z, mut steps) = (v, Lane::zero());
    for _ in 0..6 {
        let small = z.lt(Lane::real(SERIES));
        steps = small.select(steps + 1.0 / z, steps);
        z = small.select(z + 1.0, z);
    }
    let inverse = 1.0 / z;
    let square = inverse * inverse;
    let far = z.ln() - (steps + square.mul_add(poly(square, DIGAMMA), inverse * 0.5));
    let above = v.lt(Lane::real(3.0)).select(near, far);
    let turned = (x - x.round()) * PI;
    let below = above - PI / tan_near(turned);
    let y = reflected.select(below, above);
    let y = (x.lt(Lane::zero()) & (is_pole(x) | x.eq(Lane::lowest()))).select(nan(), y);
    let y = x.eq(Lane::highest()).select(x, y);
    x.eq(Lane::zero()).select(-1.0 / x, y)
}

/// `ψ′(x)` in `f64`.
#[inline(always)]
fn psi_1<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let reflected = x.lt(Lane::real(0.5));
    let (mut z, mut steps) = (reflected.select(1.0 - x, x), Lane::zero());
    for _ in 0..8 {
        let small = z.lt(Lane::real(SERIES));
        steps = small.select(steps + 1.0 / (z * z), steps);
        z = small.select(z + 1.0, z);
    }
    let inverse = 1.0 / z;
    let square = inverse * inverse;
    let above = steps + (inverse + square.mul_add(Lane::real(0.5), square * inverse * poly(square, TRIGAMMA)));
    let ratio = PI / sin_pi_inside(x);
    let y = reflected.select(ratio * ratio - above, above);
    let y = is_pole(x).select(Lane::highest(), y);
    x.eq(Lane::lowest()).select(nan(), y)
}

macro_rules! gamma_functions {
    ($($(#[$meta:meta])* $F:ident $name:literal $body:ident [$f32:literal $f64:literal], |$x:ident, $y:ident| $slope:expr;)*) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`.
            pub const ULP_F32: f64 = $f32;
            /// Error budget for `f64`, for `x > 0`.
            pub const ULP_F64: f64 = $f64;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                by_f64(x, $body)
            }
            #[inline(always)]
            fn slope<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}
gamma_functions! {
    /// `Γ(x)`; see [`Lane::gamma`].
    GammaFn "tgamma" gamma [1.0 1.5], |x, y| y * x.digamma();
    /// `ln |Γ(x)|`; see [`Lane::lgamma`].
    LgammaFn "lgamma" ln_gamma [1.0 5.0], |x, _y| x.digamma();
    /// `ψ(x)`; see [`Lane::digamma`].
    DigammaFn "digamma" psi [1.0 5.0], |x, _y| x.trigamma();
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// `Γ(x)`, to 1 (`f32`) or 1.5 (`f64`) units in the last place. NaN at negative integers and −∞, ±∞ at ±0.
    #[inline(always)]
    pub fn gamma(self) -> Self {
        self.call::<GammaFn>()
    }
    /// `ln |Γ(x)|`, for `x > 0` to 1 (`f32`) or 5 (`f64`) units in the last place; below 0 as many units of
    /// `lnΓ(1 − x)`, or of 1, since its zeros there are not representable. ∞ at 0, negative integers and ±∞.
    #[inline(always)]
    pub fn lgamma(self) -> Self {
        self.call::<LgammaFn>()
    }
    /// `ψ(x) = Γ′(x)/Γ(x)`, to 1 (`f32`) or 5 (`f64`) units in the last place, below 0 of the larger of it and `ln |x|`. ∓∞ at ±0, NaN at negative integers and −∞.
    #[inline(always)]
    pub fn digamma(self) -> Self {
        self.call::<DigammaFn>()
    }
    /// `ψ′(x)`, the slope of [`digamma`](Lane::digamma): to about 4 units in the last place for `x > 0`.
    #[inline(always)]
    pub(crate) fn trigamma(self) -> Self {
        by_f64(self, psi_1)
    }
}
