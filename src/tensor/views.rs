//! Views of tensors: slice, permute, lift, broadcast, …, for borrowed, exclusive and owned tensors alike.
//!
//! Each applies a function of layouts.
// Imports: `error`, `dim`, `rank`, `layout`, `device`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::dim::{Axis, Dim, Stride};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::layout::Layout;
use crate::rank::{InsertAxis, LiftTo, Rank, RemoveAxis, SliceOfRank, SliceSpec};
use std::ops::Range;

/// One row for each view: the same function of the layout for a view and an owned tensor.
macro_rules! views {
    ($($rows:tt)*) => {
        borrowed_views! { $($rows)* }
        owned_views! { $($rows)* }
    };
}

/// The views of views.
macro_rules! borrowed_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $into:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:tt
        $(where $($bound:ty: $trait:path),+)?
        = |$layout:ident| $body:expr;
    )*) => {
        impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (self, $($arg: $type),*)
                -> Result<TensorView<'a, T, $out, D>>
                $(where $($bound: $trait),+)? {
                let $layout = *self.layout();
                let layout = $body?;
                // SAFETY: the layout of a view has only positions of this one.
                Ok(unsafe { self.with_layout(layout) })
            }
        )* }
    };
}

/// The views of owned tensors.
macro_rules! owned_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $into:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:tt
        $(where $($bound:ty: $trait:path),+)?
        = |$layout:ident| $body:expr;
    )*) => {
        impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (&self, $($arg: $type),*)
                -> Result<TensorView<'_, T, $out, D>>
                $(where $($bound: $trait),+)? {
                self.view().$name($($arg),*)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), keeping \
                the memory alive instead of borrowing it.")]
            #[inline]
            pub fn $into $(<$($generics)*>)? (self, $($arg: $type),*)
                -> Result<Tensor<T, $out, D>>
                $(where $($bound: $trait),+)? {
                self.ensure_unfrozen(stringify!($into))?;
                let $layout = *self.layout();
                let layout = $body.map_err(|error| error.with_op(stringify!($into)))?;
                // SAFETY: the layout of a view has only positions of this one.
                Ok(unsafe { self.with_layout(layout) })
            }
        )* }
    };
}

/// The views that give each index its own element, for exclusive views.
macro_rules! exclusive_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:tt
        $(where $($bound:ty: $trait:path),+)?
        = |$layout:ident| $body:expr;
    )*) => {
        impl<'a, T, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (self, $($arg: $type),*)
                -> Result<TensorViewMut<'a, T, $out, D>>
                $(where $($bound: $trait),+)? {
                let $layout = *self.layout();
                let layout = $body?;
                // SAFETY: (1) the layout has only positions of this view, (2) and gives each of them one
                // index.
                Ok(unsafe { self.with_layout(layout) })
            }
        )* }
    };
}

views! {
    /// The part that a tuple selects: an index drops its axis, a range keeps it, `NewAxis` adds one. Where
    /// there is one axis, an entry alone is enough.
    ///
    /// # Shapes
    /// One entry for each axis; the types of the entries determine the rank of the result.
    ///
    /// # Errors
    /// [`Error::Slice`] when an entry leaves its axis or a step is 0.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3, 4], [5, 6, 7, 8]]);
    /// assert_eq!(x.slice((1, 1..3))?.to_vec()?, [6, 7]);
    /// assert_eq!(x.slice((.., (..).step(-2)))?.to_vec()?, [4, 2, 8, 6]);
    /// assert_eq!(x.slice((0, NewAxis, ..))?.size(), [1, 4]);
    /// let v = Tensor::from([1, 2, 3]);
    /// assert_eq!(v.slice(..2)?.to_vec()?, [1, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn slice, into_slice[S: SliceSpec<Output = Dim<M>>, const M: usize](spec: S) -> M
        where S::Reads: SliceOfRank<RANK>
        = |layout| layout.sliced(&spec);

    /// Axis `a` of the result is axis `order[a]` of this tensor.
    ///
    /// # Errors
    /// [`Error::Permutation`] unless `order` names every axis once.
    #[doc(alias = "permute")]
    fn permuted, into_permuted(order: [usize; RANK]) -> RANK = |layout| layout.permuted(order);

    /// Broadcasts axes of size 1 to `size`, without memory: by a stride of 0.
    ///
    /// # Errors
    /// [`Error::Sizes`] when another axis differs, [`Error::Overflow`] when the elements cannot be counted.
    fn broadcast_to, into_broadcast(size: impl Into<Dim<RANK>>) -> RANK = |layout| layout.broadcast_to(size);

    /// Drops axis `A`, which has size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] when it has another size.
    #[doc(alias = "squeeze")]
    fn remove_axis, into_remove_axis[const A: usize, const M: usize](_axis: Axis<A>) -> M
        where Dim<RANK>: RemoveAxis<A, Output = Dim<M>>
        = |layout| layout.removed(A);

    /// Other sizes for the same elements in row-major order, as a view; [`to_shape`](Tensor::to_shape) copies
    /// instead.
    ///
    /// # Errors
    /// [`Error::Length`] when the numbers of elements differ, [`Error::NeedsCopy`] when no strides fit.
    fn reshape, into_shape[const N: usize](size: impl Into<Dim<N>>) -> N = |layout| layout.reshaped(size);

    /// Windows of `len` positions of axis `A`, `step` apart; the new last axis runs inside a window.
    ///
    /// # Errors
    /// [`Error::Slice`] when `len` or `step` is 0 or the window is longer than the axis.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1, 2, 3, 4]);
    /// assert_eq!(x.windows(Axis::<0>, 3, 1)?.to_vec()?, [1, 2, 3, 2, 3, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    /// A reduction over windows loops along each window, which is slow when windows are short. One expression
    /// over slices loops along the rows instead and is much faster for small windows.
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0, 3.0, 7.0]);
    /// let n = x.numel() - 2;
    /// let at = |i| x.slice((i..i + n,));
    /// let mean = ((at(0)?.lazy() + at(1)? + at(2)?) / 3.0).eval()?;
    /// assert_eq!(mean, x.windows(Axis::<0>, 3, 1)?.mean(Axis::<1>)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "unfold")]
    fn windows, into_windows[const A: usize, const N: usize](_axis: Axis<A>, len: usize, step: usize) -> N
        where Dim<RANK>: RemoveAxis<A>, Dim<RANK>: Rank<Next = Dim<N>>
        = |layout| layout.windowed(A, len, step);

    /// The elements whose indices along axes `A` and `B` are equal, as a new last axis.
    ///
    /// # Errors
    /// [`Error::Axis`] when `A` is `B`.
    fn diagonal, into_diagonal[const A: usize, const B: usize, const M: usize](
        _first: Axis<A>, _second: Axis<B>
    ) -> M
        where Dim<RANK>: RemoveAxis<A, Output = Dim<M>>, Dim<RANK>: RemoveAxis<B>
        = |layout| layout.diagonal(A, B);

    /// Axis `axis`, known at run time, read backwards.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis.
    fn reversed_axis, into_reversed_axis(axis: usize) -> RANK
        = |layout| layout.reversed(axis).map_err(|error| error.with_op("reversed_axis"));

    /// Positions `range` of axis `axis`, known at run time, every `step`-th, from the last when the step is
    /// negative.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis, [`Error::Slice`] when the range leaves it or the step is
    /// 0.
    fn slice_axis, into_slice_axis(axis: usize, range: Range<usize>, step: isize) -> RANK
        = |layout| layout.ranged("slice_axis", axis, range.start, range.end, step);
}

exclusive_views! {
    /// The part that a tuple selects; see [`Tensor::slice`].
    ///
    /// # Errors
    /// [`Error::Slice`] when an entry leaves its axis or a step is 0.
    fn slice[S: SliceSpec<Output = Dim<M>>, const M: usize](spec: S) -> M
        where S::Reads: SliceOfRank<RANK>
        = |layout| layout.sliced(&spec);

    /// Axis `a` of the result is axis `order[a]` of this tensor.
    ///
    /// # Errors
    /// [`Error::Permutation`] unless `order` names every axis once.
    fn permuted(order: [usize; RANK]) -> RANK = |layout| layout.permuted(order);

    /// Drops axis `A`, which has size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] when it has another size.
    fn remove_axis[const A: usize, const M: usize](_axis: Axis<A>) -> M
        where Dim<RANK>: RemoveAxis<A, Output = Dim<M>>
        = |layout| layout.removed(A);

    /// Other sizes for the same elements in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] when the numbers of elements differ, [`Error::NeedsCopy`] when no strides fit.
    fn reshape[const N: usize](size: impl Into<Dim<N>>) -> N = |layout| layout.reshaped(size);

    /// The elements whose indices along axes `A` and `B` are equal, as a new last axis.
    ///
    /// # Errors
    /// [`Error::Axis`] when `A` is `B`.
    fn diagonal[const A: usize, const B: usize, const M: usize](_first: Axis<A>, _second: Axis<B>) -> M
        where Dim<RANK>: RemoveAxis<A, Output = Dim<M>>, Dim<RANK>: RemoveAxis<B>
        = |layout| layout.diagonal(A, B);

    /// Axis `axis`, known at run time, read backwards.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis.
    fn reversed_axis(axis: usize) -> RANK
        = |layout| layout.reversed(axis).map_err(|error| error.with_op("reversed_axis"));

    /// Positions `range` of axis `axis`, known at run time, every `step`-th, from the last when the step is
    /// negative.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis, [`Error::Slice`] when the range leaves it or the step is
    /// 0.
    fn slice_axis(axis: usize, range: Range<usize>, step: isize) -> RANK
        = |layout| layout.ranged("slice_axis", axis, range.start, range.end, step);
}

/// Views that cannot fail, by their types.
macro_rules! sure_views {
    ($($rows:tt)*) => {
        sure_borrowed_views! { $($rows)* }
        sure_owned_views! { $($rows)* }
    };
}

/// The views of views that cannot fail.
macro_rules! sure_borrowed_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $into:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:tt
        $(where $($bound:ty: $trait:path),+)?
        = |$layout:ident| $body:expr;
    )*) => {
        impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (self, $($arg: $type),*)
                -> TensorView<'a, T, $out, D>
                $(where $($bound: $trait),+)? {
                let $layout = *self.layout();
                let layout = $body;
                // SAFETY: the layout of a view has only positions of this one.
                unsafe { self.with_layout(layout) }
            }
        )* }
        impl<'a, T, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (self, $($arg: $type),*)
                -> TensorViewMut<'a, T, $out, D>
                $(where $($bound: $trait),+)? {
                let $layout = *self.layout();
                let layout = $body;
                // SAFETY: (1) the layout has only positions of this view, (2) and gives each of them one
                // index.
                unsafe { self.with_layout(layout) }
            }
        )* }
    };
}

/// The views of owned tensors that cannot fail.
macro_rules! sure_owned_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $into:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:tt
        $(where $($bound:ty: $trait:path),+)?
        = |$layout:ident| $body:expr;
    )*) => {
        impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (&self, $($arg: $type),*)
                -> TensorView<'_, T, $out, D>
                $(where $($bound: $trait),+)? {
                self.view().$name($($arg),*)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), keeping \
                the memory alive instead of borrowing it.")]
            ///
            /// # Errors
            /// [`Error::MetadataFrozen`] on a handle whose metadata is frozen.
            #[inline]
            pub fn $into $(<$($generics)*>)? (self, $($arg: $type),*)
                -> Result<Tensor<T, $out, D>>
                $(where $($bound: $trait),+)? {
                self.ensure_unfrozen(stringify!($into))?;
                let $layout = *self.layout();
                let layout = $body;
                // SAFETY: the layout of a view has only positions of this one.
                Ok(unsafe { self.with_layout(layout) })
            }
        )* }
    };
}

sure_views! {
    /// All axes in reverse order: the transpose of a matrix.
    #[doc(alias = "t", alias = "transpose")]
    fn transposed, into_transposed() -> RANK = |layout| layout.transposed();

    /// New leading axes of size 1; the rank is inferred: `&matrix + row.lift()`.
    fn lift, into_lift[const N: usize]() -> N where Dim<RANK>: LiftTo<N> = |layout| layout.lifted();

    /// A new axis of size 1 at place `A`.
    #[doc(alias = "unsqueeze")]
    fn insert_axis, into_insert_axis[const A: usize, const N: usize](_axis: Axis<A>) -> N
        where Dim<RANK>: InsertAxis<A, Output = Dim<N>>
        = |layout| layout.grown(A);

    /// Axis `A` read backwards.
    #[doc(alias = "flip")]
    fn reversed, into_reversed[const A: usize](_axis: Axis<A>) -> RANK
        where Dim<RANK>: RemoveAxis<A>
        = |layout| layout.reversed_at::<A>();
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Any sizes, strides and offset (in elements, from the start of the memory) that stay inside the memory.
    ///
    /// # Errors
    /// [`Error::Bounds`] when a position would lie outside, [`Error::Overflow`] when the elements cannot be
    /// counted, [`Error::Unallocated`] when there is no memory yet.
    pub fn as_strided<const N: usize>(
        &self,
        size: impl Into<Dim<N>>,
        stride: impl Into<Stride<N>>,
        offset: usize,
    ) -> Result<TensorView<'_, T, N, D>> {
        let view = self.view();
        view.ensure_allocated("as_strided")?;
        let layout =
            Layout::within("as_strided", size.into(), stride.into(), offset as i128, self.capacity())?;
        // SAFETY: the layout was checked against the memory, all of which this handle may read.
        Ok(unsafe { view.with_layout(layout) })
    }
}
