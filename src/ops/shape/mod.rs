//! Operators that change sizes and move elements: joins, padding, repetitions, triangles, diagonals.
// Imports: nothing.

mod arrange;
mod diagonal;
mod join;
mod meshgrid;
mod pad;
mod pieces;
mod repeat;
mod triangular;

pub use arrange::Arrange;
pub use pad::Pad;
pub use pieces::Pieces;
pub use triangular::Triangles;
