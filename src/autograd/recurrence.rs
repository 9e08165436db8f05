//! Recurrences of the first order, `uₖ₊₁ = cₖ + aₖ · uₖ`, as scans.
// Imports: `scalar`, `element`, `kernel`, `autograd`.

use crate::element::{Compute, Element};
use crate::kernel::{Call, Input, Op, Reducer};
use crate::scalar::{Lane, Lanes};
use num_complex::Complex;
use std::marker::PhantomData;

/// The map `u ↦ c + a · u`, as a complex number of the parts `c` and `a`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AffineMap;

impl<T: Element> Op<(T, T)> for AffineMap {
    const CHEAP: bool = true;
    const NAME: &'static str = "affine_map";
    type Out = Complex<f64>;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn call<L: Lanes>((c, a): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Complex<f64>> {
        Lane::<L, Complex<f64>>::complex(c.cast::<f64>(), a.cast::<f64>())
    }
}

/// The body of a recurrence: the operands `c` and `a`.
pub(super) type AffineMaps<T> = Call<AffineMap, (Input<T>, Input<T>)>;

/// `uₖ₊₁ = cₖ + aₖ · uₖ` from `u₀ = 0`, in f64: the state is the composition of the maps. A gradient 0 stays
/// 0.
#[derive(Debug)]
pub(super) struct Recurrence<T>(PhantomData<fn(T)>);

impl<T> Recurrence<T> {
    pub(super) const fn new() -> Self {
        Recurrence(PhantomData)
    }
}
impl<T> Clone for Recurrence<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Recurrence<T> {}

impl<T: Element> Reducer<Complex<f64>> for Recurrence<T> {
    const NAME: &'static str = "recurrence";
    const CHEAP: bool = true;
    type Out = T;
    type State<L: Lanes> = (Lane<L, f64>, Lane<L, f64>);
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn identity<L: Lanes>() -> Self::State<L> {
        (Lane::zero(), Lane::one())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        map: Lane<L, Complex<f64>>,
        _: Lane<L, i64>,
    ) -> Self::State<L> {
        <Self as Reducer<Complex<f64>>>::combine(state, (map.re(), map.im()))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn combine<L: Lanes>(first: Self::State<L>, then: Self::State<L>) -> Self::State<L> {
        (then.0 + first.0.flow(then.1), first.1 * then.1)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn finalize<L: Lanes>((c, _): Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> {
        c.cast()
    }
}
