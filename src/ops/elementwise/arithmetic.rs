//! Sums, products, remainders, extremes, bits.
// Imports: `scalar`, `ops`.

use crate::ops::define::operators;
use crate::scalar::{IntegerPrim, Lane, Lanes, Num, Ordered};

/// Whether a remainder `r` by `y` is on the other side of 0 than `y`.
#[inline(always)]
fn other_side<L: Lanes, P: Num + Ordered>(r: Lane<L, P>, y: Lane<L, P>) -> Lane<L, bool> {
    r.ne(Lane::zero()) & (r.lt(Lane::zero()) ^ y.lt(Lane::zero()))
}

/// `x` shifted by each power of two in turn that `by` holds: a distance that is an element, of steps that have a fixed one.
#[inline(always)]
fn shifted<L: Lanes, P: IntegerPrim>(
    x: Lane<L, P>,
    by: Lane<L, P>,
    step: impl Fn(Lane<L, P>, u32) -> Lane<L, P>,
) -> Lane<L, P> {
    let mut shifted = x;
    for bit in 0..(8 * size_of::<P>() as u32).trailing_zeros() {
        let wanted = (by & Lane::int(1 << bit)).ne(Lane::zero());
        shifted = wanted.select(step(shifted, 1 << bit), shifted);
    }
    shifted
}

/// Whether a distance is below 0, or the width of the element and more.
#[inline(always)]
fn beyond<L: Lanes, P: IntegerPrim>(by: Lane<L, P>) -> Lane<L, bool> {
    by.lt(Lane::zero()) | by.ge(Lane::int(8 * size_of::<P>() as i64))
}

/// Euclid's algorithm, as many steps as the longest pair of the width needs: neighbors in Fibonacci's sequence, of which
/// fewer than 1.45 fit a bit.
#[inline(always)]
fn common_divisor<L: Lanes, P: IntegerPrim>(x: Lane<L, P>, y: Lane<L, P>) -> Lane<L, P> {
    let (mut x, mut y) = (x, y);
    for _ in 0..12 * size_of::<P>() {
        // A divisor of 0 leaves 0; then the result stays where it is.
        let rest = x % y;
        let done = y.eq(Lane::zero());
        (x, y) = (done.select(x, y), rest);
    }
    magnitude(x)
}

/// The absolute value; wraps for the smallest integer. An unsigned number is below its own negative.
#[inline(always)]
fn magnitude<L: Lanes, P: Num + Ordered>(x: Lane<L, P>) -> Lane<L, P> {
    // −0 and NaN take the second way.
    x.gt(Lane::zero()).select(x, -x.min(-x))
}

/// `x` multiplied by itself `n` times, for every bit of `n` in turn.
#[inline(always)]
fn whole_power<L: Lanes, P: IntegerPrim>(x: Lane<L, P>, n: Lane<L, P>) -> Lane<L, P> {
    let (mut power, mut square) = (Lane::one(), x);
    for bit in 0..8 * size_of::<P>() as u32 {
        let wanted = (n.shr(bit) & Lane::one()).ne(Lane::zero());
        power = wanted.select(power * square, power);
        square = square * square;
    }
    // Below 0: 1/x^|n|, which is 0 but for 1 and −1, whose powers are those of the positive exponent.
    let unit = x.eq(Lane::one()) | (x.eq(Lane::zero() - Lane::one()) & x.lt(Lane::zero()));
    (n.lt(Lane::zero()) & !unit).select(Lane::zero(), power)
}

operators! {
    /// Operators of two numbers, and `neg`, `square`, `abs`. Integers wrap; an integer divided by 0 is 0.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([7, -7, 5]), Tensor::from([2, 2, 0]));
    /// assert_eq!(x.add(&y)?, &x + &y); // `add` gives a `Result`, `+` panics where that is an error
    /// assert_eq!(x.div(&y)?.to_vec()?, [3, -3, 0]);
    /// assert_eq!(x.floor_divide(&y)?.to_vec()?, [3, -4, 0]);
    /// assert_eq!(x.maximum(0)?.to_vec()?, [7, 0, 5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Arithmetic;
    /// `x + y`.
    fn add = Add(x, y) where Number { x + y }
    /// `x − y`.
    fn sub = Sub(x, y) where Number { x - y }
    /// `x · y`.
    fn mul = Mul(x, y) where Number { x * y }
    /// `x / y`; truncated for integers, 0 for an integer divisor of 0, which [`checked_div`](super::CheckedDivision::checked_div) refuses.
    fn div = Div(x, y) where Number { x / y }
    /// The remainder with the sign of `x`, as Rust's `%`; 0 for an integer divisor of 0.
    fn rem = Rem(x, y) where RealNumber { x % y }
    /// The quotient rounded down, as Python's `//`: `−7 // 2` is −4.
    ///
    /// An integer divided by 0 is 0; a float divided by 0 is as by `/`. It agrees with [`remainder`](Arithmetic::remainder):
    /// `1.0 // 0.1` is 9, since 0.1 in binary is a little more.
    fn floor_divide = FloorDivide(x, y) where RealNumber {
        let r = x % y;
        let down = other_side(r, y).select(Lane::one(), Lane::zero());
        let quotient = (x - r) / y;
        // That is a whole number up to rounding. To the nearest: half a unit further out, then towards 0; for integers nothing.
        let half = Lane::one() / Lane::int(2);
        let further = quotient + quotient.lt(Lane::zero()).select(-half, half);
        let infinite = quotient.eq(Lane::highest()) | quotient.eq(Lane::lowest());
        let whole = (quotient % Lane::one()).eq(Lane::zero()) | infinite;
        let floor = whole.select(quotient, further - further % Lane::one()) - down;
        // A zero has the sign of the quotient that was rounded.
        let quotient = x / y;
        let floor = floor.eq(Lane::zero()).select(quotient * Lane::zero(), floor);
        y.eq(Lane::zero()).select(quotient, floor)
    }
    /// The remainder with the sign of `y`, as Python's `%`: `−7 mod 2` is 1; 0 for an integer divisor of 0. See
    /// [`rem`](Arithmetic::rem) for the other.
    #[doc(alias = "mod")]
    fn remainder = Remainder(x, y) where RealNumber {
        let r = x % y;
        let value = other_side(r, y).select(r + y, r);
        // A zero has the sign of `y`; a sum with +0 is never −0, and keeps the slope.
        y.lt(Lane::zero()).select(-(Lane::zero() - value), value + Lane::zero())
    }
    /// xⁿ of integers, wrapping. A negative exponent gives 1/x^|n| truncated: 0, but for 1 and −1.
    fn pow = Pow(x, n) where Integer { whole_power(x, n) }
    /// The larger; NaN if either is, +0 above −0 (IEEE 754-2019 `maximum`).
    #[doc(alias = "max")]
    fn maximum = Maximum(x, y) where Comparable { x.max(y) }
    /// The smaller; NaN if either is, −0 below +0 (IEEE 754-2019 `minimum`).
    #[doc(alias = "min")]
    fn minimum = Minimum(x, y) where Comparable { x.min(y) }
    /// The larger, or the one that is a number where the other is NaN (IEEE 754-2019 `maximumNumber`).
    fn fmax = Fmax(x, y) where Comparable { x.is_nan().select(y, y.is_nan().select(x, x.max(y))) }
    /// The smaller, or the one that is a number where the other is NaN (IEEE 754-2019 `minimumNumber`).
    fn fmin = Fmin(x, y) where Comparable { x.is_nan().select(y, y.is_nan().select(x, x.min(y))) }
    /// The step of Heaviside: 0 below 0, 1 above, `other` at 0; NaN for NaN.
    fn heaviside = Heaviside(x, at_zero) where RealNumber {
        let step = x.gt(Lane::zero()).select(Lane::one(), Lane::zero());
        x.is_nan().select(x, x.eq(Lane::zero()).select(at_zero, step))
    }
    /// The greatest common divisor, not below 0; that of 0 and x is |x|. It wraps where it is the magnitude of the
    /// smallest integer.
    fn gcd = Gcd(x, y) where Integer { common_divisor(x, y) }
    /// The least common multiple, not below 0; 0 where either is 0. It wraps.
    fn lcm = Lcm(x, y) where Integer { magnitude(x / common_divisor(x, y) * y) }
    /// `−x`; wraps for the smallest integer and for unsigned ones.
    fn neg = Neg(x) where Number { -x }
    /// `x · x`.
    fn square = Square(x) where Number { x.square() }
    /// `1 / x`.
    #[doc(alias = "reciprocal")]
    fn recip = Recip(x) where Float { x.recip() }
    /// The absolute value; wraps for the smallest integer.
    fn abs = Abs(x) where RealNumber { magnitude(x) }
    #[doc(alias = "sign")]
    /// −1, 0 or 1 by sign; NaN for NaN, 0 for both zeros.
    fn signum = Signum(x) where RealNumber {
        let sign = x.gt(Lane::zero()).select(Lane::one(), Lane::zero());
        let sign = x.lt(Lane::zero()).select(Lane::zero() - Lane::one(), sign);
        x.is_nan().select(x, sign)
    }
    /// `x & y`, bit by bit.
    fn bit_and = BitAnd(x, y) where Bitwise { x & y }
    /// `x | y`, bit by bit.
    fn bit_or = BitOr(x, y) where Bitwise { x | y }
    /// `x ^ y`, bit by bit.
    fn bit_xor = BitXor(x, y) where Bitwise { x ^ y }
    /// `x << y`; 0 for a distance below 0, or of the width and more.
    #[doc(alias = "bitwise_left_shift")]
    fn shl = Shl(x, y) where Integer { beyond(y).select(Lane::zero(), shifted(x, y, |x, by| x.shl(by))) }
    /// `x >> y`; signed integers keep their sign. For a distance below 0, or of the width and more, what is left in the end:
    /// −1 for a negative integer, else 0.
    #[doc(alias = "bitwise_right_shift")]
    fn shr = Shr(x, y) where Integer {
        let sign = x.lt(Lane::zero()).select(Lane::zero() - Lane::one(), Lane::zero());
        beyond(y).select(sign, shifted(x, y, |x, by| x.shr(by)))
    }
    /// `!x`, bit by bit; the other truth value of a boolean.
    fn not = Not(x) where Bitwise { !x }
}
