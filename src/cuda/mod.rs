//! What programs for graphics cards need beside operators: memory that cards copy by themselves, and kernels of one's own.
//!
//! | file | |
//! |---|---|
//! | `transfer.rs` | page-locked tensors of the host, and copies that nobody waits for |
//! | `source.rs` | CUDA source with typed operands |
// Imports: `device`.

mod user_kernel;
mod transfer;

pub use crate::device::Graph;
pub use user_kernel::{AllGiven, Given, Grid, In, Launching, Operand, Operands, Out, Placed, Source, Value};
pub use transfer::Pending;
