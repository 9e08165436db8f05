//! Vector norms: their reducers, and methods of tensors, views and lazy expressions.
// Imports: `error`, `dim`, `rank`, `dtype`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::dtype::Kind;
use crate::element::{ComplexElement, Compute, Float, Inexact, Number};
use crate::error::{Error, Result, text};
use crate::expr::{Elementwise as _, Reduce};
use crate::kernel::{Op, Reducer, SLICE_ELEMENTS};
use crate::ops::define::of_numbers;
use crate::ops::reduction::define::{reduce_methods, reducer};
use crate::ops::reduction::lanes::ValueLane;
use crate::ops::reduction::moments::sum_of_squares;
use crate::ops::reduction::slopes::{LargestTies, magnitude, of_norm, of_norm_max, of_norm_one};
use crate::ops::{Arithmetic as _, Cast as _, Math as _, Min, Reductions, Sum};
use crate::rank::RemoveAxes;
use crate::scalar::{DType, Eval, Lane, Lanes, Prim};
use crate::tensor::{Allocate, Existing, IntoViewMut, Tensor, TensorView};
use num_complex::Complex;

/// `Σ x²` in f64: a unit, and the sum of squares in this unit. The unit is 1 except for f64, where squares
/// can leave the range of f64; there it is 1 or 2^±600, depending on the numbers (after Blue 1978).
type Squares<L> = (Lane<L, f64>, Lane<L, f64>);

const LARGE_UNIT: f64 = f64::from_bits((1023 + 600) << 52); // 2⁶⁰⁰
/// Numbers above this bound, or below its inverse, have another unit than 1.
const UNIT_BOUND: f64 = f64::from_bits((1023 + 500) << 52); // 2⁵⁰⁰

/// The unit of a set of numbers with this largest magnitude.
#[inline(always)]
fn unit_of<L: Lanes, P: Prim>(largest: Lane<L, f64>) -> Lane<L, f64> {
    if P::DTYPE != DType::F64 {
        return Lane::one();
    }
    largest
        .gt(UNIT_BOUND)
        .select(LARGE_UNIT, largest.lt(1.0 / UNIT_BOUND).select(Lane::real(1.0 / LARGE_UNIT), Lane::one()))
}

/// `Σ x²` of no numbers.
#[inline(always)]
fn no_squares<L: Lanes, P: Prim>() -> Squares<L> {
    (unit_of::<L, P>(Lane::zero()), Lane::zero())
}

/// `x / unit`.
#[inline(always)]
fn in_unit<L: Lanes>(x: Lane<L, f64>, unit: Lane<L, f64>) -> Lane<L, f64> {
    x * unit.gt(1.0).select(1.0 / LARGE_UNIT, unit.lt(1.0).select(Lane::real(LARGE_UNIT), Lane::one()))
}

/// Adds the square of one number.
#[inline(always)]
fn with_square<L: Lanes, P: Prim>(s: Squares<L>, x: Lane<L, P>) -> Squares<L> {
    let x = x.cast::<f64>();
    if P::DTYPE != DType::F64 {
        return (s.0, x.mul_add(x, s.1));
    }
    let unit = unit_of::<L, P>(x.abs());
    let x = in_unit(x, unit);
    join_squares::<L, P>(s, (unit, x * x))
}

/// The sum of both, in the larger unit.
#[inline(always)]
fn join_squares<L: Lanes, P: Prim>(a: Squares<L>, b: Squares<L>) -> Squares<L> {
    if P::DTYPE != DType::F64 {
        return (a.0, a.1 + b.1);
    }
    let unit = a.0.max(b.0);
    let (a_in, b_in) = (in_unit(a.0, unit), in_unit(b.0, unit));
    (unit, a.1 * a_in * a_in + b.1 * b_in * b_in)
}

/// Adds the squares of the parts of one number.
#[inline(always)]
fn with_squares<T: Inexact, L: Lanes>(s: Squares<L>, x: ValueLane<L, T>) -> Squares<L> {
    let s = with_square(s, T::re(x));
    if T::DTYPE.kind() == Kind::Complex { with_square(s, T::im(x)) } else { s }
}

/// Adds the magnitude of one number.
#[inline(always)]
fn with_magnitude<T: Inexact, L: Lanes>(s: Lane<L, f64>, x: ValueLane<L, T>) -> Lane<L, f64> {
    s + magnitude::<T, L>(x)
}

/// The larger of the state and the magnitude of one number.
#[inline(always)]
fn with_largest<T: Inexact, L: Lanes>(s: Lane<L, f64>, x: ValueLane<L, T>) -> Lane<L, f64> {
    s.max(magnitude::<T, L>(x))
}

/// `Σ x²` of a slice of real numbers: in the unit 1, and again in another unit if that sum is out of range or
/// has lost digits.
#[inline(always)]
fn squares_of<P: Prim>(values: &[P]) -> Squares<Eval> {
    let sum = sum_of_squares(values, |x| x);
    if P::DTYPE != DType::F64 || (2f64.powi(-900)..=2f64.powi(900)).contains(&sum) {
        return (Lane(1.0), Lane(sum));
    }
    let largest = values.iter().fold(0.0, |largest, x| f64::max(largest, x.cast::<f64>().abs()));
    let unit = unit_of::<Eval, P>(Lane(largest));
    let inverse = 1.0 / unit.value();
    (unit, Lane(sum_of_squares(values, |x| x * inverse)))
}

/// `Σ x²` of a slice of any length.
#[inline(always)]
fn squares_of_slice<P: Prim>(values: &[P]) -> Squares<Eval> {
    let pieces = values.chunks(SLICE_ELEMENTS).map(squares_of);
    pieces.fold(no_squares::<Eval, P>(), join_squares::<Eval, P>)
}

/// Reducers of norms: of real numbers `T`, and of complex numbers with parts `T`.
macro_rules! norm_reducers {
    ($($(#[$doc:meta])* $R:ident { $($functions:tt)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $R;
        impl<T: Float> Reducer<T> for $R {
            norm_reducer! { <T> $($functions)* }
        }
        impl<T: Float> Reducer<Complex<T>> for $R
        where
            Complex<T>: ComplexElement + Inexact<Part = T>,
        {
            norm_reducer! { <Complex<T>> $($functions)* }
        }
    )* };
}

/// The functions of a norm of elements `E`. Those with a name only are generic over the element.
macro_rules! norm_reducer {
    (
        <$E:ty> $name:literal -> $out:ident, state $state:ty;
        identity $identity:expr;
        accumulate $accumulate:ident;
        combine |$a:ident, $b:ident| $combine:expr;
        $(accumulate_slice $of_slice:ident, $slices:ident;)?
        finalize |$s:ident| $finalize:expr;
        slope $slope:ident $(beside $Extra:ident)?;
    ) => {
        reducer! {
            $name, <$E, L> -> $out, state $state;
            identity $identity;
            accumulate |s, x, _at| $accumulate::<$E, L>(s, x);
            combine |$a, $b| $combine;
            $(accumulate_slice |values, _from| $of_slice(values), $slices;)?
            finalize |$s, _count| ($finalize).cast();
            slope Values $(beside $Extra)? |x, y, extra, _| $slope::<$E, L>(x, y, extra);
        }
    };
}

// The states are in f64.
norm_reducers! {
    /// The reducer of [`Norms::norm`].
    Norm {
        "norm" -> T, state Squares<L>;
        identity no_squares::<L, Compute<T>>();
        accumulate with_squares;
        combine |a, b| join_squares::<L, Compute<T>>(a, b);
        accumulate_slice squares_of_slice, norm;
        finalize |s| s.1.sqrt() * s.0;
        slope of_norm;
    }

    /// The same as an f64, because the norm of f32 elements can exceed f32.
    NormF64 {
        "norm" -> f64, state Squares<L>;
        identity no_squares::<L, Compute<T>>();
        accumulate with_squares;
        combine |a, b| join_squares::<L, Compute<T>>(a, b);
        accumulate_slice squares_of_slice, norm;
        finalize |s| s.1.sqrt() * s.0;
        slope of_norm;
    }

    /// The reducer of [`Norms::norm_one`].
    NormOne {
        "norm_one" -> T, state Lane<L, f64>;
        identity Lane::zero();
        accumulate with_magnitude;
        combine |a, b| a + b;
        finalize |s| s;
        slope of_norm_one;
    }

    /// The reducer of [`Norms::norm_max`].
    NormMax {
        "norm_max" -> T, state Lane<L, f64>;
        identity Lane::zero();
        accumulate with_largest;
        combine |a, b| a.max(b);
        finalize |s| s;
        slope of_norm_max beside LargestTies;
    }
}

/// Norms. Each is a method with a second one that writes into existing memory.
macro_rules! norms {
    (
        $(#[$trait_doc:meta])* pub trait Norms;
        $($(#[$doc:meta])* fn $name:ident, $name_into:ident = $R:ident;)*
    ) => {
        $(#[$trait_doc])*
        pub trait Norms<T, const RANK: usize, D: Device>: Reduce<T, RANK, D> {
            $(reduce_methods! { Norms $(#[$doc])* fn $name, $name_into = $R where [T: Inexact, $R: Reducer<T>,] })*
        }
        impl<X: Reduce<T, RANK, D>, T, const RANK: usize, D: Device> Norms<T, RANK, D> for X {}
    };
}
norms! {
    /// Vector norms over one axis (`Axis::<1>`), several, or all (`All`); over both axes of a matrix it
    /// is the Frobenius norm.
    ///
    /// Sums are in f64: f32 elements neither overflow nor underflow in between. 0 for no elements, NaN if
    /// any is NaN. The norm of complex numbers is real, the norm of their
    /// [`modulus`](crate::ops::ComplexParts::modulus).
    ///
    /// # Errors
    /// Those of [`Reductions`](crate::ops::Reductions).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[3.0, -4.0], [0.0, 5.0]]);
    /// assert_eq!(x.norm(Axis::<1>)?.to_vec()?, [5.0, 5.0]);
    /// assert_eq!(x.norm(All)?.item()?, f64::sqrt(50.0));
    /// assert_eq!((x.norm_one(Axis::<0>)?.to_vec()?, x.norm_max(All)?.item()?), (vec![3.0, 9.0], 5.0));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Norms;

    /// `√ Σ x²`: the Euclidean or Frobenius norm. It neither overflows nor loses digits if the norm itself is
    /// a number.
    fn norm, norm_into = Norm;
    /// `Σ |x|`.
    fn norm_one, norm_one_into = NormOne;
    /// `max |x|`.
    fn norm_max, norm_max_into = NormMax;
}

/// The divisor of magnitudes: the number, or 1 if it is 0 or infinite.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormUnit;

impl Op<(f64,)> for NormUnit {
    const NAME: &'static str = "norm_p";
    type Out = f64;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, f64>,)) -> Lane<L, f64> {
        (x.gt(Lane::zero()) & x.lt(Lane::highest())).select(x, Lane::one())
    }
}

/// 0 for 0, otherwise 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsNotZero;

impl<T: Float> Op<(T,)> for IsNotZero {
    const NAME: &'static str = "norm_p";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<T>> {
        x.eq(Lane::zero()).select(Lane::zero(), Lane::one())
    }
}

/// The order of a norm; an error for NaN.
pub(super) fn order_of<T: Float>(op: &'static str, p: T) -> Result<f64> {
    let p = num_traits::ToPrimitive::to_f64(&p).filter(|p| !p.is_nan());
    p.ok_or_else(|| Error::Value { op, what: text(format_args!("the norm of p = NaN")) })
}

of_numbers! {
    /// `(Σ |x|^p)^(1/p)` over some axes, in f64. Magnitudes are in units of the largest (for `p < 0` the
    /// smallest), which keeps the powers from overflowing.
    ///
    /// `p` of ∞ gives the largest magnitude, −∞ the smallest, and 0 the number of nonzero elements; for 1 and
    /// 2 see [`Norms`](crate::ops::Norms). [`norm_p_into`](Tensor::norm_p_into) allocates the sums.
    ///
    /// # Errors
    /// [`Error::Value`] if `p` is NaN; those of [`Reductions`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, -1.0, 1.0, 1.0]);
    /// let mut y = x.norm_p(4.0, All)?;
    /// assert!((y.item()? - f64::sqrt(2.0)).abs() < 1e-14);
    /// x.norm_p_into(1.0, All, &mut y)?;
    /// assert_eq!(y.item()?, 4.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn norm_p, norm_p_into [AXES: Copy, const M: usize](p: T, axes: AXES) -> M
    where [T: Float, Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>] = |op, x, place| {
        let p = order_of(op, p)?;
        if p == f64::INFINITY {
            return x.lazy().reduce_at(op, NormMax, axes, place);
        }
        if p == f64::NEG_INFINITY {
            return x.lazy().abs().reduce_at(op, Min, axes, place);
        }
        if p == 0.0 {
            return x.lazy().map(IsNotZero).reduce_at(op, Sum, axes, place);
        }
        let magnitude = x.lazy().cast::<f64>().abs();
        let renamed = |error: Error| error.with_op(op);
        let (unit, sums) = if p > 0.0 {
            let sums = (magnitude / magnitude.along(NormMax, axes).map(NormUnit)).powf(p).sum(axes);
            (magnitude.reduce(NormMax, axes).map_err(renamed)?, sums.map_err(renamed)?)
        } else {
            let sums = (magnitude / magnitude.along(Min, axes).map(NormUnit)).powf(p).sum(axes);
            (magnitude.min(axes).map_err(renamed)?, sums.map_err(renamed)?)
        };
        (unit.lazy().map(NormUnit) * sums.lazy().powf(1.0 / p)).cast::<T>().eval_at(op, place)
    };
}
