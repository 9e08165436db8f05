//! Tensors.
#![deny(missing_docs)]
pub mod allocation;
pub mod device;
pub mod dim;
pub mod element;
pub mod error;
pub mod expr;
pub mod kernel;
pub mod layout;
pub mod ops;
pub mod rank;
pub mod scalar;
mod shared;
pub mod tensor;

pub use allocation::{Allocation, ResizePolicy};
pub use device::{Cpu, Device, Meta};
pub use dim::{All, Axis, Dim, Stride};
pub use element::{Bitwise, Comparable, ComplexElement, Compute, Element, Float, Number, Whole};
pub use error::{Error, Result};
pub use layout::{Layout, MemoryFormat};
pub use rank::NewAxis;
pub use scalar::{Lane, Lanes};
pub use tensor::{Metadata, Tensor, TensorView, TensorViewMut};

/// Everything that ordinary code uses: `use rankform::prelude::*;`
///
/// Operators are methods of traits, so that one definition serves tensors, views and lazy expressions; without this
/// line no operator is found.
pub mod prelude {
    pub use crate::expr::{Elementwise, Lazy, Operand, Reduce, Zip, apply, apply_many};
    pub use crate::ops::{Activation, Arithmetic, Cast, Comparisons, ComplexParts, Math, Reductions, derivative};
    pub use crate::rank::{NewAxis, Step};
    pub use crate::{All, Allocation, Axis, Cpu, Device, Dim, Layout, MemoryFormat, Meta, Stride, Tensor, TensorView, TensorViewMut};
    pub use crate::{Bitwise, Comparable, ComplexElement, Compute, Element, Float, Number, Whole};
    pub use crate::{Error, Lane, Lanes, Result, dim, elementwise};
}

/// The programs in the pages compile, or do not, as the pages say.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/compile_errors.md")]
    mod compile_errors {}
}
