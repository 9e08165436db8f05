//! Other libraries beside this one: tensors that come from them or go to them, without a copy where that can be.
//!
//! | file | feature | |
//! |---|---|---|
//! | `dlpack.rs` | `dlpack` | DLPack, which NumPy, PyTorch and others speak |
//! | `faer.rs` `nalgebra.rs` | of that name | matrices |
//! | `half.rs` | `half` | 16-bit floats |
//! | `image.rs` | `image` | pictures |
//! | `ndarray.rs` | `ndarray` | arrays |
//! | `serde.rs` | `serde` | `Serialize`, `Deserialize` |
//! | `shared_memory.rs` | `shared-memory` | memory that several processes share, on Linux |
//!
//! The functions that look into another library's memory are called `view` and `view_mut`; `tensor` takes it over. Those of the
//! other way have the other library's words.
// Imports: its own files.

#[cfg(feature = "dlpack")]
pub mod dlpack;
#[cfg(feature = "faer")]
pub mod faer;
#[cfg(feature = "half")]
mod half;
#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "nalgebra")]
pub mod nalgebra;
#[cfg(feature = "ndarray")]
pub mod ndarray;
#[cfg(feature = "serde")]
mod serde;
#[cfg(all(feature = "shared-memory", target_os = "linux"))]
pub mod shared_memory;
