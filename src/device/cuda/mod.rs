//! NVIDIA's GPUs, through `cudarc`: programs are traced, written as CUDA C++, and compiled when they first
//! run.
//!
//! | folder | contents |
//! |---|---|
//! | `driver` | NVIDIA's libraries, the context of a GPU, compilation, the kernel cache |
//! | `memory` | blocks, the pool, copies of bytes, page-locked memory |
//! | `stream` | queues, their order, recorded work |
//! | `codegen` | CUDA C++ from programs |
//! | `engine` | one file for each mechanism |
//!
//! The work of a GPU goes to one stream, unless a program asks for more, and is done in the order of the
//! calls. Steps of floating-point numbers are those of IEEE 754, as on the CPU, and are never contracted:
//! elementwise results have the same bits as on the CPU, except for the bits of NaN.
// Imports: `error`, `element`, `kernel`, `device`.

mod codegen;
mod driver;
mod engine;
mod memory;
mod stream;

pub(crate) use codegen::types::c_type as c_name;
pub(crate) use engine::user_kernel::UserKernel;
pub use memory::block::CudaBlock;
pub(crate) use memory::byte_copies::QueuedCopy;
pub use stream::graph::CudaGraph;

use super::{Deleter, Device, Init, Inputs, MemoryStatistics, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::{Error, Result};
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use driver::lock::locked;
use driver::{context, loading, nvrtc, thread_state};
use engine::user_kernel::LaunchDims;
use engine::{copy, cublas, gather_scatter, map, matmul, reduce, rows, scan, sort, user_kernel};
use memory::{block, byte_copies, pinned};
use std::any::type_name;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stream::current::{current_scope, on_stream};
use stream::graph;
use stream::lease::StreamLease;
use stream::ordering::run_ordered;
use stream::queue::{Gpu, Stream};

/// A GPU of NVIDIA's.
///
/// A build needs nothing of CUDA: the driver and NVRTC are searched when the first GPU is opened. Clones are
/// the same GPU. GPUs of two ordinals have one type, and an operation on both is
/// [`Error::Device`](crate::Error::Device).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::Cuda;
/// let gpu = match Cuda::new(0) {
///     Ok(gpu) => gpu,
///     Err(missing) => return Ok::<(), rankform::Error>(println!("no GPU: {missing}")),
/// };
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(&gpu)?;
/// assert_eq!((x.lazy() * 2.0).sum(Axis::<1>)?.to_vec()?, [6.0, 14.0]);
/// # Ok(())
/// ```
///
/// # Order, synchronization, errors
/// Calls queue work and return; reading (`to_vec`, `item`) waits for it. Work is done in the order of the
/// calls. Work of two [streams](Cuda::stream) keeps that order wherever they use the same memory. An error on
/// the GPU itself is deferred: [`check`](Device::check), [`synchronize`](Device::synchronize) and reading
/// return it, with the name of the operation that failed.
///
/// * *An index out of bounds* is [`Error::Index`](crate::Error::Index), with the text that the CPU returns at
///   once. Kernels check indices where they use them: such an element is read as 0, and is not written. The
///   error is returned once, that of the first operation. A thread that works on a [stream](Cuda::stream) of
///   its own gets the errors of that stream; work of the main stream, those of all.
/// * *A fault* is [`Error::Fault`](crate::Error::Fault). After it the process cannot use the GPU any more.
///   Other calls are then refused, with that reason.
#[derive(Clone)]
pub struct Cuda {
    stream: Arc<Stream>,
    /// The lease of a stream that is not the main one.
    lease: Option<Arc<StreamLease>>,
    /// Whether products of f32 may use TF32.
    tf32: bool,
}

/// Counts of the work of a GPU; see [`Cuda::statistics`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaStatistics {
    /// Kernels that were queued, without those of graphs.
    pub launches: usize,
    /// Kernels that were compiled, and not found on disk.
    pub compiled: usize,
}

impl Cuda {
    /// Opens the GPU of this ordinal, from 0.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) without a driver;
    /// [`Error::NoDevice`](crate::Error::NoDevice) if there are fewer GPUs;
    /// [`Error::Fault`](crate::Error::Fault) with the report of the driver.
    pub fn new(ordinal: usize) -> Result<Cuda> {
        Gpu::main_stream(ordinal).map(|stream| Cuda { stream, lease: None, tf32: false })
    }

    /// The number of GPUs.
    ///
    /// # Errors
    /// As [`Cuda::new`], but no GPU is 0 and not an error.
    pub fn count() -> Result<usize> {
        context::count()
    }

    /// Whether there is a GPU.
    pub fn is_available() -> bool {
        Cuda::count().is_ok_and(|count| count > 0)
    }

    /// The ordinal of this GPU.
    pub fn ordinal(&self) -> usize {
        self.stream.gpu.context.ordinal
    }

    /// The same GPU with a stream of its own, whose work can run at the same time as that of other streams.
    ///
    /// The work of a tensor goes to the stream of its device, that of an operator to the stream of its first
    /// operand. Tensors of all streams of a GPU can be combined. If two streams use the same memory, the
    /// later work waits, on the GPU, for the earlier: before it reads written elements, writes elements that
    /// were read, or reuses freed memory. Results therefore do not depend on streams. The stream begins after
    /// all work that the main stream had queued when the stream was made, and is reused after its last handle
    /// is dropped.
    ///
    /// # Errors
    /// The report of the driver.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let second = gpu.stream()?;
    /// let x = Tensor::full([1000], 1.0f32, &gpu)?;
    /// let y = second.scope(|| x.exp())?; // on the stream of `second`, after `x` is written
    /// assert_eq!(x.add(&y)?.to_vec()?, x.exp()?.add(&x)?.to_vec()?); // on that of `x`, after `y` is written
    /// # Ok(())
    /// ```
    pub fn stream(&self) -> Result<Cuda> {
        let lease = StreamLease::checkout(self.stream.gpu)?;
        Ok(Cuda { stream: lease.stream().clone(), lease: Some(Arc::new(lease)), tf32: self.tf32 })
    }

    /// Runs `work`. Its operations on this GPU, from this thread, go to the stream of this handle, and follow
    /// its setting of [TF32](Cuda::with_tf32).
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        on_stream(self.stream.clone(), self.tf32, work)
    }

    /// The same GPU and stream, where matrix products of f32 and of `Complex<f32>` may use TF32, or may not. At
    /// first they may not.
    ///
    /// TF32 rounds the factors to 10 bits of fraction, a relative error of 2⁻¹¹ each, and adds in f32 on the
    /// tensor cores. It affects the products that cuBLAS computes: those of plain matrices. An operation
    /// follows the [scope](Cuda::scope) that it runs in, or else the device of its first operand; on a tape,
    /// the device that the tape was made with. Results have that device too. A recorded graph keeps the
    /// setting of the handle that recorded it.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let x = Tensor::full([64, 64], 0.1f32, &gpu)?;
    /// let exact = x.matmul(&x)?;
    /// let rounded = gpu.with_tf32(true).scope(|| x.matmul(&x))?;
    /// let error = (exact.lazy() - &rounded).abs().max(All)?.item()?;
    /// assert!(error < 0.64 * 0.001); // 2⁻¹⁰ of the result
    /// # Ok(())
    /// ```
    #[doc(alias = "allow_tf32")]
    pub fn with_tf32(&self, tf32: bool) -> Cuda {
        Cuda { tf32, ..self.clone() }
    }

    /// Runs `work` without running its kernels. Kernels that are new to this GPU are compiled and loaded, so
    /// that none is compiled later. Memory is allocated but not written, and reads give zeros.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// gpu.warm_up(|| Tensor::<f32, 2, Cuda>::zeros([64, 64], &gpu)?.softmax(Axis::<1>).map(|_| ()))?;
    /// let y = Tensor::full([64, 64], 1.0f32, &gpu)?.softmax(Axis::<1>)?; // compiles nothing
    /// assert_eq!(y.to_vec()?[0], 1.0 / 64.0);
    /// # Ok(())
    /// ```
    pub fn warm_up<T>(&self, work: impl FnOnce() -> T) -> T {
        thread_state::compile_only(work)
    }

    /// Counts of this GPU's work in this process.
    pub fn statistics(&self) -> CudaStatistics {
        let gpu = self.stream.gpu;
        CudaStatistics { launches: gpu.launches.load(Ordering::Relaxed), compiled: gpu.kernels.compiled() }
    }

    /// The bytes that the memory pool of this GPU holds now. Released blocks of every size are kept.
    pub fn memory(&self) -> MemoryStatistics {
        locked(&self.stream.gpu.pool).statistics
    }

    /// Limits the bytes of this GPU's memory that the process holds, in use and kept. At first there is no
    /// limit.
    ///
    /// Under a limit, a new block is one allocation of the driver. An allocation beyond the limit gives kept
    /// blocks back to the driver first, and is [`Error::OutOfMemory`](crate::Error::OutOfMemory) if that does
    /// not suffice. Blocks in use stay. Kept blocks stay until then; [`trim`](Cuda::trim) gives them back
    /// now.
    pub fn set_memory_limit(&self, nbytes: usize) {
        locked(&self.stream.gpu.pool).statistics.limit = nbytes;
    }

    /// Gives kept memory back to the driver, and returns the number of its bytes: all but that of segments
    /// which hold a block in use as well. Waits for all work.
    ///
    /// # Errors
    /// Those of the work.
    pub fn trim(&self) -> Result<usize> {
        block::trim(self.stream.gpu)
    }

    /// The stream to which the work of this thread goes.
    fn current_stream(&self) -> Arc<Stream> {
        current_scope(self.ordinal()).map_or_else(|| self.stream.clone(), |(stream, _)| stream)
    }

    /// Whether the products of this thread may use TF32.
    fn uses_tf32(&self) -> bool {
        current_scope(self.ordinal()).map_or(self.tf32, |(_, tf32)| tf32)
    }

    /// Runs an operation on the current stream, after all work on its operands that must come before it.
    fn run<T>(
        &self,
        name: &'static str,
        writes: &[OperandRef<'_>],
        reads: &[OperandRef<'_>],
        work: impl FnOnce(&Arc<Stream>) -> Result<T>,
    ) -> Result<T> {
        let stream = self.current_stream();
        run_ordered(&stream, name, writes, reads, || work(&stream))
    }

    /// Allocates page-locked host memory; `nbytes` is not 0.
    pub(crate) fn host_memory(&self, nbytes: usize) -> Result<*mut u8> {
        pinned::allocate(&self.stream, nbytes)
    }

    /// Gives back the memory of `host_memory`.
    ///
    /// # Safety
    /// 1. The memory is not used any more.   2. It is given back once.
    pub(crate) unsafe fn free_host(&self, address: *mut u8) {
        // SAFETY: (1) and (2) are the caller's promises.
        unsafe { pinned::free(&self.stream, address) }
    }

    /// Queues a copy of bytes from page-locked host memory.
    ///
    /// # Safety
    /// 1. As [`Device::write`].   2. The bytes do not change until the copy is complete.
    pub(crate) unsafe fn queue_write(
        &self,
        to: *mut u8,
        from: *const u8,
        nbytes: usize,
    ) -> Result<QueuedCopy> {
        // SAFETY: (1) and (2) are the caller's promises.
        self.run("upload", &[bytes_at(to)], &[], |stream| unsafe {
            byte_copies::queue_write(stream, to, from, nbytes)
        })
    }

    /// Queues a copy of bytes to page-locked host memory.
    ///
    /// # Safety
    /// 1. As [`Device::read`].   2. The bytes at `to` are not used until the copy is complete.
    pub(crate) unsafe fn queue_read(
        &self,
        from: *const u8,
        to: *mut u8,
        nbytes: usize,
    ) -> Result<QueuedCopy> {
        // SAFETY: (1) and (2) are the caller's promises.
        self.run("download", &[], &[bytes_at(from.cast_mut())], |stream| unsafe {
            byte_copies::queue_read(stream, from, to, nbytes)
        })
    }

    /// Queues a kernel from CUDA source: the numbers of its blocks and threads, the words of its argument,
    /// the memory that it writes and reads.
    ///
    /// # Safety
    /// 1. The words are those that the source takes.   2. With them it accesses only the memory named here.
    pub(crate) unsafe fn launch_source(
        &self,
        op: &'static str,
        kernel: &UserKernel,
        dims: LaunchDims,
        words: &[i64],
        writes: &[*mut u8],
        reads: &[*mut u8],
    ) -> Result<()> {
        user_kernel::ensure_words_fit(op, words)?;
        let (writes, reads): (Vec<_>, Vec<_>) =
            (writes.iter().map(|&at| bytes_at(at)).collect(), reads.iter().map(|&at| bytes_at(at)).collect());
        // SAFETY: (1) and (2) are the caller's promises.
        self.run(op, &writes, &reads, |stream| unsafe { user_kernel::run(stream, op, kernel, dims, words) })
    }

    /// Records the operations that the closure queues on this GPU, without running them.
    /// [`CudaGraph::replay`] runs them.
    ///
    /// The closure runs once, on this thread, and its work goes to a stream of its own. Memory that it
    /// allocates, reads or writes stays allocated until the graph is dropped. Each replay repeats writes in
    /// place, which all owners of the tensor see. Kernels are compiled while recording.
    ///
    /// # Errors
    /// Those of the closure. An operation that waits for the GPU (`to_vec`, `item`) is [`Error::Fault`]
    /// with that reason. Memory of another owner ([`Tensor::from_external`]) is [`Error::Value`]. The
    /// report of the driver. An index out of bounds in a replay is a deferred error.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let mut x = Tensor::full([2], 1.0f32, &gpu)?;
    /// let graph = gpu.capture(|| (x.lazy().exp() + 1.0).sum(All))?;
    /// graph.replay()?;
    /// assert!((graph.value().item()? - 7.4366).abs() < 1e-3);
    /// Tensor::from([0.0f32, 0.0]).copy_to(&mut x)?;
    /// graph.replay()?;
    /// assert_eq!(graph.value().item()?, 4.0);
    /// # Ok(())
    /// ```
    ///
    /// [`Tensor::from_external`]: crate::Tensor::from_external
    pub fn capture<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<CudaGraph<T>> {
        self.stream.ensure_not_capturing("capture")?;
        if current_scope(self.ordinal()).is_some_and(|(stream, _)| locked(&stream.capture).is_some()) {
            return Err(Error::Value { op: "capture", what: "this thread already records a graph".into() });
        }
        graph::capture(self.stream.gpu, self.tf32, open_libraries, work)
    }
}

/// Opens the libraries that cannot be opened while a graph is recorded: NVRTC and cuBLAS.
fn open_libraries(stream: &Stream) -> Result<()> {
    nvrtc::version()?;
    if loading::open("cublas").is_ok() {
        cublas::open(stream)?;
    }
    Ok(())
}

/// Bytes as an operand: only its address matters to the order of work.
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
        write!(f, "Cuda({}{})", self.ordinal(), if self.tf32 { ", TF32" } else { "" })
    }
}

// SAFETY: blocks come from the driver, aligned to 256 bytes. Kernels access only the elements of their sizes
// and strides. The work of one stream is in order, and that of several wherever they use the same memory
// (`stream/ordering.rs`).
unsafe impl Device for Cuda {
    type Block = CudaBlock;

    fn allocate(&self, nbytes: usize, init: Init) -> Result<CudaBlock> {
        CudaBlock::allocate(&self.current_stream(), nbytes, init)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CudaBlock> {
        // SAFETY: the caller's promise.
        Ok(unsafe { CudaBlock::external_block(&self.current_stream(), address, nbytes, free) })
    }

    fn address(block: &CudaBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise, as in all functions below.
        self.run("write", &[bytes_at(to)], &[], |stream| unsafe { byte_copies::write(stream, to, bytes) })
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: as above.
        self.run("read", &[], &[bytes_at(from.cast_mut())], |stream| unsafe {
            byte_copies::read(stream, from, bytes)
        })?;
        self.check()
    }

    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        numel: usize,
        element: usize,
    ) -> Result<bool> {
        let Some(other) = (from as &dyn std::any::Any).downcast_ref::<Cuda>() else { return Ok(false) };
        let nbytes = numel * element;
        if other == self {
            // SAFETY: as above.
            self.run("to", &[bytes_at(to)], &[bytes_at(address.cast_mut())], |stream| unsafe {
                byte_copies::copy_within(stream, to, address, nbytes)
            })?;
            return Ok(true);
        }
        // On the other GPU the copy is a use of these bytes: after their last write, and before their next
        // one.
        let from = other.current_stream();
        let record_read = || run_ordered(&from, "to", &[], &[bytes_at(address.cast_mut())], || Ok(()));
        record_read()?;
        // SAFETY: as above.
        self.run("to", &[bytes_at(to)], &[], |stream| unsafe {
            byte_copies::copy_across(stream, to, &from, address, nbytes)
        })?;
        record_read()?;
        Ok(true)
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: as above.
        self.run("copy", &[to], &[from], |stream| unsafe { copy::run(stream, sizes, to, from) })
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
                true => rows::run(stream, program, sizes, row, outputs, inputs),
                false => map::run(stream, program, sizes, outputs, inputs),
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
            reduce::run::<B, R>(stream, body, axes, output, inputs)
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
            matmul::run::<T, L, R>(stream, plan, self.uses_tf32(), output, left, right)
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
            scan::run::<B, R>(stream, body, plan, output, inputs)
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
        self.run(plan.op, &[to], &[cells, index], |stream| unsafe {
            gather_scatter::gather(stream, plan, to, cells, index)
        })
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
            gather_scatter::scatter::<T, F>(stream, plan, cells, from, index)
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
        self.run("compact", &[to], &[from, mask], |stream| unsafe {
            gather_scatter::compact(stream, sizes, to, from, mask)
        })
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
            sort::run::<T>(stream, "sort", plan, values, positions, from)
        })
    }

    /// Waits for the work of this handle's stream. The main handle of a GPU waits for all streams.
    fn synchronize(&self) -> Result<()> {
        let stream = self.current_stream();
        stream.ensure_not_capturing("synchronize")?;
        match self.lease {
            Some(_) => stream.synchronize()?,
            None => self.stream.gpu.synchronize()?,
        }
        self.check()
    }

    fn check(&self) -> Result<()> {
        self.current_stream().check()
    }
}
