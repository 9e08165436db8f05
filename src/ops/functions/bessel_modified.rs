//! Modified Bessel functions `I₀`, `I₁`, and their products with `e^(−|x|)`.
//!
//! All are computed in `f64`, `f32` too: up to 12 a polynomial in `x²`, beyond `e^x/√x` times one in `1/x`.
//! Imports: `scalar`.

use super::exp::exp_double;
use super::{Double, by_f64, poly};
use crate::scalar::{Function, Lane, Lanes, Real};

/// `I₀(x)` and `I₁(x)·2/x` in `x²/4`, for `x ≤ 12`.
const NEAR: [[f64; 21]; 2] = [
    [
        1.0,
        1.0,
        0.25,
        0.027777777777777776,
        0.0017361111111111117,
        6.944444444444398e-05,
        1.929012345679241e-06,
        3.936759889133038e-08,
        6.151187326972367e-10,
        7.594058424733849e-12,
        7.59405847369922e-14,
        6.276080878356446e-16,
        4.35839351587256e-18,
        2.5789062750866817e-20,
        1.3158873802720118e-22,
        5.843984385397471e-25,
        2.295279303336422e-27,
        7.677374360611489e-30,
        2.776953829155532e-32,
        3.404820333656328e-35,
        3.6106318111632295e-37,
    ],
    [
        1.0,
        0.5,
        0.08333333333333333,
        0.006944444444444444,
        0.0003472222222222223,
        1.1574074074074035e-05,
        2.7557319223987683e-07,
        4.920949861420356e-09,
        6.834652585444142e-11,
        7.594058425924665e-13,
        6.903689508266536e-15,
        5.230067511901843e-17,
        3.352609652475357e-19,
        1.842079685481115e-21,
        8.772435357955921e-24,
        3.652926954427203e-26,
        1.349196864118629e-28,
        4.280688846417931e-31,
        1.4446620162400265e-33,
        1.814828398746398e-36,
        1.6849413270351701e-38,
    ],
];
/// `e^(−x)·√x·I` in `1/x`, for `x ≥ 12`.
const FAR: [[f64; 18]; 2] = [
    [
        0.3989422804014327,
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
        0.3989422804014327,
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
fn i<L: Lanes>(x: Lane<L, f64>, n: usize, scaled: bool) -> Lane<L, f64> {
    let magnitude = x.abs();
    let twelve = Lane::real(12.0);
    let is_near = magnitude.lt(twelve);
    let inside = is_near.select(magnitude, twelve);
    let near = poly(inside * inside * 0.25, NEAR[n]);
    let near = if n == 0 { near } else { near * (inside * 0.5) };
    let outside = is_near.select(twelve, magnitude);
    let far = poly(1.0 / outside, FAR[n]) / outside.sqrt();
    let y = if scaled {
        is_near.select(near * (-inside).exp(), far)
    } else {
        let (k, power) = exp_double(Double::new(outside, Lane::zero()));
        is_near.select(near, k.scale(power.value() * far))
    };
    let y = if scaled { y } else { magnitude.gt(Lane::real(714.5)).select(Lane::highest(), y) };
    let y = magnitude.is_nan().select(magnitude, y);
    if n == 0 { y } else { x.lt(Lane::zero()).select(-y, x.eq(Lane::zero()).select(x, y)) }
}

macro_rules! bessel {
    ($($(#[$meta:meta])* $F:ident $name:literal $n:literal $scaled:literal, |$x:ident, $y:ident| $slope:expr;)*) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`.
            pub const ULP_F32: f64 = 1.0;
            /// Error budget for `f64`.
            pub const ULP_F64: f64 = 9.0;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                by_f64(x, |x| i(x, $n, $scaled))
            }
            #[inline(always)]
            fn slope<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}

/// `y / x`, or its limit 1/2 at 0.
#[inline(always)]
fn per<L: Lanes, P: Real>(y: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    x.eq(Lane::zero()).select(Lane::real(0.5), y / x)
}
/// `y` with the sign of `x`, 0 at 0.
#[inline(always)]
fn along<L: Lanes, P: Real>(y: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    x.lt(Lane::zero()).select(-y, x.gt(Lane::zero()).select(y, Lane::zero()))
}

bessel! {
    /// `I₀(x)`; see [`Lane::i0`].
    I0Fn "i0" 0 false, |x, _y| x.i1();
    /// `I₁(x)`; see [`Lane::i1`].
    I1Fn "i1" 1 false, |x, y| x.i0() - per(y, x);
    /// `e^(−|x|)·I₀(x)`; see [`Lane::i0e`].
    I0eFn "i0e" 0 true, |x, y| x.i1e() - along(y, x);
    /// `e^(−|x|)·I₁(x)`; see [`Lane::i1e`].
    I1eFn "i1e" 1 true, |x, y| x.i0e() - per(y, x) - along(y, x);
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The modified Bessel function `I₀`, to 1 (`f32`) or 9 (`f64`) units in the last place.
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
