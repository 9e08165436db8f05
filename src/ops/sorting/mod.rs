//! Sorts, and operators made of them: the largest, distinct elements, membership, searches.
// Imports: nothing.

mod groups;
mod membership;
pub(super) mod sort;
mod unique;

pub use membership::Membership;
pub use sort::{Side, Sorts, Unique};
pub use unique::{UniqueConsecutive, UniqueSlices};
