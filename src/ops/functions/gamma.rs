//! `gamma`, `lgamma`, `digamma`, `trigamma`.
//!
//! All are computed in `f64`, also for `f32`. Arguments are moved to the range of Stirling's series, `z ≥ 8`,
//! by the recurrence `Γ(z + 1) = z·Γ(z)`. Negative arguments (for `Γ` those below 1/2) are reflected,
//! `Γ(x)·Γ(1 − x) = π / sin πx`. Terms that cancel are double-doubles. Near the positive zeros of `lgamma`
//! and `digamma`, polynomials with these zeros factored out keep the relative accuracy. Below 0, where there
//! are many zeros, `gamma_reflection` computes to 2^-100.
// Imports: `scalar`.

use super::bits::{clamp, nan, single};
use super::double_double::Double;
use super::exp::{Exponent, exp_double};
use super::gamma_reflection::{ln_gamma_below, psi_below};
use super::polynomial::{long_poly, poly};
use super::power::ln_double;
use super::trig::{sin_half_turns, sin_near, tan_near};
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::PI;

/// The start of the range of Stirling's series.
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

/// `z²·(ln z − 1/2z − ψ(z))`, in the same form.
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

/// `z³·(ψ′(z) − 1/z − 1/2z²)`, in the same form.
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

/// `lnΓ(1 + e) / e` for `−0.3 ≤ e ≤ 0.5`: the first coefficients as double-doubles, and the others.
const NEAR_1: [[f64; 2]; 3] = [
    [-0.5772156649015329, 5.2575323411293235e-18],
    [0.8224670334241132, 1.0564792869912821e-17],
    [-0.40068563438653204, 1.470991236115382e-17],
];
const NEAR_1_REST: [f64; 21] = [
    0.2705808084277883,
    -0.20738555102848874,
    0.16955717699645445,
    -0.14404989679065594,
    0.12550966963735205,
    -0.11133426461609001,
    0.10009945032324984,
    -0.09095405509713504,
    0.08335410821497227,
    -0.0769319649044932,
    0.07142696709351769,
    -0.06666927057470873,
    0.06257947456129383,
    -0.058927037431254686,
    0.05501756518274934,
    -0.0511433011614706,
    0.050941985147466236,
    -0.05574259156156904,
    0.054101916303225694,
    -0.03450550353611872,
    0.010016839662016665,
];
/// `lnΓ(2 + e) / e` for `|e| ≤ 0.5`, in the same form.
const NEAR_2: [[f64; 2]; 3] = [
    [0.42278433509846713, 4.998234382459033e-18],
    [0.3224670334241132, 1.5176930390577985e-17],
    [-0.06735230105319814, 4.2673097680518815e-18],
];
const NEAR_2_REST: [f64; 17] = [
    0.02058080842778457,
    -0.0073855510286681535,
    0.002890510330738737,
    -0.0011927539120010226,
    0.0005096695248853096,
    -0.00022315475074520367,
    9.945750909889392e-05,
    -4.4926351103833334e-05,
    2.050726741605779e-05,
    -9.438458716242811e-06,
    4.374374916915131e-06,
    -2.0449201467015115e-06,
    9.578663334114758e-07,
    -4.303558760359961e-07,
    2.0304806751615227e-07,
    -1.3412819758517287e-07,
    6.379047507619774e-08,
];
/// The zero of `ψ` as a double-double, and `ψ(t + 1.5) / (t + 1.5 − zero)` for `|t| ≤ 0.5`, in the same form.
const ZERO: [f64; 2] = [1.4616321449683622, 9.549995429965697e-17];
const NEAR_ZERO: [[f64; 2]; 3] = [
    [0.9510558760318328, 4.292118102788199e-17],
    [-0.42362742128146047, -2.5922750428264427e-17],
    [0.24054248424078736, -4.339580862911177e-18],
];
const NEAR_ZERO_REST: [f64; 21] = [
    -0.14840492305391761,
    0.09498872445283,
    -0.06192213327165706,
    0.04076083394462657,
    -0.02697579684427536,
    0.017907248195969127,
    -0.011908215172584002,
    0.007927024067961237,
    -0.00528001782089874,
    0.0035180800751066694,
    -0.002344650082351321,
    0.0015635679757533885,
    -0.001042261556504223,
    0.0006899717801166841,
    -0.0004599625144612576,
    0.0003268068044141764,
    -0.0002178682145501451,
    9.173383289174792e-05,
    -6.11554261750751e-05,
    0.00012230983055406747,
    -8.153978973309418e-05,
];

/// `z` moved up to `SERIES`, and the product of the steps, as double-doubles.
#[inline(always)]
fn moved_up<L: Lanes>(start: Double<L, f64>) -> [Double<L, f64>; 2] {
    let mut z = start;
    let mut product = Double::new(Lane::one(), Lane::zero());
    for step in 1..9 {
        let small = z.hi.lt(Lane::real(SERIES));
        product = Double::select(small, product.mul(z), product);
        let next = Double::sum(start.hi, Lane::int(step));
        z = Double::select(small, Double::new(next.hi, next.lo + start.lo), z);
    }
    [z, product]
}

/// `lnΓ(z)` as a double-double for `z ≥ SERIES`.
#[inline(always)]
fn stirling<L: Lanes>(z: Double<L, f64>) -> Double<L, f64> {
    let inverse = 1.0 / z.hi;
    let log = ln_double(z.hi);
    let less = Double::sum(log.hi, Lane::real(-1.0));
    let less = Double::new(less.hi, less.lo + log.lo).normal();
    let main = less.mul_float(z.hi - 0.5);
    // ½·ln 2π − ½, as a double-double.
    let sum = Double::sum(main.hi, Lane::real(0.4189385332046727));
    let series = inverse.mul_add(poly(inverse * inverse, STIRLING), Lane::real(1.6728209650585413e-17));
    // The derivative of lnΓ is about ln z − 1/2z.
    let moved = z.lo * inverse.mul_add(Lane::real(-0.5), log.hi);
    Double::sum(sum.hi, sum.lo + (main.lo + (series + moved)))
}

/// `sin πx` with its sign, to a few units in its last place: `x` less the nearest integer is exact.
#[inline(always)]
pub(super) fn sin_pi<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let (angle, even) = half_turns(x);
    let sine = angle.sin();
    even.select(sine, -sine)
}

/// `cos πx`, to a few units in the last place of 1.
#[inline(always)]
pub(super) fn cos_pi<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let (angle, even) = half_turns(x);
    let cosine = angle.cos();
    even.select(cosine, -cosine)
}

/// [`sin_pi`] for use inside another function, which defines its own derivative.
#[inline(always)]
fn sin_pi_inside<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let (angle, even) = half_turns(x);
    let sine = sin_near(angle);
    even.select(sine, -sine)
}

/// `π·x` less the nearest multiple of half a turn, and whether that multiple is even.
#[inline(always)]
fn half_turns<L: Lanes, P: Real>(x: Lane<L, P>) -> (Lane<L, P>, Lane<L, bool>) {
    let near = x.round();
    let half = near * 0.5;
    ((x - near) * PI, half.eq(half.round()))
}

/// `1 − x` if it is reflected, else `x`, as a double-double.
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
    // The bounds beyond which the result is 0 or ∞ in any case.
    let clamped = clamp(x, Lane::real(-190.0), Lane::real(180.0));
    let [z, product] = moved_up(turned(reflected, clamped));
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

/// `e · p(e)` as a double-double.
#[inline(always)]
fn factor<L: Lanes, R: Real, const K: usize, const N: usize>(
    e: Double<L, f64>,
    lead: [[f64; 2]; K],
    rest: [f64; N],
) -> Double<L, f64> {
    long_poly::<L, R, K, N>(e, lead, rest).mul(e)
}

/// `lnΓ(v)` for `v > 0` as a double-double, to about 2^-58 for results of type `f64`.
#[inline(always)]
fn ln_gamma_above<L: Lanes, R: Real>(v: Double<L, f64>) -> Double<L, f64> {
    // Around 1 and 2, with these zeros factored out.
    let [e, f] = [-1.0, -2.0].map(|end| Double::fast_sum(v.hi + end, v.lo));
    let near = Double::select(
        e.hi.lt(Lane::real(0.5)),
        factor::<L, R, 3, 21>(e, NEAR_1, NEAR_1_REST),
        factor::<L, R, 3, 17>(f, NEAR_2, NEAR_2_REST),
    );
    let end = Lane::real(1e308);
    let [z, product] = moved_up(Double::new(end.lt(v.hi).select(end, v.hi), v.lo));
    let series = stirling(z);
    let steps = ln_double(product.hi);
    let difference = Double::sum(series.hi, -steps.hi);
    let far = Double::new(difference.hi, difference.lo + (series.lo - steps.lo - product.lo / product.hi));
    Double::select(v.hi.gt(Lane::real(0.7)) & v.hi.lt(Lane::real(2.5)), near, far)
}

/// `ln |Γ(x)|` for results of type `R`.
#[inline(always)]
fn ln_gamma<L: Lanes, R: Real>(x: Lane<L, f64>) -> Lane<L, f64> {
    let negative = x.lt(Lane::zero());
    let y = if single::<R>() {
        let above = ln_gamma_above::<L, R>(turned(negative, x)).value();
        negative.select((PI / sin_pi_inside(x).abs()).ln() - above, above)
    } else {
        negative.select(ln_gamma_below(x), ln_gamma_above::<L, R>(Double::new(x, Lane::zero())).value())
    };
    // There the result is 1/x, or x is too small for the intermediate steps.
    let y = x.abs().lt(Lane::real(1e-20)).select(-x.abs().ln(), y) + 0.0; // + 0.0: no result is −0
    let y = (is_pole(x) | x.abs().gt(Lane::real(2.5563e305))).select(Lane::highest(), y);
    x.is_nan().select(x, y)
}

/// `ln |Γ(x)|` for `x > 0`, and whether `x` is outside that range.
#[inline(always)]
fn ln_gamma_quick<L: Lanes, R: Real>(x: Lane<L, f64>) -> (Lane<L, f64>, Lane<L, bool>) {
    let y = ln_gamma_above::<L, R>(Double::new(x, Lane::zero())).value() + 0.0;
    (y, !(x.gt(Lane::real(1e-20)) & x.lt(Lane::real(2.5563e305))))
}

/// `ψ(v)` for `v > 0` as a double-double, to about 2^-58 for results of type `f64`.
#[inline(always)]
fn psi_above<L: Lanes, R: Real>(v: Double<L, f64>) -> Double<L, f64> {
    let zero = ZERO.map(Lane::<L, f64>::real);
    let from_zero = Double::sum(v.hi - zero[0], v.lo - zero[1]);
    let near = long_poly::<L, R, 3, 21>(Double::fast_sum(v.hi - 1.5, v.lo), NEAR_ZERO, NEAR_ZERO_REST)
        .mul(from_zero);
    let (mut z, mut steps) = (v, Double::new(Lane::zero(), Lane::zero()));
    for step in 1..9 {
        let small = z.hi.lt(Lane::real(SERIES));
        let inverse = 1.0 / z.hi;
        let rest = (-inverse).mul_add(z.lo, (-inverse).mul_add(z.hi, Lane::one())) * inverse;
        let sum = Double::sum(steps.hi, inverse);
        steps = Double::select(small, Double::new(sum.hi, steps.lo + (sum.lo + rest)), steps);
        let next = Double::sum(v.hi, Lane::int(step));
        z = Double::select(small, Double::new(next.hi, next.lo + v.lo), z);
    }
    let inverse = 1.0 / z.hi;
    let square = inverse * inverse;
    let log = ln_double(z.hi);
    let main = Double::sum(log.hi, -steps.hi);
    let half = Double::sum(main.hi, inverse * -0.5);
    let series = square * poly(square, DIGAMMA);
    let rest = (-inverse).mul_add(z.hi, Lane::one()) * inverse * -0.5;
    let far =
        Double::new(half.hi, half.lo + (main.lo + (log.lo - steps.lo + z.lo * inverse - (series - rest))));
    Double::select(v.hi.ge(Lane::one()) & v.hi.le(Lane::real(2.0)), near, far)
}

/// `ψ(x) = Γ′(x)/Γ(x)` for results of type `R`.
#[inline(always)]
fn psi<L: Lanes, R: Real>(x: Lane<L, f64>) -> Lane<L, f64> {
    let negative = x.lt(Lane::zero());
    let y = if single::<R>() {
        let above = psi_above::<L, R>(turned(negative, x)).value();
        negative.select(above - PI / tan_near((x - x.round()) * PI), above)
    } else {
        negative.select(psi_below(x), psi_above::<L, R>(Double::new(x, Lane::zero())).value())
    };
    let y = x.abs().lt(Lane::real(1e-20)).select(-1.0 / x, y);
    let y = (x.lt(Lane::zero()) & (is_pole(x) | x.eq(Lane::lowest()))).select(nan(), y);
    x.eq(Lane::highest()).select(x, y)
}

/// `ψ(x)` for `x > 0`, and whether `x` is outside that range.
#[inline(always)]
fn psi_quick<L: Lanes, R: Real>(x: Lane<L, f64>) -> (Lane<L, f64>, Lane<L, bool>) {
    (
        psi_above::<L, R>(Double::new(x, Lane::zero())).value(),
        !(x.gt(Lane::real(1e-20)) & x.lt(Lane::highest())),
    )
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
    let above =
        steps + (inverse + square.mul_add(Lane::real(0.5), square * inverse * poly(square, TRIGAMMA)));
    // Not by `sin_pi_inside`, because second derivatives differentiate this.
    let ratio = PI / sin_pi(x);
    let y = reflected.select(ratio * ratio - above, above);
    let y = is_pole(x).select(Lane::highest(), y);
    x.eq(Lane::lowest()).select(nan(), y)
}

macro_rules! gamma_functions {
    (
        $(
            $(#[$meta:meta])* $F:ident $name:literal (
                |$v:ident| $body:expr, |$q:ident| $quick:expr
            ) [$f32:literal $f64:literal], |$x:ident, $y:ident| $slope:expr;
        )*
    ) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`.
            pub const ULP_F32: f64 = $f32;
            /// Error budget for `f64`.
            pub const ULP_F64: f64 = $f64;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                let $v = x.cast::<f64>();
                $body.cast()
            }
            #[inline(always)]
            fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
                let $q = x.cast::<f64>();
                let (y, doubt) = $quick;
                (y.cast(), doubt)
            }
            #[inline(always)]
            fn derivative<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}
gamma_functions! {
    /// `Γ(x)`; see [`Lane::gamma`].
    GammaFn "tgamma" (|v| gamma(v), |v| (gamma(v), Lane::literal(false))) [1.0 1.5], |x, y| y * x.digamma();
    /// `ln |Γ(x)|`; see [`Lane::lgamma`].
    LgammaFn "lgamma" (|v| ln_gamma::<L, P>(v), |v| ln_gamma_quick::<L, P>(v)) [1.0 1.0], |x, _y| x.digamma();
    /// `ψ(x)`; see [`Lane::digamma`].
    DigammaFn "digamma" (|v| psi::<L, P>(v), |v| psi_quick::<L, P>(v)) [1.0 1.0], |x, _y| x.trigamma();
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// `Γ(x)`, to 1 (`f32`) or 1.5 (`f64`) units in the last place. NaN at negative integers and −∞, ±∞ at
    /// ±0.
    #[inline(always)]
    pub fn gamma(self) -> Self {
        self.call::<GammaFn>()
    }
    /// `ln |Γ(x)|`, to 1 unit in the last place, near its zeros too. ∞ at 0, negative integers and ±∞.
    #[inline(always)]
    pub fn lgamma(self) -> Self {
        self.call::<LgammaFn>()
    }
    /// `ψ(x) = Γ′(x)/Γ(x)`, to 1 unit in the last place, near its zeros too. ∓∞ at ±0, NaN at negative
    /// integers and −∞.
    #[inline(always)]
    pub fn digamma(self) -> Self {
        self.call::<DigammaFn>()
    }
    /// `ψ′(x)`, the derivative of [`digamma`](Lane::digamma): to about 4 units in the last place for `x > 0`.
    #[inline(always)]
    pub(crate) fn trigamma(self) -> Self {
        psi_1(self.cast()).cast()
    }
}
