//! A user's device that counts its memory, and refuses the allocation that a test chooses.

use rankform::device::{Deleter, HostAddressable, Init};
use rankform::{prelude::*, reference_engine};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Clones are one device; `default` makes another one.
#[derive(Clone, Default)]
pub struct Counted(Arc<Numbers>);

#[derive(Default)]
struct Numbers {
    bytes: AtomicUsize,
    blocks: AtomicUsize,
    peak: AtomicUsize,
    /// Allocations until one is refused; 0: none is.
    left: AtomicUsize,
    /// Bytes of a task; 0: the device prefers large kernels.
    task_nbytes: usize,
    /// The number of tasks that ran.
    tasks: AtomicUsize,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counted({:p})", Arc::as_ptr(&self.0))
    }
}

impl Counted {
    /// A device that runs its work in tasks of about this many bytes.
    pub fn with_tasks(nbytes: usize) -> Self {
        Counted(Arc::new(Numbers { task_nbytes: nbytes, ..Numbers::default() }))
    }
    /// The number of tasks since the last call.
    pub fn take_tasks(&self) -> usize {
        self.0.tasks.swap(0, SeqCst)
    }
    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(SeqCst)
    }
    /// Blocks in use.
    pub fn blocks(&self) -> usize {
        self.0.blocks.load(SeqCst)
    }
    /// The most bytes in use since the last call.
    pub fn take_peak(&self) -> usize {
        self.0.peak.swap(self.bytes(), SeqCst)
    }
    /// Allocation number `n` from now, counted from 1, is refused; 0 ends it.
    pub fn refuse(&self, n: usize) {
        self.0.left.store(n, SeqCst);
    }
    /// Whether no allocation was refused since [`refuse`](Counted::refuse).
    pub fn is_armed(&self) -> bool {
        self.0.left.load(SeqCst) > 0
    }
}

/// Freed when it is dropped.
pub struct Block {
    address: *mut u8,
    nbytes: usize,
    device: Counted,
    free: Option<Deleter>,
}

// SAFETY: the block owns its bytes, and gives their address only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn layout(nbytes: usize) -> Layout {
    Layout::from_size_align(nbytes.max(1), 64).expect("tests are small")
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.free.take() {
            Some(free) => free(self.address, self.nbytes),
            None => {
                self.device.0.bytes.fetch_sub(self.nbytes, SeqCst);
                self.device.0.blocks.fetch_sub(1, SeqCst);
                // SAFETY: from `allocate`, with this layout.
                unsafe { dealloc(self.address, layout(self.nbytes)) };
            }
        }
    }
}

// SAFETY: (1) to (3): addresses of the device are addresses of the host.
unsafe impl HostAddressable for Counted {
    fn host(&self, address: *mut u8) -> *mut u8 {
        address
    }
}

// SAFETY: (1) `Block` owns its bytes and aligns them to 64; (2) the engine visits exactly the indices inside
// the sizes; (3) every call returns when its work is done; (4) each task runs once, up to the first error.
unsafe impl Device for Counted {
    type Block = Block;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Block> {
        let left = self.0.left.load(SeqCst);
        self.0.left.store(left.saturating_sub(1), SeqCst);
        if left == 1 {
            return Err(Error::OutOfMemory { op: "allocate", nbytes });
        }
        // SAFETY: the layout is never empty.
        let address = unsafe { alloc_zeroed(layout(nbytes)) };
        if fresh == Init::Unspecified {
            // SAFETY: just allocated. The pattern reveals an element that no kernel wrote.
            unsafe { address.write_bytes(0xA5, nbytes) };
        }
        self.0.blocks.fetch_add(1, SeqCst);
        let bytes = self.0.bytes.fetch_add(nbytes, SeqCst) + nbytes;
        self.0.peak.fetch_max(bytes, SeqCst);
        Ok(Block { address, nbytes, device: self.clone(), free: None })
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Block> {
        Ok(Block { address, nbytes, device: self.clone(), free: Some(free) })
    }

    fn address(block: &Block) -> *mut u8 {
        block.address
    }

    fn task_nbytes(&self) -> Option<usize> {
        Some(self.0.task_nbytes).filter(|nbytes| *nbytes > 0)
    }

    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        (0..count).try_for_each(|number| {
            self.0.tasks.fetch_add(1, SeqCst);
            task(number)
        })
    }

    reference_engine!();
}
