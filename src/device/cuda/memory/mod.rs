//! Memory of a GPU: blocks and their pool, copies of bytes, page-locked memory of the host, staging buffers.
// Imports: nothing.

pub(super) mod block;
pub(super) mod byte_copies;
pub(super) mod pinned;
pub(super) mod pool;
pub(super) mod staging;
