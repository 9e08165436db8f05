//! Elements and slices selected by several indices together: read and written.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::expr::{IntoView, eval};
use crate::kernel::{Call, GatherPlan, IndexKind, IndexedAxes, Op, Param};
use crate::layout::{Layout, joint_size};
use crate::ops::assign::in_place;
use crate::ops::axes::check_axis;
use crate::rank::{Rank, Without};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// Indices along the first `K` axes, one tensor or view of `i64` for each, all of rank `N`: a tuple of one to
/// four.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of tensors of indices",
    label = "expected one to four tensors or views of `i64`, of one rank: `(&rows, &columns)`",
    note = "other integers are cast first: `.cast::<i64>()?`; a smaller rank is lifted: `.lift()`"
)]
pub trait IndexTuple<'a, const K: usize, const N: usize, D: Device> {
    /// The indices as views.
    fn views(self) -> [TensorView<'a, i64, N, D>; K];
}

macro_rules! indices {
    ($($k:literal: $($index:ident)+;)*) => { $(
        impl<'a, const N: usize, D: Device, $($index: IntoView<'a, i64, N, D>),+> IndexTuple<'a, $k, N, D>
            for ($($index,)+)
        {
            #[allow(non_snake_case)]
            fn views(self) -> [TensorView<'a, i64, N, D>; $k] {
                let ($($index,)+) = self;
                [$($index.into_view()),+]
            }
        }
    )* };
}
indices! {
    1: I;
    2: I J;
    3: I J K;
    4: I J K L;
}

/// One step of the linear index: `(linear index so far, index, size, axis)`. A negative number names the
/// index that is out of range, as [`IndexKind::Joint`].
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct LinearIndex;

impl Op<(i64, i64, i64, i64)> for LinearIndex {
    const CHEAP: bool = true;
    const NAME: &'static str = "index";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>(
        (number, index, size, axis): (Lane<L, i64>, Lane<L, i64>, Lane<L, i64>, Lane<L, i64>),
    ) -> Lane<L, i64> {
        let position = index.clamp(-IndexKind::MAX_JOINT, IndexKind::MAX_JOINT);
        let outside = !(axis + (position + IndexKind::MAX_JOINT) * 4);
        let is_outside = index.lt(0) | index.ge(size);
        number.lt(0).select(number, is_outside.select(outside, number * size + index))
    }
}

/// The row-major position, among the first axes of a tensor of these sizes, that each tuple of indices
/// selects.
fn linear_indices<const K: usize, const N: usize, D: Device>(
    op: &'static str,
    indices: &[TensorView<'_, i64, N, D>; K],
    sizes: &[usize],
    device: &D,
) -> Result<Tensor<i64, N, D>> {
    for index in indices {
        same_device(op, device, index.device())?;
        index.ensure_allocated(op)?;
    }
    let step = |axis: usize| (indices[axis], Param(sizes[axis] as i64), Param(axis as i64));
    let (index, size, axis) = step(0);
    let mut numbers = eval(op, &Call::<LinearIndex, _>::new((Param(0), index, size, axis)), device)?;
    for (index, size, axis) in (1..K).map(step) {
        numbers = eval(op, &Call::<LinearIndex, _>::new((numbers.view(), index, size, axis)), device)?;
    }
    Ok(numbers)
}

/// The number of slices along the first `count` axes, and the stride between neighbors; `None` if the strides
/// are not equal.
fn coalesced<const RANK: usize>(layout: &Layout<RANK>, count: usize) -> Option<(usize, isize)> {
    let (size, stride) = (layout.size().0, layout.stride().0);
    if size.contains(&0) {
        // Slices without elements, or no slices: the stride is never used.
        return Some((size[..count].iter().fold(1, |parts: usize, &n| parts.saturating_mul(n)), 0));
    }
    let (mut parts, mut step, mut next) = (1_usize, 0, None);
    for axis in (0..count).rev().filter(|&axis| size[axis] != 1) {
        match next {
            None => step = stride[axis],
            Some(next) if next != stride[axis] => return None,
            Some(_) => {}
        }
        next = Some(stride[axis].wrapping_mul(size[axis] as isize));
        parts = parts.saturating_mul(size[axis]);
    }
    Some((parts, step))
}

/// Sizes and strides of the indices and of the selected slices: `M` axes, the first `N` of which are those of
/// the indices.
struct IndexPlan<const M: usize> {
    size: Dim<M>,
    cells: [isize; M],
    index: [isize; M],
}

impl<const M: usize> IndexPlan<M> {
    fn new<const N: usize, const RANK: usize, D: Device>(
        op: &'static str,
        numbers: &Tensor<i64, N, D>,
        x: &Layout<RANK>,
    ) -> Result<Self> {
        let (mut size, mut cells, mut index) = ([0; M], [0; M], [0; M]);
        for axis in 0..M {
            if axis < N {
                (size[axis], index[axis]) = (numbers.size().0[axis], numbers.stride().0[axis]);
            } else {
                let of_x = axis + RANK - M; // the same distance from the last axis
                (size[axis], cells[axis]) = (x.size().0[of_x], x.stride().0[of_x]);
            }
        }
        if M > 0 {
            check_axis(op, 0, Dim(size))?;
        }
        Ok(IndexPlan { size: Dim(size), cells, index })
    }
}

/// The elements or slices that the indices select.
fn indexed<
    T: Element,
    const RANK: usize,
    const K: usize,
    const N: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    indices: [TensorView<'_, i64, N, D>; K],
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let numbers = linear_indices(op, &indices, &x.size().0, x.device())?;
    let size = IndexPlan::<M>::new(op, &numbers, x.layout())?.size;
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        let (copy, (bound, step)) = match coalesced(x.layout(), K) {
            Some(parts) => (None, parts),
            None => {
                let [first, rest] =
                    [&x.size().0[..K], &x.size().0[K..]].map(|sizes| sizes.iter().product::<usize>());
                (Some(x.to_contiguous()?), (first, rest as isize))
            }
        };
        let x = copy.as_ref().map_or(x, |copy| copy.view());
        let IndexPlan { size, cells, index } = IndexPlan::<M>::new(op, &numbers, x.layout())?;
        let to_stride = to.stride();
        let of = IndexedAxes { kind: IndexKind::Joint, sizes: &x.size().0 };
        let plan = GatherPlan { op, sizes: &size.0, own: 0, step, bound, of };
        let to = to.leaf().slot(&to_stride.0);
        // SAFETY: an exclusive view of these sizes; an allocated index, broadcast along the axes of a slice,
        // and the first slice of an allocated view, which the others follow at equal strides.
        unsafe { x.device().gather(plan, to, x.leaf().slot(&cells), numbers.view().leaf().slot(&index)) }
    })
}

/// Replaces the selected elements by `F(element, value)`.
fn apply_at<
    F: Op<(T, T), Out = T>,
    T: Element,
    const RANK: usize,
    const K: usize,
    const N: usize,
    const M: usize,
    D: Device,
>(
    operator: F,
    x: &mut TensorViewMut<'_, T, RANK, D>,
    indices: [TensorView<'_, i64, N, D>; K],
    values: TensorView<'_, T, M, D>,
) -> Result<()> {
    let op = "index_put";
    same_device(op, x.device(), values.device())?;
    values.ensure_allocated(op)?;
    let numbers = linear_indices(op, &indices, &x.size().0, x.device())?;
    let Some((bound, step)) = coalesced(x.layout(), K) else {
        let mut copy = x.as_view().to_contiguous()?;
        apply_at(operator, &mut copy.try_view_mut(op)?, indices, values)?;
        return x.assign(&copy);
    };
    let IndexPlan { size, cells, index } = IndexPlan::<M>::new(op, &numbers, x.layout())?;
    if joint_size(op, values.size(), size)? != size {
        return Err(Error::Output { op, sizes: values.size().0.into(), found: size.0.into() });
    }
    let from = values.layout().stretched(size).stride();
    let sizes = x.size().0;
    let of = IndexedAxes { kind: IndexKind::Joint, sizes: &sizes };
    let plan = GatherPlan { op, sizes: &size.0, own: M - N, step, bound, of };
    let to = x.leaf().slot(&cells);
    // SAFETY: an exclusive view, whose slices follow each other at equal strides, and two allocated views
    // that do not overlap it, stretched to the sizes of the elements.
    unsafe {
        x.device().scatter(
            operator,
            plan,
            to,
            values.leaf().slot(&from.0),
            numbers.view().leaf().slot(&index),
        )
    }
}

/// Elements and slices selected by several indices, of tensors and views.
pub trait IndexingBySeveral<'a, T: 'a, const RANK: usize, D: Device>:
    IntoView<'a, T, RANK, D> + Sized
{
    /// The elements that the indices select together, one index along each of the first axes:
    /// `y[p.., ..] = x[i[p..], j[p..], ..]`.
    ///
    /// Indices are `i64` and count from 0.
    ///
    /// # Shapes
    /// The indices have one rank and broadcast to common sizes. The result has these sizes, then those of the
    /// axes without an index.
    ///
    /// # Cost
    /// One allocation and one pass over each index; one more copy of the operand if its first axes do not
    /// merge into one.
    ///
    /// # Errors
    /// [`Error::Index`], which a GPU returns at the next [`check`](Device::check),
    /// [`synchronize`](Device::synchronize) or read; [`Error::Sizes`], [`Error::Device`],
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let (i, j) = (Tensor::from([0, 1, 1]), Tensor::from([2, 0, 2]));
    /// assert_eq!(x.index((&i, &j))?.to_vec()?, [3, 4, 6]);
    /// let (rows, columns) = (Tensor::from([[1], [0]]), Tensor::from([[0, 2]]));
    /// assert_eq!(x.index((&rows, &columns))?, Tensor::from([[4, 6], [1, 3]]));
    /// let error = x.index((&i, &Tensor::from([3]))).unwrap_err();
    /// assert_eq!(error.to_string(), "index: index 3 is outside axis 1 of size 3, of sizes [2, 3]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index<'b, const K: usize, const N: usize, const M: usize>(
        self,
        indices: impl IndexTuple<'b, K, N, D>,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Element,
        D: 'b,
        Dim<N>: Rank,
        Dim<RANK>: Without<K, Output: Rank<Plus<Dim<N>> = Dim<M>>>,
    {
        indexed("index", self.into_view(), indices.views(), Allocate)
    }

    /// As [`index`](IndexingBySeveral::index), into an existing tensor or exclusive view. No allocation of a
    /// result.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([[1, 2, 3], [4, 5, 6]]), Tensor::from([0, 0]));
    /// x.index_into((&Tensor::from([1, 0]), &Tensor::from([2, 0])), &mut y)?;
    /// assert_eq!(y.to_vec()?, [6, 1]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index_into<'b, 'o, const K: usize, const N: usize, const M: usize>(
        self,
        indices: impl IndexTuple<'b, K, N, D>,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'b + 'o,
        Dim<N>: Rank,
        Dim<RANK>: Without<K, Output: Rank<Plus<Dim<N>> = Dim<M>>>,
    {
        indexed("index_into", self.into_view(), indices.views(), Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> IndexingBySeveral<'a, T, RANK, D>
    for X
{
}

in_place! {
    /// Applies an operator to the elements that the indices select together, one index along each of the
    /// first axes: `self[i[p..], j[p..], ..] ← operator(self[i[p..], j[p..], ..], values[p.., ..])`.
    ///
    /// `ops::Replace` sets, `ops::Add` sums. If several indices select one element, their values are applied
    /// in the order of the indices, for any number of threads: the last one set stays.
    ///
    /// # Shapes
    /// As [`index`](crate::ops::IndexingBySeveral::index), which reads them; `values` broadcast to the sizes
    /// of its result.
    ///
    /// # Cost
    /// As [`index`](crate::ops::IndexingBySeveral::index).
    ///
    /// # Errors
    /// [`Error::Index`], and nothing is written, or on a GPU as that of [`scatter`](Tensor::scatter);
    /// [`Error::Sizes`] when sizes do not broadcast, [`Error::Output`] when the selected elements would
    /// have to stretch; [`Error::Device`], [`Error::Unallocated`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops;
    /// let mut x = Tensor::from([[1, 1, 1], [2, 2, 2]]);
    /// let (i, j) = (Tensor::from([0, 1, 0]), Tensor::from([2, 0, 2]));
    /// x.index_put(ops::Add, (&i, &j), &Tensor::from([10, 20, 30]))?;
    /// assert_eq!(x, Tensor::from([[1, 1, 41], [22, 2, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn index_put['b, 'c, F: Op<(T, T), Out = T>, const K: usize, const N: usize, const M: usize](
        operator: F, indices: impl IndexTuple<'b, K, N, D>, values: impl IntoView<'c, T, M, D>
    ) where Dim<N>: Rank, Dim<RANK>: Without<K, Output: Rank<Plus<Dim<N>> = Dim<M>>> = |view| {
        apply_at(operator, view, indices.views(), values.into_view())
    };
}
