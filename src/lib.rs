//! Tensors typed by element, rank and device: `Tensor<T, RANK, D>`.
//!
//! A tensor is an [`Allocation`] on a device, shared and counted; a [`Layout`] of its own in it; and an element type.
//!
//! **Start with** [`Tensor`], [`TensorView`], [`Lazy`]; **every operator** stands in the table of [`ops`]. The page
//! `docs/names.md` has the names of NumPy, PyTorch and ndarray beside those of this crate. Elements are Rust's numbers,
//! [`f16`](struct@f16), [`bf16`], and `Complex` of the crate `num-complex`; all are at the root.
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
//! # Six things to know
//!
//! 1. **What is wrong does not compile.** Rank, device and element are types; `cargo check` finds a forgotten axis. Sizes
//!    are numbers and give an [`Error`] with both operands in it. Ranks never stretch by themselves: [`Tensor::lift`] and
//!    [`Tensor::insert_axis`] say where. A size of 1 stretches to any.
//! 2. **Nothing is copied or moved silently.** [`Tensor::copy`] makes new memory, [`Tensor::share_data`] another handle;
//!    [`Tensor::to`] goes to another device. Slices, permutations and windows are views, which borrow.
//! 3. **Writing needs the only handle**: `&mut` and nobody else on the memory; [`Error::Shared`] otherwise. There is no lock
//!    and no copy-on-write. [`Tensor::make_unique`] copies, if it must.
//! 4. **An operator is a body over lanes**, by [`elementwise!`]: one definition runs vectorized on the CPU, fused into
//!    lazy expressions and reductions, on every device, and has its [derivative](ops::derivative).
//! 5. **Named methods return `Result`**; `+ - * /` and indexing panic with the same text, as everywhere in Rust.
//! 6. **Integers wrap**, `u8` and `i32` as all others, in sums and products too, and an integer divided by 0 is 0, since a
//!    kernel does not stop at one element. [`checked_div`](ops::CheckedDivision::checked_div) refuses 0 and quotients that wrap; a wider sum is
//!    `x.lazy().cast::<i64>().sum(All)?`.
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
//! | [`quantized`] | [`QuantizedTensor`]: integers that stand for real numbers |
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
pub mod quantized;
pub mod rank;
#[cfg(feature = "dynamic")]
pub mod registry;
pub mod scalar;
mod shared;
pub mod sparse;
#[cfg(feature = "dynamic")]
pub mod symbolic;
pub mod tensor;

// Inlined, so that the first page shows what there is; numbers of 8 and 16 bits and complex ones are shown in `element`.
#[doc(inline)]
pub use allocation::{Allocation, ResizePolicy};
#[cfg(feature = "cuda")]
#[doc(inline)]
pub use device::Cuda;
#[doc(inline)]
pub use device::{AnyDevice, Cpu, Device, Meta};
#[doc(inline)]
pub use dim::{All, Axis, Dim, Last, Stride};
#[doc(inline)]
pub use dtype::DType;
#[cfg(feature = "dynamic")]
#[doc(inline)]
pub use dynamic::DynTensor;
#[doc(inline)]
pub use element::{
    Bitwise, Comparable, ComplexElement, Compute, Conjugate, Element, Float, Inexact, Integer, Number,
    RealNumber, WideningMul,
};
#[doc(hidden)]
pub use element::{F8E4M3, F8E5M2, QInt8, QInt32, QUInt8, bf16, f16};
#[doc(inline)]
pub use error::{Error, Result};
#[doc(inline)]
pub use expr::{Elementwise, Expr, IntoView, Lazy, Operand, Reduce, RightOperand, Scan, Zip};
#[doc(inline)]
pub use kernel::{Body, Op, Reducer};
#[doc(inline)]
pub use layout::{Layout, MemoryFormat};
#[doc(hidden)]
pub use num_complex::Complex;
#[doc(inline)]
pub use ops::{BoolElement, Packed, Pad, QuantileMethod, ScatterReduction, Side, attention::AttentionFloat};
#[doc(inline)]
pub use quantized::{QuantizedElement, QuantizedTensor};
#[doc(inline)]
pub use rank::{HasAxes, NewAxis, Step, Without};
#[doc(inline)]
pub use rank::{
    InsertAxis, IsRank4, IsRank5, LiftTo, Matmul, Rank, RankMinusOne, RemoveAxes, RemoveAxis, SliceOfRank,
    SliceSpec, Spatial, Tensordot,
};
#[doc(inline)]
pub use scalar::{Lane, Lanes};
#[doc(inline)]
pub use sparse::SparseTensor;
#[doc(inline)]
pub use tensor::{IntoViewMut, Metadata, Tensor, TensorView, TensorViewMut};

/// Everything that ordinary code uses: `use rankform::prelude::*;`
///
/// Operators are methods of traits, so that one definition serves tensors, views and lazy expressions; without this
/// line no operator is found. Relations of ranks are here too, since generic code names them in bounds:
/// `where Dim<RANK>: RemoveAxes<A, Output = Dim<M>>`.
pub mod prelude {
    pub use crate::expr::{Elementwise, IntoView, Lazy, Operand, Reduce, Scan, Zip};
    pub use crate::expr::{apply, apply_in_place, apply_into, apply_many, apply_many_into};
    pub use crate::ops::{
        Activation, Arithmetic, Arrange, Cast, Channels, CheckedDivision, ClassLoss, ClassLosses,
        Comparisons, ComplexParts, CosineSimilarity, Covariances, Histogram, Indexing, IndexingBySeveral,
        Linear, Losses, Math, MaxPools, Membership, Norms, Pieces, Quantiles, Reductions, Resample, Scans,
        Shuffles, Sorts, Triangles, UniqueConsecutive, derivative,
    };
    pub use crate::ops::{BoolElement, Packed, Pad};
    pub use crate::ops::{
        attention::Attention, attention::AttentionFloat, conv::Conv, pool::Pool, resample::Interpolate,
    };
    pub use crate::rank::{HasAxes, NewAxis, Spatial, Step, Tensordot, Without};
    pub use crate::rank::{
        InsertAxis, IsRank4, IsRank5, LiftTo, Matmul, Rank, RankMinusOne, RemoveAxes, RemoveAxis,
        SliceOfRank, SliceSpec,
    };
    pub use crate::tensor::IntoViewMut;
    #[doc(hidden)]
    pub use crate::tensor::names::{
        NamesOfReading as _, NamesOfTensors as _, OtherFunctions as _, OtherNames as _,
    };
    // Nameless too: a type of one's own called `Linear` or `Activation` hides the name above, but not the methods.
    #[doc(hidden)]
    pub use crate::expr::{Elementwise as _, Reduce as _, Scan as _, Zip as _};
    #[doc(hidden)]
    pub use crate::ops::{
        Activation as _, Arithmetic as _, Arrange as _, Cast as _, Channels as _, CheckedDivision as _,
        ClassLosses as _, Comparisons as _, ComplexParts as _, CosineSimilarity as _, Covariances as _,
        Histogram as _, Indexing as _, IndexingBySeveral as _, Linear as _, Losses as _, Math as _,
        MaxPools as _, Membership as _, Norms as _, Pieces as _, Quantiles as _, Reductions as _,
        Resample as _, Scans as _, Shuffles as _, Sorts as _, Triangles as _, UniqueConsecutive as _,
    };
    pub use crate::{
        All, Allocation, Axis, Cpu, Device, Dim, Last, Layout, MemoryFormat, Meta, Stride, Tensor,
        TensorView, TensorViewMut,
    };
    pub use crate::{
        Bitwise, Comparable, ComplexElement, Compute, Conjugate, Element, Float, Inexact, Integer, Number,
        RealNumber, WideningMul,
    };
    pub use crate::{Error, Lane, Lanes, Result, dim, einsum, einsum_into, elementwise};
}

/// The programs of a page compile and run, or do not compile, as the page says. (The tests of the project compile the
/// expressions of `docs/names.md`.)
#[cfg(doctest)]
macro_rules! pages {
    ($($(#[$on:meta])* $name:ident $path:literal;)*) => { $(
        $(#[$on])*
        #[doc = include_str!($path)]
        struct $name;
    )* };
}

#[cfg(doctest)]
pages! {
    Readme "../README.md";
    CompileErrors "../docs/compile_errors.md";
    GettingStarted "../docs/book/getting_started.md";
    FromNdarray "../docs/book/from_ndarray.md";
    FromPytorch "../docs/book/from_pytorch.md";
    FromEigen "../docs/book/from_eigen.md";
    ViewsAndOwnership "../docs/book/views_and_ownership.md";
    Operators "../docs/book/operators.md";
    Fusion "../docs/book/fusion.md";
    Reductions "../docs/book/reductions.md";
    GenericCode "../docs/book/generic_code.md";
    Devices "../docs/book/devices.md";
    Errors "../docs/book/errors.md";
    Performance "../docs/book/performance.md";
    Accuracy "../docs/book/accuracy.md";
    #[cfg(feature = "dynamic")] TypesAtRunTime "../docs/book/types_at_run_time.md";
    #[cfg(all(feature = "npz", feature = "safetensors"))] Files "../docs/book/files.md";
    #[cfg(all(feature = "dlpack", feature = "ndarray", feature = "nalgebra", feature = "serde"))]
    OtherLibraries "../docs/book/other_libraries.md";
}
