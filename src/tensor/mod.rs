//! Tensors and views: creation, layout, ownership, access to elements, conversion. Arithmetic is in
//! [`ops`](crate::ops).
//!
//! - **Create**: [`zeros`](Tensor::zeros), [`ones`](Tensor::ones), [`full`](Tensor::full),
//!   [`from_fn`](Tensor::from_fn), [`from_slice`](Tensor::from_slice), [`from_array`](Tensor::from_array),
//!   [`arange`](Tensor::arange), [`linspace`](Tensor::linspace), [`eye`](Tensor::eye).
//! - **Take over memory**: [`from_vec`](Tensor::from_vec), [`from_external`](Tensor::from_external),
//!   [`TensorView::from_slice`].
//! - **View**: [`slice`](Tensor::slice), [`permuted`](Tensor::permuted), [`transposed`](Tensor::transposed),
//!   [`reshape`](Tensor::reshape), [`lift`](Tensor::lift), [`broadcast_to`](Tensor::broadcast_to),
//!   [`windows`](Tensor::windows).
//! - **Write**: [`view_mut`](Tensor::view_mut), [`data_mut`](Tensor::data_mut),
//!   [`mutable_data`](Tensor::mutable_data).
//! - **Copy, share, move**: [`copy`](Tensor::copy), [`share_data`](Tensor::share_data),
//!   [`make_unique`](Tensor::make_unique), [`to`](Tensor::to), [`copy_to`](Tensor::copy_to).
//! - **Read on the host**: [`to_vec`](Tensor::to_vec), [`item`](Tensor::item),
//!   [`as_slice`](Tensor::as_slice), [`get`](Tensor::get), [`iter`](Tensor::iter).
//! - **Resize**: [`resize`](Tensor::resize), [`reserve`](Tensor::reserve), [`extend`](Tensor::extend),
//!   [`shrink_to`](Tensor::shrink_to).
//! - **Set the memory format**: [`to_format`](Tensor::to_format), [`restride`](Tensor::restride),
//!   [`is_contiguous`](Tensor::is_contiguous).
//! - **Compare**: `==` is exact; the macros of the crate `approx` compare within a tolerance.
//! - **Exchange bytes and handles**: [`as_bytes`](Tensor::as_bytes), [`from_bytes`](Tensor::from_bytes),
//!   [`into_raw`](Tensor::into_raw).
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
mod parts;
mod resize;
mod rule_operands;
#[allow(clippy::module_inception)] // the struct `Tensor` itself
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
#[cfg(feature = "dynamic")]
pub(crate) use tensor::HandleState;
#[cfg(any(feature = "autograd", feature = "dynamic"))]
pub(crate) use tensor::Parts;
pub use tensor::Tensor;
pub(crate) use view::Leaf;
pub use view::TensorView;
pub use view_mut::TensorViewMut;
