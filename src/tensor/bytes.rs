//! Elements as bytes that come and go in pieces: what files and other processes see of a tensor.
// Imports: `error`, `layout`, `dtype`, `element`, `device`.

use super::{Tensor, TensorView};
use crate::device::{Cpu, Device, Init, OperandRef};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use std::any::Any;
use std::mem::MaybeUninit;

/// How many bytes are copied at a time on the host: what stays in the cache of one core.
const PIECE: usize = 256 << 10;
/// How many bytes are fetched at a time from another device.
const FAR_PIECE: usize = 4 << 20;

/// The functions of a device that bring its bytes to the host. As a trait object, so that code which reads elements in
/// pieces is compiled once, for every element, rank and device.
pub(crate) trait Readable {
    /// Whether the bytes are the host's own.
    fn is_host(&self) -> bool;
    /// As [`Device::copy`].
    ///
    /// # Safety
    /// As there.
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()>;
    /// As [`Device::read`].
    ///
    /// # Safety
    /// As there.
    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()>;
    /// Calls `f` with the address of fresh memory, which is freed afterwards.
    fn with_memory(&self, nbytes: usize, f: &mut dyn FnMut(*mut u8) -> Result<()>) -> Result<()>;
}

impl<D: Device> Readable for D {
    fn is_host(&self) -> bool {
        (self as &dyn Any).is::<Cpu>()
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
    /// The bytes of all elements in row-major order, native, a piece of whole elements at a time.
    ///
    /// # Cost
    /// On the host nothing is copied where that is the order of memory. Otherwise one piece is, into memory that is used
    /// again for the next.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::NoData`] on a device without data, and those of `each`.
    ///
    /// # Safety
    /// The device holds initialized elements without padding at every index, and nobody writes them meanwhile.
    pub(crate) unsafe fn pieces(&self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (size, OperandRef { address, stride, element }) = (self.size, self.slot);
        let numel: usize = size.iter().product();
        if numel == 0 {
            return Ok(());
        }
        let near = self.device.is_host();
        let room = (if near { PIECE } else { FAR_PIECE }) / element; // an element has 16 bytes at most
        let mut fetched = Vec::new();
        if self.is_contiguous() {
            for start in (0..numel).step_by(room) {
                let nbytes = room.min(numel - start) * element;
                // SAFETY: `nbytes` bytes of elements that follow each other from the first on.
                each(unsafe {
                    self.fetch(near, address.wrapping_add(start * element), nbytes, &mut fetched)?
                })?;
            }
            return Ok(());
        }
        // The axes behind `split` fit a piece as a whole, and `stretch` positions of `split` do.
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
                    // SAFETY: a part of these elements, into fresh memory with room for `stretch * inner` of them; then
                    // those elements, which now are written.
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

    /// Bytes of the device: as they stand if they are `near`, on the host, otherwise copied.
    ///
    /// # Safety
    /// `nbytes` bytes of elements stand at `from` on the device, and nobody writes them while the result is used.
    unsafe fn fetch<'s>(
        &self,
        near: bool,
        from: *const u8,
        nbytes: usize,
        fetched: &'s mut Vec<u8>,
    ) -> Result<&'s [u8]> {
        if near {
            // SAFETY: the caller's promise; elements have no padding.
            return Ok(unsafe { std::slice::from_raw_parts(from, nbytes) });
        }
        fetched.clear();
        fetched.try_reserve_exact(nbytes).map_err(|_| Error::OutOfMemory { op: "fetch", nbytes })?;
        // SAFETY: the caller's promise, and room for as many bytes, which are then written.
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
    /// Calls `f` with the elements, erased.
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

    /// As [`Strided::pieces`].
    ///
    /// # Errors
    /// As there; [`Error::Unallocated`].
    pub(crate) fn pieces(&self, op: &'static str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // SAFETY: a view's elements, which it borrows.
        self.erased(op, |elements| unsafe { elements.pieces(each) })
    }
}

impl Tensor<u8, 1, Cpu> {
    /// These bytes as elements `T`, native, under a dense layout that is counted in elements from the first byte on.
    /// They stay where they are if they are aligned there and are all of their memory, or any bytes would be elements;
    /// otherwise they are copied.
    ///
    /// # Errors
    /// [`Error::Length`] when there are fewer bytes, [`Error::Value`] when some are no `T` (a boolean is 0 or 1),
    /// [`Error::OutOfMemory`].
    pub(crate) fn into_elements<T: Element, const RANK: usize>(
        self,
        op: &'static str,
        layout: Layout<RANK>,
    ) -> Result<Tensor<T, RANK, Cpu>> {
        let wanted = layout.span().end.saturating_mul(size_of::<T>());
        let (bytes, first) = self.of_elements(op, T::DTYPE, &layout.size().0, wanted)?;
        // SAFETY: the span lies inside the bytes, which are aligned valid elements; so is all their memory.
        Ok(unsafe { bytes.with_layout(layout.moved(layout.offset() + first)) })
    }

    /// The same bytes, or a copy, such that elements of a type can stand there, and the number of the first element.
    /// The first `wanted` bytes are checked.
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
        // Any bytes are an element of every type but this, as the contract of `Element` says.
        let any = dtype != DType::Bool;
        if let Some(at) = bytes.iter().position(|&byte| !any && byte > 1) {
            return Err(Error::Value {
                op,
                what: text(format_args!("bytes {:?} of element {at} are no {dtype}", &bytes[at..=at])),
            });
        }
        // A tensor may grow into the rest of its memory, which must then hold elements too.
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
