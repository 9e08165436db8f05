//! How many values become one: identity, absorb, combine, finish, over lanes.
// Imports: `scalar`, `element`.

use crate::element::{Compute, Element};
use crate::scalar::{Eval, Lane, Lanes, Prim};

/// What a reduction may carry along: a lane, or a tuple or array of such, so that a device can keep it lane by lane.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the state of a reduction",
    label = "a state is a lane, or a tuple of up to six, or an array of lanes"
)]
pub trait Accumulator<L: Lanes>: Copy {
    /// Shows each lane, in order, and puts what comes back in its place.
    fn each(self, f: &mut impl LaneVisitor<L>) -> Self;
}

/// What [`Accumulator::each`] shows lanes to.
pub trait LaneVisitor<L: Lanes> {
    /// A lane; what comes back takes its place.
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
macro_rules! carried {
    ($($($name:ident $index:tt)+;)*) => { $(
        impl<L: Lanes, $($name: Accumulator<L>),+> Accumulator<L> for ($($name,)+) {
            #[inline(always)]
            fn each(self, f: &mut impl LaneVisitor<L>) -> Self { ($(self.$index.each(f),)+) }
        }
    )* };
}
carried! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// Values that [`Reducer::accumulate_slice`] is handed at once, of those that are computed first. A reducer that takes more of them apart
/// into as many has the same bits of both.
pub(crate) const SLICE_ELEMENTS: usize = 1024;

/// [`Reducer::accumulate_slice`] without its types: of `n` values and the number of the first; the lanes of the state go to the last address,
/// one behind the other.
#[doc(hidden)]
pub type SliceFn = unsafe fn(values: *const u8, n: usize, at: usize, state: *mut u8);

/// A reduction of values of element `T` to one value, written once for every device.
///
/// Laws: `combine` is associative up to rounding, `identity` is its neutral element, and absorbing a value into a
/// state equals combining the state with one that absorbed only that value. Devices split the values into blocks of a
/// fixed size and combine the blocks' states pairwise, so results do not depend on the number of threads. Two states that
/// have absorbed nothing are combined too.
///
/// A reduction takes values in any order, so there `combine` must commute too, up to rounding; what depends on the order goes
/// by the place of each value, as `argmax` does. A scan keeps the order.
///
/// # Examples
/// A reducer of one's own, the largest absolute value:
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
///     fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> Self::State<L> { state.max(x.abs()) }
///     fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> { a.max(b) }
///     fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> { state }
/// }
/// let x = Tensor::from([[1.0, -5.0], [3.0, 2.0]]);
/// assert_eq!(x.reduce(MaxAbs, Axis::<1>)?.to_vec()?, [5.0, 3.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// A state of several lanes is a tuple. One function calls another as `<Self as Reducer<T>>::combine`, because
/// `Self::combine` does not say for which element:
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
///     fn accumulate<L: Lanes>(state: Self::State<L>, x: Lane<L, Compute<T>>, _: Lane<L, i64>) -> Self::State<L> {
///         <Self as Reducer<T>>::combine(state, (x, Lane::one()))
///     }
///     fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
///         let largest = a.0.max(b.0);
///         // Where both are −∞, which is the identity, their difference is NaN.
///         let [a, b] = [a, b].map(|(x, sum)| x.eq(largest).select(sum, sum * (x - largest).exp()));
///         (largest, a + b)
///     }
///     fn finalize<L: Lanes>((largest, sum): Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> { largest + sum.ln() }
/// }
/// let x = Tensor::from([[1000.0, 1000.0], [f64::NEG_INFINITY, 3.0]]);
/// assert_eq!(x.reduce(LogSumExp, Axis::<1>)?.to_vec()?, [1000.0 + 2f64.ln(), 3.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait Reducer<T: Element>: Copy + Send + Sync + 'static {
    /// Its name, in error messages.
    const NAME: &'static str;
    /// Whether no elements have no value: then such a reduction is [`Error::Empty`](crate::Error::Empty).
    const NEEDS_ELEMENTS: bool = false;
    /// See [`Op::CHEAP`](super::Op::CHEAP): whether absorbing is a few instructions.
    const CHEAP: bool = false;
    /// The element of the result.
    type Out: Element;
    /// What is carried along: a lane, or a tuple of lanes.
    type State<L: Lanes>: Accumulator<L>;
    /// The state that has absorbed nothing.
    fn identity<L: Lanes>() -> Self::State<L>;
    /// Takes in the value `x` that stands at number `at` (row-major over the reduced axes).
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        at: Lane<L, i64>,
    ) -> Self::State<L>;
    /// Joins two states.
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L>;
    /// The result, from the state that has absorbed all `count` values.
    fn finalize<L: Lanes>(state: Self::State<L>, count: Lane<L, i64>) -> Lane<L, Compute<Self::Out>>;
    /// Whether several values one behind the other are better taken by [`accumulate_slice`](Reducer::accumulate_slice).
    #[doc(hidden)]
    const BY_SLICE: bool = false;
    /// The state that has absorbed some values one behind the other, whose first stands at number `at`.
    #[doc(hidden)]
    #[inline(always)]
    fn accumulate_slice(values: &[Compute<T>], at: usize) -> Self::State<Eval> {
        let accumulate = |state, (k, &x): (usize, _)| {
            Self::accumulate::<Eval>(state, Lane(x), Lane(at.wrapping_add(k) as i64))
        };
        values.iter().enumerate().fold(Self::identity::<Eval>(), accumulate)
    }
    /// That function, if several values are better taken by it.
    #[doc(hidden)]
    fn slice() -> Option<SliceFn> {
        None
    }
}
