//! The results of functions that return several tensors of one matrix.
// Imports: `device`, `tensor`.

use super::MatrixElement;
use crate::device::{Cpu, Device};
use crate::tensor::Tensor;

/// The result of [`lu`](super::lu()): row `i` of `lower · upper` is row `permutation[i]` of the matrix.
#[derive(Debug)]
pub struct Lu<T: MatrixElement, const RANK: usize, const V: usize> {
    /// The order of the rows.
    pub permutation: Tensor<i64, V>,
    /// The lower triangle, with ones on the diagonal.
    pub lower: Tensor<T, RANK>,
    /// The upper triangle.
    pub upper: Tensor<T, RANK>,
}

/// The result of [`qr`](super::qr()): `q · r` is the matrix.
#[derive(Debug)]
pub struct Qr<T: MatrixElement, const RANK: usize, D: Device = Cpu> {
    /// Orthonormal columns.
    pub q: Tensor<T, RANK, D>,
    /// The upper triangle; the signs of its diagonal are not fixed.
    pub r: Tensor<T, RANK, D>,
}

/// The result of [`svd`](super::svd()): `u · diag(s) · vh` is the matrix.
#[derive(Debug)]
pub struct Svd<T: MatrixElement, const RANK: usize, const V: usize, D: Device = Cpu> {
    /// Left singular vectors, as columns.
    pub u: Tensor<T, RANK, D>,
    /// Singular values, descending.
    pub s: Tensor<T::Part, V, D>,
    /// Conjugates of the right singular vectors, as rows.
    pub vh: Tensor<T, RANK, D>,
}

/// The result of [`eigh`](super::eigh()): `a · vectors = vectors · diag(values)`.
#[derive(Debug)]
pub struct Eigh<T: MatrixElement, const RANK: usize, const V: usize, D: Device = Cpu> {
    /// Eigenvalues, ascending.
    pub values: Tensor<T::Part, V, D>,
    /// Orthonormal eigenvectors, as columns.
    pub vectors: Tensor<T, RANK, D>,
}

/// The result of [`eig`](super::eig()): `a · vectors = vectors · diag(values)`.
#[derive(Debug)]
pub struct Eig<T: MatrixElement, const RANK: usize, const V: usize> {
    /// Eigenvalues, in no fixed order; those of a real matrix that are not real are pairs of conjugates.
    pub values: Tensor<T::WithImaginary, V>,
    /// Eigenvectors of length 1, as columns.
    pub vectors: Tensor<T::WithImaginary, RANK>,
}

/// The result of [`slogdet`](super::slogdet()): the determinant is `sign · exp(ln_abs)`.
#[derive(Debug)]
pub struct Slogdet<T: MatrixElement, const M: usize, D: Device = Cpu> {
    /// A number of modulus 1: 1 or −1 of a real matrix. 0 of a singular matrix.
    pub sign: Tensor<T, M, D>,
    /// The natural logarithm of the determinant's modulus; −∞ of a singular matrix.
    pub ln_abs: Tensor<T::Part, M, D>,
}
