//! Gradients of tensor programs.
//!
//! A [`Tape`] is a device. A tensor on a tape is an ordinary [`Tensor`], and every operator, expression, view
//! and update in place works on it. Code that is generic over its device is therefore differentiable as it
//! is:
//!
//! ```
//! use rankform::autograd::value_and_grad;
//! use rankform::prelude::*;
//!
//! /// The scores of a linear model, on any device.
//! fn scores<D: Device>(x: &Tensor<f64, 2, D>, w: &Tensor<f64, 1, D>) -> Result<Tensor<f64, 1, D>> {
//!     x.matmul(w)
//! }
//!
//! let (x, y) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([1.0, 1.0]));
//! let w = Tensor::from([0.5, -0.5]);
//! let (loss, gradient) = value_and_grad(&w, |w, tape| {
//!     let distance = scores(&tape.constant(&x)?, w)? - tape.constant(&y)?;
//!     distance.lazy().square().mean(All)
//! })?;
//! assert_eq!((loss.item()?, gradient.to_vec()?), (2.25, vec![-6.0, -9.0]));
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! | task | function |
//! |---|---|
//! | a value and its gradients | [`value_and_grad`], [`grad`] |
//! | step by step | [`Tape::watch`], [`Tape::constant`], [`Tape::backward`], [`Gradients::of`] |
//! | a vector-Jacobian product | [`Tape::vjp`] |
//! | a derivative along one direction | [`jvp`], the device [`Jvp`] |
//! | the product of a Hessian and a vector | [`hvp`], [`grad_and_hvp`] |
//! | an operator with its own derivative | [`Tape::custom`] |
//! | less memory for more time | [`Tape::checkpoint`] |
//! | the parameters of a model as a struct | [`parameters!`](crate::parameters), [`ParameterTree`] |
//! | training | [`optim`](crate::optim) |
//! | a comparison with finite differences | [`gradient_error`] |
//!
//! Tensors of other kinds follow from their dense parts:
//!
//! | tensor | on a tape |
//! |---|---|
//! | `DynTensor`, feature `dynamic` | `on_tape`, `set_requires_grad`, `backward`; `Gradients::of_dyn` |
//! | [`SparseTensor`](crate::SparseTensor) | gradients of its values, which are a tensor on the tape |
//! | [`Packed`](crate::Packed) | gradients of the matrix that was packed; the tape keeps it in rows |
//! | [`QuantizedTensor`](crate::QuantizedTensor) | a constant: rounding has no slope, see [`Tape::custom`] |
// Imports: `error`, `dim`, `element`, `device`, `tensor`.
//
// | content | file |
// |---|---|
// | the tape's methods; `value_and_grad` and other functions | `tape.rs`, `constant.rs`, `functions.rs` |
// | the tape as a device: a function for each mechanism | `device.rs` |
// | the recording: blocks, steps, operands that are saved | `state.rs`, `blocks.rs`, `step.rs` |
// | facts about a program that decide what is saved | `facts.rs` |
// | the backward pass: buffers, sums of contributions | `backward.rs`, `parts.rs`, `overlap.rs` |
// | the inner device without its type | `inner.rs`, `real_view.rs` |
// | recording; the backward functions of `map` and `reduce` | `record.rs`, `map.rs`, `reduce.rs` |
// | those of row constants, `contract`, `scan` | `rows.rs`, `contract.rs`, `scan.rs` |
// | those of `scatter`, and of `gather`, `compact`, `sort`, `copy` | `scatter.rs`, `moves.rs` |
// | the backward pass of row programs by blocks of rows | `row_blocks.rs` |
// | recurrences of the first order as scans | `recurrence.rs` |
// | the kernels of the backward pass | `vjp.rs`, `cells.rs`, `sums.rs` |
// | gradients of operands that are broadcast, by blocks | `broadcast.rs` |
// | a user's operators with their own derivative, checkpoints | `custom.rs` |
// | parameters: trees, tuples, names | `tree.rs`, `parameters.rs`, `containers.rs`, `name.rs` |
// | the macro `parameters!` | `define.rs` |
// | tensors whose types are known at run time | `untyped.rs` |
// | operators that state their own backward pass | `ruled.rs` |
// | forward mode | `forward/` |

/// Evaluates a call on the state that the clones of a device share.
macro_rules! on_shared {
    ($own:expr, |$shared:ident| $call:expr) => {{
        let $shared = &$own.shared;
        $call
    }};
}

mod backward;
mod blocks;
mod broadcast;
mod cells;
mod constant;
mod containers;
mod contract;
mod custom;
mod define;
mod device;
mod facts;
mod forward;
mod functions;
mod inner;
mod kernels;
mod map;
mod moves;
mod name;
mod overlap;
mod parameters;
mod parts;
mod real_view;
mod record;
mod recurrence;
mod reduce;
mod row_blocks;
mod rows;
mod ruled;
mod scan;
mod scatter;
mod small_vec;
mod state;
mod step;
mod sums;
mod tape;
mod temporary;
mod tree;
#[cfg(feature = "dynamic")]
mod untyped;
mod vjp;

pub use constant::IntoConstant;
pub use containers::Buffer;
pub use custom::TapeOperands;
pub use forward::{Jvp, JvpBlock, Primals, grad_and_hvp, jvp};
pub use functions::{grad, gradient_error, hvp, value_and_grad};
pub use name::Name;
pub use parameters::{Parameters, ParametersMut};
pub use state::TapeBlock;
pub use tape::{Gradients, Tape};
pub use tree::{ParameterTree, ParameterVisitor, TensorMap};

use crate::device::{Cpu, Device};
use crate::dim::Axis;
use crate::element::{Compute, Float, Inexact, bf16, f16};
use crate::error::Result;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use num_complex::Complex;

/// A tensor on a tape.
pub type Var<T, const RANK: usize, D = Cpu> = Tensor<T, RANK, Tape<D>>;

/// An element whose tensors have gradients: floats and complex numbers.
///
/// The gradient with respect to a complex number `a + bi` is `∂L/∂a + i ∂L/∂b`, as in PyTorch.
#[diagnostic::on_unimplemented(
    message = "tensors of `{Self}` have no gradient",
    label = "a variable has elements f16, bf16, f32, f64, Complex<f32> or Complex<f64>",
    note = "integers, masks and indices are constants: `tape.constant(&x)?`; `.cast::<f32>()?` makes floats",
    note = "a constant in a struct of `parameters!` is a `Buffer<T, RANK, D>`"
)]
pub trait Differentiable: Inexact {
    /// The element in which an optimizer keeps its state: f32 for elements of 16 bits, else that of the
    /// parts.
    type State: Float<Compute = Compute<Self::Part>>;
    #[doc(hidden)]
    fn parts<D: Device>(x: TensorView<'_, Self, 1, D>) -> Result<TensorView<'_, Self::Part, 2, D>>;
    #[doc(hidden)]
    fn parts_mut<D: Device>(x: TensorViewMut<'_, Self, 1, D>) -> Result<TensorViewMut<'_, Self::Part, 2, D>>;
}

/// Each row: an element, its state, the view of its parts as a second axis.
macro_rules! differentiable {
    ($($T:ty, $State:ty, |$x:ident| $parts:expr;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl Differentiable for $T {
            type State = $State;
            fn parts<D: Device>($x: TensorView<'_, Self, 1, D>) -> Result<TensorView<'_, Self::Part, 2, D>> {
                $parts
            }
            fn parts_mut<D: Device>(
                $x: TensorViewMut<'_, Self, 1, D>,
            ) -> Result<TensorViewMut<'_, Self::Part, 2, D>> {
                $parts
            }
        }
    )* };
}
differentiable! {
    f16, f32, |x| Ok(x.insert_axis(Axis::<1>));
    bf16, f32, |x| Ok(x.insert_axis(Axis::<1>));
    f32, f32, |x| Ok(x.insert_axis(Axis::<1>));
    f64, f64, |x| Ok(x.insert_axis(Axis::<1>));
    Complex<f32>, f32, |x| x.view_as_real();
    Complex<f64>, f64, |x| x.view_as_real();
}
