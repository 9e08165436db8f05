//! Scans: running sums, products and extremes along an axis; any other reducer by `scan`.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute, Float, Number};
use crate::error::Result;
use crate::expr::Scan;
use crate::kernel::Reducer;
use crate::ops::LogSumExp;
use crate::ops::reduction::lanes::ValueLane;
use crate::ops::reduction::slopes::{
    AllButOneZero, fold, fold_exp_sums, last_of_largest, last_of_smallest, of_exp_sum, of_extreme,
    of_product, slope,
};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{IntoViewMut, Tensor};

/// The reducer of a scan.
macro_rules! scan_reducer {
    ($name:ident $R:ident <$T:ident: $class:ident, $L:ident> state $state:ty; $identity:expr;
     |$s:ident, $x:ident| $accumulate:expr; |$a:ident, $b:ident| $combine:expr; |$f:ident| $finalize:expr;
     $kind:ident $(beside $Extra:ident)? |$v:ident, $y:ident, $extra:ident| $slope:expr;
     $(|$p:ident, $l:ident| $fold:expr)?) => {
        #[doc = concat!("The reducer of [`Scans::", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $R;
        impl<$T: $class> Reducer<$T> for $R {
            const NAME: &'static str = stringify!($name);
            type Out = $T;
            type State<$L: Lanes> = $state;
            #[inline(always)]
            fn identity<$L: Lanes>() -> $state {
                $identity
            }
            #[inline(always)]
            fn accumulate<$L: Lanes>($s: $state, $x: ValueLane<$L, $T>, _: Lane<$L, i64>) -> $state {
                $accumulate
            }
            #[inline(always)]
            fn combine<$L: Lanes>($a: $state, $b: $state) -> $state {
                $combine
            }
            #[inline(always)]
            fn finalize<$L: Lanes>($f: $state, _: Lane<$L, i64>) -> ValueLane<$L, $T> {
                $finalize
            }
            slope! { <$T> $kind $(beside $Extra)? |$v, $y, $extra, _| $slope }
            fold! { <$T> $(|$p, $l| $fold)? }
        }
    };
}

/// Scans, one block each: the reducer and its methods.
macro_rules! scans {
    (
        $(#[$trait_doc:meta])* pub trait Scans;
        $($(#[$doc:meta])*
        fn $name:ident, $name_axis:ident, $name_into:ident = $R:ident, <$T:ident: $class:ident, $L:ident>
            state $state:ty;
        identity $identity:expr;
        accumulate |$s:ident, $x:ident| $accumulate:expr;
        combine |$a:ident, $b:ident| $combine:expr;
        finalize |$f:ident| $finalize:expr;
        slope $kind:ident $(beside $Extra:ident)? |$v:ident, $y:ident, $extra:ident| $slope:expr
        $(, fold |$p:ident, $l:ident| $fold:expr)?;)*
    ) => {
        $(
            scan_reducer! {
                $name $R <$T: $class, $L> state $state;
                $identity;
                |$s, $x| $accumulate;
                |$a, $b| $combine;
                |$f| $finalize;
                $kind $(beside $Extra)? |$v, $y, $extra| $slope;
                $(|$p, $l| $fold)?
            }
        )*
        $(#[$trait_doc])*
        pub trait Scans<T, const RANK: usize, D: Device>: Scan<T, RANK, D> { $(
            $(#[$doc])*
            fn $name<const A: usize>(self, axis: Axis<A>) -> Result<Tensor<T, RANK, D>>
            where
                T: $class,
                Dim<RANK>: RemoveAxis<A>,
            {
                self.scan($R, axis)
            }
            #[doc = concat!(
                "As [`", stringify!($name), "`](Scans::", stringify!($name),
                "), along an axis known at run time."
            )]
            fn $name_axis(self, axis: usize) -> Result<Tensor<T, RANK, D>>
            where
                T: $class,
            {
                self.scan_by($R, axis, false)
            }
            #[doc = concat!(
                "As [`", stringify!($name), "`](Scans::", stringify!($name),
                "), into an existing tensor or exclusive view of the same sizes; see \
                 [`scan_into`](Scan::scan_into)."
            )]
            fn $name_into<'o, const A: usize>(
                self, axis: Axis<A>, out: impl IntoViewMut<'o, T, RANK, D>
            ) -> Result<()>
            where
                T: $class,
                Dim<RANK>: RemoveAxis<A>,
                D: 'o,
            {
                self.scan_into($R, axis, out).map_err(|error| error.with_op(stringify!($name_into)))
            }
        )* }
        impl<X: Scan<T, RANK, D>, T, const RANK: usize, D: Device> Scans<T, RANK, D> for X {}
    };
}

scans! {
    /// Running reductions along one axis: position `i` of the result is the reduction of positions
    /// `0..=i`.
    ///
    /// The axis is a type (`Axis::<1>`) or, in methods with the suffix `_axis`, a number known at run
    /// time. [`scan`](Scan::scan) takes any other reducer, and [`scan_exclusive`](Scan::scan_exclusive)
    /// reduces positions `0..i`. Scans of a reversed view run from the end.
    ///
    /// # Cost
    /// One allocation, one pass.
    ///
    /// # Errors
    /// Those of elementwise operators; [`Error::Axis`](crate::Error::Axis) for an axis known at run time
    /// that does not exist; [`Error::Output`](crate::Error::Output) and
    /// [`Error::Shared`](crate::Error::Shared) of an existing output.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.cumsum(Axis::<1>)?, Tensor::from([[1, 3, 6], [4, 9, 15]]));
    /// assert_eq!(x.cumprod_axis(0)?, Tensor::from([[1, 2, 3], [4, 10, 18]]));
    /// let squares = (x.lazy() * &x).cumsum(Axis::<1>)?; // fused
    /// let from_the_end = x.reversed(Axis::<1>).cummax(Axis::<1>)?.into_reversed(Axis::<1>)?;
    /// assert_eq!((squares[[0, 2]], from_the_end[[1, 0]]), (14, 6));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Scans;

    /// The running `Σ x`. Floats are summed in f64 and rounded once per position; integers wrap.
    fn cumsum, cumsum_axis, cumsum_into = CumSum, <T: Number, L> state Lane<L, T::Running>;
    identity Lane::zero();
    accumulate |s, x| s + x.cast();
    combine |a, b| a + b;
    finalize |s| s.cast();
    slope Constant |_x, _y, _extra| Lane::one();

    /// The running `Π x`. Floats are multiplied in f64 and rounded once per position; integers wrap.
    fn cumprod, cumprod_axis, cumprod_into = CumProd, <T: Number, L> state Lane<L, T::Running>;
    identity Lane::one();
    accumulate |s, x| s * x.cast();
    combine |a, b| a * b;
    finalize |s| s.cast();
    slope Values beside AllButOneZero |x, y, others| of_product(x, y, others),
    fold |product, x| product * x;

    /// The running maximum; NaN from the first NaN on.
    fn cummax, cummax_axis, cummax_into = CumMax, <T: Comparable, L> state ValueLane<L, T>;
    identity Lane::lowest();
    accumulate |s, x| s.max(x);
    combine |a, b| a.max(b);
    finalize |s| s;
    slope Shared |x, y, _extra| of_extreme(x, y),
    fold |largest, x| last_of_largest(largest, x);

    /// The running minimum; NaN from the first NaN on.
    fn cummin, cummin_axis, cummin_into = CumMin, <T: Comparable, L> state ValueLane<L, T>;
    identity Lane::highest();
    accumulate |s, x| s.min(x);
    combine |a, b| a.min(b);
    finalize |s| s;
    slope Shared |x, y, _extra| of_extreme(x, y),
    fold |smallest, x| last_of_smallest(smallest, x);

    /// The running `ln Σ eˣ`, without intermediate overflow; see [`LogSumExp`].
    fn logcumsumexp, logcumsumexp_axis, logcumsumexp_into = LogCumSumExp, <T: Float, L> state
        <LogSumExp as Reducer<T>>::State<L>;
    identity <LogSumExp as Reducer<T>>::identity::<L>();
    accumulate |s, x| <LogSumExp as Reducer<T>>::accumulate::<L>(s, x, Lane::zero());
    combine |a, b| <LogSumExp as Reducer<T>>::combine::<L>(a, b);
    finalize |s| <LogSumExp as Reducer<T>>::finalize::<L>(s, Lane::zero());
    slope Values |x, y, _extra| of_exp_sum(x, y),
    fold |sum, x| fold_exp_sums(sum, x);
}
