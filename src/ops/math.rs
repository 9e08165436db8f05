//! Functions of one and two real numbers, rounding.
//!
//! Accuracy stands beside each function in `ops/functions/`. 16-bit floats are computed in f32 and rounded once.
//! Imports: its own files.

use super::functions::sign;
use super::operators;

operators! {
    /// Functions of real numbers, elementwise; special values as in C99 Annex F and IEEE 754-2019.
    pub trait Math;
    /// eˣ.
    fn exp = Exp(x) where Float { x.exp() }
    /// 2ˣ.
    fn exp2 = Exp2(x) where Float { x.exp2() }
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
    fn tan = Tan(x) where Float { x.tan() }
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
    fn tanh = Tanh(x) where Float { x.tanh() }
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
    /// Square root, correctly rounded; NaN below 0.
    fn sqrt = Sqrt(x) where Float { x.sqrt() }
    /// 1/√x.
    fn rsqrt = Rsqrt(x) where Float { 1.0 / x.sqrt() }
    /// Cube root.
    fn cbrt = Cbrt(x) where Float { x.cbrt() }
    /// xʸ, C's `pow`.
    fn powf = Powf(x, y) where Float { x.powf(y) }
    /// √(x² + y²), without overflow on the way.
    fn hypot = Hypot(x, y) where Float { x.hypot(y) }
    /// Nearest integer, ties to even.
    fn round = Round(x) where Float { x.round() }
    /// Largest integer not above.
    fn floor = Floor(x) where Float { x.floor() }
    /// Smallest integer not below.
    fn ceil = Ceil(x) where Float { x.ceil() }
    /// Integer part.
    fn trunc = Trunc(x) where Float { x.trunc() }
    /// The magnitude of `self` with the sign of `other`, that of a zero or a NaN included.
    fn copysign = Copysign(x, y) where Float { sign(y).eq(sign(x.abs())).select(x.abs(), -x.abs()) }
}
