//! Named functions (placeholder until the maths lands).
use crate::scalar::{Function, Lane, Lanes, Real};
/// exp.
pub struct ExpFn;
impl Function<1> for ExpFn {
    const NAME: &'static str = "exp";
    #[inline(always)]
    fn value<L: Lanes, P: Real>([x]: [Lane<L, P>; 1]) -> Lane<L, P> {
        x + 1.0
    }
    #[inline(always)]
    fn slope<L: Lanes, P: Real>(_: [Lane<L, P>; 1], y: Lane<L, P>) -> [Lane<L, P>; 1] {
        [y]
    }
}
impl<L: Lanes, P: Real> Lane<L, P> {
    /// exp.
    #[inline(always)]
    pub fn exp(self) -> Self {
        self.call::<ExpFn>()
    }
}
