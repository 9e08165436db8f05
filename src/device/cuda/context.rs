//! One graphics card as this process sees it: its context and stream, what it has compiled, and what went wrong later.
//!
//! Imports: `error`.

use super::{compile, library};
use crate::error::{Error, Result, text};
use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;
use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a kernel was generated for: the types of body and reducer, and whatever else its source depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) mechanism: &'static str,
    pub(super) types: [TypeId; 2],
    pub(super) class: Vec<u32>,
}

/// A kernel that is loaded. It stays for the rest of the process.
#[derive(Clone, Copy)]
pub(super) struct Kernel(sys::CUfunction);
// SAFETY: a number that the driver gave; it may be used from any thread that the context is current on.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// How many blocks and threads a kernel is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) blocks: (u32, u32),
    pub(super) threads: u32,
    pub(super) shared: u32,
}

/// A number of blocks; more than there can be where it cannot be said in 32 bits, which `launch` refuses.
pub(super) fn count_of(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// One context for an ordinal in a process; see `Cuda`, which hands out handles.
pub(super) struct Context {
    pub(super) ordinal: usize,
    raw: sys::CUcontext,
    stream: sys::CUstream,
    architecture: String,
    pub(super) multiprocessors: usize,
    kernels: Mutex<HashMap<Key, Kernel>>,
    fault: Mutex<Option<Error>>,
    pub(super) blas: Mutex<Option<super::blas::Handle>>,
    pub(super) bytes: AtomicUsize,
    pub(super) launches: AtomicUsize,
    pub(super) compiled: AtomicUsize,
    process: u32,
}
// SAFETY: numbers that the driver gave, which any thread may use; the driver locks for itself.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What the driver reports, as an error of `op`.
pub(super) fn fault(op: &'static str, error: DriverError) -> Error {
    match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { op, nbytes: 0 },
        _ => Error::Fault { op, what: text(format_args!("the CUDA driver reports {error:?}")) },
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many graphics cards there are.
pub(super) fn count() -> Result<usize> {
    library::open("cuda")?;
    result::init().map_err(|error| fault("cuda", error))?;
    match result::device::get_count() {
        Ok(count) => Ok(count as usize),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(fault("cuda", error)),
    }
}

impl Context {
    /// The context of a card, made at the first call.
    pub(super) fn of(ordinal: usize) -> Result<Arc<Context>> {
        static CONTEXTS: Mutex<BTreeMap<usize, Arc<Context>>> = Mutex::new(BTreeMap::new());
        let mut contexts = locked(&CONTEXTS);
        if let Some(context) = contexts.get(&ordinal) {
            context.in_its_process()?;
            return Ok(context.clone());
        }
        let found = match count() {
            Err(Error::Fault { what, .. }) if what.contains("NO_DEVICE") => 0,
            found => found?,
        };
        if ordinal >= found {
            return Err(Error::NoDevice { op: "Cuda::new", ordinal, found });
        }
        let context = Arc::new(Context::make(ordinal).map_err(|error| fault("Cuda::new", error))?);
        contexts.insert(ordinal, context.clone());
        Ok(context)
    }

    fn make(ordinal: usize) -> Result<Context, DriverError> {
        use sys::CUdevice_attribute as Attribute;
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: a device that there is; its primary context is kept for the rest of the process.
        unsafe {
            let raw = result::primary_ctx::retain(device)?;
            result::ctx::set_current(raw)?;
            let attribute = |name| result::device::get_attribute(device, name);
            let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            // The pool keeps what is freed: by default it gives all of it back whenever somebody waits for the stream.
            let pool = result::device::get_default_mem_pool(device)?;
            let mut keep = u64::MAX;
            let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            result::mem_pool::set_attribute(pool, threshold, std::ptr::from_mut(&mut keep).cast())?;
            // Not the default stream, which waits for others and cannot be captured.
            let stream = result::stream::create(StreamKind::NonBlocking)?;
            Ok(Context {
                ordinal,
                raw,
                stream,
                architecture: format!("sm_{major}{minor}"),
                multiprocessors: multiprocessors.max(1) as usize,
                kernels: Mutex::default(),
                fault: Mutex::default(),
                blas: Mutex::default(),
                bytes: AtomicUsize::new(0),
                launches: AtomicUsize::new(0),
                compiled: AtomicUsize::new(0),
                process: std::process::id(),
            })
        }
    }

    /// CUDA does not survive a `fork`.
    fn in_its_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let what = "this process was forked from one that used CUDA, which does not survive that; start it anew".into();
        Err(Error::Fault { op: "cuda", what })
    }

    /// Runs calls of the driver with this context; `op` names what they are for.
    ///
    /// # Safety
    /// That of the calls.
    pub(super) unsafe fn with<T>(&self, op: &'static str, calls: impl FnOnce(sys::CUstream) -> Result<T, DriverError>) -> Result<T> {
        self.in_its_process()?;
        // SAFETY: the context lives as long as the process.
        let done = unsafe { result::ctx::set_current(self.raw) }.and_then(|()| calls(self.stream));
        done.map_err(|error| fault(op, error))
    }

    /// Keeps the first error that has nobody to return it to.
    pub(super) fn remember(&self, error: Error) {
        locked(&self.fault).get_or_insert(error);
    }

    /// The error that was kept, which is then forgotten.
    pub(super) fn check(&self) -> Result<()> {
        locked(&self.fault).take().map_or(Ok(()), Err)
    }

    /// Waits for all work.
    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives as long as the process.
        unsafe { self.with("synchronize", |stream| result::stream::synchronize(stream)) }
    }

    /// Fresh bytes: never 0 of them, which the driver refuses.
    pub(super) fn allocate(&self, nbytes: usize) -> Result<*mut u8> {
        // SAFETY: asks for memory.
        let address = unsafe { self.with("allocate", |stream| result::malloc_async(stream, nbytes.max(1))) };
        let address = address.map_err(|error| match error {
            Error::OutOfMemory { op, .. } => Error::OutOfMemory { op, nbytes },
            other => other,
        })?;
        self.bytes.fetch_add(nbytes, Ordering::Relaxed);
        Ok(std::ptr::without_provenance_mut(address as usize))
    }

    /// Gives back what [`allocate`](Self::allocate) gave, when all work queued so far is done.
    pub(super) fn free(&self, address: *mut u8, nbytes: usize) {
        self.bytes.fetch_sub(nbytes, Ordering::Relaxed);
        // SAFETY: from `allocate`, given back once.
        let freed = unsafe { self.with("free", |stream| result::free_async(address.addr() as u64, stream)) };
        if let Err(error) = freed {
            self.remember(error);
        }
    }

    /// The kernel of this key, generated and compiled where it is new: all sources define `kernel` (and others, if any).
    pub(super) fn kernel(&self, key: Key, source: impl FnOnce() -> String) -> Result<Kernel> {
        if let Some(&kernel) = locked(&self.kernels).get(&key) {
            return Ok(kernel);
        }
        let source = source();
        let kernel = self.load(&source)?;
        locked(&self.kernels).insert(key, kernel);
        Ok(kernel)
    }

    fn load(&self, source: &str) -> Result<Kernel> {
        if let Some(image) = compile::kept(source, &self.architecture)
            && let Ok(kernel) = self.load_image(&image)
        {
            return Ok(kernel);
        }
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let image = compile::compile(source, &self.architecture).map_err(|error| match error {
            Error::Fault { op, what } => Error::Fault { op, what: text(format_args!("{what}\n{source}")) },
            other => other,
        })?;
        let kernel = self.load_image(&image)?;
        compile::keep(source, &self.architecture, &image);
        Ok(kernel)
    }

    fn load_image(&self, image: &[u8]) -> Result<Kernel> {
        // The driver reads to where the image says that it ends; a text ends with a zero.
        let mut image = image.to_vec();
        image.push(0);
        // SAFETY: an image that NVRTC made; the driver refuses what is none.
        unsafe {
            self.with("load a kernel", |_| {
                let module = result::module::load_data(image.as_ptr().cast())?;
                Ok(Kernel(result::module::get_function(module, CString::from(c"kernel"))?))
            })
        }
    }

    /// Queues a kernel; its argument is a struct of 64-bit words.
    ///
    /// # Safety
    /// The words are what the kernel's source takes, and it keeps to memory that is there.
    pub(super) unsafe fn launch(&self, op: &'static str, kernel: Kernel, shape: Shape, words: &[i64]) -> Result<()> {
        if shape.blocks.0 > i32::MAX as u32 {
            return Err(Error::Fault { op, what: "more blocks than a card counts; cut the operation in parts".into() });
        }
        let mut arguments = [words.as_ptr().cast_mut().cast::<c_void>()];
        let (blocks, threads) = ((shape.blocks.0, shape.blocks.1, 1), (shape.threads, 1, 1));
        self.launches.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise; the driver copies the words before it returns.
        unsafe { self.with(op, |stream| result::launch_kernel(kernel.0, blocks, threads, shape.shared, stream, &mut arguments)) }
    }
}
