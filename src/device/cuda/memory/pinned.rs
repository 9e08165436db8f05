//! Page-locked memory of the host, which GPUs copy without the processor.
// Imports: `error`.

use crate::device::cuda::stream::queue::Stream;
use crate::error::{Error, Result};
use cudarc::driver::result;
use cudarc::driver::sys;

/// Allocates `nbytes` bytes of page-locked host memory; `nbytes` is not 0.
///
/// # Errors
/// [`Error::OutOfMemory`]; the report of the driver.
pub(in crate::device::cuda) fn allocate(stream: &Stream, nbytes: usize) -> Result<*mut u8> {
    // SAFETY: the call only allocates memory.
    let allocated =
        unsafe { stream.with("pinned", |_| result::malloc_host(nbytes, sys::CU_MEMHOSTALLOC_PORTABLE)) };
    allocated.map(|address| address.cast()).map_err(|error| match error {
        Error::OutOfMemory { op, .. } => Error::OutOfMemory { op, nbytes },
        other => other,
    })
}

/// Gives back the memory of [`allocate`]. In a forked process it does nothing.
///
/// # Safety
/// 1. The memory is not used any more.   2. It is given back once.
pub(in crate::device::cuda) unsafe fn free(stream: &Stream, address: *mut u8) {
    if stream.gpu.context.is_forked() {
        return;
    }
    // SAFETY: (1) and (2) are the caller's promises.
    if let Err(error) = unsafe { stream.with("pinned", |_| result::free_host(address.cast())) } {
        stream.gpu.context.defer(error);
    }
}
