//! Kernels of forward mode, made from those of the values: Jacobian-vector products. Each is a program or
//! body again, so every device runs it, and it can be differentiated again.
// Imports: `dtype`, `scalar`, `element`, `kernel`, `device`.

use crate::device::MAX_OPERANDS;
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io, Program, Reducer, Row, Slope};
use crate::scalar::{Dual, Lane, Lanes, Num, Prim};
use num_complex::Complex;
use std::marker::PhantomData;

/// The mask of a kernel in which every load has a tangent.
pub(super) const ALL: u64 = u64::MAX;

/// `WINDOW + i` is the mask of the loads `i · room .. (i + 1) · room`, where `room` is the number of loads
/// for which a kernel has room beside the others.
pub(super) const WINDOW: u64 = 1 << 62;

/// The largest number of windows for which kernels are compiled.
pub(super) const MAX_WINDOWS: usize = 4;

/// The number of tangents for which a kernel of `loads` loads and `others` other operands has room.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
pub(super) const fn room(loads: usize, others: usize) -> usize {
    MAX_OPERANDS.saturating_sub(loads + others)
}

/// Whether a kernel has no room for the tangents of all its loads.
pub(super) const fn is_wide(loads: usize, others: usize) -> bool {
    room(loads, others) < loads
}

/// Whether load `k` has a tangent, in a kernel with this mask and this room.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
pub(super) const fn has_tangent(mask: u64, room: usize, k: usize) -> bool {
    match mask {
        ALL => true,
        WINDOW..ALL => room > 0 && k / room == (mask - WINDOW) as usize,
        _ => mask >> k & 1 == 1,
    }
}

/// The number of loads with tangents, of a kernel with this mask, of `loads` loads and `others` other
/// operands.
const fn loads_of(mask: u64, loads: usize, others: usize) -> usize {
    let (mut count, mut k) = (loads, 0);
    while k < loads {
        count += has_tangent(mask, room(loads, others), k) as usize;
        k += 1;
    }
    count
}

/// Runs a program with tangents. The tangent of a load is the next load, and that of a stored value is the
/// next output.
struct WithTangents<'a, IO, const MASK: u64, const VALUES: bool> {
    io: &'a mut IO,
    next: usize,
    room: usize,
}

impl<L: Lanes, IO: Io<L>, const MASK: u64, const VALUES: bool> Io<Dual<L>>
    for WithTangents<'_, IO, MASK, VALUES>
{
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<Dual<L>, Compute<T>> {
        let value = self.io.load::<T>();
        let k = self.next;
        self.next += 1;
        if !has_tangent(MASK, self.room, k) {
            return Lane::constant(value);
        }
        let tangent = self.io.load::<T>();
        if const { <Compute<T> as Prim>::DTYPE.is_discrete() } {
            return Lane::constant(value);
        }
        Lane::new(value, tangent)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, value: T) -> Lane<Dual<L>, Compute<T>> {
        Lane::constant(self.io.param(value))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, value: Lane<Dual<L>, Compute<T>>) {
        if VALUES {
            self.io.store::<T>(value.primal());
        }
        self.io.store::<T>(value.tangent());
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Dual<L>, Compute<T>> {
        Lane::constant(self.io.row_constant::<T>(value, loads))
    }
}

/// A program and its derivative along the tangents of the loads of a mask. The tangent of a load follows it;
/// the tangent of an output follows it too, or takes its place without `VALUES`.
#[derive(Clone, Copy, Debug)]
pub(super) struct JvpMap<P, const MASK: u64, const VALUES: bool>(pub(super) P);

impl<P: Program, const MASK: u64, const VALUES: bool> Program for JvpMap<P, MASK, VALUES> {
    const OUTPUTS: usize = if VALUES { 2 * P::OUTPUTS } else { P::OUTPUTS };
    const LOADS: usize = loads_of(MASK, P::LOADS, Self::OUTPUTS);
    const BY_ROWS: bool = false;
    const FIXED: bool = P::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = P::PLAIN;
    const COMPLEX: bool = P::COMPLEX;
    const CHEAP: bool = P::CHEAP;
    const IN_PLACE: bool = P::IN_PLACE && VALUES;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        self.0.variant()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let room = const { room(P::LOADS, Self::OUTPUTS) };
        self.0.run::<Dual<L>>(&mut WithTangents::<_, MASK, VALUES> { io, next: 0, room });
    }
}

/// The tangent of the value of a body; loads as in [`JvpMap`].
#[derive(Clone, Copy, Debug)]
pub(super) struct JvpBody<B, const MASK: u64>(pub(super) B);

impl<B: Body, const MASK: u64> Body for JvpBody<B, MASK> {
    type Out = B::Out;
    const LOADS: usize = loads_of(MASK, B::LOADS, 1);
    const BY_ROWS: bool = false;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        let room = const { room(B::LOADS, 1) };
        self.0.eval::<Dual<L>>(&mut WithTangents::<_, MASK, false> { io, next: 0, room }).tangent()
    }
}

/// The contribution of one value to the tangent of a reduction: the slope of the reducer times the tangent of
/// the value. Its loads are those of the body, as in [`JvpMap`]; then the result and the extra number of the
/// reducer's slope, unless the slope is constant.
#[derive(Debug)]
pub(super) struct JvpReduce<B, R, const MASK: u64> {
    pub(super) body: B,
    /// The number of reduced values.
    pub(super) count: f64,
    pub(super) reducer: PhantomData<R>,
}

impl<B: Clone, R, const MASK: u64> Clone for JvpReduce<B, R, MASK> {
    fn clone(&self) -> Self {
        JvpReduce { body: self.body.clone(), ..*self }
    }
}
impl<B: Copy, R, const MASK: u64> Copy for JvpReduce<B, R, MASK> {}

/// The number of operands of a reduction besides the loads of its body: the numbers that the slope reads, and
/// the output.
pub(super) const fn others_of(slope: Slope) -> usize {
    if matches!(slope, Slope::Constant) { 1 } else { 3 }
}

impl<B: Body, R: Reducer<B::Out>, const MASK: u64> Body for JvpReduce<B, R, MASK> {
    type Out = R::Out;
    const LOADS: usize = loads_of(MASK, B::LOADS, others_of(R::SLOPE)) + others_of(R::SLOPE) - 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = false;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN && R::Out::PLAIN && B::Out::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<R::Out>> {
        let room = const { room(B::LOADS, others_of(R::SLOPE)) };
        let mut tangents = WithTangents::<_, MASK, false> { io, next: 0, room };
        let (value, tangent) = self.body.eval::<Dual<L>>(&mut tangents).raw();
        let WithTangents { io, .. } = tangents;
        let (result, extra) = match R::SLOPE {
            Slope::Constant => (Lane::literal(Prim::from_bool(false)), Lane::literal(Prim::from_bool(false))),
            _ => (io.load::<R::Out>(), io.load::<B::Out>()),
        };
        let count = io.param::<f64>(self.count);
        let Some(tangent) = tangent else { return Lane::literal(Prim::from_bool(false)) };
        let slope = R::slope::<L>(Lane::from_raw(value), result, extra, count);
        let tangent = Lane::from_raw(tangent);
        match R::SLOPE {
            Slope::Shared => change(slope, tangent, Some(extra)),
            Slope::Parts => {
                let slopes = [slope, R::imaginary_slope::<L>(Lane::from_raw(value), result, extra, count)];
                let [re, im] = slopes.map(|slope| change::<L, _, f64>(slope, tangent, None));
                Lane::<L, Complex<f64>>::complex(re, im).cast()
            }
            _ => change(slope, tangent, None),
        }
    }
}

/// `slope · tangent`, and 0 where one is 0 and the other infinite or NaN. Where both are finite it is a
/// product, whose derivative by one of them is the other.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn product<L: Lanes, P: Num>(slope: Lane<L, P>, tangent: Lane<L, P>) -> Lane<L, P> {
    let product = slope * tangent;
    let is_zero = slope.eq(Lane::zero()) | tangent.eq(Lane::zero());
    (is_zero & product.ne(product)).select(Lane::zero(), product)
}

/// `slope · tangent / share`, as a number of type `Q`: its real part if `Q` is real.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn change<L: Lanes, P: Prim, Q: Prim>(
    slope: Lane<L, P>,
    tangent: Lane<L, P>,
    share: Option<Lane<L, P>>,
) -> Lane<L, Q> {
    macro_rules! change {
        ($P:ty) => {{
            let change = product(slope.cast::<$P>(), tangent.cast::<$P>());
            match share {
                Some(share) => (change / share.cast::<$P>()).cast(),
                None => change.cast(),
            }
        }};
    }
    match P::DTYPE {
        DType::F32 => change!(f32),
        DType::F64 => change!(f64),
        DType::C32 => change!(Complex<f32>),
        DType::C64 => change!(Complex<f64>),
        _ => Lane::literal(Q::default()),
    }
}

/// `Σ x` of floats or complex numbers, in their compute type.
#[derive(Clone, Copy, Debug)]
pub(super) struct TangentSum;

/// `a + b` of floats or complex numbers.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn sum<L: Lanes, P: Prim>(a: Lane<L, P>, b: Lane<L, P>) -> Lane<L, P> {
    match P::DTYPE {
        DType::F32 => (a.cast::<f32>() + b.cast::<f32>()).cast(),
        DType::F64 => (a.cast::<f64>() + b.cast::<f64>()).cast(),
        DType::C32 => (a.cast::<Complex<f32>>() + b.cast::<Complex<f32>>()).cast(),
        DType::C64 => (a.cast::<Complex<f64>>() + b.cast::<Complex<f64>>()).cast(),
        _ => a,
    }
}

impl<T: Element> Reducer<T> for TangentSum {
    const NAME: &'static str = "sum";
    const CHEAP: bool = true;
    type Out = T;
    type State<L: Lanes> = Lane<L, Compute<T>>;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn identity<L: Lanes>() -> Self::State<L> {
        Lane::literal(Prim::from_bool(false))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        _: Lane<L, i64>,
    ) -> Self::State<L> {
        sum(state, x)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        sum(a, b)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> {
        state
    }
    const SLOPE: Slope = Slope::Constant;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn slope<L: Lanes>(
        _: Lane<L, Compute<T>>,
        _: Lane<L, Compute<T>>,
        _: Lane<L, Compute<T>>,
        _: Lane<L, f64>,
    ) -> Lane<L, Compute<T>> {
        Lane::literal(Prim::from_bool(true))
    }
}
