//! The operator language: what the body of an operator may say about one element.
//!
//! A body is ordinary generic Rust over [`Lane<L, P>`](Lane): one value of machine type `P` in some interpretation `L`.
//! [`Eval`] carries the steps out, and the compiler turns the loop around them into SIMD code; [`Trace`] writes them
//! down once, as a graph from which other machines' code is made; [`Dual`] differentiates them. Masks are
//! `Lane<L, bool>` and not `bool`, so that `if` on an element cannot compile; [`Lane::select`] stands for it.
// Imports: `dtype`.

mod classes;
mod compute_type;
mod dual;
mod eval;
mod fast;
mod lane;
mod params;
mod trace;

pub use crate::dtype::DType;
pub use classes::{Bits, ComplexPrim, IntegerPrim, Num, Ordered, Prim, Real};
pub use dual::Dual;
pub use eval::Eval;
pub use fast::FastEval;
pub use lane::IntoLane;
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
    /// Each, in order.
    #[cfg(any(debug_assertions, feature = "dynamic"))]
    pub(crate) const ALL: [Arith; 4] = [Arith::Add, Arith::Sub, Arith::Mul, Arith::Div];
}

/// Choices that need an order.
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
    /// Each, in order.
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

/// Bit by bit, on integers and booleans.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Logic {
    /// Both.
    And,
    /// Either.
    Or,
    /// One but not both.
    Xor,
}

/// Shifts of integers; the distance counts modulo the width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shift {
    /// Towards the high end.
    Left,
    /// Towards the low end; signed integers keep their sign.
    Right,
}

/// Exact functions of one real number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    /// Nearest integer, ties to even.
    Round,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Integer part.
    Trunc,
    /// Absolute value.
    Abs,
    /// Square root, correctly rounded.
    Sqrt,
}

impl Unary {
    /// Each, in order.
    #[cfg(any(debug_assertions, feature = "dynamic"))]
    pub(crate) const ALL: [Unary; 6] =
        [Unary::Round, Unary::Floor, Unary::Ceil, Unary::Trunc, Unary::Abs, Unary::Sqrt];
}

/// One of the two real numbers in a complex one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The real part.
    Re,
    /// The imaginary part.
    Im,
}

/// An interpretation of the language: how each primitive step is carried out.
///
/// Implement it to give bodies a new meaning (a cost model, an interval arithmetic, another code generator): see
/// `examples/09_new_meaning.rs`. It lists steps only, never the name of a function; those arrive through
/// [`Lanes::function`] and can be expanded by [`Function::value`].
pub trait Lanes: Sized + 'static {
    /// What stands for a value of machine type `P`.
    type Raw<P: Prim>: Copy;
    /// A number written in the body.
    fn literal<P: Prim>(value: P) -> Self::Raw<P>;
    /// `+ - * /`.
    fn arith<P: Num>(op: Arith, a: Self::Raw<P>, b: Self::Raw<P>) -> Self::Raw<P>;
    /// `-a`; −0 for 0.
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
    /// The same number in another machine type: see [`Prim::cast`].
    fn cast<P: Prim, U: Prim>(a: Self::Raw<P>) -> Self::Raw<U>;
    /// The bits of a real number.
    fn to_bits<P: Real>(a: Self::Raw<P>) -> Self::Raw<P::Bits>;
    /// The real number with these bits.
    fn from_bits<P: Real>(a: Self::Raw<P::Bits>) -> Self::Raw<P>;
    /// The real or imaginary part.
    fn part<P: ComplexPrim>(part: Part, a: Self::Raw<P>) -> Self::Raw<P::Part>;
    /// A complex number from its parts.
    fn complex<P: ComplexPrim>(re: Self::Raw<P::Part>, im: Self::Raw<P::Part>) -> Self::Raw<P>;
    /// A named function: run its body, record its name, or apply its slope.
    fn function<F: Function<N>, P: Real, const N: usize>(x: [Self::Raw<P>; N]) -> Self::Raw<P>;
}

/// One element's value inside an operator's body: machine type `P`, in interpretation `L`.
///
/// Its operators are there exactly when `P` has them: a boolean has no `+`, a complex number no `<`, an integer no
/// `exp`. Numbers may be written on either side (`x * 0.5`, `1.0 - x`, `x * 3`) and as arguments
/// (`x.max(0.0)`); where a number stands alone, it is [`Lane::real`] or [`Lane::int`].
pub struct Lane<L: Lanes, P: Prim>(pub(crate) L::Raw<P>); // compared by `x.gt(y)`, chosen by `mask.select(yes, no)`

impl<L: Lanes, P: Prim> Clone for Lane<L, P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Lanes, P: Prim> Copy for Lane<L, P> {}

/// A named function of `N` real variables: the only way a name enters the language.
///
/// The CPU runs `value`, a code generator may call its own `NAME`, and differentiation applies `derivative`. Operators that
/// are plain compositions (`gelu`, `sigmoid`) need none of this: their bodies are enough.
pub trait Function<const N: usize>: 'static {
    /// The C name, as in `<math.h>` where it exists there.
    const NAME: &'static str;
    /// The value, branch-free, so that a loop over it vectorizes.
    fn value<L: Lanes, P: Real>(x: [Lane<L, P>; N]) -> Lane<L, P>;
    /// A cheaper form of `value`, and whether it is in doubt here; [`FastEval`] says who calls it. By default `value` itself.
    #[inline(always)]
    fn fast<L: Lanes, P: Real>(x: [Lane<L, P>; N]) -> (Lane<L, P>, Lane<L, bool>) {
        (Self::value(x), Lane::literal(false))
    }
    /// The partial derivatives at `x`, where the value is `y`.
    fn derivative<L: Lanes, P: Real>(x: [Lane<L, P>; N], y: Lane<L, P>) -> [Lane<L, P>; N];
}
