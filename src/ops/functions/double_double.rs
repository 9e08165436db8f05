//! Double-doubles: unevaluated sums of two floats, the second the rounding error of the first.
//!
//! Source: Dekker 1971, Knuth TAOCP 4.2.2, Ogita-Rump-Oishi 2005. Relative error of each step about 2^(2 −
//! 2·precision).
// Imports: `scalar`.

use super::bits::single;
use crate::scalar::{Lane, Lanes, Real};

/// `hi + lo`, with `|lo|` at most a few units in the last place of `hi`. Sums and products keep this bound;
/// [`normal`](Double::normal) reduces it to half a unit.
pub(super) struct Double<L: Lanes, P: Real> {
    pub(super) hi: Lane<L, P>,
    pub(super) lo: Lane<L, P>,
}

impl<L: Lanes, P: Real> Clone for Double<L, P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Lanes, P: Real> Copy for Double<L, P> {}

impl<L: Lanes, P: Real> Double<L, P> {
    #[inline(always)]
    pub(super) fn new(hi: Lane<L, P>, lo: Lane<L, P>) -> Self {
        Double { hi, lo }
    }

    /// A constant from its two words in each precision.
    #[inline(always)]
    pub(super) fn literal(f32: [f64; 2], f64: [f64; 2]) -> Self {
        let [hi, lo] = if single::<P>() { f32 } else { f64 };
        Double::new(Lane::real(hi), Lane::real(lo))
    }

    /// `a` where `mask` holds, `b` elsewhere.
    #[inline(always)]
    pub(super) fn select(mask: Lane<L, bool>, a: Self, b: Self) -> Self {
        Double::new(mask.select(a.hi, b.hi), mask.select(a.lo, b.lo))
    }

    /// `a + b` exactly.
    #[inline(always)]
    pub(super) fn sum(a: Lane<L, P>, b: Lane<L, P>) -> Self {
        let hi = a + b;
        let b_part = hi - a;
        Double::new(hi, (a - (hi - b_part)) + (b - b_part))
    }

    /// `a + b` exactly, where `|a| ≥ |b|` or `a = 0`.
    #[inline(always)]
    pub(super) fn fast_sum(a: Lane<L, P>, b: Lane<L, P>) -> Self {
        let hi = a + b;
        Double::new(hi, b - (hi - a))
    }

    /// `a · b` exactly, barring underflow.
    #[inline(always)]
    pub(super) fn product(a: Lane<L, P>, b: Lane<L, P>) -> Self {
        let hi = a * b;
        Double::new(hi, a.mul_add(b, -hi))
    }

    /// The same number with `lo` below half a unit of `hi`.
    #[inline(always)]
    pub(super) fn normal(self) -> Self {
        Double::fast_sum(self.hi, self.lo)
    }

    /// The nearest float.
    #[inline(always)]
    pub(super) fn value(self) -> Lane<L, P> {
        self.hi + self.lo
    }

    /// Both words times a power of two, or by -1.
    #[inline(always)]
    pub(super) fn scale(self, by: Lane<L, P>) -> Self {
        Double::new(self.hi * by, self.lo * by)
    }

    /// The sum where `|self| ≥ |b|` or `self = 0`.
    #[inline(always)]
    pub(super) fn add_smaller(self, b: Self) -> Self {
        let sum = Double::fast_sum(self.hi, b.hi);
        Double::new(sum.hi, sum.lo + (self.lo + b.lo))
    }

    /// The product.
    #[inline(always)]
    pub(super) fn mul(self, b: Self) -> Self {
        let product = Double::product(self.hi, b.hi);
        Double::new(product.hi, self.hi.mul_add(b.lo, self.lo.mul_add(b.hi, product.lo)))
    }

    /// The product with a float.
    #[inline(always)]
    pub(super) fn mul_float(self, b: Lane<L, P>) -> Self {
        let product = Double::product(self.hi, b);
        Double::new(product.hi, self.lo.mul_add(b, product.lo))
    }

    /// The quotient, by a single division: `1/b`, and then a correction by the residual.
    #[inline(always)]
    pub(super) fn div(self, b: Self) -> Self {
        let inverse = 1.0 / b.hi;
        let hi = self.hi * inverse;
        let rest = (-hi).mul_add(b.lo, (-hi).mul_add(b.hi, self.hi) + self.lo);
        Double::new(hi, rest * inverse)
    }

    /// The square root of a positive number.
    #[inline(always)]
    pub(super) fn sqrt(self) -> Self {
        let hi = self.hi.sqrt();
        let rest = (-hi).mul_add(hi, self.hi) + self.lo;
        Double::new(hi, rest / (hi + hi))
    }
}
