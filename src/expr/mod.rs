//! Expressions: the operands and receivers of operators, lazy evaluation, and generic code over tensors.
//!
//! - [`Operand`] is everything that an operator reads: tensors, views, expressions, numbers. [`Expr`] is a
//!   tree of operators over them.
//! - [`Elementwise`], [`Zip`], [`Reduce`] and [`Scan`] are the receivers of operators: a type that implements
//!   `map`, `zip`, `reduce` and `scan` has every operator.
//! - [`Lazy`] is an expression that has not run yet: several operators in one pass over memory.
//! - [`apply`] and [`apply_many`] run an operator on a tuple of operands, with one or several outputs.
//! - [`apply_in_place`] runs an operator that updates several tensors.
//!
//! # Code for any element, rank and device
//!
//! Element and device are types with one bound each; the rank is a number without a bound:
//!
//! ```
//! use rankform::{ops::Sum, prelude::*};
//!
//! /// Rows of mean 0 and deviation 1: one pass.
//! fn zscore<T: Float, const RANK: usize, D: Device>(x: &Tensor<T, RANK, D>) -> Result<Tensor<T, RANK, D>> {
//!     let deviation = (x.var_along(Last) + T::constant(1e-12)).sqrt();
//!     ((x.lazy() - x.mean_along(Last)) / deviation).eval()
//! }
//!
//! /// The cosine of each row of `x` with that of `y`, of tensors or views; the last axis has size 1.
//! fn cosines<'a, T: Float + 'a, const RANK: usize, D: Device + 'a>(
//!     x: impl Into<TensorView<'a, T, RANK, D>>,
//!     y: impl Into<TensorView<'a, T, RANK, D>>,
//! ) -> Result<Tensor<T, RANK, D>> {
//!     let least = T::constant(1e-6);
//!     let [x, y] = [x.into(), y.into()].map(|rows| rows.lazy());
//!     (x.normalize(Last, least) * y.normalize(Last, least)).reduce_keepdims(Sum, Last)
//! }
//!
//! let x = Tensor::from([[1.0, 3.0], [-2.0, 2.0]]);
//! assert_eq!(zscore(&x)?.map(rankform::ops::Round)?, Tensor::from([[-1.0, 1.0], [-1.0, 1.0]]));
//! assert_eq!(cosines(&x, x.reversed(Axis::<1>))?.map(rankform::ops::Round)?, Tensor::from([[1.0], [-1.0]]));
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! Arguments:
//!
//! - A tensor that is read: `&Tensor<T, RANK, D>`. Tensors and views alike:
//!   `impl Into<TensorView<'a, T, RANK, D>>`. Expressions and numbers too: `impl` [`Operand`]`<T, RANK, D>`.
//! - A tensor that is written: `&mut Tensor<T, RANK, D>`. Parts of tensors too:
//!   `impl` [`IntoViewMut`](crate::tensor::IntoViewMut)`<'a, T, RANK, D>`.
//! - An expression, as argument or result: see [`Lazy`].
//! - An operator: `F: `[`Op`](crate::kernel::Op)`<(T,), Out = T>`, `<(T, T), …>`.
//!
//! Operations:
//!
//! - A constant: [`T::constant(0.5)`](crate::Float::constant) for `T: Float`, `T::zero()` and `T::one()` for
//!   `T: Number`; in bodies of [`elementwise!`](crate::elementwise) a number: `x * 0.5`.
//! - A statistic of all elements or along the last axis, sizes kept: `mean_along(All)`, `mean_along(Last)`,
//!   `softmax(Last)`, …
//! - The same over an axis known at run time: `mean_along_axis(axis)`, `softmax_axis(axis)`, …; `RANK - 1` is
//!   the last. An expression is lazy: `eval` returns the error of a missing axis.
//! - The statistic itself: `x.mean(All)?` has rank 0, and its `.lift()` has any rank;
//!   [`reduce_keepdims(Mean, Last)`](Reduce::reduce_keepdims) leaves an axis of size 1.
//! - Running sums, sorts and other functions along an axis: the method that ends in `_axis`:
//!   `x.sort_axis(RANK - 1)?`.
//!
//! None of these needs a bound on the rank. A change of rank does, because Rust has no arithmetic in types:
//! the new rank is a parameter `const M: usize`, and a trait of [`rank`](crate::rank) relates both.
//!
//! | wanted | bound |
//! |---|---|
//! | `x.mean(Last)?: Tensor<T, M, D>` | `Dim<RANK>: RemoveAxes<Last, Output = Dim<M>>` |
//! | `x.mean_axis(axis)?: Tensor<T, M, D>` | `Dim<RANK>: RankMinusOne<Output = Dim<M>>` |
//! | `Axis::<A>`, sizes kept | `Dim<RANK>: RemoveAxis<A>` |
//! | any set of axes, sizes kept | `Dim<RANK>: HasAxes<AXES>`; also `AXES: Copy` for operators over axes such as `softmax` |
//! | a line combined with rows, `bias.lift()` | `Dim<1>: LiftTo<RANK>` |
// Imports: its own files.

mod apply;
mod contiguous;
mod eager;
mod eval;
mod in_place;
mod lazy;
mod leaf_list;
mod methods;
#[cfg(feature = "dynamic")]
mod named;
mod operand;
mod reduce;

pub use apply::{
    IntoViewsMut, OperandTuple, Operands, Outputs, apply, apply_into, apply_many, apply_many_into,
};
pub(crate) use eval::{eval, eval_at, eval_into, update, update_with};
pub(crate) use in_place::update_by;
pub use in_place::{Join, Split, Updates, apply_in_place};
pub use lazy::Lazy;
pub use methods::{Elementwise, Reduce, Scan, Zip};
#[cfg(feature = "dynamic")]
pub(crate) use named::{MapFn, ReduceFn, eval_named, reduce_named};
pub use operand::{Expr, IntoView, Operand, RightOperand, RowReduceExpr};
pub(crate) use reduce::reduce_at;
