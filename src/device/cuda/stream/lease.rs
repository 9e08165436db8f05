//! Leases of streams: a stream stays for the rest of the process, and is leased to one owner at a time.
// Imports: `error`.

use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::stream::ordering;
use crate::device::cuda::stream::queue::{Gpu, Stream};
use crate::error::Result;
use std::sync::Arc;

/// The exclusive right to a stream, which is idle again after the drop.
pub(in crate::device::cuda) struct StreamLease(Arc<Stream>);

impl StreamLease {
    /// Leases an idle stream, or a new one, which begins after all work that the main stream has queued.
    pub(in crate::device::cuda) fn checkout(gpu: &'static Gpu) -> Result<StreamLease> {
        gpu.start_tracking();
        let idle = locked(&gpu.idle).pop();
        if let Some(idle) = idle {
            return Ok(StreamLease(idle));
        }
        let new = Stream::new(gpu)?;
        ordering::wait_for(&new, (0, u64::MAX))?;
        Ok(StreamLease(new))
    }

    pub(in crate::device::cuda) fn stream(&self) -> &Arc<Stream> {
        &self.0
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        if !self.0.gpu.context.is_forked() {
            locked(&self.0.gpu.idle).push(self.0.clone());
        }
    }
}
