//! Operators on each element by itself: arithmetic, functions, comparisons, casts.
// Imports: nothing.

pub(super) mod activation;
pub(super) mod arithmetic;
mod checked;
pub(super) mod comparison;
mod complex;
pub(super) mod math;
mod parametric;

pub use activation::*;
pub use arithmetic::*;
pub use checked::CheckedDivision;
pub use comparison::*;
pub use complex::*;
pub use math::*;
pub use parametric::*;
