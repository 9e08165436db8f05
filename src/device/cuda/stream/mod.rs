//! Streams: the queues of a GPU, the order of work on several of them, and recorded work.
// Imports: nothing.

pub(super) mod current;
pub(super) mod graph;
pub(super) mod lease;
pub(super) mod ordering;
pub(super) mod queue;
