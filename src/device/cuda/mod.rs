//! NVIDIA's graphics cards, through `cudarc`: bodies are traced, written as CUDA C++ and compiled when they first run.
//!
//! | file | |
//! |---|---|
//! | `library.rs` `compile.rs` | finding NVIDIA's libraries; from source to machine code, kept on disk |
//! | `card.rs` `pool.rs` `memory.rs` | one card: its kernels, late errors; its memory |
//! | `stream.rs` `here.rs` `graph.rs` | a stream and its order beside others; what this thread does; recorded work |
//! | `emit.rs` `prelude.cuh` `geometry.rs` | from graphs to source; what sources begin with; index arithmetic |
//! | `map.rs` `tiles.rs` `rows.rs` `reduce.rs` `scan.rs` | kernels of bodies |
//! | `index.rs` `sort.rs` | moves, orders |
//! | `contract.rs` `blas.rs` | products: of any axes, of plain matrices |
//! | `source.rs` | kernels whose source a program brings |
//!
//! Work of a card is queued on one stream, unless a program asks for more, and done in the order of the calls. Steps of floating-point numbers are
//! those of IEEE 754, as on the CPU, never contracted: what is computed element by element has the same bits there, but for NaN.
// Imports: `error`, `element`, `kernel`, `device`.

mod codegen;
mod driver;
mod engine;
mod memory;
mod stream;

pub(crate) use codegen::source::c_type as c_name;
pub use stream::graph::Graph;
pub use memory::block::CudaBlock;
pub(crate) use memory::block::Queued;
pub(crate) use engine::user_kernel::SourceKernel;

use super::{Deleter, Device, Init, Inputs, MemoryStatistics, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::{Result, text};
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use driver::context as card;
use driver::context::Card;
use driver::op_names as here;
use std::any::type_name;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stream::queue::{Stream, locked};

/// A graphics card of NVIDIA's.
///
/// Nothing of CUDA is needed to build; the driver and NVRTC are looked for when the first card is asked for. Clones are the
/// same card; cards of two ordinals are of one type, and mixing them is [`Error::Device`](crate::Error::Device).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::Cuda;
/// let card = match Cuda::new(0) {
///     Ok(card) => card,
///     Err(missing) => return Ok::<(), rankform::Error>(println!("no card: {missing}")),
/// };
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(&card)?;
/// assert_eq!((x.lazy() * 2.0).sum(Axis::<1>)?.to_vec()?, [6.0, 14.0]);
/// # Ok(())
/// ```
///
/// # Order, waiting, errors
/// Calls queue work and return; reading (`to_vec`, `item`) waits for it. Work is done in the order of the calls, and work
/// of two [streams](Cuda::stream) in that order wherever it meets in memory. What goes wrong on the card itself comes later
/// than the call: [`check`](Device::check), [`synchronize`](Device::synchronize) and reading return it, with the name of
/// the operation that failed. Such an error ends the process's use of the card; other calls then refuse, and say why.
#[derive(Clone)]
pub struct Cuda {
    stream: Arc<Stream>,
    /// Of a stream that is somebody's own.
    lease: Option<Arc<Lease>>,
}

/// A stream that is lent again when this is dropped.
struct Lease(Arc<Stream>);

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.0.card.is_forked() {
            locked(&self.0.card.idle).push(self.0.clone());
        }
    }
}

/// What a card has done; see [`Cuda::statistics`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaStatistics {
    /// Kernels that were queued, graphs not counted.
    pub launches: usize,
    /// Kernels that were compiled, and not found on disk.
    pub compiled: usize,
}

/// What the driver reports, in words.
fn report(error: &cudarc::driver::result::DriverError) -> String {
    text(format_args!("the CUDA driver reports {error:?}"))
}

impl Cuda {
    /// The card of this number, from 0.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) without a driver, [`Error::NoDevice`](crate::Error::NoDevice) where there
    /// are fewer cards, [`Error::Fault`](crate::Error::Fault) with what the driver reports.
    pub fn new(ordinal: usize) -> Result<Cuda> {
        Card::of(ordinal).map(|stream| Cuda { stream, lease: None })
    }

    /// How many cards there are.
    ///
    /// # Errors
    /// As [`Cuda::new`]; no card is 0 and no error.
    pub fn count() -> Result<usize> {
        card::count()
    }

    /// Whether there is a card to use.
    pub fn is_available() -> bool {
        Cuda::count().is_ok_and(|count| count > 0)
    }

    /// The number of this card.
    pub fn ordinal(&self) -> usize {
        self.stream.card.ordinal
    }

    /// The same card with a stream of its own: what is queued on tensors of this device runs beside other streams' work.
    ///
    /// A tensor's work goes to the stream of its device, an operator's to that of its first operand; tensors of all streams
    /// of a card mix. Where two streams meet in memory the later one waits, on the card, for what the earlier had queued: to
    /// read what it wrote, to write what it read, to use memory again that it has given back. So results do not depend on
    /// streams; what runs at the same time does. The stream begins after all that was queued on the main one when it was
    /// made, and is used again when its last handle is gone.
    ///
    /// # Errors
    /// What the driver reports.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(card) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let beside = card.stream()?;
    /// let x = Tensor::full([1000], 1.0f32, &card)?;
    /// let y = beside.scope(|| x.exp())?; // on the stream `beside`, after `x` is there
    /// assert_eq!(x.add(&y)?.to_vec()?, x.exp()?.add(&x)?.to_vec()?); // on that of `x`, after `y` is there
    /// # Ok(())
    /// ```
    pub fn stream(&self) -> Result<Cuda> {
        let stream = Stream::lend(self.stream.card)?;
        Ok(Cuda { stream: stream.clone(), lease: Some(Arc::new(Lease(stream))) })
    }

    /// Runs `work`, whose operations on this card, from this thread, go to this handle's stream.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        here::on_stream(self.stream.clone(), work)
    }

    /// Runs `work` without its kernels: those that this card has not met are compiled and loaded, so that none is compiled
    /// later. Memory is allocated and not written; what is read is zeros.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(card) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// card.warm_up(|| Tensor::<f32, 2, Cuda>::zeros([64, 64], &card)?.softmax(Axis::<1>).map(|_| ()))?;
    /// let y = Tensor::full([64, 64], 1.0f32, &card)?.softmax(Axis::<1>)?; // at once
    /// assert_eq!(y.to_vec()?[0], 1.0 / 64.0);
    /// # Ok(())
    /// ```
    pub fn warm_up<T>(&self, work: impl FnOnce() -> T) -> T {
        here::dry(work)
    }

    /// What it has done in this process.
    pub fn statistics(&self) -> CudaStatistics {
        let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
        CudaStatistics {
            launches: count(&self.stream.card.launches),
            compiled: count(&self.stream.card.compiled),
        }
    }

    /// What the pool of this card's memory holds now. Blocks of every size are kept when they are given back.
    pub fn memory(&self) -> MemoryStatistics {
        locked(&self.stream.card.memory).statistics
    }

    /// How many bytes of this card's memory the process holds at most, in use and kept; no limit at first.
    ///
    /// An allocation beyond it gives back what is kept, and is [`Error::OutOfMemory`](crate::Error::OutOfMemory) if that
    /// does not do. What is in use stays, and what is kept stays until then; [`trim`](Cuda::trim) gives it back now.
    pub fn set_memory_limit(&self, nbytes: usize) {
        locked(&self.stream.card.memory).statistics.limit = nbytes;
    }

    /// Gives all free memory back to the driver; how many bytes that were. Waits for all work.
    ///
    /// # Errors
    /// Those of the work.
    pub fn trim(&self) -> Result<usize> {
        self.stream.card.trim()
    }

    /// The stream that this thread's work goes to.
    fn stream_here(&self) -> Arc<Stream> {
        here::stream_of(self.ordinal()).unwrap_or_else(|| self.stream.clone())
    }

    /// Runs an operation on the stream that this thread's work goes to, in the order that its operands ask for.
    fn run<T>(
        &self,
        name: &'static str,
        writes: &[OperandRef<'_>],
        reads: &[OperandRef<'_>],
        work: impl FnOnce(&Arc<Stream>) -> Result<T>,
    ) -> Result<T> {
        let stream = self.stream_here();
        stream.ordered(name, writes, reads, || work(&stream))
    }

    /// Page-locked memory of the host; not empty.
    pub(crate) fn host_memory(&self, nbytes: usize) -> Result<*mut u8> {
        self.stream.host_memory(nbytes)
    }

    /// Gives back what `host_memory` gave.
    ///
    /// # Safety
    /// Nobody uses it, and it is given back once.
    pub(crate) unsafe fn free_host(&self, room: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.stream.free_host(room) }
    }

    /// Queues a copy of bytes from the host.
    ///
    /// # Safety
    /// As [`Device::write`]; the bytes stay as they are until the copy is done.
    pub(crate) unsafe fn write_later(&self, to: *mut u8, from: *const u8, nbytes: usize) -> Result<Queued> {
        // SAFETY: the caller's promise.
        self.run("upload", &[bytes_at(to)], &[], |stream| unsafe { stream.write_later(to, from, nbytes) })
    }

    /// Queues a copy of bytes to the host.
    ///
    /// # Safety
    /// As [`Device::read`]; nobody looks at `to` until the copy is done.
    pub(crate) unsafe fn read_later(&self, from: *const u8, to: *mut u8, nbytes: usize) -> Result<Queued> {
        // SAFETY: the caller's promise.
        self.run("download", &[], &[bytes_at(from.cast_mut())], |stream| unsafe {
            stream.read_later(from, to, nbytes)
        })
    }
}

/// Bytes as an operand.
fn bytes_at(address: *mut u8) -> OperandRef<'static> {
    OperandRef { address, stride: &[], element: 1 }
}

impl PartialEq for Cuda {
    fn eq(&self, other: &Cuda) -> bool {
        self.ordinal() == other.ordinal()
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({})", self.ordinal())
    }
}

// SAFETY: blocks come from the driver, aligned to 256 bytes; kernels keep to the sizes and strides that they are given; the
// work of one stream is in order, and that of several wherever they meet (`Stream::ordered`).
unsafe impl Device for Cuda {
    type Block = CudaBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<CudaBlock> {
        CudaBlock::fresh(&self.stream_here(), nbytes, fresh)
    }

    unsafe fn from_external(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CudaBlock> {
        // SAFETY: the caller's promise.
        Ok(unsafe { CudaBlock::from_external(&self.stream_here(), address, nbytes, free) })
    }

    fn address(block: &CudaBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise; so below.
        self.run("write", &[bytes_at(to)], &[], |stream| unsafe { stream.write(to, bytes) })
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: as above.
        self.run("read", &[], &[bytes_at(from.cast_mut())], |stream| unsafe { stream.read(from, bytes) })
    }

    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        nbytes: usize,
    ) -> Result<bool> {
        let Some(other) = (from as &dyn std::any::Any).downcast_ref::<Cuda>() else { return Ok(false) };
        if other == self {
            // SAFETY: as above.
            self.run("to", &[bytes_at(to)], &[bytes_at(address.cast_mut())], |stream| unsafe {
                stream.copy_bytes(to, address, nbytes)
            })?;
            return Ok(true);
        }
        // On the other card's side it is a use of these bytes: after what wrote them, and before what writes them next.
        let from = other.stream_here();
        let using = || from.ordered("to", &[], &[bytes_at(address.cast_mut())], || Ok(()));
        using()?;
        // SAFETY: as above.
        self.run("to", &[bytes_at(to)], &[], |stream| unsafe {
            stream.copy_across(to, &from, address, nbytes)
        })?;
        using()?;
        Ok(true)
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: as above.
        self.run("copy", &[to], &[from], |stream| unsafe { stream.copy(sizes, to, from) })
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run(type_name::<P>(), outputs, inputs.slots, |stream| unsafe {
            match P::BY_ROWS {
                true => stream.rows(program, sizes, row, outputs, inputs),
                false => stream.map(program, sizes, outputs, inputs),
            }
        })
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run(type_name::<(R, B)>(), &[output], inputs.slots, |stream| unsafe {
            stream.reduce::<B, R>(body, axes, output, inputs)
        })
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run("contract", &[output], &[left, right], |stream| unsafe {
            stream.contract::<T, L, R>(plan, output, left, right)
        })
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run(type_name::<(R, B)>(), &[output], inputs.slots, |stream| unsafe {
            stream.scan::<B, R>(body, plan, output, inputs)
        })
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run(plan.op, &[to], &[cells, index], |stream| unsafe { stream.gather(plan, to, cells, index) })
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        _: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run(plan.op, &[cells], &[from, index], |stream| unsafe {
            stream.scatter::<T, F>(plan, cells, from, index)
        })
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        _: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        self.run("compact", &[to], &[from, mask], |stream| unsafe { stream.compact(sizes, to, from, mask) })
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let writes: Vec<_> = values.into_iter().chain(positions).collect();
        // SAFETY: as above.
        self.run("sort", &writes, &[from], |stream| unsafe {
            stream.sort::<T>(plan, values, positions, from)
        })
    }

    /// Waits for the work of this handle's stream; the card's main handle waits for all streams.
    fn synchronize(&self) -> Result<()> {
        let stream = self.stream_here();
        stream.reachable("synchronize")?;
        match self.lease {
            Some(_) => stream.synchronize()?,
            None => self.stream.card.synchronize()?,
        }
        self.check()
    }

    fn check(&self) -> Result<()> {
        self.stream.card.check()
    }
}
