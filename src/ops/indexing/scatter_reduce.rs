//! Scatter with a reduction: sums, products, means and extremes of all values written to an element, with or
//! without its previous value.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Element, RealNumber};
use crate::error::Result;
use crate::expr::IntoView;
use crate::kernel::Op;
use crate::ops::assign::in_place;
use crate::ops::axes::{check_axis, sizes_along};
use crate::ops::indexing::scatter::{scatter, scatter_size};
use crate::ops::{Add, Cast as _, Div, FloorDivide, Maximum, Minimum, Replace};
use crate::rank::RemoveAxis;
use crate::scalar::{DType, Lane, Lanes, Ordered, Prim};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The reduction of values that are scattered to one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterReduction {
    /// Their sum; for booleans, whether any is `true`.
    Sum,
    /// Their product; for booleans, whether all are `true`.
    Prod,
    /// Their mean: in f64 for floats, rounded down for integers and booleans.
    Mean,
    /// The largest; NaN if any value is.
    Max,
    /// The smallest; NaN if any value is.
    Min,
}

/// The sum of two elements; for booleans, the logical or.
#[derive(Clone, Copy, Debug)]
struct ScatterSum;

impl<T: Comparable> Op<(T, T)> for ScatterSum {
    const CHEAP: bool = true;
    const NAME: &'static str = "scatter sum";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        Ordered::sum(x, y)
    }
}

/// The product of two elements; for booleans, the logical and.
#[derive(Clone, Copy, Debug)]
struct ScatterProduct;

impl<T: Comparable> Op<(T, T)> for ScatterProduct {
    const CHEAP: bool = true;
    const NAME: &'static str = "scatter product";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        Ordered::product(x, y)
    }
}

/// A tensor of one value, broadcast.
fn broadcast_value<T: Element, const RANK: usize, D: Device>(
    value: T,
    device: &D,
) -> Result<Tensor<T, RANK, D>> {
    Tensor::full([1; RANK], value, device)
}

/// The mean of the previous values, if they count, and of the scattered values, summed in `S` and divided by
/// `operator`.
fn mean<S: RealNumber, T: Comparable, F: Op<(S, S), Out = S>, const RANK: usize, D: Device>(
    op: &'static str,
    operator: F,
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    (axis, index): (usize, TensorView<'_, i64, RANK, D>),
    values: TensorView<'_, T, RANK, D>,
    include_self: bool,
) -> Result<()> {
    let mut sums = cells.as_view().cast::<S>()?;
    let mut counts =
        Tensor::full(cells.size(), if include_self { S::one() } else { S::zero() }, cells.device())?;
    let [zero, one] = [S::zero(), S::one()];
    let [zero, one] = [broadcast_value(zero, cells.device())?, broadcast_value(one, cells.device())?];
    if !include_self {
        scatter(op, Replace, &mut sums.try_view_mut(op)?, axis, index, zero.view())?;
    }
    scatter(op, Add, &mut sums.try_view_mut(op)?, axis, index, values.cast::<S>()?.view())?;
    scatter(op, Add, &mut counts.try_view_mut(op)?, axis, index, one.view())?;
    counts.zip_in_place(Maximum, S::one())?;
    sums.zip_in_place(operator, &counts)?;
    cells.assign(sums.lazy().cast::<T>())
}

fn reduce<T: Comparable, const RANK: usize, D: Device>(
    op: &'static str,
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    reduction: ScatterReduction,
    axis: usize,
    index: TensorView<'_, i64, RANK, D>,
    values: TensorView<'_, T, RANK, D>,
    include_self: bool,
) -> Result<()> {
    // As many indices as values: each step below then writes to the same cells, and nothing is written if one
    // of them fails.
    let size = scatter_size(op, cells, axis, &index, &values)?;
    let index = index.broadcast_to(size)?;
    if matches!(T::DTYPE, DType::F16 | DType::BF16)
        && matches!(reduction, ScatterReduction::Sum | ScatterReduction::Prod)
    {
        // In f16, a sum of ones would stop at 2048.
        let mut wide = cells.as_view().cast::<f32>()?;
        reduce(
            op,
            &mut wide.try_view_mut(op)?,
            reduction,
            axis,
            index,
            values.cast::<f32>()?.view(),
            include_self,
        )?;
        return cells.assign(wide.lazy().cast::<T>());
    }
    let identity = match reduction {
        ScatterReduction::Sum => T::narrow(Prim::from_bool(false)),
        ScatterReduction::Prod => T::narrow(Prim::from_bool(true)),
        ScatterReduction::Max => T::narrow(Ordered::LOWEST),
        ScatterReduction::Min => T::narrow(Ordered::HIGHEST),
        // Integers are summed in i64, u64 in u64.
        ScatterReduction::Mean if !T::DTYPE.is_discrete() => {
            return mean::<f64, T, _, RANK, D>(op, Div, cells, (axis, index), values, include_self);
        }
        ScatterReduction::Mean if T::DTYPE == DType::U64 => {
            return mean::<u64, T, _, RANK, D>(op, FloorDivide, cells, (axis, index), values, include_self);
        }
        ScatterReduction::Mean => {
            return mean::<i64, T, _, RANK, D>(op, FloorDivide, cells, (axis, index), values, include_self);
        }
    };
    if !include_self {
        let identity = broadcast_value(identity, cells.device())?;
        scatter(op, Replace, cells, axis, index, identity.view())?;
    }
    match reduction {
        ScatterReduction::Prod => scatter(op, ScatterProduct, cells, axis, index, values),
        ScatterReduction::Max => scatter(op, Maximum, cells, axis, index, values),
        ScatterReduction::Min => scatter(op, Minimum, cells, axis, index, values),
        ScatterReduction::Sum | ScatterReduction::Mean => scatter(op, ScatterSum, cells, axis, index, values),
    }
}

in_place! {
    /// Each element that an index selects becomes the sum, product, mean or extreme of all values scattered
    /// to it, and of its previous value if `include_self`:
    /// `self[.., index[.., i, ..], ..] ← values[.., i, ..]`. The other elements stay.
    ///
    /// Values are reduced in the order of `i`, for any number of threads; 16-bit floats are summed in f32,
    /// means in f64. For a custom operator, applied value by value, see [`scatter`](Tensor::scatter).
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
    fn scatter_reduce['b, 'c, const A: usize](
        reduction: ScatterReduction, axis: Axis<A>, index: impl IntoView<'b, i64, RANK, D>,
        values: impl IntoView<'c, T, RANK, D>, include_self: bool
    ) where Dim<RANK>: RemoveAxis<A>, T: Comparable = |view| {
        let _ = axis;
        view.scatter_reduce_axis(reduction, A, index, values, include_self)
    };

    /// As [`scatter_reduce`](Tensor::scatter_reduce), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn scatter_reduce_axis['b, 'c](
        reduction: ScatterReduction, axis: usize, index: impl IntoView<'b, i64, RANK, D>,
        values: impl IntoView<'c, T, RANK, D>, include_self: bool
    ) where T: Comparable = |view| {
        check_axis("scatter_reduce", axis, view.size())?;
        reduce("scatter_reduce", view, reduction, axis, index.into_view(), values.into_view(), include_self)
    };

    /// As [`scatter_reduce`](Tensor::scatter_reduce), with one index for all elements of a position of axis
    /// `A`.
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::ScatterReduction;
    /// let mut x = Tensor::from([[1, 2], [3, 4]]);
    /// let (index, values) = (Tensor::from([1, 1]), Tensor::from([[2, 3], [5, 1]]));
    /// x.index_reduce(ScatterReduction::Prod, Axis::<0>, &index, &values, true)?;
    /// assert_eq!(x, Tensor::from([[1, 2], [30, 12]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index_reduce['b, 'c, const A: usize](
        reduction: ScatterReduction, axis: Axis<A>, index: impl IntoView<'b, i64, 1, D>,
        values: impl IntoView<'c, T, RANK, D>, include_self: bool
    ) where Dim<RANK>: RemoveAxis<A>, T: Comparable = |view| {
        let _ = axis;
        view.index_reduce_axis(reduction, A, index, values, include_self)
    };

    /// As [`index_reduce`](Tensor::index_reduce), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn index_reduce_axis['b, 'c](
        reduction: ScatterReduction, axis: usize, index: impl IntoView<'b, i64, 1, D>,
        values: impl IntoView<'c, T, RANK, D>, include_self: bool
    ) where T: Comparable = |view| {
        check_axis("index_reduce", axis, view.size())?;
        let index = index.into_view();
        let index = index.reshape(sizes_along::<RANK>(axis, index.numel()))?;
        reduce("index_reduce", view, reduction, axis, index, values.into_view(), include_self)
    };
}
