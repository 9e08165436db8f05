//! Expressions: what operators read, what they are called on, and how they are run.
//!
//! | file | |
//! |---|---|
//! | `operand.rs` | `Operand`: what may stand beside a tensor; `Expr`: a tree of operators over tensors and numbers |
//! | `receiver.rs` | `Elementwise`, `Zip`, `Reduce`, `Scan`: implement `map`, `zip`, `reduce`, `scan`, get every operator |
//! | `lazy.rs` | `Lazy`: an expression that has not run yet |
//! | `eval.rs`, `gathered.rs` | one pass over memory for a whole expression; its operands |
//! | `runs.rs` | the short way of a small tensor |
//! | `apply.rs` | operators on tuples of operands, with one or several outputs |
//! | `in_place.rs` | operators that update several tensors |
//!
//! Imports: its own files.

mod apply;
mod eval;
mod gathered;
mod in_place;
mod lazy;
#[cfg(feature = "dynamic")]
mod named;
mod operand;
mod receiver;
mod runs;

pub use apply::{OperandTuple, Operands, Outputs, WritableMany, apply, apply_into, apply_many, apply_many_into};
pub(crate) use eval::{eval, eval_at, eval_into, reduce_at, update, update_with};
pub(crate) use in_place::update_by;
pub use in_place::{Join, Split, Updates, apply_in_place};
pub use lazy::Lazy;
#[cfg(feature = "dynamic")]
pub(crate) use named::{MapFn, ReduceFn, eval_named, reduce_named};
pub use operand::{AlongRow, Expr, Operand, RightOperand, Stored};
pub use receiver::{Elementwise, Reduce, Scan, Zip};
