//! Ranks of batches of matrices, and of their results.
// Imports: `dim`, `rank`.

use crate::dim::Dim;
use crate::rank::Rank;

/// The rank of one matrix, or of matrices along the last two axes: 2 to 8.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` does not hold matrices",
    label = "needs a rank from `Dim<2>` to `Dim<8>`",
    note = "a vector is a matrix of one column by `.insert_axis(Axis::<1>)`"
)]
pub trait MatrixRank: Rank {
    /// The rank with one axis less: vectors.
    type Vectors: Rank;
    /// The rank with two axes less: numbers.
    type Numbers: Rank;
}

/// The rank of right-hand sides `b` of `a · x = b`, for matrices `a` of rank `Self`: the same rank for
/// matrices, one axis less for vectors.
#[diagnostic::on_unimplemented(
    message = "right-hand sides of rank `{B}` do not belong to matrices of rank `{Self}`",
    label = "needs the same rank, or one axis less",
    note = "the matrices come first: `solve(&a, &b)` solves `a · x = b`; a vector is a matrix of one column by \
            `.insert_axis(Axis::<1>)`",
    note = "`.lift()` adds leading axes, of size 1, which are broadcast"
)]
pub trait RightHandSide<B>: MatrixRank {
    /// Whether `b` has vectors.
    const ARE_VECTORS: bool;
}

macro_rules! ranks {
    ($($rank:literal $vectors:literal $numbers:literal;)*) => { $(
        impl MatrixRank for Dim<$rank> {
            type Vectors = Dim<$vectors>;
            type Numbers = Dim<$numbers>;
        }
        impl RightHandSide<Dim<$rank>> for Dim<$rank> {
            const ARE_VECTORS: bool = false;
        }
        impl RightHandSide<Dim<$vectors>> for Dim<$rank> {
            const ARE_VECTORS: bool = true;
        }
    )* };
}
ranks! { 2 1 0; 3 2 1; 4 3 2; 5 4 3; 6 5 4; 7 6 5; 8 7 6; }
