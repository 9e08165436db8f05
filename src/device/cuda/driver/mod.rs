//! The lowest layer of CUDA: NVIDIA's libraries, the context of one GPU, machine code, the names of
//! operations, and the words that kernels write for the host.
// Imports: nothing.

pub(super) mod context;
pub(super) mod errors;
pub(super) mod index_report;
pub(super) mod kernel_cache;
pub(super) mod loading;
pub(super) mod lock;
pub(super) mod nvrtc;
pub(super) mod op_names;
pub(super) mod progress;
pub(super) mod thread_state;
