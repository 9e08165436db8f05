//! Copies of bytes: between the host and a GPU, within a GPU, and between two GPUs.
// Imports: `error`.

use crate::device::cuda::driver::thread_state::is_compile_only;
use crate::device::cuda::stream::ordering::wait_for_all;
use crate::device::cuda::stream::queue::Stream;
use crate::error::Result;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A copy between host and GPU that was queued, with an event after it.
pub(crate) struct QueuedCopy {
    stream: Arc<Stream>,
    event: sys::CUevent,
}
// SAFETY: a number that the driver gave; any thread may use it.
unsafe impl Send for QueuedCopy {}
// SAFETY: as above.
unsafe impl Sync for QueuedCopy {}

impl QueuedCopy {
    /// Queues `copy`, then an event after it.
    fn queue(
        stream: &Arc<Stream>,
        op: &'static str,
        copy: impl FnOnce(sys::CUstream) -> Result<(), DriverError>,
    ) -> Result<QueuedCopy> {
        // SAFETY: the call makes an event, which the result owns.
        let event = unsafe {
            stream.with(op, |_| result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))
        }?;
        let queued = QueuedCopy { stream: stream.clone(), event };
        // SAFETY: the closures of this file promise their copies.
        unsafe { stream.with(op, copy) }?;
        // SAFETY: the event lives as long as `queued`.
        if let Err(error) = unsafe { stream.with(op, |raw| result::event::record(event, raw)) } {
            // The copy must not outlive the memory that it reads and writes.
            stream.synchronize()?;
            return Err(error);
        }
        Ok(queued)
    }

    /// Waits for the copy.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn wait(&self) -> Result<()> {
        let context = &self.stream.gpu.context;
        // SAFETY: the event lives as long as `self`.
        context.or_lost(unsafe { context.with("copy", || result::event::synchronize(self.event)) })
    }

    /// Whether the copy is complete.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn is_done(&self) -> Result<bool> {
        let context = &self.stream.gpu.context;
        // SAFETY: as above.
        let asked = unsafe {
            context.with("copy", || match result::event::query(self.event) {
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                done => done.map(|()| true),
            })
        };
        context.or_lost(asked)
    }
}

impl Drop for QueuedCopy {
    fn drop(&mut self) {
        let context = &self.stream.gpu.context;
        // SAFETY: `queue` made the event, and it is destroyed once.
        if let Err(error) = unsafe { context.with("copy", || result::event::destroy(self.event)) } {
            context.defer(error);
        }
    }
}

/// Copies bytes from the host, and waits for the copy.
///
/// # Safety
/// As [`Device::write`](crate::device::Device::write).
pub(in crate::device::cuda) unsafe fn write(stream: &Stream, to: *mut u8, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() || is_compile_only() {
        return Ok(());
    }
    stream.ensure_not_capturing("write")?;
    // SAFETY: the caller's promise. The GPU may read page-locked bytes after the call returns, so the copy is
    // waited for.
    unsafe {
        stream.gpu.context.or_lost(stream.with("write", |stream| {
            result::memcpy_htod_async(to.addr() as u64, bytes, stream)?;
            result::stream::synchronize(stream)
        }))
    }
}

/// Copies bytes to the host, and waits for the copy. In compile-only mode the bytes are zeros.
///
/// # Safety
/// As [`Device::read`](crate::device::Device::read).
pub(in crate::device::cuda) unsafe fn read(
    stream: &Stream,
    from: *const u8,
    bytes: &mut [MaybeUninit<u8>],
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if is_compile_only() {
        bytes.fill(MaybeUninit::new(0));
        return Ok(());
    }
    stream.ensure_not_capturing("read")?;
    // SAFETY: the caller's promise; the copy is waited for before the bytes are used.
    unsafe {
        stream.gpu.context.or_lost(stream.with("read", |stream| {
            result::memcpy_dtoh_async(bytes, from.addr() as u64, stream)?;
            result::stream::synchronize(stream)
        }))
    }
}

/// Queues a copy from page-locked host memory.
///
/// # Safety
/// 1. As [`Device::write`](crate::device::Device::write).
/// 2. The bytes do not change until the copy is complete.
pub(in crate::device::cuda) unsafe fn queue_write(
    stream: &Arc<Stream>,
    to: *mut u8,
    from: *const u8,
    nbytes: usize,
) -> Result<QueuedCopy> {
    stream.ensure_not_capturing("upload")?;
    QueuedCopy::queue(stream, "upload", |stream| match nbytes {
        0 => Ok(()),
        // SAFETY: (1) and (2) are the caller's promises.
        _ => unsafe { sys::cuMemcpyHtoDAsync_v2(to.addr() as u64, from.cast(), nbytes, stream).result() },
    })
}

/// Queues a copy to page-locked host memory.
///
/// # Safety
/// 1. As [`Device::read`](crate::device::Device::read).
/// 2. The bytes at `to` are not used until the copy is complete.
pub(in crate::device::cuda) unsafe fn queue_read(
    stream: &Arc<Stream>,
    from: *const u8,
    to: *mut u8,
    nbytes: usize,
) -> Result<QueuedCopy> {
    stream.ensure_not_capturing("download")?;
    QueuedCopy::queue(stream, "download", |stream| match nbytes {
        0 => Ok(()),
        // SAFETY: (1) and (2) are the caller's promises.
        _ => unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from.addr() as u64, nbytes, stream).result() },
    })
}

/// Queues a copy of bytes within the GPU.
///
/// # Safety
/// 1. Both addresses have `nbytes` bytes.   2. They do not overlap.
pub(in crate::device::cuda) unsafe fn copy_within(
    stream: &Stream,
    to: *mut u8,
    from: *const u8,
    nbytes: usize,
) -> Result<()> {
    if nbytes == 0 || is_compile_only() {
        return Ok(());
    }
    // SAFETY: (1) and (2) are the caller's promises.
    unsafe {
        stream.with("to", |stream| {
            result::memcpy_dtod_async(to.addr() as u64, from.addr() as u64, nbytes, stream)
        })
    }
}

/// Queues a copy of bytes from another GPU, after all work that `from` has queued. `from` then waits for the
/// copy.
///
/// # Safety
/// Both addresses have `nbytes` bytes: `to` on the GPU of `stream`, `address` on the GPU of `from`.
pub(in crate::device::cuda) unsafe fn copy_across(
    stream: &Stream,
    to: *mut u8,
    from: &Stream,
    address: *const u8,
    nbytes: usize,
) -> Result<()> {
    if nbytes == 0 || is_compile_only() {
        return Ok(());
    }
    stream.ensure_not_capturing("to")?;
    from.ensure_not_capturing("to")?;
    let (own, other) = (&stream.gpu.context, &from.gpu.context);
    // Without direct access the driver copies through the host, which is correct but slower.
    own.enable_peer_access(other);
    wait_for_all(stream, from)?;
    let (own, other) = (own.raw(), other.raw());
    // SAFETY: the caller's promise.
    unsafe {
        stream.with("to", |stream| {
            result::memcpy_peer_async(own, to.addr() as u64, other, address.addr() as u64, nbytes, stream)
        })
    }?;
    wait_for_all(from, stream)
}
