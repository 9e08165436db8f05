//! `cbrt`, `hypot`.
// Imports: `scalar`.

use super::bits::{clamp, exponent_mask, pick, sign, signed, word};
use super::double_double::Double;
use super::exp::Exponent;
use super::log::LogParts;
use super::polynomial::poly;
use crate::scalar::{Function, IntoLane, Lane, Lanes, Real};

/// `∛x`; see [`Lane::cbrt`].
pub struct CbrtFn;

impl CbrtFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 0.6;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 0.6;
}

impl Function<1> for CbrtFn {
    const NAME: &'static str = "cbrt";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        let magnitude = x.abs();
        let parts = LogParts::of(magnitude);
        let third = Exponent::nearest(parts.exponent, 1.0 / 3.0);
        let i = third.float.mul_add(Lane::real(-3.0), parts.exponent);
        // i is -1, 0 or 1: quadratics through 2^i and 2^(−i/3).
        let m = parts.mantissa * i.mul_add(Lane::real(0.25), Lane::real(0.75)).mul_add(i, Lane::one());
        let start = i
            .mul_add(Lane::real(0.02681078793948645), Lane::real(-0.23311026195538673))
            .mul_add(i, Lane::one());
        let root = start
            * poly(
                parts.mantissa,
                [1.730709575930584, -1.2857315726780902, 0.7133402959126967, -0.15853966621368548],
            );
        // m^(−1/3) to 2^-12; a step of third order improves it to 2^-33, and the last step, for ∛m itself,
        // squares that.
        let error = (-m * root).mul_add(root * root, Lane::one());
        let root = root.mul_add(error * error.mul_add(Lane::real(2.0 / 9.0), Lane::real(1.0 / 3.0)), root);
        let square = root * root;
        let y = m * square;
        let p = Double::product(y, y);
        let rest = (-p.lo).mul_add(y, (-p.hi).mul_add(y, m));
        let y = (rest * (1.0 / 3.0)).mul_add(square, y) * third.power(0);
        (magnitude.gt(Lane::zero()) & magnitude.lt(Lane::highest())).select(signed(y, sign(x)), x)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>(_: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [1.0 / (3.0 * y * y)]
    }
}

/// `√(x² + y²)`; see [`Lane::hypot`].
pub struct HypotFn;

impl HypotFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 0.6;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 0.6;
}

impl Function<2> for HypotFn {
    const NAME: &'static str = "hypot";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2]) -> Lane<L, P> {
        let (x, y) = (x.abs(), y.abs());
        let swap = x.lt(y);
        let (large, small) = (swap.select(y, x), swap.select(x, y));
        // Scaled by a power of two near 1 / large, clamped to where it and its inverse are normal numbers.
        let clamped = clamp(large, pick(1e-37, 1e-307), pick(4e37, 4e307));
        let exponent = clamped.to_bits() & word::<L, P>(exponent_mask::<P>());
        let scale = Lane::from_bits(word::<L, P>((2 * P::BIAS as u64) << P::FRACTION) - exponent);
        let [a, b] = [large * scale, small * scale].map(|x| Double::product(x, x));
        let sum = a.add_smaller(b);
        let root = sum.hi.sqrt();
        let rest = ((-root).mul_add(root, sum.hi) + sum.lo) / (root + root);
        let value = (root + rest) * Lane::from_bits(exponent);
        let value = large.eq(Lane::zero()).select(Lane::zero(), value);
        let infinity = Lane::literal(P::HIGHEST);
        let value = (x.is_nan() | y.is_nan()).select(x + y, value);
        (x.eq(infinity) | y.eq(infinity)).select(infinity, value)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2], value: Lane<L, P>) -> [Lane<L, P>; 2] {
        // At the origin the derivative is 1 in every direction; the result is the middle, 0.
        let origin = value.eq(Lane::zero());
        // If x is infinite and y is a number, the derivative is that of |x|.
        let infinity = Lane::literal(P::HIGHEST);
        let along = |x: Lane<L, P>, other: Lane<L, P>| {
            let sign = x.lt(Lane::zero()).select(Lane::real(-1.0), Lane::one());
            let steep =
                (x.abs().eq(infinity) & other.abs().lt(infinity)).select(sign, x.call2::<CosineFn>(other));
            origin.select(Lane::zero(), steep)
        };
        [along(x, y), along(y, x)]
    }
}

/// `x / √(x² + y²)`, the derivative of `hypot`. It is a function because the quotient rule cancels where `y`
/// is small.
struct CosineFn;

impl Function<2> for CosineFn {
    const NAME: &'static str = "hypot_cosine";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2]) -> Lane<L, P> {
        x / x.hypot(y)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2], cosine: Lane<L, P>) -> [Lane<L, P>; 2] {
        let radius = x.hypot(y);
        let sine = y / radius;
        [sine * sine / radius, -(sine * cosine) / radius]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// The cube root, to 0.6 units in the last place; of negative numbers too.
    #[inline(always)]
    pub fn cbrt(self) -> Self {
        self.call::<CbrtFn>()
    }
    /// `√(x² + y²)`, to 0.6 units in the last place, without intermediate overflow; ∞ if either is infinite,
    /// even if the other is NaN.
    #[inline(always)]
    pub fn hypot(self, other: impl IntoLane<L, P>) -> Self {
        self.call2::<HypotFn>(other.into_lane())
    }
}
