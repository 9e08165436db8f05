//! Lazy allocation and resizing: sizes are set at once, memory is allocated by the next `mutable_data`.
//!
//! | | sizes | memory | elements |
//! |---|---|---|---|
//! | `new`, `empty` | set | none | none to read |
//! | `resize`, `resize_axis` | set | released by the policy | those in the memory, if it is large enough |
//! | `reshape_in_place` (and `memory_format.rs`) | set | kept | kept |
//! | `mutable_data` | kept | new if it is too small | 0 in new memory |
//! | `reserve`, `extend`, `shrink_to` | kept, more, fewer | new, new when full, kept | kept; new ones 0 |
// Imports: `error`, `fallible`, `dim`, `rank`, `layout`, `element`, `device`, `allocation`, `tensor`.

use super::{Tensor, TensorViewMut};
use crate::allocation::{Allocation, ResizePolicy};
use crate::device::{Device, Init, OperandRef};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use crate::rank::RemoveAxis;
use std::ops::Range;

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// An undefined tensor: all sizes 0 and no memory. (A tensor of rank 0 has one element, whose memory is
    /// deferred.)
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the handle itself takes one small heap block.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::<f32, 2>::new(&Cpu)?;
    /// assert!(x.is_undefined());
    /// x.resize([2, 3])?; // sizes only
    /// assert!(!x.is_allocated() && x.to_vec().is_err());
    /// x.mutable_data()?; // memory, all zeros
    /// assert_eq!(x.to_vec()?, [0.0; 6]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn new(device: &D) -> Result<Self> {
        Self::empty([0; RANK], device)
    }

    /// A tensor with sizes, whose memory the first [`mutable_data`](Tensor::mutable_data) allocates; until
    /// then reading is [`Error::Unallocated`].
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`] as [`Tensor::new`].
    pub fn empty(size: impl Into<Dim<RANK>>, device: &D) -> Result<Self> {
        let size = size.into();
        size.numel_of("empty", size_of::<T>())?;
        Ok(Tensor::deferred(Allocation::fresh(device, 0, Init::Zeroed)?, Layout::row_major(size)))
    }

    // ------------------------------------------------------------ memory

    /// The whole tensor for writing. If the memory is too small, zeroed memory is allocated first, for this
    /// handle only: other handles keep the old memory. Memory that is large enough keeps its contents.
    ///
    /// # Cost
    /// At most one allocation, of exactly the size that is needed.
    ///
    /// # Errors
    /// [`Error::Shared`] when the memory is large enough and other handles share it, [`Error::OutOfMemory`];
    /// [`Error::Overlap`] when two indices address one element.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([1.0, 2.0]);
    /// let y = x.share_data();
    /// assert!(x.mutable_data().is_err()); // shared
    /// x.resize([3])?;
    /// x.mutable_data()?.as_slice_mut().unwrap()[0] = 7.0; // needs more: memory of its own
    /// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![7.0, 0.0, 0.0], vec![1.0, 2.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn mutable_data(&mut self) -> Result<TensorViewMut<'_, T, RANK, D>> {
        if self.is_deferred() {
            let memory = self.successor(self.layout().span().end)?;
            // SAFETY: zeros are valid elements, and there are as many as the layout spans.
            unsafe { self.set_memory(memory) };
        }
        self.try_view_mut("mutable_data")
    }

    /// Releases this handle's share of the memory and keeps the sizes; device, policy and history continue.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] as [`Tensor::new`].
    pub fn release_memory(&mut self) -> Result<()> {
        let nothing = self.successor(0)?;
        self.release(nothing);
        Ok(())
    }

    /// Ensures room for at least `size`: `resize` and `extend` up to it then allocate nothing. Elements and
    /// sizes are kept. Elements that move keep their format if it is dense, and become contiguous otherwise.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`]; when the memory is too small, [`Error::Shared`] if it is
    /// shared and [`Error::MetadataFrozen`] if the metadata is frozen, because strides and offset may change.
    pub fn reserve(&mut self, size: impl Into<Dim<RANK>>) -> Result<()> {
        let need = size.into().numel_of("reserve", size_of::<T>())?;
        if self.layout().offset().saturating_add(need) <= self.capacity() {
            return Ok(());
        }
        self.ensure_unfrozen("reserve")?;
        self.ensure_unique("reserve")?;
        let numel = self.size().numel_of("reserve", size_of::<T>())?;
        self.relocate(self.layout().preserved(), need.max(numel))
    }

    /// The policy of [`resize`](Tensor::resize) for memory beyond the need.
    pub fn resize_policy(&self) -> ResizePolicy {
        self.memory().policy()
    }

    /// Sets the policy of the memory, for all handles that share it and for the memory that replaces it.
    pub fn set_resize_policy(&mut self, policy: ResizePolicy) {
        self.memory().set_policy(policy);
    }

    /// New memory of zeros for `numel` elements, with the device, policy and history of the present one.
    fn successor(&self, numel: usize) -> Result<FallibleArc<Allocation<D>>> {
        let nbytes = numel.saturating_mul(size_of::<T>());
        let memory = Allocation::fresh(self.device(), nbytes, Init::Zeroed)?;
        memory.inherit(self.memory());
        Ok(memory)
    }

    /// Moves the elements to new memory for `capacity` elements, under a dense layout of the same sizes that
    /// fits in it.
    fn relocate(&mut self, layout: Layout<RANK>, capacity: usize) -> Result<()> {
        // SAFETY: zeros are valid elements, and both callers pass a capacity that holds the layout.
        let mut moved = unsafe { Tensor::from_memory(self.successor(capacity)?, layout) };
        if !self.is_deferred() && !self.is_empty() {
            self.view().copy_within_device("resize", moved.try_view_mut("resize")?)?;
        }
        let (memory, layout) = moved.into_memory();
        self.set_layout(layout);
        // SAFETY: the memory and layout of `moved`.
        unsafe { self.set_memory(memory) };
        Ok(())
    }

    /// Zeroes some bytes of the memory.
    ///
    /// # Safety
    /// 1. This is the only handle.
    /// 2. The bytes lie inside the memory.
    /// 3. Zeros are valid for every element type that the memory has from now on.
    unsafe fn zero(&mut self, bytes: Range<usize>) -> Result<()> {
        let zero = Allocation::new(self.device(), 1)?;
        let to =
            OperandRef { address: self.memory().ptr().wrapping_add(bytes.start), stride: &[1], element: 1 };
        let from = OperandRef { address: zero.ptr(), stride: &[0], element: 1 };
        // SAFETY: (2) the bytes are inside the memory; (1) this is the only handle, borrowed exclusively; one
        // byte is read repeatedly.
        unsafe { self.device().copy(&[bytes.len()], to, from) }
    }

    // ------------------------------------------------------------ sizes

    /// Sets the sizes, row-major; no bytes move. The memory is kept if it is large enough, with this handle's
    /// offset if that fits. The handle releases it if the [policy](Tensor::set_resize_policy) does not keep
    /// the excess. Otherwise the next [`mutable_data`](Tensor::mutable_data) allocates, and the old elements
    /// are lost.
    ///
    /// # Errors
    /// [`Error::MetadataFrozen`], [`Error::Overflow`]; nothing has changed then.
    ///
    /// # Examples
    /// ```
    /// use rankform::{ResizePolicy, prelude::*};
    /// let mut x = Tensor::<f32, 1>::zeros([1000], &Cpu)?;
    /// x.resize([10])?;
    /// assert_eq!((x.capacity(), x.is_allocated()), (1000, true)); // kept
    /// x.set_resize_policy(ResizePolicy { keep_on_shrink: true, max_kept_bytes: 512 });
    /// x.resize([11])?;
    /// assert_eq!((x.capacity(), x.is_allocated()), (0, false)); // let go: 3956 bytes too many
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn resize(&mut self, size: impl Into<Dim<RANK>>) -> Result<()> {
        self.set_row_major_sizes("resize", size.into())
    }

    /// As [`resize`](Tensor::resize), one axis only: c10's `set_size`, with matching strides.
    ///
    /// # Errors
    /// [`Error::Axis`] when there is no such axis; those of [`resize`](Tensor::resize).
    pub fn resize_axis(&mut self, axis: usize, size: usize) -> Result<()> {
        let mut sizes = self.size();
        let missing = || Error::Axis { op: "resize_axis", axis, sizes: self.size().0.into() };
        *sizes.0.get_mut(axis).ok_or_else(missing)? = size;
        self.set_row_major_sizes("resize_axis", sizes)
    }

    fn set_row_major_sizes(&mut self, op: &'static str, size: Dim<RANK>) -> Result<()> {
        self.ensure_unfrozen(op)?;
        size.numel_of(op, size_of::<T>())?;
        let layout = self.at_own_offset(Layout::row_major(size));
        let policy = self.resize_policy();
        let kept = if policy.keep_on_shrink { policy.max_kept_bytes } else { 0 };
        let need = layout.span().end.saturating_mul(size_of::<T>());
        let spare = self.memory().size().saturating_sub(need);
        let nothing = if spare > kept { Some(self.successor(0)?) } else { None };
        self.set_layout(layout);
        if let Some(nothing) = nothing {
            self.set_layout(Layout::row_major(size));
            self.release(nothing);
        }
        Ok(())
    }

    /// A dense layout at this handle's offset if the memory is large enough for that, at 0 otherwise.
    pub(super) fn at_own_offset(&self, layout: Layout<RANK>) -> Layout<RANK> {
        let end = self.layout().offset().saturating_add(layout.span().end);
        if end <= self.capacity() { layout.with_offset(self.layout().offset()) } else { layout }
    }

    /// Other sizes of the same rank for the same elements in row-major order (`into_shape` changes the rank).
    ///
    /// # Errors
    /// [`Error::Length`] when the numbers of elements differ, [`Error::NeedsCopy`] unless contiguous,
    /// [`Error::MetadataFrozen`], [`Error::Overflow`].
    pub fn reshape_in_place(&mut self, size: impl Into<Dim<RANK>>) -> Result<()> {
        let (op, size) = ("reshape_in_place", size.into());
        self.ensure_unfrozen(op)?;
        let (expected, found) = (size.numel_of(op, size_of::<T>())?, self.numel());
        if expected != found {
            return Err(Error::Length {
                op,
                sizes: size.0.into(),
                expected,
                found,
                of: Some(self.size().0.into()),
            });
        }
        self.ensure_contiguous(op, size)?;
        self.set_sublayout(Layout::row_major(size).with_offset(self.layout().offset()));
        Ok(())
    }

    /// [`Error::NeedsCopy`] unless contiguous.
    fn ensure_contiguous(&self, op: &'static str, to: Dim<RANK>) -> Result<()> {
        if self.is_contiguous() {
            return Ok(());
        }
        Err(Error::NeedsCopy {
            op,
            sizes: self.size().0.into(),
            strides: self.stride().0.into(),
            to: to.0.into(),
        })
    }

    /// Extends the first axis by `n`, keeps the elements, and sets the new ones to 0. When the memory is full
    /// it grows by `growth_percent` of the present first axis, at least by the need: with 50 or 100, repeated
    /// extension costs amortized O(1) for each element. A tensor without memory stays without.
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory, [`Error::NeedsCopy`] unless contiguous,
    /// [`Error::MetadataFrozen`], [`Error::Overflow`], [`Error::OutOfMemory`]; sizes and elements are then
    /// unchanged.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut log = Tensor::<f32, 2>::new(&Cpu)?;
    /// log.resize([0, 2])?;
    /// for step in 0..3 {
    ///     log.extend(1, 100)?;
    ///     log.view_mut()?.slice((step, ..))?.into_slice_mut().unwrap()[0] = step as f32;
    /// }
    /// assert_eq!((log.size(), log.to_vec()?), (dim![3, 2], vec![0.0, 0.0, 1.0, 0.0, 2.0, 0.0]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn extend(&mut self, n: usize, growth_percent: usize) -> Result<()>
    where
        Dim<RANK>: RemoveAxis<0>,
    {
        let (op, present) = ("extend", self.size());
        self.ensure_unfrozen(op)?;
        self.ensure_unique(op)?;
        let with_rows =
            |rows: usize| Dim(std::array::from_fn(|axis| if axis == 0 { rows } else { present.0[axis] }));
        let size = with_rows(present.0[0].saturating_add(n));
        let need = size.numel_of(op, size_of::<T>())?;
        self.ensure_contiguous(op, size)?;
        if self.is_deferred() {
            return self.set_row_major_sizes(op, size);
        }
        let from = self.layout().offset() + self.numel();
        let to = self.layout().offset().saturating_add(need);
        if to > self.capacity() {
            let growth = (present.0[0] as u128 * growth_percent as u128).div_ceil(100);
            let rows = present.0[0].saturating_add(usize::try_from(growth).unwrap_or(usize::MAX));
            let grown = with_rows(rows).numel_of(op, size_of::<T>()).unwrap_or(need);
            self.relocate(Layout::row_major(present), grown.max(need))?;
        } else if from < to {
            // SAFETY: (1) the only handle; (2) `to` is within the capacity; (3) zeros are valid `T`s.
            unsafe { self.zero(from * size_of::<T>()..to * size_of::<T>())? };
        }
        self.set_layout(Layout::row_major(size).with_offset(self.layout().offset()));
        Ok(())
    }

    /// Shortens the first axis to `n`; keeps the first elements and all of the memory.
    ///
    /// # Errors
    /// [`Error::Slice`] when the axis is shorter, [`Error::Shared`] when other handles share the memory
    /// (`resize` instead), [`Error::MetadataFrozen`].
    pub fn shrink_to(&mut self, n: usize) -> Result<()>
    where
        Dim<RANK>: RemoveAxis<0>,
    {
        self.ensure_unfrozen("shrink_to")?;
        self.ensure_unique("shrink_to")?;
        self.set_sublayout(self.layout().ranged("shrink_to", 0, 0, n, 1)?);
        Ok(())
    }

    /// The same sizes with another element, all 0: Caffe2's type-changing raw access. Keeps the memory when
    /// this is the only handle and the memory is large enough; otherwise `mutable_data` allocates.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::MetadataFrozen`], [`Error::OutOfMemory`] as [`Tensor::new`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.5_f32, 2.5]).into_element::<i16>()?;
    /// assert_eq!((x.to_vec()?, x.capacity()), (vec![0, 0], 4));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn into_element<U: Element>(mut self) -> Result<Tensor<U, RANK, D>> {
        self.ensure_unfrozen("into_element")?;
        let nbytes = self.size().numel_of("into_element", size_of::<U>())? * size_of::<U>();
        let (held, layout) = (self.memory().usable_bytes(), Layout::row_major(self.size()));
        if self.is_unique() && held >= nbytes && self.memory().ptr().cast::<U>().is_aligned() {
            self.memory().bump();
            // SAFETY: (1) the only handle; (2) all of the memory; (3) zeros are valid `T`s and `U`s.
            unsafe { self.zero(0..held)? };
        } else {
            self.release_memory()?;
        }
        // SAFETY: the memory holds zeros and is aligned for `U`, or is empty; the next step checks whether
        // the layout fits.
        let mut tensor = unsafe { self.with_layout::<U, RANK>(layout) };
        tensor.set_layout(layout);
        Ok(tensor)
    }
}
