//! The context of one GPU in this process: calls of the driver, the GPU's properties, and its errors.
// Imports: `error`.

use crate::device::cuda::driver::errors::{ErrorState, is_deferred, refused, report};
use crate::device::cuda::driver::loading;
use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::progress::StreamProgress;
use crate::error::{Error, Result, text};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The primary context of a GPU. It stays for the rest of the process.
pub(in crate::device::cuda) struct Context {
    pub(in crate::device::cuda) ordinal: usize,
    raw: sys::CUcontext,
    device: sys::CUdevice,
    /// The compute capability, such as 9.0.
    pub(in crate::device::cuda) capability: [i32; 2],
    /// The real architecture of it, such as `sm_90`.
    pub(in crate::device::cuda) architecture: String,
    pub(in crate::device::cuda) multiprocessors: usize,
    /// The process in which the context was made.
    process: u32,
    errors: ErrorState,
    /// The progress of every stream, by its number.
    progress: Mutex<Vec<Arc<StreamProgress>>>,
    /// GPUs, by ordinal, whose memory this one can access directly.
    peers: Mutex<BTreeMap<usize, bool>>,
}
// SAFETY: the handles are numbers that the driver gave. Any thread may use them, and the driver locks by
// itself.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The number of GPUs.
///
/// # Errors
/// [`Error::Library`] without a driver; [`Error::Fault`] with the report of the driver. No GPU is 0, and not
/// an error.
pub(in crate::device::cuda) fn count() -> Result<usize> {
    loading::open("cuda")?;
    let failed = |error: DriverError| Error::Fault { op: "cuda", what: report(&error) };
    match result::init() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(0),
        done => done.map_err(failed)?,
    }
    match result::device::get_count() {
        Ok(count) => Ok(count as usize),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(failed(error)),
    }
}

impl Context {
    /// The primary context of a GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if `ordinal` is not below the number of GPUs; those of [`count`].
    pub(in crate::device::cuda) fn new(ordinal: usize) -> Result<Context> {
        let found = count()?;
        if ordinal >= found {
            return Err(Error::NoDevice { op: "Cuda::new", ordinal, found });
        }
        Context::retain(ordinal).map_err(|error| Error::Fault { op: "Cuda::new", what: report(&error) })
    }

    fn retain(ordinal: usize) -> Result<Context, DriverError> {
        use sys::CUdevice_attribute as Attribute;
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: the device exists. Its primary context is kept for the rest of the process.
        unsafe {
            let raw = result::primary_ctx::retain(device)?;
            result::ctx::set_current(raw)?;
            let attribute = |name| result::device::get_attribute(device, name);
            let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            Ok(Context {
                ordinal,
                raw,
                device,
                capability: [major, minor],
                architecture: format!("sm_{major}{minor}"),
                multiprocessors: multiprocessors.max(1) as usize,
                process: std::process::id(),
                errors: ErrorState::default(),
                progress: Mutex::default(),
                peers: Mutex::default(),
            })
        }
    }

    /// Whether this process was forked from the one that made the context. CUDA does not survive a fork.
    pub(in crate::device::cuda) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// An error in a process that was forked from the one that made the context.
    pub(in crate::device::cuda) fn ensure_not_forked(&self) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        let what = "this process was forked from one that used CUDA, which does not survive a fork; \
                    start a new process"
            .into();
        Err(Error::Fault { op: "cuda", what })
    }

    /// Runs calls of the driver with this context current; `op` names their purpose in errors.
    ///
    /// # Safety
    /// The promises of the calls hold.
    pub(in crate::device::cuda) unsafe fn with<T>(
        &self,
        op: &'static str,
        calls: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T> {
        self.ensure_not_forked()?;
        if let Some(lost) = self.errors.lost() {
            return Err(refused(op, &lost));
        }
        // SAFETY: the context lives as long as the process.
        let done = unsafe { result::ctx::set_current(self.raw) }.and_then(|()| calls());
        done.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { op, nbytes: 0 },
            _ if is_deferred(&error) => refused(op, &self.mark_lost(&error)),
            _ => Error::Fault { op, what: report(&error) },
        })
    }

    /// Marks the GPU as lost, and returns the error that names the operations which may have failed.
    fn mark_lost(&self, error: &DriverError) -> Error {
        let mut names: Vec<String> =
            locked(&self.progress).iter().filter_map(|progress| progress.last_begun()).collect();
        names.dedup();
        // Names of operations are constants everywhere else. This name is leaked: a GPU is lost once at most.
        let op: &'static str =
            if names.is_empty() { "cuda" } else { Box::leak(names.join(" or ").into_boxed_str()) };
        let what = text(format_args!(
            "{}, after the call had returned; this process cannot use the GPU any more",
            report(error)
        ));
        self.errors.mark_lost(Error::Fault { op, what })
    }

    /// The result of waiting for work. If the GPU is lost, the error is that of the work, not that of the
    /// wait.
    pub(in crate::device::cuda) fn or_lost<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| self.errors.lost().unwrap_or(error))
    }

    /// Keeps the first error that no call can return; [`check`](Self::check) returns it.
    pub(in crate::device::cuda) fn defer(&self, error: Error) {
        self.errors.defer(error);
    }

    /// Takes a deferred error: a report of the kernels of a stream, by its number, or, for the main
    /// stream, of any stream; else an error that no call could return. The error of a lost GPU stays.
    pub(in crate::device::cuda) fn check(&self, stream: usize) -> Result<()> {
        let progress = locked(&self.progress);
        let own = if stream == 0 { &progress[..] } else { progress.get(stream..=stream).unwrap_or_default() };
        match own.iter().find_map(|progress| progress.take_report()) {
            Some(reported) => Err(reported),
            None => self.errors.take(),
        }
    }

    /// Adds the progress of a new stream, whose last operation then appears in the error of a lost GPU.
    pub(in crate::device::cuda) fn register(&self, progress: Arc<StreamProgress>) {
        locked(&self.progress).push(progress);
    }

    /// Whether this GPU can access the memory of another one directly. If it can, the access is enabled.
    pub(in crate::device::cuda) fn enable_peer_access(&self, other: &Context) -> bool {
        *locked(&self.peers).entry(other.ordinal).or_insert_with(|| {
            let mut can = 0;
            // SAFETY: both devices exist, and their contexts live as long as the process; the call writes one
            // number.
            let done = unsafe {
                self.with("peer", || {
                    sys::cuDeviceCanAccessPeer(&mut can, self.device, other.device).result()?;
                    match can {
                        0 => Ok(()),
                        _ => match sys::cuCtxEnablePeerAccess(other.raw, 0).result() {
                            Err(DriverError(sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) => Ok(()),
                            done => done,
                        },
                    }
                })
            };
            done.is_ok() && can != 0
        })
    }

    /// The driver's handle of the context.
    pub(in crate::device::cuda) fn raw(&self) -> sys::CUcontext {
        self.raw
    }
}
