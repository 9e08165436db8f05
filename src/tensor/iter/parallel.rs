//! Elements and axes on all cores, as rayon's parallel iterators (feature `rayon`).
// Imports: `dim`, `rank`, `device`, `tensor`, its sequential iterators.

use super::{Elements, Reference, Traversal};
use crate::device::{Cpu, Device};
use crate::dim::{Axis, Dim};
use crate::rank::RemoveAxis;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use rayon::iter::plumbing::{Consumer, Producer, ProducerCallback, UnindexedConsumer, bridge};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::marker::PhantomData;

/// The elements of a view on all cores; see [`TensorView::par_iter`].
pub struct ParElements<REF: Reference, const RANK: usize>(Elements<REF, RANK>);

/// A part of the elements.
struct ParallelElements<REF: Reference, const RANK: usize>(Elements<REF, RANK>);

impl<REF: Reference + Send, const RANK: usize> Producer for ParallelElements<REF, RANK>
where
    REF::Slice: Send,
{
    type Item = REF;
    type IntoIter = Elements<REF, RANK>;

    fn into_iter(self) -> Self::IntoIter {
        self.0
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        match (self.0).0 {
            Traversal::Slice(slice) => {
                let (first, second) = REF::split(slice, at);
                (
                    ParallelElements(Elements(Traversal::Slice(first))),
                    ParallelElements(Elements(Traversal::Slice(second))),
                )
            }
            Traversal::Strided(base, positions, _) => {
                // Invariant 1 holds for both: every remaining position is in exactly one part.
                let (first, second) = positions.split_at(at);
                let part =
                    |positions| ParallelElements(Elements(Traversal::Strided(base, positions, PhantomData)));
                (part(first), part(second))
            }
        }
    }
}

impl<REF: Reference + Send, const RANK: usize> ParallelIterator for ParElements<REF, RANK>
where
    REF::Slice: Send,
{
    type Item = REF;
    fn drive_unindexed<C: UnindexedConsumer<REF>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }
    fn opt_len(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

impl<REF: Reference + Send, const RANK: usize> IndexedParallelIterator for ParElements<REF, RANK>
where
    REF::Slice: Send,
{
    fn len(&self) -> usize {
        self.0.len()
    }
    fn drive<C: Consumer<REF>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }
    fn with_producer<P: ProducerCallback<REF>>(self, callback: P) -> P::Output {
        callback.callback(ParallelElements(self.0))
    }
}

impl<'a, T: Sync, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// The elements in row-major order, on all cores.
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rayon::prelude::*;
    /// let x = Tensor::arange(0_i64, 1000, 1, &Cpu)?;
    /// assert_eq!(x.par_iter().map(|value| value * 2).sum::<i64>(), 999_000);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[track_caller]
    pub fn par_iter(self) -> ParElements<&'a T, RANK> {
        ParElements(self.iter())
    }
}

impl<T: Send, const RANK: usize> TensorViewMut<'_, T, RANK, Cpu> {
    /// The elements in row-major order, for writing, on all cores.
    pub fn par_iter_mut(&mut self) -> ParElements<&mut T, RANK> {
        ParElements(self.iter_mut())
    }
}

impl<'a, T: Sync, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// The tensor at each position of axis `A`, on all cores.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rayon::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let sums: Vec<i32> = x.view().par_axis_iter(Axis::<0>).map(|row| row.iter().sum()).collect();
    /// assert_eq!(sums, [6, 15]);
    /// ```
    pub fn par_axis_iter<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl IndexedParallelIterator<Item = TensorView<'a, T, M, D>> + use<'a, A, M, T, RANK, D>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        // SAFETY: a part of this view.
        (0..self.size().0[A])
            .into_par_iter()
            .map(move |at| unsafe { self.with_layout(self.layout().indexed(A, at)) })
    }
}

impl<'a, T: Send + Sync, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> {
    /// The exclusive tensor at each position of axis `A`, on all cores.
    pub fn par_axis_iter_mut<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl IndexedParallelIterator<Item = TensorViewMut<'a, T, M, D>> + use<'a, A, M, T, RANK, D>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let whole = self;
        (0..whole.size().0[A]).into_par_iter().map(move |at| {
            let (base, layout) = (whole.as_view().address_of(0), whole.layout().indexed(A, at));
            // SAFETY: a part of this exclusive view, which is consumed; each position of the axis is returned
            // once, and two of them share no index, hence no element.
            unsafe { TensorViewMut::new(base, layout, whole.device()) }
        })
    }
}

impl<T: Sync, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// The elements in row-major order, on all cores; see [`TensorView::par_iter`].
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    #[track_caller]
    pub fn par_iter(&self) -> ParElements<&T, RANK> {
        self.view().par_iter()
    }
}

macro_rules! into_parallel_iterators {
    ($([$($life:lifetime),*] $type:ty => $item:ty where $class:ident;)*) => { $(
        impl<$($life,)* T: $class, const RANK: usize> IntoParallelIterator for $type {
            type Item = $item;
            type Iter = ParElements<$item, RANK>;
            fn into_par_iter(self) -> Self::Iter {
                ParElements(self.into_iter())
            }
        }
    )* };
}
into_parallel_iterators! {
    ['a] &'a Tensor<T, RANK, Cpu> => &'a T where Sync;
    ['a] TensorView<'a, T, RANK, Cpu> => &'a T where Sync;
    ['a] TensorViewMut<'a, T, RANK, Cpu> => &'a mut T where Send;
    ['a, 'b] &'b mut TensorViewMut<'a, T, RANK, Cpu> => &'b mut T where Send;
}
