//! The interpretation that computes: a raw lane is the value itself, and the compiler vectorizes the loop
//! around a body.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lane, Lanes, Logic, MinMaxRem, Num, Ordered,
    Part, Prim, Real, Shift, Unary,
};

/// The interpretation that computes.
///
/// # Examples
/// ```
/// use rankform::scalar::{Lane, Eval};
/// let x = Lane::<Eval, f64>::real(2.0);
/// assert_eq!((x * x + 1.0).value(), 5.0);
/// ```
pub struct Eval;

impl<P: Prim> Lane<Eval, P> {
    /// The number.
    #[inline(always)]
    pub fn value(self) -> P {
        self.0
    }
}

impl Lanes for Eval {
    type Raw<P: Prim> = P;
    #[inline(always)]
    fn literal<P: Prim>(value: P) -> P {
        value
    }
    #[inline(always)]
    fn arith<P: Num>(op: Arith, a: P, b: P) -> P {
        P::arith(op, a, b)
    }
    #[inline(always)]
    fn negate<P: Num>(a: P) -> P {
        P::negate(a)
    }
    #[inline(always)]
    fn order<P: Ordered>(op: MinMaxRem, a: P, b: P) -> P {
        P::order(op, a, b)
    }
    #[inline(always)]
    fn compare<P: Ordered>(op: Compare, a: P, b: P) -> bool {
        P::compare(op, a, b)
    }
    #[inline(always)]
    fn equal<P: Prim>(a: P, b: P) -> bool {
        a == b
    }
    #[inline(always)]
    fn logic<P: Bits>(op: Logic, a: P, b: P) -> P {
        P::logic(op, a, b)
    }
    #[inline(always)]
    fn shift<P: IntegerPrim>(op: Shift, a: P, by: u32) -> P {
        P::shift(op, a, by)
    }
    #[inline(always)]
    fn unary<P: Real>(op: Unary, a: P) -> P {
        P::unary(op, a)
    }
    #[inline(always)]
    fn mul_add<P: Real>(a: P, b: P, c: P) -> P {
        P::fused(a, b, c)
    }
    #[inline(always)]
    fn select<P: Prim>(mask: bool, a: P, b: P) -> P {
        if mask { a } else { b }
    }
    #[inline(always)]
    fn cast<P: Prim, U: Prim>(a: P) -> U {
        a.cast()
    }
    #[inline(always)]
    fn to_bits<P: Real>(a: P) -> P::Bits {
        a.bits()
    }
    #[inline(always)]
    fn from_bits<P: Real>(a: P::Bits) -> P {
        P::of_bits(a)
    }
    #[inline(always)]
    fn part<P: ComplexPrim>(part: Part, a: P) -> P::Part {
        P::part(part, a)
    }
    #[inline(always)]
    fn complex<P: ComplexPrim>(re: P::Part, im: P::Part) -> P {
        P::complex(re, im)
    }
    #[inline(always)]
    fn function<F: Function<N>, P: Real, const N: usize>(x: [P; N]) -> P {
        F::value::<Eval, P>(x.map(Lane)).0
    }
}
