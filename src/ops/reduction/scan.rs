//! Scans: running sums, products and extremes along an axis; any other reducer by `scan`.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute, Float, Number};
use crate::error::Result;
use crate::expr::Scan;
use crate::kernel::Reducer;
use crate::ops::LogSumExp;
use crate::ops::reduction::define::reducers;
use crate::ops::reduction::lanes::ValueLane;
use crate::ops::reduction::slopes::{
    AllButOneZero, fold_exp_sums, last_of_largest, last_of_smallest, of_exp_sum, of_extreme, of_product,
};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{IntoViewMut, Tensor};

reducers! {
    /// The reducer of [`Scans::cumsum`].
    CumSum: "cumsum", <T: Number, L> -> T, state Lane<L, T::Running> {
        identity Lane::zero();
        accumulate |s, x, _at| s + x.cast();
        combine |a, b| a + b;
        finalize |s, _count| s.cast();
        slope Constant |_, _, _, _| Lane::one();
    }

    /// The reducer of [`Scans::cumprod`].
    CumProd: "cumprod", <T: Number, L> -> T, state Lane<L, T::Running> {
        identity Lane::one();
        accumulate |s, x, _at| s * x.cast();
        combine |a, b| a * b;
        finalize |s, _count| s.cast();
        slope Values beside AllButOneZero |x, y, others, _| of_product(x, y, others),
        fold |product, x| product * x;
    }

    /// The reducer of [`Scans::cummax`].
    CumMax: "cummax", <T: Comparable, L> -> T, state ValueLane<L, T> {
        identity Lane::lowest();
        accumulate |s, x, _at| s.max(x);
        combine |a, b| a.max(b);
        finalize |s, _count| s;
        slope Shared |x, y, _, _| of_extreme(x, y),
        fold |largest, x| last_of_largest(largest, x);
    }

    /// The reducer of [`Scans::cummin`].
    CumMin: "cummin", <T: Comparable, L> -> T, state ValueLane<L, T> {
        identity Lane::highest();
        accumulate |s, x, _at| s.min(x);
        combine |a, b| a.min(b);
        finalize |s, _count| s;
        slope Shared |x, y, _, _| of_extreme(x, y),
        fold |smallest, x| last_of_smallest(smallest, x);
    }

    /// The reducer of [`Scans::logcumsumexp`].
    LogCumSumExp: "logcumsumexp", <T: Float, L> -> T, state <LogSumExp as Reducer<T>>::State<L> {
        identity <LogSumExp as Reducer<T>>::identity::<L>();
        accumulate |s, x, _at| <LogSumExp as Reducer<T>>::accumulate::<L>(s, x, Lane::zero());
        combine |a, b| <LogSumExp as Reducer<T>>::combine::<L>(a, b);
        finalize |s, _count| <LogSumExp as Reducer<T>>::finalize::<L>(s, Lane::zero());
        slope Values |x, y, _, _| of_exp_sum(x, y),
        fold |sum, x| fold_exp_sums(sum, x);
    }
}

/// Methods of scans: `x.cumsum(axis)` along an axis known at compile time, `x.cumsum_axis(axis)` along one
/// known at run time, and `x.cumsum_into(axis, &mut out)`.
macro_rules! scans {
    (
        $(#[$trait_doc:meta])* pub trait Scans;
        $($(#[$doc:meta])*
        fn $name:ident, $name_axis:ident, $name_into:ident = $R:ident where $class:ident;)*
    ) => {
        $(#[$trait_doc])*
        pub trait Scans<T, const RANK: usize, D: Device>: Scan<T, RANK, D> { $(
            $(#[$doc])*
            fn $name<const A: usize>(self, axis: Axis<A>) -> Result<Tensor<T, RANK, D>>
            where T: $class, Dim<RANK>: RemoveAxis<A> {
                self.scan($R, axis)
            }
            #[doc = concat!(
                "As [`", stringify!($name), "`](Scans::", stringify!($name),
                "), along an axis known at run time."
            )]
            fn $name_axis(self, axis: usize) -> Result<Tensor<T, RANK, D>> where T: $class {
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
            where T: $class, Dim<RANK>: RemoveAxis<A>, D: 'o {
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
    fn cumsum, cumsum_axis, cumsum_into = CumSum where Number;
    /// The running `Π x`. Floats are multiplied in f64 and rounded once per position; integers wrap.
    fn cumprod, cumprod_axis, cumprod_into = CumProd where Number;
    /// The running maximum; NaN from the first NaN on.
    fn cummax, cummax_axis, cummax_into = CumMax where Comparable;
    /// The running minimum; NaN from the first NaN on.
    fn cummin, cummin_axis, cummin_into = CumMin where Comparable;
    /// The running `ln Σ eˣ`, without intermediate overflow; see [`LogSumExp`].
    fn logcumsumexp, logcumsumexp_axis, logcumsumexp_into = LogCumSumExp where Float;
}
