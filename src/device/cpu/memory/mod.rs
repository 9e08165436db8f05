//! Memory of the host: blocks, the pool that keeps them, scratch space, hints and stores for the caches.
// Imports: nothing of the crate.

mod block;
pub(crate) mod non_temporal;
pub(crate) mod pool;
pub(crate) mod prefetch;
pub(crate) mod scratch;

pub use block::CpuBlock;
pub(crate) use pool::alignment;
pub use pool::{MemoryStatistics, NoAllocGuard};
