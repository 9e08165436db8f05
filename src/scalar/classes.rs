//! The classes of compute types, and the steps that each class has.
// Imports: `dtype`, and `scalar`'s step names.

use super::{Arith, Compare, Lane, Lanes, Logic, MinMaxRem, Part, Shift, Unary};
use crate::dtype::DType;
use num_complex::Complex;
use std::fmt;

/// A type in which bodies compute. It has 16 bytes at most.
pub trait Prim: Copy + Default + PartialEq + Send + Sync + fmt::Debug + bytemuck::NoUninit + 'static {
    /// Its name at run time.
    const DTYPE: DType;
    /// The same number in another type. Float to integer saturates (NaN gives 0), integer to integer wraps,
    /// complex to real drops the imaginary part, and any value but 0 is `true`.
    fn cast<U: Prim>(self) -> U;
    /// From a boolean: 0 or 1.
    fn from_bool(v: bool) -> Self;
    /// From a signed integer of at most 64 bits.
    fn from_i64(v: i64) -> Self;
    /// From an unsigned integer of at most 64 bits.
    fn from_u64(v: u64) -> Self;
    /// From a single-precision number.
    fn from_f32(v: f32) -> Self;
    /// From a double-precision number.
    fn from_f64(v: f64) -> Self;
    /// From a complex number.
    fn from_complex(v: Complex<f64>) -> Self;
    /// `a − b`; for booleans, whether they differ.
    fn difference<L: Lanes>(a: Lane<L, Self>, b: Lane<L, Self>) -> Lane<L, Self>;
}

/// A compute type with arithmetic: integers, reals, complex numbers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    label = "an operator body uses `+ - * /` on `{Self}`",
    note = "booleans have `& | ^ !` and `select`; `cast` them to a number first"
)]
pub trait Num: Prim {
    /// `+ - * /`.
    fn arith(op: Arith, a: Self, b: Self) -> Self;
    /// `-a`.
    fn negate(a: Self) -> Self;
}

/// A compute type with an order: integers, reals, and booleans, of which `false` is the smaller.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order",
    label = "an operator body compares `{Self}` values with `lt`, `max`, …"
)]
pub trait Ordered: Prim {
    /// The largest value: above every other.
    const HIGHEST: Self;
    /// The smallest value: below every other.
    const LOWEST: Self;
    /// Maximum, minimum, remainder. No body uses the remainder of booleans.
    fn order(op: MinMaxRem, a: Self, b: Self) -> Self;
    /// `a < b`, `a <= b`.
    fn compare(op: Compare, a: Self, b: Self) -> bool;
    /// The signed integer of the same width.
    type Key: IntegerPrim;
    /// See [`Lane::order_key`].
    fn order_key<L: Lanes>(x: Lane<L, Self>) -> Lane<L, Self::Key>;
    /// See [`Lane::of_order_key`].
    fn of_order_key<L: Lanes>(key: Lane<L, Self::Key>) -> Lane<L, Self>;
    /// See [`Lane::reverse_key`].
    fn reverse_key<L: Lanes>(x: Lane<L, Self>) -> Lane<L, Self::Key>;
    /// See [`Lane::of_reverse_key`].
    fn of_reverse_key<L: Lanes>(key: Lane<L, Self::Key>) -> Lane<L, Self>;
    /// The derivative of [`order`](Ordered::order): `x`, `y` and its value, and the tangents of `x` and `y`.
    /// Types without derivatives may return any value.
    #[inline(always)]
    fn order_tangent<L: Lanes>(
        _: MinMaxRem,
        _: [Lane<L, Self>; 3],
        [dx, _]: [Lane<L, Self>; 2],
    ) -> Lane<L, Self> {
        dx
    }
    /// `a + b`; for booleans, whether either is `true`.
    fn sum<L: Lanes>(a: Lane<L, Self>, b: Lane<L, Self>) -> Lane<L, Self>;
    /// `a · b`; for booleans, whether both are `true`.
    fn product<L: Lanes>(a: Lane<L, Self>, b: Lane<L, Self>) -> Lane<L, Self>;
    /// The same value, except that −0 becomes 0.
    #[inline(always)]
    fn one_zero<L: Lanes>(x: Lane<L, Self>) -> Lane<L, Self> {
        x
    }
}

/// A compute type whose values are bits: integers and booleans.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bits to combine",
    label = "an operator body uses `& | ^ !` on `{Self}`",
    note = "integers and booleans have them; for the bits of a float use `to_bits`"
)]
pub trait Bits: Prim {
    /// `& | ^`.
    fn logic(op: Logic, a: Self, b: Self) -> Self;
    /// All bits set; `true`.
    const ONES: Self;
}

/// An integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer type",
    label = "an operator body shifts `{Self}` values"
)]
pub trait IntegerPrim: Num + Ordered + Bits {
    /// `<<` and `>>`, by a distance that counts modulo the width.
    fn shift(op: Shift, a: Self, by: u32) -> Self;
}

/// A real floating-point number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a real floating-point type",
    label = "an operator body uses `exp`, `tanh`, … or a literal such as `0.5` on `{Self}`"
)]
pub trait Real: Num + Ordered {
    /// The unsigned integer of the same width.
    type Bits: IntegerPrim;
    /// The number of stored bits of the fraction.
    const FRACTION: u32;
    /// The exponent's bias.
    const BIAS: i32;
    /// Rounding, absolute value, square root.
    fn unary(op: Unary, a: Self) -> Self;
    /// `a · b + c` with one rounding.
    fn fused(a: Self, b: Self, c: Self) -> Self;
    /// Its bits.
    fn bits(self) -> Self::Bits;
    /// The number with these bits.
    fn of_bits(bits: Self::Bits) -> Self;
}

/// A complex number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a complex type",
    label = "an operator body takes `{Self}` apart"
)]
pub trait ComplexPrim: Num {
    /// The type of its parts.
    type Part: Real;
    /// The real or imaginary part.
    fn part(part: Part, a: Self) -> Self::Part;
    /// From its parts.
    fn complex(re: Self::Part, im: Self::Part) -> Self;
}
