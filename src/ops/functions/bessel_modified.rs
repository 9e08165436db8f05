//! Modified Bessel functions `I₀`, `I₁`, and their products with `e^(−|x|)`.
//!
//! All are computed in `f64`, also for `f32`: up to 12 as a polynomial in `x²`, from 12 on as `e^x/√x` times
//! a polynomial in `1/x`, with double-doubles.
// Imports: `scalar`.

use super::bessel::second_over;
use super::double_double::Double;
use super::exp::exp_double;
use super::polynomial::{long_poly, poly};
use crate::scalar::{Function, Lane, Lanes, Real};

/// `I₀(x)` and `I₁(x)·2/x` in `x²/4`, for `x ≤ 12`: the first coefficients as double-doubles, and the others.
const NEAR: [[[f64; 2]; 10]; 2] = [
    [
        [1.0, 0.0],
        [1.0, 0.0],
        [0.25, 0.0],
        [0.027777777777777776, 1.5419764230904951e-18],
        [0.001736111111111111, 9.637352644315594e-20],
        [6.944444444444444e-05, 6.023345402697247e-23],
        [1.9290123456790124e-06, -4.5384234457823004e-23],
        [3.936759889140842e-08, -2.276707825756433e-24],
        [6.151187326782565e-10, -3.557355977744427e-26],
        [7.594058428126624e-12, -6.186894318824439e-28],
    ],
    [
        [1.0, 0.0],
        [0.5, 0.0],
        [0.08333333333333333, 4.625929269271485e-18],
        [0.006944444444444444, 3.854941057726238e-19],
        [0.00034722222222222224, -1.3251359885933943e-20],
        [1.1574074074074073e-05, 5.747275405073623e-22],
        [2.755731922398589e-07, 2.3767714622250297e-23],
        [4.920949861426052e-09, -2.8458847821955415e-25],
        [6.834652585313961e-11, -3.952617753049363e-27],
        [7.594058428126623e-13, 1.891041350638722e-29],
    ],
];
const NEAR_REST: [[f64; 11]; 2] = [
    [
        7.594058428126627e-14,
        6.276081345556753e-16,
        4.358389823575757e-18,
        2.5789288778294795e-20,
        1.315780304546194e-22,
        5.847877971306643e-25,
        2.284607310168805e-27,
        7.890627033323832e-30,
        2.484189998203468e-32,
        5.867714501074519e-35,
        2.656194638731866e-37,
    ],
    [
        6.903689480115114e-15,
        5.2300677879649044e-17,
        3.3526075565093558e-19,
        1.8420920587248775e-21,
        8.77186812740428e-24,
        3.654929675049016e-26,
        1.3438489316886711e-28,
        4.385162574160489e-31,
        1.303956997248499e-33,
        2.9799333521248004e-36,
        1.239168674351126e-38,
    ],
];
/// `1/√2π` as a double-double.
const ROOT: [f64; 2] = [0.3989422804014327, -2.49232720227773e-17];
/// `(e^(−x)·√x·I − 1/√2π)·x` in `1/x`, for `x ≥ 12`.
const FAR: [[f64; 17]; 2] = [
    [
        0.04986778505018639,
        0.02805062908104566,
        0.02921941038148002,
        0.04474081244616764,
        0.09083765933183884,
        0.20250867813114112,
        2.6723928304243683,
        -106.748319857768,
        4422.133196665173,
        -132439.35145903708,
        2964730.237282426,
        -49158690.3690433,
        594385463.3534331,
        -5077075250.91973,
        28927281490.66576,
        -98206689995.44325,
        149579476875.4457,
    ],
    [
        -0.14960335515054518,
        -0.04675104847407648,
        -0.0409071728983935,
        -0.05752419734312686,
        -0.11098853665064107,
        -0.24224440855361046,
        -2.9103917427388293,
        113.41407577910644,
        -4695.028539992718,
        140282.97589269522,
        -3133607.836262026,
        51849349.75713497,
        -625622264.4802306,
        5332945113.677911,
        -30323026367.161163,
        102732790705.20892,
        -156144912528.36673,
    ],
];

/// `I` of order `n`, times `e^(−|x|)` if `scaled`.
#[inline(always)]
fn i<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize, scaled: bool) -> Lane<L, f64> {
    let magnitude = x.abs();
    let twelve = Lane::real(12.0);
    let is_near = magnitude.lt(twelve);
    let (inside, outside) = (is_near.select(magnitude, twelve), is_near.select(twelve, magnitude));
    let near = long_poly::<L, R, _, _>(Double::product(inside, inside * 0.25), NEAR[n], NEAR_REST[n]);
    let near = if n == 0 { near } else { near.mul_float(inside * 0.5) };
    let inverse = 1.0 / outside;
    let far = Double::fast_sum(Lane::real(ROOT[0]), inverse * poly(inverse, FAR[n]));
    let far = Double::new(far.hi, far.lo + ROOT[1]).div(Double::new(outside, Lane::zero()).sqrt());
    let power = |x: Lane<L, f64>| exp_double(Double::new(x, Lane::zero()));
    let y = if scaled {
        let (k, power) = power(-inside);
        is_near.select(k.scale(near.mul(power).value()), far.value())
    } else {
        let (k, power) = power(outside);
        let y = is_near.select(near.value(), k.scale(far.mul(power).value()));
        magnitude.gt(Lane::real(714.5)).select(Lane::highest(), y)
    };
    let y = magnitude.is_nan().select(magnitude, y);
    let y = magnitude.eq(Lane::highest()).select(if scaled { Lane::zero() } else { magnitude }, y);
    if n == 0 { y } else { x.lt(Lane::zero()).select(-y, x.eq(Lane::zero()).select(x, y)) }
}

macro_rules! bessel {
    (
        $(
            $(#[$meta:meta])* $F:ident $name:literal $n:literal $scaled:literal,
            |$x:ident, $y:ident| $slope:expr;
        )*
    ) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`.
            pub const ULP_F32: f64 = 1.0;
            /// Error budget for `f64`.
            pub const ULP_F64: f64 = 1.5;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                i::<L, P>(x.cast(), $n, $scaled).cast()
            }
            #[inline(always)]
            fn derivative<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}

/// `I₁(x)/x`, times `e^(−|x|)` if it is scaled. It is a function because the quotient rule cancels near 0.
struct I1OverFn<const SCALED: bool>;

impl<const SCALED: bool> Function<1> for I1OverFn<SCALED> {
    const NAME: &'static str = if SCALED { "i1e_over" } else { "i1_over" };
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let y = if SCALED { x.i1e() } else { x.i1() };
        x.eq(Lane::zero()).select(Lane::real(0.5), y / x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        // I₂(x)/x with I₂ = I₀ − 2·I₁/x; the derivative of e^(−|x|) is a term of its own.
        let near = second_over(x, 1.0);
        let (near, zeroth) = if SCALED { (near * (-x.abs()).exp(), x.i0e()) } else { (near, x.i0()) };
        let slope = x.abs().lt(2.0).select(near, (zeroth - y * 2.0) / x);
        [if SCALED { slope - along(y, x) } else { slope }]
    }
}

/// `y` with the sign of `x`, 0 at 0.
#[inline(always)]
fn along<L: Lanes, P: Real>(y: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    x.lt(Lane::zero()).select(-y, x.gt(Lane::zero()).select(y, Lane::zero()))
}

/// `√(2πx)·e^(−x)·(I₀(x) − I₁(x))` in `1/x`, without its first coefficient, which is 0 (DLMF 10.40.1).
const GAP: [f64; 9] = [
    0.5,
    0.1875,
    0.17578125,
    0.25634765625,
    0.5046844482421875,
    1.249094009399414,
    3.7212592363357544,
    12.95795626938343,
    51.629357010824606,
];

/// `e^(−|x|)·(I₀(x) − I₁(|x|))`, computed in `f64`. Beyond 128 it has its own series, because the two
/// functions agree in more and more digits.
#[inline(always)]
fn gap<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let magnitude = x.abs().cast::<f64>();
    let far = magnitude.gt(128.0);
    let inverse = 1.0 / far.select(magnitude, Lane::real(128.0));
    let series = poly(inverse, GAP) * inverse * (inverse * std::f64::consts::FRAC_1_PI * 0.5).sqrt();
    far.select(series, magnitude.i0e() - magnitude.i1e()).cast()
}

bessel! {
    /// `I₀(x)`; see [`Lane::i0`].
    I0Fn "i0" 0 false, |x, _y| x.i1();
    /// `I₁(x)`; see [`Lane::i1`].
    I1Fn "i1" 1 false, |x, _y| x.i0() - x.call::<I1OverFn<false>>();
    /// `e^(−|x|)·I₀(x)`; see [`Lane::i0e`].
    I0eFn "i0e" 0 true, |x, _y| -along(gap(x), x);
    /// `e^(−|x|)·I₁(x)`; see [`Lane::i1e`].
    I1eFn "i1e" 1 true, |x, _y| gap(x) - x.call::<I1OverFn<true>>();
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The modified Bessel function `I₀`, to 1 (`f32`) or 1.5 (`f64`) units in the last place.
    #[inline(always)]
    pub fn i0(self) -> Self {
        self.call::<I0Fn>()
    }
    /// The modified Bessel function `I₁`, with the error of [`i0`](Lane::i0).
    #[inline(always)]
    pub fn i1(self) -> Self {
        self.call::<I1Fn>()
    }
    /// `e^(−|x|)·I₀(x)`, with the error of [`i0`](Lane::i0).
    #[inline(always)]
    pub fn i0e(self) -> Self {
        self.call::<I0eFn>()
    }
    /// `e^(−|x|)·I₁(x)`, with the error of [`i0`](Lane::i0).
    #[inline(always)]
    pub fn i1e(self) -> Self {
        self.call::<I1eFn>()
    }
}
