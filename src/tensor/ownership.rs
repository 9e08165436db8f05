//! Copy, share, move: handles on the same memory, and copies in new memory.
//!
//! | | memory | works on |
//! |---|---|---|
//! | `share_data`, `share_as`, `detach` | the same | every element |
//! | `copy`, `to_contiguous`, `to_format`, `to_shape` | new, same device | [`Element`] |
//! | `to`, `copy_to` | another device's | [`Element`] |
//! | `make_unique` | new, if others share it | [`Element`] |
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`.

use super::{IntoViewMut, Tensor, TensorView, TensorViewMut};
use crate::device::{Device, OperandRef};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::{Layout, MemoryFormat};
use crate::rank::{IsRank4, IsRank5};

/// The metadata lock of a detached handle; see [`Tensor::detach`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataLock {
    /// Sizes and strides can be changed.
    Unlocked,
    /// Changing sizes or strides is [`Error::MetadataFrozen`].
    Frozen,
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Another handle on the same memory, with the same layout. No bytes move; afterwards neither handle may
    /// write until the other is dropped.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([1.0, 2.0]);
    /// let y = x.share_data();
    /// assert_eq!((x.use_count(), x.raw_ptr()), (2, y.raw_ptr()));
    /// assert!(x.view_mut().is_err());
    /// drop(y);
    /// assert!(x.view_mut().is_ok());
    /// ```
    pub fn share_data(&self) -> Self {
        // SAFETY: the same memory and layout.
        unsafe { self.share_with_layout(*self.layout()) }
    }

    /// Another handle on the same memory with other sizes of the same number of elements, of any rank.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::NeedsCopy`] when no strides fit, [`Error::Unallocated`] before there is
    /// memory.
    pub fn share_as<const N: usize>(&self, size: impl Into<Dim<N>>) -> Result<Tensor<T, N, D>> {
        self.view().ensure_allocated("share_as")?;
        let layout = self.layout().reshaped(size).map_err(|error| error.with_op("share_as"))?;
        // SAFETY: the same elements under other sizes.
        Ok(unsafe { self.share_with_layout(layout) })
    }

    /// Makes this a handle on the memory of `other`, with its sizes: c10's `shallow_copy_from`.
    ///
    /// # Errors
    /// [`Error::MetadataFrozen`], [`Error::Unallocated`] when `other` has no memory yet.
    pub fn shallow_copy_from(&mut self, other: &Self) -> Result<()> {
        self.ensure_unfrozen("shallow_copy_from")?;
        other.view().ensure_allocated("shallow_copy_from")?;
        *self = other.share_data();
        Ok(())
    }

    /// Another handle on the same memory that counts its versions from 0, and whose sizes may be frozen:
    /// c10's `shallow_copy_and_detach`.
    pub fn detach(&self, metadata: MetadataLock) -> Self {
        let mut handle = self.share_data();
        handle.mark_detached(metadata == MetadataLock::Frozen);
        handle
    }
}

impl<T: Element, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    fn copy_as(&self, op: &'static str, layout: Layout<RANK>) -> Result<Tensor<T, RANK, D>> {
        let mut copy = Tensor::uninit(op, layout, self.device())?;
        self.copy_within_device(op, copy.try_view_mut(op)?)?;
        Ok(copy)
    }

    /// New memory with the same elements, in the same format.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn copy(&self) -> Result<Tensor<T, RANK, D>> {
        self.copy_as("copy", self.layout().preserved())
    }

    /// New memory with the same elements in row-major order.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_contiguous(&self) -> Result<Tensor<T, RANK, D>> {
        self.copy_as("to_contiguous", Layout::row_major(self.size()))
    }

    /// New memory with the same elements in `format`.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_format(&self, format: MemoryFormat) -> Result<Tensor<T, RANK, D>> {
        self.copy_as("to_format", self.layout().in_format(format))
    }

    /// New memory with the same elements in row-major order, under other sizes.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_shape<const N: usize>(&self, size: impl Into<Dim<N>>) -> Result<Tensor<T, N, D>> {
        let size = size.into();
        Layout::row_major(self.size()).reshaped(size).map_err(|error| error.with_op("to_shape"))?;
        self.copy_as("to_shape", Layout::row_major(self.size()))?.into_shape(size)
    }

    /// The elements in row-major order.
    ///
    /// # Cost
    /// Waits for the device; one more copy if the elements are not in row-major order.
    ///
    /// # Errors
    /// [`Error::NoData`] on a device without data, [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.ensure_allocated("to_vec")?;
        if !self.layout().is_contiguous() {
            return self.to_contiguous()?.view().to_vec();
        }
        let numel = self.numel();
        let mut values: Vec<T> = Vec::new();
        let nbytes = numel * size_of::<T>();
        values.try_reserve_exact(numel).map_err(|_| Error::OutOfMemory { op: "to_vec", nbytes })?;
        let room = values.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: the spare capacity has `nbytes` bytes, as the contiguous view has; its elements are valid.
        unsafe {
            let room = std::slice::from_raw_parts_mut(room, nbytes);
            self.device().read(self.raw_ptr().cast(), room).map_err(|error| error.with_op("to_vec"))?;
            values.set_len(numel);
        }
        Ok(values)
    }

    /// The only element.
    ///
    /// # Errors
    /// [`Error::NotOne`] unless there is exactly one; those of [`to_vec`](TensorView::to_vec).
    pub fn item(&self) -> Result<T> {
        if self.numel() != 1 {
            return Err(Error::NotOne { op: "item", sizes: self.size().0.into(), found: self.numel() });
        }
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        self.ensure_allocated("item")?;
        // SAFETY: a buffer for one element; the view's only element lies at its offset and is valid.
        unsafe {
            let room = std::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>());
            self.device().read(self.raw_ptr().cast(), room).map_err(|error| error.with_op("item"))?;
            Ok(value.assume_init())
        }
    }

    /// A copy on another device, in the same format.
    ///
    /// # Errors
    /// [`Error::NoData`] from a device without data, [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let shapes = Tensor::from([[1.0, 2.0]]).to(&Meta::new())?;
    /// assert_eq!(shapes.size(), [1, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn to<E: Device>(&self, device: &E) -> Result<Tensor<T, RANK, E>> {
        let layout = self.layout().preserved();
        let mut copy = Tensor::<T, RANK, E>::uninit("to", layout, device)?;
        if self.is_on(device) {
            self.copy_within_device("to", copy.try_view_mut("to")?)?;
            return Ok(copy);
        }
        // The elements are sent in the order in which the copy stores them: dense, slowest axis first.
        let ordered = self.permuted(layout.axes_by_stride())?;
        self.ensure_allocated("to")?;
        let dense = match ordered.layout().is_contiguous() {
            true => None,
            false => Some(ordered.to_contiguous().map_err(|error| error.with_op("to"))?),
        };
        let from = dense.as_ref().map_or(ordered, Tensor::view);
        let to = copy.try_view_mut("to")?.raw_ptr().cast();
        let (address, numel) = (from.raw_ptr().cast(), self.numel());
        // SAFETY: new memory for exactly these elements; those of the view are contiguous, and its borrow
        // forbids writes.
        if unsafe { device.copy_from(to, self.device(), address, numel, size_of::<T>())? } {
            return Ok(copy);
        }
        let nbytes = numel * size_of::<T>();
        if nbytes == 0 {
            return Ok(copy);
        }
        // SAFETY: as above. (5) of `Device`: a host's addresses can be read and
        // written. The new memory has no other reference, and the view's is shared.
        unsafe {
            if self.device().is_host() {
                device.write(to, std::slice::from_raw_parts(address, nbytes))?;
            } else if device.is_host() {
                let room = std::slice::from_raw_parts_mut(to.cast(), nbytes);
                self.device().read(address, room).map_err(|error| error.with_op("to"))?;
            } else {
                let values = from.to_vec().map_err(|error| error.with_op("to"))?;
                device.write(to, bytemuck::cast_slice(&values))?;
            }
        }
        Ok(copy)
    }

    /// Copies the elements into an existing tensor of the same sizes, or a part of one, on any device.
    ///
    /// # Errors
    /// [`Error::Output`] when the sizes differ, those of [`view_mut`](Tensor::view_mut) and
    /// [`to`](TensorView::to).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mut wide, row) = (Tensor::<f32, 2>::zeros([2, 2], &Cpu)?, Tensor::from([1.0, 2.0]));
    /// row.copy_to(wide.view_mut()?.slice((1, ..))?)?;
    /// assert_eq!(wide.to_vec()?, [0.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn copy_to<'o, E: Device + 'o>(&self, out: impl IntoViewMut<'o, T, RANK, E>) -> Result<()> {
        let out = out.into_view_mut("copy_to")?;
        if self.size() != out.size() {
            return Err(Error::Output {
                op: "copy_to",
                sizes: self.size().0.into(),
                found: out.size().0.into(),
            });
        }
        if self.is_on(out.device()) {
            return self.copy_within_device("copy_to", out);
        }
        let there = self.to(out.device())?;
        there.view().copy_within_device("copy_to", out)
    }

    fn is_on<E: Device>(&self, device: &E) -> bool {
        (device as &dyn std::any::Any).downcast_ref::<D>() == Some(self.device())
    }

    /// Copies to a view of the same size on the same device; the caller has checked both.
    pub(super) fn copy_within_device<E: Device>(
        &self,
        op: &'static str,
        mut to: TensorViewMut<'_, T, RANK, E>,
    ) -> Result<()> {
        assert!(self.size() == to.size() && self.is_on(to.device()), "the caller has compared");
        self.ensure_allocated(op)?;
        let (from_stride, to_stride) = (self.stride(), to.stride());
        let to_slot =
            OperandRef { address: to.raw_ptr().cast(), stride: &to_stride.0, element: size_of::<T>() };
        let from_slot = OperandRef {
            address: self.raw_ptr().cast_mut().cast(),
            stride: &from_stride.0,
            element: size_of::<T>(),
        };
        // SAFETY: two views of one size; the exclusive one overlaps neither itself nor the other.
        unsafe { self.device().copy(&self.size().0, to_slot, from_slot) }
    }
}

/// The methods that a tensor forwards to its view.
macro_rules! through_view {
    ($($(#[$doc:meta])* fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            pub fn $name $(<$($generics)*>)? (&self, $($arg: $type),*) -> $out {
                self.view().$name($($arg),*)
            }
        )* }
    };
}
through_view! {
    /// New memory with the same elements, in the same format.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn copy() -> Result<Self>;
    /// New memory with the same elements in row-major order.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn to_contiguous() -> Result<Self>;
    /// New memory with the same elements in `format`.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn to_format(format: MemoryFormat) -> Result<Self>;
    /// New memory with the same elements in row-major order, under other sizes.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn to_shape[const N: usize](size: impl Into<Dim<N>>) -> Result<Tensor<T, N, D>>;
    /// The elements in row-major order; see [`TensorView::to_vec`].
    ///
    /// # Errors
    /// [`Error::NoData`] on a device without data, [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn to_vec() -> Result<Vec<T>>;
    /// The only element.
    ///
    /// # Errors
    /// [`Error::NotOne`] unless there is exactly one; those of [`to_vec`](Tensor::to_vec).
    fn item() -> Result<T>;
    /// A copy on another device, in the same format; see [`TensorView::to`].
    ///
    /// # Errors
    /// [`Error::NoData`] from a device without data, [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn to[E: Device](device: &E) -> Result<Tensor<T, RANK, E>>;
}

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Copies the elements into an existing tensor of the same sizes, or a part of one; see
    /// [`TensorView::copy_to`].
    ///
    /// # Errors
    /// [`Error::Output`] when the sizes differ, those of [`view_mut`](Tensor::view_mut) and
    /// [`to`](Tensor::to).
    pub fn copy_to<'o, E: Device + 'o>(&self, out: impl IntoViewMut<'o, T, RANK, E>) -> Result<()> {
        self.view().copy_to(out)
    }

    /// Copies if other handles share the memory; this handle may write afterwards. Returns whether it copied.
    /// Version and resize policy continue.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn make_unique(&mut self) -> Result<bool> {
        let overlaps = !self.layout().is_contiguous() && self.layout().may_overlap();
        if self.is_unique() && !overlaps {
            return Ok(false);
        }
        let copy = self.copy()?;
        if copy.layout() != self.layout() {
            self.ensure_unfrozen("make_unique")?;
            self.set_layout(*copy.layout());
        }
        let (memory, _) = copy.into_memory();
        memory.inherit(self.memory());
        // SAFETY: the copy's memory, under the copy's layout.
        unsafe { self.set_memory(memory) };
        Ok(true)
    }
}

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// New memory with the same elements, the channel axis fastest: `[batch, channel, height, width]` only.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_channels_last(&self) -> Result<Self>
    where
        Dim<RANK>: IsRank4,
    {
        self.view().copy_as("to_channels_last", Layout::with_channel_fastest(self.size()))
    }

    /// New memory with the same elements, the channel axis fastest: `[batch, channel, depth, height, width]`
    /// only.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn to_channels_last_3d(&self) -> Result<Self>
    where
        Dim<RANK>: IsRank5,
    {
        self.view().copy_as("to_channels_last_3d", Layout::with_channel_fastest(self.size()))
    }
}

/// The diagnostic of an intentionally missing method.
#[diagnostic::on_unimplemented(
    message = "a tensor is not `Clone`, because `clone` would not tell whether memory is copied",
    label = "`.copy()?` makes new memory, `.share_data()` makes another handle on the same memory"
)]
pub trait CloneIsExplicit {}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Does not compile; the message names the alternatives, [`copy`](Tensor::copy) and
    /// [`share_data`](Tensor::share_data).
    #[doc(hidden)]
    #[allow(clippy::should_implement_trait)]
    pub fn clone(&self) -> Self
    where
        Self: CloneIsExplicit,
    {
        self.share_data()
    }
}

/// The diagnostic of an intentionally missing method.
#[diagnostic::on_unimplemented(
    message = "a `TensorView` only reads",
    label = "writing needs `view_mut()?` of a `&mut Tensor`, which gives a `TensorViewMut`",
    note = "on one thread, `into_cells()?` makes a tensor whose elements can be written through shared views"
)]
pub trait ReadOnlyView {}

impl<T, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// Does not compile; the message names the alternative: a [`TensorViewMut`] has `fill`.
    #[doc(hidden)]
    pub fn fill(self, _: T)
    where
        Self: ReadOnlyView,
    {
    }

    /// Does not compile; the message names the alternative: a [`TensorViewMut`] has `assign`.
    #[doc(hidden)]
    pub fn assign<VALUES>(self, _: VALUES)
    where
        Self: ReadOnlyView,
    {
    }
}
