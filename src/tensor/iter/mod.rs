//! Iterators over elements on the CPU, in row-major order; lanes, on every device.
//!
//! `views.rs` has `axis_iter`, the tensor at each position of an axis, and `chunks`.
// Imports: `dim`, `rank`, `layout`, `device`, `tensor`.

#[cfg(feature = "rayon")]
mod parallel;
mod positions;

#[cfg(feature = "rayon")]
pub use parallel::ParElements;

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::{Cpu, Device};
use crate::dim::{Axis, Dim};
use crate::layout::Layout;
use crate::rank::RemoveAxis;
use positions::Positions;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// The elements of a view; see [`TensorView::iter`].
pub type Iter<'a, T, const RANK: usize> = Elements<&'a T, RANK>;
/// The elements of an exclusive view; see [`TensorViewMut::iter_mut`].
pub type IterMut<'a, T, const RANK: usize> = Elements<&'a mut T, RANK>;

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for &T {}
    impl<T> Sealed for &mut T {}
}

/// A reference to an element: `&T` or `&mut T`.
pub trait Reference: sealed::Sealed + Sized {
    /// The bytes of the element.
    #[doc(hidden)]
    const SIZE: usize;
    /// The iterator of a slice.
    #[doc(hidden)]
    type Slice: ExactSizeIterator<Item = Self> + DoubleEndedIterator + FusedIterator;
    /// # Safety
    /// 1. A valid element lies at `address` for the lifetime of the reference.
    /// 2. An exclusive reference is the only one to it.
    #[doc(hidden)]
    unsafe fn at(address: *mut u8) -> Self;
    /// Splits off the first `at` elements.
    #[doc(hidden)]
    fn split(slice: Self::Slice, at: usize) -> (Self::Slice, Self::Slice);
}

impl<'a, T> Reference for &'a T {
    const SIZE: usize = size_of::<T>();
    type Slice = std::slice::Iter<'a, T>;
    #[inline(always)]
    unsafe fn at(address: *mut u8) -> &'a T {
        // SAFETY: (1) is the caller's promise.
        unsafe { &*address.cast() }
    }
    fn split(slice: Self::Slice, at: usize) -> (Self::Slice, Self::Slice) {
        let (first, second) = slice.as_slice().split_at(at);
        (first.iter(), second.iter())
    }
}

impl<'a, T> Reference for &'a mut T {
    const SIZE: usize = size_of::<T>();
    type Slice = std::slice::IterMut<'a, T>;
    #[inline(always)]
    unsafe fn at(address: *mut u8) -> &'a mut T {
        // SAFETY: (1) and (2) are the caller's promises.
        unsafe { &mut *address.cast() }
    }
    fn split(slice: Self::Slice, at: usize) -> (Self::Slice, Self::Slice) {
        let (first, second) = slice.into_slice().split_at_mut(at);
        (first.iter_mut(), second.iter_mut())
    }
}

/// The elements of a view in row-major order, as `&T` or `&mut T`.
pub struct Elements<REF: Reference, const RANK: usize>(Traversal<REF, RANK>);

enum Traversal<REF: Reference, const RANK: usize> {
    /// Row-major order is the order of memory.
    Slice(REF::Slice),
    /// Invariant 1: a `REF` may refer to the element at each of the positions, counted from the address; with
    /// `&mut T`, no other reference to it is alive or will be made.
    Strided(*mut u8, Positions<RANK>, PhantomData<REF>),
}

// SAFETY: an iterator is equivalent to the references that it returns; the address has no other use.
unsafe impl<REF: Reference + Send, const RANK: usize> Send for Elements<REF, RANK> where REF::Slice: Send {}
// SAFETY: as above; a shared iterator gives only its length, and for `&T` a clone.
unsafe impl<REF: Reference + Sync, const RANK: usize> Sync for Elements<REF, RANK> where REF::Slice: Sync {}

impl<'a, T, const RANK: usize> Elements<&'a T, RANK> {
    #[track_caller]
    fn new(view: TensorView<'a, T, RANK, Cpu>) -> Self {
        view.ensure_allocated("iter").unwrap_or_else(|error| panic!("{error}"));
        // Invariant 1: invariants 1 and 2 of the view, which has memory.
        let strided = || Traversal::Strided(view.address_of(0), Positions::new(*view.layout()), PhantomData);
        Elements(view.as_slice().map_or_else(strided, |slice| Traversal::Slice(slice.iter())))
    }
}

impl<'a, T, const RANK: usize> Elements<&'a mut T, RANK> {
    fn new(view: TensorViewMut<'a, T, RANK, Cpu>) -> Self {
        let (layout, base) = (*view.layout(), view.as_view().address_of(0));
        // Invariant 1: the view is exclusive for 'a and consumed here; no two of its indices address one
        // element.
        let strided = || Traversal::Strided(base, Positions::new(layout), PhantomData);
        Elements(view.into_slice_mut().map_or_else(strided, |slice| Traversal::Slice(slice.iter_mut())))
    }
}

#[inline(always)]
fn address<REF: Reference>(base: *mut u8, position: usize) -> *mut u8 {
    base.wrapping_add(position.wrapping_mul(REF::SIZE))
}

impl<REF: Reference, const RANK: usize> Iterator for Elements<REF, RANK> {
    type Item = REF;

    #[inline]
    fn next(&mut self) -> Option<REF> {
        match &mut self.0 {
            Traversal::Slice(slice) => slice.next(),
            Traversal::Strided(base, positions, _) => {
                let (_, position) = positions.next()?;
                // SAFETY: (1) and (2): invariant 1; each position is returned once.
                Some(unsafe { REF::at(address::<REF>(*base, position)) })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Traversal::Slice(slice) => slice.size_hint(),
            Traversal::Strided(_, positions, _) => positions.size_hint(),
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, REF) -> B>(self, init: B, mut f: F) -> B {
        match self.0 {
            Traversal::Slice(slice) => slice.fold(init, f),
            Traversal::Strided(base, positions, _) => positions.fold(init, |value, (_, position)| {
                // SAFETY: (1) and (2): invariant 1; each position is returned once.
                f(value, unsafe { REF::at(address::<REF>(base, position)) })
            }),
        }
    }
}

impl<REF: Reference, const RANK: usize> DoubleEndedIterator for Elements<REF, RANK> {
    #[inline]
    fn next_back(&mut self) -> Option<REF> {
        match &mut self.0 {
            Traversal::Slice(slice) => slice.next_back(),
            Traversal::Strided(base, positions, _) => {
                let (_, position) = positions.next_back()?;
                // SAFETY: (1) and (2): invariant 1; each position is returned once.
                Some(unsafe { REF::at(address::<REF>(*base, position)) })
            }
        }
    }
}

impl<REF: Reference, const RANK: usize> ExactSizeIterator for Elements<REF, RANK> {}
impl<REF: Reference, const RANK: usize> FusedIterator for Elements<REF, RANK> {}

impl<T, const RANK: usize> Clone for Elements<&T, RANK> {
    fn clone(&self) -> Self {
        Elements(match &self.0 {
            Traversal::Slice(slice) => Traversal::Slice(slice.clone()),
            Traversal::Strided(base, positions, _) => {
                Traversal::Strided(*base, positions.clone(), PhantomData)
            }
        })
    }
}

// ------------------------------------------------------------ constructors

impl<'a, T, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// The elements in row-major order, from both ends.
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert!(x.transposed().iter().eq(&[1, 3, 2, 4]));
    /// assert_eq!(x.iter().rev().next(), Some(&4));
    /// ```
    #[track_caller]
    pub fn iter(self) -> Iter<'a, T, RANK> {
        Elements::<&T, RANK>::new(self)
    }

    /// The elements in row-major order, each with its index.
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 9]]);
    /// let largest = x.indexed_iter().max_by_key(|(_, value)| **value);
    /// assert_eq!(largest, Some(([1, 1], &9)));
    /// ```
    #[track_caller]
    pub fn indexed_iter(
        self,
    ) -> impl ExactSizeIterator<Item = ([usize; RANK], &'a T)> + DoubleEndedIterator + use<'a, T, RANK> {
        self.ensure_allocated("indexed_iter").unwrap_or_else(|error| panic!("{error}"));
        Positions::new(*self.layout()).map(move |(index, position)| {
            // SAFETY: a position of the view, which has memory: a valid element that is not written for 'a.
            (index, unsafe { &*self.address_of(position).cast_const().cast::<T>() })
        })
    }
}

impl<'a, T, const RANK: usize> TensorViewMut<'a, T, RANK, Cpu> {
    /// The elements in row-major order, for writing.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([[1, 2], [3, 4]]);
    /// x.view_mut()?.slice((.., 1))?.iter_mut().for_each(|value| *value *= 10);
    /// assert_eq!(x.to_vec()?, [1, 20, 3, 40]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, T, RANK> {
        Elements::<&mut T, RANK>::new(self.reborrow())
    }

    /// The elements in row-major order, each with its index, for writing.
    pub fn indexed_iter_mut(
        &mut self,
    ) -> impl ExactSizeIterator<Item = ([usize; RANK], &mut T)> + DoubleEndedIterator {
        TensorViewMut::into_indexed_iter(self.reborrow())
    }

    fn into_indexed_iter(
        self,
    ) -> impl ExactSizeIterator<Item = ([usize; RANK], &'a mut T)> + DoubleEndedIterator + use<'a, T, RANK>
    {
        let whole = self;
        Positions::new(*whole.layout()).map(move |(index, position)| {
            // SAFETY: a position of this exclusive view, which is consumed; each position is returned once,
            // and no other position addresses its element.
            (index, unsafe { &mut *whole.as_view().address_of(position).cast::<T>() })
        })
    }
}

/// The positions at which the lanes along axis `A` start, and the layout of a lane.
fn lane_layouts<const A: usize, const M: usize, const RANK: usize>(
    layout: &Layout<RANK>,
) -> (Positions<M>, Layout<1>)
where
    Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
{
    let (size, stride) = (layout.size().0[A], layout.stride().0[A]);
    let lane = match layout.numel() {
        0 => Layout::row_major(Dim([size])), // the lanes are empty, or their number is 0
        _ => Layout::new([size], [stride], layout.offset())
            .expect("one axis of a layout with elements is a layout"),
    };
    (Positions::new(layout.indexed(A, 0)), lane)
}

impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// The vectors along axis `A`, in row-major order of the other axes.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let sums: Vec<i32> = x.lanes(Axis::<0>).map(|column| column.iter().sum()).collect();
    /// assert_eq!(sums, [5, 7, 9]);
    /// ```
    pub fn lanes<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl ExactSizeIterator<Item = TensorView<'a, T, 1, D>> + DoubleEndedIterator + use<'a, A, M, T, RANK, D>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let (starts, lane) = lane_layouts::<A, M, RANK>(self.layout());
        starts.map(move |(_, start)| {
            let start = if lane.numel() == 0 { lane.offset() } else { start };
            // SAFETY: the positions of this view along axis A, from one of them on.
            unsafe { self.with_layout(lane.with_offset(start)) }
        })
    }
}

impl<'a, T, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> {
    /// The vectors along axis `A`, in row-major order of the other axes, for writing.
    pub fn lanes_mut<const A: usize, const M: usize>(
        self,
        _: Axis<A>,
    ) -> impl ExactSizeIterator<Item = TensorViewMut<'a, T, 1, D>> + DoubleEndedIterator + use<'a, A, M, T, RANK, D>
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let (starts, lane) = lane_layouts::<A, M, RANK>(self.layout());
        let whole = self;
        starts.map(move |(_, start)| {
            let start = if lane.numel() == 0 { lane.offset() } else { start };
            let (base, device) = (whole.as_view().address_of(0), whole.device());
            // SAFETY: the positions along axis A of this exclusive view, which is consumed; each start is
            // returned once, and two lanes share no index, hence no element.
            unsafe { TensorViewMut::new(base, lane.with_offset(start), device) }
        })
    }
}

impl<T, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// The elements in row-major order; see [`TensorView::iter`].
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    #[track_caller]
    pub fn iter(&self) -> Iter<'_, T, RANK> {
        self.view().iter()
    }

    /// The elements in row-major order, each with its index; see [`TensorView::indexed_iter`].
    ///
    /// # Panics
    /// On a tensor that has sizes and no memory yet.
    #[track_caller]
    pub fn indexed_iter(&self) -> impl ExactSizeIterator<Item = ([usize; RANK], &T)> + DoubleEndedIterator {
        self.view().indexed_iter()
    }
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The vectors along axis `A`, in row-major order of the other axes; see [`TensorView::lanes`].
    pub fn lanes<const A: usize, const M: usize>(
        &self,
        axis: Axis<A>,
    ) -> impl ExactSizeIterator<Item = TensorView<'_, T, 1, D>> + DoubleEndedIterator
    where
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        self.view().lanes(axis)
    }
}

macro_rules! into_iterators {
    ($([$($life:lifetime),*] $type:ty => $item:ty, |$x:ident| $iter:expr;)*) => { $(
        impl<$($life,)* T, const RANK: usize> IntoIterator for $type {
            type Item = $item;
            type IntoIter = Elements<$item, RANK>;
            #[track_caller]
            fn into_iter(self) -> Self::IntoIter {
                let $x = self;
                Elements::<$item, RANK>::new($iter)
            }
        }
    )* };
}
into_iterators! {
    ['a] &'a Tensor<T, RANK, Cpu> => &'a T, |x| x.view();
    ['a] TensorView<'a, T, RANK, Cpu> => &'a T, |x| x;
    ['a] &TensorView<'a, T, RANK, Cpu> => &'a T, |x| *x;
    ['a, 'b] &'b TensorViewMut<'a, T, RANK, Cpu> => &'b T, |x| x.as_view();
    ['a] TensorViewMut<'a, T, RANK, Cpu> => &'a mut T, |x| x;
    ['a, 'b] &'b mut TensorViewMut<'a, T, RANK, Cpu> => &'b mut T, |x| x.reborrow();
}
