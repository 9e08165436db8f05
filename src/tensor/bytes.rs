//! Elements as bytes, read in chunks: the contents of files and messages to other processes.
// Imports: `error`, `layout`, `dtype`, `element`, `device`.

use super::{Tensor, TensorView};
use crate::device::{Cpu, Device, Init, OperandRef};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use std::mem::MaybeUninit;

/// Bytes of a chunk that is copied on the host: it stays in the cache of one core.
const HOST_CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a chunk that is read from another device.
const DEVICE_CHUNK_BYTES: usize = 4 << 20;

/// The functions of a device that bring its bytes to the host. It is a trait object: code that reads elements
/// in chunks is compiled once, for every element, rank and device.
pub(crate) trait Readable {
    /// Whether the bytes are the host's own.
    fn is_host(&self) -> bool;
    /// As [`Device::copy`].
    ///
    /// # Safety
    /// As [`Device::copy`].
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()>;
    /// As [`Device::read`].
    ///
    /// # Safety
    /// As [`Device::read`].
    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()>;
    /// Calls `f` with the address of new memory, which is freed afterwards.
    fn with_memory(&self, nbytes: usize, f: &mut dyn FnMut(*mut u8) -> Result<()>) -> Result<()>;
}

impl<D: Device> Readable for D {
    fn is_host(&self) -> bool {
        Device::is_host(self)
    }
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Device::copy(self, sizes, to, from) }
    }
    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Device::read(self, from, bytes) }
    }
    fn with_memory(&self, nbytes: usize, f: &mut dyn FnMut(*mut u8) -> Result<()>) -> Result<()> {
        let block = self.allocate(nbytes, Init::Unspecified)?;
        f(D::address(&block))
    }
}

/// Elements of any type on a device, under any strides.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    /// The device of the elements.
    pub(crate) device: &'a dyn Readable,
    /// Sizes of the axes.
    pub(crate) size: &'a [usize],
    /// Address of the first element, strides, bytes of an element.
    pub(crate) slot: OperandRef<'a>,
}

impl Strided<'_> {
    /// Calls `each` with the bytes of all elements in row-major order, native, in chunks of whole elements.
    ///
    /// # Cost
    /// On the host nothing is copied if row-major order is the order of memory. Otherwise each chunk is
    /// copied into memory that is reused for the next.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::NoData`] on a device without data, and those of `each`.
    ///
    /// # Safety
    /// 1. The device holds initialized elements without padding at every index.
    /// 2. No code writes them meanwhile.
    pub(crate) unsafe fn for_each_chunk(&self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (size, OperandRef { address, stride, element }) = (self.size, self.slot);
        let numel: usize = size.iter().product();
        if numel == 0 {
            return Ok(());
        }
        let near = self.device.is_host();
        let chunk = if near { HOST_CHUNK_BYTES } else { DEVICE_CHUNK_BYTES };
        let room = chunk / element; // an element has at most 16 bytes
        let mut fetched = Vec::new();
        if self.is_contiguous() {
            for start in (0..numel).step_by(room) {
                let nbytes = room.min(numel - start) * element;
                // SAFETY: (1) and (2) for `nbytes` bytes of elements that are contiguous from the first on.
                each(unsafe {
                    self.fetch(near, address.wrapping_add(start * element), nbytes, &mut fetched)?
                })?;
            }
            return Ok(());
        }
        // A chunk holds all positions of the axes after `split`, and `stretch` positions of `split`.
        let (mut split, mut inner) = (size.len() - 1, 1);
        while split > 0 && inner * size[split] <= room {
            inner *= size[split];
            split -= 1;
        }
        let stretch = (room / inner).min(size[split]);
        let mut part: Vec<usize> =
            (0..size.len()).map(|axis| if axis < split { 1 } else { size[axis] }).collect();
        let mut index = vec![0; split];
        self.device.with_memory(stretch * inner * element, &mut |to| {
            loop {
                let line: isize = index.iter().zip(stride).map(|(&at, &step)| at as isize * step).sum();
                for start in (0..size[split]).step_by(stretch) {
                    part[split] = stretch.min(size[split] - start);
                    let first = (line + start as isize * stride[split]) * element as isize;
                    let nbytes = part.iter().product::<usize>() * element;
                    // SAFETY: (1) and (2) for a part of these elements; the destination is new memory for
                    // `stretch * inner` of them, all of which are written.
                    let bytes = unsafe {
                        let from = OperandRef { address: address.wrapping_offset(first), stride, element };
                        self.device.copy(
                            &part,
                            OperandRef { address: to, stride: &row_major(&part), element },
                            from,
                        )?;
                        self.fetch(near, to, nbytes, &mut fetched)?
                    };
                    each(bytes)?;
                }
                // The next index of the axes before `split`.
                let Some(axis) = (0..split).rev().find(|&axis| index[axis] + 1 < size[axis]) else {
                    return Ok(());
                };
                index[axis] += 1;
                index[axis + 1..].fill(0);
            }
        })
    }

    fn is_contiguous(&self) -> bool {
        let expected = row_major(self.size);
        (0..self.size.len()).all(|axis| self.size[axis] == 1 || self.slot.stride[axis] == expected[axis])
    }

    /// Bytes of the device: in place if they are `near`, on the host; copied otherwise.
    ///
    /// # Safety
    /// 1. `nbytes` bytes of elements without padding lie at `from` on the device.
    /// 2. No code writes them while the result is used.
    unsafe fn fetch<'s>(
        &self,
        near: bool,
        from: *const u8,
        nbytes: usize,
        fetched: &'s mut Vec<u8>,
    ) -> Result<&'s [u8]> {
        if near {
            // SAFETY: (1) and (2) are the caller's promises.
            return Ok(unsafe { std::slice::from_raw_parts(from, nbytes) });
        }
        fetched.clear();
        fetched.try_reserve_exact(nbytes).map_err(|_| Error::OutOfMemory { op: "fetch", nbytes })?;
        // SAFETY: (1) and (2) are the caller's promises; the buffer holds as many bytes, which are then
        // written.
        unsafe {
            self.device.read(from, &mut fetched.spare_capacity_mut()[..nbytes])?;
            fetched.set_len(nbytes);
        }
        Ok(fetched)
    }
}

/// Row-major strides.
fn row_major(size: &[usize]) -> Vec<isize> {
    let mut stride = vec![1; size.len()];
    for axis in (1..size.len()).rev() {
        stride[axis - 1] = stride[axis] * size[axis] as isize;
    }
    stride
}

impl<T: Element, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// Calls `f` with the elements, their types erased.
    ///
    /// # Errors
    /// [`Error::Unallocated`], and those of `f`.
    pub(crate) fn erased<R>(&self, op: &'static str, f: impl FnOnce(Strided<'_>) -> Result<R>) -> Result<R> {
        self.ensure_allocated(op)?;
        let (size, stride) = (self.size(), self.stride());
        let slot = OperandRef {
            address: self.address_of(self.layout().offset()),
            stride: &stride.0,
            element: size_of::<T>(),
        };
        f(Strided { device: self.device(), size: &size.0, slot })
    }

    /// As [`Strided::for_each_chunk`].
    ///
    /// # Errors
    /// Those of [`Strided::for_each_chunk`]; [`Error::Unallocated`].
    pub(crate) fn for_each_chunk(
        &self,
        op: &'static str,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        // SAFETY: (1) and (2): the elements of a view, which borrows them.
        self.erased(op, |elements| unsafe { elements.for_each_chunk(each) })
    }
}

impl Tensor<u8, 1, Cpu> {
    /// These bytes as elements `T`, native, under a dense layout that counts in elements from the first byte.
    /// They stay in place if they are aligned and are all of their memory, or if any bytes are valid
    /// elements; otherwise they are copied.
    ///
    /// # Errors
    /// [`Error::Length`] when there are fewer bytes, [`Error::Value`] when some are not valid for `T` (a
    /// boolean is 0 or 1), [`Error::OutOfMemory`].
    pub(crate) fn into_elements<T: Element, const RANK: usize>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
    ) -> Result<Tensor<T, RANK, Cpu>> {
        let wanted = layout.span().end.saturating_mul(size_of::<T>());
        let (bytes, first) = self.of_elements(op, T::DTYPE, &layout.size().0, wanted)?;
        // SAFETY: (1) the span lies inside the bytes, which are aligned; (2) they are valid elements, and all
        // their memory is.
        Ok(unsafe { bytes.with_layout(layout.with_offset(layout.offset() + first)) })
    }

    /// The same bytes, or an aligned copy for elements of a type, and the index of the first element. The
    /// first `wanted` bytes are checked.
    ///
    /// # Errors
    /// As [`into_elements`](Tensor::into_elements).
    pub(crate) fn of_elements(
        self,
        op: &'static str,
        dtype: DType,
        sizes: &[usize],
        wanted: usize,
    ) -> Result<(Self, usize)> {
        let bytes = self.as_slice().unwrap_or_default();
        let Some(bytes) = bytes.get(..wanted) else {
            return Err(Error::Length {
                op,
                sizes: sizes.into(),
                expected: wanted,
                found: bytes.len(),
                of: None,
            });
        };
        // By the contract of `Element`, any bytes are valid for every type but this.
        let any = dtype != DType::Bool;
        if let Some(at) = bytes.iter().position(|&byte| !any && byte > 1) {
            return Err(Error::Value {
                op,
                what: text(format_args!("bytes {:?} of element {at} are no {dtype}", &bytes[at..=at])),
            });
        }
        // A tensor may grow into the rest of its memory, which must then hold valid elements too.
        let whole = any || self.allocation().size() == wanted;
        let (first, element) = (self.layout().offset(), dtype.size());
        let aligned =
            first.is_multiple_of(element) && (self.allocation().ptr() as usize).is_multiple_of(dtype.align());
        if whole && aligned {
            Ok((self, first / element))
        } else {
            Ok((self.view().slice((..wanted,))?.copy()?, 0))
        }
    }
}
