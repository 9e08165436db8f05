//! Sources of tensors of types known at run time, and their copies: bytes, foreign memory, other devices.
// Imports: `error`, `fallible`, `layout`, `dtype`, `device`, `allocation`, `erased_memory`, `tensor`.

use super::axes::{SizesAndStrides, counted, laid_out, row_major};
use super::tensor::DynTensor;
use crate::allocation::Allocation;
use crate::device::{Cpu, Device, Init, OperandRef};
use crate::dtype::DType;
use crate::erased_memory::Memory;
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use crate::tensor::HandleState;

impl DynTensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::OutOfMemory`]; [`Error::Value`] for more than 64 axes.
    pub fn zeros<D: Device>(dtype: DType, size: &[usize], device: &D) -> Result<DynTensor> {
        Self::fresh("zeros", dtype, size, device, Init::Zeroed)
    }

    pub(super) fn fresh<D: Device>(
        op: &'static str,
        dtype: DType,
        size: &[usize],
        device: &D,
        fresh: Init,
    ) -> Result<DynTensor> {
        let axes = row_major(op, size, dtype.size())?;
        let nbytes = counted(op, size, dtype.size())? * dtype.size();
        let memory = Memory::new(Allocation::fresh(device, nbytes, fresh)?);
        // SAFETY: the memory is new and holds as many elements as the sizes. Zeros are elements, and the
        // caller writes unspecified bytes before they are read.
        Ok(unsafe { DynTensor::assemble(memory, axes, 0, dtype, HandleState::default()) })
    }

    /// A tensor with sizes, whose memory is allocated by the first [`mutable_data`](DynTensor::mutable_data).
    ///
    /// # Errors
    /// As [`DynTensor::zeros`].
    pub fn empty<D: Device>(dtype: DType, size: &[usize], device: &D) -> Result<DynTensor> {
        let axes = row_major("empty", size, dtype.size())?;
        let memory = Memory::new(Allocation::fresh(device, 0, Init::Zeroed)?);
        let state = HandleState { deferred: !size.contains(&0), ..HandleState::default() };
        // SAFETY: the tensor has no memory yet, which both invariants allow.
        Ok(unsafe { DynTensor::assemble(memory, axes, 0, dtype, state) })
    }

    /// A tensor on the CPU, whose elements `fill` writes as bytes: in native order, row-major. They are zeros
    /// before.
    ///
    /// # Errors
    /// As [`DynTensor::zeros`]; the errors of `fill`; [`Error::Value`] for a byte of a boolean that is
    /// neither 0 nor 1.
    ///
    /// # Examples
    /// ```
    /// use rankform::{Cpu, DType, DynTensor};
    /// let x = DynTensor::from_bytes_with(DType::I16, &[2], |bytes| {
    ///     bytes.copy_from_slice([1_i16.to_ne_bytes(), 2_i16.to_ne_bytes()].as_flattened());
    ///     Ok(())
    /// })?;
    /// assert_eq!(x.downcast_ref::<i16, 1, Cpu>()?.to_vec()?, [1, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn from_bytes_with(
        dtype: DType,
        size: &[usize],
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<DynTensor> {
        let op = "from_bytes";
        let tensor = Self::fresh(op, dtype, size, &Cpu, Init::Zeroed)?;
        let nbytes = tensor.nbytes();
        if let Some(memory) = tensor.memory() {
            // SAFETY: the memory is new and has this many bytes, and no other handle has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.address(), nbytes) };
            fill(bytes)?;
            if dtype == DType::Bool
                && let Some(at) = bytes.iter().position(|&byte| byte > 1)
            {
                return Err(Error::Value {
                    op,
                    what: text(format_args!("byte {} of element {at} is no bool", bytes[at])),
                });
            }
        }
        Ok(tensor)
    }

    /// A tensor on the CPU, a copy of elements given as bytes, in native order and row-major.
    ///
    /// # Errors
    /// As [`DynTensor::from_bytes_with`]; [`Error::Length`] if the number of bytes does not fit.
    pub fn from_bytes(dtype: DType, size: &[usize], bytes: &[u8]) -> Result<DynTensor> {
        let expected = counted("from_bytes", size, dtype.size())?;
        if bytes.len() != expected * dtype.size() {
            let found = bytes.len() / dtype.size();
            return Err(Error::Length { op: "from_bytes", sizes: size.into(), expected, found, of: None });
        }
        Self::from_bytes_with(dtype, size, |to| {
            to.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// A tensor in foreign memory, with any strides, in elements; without `stride`, row-major. `address` is
    /// that of the element with index 0.
    ///
    /// `free` releases the memory when the last handle is dropped. It is called exactly once, also if this
    /// function fails, with the address and the number of bytes up to the last element. The bytes between
    /// elements are never touched: if the elements have gaps, other sizes and other elements take new memory.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Unsupported`] on a device without memory, [`Error::Value`] for an
    /// address that is not aligned for the elements or for a negative stride, [`Error::OutOfMemory`].
    ///
    /// # Safety
    /// The elements that sizes and strides reach from `address` are valid, on `device`, and nothing else
    /// writes them, until `free` is called.
    pub unsafe fn from_external<D: Device>(
        dtype: DType,
        address: *mut u8,
        size: &[usize],
        stride: Option<&[isize]>,
        device: &D,
        free: impl FnOnce(*mut u8, usize) + Send + 'static,
    ) -> Result<DynTensor> {
        let op = "from_external";
        let made = (|| {
            let axes = match stride {
                None => row_major(op, size, dtype.size())?,
                Some(stride) => SizesAndStrides::new(op, size, stride)?,
            };
            counted(op, size, 1)?;
            let negative = axes.stride().iter().zip(size).any(|(&stride, &n)| stride < 0 && n > 1);
            let alignment = dtype.align();
            if negative || !address.addr().is_multiple_of(alignment) {
                let what = match negative {
                    true => text(format_args!("strides {:?} reach before {address:p}", axes.stride())),
                    false => text(format_args!("{address:p} is not aligned to {alignment} bytes")),
                };
                return Err(Error::Value { op, what });
            }
            let span = laid_out!(axes, 0, |layout| Layout::within(
                op,
                layout.size(),
                layout.stride(),
                0,
                isize::MAX as usize
            )?
            .span());
            let gaps = laid_out!(axes, 0, |layout| !layout.is_non_overlapping_and_dense());
            let too_many = || Error::Overflow { op, sizes: size.into(), element: dtype.size() };
            let nbytes = span
                .end
                .checked_mul(dtype.size())
                .filter(|&n| n <= isize::MAX as usize)
                .ok_or_else(too_many)?;
            Ok((axes, nbytes, gaps))
        })();
        let (axes, nbytes, gaps) = match made {
            Ok(made) => made,
            Err(error) => {
                free(address, 0);
                return Err(error);
            }
        };
        // SAFETY: the caller's promise.
        let memory = FallibleArc::new(
            unsafe { Allocation::external(device, address, nbytes, free)? }.with_gaps(gaps),
        )?;
        // SAFETY: the caller's promise, for as many bytes as the layout reaches.
        Ok(unsafe { DynTensor::assemble(Memory::new(memory), axes, 0, dtype, HandleState::default()) })
    }

    // ------------------------------------------------------------ copies

    /// Copies to new memory on the same device, in the same memory format if that is dense, else row-major.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
    pub fn copy(&self) -> Result<DynTensor> {
        let axes = laid_out!(self.axes(), self.offset(), |layout| SizesAndStrides::last(
            "copy",
            &layout.preserved(),
            self.rank()
        ))?;
        self.copied("copy", axes)
    }

    /// Copies to new memory on the same device, row-major.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::Overflow`], [`Error::OutOfMemory`].
    pub fn to_contiguous(&self) -> Result<DynTensor> {
        self.copied("to_contiguous", row_major("to_contiguous", self.size(), self.dtype().size())?)
    }

    /// Copies to new memory, with dense axes.
    fn copied(&self, op: &'static str, axes: SizesAndStrides) -> Result<DynTensor> {
        self.ensure_allocated(op)?;
        let nbytes = counted(op, self.size(), self.dtype().size())? * self.dtype().size();
        let Some(memory) = self.memory() else { return Ok(DynTensor::undefined()) };
        let fresh = memory.fresh(nbytes, Init::Unspecified)?;
        if nbytes > 0 {
            let element = self.dtype().size();
            let to = OperandRef { address: fresh.address(), stride: axes.stride(), element };
            let from = OperandRef { address: self.raw_ptr().cast_mut(), stride: self.stride(), element };
            // SAFETY: the output is new memory, dense along its axes and as large as they need. The input is
            // this tensor's elements, which lie inside its memory by invariant 1. Both have the same sizes.
            unsafe { memory.copy(self.size(), to, from)? };
        }
        // SAFETY: the memory is new, was allocated for these axes, and now holds elements of this type.
        Ok(unsafe { DynTensor::assemble(fresh, axes, 0, self.dtype(), HandleState::default()) })
    }

    /// The bytes of the elements, row-major and in native order, on any device and with any strides.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::NoData`] on a device without data, [`Error::Overflow`],
    /// [`Error::OutOfMemory`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let op = "to_bytes";
        self.ensure_allocated(op)?;
        let nbytes = counted(op, self.size(), self.dtype().size())? * self.dtype().size();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(nbytes).map_err(|_| Error::OutOfMemory { op, nbytes })?;
        let packed = if self.is_contiguous() { self.share_data() } else { self.to_contiguous()? };
        if let Some(memory) = packed.memory().filter(|_| nbytes > 0) {
            memory.read(packed.offset() * self.dtype().size(), &mut bytes.spare_capacity_mut()[..nbytes])?;
            // SAFETY: this many bytes were just written.
            unsafe { bytes.set_len(nbytes) };
        }
        Ok(bytes)
    }

    /// The bytes of the elements, in native order, if the elements are on the CPU and contiguous in row-major
    /// order.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        let memory = self.memory()?.get::<Cpu>()?;
        if self.ensure_allocated("as_bytes").is_err() || !self.is_contiguous() {
            return None;
        }
        let start = memory.ptr().wrapping_add(self.offset() * self.dtype().size());
        // SAFETY: invariant 1: this many elements begin at the address, without padding. The borrow keeps the
        // memory, and no writer exists, because writing needs `&mut` and the only handle.
        Some(unsafe { std::slice::from_raw_parts(start, self.nbytes()) })
    }

    /// Copies the elements to a device, in new memory, row-major; also if it is the same device.
    ///
    /// # Errors
    /// Those of [`DynTensor::to_bytes`] and [`DynTensor::zeros`].
    pub fn to<E: Device>(&self, device: &E) -> Result<DynTensor> {
        let bytes = self.to_bytes()?;
        let there = Self::fresh("to", self.dtype(), self.size(), device, Init::Unspecified)?;
        if !bytes.is_empty() {
            // SAFETY: the memory is new and has exactly this many bytes, and no other handle has it.
            unsafe { device.write(there.raw_ptr().cast_mut(), &bytes)? };
        }
        Ok(there)
    }
}
