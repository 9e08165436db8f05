//! Handles on memory whose device is known at run time only: `FallibleArc<Allocation<D>>` without `D`.
// Imports: `error`, `fallible`, `device`, `allocation`.

#![cfg_attr(not(feature = "dynamic"), allow(dead_code))] // a tape uses a part of the functions

use crate::allocation::Allocation;
use crate::device::{Device, Init, OperandRef};
use crate::error::{Result, text};
use crate::fallible::FallibleArc;
#[cfg(feature = "autograd")]
use std::any::Any;
use std::any::TypeId;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// The functions of an allocation, for one type of device.
struct AllocationFns {
    device: fn() -> TypeId,
    name: fn() -> &'static str,
    describe: unsafe fn(NonNull<()>) -> String,
    share: unsafe fn(NonNull<()>),
    release: unsafe fn(NonNull<()>),
    handles: unsafe fn(NonNull<()>) -> usize,
    address: unsafe fn(NonNull<()>) -> *mut u8,
    nbytes: unsafe fn(NonNull<()>) -> usize,
    room: unsafe fn(NonNull<()>) -> usize,
    version: unsafe fn(NonNull<()>) -> u64,
    bump: unsafe fn(NonNull<()>),
    #[cfg(feature = "autograd")]
    block: unsafe fn(NonNull<()>) -> NonNull<dyn Any>,
    fresh: unsafe fn(NonNull<()>, usize, Init) -> Result<Memory>,
    inherit: unsafe fn(NonNull<()>, NonNull<()>),
    copy: unsafe fn(NonNull<()>, &[usize], OperandRef<'_>, OperandRef<'_>) -> Result<()>,
    read: unsafe fn(NonNull<()>, usize, &mut [MaybeUninit<u8>]) -> Result<()>,
}

/// A handle on an allocation of some device.
///
/// Invariant 1: `raw` is from `FallibleArc::<Allocation<D>>::into_raw`, for the `D` from which `table` was
/// made, and is released when this handle is dropped.
pub(crate) struct Memory {
    raw: NonNull<()>,
    table: &'static AllocationFns,
}

// SAFETY: `FallibleArc<Allocation<D>>` is Send, as a device and its blocks are Send and Sync.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Inspects the allocation through the handle, which keeps its count.
///
/// # Safety
/// `raw` satisfies invariant 1, for `D`.
unsafe fn peek<D: Device, R>(raw: NonNull<()>, look: impl FnOnce(&FallibleArc<Allocation<D>>) -> R) -> R {
    // SAFETY: the caller's promise. The handle is not dropped here.
    look(&ManuallyDrop::new(unsafe { FallibleArc::from_raw(raw) }))
}

impl AllocationFns {
    const fn of<D: Device>() -> AllocationFns {
        // SAFETY of each function: it is called with a handle to which the table belongs, by invariant 1.
        AllocationFns {
            device: TypeId::of::<D>,
            name: std::any::type_name::<D>,
            // SAFETY: as above.
            describe: |raw| unsafe {
                peek::<D, _>(raw, |memory| text(format_args!("{:?}", memory.device())))
            },
            // SAFETY: as above.
            share: |raw| unsafe { peek::<D, _>(raw, |memory| std::mem::forget(memory.share())) },
            // SAFETY: as above; the handle is consumed.
            release: |raw| drop(unsafe { FallibleArc::<Allocation<D>>::from_raw(raw) }),
            // SAFETY: as above.
            handles: |raw| unsafe { peek::<D, _>(raw, FallibleArc::handles) },
            // SAFETY: as above.
            address: |raw| unsafe { peek::<D, _>(raw, |memory| memory.ptr()) },
            // SAFETY: as above.
            nbytes: |raw| unsafe { peek::<D, _>(raw, |memory| memory.size()) },
            // SAFETY: as above.
            room: |raw| unsafe { peek::<D, _>(raw, |memory| memory.usable_bytes()) },
            // SAFETY: as above.
            version: |raw| unsafe { peek::<D, _>(raw, |memory| memory.version()) },
            // SAFETY: as above.
            bump: |raw| unsafe { peek::<D, _>(raw, |memory| memory.bump()) },
            // SAFETY: as above.
            #[cfg(feature = "autograd")]
            block: |raw| unsafe {
                peek::<D, _>(raw, |memory| {
                    let block: &dyn Any = memory.block();
                    NonNull::from(block)
                })
            },
            // SAFETY: as above.
            fresh: |raw, nbytes, fresh| unsafe {
                peek::<D, _>(raw, |memory| {
                    Ok(Memory::new(Allocation::fresh(memory.device(), nbytes, fresh)?))
                })
            },
            // SAFETY: as above, for both.
            inherit: |raw, before| unsafe {
                peek::<D, _>(raw, |memory| memory.inherit(FallibleArc::peek(before)))
            },
            // SAFETY: as above; the caller promises the rest for the operands.
            copy: |raw, sizes, to, from| unsafe {
                peek::<D, _>(raw, |memory| memory.device().copy(sizes, to, from))
            },
            // SAFETY: as above; the caller promises that the bytes lie inside.
            read: |raw, at, bytes| unsafe {
                peek::<D, _>(raw, |memory| memory.device().read(memory.ptr().wrapping_add(at), bytes))
            },
        }
    }
}

impl Memory {
    #[inline]
    pub(crate) fn new<D: Device>(memory: FallibleArc<Allocation<D>>) -> Self {
        Memory { raw: memory.into_raw(), table: const { &AllocationFns::of::<D>() } }
    }

    /// Whether the device is a `D`.
    #[inline]
    pub(crate) fn is<D: Device>(&self) -> bool {
        (self.table.device)() == TypeId::of::<D>()
    }

    /// The typed allocation, if the device is a `D`.
    #[inline]
    pub(crate) fn get<D: Device>(&self) -> Option<&Allocation<D>> {
        // SAFETY: invariant 1, for `D`. The borrow of this handle keeps the allocation.
        self.is::<D>().then(|| unsafe { FallibleArc::peek(self.raw) })
    }

    /// The typed handle, if the device is a `D`; this one otherwise.
    #[inline]
    pub(crate) fn downcast<D: Device>(self) -> std::result::Result<FallibleArc<Allocation<D>>, Memory> {
        if !self.is::<D>() {
            return Err(self);
        }
        // SAFETY: invariant 1, for `D`. This handle is forgotten, not dropped.
        Ok(unsafe { FallibleArc::from_raw(ManuallyDrop::new(self).raw) })
    }

    /// Another handle on the same allocation.
    #[inline]
    pub(crate) fn share(&self) -> Self {
        // SAFETY: invariant 1.
        unsafe { (self.table.share)(self.raw) };
        Memory { raw: self.raw, table: self.table }
    }

    pub(crate) fn handles(&self) -> usize {
        // SAFETY: invariant 1, also in the functions below.
        unsafe { (self.table.handles)(self.raw) }
    }
    pub(crate) fn address(&self) -> *mut u8 {
        // SAFETY: as above.
        unsafe { (self.table.address)(self.raw) }
    }
    pub(crate) fn nbytes(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.table.nbytes)(self.raw) }
    }
    /// The number of bytes that a layout may use.
    pub(crate) fn usable_bytes(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.table.room)(self.raw) }
    }
    pub(crate) fn version(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (self.table.version)(self.raw) }
    }
    /// Counts one mutable access.
    pub(crate) fn bump(&self) {
        // SAFETY: as above.
        unsafe { (self.table.bump)(self.raw) }
    }
    /// The device's own handle on the memory, if it is a `B`.
    #[cfg(all(feature = "autograd", feature = "dynamic"))]
    pub(crate) fn block<B: Any>(&self) -> Option<&B> {
        // SAFETY: as above. The borrow of this handle keeps the allocation, of which the block is a part.
        unsafe { (self.table.block)(self.raw).as_ref() }.downcast_ref()
    }
    /// New memory on the same device.
    pub(crate) fn fresh(&self, nbytes: usize, fresh: Init) -> Result<Memory> {
        // SAFETY: as above.
        unsafe { (self.table.fresh)(self.raw, nbytes, fresh) }
    }
    /// New memory of zeros on the same device, with the history and the resize policy of this one.
    pub(crate) fn successor(&self, nbytes: usize) -> Result<Memory> {
        let memory = self.fresh(nbytes, Init::Zeroed)?;
        // SAFETY: as above; both handles have the same table.
        unsafe { (self.table.inherit)(memory.raw, self.raw) };
        Ok(memory)
    }
    /// Copies elements between two layouts on the device.
    ///
    /// # Safety
    /// As [`Device::copy`].
    pub(crate) unsafe fn copy(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above, and the caller's promise.
        unsafe { (self.table.copy)(self.raw, sizes, to, from) }
    }
    /// Copies the bytes from byte `at` on to the host. They must lie inside the memory.
    pub(crate) fn read(&self, at: usize, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        debug_assert!(at.saturating_add(bytes.len()) <= self.nbytes());
        // SAFETY: as above. The bytes lie inside, and writing would need the only handle, exclusively
        // borrowed.
        unsafe { (self.table.read)(self.raw, at, bytes) }
    }
    /// The device's `Debug` output.
    pub(crate) fn device(&self) -> String {
        // SAFETY: as above.
        unsafe { (self.table.describe)(self.raw) }
    }
    /// The type of the device.
    pub(crate) fn device_type(&self) -> &'static str {
        (self.table.name)()
    }
    /// Whether both are handles on the same memory.
    pub(crate) fn is_same(&self, other: &Memory) -> bool {
        self.raw == other.raw
    }
}

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: invariant 1. The handle is not used afterwards.
        unsafe { (self.table.release)(self.raw) };
    }
}
