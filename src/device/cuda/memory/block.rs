//! Blocks of a GPU's memory, and their allocation in the order of a stream.
// Imports: `error`, `device`.

use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::thread_state::is_compile_only;
use crate::device::cuda::memory::pool::Others;
use crate::device::cuda::stream::ordering::{is_known_complete, next_position, run_ordered, wait_for};
use crate::device::cuda::stream::queue::{Capture, Gpu, Stream};
use crate::device::{Deleter, Init, OperandRef};
use crate::error::{Error, Result};
use cudarc::driver::result;
use std::sync::{Arc, Mutex};

/// Memory of a [`Cuda`](crate::Cuda). Its drop gives it back; queued work may still use it.
pub struct CudaBlock {
    stream: Arc<Stream>,
    address: *mut u8,
    nbytes: usize,
    /// The deleter of memory that another owner gave.
    free: Mutex<Option<Deleter>>,
}
// SAFETY: the block owns its bytes, and gives out their address only.
unsafe impl Send for CudaBlock {}
// SAFETY: as above.
unsafe impl Sync for CudaBlock {}

impl CudaBlock {
    /// Allocates a block of `nbytes` bytes, which may be 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the report of the driver.
    pub(in crate::device::cuda) fn allocate(
        stream: &Arc<Stream>,
        nbytes: usize,
        init: Init,
    ) -> Result<CudaBlock> {
        let mut block = CudaBlock {
            stream: stream.clone(),
            address: std::ptr::null_mut(),
            nbytes: 0,
            free: Mutex::new(None),
        };
        if nbytes > 0 {
            (block.address, block.nbytes) = (allocate(stream, nbytes)?, nbytes);
            // In compile-only mode no kernel writes the block, but bytes that are read must be valid
            // elements. Debug builds fill reused memory with bytes that are NaN as floats, so that a read
            // before a write shows.
            let zeroed = init == Init::Zeroed || is_compile_only();
            if let Some(byte) = if zeroed { Some(0) } else { cfg!(debug_assertions).then_some(0xff) } {
                let at = block.address.addr() as u64;
                let whole = OperandRef { address: block.address, stride: &[1], element: 1 };
                // SAFETY: the bytes were just allocated.
                run_ordered(stream, "zero", &[whole], &[], || unsafe {
                    stream.with("zero", |raw| result::memset_d8_async(at, byte, nbytes, raw))
                })?;
            }
        }
        Ok(block)
    }

    /// Scratch memory for the duration of a few kernels. It may be dropped as soon as they are queued.
    pub(in crate::device::cuda) fn scratch(stream: &Arc<Stream>, nbytes: usize) -> Result<CudaBlock> {
        CudaBlock::allocate(stream, nbytes, Init::Unspecified)
    }

    /// A block of memory of another owner.
    ///
    /// # Safety
    /// As [`Device::external_block`](crate::device::Device::external_block).
    pub(in crate::device::cuda) unsafe fn external_block(
        stream: &Arc<Stream>,
        address: *mut u8,
        nbytes: usize,
        free: Deleter,
    ) -> CudaBlock {
        // If it is a part of another block, its uses are recorded there.
        let is_new = nbytes > 0 && locked(&stream.gpu.pool).insert_external(address.addr(), nbytes);
        CudaBlock {
            stream: stream.clone(),
            address,
            nbytes: if is_new { nbytes } else { 0 },
            free: Mutex::new(Some(with_nbytes(nbytes, free))),
        }
    }

    pub(in crate::device::cuda) fn address(&self) -> *mut u8 {
        self.address
    }
}

/// The deleter, which is always called with the number of bytes of the external memory.
fn with_nbytes(nbytes: usize, free: Deleter) -> Deleter {
    Box::new(move |address, _| free(address, nbytes))
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        // A forked child has the handle without the GPU. The owner's deleter runs in the parent only.
        if self.stream.gpu.context.is_forked() {
            std::mem::forget(take_in_child(&self.free));
            return;
        }
        match locked(&self.free).take() {
            Some(free) => {
                // The owner may use the memory as soon as the deleter is called.
                if let Err(error) = self.stream.gpu.synchronize() {
                    self.stream.gpu.context.defer(error);
                }
                if self.nbytes > 0 {
                    release(&self.stream, self.address);
                }
                free(self.address, self.nbytes);
            }
            None if self.nbytes > 0 => release(&self.stream, self.address),
            None => {}
        }
    }
}

/// The deleter of a block in a forked process, where only the current thread runs.
fn take_in_child(free: &Mutex<Option<Deleter>>) -> Option<Deleter> {
    free.try_lock().ok().and_then(|mut free| free.take())
}

/// Allocates bytes for use on a stream; `nbytes` is not 0, which the driver refuses.
fn allocate(stream: &Stream, nbytes: usize) -> Result<*mut u8> {
    let at = |address: usize| std::ptr::without_provenance_mut::<u8>(address);
    if let Some(capture) = &mut *locked(&stream.capture) {
        return allocate_captured(stream, capture, nbytes).map(at);
    }
    let is_complete = |position| is_known_complete(stream, position);
    let reuse = |others: Others<'_>| locked(&stream.gpu.pool).reuse(nbytes, stream.id, others);
    let mut found = reuse(Others::Complete(&is_complete));
    if found.is_none() && stream.gpu.is_tracking() {
        stream.gpu.find_complete();
        found = reuse(Others::Complete(&is_complete));
    }
    // Streams that wait for each other's blocks do not overlap. Much kept memory is used all the same.
    if found.is_none() && locked(&stream.gpu.pool).keeps_much() {
        found = reuse(Others::All);
    }
    if found.is_none() {
        if let Some(block) = allocate_new(stream, nbytes)? {
            return Ok(at(block));
        }
        // Without more memory, the work of other streams is waited for.
        found = reuse(Others::All);
    }
    let Some((block, uses)) = found else {
        trim(stream.gpu)?;
        return allocate_new(stream, nbytes)?.map(at).ok_or(Error::OutOfMemory { op: "allocate", nbytes });
    };
    let waited = uses.before(true).try_for_each(|position| wait_for(stream, position));
    let position = next_position(stream);
    let mut pool = locked(&stream.gpu.pool);
    pool.record_use(block, position, true);
    if let Err(error) = waited {
        uses.before(true).for_each(|position| pool.record_use(block, position, false));
        pool.release(block);
        return Err(error);
    }
    drop(pool);
    Ok(at(block))
}

/// Allocates bytes for a graph that is being recorded. The graph keeps the block.
fn allocate_captured(stream: &Stream, capture: &mut Capture, nbytes: usize) -> Result<usize> {
    let mut pool = locked(&stream.gpu.pool);
    if let Some(block) = pool.reuse_captured(&capture.own, nbytes) {
        return Ok(block);
    }
    let found = pool.reuse(nbytes, stream.id, Others::All);
    drop(pool);
    let block = found.map_or_else(
        || allocate_new(stream, nbytes)?.ok_or(Error::OutOfMemory { op: "allocate", nbytes }),
        |(block, uses)| {
            // Each replay of the graph waits for the last uses of the block.
            let mut pool = locked(&stream.gpu.pool);
            uses.before(true).for_each(|position| pool.record_use(block, position, false));
            Ok(block)
        },
    )?;
    locked(&stream.gpu.pool).pin(block);
    capture.blocks.insert(block, true);
    capture.own.insert(block);
    Ok(block)
}

/// Allocates a segment from the driver, and a block in it. `None` if the limit or the driver refuses.
fn allocate_new(stream: &Stream, nbytes: usize) -> Result<Option<usize>> {
    let pool = locked(&stream.gpu.pool);
    let (Some(segment), Some(least)) = (pool.segment(nbytes), pool.least_segment(nbytes)) else {
        return Ok(None);
    };
    drop(pool);
    let sizes = [segment, least];
    for segment in &sizes[usize::from(segment == least)..] {
        // SAFETY: the call only allocates memory.
        match unsafe { stream.with("allocate", |_| result::malloc_sync(*segment)) } {
            Ok(block) => {
                locked(&stream.gpu.pool).insert(block as usize, nbytes, *segment);
                return Ok(Some(block as usize));
            }
            Err(Error::OutOfMemory { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Gives a block of [`allocate`] back to the pool. The next user waits, on the GPU, for the work queued on
/// it.
fn release(stream: &Stream, address: *mut u8) {
    // Scratch memory is used by work that does not record its uses.
    let position =
        (stream.gpu.is_tracking() && locked(&stream.capture).is_none()).then(|| next_position(stream));
    let mut pool = locked(&stream.gpu.pool);
    if let Some(position) = position {
        pool.record_use(address.addr(), position, false);
    }
    pool.release(address.addr());
}

/// Gives all kept blocks back to the driver, and returns the number of their bytes. Waits for all work.
///
/// # Errors
/// Those of the work; the report of the driver.
pub(in crate::device::cuda) fn trim(gpu: &Gpu) -> Result<usize> {
    // After this no allocation gets these blocks. Work queued on them is waited for.
    let (blocks, nbytes) = locked(&gpu.pool).drain();
    let mut done = gpu.synchronize();
    for block in blocks {
        // SAFETY: the driver gave the block, and it has no owner. All work is complete, or the GPU is lost.
        let freed = unsafe { gpu.context.with("trim", || result::free_sync(block as u64)) };
        done = done.and(freed);
    }
    done.map(|()| nbytes)
}
