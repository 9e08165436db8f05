//! Forward mode of reducers that state no slope, and of scans that are no sums: the reducer itself runs on
//! dual numbers.
//!
//! A value and its tangent are one complex number, the tangent being its imaginary part. It is only a pair: no
//! complex arithmetic is done with it.
// Imports: `dtype`, `scalar`, `element`, `kernel`, `autograd`.

use super::programs::{JvpBody, WithTangents};
use crate::autograd::state::has_gradient;
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::kernel::{Accumulator, Body, Io, LaneVisitor, Program, Reducer, Row};
use crate::scalar::{Dual, Lane, Lanes, Prim};
use num_complex::Complex;
use std::marker::PhantomData;

/// A value and its tangent.
pub(super) type Pair = Complex<f64>;

/// Whether a reducer of values `from` runs on dual numbers: values and results are real numbers with tangents.
pub(super) const fn runs_on_duals(from: DType, out: DType) -> bool {
    has_gradient(from) && has_gradient(out) && !from.is_complex() && !out.is_complex()
}

/// The value of a body with its tangent, as a pair; loads as in [`JvpBody`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PairBody<B, const MASK: u64>(pub(super) B);

/// A real value with its tangent, as a pair.
#[inline(always)]
fn pair<L: Lanes, P: Prim>(value: Lane<Dual<L>, P>) -> Lane<L, Pair> {
    Lane::complex(value.primal().cast(), value.tangent().cast())
}

impl<B: Body, const MASK: u64> Body for PairBody<B, MASK> {
    type Out = Pair;
    const LOADS: usize = JvpBody::<B, MASK>::LOADS;
    const BY_ROWS: bool = false;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = false;
    #[inline(always)]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[inline(always)]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Pair> {
        pair(self.0.eval::<Dual<L>>(&mut WithTangents::<_, MASK, false>::new(io, B::LOADS, 1)))
    }
}

/// A reducer of elements `T` on dual numbers, from pairs to pairs.
#[derive(Debug)]
pub(super) struct DualReducer<R, T>(PhantomData<(R, T)>);

impl<R, T> DualReducer<R, T> {
    pub(super) fn new() -> Self {
        DualReducer(PhantomData)
    }
}
impl<R, T> Clone for DualReducer<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, T> Copy for DualReducer<R, T> {}

/// The accumulator of a reducer on dual numbers.
pub(super) struct DualState<S>(S);

impl<S: Copy> Clone for DualState<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Copy> Copy for DualState<S> {}

/// Visits the values and the tangents of dual lanes.
struct Both<'a, V>(&'a mut V);

impl<L: Lanes, V: LaneVisitor<L>> LaneVisitor<Dual<L>> for Both<'_, V> {
    #[inline(always)]
    fn lane<P: Prim>(&mut self, lane: Lane<Dual<L>, P>) -> Lane<Dual<L>, P> {
        let value = self.0.lane(lane.primal());
        if const { P::DTYPE.is_discrete() } {
            return Lane::constant(value);
        }
        Lane::new(value, self.0.lane(lane.tangent()))
    }
}

impl<L: Lanes, S: Accumulator<Dual<L>>> Accumulator<L> for DualState<S> {
    #[inline(always)]
    fn each(self, f: &mut impl LaneVisitor<L>) -> Self {
        DualState(self.0.each(&mut Both(f)))
    }
}

impl<T: Element, R: Reducer<T>> Reducer<Pair> for DualReducer<R, T> {
    const NAME: &'static str = R::NAME;
    const NEEDS_ELEMENTS: bool = R::NEEDS_ELEMENTS;
    type Out = Pair;
    type State<L: Lanes> = DualState<R::State<Dual<L>>>;
    #[inline(always)]
    fn identity<L: Lanes>() -> Self::State<L> {
        DualState(R::identity::<Dual<L>>())
    }
    #[inline(always)]
    fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, Pair>, at: Lane<L, i64>) -> Self::State<L> {
        let dual = Lane::<Dual<L>, Compute<T>>::new(x.re().cast(), x.im().cast());
        DualState(R::accumulate::<Dual<L>>(state.0, dual, Lane::constant(at)))
    }
    #[inline(always)]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        DualState(R::combine::<Dual<L>>(a.0, b.0))
    }
    #[inline(always)]
    fn finalize<L: Lanes>(state: Self::State<L>, count: Lane<L, i64>) -> Lane<L, Pair> {
        pair(R::finalize::<Dual<L>>(state.0, Lane::constant(count)))
    }
}

/// The program that stores an f64 as an element.
#[derive(Debug)]
pub(super) struct Narrow<T>(PhantomData<T>);

impl<T> Narrow<T> {
    pub(super) fn new() -> Self {
        Narrow(PhantomData)
    }
}
impl<T> Clone for Narrow<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Narrow<T> {}

impl<T: Element> Program for Narrow<T> {
    const OUTPUTS: usize = 1;
    const LOADS: usize = 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = true;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = T::PLAIN;
    const COMPLEX: bool = false;
    const CHEAP: bool = true;
    #[inline(always)]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[inline(always)]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let value = io.load::<f64>();
        io.store::<T>(value.cast());
    }
}
