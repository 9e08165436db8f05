//! Memory of a graphics card: blocks, and copies to and from the host.
// Imports: `error`, `device`.

use crate::device::cuda::driver::op_names as here;
use crate::device::cuda::stream::queue::{Stream, locked};
use crate::device::{Deleter, Init, OperandRef};
use crate::error::{Error, Result};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

/// Memory of a [`Cuda`](crate::Cuda), given back by its `Drop`; work that is queued may use it still.
pub struct CudaBlock {
    stream: Arc<Stream>,
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
    pub(in crate::device::cuda) fn fresh(stream: &Arc<Stream>, nbytes: usize, fresh: Init) -> Result<CudaBlock> {
        let mut block = CudaBlock {
            stream: stream.clone(),
            address: std::ptr::null_mut(),
            nbytes: 0,
            free: Mutex::new(None),
        };
        if nbytes > 0 {
            (block.address, block.nbytes) = (stream.allocate(nbytes)?, nbytes);
            // Nobody writes it where kernels do not run; what is read must be an element all the same. In debug builds
            // memory that is used again holds what no program should read: NaN, for floats.
            let zeroed = fresh == Init::Zeroed || here::is_dry();
            if let Some(byte) = if zeroed { Some(0) } else { cfg!(debug_assertions).then_some(0xff) } {
                let at = block.address.addr() as u64;
                let whole = OperandRef { address: block.address, stride: &[1], element: 1 };
                // SAFETY: the bytes that were just allocated.
                stream.ordered("zero", &[whole], &[], || unsafe {
                    stream.with("zero", |raw| result::memset_d8_async(at, byte, nbytes, raw))
                })?;
            }
        }
        Ok(block)
    }

    /// # Safety
    /// As [`Device::from_external`](crate::device::Device::from_external).
    pub(in crate::device::cuda) unsafe fn from_external(
        stream: &Arc<Stream>,
        address: *mut u8,
        nbytes: usize,
        free: Deleter,
    ) -> CudaBlock {
        let known = nbytes > 0 && locked(&stream.card.memory).adopted(address.addr(), nbytes);
        // Where it is a part of another block, uses are noted there.
        CudaBlock {
            stream: stream.clone(),
            address,
            nbytes: if known { nbytes } else { 0 },
            free: Mutex::new(Some(adopted(nbytes, free))),
        }
    }

    pub(in crate::device::cuda) fn address(&self) -> *mut u8 {
        self.address
    }
}

/// The deleter with the number of bytes that its memory has.
fn adopted(nbytes: usize, free: Deleter) -> Deleter {
    Box::new(move |address, _| free(address, nbytes))
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        // A child of `fork` has the handle and not the card: whose memory it is gives it back in the parent.
        if self.stream.card.is_forked() {
            std::mem::forget(locked_in_child(&self.free));
            return;
        }
        match locked(&self.free).take() {
            Some(free) => {
                // Whoever gets the memory back may use it at once.
                if let Err(error) = self.stream.card.synchronize() {
                    self.stream.card.remember(error);
                }
                if self.nbytes > 0 {
                    self.stream.free(self.address);
                }
                free(self.address, self.nbytes);
            }
            None if self.nbytes > 0 => self.stream.free(self.address),
            None => {}
        }
    }
}

/// What a block holds, in a process where nobody else runs.
fn locked_in_child(free: &Mutex<Option<Deleter>>) -> Option<Deleter> {
    free.try_lock().ok().and_then(|mut free| free.take())
}

/// A copy between host and card that was queued: an event behind it.
pub(crate) struct Queued {
    stream: Arc<Stream>,
    event: sys::CUevent,
}
// SAFETY: a number that the driver gave; it may be used from any thread.
unsafe impl Send for Queued {}
// SAFETY: as above.
unsafe impl Sync for Queued {}

impl Queued {
    /// Behind the copy that `copy` queues.
    fn behind(
        stream: &Arc<Stream>,
        op: &'static str,
        copy: impl FnOnce(sys::CUstream) -> Result<(), DriverError>,
    ) -> Result<Queued> {
        // SAFETY: an event of its own.
        let event = unsafe {
            stream.with(op, |_| result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))
        }?;
        let queued = Queued { stream: stream.clone(), event };
        // SAFETY: the caller's copy.
        unsafe { stream.with(op, copy) }?;
        // SAFETY: the event lives as long as this does.
        if let Err(error) = unsafe { stream.with(op, |raw| result::event::record(event, raw)) } {
            // The copy must not outlive what it reads and writes.
            stream.synchronize()?;
            return Err(error);
        }
        Ok(queued)
    }

    /// Waits for the copy.
    ///
    /// # Errors
    /// That of the work.
    pub(crate) fn wait(&self) -> Result<()> {
        let card = self.stream.card;
        // SAFETY: the event lives as long as this does.
        card.settled(unsafe { card.with("copy", || result::event::synchronize(self.event)) })
    }

    /// Whether the copy is done.
    ///
    /// # Errors
    /// That of the work.
    pub(crate) fn is_done(&self) -> Result<bool> {
        let card = self.stream.card;
        // SAFETY: as above.
        let asked = unsafe {
            card.with("copy", || match result::event::query(self.event) {
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                done => done.map(|()| true),
            })
        };
        card.settled(asked)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // SAFETY: made by `behind`, destroyed once.
        if let Err(error) = unsafe { self.stream.card.with("copy", || result::event::destroy(self.event)) } {
            self.stream.card.remember(error);
        }
    }
}

impl Stream {
    /// # Safety
    /// As [`Device::write`](crate::device::Device::write).
    pub(in crate::device::cuda) unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || here::is_dry() {
            return Ok(());
        }
        self.reachable("write")?;
        // SAFETY: the caller's promise. Bytes of memory that a card can read by itself are read later: they are waited for.
        unsafe {
            self.card.settled(self.with("write", |stream| {
                result::memcpy_htod_async(to.addr() as u64, bytes, stream)?;
                result::stream::synchronize(stream)
            }))
        }
    }

    /// # Safety
    /// As [`Device::read`](crate::device::Device::read).
    pub(in crate::device::cuda) unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if here::is_dry() {
            bytes.fill(MaybeUninit::new(0));
            return Ok(());
        }
        self.reachable("read")?;
        // SAFETY: the caller's promise; the stream is waited for before the bytes are looked at.
        unsafe {
            self.card.settled(self.with("read", |stream| {
                result::memcpy_dtoh_async(bytes, from.addr() as u64, stream)?;
                result::stream::synchronize(stream)
            }))
        }
    }

    /// Queues a copy from page-locked memory of the host.
    ///
    /// # Safety
    /// As [`Device::write`](crate::device::Device::write), with bytes that stay as they are until the copy is done.
    pub(in crate::device::cuda) unsafe fn write_later(
        self: &Arc<Self>,
        to: *mut u8,
        from: *const u8,
        nbytes: usize,
    ) -> Result<Queued> {
        self.reachable("upload")?;
        Queued::behind(self, "upload", |stream| match nbytes {
            0 => Ok(()),
            // SAFETY: the caller's promise.
            _ => unsafe { sys::cuMemcpyHtoDAsync_v2(to.addr() as u64, from.cast(), nbytes, stream).result() },
        })
    }

    /// Queues a copy to page-locked memory of the host.
    ///
    /// # Safety
    /// As [`Device::read`](crate::device::Device::read), with room that nobody looks at until the copy is done.
    pub(in crate::device::cuda) unsafe fn read_later(
        self: &Arc<Self>,
        from: *const u8,
        to: *mut u8,
        nbytes: usize,
    ) -> Result<Queued> {
        self.reachable("download")?;
        Queued::behind(self, "download", |stream| match nbytes {
            0 => Ok(()),
            // SAFETY: the caller's promise.
            _ => unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from.addr() as u64, nbytes, stream).result() },
        })
    }

    /// Copies bytes within the card.
    ///
    /// # Safety
    /// Both addresses have so many bytes, and they do not overlap.
    pub(in crate::device::cuda) unsafe fn copy_bytes(&self, to: *mut u8, from: *const u8, nbytes: usize) -> Result<()> {
        if nbytes == 0 || here::is_dry() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.with("to", |stream| {
                result::memcpy_dtod_async(to.addr() as u64, from.addr() as u64, nbytes, stream)
            })
        }
    }

    /// Copies bytes from a stream of another card, after what that one has queued; it waits for the copy in turn.
    ///
    /// # Safety
    /// Both addresses have so many bytes.
    pub(in crate::device::cuda) unsafe fn copy_across(
        &self,
        to: *mut u8,
        from: &Stream,
        address: *const u8,
        nbytes: usize,
    ) -> Result<()> {
        if nbytes == 0 || here::is_dry() {
            return Ok(());
        }
        self.reachable("to")?;
        from.reachable("to")?;
        // Without this the driver goes through the host, which is slower and right as well.
        self.card.reaches(from.card);
        self.follow(from)?;
        let (own, other) = (self.card.raw(), from.card.raw());
        // SAFETY: the caller's promise.
        unsafe {
            self.with("to", |stream| {
                result::memcpy_peer_async(own, to.addr() as u64, other, address.addr() as u64, nbytes, stream)
            })
        }?;
        from.follow(self)
    }

    /// Room for the length of a few kernels, given back after them.
    pub(in crate::device::cuda) fn room(self: &Arc<Self>, nbytes: usize) -> Result<CudaBlock> {
        CudaBlock::fresh(self, nbytes, Init::Unspecified)
    }

    /// Page-locked memory of the host, which cards copy by themselves; not empty.
    pub(in crate::device::cuda) fn host_memory(&self, nbytes: usize) -> Result<*mut u8> {
        // SAFETY: asks for memory.
        let room =
            unsafe { self.with("pinned", |_| result::malloc_host(nbytes, sys::CU_MEMHOSTALLOC_PORTABLE)) };
        room.map(|room| room.cast()).map_err(|error| match error {
            Error::OutOfMemory { op, .. } => Error::OutOfMemory { op, nbytes },
            other => other,
        })
    }

    /// Gives back what [`host_memory`](Self::host_memory) gave.
    ///
    /// # Safety
    /// Nobody uses it, and it is given back once.
    pub(in crate::device::cuda) unsafe fn free_host(&self, room: *mut u8) {
        if self.card.is_forked() {
            return;
        }
        // SAFETY: the caller's promise.
        if let Err(error) = unsafe { self.with("pinned", |_| result::free_host(room.cast())) } {
            self.card.remember(error);
        }
    }
}
