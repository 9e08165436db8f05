//! Tensors typed by element, rank and device: `Tensor<T, RANK, D>`.
//!
//! A tensor is an [`Allocation`] on a device, shared and counted; a [`Layout`] of its own in it; and an element type.
//!
//! ```
//! use rankform::prelude::*;
//!
//! elementwise! {
//!     /// SiLU.
//!     fn swish(x) { x * x.sigmoid() }
//! }
//!
//! let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);      // Tensor<f64, 2>, on `Cpu`
//! let mean = x.mean(Axis::<0>)?;                                 // Tensor<f64, 1>
//! let y = (x.lazy() - mean.lift()).square().sum(Axis::<1>)?;     // one pass, no tensor in between
//! let z = x.map(swish)?;                                         // an operator of one's own
//! let dz = x.map(derivative::<_, 0>(swish))?;                    // its derivative
//! assert_eq!(y.to_vec()?, [6.75, 6.75]);
//! # assert_eq!((z.size(), dz.size()), (dim![2, 3], dim![2, 3]));
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! # Five things to know
//!
//! 1. **What is wrong does not compile.** Rank, device and element are types; `cargo check` finds a forgotten axis. Sizes
//!    are numbers and give an [`Error`] with both operands in it. Ranks never stretch by themselves: [`Tensor::lift`] and
//!    [`Tensor::insert_axis`] say where. A size of 1 stretches to any.
//! 2. **Nothing is copied or moved silently.** [`Tensor::copy`] makes new memory, [`Tensor::share_data`] another handle;
//!    [`Tensor::to`] goes to another device. Slices, permutations and windows are views, which borrow.
//! 3. **Writing needs the only handle**: `&mut` and nobody else on the memory; [`Error::Shared`] otherwise. There is no lock
//!    and no copy-on-write. [`Tensor::make_unique`] copies, if it must.
//! 4. **An operator is a body over lanes**, by [`elementwise!`]: one definition runs vectorised on the CPU, fused into
//!    lazy expressions and reductions, on every device, and has its [derivative](ops::derivative).
//! 5. **Named methods return `Result`**; `+ - * /` and indexing panic with the same text, as everywhere in Rust.
//!
//! Functions for any element, rank and device: [how to type them](expr#code-for-any-element-rank-and-device).
//!
//! # Reading order
//!
//! Modules use only what stands above them.
//!
//! | module | what |
//! |---|---|
//! | [`error`] | what can go wrong while a program runs |
//! | [`dim`](mod@dim), [`rank`], [`layout`] | sizes, relations of ranks, from an index to a position: integers only |
//! | [`dtype`] | names of element types at run time, their sizes, kinds and promotion |
//! | [`scalar`], [`element`] | what an operator's body may say; what a tensor may hold |
//! | [`kernel`] | what is to be computed: operators, bodies, reducers |
//! | [`device`] | where bytes live and how kernels run: [`Cpu`], [`Meta`], or your own |
//! | [`allocation`] | who owns the bytes |
//! | [`tensor`] | [`Tensor`], [`TensorView`], [`TensorViewMut`] |
//! | [`expr`] | operands and lazy expressions |
//! | [`ops`] | which operators exist |
//! | `cuda` | with that feature: copies that nobody waits for, graphs, kernels of one's own |
//! | [`quantised`] | [`QuantizedTensor`]: integers that stand for real numbers |
//! | [`sparse`] | [`SparseTensor`]: elements with their indices, rows as runs |
//! | `dynamic` | with that feature: `DynTensor`, whose element, rank and device are known at run time |
//! | `symbolic` `registry` `dispatch` | with `dynamic`: sizes as expressions of names; PyTorch's tensor types by name; operators by name |
//! | [`check`] | a device beside the CPU, for those who write one |
//! | [`io`] | files |
//! | [`interop`] | other libraries |
//!
//! # Features
//!
//! `threads` (default): large operations use every core. `rayon`: parallel iterators.
//! `dynamic`: types known at run time. `npz`, `safetensors`: files of these kinds; `.npy` and raw bytes need no feature.
//! `compiled`: builds with debug assertions compile loops too, where they would interpret programs.
//! `dlpack`: tensors of other libraries, without a copy. `ndarray`, `nalgebra`, `faer`, `half`, `image`, `serde`: interop
//! with these crates.
//! `shared-memory`: tensors of several processes. `cuda`: NVIDIA's graphics cards.
#![deny(missing_docs)]
/// Calls a function through a pointer: rustc's inliner for generic code, which visits all that lies below each function, stops there, and
/// LLVM sees a direct call (`DESIGN.md`, "What a user's build costs").
macro_rules! by_pointer {
    (@any $argument:expr) => { _ };
    ($function:expr, $($argument:expr),+) => { ($function as fn($(by_pointer!(@any $argument)),+) -> _)($($argument),+) };
}

pub mod allocation;
pub mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod dim;
#[cfg(feature = "dynamic")]
pub mod dispatch;
pub mod dtype;
#[cfg(feature = "dynamic")]
pub mod dynamic;
pub mod element;
pub mod error;
pub mod expr;
pub mod interop;
pub mod io;
pub mod kernel;
pub mod layout;
pub mod ops;
pub mod quantised;
pub mod rank;
#[cfg(feature = "dynamic")]
pub mod registry;
pub mod scalar;
mod shared;
pub mod sparse;
#[cfg(feature = "dynamic")]
pub mod symbolic;
pub mod tensor;

pub use allocation::{Allocation, ResizePolicy};
#[cfg(feature = "cuda")]
pub use device::Cuda;
pub use device::{AnyDevice, Cpu, Device, Meta};
pub use dim::{All, Axis, Dim, Last, Stride};
pub use dtype::DType;
#[cfg(feature = "dynamic")]
pub use dynamic::DynTensor;
pub use element::{
    Bitwise, Comparable, ComplexElement, Compute, Conjugate, Element, F8E4M3, F8E5M2, Float, Inexact, Number, QInt8, QInt32, QUInt8,
    RealNumber, Whole, Wider, bf16, f16,
};
pub use error::{Error, Result};
pub use layout::{Layout, MemoryFormat};
pub use num_complex::Complex;
pub use quantised::QuantizedTensor;
pub use rank::NewAxis;
pub use scalar::{Lane, Lanes};
pub use sparse::SparseTensor;
pub use tensor::{Metadata, Tensor, TensorView, TensorViewMut};

/// Everything that ordinary code uses: `use rankform::prelude::*;`
///
/// Operators are methods of traits, so that one definition serves tensors, views and lazy expressions; without this
/// line no operator is found.
pub mod prelude {
    pub use crate::expr::{Elementwise, Lazy, Operand, Reduce, Scan, Zip, apply, apply_in_place, apply_into, apply_many, apply_many_into};
    pub use crate::ops::{
        Activation, Arithmetic, Arrange, Cast, Channels, ClassLoss, ClassLosses, Comparisons, ComplexParts, Covariances, Histogram,
        Indexing, IndexingBySeveral, Lengths, Linear, Losses, Math, MaxPools, Norms, Pieces, Quantiles, Reductions, Resample, Runs, Scans,
        Sets, Shuffles, Sorts, Triangles, derivative,
    };
    pub use crate::ops::{attention::Attention, conv::Conv, pool::Pool, resample::Interpolate};
    pub use crate::rank::{NewAxis, Step};
    pub use crate::{All, Allocation, Axis, Cpu, Device, Dim, Last, Layout, MemoryFormat, Meta, Stride, Tensor, TensorView, TensorViewMut};
    pub use crate::{Bitwise, Comparable, ComplexElement, Compute, Conjugate, Element, Float, Inexact, Number, RealNumber, Whole};
    pub use crate::{Error, Lane, Lanes, Result, dim, einsum, einsum_into, elementwise};
}

/// The programs in the README compile, or do not, as it says.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// As above, of the page on the compiler's messages.
#[cfg(doctest)]
#[doc = include_str!("../docs/compile_errors.md")]
struct CompileErrors;
