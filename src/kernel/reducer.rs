//! Reductions of many values to one, over lanes: identity, accumulate, combine, finalize.
// Imports: `scalar`, `element`.

use crate::element::{Compute, Element};
use crate::scalar::{Eval, Lane, Lanes, Prim};

/// The accumulator of a reduction: a lane, or a tuple or array of accumulators. A device can keep it lane by
/// lane.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the state of a reduction",
    label = "a state is a lane, or a tuple of up to six, or an array of lanes"
)]
pub trait Accumulator<L: Lanes>: Copy {
    /// Calls `f` with each lane, in order, and replaces the lane by the result.
    fn each(self, f: &mut impl LaneVisitor<L>) -> Self;
}

/// The visitor of [`Accumulator::each`].
pub trait LaneVisitor<L: Lanes> {
    /// Receives a lane and returns its replacement.
    fn lane<P: Prim>(&mut self, lane: Lane<L, P>) -> Lane<L, P>;
}

impl<L: Lanes, P: Prim> Accumulator<L> for Lane<L, P> {
    #[inline(always)]
    fn each(self, f: &mut impl LaneVisitor<L>) -> Self {
        f.lane(self)
    }
}
impl<L: Lanes, C: Accumulator<L>, const N: usize> Accumulator<L> for [C; N] {
    #[inline(always)]
    fn each(self, f: &mut impl LaneVisitor<L>) -> Self {
        self.map(|lane| lane.each(f))
    }
}
macro_rules! accumulators {
    ($($($name:ident $index:tt)+;)*) => { $(
        impl<L: Lanes, $($name: Accumulator<L>),+> Accumulator<L> for ($($name,)+) {
            #[inline(always)]
            fn each(self, f: &mut impl LaneVisitor<L>) -> Self { ($(self.$index.each(f),)+) }
        }
    )* };
}
accumulators! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// The number of values that [`Reducer::accumulate_slice`] receives at once, where the values are computed
/// first. A reducer that cuts longer slices into slices of this length has the same bits on both paths.
pub(crate) const SLICE_ELEMENTS: usize = 1024;

/// [`Reducer::accumulate_slice`] without its types: it takes `n` values and the number of the first, and
/// writes the lanes of the accumulator to the last address, one after another.
#[doc(hidden)]
pub type SliceFn = unsafe fn(values: *const u8, n: usize, at: usize, state: *mut u8);

/// The quantities on which the [`slope`](Reducer::slope) of a reducer depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slope {
    /// There is no slope: the result is discrete, or the reducer does not say it.
    None,
    /// The number of values alone. Values, result and extra result are not read.
    Constant,
    /// The value, the result, the extra result and the number of values.
    Values,
    /// The value and the result alone. The slope is 0 or 1, and the values of slope 1 share: the derivative
    /// is the slope over the sum of all slopes. Equal largest values share so.
    Shared,
    /// As `Values`, for a complex result of real values. The slope is that of its real part, and
    /// [`imaginary_slope`](Reducer::imaginary_slope) that of its imaginary part.
    Parts,
}

/// The visitor of [`Reducer::extra`].
pub trait ExtraVisitor<T: Element> {
    /// The result of the visitor.
    type Result;
    /// The slope reads no extra result.
    fn none(self) -> Self::Result;
    /// The slope reads the result of this reducer.
    fn reducer<Q: Reducer<T, Out = T>>(self, reducer: Q) -> Self::Result;
}

/// A reduction of values of element `T` to one value, written once for every device.
///
/// Laws: `combine` is associative up to rounding, and `identity` is its neutral element. Accumulating a value
/// equals combining with an accumulator of that value alone. Devices cut the values into blocks of a fixed
/// size and combine the blocks' accumulators pairwise, so that results do not depend on the number of
/// threads. Two accumulators of no values may be combined too.
///
/// A reduction may take values in any order: its `combine` must also commute, up to rounding. A result that
/// depends on the order, as that of `argmax`, must use the position of each value. A scan keeps the order.
///
/// # Examples
/// A user's reducer, the largest absolute value:
/// ```
/// use rankform::prelude::*;
/// use rankform::{Lane, Lanes, kernel::Reducer};
/// #[derive(Clone, Copy)]
/// struct MaxAbs;
/// impl<T: Float> Reducer<T> for MaxAbs {
///     const NAME: &'static str = "max_abs";
///     type Out = T;
///     type State<L: Lanes> = Lane<L, Compute<T>>;
///     fn identity<L: Lanes>() -> Self::State<L> { Lane::zero() }
///     fn accumulate<L: Lanes>(
///         state: Self::State<L>,
///         x: Lane<L, Compute<T>>,
///         _: Lane<L, i64>,
///     ) -> Self::State<L> {
///         state.max(x.abs())
///     }
///     fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> { a.max(b) }
///     fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> { state }
/// }
/// let x = Tensor::from([[1.0, -5.0], [3.0, 2.0]]);
/// assert_eq!(x.reduce(MaxAbs, Axis::<1>)?.to_vec()?, [5.0, 3.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// An accumulator of several lanes is a tuple. One function calls another as `<Self as Reducer<T>>::combine`,
/// because `Self::combine` does not determine the element:
/// ```
/// use rankform::prelude::*;
/// use rankform::kernel::Reducer;
/// /// ln Σ eˣ without overflow; the state is the largest x and Σ e^(x − largest).
/// #[derive(Clone, Copy)]
/// struct LogSumExp;
/// impl<T: Float> Reducer<T> for LogSumExp {
///     const NAME: &'static str = "log_sum_exp";
///     type Out = T;
///     type State<L: Lanes> = (Lane<L, Compute<T>>, Lane<L, Compute<T>>);
///     fn identity<L: Lanes>() -> Self::State<L> { (Lane::lowest(), Lane::zero()) }
///     fn accumulate<L: Lanes>(
///         state: Self::State<L>,
///         x: Lane<L, Compute<T>>,
///         _: Lane<L, i64>,
///     ) -> Self::State<L> {
///         <Self as Reducer<T>>::combine(state, (x, Lane::one()))
///     }
///     fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
///         let largest = a.0.max(b.0);
///         // Where both are −∞, which is the identity, their difference is NaN.
///         let [a, b] = [a, b].map(|(x, sum)| x.eq(largest).select(sum, sum * (x - largest).exp()));
///         (largest, a + b)
///     }
///     fn finalize<L: Lanes>((largest, sum): Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> {
///         largest + sum.ln()
///     }
/// }
/// let x = Tensor::from([[1000.0, 1000.0], [f64::NEG_INFINITY, 3.0]]);
/// assert_eq!(x.reduce(LogSumExp, Axis::<1>)?.to_vec()?, [1000.0 + 2f64.ln(), 3.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// The derivative of a reducer is its [`slope`](Reducer::slope), and [`SLOPE`](Reducer::SLOPE) says what it
/// reads. A reducer without both works everywhere but in gradients:
/// ```
/// use rankform::prelude::*;
/// use rankform::kernel::{Reducer, Slope};
/// use rankform::scalar::Eval;
/// #[derive(Clone, Copy)]
/// struct SumSquares;
/// impl<T: Float> Reducer<T> for SumSquares {
///     const NAME: &'static str = "sum_squares";
///     type Out = T;
///     type State<L: Lanes> = Lane<L, Compute<T>>;
///     fn identity<L: Lanes>() -> Self::State<L> { Lane::zero() }
///     fn accumulate<L: Lanes>(
///         state: Self::State<L>,
///         x: Lane<L, Compute<T>>,
///         _: Lane<L, i64>,
///     ) -> Self::State<L> {
///         state + x * x
///     }
///     fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> { a + b }
///     fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> { state }
///     const SLOPE: Slope = Slope::Values;
///     fn slope<L: Lanes>(
///         x: Lane<L, Compute<T>>,
///         _result: Lane<L, Compute<T>>,
///         _extra: Lane<L, Compute<T>>,
///         _count: Lane<L, f64>,
///     ) -> Lane<L, Compute<T>> {
///         x * 2.0
///     }
/// }
/// let [x, y, n] = [3.0, 25.0, 2.0].map(Lane::<Eval, f64>::literal);
/// assert_eq!(<SumSquares as Reducer<f64>>::slope(x, y, Lane::zero(), n).value(), 6.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reducer of elements `{T}`",
    label = "expected a type that implements `Reducer<{T}>`",
    note = "built-in reducers: `ops::Sum`, `ops::Max`, …; a closure is none, because a reducer also states how it \
            begins, how two accumulators are joined, and its slope"
)]
pub trait Reducer<T: Element>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str;
    /// Whether it has no value for no elements: then an empty reduction is
    /// [`Error::Empty`](crate::Error::Empty).
    const NEEDS_ELEMENTS: bool = false;
    /// See [`Op::CHEAP`](super::Op::CHEAP): whether `accumulate` takes only a few instructions.
    const CHEAP: bool = false;
    /// The element type of the result.
    type Out: Element;
    /// The accumulator: a lane, or a tuple of lanes.
    type State<L: Lanes>: Accumulator<L>;
    /// The accumulator of no values.
    fn identity<L: Lanes>() -> Self::State<L>;
    /// Accumulates the value `x` at position `at` (row-major over the reduced axes).
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        at: Lane<L, i64>,
    ) -> Self::State<L>;
    /// Combines two accumulators.
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L>;
    /// The result, from the accumulator of all `count` values.
    fn finalize<L: Lanes>(state: Self::State<L>, count: Lane<L, i64>) -> Lane<L, Compute<Self::Out>>;
    /// The quantities on which [`slope`](Reducer::slope) depends.
    const SLOPE: Slope = Slope::None;
    /// How the result changes with one value: `∂result/∂x` at a value `x`, where `result` is that of all
    /// `count` values and `extra` is that of the [`extra`](Reducer::extra) reducer.
    ///
    /// Of complex values, the result changes by `slope · dx`; a real result, by the real part of it. A
    /// gradient is therefore multiplied by the conjugate of the slope.
    #[inline(always)]
    fn slope<L: Lanes>(
        _x: Lane<L, Compute<T>>,
        _result: Lane<L, Compute<Self::Out>>,
        _extra: Lane<L, Compute<T>>,
        _count: Lane<L, f64>,
    ) -> Lane<L, Compute<T>> {
        Lane::literal(Default::default())
    }
    /// The slope of the imaginary part of the result, if the reducer has [`Slope::Parts`].
    #[inline(always)]
    fn imaginary_slope<L: Lanes>(
        _x: Lane<L, Compute<T>>,
        _result: Lane<L, Compute<Self::Out>>,
        _extra: Lane<L, Compute<T>>,
        _count: Lane<L, f64>,
    ) -> Lane<L, Compute<T>> {
        Lane::literal(Default::default())
    }
    /// Passes the reducer over the same values whose result [`slope`](Reducer::slope) reads as `extra`, if
    /// there is one, to `visitor`.
    fn extra<V: ExtraVisitor<T>>(visitor: V) -> V::Result {
        visitor.none()
    }
    /// Whether a result can stand for its values: the result of some values and of `x` is
    /// [`fold`](Reducer::fold) of the result of these values and `x`. It can for products and extremes, and
    /// not for means. Scans by such a reducer have gradients.
    const FOLDS: bool = false;
    /// The result of the values of `result` and of the value `x`, which is later. Its derivatives are those
    /// of a scan. A reducer that [folds](Reducer::FOLDS) has the elements of its values.
    #[inline(always)]
    fn fold<L: Lanes>(result: Lane<L, Compute<T>>, x: Lane<L, Compute<T>>) -> Lane<L, Compute<T>> {
        let first = Self::accumulate(Self::identity::<L>(), result, Lane::literal(0));
        Self::finalize(Self::accumulate(first, x, Lane::literal(1)), Lane::literal(2)).cast()
    }
    /// Whether consecutive values are faster by [`accumulate_slice`](Reducer::accumulate_slice).
    #[doc(hidden)]
    const BY_SLICE: bool = false;
    /// The accumulator of consecutive values, of which the first is at position `at`.
    #[doc(hidden)]
    #[inline(always)]
    fn accumulate_slice(values: &[Compute<T>], at: usize) -> Self::State<Eval> {
        let accumulate = |state, (k, &x): (usize, _)| {
            Self::accumulate::<Eval>(state, Lane(x), Lane(at.wrapping_add(k) as i64))
        };
        values.iter().enumerate().fold(Self::identity::<Eval>(), accumulate)
    }
    /// `accumulate_slice` without its types, if it is the faster way.
    #[doc(hidden)]
    fn slice() -> Option<SliceFn> {
        None
    }
}
