//! Forward mode as a device: each block has its values and, if they depend on a variable, a tangent: their
//! derivative along one direction.
//!
//! | content | file |
//! |---|---|
//! | the device and its methods | `jvp.rs` |
//! | functions that make the device | `functions.rs` |
//! | the blocks, and the operands of a kernel | `state.rs` |
//! | a function for each mechanism | `map.rs`, `rows.rs`, `reduce.rs`, `scan.rs`, `moves.rs`, `contract.rs` |
//! | the kernels | `programs.rs` |
// Imports: its own files.

mod contract;
mod device;
mod functions;
mod jvp;
mod loads;
mod map;
mod moves;
mod outputs;
mod programs;
mod reduce;
mod rows;
mod scan;
mod state;

pub use functions::{Primals, grad_and_hvp, jvp};
pub use jvp::Jvp;
pub use state::JvpBlock;
