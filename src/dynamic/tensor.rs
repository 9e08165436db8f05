//! `DynTensor`: a tensor whose element, rank and device are known at run time.
// Imports: `error`, `fallible`, `dim`, `rank`, `layout`, `dtype`, `element`, `device`, `erased_memory`,
// `tensor`.

use super::axes::{FEW, SizesAndStrides, laid_out, row_major};
use super::extra::Extra;
use crate::device::{Cpu, Device, Init, OperandRef};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::element::Element;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use crate::rank::Rank;
use crate::tensor::{HandleState, Leaf, Parts, Strided, Tensor, TensorView, TensorViewMut};

/// A tensor whose element type, rank and device are known at run time, as from files and other libraries. It
/// is another handle on the same memory as a [`Tensor`], under the same rules: conversions between the two
/// copy nothing, and writing needs the only handle.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::{DType, DynTensor};
/// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// let y = DynTensor::from(x.share_data());
/// assert_eq!((y.dtype(), y.size(), y.rank()), (DType::F32, &[2, 2][..], 2));
/// let error = Tensor::<f64, 2>::try_from(y.share_data()).unwrap_err();
/// assert_eq!(error.to_string(), "downcast: expected f64 of rank 2 on Cpu, found f32 of rank 2 on Cpu");
/// let z: Tensor<f32, 2> = y.try_into()?; // no copy: the third handle on one memory
/// assert_eq!((z.raw_ptr(), z.use_count()), (x.raw_ptr(), 2));
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct DynTensor {
    /// `None` for an undefined tensor, which has no device either.
    memory: Option<Memory>,
    /// Invariant 1: `axes` and `offset` satisfy the invariants of a [`Layout`], which lies inside the memory
    /// unless the memory is not yet allocated.
    axes: SizesAndStrides,
    offset: usize,
    /// Invariant 2: the memory holds only bytes that are valid elements of this type, and is aligned for
    /// them.
    dtype: DType,
    state: HandleState,
    /// The operations that a lazy view applies to the elements when they are read.
    pub(super) marks: Marks,
    /// Rare properties, shared by handles.
    pub(super) extra: Option<FallibleArc<Extra>>,
}

/// The operations of a lazy view: conjugation, negation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Marks {
    pub(super) conjugate: bool,
    pub(super) negative: bool,
}

impl Marks {
    const NONE: Marks = Marks { conjugate: false, negative: false };
}

fn described(dtype: DType, rank: usize, device: &str) -> String {
    text(format_args!("{dtype} of rank {rank} on {device}"))
}

/// The last segment of a path: `Cpu` of `rankform::device::cpu::Cpu`.
fn last_word(path: &'static str) -> &'static str {
    path.rsplit("::").next().unwrap_or(path)
}

impl DynTensor {
    /// A tensor without elements, memory or device. Its element type is f32.
    pub const fn undefined() -> DynTensor {
        let state = HandleState { born: 0, frozen: false, deferred: false };
        DynTensor {
            memory: None,
            axes: SizesAndStrides::NONE,
            offset: 0,
            dtype: DType::F32,
            state,
            marks: Marks::NONE,
            extra: None,
        }
    }

    /// Whether it is an undefined tensor: without elements or memory.
    pub fn is_undefined(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.nbytes() == 0) && self.numel() == 0
    }

    /// From a tensor of any rank. Up to 8 axes it needs no heap memory, and `From` does the same.
    ///
    /// # Errors
    /// [`Error::Value`] for more than 64 axes, [`Error::OutOfMemory`] for more than 8.
    pub fn from_tensor<T: Element, const RANK: usize, D: Device>(
        tensor: Tensor<T, RANK, D>,
    ) -> Result<DynTensor> {
        let (parts, layout) = tensor.into_parts();
        let axes = SizesAndStrides::new("from_tensor", &layout.size().0, &layout.stride().0)?;
        Ok(Self::from_parts::<T, D>(parts, axes, layout.offset()))
    }

    #[inline]
    fn from_parts<T: Element, D: Device>(parts: Parts<D>, axes: SizesAndStrides, offset: usize) -> DynTensor {
        DynTensor {
            memory: Some(Memory::new(parts.memory)),
            axes,
            offset,
            dtype: T::DTYPE,
            state: parts.state,
            marks: Marks::NONE,
            extra: None,
        }
    }

    /// # Safety
    /// The arguments satisfy invariants 1 and 2.
    pub(super) unsafe fn assemble(
        memory: Memory,
        axes: SizesAndStrides,
        offset: usize,
        dtype: DType,
        state: HandleState,
    ) -> DynTensor {
        DynTensor { memory: Some(memory), axes, offset, dtype, state, marks: Marks::NONE, extra: None }
    }

    #[inline]
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    // ------------------------------------------------------------ metadata

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The number of axes.
    #[doc(alias = "ndim")]
    #[inline]
    pub fn rank(&self) -> usize {
        self.axes.rank()
    }
    /// The sizes, first axis first.
    #[doc(alias = "shape")]
    #[inline]
    pub fn size(&self) -> &[usize] {
        self.axes.size()
    }
    /// The strides in elements, first axis first.
    #[inline]
    pub fn stride(&self) -> &[isize] {
        self.axes.stride()
    }
    /// The position of index `[0, …]`, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }
    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.size().iter().product()
    }
    /// The number of elements times the bytes of one; `usize::MAX` if a broadcast tensor has more than can be
    /// counted.
    pub fn nbytes(&self) -> usize {
        self.numel().saturating_mul(self.dtype.size())
    }
    /// The bytes of the memory; 0 if elements of another owner lie between these.
    pub fn capacity_in_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::usable_bytes)
    }
    /// The name of the device's type, as `rankform::device::cpu::Cpu`; empty for an undefined tensor.
    pub fn device_type(&self) -> &'static str {
        self.memory.as_ref().map_or("", Memory::device_type)
    }
    /// The device's `Debug` output; `undefined` for an undefined tensor.
    pub fn device_name(&self) -> String {
        self.memory.as_ref().map_or_else(|| "undefined".into(), Memory::device)
    }
    /// The device, if it is a `D`.
    pub fn device<D: Device>(&self) -> Option<&D> {
        Some(self.memory.as_ref()?.get::<D>()?.device())
    }
    /// The address of the element with index `[0, …]`, in the device's own address space.
    pub fn raw_ptr(&self) -> *const u8 {
        let start = self.memory.as_ref().map_or(std::ptr::null_mut(), Memory::address);
        start.wrapping_add(self.offset.wrapping_mul(self.dtype.size()))
    }
    /// The number of handles that share the memory; 0 for an undefined tensor.
    pub fn use_count(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::handles)
    }
    /// Whether this is the only handle, which may write.
    pub fn is_unique(&self) -> bool {
        self.use_count() <= 1
    }
    /// Whether the device is a `D`.
    #[inline]
    pub fn is_on<D: Device>(&self) -> bool {
        self.memory.as_ref().is_some_and(Memory::is::<D>)
    }
    /// Whether both are handles on the same memory.
    pub fn shares_memory_with(&self, other: &DynTensor) -> bool {
        self.memory.as_ref().zip(other.memory.as_ref()).is_some_and(|(left, right)| left.is_same(right))
    }
    /// The number of mutable accesses to the memory since this handle was detached.
    pub fn version(&self) -> u64 {
        self.memory
            .as_ref()
            .map_or(0, |memory| (memory.version() as u32).wrapping_sub(self.state.born).into())
    }
    /// Whether the elements' memory is allocated.
    pub fn is_allocated(&self) -> bool {
        !self.state.deferred && self.capacity_in_bytes() > 0
    }
    /// Whether sizes and strides may no longer change; see [`Tensor::detach`].
    pub fn is_frozen(&self) -> bool {
        self.state.frozen
    }
    /// Whether the elements are contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        laid_out!(self.axes, self.offset, |layout| layout.is_contiguous())
    }
    /// Whether two indices may name the same element; see [`Layout::may_overlap`].
    pub fn may_overlap(&self) -> bool {
        laid_out!(self.axes, self.offset, |layout| !layout.is_contiguous() && layout.may_overlap())
    }
    /// Whether every position in the span belongs to exactly one index.
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        laid_out!(self.axes, self.offset, |layout| layout.is_non_overlapping_and_dense())
    }

    /// Freezes sizes and strides.
    pub(super) fn frozen(mut self) -> DynTensor {
        self.state.frozen = true;
        self
    }

    /// Drops leading axes of size 1, down to a rank.
    #[inline]
    pub(crate) fn with_rank(mut self, rank: usize) -> DynTensor {
        self.axes.drop_leading(rank);
        self
    }

    #[inline]
    pub(super) fn axes(&self) -> &SizesAndStrides {
        &self.axes
    }

    /// Its types in words: element, rank, device.
    pub(crate) fn kind_in_words(&self) -> String {
        described(self.dtype, self.rank(), &self.device_name())
    }

    // ------------------------------------------------------------ handles

    /// Another handle on the same memory.
    ///
    /// # Cost
    /// It needs no heap memory up to 8 axes.
    pub fn share_data(&self) -> DynTensor {
        let DynTensor { offset, dtype, state, marks, .. } = *self;
        let (memory, extra) =
            (self.memory.as_ref().map(Memory::share), self.extra.as_ref().map(FallibleArc::share));
        DynTensor { memory, axes: self.axes.another(), offset, dtype, state, marks, extra }
    }

    /// Another handle with other axes of the same memory.
    ///
    /// # Safety
    /// `axes` and `offset` satisfy invariant 1.
    pub(super) unsafe fn another(&self, axes: SizesAndStrides, offset: usize) -> DynTensor {
        let DynTensor { dtype, state, marks, .. } = *self;
        DynTensor {
            memory: self.memory.as_ref().map(Memory::share),
            axes,
            offset,
            dtype,
            state,
            marks,
            extra: None,
        }
    }

    /// Another handle with the same axes of other memory.
    ///
    /// # Safety
    /// The memory is allocated, and with it the fields satisfy invariants 1 and 2.
    #[cfg(feature = "autograd")]
    pub(super) unsafe fn in_memory(&self, memory: Memory) -> DynTensor {
        let state = HandleState { frozen: self.state.frozen, ..HandleState::default() };
        DynTensor { memory: Some(memory), state, ..self.share_data() }
    }

    fn mismatch<T: Element, const RANK: usize, D: Device>(&self, op: &'static str) -> Error {
        self.is_not(op, T::DTYPE, RANK, std::any::type_name::<D>())
    }

    #[cold]
    fn is_not(&self, op: &'static str, dtype: DType, rank: usize, device: &'static str) -> Error {
        let expected = described(dtype, rank, last_word(device));
        let found = match (self.memory.is_none(), self.marks == Marks::NONE) {
            (true, _) => "an undefined tensor".into(),
            (_, true) => self.kind_in_words(),
            _ => text(format_args!("a lazy view of {}; `resolved` computes it", self.kind_in_words())),
        };
        Error::Type { op, expected, found }
    }

    /// Whether it is a `Tensor<T, RANK, D>`.
    #[inline]
    pub fn is<T: Element, const RANK: usize, D: Device>(&self) -> bool {
        self.dtype == T::DTYPE
            && self.rank() == RANK
            && self.marks == Marks::NONE
            && self.memory.as_ref().is_some_and(Memory::is::<D>)
    }

    /// Converts to a typed handle. `Tensor::try_from` and `try_into` do this too.
    ///
    /// # Cost
    /// Constant time, without allocation or copy.
    ///
    /// # Errors
    /// [`Error::Type`], with the expected and the found type.
    #[inline]
    pub fn downcast<T: Element, const RANK: usize, D: Device>(self) -> Result<Tensor<T, RANK, D>> {
        let mismatch = |tensor: &DynTensor| tensor.mismatch::<T, RANK, D>("downcast");
        let Some(layout) = self.axes.lifted::<RANK>(self.offset).filter(|_| self.is::<T, RANK, D>()) else {
            return Err(mismatch(&self));
        };
        self.accessible("downcast")?;
        let DynTensor { memory, state, .. } = self;
        match memory.map(Memory::downcast) {
            // SAFETY: invariants 1 and 2: the bytes are elements of that type, and any `T` with that dtype
            // accepts them.
            Some(Ok(memory)) => Ok(unsafe { Tensor::from_parts(Parts { memory, state }, layout) }),
            _ => Err(mismatch(&DynTensor::undefined())),
        }
    }

    /// Borrows the whole tensor as a typed view.
    ///
    /// # Errors
    /// [`Error::Type`], with the expected and the found type.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let x = DynTensor::from(Tensor::from([3, 4]));
    /// assert_eq!(x.downcast_ref::<i32, 1, Cpu>()?.to_vec()?, [3, 4]);
    /// let error = x.downcast_ref::<i32, 1, Meta>().unwrap_err().to_string();
    /// assert!(error.ends_with("expected i32 of rank 1 on Meta, found i32 of rank 1 on Cpu"));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[inline]
    pub fn downcast_ref<T: Element, const RANK: usize, D: Device>(
        &self,
    ) -> Result<TensorView<'_, T, RANK, D>> {
        self.accessible("downcast_ref")?;
        match self.lifted_ref() {
            Some(view) if self.rank() == RANK => Ok(view),
            _ => Err(self.mismatch::<T, RANK, D>("downcast_ref")),
        }
    }

    /// As [`DynTensor::downcast_ref`], at a rank that may be larger: new leading axes have size 1.
    #[inline]
    pub(crate) fn lifted_ref<T: Element, const RANK: usize, D: Device>(
        &self,
    ) -> Option<TensorView<'_, T, RANK, D>> {
        let layout = self.axes.lifted::<RANK>(self.offset)?;
        self.laid::<T, RANK, D>(layout)
    }

    /// The elements in a layout that reaches the same positions as this tensor's.
    fn laid<T: Element, const RANK: usize, D: Device>(
        &self,
        layout: Layout<RANK>,
    ) -> Option<TensorView<'_, T, RANK, D>> {
        let typed = self.dtype == T::DTYPE && self.marks == Marks::NONE;
        let memory = self.memory.as_ref().filter(|_| typed)?.get::<D>()?;
        // SAFETY: invariants 1 and 2, as above, and the private callers keep the positions. The borrow keeps
        // the memory, and no writer exists, because writing needs `&mut` and the only handle.
        Some(unsafe { TensorView::new(memory.ptr(), layout, !self.state.deferred, memory.device()) })
    }

    /// The operand of a kernel at rank `N`, for any element type. `places` gives the axis at each position;
    /// each axis is at one, and the other positions have size 1.
    pub(crate) fn leaf<const N: usize, D: Device>(
        &self,
        places: [Option<usize>; N],
    ) -> Option<Leaf<'_, N, D>> {
        let size = places.map(|axis| axis.map_or(1, |axis| self.size()[axis]));
        let stride = places.map(|axis| axis.map_or(0, |axis| self.stride()[axis]));
        let layout = Layout::from_parts(size.into(), stride.into(), self.offset);
        let memory = self.memory.as_ref().filter(|_| self.marks == Marks::NONE)?.get::<D>()?;
        Some(Leaf::of_width(memory.ptr(), layout, self.dtype.size(), !self.state.deferred, memory.device()))
    }

    /// Changes the element type without a change of the bytes.
    ///
    /// # Safety
    /// The elements have the size of elements `dtype`, and are valid elements `dtype`.
    pub(crate) unsafe fn renamed(mut self, dtype: DType) -> DynTensor {
        self.dtype = dtype;
        self
    }

    /// The elements, if they are on a device of this type and may be read without a conversion.
    pub(crate) fn strided<D: Device>(&self) -> Option<Strided<'_>> {
        let memory =
            self.memory.as_ref().filter(|_| self.marks == Marks::NONE && !self.state.deferred)?.get::<D>()?;
        let element = self.dtype.size();
        let slot = OperandRef {
            address: memory.ptr().wrapping_add(self.offset * element),
            stride: self.stride(),
            element,
        };
        Some(Strided { device: memory.device(), size: self.size(), slot })
    }

    /// Checks that bytes are elements of a type, one after another.
    ///
    /// # Errors
    /// [`Error::Value`] if some are not (a boolean is 0 or 1), [`Error::OutOfMemory`].
    pub(crate) fn of_bytes(op: &'static str, dtype: DType, bytes: Tensor<u8, 1, Cpu>) -> Result<DynTensor> {
        let numel = bytes.numel() / dtype.size();
        let (bytes, first) = bytes.of_elements(op, dtype, &[numel], numel * dtype.size())?;
        let mut tensor = DynTensor::from(bytes);
        // The memory holds valid elements of this type, as many as fit: invariants 1 and 2 hold.
        (tensor.dtype, tensor.offset, tensor.axes) =
            (dtype, first, SizesAndStrides::new(op, &[numel], &[1])?);
        Ok(tensor)
    }

    /// Borrows the whole tensor for writing, as a typed view.
    ///
    /// # Errors
    /// [`Error::Type`]; [`Error::Shared`], [`Error::Unallocated`], [`Error::Overlap`] as
    /// [`Tensor::view_mut`].
    pub fn downcast_mut<T: Element, const RANK: usize, D: Device>(
        &mut self,
    ) -> Result<TensorViewMut<'_, T, RANK, D>> {
        let op = "downcast_mut";
        if !self.is::<T, RANK, D>() {
            return Err(self.mismatch::<T, RANK, D>(op));
        }
        self.ensure_writable(op)?;
        let typed =
            self.memory.as_ref().and_then(Memory::get::<D>).zip(self.axes.lifted::<RANK>(self.offset));
        let Some((memory, layout)) = typed else { return Err(self.mismatch::<T, RANK, D>(op)) };
        // SAFETY: invariants 1 and 2. This is the only handle, borrowed exclusively, and no two indices name
        // the same element.
        Ok(unsafe { TensorViewMut::new(memory.ptr(), layout, memory.device()) })
    }

    /// Checks that the elements may be written, and counts the access: [`Error::Shared`],
    /// [`Error::Unallocated`] or [`Error::Overlap`] otherwise.
    pub(super) fn ensure_writable(&mut self, op: &'static str) -> Result<()> {
        self.accessible(op)?;
        if !self.is_unique() {
            return Err(Error::Shared { op, handles: self.use_count() });
        }
        if self.state.deferred {
            return Err(Error::Unallocated { op, sizes: self.size().into() });
        }
        if self.may_overlap() {
            return Err(Error::Overlap { op, sizes: self.size().into(), strides: self.stride().into() });
        }
        if let Some(memory) = &self.memory {
            memory.bump();
        }
        Ok(())
    }

    /// Borrows the whole tensor for writing, as elements `T`: Caffe2's `mutable_data<T>()`. A tensor of
    /// another element type becomes one of this type, all zeros and row-major, in the same memory if it
    /// suffices. Memory that is not allocated is allocated.
    ///
    /// # Errors
    /// [`Error::Type`] for another rank or device and for a lazy view, [`Error::Shared`],
    /// [`Error::MetadataFrozen`], [`Error::Overflow`], [`Error::OutOfMemory`]. After an error the tensor is
    /// unchanged.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::{DType, DynTensor};
    /// let mut x = DynTensor::from(Tensor::from([1.5_f32, 2.5]));
    /// let address = x.raw_ptr();
    /// x.mutable_data::<i16, 1, Cpu>()?.as_slice_mut().unwrap()[1] = 7;
    /// assert_eq!((x.dtype(), x.raw_ptr()), (DType::I16, address));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn mutable_data<T: Element, const RANK: usize, D: Device>(
        &mut self,
    ) -> Result<TensorViewMut<'_, T, RANK, D>> {
        let op = "mutable_data";
        self.accessible(op)?;
        let typed = self.rank() == RANK
            && self.marks == Marks::NONE
            && self.memory.as_ref().is_some_and(Memory::is::<D>);
        let Some(memory) = self.memory.as_ref().filter(|_| typed) else {
            return Err(self.mismatch::<T, RANK, D>(op));
        };
        if self.dtype != T::DTYPE || self.state.deferred {
            let changes = self.dtype != T::DTYPE;
            if changes && self.state.frozen {
                return Err(Error::MetadataFrozen { op });
            }
            let axes =
                if changes { row_major(op, self.size(), size_of::<T>())? } else { self.axes.another() };
            let offset = if changes { 0 } else { self.offset };
            let nbytes = laid_out!(axes, offset, |layout| layout.span().end).saturating_mul(size_of::<T>());
            let serves = self.is_unique()
                && memory.usable_bytes() >= nbytes
                && memory.address().cast::<T>().is_aligned();
            match serves {
                true => {
                    let zero = memory.fresh(1, Init::Zeroed)?;
                    let to = OperandRef { address: memory.address(), stride: &[1], element: 1 };
                    let from = OperandRef { address: zero.address(), stride: &[0], element: 1 };
                    // SAFETY: these are all bytes of the memory, whose only handle is borrowed exclusively.
                    // The input is one byte, broadcast. Zeros are elements of every type.
                    unsafe { memory.copy(&[memory.usable_bytes()], to, from)? };
                }
                false => self.memory = Some(memory.successor(nbytes)?),
            }
            self.axes = axes;
            self.offset = offset;
            self.dtype = T::DTYPE;
            self.state.deferred = false;
        }
        self.downcast_mut()
    }

    /// [`Error::Type`] for a lazy view.
    pub(super) fn unmarked(&self, op: &'static str) -> Result<()> {
        match self.marks {
            Marks::NONE => Ok(()),
            _ => Err(Error::Type {
                op,
                expected: "elements as they lie in memory".into(),
                found: "a lazy view; `resolved` computes it".into(),
            }),
        }
    }

    /// [`Error::Unallocated`] if the memory is not allocated yet; errors of lazy views and of tensors without
    /// access.
    pub(crate) fn ensure_allocated(&self, op: &'static str) -> Result<()> {
        self.unmarked(op)?;
        self.accessible(op)?;
        if self.state.deferred { Err(Error::Unallocated { op, sizes: self.size().into() }) } else { Ok(()) }
    }
}

impl<T: Element, const RANK: usize, D: Device> From<Tensor<T, RANK, D>> for DynTensor
where
    Dim<RANK>: Rank,
{
    /// Converts to a handle with types known at run time, in constant time, without allocation or copy.
    #[inline]
    fn from(tensor: Tensor<T, RANK, D>) -> DynTensor {
        const { assert!(RANK <= FEW) };
        let (parts, layout) = tensor.into_parts();
        DynTensor::from_parts::<T, D>(parts, SizesAndStrides::few(&layout), layout.offset())
    }
}

impl<T: Element, const RANK: usize, D: Device> TryFrom<DynTensor> for Tensor<T, RANK, D> {
    type Error = Error;
    #[inline]
    fn try_from(tensor: DynTensor) -> Result<Self> {
        tensor.downcast()
    }
}

/// An undefined tensor.
impl Default for DynTensor {
    fn default() -> DynTensor {
        DynTensor::undefined()
    }
}
