//! Other libraries beside this one: tensors that come from them or go to them, without a copy where that can be.
//!
//! | file | |
//! |---|---|
//! | `dlpack.rs` | DLPack, which NumPy, PyTorch and others speak; feature `dlpack` |
//!
//! Imports: its own files.

#[cfg(feature = "dlpack")]
pub mod dlpack;
