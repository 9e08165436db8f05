//! Sums, products, remainders, extremes, bits.
//!
//! Imports: nothing.

use super::operators;

operators! {
    /// Operators of two numbers, and `neg`, `square`, `abs`. Integers wrap; an integer divided by 0 is 0.
    pub trait Arithmetic;
    /// `x + y`.
    fn add = Add(x, y) where Number { x + y }
    /// `x − y`.
    fn sub = Sub(x, y) where Number { x - y }
    /// `x · y`.
    fn mul = Mul(x, y) where Number { x * y }
    /// `x / y`; truncated for integers, 0 for an integer divisor of 0.
    fn div = Div(x, y) where Number { x / y }
    /// The remainder with the sign of `x`, as Rust's `%`; 0 for an integer divisor of 0.
    fn rem = Rem(x, y) where Comparable { x % y }
    /// The larger; NaN if either is, +0 above −0 (IEEE 754-2019 `maximum`).
    #[doc(alias = "clamp")]
    fn maximum = Maximum(x, y) where Comparable { x.max(y) }
    /// The smaller; NaN if either is, −0 below +0 (IEEE 754-2019 `minimum`).
    fn minimum = Minimum(x, y) where Comparable { x.min(y) }
    /// `−x`; wraps for the smallest integer and for unsigned ones.
    fn neg = Neg(x) where Number { -x }
    /// `x · x`.
    fn square = Square(x) where Number { x * x }
    /// `1 / x`.
    fn recip = Recip(x) where Float { 1.0 / x }
    /// The absolute value; wraps for the smallest integer.
    fn abs = Abs(x) where Comparable {
        // An unsigned number is below its own negative; −0 and NaN take the second way.
        x.gt(Lane::zero()).select(x, -x.min(-x))
    }
    /// −1, 0 or 1 by sign; NaN for NaN, 0 for both zeros.
    fn signum = Signum(x) where Comparable {
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
    /// `!x`, bit by bit; the other truth value of a boolean.
    fn not = Not(x) where Bitwise { !x }
}
