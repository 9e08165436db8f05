//! Counts of elements, and combinations of them.
// Imports: nothing.

mod bincount;
mod combinations;
mod histogram;

pub use histogram::{Bins, Counts, Histogram};
