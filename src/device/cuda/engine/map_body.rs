//! The body of an elementwise kernel, which `map.rs` and `transpose_map.rs` share.
// Imports: `error`, `scalar`.

use crate::error::Result;
use crate::scalar::Graph;
use std::any::TypeId;

/// A program that runs for each element, with its graph and the key of its kernel.
pub(in crate::device::cuda) struct MapBody<'a, P> {
    /// The types of the kernel's key.
    pub(in crate::device::cuda) types: [TypeId; 2],
    /// The numbers of the key, in addition to those of the layout.
    pub(in crate::device::cuda) key_numbers: &'a [u32],
    pub(in crate::device::cuda) graph: &'a dyn Fn() -> Result<Graph>,
    pub(in crate::device::cuda) program: &'a P,
}
