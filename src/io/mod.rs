//! Files: what a tensor is outside the program.
//!
//! | file | |
//! |---|---|
//! | `stored.rs` | `TensorBytes`: what can be written; what was read, its type not yet looked at |
//! | `file.rs` | files that are there whole or not at all; bytes that come in pieces |
//! | `dynamic.rs` | tensors whose types are known when they are read; feature `dynamic` |
//! | `npy.rs` | NumPy's `.npy` |
//! | `npz.rs` | NumPy's `.npz`, an archive of them; feature `npz` |
//! | `safetensors.rs` | many named tensors in one file, read or mapped; feature `safetensors` |
//! | `raw.rs` | the bytes alone |
//!
//! Every reader takes bytes from strangers: what a header claims is compared with what is there before anything follows
//! it, and memory grows with the bytes that came, not with those that were promised.
// Imports: its own files.

#[cfg(feature = "dynamic")]
mod dynamic;
mod file;
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
pub mod raw;
#[cfg(feature = "safetensors")]
pub mod safetensors;
mod tensor_bytes;

pub use file::Progress;
pub use tensor_bytes::{Order, TensorBytes};
