//! `erf`, `erfc`.
//!
//! Near 0 `erf` is an odd polynomial; further out it is `1 − e^l(x)`, where `l` is a polynomial for
//! `ln erfc`. The tail of `erfc` is `e^(−x²)` times a slowly varying factor, as double-doubles, which keeps
//! the relative error small down to the subnormals.
// Imports: `scalar`.

use super::bits::{clamp, sign, signed, single};
use super::double_double::Double;
use super::exp::{Exponent, exp_double, exp_m1_reduced, quotient, reduce};
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};

/// The point at which the two forms of `erf` meet.
const JOIN: f64 = 0.875;

/// `erf(x) − x` for `|x| < JOIN`.
#[inline(always)]
pub(super) fn excess<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let z = x * x;
    let slope = if single::<P>() {
        poly(
            z,
            [0.12837917, -0.3761263, 0.112836234, -0.026855458, 0.0051913173, -0.0008032525, 7.902075e-05],
        )
    } else {
        poly(
            z,
            [
                0.1283791670955126,
                -0.37612638903184126,
                0.11283791670973675,
                -0.026866170648730755,
                0.0052239776612507316,
                -0.0008548329096713673,
                0.00012055407417973631,
                -1.4927348566503416e-05,
                1.6486467772235584e-06,
                -1.6571795068673914e-07,
                1.5634946982515325e-08,
                -1.2163462447699854e-09,
            ],
        )
    };
    x * slope
}

/// `erf x` for an `x ≥ 0` of type `f32`.
#[inline(always)]
fn erf_f32<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let excess =
        poly(x * x, [0.12837915, -0.37612504, 0.11281922, -0.026770493, 0.004998959, -0.00060207996]);
    let near = x.mul_add(excess, x);
    let end = Lane::real(3.95);
    let x = end.lt(x).select(end, x);
    // log₂ erfc(x) = c + x·s(x) = k + c + r, and 2^(c + r) − 1.
    let s = poly(x, [-1.62715, -0.9188208, -0.15033045, 0.032255806, -0.0044382866, 0.00028759456]);
    let k = Exponent::product(x, s);
    let r = x.mul_add(s, -k.float);
    let bend = poly(
        r,
        [-0.00015282787, 0.69304127, 0.24018976, 0.055494793, 0.009617025, 0.0013398413, 0.00015343020],
    );
    let power = k.power(0);
    x.lt(Lane::real(JOIN)).select(near, (-power).mul_add(bend, 1.0 - power))
}

/// `erf x` for an `x ≥ JOIN` of type `f64`.
#[inline(always)]
fn far<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(5.95);
    let x = end.lt(x).select(end, x);
    // ln erfc(x) = c + x·s(x), with a tiny c.
    let s = poly(
        x,
        [
            -1.1283789090181053,
            -0.6366208307602897,
            -0.10277035972183882,
            0.019126817207544132,
            0.0002044831855358384,
            -0.0016776669409075899,
            0.0005547364063219494,
            2.0579376344798574e-05,
            -0.0001103008752501137,
            6.480894598211151e-05,
            -2.445846448450683e-05,
            6.9104276269435735e-06,
            -1.5257511287456592e-06,
            2.658812768314524e-07,
            -3.6331974658857175e-08,
            3.817879116937599e-09,
            -2.9792156169359576e-10,
            1.625402504645114e-11,
            -5.529798617129005e-13,
            8.82324372109059e-15,
        ],
    );
    let ln_erfc = Double::product(x, s);
    let (k, r) = reduce(ln_erfc.hi);
    let erfc = exp_m1_reduced(Double::new(r.hi, r.lo + (ln_erfc.lo - 2.7035568735383433e-08))) + 1.0;
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

/// `e^(x²)·erfc x` for `x ≥ 0.45` in `f64`.
#[inline(always)]
pub(super) fn erfc_scaled<L: Lanes, P: Real>(x: Lane<L, P>) -> Double<L, P> {
    let over = Double::fast_sum(Lane::one(), poly((x - 4.0) / (x + 4.0), SCALED));
    over.div(Double::sum(Lane::one(), x + x))
}

/// `erfc x` for `0.45 ≤ x < 27.3` in `f64`, as a double-double if it is a normal number.
#[inline(always)]
pub(super) fn tail_double<L: Lanes, P: Real>(x: Lane<L, P>) -> Double<L, P> {
    let square = Double::product(x, x);
    let (k, power) = exp_double(Double::new(-square.hi, -square.lo));
    let value = erfc_scaled(x).mul(power).normal();
    Double::new(k.scale(value.hi), k.scale(value.lo))
}

/// `erfc x` for `x ≥ 0.45` in `f64`.
#[inline(always)]
fn tail<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let end = Lane::real(27.3);
    let x = end.lt(x).select(end, x);
    tail_double(x).hi
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

/// `erfc x` in `f64`, to 2^-27 of itself.
#[inline(always)]
pub(super) fn erfc_short<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f64> {
    let magnitude = x.abs();
    let tail = tail_f32(magnitude);
    let far = x.lt(Lane::zero()).select(2.0 - tail, tail);
    magnitude.lt(Lane::real(0.5)).select(1.0 - x - excess(x), far)
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
        if single::<P>() {
            return signed(erf_f32(magnitude), sign(x));
        }
        let near = magnitude + excess(magnitude);
        signed(magnitude.lt(Lane::real(JOIN)).select(near, far(magnitude)), sign(x))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [bell(x) * std::f64::consts::FRAC_2_SQRT_PI]
    }
}

/// `e^(−x²)`, the derivative of `erf` up to a factor. `x` is clamped in the range where the result is 0: its
/// own derivative at ±∞ is then 0.
#[inline(always)]
fn bell<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> {
    let x = clamp(x, Lane::real(-50.0), Lane::real(50.0));
    (-x * x).exp()
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
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [bell(x) * -std::f64::consts::FRAC_2_SQRT_PI]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The error function `2/√π · ∫₀ˣ e^(−t²) dt`, to 1 unit in the last place.
    #[inline(always)]
    pub fn erf(self) -> Self {
        self.call::<ErfFn>()
    }
    /// `1 − erf x` without cancellation, to 1 (`f32`) or 1.5 (`f64`) units in the last place, subnormal
    /// results included.
    #[inline(always)]
    pub fn erfc(self) -> Self {
        self.call::<ErfcFn>()
    }
}
