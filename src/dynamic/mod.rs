//! Tensors whose types are known at run time: what files and other libraries bring, and the way to typed code and back.
//!
//! | file | |
//! |---|---|
//! | `axes.rs` | sizes and strides of any rank |
//! | `memory.rs` | handles on memory of any device |
//! | `tensor.rs` | [`DynTensor`] |
//! | `create.rs` | where they come from, copies |
//! | `views.rs` | other axes over the same memory |
//! | `lazy.rs` | conjugates and negatives as lazy views; casts |
//! | `extra.rs` | names of axes, data of a backend, errors of access |
//! | `named.rs` | operators of elements that have a name |
//! | `opaque.rs` | sparse and quantized tensors behind a handle |
//! | `raw.rs` | handles for other languages: `include/rankform.h` |
//! | `visit.rs` | generic code for types known at run time |
//! | `display.rs` | printing |
// Imports: its own files.

pub(crate) mod axes;
mod conj_neg;
mod create;
mod device_memory;
mod display;
mod extra;
mod ffi;
mod named;
mod opaque;
mod tensor;
mod views;
mod visit;

pub use axes::MAX_RANK;
pub use ffi::*;
pub(crate) use named::{Elementwise, Product, Reducing, Summing};
pub use opaque::Opaque;
pub use tensor::DynTensor;
pub(crate) use visit::by_dtype;
pub use visit::{ElementVisitor, NumberVisitor, TensorVisitor};
