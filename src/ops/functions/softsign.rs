//! `x / (1 + |x|)`.
// Imports: `scalar`.

use crate::scalar::{Function, Lane, Lanes, Real};

/// `x / (1 + |x|)`. It is a function because the quotient rule cancels for large `x`.
pub struct SoftsignFn;

impl Function<1> for SoftsignFn {
    const NAME: &'static str = "softsign";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        x / (x.abs() + 1.0)
    }
    #[inline(always)]
    fn derivative<L: Lanes, P: Real>([x]: [Lane<L, P>; 1], _: Lane<L, P>) -> [Lane<L, P>; 1] {
        let below = 1.0 / (x.abs() + 1.0);
        [below * below]
    }
}
