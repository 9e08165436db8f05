//! Operators by name, on tensors whose types are known at run time. The operands select the kernel.
//!
//! | file | |
//! |---|---|
//! | `keys.rs` | [`DispatchKey`], [`DispatchKeySet`]: the keys that select a kernel, and their order |
//! | `context.rs` | [`Argument`], [`Dispatching`]: a kernel's arguments, and the context of its call |
//! | `kernel.rs` | [`Kernel`]: typed functions with erased types |
//! | `dispatcher.rs` | [`Dispatcher`]: names, kernels, fallbacks |
//! | `operators.rs` | the crate's own operators as kernels |
//! | `recording.rs` | the kernels of tensors on a tape, with `autograd` |
//! | `sparse.rs` | kernels of sparse matrices |
// Imports: its own files.

mod context;
mod dispatcher;
mod kernel;
mod keys;
mod operators;
#[cfg(feature = "autograd")]
mod recording;
mod sparse;

pub use context::{Argument, Dispatching};
pub use dispatcher::{Dispatcher, Handle};
pub use kernel::{Any, Class, Kernel, Parameter, Quantized, Sparse, View};
pub use keys::{DispatchKey, DispatchKeySet};
