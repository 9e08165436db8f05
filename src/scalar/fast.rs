//! The interpretation of fast paths: functions take forms that hold for most numbers, and each value carries
//! whether it is in doubt.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Eval, Function, IntegerPrim, Lane, Lanes, Logic, MinMaxRem, Num,
    Ordered, Part, Prim, Real, Shift, Unary,
};

/// The interpretation that computes with [`Function::fast`]. A raw lane is the value, and whether an argument
/// of some function on the way to it was out of range of the function's fast path: then the value is in
/// doubt. A loop evaluates a block of elements this way and, if one is in doubt, evaluates the block again by
/// [`Eval`]: see [`run_row`](crate::kernel::run_row).
///
/// # Examples
/// ```
/// use rankform::scalar::{Lane, FastEval};
/// let sine = |x: f32| Lane::<FastEval, f32>::certain(x).sin();
/// assert!(!sine(3.0).in_doubt());
/// assert!(sine(1e30).in_doubt()); // the distance to a multiple of π needs more digits
/// ```
pub struct FastEval;

impl<P: Prim> Lane<FastEval, P> {
    /// A value that is not in doubt.
    #[inline(always)]
    pub fn certain(value: P) -> Self {
        Lane((value, false))
    }
    /// The value, which is right unless it is in doubt.
    #[inline(always)]
    pub fn tried(self) -> P {
        self.0.0
    }
    /// Whether an argument was out of range of a fast path.
    #[inline(always)]
    pub fn in_doubt(self) -> bool {
        self.0.1
    }
}

impl Lanes for FastEval {
    type Raw<P: Prim> = (P, bool);
    #[inline(always)]
    fn literal<P: Prim>(value: P) -> (P, bool) {
        (value, false)
    }
    #[inline(always)]
    fn arith<P: Num>(op: Arith, a: (P, bool), b: (P, bool)) -> (P, bool) {
        (P::arith(op, a.0, b.0), a.1 | b.1)
    }
    #[inline(always)]
    fn negate<P: Num>(a: (P, bool)) -> (P, bool) {
        (P::negate(a.0), a.1)
    }
    #[inline(always)]
    fn order<P: Ordered>(op: MinMaxRem, a: (P, bool), b: (P, bool)) -> (P, bool) {
        (P::order(op, a.0, b.0), a.1 | b.1)
    }
    #[inline(always)]
    fn compare<P: Ordered>(op: Compare, a: (P, bool), b: (P, bool)) -> (bool, bool) {
        (P::compare(op, a.0, b.0), a.1 | b.1)
    }
    #[inline(always)]
    fn equal<P: Prim>(a: (P, bool), b: (P, bool)) -> (bool, bool) {
        (a.0 == b.0, a.1 | b.1)
    }
    #[inline(always)]
    fn logic<P: Bits>(op: Logic, a: (P, bool), b: (P, bool)) -> (P, bool) {
        (P::logic(op, a.0, b.0), a.1 | b.1)
    }
    #[inline(always)]
    fn shift<P: IntegerPrim>(op: Shift, a: (P, bool), by: u32) -> (P, bool) {
        (P::shift(op, a.0, by), a.1)
    }
    #[inline(always)]
    fn unary<P: Real>(op: Unary, a: (P, bool)) -> (P, bool) {
        (P::unary(op, a.0), a.1)
    }
    #[inline(always)]
    fn mul_add<P: Real>(a: (P, bool), b: (P, bool), c: (P, bool)) -> (P, bool) {
        (P::fused(a.0, b.0, c.0), a.1 | b.1 | c.1)
    }
    #[inline(always)]
    fn select<P: Prim>(mask: (bool, bool), a: (P, bool), b: (P, bool)) -> (P, bool) {
        (Eval::select(mask.0, a.0, b.0), mask.1 | a.1 | b.1)
    }
    #[inline(always)]
    fn cast<P: Prim, U: Prim>(a: (P, bool)) -> (U, bool) {
        (a.0.cast(), a.1)
    }
    #[inline(always)]
    fn to_bits<P: Real>(a: (P, bool)) -> (P::Bits, bool) {
        (a.0.bits(), a.1)
    }
    #[inline(always)]
    fn from_bits<P: Real>(a: (P::Bits, bool)) -> (P, bool) {
        (P::of_bits(a.0), a.1)
    }
    #[inline(always)]
    fn part<P: ComplexPrim>(part: Part, a: (P, bool)) -> (P::Part, bool) {
        (P::part(part, a.0), a.1)
    }
    #[inline(always)]
    fn complex<P: ComplexPrim>(re: (P::Part, bool), im: (P::Part, bool)) -> (P, bool) {
        (P::complex(re.0, im.0), re.1 | im.1)
    }
    #[inline(always)]
    fn function<F: Function<N>, P: Real, const N: usize>(x: [(P, bool); N]) -> (P, bool) {
        let (value, doubt) = F::fast::<Eval, P>(x.map(|x| Lane(x.0)));
        (value.0, x.iter().fold(doubt.0, |doubt, x| doubt | x.1))
    }
}
