//! Products that sum over axes (GEMM, GEMV, batches of them), of any layout, without a copy of the operands.
//!
//! | file | |
//! |---|---|
//! | `batches.rs` | a plan as a batch of products |
//! | `routes.rs` | the algorithm of a product, and the kernel of three element types |
//! | `problem.rs`, `axis_group.rs` | one product; several axes with one index |
//! | `tiny.rs` | matrices of a few elements |
//! | `gemv/` | a matrix times a vector |
//! | `blocked/` | every other product: the five loops of BLIS over packed panels |
//! | `panels.rs`, `packing.rs`, `store.rs` | panels; elements to panels; sums to elements |
//! | `prepacked.rs` | products whose right operand was packed before |
//! | `kernels/` | the microkernels |
//! | `fallback.rs` | elements without a kernel |
//!
//! The three element types select the kernel. The code is compiled once, in this crate, and not in the
//! calling crate.
// Imports: nothing.

// Panels have more forms than processors other than x86-64 have kernels for.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod axis_group;
mod batches;
mod blocked;
mod fallback;
mod gemv;
mod kernels;
mod packing;
mod panels;
mod prepacked;
mod problem;
mod routes;
mod store;
mod tasks;
mod tiny;

pub(super) use batches::run;
pub(super) use prepacked::{pack, packed_nbytes, run_packed, unpack};
