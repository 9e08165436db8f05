//! A stream of a card: what is queued on it, and its order beside what the other streams do.
//!
//! Work of one stream is done in the order in which it was queued. Streams wait for each other where they meet in memory:
//! each block knows who wrote it and who has read it since (`pool.rs`), and an event stands for what had been queued.
// Imports: `error`, `device`.

use crate::device::cuda::driver::context::Card;
use crate::device::cuda::memory::pool::Mark;
use crate::device::cuda::driver::nvrtc as compile;
use crate::device::cuda::driver::op_names as here;
use crate::device::cuda::driver::loading as library;
use crate::device::OperandRef;
use crate::error::{Error, Result};
use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a kernel was generated for: the types of body and reducer, and whatever else its source depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::device::cuda) struct Key {
    pub(in crate::device::cuda) mechanism: &'static str,
    pub(in crate::device::cuda) types: [TypeId; 2],
    pub(in crate::device::cuda) class: Vec<u32>,
}

/// A kernel that is loaded. It stays for the rest of the process.
#[derive(Clone, Copy)]
pub(in crate::device::cuda) struct Kernel(pub(in crate::device::cuda) sys::CUfunction);
// SAFETY: a number that the driver gave; it may be used from any thread that the context is current on.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// How many blocks and threads a kernel is started with.
#[derive(Clone, Copy, Debug)]
pub(in crate::device::cuda) struct Shape {
    pub(in crate::device::cuda) blocks: (u32, u32),
    pub(in crate::device::cuda) threads: u32,
    pub(in crate::device::cuda) shared: u32,
}

/// A number of blocks; more than there can be where it cannot be said in 32 bits, which `launch` refuses.
pub(in crate::device::cuda) fn count_of(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

pub(in crate::device::cuda) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The blocks that the work of a graph uses, and whether it writes them; those that were taken for it.
#[derive(Default)]
pub(in crate::device::cuda) struct Capture {
    pub(in crate::device::cuda) blocks: BTreeMap<usize, bool>,
    pub(in crate::device::cuda) own: BTreeSet<usize>,
}

/// A stream; see `Cuda`, which hands out handles.
pub(in crate::device::cuda) struct Stream {
    pub(in crate::device::cuda) card: &'static Card,
    /// Its number on the card.
    id: usize,
    raw: sys::CUstream,
    event: sys::CUevent,
    /// How much has been queued: a mark below this is of work that the driver has.
    ticket: AtomicU64,
    /// How much is known to be done.
    done: AtomicU64,
    /// How much of each other stream has been waited for.
    waited: Mutex<BTreeMap<usize, u64>>,
    /// Where kernels write which operation has begun, in memory of the host.
    begun: *mut i64,
    /// How many kernels were started, and how many of these are known to be done.
    started: AtomicU64,
    finished: AtomicU64,
    pub(in crate::device::cuda) capture: Mutex<Option<Capture>>,
    pub(in crate::device::cuda) multiprocessors: usize,
    pub(in crate::device::cuda) blas: Mutex<Option<crate::device::cuda::engine::cublas::Handle>>,
}
// SAFETY: numbers that the driver gave, which any thread may use; the driver locks for itself. `begun` is one word, which
// only kernels write.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream of the card, after everything that was queued on the main one.
    pub(in crate::device::cuda) fn new(card: &'static Card) -> Result<Arc<Stream>> {
        // SAFETY: makes a stream and an event, which stay for the rest of the process, as the word does. It is not the
        // default stream, which waits for others and cannot be captured.
        let (raw, event, begun) = unsafe {
            card.with("stream", || {
                let raw = result::stream::create(StreamKind::NonBlocking)?;
                let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
                let begun =
                    result::malloc_host(64, sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP)?
                        .cast::<i64>();
                begun.write(0);
                Ok((raw, event, begun))
            })
        }?;
        let mut streams = locked(&card.streams);
        let stream = Arc::new(Stream {
            card,
            id: streams.len(),
            raw,
            event,
            ticket: AtomicU64::new(0),
            done: AtomicU64::new(0),
            waited: Mutex::default(),
            begun,
            started: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            capture: Mutex::default(),
            multiprocessors: card.multiprocessors,
            blas: Mutex::default(),
        });
        streams.push(stream.clone());
        Ok(stream)
    }

    /// A stream for somebody's own: one that was given back, or a new one, after all that the main one has queued.
    pub(in crate::device::cuda) fn lend(card: &'static Card) -> Result<Arc<Stream>> {
        card.begin_noting();
        let idle = locked(&card.idle).pop();
        if let Some(idle) = idle {
            return Ok(idle);
        }
        let new = Stream::new(card)?;
        new.wait_for((0, u64::MAX))?;
        Ok(new)
    }

    /// Runs calls of the driver for this stream; `op` names what they are for.
    ///
    /// # Safety
    /// That of the calls.
    pub(in crate::device::cuda) unsafe fn with<T>(
        &self,
        op: &'static str,
        calls: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T> {
        // SAFETY: the caller's promise.
        unsafe { self.card.with(op, || calls(self.raw)) }
    }

    /// Which operation's kernel began last, if it is not known to be done.
    pub(in crate::device::cuda) fn last_begun(&self) -> Option<String> {
        if self.finished.load(Ordering::Acquire) == self.started.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: one word, which stays for the rest of the process; kernels write it whole.
        here::name(unsafe { self.begun.read_volatile() })
    }

    /// A kernel is about to be queued.
    pub(in crate::device::cuda) fn start(&self) {
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// Work of a library is about to be queued, whose kernels do not say that they begin.
    pub(in crate::device::cuda) fn begin(&self, op: &'static str) -> Result<()> {
        self.start();
        let (at, number) = (self.begun.addr() as u64, here::number(op) as u32);
        // SAFETY: the low half of a word of this stream's, which the card reaches at the host's address.
        unsafe { self.with(op, |stream| sys::cuMemsetD32Async(at, number, 1, stream).result()) }
    }

    /// Waits for all work of this stream.
    pub(in crate::device::cuda) fn synchronize(&self) -> Result<()> {
        self.reachable("synchronize")?;
        let (ticket, started) = (self.ticket.load(Ordering::Acquire), self.started.load(Ordering::Acquire));
        // SAFETY: the stream lives as long as the process.
        self.card
            .settled(unsafe { self.with("synchronize", |stream| result::stream::synchronize(stream)) })?;
        self.done.fetch_max(ticket, Ordering::AcqRel);
        self.finished.fetch_max(started, Ordering::AcqRel);
        Ok(())
    }

    /// An error while a graph is made of this stream's work: that cannot wait.
    pub(in crate::device::cuda) fn reachable(&self, op: &'static str) -> Result<()> {
        if locked(&self.capture).is_none() {
            return Ok(());
        }
        let what =
            "waits for the card, which the work of a graph cannot; do it before or after `capture`".into();
        Err(Error::Fault { op, what })
    }

    /// Runs an operation that writes and reads these operands, after all other streams' work that it must come after.
    pub(in crate::device::cuda) fn ordered<T>(
        &self,
        name: &'static str,
        writes: &[OperandRef<'_>],
        reads: &[OperandRef<'_>],
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        here::named(name, || {
            if let Some(_alone) = self.card.alone() {
                let done = work();
                self.ticket.fetch_add(1, Ordering::AcqRel);
                return done;
            }
            let operands = || {
                let writes = writes.iter().map(|slot| (slot.address.addr(), true));
                writes.chain(reads.iter().map(|slot| (slot.address.addr(), false)))
            };
            if locked(&self.capture).is_some() {
                self.note_captured(operands())?;
                return work();
            }
            self.settle(operands())?;
            let done = work();
            self.note(operands());
            done
        })
    }

    /// Waits, on the card, for what must come before these uses of memory: addresses, and whether they are written.
    pub(in crate::device::cuda) fn settle(&self, operands: impl Iterator<Item = (usize, bool)>) -> Result<()> {
        let mut marks: Vec<Mark> = Vec::new();
        {
            let memory = locked(&self.card.memory);
            for (address, write) in operands {
                marks.extend(memory.of(address).into_iter().flat_map(|(_, uses)| uses.before(write)));
            }
        }
        marks.into_iter().try_for_each(|mark| self.wait_for(mark))
    }

    /// Notes what was queued: nobody else can have used it in a way that matters since, because the caller borrowed it.
    pub(in crate::device::cuda) fn note(&self, operands: impl Iterator<Item = (usize, bool)>) {
        let mark = self.mark();
        let mut memory = locked(&self.card.memory);
        operands.for_each(|(address, write)| memory.note(address, mark, write));
    }

    /// All that has been queued until now.
    fn mark(&self) -> Mark {
        (self.id, self.ticket.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn note_captured(&self, operands: impl Iterator<Item = (usize, bool)>) -> Result<()> {
        let mut capture = locked(&self.capture);
        let Some(capture) = &mut *capture else { return Ok(()) };
        let mut memory = locked(&self.card.memory);
        for (address, write) in operands {
            let block = memory.of(address).map(|(block, _)| block);
            let Some(block) = block else { continue };
            if !memory.is_own(block) {
                let what =
                    "memory that somebody else owns may go before the graph does; copy it first".into();
                return Err(Error::Value { op: "capture", what });
            }
            *capture.blocks.entry(block).or_insert_with(|| {
                memory.pin(block);
                false
            }) |= write;
        }
        Ok(())
    }

    /// This stream goes on after another has come so far.
    fn wait_for(&self, (stream, mark): Mark) -> Result<()> {
        if stream == self.id {
            return Ok(());
        }
        let other = locked(&self.card.streams)[stream].clone();
        if other.done.load(Ordering::Acquire) >= mark {
            return Ok(());
        }
        let mut waited = locked(&self.waited);
        if waited.get(&stream).is_some_and(|&waited| waited >= mark) {
            return Ok(());
        }
        let _event = locked(&self.card.events);
        // What had a ticket before the event is recorded is before the event.
        let ticket = other.ticket.load(Ordering::Acquire);
        // SAFETY: streams and events live as long as the process.
        unsafe {
            self.with("stream", |own| {
                result::event::record(other.event, other.raw)?;
                result::stream::wait_event(own, other.event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
            })
        }?;
        waited.insert(stream, ticket);
        Ok(())
    }

    /// This stream goes on after all that a stream of any card has queued.
    pub(in crate::device::cuda) fn follow(&self, other: &Stream) -> Result<()> {
        let _event = locked(&other.card.events);
        // SAFETY: as above; an event may be waited for by another card.
        unsafe {
            other.with("stream", |stream| result::event::record(other.event, stream))?;
            self.with("stream", |own| {
                result::stream::wait_event(own, other.event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
            })
        }
    }

    /// Fresh bytes: never 0 of them, which the driver refuses.
    pub(in crate::device::cuda) fn allocate(&self, nbytes: usize) -> Result<*mut u8> {
        let at = |address: usize| std::ptr::without_provenance_mut::<u8>(address);
        if let Some(capture) = &mut *locked(&self.capture) {
            let mut memory = locked(&self.card.memory);
            if let Some(block) = memory.reuse_of(&capture.own, nbytes) {
                return Ok(at(block));
            }
            let found = memory.reuse(nbytes, self.id);
            drop(memory);
            let block = found.map_or_else(
                || self.take(nbytes),
                |(block, uses)| {
                    // The graph waits for its last users each time that it runs.
                    let mut memory = locked(&self.card.memory);
                    uses.before(true).for_each(|mark| memory.note(block, mark, false));
                    Ok(block)
                },
            )?;
            locked(&self.card.memory).pin(block);
            capture.blocks.insert(block, true);
            capture.own.insert(block);
            return Ok(at(block));
        }
        let found = locked(&self.card.memory).reuse(nbytes, self.id);
        let block = match found {
            None => self.take(nbytes)?,
            Some((block, uses)) => {
                let waited = uses.before(true).try_for_each(|mark| self.wait_for(mark));
                let mark = self.mark();
                let mut memory = locked(&self.card.memory);
                memory.note(block, mark, true);
                if let Err(error) = waited {
                    memory.give(block);
                    return Err(error);
                }
                block
            }
        };
        Ok(at(block))
    }

    /// A block of the driver's.
    fn take(&self, nbytes: usize) -> Result<usize> {
        let missing = || Error::OutOfMemory { op: "allocate", nbytes };
        let capacity = crate::device::cuda::memory::pool::Memory::capacity(nbytes).ok_or_else(missing)?;
        // What is kept may be what is missing; the work of a graph cannot wait for it.
        let trim = || if locked_try(&self.capture) { self.card.trim().map(|_| ()) } else { Err(missing()) };
        if !locked(&self.card.memory).allows(capacity) {
            trim()?;
            if !locked(&self.card.memory).allows(capacity) {
                return Err(missing());
            }
        }
        // SAFETY: asks for memory.
        let ask = || unsafe { self.with("allocate", |_| result::malloc_sync(capacity)) };
        let block = match ask() {
            Err(Error::OutOfMemory { .. }) => {
                trim()?;
                ask()
            }
            done => done,
        };
        let block = block
            .map_err(|error| if matches!(error, Error::OutOfMemory { .. }) { missing() } else { error })?
            as usize;
        locked(&self.card.memory).fresh(block, nbytes, capacity);
        Ok(block)
    }

    /// Gives back what [`allocate`](Self::allocate) gave; whoever has it next waits, on the card, for what was queued.
    pub(in crate::device::cuda) fn free(&self, address: *mut u8) {
        // Of work that was queued without noting what it uses, as on room for the length of a few kernels.
        let mark = (self.card.notes() && locked(&self.capture).is_none()).then(|| self.mark());
        let mut memory = locked(&self.card.memory);
        if let Some(mark) = mark {
            memory.note(address.addr(), mark, false);
        }
        memory.give(address.addr());
    }

    /// Writes zeros to blocks, after their last uses.
    pub(in crate::device::cuda) fn zero(&self, blocks: &BTreeSet<usize>) -> Result<()> {
        let uses = || blocks.iter().map(|&block| (block, true));
        self.settle(uses())?;
        for &block in blocks {
            let nbytes = locked(&self.card.memory).nbytes(block);
            // SAFETY: a block of so many bytes, which the caller keeps.
            unsafe { self.with("zero", |stream| result::memset_d8_async(block as u64, 0, nbytes, stream)) }?;
        }
        self.note(uses());
        Ok(())
    }

    /// The kernel of this key, generated and compiled where it is new: all sources define `kernel` (and others, if any).
    pub(in crate::device::cuda) fn kernel(&self, key: Key, source: impl FnOnce() -> String) -> Result<Kernel> {
        self.card.kernel(key, source)
    }

    /// Queues a kernel; its argument is a struct of 64-bit words, behind where to write which operation has begun.
    ///
    /// # Safety
    /// The words are what the kernel's source takes, and it keeps to memory that is there.
    pub(in crate::device::cuda) unsafe fn launch(
        &self,
        op: &'static str,
        kernel: Kernel,
        shape: Shape,
        words: &[i64],
    ) -> Result<()> {
        let (blocks, threads) = ([shape.blocks.0, shape.blocks.1, 1], [shape.threads, 1, 1]);
        // SAFETY: the caller's promise.
        unsafe { self.launch_grid(op, kernel, blocks, threads, shape.shared, words) }
    }

    /// As [`launch`](Self::launch), with all three numbers of blocks and threads.
    ///
    /// # Safety
    /// As there.
    pub(in crate::device::cuda) unsafe fn launch_grid(
        &self,
        op: &'static str,
        kernel: Kernel,
        blocks: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        words: &[i64],
    ) -> Result<()> {
        if blocks[0] > i32::MAX as u32 {
            return Err(Error::Fault {
                op,
                what: "more blocks than a card counts; cut the operation in parts".into(),
            });
        }
        if here::is_dry() {
            return Ok(());
        }
        let mut all = Vec::with_capacity(2 + words.len());
        all.extend([self.begun.addr() as i64, here::number(op)]);
        all.extend_from_slice(words);
        let mut arguments = [all.as_ptr().cast_mut().cast::<c_void>()];
        let ([bx, by, bz], [tx, ty, tz]) = (blocks, threads);
        self.card.launches.fetch_add(1, Ordering::Relaxed);
        self.start();
        // SAFETY: the caller's promise; the driver copies the words before it returns.
        unsafe {
            self.with(op, |stream| {
                result::launch_kernel(kernel.0, (bx, by, bz), (tx, ty, tz), shared, stream, &mut arguments)
            })
        }
    }

    /// Opens what must not be opened while a graph is made: the compiler and cuBLAS.
    pub(in crate::device::cuda) fn prepare(&self) -> Result<()> {
        compile::version()?;
        if library::open("cublas").is_ok() {
            self.open_blas()?;
        }
        Ok(())
    }
}

/// Whether a lock can be had, and holds nothing.
fn locked_try<T>(mutex: &Mutex<Option<T>>) -> bool {
    mutex.try_lock().is_ok_and(|held| held.is_none())
}
