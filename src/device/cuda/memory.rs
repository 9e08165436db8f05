//! Memory of a graphics card: blocks, and copies to and from the host.
//!
//! Imports: `error`, `device`.

use super::context::Context;
use crate::device::{Deleter, Fresh};
use crate::error::Result;
use cudarc::driver::result;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

/// Memory of a [`Cuda`](crate::Cuda), freed by its `Drop` when the work that uses it is done.
pub struct CudaBlock {
    context: Arc<Context>,
    address: *mut u8,
    nbytes: usize,
    /// Of memory that somebody else owns.
    free: Mutex<Option<Deleter>>,
}
// SAFETY: the block owns its bytes, and gives their address only.
unsafe impl Send for CudaBlock {}
// SAFETY: as above.
unsafe impl Sync for CudaBlock {}

impl CudaBlock {
    pub(super) fn fresh(context: &Arc<Context>, nbytes: usize, fresh: Fresh) -> Result<CudaBlock> {
        let mut block = CudaBlock { context: context.clone(), address: std::ptr::null_mut(), nbytes: 0, free: Mutex::new(None) };
        if nbytes > 0 {
            (block.address, block.nbytes) = (context.allocate(nbytes)?, nbytes);
            if fresh == Fresh::Zeroed {
                let at = block.address.addr() as u64;
                // SAFETY: the bytes that were just allocated.
                unsafe { context.with("zero", |stream| result::memset_d8_async(at, 0, nbytes, stream)) }?;
            }
        }
        Ok(block)
    }

    /// # Safety
    /// As [`Device::adopt`](crate::device::Device::adopt).
    pub(super) unsafe fn adopt(context: &Arc<Context>, address: *mut u8, nbytes: usize, free: Deleter) -> CudaBlock {
        CudaBlock { context: context.clone(), address, nbytes, free: Mutex::new(Some(free)) }
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        match super::context::locked(&self.free).take() {
            Some(free) => {
                // Whoever gets the memory back may use it at once.
                if let Err(error) = self.context.synchronize() {
                    self.context.remember(error);
                }
                free(self.address, self.nbytes);
            }
            None if self.nbytes > 0 => self.context.free(self.address, self.nbytes),
            None => {}
        }
    }
}

impl Context {
    /// # Safety
    /// As [`Device::write`](crate::device::Device::write).
    pub(super) unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise. Bytes of memory that a card can read by itself are read later: they are waited for.
        unsafe {
            self.with("write", |stream| {
                result::memcpy_htod_async(to.addr() as u64, bytes, stream)?;
                result::stream::synchronize(stream)
            })
        }
    }

    /// # Safety
    /// As [`Device::read`](crate::device::Device::read).
    pub(super) unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise; the stream is waited for before the bytes are looked at.
        unsafe {
            self.with("read", |stream| {
                result::memcpy_dtoh_async(bytes, from.addr() as u64, stream)?;
                result::stream::synchronize(stream)
            })
        }
    }

    /// Room for the length of a few kernels, given back after them.
    pub(super) fn room(self: &Arc<Self>, nbytes: usize) -> Result<CudaBlock> {
        CudaBlock::fresh(self, nbytes, Fresh::Unspecified)
    }
}
