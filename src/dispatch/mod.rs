//! Operators by name, on tensors whose types are known at run time: which kernel runs is found by what the operands are.
//!
//! | file | |
//! |---|---|
//! | `keys.rs` | [`DispatchKey`], [`DispatchKeySet`]: what decides, and in which order |
//! | `kernel.rs` | [`Kernel`]: typed functions with their types taken off |
//! | `dispatcher.rs` | [`Dispatcher`]: names, kernels, fallbacks |
//! | `operators.rs` | the crate's own operators as kernels |
//! | `sparse.rs` | those of sparse matrices |
// Imports: its own files.

mod context;
mod dispatcher;
mod kernel;
mod keys;
mod operators;
mod sparse;

pub use context::{Argument, Dispatching};
pub use dispatcher::{Dispatcher, Handle};
pub use kernel::{Any, Class, Kernel, Parameter, Quantized, Sparse, View};
pub use keys::{DispatchKey, DispatchKeySet};
