//! Elements read by index and by mask: gather, take, nonzero. Writes by index are in `scatter.rs`.
//!
//! Every operator sets up strides for one of two mechanisms of the device: gather or compact. Indices are
//! `i64` and count from 0. A negative index or one beyond its axis is
//! [`Error::Index`](crate::Error::Index): at once, and nothing is written, or as a deferred error of a
//! GPU.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::mask::{compact, count, masked};
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::Result;
use crate::expr::{IntoView, eval};
use crate::kernel::{Call, GatherPlan, IndexKind, IndexedAxes, Param};
use crate::layout::{Layout, joint_size};
use crate::ops::NotEqual;
use crate::ops::axes::{check_axis, sizes_along, with_size};
use crate::ops::methods::methods_with_into;
use crate::rank::{Rank, RemoveAxis};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// `y[.., i, ..] = x[.., index[.., i, ..], ..]`; on the other axes, sizes of 1 stretch.
pub(in crate::ops) fn gather<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    index: TensorView<'_, i64, RANK, D>,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    same_device(op, x.device(), index.device())?;
    x.ensure_allocated(op)?;
    index.ensure_allocated(op)?;
    let n = index.size().0[axis];
    let size = joint_size(op, with_size(x.size(), axis, n), index.size())?;
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        let from = x.layout().stretched(with_size(size, axis, x.size().0[axis])).stride();
        let cells = std::array::from_fn::<_, RANK, _>(|a| if a == axis { 0 } else { from.0[a] });
        let (to_stride, places) = (to.stride(), index.layout().stretched(size).stride());
        let of = IndexedAxes { kind: IndexKind::Axis(axis), sizes: &x.size().0 };
        let plan = GatherPlan { op, sizes: &size.0, own: 0, step: from.0[axis], bound: of.sizes[axis], of };
        let to = to.leaf().slot(&to_stride.0);
        // SAFETY: an exclusive view of these sizes, and two allocated views stretched to them; `cells` leaves
        // out the indexed axis, whose stride and size the plan has as `step` and `bound`.
        unsafe { x.device().gather(plan, to, x.leaf().slot(&cells), index.leaf().slot(&places.0)) }
    })
}

/// The elements of `x` at these row-major positions, in the sizes of `index`.
pub(in crate::ops) fn taken<
    T: Element,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, N, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    index: TensorView<'_, i64, N, D>,
    destination: P,
) -> Result<P::Done> {
    same_device(op, x.device(), index.device())?;
    x.ensure_allocated(op)?;
    index.ensure_allocated(op)?;
    let size = index.size();
    if N > 0 {
        check_axis(op, 0, size)?;
    }
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        let line = FlatElements::of(x)?;
        let line = line.view();
        let (to_stride, places) = (to.stride(), index.stride());
        let of = IndexedAxes { kind: IndexKind::Element, sizes: &x.size().0 };
        let (step, bound) = (line.stride().0[0], line.numel());
        let plan = GatherPlan { op, sizes: &size.0, own: 0, step, bound, of };
        let to = to.leaf().slot(&to_stride.0);
        // SAFETY: an exclusive view of the index's sizes; an allocated line with one element per cell.
        unsafe { x.device().gather(plan, to, line.leaf().slot(&[0; N]), index.leaf().slot(&places.0)) }
    })
}

/// A row of the table `x` for each index.
fn embedding_rows<T: Element, const N: usize, const M: usize, D: Device, P: Destination<T, M, D>>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
    index: TensorView<'_, i64, N, D>,
    destination: P,
) -> Result<P::Done> {
    same_device(op, x.device(), index.device())?;
    x.ensure_allocated(op)?;
    index.ensure_allocated(op)?;
    let [rows, columns] = x.size().0;
    let size = Dim(std::array::from_fn(|a| index.size().0.get(a).copied().unwrap_or(columns)));
    check_axis(op, 0, size)?;
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        let [step, along] = x.stride().0;
        let cells = std::array::from_fn::<_, M, _>(|a| if a < N { 0 } else { along });
        let places = std::array::from_fn::<_, M, _>(|a| index.stride().0.get(a).copied().unwrap_or(0));
        let to_stride = to.stride();
        let of = IndexedAxes { kind: IndexKind::Axis(0), sizes: &x.size().0 };
        let plan = GatherPlan { op, sizes: &size.0, own: 0, step, bound: rows, of };
        let to = to.leaf().slot(&to_stride.0);
        // SAFETY: an exclusive view of these sizes; an allocated index, broadcast along rows, and the first
        // row of an allocated table.
        unsafe { x.device().gather(plan, to, x.leaf().slot(&cells), index.leaf().slot(&places)) }
    })
}

/// The positions `index` of an axis, in that order.
pub(in crate::ops) fn selected<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    index: TensorView<'_, i64, 1, D>,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    gather(op, x, axis, index.reshape(sizes_along::<RANK>(axis, index.numel()))?, destination)
}

/// Elements selected by index and by mask, of tensors and views.
///
/// Indices are `i64` and count from 0; they and masks may have any strides. A negative index or one beyond
/// its axis is [`Error::Index`](crate::Error::Index). The CPU returns it at once. A GPU reads 0 there, and
/// [`check`](Device::check), [`synchronize`](Device::synchronize) and reads return the error later.
/// Tensors of `usize` and of other integers are cast first: `x.take(&places.cast::<i64>()?)`.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
/// assert_eq!(x.index_select(Axis::<1>, &Tensor::from([2, 0, 2]))?, Tensor::from([[3, 1, 3], [6, 4, 6]]));
/// assert_eq!(x.gather(Axis::<1>, &Tensor::from([[0], [2]]))?, Tensor::from([[1], [6]]));
/// assert_eq!(x.masked_select(&x.greater(2)?)?.to_vec()?, [3, 4, 5, 6]);
/// assert_eq!(x.equal(5)?.nonzero()?, Tensor::from([[1_i64, 1]]));
/// let error = x.index_select(Axis::<0>, &Tensor::from([0, 2])).unwrap_err();
/// assert_eq!(error.to_string(), "index_select: index 2 is outside axis 0 of size 2, of sizes [2, 3]");
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait Indexing<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The positions `index` of axis `A`, in that order: `y[.., i, ..] = x[.., index[i], ..]`.
    ///
    /// # Cost
    /// One allocation; positions along which the elements are contiguous are copied as a whole.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index), [`Error::Device`](crate::Error::Device),
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn index_select<'b, const A: usize>(
        self,
        axis: Axis<A>,
        index: impl IntoView<'b, i64, 1, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.index_select_axis(A, index)
    }

    /// As [`index_select`](Indexing::index_select), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn index_select_axis<'b>(
        self,
        axis: usize,
        index: impl IntoView<'b, i64, 1, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
    {
        selected("index_select", self.into_view(), axis, index.into_view(), Allocate)
    }

    /// As [`index_select`](Indexing::index_select), into an existing tensor or exclusive view. No allocation
    /// of a result.
    ///
    /// # Errors
    /// As [`index_select`](Indexing::index_select); [`Error::Output`](crate::Error::Output) when `out` has
    /// other sizes, [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    /// let mut batch = Tensor::<i32, 2>::zeros([2, 2], &Cpu)?;
    /// x.index_select_into(Axis::<0>, &Tensor::from([2, 0]), &mut batch)?;
    /// assert_eq!(batch, Tensor::from([[5, 6], [1, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index_select_into<'b, 'o, const A: usize>(
        self,
        axis: Axis<A>,
        index: impl IntoView<'b, i64, 1, D>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        selected("index_select_into", self.into_view(), A, index.into_view(), Existing(out))
    }

    /// One index for each element: `y[.., i, ..] = x[.., index[.., i, ..], ..]`. With the result of `argsort`
    /// it sorts.
    ///
    /// # Shapes
    /// On the other axes, the sizes of `x` and `index` agree or stretch from 1; along axis `A` the result has
    /// the size of `index`.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index), [`Error::Sizes`](crate::Error::Sizes),
    /// [`Error::Device`](crate::Error::Device), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    #[doc(alias = "take_along_axis")]
    fn gather<'b, const A: usize>(
        self,
        axis: Axis<A>,
        index: impl IntoView<'b, i64, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.gather_axis(A, index)
    }

    /// As [`gather`](Indexing::gather), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn gather_axis<'b>(
        self,
        axis: usize,
        index: impl IntoView<'b, i64, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
    {
        gather("gather", self.into_view(), axis, index.into_view(), Allocate)
    }

    /// As [`gather`](Indexing::gather), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`gather`](Indexing::gather); [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    fn gather_into<'b, 'o, const A: usize>(
        self,
        axis: Axis<A>,
        index: impl IntoView<'b, i64, RANK, D>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        gather("gather_into", self.into_view(), A, index.into_view(), Existing(out))
    }

    /// The elements at these row-major positions, in the sizes of `index`.
    ///
    /// # Cost
    /// One allocation; one more copy if the elements are not in row-major order.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index), [`Error::Device`](crate::Error::Device),
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.transposed().take(&Tensor::from([[0, 1], [2, 5]]))?, Tensor::from([[1, 4], [2, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn take<'b, const N: usize>(self, index: impl IntoView<'b, i64, N, D>) -> Result<Tensor<T, N, D>>
    where
        T: Element,
        D: 'b,
    {
        taken("take", self.into_view(), index.into_view(), Allocate)
    }

    /// As [`take`](Indexing::take), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As [`take`](Indexing::take); [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    fn take_into<'b, 'o, const N: usize>(
        self,
        index: impl IntoView<'b, i64, N, D>,
        out: impl IntoViewMut<'o, T, N, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'b + 'o,
    {
        taken("take_into", self.into_view(), index.into_view(), Existing(out))
    }

    /// `value` for elements whose mask is `true`, `self` for the others; sizes of 1 stretch.
    ///
    /// # Errors
    /// Those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, f64::NAN, 3.0]);
    /// assert_eq!(x.masked_fill(&x.is_nan()?, 0.0)?.to_vec()?, [1.0, 0.0, 3.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn masked_fill<'b>(self, mask: impl IntoView<'b, bool, RANK, D>, value: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
    {
        masked("masked_fill", self.into_view(), mask.into_view(), value, Allocate)
    }

    /// As [`masked_fill`](Indexing::masked_fill), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([1.0, f64::NAN, 3.0]), Tensor::from([9.0; 3]));
    /// x.masked_fill_into(&x.is_nan()?, 0.0, &mut y)?;
    /// assert_eq!(y.to_vec()?, [1.0, 0.0, 3.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn masked_fill_into<'b, 'o>(
        self,
        mask: impl IntoView<'b, bool, RANK, D>,
        value: T,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'b + 'o,
    {
        masked("masked_fill_into", self.into_view(), mask.into_view(), value, Existing(out))
    }

    /// The elements whose mask is `true`, in row-major order; sizes of 1 stretch.
    ///
    /// # Cost
    /// Two passes over the mask, and one synchronization with the device, to read the number of elements.
    ///
    /// # Errors
    /// [`Error::NoData`](crate::Error::NoData) on a device without data;
    /// [`Error::Sizes`](crate::Error::Sizes), [`Error::Device`](crate::Error::Device),
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn masked_select<'b>(self, mask: impl IntoView<'b, bool, RANK, D>) -> Result<Tensor<T, 1, D>>
    where
        T: Element,
        D: 'b,
    {
        let (op, x, mask) = ("masked_select", self.into_view(), mask.into_view());
        same_device(op, x.device(), mask.device())?;
        x.ensure_allocated(op)?;
        mask.ensure_allocated(op)?;
        let size = joint_size(op, x.size(), mask.size())?;
        let (x, mask) = (x.broadcast_to(size)?, mask.broadcast_to(size)?);
        let layout = Layout::row_major_of(op, Dim([count(mask)?]), size_of::<T>())?;
        let mut out = Tensor::uninit(op, layout, x.device())?;
        compact(x, mask, &mut out.try_view_mut(op)?)?;
        Ok(out)
    }

    /// The positions of the elements that are not 0 (or `false`): one row per element, one column per axis,
    /// in row-major order.
    ///
    /// # Cost
    /// As [`masked_select`](Indexing::masked_select), once for each axis.
    ///
    /// # Errors
    /// As [`masked_select`](Indexing::masked_select).
    #[doc(alias = "argwhere")]
    fn nonzero(self) -> Result<Tensor<i64, 2, D>>
    where
        T: Element,
    {
        let (op, x) = ("nonzero", self.into_view());
        let mask = eval(op, &Call::<NotEqual, _>::new((x, Param(T::default()))), x.device())?;
        let found = count(mask.view())?;
        let mut out =
            Tensor::uninit(op, Layout::row_major_of(op, Dim([found, RANK]), size_of::<i64>())?, x.device())?;
        for axis in 0..RANK {
            let n = x.size().0[axis];
            let numbers = Tensor::arange(0, n as i64, 1, x.device())?;
            let numbers = numbers.reshape(sizes_along::<RANK>(axis, n))?;
            let column = out.try_view_mut(op)?.slice((.., axis))?;
            compact(numbers.broadcast_to(x.size())?, mask.view(), &mut { column })?;
        }
        Ok(out)
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Indexing<'a, T, RANK, D> for X {}

methods_with_into! {
    [[T: Element,] T, 2 -> T]
    /// A row of this table for each index: `y[i.., :] = x[index[i..], :]`.
    ///
    /// # Shapes
    /// `x: [v, d]`, `index: [n, ..]` → `y: [n, .., d]`.
    ///
    /// # Errors
    /// As [`Indexing::index_select`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let table = Tensor::from([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]);
    /// let words = table.embedding(&Tensor::from([[2, 0], [1, 1]]))?;
    /// assert_eq!(words, Tensor::from([[[2.0, 2.5], [0.0, 0.5]], [[1.0, 1.5], [1.0, 1.5]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn embedding, embedding_into ['b, const N: usize, const M: usize](
        index: impl IntoView<'b, i64, N, D>
    ) -> M
    where [D: 'b, Dim<N>: Rank<Next = Dim<M>>]
    = |op, x, place| embedding_rows(op, x, index.into_view(), place);
}

/// All elements as one axis: a view if they are in row-major order, otherwise a copy.
pub(in crate::ops) enum FlatElements<'a, T, D: Device> {
    View(TensorView<'a, T, 1, D>),
    Copy(Tensor<T, 1, D>),
}

impl<'a, T: Element, D: Device> FlatElements<'a, T, D> {
    pub(in crate::ops) fn of<const RANK: usize>(x: TensorView<'a, T, RANK, D>) -> Result<Self> {
        let is_line = RANK == 1 || x.layout().is_contiguous();
        Ok(if is_line {
            FlatElements::View(x.reshape([x.numel()])?)
        } else {
            FlatElements::Copy(x.to_shape([x.numel()])?)
        })
    }
    pub(in crate::ops) fn view(&self) -> TensorView<'_, T, 1, D> {
        match self {
            FlatElements::View(line) => *line,
            FlatElements::Copy(copy) => copy.view(),
        }
    }
}
