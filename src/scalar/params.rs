//! The interpretation that skips every step. It leaves the operands and run-time numbers that a body loads.
// Imports: `scalar`'s traits.

use super::{
    Arith, Bits, Compare, ComplexPrim, Function, IntegerPrim, Lanes, Logic, MinMaxRem, Num, Ordered, Part,
    Prim, Real, Shift, Unary,
};

/// The interpretation that does nothing. A device collects the run-time numbers of a compiled kernel with it.
pub struct CollectParams;

impl Lanes for CollectParams {
    type Raw<P: Prim> = ();
    #[inline(always)]
    fn literal<P: Prim>(_: P) {}
    #[inline(always)]
    fn arith<P: Num>(_: Arith, _: (), _: ()) {}
    #[inline(always)]
    fn negate<P: Num>(_: ()) {}
    #[inline(always)]
    fn order<P: Ordered>(_: MinMaxRem, _: (), _: ()) {}
    #[inline(always)]
    fn compare<P: Ordered>(_: Compare, _: (), _: ()) {}
    #[inline(always)]
    fn equal<P: Prim>(_: (), _: ()) {}
    #[inline(always)]
    fn logic<P: Bits>(_: Logic, _: (), _: ()) {}
    #[inline(always)]
    fn shift<P: IntegerPrim>(_: Shift, _: (), _: u32) {}
    #[inline(always)]
    fn unary<P: Real>(_: Unary, _: ()) {}
    #[inline(always)]
    fn mul_add<P: Real>(_: (), _: (), _: ()) {}
    #[inline(always)]
    fn select<P: Prim>(_: (), _: (), _: ()) {}
    #[inline(always)]
    fn cast<P: Prim, U: Prim>(_: ()) {}
    #[inline(always)]
    fn to_bits<P: Real>(_: ()) {}
    #[inline(always)]
    fn from_bits<P: Real>(_: ()) {}
    #[inline(always)]
    fn part<P: ComplexPrim>(_: Part, _: ()) {}
    #[inline(always)]
    fn complex<P: ComplexPrim>(_: (), _: ()) {}
    #[inline(always)]
    fn function<F: Function<N>, P: Real, const N: usize>(_: [(); N]) {}
}
