//! Elements by index and by mask: read, written, reduced.
// Imports: nothing.

pub(super) mod gather;
mod mask;
pub(super) mod multi_index;
mod one_hot;
pub(super) mod scatter;
mod scatter_reduce;

pub use gather::Indexing;
pub use multi_index::{IndexTuple, IndexingBySeveral};
pub use scatter::Replace;
pub use scatter_reduce::ScatterReduction;
