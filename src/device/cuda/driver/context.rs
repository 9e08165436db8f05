//! One graphics card as this process sees it: what its streams share, what was compiled for it, and what went wrong.
// Imports: `error`.

use crate::device::cuda::memory::pool::Memory;
use crate::device::cuda::stream::queue::{Kernel, Key, Stream, locked};
use crate::device::cuda::driver::nvrtc as compile;
use crate::device::cuda::driver::loading as library;
use crate::device::cuda::report;
use crate::error::{Error, Result, text};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// A card. There is one for an ordinal in a process, and it stays for the rest of it.
pub(in crate::device::cuda) struct Card {
    pub(in crate::device::cuda) ordinal: usize,
    raw: sys::CUcontext,
    device: sys::CUdevice,
    architecture: String,
    pub(in crate::device::cuda) multiprocessors: usize,
    process: u32,
    kernels: Mutex<HashMap<Key, Kernel>>,
    pub(in crate::device::cuda) memory: Mutex<Memory>,
    /// Every stream, by its number: 0 is the main one. They stay, and are lent again.
    pub(in crate::device::cuda) streams: Mutex<Vec<Arc<Stream>>>,
    pub(in crate::device::cuda) idle: Mutex<Vec<Arc<Stream>>>,
    /// Whether there is more than one stream, so that uses of memory must be noted; who works without holds the lock.
    notes: AtomicBool,
    alone: RwLock<()>,
    /// Who holds it has the streams' events for itself.
    pub(in crate::device::cuda) events: Mutex<()>,
    /// Cards whose memory this one may reach.
    peers: Mutex<BTreeMap<usize, bool>>,
    /// The first error that had nobody to return it to.
    late: Mutex<Option<Error>>,
    /// The error that ended all work on this card.
    lost: Mutex<Option<Error>>,
    pub(in crate::device::cuda) launches: AtomicUsize,
    pub(in crate::device::cuda) compiled: AtomicUsize,
}
// SAFETY: numbers that the driver gave, which any thread may use; the driver locks for itself.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

/// How many graphics cards there are.
pub(in crate::device::cuda) fn count() -> Result<usize> {
    library::open("cuda")?;
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

/// Whether the driver reports what earlier work did, after which the card does nothing more for this process.
fn is_late(error: &DriverError) -> bool {
    use sys::CUresult as Code;
    matches!(
        error.0,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
            | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
    )
}

impl Card {
    /// The main stream of a card, made at the first call.
    pub(in crate::device::cuda) fn of(ordinal: usize) -> Result<Arc<Stream>> {
        static CARDS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());
        let mut cards = locked(&CARDS);
        if let Some(main) = cards.get(&ordinal) {
            main.card.in_its_process()?;
            return Ok(main.clone());
        }
        let found = count()?;
        if ordinal >= found {
            return Err(Error::NoDevice { op: "Cuda::new", ordinal, found });
        }
        let card =
            Card::make(ordinal).map_err(|error| Error::Fault { op: "Cuda::new", what: report(&error) })?;
        let main = Stream::new(Box::leak(Box::new(card)))?;
        cards.insert(ordinal, main.clone());
        Ok(main)
    }

    fn make(ordinal: usize) -> Result<Card, DriverError> {
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
            Ok(Card {
                ordinal,
                raw,
                device,
                architecture: format!("sm_{major}{minor}"),
                multiprocessors: multiprocessors.max(1) as usize,
                process: std::process::id(),
                kernels: Mutex::default(),
                memory: Mutex::new(Memory::new()),
                streams: Mutex::default(),
                idle: Mutex::default(),
                notes: AtomicBool::new(false),
                alone: RwLock::default(),
                events: Mutex::default(),
                peers: Mutex::default(),
                late: Mutex::default(),
                lost: Mutex::default(),
                launches: AtomicUsize::new(0),
                compiled: AtomicUsize::new(0),
            })
        }
    }

    /// Whether this process was forked from the one that the card was opened in: CUDA does not survive that.
    pub(in crate::device::cuda) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn in_its_process(&self) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        let what =
            "this process was forked from one that used CUDA, which does not survive that; start it anew"
                .into();
        Err(Error::Fault { op: "cuda", what })
    }

    /// Runs calls of the driver with this card's context; `op` names what they are for.
    ///
    /// # Safety
    /// That of the calls.
    pub(in crate::device::cuda) unsafe fn with<T>(
        &self,
        op: &'static str,
        calls: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T> {
        self.in_its_process()?;
        if let Some(lost) = &*locked(&self.lost) {
            return Err(refused(op, lost));
        }
        // SAFETY: the context lives as long as the process.
        let done = unsafe { result::ctx::set_current(self.raw) }.and_then(|()| calls());
        done.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { op, nbytes: 0 },
            _ if is_late(&error) => refused(op, &self.lose(&error)),
            _ => Error::Fault { op, what: report(&error) },
        })
    }

    /// The card has stopped: the error that says where, which is kept.
    fn lose(&self, error: &DriverError) -> Error {
        let mut names: Vec<String> =
            locked(&self.streams).iter().filter_map(|stream| stream.last_begun()).collect();
        names.dedup();
        // An operation's name is a constant everywhere else, so this one stays as well; a card is lost once.
        let op: &'static str =
            if names.is_empty() { "cuda" } else { Box::leak(names.join(" or ").into_boxed_str()) };
        let what = text(format_args!(
            "{}, after the call had returned; this process cannot use the card any more",
            report(error)
        ));
        locked(&self.lost).get_or_insert(Error::Fault { op, what }).clone()
    }

    /// What waiting for work gives: an error of the card is that of the work, not of the wait.
    pub(in crate::device::cuda) fn settled<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| locked(&self.lost).clone().unwrap_or(error))
    }

    /// Keeps the first error that has nobody to return it to.
    pub(in crate::device::cuda) fn remember(&self, error: Error) {
        // What a card that is lost refuses is no news.
        if locked(&self.lost).is_none() {
            locked(&self.late).get_or_insert(error);
        }
    }

    /// The error that was kept, which is then forgotten; that of a card that is lost stays.
    pub(in crate::device::cuda) fn check(&self) -> Result<()> {
        let late = locked(&self.late).take().map_or(Ok(()), Err);
        late.and_then(|()| locked(&self.lost).clone().map_or(Ok(()), Err))
    }

    /// Leave to work without noting what is used, while there is one stream.
    pub(in crate::device::cuda) fn alone(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if self.notes() {
            return None;
        }
        let alone = self.alone.read().unwrap_or_else(PoisonError::into_inner);
        (!self.notes()).then_some(alone)
    }

    /// Whether uses of memory are noted.
    pub(in crate::device::cuda) fn notes(&self) -> bool {
        self.notes.load(Ordering::Acquire)
    }

    /// From now on uses are noted; whoever works without has ended.
    pub(in crate::device::cuda) fn begin_noting(&self) {
        let _nobody = self.alone.write().unwrap_or_else(PoisonError::into_inner);
        self.notes.store(true, Ordering::Release);
    }

    /// Waits for all work of all streams, but for what is being made a graph.
    pub(in crate::device::cuda) fn synchronize(&self) -> Result<()> {
        let streams: Vec<_> = locked(&self.streams).clone();
        streams
            .iter()
            .filter(|stream| stream.reachable("synchronize").is_ok())
            .try_for_each(|stream| stream.synchronize())
    }

    /// Gives kept memory back to the driver; how many bytes that were.
    pub(in crate::device::cuda) fn trim(&self) -> Result<usize> {
        // From here on nobody gets them, and what was queued on them is waited for.
        let (blocks, nbytes) = locked(&self.memory).drain();
        let mut done = self.synchronize();
        for block in blocks {
            // SAFETY: a block that the driver gave, which nobody has; all work is done, or the card is lost.
            let freed = unsafe { self.with("trim", || result::free_sync(block as u64)) };
            done = done.and(freed);
        }
        done.map(|()| nbytes)
    }

    /// Whether this card may reach the memory of another by itself; where it may, that is switched on.
    pub(in crate::device::cuda) fn reaches(&self, other: &Card) -> bool {
        *locked(&self.peers).entry(other.ordinal).or_insert_with(|| {
            let mut can = 0;
            // SAFETY: two devices that there are, whose contexts live as long as the process; writes a number.
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

    pub(in crate::device::cuda) fn raw(&self) -> sys::CUcontext {
        self.raw
    }

    /// The kernel of this key, generated and compiled where it is new: all sources define `kernel` (and others, if any).
    pub(in crate::device::cuda) fn kernel(&self, key: Key, source: impl FnOnce() -> String) -> Result<Kernel> {
        if let Some(&kernel) = locked(&self.kernels).get(&key) {
            return Ok(kernel);
        }
        let kernel = self.load(&noted(key.mechanism, source()))?;
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
            self.with("load a kernel", || {
                let module = result::module::load_data(image.as_ptr().cast())?;
                Ok(Kernel(result::module::get_function(module, CString::from(c"kernel"))?))
            })
        }
    }
}

/// The error of a call that a lost card refuses: it names the operation that failed, and is another than that one's.
fn refused(op: &'static str, lost: &Error) -> Error {
    let Error::Fault { op: earlier, .. } = lost else { return lost.clone() };
    Error::Fault {
        op,
        what: text(format_args!("the card stopped in an earlier operation, {earlier}; `check` says why")),
    }
}

/// The source with its mechanism's name and one line more: the first thread says, in memory of the host, which operation has
/// begun.
///
/// The driver reports what goes wrong in a kernel at some later call, and not of which kernel it was.
fn noted(mechanism: &str, source: String) -> String {
    let begin = "kernel(const Args a) {";
    let note = "\n  if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) *(volatile i64*)a.begun = a.operation;";
    source.replacen(begin, &format!("{begin} // {mechanism}{note}"), 1)
}
