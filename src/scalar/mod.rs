//! The operator language, in which an operator's body describes the computation of one element.
//!
//! A body is ordinary generic Rust over [`Lane<L, P>`](Lane): one value of compute type `P` in an
//! interpretation `L`. [`Eval`] evaluates the steps, and the compiler vectorizes the loop around them.
//! [`Trace`] records them once as a graph, from which code for other processors is generated. [`Dual`]
//! differentiates them. A mask is a `Lane<L, bool>` and not a `bool`, so that `if` on an element does not
//! compile; [`Lane::select`] replaces it.
// Imports: `dtype`.

mod classes;
mod compute_type;
mod dual;
mod eval;
mod fast;
mod lane;
mod needs;
mod params;
mod trace;

pub use crate::dtype::DType;
pub use classes::{Bits, ComplexPrim, IntegerPrim, Num, Ordered, Prim, Real};
pub use dual::Dual;
pub use eval::Eval;
pub use fast::FastEval;
pub use lane::IntoLane;
pub use needs::{Need, Needs};
pub use params::CollectParams;
pub use trace::{Definition, Graph, Node, Trace};
pub(crate) use trace::{Storage, given, input, output, param, store, trace};

/// `+ - * /` on numbers. Integers wrap; an integer divided by 0 is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arith {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient, truncated for integers.
    Div,
}

impl Arith {
    /// All of them, in order.
    #[cfg(any(debug_assertions, feature = "dynamic"))]
    pub(crate) const ALL: [Arith; 4] = [Arith::Add, Arith::Sub, Arith::Mul, Arith::Div];
}

/// The operations that need an order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MinMaxRem {
    /// IEEE 754-2019 `maximum`: NaN if either is NaN, +0 above −0.
    Max,
    /// IEEE 754-2019 `minimum`.
    Min,
    /// Remainder with the sign of the dividend (C's `fmod`, Rust's `%`); 0 for an integer divisor of 0.
    Rem,
}

impl MinMaxRem {
    /// All of them, in order.
    #[cfg(any(debug_assertions, feature = "dynamic"))]
    pub(crate) const ALL: [MinMaxRem; 3] = [MinMaxRem::Max, MinMaxRem::Min, MinMaxRem::Rem];
}

/// Comparisons; false when an operand is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// Bitwise operations on integers and booleans.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Logic {
    /// Whether both are set.
    And,
    /// Whether either is set.
    Or,
    /// Whether exactly one is set.
    Xor,
}

/// Shifts of integers. The distance is taken modulo the width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shift {
    /// Towards the most significant bit.
    Left,
    /// Towards the least significant bit. Signed integers keep their sign.
    Right,
}

/// Exact functions of one real number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    /// Nearest integer, ties to even.
    Round,
    /// The largest integer not above the number.
    Floor,
    /// The smallest integer not below the number.
    Ceil,
    /// Integer part.
    Trunc,
    /// Absolute value.
    Abs,
    /// Square root, correctly rounded.
    Sqrt,
}

impl Unary {
    /// All of them, in order.
    #[cfg(any(debug_assertions, feature = "dynamic"))]
    pub(crate) const ALL: [Unary; 6] =
        [Unary::Round, Unary::Floor, Unary::Ceil, Unary::Trunc, Unary::Abs, Unary::Sqrt];
}

/// A part of a complex number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The real part.
    Re,
    /// The imaginary part.
    Im,
}

/// An interpretation of the language: the meaning of each primitive step.
///
/// Implement it to give bodies a new meaning (a cost model, interval arithmetic, another code generator): see
/// `examples/09_new_meaning.rs`. The trait lists steps only, and no functions by name: these arrive through
/// [`Lanes::function`], which may expand them by [`Function::value`].
pub trait Lanes: Sized + 'static {
    /// The representation of a value of compute type `P`.
    type Raw<P: Prim>: Copy;
    /// A number written in the body.
    fn literal<P: Prim>(value: P) -> Self::Raw<P>;
    /// `+ - * /`.
    fn arith<P: Num>(op: Arith, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<P>;
    /// `-a`; −0 if `a` is 0.
    fn negate<P: Num>(a: Self::Raw<P>) -> Self::Raw<P>;
    /// Maximum, minimum, remainder.
    fn order<P: Ordered>(op: MinMaxRem, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<P>;
    /// `a < b`, `a <= b`.
    fn compare<P: Ordered>(op: Compare, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<bool>;
    /// `a == b`.
    fn equal<P: Prim>(a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<bool>;
    /// `a & b`, `a | b`, `a ^ b`.
    fn logic<P: Bits>(op: Logic, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<P>;
    /// `a << by`, `a >> by`.
    fn shift<P: IntegerPrim>(op: Shift, a: Self::Raw<P>, by: u32) -> Self::Raw<P>;
    /// Rounding, absolute value, square root.
    fn unary<P: Real>(op: Unary, a: Self::Raw<P>) -> Self::Raw<P>;
    /// `a · b + c` with one rounding.
    fn mul_add<P: Real>(a: Self::Raw<P>, b: Self::Raw<P>, c: Self::Raw<P>) -> Self::Raw<P>;
    /// `mask ? a : b`, both evaluated.
    fn select<P: Prim>(mask: Self::Raw<bool>, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<P>;
    /// The same number in another compute type: see [`Prim::cast`].
    fn cast<P: Prim, U: Prim>(a: Self::Raw<P>) -> Self::Raw<U>;
    /// The bits of a real number.
    fn to_bits<P: Real>(a: Self::Raw<P>) -> Self::Raw<P::Bits>;
    /// The real number with these bits.
    fn from_bits<P: Real>(a: Self::Raw<P::Bits>) -> Self::Raw<P>;
    /// The real or imaginary part.
    fn part<P: ComplexPrim>(part: Part, a: Self::Raw<P>) -> Self::Raw<P::Part>;
    /// A complex number from its parts.
    fn complex<P: ComplexPrim>(re: Self::Raw<P::Part>, im: Self::Raw<P::Part>) -> Self::Raw<P>;
    /// A named function: evaluate its body, record its name, or apply its derivative.
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Self::Raw<P>; N]) -> Self::Raw<P>;
}

/// The value of one element inside an operator's body: compute type `P`, in interpretation `L`.
///
/// It has exactly the operators that `P` has: a boolean has no `+`, a complex number no `<`, an integer no
/// `exp`. Numbers may be written on either side (`x * 0.5`, `1.0 - x`, `x * 3`) and as arguments
/// (`x.max(0.0)`). A number alone is written as [`Lane::real`] or [`Lane::int`].
pub struct Lane<L: Lanes, P: Prim>(pub(crate) L::Raw<P>); // `x.gt(y)` compares, `mask.select(x, y)` chooses

impl<L: Lanes, P: Prim> Clone for Lane<L, P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Lanes, P: Prim> Copy for Lane<L, P> {}

/// A named function of `N` real variables. No other name enters the language.
///
/// The CPU evaluates `value`, a code generator may call its own function `NAME`, and differentiation applies
/// `derivative`. Operators that are plain compositions (`gelu`, `sigmoid`) need none of this: their bodies
/// suffice.
pub trait Function<const N: usize>: 'static {
    /// The name in C, as in `<math.h>` if the function is part of it.
    const NAME: &'static str;
    /// The value, without branches, so that a loop over it vectorizes.
    fn value<L: Lanes, P: Real>(x: [Lane<L, P>; N]) -> Lane<L, P>;
    /// The fast path: a cheaper form of `value`, and whether the argument is out of its range; [`FastEval`]
    /// says where it is used. The default is `value` itself.
    #[inline(always)]
    fn fast<L: Lanes, P: Real>(x: [Lane<L, P>; N]) -> (Lane<L, P>, Lane<L, bool>) {
        (Self::value(x), Lane::literal(false))
    }
    /// The partial derivatives at `x`, where the value is `y`.
    fn derivative<L: Lanes, P: Real>(x: [Lane<L, P>; N], y: Lane<L, P>) -> [Lane<L, P>; N];
}
