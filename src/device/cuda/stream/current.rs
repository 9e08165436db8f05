//! The current stream of this thread, to which the work of `Cuda::scope` goes.
// Imports: nothing.

use crate::device::cuda::driver::thread_state::during;
use crate::device::cuda::stream::queue::Stream;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static STREAMS: RefCell<Vec<Arc<Stream>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, whose operations on the GPU of `stream` go to `stream`.
pub(in crate::device::cuda) fn on_stream<T>(stream: Arc<Stream>, work: impl FnOnce() -> T) -> T {
    let restore = || drop(STREAMS.with_borrow_mut(|streams| streams.pop()));
    during(|| STREAMS.with_borrow_mut(|streams| streams.push(stream)), restore, work)
}

/// The current stream of a GPU, if this thread is inside a scope of that GPU.
pub(in crate::device::cuda) fn current_stream(ordinal: usize) -> Option<Arc<Stream>> {
    let is_of = |stream: &&Arc<Stream>| stream.gpu.context.ordinal == ordinal;
    STREAMS.with_borrow(|streams| streams.iter().rev().find(is_of).cloned())
}
