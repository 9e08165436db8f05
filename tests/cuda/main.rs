//! CUDA: without a card these tests say that they were skipped, and fail where `RANKFORM_REQUIRE_CUDA` is set.
//!
//! | file | |
//! |---|---|
//! | `operators.rs` | operators give what they give on the CPU |
//! | `queue.rs` | memory, order, late errors, graphs, copies, kernels of one's own |

mod operators;
mod queue;
