//! `Tensor`: the struct and its invariants. No other file can break them.
// Imports: `error`, `fallible`, `dim`, `layout`, `device`, `allocation`.

use super::view::{Leaf, TensorView};
use super::view_mut::TensorViewMut;
use crate::allocation::Allocation;
use crate::device::{Cpu, Device};
use crate::dim::{Dim, Stride};
use crate::error::{Error, Result};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use std::marker::PhantomData;
use std::sync::Arc;

/// A tensor of elements `T` with `RANK` axes on device `D`: a layout over memory that several handles can
/// share.
///
/// It is not `Clone`: [`copy`](Tensor::copy) allocates new memory, [`share_data`](Tensor::share_data) makes
/// another handle on the same memory. Reading needs `&Tensor`; writing needs `&mut Tensor` **and** the only
/// handle.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let scaled = &x * 10.0 + x.sum(Axis::<0>)?.lift();
/// assert_eq!(scaled.to_vec()?, [15.0, 27.0, 39.0, 45.0, 57.0, 69.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Operators
/// `exp`, `sum`, `sort` and all other operators are methods of traits: one definition serves tensors, views
/// and lazy expressions. `use rankform::prelude::*;` imports them, and [`ops`](crate::ops) lists them.
///
/// # Threads
/// As with `Arc<T>`, a tensor is `Send` and `Sync` when `T` is both: with `T = Cell<f32>` it stays on its
/// thread.
///
/// # Size
/// 16 bytes and `2 · RANK + 1` words: 56 bytes at rank 2, 88 at rank 4. No heap is used for sizes at any
/// rank.
pub struct Tensor<T, const RANK: usize, D: Device = Cpu> {
    /// Invariant 1: the block holds only bytes that are valid elements `T`, and is aligned for them.
    memory: FallibleArc<Allocation<D>>,
    /// Invariant 2: unless `deferred`, every position lies inside `memory`; a deferred layout fits
    /// `isize::MAX` bytes.
    layout: Layout<RANK>,
    /// The version of the memory when this handle was detached; `version` counts from it.
    born: u32,
    /// Whether sizes and strides may no longer change.
    frozen: bool,
    /// Whether the sizes need memory that has not been allocated yet.
    deferred: bool,
    /// The auto traits of `Arc<T>`: a handle on another thread reads, and may drop, the same elements.
    _element: PhantomData<Arc<T>>,
}

/// The fields of a handle other than its layout and its element.
pub(crate) struct Parts<D: Device> {
    pub(crate) memory: FallibleArc<Allocation<D>>,
    pub(crate) state: HandleState,
}

/// The small fields of a handle; see [`Tensor`].
#[derive(Clone, Copy, Default)]
pub(crate) struct HandleState {
    pub(crate) born: u32,
    pub(crate) frozen: bool,
    pub(crate) deferred: bool,
}

const _: () = assert!(size_of::<Tensor<f32, 2>>() <= 56);
const _: () = assert!(size_of::<Tensor<f32, 4>>() <= 88);

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Makes a tensor with memory; every other constructor of one calls this.
    ///
    /// # Safety
    /// `memory` and `layout` satisfy invariants 1 and 2.
    #[inline]
    pub(super) unsafe fn from_memory(memory: FallibleArc<Allocation<D>>, layout: Layout<RANK>) -> Self {
        debug_assert!(layout.span().end.saturating_mul(size_of::<T>()) <= memory.size());
        Tensor { memory, layout, born: 0, frozen: false, deferred: false, _element: PhantomData }
    }

    /// The same memory under another layout and element.
    ///
    /// # Safety
    /// As [`Tensor::from_memory`], for `U` and `layout`.
    #[inline]
    pub(super) unsafe fn with_layout<U, const M: usize>(self, layout: Layout<M>) -> Tensor<U, M, D> {
        debug_assert!(
            self.deferred || layout.span().end.saturating_mul(size_of::<U>()) <= self.memory.size()
        );
        let Tensor { memory, born, frozen, deferred, .. } = self;
        Tensor { memory, layout, born, frozen, deferred, _element: PhantomData }
    }

    /// Another handle on the same memory, under `layout`.
    ///
    /// # Safety
    /// As [`Tensor::from_memory`].
    #[inline]
    pub(super) unsafe fn share_with_layout<const M: usize>(&self, layout: Layout<M>) -> Tensor<T, M, D> {
        let Tensor { born, frozen, deferred, .. } = *self;
        Tensor { memory: self.memory.share(), layout, born, frozen, deferred, _element: PhantomData }
    }

    /// A tensor with sizes, whose memory the next `mutable_data` allocates; `memory` gives the device, the
    /// policy and the history.
    pub(super) fn deferred(memory: FallibleArc<Allocation<D>>, layout: Layout<RANK>) -> Self {
        let deferred = layout.numel() > 0;
        Tensor { memory, layout, born: 0, frozen: false, deferred, _element: PhantomData }
    }

    /// Sets the layout; the memory becomes deferred if the layout does not fit in it.
    pub(super) fn set_layout(&mut self, layout: Layout<RANK>) {
        let nbytes = layout.span().end.saturating_mul(size_of::<T>());
        let outside = nbytes > self.memory.usable_bytes();
        self.deferred = outside && layout.numel() > 0;
        // An empty layout needs no memory, but its offset must lie inside the memory.
        self.layout = if outside && !self.deferred { layout.with_offset(0) } else { layout };
    }

    /// Sets a layout whose positions are a subset of the present ones: memory that has been allocated fits.
    pub(super) fn set_sublayout(&mut self, layout: Layout<RANK>) {
        if self.deferred { self.set_layout(layout) } else { self.layout = layout }
    }

    /// Sets new memory, in which the layout fits.
    ///
    /// # Safety
    /// As [`Tensor::from_memory`].
    pub(super) unsafe fn set_memory(&mut self, memory: FallibleArc<Allocation<D>>) {
        debug_assert!(self.layout.span().end.saturating_mul(size_of::<T>()) <= memory.size());
        self.memory = memory;
        self.deferred = false;
    }

    /// Releases the memory and keeps the sizes.
    pub(super) fn release(&mut self, empty: FallibleArc<Allocation<D>>) {
        self.memory = empty;
        self.set_layout(self.layout);
    }

    /// Whether the sizes need memory that has not been allocated yet.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred
    }

    #[inline]
    pub(super) fn memory(&self) -> &FallibleArc<Allocation<D>> {
        &self.memory
    }

    /// Another handle on the memory alone.
    #[cfg(feature = "autograd")]
    pub(crate) fn memory_handle(&self) -> FallibleArc<Allocation<D>> {
        self.memory.share()
    }

    #[inline]
    pub(super) fn into_memory(self) -> (FallibleArc<Allocation<D>>, Layout<RANK>) {
        (self.memory, self.layout)
    }

    /// The parts, for a handle whose types are known at run time.
    #[inline]
    pub(crate) fn into_parts(self) -> (Parts<D>, Layout<RANK>) {
        let Tensor { memory, layout, born, frozen, deferred, .. } = self;
        (Parts { memory, state: HandleState { born, frozen, deferred } }, layout)
    }

    /// The inverse of `into_parts`.
    ///
    /// # Safety
    /// The parts satisfy invariants 1 and 2.
    #[inline]
    pub(crate) unsafe fn from_parts(parts: Parts<D>, layout: Layout<RANK>) -> Self {
        let Parts { memory, state: HandleState { born, frozen, deferred } } = parts;
        Tensor { memory, layout, born, frozen, deferred, _element: PhantomData }
    }

    pub(super) fn mark_detached(&mut self, frozen: bool) {
        self.born = self.memory.version() as u32;
        self.frozen |= frozen;
    }

    /// [`Error::MetadataFrozen`] when sizes and strides may not change.
    #[inline]
    pub(super) fn ensure_unfrozen(&self, op: &'static str) -> Result<()> {
        if self.frozen { Err(Error::MetadataFrozen { op }) } else { Ok(()) }
    }

    /// [`Error::Shared`] unless this is the only handle.
    #[inline]
    pub(super) fn ensure_unique(&self, op: &'static str) -> Result<()> {
        match self.memory.handles() {
            1 => Ok(()),
            handles => Err(Error::Shared { op, handles }),
        }
    }

    // ------------------------------------------------------------ metadata

    /// Sizes, first axis first: `let Dim([rows, columns]) = x.size();`.
    #[doc(alias = "shape")]
    #[inline]
    pub fn size(&self) -> Dim<RANK> {
        self.layout.size()
    }

    /// Strides in elements.
    #[inline]
    pub fn stride(&self) -> Stride<RANK> {
        self.layout.stride()
    }

    /// Sizes, strides and offset.
    #[inline]
    pub fn layout(&self) -> &Layout<RANK> {
        &self.layout
    }

    /// Number of elements.
    #[doc(alias = "len")]
    #[inline]
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// Number of elements × bytes of one; `usize::MAX` if a broadcast has more than can be counted.
    pub fn nbytes(&self) -> usize {
        self.numel().saturating_mul(size_of::<T>())
    }

    /// The number of elements for which the memory has room; 0 if elements of another owner lie between
    /// these.
    pub fn capacity(&self) -> usize {
        self.memory.usable_bytes() / size_of::<T>().max(1)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.numel() == 0
    }

    /// Whether the elements have memory; false after `resize` beyond the capacity, until `mutable_data`.
    pub fn is_allocated(&self) -> bool {
        !self.deferred && self.memory.size() > 0
    }

    /// Whether this is an undefined tensor: made by `Tensor::new`, without elements or memory.
    pub fn is_undefined(&self) -> bool {
        self.memory.size() == 0 && self.is_empty()
    }

    /// The device it is on.
    #[inline]
    pub fn device(&self) -> &D {
        self.memory.device()
    }

    /// The memory it is in.
    pub fn allocation(&self) -> &Allocation<D> {
        &self.memory
    }

    /// The address of the element with index `[0; RANK]`, in the device's own address space.
    #[inline]
    pub fn raw_ptr(&self) -> *const T {
        let byte = self.layout.offset().wrapping_mul(size_of::<T>());
        self.memory.ptr().wrapping_add(byte).cast_const().cast()
    }

    /// The number of handles that share the memory.
    pub fn use_count(&self) -> usize {
        self.memory.handles()
    }

    /// Whether this is the only handle: only then the tensor may be written.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.memory.is_unique()
    }

    /// The number of mutable accesses to the memory. All handles have one count; that of a detached handle
    /// starts at 0.
    pub fn version(&self) -> u64 {
        (self.memory.version() as u32).wrapping_sub(self.born).into()
    }

    /// Whether sizes and strides may no longer change; see [`Tensor::detach`].
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    // ------------------------------------------------------------ views

    /// Borrows the whole tensor. The view is `Copy`; no memory is allocated.
    #[inline]
    pub fn view(&self) -> TensorView<'_, T, RANK, D> {
        // SAFETY: invariants 1 and 2; the borrow keeps the memory alive, and writing needs `&mut` and the
        // only handle.
        unsafe { TensorView::new(self.memory.ptr(), self.layout, !self.deferred, self.memory.device()) }
    }

    /// Borrows the whole tensor for writing.
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory, [`Error::Unallocated`] before `mutable_data`,
    /// [`Error::Overlap`] when two indices address one element.
    #[doc(alias = "slice_mut")]
    #[inline]
    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_, T, RANK, D>> {
        self.try_view_mut("view_mut")
    }

    /// The elements of a new dense tensor with one handle, to be written for the first time.
    #[inline]
    pub(crate) fn fresh_leaf(&mut self) -> Leaf<'_, RANK, D> {
        debug_assert!(self.is_unique() && !self.deferred && !self.layout.may_overlap());
        self.memory.bump();
        self.view().leaf()
    }

    #[inline(always)]
    pub(crate) fn try_view_mut(&mut self, op: &'static str) -> Result<TensorViewMut<'_, T, RANK, D>> {
        // The common case is tested inline; a separate function decides all others and makes the error.
        if !(self.is_unique() && !self.deferred && self.layout.is_contiguous()) {
            let allowed: Result<()> = by_pointer!(Self::check_writable, &*self, op);
            allowed?;
        }
        self.memory.bump();
        // SAFETY: invariants 1 and 2; the only handle, borrowed exclusively; no two indices address one
        // element.
        Ok(unsafe { TensorViewMut::new(self.memory.ptr(), self.layout, self.memory.device()) })
    }

    #[inline(never)]
    fn check_writable(&self, op: &'static str) -> Result<()> {
        self.ensure_unique(op)?;
        if self.deferred {
            return Err(Error::Unallocated { op, sizes: self.size().0.into() });
        }
        if !self.layout.is_contiguous() && self.layout.may_overlap() {
            return Err(Error::Overlap { op, sizes: self.size().0.into(), strides: self.stride().0.into() });
        }
        Ok(())
    }
}
