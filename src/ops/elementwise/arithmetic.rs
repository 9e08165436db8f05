//! Arithmetic: sums, products, remainders, extremes, bits.
// Imports: `scalar`, `ops`.

use crate::ops::define::operators;
use crate::scalar::{IntegerPrim, Lane, Lanes, Num, Ordered};

/// Whether a remainder `r` by `y` has the other sign than `y`.
#[inline(always)]
fn has_other_sign<L: Lanes, P: Num + Ordered>(r: Lane<L, P>, y: Lane<L, P>) -> Lane<L, bool> {
    r.ne(Lane::zero()) & (r.lt(Lane::zero()) ^ y.lt(Lane::zero()))
}

/// `x` shifted by each power of two that `by` contains, one after the other: a variable distance made of
/// fixed ones.
#[inline(always)]
fn shifted<L: Lanes, P: IntegerPrim>(
    x: Lane<L, P>,
    by: Lane<L, P>,
    step: impl Fn(Lane<L, P>, u32) -> Lane<L, P>,
) -> Lane<L, P> {
    let mut shifted = x;
    for bit in 0..(8 * size_of::<P>() as u32).trailing_zeros() {
        let is_set = (by & Lane::int(1 << bit)).ne(Lane::zero());
        shifted = is_set.select(step(shifted, 1 << bit), shifted);
    }
    shifted
}

/// Whether a distance is negative, or at least the width of the element.
#[inline(always)]
fn is_out_of_width<L: Lanes, P: IntegerPrim>(by: Lane<L, P>) -> Lane<L, bool> {
    by.lt(Lane::zero()) | by.ge(Lane::int(8 * size_of::<P>() as i64))
}

/// Euclid's algorithm with a fixed number of steps: the longest case of each width is a pair of neighbors in
/// Fibonacci's sequence, which needs less than 1.45 steps per bit.
#[inline(always)]
fn common_divisor<L: Lanes, P: IntegerPrim>(x: Lane<L, P>, y: Lane<L, P>) -> Lane<L, P> {
    let (mut x, mut y) = (x, y);
    for _ in 0..12 * size_of::<P>() {
        // A divisor of 0 leaves 0, and the result no longer changes.
        let rest = x % y;
        let done = y.eq(Lane::zero());
        (x, y) = (done.select(x, y), rest);
    }
    magnitude(x)
}

/// The absolute value; wraps for the smallest integer. The sign decides, not the larger of x and −x: an
/// unsigned number can be below its own negative.
#[inline(always)]
fn magnitude<L: Lanes, P: Num + Ordered>(x: Lane<L, P>) -> Lane<L, P> {
    // −0 and NaN take the second branch.
    x.gt(Lane::zero()).select(x, -x.min(-x))
}

/// `x` multiplied by itself `n` times, by squaring for every bit of `n`.
#[inline(always)]
fn integer_power<L: Lanes, P: IntegerPrim>(x: Lane<L, P>, n: Lane<L, P>) -> Lane<L, P> {
    let (mut power, mut square) = (Lane::one(), x);
    for bit in 0..8 * size_of::<P>() as u32 {
        let is_set = (n.shr(bit) & Lane::one()).ne(Lane::zero());
        power = is_set.select(power * square, power);
        square = square * square;
    }
    // For a negative exponent the power is 1/x^|n|, which is 0 except for 1 and −1, whose powers equal those
    // of the positive exponent.
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
    /// `x / y`; truncated for integers, and 0 for an integer divided by 0, an error of
    /// [`checked_div`](crate::ops::CheckedDivision::checked_div).
    fn div = Div(x, y) where Number { x / y }
    /// The remainder with the sign of `x`, as Rust's `%`; 0 for an integer divisor of 0.
    fn rem = Rem(x, y) where RealNumber { x % y }
    /// The quotient rounded down, as Python's `//`: `−7 // 2` is −4.
    ///
    /// An integer divided by 0 is 0; a float divided by 0 is as by `/`. It agrees with
    /// [`remainder`](Arithmetic::remainder): `1.0 // 0.1` is 9, because 0.1 in binary is a little more.
    fn floor_divide = FloorDivide(x, y) where RealNumber {
        let r = x % y;
        let down = has_other_sign(r, y).select(Lane::one(), Lane::zero());
        let quotient = (x - r) / y;
        // This is an integer up to rounding. To round to the nearest, half a unit is added and the sum is
        // truncated; integers stay.
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
    /// The remainder with the sign of `y`, as Python's `%`: `−7 mod 2` is 1; 0 for an integer divisor of 0.
    /// For the sign of `x`, see [`rem`](Arithmetic::rem).
    #[doc(alias = "mod")]
    fn remainder = Remainder(x, y) where RealNumber {
        let r = x % y;
        let value = has_other_sign(r, y).select(r + y, r);
        // A zero has the sign of `y`. A sum with +0 is never −0, and keeps the derivative.
        y.lt(Lane::zero()).select(-(Lane::zero() - value), value + Lane::zero())
    }
    /// xⁿ of integers, wrapping. A negative exponent gives 1/x^|n| truncated: 0, except for 1 and −1.
    fn pow = Pow(x, n) where Integer { integer_power(x, n) }
    /// The larger of two numbers; NaN if either is NaN, +0 above −0 (IEEE 754-2019 `maximum`).
    #[doc(alias = "max")]
    fn maximum = Maximum(x, y) where Comparable { x.max(y) }
    /// The smaller of two numbers; NaN if either is NaN, −0 below +0 (IEEE 754-2019 `minimum`).
    #[doc(alias = "min")]
    fn minimum = Minimum(x, y) where Comparable { x.min(y) }
    /// The larger of two numbers, or the one that is not NaN (IEEE 754-2019 `maximumNumber`).
    fn fmax = Fmax(x, y) where Comparable { x.is_nan().select(y, y.is_nan().select(x, x.max(y))) }
    /// The smaller of two numbers, or the one that is not NaN (IEEE 754-2019 `minimumNumber`).
    fn fmin = Fmin(x, y) where Comparable { x.is_nan().select(y, y.is_nan().select(x, x.min(y))) }
    /// Heaviside's step function: 0 below 0, 1 above, `other` at 0; NaN for NaN.
    fn heaviside = Heaviside(x, at_zero) where RealNumber {
        let step = x.gt(Lane::zero()).select(Lane::one(), Lane::zero());
        x.is_nan().select(x, x.eq(Lane::zero()).select(at_zero, step))
    }
    /// The greatest common divisor, at least 0; that of 0 and x is |x|. It wraps where it is the magnitude of
    /// the smallest integer.
    fn gcd = Gcd(x, y) where Integer { common_divisor(x, y) }
    /// The least common multiple, at least 0; 0 where either is 0. It wraps.
    fn lcm = Lcm(x, y) where Integer { magnitude(x / common_divisor(x, y) * y) }
    /// `−x`; wraps for the smallest integer and for unsigned ones.
    fn neg = Neg(x) where Number { -x }
    /// `x · x`.
    fn square = Square(x) where Number { x.square() }
    /// `1 / x`.
    #[doc(alias = "reciprocal")]
    fn recip = Recip(x) where Float { x.recip() } slope of y { -(y * y) }
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
    /// `x << y`; 0 for a negative distance, or one of at least the width.
    #[doc(alias = "bitwise_left_shift")]
    fn shl = Shl(x, y) where Integer {
        is_out_of_width(y).select(Lane::zero(), shifted(x, y, |x, by| x.shl(by)))
    }
    /// `x >> y`; signed integers keep their sign. For a negative distance, or one of at least the width: −1
    /// for a negative integer, else 0.
    #[doc(alias = "bitwise_right_shift")]
    fn shr = Shr(x, y) where Integer {
        let sign = x.lt(Lane::zero()).select(Lane::zero() - Lane::one(), Lane::zero());
        is_out_of_width(y).select(sign, shifted(x, y, |x, by| x.shr(by)))
    }
    /// `!x`, bit by bit; the negation of a boolean.
    fn not = Not(x) where Bitwise { !x }
}
