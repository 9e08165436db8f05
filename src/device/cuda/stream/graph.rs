//! Work that was recorded once and is started again as a whole.
//!
//! What the work reads, writes and allocates stays for as long as the graph does, whoever else drops it: its addresses are
//! in the graph.
// Imports: `error`.

use crate::device::cuda::driver::context::Card;
use crate::device::cuda::stream::queue::{Capture, Stream, locked};
use crate::device::cuda::Cuda;
use crate::device::cuda::Lease;
use crate::device::cuda::driver::op_names as here;
use crate::error::{Error, Result};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::collections::BTreeMap;
use std::fmt;

/// Operations that were recorded by [`Cuda::capture`], and what they gave: started again by one call, without the host's
/// work for each of them.
pub struct Graph<T> {
    value: T,
    work: Work,
}

struct Work {
    lease: Lease,
    /// None for no operations.
    ready: Option<sys::CUgraphExec>,
    blocks: BTreeMap<usize, bool>,
}
// SAFETY: a number that the driver gave; one call at a time starts it, in the order of its stream.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl<T> Graph<T> {
    /// What the closure returned: tensors in it hold what the last [`replay`](Graph::replay) computed, and zeros before.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Queues all operations again, on the memory that they were recorded with, after everything that was queued on it.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn replay(&self) -> Result<()> {
        let Work { lease, ready, blocks } = &self.work;
        let (stream, uses) = (&lease.0, || blocks.iter().map(|(&block, &write)| (block, write)));
        let Some(ready) = *ready else { return Ok(()) };
        stream.settle(uses())?;
        stream.start();
        // SAFETY: a graph that is ready, whose memory it keeps.
        let done = unsafe { stream.with("replay", |stream| result::graph::launch(ready, stream)) };
        stream.note(uses());
        done
    }
}

impl<T: fmt::Debug> fmt::Debug for Graph<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("value", &self.value).finish_non_exhaustive()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let card = self.lease.0.card;
        if card.is_forked() {
            return;
        }
        if let Some(ready) = self.ready {
            // SAFETY: made by `capture`, destroyed once; the driver lets what runs end first.
            if let Err(error) = unsafe { card.with("graph", || result::graph::exec_destroy(ready)) } {
                card.remember(error);
            }
        }
        let mut memory = locked(&card.memory);
        self.blocks.keys().for_each(|&block| memory.unpin(block));
    }
}

impl Cuda {
    /// Records what the closure queues on this card, without running it; [`Graph::replay`] runs all of it.
    ///
    /// The closure runs once, on this thread, and its work on a stream of its own. Memory that it allocates, reads or writes
    /// stays until the graph is dropped. A write in place is written again by each replay: whoever holds the tensor sees
    /// that. Kernels are compiled while recording.
    ///
    /// # Errors
    /// Those of the closure; an operation that waits for the card (`to_vec`, `item`, whatever looks at indices) is
    /// [`Error::Fault`] with that reason, and memory that somebody else owns ([`Tensor::from_external`]) is
    /// [`Error::Value`]. What the driver reports.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::Cuda;
    /// let Ok(card) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
    /// let mut x = Tensor::full([2], 1.0f32, &card)?;
    /// let graph = card.capture(|| (x.lazy().exp() + 1.0).sum(All))?;
    /// graph.replay()?;
    /// assert!((graph.value().item()? - 7.4366).abs() < 1e-3);
    /// Tensor::from([0.0f32, 0.0]).copy_to(&mut x)?;
    /// graph.replay()?;
    /// assert_eq!(graph.value().item()?, 4.0);
    /// # Ok(())
    /// ```
    ///
    /// [`Tensor::from_external`]: crate::Tensor::from_external
    pub fn capture<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Graph<T>> {
        self.stream.reachable("capture")?;
        if here::stream_of(self.ordinal()).is_some_and(|stream| locked(&stream.capture).is_some()) {
            return Err(Error::Value {
                op: "capture",
                what: "a graph is being made already by this thread".into(),
            });
        }
        let lease = Lease(Stream::lend(self.stream.card)?);
        let stream = &lease.0;
        // Nothing of what it did before can be waited for while it is recorded.
        stream.synchronize()?;
        stream.prepare()?;
        *locked(&stream.capture) = Some(Capture::default());
        let mut recording = Recording { stream, open: true };
        // SAFETY: the stream is this graph's alone. Relaxed: kernels are loaded and memory is asked for meanwhile.
        let begun = unsafe {
            stream.with("capture", |stream| {
                result::stream::begin_capture(
                    stream,
                    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
                )
            })
        };
        let value = begun.and_then(|()| here::on_stream(stream.clone(), work));
        let recorded = recording.end();
        drop(recording);
        let Capture { blocks, own } = locked(&stream.capture).take().unwrap_or_default();
        // From here on the blocks are given back when this is dropped.
        let mut graph = Work { lease, ready: None, blocks };
        let value = value?;
        graph.lease.0.zero(&own)?;
        let Some(recorded) = recorded? else { return Ok(Graph { value, work: graph }) };
        let flags = sys::CUgraphInstantiate_flags_enum(0);
        // SAFETY: a graph that was just recorded; what is made of it does not need it any more.
        let ready =
            unsafe { recorded.card.with("capture", || result::graph::instantiate(recorded.graph, flags)) }?;
        graph.ready = Some(ready);
        Ok(Graph { value, work: graph })
    }
}

/// A stream that records. Where the closure panics, it stops and nothing is kept.
struct Recording<'a> {
    stream: &'a Stream,
    open: bool,
}

/// What was recorded, until something has been made of it.
struct Recorded {
    card: &'static Card,
    graph: sys::CUgraph,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: recorded by `Recording::end`, and nobody else has it.
        let _ = unsafe { self.card.with("capture", || result::graph::destroy(self.graph)) };
    }
}

impl Recording<'_> {
    fn end(&mut self) -> Result<Option<Recorded>> {
        self.open = false;
        // SAFETY: the stream records since `capture`; the driver says so where it does not.
        let graph = unsafe { self.stream.with("capture", |stream| result::stream::end_capture(stream)) }?;
        Ok((!graph.is_null()).then_some(Recorded { card: self.stream.card, graph }))
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let _ = self.end();
        if let Some(capture) = locked(&self.stream.capture).take() {
            let mut memory = locked(&self.stream.card.memory);
            capture.blocks.into_keys().for_each(|block| memory.unpin(block));
        }
    }
}
