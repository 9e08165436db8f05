//! stream
// Imports: nothing.

pub(super) mod graph;
pub(super) mod queue;
