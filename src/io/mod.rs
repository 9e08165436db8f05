//! Tensors in files.
//!
//! | file | |
//! |---|---|
//! | `tensor_bytes.rs` | `TensorBytes`: a tensor for writing; the description of a tensor in a file |
//! | `file.rs` | files that are written completely or not at all; bytes that are read in chunks |
//! | `dynamic.rs` | tensors whose types are known when they are read; feature `dynamic` |
//! | `npy/` | NumPy's `.npy` |
//! | `npz.rs` | NumPy's `.npz`, an archive of them; feature `npz` |
//! | `safetensors/` | many named tensors in one file, read or mapped; feature `safetensors` |
//! | `raw.rs` | the bytes without a header |
//!
//! Every reader takes untrusted bytes: the claims of a header are compared with the file before they are
//! used, and memory grows with the bytes that arrive, not with those that are claimed.
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
