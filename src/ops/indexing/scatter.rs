//! Elements written by index and by mask: scatter with any operator, masked scatter.
//!
//! Indices are `i64` and count from 0. A negative index or one beyond its axis is [`Error::Index`]: at
//! once, and nothing is written, or as a deferred error of a GPU, and the element is not written.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval};
use crate::kernel::{Call, GatherPlan, IndexKind, IndexedAxes, Op};
use crate::layout::{Layout, joint_size};
use crate::ops::assign::in_place;
use crate::ops::axes::{check_axis, sizes_along, with_size};
use crate::ops::indexing::mask::count;
use crate::ops::{Arithmetic as _, Cast as _, Indexing as _, Scans as _, Select};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// The operator that returns the new value: a plain write for [`Tensor::scatter`].
#[derive(Clone, Copy, Debug)]
pub struct Replace;

impl<T: Element> Op<(T, T)> for Replace {
    const CHEAP: bool = true;
    const NAME: &'static str = "replace";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((_, new): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        new
    }
}

/// The sizes of the scattered elements: those of the cells, and along `axis` the joint size of index and
/// values. Checks every error condition of a scatter, except for indices out of range.
pub(in crate::ops) fn scatter_size<T: Element, const RANK: usize, D: Device>(
    op: &'static str,
    cells: &TensorViewMut<'_, T, RANK, D>,
    axis: usize,
    index: &TensorView<'_, i64, RANK, D>,
    values: &TensorView<'_, T, RANK, D>,
) -> Result<Dim<RANK>> {
    check_axis(op, axis, cells.size())?;
    same_device(op, cells.device(), index.device())?;
    same_device(op, cells.device(), values.device())?;
    index.ensure_allocated(op)?;
    values.ensure_allocated(op)?;
    // The number of elements may differ from that of the cells along this axis only.
    let n = joint_size(op, index.size(), values.size())?.0[axis];
    let size = with_size(cells.size(), axis, n);
    for operand in [index.size(), values.size()] {
        let joint = joint_size(op, operand, size)?;
        if joint != size {
            let sizes = with_size(joint, axis, cells.size().0[axis]).0.into();
            return Err(Error::Output { op, sizes, found: cells.size().0.into() });
        }
    }
    Ok(size)
}

/// `cells[.., j, ..] ← F(cells[.., j, ..], values[.., i, ..])` with `j = index[.., i, ..]`, in the order of
/// `i`.
pub(in crate::ops) fn scatter<F: Op<(T, T), Out = T>, T: Element, const RANK: usize, D: Device>(
    op: &'static str,
    operator: F,
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    axis: usize,
    index: TensorView<'_, i64, RANK, D>,
    values: TensorView<'_, T, RANK, D>,
) -> Result<()> {
    let sizes = cells.size().0;
    let of = IndexedAxes { kind: IndexKind::Axis(axis), sizes: &sizes };
    scatter_of(op, operator, (cells, of), axis, index, values)
}

/// As [`scatter`], with the axes of which errors speak.
pub(in crate::ops) fn scatter_of<F: Op<(T, T), Out = T>, T: Element, const RANK: usize, D: Device>(
    op: &'static str,
    operator: F,
    (cells, of): (&mut TensorViewMut<'_, T, RANK, D>, IndexedAxes<'_>),
    axis: usize,
    index: TensorView<'_, i64, RANK, D>,
    values: TensorView<'_, T, RANK, D>,
) -> Result<()> {
    let size = scatter_size(op, cells, axis, &index, &values)?;
    // First the axis along which several elements may write to one cell, then the other axes.
    let order: [usize; RANK] =
        std::array::from_fn(|a| if a == 0 { axis } else { a - usize::from(a <= axis) });
    let mut stride = cells.layout().reordered(order).stride();
    let step = std::mem::replace(&mut stride.0[0], 0);
    let (sizes, bound) = (order.map(|axis| size.0[axis]), cells.size().0[axis]);
    let steps = |layout: &Layout<RANK>| layout.stretched(size).reordered(order).stride();
    let (places, from) = (steps(index.layout()), steps(values.layout()));
    let plan = GatherPlan { op, sizes: &sizes, own: RANK - 1, step, bound, of };
    let to = cells.leaf().slot(&stride.0);
    // SAFETY: an exclusive view, and two allocated views that do not overlap it, stretched to the sizes of
    // the elements.
    unsafe {
        cells.device().scatter(operator, plan, to, values.leaf().slot(&from.0), index.leaf().slot(&places.0))
    }
}

/// As [`scatter`], with one index for all elements of a position.
pub(in crate::ops) fn index_scatter<F: Op<(T, T), Out = T>, T: Element, const RANK: usize, D: Device>(
    op: &'static str,
    operator: F,
    cells: &mut TensorViewMut<'_, T, RANK, D>,
    axis: usize,
    index: TensorView<'_, i64, 1, D>,
    values: TensorView<'_, T, RANK, D>,
) -> Result<()> {
    check_axis(op, axis, cells.size())?;
    scatter(op, operator, cells, axis, index.reshape(sizes_along::<RANK>(axis, index.numel()))?, values)
}

in_place! {
    /// Applies an operator to the elements that indices select:
    /// `self[.., j, ..] ← operator(self[.., j, ..], values[.., i, ..])` with `j = index[.., i, ..]`.
    ///
    /// `ops::Replace` sets, `ops::Add` sums, `ops::Maximum`, `ops::Minimum`, `ops::Mul` and custom operators
    /// work alike. If several indices select one element, their values are applied in the order of `i`, for
    /// any number of threads: the last one set stays.
    ///
    /// # Shapes
    /// On the other axes, `index` and `values` have the sizes of `self`, or 1; along axis `A` they agree, or
    /// one has 1.
    ///
    /// # Errors
    /// [`Error::Index`], and nothing is written; a GPU leaves out the element, and returns the error at
    /// the next [`check`](Device::check), [`synchronize`](Device::synchronize) or read. [`Error::Sizes`]
    /// when sizes do not broadcast, [`Error::Output`] when `self` would have to stretch;
    /// [`Error::Device`], [`Error::Unallocated`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops;
    /// let mut x = Tensor::from([[1, 1, 1], [2, 2, 2]]);
    /// x.scatter(ops::Add, Axis::<1>, &Tensor::from([[0, 0], [2, 1]]), &Tensor::from([[10, 20], [30, 40]]))?;
    /// assert_eq!(x, Tensor::from([[31, 1, 1], [2, 42, 32]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "put_along_axis")]
    fn scatter['b, 'c, F: Op<(T, T), Out = T>, const A: usize](
        operator: F, axis: Axis<A>, index: impl IntoView<'b, i64, RANK, D>,
        values: impl IntoView<'c, T, RANK, D>
    ) where Dim<RANK>: RemoveAxis<A> = |view| {
        let _ = axis;
        view.scatter_axis(operator, A, index, values)
    };

    /// As [`scatter`](Tensor::scatter), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn scatter_axis['b, 'c, F: Op<(T, T), Out = T>](
        operator: F, axis: usize, index: impl IntoView<'b, i64, RANK, D>,
        values: impl IntoView<'c, T, RANK, D>
    ) = |view| {
        scatter("scatter", operator, view, axis, index.into_view(), values.into_view())
    };

    /// Applies an operator to the positions `index` of axis `A`:
    /// `self[.., j, ..] ← operator(self[.., j, ..], values[.., i, ..])` with `j = index[i]`.
    ///
    /// As [`scatter`](Tensor::scatter), with one index for all elements of a position.
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops;
    /// let mut x = Tensor::<f32, 2>::zeros([3, 2], &Cpu)?;
    /// let values = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// x.index_scatter(ops::Add, Axis::<0>, &Tensor::from([2, 0, 2]), &values)?;
    /// assert_eq!(x, Tensor::from([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "index_add", alias = "index_copy")]
    fn index_scatter['b, 'c, F: Op<(T, T), Out = T>, const A: usize](
        operator: F, axis: Axis<A>, index: impl IntoView<'b, i64, 1, D>, values: impl IntoView<'c, T, RANK, D>
    ) where Dim<RANK>: RemoveAxis<A> = |view| {
        let _ = axis;
        view.index_scatter_axis(operator, A, index, values)
    };

    /// As [`index_scatter`](Tensor::index_scatter), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn index_scatter_axis['b, 'c, F: Op<(T, T), Out = T>](
        operator: F, axis: usize, index: impl IntoView<'b, i64, 1, D>, values: impl IntoView<'c, T, RANK, D>
    ) = |view| {
        index_scatter("index_scatter", operator, view, axis, index.into_view(), values.into_view())
    };

    /// Writes values, in row-major order, to the elements whose mask is `true`; the mask broadcasts to the
    /// sizes of `self`.
    ///
    /// # Cost
    /// Three passes, and one synchronization with the device, to read the number of values.
    ///
    /// # Errors
    /// [`Error::Value`] for fewer values than selected elements, and nothing is written; [`Error::Sizes`],
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::NoData`] on a device without data.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([[1, 2], [3, 4]]);
    /// x.masked_scatter(&Tensor::from([[true, false], [false, true]]), &Tensor::from([10, 20, 30]))?;
    /// assert_eq!(x, Tensor::from([[10, 2], [3, 20]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn masked_scatter['b, 'c, const N: usize](
        mask: impl IntoView<'b, bool, RANK, D>, values: impl IntoView<'c, T, N, D>
    ) = |view| {
        let (op, size, values) = ("masked_scatter", view.size(), values.into_view());
        let mask = mask.into_view().broadcast_to(size).map_err(|error| error.with_op(op))?;
        let (wanted, there) = (count(mask)?, values.numel());
        if wanted > there {
            return Err(Error::Value { op, what: text(format_args!("{there} values for {wanted} places")) });
        }
        if wanted == 0 {
            return Ok(());
        }
        // The number of selected elements before each one; elements that are not selected read an arbitrary
        // value.
        let line = mask.to_shape([mask.numel()])?;
        let before = line.lazy().cast::<i64>().cumsum(Axis::<0>)?;
        let index = (before.lazy() - 1).maximum(0).eval()?.into_shape(size)?;
        let chosen = eval(
            op, &Call::<Select, _>::new((mask, values.take(&index)?.view(), view.as_view())), values.device()
        )?;
        view.assign(&chosen)
    };
}
