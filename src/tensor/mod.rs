//! Tensors: a shared allocation and a layout of one's own in it; views that borrow; everything but arithmetic.
//!
//! | file | |
//! |---|---|
//! | `handle.rs` | `Tensor`: the struct, its invariants, its metadata |
//! | `view.rs` `view_mut.rs` | `TensorView`, `TensorViewMut`: the borrowed forms |
//! | `layouts.rs` | slice, permute, lift, broadcast, … of all three |
//! | `share.rs` | copy, share, move between devices, uniqueness, cells |
//! | `format.rs` | strides and memory formats: set, asked |
//! | `raw.rs` | handles that cross a language border |
//! | `any.rs` | the same memory on a device that is a type, or chosen at run time |
//! | `resize.rs` | lazy allocation, resize, reserve, extend, shrink |
//! | `create.rs` `adopt.rs` | where tensors come from |
//! | `place.rs` | where results go: `IntoViewMut`, fresh memory or memory that is there |
//! | `host.rs` `iter.rs` | elements on the CPU: slices, indexing, iterators |
//! | `bytes.rs` | elements as bytes, in pieces |
//! | `display.rs` | printing |
//! | `complex.rs` | complex numbers as pairs of reals, and back |
//! | `compare.rs` | equality, exact and approximate; bytes |
//! | `names.rs` | names that other libraries use, and what to write for them |
// Imports: its own files.

mod any_device;
mod bytes;
mod complex;
mod cpu_access;
mod create;
mod display;
mod eq;
mod external;
mod ffi;
mod iter;
mod memory_format;
#[doc(hidden)]
pub mod other_names;
mod output;
mod ownership;
mod resize;
#[allow(clippy::module_inception)] // the file of the struct `Tensor`
mod tensor;
mod view;
mod view_mut;
mod views;

#[cfg(feature = "dynamic")]
pub(crate) use bytes::Strided;
pub use create::NestedArray;
#[cfg(feature = "dynamic")]
pub(crate) use display::{Cell, Cells, decode};
pub use external::AsAtomic;
#[cfg(feature = "rayon")]
pub use iter::ParElements;
pub use iter::{Elements, Iter, IterMut, Reference};
pub use output::IntoViewMut;
pub(crate) use output::{Allocate, Destination, Existing};
pub use ownership::MetadataLock;
pub use tensor::Tensor;
#[cfg(feature = "dynamic")]
pub(crate) use tensor::{Parts, State};
pub(crate) use view::Leaf;
pub use view::TensorView;
pub use view_mut::TensorViewMut;
