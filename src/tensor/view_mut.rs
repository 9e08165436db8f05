//! `TensorViewMut`: a tensor borrowed for writing, in which every index has its own element.
// Imports: `error`, `dim`, `layout`, `device`.

use super::Tensor;
use super::view::{Leaf, TensorView};
use crate::device::{Cpu, Device};
use crate::dim::{Dim, Stride};
use crate::error::{Error, Result};
use crate::layout::Layout;
use std::marker::PhantomData;

/// A tensor borrowed for writing. Not `Copy`; [`reborrow`](TensorViewMut::reborrow) borrows it for a shorter
/// time.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let mut x = Tensor::<f32, 2>::zeros([2, 3], &Cpu)?;
/// x.view_mut()?.slice((.., 1))?.fill(7.0)?;
/// assert_eq!(x.to_vec()?, [0.0, 7.0, 0.0, 0.0, 7.0, 0.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct TensorViewMut<'a, T, const RANK: usize, D: Device = Cpu> {
    /// The view for reading; invariant 1: no two indices address one element.
    view: TensorView<'a, T, RANK, D>,
    /// Invariant 2: for `'a` no other code reads or writes those elements.
    _elements: PhantomData<&'a mut [T]>,
}

// SAFETY: an exclusive view is a `&mut [T]` with a layout: it may be sent wherever `&mut T` may be.
unsafe impl<T: Send, const RANK: usize, D: Device> Send for TensorViewMut<'_, T, RANK, D> {}
// SAFETY: `&TensorViewMut` only reads.
unsafe impl<T: Sync, const RANK: usize, D: Device> Sync for TensorViewMut<'_, T, RANK, D> {}

/// The whole tensor, for writing. The errors are those of [`Tensor::view_mut`], because another handle may
/// share the memory.
impl<'a, T, const RANK: usize, D: Device> TryFrom<&'a mut Tensor<T, RANK, D>>
    for TensorViewMut<'a, T, RANK, D>
{
    type Error = Error;
    #[inline]
    fn try_from(tensor: &'a mut Tensor<T, RANK, D>) -> Result<Self> {
        tensor.view_mut()
    }
}

impl<'a, T, const RANK: usize, D: Device> From<TensorViewMut<'a, T, RANK, D>> for TensorView<'a, T, RANK, D> {
    #[inline]
    fn from(view: TensorViewMut<'a, T, RANK, D>) -> Self {
        view.into_view()
    }
}

impl<'a, T, const RANK: usize, D: Device> TensorViewMut<'a, T, RANK, D> {
    /// # Safety
    /// 1. The promises of [`TensorView::new`].
    /// 2. Invariants 1 and 2.
    #[inline]
    pub(crate) unsafe fn new(base: *mut u8, layout: Layout<RANK>, device: &'a D) -> Self {
        // SAFETY: the caller's promise.
        TensorViewMut { view: unsafe { TensorView::new(base, layout, true, device) }, _elements: PhantomData }
    }

    /// The same memory under another layout.
    ///
    /// # Safety
    /// 1. Every position of `layout` is one of this view's.
    /// 2. No two of its indices address one element.
    #[inline]
    pub(super) unsafe fn with_layout<const M: usize>(self, layout: Layout<M>) -> TensorViewMut<'a, T, M, D> {
        // SAFETY: (1) is the caller's promise.
        TensorViewMut { view: unsafe { self.view.with_layout(layout) }, _elements: PhantomData }
    }

    /// The same memory as elements `U`.
    ///
    /// # Safety
    /// 1. The promises of [`TensorView::retyped`].
    /// 2. No two indices of `layout` address one element.
    /// 3. All bytes are valid for both elements.
    #[inline]
    pub(super) unsafe fn retyped<U, const M: usize>(self, layout: Layout<M>) -> TensorViewMut<'a, U, M, D> {
        // SAFETY: (1) is the caller's promise.
        TensorViewMut { view: unsafe { self.view.retyped(layout) }, _elements: PhantomData }
    }

    /// A part of an exclusive view, by the view for reading.
    ///
    /// # Safety
    /// 1. The promises of [`TensorViewMut::with_layout`], for a view that was exclusive and stays unused.
    /// 2. No other part has a position of this one while it lives.
    pub(super) unsafe fn part_of(whole: TensorView<'a, T, RANK, D>, layout: Layout<RANK>) -> Self {
        // SAFETY: (1) is the caller's promise; by (2) the part is exclusive.
        TensorViewMut { view: unsafe { whole.with_layout(layout) }, _elements: PhantomData }
    }

    /// Splits the view in two.
    ///
    /// # Safety
    /// 1. The promises of [`TensorViewMut::with_layout`] for both layouts.
    /// 2. No position is in both.
    pub(super) unsafe fn split_into<const M: usize, const N: usize>(
        self,
        first: Layout<M>,
        second: Layout<N>,
    ) -> (TensorViewMut<'a, T, M, D>, TensorViewMut<'a, T, N, D>) {
        let view = self.view;
        // SAFETY: (1) is the caller's promise; by (2) each part is exclusive, because `self` is consumed.
        unsafe {
            let first = TensorViewMut { view: view.with_layout(first), _elements: PhantomData };
            (first, TensorViewMut { view: view.with_layout(second), _elements: PhantomData })
        }
    }

    /// The same elements for reading.
    #[inline]
    pub fn as_view(&self) -> TensorView<'_, T, RANK, D> {
        self.view
    }

    /// Borrows the view for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> TensorViewMut<'_, T, RANK, D> {
        TensorViewMut { view: self.view, _elements: PhantomData }
    }

    /// Gives up writing for the rest of the borrow.
    #[inline]
    pub fn into_view(self) -> TensorView<'a, T, RANK, D> {
        self.view
    }

    /// Sizes, first axis first.
    #[inline]
    pub fn size(&self) -> Dim<RANK> {
        self.view.size()
    }

    /// Strides in elements.
    #[inline]
    pub fn stride(&self) -> Stride<RANK> {
        self.view.stride()
    }

    /// Sizes, strides and offset.
    #[inline]
    pub fn layout(&self) -> &Layout<RANK> {
        self.view.layout()
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.view.numel()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The device it is on.
    #[inline]
    pub fn device(&self) -> &'a D {
        self.view.device()
    }

    /// The address of the element with index `[0; RANK]`, in the device's own address space.
    #[inline]
    pub fn raw_ptr(&mut self) -> *mut T {
        self.view.raw_ptr().cast_mut()
    }

    /// The view with its element type erased, as a kernel writes it.
    #[inline]
    pub(crate) fn leaf(&mut self) -> Leaf<'a, RANK, D> {
        self.view.leaf()
    }
}
