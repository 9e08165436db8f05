//! CUDA graphs: work that is recorded once and launched again as a whole.
//!
//! A graph contains addresses. Its memory, which the recorded work reads, writes and allocates, therefore
//! stays allocated as long as the graph, also after every tensor in it is dropped.
// Imports: `error`.

use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::stream::current::on_stream;
use crate::device::cuda::stream::lease::StreamLease;
use crate::device::cuda::stream::ordering::{record_use, wait_for_dependencies};
use crate::device::cuda::stream::queue::{Capture, Gpu, Stream};
use crate::error::Result;
use cudarc::driver::result;
use cudarc::driver::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Operations recorded by [`Cuda::capture`](crate::Cuda::capture), and the value that its closure returned.
/// One call launches all of them again, without the host's work for each.
pub struct CudaGraph<T> {
    value: T,
    work: Work,
}

struct Work {
    lease: StreamLease,
    /// `None` if no operation was recorded.
    executable: Option<sys::CUgraphExec>,
    blocks: BTreeMap<usize, bool>,
}
// SAFETY: a number that the driver gave. One call at a time launches it, in the order of its stream.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl<T> CudaGraph<T> {
    /// The value that the closure returned. Its tensors hold the results of the last
    /// [`replay`](CudaGraph::replay), and zeros before the first.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Queues all operations again, on the memory with which they were recorded, after all work queued on
    /// that memory.
    ///
    /// # Errors
    /// The report of the driver. An index out of bounds is a deferred error, which the main stream returns: by
    /// [`check`](crate::Device::check), [`synchronize`](crate::Device::synchronize) or a read.
    pub fn replay(&self) -> Result<()> {
        let Work { lease, executable, blocks } = &self.work;
        let (stream, uses) = (lease.stream(), || blocks.iter().map(|(&block, &write)| (block, write)));
        let Some(executable) = *executable else { return Ok(()) };
        wait_for_dependencies(stream, uses())?;
        stream.count_kernel();
        // SAFETY: the graph is instantiated, and keeps its memory.
        let done = unsafe { stream.with("replay", |stream| result::graph::launch(executable, stream)) };
        record_use(stream, uses());
        done
    }
}

impl<T: fmt::Debug> fmt::Debug for CudaGraph<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaGraph").field("value", &self.value).finish_non_exhaustive()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let gpu = self.lease.stream().gpu;
        if gpu.context.is_forked() {
            return;
        }
        if let Some(executable) = self.executable {
            // SAFETY: made by `capture`, and destroyed once; the driver lets running work end first.
            let destroyed = unsafe { gpu.context.with("graph", || result::graph::exec_destroy(executable)) };
            if let Err(error) = destroyed {
                gpu.context.defer(error);
            }
        }
        let mut pool = locked(&gpu.pool);
        self.blocks.keys().for_each(|&block| pool.unpin(block));
    }
}

/// Records the work of a closure on a stream of its own, with TF32 in products or without. `prepare` runs
/// first: it opens libraries that cannot be opened while work is recorded.
///
/// # Errors
/// Those of `prepare` and `work`; the report of the driver.
pub(in crate::device::cuda) fn capture<T>(
    gpu: &'static Gpu,
    tf32: bool,
    prepare: impl FnOnce(&Stream) -> Result<()>,
    work: impl FnOnce() -> Result<T>,
) -> Result<CudaGraph<T>> {
    let lease = StreamLease::checkout(gpu)?;
    let stream = lease.stream();
    // Earlier work of the stream cannot be waited for while it records.
    stream.synchronize()?;
    prepare(stream)?;
    *locked(&stream.capture) = Some(Capture::default());
    let mut recording = GraphCapture { stream, open: true };
    // SAFETY: the lease makes the stream this graph's alone. The mode is relaxed because kernels are loaded
    // and memory is allocated while the stream records.
    let begun = unsafe {
        stream.with("capture", |stream| {
            result::stream::begin_capture(stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        })
    };
    let value = begun.and_then(|()| on_stream(stream.clone(), tf32, work));
    let recorded = recording.end();
    drop(recording);
    let Capture { blocks, own } = locked(&stream.capture).take().unwrap_or_default();
    // From here on the drop of `graph` unpins the blocks.
    let mut graph = Work { lease, executable: None, blocks };
    let value = value?;
    write_zeros(graph.lease.stream(), &own)?;
    let Some(recorded) = recorded? else { return Ok(CudaGraph { value, work: graph }) };
    let flags = sys::CUgraphInstantiate_flags_enum(0);
    // SAFETY: the graph was just recorded. The executable does not need it after the call.
    let executable = unsafe {
        recorded.gpu.context.with("capture", || result::graph::instantiate(recorded.graph, flags))
    }?;
    graph.executable = Some(executable);
    Ok(CudaGraph { value, work: graph })
}

/// Writes zeros to blocks, after their last uses.
fn write_zeros(stream: &Stream, blocks: &BTreeSet<usize>) -> Result<()> {
    let uses = || blocks.iter().map(|&block| (block, true));
    wait_for_dependencies(stream, uses())?;
    for &block in blocks {
        let nbytes = locked(&stream.gpu.pool).capacity_of(block);
        // SAFETY: the block has that many bytes, and the caller keeps it.
        unsafe { stream.with("zero", |stream| result::memset_d8_async(block as u64, 0, nbytes, stream)) }?;
    }
    record_use(stream, uses());
    Ok(())
}

/// A stream that records. If the closure panics, the drop ends the recording and keeps nothing.
struct GraphCapture<'a> {
    stream: &'a Stream,
    open: bool,
}

/// A recorded graph, until it is instantiated.
struct RecordedGraph {
    gpu: &'static Gpu,
    graph: sys::CUgraph,
}

impl Drop for RecordedGraph {
    fn drop(&mut self) {
        // SAFETY: recorded by `GraphCapture::end`, which gave it to this owner alone.
        let _ = unsafe { self.gpu.context.with("capture", || result::graph::destroy(self.graph)) };
    }
}

impl GraphCapture<'_> {
    fn end(&mut self) -> Result<Option<RecordedGraph>> {
        self.open = false;
        // SAFETY: the stream records since `capture`; if it does not, the driver reports that.
        let graph = unsafe { self.stream.with("capture", |stream| result::stream::end_capture(stream)) }?;
        Ok((!graph.is_null()).then_some(RecordedGraph { gpu: self.stream.gpu, graph }))
    }
}

impl Drop for GraphCapture<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let _ = self.end();
        if let Some(capture) = locked(&self.stream.capture).take() {
            let mut pool = locked(&self.stream.gpu.pool);
            capture.blocks.into_keys().for_each(|block| pool.unpin(block));
        }
    }
}
