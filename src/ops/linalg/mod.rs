//! Products of vectors and matrices: `matmul`, `einsum!`, linear layers, and small linear algebra.
// Imports: nothing.

pub mod einsum;
mod linear;
pub(super) mod matmul;
mod prepacked;
mod products;

pub use linear::Linear;
pub use prepacked::Packed;
