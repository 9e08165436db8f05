//! Copies of bytes: between the host and a GPU, within a GPU, and between two GPUs.
// Imports: `error`.

use crate::device::cuda::driver::thread_state::is_compile_only;
use crate::device::cuda::memory::pinned;
use crate::device::cuda::memory::staging::{BUFFER_BYTES, BUFFERS, Staging, StagingBuffer};
use crate::device::cuda::stream::ordering::wait_for_all;
use crate::device::cuda::stream::queue::Stream;
use crate::error::Result;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Copies of fewer bytes between the host and a GPU do not go through the staging buffers.
const MIN_STAGED_BYTES: usize = 1 << 20;

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

    /// Takes a deferred error of the copy's stream.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn check(&self) -> Result<()> {
        self.stream.check()
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

/// Copies bytes from the host, which are read when it returns.
///
/// # Safety
/// As [`Device::write`](crate::device::Device::write).
pub(in crate::device::cuda) unsafe fn write(stream: &Stream, to: *mut u8, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() || is_compile_only() {
        return Ok(());
    }
    stream.ensure_not_capturing("write")?;
    let staged = staged(stream, bytes.len(), |staging| {
        // SAFETY: the caller's promise.
        unsafe { write_staged(stream, staging, to, bytes) }
    });
    if let Some(staged) = staged {
        return staged;
    }
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
    let staged = staged(stream, bytes.len(), |staging| {
        // SAFETY: the caller's promise.
        unsafe { read_staged(stream, staging, from, bytes) }
    });
    if let Some(staged) = staged {
        return staged;
    }
    // SAFETY: the caller's promise; the copy is waited for before the bytes are used.
    unsafe {
        stream.gpu.context.or_lost(stream.with("read", |stream| {
            result::memcpy_dtoh_async(bytes, from.addr() as u64, stream)?;
            result::stream::synchronize(stream)
        }))
    }
}

/// Runs a copy through the staging buffers of the GPU. `None` if the copy is small, if another thread uses
/// the buffers or copies of another stream wait in them, or if there is no memory for them.
fn staged(
    stream: &Stream,
    nbytes: usize,
    copy: impl FnOnce(&mut Staging) -> Result<()>,
) -> Option<Result<()>> {
    if nbytes < MIN_STAGED_BYTES {
        return None;
    }
    let mut staging = stream.gpu.staging.try_lock().ok()?;
    if staging.is_none() {
        *staging = Some(allocate_staging(stream).ok()?);
    }
    let staging = staging.as_mut()?;
    let is_free = |buffer: &StagingBuffer| {
        // SAFETY: the event is never destroyed.
        let asked = || unsafe { stream.with("copy", |_| result::event::query(buffer.event)) };
        buffer.stream == stream.id || asked().is_ok()
    };
    staging.buffers().iter().all(is_free).then(|| {
        copy(staging).inspect_err(|_| {
            // Copies whose events were not recorded end before the buffers are used again.
            let _ = stream.synchronize();
        })
    })
}

fn allocate_staging(stream: &Stream) -> Result<Staging> {
    let start = pinned::allocate(stream, BUFFERS * BUFFER_BYTES)?;
    let none = StagingBuffer { address: start, event: std::ptr::null_mut(), stream: stream.id };
    let mut buffers = [none; BUFFERS];
    for i in 0..BUFFERS {
        // SAFETY: the call makes an event, which the buffer owns.
        let event = unsafe {
            stream.with("pinned", |_| result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))
        };
        match event {
            Ok(event) => {
                buffers[i] = StagingBuffer { address: start.wrapping_add(i * BUFFER_BYTES), event, ..none }
            }
            Err(error) => {
                // SAFETY: nothing uses the memory and the events that were made.
                unsafe {
                    for made in &buffers[..i] {
                        let _ = stream.with("pinned", |_| result::event::destroy(made.event));
                    }
                    pinned::free(stream, start);
                }
                return Err(error);
            }
        }
    }
    Ok(Staging::new(buffers))
}

/// Waits for the last copy from or to a staging buffer.
fn wait_for_staging(stream: &Stream, op: &'static str, buffer: StagingBuffer) -> Result<()> {
    // SAFETY: the event is never destroyed.
    stream.gpu.context.or_lost(unsafe { stream.with(op, |_| result::event::synchronize(buffer.event)) })
}

/// Copies bytes from the host through the staging buffers. When it returns, the bytes are read, and the GPU
/// may still copy the last buffers.
///
/// # Safety
/// As [`write`].
unsafe fn write_staged(stream: &Stream, staging: &mut Staging, to: *mut u8, bytes: &[u8]) -> Result<()> {
    for (i, chunk) in bytes.chunks(BUFFER_BYTES).enumerate() {
        let buffer = staging.next(stream.id);
        wait_for_staging(stream, "write", buffer)?;
        let to = to.addr() as u64 + (i * BUFFER_BYTES) as u64;
        // SAFETY: a chunk fits a buffer, which no copy uses now; the caller promises room at `to`. The buffer
        // is used again after the event only.
        unsafe {
            buffer.address.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len());
            stream.gpu.context.or_lost(stream.with("write", |raw| {
                sys::cuMemcpyHtoDAsync_v2(to, buffer.address.cast(), chunk.len(), raw).result()?;
                result::event::record(buffer.event, raw)
            }))?;
        }
    }
    Ok(())
}

/// Copies bytes to the host through the staging buffers, and waits for them.
///
/// # Safety
/// As [`read`].
unsafe fn read_staged(
    stream: &Stream,
    staging: &mut Staging,
    from: *const u8,
    bytes: &mut [MaybeUninit<u8>],
) -> Result<()> {
    let nbytes = bytes.len();
    let mut queued = 0;
    // The buffers with chunks that have not been copied out yet, the oldest first.
    let mut waiting = VecDeque::with_capacity(BUFFERS);
    for chunk in bytes.chunks_mut(BUFFER_BYTES) {
        while queued < nbytes && waiting.len() < BUFFERS {
            let (buffer, count) = (staging.next(stream.id), BUFFER_BYTES.min(nbytes - queued));
            wait_for_staging(stream, "read", buffer)?;
            let from = from.addr() as u64 + queued as u64;
            // SAFETY: the caller promises the bytes; the chunk fits the buffer, which no copy uses now.
            unsafe {
                stream.gpu.context.or_lost(stream.with("read", |raw| {
                    sys::cuMemcpyDtoHAsync_v2(buffer.address.cast(), from, count, raw).result()?;
                    result::event::record(buffer.event, raw)
                }))?;
            }
            waiting.push_back(buffer);
            queued += count;
        }
        if let Some(buffer) = waiting.pop_front() {
            wait_for_staging(stream, "read", buffer)?;
            // SAFETY: the buffer holds the bytes of this chunk, whose copy is complete.
            unsafe {
                chunk.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(buffer.address, chunk.len());
            }
        }
    }
    Ok(())
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
