//! Elements as bytes that come and go in pieces: what files and other processes see of a tensor.
//!
//! Imports: `error`, `dim`, `layout`, `dtype`, `element`, `device`.

use super::{Tensor, TensorView};
use crate::device::{Cpu, Device, Slot};
use crate::dim::{Dim, Stride};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use std::any::Any;

/// How many bytes are copied at a time on the host: what stays in the cache of one core.
const PIECE: usize = 256 << 10;
/// How many bytes are fetched at a time from another device.
const FAR_PIECE: usize = 4 << 20;

impl<T: Element, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// The bytes of all elements in row-major order, native, a piece of whole elements at a time.
    ///
    /// # Cost
    /// On the host nothing is copied where that is the order of memory. Otherwise one piece is, into memory that is used
    /// again for the next.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`], [`Error::NoData`] on a device without data, and those of `each`.
    pub(crate) fn pieces(&self, op: &'static str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.ready(op)?;
        if self.is_empty() {
            return Ok(());
        }
        let near = (self.device() as &dyn Any).is::<Cpu>();
        let room = (if near { PIECE } else { FAR_PIECE }) / size_of::<T>(); // an element has 16 bytes at most
        if self.layout().is_contiguous() {
            let mut fetched = Vec::new();
            for start in (0..self.numel()).step_by(room) {
                let nbytes = room.min(self.numel() - start) * size_of::<T>();
                let from = self.address_of(self.layout().offset() + start).cast_const();
                // SAFETY: `nbytes` bytes of elements that follow each other from the view's first on.
                each(unsafe { self.fetch(near, from, nbytes, &mut fetched)? })?;
            }
            return Ok(());
        }
        // The axes behind `axis` fit a piece as a whole, and `stretch` positions of `axis` do.
        let size = self.size().0;
        let (mut axis, mut inner) = (RANK, 1);
        while axis > 0 && inner * size[axis - 1] <= room {
            axis -= 1;
            inner *= size[axis];
        }
        let (split, inner) = if axis == 0 { (0, inner / size[0]) } else { (axis - 1, inner) };
        let stretch = (room / inner).min(size[split]);
        let mut scratch = Tensor::<T, 1, D>::unwritten(op, Layout::row_major(Dim([stretch * inner])), self.device())?;
        let to = scratch.writable(op)?.raw_ptr().cast::<u8>();
        let outer = Dim(std::array::from_fn(|a| if a < split { size[a] } else { 1 }));
        let mut fetched = Vec::new();
        for mut index in outer.indices() {
            for start in (0..size[split]).step_by(stretch) {
                index[split] = start;
                let part: [usize; RANK] = std::array::from_fn(|a| match a.cmp(&split) {
                    std::cmp::Ordering::Less => 1,
                    std::cmp::Ordering::Equal => stretch.min(size[a] - start),
                    std::cmp::Ordering::Greater => size[a],
                });
                let from_stride: Stride<RANK> = self.stride();
                let to_stride = Layout::row_major(Dim(part)).stride();
                let from = self.address_of(self.layout().at(index));
                let element = size_of::<T>();
                let nbytes = part.iter().product::<usize>() * element;
                // SAFETY: a part of this view, into fresh memory that has room for `stretch * inner` elements; then
                // those elements, which now are written.
                let bytes = unsafe {
                    let from = Slot { address: from, stride: &from_stride.0, element };
                    self.device().copy(&part, Slot { address: to, stride: &to_stride.0, element }, from)?;
                    self.fetch(near, to.cast_const(), nbytes, &mut fetched)?
                };
                each(bytes)?;
            }
        }
        Ok(())
    }

    /// Bytes of this view's device: as they stand if they are `near`, on the host, otherwise copied.
    ///
    /// # Safety
    /// `nbytes` bytes of elements stand at `from` on the device, and nobody writes them while the result is used.
    unsafe fn fetch<'s>(&self, near: bool, from: *const u8, nbytes: usize, fetched: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        if near {
            // SAFETY: the caller's promise; elements have no padding.
            return Ok(unsafe { std::slice::from_raw_parts(from, nbytes) });
        }
        fetched.clear();
        fetched.try_reserve_exact(nbytes).map_err(|_| Error::OutOfMemory { op: "fetch", nbytes })?;
        // SAFETY: the caller's promise, and room for as many bytes, which are then written.
        unsafe {
            self.device().read(from, &mut fetched.spare_capacity_mut()[..nbytes])?;
            fetched.set_len(nbytes);
        }
        Ok(fetched)
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
        let bytes = self.as_slice().unwrap_or_default();
        let wanted = layout.span().end.saturating_mul(size_of::<T>());
        let Some(bytes) = bytes.get(..wanted) else {
            return Err(Error::Length { op, sizes: layout.size().0.into(), expected: wanted, found: bytes.len(), of: None });
        };
        let any = T::DTYPE != DType::Bool; // as the contract of `Element` says
        if !any {
            let mut parts = bytes.chunks_exact(size_of::<T>());
            if let Some(at) = parts.position(|part| bytemuck::checked::try_pod_read_unaligned::<T>(part).is_err()) {
                let part = &bytes[at * size_of::<T>()..(at + 1) * size_of::<T>()];
                return Err(Error::Value { op, what: text(format_args!("bytes {part:?} of element {at} are no {}", T::DTYPE)) });
            }
        }
        // A tensor may grow into the rest of its memory, which must then hold elements too.
        let whole = any || self.allocation().size() == wanted;
        let first = self.layout().offset();
        let aligned = first.is_multiple_of(size_of::<T>()) && self.allocation().ptr().cast::<T>().is_aligned();
        let (bytes, first) = if whole && aligned { (self, first / size_of::<T>()) } else { (self.view().slice((..wanted,))?.copy()?, 0) };
        // SAFETY: the span lies inside the bytes, which are aligned valid elements; so is all their memory.
        Ok(unsafe { bytes.relay(layout.moved(layout.offset() + first)) })
    }
}
