//! Bessel functions `J₀`, `J₁`, `Y₀`, `Y₁`.
//!
//! All are computed in `f64`, `f32` too. Up to 8 polynomials in `x²`, those of `J` with their zeros taken out; beyond, from
//! modulus and phase, `√(2/πx)·(P·cos χ − Q·sin χ)` with `χ = x − (2n + 1)·π/4`, `P` and `Q` polynomials in `1/x²`.
//! Errors are those of the amplitude `√(2/πx)`: at a zero of the function every `x` has neighbours that differ by more.
//! Imports: `scalar`.

use super::trig::{sin_shifted, sin_shifted_f32};
use super::{by_f64, nan, poly, single};
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::FRAC_2_PI;

/// The largest `|x|` for which the `f64` functions are defined here: beyond, they give NaN.
pub const BESSEL_LIMIT_F64: f64 = super::trig::NEAR;

/// The first zeros of `J₀` and `J₁`, each in two words.
const ZEROS: [[[f64; 2]; 2]; 2] = [
    [[2.404825557695773, -1.176691651530894e-16], [5.520078110286311, 8.088597146146722e-17]],
    [[3.8317059702075125, -1.5269184090088067e-16], [7.015586669815619, -9.414165653410389e-17]],
];
/// `J₀(x)` and `J₁(x)/x` without these zeros, in `x²/32 − 1`.
const J: [[f64; 15]; 2] = [
    [
        0.0011434937743762545,
        -0.002119794289479692,
        0.0015636431645931661,
        -0.0006415390646406127,
        0.00016977200713998007,
        -3.1573425402232216e-05,
        4.366932324629997e-06,
        -4.6771280214142983e-07,
        3.998839348722941e-08,
        -2.7948629485023962e-09,
        1.627648448268298e-10,
        -8.023488334137842e-12,
        3.392709100062667e-13,
        -1.2478057148081298e-14,
        3.894895991216242e-16,
    ],
    [
        0.00019498936985895625,
        -0.0002697522746716368,
        0.0001586001679936987,
        -5.4080032390855064e-05,
        1.2242173653015645e-05,
        -1.989093515914209e-06,
        2.442522260749763e-07,
        -2.3521922545945063e-08,
        1.8268547702053065e-09,
        -1.1696932493676135e-10,
        6.28473281386626e-12,
        -2.8755331402163576e-13,
        1.13438793003031e-14,
        -3.909717966279967e-16,
        1.1592073938913965e-17,
    ],
];
/// `Y₀ − 2/π·ln x·J₀` and `(Y₁ − 2/π·(ln x·J₁ − 1/x)) / x`, in `x²/32 − 1`.
const Y: [[f64; 17]; 2] = [
    [
        -0.382250654459425,
        -0.8284358903604587,
        1.6470964788745466,
        0.14412632369302475,
        -1.0775477338215995,
        0.6721770783431679,
        -0.21895747096171617,
        0.046367047681375125,
        -0.007025741057271398,
        0.0008061586059616393,
        -7.279541882362821e-05,
        5.321318810395319e-06,
        -3.2185078553878525e-07,
        1.6390875016900446e-08,
        -7.130454820258376e-10,
        2.6926937340385433e-11,
        -8.841773840682438e-13,
    ],
    [
        0.07075985882118005,
        -0.24337743079193114,
        0.023367571720993584,
        0.23507209206669755,
        -0.19639839859930425,
        0.07854786922242532,
        -0.01962875683309942,
        0.0034224907399188495,
        -0.00044381734351151036,
        4.467433012646374e-05,
        -3.600999874333036e-06,
        2.380493042050242e-07,
        -1.3153322580424039e-08,
        6.169688029824418e-10,
        -2.488749186856444e-11,
        8.760000952282418e-13,
        -2.6955899366164272e-14,
    ],
];
/// `P` in `(8/x)²`.
const P: [[f64; 12]; 2] = [
    [
        1.0,
        -0.0010986328124947843,
        2.738088342549617e-05,
        -2.1839141648272434e-06,
        3.619833228408068e-07,
        -1.0209084776749287e-07,
        4.264546302523778e-08,
        -2.2384863139510215e-08,
        1.1957606071172692e-08,
        -5.2579549027947616e-09,
        1.5430648405954496e-09,
        -2.1622711588707783e-10,
    ],
    [
        1.0,
        0.001831054687494465,
        -3.520399303592352e-05,
        2.5809901269395073e-06,
        -4.1025199155008033e-07,
        1.1285413542930311e-07,
        -4.639749246086369e-08,
        2.4117609872054723e-08,
        -1.2812288042978908e-08,
        5.616792852564649e-09,
        -1.6455648437122099e-09,
        2.3035329470924103e-10,
    ],
];
/// `Q·x` in `(8/x)²`.
const Q: [[f64; 12]; 2] = [
    [
        -0.12499999999999986,
        0.0011444091796444361,
        -5.544628725421814e-05,
        6.590711978254828e-06,
        -1.4527071523294014e-06,
        5.10328896659192e-07,
        -2.522481136589197e-07,
        1.4879225020462871e-07,
        -8.53820562240294e-08,
        3.913990291013824e-08,
        -1.177323814255298e-08,
        1.675374957929429e-09,
    ],
    [
        0.37499999999999983,
        -0.0016021728515169015,
        6.776768478603043e-05,
        -7.604672007583784e-06,
        1.6236429151219627e-06,
        -5.590507351123767e-07,
        2.727418812690457e-07,
        -1.5959622210891145e-07,
        9.116763266627313e-08,
        -4.168737987728629e-08,
        1.252143036393349e-08,
        -1.7802669189087854e-09,
    ],
];

/// `J` of order `n` for `0 ≤ x ≤ 8`.
#[inline(always)]
fn j_near<L: Lanes>(x: Lane<L, f64>, n: usize) -> Lane<L, f64> {
    let rest = poly(x.mul_add(x * (1.0 / 32.0), Lane::real(-1.0)), J[n]);
    let [first, second] = ZEROS[n].map(|[high, low]| ((x - high) - low) * (x + high));
    let y = first * second * rest;
    if n == 0 { y } else { y * x }
}

/// `[J, Y]` of order `n` for `x ≥ 8`; `sine(turns)` is `sin(x + turns·2π)`.
#[inline(always)]
fn far<L: Lanes>(x: Lane<L, f64>, n: usize, sine: impl Fn(f64) -> Lane<L, f64>) -> [Lane<L, f64>; 2] {
    let inverse = 1.0 / x;
    let z = (inverse * 8.0) * (inverse * 8.0);
    let (p, q) = (poly(z, P[n]), poly(z, Q[n]) * inverse);
    // sin χ and cos χ; −π/4 is 7/8 of a turn.
    let (sin, cos) = if n == 0 { (sine(0.875), sine(0.125)) } else { (sine(0.625), sine(0.875)) };
    let size = (inverse * FRAC_2_PI).sqrt();
    [(p * cos - q * sin) * size, (p * sin + q * cos) * size]
}

/// `[J, Y]` of order `n` at `x ≥ 0`.
#[inline(always)]
fn both<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize) -> [Lane<L, f64>; 2] {
    let eight = Lane::real(8.0);
    let inside = x.lt(eight).select(x, eight);
    let outside = x.lt(eight).select(eight, x);
    let j = j_near(inside, n);
    let regular = poly(inside.mul_add(inside * (1.0 / 32.0), Lane::real(-1.0)), Y[n]);
    let log = inside.ln();
    let y = if n == 0 {
        (log * j).mul_add(Lane::real(FRAC_2_PI), regular)
    } else {
        (log * j - 1.0 / inside).mul_add(Lane::real(FRAC_2_PI), regular * inside)
    };
    let [far_j, far_y] = if single::<R>() {
        far(outside, n, |turns| sin_shifted_f32(outside, turns))
    } else {
        far(outside, n, |turns| sin_shifted(outside, turns))
    };
    let near = x.lt(eight);
    let end = x.eq(Lane::highest());
    [[j, far_j], [y, far_y]].map(|[near_y, far_y]| end.select(Lane::zero(), near.select(near_y, far_y)))
}

/// `J` of order `n` at any `x`.
#[inline(always)]
fn j<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize) -> Lane<L, f64> {
    let magnitude = x.abs();
    let [y, _] = both::<L, R>(magnitude, n);
    let y = magnitude.is_nan().select(magnitude, y);
    if n == 0 { y } else { x.lt(Lane::zero()).select(-y, x.eq(Lane::zero()).select(x, y)) }
}

/// `Y` of order `n`: NaN below 0, −∞ at 0.
#[inline(always)]
fn y<L: Lanes, R: Real>(x: Lane<L, f64>, n: usize) -> Lane<L, f64> {
    let [_, y] = both::<L, R>(x, n);
    let y = x.ge(Lane::zero()).select(y, nan());
    x.eq(Lane::zero()).select(Lane::lowest(), y)
}

macro_rules! bessel {
    ($($(#[$meta:meta])* $F:ident $name:literal $body:ident $n:literal [$f32:literal $f64:literal], |$x:ident, $y:ident| $slope:expr;)*) => { $(
        $(#[$meta])*
        pub struct $F;
        impl $F {
            /// Error budget for `f32`, in units of the larger of the result and the amplitude.
            pub const ULP_F32: f64 = $f32;
            /// Error budget for `f64`, likewise, up to [`BESSEL_LIMIT_F64`].
            pub const ULP_F64: f64 = $f64;
        }
        impl Function<1> for $F {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
                by_f64(x, |x| $body::<L, P>(x, $n))
            }
            #[inline(always)]
            fn slope<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}
bessel! {
    /// `J₀(x)`; see [`Lane::j0`].
    J0Fn "j0" j 0 [1.0 16.0], |x, _y| -x.j1();
    /// `J₁(x)`; see [`Lane::j1`].
    J1Fn "j1" j 1 [1.0 16.0], |x, y| x.j0() - x.eq(Lane::zero()).select(Lane::real(0.5), y / x);
    /// `Y₀(x)`; see [`Lane::y0`].
    Y0Fn "y0" y 0 [1.0 16.0], |x, _y| -x.y1();
    /// `Y₁(x)`; see [`Lane::y1`].
    Y1Fn "y1" y 1 [1.0 16.0], |x, y| x.y0() - y / x;
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The Bessel function `J₀`, to 1 (`f32`) or 16 (`f64`) units in the last place, from 8 on (`Y` from 1/4 on) of the larger of
    /// it and `√(2/πx)`, since near a zero any rounding of `x` moves it; `f64` up
    /// to [`BESSEL_LIMIT_F64`](crate::ops::functions::BESSEL_LIMIT_F64) (NaN beyond).
    #[inline(always)]
    pub fn j0(self) -> Self {
        self.call::<J0Fn>()
    }
    /// The Bessel function `J₁`, with the range and error of [`j0`](Lane::j0).
    #[inline(always)]
    pub fn j1(self) -> Self {
        self.call::<J1Fn>()
    }
    /// The Bessel function `Y₀`, with the range and error of [`j0`](Lane::j0); NaN below 0, −∞ at 0.
    #[inline(always)]
    pub fn y0(self) -> Self {
        self.call::<Y0Fn>()
    }
    /// The Bessel function `Y₁`, with the range and error of [`j0`](Lane::j0); NaN below 0, −∞ at 0.
    #[inline(always)]
    pub fn y1(self) -> Self {
        self.call::<Y1Fn>()
    }
}
