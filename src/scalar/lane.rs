//! The operations of `Lane<L, P>`, the value of one element inside a body.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lane, Lanes, Logic, MinMaxRem, Num, Ordered,
    Part, Prim, Real, Shift, Unary,
};
use std::ops;

/// An argument of a method of lanes: a lane, or a number written in the body, `f64` or `i64`.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     /// x inside [0, 1], 0 for NaN.
///     fn share(x) { x.is_nan().select(0.0, x.clamp(0, 1.0)) }
/// }
/// assert_eq!(Tensor::from([-2.0, 0.25, f64::NAN]).map(share)?.to_vec()?, [0.0, 0.25, 0.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument beside a `Lane<_, {P}>`",
    label = "neither a lane of `{P}` nor a number written in the body",
    note = "numbers in a body are `f64` or `i64`, `2.0` or `2`; a number known only at run time is an operand"
)]
pub trait IntoLane<L: Lanes, P: Prim> {
    /// Converts to a lane.
    fn into_lane(self) -> Lane<L, P>;
}
impl<L: Lanes, P: Prim> IntoLane<L, P> for Lane<L, P> {
    #[inline(always)]
    fn into_lane(self) -> Lane<L, P> {
        self
    }
}
impl<L: Lanes, P: Real> IntoLane<L, P> for f64 {
    #[inline(always)]
    fn into_lane(self) -> Lane<L, P> {
        Lane::real(self)
    }
}
impl<L: Lanes, P: Num> IntoLane<L, P> for i64 {
    #[inline(always)]
    fn into_lane(self) -> Lane<L, P> {
        Lane::int(self)
    }
}

#[allow(clippy::should_implement_trait)] // comparisons give lanes, not `bool`
impl<L: Lanes, P: Prim> Lane<L, P> {
    /// From the representation of a value in this interpretation, for implementers of interpretations.
    #[inline(always)]
    pub fn from_raw(raw: L::Raw<P>) -> Self {
        Lane(raw)
    }
    /// The representation of the value in this interpretation.
    #[inline(always)]
    pub fn raw(self) -> L::Raw<P> {
        self.0
    }
    /// A number written in the body. A number known only at run time is an operand instead.
    #[inline(always)]
    pub fn literal(value: P) -> Self {
        Lane(L::literal(value))
    }
    /// The same number in another compute type; see [`Prim::cast`] for the rules.
    #[inline(always)]
    pub fn cast<U: Prim>(self) -> Lane<L, U> {
        Lane(L::cast::<P, U>(self.0))
    }
    /// `self == other`; NaN equals nothing.
    #[inline(always)]
    pub fn eq(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        Lane(L::equal(self.0, other.into_lane().0))
    }
    /// `self != other`.
    #[inline(always)]
    pub fn ne(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        !self.eq(other)
    }
}

impl<L: Lanes, P: Num> Lane<L, P> {
    /// The gradient `self` times a slope, and 0 where the gradient is 0 and the slope infinite or NaN: no
    /// gradient flows to a branch that was not taken. Where the slope is finite it is a product, whose
    /// derivative by a gradient that is 0 is the slope.
    #[inline(always)]
    pub(crate) fn flow(self, slope: Self) -> Self {
        let product = self * slope;
        (self.eq(Lane::zero()) & product.ne(product)).select(Lane::zero(), product)
    }
}

impl<L: Lanes> Lane<L, bool> {
    /// `yes` where the mask holds, `no` elsewhere. Both are evaluated.
    #[inline(always)]
    pub fn select<P: Prim>(self, yes: impl IntoLane<L, P>, no: impl IntoLane<L, P>) -> Lane<L, P> {
        Lane(L::select(self.0, yes.into_lane().0, no.into_lane().0))
    }
}

impl<L: Lanes, P: Num> Lane<L, P> {
    /// An integer written in the body.
    #[inline(always)]
    pub fn int(value: i64) -> Self {
        Lane(L::literal(P::from_i64(value)))
    }
    /// 0.
    #[inline(always)]
    pub fn zero() -> Self {
        Self::int(0)
    }
    /// 1.
    #[inline(always)]
    pub fn one() -> Self {
        Self::int(1)
    }
    /// `self · self`.
    #[inline(always)]
    pub fn square(self) -> Self {
        self * self
    }
}

impl<L: Lanes, P: Ordered> Lane<L, P> {
    /// The largest value: +∞, the largest integer, or `true`.
    #[inline(always)]
    pub fn highest() -> Self {
        Lane(L::literal(P::HIGHEST))
    }
    /// The smallest value: −∞, the smallest integer, or `false`.
    #[inline(always)]
    pub fn lowest() -> Self {
        Lane(L::literal(P::LOWEST))
    }
    /// `self < other`.
    #[inline(always)]
    pub fn lt(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        Lane(L::compare(Compare::Lt, self.0, other.into_lane().0))
    }
    /// `self <= other`.
    #[inline(always)]
    pub fn le(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        Lane(L::compare(Compare::Le, self.0, other.into_lane().0))
    }
    /// `self > other`.
    #[inline(always)]
    pub fn gt(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        other.into_lane().lt(self)
    }
    /// `self >= other`.
    #[inline(always)]
    pub fn ge(self, other: impl IntoLane<L, P>) -> Lane<L, bool> {
        other.into_lane().le(self)
    }
    /// The larger; NaN if either is, +0 above −0 (IEEE 754-2019 `maximum`).
    #[inline(always)]
    pub fn max(self, other: impl IntoLane<L, P>) -> Self {
        Lane(L::order(MinMaxRem::Max, self.0, other.into_lane().0))
    }
    /// The smaller; NaN if either is, −0 below +0 (IEEE 754-2019 `minimum`).
    #[inline(always)]
    pub fn min(self, other: impl IntoLane<L, P>) -> Self {
        Lane(L::order(MinMaxRem::Min, self.0, other.into_lane().0))
    }
    /// At least `low` and at most `high`, which wins if `high < low`; NaN if any of the three is.
    #[inline(always)]
    pub fn clamp(self, low: impl IntoLane<L, P>, high: impl IntoLane<L, P>) -> Self {
        self.max(low).min(high)
    }
    /// An integer key that rises with the number. −0 is below +0, and every NaN is above all numbers.
    ///
    /// # Examples
    /// ```
    /// use rankform::scalar::{Lane, Eval};
    /// let key = |x: f32| Lane::<Eval, f32>::literal(x).order_key().value();
    /// assert!(key(-2.0) < key(-0.0) && key(-0.0) < key(0.0) && key(0.0) < key(f32::INFINITY));
    /// assert!(key(f32::INFINITY) < key(f32::NAN) && key(f32::INFINITY) < key(-f32::NAN));
    /// ```
    #[inline(always)]
    pub fn order_key(self) -> Lane<L, P::Key> {
        P::order_key(self)
    }
    /// The number with this [`order_key`](Lane::order_key).
    #[inline(always)]
    pub fn of_order_key(key: Lane<L, P::Key>) -> Self {
        P::of_order_key(key)
    }
    /// An integer key that falls as the number rises. −0 is above +0, and every NaN is above all numbers.
    #[inline(always)]
    pub fn reverse_key(self) -> Lane<L, P::Key> {
        P::reverse_key(self)
    }
    /// The number with this [`reverse_key`](Lane::reverse_key).
    #[inline(always)]
    pub fn of_reverse_key(key: Lane<L, P::Key>) -> Self {
        P::of_reverse_key(key)
    }
    /// Whether it is a NaN; false for every integer.
    #[inline(always)]
    pub fn is_nan(self) -> Lane<L, bool> {
        self.ne(self)
    }
}

#[allow(clippy::should_implement_trait)] // the distance is the same for every lane
impl<L: Lanes, P: IntegerPrim> Lane<L, P> {
    /// `self << by`; the distance counts modulo the width.
    #[inline(always)]
    pub fn shl(self, by: u32) -> Self {
        Lane(L::shift(Shift::Left, self.0, by))
    }
    /// `self >> by`; the distance counts modulo the width, signed integers keep their sign.
    #[inline(always)]
    pub fn shr(self, by: u32) -> Self {
        Lane(L::shift(Shift::Right, self.0, by))
    }
}

impl<L: Lanes, P: Real> Lane<L, P> {
    /// A real number written in the body.
    #[inline(always)]
    pub fn real(value: f64) -> Self {
        Lane(L::literal(P::from_f64(value)))
    }
    /// A named function of one variable.
    #[inline(always)]
    pub fn call<F: Function<1>>(self) -> Self {
        Lane(L::function::<F, P, 1>([self.0]))
    }
    /// A named function of two variables.
    #[inline(always)]
    pub fn call2<F: Function<2>>(self, other: Self) -> Self {
        Lane(L::function::<F, P, 2>([self.0, other.0]))
    }
    /// `self · b + c`, rounded once.
    #[inline(always)]
    pub fn mul_add(self, b: impl IntoLane<L, P>, c: impl IntoLane<L, P>) -> Self {
        Lane(L::mul_add(self.0, b.into_lane().0, c.into_lane().0))
    }
    /// Nearest integer, ties to even.
    #[inline(always)]
    pub fn round(self) -> Self {
        Lane(L::unary(Unary::Round, self.0))
    }
    /// Largest integer not above.
    #[inline(always)]
    pub fn floor(self) -> Self {
        Lane(L::unary(Unary::Floor, self.0))
    }
    /// Smallest integer not below.
    #[inline(always)]
    pub fn ceil(self) -> Self {
        Lane(L::unary(Unary::Ceil, self.0))
    }
    /// Integer part.
    #[inline(always)]
    pub fn trunc(self) -> Self {
        Lane(L::unary(Unary::Trunc, self.0))
    }
    /// Absolute value.
    #[inline(always)]
    pub fn abs(self) -> Self {
        Lane(L::unary(Unary::Abs, self.0))
    }
    /// Square root, correctly rounded; NaN below 0.
    #[inline(always)]
    pub fn sqrt(self) -> Self {
        Lane(L::unary(Unary::Sqrt, self.0))
    }
    /// `1 / self`.
    #[inline(always)]
    pub fn recip(self) -> Self {
        1.0 / self
    }
    /// `1 / √self`.
    #[inline(always)]
    pub fn rsqrt(self) -> Self {
        1.0 / self.sqrt()
    }
    /// Its bits as an unsigned integer, without a derivative.
    #[inline(always)]
    pub fn to_bits(self) -> Lane<L, P::Bits> {
        Lane(L::to_bits::<P>(self.0))
    }
    /// The number with these bits, without a derivative.
    #[inline(always)]
    pub fn from_bits(bits: Lane<L, P::Bits>) -> Self {
        Lane(L::from_bits::<P>(bits.0))
    }
}

impl<L: Lanes, P: ComplexPrim> Lane<L, P> {
    /// The real part.
    #[inline(always)]
    pub fn re(self) -> Lane<L, P::Part> {
        Lane(L::part::<P>(Part::Re, self.0))
    }
    /// The imaginary part.
    #[inline(always)]
    pub fn im(self) -> Lane<L, P::Part> {
        Lane(L::part::<P>(Part::Im, self.0))
    }
    /// A complex number from its parts.
    #[inline(always)]
    pub fn complex(re: Lane<L, P::Part>, im: Lane<L, P::Part>) -> Self {
        Lane(L::complex::<P>(re.0, im.0))
    }
    /// The conjugate.
    #[inline(always)]
    pub fn conj(self) -> Self {
        Self::complex(self.re(), -self.im())
    }
}

macro_rules! arith {
    ($($op:ident $method:ident)*) => { $(
        impl<L: Lanes, P: Num> ops::$op for Lane<L, P> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self { Lane(L::arith(Arith::$op, self.0, other.0)) }
        }
        impl<L: Lanes, P: Real> ops::$op<f64> for Lane<L, P> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: f64) -> Self {
                Lane(L::arith(Arith::$op, self.0, L::literal(P::from_f64(other))))
            }
        }
        impl<L: Lanes, P: Real> ops::$op<Lane<L, P>> for f64 {
            type Output = Lane<L, P>;
            #[inline(always)]
            fn $method(self, other: Lane<L, P>) -> Lane<L, P> {
                Lane(L::arith(Arith::$op, L::literal(P::from_f64(self)), other.0))
            }
        }
        impl<L: Lanes, P: Num> ops::$op<i64> for Lane<L, P> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: i64) -> Self {
                Lane(L::arith(Arith::$op, self.0, L::literal(P::from_i64(other))))
            }
        }
        impl<L: Lanes, P: Num> ops::$op<Lane<L, P>> for i64 {
            type Output = Lane<L, P>;
            #[inline(always)]
            fn $method(self, other: Lane<L, P>) -> Lane<L, P> {
                Lane(L::arith(Arith::$op, L::literal(P::from_i64(self)), other.0))
            }
        }
    )* };
}
arith!(Add add Sub sub Mul mul Div div);

macro_rules! logic {
    ($($op:ident $method:ident $logic:ident)*) => { $(
        impl<L: Lanes, P: Bits> ops::$op for Lane<L, P> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self { Lane(L::logic(Logic::$logic, self.0, other.0)) }
        }
    )* };
}
logic!(BitAnd bitand And BitOr bitor Or BitXor bitxor Xor);

impl<L: Lanes, P: Bits> ops::Not for Lane<L, P> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Lane(L::logic(Logic::Xor, self.0, L::literal(P::ONES)))
    }
}

impl<L: Lanes, P: Num> ops::Neg for Lane<L, P> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lane(L::negate(self.0))
    }
}

impl<L: Lanes, P: Num + Ordered> ops::Rem for Lane<L, P> {
    type Output = Self;
    #[inline(always)]
    fn rem(self, other: Self) -> Self {
        Lane(L::order(MinMaxRem::Rem, self.0, other.0))
    }
}
