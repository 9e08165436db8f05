//! `erfinv`, and the normal distribution `ndtr` with its logarithm.
// Imports: `scalar`.

use super::bits::{clamp, nan, sign, signed, single};
use super::double_double::Double;
use super::error_function::{erfc_scaled, erfc_short, excess, tail_double};
use super::log::ln_sum;
use super::logistic::{erfc_scaled_double, normal_tail, over_root_2};
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `erfinv(x)/x` to 2^-23 in `w − 2.5` with `w = −ln(1 − x²) ≤ 5`, in the form of Giles 2010.
const CENTER: [f64; 9] = [
    1.5014094218180831,
    0.24664072652481964,
    -0.004177707933960176,
    -0.0012537079200356255,
    0.00021860229080632038,
    -4.396674377694598e-06,
    -3.528886345679339e-06,
    3.437184550246567e-07,
    2.8537182811337776e-08,
];
/// The same in `√w − 4`, for `w` from 5 to 38.
const TAIL: [f64; 13] = [
    3.8397839132149656,
    1.0094926505971151,
    0.0012570363580971726,
    -0.0008645571807301345,
    0.000331607310336277,
    -0.00012810300876337714,
    4.1257044282874705e-05,
    -2.1361065132939455e-05,
    2.7164348406937055e-05,
    -1.5404923419751438e-05,
    1.0598086943778898e-06,
    1.5701371067264391e-06,
    -3.5357128934629356e-07,
];

/// `√π/2` as a double-double.
const HALF_ROOT_PI: [f64; 2] = [0.886226925452758, -3.8332932499128993e-17];

/// The inverse of `erf` in `f64`: a first approximation, and one step of Halley's method, which cubes its
/// error.
#[inline(always)]
fn erf_inv<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let magnitude = x.abs();
    let rest = 1.0 - magnitude;
    let w = -(rest * (magnitude + 1.0)).ln();
    let start = w.lt(Lane::real(5.0)).select(poly(w - 2.5, CENTER), poly(w.sqrt() - 4.0, TAIL)) * magnitude;
    // erf(start) − x. In the tail it is (1 − x) − erfc(start), where 1 − x is exact; the low word counts.
    let middle = Double::sum(start, -magnitude);
    let tail = tail_double(start);
    let error = magnitude
        .lt(Lane::real(0.65))
        .select(middle.hi + (middle.lo + excess(start)), (rest - tail.hi) - tail.lo);
    let step = error * (start * start).exp() * HALF_ROOT_PI[0];
    let y = start - step / start.mul_add(step, Lane::one());
    let line = Double::product(magnitude, Lane::real(HALF_ROOT_PI[0]));
    let line = line.hi + magnitude.mul_add(Lane::real(HALF_ROOT_PI[1]), line.lo);
    let y = magnitude.lt(Lane::real(1e-9)).select(line, y);
    let y = magnitude.eq(Lane::one()).select(Lane::highest(), y);
    let y = magnitude.le(Lane::one()).select(y, nan());
    signed(y, sign(x))
}

/// `Φ(x)`; for `f32` it is computed in `f64`, by the short form of `erfc`.
#[inline(always)]
fn normal<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    if single::<P>() {
        return (erfc_short(x.cast::<f64>() * -FRAC_1_SQRT_2) * 0.5).cast::<P>();
    }
    let tail = normal_tail(x.abs(), false).value();
    x.lt(Lane::zero()).select(tail, 1.0 - tail)
}

/// `1/√π`, and the other terms of the asymptotic series of `s·e^(s²)·erfc(s)` in `1/s²`, for `s ≥ 24`.
const SCALED_FAR_0: f64 = 0.5641895835477563;
const SCALED_FAR: [f64; 6] = [
    -0.28209479177387814,
    0.42314218766081724,
    -1.057855469152043,
    3.7024941420321507,
    -16.661223639144676,
    91.63673001529573,
];

/// `ln Φ(x)` in `f64`.
#[inline(always)]
fn ln_normal<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let limit = Lane::real(1e150);
    let clamped = limit.lt(x.abs()).select(limit, x.abs());
    let s = over_root_2(clamped);
    // Φ(−t) = e^(−t²/2)·(e^(s²)·erfc(s))/2: the square is added to the logarithm and does not pass through
    // the exponential.
    let scaled = erfc_scaled_double(s);
    let far = 1.0 / s.hi;
    let far = far.mul_add(far * far * poly(far * far, SCALED_FAR), far * SCALED_FAR_0);
    let scaled = Double::select(s.hi.gt(Lane::real(24.0)), Double::new(far, Lane::zero()), scaled);
    let left = (-0.5 * x).mul_add(x, ln_sum(Lane::zero(), scaled.scale(Lane::real(0.5)), Lane::zero()));
    // (1 + erf(x/√2))/2 around 0.
    let erf = Double::fast_sum(s.hi, s.lo + excess(s.hi));
    let near = ln_sum(Lane::one(), erf.scale(signed(Lane::one(), sign(x))), Lane::real(-1.0));
    let tail = normal_tail(x.abs(), false);
    let right = ln_sum(Lane::one(), tail.scale(Lane::real(-1.0)), Lane::zero());
    let right = tail.hi.lt(Lane::real(1e-17)).select(-tail.value(), right);
    let y = x.lt(Lane::zero()).select(left, right);
    let y = s.hi.lt(Lane::real(0.5)).select(near, y);
    x.eq(Lane::lowest()).select(x, y)
}

/// `φ(x)`. `x` is clamped in the range where the result is 0: its derivative at ±∞ is then 0.
#[inline(always)]
fn density<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let x = clamp(x, Lane::real(-50.0), Lane::real(50.0));
    (x * x * -0.5).exp() * 0.398_942_280_401_432_7
}

/// `φ(x) / Φ(x)`, where `y` is `ln Φ(x)`.
#[inline(always)]
fn hazard<L: Lanes, P: Real>(x: Lane<L, P>, y: Lane<L, P>) -> Lane<L, P> {
    let left = x.lt(-1.0);
    // Far to the left the exponent is a difference of large numbers; there e^(s²)·erfc s with s = −x/√2 is
    // used.
    let s = left.select(x, -1.0).cast::<f64>() * -FRAC_1_SQRT_2;
    let far = (0.797_884_560_802_865_4 / erfc_scaled(s).value()).cast();
    let right = clamp(x, Lane::real(-1.0), Lane::real(50.0));
    let near = (-left.select(Lane::zero(), y)).exp() * density(right);
    x.eq(Lane::lowest()).select(-x, left.select(far, near))
}

macro_rules! normal {
    (
        $(
            $(#[$meta:meta])* $F:ident $name:literal [$f32:literal $f64:literal], |$v:ident| $value:expr,
            |$x:ident, $y:ident| $slope:expr;
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
            fn value<L: Lanes, P: Real>([$v]: [Lane<L, P>; 1]) -> Lane<L, P> {
                $value
            }
            #[inline(always)]
            fn derivative<L: Lanes, P: Real>([$x]: [Lane<L, P>; 1], $y: Lane<L, P>) -> [Lane<L, P>; 1] {
                [$slope]
            }
        }
    )* };
}
normal! {
    /// The inverse of `erf`; see [`Lane::erfinv`].
    ErfInvFn "erfinv" [1.0 1.0], |v| erf_inv(v.cast()).cast(), |_x, y| (y * y).exp() * (1.0 / FRAC_2_SQRT_PI);
    /// `Φ(x)`; see [`Lane::ndtr`].
    NdtrFn "ndtr" [1.0 1.5], |v| normal(v), |x, _y| density(x);
    /// `ln Φ(x)`; see [`Lane::log_ndtr`].
    LogNdtrFn "log_ndtr" [1.0 1.5], |v| ln_normal(v.cast()).cast(), |x, y| hazard(x, y);
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The inverse of [`erf`](Lane::erf), to 1 unit in the last place; ±∞ at ±1, NaN beyond.
    #[inline(always)]
    pub fn erfinv(self) -> Self {
        self.call::<ErfInvFn>()
    }
    /// The normal distribution `Φ(x) = erfc(−x/√2)/2`, to 1 (`f32`) or 1.5 (`f64`) units in the last place,
    /// tails included.
    #[inline(always)]
    pub fn ndtr(self) -> Self {
        self.call::<NdtrFn>()
    }
    /// `ln Φ(x)`, to 1 (`f32`) or 1.5 (`f64`) units in the last place, also in the left tail.
    #[inline(always)]
    pub fn log_ndtr(self) -> Self {
        self.call::<LogNdtrFn>()
    }
}
