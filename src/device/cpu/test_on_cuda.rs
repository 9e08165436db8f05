//! A test double of the CPU: its memory is the host's, and its kernels run on a GPU that shares it (`--cfg
//! rankform_through_cuda`, for the test suite only).
//!
//! The simulator in `tools/cuda-sim` uses the host's memory, so every test of an operator also tests its CUDA
//! kernel.
// Imports: `error`, `device`.

use super::{Cpu, CpuBlock};
use crate::device::{Cuda, Deleter, Device, Init};
use crate::error::Result;
use std::cell::OnceCell;
use std::mem::MaybeUninit;

thread_local! {
    /// The stream of this thread, whose deferred errors no other thread takes.
    static STREAM: OnceCell<Cuda> = const { OnceCell::new() };
}

/// A stream of the first GPU for the work of this thread.
fn stream() -> Result<Cuda> {
    let known = STREAM.with(|stream| stream.get().cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let new = Cuda::new(0)?.stream()?;
    Ok(STREAM.with(|stream| stream.get_or_init(|| new).clone()))
}

/// Evaluates a call on the first GPU, waits for it, and returns its deferred error.
macro_rules! on_gpu {
    ($own:expr, |$gpu:ident| $call:expr) => {{
        let $gpu = stream()?;
        $call?;
        $gpu.synchronize()
    }};
}

// SAFETY: (1) the memory is that of the CPU device; (2) the GPU's implementation keeps the promise; (3) every
// call waits for its work.
unsafe impl Device for Cpu {
    type Block = CpuBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<CpuBlock> {
        CpuBlock::new(nbytes, fresh)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CpuBlock> {
        Ok(CpuBlock::external(address, nbytes, free))
    }

    fn address(block: &CpuBlock) -> *mut u8 {
        block.address()
    }

    fn is_host(&self) -> bool {
        true
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller promises room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: the caller promises as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(())
    }

    crate::delegate_device! { on_gpu: copy map reduce contract scan gather scatter compact sort }
}
