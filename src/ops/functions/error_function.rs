//! `erf`, `erfc`.
//!
//! Near 0 `erf` is an odd polynomial; further out `1 − e^l(x)` with `l` a polynomial for `ln erfc`. The tail of `erfc` is
//! `e^(−x²)` times a slowly varying factor, in two words, so that its relative error stays small down to the subnormals.
//! Imports: `scalar`, `double`, `exp`.

use super::exp::{exp_double, exp_m1_reduced, quotient, reduce};
use super::{Double, pick, poly, sign, signed, single};
use crate::scalar::{Function, Lane, Lanes, Real};

/// `erf(x) − x` for `|x| ≤ 1`.
#[inline(always)]
fn excess<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let z = x * x;
    let slope = if single::<P>() {
        poly(z, [0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.005187162, -0.0007997853, 7.806904e-05])
    } else {
        poly(
            z,
            [
                0.12837916709551256,
                -0.37612638903183343,
                0.11283791670936952,
                -0.02686617064195943,
                0.005223977596739534,
                -0.0008548325485236525,
                0.00012055280505571661,
                -1.492446584848767e-05,
                1.644415357585547e-06,
                -1.6184017329350816e-07,
                1.3616825220753772e-08,
                -7.608069773456935e-10,
            ],
        )
    };
    x * slope
}

/// `erf x` for `x ≥ 1`.
#[inline(always)]
fn far<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let end = pick::<L, P>(3.95, 5.95);
    let x = end.lt(x).select(end, x);
    // ln erfc(x) = c + x·s(x), with a tiny c.
    let (c, s) = if single::<P>() {
        (0.000188467, poly(x, [-1.1295803, -0.63321656, -0.1084219, 0.025210224, -0.0042052567, 0.0004414725, -2.169832e-05]))
    } else {
        let s = poly(
            x,
            [
                -1.1283748829695972,
                -0.6366395091407332,
                -0.10271659889860107,
                0.01901919832377764,
                0.00036368898917148596,
                -0.0018581954288796891,
                0.0007153571066550874,
                -9.326904177916965e-05,
                -4.5397311021700655e-05,
                3.489331870864281e-05,
                -1.3292379634624681e-05,
                3.5417141223537084e-06,
                -7.088077422534505e-07,
                1.0818465047035137e-07,
                -1.2473098133526277e-08,
                1.0545565092111411e-09,
                -6.175201080878076e-11,
                2.238243799417519e-12,
                -3.7820027981396954e-14,
            ],
        );
        (-4.321142518979675e-07, s)
    };
    let ln_erfc = Double::product(x, s);
    let (k, r) = reduce(ln_erfc.hi);
    let erfc = exp_m1_reduced(Double::new(r.hi, r.lo + (ln_erfc.lo + c))) + 1.0;
    (-k.power(0)).mul_add(erfc, Lane::one())
}

/// `(1 + 2x)·e^(x²)·erfc(x) − 1` for `x ≥ 0.45`, as a polynomial in `(x − 4) / (x + 4)`.
const SCALED: [f64; 22] = [
    0.2329951186255525,
    -0.1396211168405625,
    0.015379652102618914,
    0.06809705425469212,
    -0.10103906603624699,
    0.09373283499837805,
    -0.06633036581376107,
    0.037167515536794114,
    -0.016197734036520202,
    0.005031969987358103,
    -0.0007577734598422934,
    -0.00019925677247843105,
    0.0001506225378432601,
    -2.4398799526549665e-05,
    -1.1224831595572981e-05,
    5.708283846586999e-06,
    2.9969480513576214e-07,
    -8.221377880249243e-07,
    6.69224386724429e-08,
    1.0540914851906771e-07,
    -1.2192587895310253e-08,
    -1.0404506253365522e-08,
];

/// The same to 2^-28, for `x < 10.1`.
const SCALED_F32: [f64; 10] = [
    0.23299511691413943,
    -0.13962105275347383,
    0.015379918313449717,
    0.06809390573686658,
    -0.1010469182688613,
    0.09377326660261247,
    -0.06624063844509157,
    0.03698681364091976,
    -0.016632089891337187,
    0.0052334349375812534,
];

/// `erfc x` for `x ≥ 0.45` in `f64`.
#[inline(always)]
fn tail<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(27.3);
    let x = end.lt(x).select(end, x);
    let over = Double::fast_sum(Lane::one(), poly((x - 4.0) / (x + 4.0), SCALED));
    let under = Double::sum(Lane::one(), x + x);
    let square = Double::product(x, x);
    let (k, power) = exp_double(Double::new(-square.hi, -square.lo));
    k.scale(over.div(under).mul(power).value())
}

/// `erfc x` for an `x ≥ 0.45` of type `f32`.
#[inline(always)]
fn tail_f32<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let end = Lane::real(10.1);
    let x = end.lt(x).select(end, x);
    let over = poly((x - 4.0) / (x + 4.0), SCALED_F32) + 1.0;
    let (k, r) = reduce(-(x * x));
    let power = (r.hi * r.hi).mul_add(quotient(r.hi), r.hi) + 1.0;
    over / (x + x + 1.0) * power * k.power(0)
}

/// `erf x`; see [`Lane::erf`].
pub struct ErfFn;

impl ErfFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for ErfFn {
    const NAME: &'static str = "erf";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let near = magnitude + excess(magnitude);
        signed(magnitude.lt(Lane::one()).select(near, far(magnitude)), sign(x))
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [(-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI]
    }
}

/// `1 − erf x`; see [`Lane::erfc`].
pub struct ErfcFn;

impl ErfcFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.5;
}

impl Function<1> for ErfcFn {
    const NAME: &'static str = "erfc";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let tail = if single::<P>() { tail_f32(magnitude.cast()).cast() } else { tail(magnitude) };
        let far = x.lt(Lane::zero()).select(2.0 - tail, tail);
        let head = Double::fast_sum(Lane::one(), -x);
        let near = head.hi + (head.lo - excess(x));
        magnitude.lt(Lane::real(0.5)).select(near, far)
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [(-x * x).exp() * -std::f64::consts::FRAC_2_SQRT_PI]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The error function `2/√π · ∫₀ˣ e^(−t²) dt`, to 1 unit in the last place.
    #[inline(always)]
    pub fn erf(self) -> Self {
        self.call::<ErfFn>()
    }
    /// `1 − erf x` without the cancellation, to 1 (`f32`) or 1.5 (`f64`) units in the last place, subnormal results included.
    #[inline(always)]
    pub fn erfc(self) -> Self {
        self.call::<ErfcFn>()
    }
}
