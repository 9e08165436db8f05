//! memory
// Imports: nothing.

pub(super) mod block;
pub(super) mod pool;
