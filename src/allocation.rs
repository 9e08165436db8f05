//! `Allocation<D>`: the owner of one block of memory on a device.
//!
//! ```text
//!   Tensor ──┐   layout: sizes, strides, offset     (its own)
//!            ├─▶ Allocation ──▶ block on the device (shared, counted)
//!   Tensor ──┘   layout: other sizes, other strides (its own)
//! ```
// Imports: `error`, `fallible`, `device`.

use crate::device::{Cpu, CpuBlock, Deleter, Device, Init, alignment};
use crate::error::{Error, Result};
use crate::fallible;
use crate::fallible::FallibleArc;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One block of memory on a device: freed once, when it is dropped. Not `Clone`.
///
/// # Examples
/// ```
/// use rankform::{Allocation, Cpu};
/// let block = Allocation::new(&Cpu, 3000)?;
/// let (start, end) = (block.ptr() as usize, block.end() as usize);
/// assert_eq!((block.size(), start % 64, end - start), (3000, 0, 3000));
/// assert_eq!(block.device(), &Cpu);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct Allocation<D: Device> {
    block: D::Block,
    nbytes: usize,
    device: D,
    version: AtomicU64,
    max_kept: AtomicUsize,
    /// Whether bytes between the elements belong to another owner.
    gaps: bool,
}

/// The rule by which `resize` keeps memory that is larger than needed (Caffe2's keep-on-shrink flags, as a
/// value).
///
/// The policy belongs to the memory: handles that share the memory share the policy, and new memory of a
/// tensor inherits it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResizePolicy {
    /// Whether memory is kept when sizes shrink.
    pub keep_on_shrink: bool,
    /// The largest number of bytes beyond the need that are kept.
    pub max_kept_bytes: usize,
}

impl Default for ResizePolicy {
    /// Keeps all memory.
    fn default() -> Self {
        ResizePolicy { keep_on_shrink: true, max_kept_bytes: usize::MAX }
    }
}

impl<D: Device> Allocation<D> {
    /// `nbytes` zero bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(device: &D, nbytes: usize) -> Result<Self> {
        Ok(Self::from_block(device.allocate(nbytes, Init::Zeroed)?, nbytes, device.clone()))
    }

    /// New memory and the first handle on it, in one heap block where the device allows that.
    #[inline]
    pub(crate) fn fresh(device: &D, nbytes: usize, fresh: Init) -> Result<FallibleArc<Self>> {
        match device.inline_block(nbytes) {
            Some(block) => match Self::inline_block(device, nbytes, fresh, block) {
                Some(shared) => Ok(shared),
                None => Err(Error::OutOfMemory { op: "allocate", nbytes }),
            },
            None => {
                FallibleArc::new(Self::from_block(device.allocate(nbytes, fresh)?, nbytes, device.clone()))
            }
        }
    }

    /// Allocates both in one heap block. The result is a pointer: a `Result` would be returned through
    /// memory.
    fn inline_block(
        device: &D,
        nbytes: usize,
        fresh: Init,
        block: unsafe fn(NonNull<u8>, usize) -> D::Block,
    ) -> Option<FallibleArc<Self>> {
        FallibleArc::with_inline_bytes(nbytes, alignment(nbytes), |room| {
            // SAFETY: the inline bytes have this number and the device's alignment, and no other code knows
            // their address.
            unsafe {
                if fresh == Init::Zeroed {
                    room.write_bytes(0, nbytes);
                }
                Self::from_block(block(room, nbytes), nbytes, device.clone())
            }
        })
    }

    /// Memory of another owner; `free` returns it when the last tensor on it is dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a device without memory, [`Error::OutOfMemory`]; `free` has then been
    /// called.
    ///
    /// # Safety
    /// `nbytes` bytes at `address` stay valid on the device, and no other code writes them, until `free` is
    /// called.
    pub unsafe fn external(
        device: &D,
        address: *mut u8,
        nbytes: usize,
        free: impl FnOnce(*mut u8, usize) + Send + 'static,
    ) -> Result<Self> {
        let free: Deleter = match fallible::boxed(free) {
            Ok(free) => free,
            Err(free) => {
                let wanted = size_of_val(&free);
                free(address, nbytes);
                return Err(Error::OutOfMemory { op: "external", nbytes: wanted });
            }
        };
        // SAFETY: the caller's promise is the same as `external_block` requires.
        let block = unsafe { device.external_block(address, nbytes, free)? };
        Ok(Self::from_block(block, nbytes, device.clone()))
    }

    #[inline]
    pub(crate) fn from_block(block: D::Block, nbytes: usize, device: D) -> Self {
        let policy = ResizePolicy::default();
        let (version, max_kept) = (AtomicU64::new(0), AtomicUsize::new(policy.max_kept_bytes));
        Allocation { block, nbytes, device, version, max_kept, gaps: false }
    }

    /// Marks the bytes between the elements as belonging to another owner: no other layout may use them.
    #[cfg(feature = "dynamic")]
    pub(crate) fn with_gaps(self, gaps: bool) -> Self {
        Allocation { gaps, ..self }
    }

    /// The number of bytes that any layout may use: all of them, or none.
    #[inline]
    pub(crate) fn usable_bytes(&self) -> usize {
        if self.gaps { 0 } else { self.nbytes }
    }

    /// The address of its first byte, in the device's own address space.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        D::address(&self.block)
    }

    /// One past its last byte.
    pub fn end(&self) -> *mut u8 {
        self.ptr().wrapping_add(self.nbytes)
    }

    /// Its size in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.nbytes
    }

    /// Its block of memory.
    #[cfg(feature = "autograd")]
    #[inline]
    pub(crate) fn block(&self) -> &D::Block {
        &self.block
    }

    /// The device it is on.
    #[inline]
    pub fn device(&self) -> &D {
        &self.device
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Counts one mutable access. The caller has the only handle, therefore nothing else counts at the same
    /// time.
    #[inline]
    pub(crate) fn bump(&self) {
        self.version.store(self.version().wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn policy(&self) -> ResizePolicy {
        let max_kept_bytes = self.max_kept.load(Ordering::Relaxed);
        ResizePolicy { keep_on_shrink: max_kept_bytes > 0, max_kept_bytes }
    }

    pub(crate) fn set_policy(&self, policy: ResizePolicy) {
        let kept = if policy.keep_on_shrink { policy.max_kept_bytes } else { 0 };
        self.max_kept.store(kept, Ordering::Relaxed);
    }

    /// Continues the version and the policy of the previous memory.
    pub(crate) fn inherit(&self, before: &Self) {
        self.set_history(before.version(), before.policy());
    }

    pub(crate) fn set_history(&self, version: u64, policy: ResizePolicy) {
        self.version.store(version, Ordering::Relaxed);
        self.set_policy(policy);
    }

    /// The memory of the only handle, as a block of another type of device.
    ///
    /// # Errors
    /// [`Error::Shared`] when there are other handles, those of `block`, [`Error::OutOfMemory`] for the
    /// handle.
    ///
    /// # Safety
    /// 1. The block is not stored inline next to the reference count.
    /// 2. `block` returns the same bytes.
    pub(crate) unsafe fn with_block<E: Device>(
        memory: FallibleArc<Self>,
        device: E,
        block: impl FnOnce(D::Block) -> Result<E::Block>,
    ) -> Result<FallibleArc<Allocation<E>>> {
        let handles = memory.handles();
        let Allocation { block: own, nbytes, version, max_kept, gaps, .. } =
            memory.into_value().ok_or(Error::Shared { op: "into_device", handles })?;
        FallibleArc::new(Allocation { block: block(own)?, nbytes, device, version, max_kept, gaps })
    }
}

impl Allocation<Cpu> {
    /// The memory of a `Vec`, without a copy; its elements are dropped with it.
    #[inline]
    pub(crate) fn from_vec<T: Send + Sync + 'static>(values: Vec<T>) -> Result<FallibleArc<Self>> {
        let nbytes = values.len() * size_of::<T>();
        // The value is made in place, not moved there.
        let shared = FallibleArc::with_inline_bytes(0, 1, |_| {
            Self::from_block(CpuBlock::from_vec(values), nbytes, Cpu)
        });
        shared.ok_or(Error::OutOfMemory { op: "handle", nbytes: size_of::<Self>() })
    }

    /// The address, length and capacity of the `Vec` from which the memory came, if it has such elements. The
    /// allocation is then empty.
    #[inline]
    pub(crate) fn take_vec(&mut self, element: std::alloc::Layout) -> Option<(NonNull<u8>, usize, usize)> {
        let parts = self.block.take_vec(element)?;
        self.nbytes = 0;
        Some(parts)
    }
}

impl<D: Device> fmt::Debug for Allocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("ptr", &self.ptr())
            .field("size", &self.nbytes)
            .field("device", &self.device)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_memory_is_aligned_and_its_own_beside_its_counter_or_not() {
        for nbytes in [0, 1, 15, 16, 64, 1000, 1023, 1024, 1025, 4096, (32 << 10) - 1, 32 << 10, 40_000] {
            let memory = Allocation::fresh(&Cpu, nbytes, Init::Zeroed).unwrap();
            let other = Allocation::fresh(&Cpu, nbytes, Init::Unspecified).unwrap();
            assert_eq!(
                (memory.size(), memory.ptr().addr() % if nbytes < 1024 { 16 } else { 64 }),
                (nbytes, 0),
                "{nbytes} bytes"
            );
            // SAFETY: two separate allocations of this number of bytes, which no other code uses.
            let (bytes, others) = unsafe {
                other.ptr().write_bytes(0xFF, nbytes);
                (
                    std::slice::from_raw_parts(memory.ptr(), nbytes),
                    std::slice::from_raw_parts(other.ptr(), nbytes),
                )
            };
            let second = memory.share();
            drop(memory);
            assert!(
                bytes.iter().all(|&byte| byte == 0) && others.iter().all(|&byte| byte == 0xFF),
                "{nbytes} bytes"
            );
            assert_eq!(
                (second.handles(), second.version(), second.policy()),
                (1, 0, ResizePolicy::default())
            );
        }
    }
}
