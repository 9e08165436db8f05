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
/// Invariant 1: `owner` describes correctly how to free the `nbytes` bytes at `address`.
pub struct CpuBlock {
    address: NonNull<u8>,
    nbytes: usize,
    owner: BlockOwner,
}

// A panic in an operator leaves its output partly written, as a panic in a loop over a `Vec` does. No
// invariant of a block depends on its bytes, and the closure that frees external memory runs once, at the
// end.
impl UnwindSafe for CpuBlock {}
impl RefUnwindSafe for CpuBlock {}

enum BlockOwner {
    /// The block does not free its memory: it is empty, or the memory belongs to another owner.
    NotOwned,
    /// The pool, with the capacity of the block. The flag says whether the bytes are still zero because the
    /// address was never given out.
    Pool(usize, AtomicBool),
    Vec(VecParts),
    /// External memory: the deleter, and the address as it was given, which may be null for 0 bytes.
    External(Deleter, *mut u8),
}

/// The parts of a `Vec` without its address, its element type erased.
struct VecParts {
    len: usize,
    capacity: usize,
    of: &'static VecType,
}

/// The element layout of a `Vec`, and the function that drops it, given address, length and capacity.
struct VecType {
    element: Layout,
    drop: unsafe fn(*mut u8, usize, usize),
}

// SAFETY: the block owns its address exclusively; external deleters are `Send`; a `Vec` is taken over only if
// its elements are `Send`.
unsafe impl Send for CpuBlock {}
// SAFETY: `&CpuBlock` gives access to the address and the size only; the tensor is responsible for accesses
// to the memory.
unsafe impl Sync for CpuBlock {}

impl CpuBlock {
    pub(crate) fn new(nbytes: usize, fresh: Init) -> Result<Self> {
        if nbytes == 0 {
            return Ok(CpuBlock { address: dangling(), nbytes, owner: BlockOwner::NotOwned });
        }
        let Block { address, capacity, zeros } =
            pool::take(nbytes).ok_or(Error::OutOfMemory { op: "allocate", nbytes })?;
        let zeroed = fresh == Init::Zeroed;
        if zeroed && zeros < nbytes {
            // SAFETY: the block has at least `nbytes` bytes, and its address is known only here.
            unsafe { address.write_bytes(0, nbytes) };
        }
        Ok(CpuBlock { address, nbytes, owner: BlockOwner::Pool(capacity, AtomicBool::new(zeroed)) })
    }

    /// Uninitialized scratch memory for one operation. The block is large enough for the pool to keep it, so
    /// a second run of the operation takes no new memory.
    pub(crate) fn scratch(nbytes: usize) -> Result<Self> {
        CpuBlock::new(if nbytes == 0 { 0 } else { nbytes.max(pool::POOLED_BYTES) }, Init::Unspecified)
    }

    /// A block whose host memory is freed by another owner, after the block is dropped. It counts as new
    /// memory.
    ///
    /// # Safety
    /// The block has exclusive use of `nbytes` bytes at `address` until it is dropped.
    #[inline]
    pub(crate) unsafe fn inline_block(address: NonNull<u8>, nbytes: usize) -> Self {
        if nbytes > 0 {
            pool::count_fresh();
        }
        CpuBlock { address, nbytes, owner: BlockOwner::NotOwned }
    }

    pub(crate) fn external(address: *mut u8, nbytes: usize, free: Deleter) -> Self {
        CpuBlock {
            address: NonNull::new(address).unwrap_or_else(dangling),
            nbytes,
            owner: BlockOwner::External(free, address),
        }
    }

    #[inline]
    pub(crate) fn from_vec<T: Send + Sync + 'static>(values: Vec<T>) -> Self {
        /// # Safety
        /// The arguments are the parts of a `Vec<T>`, which is not used afterwards.
        unsafe fn drop_vec<T>(address: *mut u8, len: usize, capacity: usize) {
            // SAFETY: this is called once, with the parts of the `Vec<T>` below.
            drop(unsafe { Vec::<T>::from_raw_parts(address.cast(), len, capacity) });
        }
        struct BytesOf<T>(T);
        impl<T> BytesOf<T> {
            const TYPE: &VecType = &VecType { element: Layout::new::<T>(), drop: drop_vec::<T> };
        }
        let mut values = std::mem::ManuallyDrop::new(values);
        let (len, capacity) = (values.len(), values.capacity());
        let address = NonNull::new(values.as_mut_ptr().cast()).unwrap_or_else(dangling);
        CpuBlock {
            address,
            nbytes: len * size_of::<T>(),
            owner: BlockOwner::Vec(VecParts { len, capacity, of: BytesOf::<T>::TYPE }),
        }
    }

    /// Address, length and capacity of the `Vec` that this block was taken over from, if its elements had
    /// this size and alignment. The block is empty afterwards.
    #[inline]
    pub(crate) fn take_vec(&mut self, element: Layout) -> Option<(NonNull<u8>, usize, usize)> {
        let BlockOwner::Vec(VecParts { len, capacity, of }) = self.owner else { return None };
        if of.element != element {
            return None;
        }
        self.owner = BlockOwner::NotOwned;
        self.nbytes = 0;
        Some((std::mem::replace(&mut self.address, dangling()), len, capacity))
    }

    /// The start of the block. Its users may write at this address until the block is dropped.
    #[inline]
    pub(crate) fn address(&self) -> *mut u8 {
        if let BlockOwner::Pool(_, zero) = &self.owner
            && zero.load(Ordering::Relaxed)
        {
            zero.store(false, Ordering::Relaxed);
        }
        self.address.as_ptr()
    }
}

/// An aligned address without memory.
fn dangling() -> NonNull<u8> {
    NonNull::<Aligned>::dangling().cast()
}
#[repr(align(64))]
struct Aligned;

impl Drop for CpuBlock {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.owner, BlockOwner::NotOwned) {
            self.give_back();
        }
    }
}

impl CpuBlock {
    #[inline(never)]
    fn give_back(&mut self) {
        match std::mem::replace(&mut self.owner, BlockOwner::NotOwned) {
            BlockOwner::NotOwned => {}
            // SAFETY: invariant 1: the block came from the pool, and this is its last use.
            BlockOwner::Pool(capacity, zero) => unsafe {
                let zeros = if zero.into_inner() { self.nbytes } else { 0 };
                pool::give(Block { address: self.address, capacity, zeros })
            },
            // SAFETY: invariant 1: these are the parts of a `Vec` of the type that `drop` was made for.
            BlockOwner::Vec(parts) => unsafe {
                (parts.of.drop)(self.address.as_ptr(), parts.len, parts.capacity)
            },
            BlockOwner::External(free, address) => free(address, self.nbytes),
        }
    }
}
