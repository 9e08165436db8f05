//! Which operation of a stream has begun: each kernel writes the number of its operation to a word of host
//! memory.
//!
//! The driver reports a fault of a kernel at some later call, and does not name the kernel. The word names
//! it. The words after it have the report of an index out of bounds.
// Imports: `error`.

use crate::device::cuda::driver::index_report::{COMPLETE, REPORT_WORDS, error_of};
use crate::device::cuda::driver::op_names;
use crate::error::Error;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The number of words of a stream's page-locked memory.
pub(in crate::device::cuda) const PROGRESS_WORDS: usize = 1 + REPORT_WORDS;

/// The progress of one stream. It stays for the rest of the process.
pub(in crate::device::cuda) struct StreamProgress {
    /// Words in page-locked host memory: the number of the operation that has begun, and the report. Kernels
    /// write them.
    begun: *mut i64,
    /// The number of kernels that were queued.
    queued: AtomicU64,
    /// The number of these that are known to be complete.
    completed: AtomicU64,
}
// SAFETY: kernels write the words, each as a whole. The host writes the state of a complete report only,
// which kernels then leave alone.
unsafe impl Send for StreamProgress {}
// SAFETY: as above.
unsafe impl Sync for StreamProgress {}

impl StreamProgress {
    /// The progress of a stream whose kernels write to `begun`.
    ///
    /// # Safety
    /// `begun` has [`PROGRESS_WORDS`] aligned words of host memory, which are 0 and which the GPU can write.
    /// They stay for the rest of the process, and other code does not write them.
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

    /// Takes the report of an index out of bounds, if there is one. One thread at a time calls it.
    pub(in crate::device::cuda) fn take_report(&self) -> Option<Error> {
        let report = self.begun.wrapping_add(1);
        // SAFETY: promised to `new`: aligned words that stay. Kernels write none of them while the state is
        // that of a complete report.
        unsafe {
            if report.read_volatile() != COMPLETE {
                return None;
            }
            fence(Ordering::Acquire);
            let words = std::array::from_fn(|k| report.wrapping_add(k).read_volatile());
            fence(Ordering::Release);
            report.write_volatile(0);
            Some(error_of(words))
        }
    }
}
