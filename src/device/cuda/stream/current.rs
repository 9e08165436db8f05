//! The scope of this thread: the stream to which work goes, and its setting of products.
// Imports: nothing.

use crate::device::cuda::driver::thread_state::during;
use crate::device::cuda::stream::queue::Stream;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static SCOPES: RefCell<Vec<(Arc<Stream>, bool)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, whose operations on the GPU of `stream` go to `stream`, with TF32 in products or without.
pub(in crate::device::cuda) fn on_stream<T>(stream: Arc<Stream>, tf32: bool, work: impl FnOnce() -> T) -> T {
    let restore = || drop(SCOPES.with_borrow_mut(|scopes| scopes.pop()));
    during(|| SCOPES.with_borrow_mut(|scopes| scopes.push((stream, tf32))), restore, work)
}

/// The current stream of a GPU, and whether products use TF32 there, if this thread is inside a scope of that
/// GPU.
pub(in crate::device::cuda) fn current_scope(ordinal: usize) -> Option<(Arc<Stream>, bool)> {
    let is_of = |(stream, _): &&(Arc<Stream>, bool)| stream.gpu.context.ordinal == ordinal;
    SCOPES.with_borrow(|scopes| scopes.iter().rev().find(is_of).cloned())
}
