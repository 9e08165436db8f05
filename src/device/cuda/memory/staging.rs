//! Staging buffers: page-locked memory through which large copies of pageable host memory go. The GPU copies
//! one buffer while the host fills or empties another.
// Imports: nothing.

use cudarc::driver::sys;

/// Bytes of a buffer.
pub(super) const BUFFER_BYTES: usize = 4 << 20;
pub(super) const BUFFERS: usize = 4;

/// The staging buffers of a GPU. They stay for the rest of the process.
pub(in crate::device::cuda) struct Staging {
    buffers: [StagingBuffer; BUFFERS],
    next: usize,
}

#[derive(Clone, Copy)]
pub(super) struct StagingBuffer {
    pub(super) address: *mut u8,
    /// After the last copy from or to the buffer.
    pub(super) event: sys::CUevent,
    /// The number of the stream of that copy.
    pub(super) stream: usize,
}
// SAFETY: the addresses and the events belong to the buffers alone, and any thread may use them.
unsafe impl Send for Staging {}

impl Staging {
    pub(super) fn new(buffers: [StagingBuffer; BUFFERS]) -> Staging {
        Staging { buffers, next: 0 }
    }

    pub(super) fn buffers(&self) -> &[StagingBuffer] {
        &self.buffers
    }

    /// The buffer whose last use is the oldest, for a copy of `stream`. It is free after its event.
    pub(super) fn next(&mut self, stream: usize) -> StagingBuffer {
        self.buffers[self.next].stream = stream;
        let buffer = self.buffers[self.next];
        self.next = (self.next + 1) % BUFFERS;
        buffer
    }
}
