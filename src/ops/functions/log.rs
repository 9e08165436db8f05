//! `ln`, `log2`, `log10`, `ln_1p`.
//!
//! `x = 2^k · (1 + f)` with `√½ ≤ 1 + f < √2`; `ln(1 + f) = f − f²/2 + …`, where `f` is exact and the
//! remaining terms are small against it.
// Imports: `scalar`.

use super::bits::{nan, one_bits, pick, power_of_two, single, word};
use super::double_double::Double;
use super::polynomial::poly;
use crate::scalar::{Function, Lane, Lanes, Real};

/// `ln 2`: a first word with few enough bits that its product with an exponent is exact, and the remainder.
const LN_2: [[f64; 2]; 2] =
    [[0.693145751953125, 1.428606765330187e-06], [0.6931471805601177, -1.7239444525614835e-13]];
/// `log₁₀ 2`, in the same form.
const LOG10_2: [[f64; 2]; 2] =
    [[0.301025390625, 4.605039066518657e-06], [0.3010299956640665, -8.532344317057107e-14]];
/// `1 / ln 2` as a double-double.
const LOG2_E: [[f64; 2]; 2] =
    [[1.4426950216293335, 1.925963033500011e-08], [std::f64::consts::LOG2_E, 2.0355273740931033e-17]];
/// `1 / ln 10` as a double-double.
const LOG10_E: [[f64; 2]; 2] =
    [[0.4342944920063019, -1.0103049952192578e-08], [std::f64::consts::LOG10_E, 1.098319650216765e-17]];

/// The bits of `√½`, rounded down.
#[inline(always)]
fn sqrt_half<P: Real>() -> u64 {
    if single::<P>() { 0x3f35_04f3 } else { 0x3fe6_a09e_667f_3bcc }
}

/// A positive number as `2^k · m`, `√½ ≤ m < √2`.
pub(super) struct LogParts<L: Lanes, P: Real> {
    /// `k`.
    pub(super) exponent: Lane<L, P>,
    /// `m`.
    pub(super) mantissa: Lane<L, P>,
    /// `k + BIAS`.
    biased: Lane<L, P::Bits>,
}

impl<L: Lanes, P: Real> LogParts<L, P> {
    /// The parts of a positive normal number.
    #[inline(always)]
    pub(super) fn normal(x: Lane<L, P>) -> Self {
        let bits = x.to_bits() + word::<L, P>(one_bits::<P>() - sqrt_half::<P>());
        let biased = bits.shr(P::FRACTION);
        // Integers below 2^FRACTION are the low bits of floats.
        let ulp_one = 2f64.powi(P::FRACTION as i32);
        let fraction = word::<L, P>((1 << P::FRACTION) - 1);
        let carrier = word::<L, P>(((P::BIAS as u64) + P::FRACTION as u64) << P::FRACTION);
        LogParts {
            exponent: Lane::from_bits(biased | carrier) - (ulp_one + P::BIAS as f64),
            mantissa: Lane::from_bits((bits & fraction) + word::<L, P>(sqrt_half::<P>())),
            biased,
        }
    }

    /// The parts of any positive finite number, subnormal numbers included; `biased` is not corrected for
    /// these.
    #[inline(always)]
    pub(super) fn of(x: Lane<L, P>) -> Self {
        let small = x.lt(pick(f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE));
        let lift = pick::<L, P>(16777216.0, 18014398509481984.0);
        let mut parts = LogParts::normal(small.select(x * lift, x));
        parts.exponent = parts.exponent - small.select(pick(24.0, 54.0), Lane::zero());
        parts
    }

    /// `2^(1 − k)`.
    #[inline(always)]
    fn twice_inverse_power(&self) -> Lane<L, P> {
        power_of_two(word::<L, P>(2 * P::BIAS as u64 + 1) - self.biased)
    }
}

/// `ln(1 + f) − f` for `√½ ≤ 1 + f < √2`.
#[inline(always)]
fn beyond_linear<L: Lanes, P: Real>(f: Lane<L, P>) -> Lane<L, P> {
    let square = f * f;
    if single::<P>() {
        let cubic = poly(
            f,
            [
                0.33333313,
                -0.25000012,
                0.20002076,
                -0.16667846,
                0.14220126,
                -0.12408413,
                0.118874945,
                -0.11659405,
                0.067277595,
            ],
        );
        square * cubic.mul_add(f, Lane::real(-0.5))
    } else {
        // With s = f / (2 + f):  ln(1 + f) = f − f²/2 + s·(f²/2 + R(s²)).
        let s = f / (f + 2.0);
        let z = s * s;
        let tail = z * poly(
            z,
            [
                0.6666666666666735,
                0.39999999999409347,
                0.28571428743688737,
                0.22222198428698264,
                0.181835723693042,
                0.15313831864070615,
                0.1479826052974857,
            ],
        );
        s * square.mul_add(Lane::real(0.5), tail) - square * 0.5
    }
}

/// `k · ln2 + f + tail`.
#[inline(always)]
fn finalize<L: Lanes, P: Real>(k: Lane<L, P>, f: Lane<L, P>, tail: Lane<L, P>) -> Lane<L, P> {
    let ln_2 = Double::<L, P>::literal(LN_2[0], LN_2[1]);
    let head = Double::fast_sum(k * ln_2.hi, f);
    head.hi + (head.lo + k.mul_add(ln_2.lo, tail))
}

/// The special values at 0, below 0, at ∞ and for NaN, or else `y`.
#[inline(always)]
fn with_edges<L: Lanes, P: Real>(x: Lane<L, P>, y: Lane<L, P>) -> Lane<L, P> {
    let y = x.lt(Lane::highest()).select(y, x);
    let y = x.lt(Lane::zero()).select(nan(), y);
    x.eq(Lane::zero()).select(Lane::lowest(), y)
}

/// `log_b x` from `log_b e` and `log_b 2`, both double-doubles.
#[inline(always)]
fn other_base<L: Lanes, P: Real>(x: Lane<L, P>, e: Double<L, P>, two: Double<L, P>) -> Lane<L, P> {
    let parts = LogParts::of(x);
    let f = parts.mantissa - 1.0;
    let ln = Double::fast_sum(f, beyond_linear(f)).mul(e);
    let head = Double::fast_sum(parts.exponent * two.hi, ln.hi);
    with_edges(x, head.hi + (head.lo + parts.exponent.mul_add(two.lo, ln.lo)))
}

/// `ln(base + a) + k·ln2` for a positive sum and a double-double `a`; with `base = 1` relatively accurate
/// near 0.
#[inline(always)]
pub(super) fn ln_sum<L: Lanes, P: Real>(base: Lane<L, P>, a: Double<L, P>, k: Lane<L, P>) -> Lane<L, P> {
    let sum = Double::sum(base, a.hi);
    let parts = LogParts::normal(sum.hi);
    let f = parts.mantissa - 1.0;
    let f_lo = (sum.lo + a.lo) * 0.5 * parts.twice_inverse_power();
    // The rounding error of f + f_lo counts with the derivative there, about -f.
    let whole = f + f_lo;
    let lost = (f - whole) + f_lo;
    finalize(parts.exponent + k, f, (-whole).mul_add(lost, f_lo) + beyond_linear(whole))
}

/// `ln x`; see [`Lane::ln`].
pub struct LnFn;

impl LnFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for LnFn {
    const NAME: &'static str = "log";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let parts = LogParts::of(x);
        let f = parts.mantissa - 1.0;
        with_edges(x, finalize(parts.exponent, f, beyond_linear(f)))
    }
    #[inline(always)]
    fn fast<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> (Lane<L, P>, Lane<L, bool>) {
        let parts = LogParts::normal(x);
        let f = parts.mantissa - 1.0;
        let is_normal = x.gt(pick(f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE)) & x.lt(Lane::highest());
        (finalize(parts.exponent, f, beyond_linear(f)), !is_normal)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / x]
    }
}

/// `log₂ x`; see [`Lane::log2`].
pub struct Log2Fn;

impl Log2Fn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for Log2Fn {
    const NAME: &'static str = "log2";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        other_base(x, Double::literal(LOG2_E[0], LOG2_E[1]), Double::new(Lane::one(), Lane::zero()))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [std::f64::consts::LOG2_E / x]
    }
}

/// `log₁₀ x`; see [`Lane::log10`].
pub struct Log10Fn;

impl Log10Fn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for Log10Fn {
    const NAME: &'static str = "log10";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        other_base(x, Double::literal(LOG10_E[0], LOG10_E[1]), Double::literal(LOG10_2[0], LOG10_2[1]))
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [std::f64::consts::LOG10_E / x]
    }
}

/// `ln(1 + x)`; see [`Lane::ln_1p`].
pub struct Ln1pFn;

impl Ln1pFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<1> for Ln1pFn {
    const NAME: &'static str = "log1p";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let y = ln_sum(Lane::one(), Double::new(x, Lane::zero()), Lane::zero());
        // Below half a unit of 1 the result is `x` itself, which keeps subnormals and the sign of zero.
        let y = x.abs().lt(pick(1e-8, 1e-17)).select(x, y);
        let y = x.lt(Lane::highest()).select(y, x);
        let y = x.lt(Lane::real(-1.0)).select(nan(), y);
        x.eq(Lane::real(-1.0)).select(Lane::lowest(), y)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / (x + 1.0)]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The natural logarithm, to 1 unit in the last place; NaN below 0, −∞ at 0.
    #[inline(always)]
    pub fn ln(self) -> Self {
        self.call::<LnFn>()
    }
    /// The logarithm to base 2, to 1 unit in the last place; exact for powers of two.
    #[inline(always)]
    pub fn log2(self) -> Self {
        self.call::<Log2Fn>()
    }
    /// The logarithm to base 10, to 1 unit in the last place.
    #[inline(always)]
    pub fn log10(self) -> Self {
        self.call::<Log10Fn>()
    }
    /// `ln(1 + x)` without cancellation near 0, to 1 unit in the last place.
    #[inline(always)]
    pub fn ln_1p(self) -> Self {
        self.call::<Ln1pFn>()
    }
}
