//! Blocks of host memory: owned and aligned, taken over from a `Vec`, or external with a deleter.
// Imports: `error`, `device`.

use super::pool::{self, Block};
use crate::device::{Deleter, Init};
use crate::error::{Error, Result};
use std::alloc::Layout;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block of host memory.
///
/// Invariant 1: `owner` says truly how the `nbytes` bytes at `address` are given back.
pub struct CpuBlock {
    address: NonNull<u8>,
    nbytes: usize,
    owner: Owner,
}

// A panic in an operator leaves its output partly written, as one in a loop over a `Vec` does; no invariant of a block depends on what it
// holds, and the closure that frees foreign memory runs once, at the end.
impl UnwindSafe for CpuBlock {}
impl RefUnwindSafe for CpuBlock {}

enum Owner {
    /// NotOwned: the block is empty, or who gave it frees it.
    NotOwned,
    /// The pool, which gave a block of this capacity; and whether its bytes are zero still, since nobody was told the address.
    Pool(usize, AtomicBool),
    Vec(VecParts),
    /// Whoever gave it: the deleter, and the address as given, which may be null when there are no bytes.
    External(Deleter, *mut u8),
}

/// A `Vec` taken apart, but for its address, its element type erased.
struct VecParts {
    len: usize,
    capacity: usize,
    of: &'static VecType,
}

/// The elements of a `Vec`, and how it is dropped, from its address, length and capacity.
struct VecType {
    element: Layout,
    drop: unsafe fn(*mut u8, usize, usize),
}

// SAFETY: the address is owned, not shared; external deleters are `Send`; a `Vec` is taken over only if its elements are.
unsafe impl Send for CpuBlock {}
// SAFETY: `&CpuBlock` gives the address and the size only; what is done with them is the tensor's affair.
unsafe impl Sync for CpuBlock {}

impl CpuBlock {
    pub(crate) fn new(nbytes: usize, fresh: Init) -> Result<Self> {
        if nbytes == 0 {
            return Ok(CpuBlock { address: dangling(), nbytes, owner: Owner::NotOwned });
        }
        let Block { address, capacity, zeros } =
            pool::take(nbytes).ok_or(Error::OutOfMemory { op: "allocate", nbytes })?;
        let zeroed = fresh == Init::Zeroed;
        if zeroed && zeros < nbytes {
            // SAFETY: the block has at least `nbytes` bytes and nobody else knows it.
            unsafe { address.write_bytes(0, nbytes) };
        }
        Ok(CpuBlock { address, nbytes, owner: Owner::Pool(capacity, AtomicBool::new(zeroed)) })
    }

    /// Room for what an operation needs meanwhile, which nobody has written: large enough to be kept, so that the same
    /// operation takes no new memory the next time.
    pub(crate) fn scratch(nbytes: usize) -> Result<Self> {
        CpuBlock::new(if nbytes == 0 { 0 } else { nbytes.max(pool::POOLED_BYTES) }, Init::Unspecified)
    }

    /// A block in memory of the host that somebody else frees, after this is dropped; it counts as new memory.
    ///
    /// # Safety
    /// `nbytes` bytes at `address` are this block's alone until then.
    #[inline]
    pub(crate) unsafe fn inline_block(address: NonNull<u8>, nbytes: usize) -> Self {
        if nbytes > 0 {
            pool::count_fresh();
        }
        CpuBlock { address, nbytes, owner: Owner::NotOwned }
    }

    pub(crate) fn external(address: *mut u8, nbytes: usize, free: Deleter) -> Self {
        CpuBlock {
            address: NonNull::new(address).unwrap_or_else(dangling),
            nbytes,
            owner: Owner::External(free, address),
        }
    }

    #[inline]
    pub(crate) fn from_vec<T: Send + Sync + 'static>(values: Vec<T>) -> Self {
        unsafe fn drop_vec<T>(address: *mut u8, len: usize, capacity: usize) {
            // SAFETY: called once, with the parts of the `Vec<T>` below.
            drop(unsafe { Vec::<T>::from_raw_parts(address.cast(), len, capacity) });
        }
        struct Of<T>(T);
        impl<T> Of<T> {
            const TYPE: &VecType = &VecType { element: Layout::new::<T>(), drop: drop_vec::<T> };
        }
        let mut values = std::mem::ManuallyDrop::new(values);
        let (len, capacity) = (values.len(), values.capacity());
        let address = NonNull::new(values.as_mut_ptr().cast()).unwrap_or_else(dangling);
        CpuBlock {
            address,
            nbytes: len * size_of::<T>(),
            owner: Owner::Vec(VecParts { len, capacity, of: Of::<T>::TYPE }),
        }
    }

    /// Address, length and capacity of the `Vec` that this block was taken over from, if its elements had this size and
    /// alignment; the block is then empty.
    #[inline]
    pub(crate) fn take_vec(&mut self, element: Layout) -> Option<(NonNull<u8>, usize, usize)> {
        let Owner::Vec(VecParts { len, capacity, of }) = self.owner else { return None };
        if of.element != element {
            return None;
        }
        self.owner = Owner::NotOwned;
        self.nbytes = 0;
        Some((std::mem::replace(&mut self.address, dangling()), len, capacity))
    }

    /// Where it starts; who is told may write there, until the block is dropped.
    #[inline]
    pub(crate) fn address(&self) -> *mut u8 {
        if let Owner::Pool(_, zero) = &self.owner
            && zero.load(Ordering::Relaxed)
        {
            zero.store(false, Ordering::Relaxed);
        }
        self.address.as_ptr()
    }
}

/// An aligned address of nothing.
fn dangling() -> NonNull<u8> {
    NonNull::<Aligned>::dangling().cast()
}
#[repr(align(64))]
struct Aligned;

impl Drop for CpuBlock {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.owner, Owner::NotOwned) {
            self.give_back();
        }
    }
}

impl CpuBlock {
    #[inline(never)]
    fn give_back(&mut self) {
        match std::mem::replace(&mut self.owner, Owner::NotOwned) {
            Owner::NotOwned => {}
            // SAFETY: invariant 1: the pool gave it, and nobody else has it.
            Owner::Pool(capacity, zero) => unsafe {
                let zeros = if zero.into_inner() { self.nbytes } else { 0 };
                pool::give(Block { address: self.address, capacity, zeros })
            },
            // SAFETY: invariant 1: these are the parts of a `Vec` of the type that `drop` was made for.
            Owner::Vec(parts) => unsafe { (parts.of.drop)(self.address.as_ptr(), parts.len, parts.capacity) },
            Owner::External(free, address) => free(address, self.nbytes),
        }
    }
}
