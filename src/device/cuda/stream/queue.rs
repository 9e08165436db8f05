//! A stream: a queue of a GPU, whose work is done in the order in which it was queued; and the state that all
//! streams of one GPU share.
//!
//! Work of several streams is ordered by `ordering.rs`.
// Imports: `error`.

use crate::device::cuda::driver::context::Context;
use crate::device::cuda::driver::kernel_cache::{KernelCache, KernelKey, LoadedKernel};
use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::op_names;
use crate::device::cuda::driver::progress::{PROGRESS_WORDS, StreamProgress};
use crate::device::cuda::driver::thread_state::is_compile_only;
use crate::device::cuda::memory::pool::MemoryPool;
use crate::device::cuda::memory::staging::Staging;
use crate::error::{Error, Result};
use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// One GPU and all that its streams share. A process has one for each ordinal, which stays for the rest of
/// it.
pub(in crate::device::cuda) struct Gpu {
    pub(in crate::device::cuda) context: Context,
    pub(in crate::device::cuda) kernels: KernelCache,
    pub(in crate::device::cuda) pool: Mutex<MemoryPool>,
    /// Made by the first large copy.
    pub(in crate::device::cuda) staging: Mutex<Option<Staging>>,
    /// The number of kernels that were queued, without those of graphs.
    pub(in crate::device::cuda) launches: AtomicUsize,
    /// Every stream, by its number: 0 is the main one. Streams stay, and are leased again.
    streams: Mutex<Vec<Arc<Stream>>>,
    /// The streams that no lease holds.
    pub(super) idle: Mutex<Vec<Arc<Stream>>>,
    /// Whether uses of memory are tracked, which several streams need.
    tracking: AtomicBool,
    /// Operations that do not track their uses hold it for reading.
    untracked: RwLock<()>,
    /// Guards the events of all streams.
    pub(super) events: Mutex<()>,
}

impl Gpu {
    /// The main stream of a GPU, which the first call makes.
    ///
    /// # Errors
    /// Those of [`Context::new`]; in a forked process, an error that says so.
    pub(in crate::device::cuda) fn main_stream(ordinal: usize) -> Result<Arc<Stream>> {
        static GPUS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());
        let mut gpus = locked(&GPUS);
        if let Some(main) = gpus.get(&ordinal) {
            main.gpu.context.ensure_not_forked()?;
            return Ok(main.clone());
        }
        let gpu = Gpu {
            context: Context::new(ordinal)?,
            kernels: KernelCache::default(),
            pool: Mutex::new(MemoryPool::new()),
            staging: Mutex::new(None),
            launches: AtomicUsize::new(0),
            streams: Mutex::default(),
            idle: Mutex::default(),
            tracking: AtomicBool::new(false),
            untracked: RwLock::default(),
            events: Mutex::default(),
        };
        let main = Stream::new(Box::leak(Box::new(gpu)))?;
        gpus.insert(ordinal, main.clone());
        Ok(main)
    }

    /// The stream of this number.
    pub(super) fn stream(&self, id: usize) -> Arc<Stream> {
        locked(&self.streams)[id].clone()
    }

    /// A guard under which an operation need not track its uses of memory, while the GPU has one stream only.
    pub(super) fn untracked(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if self.is_tracking() {
            return None;
        }
        let untracked = self.untracked.read().unwrap_or_else(PoisonError::into_inner);
        (!self.is_tracking()).then_some(untracked)
    }

    /// Whether uses of memory are tracked.
    pub(in crate::device::cuda) fn is_tracking(&self) -> bool {
        self.tracking.load(Ordering::Acquire)
    }

    /// Tracks uses of memory from now on. Waits until no untracked operation is being queued.
    pub(super) fn start_tracking(&self) {
        let _exclusive = self.untracked.write().unwrap_or_else(PoisonError::into_inner);
        self.tracking.store(true, Ordering::Release);
    }

    /// Finds the streams whose work is complete, without a wait.
    pub(in crate::device::cuda) fn find_complete(&self) {
        let streams: Vec<_> = locked(&self.streams).clone();
        for stream in streams {
            // A query would end a recording. None begins while the lock is held.
            let capture = locked(&stream.capture);
            if capture.is_some() {
                continue;
            }
            let (queued, kernels) = (stream.queued.load(Ordering::Acquire), stream.progress.queued());
            // SAFETY: the stream lives as long as the process.
            let asked = unsafe {
                stream.with("query", |raw| match sys::cuStreamQuery(raw).result() {
                    Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                    done => done.map(|()| true),
                })
            };
            // The next call that waits for failed work reports it.
            if let Ok(true) = asked {
                stream.completed.fetch_max(queued, Ordering::AcqRel);
                stream.progress.complete(kernels);
            }
        }
    }

    /// Waits for all work of all streams, except streams that record a graph.
    ///
    /// # Errors
    /// Those of the work.
    pub(in crate::device::cuda) fn synchronize(&self) -> Result<()> {
        let streams: Vec<_> = locked(&self.streams).clone();
        streams
            .iter()
            .filter(|stream| stream.ensure_not_capturing("synchronize").is_ok())
            .try_for_each(|stream| stream.synchronize())
    }
}

/// The numbers of blocks and threads of a launch, and its bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::device::cuda) struct LaunchShape {
    pub(in crate::device::cuda) blocks: (u32, u32),
    pub(in crate::device::cuda) threads: u32,
    pub(in crate::device::cuda) shared: u32,
}

/// A number of blocks as 32 bits. A number that does not fit becomes one that `launch` refuses.
pub(in crate::device::cuda) fn block_count(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// The memory of a graph that is being recorded.
#[derive(Default)]
pub(in crate::device::cuda) struct Capture {
    /// The blocks that its work uses, and whether it writes them.
    pub(in crate::device::cuda) blocks: BTreeMap<usize, bool>,
    /// The blocks that were allocated while it was recorded.
    pub(in crate::device::cuda) own: BTreeSet<usize>,
}

/// A queue of a GPU; `Cuda` hands out handles of it.
pub(in crate::device::cuda) struct Stream {
    pub(in crate::device::cuda) gpu: &'static Gpu,
    /// Its number on the GPU.
    pub(in crate::device::cuda) id: usize,
    pub(super) raw: sys::CUstream,
    /// An event for waits of other streams; `Gpu::events` guards it.
    pub(super) event: sys::CUevent,
    /// The number of operations queued: a position up to it is of work that the driver has.
    pub(super) queued: AtomicU64,
    /// The number of operations that are known to be complete.
    pub(super) completed: AtomicU64,
    /// For each other stream, the position that this one has waited for.
    pub(super) waited: Mutex<BTreeMap<usize, u64>>,
    progress: Arc<StreamProgress>,
    /// The memory of the graph that this stream records, if it records one.
    pub(in crate::device::cuda) capture: Mutex<Option<Capture>>,
}
// SAFETY: the handles are numbers that the driver gave. Any thread may use them, and the driver locks by
// itself.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, not ordered after the others.
    pub(super) fn new(gpu: &'static Gpu) -> Result<Arc<Stream>> {
        // SAFETY: makes a stream, an event and some words of host memory, which stay for the rest of the
        // process and belong to the progress. The stream is not the default one, which waits for others and
        // cannot be captured.
        let (raw, event, progress) = unsafe {
            gpu.context.with("stream", || {
                let raw = result::stream::create(StreamKind::NonBlocking)?;
                let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
                let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
                let begun = result::malloc_host(8 * PROGRESS_WORDS, flags)?.cast::<i64>();
                begun.write_bytes(0, PROGRESS_WORDS);
                Ok((raw, event, Arc::new(StreamProgress::new(begun))))
            })
        }?;
        let mut streams = locked(&gpu.streams);
        let stream = Arc::new(Stream {
            gpu,
            id: streams.len(),
            raw,
            event,
            queued: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            waited: Mutex::default(),
            progress: progress.clone(),
            capture: Mutex::default(),
        });
        gpu.context.register(progress);
        streams.push(stream.clone());
        Ok(stream)
    }

    /// Runs calls of the driver for this stream; `op` names their purpose in errors.
    ///
    /// # Safety
    /// The promises of the calls hold.
    pub(in crate::device::cuda) unsafe fn with<T>(
        &self,
        op: &'static str,
        calls: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T> {
        // SAFETY: the caller's promise.
        unsafe { self.gpu.context.with(op, || calls(self.raw)) }
    }

    /// Counts a kernel that is about to be queued.
    pub(in crate::device::cuda) fn count_kernel(&self) {
        self.progress.queue();
    }

    /// Queues the write of the operation's number, for kernels of a library, which do not write it
    /// themselves.
    pub(in crate::device::cuda) fn begin(&self, op: &'static str) -> Result<()> {
        self.count_kernel();
        let (at, number) = (self.progress.address() as u64, op_names::number(op) as u32);
        // SAFETY: the low half of this stream's word, which the GPU reaches at the host's address.
        unsafe { self.with(op, |stream| sys::cuMemsetD32Async(at, number, 1, stream).result()) }
    }

    /// Waits for all work of this stream.
    ///
    /// # Errors
    /// Those of the work; while a graph is recorded, an error that says so.
    pub(in crate::device::cuda) fn synchronize(&self) -> Result<()> {
        self.ensure_not_capturing("synchronize")?;
        let (queued, kernels) = (self.queued.load(Ordering::Acquire), self.progress.queued());
        // SAFETY: the stream lives as long as the process.
        let done = unsafe { self.with("synchronize", |stream| result::stream::synchronize(stream)) };
        self.gpu.context.or_lost(done)?;
        self.completed.fetch_max(queued, Ordering::AcqRel);
        self.progress.complete(kernels);
        Ok(())
    }

    /// Takes a deferred error: of the work of this stream, or, of the main stream, of all streams.
    ///
    /// # Errors
    /// That error.
    pub(in crate::device::cuda) fn check(&self) -> Result<()> {
        self.gpu.context.check(self.id)
    }

    /// An error while this stream records a graph, whose work cannot be waited for.
    pub(in crate::device::cuda) fn ensure_not_capturing(&self, op: &'static str) -> Result<()> {
        if locked(&self.capture).is_none() {
            return Ok(());
        }
        let what =
            "waits for the GPU, and the work of a graph cannot wait; do it before or after `capture`".into();
        Err(Error::Fault { op, what })
    }

    /// The kernel of this key; see [`KernelCache::get`].
    pub(in crate::device::cuda) fn kernel(
        &self,
        key: KernelKey,
        source: impl FnOnce() -> Result<String>,
    ) -> Result<LoadedKernel> {
        self.gpu.kernels.get(&self.gpu.context, key, source)
    }

    /// Queues a kernel. Its argument is a struct of 64-bit words: the address of the progress word, the
    /// number of the operation, then `words`.
    ///
    /// # Errors
    /// [`Error::Fault`] for more blocks than a GPU counts; the report of the driver.
    ///
    /// # Safety
    /// 1. The words are those that the kernel's source takes.
    /// 2. With them it accesses only memory that is allocated.
    pub(in crate::device::cuda) unsafe fn launch(
        &self,
        op: &'static str,
        kernel: LoadedKernel,
        shape: LaunchShape,
        words: &[i64],
    ) -> Result<()> {
        let (blocks, threads) = ([shape.blocks.0, shape.blocks.1, 1], [shape.threads, 1, 1]);
        // SAFETY: (1) and (2) are the caller's promises.
        unsafe { self.launch_grid(op, kernel, blocks, threads, shape.shared, words) }
    }

    /// As [`launch`](Self::launch), with all three dimensions of blocks and threads.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(in crate::device::cuda) unsafe fn launch_grid(
        &self,
        op: &'static str,
        kernel: LoadedKernel,
        blocks: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        words: &[i64],
    ) -> Result<()> {
        if blocks[0] > i32::MAX as u32 {
            return Err(Error::Fault {
                op,
                what: "more blocks than a GPU counts; cut the operation in parts".into(),
            });
        }
        if is_compile_only() {
            return Ok(());
        }
        let mut all = Vec::with_capacity(2 + words.len());
        all.extend([self.progress.address() as i64, op_names::number(op)]);
        all.extend_from_slice(words);
        let mut arguments = [all.as_ptr().cast_mut().cast::<c_void>()];
        let ([bx, by, bz], [tx, ty, tz]) = (blocks, threads);
        self.gpu.launches.fetch_add(1, Ordering::Relaxed);
        self.count_kernel();
        // SAFETY: (1) and (2) are the caller's promises. The driver copies the words before it returns.
        unsafe {
            self.with(op, |stream| {
                result::launch_kernel(kernel.0, (bx, by, bz), (tx, ty, tz), shared, stream, &mut arguments)
            })
        }
    }
}
