//! The lowest layer of CUDA: NVIDIA's libraries, the context of one GPU, machine code, and the names of
//! operations.
// Imports: nothing.

pub(super) mod context;
pub(super) mod errors;
pub(super) mod kernel_cache;
pub(super) mod loading;
pub(super) mod lock;
pub(super) mod nvrtc;
pub(super) mod op_names;
pub(super) mod progress;
pub(super) mod thread_state;
