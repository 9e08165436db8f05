//! The blocks of a device that computes on another one, and their addresses.
//!
//! The address of a block is its number, and an offset in the bits below. It points to no memory: the entry
//! of the block knows where that is.
// Imports: `error`, `device`, `erased_memory`.

use super::inner::Inner;
use crate::device::{Device, Init, OperandRef};
use crate::erased_memory::Memory;
use crate::error::{Error, Result};

/// The bits of an address that count bytes inside a block. The bits above are the number of the block, which
/// is not 0.
const OFFSET_BITS: u32 = usize::BITS / 8 * 5;

/// The number of a block, from an address inside it.
pub(super) fn number_of(address: *const u8) -> usize {
    address.addr() >> OFFSET_BITS
}

/// Bytes from the start of the block.
pub(super) fn offset_of(address: *const u8) -> usize {
    address.addr() & ((1 << OFFSET_BITS) - 1)
}

/// The address of the first byte of a block.
pub(super) fn address_of(number: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(number << OFFSET_BITS)
}

/// The entries of all blocks, by number.
pub(super) struct Blocks<E> {
    entries: Vec<Option<E>>,
    free: Vec<usize>,
}

impl<E> Blocks<E> {
    pub(super) fn new() -> Self {
        Blocks { entries: Vec::new(), free: Vec::new() }
    }

    /// The number of a new block of `nbytes` bytes, for which [`put`](Blocks::put) adds the entry.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no room for the entry or no address for the block.
    pub(super) fn reserve(&mut self, op: &'static str, nbytes: usize) -> Result<usize> {
        let no_room = || Error::OutOfMemory { op, nbytes };
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.entries.try_reserve(1).map_err(|_| no_room())?;
                self.free.try_reserve(self.entries.len() + 1).map_err(|_| no_room())?;
                self.entries.push(None);
                self.entries.len()
            }
        };
        if nbytes >= 1 << OFFSET_BITS || number >= 1 << (usize::BITS - OFFSET_BITS) {
            self.free.push(number);
            return Err(no_room());
        }
        Ok(number)
    }

    /// Adds the entry of a block whose number was reserved.
    pub(super) fn put(&mut self, number: usize, entry: E) {
        self.entries[number - 1] = Some(entry);
    }

    pub(super) fn remove(&mut self, number: usize) -> Option<E> {
        self.free.push(number);
        self.entries[number - 1].take()
    }

    pub(super) fn get(&mut self, number: usize) -> Option<&mut E> {
        self.entries.get_mut(number.wrapping_sub(1))?.as_mut()
    }

    /// The entries of all blocks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().flatten()
    }

    /// The entry of the block with this address inside it.
    pub(super) fn at(&mut self, address: *const u8) -> Option<&mut E> {
        self.get(number_of(address))
    }
}

/// A copy of memory that holds elements of `element` bytes. It moves elements and not bytes, because an inner
/// tape records it. The caller has the only right to write to the memory.
pub(super) fn copy_of(inner: &dyn Inner, memory: &Memory, element: usize) -> Result<Memory> {
    let nbytes = memory.nbytes();
    let copy = inner.fresh(nbytes, Init::Unspecified)?;
    let whole = nbytes / element * element;
    for (element, start, count) in [(element, 0, nbytes / element), (1, whole, nbytes - whole)] {
        let at =
            |address: *mut u8| OperandRef { address: address.wrapping_add(start), stride: &[1], element };
        if count > 0 {
            // SAFETY: (1) two blocks of as many bytes; (2) the copy is new; (3) nothing else writes to the
            // memory.
            unsafe { inner.copy(&[count], at(copy.address()), at(memory.address()))? };
        }
    }
    Ok(copy)
}

/// Whether a device is this one.
pub(super) fn is_device<D: Device, E: Device>(device: &D, inner: &E) -> bool {
    (device as &dyn std::any::Any).downcast_ref() == Some(inner)
}

/// Copies elements that follow each other, on one device.
///
/// # Safety
/// As [`Device::copy`], for `numel` elements of `element` bytes at each address.
pub(super) unsafe fn copy_line<D: Device>(
    device: &D,
    to: *mut u8,
    from: *const u8,
    numel: usize,
    element: usize,
) -> Result<()> {
    let slot = |address| OperandRef { address, stride: &[1], element };
    // SAFETY: the caller's promise.
    unsafe { device.copy(&[numel], slot(to), slot(from.cast_mut())) }
}
