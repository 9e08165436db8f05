//! Reductions: sums, products, extremes and their indices, means, variances, any and all.
//!
//! A reducer is written once, over lanes. Sums are combined pairwise from blocks of a fixed size, and do not
//! depend on the number of threads; see [`Reducer`].
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Comparable, Compute, Element, Float, Inexact, Number, bf16, f16};
use crate::error::Result;
use crate::expr::Reduce;
use crate::kernel::{Reducer, SLICE_ELEMENTS};
use crate::layout::Layout;
use crate::ops::reduction::define::{axis_and_along_methods, reduce_methods, reducers};
use crate::ops::reduction::exp_sums::{exp_sum_of, join_exp_sums};
use crate::ops::reduction::extremes::{Best, best_of_slice, best_of_two, position_of_best, with_score};
use crate::ops::reduction::lanes::{KeyLane, ValueLane};
use crate::ops::reduction::moments::{
    Moments, ShiftedSum, join_moments, mean_square, moments_of, shifted_sum_of, shifted_sums,
};
use crate::ops::reduction::slopes::{
    AllButOneZero, fold_exp_sums, last_of_largest, last_of_smallest, of_exp_sum, of_extreme, of_product,
    of_std, of_var,
};
use crate::ops::{Cast as _, ComplexParts as _};
use crate::rank::{HasAxes, RankMinusOne, RemoveAxes};
use crate::scalar::{Eval, Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination as Put, Existing, IntoViewMut, Tensor};
use num_complex::Complex;

reducers! {
    /// `Σ x`, in the element's compute type: f32 for 16-bit floats, wrapping for integers. 0 for no elements.
    Sum: "sum", <T: Number, L> -> T, state ValueLane<L, T> {
        identity Lane::zero();
        accumulate |s, x, _at| s + x;
        combine |a, b| a + b;
        finalize |s, _count| s;
        slope Constant |_, _, _, _| Lane::one();
    }

    /// `Π x`, in the element's compute type. 1 for no elements.
    Prod: "prod", <T: Number, L> -> T, state ValueLane<L, T> {
        identity Lane::one();
        accumulate |s, x, _at| s * x;
        combine |a, b| a * b;
        finalize |s, _count| s;
        slope Values beside AllButOneZero |x, y, others, _| of_product(x, y, others),
        fold |product, x| product * x;
    }

    /// The largest element; NaN if any is NaN.
    Max: "max" needs elements, <T: Comparable, L> -> T, state KeyLane<L, T> {
        identity Lane::lowest();
        accumulate |s, x, _at| s.max(x.order_key());
        combine |a, b| a.max(b);
        finalize |s, _count| Lane::of_order_key(s);
        slope Shared |x, y, _, _| of_extreme(x, y),
        fold |largest, x| last_of_largest(largest, x);
    }

    /// The smallest element; NaN if any is NaN.
    Min: "min" needs elements, <T: Comparable, L> -> T, state KeyLane<L, T> {
        identity Lane::lowest();
        accumulate |s, x, _at| s.max(x.reverse_key());
        combine |a, b| a.max(b);
        finalize |s, _count| Lane::of_reverse_key(s);
        slope Shared |x, y, _, _| of_extreme(x, y),
        fold |smallest, x| last_of_smallest(smallest, x);
    }

    /// `Σ x / n`; NaN for no elements.
    Mean: "mean", <T: Inexact, L> -> T, state ValueLane<L, T> {
        identity Lane::zero();
        accumulate |s, x, _at| s + x;
        combine |a, b| a + b;
        finalize |s, count| T::each_part(s, |part| part / count.cast());
        slope Constant |_, _, _, n| (1.0 / n).cast();
    }

    /// The index of the first of the largest elements; that of the first NaN if there is one.
    ArgMax: "argmax" needs elements, <T: Comparable, L> -> i64, state Best<L> {
        identity (Lane::lowest(), Lane::highest());
        accumulate |s, x, at| with_score(s, Ordered::one_zero(x).order_key().cast(), x.is_nan(), at);
        combine |a, b| best_of_two(a, b);
        accumulate_slice |values, from| best_of_slice::<T>(
            values, from, |x| x.order_key(), Lane::of_order_key
        ), largest;
        finalize |s, _count| position_of_best(s);
        slope None;
    }

    /// The index of the first of the smallest elements; that of the first NaN if there is one.
    ArgMin: "argmin" needs elements, <T: Comparable, L> -> i64, state Best<L> {
        identity (Lane::lowest(), Lane::highest());
        accumulate |s, x, at| with_score(s, Ordered::one_zero(x).reverse_key().cast(), x.is_nan(), at);
        combine |a, b| best_of_two(a, b);
        accumulate_slice |values, from| best_of_slice::<T>(
            values, from, |x| x.reverse_key(), Lane::of_reverse_key
        ), smallest;
        finalize |s, _count| position_of_best(s);
        slope None;
    }

    /// `Σ (x − mean)² / n`, by Welford's update and Chan's combination: no cancellation for a large mean. NaN
    /// for no elements.
    Var: "var", <T: Float, L> -> T, state Moments<L> {
        identity (Lane::zero(), Lane::zero(), Lane::zero());
        accumulate |s, x, _at| {
            let (n, x) = (s.0 + 1, x.cast::<f64>());
            let delta = x - s.1;
            let mean = s.1 + delta / n;
            // Both distances have one sign. If one overflows, so does the mean, and their product is −∞.
            (n, mean, delta.mul_add(x - mean, s.2).abs())
        };
        combine |a, b| join_moments(a, b);
        accumulate_slice |values, _from| moments_of(values), moments;
        finalize |s, count| mean_square(s, count, 0).cast();
        slope Values beside MeanF64 |x, _, mean, n| of_var::<T, L>(x, mean, n);
    }

    /// `Σ (x − mean)² / (n − 1)`: the variance of the population from which the sample comes. NaN for fewer
    /// than two.
    SampleVar: "sample_var", <T: Float, L> -> T, state Moments<L> {
        identity (Lane::zero(), Lane::zero(), Lane::zero());
        accumulate |s, x, at| <Var as Reducer<T>>::accumulate::<L>(s, x, at);
        combine |a, b| join_moments(a, b);
        accumulate_slice |values, _from| moments_of(values), moments;
        finalize |s, count| mean_square(s, count, 1).cast();
        slope Values beside MeanF64 |x, _, mean, n| of_var::<T, L>(x, mean, n - 1);
    }

    /// The root of [`Var`].
    Std: "std", <T: Float, L> -> T, state Moments<L> {
        identity (Lane::zero(), Lane::zero(), Lane::zero());
        accumulate |s, x, at| <Var as Reducer<T>>::accumulate::<L>(s, x, at);
        combine |a, b| join_moments(a, b);
        accumulate_slice |values, _from| moments_of(values), moments;
        finalize |s, count| mean_square(s, count, 0).sqrt().cast();
        slope Values beside MeanF64 |x, y, mean, n| of_std::<T, L>(x, y, mean, n);
    }

    /// The root of [`SampleVar`].
    SampleStd: "sample_std", <T: Float, L> -> T, state Moments<L> {
        identity (Lane::zero(), Lane::zero(), Lane::zero());
        accumulate |s, x, at| <Var as Reducer<T>>::accumulate::<L>(s, x, at);
        combine |a, b| join_moments(a, b);
        accumulate_slice |values, _from| moments_of(values), moments;
        finalize |s, count| mean_square(s, count, 1).sqrt().cast();
        slope Values beside MeanF64 |x, y, mean, n| of_std::<T, L>(x, y, mean, n - 1);
    }

    /// The mean and `Σ (x − mean)² / n`, as the two parts of a complex number. [`Reductions::mean_var`]
    /// separates them.
    MeanVar: "mean_var", <T: Float, L> -> Complex<f64>, state (Moments<L>, ValueLane<L, T>) {
        identity ((Lane::zero(), Lane::zero(), Lane::zero()), Lane::zero());
        accumulate |s, x, at| (<Var as Reducer<T>>::accumulate::<L>(s.0, x, at), s.1 + x);
        combine |a, b| (join_moments(a.0, b.0), a.1 + b.1);
        accumulate_slice |values, _from| {
            let (n, mean, squares) = moments_of(values);
            // Infinite distances, and distances to an infinity, have no mean; then the plain sum gives it.
            let sum = if mean.value().is_finite() {
                (n * mean).cast()
            } else {
                Lane::real(shifted_sums(values, 0.0).0)
            };
            ((n, mean, squares), sum)
        }, moments_and_sum;
        finalize |s, count| {
            let ((_, mean, squares), sum) = s;
            let is_mean = mean.abs().lt(Lane::highest()) & count.gt(Lane::zero());
            // Both are rounded to the element's compute type, as by `mean` and `var`.
            let mean = is_mean.select(mean.cast::<Compute<T>>(), sum / count.cast());
            let var = (squares / count.cast::<f64>()).cast::<Compute<T>>();
            Lane::complex(mean.cast::<f64>(), var.cast::<f64>())
        };
        slope Parts beside MeanF64 |_, _, _, n| (1.0 / n).cast(),
        imaginary |x, _, mean, n| of_var::<T, L>(x, mean, n);
    }

    /// `Σ x / n` in f64, from the distances to a first value. The mean of equal numbers is exactly that
    /// number. NaN for no elements.
    MeanF64: "mean", <T: Float, L> -> T, state ShiftedSum<L> {
        identity (Lane::zero(), Lane::zero(), Lane::zero());
        accumulate |s, x, _at| {
            let from = s.0.eq(Lane::zero()).select(x.cast::<f64>(), s.1);
            (s.0 + 1, from, s.2 + (x.cast::<f64>() - from))
        };
        combine |a, b| {
            let from = a.0.eq(Lane::zero()).select(b.1, a.1);
            let difference = b.0.eq(Lane::zero()).select(Lane::zero(), b.1 - from);
            (a.0 + b.0, from, a.2 + difference.mul_add(b.0, b.2))
        };
        accumulate_slice |values, _from| {
            let mut state = <Self as Reducer<T>>::identity::<Eval>();
            for piece in values.chunks(SLICE_ELEMENTS) {
                state = <Self as Reducer<T>>::combine::<Eval>(state, shifted_sum_of(piece));
            }
            state
        }, shifted;
        finalize |s, count| (s.1 + s.2 / count.cast::<f64>()).cast();
        slope Constant |_, _, _, n| (1.0 / n).cast();
    }

    /// `ln Σ eˣ` without overflow: the state is the largest x and `Σ e^(x − largest)`. −∞ for no elements.
    LogSumExp: "logsumexp", <T: Float, L> -> T, state (ValueLane<L, T>, ValueLane<L, T>) {
        identity (Lane::lowest(), Lane::zero());
        accumulate |s, x, _at| join_exp_sums(s, (x, Lane::one()));
        combine |a, b| join_exp_sums(a, b);
        accumulate_slice |values, _from| {
            let mut state = <Self as Reducer<T>>::identity::<Eval>();
            for piece in values.chunks(SLICE_ELEMENTS) { state = join_exp_sums(state, exp_sum_of(piece)); }
            state
        }, exp_sums;
        finalize |s, _count| s.0 + s.1.ln();
        slope Values |x, y, _, _| of_exp_sum(x, y),
        fold |sum, x| fold_exp_sums(sum, x);
    }

    /// Whether any is `true`; `false` for no elements.
    Any: "any", <T: BoolElement, L> -> bool, state Lane<L, bool> {
        identity Lane::literal(false);
        accumulate |s, x, _at| s | x.cast();
        combine |a, b| a | b;
        finalize |s, _count| s;
        slope None;
    }

    /// Whether all are `true`; `true` for no elements.
    AllTrue: "all", <T: BoolElement, L> -> bool, state Lane<L, bool> {
        identity Lane::literal(true);
        accumulate |s, x, _at| s & x.cast();
        combine |a, b| a & b;
        finalize |s, _count| s;
        slope None;
    }

    /// The number of `true` elements.
    Count: "count", <T: BoolElement, L> -> i64, state Lane<L, i64> {
        identity Lane::zero();
        accumulate |s, x, _at| s + x.cast();
        combine |a, b| a + b;
        finalize |s, _count| s;
        slope None;
    }
}

/// Writes both parts into their destinations.
fn put_mean_var<T: Float, const M: usize, D: Device, A: Put<T, M, D>, B: Put<T, M, D>>(
    op: &'static str,
    both: &Tensor<Complex<f64>, M, D>,
    (mean, var): (A, B),
) -> Result<(A::Done, B::Done)> {
    let layout = Layout::row_major(both.size());
    mean.put_with(op, layout, both.device(), |mean| {
        var.put(op, layout, both.device(), |var| {
            both.lazy().re().cast().eval_into(&mut *mean)?;
            both.lazy().im().cast().eval_into(var)
        })
    })
}

/// The class of booleans, the elements of `any`, `all` and `count`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a truth value",
    label = "this reduction needs booleans, not `{Self}`",
    note = "compare first: `.not_equal(0)`, `.greater(x)`, …"
)]
pub trait BoolElement: Element<Compute = bool> {}
impl BoolElement for bool {}

/// A visitor of reductions; see [`each_reduction`].
pub trait VisitReductions {
    /// Visits a reduction of elements `T`.
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self);
}

/// Passes every reduction of [`Reductions`] that has one result to `visit`, once for each element type that
/// it takes: numbers, floats and booleans as in the table of methods. Means and variances are not passed for
/// complex numbers.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::kernel::Reducer;
/// use rankform::ops::{VisitReductions, each_reduction};
/// #[derive(Default)]
/// struct Names(Vec<&'static str>);
/// impl VisitReductions for Names {
///     fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) { self.0.push(R::NAME) }
/// }
/// let mut names = Names::default();
/// each_reduction(&mut names);
/// assert!(names.0.contains(&"sum") && names.0.contains(&"all"));
/// ```
pub fn each_reduction(visit: &mut impl VisitReductions) {
    macro_rules! each {
        ($($f:ident: $($t:ty)*;)*) => { $($($f::<$t>(visit);)*)* };
    }
    each! {
        of_numbers: f32 f64 i32 i64 f16 bf16 i8 i16 u8 u16 u32 u64 Complex<f16> Complex<f32> Complex<f64>;
        of_comparables: f32 f64 i32 i64 f16 bf16 i8 i16 u8 u16 u32 u64;
        of_floats: f32 f64 f16 bf16;
    }
    of_bools(visit);
}

/// Methods of reductions: `x.sum(axes)` over axes known at compile time, `x.sum_axis(axis)` over one known at
/// run time, `x.sum_along(axes)` broadcast back, and `x.sum_into(axes, &mut out)`.
macro_rules! reductions {
    (
        $(#[$trait_doc:meta])* pub trait Reductions;
        $($(#[$doc:meta])*
        fn $name:ident, $name_axis:ident, $name_along:ident, $name_along_axis:ident, $name_into:ident
            = $R:ident where $class:ident $(of $of:ident)?;)*
        also $($also:tt)*
    ) => {
        $(#[$trait_doc])*
        pub trait Reductions<T, const RANK: usize, D: Device>: Reduce<T, RANK, D> {
            $(
                reduce_methods! {
                    Reductions $(#[$doc])*
                    fn $name, $name_into = $R where [T: $class, $($R: Reducer<$of>,)?]
                }
                axis_and_along_methods! {
                    fn $name, $name_axis, $name_along, $name_along_axis = $R
                    where [T: $class, $($R: Reducer<$of>,)?]
                }
            )*
            $($also)*
        }
        impl<X: Reduce<T, RANK, D>, T, const RANK: usize, D: Device> Reductions<T, RANK, D> for X {}
        each_of_class! { [$($class $R)*] }
    };
}

/// Functions that visit the reductions of one class of elements. The reductions of `Inexact` are visited for
/// floats.
macro_rules! each_of_class {
    ([$($class:ident $R:ident)*]) => {
        fn of_numbers<T: Number>(_to: &mut impl VisitReductions) {
            $(each_of_class!(@ Number, $class $R _to);)*
        }
        fn of_comparables<T: Comparable>(_to: &mut impl VisitReductions) {
            $(each_of_class!(@ Comparable, $class $R _to);)*
        }
        fn of_floats<T: Float>(_to: &mut impl VisitReductions) {
            $(each_of_class!(@ Float, $class $R _to);)*
        }
        fn of_bools(_to: &mut impl VisitReductions) {
            type T = bool;
            $(each_of_class!(@ BoolElement, $class $R _to);)*
        }
    };
    (@ Number, Number $R:ident $to:ident) => { $to.reduction::<$R, T>() };
    (@ Comparable, Comparable $R:ident $to:ident) => { $to.reduction::<$R, T>() };
    (@ Float, Float $R:ident $to:ident) => { $to.reduction::<$R, T>() };
    (@ Float, Inexact $R:ident $to:ident) => { $to.reduction::<$R, T>() };
    (@ BoolElement, BoolElement $R:ident $to:ident) => { $to.reduction::<$R, T>() };
    (@ $($_other:tt)*) => {};
}
reductions! {
    /// Reductions over one axis (`Axis::<1>`), several (`(Axis::<0>, Axis::<2>)`) or all (`All`).
    ///
    /// The axes disappear from the result; `insert_axis` adds an axis of size 1 again, as a view.
    ///
    /// # Errors
    /// Those of elementwise operators; [`Error::Empty`](crate::Error::Empty) for extremes of no elements;
    /// [`Error::Axis`](crate::Error::Axis) when an axis known at run time does not exist;
    /// [`Error::Output`](crate::Error::Output) and [`Error::Shared`](crate::Error::Shared) of an existing
    /// output.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]]);
    /// assert_eq!(x.sum(Axis::<1>)?.to_vec()?, [6.0, 18.0]);
    /// assert_eq!(x.max(All)?.item()?, 9.0);
    /// assert_eq!(x.mean_axis(0)?.to_vec()?, [2.5, 3.5, 6.0]);
    /// let centered = &x - x.mean(Axis::<1>)?.insert_axis(Axis::<1>);
    /// assert_eq!(centered.sum((Axis::<0>, Axis::<1>))?.item()?, 0.0);
    /// let mut means = Tensor::zeros([2], &Cpu)?;
    /// x.mean_into(Axis::<1>, &mut means)?; // no allocation
    /// assert_eq!(means.to_vec()?, [2.0, 6.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Reductions;

    /// `Σ x`; integers wrap. Sum small integers in a wider type, in the same pass:
    /// `x.lazy().cast::<i64>().sum(axes)`. 0 for no elements.
    fn sum, sum_axis, sum_along, sum_along_axis, sum_into = Sum where Number;
    /// `Π x`; integers wrap. 1 for no elements.
    fn prod, prod_axis, prod_along, prod_along_axis, prod_into = Prod where Number;
    /// The largest element; NaN if any is NaN.
    fn max, max_axis, max_along, max_along_axis, max_into = Max where Comparable;
    /// The smallest element; NaN if any is NaN.
    fn min, min_axis, min_along, min_along_axis, min_into = Min where Comparable;
    /// The arithmetic mean; NaN for no elements.
    fn mean, mean_axis, mean_along, mean_along_axis, mean_into = Mean where Inexact;
    /// The variance, `Σ |x − mean|² / n`; real for complex numbers.
    fn var, var_axis, var_along, var_along_axis, var_into = Var where Inexact of T;
    /// The variance with Bessel's correction, `Σ (x − mean)² / (n − 1)`.
    fn sample_var, sample_var_axis, sample_var_along, sample_var_along_axis, sample_var_into = SampleVar
    where Inexact of T;
    /// The standard deviation, `√(Σ (x − mean)² / n)`.
    fn std, std_axis, std_along, std_along_axis, std_into = Std where Inexact of T;
    /// The root of [`sample_var`](Reductions::sample_var): the standard deviation with Bessel's correction.
    fn sample_std, sample_std_axis, sample_std_along, sample_std_along_axis, sample_std_into = SampleStd
    where Inexact of T;
    /// `ln Σ eˣ`, without intermediate overflow; −∞ for no elements, NaN if any is NaN.
    fn logsumexp, logsumexp_axis, logsumexp_along, logsumexp_along_axis, logsumexp_into = LogSumExp
    where Float;
    /// The index of the first of the largest elements, row-major over the reduced axes; that of the first NaN
    /// if there is one.
    fn argmax, argmax_axis, argmax_along, argmax_along_axis, argmax_into = ArgMax where Comparable;
    /// The index of the first of the smallest elements, row-major over the reduced axes; that of the first
    /// NaN if there is one.
    fn argmin, argmin_axis, argmin_along, argmin_along_axis, argmin_into = ArgMin where Comparable;
    /// Whether any is `true`.
    fn any, any_axis, any_along, any_along_axis, any_into = Any where BoolElement;
    /// Whether all are `true`.
    fn all, all_axis, all_along, all_along_axis, all_into = AllTrue where BoolElement;
    /// The number of `true` elements.
    fn count, count_axis, count_along, count_along_axis, count_into = Count where BoolElement;

    also
    /// The mean and the variance, `Σ (x − mean)² / n`, in one pass over the elements. The variance
    /// equals [`var`](Reductions::var). The mean is computed together with it: it may differ from
    /// [`mean`](Reductions::mean) by rounding, and stays finite if the sum overflows.
    ///
    /// # Cost
    /// Reads the elements once instead of twice, and adds two small passes over the results. It is
    /// faster than two calls for long rows and columns, not for rows of a few elements.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mean, var) = Tensor::from([[1.0, 3.0], [4.0, 10.0]]).mean_var(Axis::<1>)?;
    /// assert_eq!((mean.to_vec()?, var.to_vec()?), (vec![2.0, 7.0], vec![1.0, 9.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn mean_var<AXES, const M: usize>(self, axes: AXES) -> Result<(Tensor<T, M, D>, Tensor<T, M, D>)>
    where
        T: Float,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        put_mean_var("mean_var", &self.reduce(MeanVar, axes)?, (Allocate, Allocate))
    }
    /// As [`mean_var`](Reductions::mean_var), into two existing tensors or exclusive views of the
    /// kept sizes: the means, then the variances.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mut mean, mut var) = (Tensor::from([0.0, 0.0]), Tensor::from([0.0, 0.0]));
    /// Tensor::from([[1.0, 3.0], [4.0, 10.0]]).mean_var_into(Axis::<1>, &mut mean, &mut var)?;
    /// assert_eq!((mean.to_vec()?, var.to_vec()?), (vec![2.0, 7.0], vec![1.0, 9.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn mean_var_into<'o, AXES, const M: usize>(
        self,
        axes: AXES,
        mean: impl IntoViewMut<'o, T, M, D>,
        var: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
        D: 'o,
    {
        let op = "mean_var_into";
        let both = self.reduce(MeanVar, axes).map_err(|error| error.with_op(op))?;
        put_mean_var(op, &both, (Existing(mean), Existing(var))).map(|_| ())
    }
    /// As [`mean_var`](Reductions::mean_var), over an axis known at run time.
    fn mean_var_axis<const M: usize>(self, axis: usize) -> Result<(Tensor<T, M, D>, Tensor<T, M, D>)>
    where
        T: Float,
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        put_mean_var("mean_var", &self.reduce_axis(MeanVar, axis)?, (Allocate, Allocate))
    }
}
