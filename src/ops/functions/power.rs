//! `powf`.
//!
//! `x^y = e^(y·ln x)`. The exponent may be 700; `ln x` is therefore computed as a double-double, to 2^-64
//! relative in `f64`.
// Imports: `scalar`.

use super::bits::{nan, sign, signed, single, word};
use super::double_double::Double;
use super::exp::exp_double;
use super::log::LogParts;
use super::polynomial::poly;
use crate::scalar::{Function, IntoLane, Lane, Lanes, Real};

/// `ln x` as a double-double for a positive finite `x`: `k·ln2 + 2·artanh(s)` with `s = (m − 1) / (m + 1)`.
#[inline(always)]
pub(super) fn ln_double<L: Lanes, P: Real>(x: Lane<L, P>) -> Double<L, P> {
    let parts = LogParts::of(x);
    let f = parts.mantissa - 1.0;
    let s = Double::new(f, Lane::zero()).div(Double::fast_sum(Lane::real(2.0), f));
    let z = s.mul(s);
    // 2·artanh(s) = 2s + s·z·(2/3 + z·(2/5 + z·…)): only the first two coefficients need two words.
    let rest = if single::<P>() {
        poly(z.hi, [0.4, 0.285716, 0.22198105, 0.19268574])
    } else {
        poly(
            z.hi,
            [
                0.4,
                0.2857142857143319,
                0.22222222220001114,
                0.18181818607250647,
                0.15384572753276135,
                0.13335769405495845,
                0.11684902765619866,
                0.11912211114695777,
            ],
        )
    };
    let third = Double::<L, P>::literal(
        [0.6666666865348816, -1.9868215517249155e-08],
        [0.6666666666666666, 3.700743415417188e-17],
    );
    let slope = Double::fast_sum(third.hi, z.hi * rest);
    let cubic = Double::new(slope.hi, slope.lo + third.lo).mul(z).mul(s);
    let ln_2 = Double::<L, P>::literal(super::exp::LN_2[0], super::exp::LN_2[1]);
    let whole = ln_2.mul_float(parts.exponent);
    whole.add_smaller(s.scale(Lane::real(2.0)).add_smaller(cubic))
}

/// `x^y`; see [`Lane::powf`].
pub struct PowFn;

impl PowFn {
    /// Error budget for `f32`.
    pub const ULP_F32: f64 = 1.0;
    /// Error budget for `f64`.
    pub const ULP_F64: f64 = 1.0;
}

impl Function<2> for PowFn {
    const NAME: &'static str = "pow";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2]) -> Lane<L, P> {
        let (zero, one, infinity) = (Lane::zero(), Lane::one(), Lane::highest());
        let magnitude = x.abs();
        let (k, power) = exp_double(ln_double(magnitude).mul_float(y));
        let finite = k.scale(power.value());
        // 0, ∞, or an infinite exponent give 0 or ∞, depending on the side of 1 and of 0 of the operands.
        let grows = !(magnitude.gt(one) ^ y.gt(zero));
        let edge = magnitude.eq(zero) | magnitude.eq(infinity) | y.abs().eq(infinity);
        let size = edge.select(grows.select(infinity, zero), finite);
        let size = magnitude.eq(one).select(one, size);
        // The sign, and NaN for a fractional power of a negative number.
        let half = y * 0.5;
        let whole = y.eq(y.round());
        let odd = whole & half.ne(half.round());
        let value = signed(size, odd.select(sign(x), word::<L, P>(0)));
        let undefined = x.lt(zero) & x.gt(Lane::lowest()) & !whole;
        let value = undefined.select(nan(), value);
        let value = (x.is_nan() | y.is_nan()).select(x + y, value);
        (x.eq(one) | y.eq(zero)).select(one, value)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x, y]: [Lane<L, P>; 2], value: Lane<L, P>) -> [Lane<L, P>; 2] {
        // The derivatives of x^0 by x and of 0^y by y are 0, whatever the other factor is.
        let by_base = y * (x.powf(y - 1.0));
        let by_exponent = value * x.ln();
        [
            y.eq(Lane::zero()).select(Lane::zero(), by_base),
            value.eq(Lane::zero()).select(Lane::zero(), by_exponent),
        ]
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// `self^exponent`, to 1 unit in the last place; special values as C's `pow` (1 for an exponent 0, NaN
    /// for a fractional power of a negative number).
    #[inline(always)]
    pub fn powf(self, exponent: impl IntoLane<L, P>) -> Self {
        self.call2::<PowFn>(exponent.into_lane())
    }
}
