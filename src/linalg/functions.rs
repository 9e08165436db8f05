//! Determinants, ranks, condition numbers, powers, exponentials.
// Imports: `dim`, `error`, `element`, `device`, `tensor`, `expr`.

use super::batch::{Batch, BatchMut, results};
use super::factors::singular_values;
use super::solve::tolerance_of;
use super::{MatrixDevice, MatrixElement, MatrixRank, Slogdet, square};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::element::Float;
use crate::error::{Error, Result};
use crate::expr::IntoView;
use crate::tensor::Tensor;

/// The determinant of each matrix: the product of the pivots of an LU factorization with partial pivoting. It
/// is 0 of a singular matrix, 1 of an empty one, and may overflow where [`slogdet`] does not.
///
/// # Shapes
/// `[.., n, n] → [..]`.
///
/// # Errors
/// [`Error::Value`] if a matrix is not square or not finite; [`Error::Unallocated`], [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::linalg::det;
/// use rankform::prelude::*;
/// assert_eq!(det(&Tensor::from([[1.0, 2.0], [4.0, 4.0]]))?.item()?, -4.0);
/// assert_eq!(det(&Tensor::<f64, 2>::zeros([0, 0], &Cpu)?)?.item()?, 1.0);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn det<'a, T: MatrixElement + 'a, const RANK: usize, const M: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Tensor<T, M, D>>
where
    Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
{
    D::det(a.into_view())
}

/// The sign and the logarithm of the determinant of each matrix. Those of an empty matrix are 1 and 0.
///
/// # Shapes
/// `[.., n, n] → [..], [..]`.
///
/// # Errors
/// As [`det`].
///
/// # Examples
/// ```
/// use rankform::linalg::slogdet;
/// use rankform::prelude::*;
/// let a = Tensor::from([[0.0_f64, 1e-200], [1e-200, 0.0]]);
/// let found = slogdet(&a)?;
/// assert_eq!(found.sign.item()?, -1.0);
/// assert!((found.ln_abs.item()? + 400.0 * 10.0_f64.ln()).abs() < 1e-9);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn slogdet<'a, T: MatrixElement + 'a, const RANK: usize, const M: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Slogdet<T, M, D>>
where
    Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
{
    D::slogdet(a.into_view())
}

/// A number of the singular values of each matrix.
fn of_singular_values<T: Float, U: crate::element::Element, const V: usize, const M: usize>(
    op: &'static str,
    s: &Tensor<T, V>,
    number: impl Fn(&[T]) -> U,
) -> Result<Tensor<U, M>> {
    let size = s.size().0;
    let (leading, k) = (&size[..V - 1], size[V - 1]);
    let mut out = results::<U, M>(op, leading, &[])?;
    let values = s.as_slice().unwrap_or_default();
    for (index, out) in out.data_mut()?.iter_mut().enumerate() {
        *out = number(&values[index * k..(index + 1) * k]);
    }
    Ok(out)
}

/// The rank of each matrix: the number of singular values above `tolerance` times the largest; `None` is
/// ε · max(m, n), ε being the distance from 1 to the next number.
///
/// # Shapes
/// `[.., m, n] → [..]`.
///
/// # Errors
/// As [`svd`](super::svd); [`Error::Value`] if `tolerance` is negative or not finite.
///
/// # Examples
/// ```
/// use rankform::linalg::matrix_rank;
/// use rankform::prelude::*;
/// assert_eq!(matrix_rank(&Tensor::from([[1.0, 2.0], [2.0, 4.0]]), None)?.item()?, 1);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn matrix_rank<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, const M: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
    tolerance: Option<f64>,
) -> Result<Tensor<i64, M>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>, Numbers = Dim<M>>,
{
    let (op, a) = ("matrix_rank", a.into_view());
    let tolerance = tolerance_of::<T>(op, [a.size().0[RANK - 2], a.size().0[RANK - 1]], tolerance)?;
    let tolerance = T::Part::constant(tolerance);
    of_singular_values(op, &singular_values::<T, RANK, V>(op, a, true)?, |s| {
        s.iter().filter(|&&value| value > s[0] * tolerance).count() as i64
    })
}

/// The condition number of each matrix: the largest singular value divided by the smallest; infinite of a
/// singular matrix.
///
/// # Shapes
/// `[.., m, n] → [..]`.
///
/// # Errors
/// As [`svd`](super::svd); [`Error::Empty`] if the matrices have no elements.
///
/// # Examples
/// ```
/// use rankform::linalg::cond;
/// use rankform::prelude::*;
/// assert!((cond(&Tensor::from([[0.0_f64, 2.0], [8.0, 0.0]]))?.item()? - 4.0).abs() < 1e-14);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn cond<'a, T: MatrixElement + 'a, const RANK: usize, const V: usize, const M: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
) -> Result<Tensor<T::Part, M>>
where
    Dim<RANK>: MatrixRank<Vectors = Dim<V>, Numbers = Dim<M>>,
{
    let (op, a) = ("cond", a.into_view());
    if a.size().0[RANK - 2..].contains(&0) {
        return Err(Error::Empty { op, sizes: a.size().0.into() });
    }
    of_singular_values(op, &singular_values::<T, RANK, V>(op, a, true)?, |s| match s[s.len() - 1] {
        least if least > T::Part::constant(0.0) => s[0] / least,
        _ => T::Part::constant(f64::INFINITY),
    })
}

/// The `n`-th power of each matrix, of its inverse if `n` is negative; the identity if `n` is 0. The method
/// [`Tensor::matrix_power`] has one matrix and `n` from 0 up, also of integers and on every device.
///
/// # Shapes
/// `[.., n, n] → [.., n, n]`.
///
/// # Cost
/// At most 2 · log₂ `n` products.
///
/// # Errors
/// [`Error::Value`] if a matrix is not square or not finite, or singular and `n` negative;
/// [`Error::Unallocated`], [`Error::OutOfMemory`]. An overflow gives infinities and NaN.
///
/// # Examples
/// ```
/// use rankform::linalg::matrix_power;
/// use rankform::prelude::*;
/// let a = Tensor::from([[1.0, 1.0], [0.0, 2.0]]);
/// assert_eq!(matrix_power(&a, 3)?, Tensor::from([[1.0, 7.0], [0.0, 8.0]]));
/// assert_eq!(matrix_power(&a, -1)?, Tensor::from([[1.0, -0.5], [0.0, 0.5]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn matrix_power<'a, T: MatrixElement + 'a, const RANK: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
    n: i64,
) -> Result<Tensor<T, RANK>>
where
    Dim<RANK>: MatrixRank,
{
    let op = "matrix_power";
    let a = Batch::matrices(op, a.into_view())?;
    let size = square(op, &a)?;
    let mut x = results(op, a.leading(), &[size, size])?;
    T::power(op, a, n, BatchMut::of(&mut x, a.count(), [size, size])?)?;
    Ok(x)
}

/// The exponential of each matrix, `Σ aⁿ / n!`: a rational approximation of degree 13 with scaling and
/// squaring (Higham 2005). The relative error grows with the 1-norm of the matrix: a norm near 1/ε leaves no
/// digits.
///
/// # Shapes
/// `[.., n, n] → [.., n, n]`.
///
/// # Errors
/// [`Error::Value`] if a matrix is not square or not finite; [`Error::Unallocated`], [`Error::OutOfMemory`].
/// An overflow gives infinities and NaN.
///
/// # Examples
/// ```
/// use rankform::linalg::matrix_exp;
/// use rankform::prelude::*;
/// let quarter = std::f64::consts::FRAC_PI_2;
/// let turn = matrix_exp(&Tensor::from([[0.0, -quarter], [quarter, 0.0]]))?;
/// assert!(turn.allclose(&Tensor::from([[0.0, -1.0], [1.0, 0.0]]), 0.0, 1e-14, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn matrix_exp<'a, T: MatrixElement + 'a, const RANK: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
) -> Result<Tensor<T, RANK>>
where
    Dim<RANK>: MatrixRank,
{
    let op = "matrix_exp";
    let a = Batch::matrices(op, a.into_view())?;
    let n = square(op, &a)?;
    let mut x = results(op, a.leading(), &[n, n])?;
    T::exponential(op, a, BatchMut::of(&mut x, a.count(), [n, n])?)?;
    Ok(x)
}
