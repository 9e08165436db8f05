//! Names for the lanes of reducers.
// Imports: `scalar`, `element`.

use crate::element::Compute;
use crate::scalar::{Lane, Ordered};

/// A lane of the compute type of `T`.
pub(super) type ValueLane<L, T> = Lane<L, Compute<T>>;
/// The order key of a lane of the compute type of `T`.
pub(super) type KeyLane<L, T> = Lane<L, <Compute<T> as Ordered>::Key>;
/// The row-major index of a value along the reduced axes.
pub(super) type PositionLane<L> = Lane<L, i64>;
