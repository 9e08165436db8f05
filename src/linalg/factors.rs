//! Factors, eigenvalues and singular values of matrices.
// Imports: `dim`, `error`, `device`, `tensor`, `expr`.

use super::batch::{Batch, BatchMut, results};
use super::{Eig, Eigh, Factors, Lu, MatrixDevice, MatrixElement, MatrixRank, Qr, Svd, square};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::Result;
use crate::expr::IntoView;
use crate::tensor::Tensor;

/// The lower triangle `l` of each positive definite matrix `a = l · lᴴ`; the diagonal of `l` is positive.
/// Only the lower triangle of `a` is read.
///
/// # Shapes
/// `[.., n, n] → [.., n, n]`.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a matrix is not square, not positive definite, or not finite;
/// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::linalg::cholesky;
/// use rankform::prelude::*;
/// assert_eq!(cholesky(&Tensor::from([[4.0, 2.0], [2.0, 10.0]]))?, Tensor::from([[2.0, 0.0], [1.0, 3.0]]));
/// let error = cholesky(&Tensor::from([[1.0, 2.0], [2.0, 1.0]])).unwrap_err().to_string();
/// assert!(error.ends_with("of sizes [2, 2] is not positive definite: pivot 1 is not positive"));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn cholesky<'a, T: MatrixElement + 'a, const RANK: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: MatrixRank,
{
    D::cholesky(a.into_view())
}

/// The LU factorization of each matrix, with partial pivoting: no element of the lower factor exceeds 1 (a
/// complex one √2). A singular matrix has factors too.
///
/// # Shapes
/// `[.., m, n] → [.., m], [.., m, k], [.., k, n]`, `k = min(m, n)`.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a matrix is not finite;
/// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::linalg::lu;
/// use rankform::prelude::*;
/// let a = Tensor::from([[1.0, 2.0], [4.0, 4.0]]);
/// let factors = lu(&a)?;
/// assert_eq!(factors.permutation.to_vec()?, [1, 0]);
/// assert_eq!(factors.lower, Tensor::from([[1.0, 0.0], [0.25, 1.0]]));
/// assert_eq!(factors.upper, Tensor::from([[4.0, 4.0], [0.0, 1.0]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn lu<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
) -> Result<Lu<T, RANK, V>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    let op = "lu";
    let a = Batch::matrices(op, a.into_view())?;
    let ([m, n], count) = (a.size(), a.count());
    let k = m.min(n);
    let mut permutation = results(op, a.leading(), &[m])?;
    let (mut lower, mut upper) = (results(op, a.leading(), &[m, k])?, results(op, a.leading(), &[k, n])?);
    T::lu(
        op,
        a,
        BatchMut::of(&mut permutation, count, [m, 1])?,
        BatchMut::of(&mut lower, count, [m, k])?,
        BatchMut::of(&mut upper, count, [k, n])?,
    )?;
    Ok(Lu { permutation, lower, upper })
}

/// An orthogonal and a triangular factor of each matrix.
///
/// # Shapes
/// `[.., m, n] → [.., m, k], [.., k, n]`: `k = min(m, n)` of [`Factors::Thin`], `m` of [`Factors::Full`].
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a matrix is not finite;
/// [`Error::Overflow`](crate::Error::Overflow) if full factors are too large for any memory;
/// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::linalg::{Factors, qr};
/// use rankform::prelude::*;
/// let a = Tensor::from([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]);
/// let factors = qr(&a, Factors::Thin)?;
/// assert_eq!((factors.q.size(), factors.r.size()), (dim![3, 2], dim![2, 2]));
/// assert!(factors.q.matmul(&factors.r)?.allclose(&a, 1e-14, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn qr<'a, T: MatrixElement + 'a, const RANK: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
    factors: Factors,
) -> Result<Qr<T, RANK, D>>
where
    Dim<RANK>: MatrixRank,
{
    D::qr(a.into_view(), factors)
}

/// Singular values and vectors of each matrix.
///
/// # Shapes
/// `[.., m, n] → [.., m, p], [.., k], [.., q, n]`, `k = min(m, n)`: `p = q = k` of [`Factors::Thin`], `p = m`
/// and `q = n` of [`Factors::Full`].
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a matrix is not finite, or if its singular values do not
/// converge; [`Error::Overflow`](crate::Error::Overflow) if full factors are too large for any memory;
/// [`Error::Unallocated`](crate::Error::Unallocated),
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::linalg::{Factors, svd};
/// use rankform::prelude::*;
/// let a = Tensor::from([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]]);
/// let factors = svd(&a, Factors::Thin)?;
/// assert!(factors.s.allclose(&Tensor::from([3.0, 2.0]), 1e-14, 1e-14, false)?);
/// let scaled = (factors.u.lazy() * factors.s.lift()).eval()?;
/// assert!(scaled.matmul(&factors.vh)?.allclose(&a, 1e-14, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn svd<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
    factors: Factors,
) -> Result<Svd<T, RANK, V, D>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    D::svd(a.into_view(), factors)
}

/// The singular values of each matrix, descending: [`svd`] without the vectors.
///
/// # Shapes
/// `[.., m, n] → [.., min(m, n)]`.
///
/// # Errors
/// As [`svd`].
///
/// # Examples
/// ```
/// use rankform::linalg::svd_values;
/// use rankform::prelude::*;
/// let s = svd_values(&Tensor::from([[0.0, 2.0], [-3.0, 0.0]]))?;
/// assert!(s.allclose(&Tensor::from([3.0, 2.0]), 1e-14, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn svd_values<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Tensor<T::Part, V, D>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    D::svd_values(a.into_view())
}

/// The singular values, in the name of another function; for ratios of them, multiples that do not overflow.
pub(super) fn singular_values<T: MatrixElement, const RANK: usize, const V: usize>(
    op: &'static str,
    a: crate::tensor::TensorView<'_, T, RANK, Cpu>,
    are_scaled: bool,
) -> Result<Tensor<T::Part, V>> {
    let a = Batch::matrices(op, a)?;
    let k = a.size()[0].min(a.size()[1]);
    let mut s = results(op, a.leading(), &[k])?;
    T::singular_values(op, a, are_scaled, BatchMut::of(&mut s, a.count(), [k, 1])?)?;
    Ok(s)
}

/// Eigenvalues and eigenvectors of each symmetric or Hermitian matrix. Only its lower triangle is read.
///
/// # Shapes
/// `[.., n, n] → [.., n], [.., n, n]`.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a matrix is not square or not finite, or if its eigenvalues do
/// not converge; [`Error::Unallocated`](crate::Error::Unallocated),
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::linalg::eigh;
/// use rankform::prelude::*;
/// let a = Tensor::from([[0.0, 1.0], [1.0, 0.0]]);
/// let eigen = eigh(&a)?;
/// assert!(eigen.values.allclose(&Tensor::from([-1.0, 1.0]), 1e-14, 1e-14, false)?);
/// let scaled = (eigen.vectors.lazy() * eigen.values.lift()).eval()?;
/// assert!(a.matmul(&eigen.vectors)?.allclose(&scaled, 1e-14, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn eigh<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Eigh<T, RANK, V, D>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    D::eigh(a.into_view())
}

/// The eigenvalues of each symmetric or Hermitian matrix, ascending: [`eigh`] without the vectors.
///
/// # Shapes
/// `[.., n, n] → [.., n]`.
///
/// # Errors
/// As [`eigh`].
///
/// # Examples
/// ```
/// use rankform::linalg::eigh_values;
/// use rankform::prelude::*;
/// let values = eigh_values(&Tensor::from([[0.0, 1.0], [1.0, 0.0]]))?;
/// assert!(values.allclose(&Tensor::from([-1.0, 1.0]), 1e-14, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn eigh_values<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Tensor<T::Part, V, D>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    D::eigh_values(a.into_view())
}

/// Eigenvalues and eigenvectors of each square matrix. A matrix with fewer than `n` independent eigenvectors
/// has columns that are equal or nearly so.
///
/// # Shapes
/// `[.., n, n] → [.., n], [.., n, n]`, of complex numbers.
///
/// # Cost
/// O(n³), and again O(n³) for each vector that inverse iteration improves: O(n⁴) where these are many, as of
/// matrices with few independent eigenvectors.
///
/// # Errors
/// As [`eigh`].
///
/// # Examples
/// ```
/// use rankform::linalg::eig;
/// use rankform::prelude::*;
/// // A rotation by a right angle: ±i.
/// let eigen = eig(&Tensor::from([[0.0_f64, -1.0], [1.0, 0.0]]))?;
/// assert!(eigen.values.iter().all(|value| value.re.abs() < 1e-15 && (value.im.abs() - 1.0).abs() < 1e-15));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn eig<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
) -> Result<Eig<T, RANK, V>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    let op = "eig";
    let a = Batch::matrices(op, a.into_view())?;
    let (n, count) = (square(op, &a)?, a.count());
    let (mut values, mut vectors) = (results(op, a.leading(), &[n])?, results(op, a.leading(), &[n, n])?);
    let to = BatchMut::of(&mut values, count, [n, 1])?;
    T::eigen(op, a, to, BatchMut::of(&mut vectors, count, [n, n])?)?;
    Ok(Eig { values, vectors })
}

/// The eigenvalues of each square matrix, in no fixed order: [`eig`] without the vectors.
///
/// # Shapes
/// `[.., n, n] → [.., n]`, of complex numbers.
///
/// # Errors
/// As [`eigh`].
///
/// # Examples
/// ```
/// use rankform::linalg::eig_values;
/// use rankform::prelude::*;
/// let values = eig_values(&Tensor::from([[2.0_f64, 1.0], [0.0, 3.0]]))?;
/// assert_eq!(values.re()?.sum(All)?.item()?, 5.0);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn eig_values<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
) -> Result<Tensor<T::WithImaginary, V>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
{
    let op = "eig_values";
    let a = Batch::matrices(op, a.into_view())?;
    let n = square(op, &a)?;
    let mut values = results(op, a.leading(), &[n])?;
    T::eigen_values(op, a, BatchMut::of(&mut values, a.count(), [n, 1])?)?;
    Ok(values)
}
