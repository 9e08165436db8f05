//! Linear algebra on the CPU, by the crate faer: solutions, factorizations, eigenvalues, functions of
//! matrices.
//!
//! ```
//! use rankform::linalg;
//! use rankform::prelude::*;
//! let a = Tensor::from([[4.0, 1.0], [1.0, 3.0]]);
//! let x = linalg::solve(&a, &Tensor::from([1.0, 2.0]))?;
//! assert!((a.matmul(&x)?[[0]] - 1.0_f64).abs() < 1e-15);
//! let eigen = linalg::eigh(&a)?; // Eigh { values: Tensor<f64, 1>, vectors: Tensor<f64, 2> }
//! assert!((eigen.values.sum(All)?.item()? - 7.0).abs() < 1e-14);
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! | functions | result |
//! |---|---|
//! | [`solve`] [`solve_triangular`] [`lstsq`] | `x` of `a · x = b`, for vectors and matrices `b` |
//! | [`inv`] [`pinv`] | inverses |
//! | [`lu`] [`cholesky`] [`qr`] [`svd`] [`svd_values`] | factors |
//! | [`eigh`] [`eigh_values`] [`eig`] [`eig_values`] | eigenvalues and eigenvectors |
//! | [`det`] [`slogdet`] [`matrix_rank`] [`cond`] | numbers |
//! | [`matrix_power`] [`matrix_exp`] | functions of matrices |
//!
//! Products are methods of tensors: [`matmul`](crate::Tensor::matmul) and others.
//!
//! # Operands
//!
//! Tensors and views of rank 2 to 8 on the CPU, of elements `f32`, `f64`, `Complex<f32>` and `Complex<f64>`.
//! The last two axes are the matrices; the leading axes are a batch, whose index an error names. Views of any
//! strides are read where they are. Leading axes of two operands are broadcast: they have equal sizes, or size
//! 1. A tensor on another device is copied by [`to`](crate::Tensor::to) first.
//!
//! ```compile_fail
//! # use rankform::prelude::*;
//! let a = Tensor::<f64, 2, Meta>::zeros([2, 2], &Meta).unwrap();
//! rankform::linalg::det(&a); // not on `Cpu`
//! ```
//!
//! # Derivatives
//!
//! With the feature `autograd`, tensors of `f32` and `f64` on a tape or in forward mode are operands of
//! [`inv`], [`solve`], [`solve_triangular`], [`det`], [`slogdet`], [`cholesky`], [`qr`], [`svd`],
//! [`svd_values`], [`eigh`] and [`eigh_values`]; tapes over tapes have second derivatives. Other functions
//! have no derivative, and a tensor on a tape does not compile as their operand. [`cholesky`] and [`eigh`]
//! read the lower triangle, so only its elements have a gradient.
//!
//! Where a derivative does not exist, the backward pass, or the forward mode, returns an [`Error::Value`]: of
//! a determinant of a singular matrix, of singular vectors or eigenvectors of values that are exactly equal,
//! of singular vectors of a value 0 if the matrix is not square, of `q` and `r` of dependent columns. Vectors
//! of equal values are an error also in a result that is the same for every choice of them, such as
//! `u·diag(s)·vh`, and in second derivatives of values. First derivatives of singular values and eigenvalues
//! exist there by the vectors that were found. Vectors of values that are nearly equal have large gradients.
//! Factors by [`Factors::Full`] that are larger than thin ones have none.
//!
//! # Values
//!
//! An element that is read and is NaN or infinite is an [`Error::Value`] with its place,
//! except in right-hand sides and by [`solve_triangular`], which compute with it. A matrix without elements
//! has the results of algebra: its determinant is 1, its rank 0. Singular matrices have no inverse and no
//! solution, and are an error; only an exact zero pivot counts, because rounding leaves no other test. By
//! other pivots it is divided, however small they are; results that overflow are infinities and NaN.
//! [`matrix_rank`] and [`cond`] tell how near a matrix is to a singular one.
//!
//! # Cost
//!
//! O(n³) for each matrix. Results are new row-major tensors; an operand is copied once to scratch memory, but
//! by [`solve_triangular`] not at all, and by [`eig`] twice. On a tape an operand and its results are copied
//! once more, and values take the time of vectors. Matrices of a batch are shared among threads; one matrix
//! is the work of one thread. Results have the same bits for any number of threads, and may differ in the
//! last bits between instruction sets.
// Imports: `error`.

mod batch;
mod cpu;
mod decompositions;
#[cfg(feature = "autograd")]
mod derivatives;
mod device;
mod element;
mod factors;
mod functions;
mod kernels;
mod ranks;
mod solve;

pub use decompositions::{Eig, Eigh, Lu, Qr, Slogdet, Svd};
pub use device::MatrixDevice;
pub use element::MatrixElement;
pub use factors::{cholesky, eig, eig_values, eigh, eigh_values, lu, qr, svd, svd_values};
pub use functions::{cond, det, matrix_exp, matrix_power, matrix_rank, slogdet};
pub use ranks::{MatrixRank, RightHandSide};
pub use solve::{LeastSquares, inv, lstsq, pinv, solve, solve_triangular};

use crate::error::{Error, Result, text};
use batch::Batch;

/// How many columns the orthogonal factors of an `m` × `n` matrix have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    /// `min(m, n)`: the product of the factors needs no more.
    Thin,
    /// All: the factors are square.
    Full,
}

/// The triangle of a matrix that an operator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// The diagonal and all below.
    Lower,
    /// The diagonal and all above.
    Upper,
    /// All below the diagonal, which counts as 1 and is not read.
    UnitLower,
    /// All above the diagonal, which counts as 1 and is not read.
    UnitUpper,
}

/// An error unless the matrices are square; else their size.
fn square<T>(op: &'static str, a: &Batch<'_, T>) -> Result<usize> {
    match a.size() {
        [rows, columns] if rows == columns => Ok(rows),
        [rows, columns] => {
            let what = text(format_args!("matrices of sizes [{rows}, {columns}] are not square"));
            Err(Error::Value { op, what })
        }
    }
}
