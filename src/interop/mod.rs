//! Conversions from and to other libraries, without a copy if possible.
//!
//! | file | feature | |
//! |---|---|---|
//! | `dlpack/` | `dlpack` | DLPack, the protocol of NumPy, PyTorch and others |
//! | `faer.rs` `nalgebra.rs` | the same names | matrices |
//! | `half.rs` | `half` | 16-bit floats |
//! | `image.rs` | `image` | images |
//! | `ndarray.rs` | `ndarray` | arrays |
//! | `serde.rs` | `serde` | `Serialize`, `Deserialize` |
//! | `shared_memory.rs` | `shared-memory` | memory shared by processes, on Linux |
//!
//! The functions that borrow another library's memory are called `view` and `view_mut`, and `tensor` takes
//! ownership of it. The functions of the other direction have the names of the other library's types.
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
