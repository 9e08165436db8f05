//! Parts of a tensor along an axis: splits, chunks, the tensor at each position, and slices for writing
//! without a common element.
// Imports: `error`, `dim`, `rank`, `layout`, `device`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::rank::{RemoveAxis, SliceOfRank, SliceSpec};
use std::ops::Range;

impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// The part before position `at` of axis `A`, and the part from there on.
    ///
    /// # Errors
    /// [`Error::Slice`] when `at` is beyond the axis.
    pub fn split_at<const A: usize>(self, axis: Axis<A>, at: usize) -> Result<(Self, Self)>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let (first, second) = halves(self.layout(), axis, at)?;
        // SAFETY: parts of this view.
        Ok(unsafe { (self.with_layout(first), self.with_layout(second)) })
    }

    /// Consecutive parts of `len` along axis `A`; the last may be shorter.
    ///
    /// # Errors
    /// [`Error::Slice`] when `len` is 0.
    pub fn chunks<const A: usize>(
        self,
        _: Axis<A>,
        len: usize,
    ) -> Result<impl ExactSizeIterator<Item = TensorView<'a, T, RANK, D>>>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let size = self.size().0[A];
        if len == 0 {
            return Err(Error::Slice {
                op: "chunks",
                entry: text(format_args!("chunks of 0")),
                axis: A,
                size,
            });
        }
        let starts = 0..size.div_ceil(len);
        Ok(starts.map(move |i| {
            let layout = self.layout().ranged("chunks", A, i * len, (i * len + len).min(size), 1);
            // SAFETY: a part of this view.
            unsafe { self.with_layout(layout.expect("a chunk lies inside its axis")) }
        }))
    }

    /// The tensor at each position of axis `A`, in order.
    pub fn axis_iter<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl ExactSizeIterator<Item = TensorView<'a, T, M, D>> + DoubleEndedIterator
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        // SAFETY: a part of this view.
        (0..self.size().0[A]).map(move |at| unsafe { self.with_layout(self.layout().indexed(A, at)) })
    }
}

impl<'a, T, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> {
    /// The part before position `at` of axis `A`, and the part from there on: two exclusive views.
    ///
    /// # Errors
    /// [`Error::Slice`] when `at` is beyond the axis.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([1, 2, 3, 4]);
    /// let (mut low, high) = x.view_mut()?.split_at_mut(Axis::<0>, 2)?;
    /// low.assign(high.as_view())?;
    /// assert_eq!(x.to_vec()?, [3, 4, 3, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn split_at_mut<const A: usize>(self, axis: Axis<A>, at: usize) -> Result<(Self, Self)>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let (first, second) = halves(self.layout(), axis, at)?;
        // SAFETY: (1) parts of this view; (2) they share no index, hence no element.
        Ok(unsafe { self.split_into(first, second) })
    }

    /// Two slices without a common element, as two exclusive views; they may be interleaved. Slices of the
    /// results give more.
    ///
    /// # Errors
    /// [`Error::Slice`] when an entry leaves its axis or a step is 0, [`Error::Value`] when the slices share
    /// an element.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([[1, 2, 3, 4], [5, 6, 7, 8]]);
    /// let (mut even, odd) = x.view_mut()?.multi_slice_mut((.., (..).step(2)), (.., (1..).step(2)))?;
    /// even.assign(odd.as_view())?;
    /// assert_eq!(x, Tensor::from([[2, 2, 4, 4], [6, 6, 8, 8]]));
    /// assert!(x.view_mut()?.multi_slice_mut((0, ..), (.., 1..3)).is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn multi_slice_mut<A, B, const M: usize, const N: usize>(
        self,
        first: A,
        second: B,
    ) -> Result<(TensorViewMut<'a, T, M, D>, TensorViewMut<'a, T, N, D>)>
    where
        A: SliceSpec<Output = Dim<M>, Reads: SliceOfRank<RANK>>,
        B: SliceSpec<Output = Dim<N>, Reads: SliceOfRank<RANK>>,
    {
        let (one, other) = (self.layout().sliced(&first)?, self.layout().sliced(&second)?);
        if !self.layout().are_apart(&first, &second) {
            let what = text(format_args!(
                "two slices, of sizes {} and {}, share elements",
                one.size(),
                other.size()
            ));
            return Err(Error::Value { op: "multi_slice_mut", what });
        }
        // SAFETY: (1) slices of this view; (2) they share no index, hence no element.
        Ok(unsafe { self.split_into(one, other) })
    }

    /// Calls `f` with each block of `size` and its ranges, as tasks of the device; the last block along an
    /// axis may be smaller.
    pub(crate) fn for_each_block(
        self,
        size: [usize; RANK],
        f: &(dyn Fn([Range<usize>; RANK], TensorViewMut<'_, T, RANK, D>) -> Result<()> + Sync),
    ) -> Result<()>
    where
        T: Send + Sync,
    {
        let (whole, layout, view) = (self.size().0, *self.layout(), self.as_view());
        let size: [usize; RANK] = std::array::from_fn(|axis| size[axis].max(1));
        let count: [usize; RANK] = std::array::from_fn(|axis| whole[axis].div_ceil(size[axis]));
        self.device().for_each_task(count.iter().product(), &|task| {
            let (mut rest, mut layout) = (task, layout);
            let mut ranges = [const { 0..0 }; RANK];
            for axis in (0..RANK).rev() {
                let first = rest % count[axis] * size[axis];
                rest /= count[axis];
                ranges[axis] = first..whole[axis].min(first + size[axis]);
                layout = layout.ranged("block", axis, ranges[axis].start, ranges[axis].end, 1)?;
            }
            // SAFETY: (1) a block of this view, which is exclusive; (2) no two blocks share an index, and
            // each is given once, because a device calls a task at most once with each number.
            f(ranges, unsafe { TensorViewMut::part_of(view, layout) })
        })
    }

    /// Consecutive exclusive parts of `len` along axis `A`; the last may be shorter.
    ///
    /// # Errors
    /// [`Error::Slice`] when `len` is 0.
    pub fn chunks_mut<const A: usize>(
        self,
        _: Axis<A>,
        len: usize,
    ) -> Result<impl Iterator<Item = TensorViewMut<'a, T, RANK, D>>>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let size = self.size().0[A];
        if len == 0 {
            return Err(Error::Slice {
                op: "chunks_mut",
                entry: text(format_args!("chunks of 0")),
                axis: A,
                size,
            });
        }
        let mut rest = Some(self);
        Ok(std::iter::from_fn(move || {
            let view = rest.take()?;
            let left = view.size().0[A];
            if left == 0 {
                return None;
            }
            let (chunk, after) =
                view.split_at_mut(Axis::<A>, len.min(left)).expect("a chunk lies inside its axis");
            rest = Some(after);
            Some(chunk)
        }))
    }

    /// The exclusive tensor at each position of axis `A`, in order.
    pub fn axis_iter_mut<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl Iterator<Item = TensorViewMut<'a, T, M, D>>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let chunks = self.chunks_mut(Axis::<A>, 1).expect("chunks of 1");
        chunks.map(|chunk| {
            let layout = chunk.layout().indexed(A, 0);
            // SAFETY: the only position of the axis: the same elements.
            unsafe { chunk.with_layout(layout) }
        })
    }
}

fn halves<const A: usize, const RANK: usize>(
    layout: &Layout<RANK>,
    _: Axis<A>,
    at: usize,
) -> Result<(Layout<RANK>, Layout<RANK>)> {
    let size = layout.size().0[A];
    if at > size {
        return Err(Error::Slice {
            op: "split_at",
            entry: text(format_args!("a split at {at}")),
            axis: A,
            size,
        });
    }
    Ok((layout.ranged("split_at", A, 0, at, 1)?, layout.ranged("split_at", A, at, size, 1)?))
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The part before position `at` of axis `A`, and the part from there on.
    ///
    /// # Errors
    /// [`Error::Slice`] when `at` is beyond the axis.
    pub fn split_at<const A: usize>(
        &self,
        axis: Axis<A>,
        at: usize,
    ) -> Result<(TensorView<'_, T, RANK, D>, TensorView<'_, T, RANK, D>)>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        self.view().split_at(axis, at)
    }

    /// The tensor at each position of axis `A`, in order.
    pub fn axis_iter<const A: usize, const M: usize>(
        &self,
        axis: Axis<A>,
    ) -> impl ExactSizeIterator<Item = TensorView<'_, T, M, D>> + DoubleEndedIterator
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        self.view().axis_iter(axis)
    }

    /// Consecutive parts of `len` along axis `A`; the last may be shorter.
    ///
    /// # Errors
    /// [`Error::Slice`] when `len` is 0.
    pub fn chunks<const A: usize>(
        &self,
        axis: Axis<A>,
        len: usize,
    ) -> Result<impl ExactSizeIterator<Item = TensorView<'_, T, RANK, D>>>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        self.view().chunks(axis, len)
    }
}
