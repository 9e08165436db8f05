//! Elements that indices name, reduced with all values that come: sums, products, means, extremes, with or without what
//! stood there.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Element, RealNumber};
use crate::error::Result;
use crate::expr::IntoView;
use crate::kernel::Op;
use crate::ops::assign::in_place;
use crate::ops::axes::{check_axis, sizes_along};
use crate::ops::indexing::scatter::meeting;
use crate::ops::{Add, Cast as _, Div, FloorDivide, Maximum, Minimum, Replace};
use crate::rank::RemoveAxis;
use crate::scalar::{DType, Lane, Lanes, Ordered, Prim};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// How values that meet in one element become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterReduction {
    /// Their sum; of booleans whether any is `true`.
    Sum,
    /// Their product; of booleans whether all are `true`.
    Prod,
    /// Their mean: in f64 for floats, rounded down for integers and booleans.
    Mean,
    /// The largest; NaN if any is.
    Max,
    /// The smallest; NaN if any is.
    Min,
}

/// The sum of two; of booleans whether either is.
#[derive(Clone, Copy, Debug)]
struct Either;

impl<T: Comparable> Op<(T, T)> for Either {
    const CHEAP: bool = true;
    const NAME: &'static str = "scatter sum";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        Ordered::sum(x, y)
    }
}

/// The product of two; of booleans whether both are.
#[derive(Clone, Copy, Debug)]
struct Both;

impl<T: Comparable> Op<(T, T)> for Both {
    const CHEAP: bool = true;
    const NAME: &'static str = "scatter product";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        Ordered::product(x, y)
    }
}

/// One value for every element.
fn everywhere<T: Element, const RANK: usize, D: Device>(value: T, device: &D) -> Result<Tensor<T, RANK, D>> {
    Tensor::full([1; RANK], value, device)
}

/// The mean of what stands there, if it counts, and of what comes, summed in `S` and divided by `operator`.
fn mean<S: RealNumber, T: Comparable, F: Op<(S, S), Out = S>, const RANK: usize, D: Device>(
    operator: F,
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    (axis, index): (usize, TensorView<'_, i64, RANK, D>),
    values: TensorView<'_, T, RANK, D>,
    include_self: bool,
) -> Result<()> {
    let mut sums = cells.as_view().cast::<S>()?;
    let mut counts =
        Tensor::full(cells.size(), if include_self { S::one() } else { S::zero() }, cells.device())?;
    if !include_self {
        sums.scatter_axis(Replace, axis, index, &everywhere(S::zero(), cells.device())?)?;
    }
    sums.scatter_axis(Add, axis, index, &values.cast::<S>()?)?;
    counts.scatter_axis(Add, axis, index, &everywhere(S::one(), cells.device())?)?;
    counts.zip_in_place(Maximum, S::one())?;
    sums.zip_in_place(operator, &counts)?;
    cells.assign(sums.lazy().cast::<T>())
}

fn reduce<T: Comparable, const RANK: usize, D: Device>(
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    how: ScatterReduction,
    axis: usize,
    index: TensorView<'_, i64, RANK, D>,
    values: TensorView<'_, T, RANK, D>,
    include_self: bool,
) -> Result<()> {
    // As many indices as values, so that each step below meets the same cells; and nothing is written if one of them cannot.
    let size = meeting("scatter", cells, axis, &index, &values)?;
    let index = index.broadcast_to(size)?;
    if matches!(T::DTYPE, DType::F16 | DType::BF16)
        && matches!(how, ScatterReduction::Sum | ScatterReduction::Prod)
    {
        // A sum of 16 bits stops at 2048 ones.
        let mut wide = cells.as_view().cast::<f32>()?;
        reduce(
            &mut wide.try_view_mut("scatter")?,
            how,
            axis,
            index,
            values.cast::<f32>()?.view(),
            include_self,
        )?;
        return cells.assign(wide.lazy().cast::<T>());
    }
    let neutral = match how {
        ScatterReduction::Sum => T::narrow(Prim::from_bool(false)),
        ScatterReduction::Prod => T::narrow(Prim::from_bool(true)),
        ScatterReduction::Max => T::narrow(Ordered::LOWEST),
        ScatterReduction::Min => T::narrow(Ordered::HIGHEST),
        // Sums of integers in 64 bits, those of u64 in its own.
        ScatterReduction::Mean if !T::DTYPE.is_discrete() => {
            return mean::<f64, T, _, RANK, D>(Div, cells, (axis, index), values, include_self);
        }
        ScatterReduction::Mean if T::DTYPE == DType::U64 => {
            return mean::<u64, T, _, RANK, D>(FloorDivide, cells, (axis, index), values, include_self);
        }
        ScatterReduction::Mean => {
            return mean::<i64, T, _, RANK, D>(FloorDivide, cells, (axis, index), values, include_self);
        }
    };
    if !include_self {
        cells.scatter_axis(Replace, axis, index, &everywhere(neutral, cells.device())?)?;
    }
    match how {
        ScatterReduction::Prod => cells.scatter_axis(Both, axis, index, values),
        ScatterReduction::Max => cells.scatter_axis(Maximum, axis, index, values),
        ScatterReduction::Min => cells.scatter_axis(Minimum, axis, index, values),
        ScatterReduction::Sum | ScatterReduction::Mean => cells.scatter_axis(Either, axis, index, values),
    }
}

in_place! {
    /// Each element that an index names becomes the sum, product, mean or extreme of all values that come to it, and of
    /// what stood there if `include_self`: `self[.., index[.., i, ..], ..] ← values[.., i, ..]`. The others stay.
    ///
    /// Values come in the order of `i`, for any number of threads; 16-bit floats are summed in f32, means in f64. For one's own operator, step
    /// by step, see [`scatter`](Tensor::scatter).
    ///
    /// # Shapes
    /// As [`scatter`](Tensor::scatter).
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ScatterReduction;
    /// let (index, values) = (Tensor::from([0, 0, 2]), Tensor::from([2.0, 5.0, 7.0]));
    /// let mut x = Tensor::from([10.0, 20.0, 30.0]);
    /// x.scatter_reduce(ScatterReduction::Mean, Axis::<0>, &index, &values, false)?;
    /// assert_eq!(x.to_vec()?, [3.5, 20.0, 7.0]);
    /// x.scatter_reduce(ScatterReduction::Max, Axis::<0>, &index, &values, true)?;
    /// assert_eq!(x.to_vec()?, [5.0, 20.0, 7.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn scatter_reduce['b, 'c, const A: usize](meeting: ScatterReduction, axis: Axis<A>, index: impl IntoView<'b, i64, RANK, D>, values: impl IntoView<'c, T, RANK, D>, include_self: bool) where Dim<RANK>: RemoveAxis<A>, T: Comparable = |view| {
        let _ = axis;
        view.scatter_reduce_axis(meeting, A, index, values, include_self)
    };

    /// As [`scatter_reduce`](Tensor::scatter_reduce), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn scatter_reduce_axis['b, 'c](meeting: ScatterReduction, axis: usize, index: impl IntoView<'b, i64, RANK, D>, values: impl IntoView<'c, T, RANK, D>, include_self: bool) where T: Comparable = |view| {
        check_axis("scatter_reduce", axis, view.size())?;
        let done = reduce(view, meeting, axis, index.into_view(), values.into_view(), include_self);
        done.map_err(|error| error.with_op("scatter_reduce"))
    };

    /// As [`scatter_reduce`](Tensor::scatter_reduce), with one index for all elements of a position of axis `A`.
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ScatterReduction;
    /// let mut x = Tensor::from([[1, 2], [3, 4]]);
    /// x.index_reduce(ScatterReduction::Prod, Axis::<0>, &Tensor::from([1, 1]), &Tensor::from([[2, 3], [5, 1]]), true)?;
    /// assert_eq!(x, Tensor::from([[1, 2], [30, 12]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index_reduce['b, 'c, const A: usize](meeting: ScatterReduction, axis: Axis<A>, index: impl IntoView<'b, i64, 1, D>, values: impl IntoView<'c, T, RANK, D>, include_self: bool) where Dim<RANK>: RemoveAxis<A>, T: Comparable = |view| {
        let _ = axis;
        view.index_reduce_axis(meeting, A, index, values, include_self)
    };

    /// As [`index_reduce`](Tensor::index_reduce), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn index_reduce_axis['b, 'c](meeting: ScatterReduction, axis: usize, index: impl IntoView<'b, i64, 1, D>, values: impl IntoView<'c, T, RANK, D>, include_self: bool) where T: Comparable = |view| {
        check_axis("index_reduce", axis, view.size())?;
        let index = index.into_view();
        let index = index.reshape(sizes_along::<RANK>(axis, index.numel()))?;
        reduce(view, meeting, axis, index, values.into_view(), include_self).map_err(|error| error.with_op("index_reduce"))
    };
}
