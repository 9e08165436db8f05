//! The slopes of reducers, `∂result/∂x`, and the reducers whose results they read.
// Imports: `dtype`, `element`, `scalar`, `kernel`, `ops`.

use crate::dtype::Kind;
use crate::element::{Compute, Conjugate, Inexact, Number};
use crate::kernel::Reducer;
use crate::ops::functions::ExpDifferenceFn;
use crate::ops::reduction::lanes::ValueLane;
use crate::scalar::{Lane, Lanes, Num, Ordered, Prim, Real};

/// A lane of the compute type of the parts of `T`.
type PartLane<L, T> = Lane<L, Compute<<T as Conjugate>::Real>>;

/// The slope of a reducer, in its `impl`: the elements, what it depends on, the extra reducer if there is
/// one, and its value from `x`, the result, the extra result and the number of values. For `Parts`, that of
/// the imaginary part comes after it. See `fold!` for the last part.
macro_rules! slope {
    (<$T:ty> None $(;)?) => {};
    (<$T:ty> $kind:ident $(beside $Extra:ident)?
     |$x:pat_param, $y:pat_param, $extra:pat_param, $count:pat_param| $slope:expr
     $(
         , imaginary |$x_im:pat_param, $y_im:pat_param, $extra_im:pat_param, $count_im:pat_param|
         $imaginary:expr
     )?
     $(, fold |$result:ident, $later:ident| $fold:expr)? $(;)?) => {
        const SLOPE: $crate::kernel::Slope = $crate::kernel::Slope::$kind;
        #[inline(always)]
        fn slope<L: Lanes>(
            $x: Lane<L, Compute<$T>>,
            $y: Lane<L, Compute<Self::Out>>,
            $extra: Lane<L, Compute<$T>>,
            $count: Lane<L, f64>,
        ) -> Lane<L, Compute<$T>> {
            $slope
        }
        $(#[inline(always)]
        fn imaginary_slope<L: Lanes>(
            $x_im: Lane<L, Compute<$T>>,
            $y_im: Lane<L, Compute<Self::Out>>,
            $extra_im: Lane<L, Compute<$T>>,
            $count_im: Lane<L, f64>,
        ) -> Lane<L, Compute<$T>> {
            $imaginary
        })?
        $(fn extra<V: $crate::kernel::ExtraVisitor<$T>>(visitor: V) -> V::Result {
            visitor.reducer($Extra)
        })?
        $(crate::ops::reduction::slopes::fold! { <$T> |$result, $later| $fold })?
    };
}
pub(in crate::ops) use slope;

/// The derivative of a scan by a reducer, in its `impl`: the result of an earlier result and a later value.
macro_rules! fold {
    (<$T:ty> |$result:ident, $x:ident| $fold:expr) => {
        const FOLDS: bool = true;
        #[inline(always)]
        fn fold<L: Lanes>($result: Lane<L, Compute<$T>>, $x: Lane<L, Compute<$T>>) -> Lane<L, Compute<$T>> {
            $fold
        }
    };
}
pub(in crate::ops) use fold;

/// The larger number; the later one, with its derivative, if they are equal or `x` is NaN.
#[inline(always)]
pub(super) fn last_of_largest<L: Lanes, P: Ordered>(earlier: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    (x.ge(earlier) | x.ne(x)).select(x, earlier)
}

/// The smaller number; the later one, with its derivative, if they are equal or `x` is NaN.
#[inline(always)]
pub(super) fn last_of_smallest<L: Lanes, P: Ordered>(earlier: Lane<L, P>, x: Lane<L, P>) -> Lane<L, P> {
    (x.le(earlier) | x.ne(x)).select(x, earlier)
}

/// `ln(eᵃ + eᵇ)`, with exact derivatives of every order; at +∞ those of the larger number.
#[inline(always)]
pub(super) fn fold_exp_sums<L: Lanes, P: Real>(a: Lane<L, P>, b: Lane<L, P>) -> Lane<L, P> {
    // The bits of a number have no derivative, and the result does not depend on the shift.
    let largest = Lane::from_bits(a.max(b).to_bits());
    let shift = largest.eq(Lane::lowest()).select(Lane::zero(), largest);
    let sum = (a - shift).exp() + (b - shift).exp();
    largest.eq(Lane::highest()).select(a.max(b), shift + sum.ln())
}

/// `yes` where the mask holds, 0 elsewhere.
#[inline(always)]
fn only_where<L: Lanes, P: Num>(mask: Lane<L, bool>, yes: Lane<L, P>) -> Lane<L, P> {
    mask.select(yes, Lane::zero())
}

/// 1 for the values that equal an extreme, and for NaN if the extreme is NaN; 0 for the others.
#[inline(always)]
pub(super) fn of_extreme<L: Lanes, P: Prim>(x: Lane<L, P>, extreme: Lane<L, P>) -> Lane<L, P> {
    (x.eq(extreme) | (x.ne(x) & extreme.ne(extreme))).cast()
}

/// The product of the other values: of [`AllButOneZero`] at a zero, `product / x` elsewhere.
#[inline(always)]
pub(super) fn of_product<L: Lanes, P: Num>(
    x: Lane<L, P>,
    product: Lane<L, P>,
    all_but_one_zero: Lane<L, P>,
) -> Lane<L, P> {
    let is_zero = x.eq(Lane::zero());
    is_zero.select(all_but_one_zero, product / is_zero.select(Lane::one(), x))
}

/// `e^(x − sum)`, where `sum` is `ln Σ eˣ`; 0 where all values are −∞, and 1 at +∞.
#[inline(always)]
pub(super) fn of_exp_sum<L: Lanes, P: Real>(x: Lane<L, P>, sum: Lane<L, P>) -> Lane<L, P> {
    // The difference of equal infinities is NaN.
    let both_infinite = x.eq(Lane::highest()) & sum.eq(Lane::highest());
    let share = both_infinite.select(Lane::one(), x.call2::<ExpDifferenceFn>(sum));
    only_where(sum.ne(Lane::lowest()), share)
}

/// The slope of `Σ |x − mean|² / n`.
#[inline(always)]
pub(in crate::ops) fn of_var<T: Inexact, L: Lanes>(
    x: ValueLane<L, T>,
    mean: ValueLane<L, T>,
    n: Lane<L, f64>,
) -> ValueLane<L, T> {
    T::each_part(T::conj(x - mean), |part| part * 2.0 / at_least_zero(n).cast())
}

/// The slope of `√(Σ |x − mean|² / n)`; 0 where the root is 0.
#[inline(always)]
pub(in crate::ops) fn of_std<T: Inexact, L: Lanes>(
    x: ValueLane<L, T>,
    std: PartLane<L, T>,
    mean: ValueLane<L, T>,
    n: Lane<L, f64>,
) -> ValueLane<L, T> {
    T::each_part(T::conj(x - mean), |part| {
        only_where(std.ne(Lane::zero()), part / at_least_zero(n).cast() / std)
    })
}

/// The divisor of a variance: the count minus the correction, as `mean_square` takes it.
#[inline(always)]
fn at_least_zero<L: Lanes>(n: Lane<L, f64>) -> Lane<L, f64> {
    n.max(Lane::zero())
}

/// The slope of `√ Σ |x|²`; 0 where the root is 0.
#[inline(always)]
pub(super) fn of_norm<T: Inexact, L: Lanes>(
    x: ValueLane<L, T>,
    norm: Lane<L, impl Real>,
    _: ValueLane<L, T>,
) -> ValueLane<L, T> {
    T::each_part(T::conj(x), |part| only_where(norm.ne(Lane::zero()), part.cast() / norm).cast())
}

/// `|x|`.
#[inline(always)]
pub(super) fn magnitude<T: Inexact, L: Lanes>(x: ValueLane<L, T>) -> Lane<L, f64> {
    if T::DTYPE.kind() == Kind::Complex {
        T::re(x).cast::<f64>().hypot(T::im(x).cast())
    } else {
        T::re(x).cast::<f64>().abs()
    }
}

/// The slope of `Σ |x|`: the sign of a real number, `x̄ / |x|` of a complex one; 0 at 0.
#[inline(always)]
pub(super) fn of_norm_one<T: Inexact, L: Lanes>(
    x: ValueLane<L, T>,
    _: PartLane<L, T>,
    _: ValueLane<L, T>,
) -> ValueLane<L, T> {
    let size: PartLane<L, T> = magnitude::<T, L>(x).cast();
    T::each_part(T::conj(x), |part| {
        let sign = only_where(part.gt(0), Lane::one()) - only_where(part.lt(0), Lane::one());
        if T::DTYPE.kind() == Kind::Complex { only_where(size.ne(Lane::zero()), part / size) } else { sign }
    })
}

/// The slope of `max |x|`, which the largest values share; 0 where all are 0.
#[inline(always)]
pub(super) fn of_norm_max<T: Inexact, L: Lanes>(
    x: ValueLane<L, T>,
    largest: PartLane<L, T>,
    ties: ValueLane<L, T>,
) -> ValueLane<L, T> {
    let is_largest = magnitude::<T, L>(x).cast().eq(largest);
    T::each_part(of_norm_one::<T, L>(x, largest, ties), |part| only_where(is_largest, part / T::re(ties)))
}

/// The product of all values but one zero, which is that of the others at a zero: 0 if two are zero. Its own
/// slope is right if one at most is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllButOneZero;

impl<T: Number> Reducer<T> for AllButOneZero {
    const NAME: &'static str = "prod";
    type Out = T;
    /// The product of the nonzero values, and the number of zeros.
    type State<L: Lanes> = (ValueLane<L, T>, ValueLane<L, T>);
    #[inline(always)]
    fn identity<L: Lanes>() -> Self::State<L> {
        (Lane::one(), Lane::zero())
    }
    #[inline(always)]
    fn accumulate<L: Lanes>(
        (product, zeros): Self::State<L>,
        x: ValueLane<L, T>,
        _: Lane<L, i64>,
    ) -> Self::State<L> {
        let is_zero = x.eq(Lane::zero());
        (product * is_zero.select(Lane::one(), x), zeros + only_where(is_zero, Lane::one()))
    }
    #[inline(always)]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        (a.0 * b.0, a.1 + b.1)
    }
    #[inline(always)]
    fn finalize<L: Lanes>((product, zeros): Self::State<L>, _: Lane<L, i64>) -> ValueLane<L, T> {
        only_where(zeros.eq(Lane::zero()) | zeros.eq(Lane::one()), product)
    }
    slope! { <T> Values |x, y, _, _| of_product(x, y, Lane::zero()) }
}

/// The number of values of the largest magnitude. It is constant near almost all values: its slope is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargestTies;

impl<T: Inexact> Reducer<T> for LargestTies {
    const NAME: &'static str = "norm_max";
    type Out = T;
    /// The largest magnitude, and how many values have it.
    type State<L: Lanes> = (Lane<L, f64>, Lane<L, f64>);
    #[inline(always)]
    fn identity<L: Lanes>() -> Self::State<L> {
        (Lane::lowest(), Lane::zero())
    }
    #[inline(always)]
    fn accumulate<L: Lanes>(state: Self::State<L>, x: ValueLane<L, T>, _: Lane<L, i64>) -> Self::State<L> {
        // Magnitudes that the result does not distinguish are equal.
        let size: PartLane<L, T> = magnitude::<T, L>(x).cast();
        <Self as Reducer<T>>::combine(state, (size.cast(), Lane::one()))
    }
    #[inline(always)]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        let largest = a.0.max(b.0);
        (largest, only_where(a.0.eq(largest), a.1) + only_where(b.0.eq(largest), b.1))
    }
    #[inline(always)]
    fn finalize<L: Lanes>((_, ties): Self::State<L>, _: Lane<L, i64>) -> ValueLane<L, T> {
        ties.cast()
    }
    slope! { <T> Constant |_, _, _, _| Lane::zero() }
}
