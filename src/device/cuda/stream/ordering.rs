//! The order of work on several streams of one GPU.
//!
//! Streams wait for each other where they use the same memory. The pool records for each block its last write
//! and the reads since (`memory/pool.rs`), as positions in streams. Before an operation uses a block, its
//! stream waits, on the GPU, for an event after the positions that must come first. With one stream nothing
//! is recorded.
// Imports: `error`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::driver::lock::locked;
use crate::device::cuda::driver::thread_state::in_operation;
use crate::device::cuda::memory::pool::StreamPosition;
use crate::device::cuda::stream::queue::Stream;
use crate::error::{Error, Result};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::sync::atomic::Ordering;

/// Runs an operation that writes and reads these operands, after all work of other streams that must come
/// before it.
///
/// # Errors
/// Those of `work`; the report of the driver; while a graph is recorded, [`Error::Value`] for memory of
/// another owner.
pub(in crate::device::cuda) fn run_ordered<T>(
    stream: &Stream,
    name: &'static str,
    writes: &[OperandRef<'_>],
    reads: &[OperandRef<'_>],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    in_operation(name, || {
        if let Some(_untracked) = stream.gpu.untracked() {
            let done = work();
            stream.queued.fetch_add(1, Ordering::AcqRel);
            return done;
        }
        let operands = || {
            let writes = writes.iter().map(|operand| (operand.address.addr(), true));
            writes.chain(reads.iter().map(|operand| (operand.address.addr(), false)))
        };
        if locked(&stream.capture).is_some() {
            record_captured_use(stream, operands())?;
            return work();
        }
        wait_for_dependencies(stream, operands())?;
        let done = work();
        record_use(stream, operands());
        done
    })
}

/// Makes the stream wait, on the GPU, for all work that must come before these uses: addresses, and whether
/// they are written.
pub(in crate::device::cuda) fn wait_for_dependencies(
    stream: &Stream,
    operands: impl Iterator<Item = (usize, bool)>,
) -> Result<()> {
    let mut positions: Vec<StreamPosition> = Vec::new();
    {
        let pool = locked(&stream.gpu.pool);
        for (address, write) in operands {
            positions.extend(pool.block_at(address).into_iter().flat_map(|(_, uses)| uses.before(write)));
        }
    }
    positions.into_iter().try_for_each(|position| wait_for(stream, position))
}

/// Records the uses of work that was queued. No conflicting use can have come in between: the caller borrows
/// the memory.
pub(in crate::device::cuda) fn record_use(stream: &Stream, operands: impl Iterator<Item = (usize, bool)>) {
    let position = next_position(stream);
    let mut pool = locked(&stream.gpu.pool);
    operands.for_each(|(address, write)| pool.record_use(address, position, write));
}

/// The position after all work that was queued until now.
pub(in crate::device::cuda) fn next_position(stream: &Stream) -> StreamPosition {
    (stream.id, stream.queued.fetch_add(1, Ordering::AcqRel) + 1)
}

/// Adds uses to the graph that the stream records. The graph keeps the blocks.
fn record_captured_use(stream: &Stream, operands: impl Iterator<Item = (usize, bool)>) -> Result<()> {
    let mut capture = locked(&stream.capture);
    let Some(capture) = &mut *capture else { return Ok(()) };
    let mut pool = locked(&stream.gpu.pool);
    for (address, write) in operands {
        let block = pool.block_at(address).map(|(block, _)| block);
        let Some(block) = block else { continue };
        if !pool.is_own(block) {
            let what = "memory of another owner may be freed before the graph; copy it first".into();
            return Err(Error::Value { op: "capture", what });
        }
        *capture.blocks.entry(block).or_insert_with(|| {
            pool.pin(block);
            false
        }) |= write;
    }
    Ok(())
}

/// Whether a position of a stream of the same GPU is known to be complete.
pub(in crate::device::cuda) fn is_known_complete(stream: &Stream, (id, position): StreamPosition) -> bool {
    stream.gpu.stream(id).completed.load(Ordering::Acquire) >= position
}

/// Makes the stream wait, on the GPU, for a position of another stream of the same GPU.
pub(in crate::device::cuda) fn wait_for(stream: &Stream, (id, position): StreamPosition) -> Result<()> {
    if id == stream.id {
        return Ok(());
    }
    if is_known_complete(stream, (id, position)) {
        return Ok(());
    }
    let other = stream.gpu.stream(id);
    let mut waited = locked(&stream.waited);
    if waited.get(&id).is_some_and(|&waited| waited >= position) {
        return Ok(());
    }
    let _event = locked(&stream.gpu.events);
    // Work counted before the event is recorded is before the event.
    let queued = other.queued.load(Ordering::Acquire);
    // SAFETY: streams and events live as long as the process.
    unsafe {
        stream.with("stream", |own| {
            result::event::record(other.event, other.raw)?;
            result::stream::wait_event(own, other.event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
        })
    }?;
    waited.insert(id, queued);
    Ok(())
}

/// Makes the stream wait, on the GPU, for all work that a stream of any GPU has queued.
pub(in crate::device::cuda) fn wait_for_all(stream: &Stream, other: &Stream) -> Result<()> {
    let _event = locked(&other.gpu.events);
    // SAFETY: streams and events live as long as the process; another GPU may wait for an event.
    unsafe {
        other.with("stream", |stream| result::event::record(other.event, stream))?;
        stream.with("stream", |own| {
            result::stream::wait_event(own, other.event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
        })
    }
}
