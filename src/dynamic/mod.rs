//! Tensors whose types are known at run time, as from files and other libraries, and their conversions to and
//! from typed tensors.
//!
//! | file | |
//! |---|---|
//! | `axes.rs` | sizes and strides of any rank |
//! | `tensor.rs` | [`DynTensor`] |
//! | `create.rs` | sources of tensors, copies |
//! | `views.rs` | other axes over the same memory |
//! | `conj_neg.rs` | conjugates and negatives as lazy views; casts |
//! | `extra.rs` | names of axes, data of a backend, errors of access |
//! | `named.rs` | operators on elements of a run-time type |
//! | `gradients.rs` | tensors on a tape, with `autograd` |
//! | `opaque.rs` | sparse and quantized tensors behind a handle |
//! | `ffi.rs` | handles for other languages: `include/rankform.h` |
//! | `visit.rs` | generic code for types known at run time |
//! | `display.rs` | printing |
// Imports: its own files.

pub(crate) mod axes;
mod conj_neg;
mod create;
mod display;
mod extra;
mod ffi;
#[cfg(feature = "autograd")]
mod gradients;
mod named;
mod opaque;
mod tensor;
mod views;
mod visit;

pub use axes::MAX_RANK;
pub use ffi::*;
pub(crate) use named::{NamedElementwise, Product, Reducing, Summing};
pub use opaque::Opaque;
pub use tensor::DynTensor;
pub(crate) use visit::by_dtype;
pub use visit::{ElementVisitor, NumberVisitor, TensorVisitor};
