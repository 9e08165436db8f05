//! Tensors typed by element, rank and device: `Tensor<T, RANK, D>`.
//!
//! A [`Tensor`] has a [`Layout`] (sizes, strides, offset) over an [`Allocation`]: a counted block of memory
//! on a [`Device`]. Operators are methods. They run at once, or as a [`Lazy`] expression in one pass over
//! memory.
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
//! let y = (x.lazy() - mean.lift()).square().sum(Axis::<1>)?;     // one pass, no intermediate tensor
//! let z = x.map(swish)?;                                         // a user-defined operator
//! let dz = x.map(derivative::<_, 0>(swish))?;                    // its derivative
//! assert_eq!(y.to_vec()?, [6.75, 6.75]);
//! # assert_eq!((z.size(), dz.size()), (dim![2, 3], dim![2, 3]));
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! # Types by task
//!
//! - **Hold elements**: [`Tensor`]; borrowed for reading [`TensorView`], for writing [`TensorViewMut`].
//! - **Compute**: the methods listed in [`ops`], **every operator by family**; [`Lazy`] fuses several into
//!   one pass; [`elementwise!`] defines new ones, [`einsum!`] sums products by index.
//! - **Solve and transform**: the functions of `linalg` and `fft` (features).
//! - **Name sizes and axes**: [`Dim`] and [`dim!`], [`Stride`], [`Axis`], [`All`], [`Last`], [`NewAxis`].
//! - **Choose elements**: Rust's numbers, `bool`, [`f16`](struct@f16), [`bf16`] and `Complex` of the crate
//!   `num-complex`; `DType` names them at run time. Other narrow types are in [`element`].
//! - **Choose a device**: [`Cpu`], [`Meta`] (sizes without data), `Cuda` (feature), [`AnyDevice`] at run
//!   time.
//! - **Control memory**: [`Allocation`], [`ResizePolicy`], [`MemoryFormat`], [`Layout`].
//! - **Write generic code**: [`Element`], [`Number`], [`Float`], [`Operand`], [`IntoView`], [`IntoViewMut`];
//!   see [functions for any element, rank and device](expr#code-for-any-element-rank-and-device).
//! - **Handle errors**: [`Error`], [`Result`].
//! - **Quantized, sparse, dynamically typed**: [`QuantizedTensor`], [`SparseTensor`], `DynTensor` (feature).
//! - **Read and write files, other libraries**: [`io`], [`interop`].
//!
//! The page `docs/names.md` lists the names of NumPy, PyTorch, ndarray and MATLAB with those of this crate.
//!
//! # Six rules
//!
//! 1. **Type errors are compile errors.** Rank, device and element are types: `cargo check` finds a forgotten
//!    axis. Sizes are numbers: a mismatch is an [`Error`] that contains both operands. Ranks never broadcast
//!    implicitly: [`Tensor::lift`] and [`Tensor::insert_axis`] add axes. A size of 1 broadcasts to any size.
//! 2. **Copies and moves are explicit.** [`Tensor::copy`] allocates new memory, [`Tensor::share_data`] makes
//!    another handle; [`Tensor::to`] copies to another device. Slices, permutations and windows are borrowed
//!    views.
//! 3. **Writing needs the only handle**: `&mut`, and no other handle on the memory; otherwise it is
//!    [`Error::Shared`]. Locks and copy-on-write do not exist. [`Tensor::make_unique`] copies if other
//!    handles exist.
//! 4. **An operator is a body over lanes**, defined by [`elementwise!`]: one definition runs vectorized on
//!    the CPU, fused into lazy expressions and reductions, on every device, and has its
//!    [derivative](ops::derivative).
//! 5. **Named methods return `Result`**; `+ - * /` and indexing panic with the same text, as usual in Rust.
//! 6. **Integers wrap**, `u8` and `i32` like all others, also in sums and products. An integer divided by 0
//!    is 0, because a kernel does not stop at one element. [`checked_div`](ops::CheckedDivision::checked_div)
//!    refuses 0 and quotients that wrap; a wider sum is `x.lazy().cast::<i64>().sum(All)?`.
//!
//! # Modules
//!
//! The order is the reading order: a module uses only those above it.
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | errors at run time |
//! | [`dim`](mod@dim), [`rank`], [`layout`] | sizes, ranks, positions of elements: integers only |
//! | [`dtype`] | names of element types at run time, their sizes, kinds and promotion |
//! | [`scalar`], [`element`] | the language of operator bodies; the element types |
//! | [`kernel`] | computations without devices: operators, bodies, programs, reducers |
//! | [`device`] | memory and mechanisms: [`Cpu`], [`Meta`], or your own device |
//! | [`allocation`] | ownership of memory |
//! | [`tensor`] | [`Tensor`], [`TensorView`], [`TensorViewMut`] |
//! | [`expr`] | operands and lazy expressions; generic code |
//! | [`ops`] | all operators |
//! | `linalg` | with that feature: linear algebra |
//! | `fft` | with that feature: Fourier transforms |
//! | `autograd` | with that feature: gradients of programs; structs of parameters |
//! | `cuda` | with that feature: asynchronous copies, graphs, user-defined kernels |
//! | [`quantized`] | [`QuantizedTensor`]: integers that represent real numbers |
//! | [`sparse`] | [`SparseTensor`]: elements with their indices (COO), compressed rows |
//! | `symbolic` | with `dynamic`: sizes as expressions of names |
//! | `dynamic` | with that feature: `DynTensor`, with element, rank and device known at run time |
//! | `torch_types` | with `dynamic`: PyTorch's tensor types by name |
//! | `dispatch` | with `dynamic`: operators by name |
//! | [`testing`] | differential tests of a device against the CPU, for authors of devices |
//! | [`io`] | files |
//! | `optim` | with `autograd`: optimizers |
//! | [`interop`] | other libraries |
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `threads` (default) | large operations use every core |
//! | `rayon` | parallel iterators |
//! | `autograd` | gradients, optimizers |
//! | `dynamic` | types known at run time |
//! | `npz`, `safetensors` | files of these formats; `.npy` and raw bytes need none, but for `npy::read_as` and `read_dyn` |
//! | `compiled` | builds with debug assertions compile loops instead of interpreting programs |
//! | `dlpack` | tensors of other libraries, without a copy |
//! | `ndarray`, `nalgebra`, `faer`, `half`, `image`, `serde` | conversions for these crates |
//! | `linalg` | solutions, factorizations, eigenvalues |
//! | `fft` | Fourier transforms |
//! | `shared-memory` | tensors of several processes |
//! | `cuda` | NVIDIA GPUs |
#![deny(missing_docs)]
/// Calls a function through a pointer. rustc's inliner for generic code visits all code below each function
/// and stops at the pointer; LLVM sees a direct call (`docs/decisions/0094-calls-through-pointers.md`).
macro_rules! by_pointer {
    (@any $argument:expr) => { _ };
    ($function:expr, $($argument:expr),+) => {
        ($function as fn($(by_pointer!(@any $argument)),+) -> _)($($argument),+)
    };
}

pub mod allocation;
#[cfg(feature = "autograd")]
pub mod autograd;
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
#[cfg(any(feature = "autograd", feature = "dynamic"))]
mod erased_memory;
pub mod error;
pub mod expr;
mod fallible;
#[cfg(feature = "fft")]
pub mod fft;
pub mod interop;
pub mod io;
pub mod kernel;
pub mod layout;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod ops;
#[cfg(feature = "autograd")]
pub mod optim;
pub mod quantized;
pub mod rank;
pub mod scalar;
pub mod sparse;
#[cfg(feature = "dynamic")]
pub mod symbolic;
pub mod tensor;
pub mod testing;
#[cfg(feature = "dynamic")]
pub mod torch_types;

// Inlined into the first page of the documentation; `element` shows numbers of 8 and 16 bits and complex
// ones.
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
#[doc(hidden)]
pub use element::float8::*;
#[doc(inline)]
pub use element::{
    Bitwise, Comparable, ComplexElement, Compute, Conjugate, Element, Float, Inexact, Integer, Number,
    RealNumber, WideningMul,
};
#[doc(hidden)]
pub use element::{QInt8, QInt32, QUInt8, bf16, f16};
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
pub use ops::{AttentionFloat, BoolElement, Packed, Pad, QuantileMethod, ScatterReduction, Side};
#[doc(inline)]
pub use quantized::{QuantizedElement, QuantizedTensor};
#[doc(inline)]
pub use rank::{HasAxes, NewAxis, SliceStep, Without};
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
pub use tensor::{IntoViewMut, MetadataLock, Tensor, TensorView, TensorViewMut};

/// Everything that ordinary code uses: `use rankform::prelude::*;`
///
/// Operators are methods of traits: one definition serves tensors, views and lazy expressions. Without this
/// line the compiler finds no operator. The relations of ranks are included because generic code names them
/// in bounds: `where Dim<RANK>: RemoveAxes<A, Output = Dim<M>>`.
pub mod prelude {
    pub use crate::expr::{Elementwise, IntoView, Lazy, Operand, Reduce, Scan, Zip};
    pub use crate::expr::{apply, apply_in_place, apply_into, apply_many, apply_many_into};
    pub use crate::ops::{
        Activation, Arithmetic, Arrange, Cast, Channels, CheckedDivision, ClassLoss, ClassLosses,
        Comparisons, ComplexParts, CosineSimilarity, Covariances, Histogram, Indexing, IndexingBySeveral,
        Linear, Losses, Math, MaxPools, Membership, Norms, Pieces, Quantiles, Reductions, Resample, Scans,
        Shuffles, Sorts, Triangles, UniqueConsecutive, derivative,
    };
    pub use crate::ops::{Attention, AttentionFloat, Conv, Interpolate, Pool};
    pub use crate::ops::{BoolElement, Packed, Pad};
    pub use crate::rank::{HasAxes, NewAxis, SliceStep, Spatial, Tensordot, Without};
    pub use crate::rank::{
        InsertAxis, IsRank4, IsRank5, LiftTo, Matmul, Rank, RankMinusOne, RemoveAxes, RemoveAxis,
        SliceOfRank, SliceSpec,
    };
    pub use crate::tensor::IntoViewMut;
    #[doc(hidden)]
    pub use crate::tensor::other_names::{
        NamesOfReading as _, NamesOfTensors as _, OtherFunctions as _, OtherNames as _,
    };
    // Also without a name: a user's type called `Linear` or `Activation` hides the name above, but not the
    // methods.
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
    #[cfg(feature = "autograd")]
    pub use crate::{autograd::ParameterTree, parameters};
}

/// The programs of a page compile and run. (The tests of the project compile the expressions of
/// `docs/names.md`, and the wrong programs of `docs/compile_errors.md`, whose fences are `rs`.)
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
    #[cfg(feature = "linalg")] LinearAlgebra "../docs/book/linear_algebra.md";
    #[cfg(feature = "fft")] FourierTransforms "../docs/book/fourier_transforms.md";
    Performance "../docs/book/performance.md";
    Accuracy "../docs/book/accuracy.md";
    #[cfg(feature = "autograd")] Gradients "../docs/book/gradients.md";
    #[cfg(all(feature = "autograd", feature = "dynamic"))]
    TypesAtRunTime "../docs/book/types_at_run_time.md";
    #[cfg(all(feature = "npz", feature = "safetensors"))] Files "../docs/book/files.md";
    #[cfg(all(feature = "dlpack", feature = "ndarray", feature = "nalgebra", feature = "serde"))]
    OtherLibraries "../docs/book/other_libraries.md";
}
