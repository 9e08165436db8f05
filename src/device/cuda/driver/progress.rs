//! Which operation of a stream has begun: each kernel writes the number of its operation to a word of host
//! memory.
//!
//! The driver reports a fault of a kernel at some later call, and does not name the kernel. The word names
//! it.
// Imports: nothing.

use crate::device::cuda::driver::op_names;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of one stream. It stays for the rest of the process.
pub(in crate::device::cuda) struct StreamProgress {
    /// A word in page-locked host memory, to which kernels write the number of the operation that has begun.
    begun: *mut i64,
    /// The number of kernels that were queued.
    queued: AtomicU64,
    /// The number of these that are known to be complete.
    completed: AtomicU64,
}
// SAFETY: `begun` is one word, which only kernels write, as a whole.
unsafe impl Send for StreamProgress {}
// SAFETY: as above.
unsafe impl Sync for StreamProgress {}

impl StreamProgress {
    /// The progress of a stream whose kernels write to `begun`.
    ///
    /// # Safety
    /// `begun` is an aligned word of host memory that the GPU can write. It stays for the rest of the
    /// process, and the host does not write it.
    pub(in crate::device::cuda) unsafe fn new(begun: *mut i64) -> StreamProgress {
        StreamProgress { begun, queued: AtomicU64::new(0), completed: AtomicU64::new(0) }
    }

    /// The address of the word, which is the same on the host and on the GPU.
    pub(in crate::device::cuda) fn address(&self) -> usize {
        self.begun.addr()
    }

    /// Counts a kernel that is about to be queued.
    pub(in crate::device::cuda) fn queue(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of kernels queued until now.
    pub(in crate::device::cuda) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Acquire)
    }

    /// Records that the first `count` kernels are complete.
    pub(in crate::device::cuda) fn complete(&self, count: u64) {
        self.completed.fetch_max(count, Ordering::AcqRel);
    }

    /// The operation whose kernel began last, unless all kernels are known to be complete.
    pub(in crate::device::cuda) fn last_begun(&self) -> Option<String> {
        if self.completed.load(Ordering::Acquire) == self.queued() {
            return None;
        }
        // SAFETY: promised to `new`: an aligned word that stays for the rest of the process.
        op_names::name(unsafe { self.begun.read_volatile() })
    }
}
