//! Functions of one and two real numbers, and rounding.
//!
//! `ops/functions/` states the accuracy of each function. 16-bit floats are computed in f32 and rounded once.
// Imports: `scalar`, `element`, `ops`.

use crate::element::{Compute, Float};
use crate::ops::define::operators;
use crate::ops::functions::{LogitFn, SincFn, sign};
use crate::scalar::{DType, Lane, Lanes, Real};

/// One step of the element's own format, which differs from the lane's for 16-bit floats.
#[inline(always)]
fn next_after<L: Lanes, T: Float>(x: Lane<L, Compute<T>>, y: Lane<L, Compute<T>>) -> Lane<L, Compute<T>> {
    let magnitude = x.abs();
    let outward = y.gt(x).eq(x.gt(Lane::zero()));
    let stepped = if T::DTYPE == DType::F16 {
        // A unit in the last place of the binade that the step crosses; below 2^-14 every unit is 2^-24.
        let inside = outward.select(magnitude, magnitude * 0.9998);
        let power = Lane::from_bits(inside.to_bits() & Lane::<L, Compute<T>>::real(f64::INFINITY).to_bits());
        let unit = (power * 2f64.powi(-10)).max(2f64.powi(-24));
        let end = magnitude.gt(65504.0).select(Lane::real(65504.0), magnitude - unit);
        outward.select(magnitude + unit, end)
    } else {
        let step = if T::DTYPE == DType::BF16 { 1 << 16 } else { 1 };
        let bits = magnitude.to_bits();
        Lane::from_bits(outward.select(bits + step, bits - step))
    };
    let from_zero: Lane<L, Compute<T>> = if T::DTYPE == DType::F16 {
        Lane::real(2f64.powi(-24))
    } else {
        Lane::from_bits(Lane::int(if T::DTYPE == DType::BF16 { 1 << 16 } else { 1 }))
    };
    let stepped = Lane::from_bits(stepped.to_bits() | sign(x));
    let stepped = x.eq(Lane::zero()).select(Lane::from_bits(from_zero.to_bits() | sign(y)), stepped);
    // Bits have no derivative. Subtracting this 0, whose derivative is −1, changes no value, −0 included.
    let by_bits = Lane::<L, Compute<T>>::from_bits(x.to_bits());
    let stepped = stepped - x.abs().lt(Lane::highest()).select(by_bits - x, Lane::zero());
    let stepped = x.eq(y).select(y, stepped);
    (x.is_nan() | y.is_nan()).select(x + y, stepped)
}

/// The larger of two numbers, and the other minus that one. Not by max and |x − y|, whose derivatives are
/// wrong where both are equal.
#[inline(always)]
fn largest_and_difference<L: Lanes, P: Real>(x: Lane<L, P>, y: Lane<L, P>) -> (Lane<L, P>, Lane<L, P>) {
    // Equal infinities have no difference.
    let same = x.eq(y) & x.abs().eq(Lane::highest());
    let difference = same.select(Lane::zero(), x - y);
    let above = difference.gt(Lane::zero());
    (above.select(x, y), above.select(-difference, difference))
}

/// `x · log`, where `log` is a logarithm of `y`; 0 where `x` is 0 and `y` is not NaN.
#[inline(always)]
fn share_of<L: Lanes, P: Real>(x: Lane<L, P>, y: Lane<L, P>, log: Lane<L, P>) -> Lane<L, P> {
    let product = x * log;
    let limit = y.is_nan().select(y, Lane::zero());
    // If the logarithm is a number, the product is 0 as well, with a derivative.
    let at_zero = log.abs().lt(Lane::highest()).select(product + Lane::zero(), limit);
    x.eq(Lane::zero()).select(at_zero, product)
}

operators! {
    /// Functions of real numbers, elementwise; special values as in C99 Annex F and IEEE 754-2019.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([0.0, 1.0, f64::INFINITY]);
    /// assert_eq!(x.exp()?.to_vec()?, [1.0, std::f64::consts::E, f64::INFINITY]);
    /// assert_eq!((x.lazy().sqrt() + 1.0).log2().eval()?.to_vec()?, [0.0, 1.0, f64::INFINITY]); // one pass
    /// assert_eq!(x.xlogy(&x)?.to_vec()?, [0.0, 0.0, f64::INFINITY]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Math;
    /// eˣ.
    fn exp = Exp(x) where Float { x.exp() } slope of y { y }
    /// 2ˣ.
    fn exp2 = Exp2(x) where Float { x.exp2() } slope of y { y * std::f64::consts::LN_2 }
    /// eˣ − 1, exact near 0.
    fn exp_m1 = ExpM1(x) where Float { x.exp_m1() }
    /// Natural logarithm; −∞ at 0, NaN below.
    fn ln = Ln(x) where Float { x.ln() }
    /// Logarithm to base 2.
    fn log2 = Log2(x) where Float { x.log2() }
    /// Logarithm to base 10.
    fn log10 = Log10(x) where Float { x.log10() }
    /// ln(1 + x), exact near 0.
    fn ln_1p = Ln1p(x) where Float { x.ln_1p() }
    /// Sine of radians.
    fn sin = Sin(x) where Float { x.sin() }
    /// Cosine of radians.
    fn cos = Cos(x) where Float { x.cos() }
    /// Tangent of radians.
    fn tan = Tan(x) where Float { x.tan() } slope of y { y * y + 1.0 }
    /// Inverse sine, in radians; NaN outside [−1, 1].
    fn asin = Asin(x) where Float { x.asin() }
    /// Inverse cosine, in radians; NaN outside [−1, 1].
    fn acos = Acos(x) where Float { x.acos() }
    /// Inverse tangent, in radians.
    fn atan = Atan(x) where Float { x.atan() }
    /// The angle of the point (`other`, `self`), in (−π, π].
    fn atan2 = Atan2(y, x) where Float { y.atan2(x) }
    /// Hyperbolic sine.
    fn sinh = Sinh(x) where Float { x.sinh() }
    /// Hyperbolic cosine.
    fn cosh = Cosh(x) where Float { x.cosh() }
    /// Hyperbolic tangent.
    fn tanh = Tanh(x) where Float { x.tanh() } slope of y { 1.0 - y * y } unless rounded
    /// Inverse hyperbolic sine.
    fn asinh = Asinh(x) where Float { x.asinh() }
    /// Inverse hyperbolic cosine; NaN below 1.
    fn acosh = Acosh(x) where Float { x.acosh() }
    /// Inverse hyperbolic tangent; NaN outside [−1, 1].
    fn atanh = Atanh(x) where Float { x.atanh() }
    /// Error function, 2/√π ∫₀ˣ e^(−t²) dt.
    fn erf = Erf(x) where Float { x.erf() }
    /// 1 − erf(x), exact in the tail.
    fn erfc = Erfc(x) where Float { x.erfc() }
    /// The inverse of `erf`; ±∞ at ±1, NaN beyond.
    fn erfinv = ErfInv(x) where Float { x.erfinv() }
    /// The distribution function of the normal distribution, Φ(x) = erfc(−x/√2) / 2, exact in the left tail.
    #[doc(alias = "normal_cdf")]
    fn ndtr = Ndtr(x) where Float { x.ndtr() }
    /// ln Φ(x), exact in the left tail.
    fn log_ndtr = LogNdtr(x) where Float { x.log_ndtr() }
    /// The gamma function; NaN at negative integers, ±∞ at ±0.
    #[doc(alias = "tgamma")]
    fn gamma = Gamma(x) where Float { x.gamma() }
    /// ln |Γ(x)|; ∞ at 0 and negative integers.
    #[doc(alias = "gammaln")]
    fn lgamma = Lgamma(x) where Float { x.lgamma() }
    /// ψ(x) = Γ′(x)/Γ(x); ∓∞ at ±0, NaN at negative integers.
    #[doc(alias = "psi")]
    fn digamma = Digamma(x) where Float { x.digamma() }
    /// Bessel function J₀.
    fn j0 = J0(x) where Float { x.j0() }
    /// Bessel function J₁.
    fn j1 = J1(x) where Float { x.j1() }
    /// Bessel function Y₀; NaN below 0, −∞ at 0.
    fn y0 = Y0(x) where Float { x.y0() }
    /// Bessel function Y₁; NaN below 0, −∞ at 0.
    fn y1 = Y1(x) where Float { x.y1() }
    /// Modified Bessel function I₀.
    fn i0 = I0(x) where Float { x.i0() }
    /// Modified Bessel function I₁.
    fn i1 = I1(x) where Float { x.i1() }
    /// e^(−|x|) · I₀(x), which does not overflow.
    fn i0e = I0e(x) where Float { x.i0e() }
    /// e^(−|x|) · I₁(x), which does not overflow.
    fn i1e = I1e(x) where Float { x.i1e() }
    /// sin(πx) / (πx); 1 at 0.
    fn sinc = Sinc(x) where Float { x.call::<SincFn>() }
    /// ln(x / (1 − x)), the inverse of `sigmoid`; ±∞ at 1 and 0, NaN outside [0, 1].
    fn logit = Logit(x) where Float { x.call::<LogitFn>() }
    /// x · ln y; 0 where x is 0 and y is not NaN.
    fn xlogy = Xlogy(x, y) where Float { share_of(x, y, y.ln()) }
    /// x · ln(1 + y); 0 where x is 0 and y is not NaN.
    fn xlog1py = Xlog1py(x, y) where Float { share_of(x, y, y.ln_1p()) }
    /// Degrees to radians.
    fn to_radians = ToRadians(x) where Float { x * (std::f64::consts::PI / 180.0) }
    /// Radians to degrees.
    fn to_degrees = ToDegrees(x) where Float { x * (180.0 / std::f64::consts::PI) }
    /// Square root, correctly rounded; NaN below 0.
    fn sqrt = Sqrt(x) where Float { x.sqrt() } slope of y { 0.5 / y }
    /// 1/√x.
    fn rsqrt = Rsqrt(x) where Float { x.rsqrt() } slope of y { y * -0.5 * y * y }
    /// Cube root.
    fn cbrt = Cbrt(x) where Float { x.cbrt() } slope of y { 1.0 / (y * y * 3.0) }
    /// xʸ, C's `pow`.
    fn powf = Powf(x, y) where Float { x.powf(y) }
    /// √(x² + y²), without intermediate overflow.
    fn hypot = Hypot(x, y) where Float { x.hypot(y) }
    /// Nearest integer, ties to even.
    fn round = Round(x) where Float { x.round() }
    /// The largest integer not above.
    fn floor = Floor(x) where Float { x.floor() }
    /// The smallest integer not below.
    fn ceil = Ceil(x) where Float { x.ceil() }
    /// Integer part.
    fn trunc = Trunc(x) where Float { x.trunc() }
    /// The next number after `self` in the direction of `other`; `self` where they are equal. Its derivative
    /// is 0.
    #[doc(alias = "nextafter")]
    fn next_after = NextAfter(x, y) where Float { next_after::<L, T>(x, y) }
    /// ln(eˣ + eʸ), without intermediate overflow.
    #[doc(alias = "logaddexp")]
    fn log_add_exp = LogAddExp(x, y) where Float {
        let (largest, difference) = largest_and_difference(x, y);
        largest + difference.exp().ln_1p()
    }
    /// log₂(2ˣ + 2ʸ), without intermediate overflow.
    #[doc(alias = "logaddexp2")]
    fn log_add_exp2 = LogAddExp2(x, y) where Float {
        let (largest, difference) = largest_and_difference(x, y);
        largest + difference.exp2().ln_1p() * std::f64::consts::LOG2_E
    }
    /// The magnitude of `self` with the sign of `other`, including the sign of a zero or a NaN.
    fn copysign = Copysign(x, y) where Float { sign(y).eq(sign(x.abs())).select(x.abs(), -x.abs()) }
}
