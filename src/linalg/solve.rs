//! Systems of linear equations, and inverses.
// Imports: `error`, `dim`, `device`, `tensor`, `expr`.

use super::batch::{Batch, BatchMut, MAX_LEADING, results};
use super::{MatrixDevice, MatrixElement, MatrixRank, RightHandSide, Triangle};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::tensor::{Tensor, TensorView};

/// Both operands of an equation, with their leading axes broadcast, and the sizes of those.
pub(super) struct Equations<'a, 'b, T, const N: usize> {
    pub(super) a: Batch<'a, T>,
    pub(super) b: Batch<'b, T>,
    are_vectors: bool,
}

impl<'a, 'b, T: MatrixElement, const N: usize> Equations<'a, 'b, T, N> {
    pub(super) fn of<const RANK: usize>(
        op: &'static str,
        a: TensorView<'a, T, RANK, Cpu>,
        b: TensorView<'b, T, N, Cpu>,
    ) -> Result<Self>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let are_vectors = <Dim<RANK> as RightHandSide<Dim<N>>>::ARE_VECTORS;
        let joint = joint_leading(op, &a.size().0, &b.size().0)?;
        let a = Batch::matrices(op, a)?;
        let b = if are_vectors { Batch::columns(op, b)? } else { Batch::matrices(op, b)? };
        let joint = &joint[..a.leading().len()];
        Ok(Equations { a: a.broadcast(joint), b: b.broadcast(joint), are_vectors })
    }

    /// A tensor for the solutions.
    pub(super) fn solutions(&self, op: &'static str) -> Result<Tensor<T, N>> {
        let last = [self.a.size()[1], self.b.size()[1]];
        results(op, self.a.leading(), if self.are_vectors { &last[..1] } else { &last })
    }

    /// The solutions, for a kernel.
    pub(super) fn written<'x>(&self, x: &'x mut Tensor<T, N>) -> Result<BatchMut<'x, T>> {
        BatchMut::of(x, self.a.count(), [self.a.size()[1], self.b.size()[1]])
    }
}

/// The leading axes of both operands of an equation, those of size 1 broadcast.
pub(super) fn joint_leading(op: &'static str, a: &[usize], b: &[usize]) -> Result<[usize; MAX_LEADING]> {
    let leading = a.len() - 2;
    if a[leading] != b[leading] {
        let what = text(format_args!(
            "matrices of {} rows and right-hand sides of {} rows: sizes {a:?} and {b:?}",
            a[leading], b[leading]
        ));
        return Err(Error::Value { op, what });
    }
    let mut joint = [1; MAX_LEADING];
    for axis in 0..leading {
        joint[axis] = match (a[axis], b[axis]) {
            (left, right) if left == right => left,
            (1, right) => right,
            (left, 1) => left,
            _ => return Err(Error::Sizes { op, left: a.into(), right: b.into() }),
        };
    }
    Ok(joint)
}

/// The solution `x` of `a · x = b`, by LU factorization with partial pivoting.
///
/// # Shapes
/// `[.., n, n]` with `[.., n] → [.., n]` (one axis less: vectors) or with `[.., n, k] → [.., n, k]`.
///
/// # Errors
/// [`Error::Value`] if `a` is not square, singular, or not finite, or if the numbers of rows differ;
/// [`Error::Sizes`] if the leading axes do not broadcast; [`Error::Overflow`] if the result is too large for
/// any memory; [`Error::Unallocated`], [`Error::OutOfMemory`]. A solution that overflows has infinities and
/// NaN.
///
/// # Examples
/// ```
/// use rankform::linalg::solve;
/// use rankform::prelude::*;
/// let a = Tensor::from([[2.0, 0.0], [1.0, 4.0]]);
/// assert_eq!(solve(&a, &Tensor::from([2.0, 9.0]))?, Tensor::from([1.0, 2.0]));
/// assert_eq!(solve(&a, &a)?, Tensor::from([[1.0, 0.0], [0.0, 1.0]]));
/// let error = solve(&Tensor::from([[1.0, 2.0], [2.0, 4.0]]), &a).unwrap_err();
/// assert_eq!(error.to_string(), "solve: the matrix of sizes [2, 2] is singular: pivot 1 is 0");
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn solve<
    'a,
    'b,
    T: MatrixElement + 'a + 'b,
    const RANK: usize,
    const N: usize,
    D: MatrixDevice<T> + 'a + 'b,
>(
    a: impl IntoView<'a, T, RANK, D>,
    b: impl IntoView<'b, T, N, D>,
) -> Result<Tensor<T, N, D>>
where
    Dim<RANK>: RightHandSide<Dim<N>>,
{
    D::solve(a.into_view(), b.into_view())
}

/// The solution `x` of `a · x = b` for a triangle of `a`; the other elements are not read.
///
/// # Shapes
/// Those of [`solve`].
///
/// # Cost
/// O(n²) for each column of `b`; `a` is not copied.
///
/// # Errors
/// As [`solve`]; [`Error::Value`] if an element of the diagonal is 0. NaN and infinities are computed with.
///
/// # Examples
/// ```
/// use rankform::linalg::{Triangle, solve_triangular};
/// use rankform::prelude::*;
/// let a = Tensor::from([[2.0, 9.0], [1.0, 4.0]]);
/// let b = Tensor::from([2.0, 9.0]);
/// assert_eq!(solve_triangular(&a, &b, Triangle::Lower)?, Tensor::from([1.0, 2.0]));
/// assert_eq!(solve_triangular(&a, &b, Triangle::UnitLower)?, Tensor::from([2.0, 7.0]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn solve_triangular<
    'a,
    'b,
    T: MatrixElement + 'a + 'b,
    const RANK: usize,
    const N: usize,
    D: MatrixDevice<T> + 'a + 'b,
>(
    a: impl IntoView<'a, T, RANK, D>,
    b: impl IntoView<'b, T, N, D>,
    triangle: Triangle,
) -> Result<Tensor<T, N, D>>
where
    Dim<RANK>: RightHandSide<Dim<N>>,
{
    D::solve_triangular(a.into_view(), b.into_view(), triangle)
}

/// The result of [`lstsq`].
#[derive(Debug)]
pub struct LeastSquares<T: MatrixElement, const N: usize, const V: usize, const M: usize> {
    /// The solutions.
    pub x: Tensor<T, N>,
    /// The ranks of the matrices.
    pub rank: Tensor<i64, M>,
    /// The singular values of the matrices, descending.
    pub s: Tensor<T::Part, V>,
}

/// The shortest `x` for which `a · x` is nearest to `b`, by singular values. Those of at most `tolerance`
/// times the largest count as 0; `None` is ε · max(m, n), ε being the distance from 1 to the next number.
///
/// # Shapes
/// `[.., m, n]` with `[.., m] → [.., n]` (one axis less: vectors) or with `[.., m, k] → [.., n, k]`.
///
/// # Errors
/// [`Error::Value`] if `a` is not finite, if the singular values do not converge, if the numbers of rows
/// differ, or if `tolerance` is negative or not finite; [`Error::Sizes`] if the leading axes do not broadcast;
/// [`Error::Overflow`] if the result is too large for any memory; [`Error::Unallocated`],
/// [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::linalg::lstsq;
/// use rankform::prelude::*;
/// // The line through three points.
/// let a = Tensor::from([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]);
/// let line = lstsq(&a, &Tensor::from([1.0, 3.0, 5.0]), None)?;
/// assert!((line.x[[0]] - 2.0_f64).abs() < 1e-14 && (line.x[[1]] - 1.0).abs() < 1e-14);
/// assert_eq!(line.rank.item()?, 2);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn lstsq<
    'a,
    'b,
    T: MatrixElement + 'a + 'b,
    const RANK: usize,
    const N: usize,
    const V: usize,
    const M: usize,
>(
    a: impl IntoView<'a, T, RANK, Cpu>,
    b: impl IntoView<'b, T, N, Cpu>,
    tolerance: Option<f64>,
) -> Result<LeastSquares<T, N, V, M>>
where
    Dim<RANK>: RightHandSide<Dim<N>> + MatrixRank<Vectors = Dim<V>, Numbers = Dim<M>>,
{
    let op = "lstsq";
    let equations = Equations::of(op, a.into_view(), b.into_view())?;
    let (leading, [m, n], count) = (equations.a.leading(), equations.a.size(), equations.a.count());
    let tolerance = tolerance_of::<T>(op, [m, n], tolerance)?;
    let mut x = equations.solutions(op)?;
    let mut rank = results(op, leading, &[])?;
    let mut s = results(op, leading, &[m.min(n)])?;
    T::least_squares(
        op,
        equations.a,
        equations.b,
        tolerance,
        equations.written(&mut x)?,
        BatchMut::of(&mut rank, count, [1, 1])?,
        BatchMut::of(&mut s, count, [m.min(n), 1])?,
    )?;
    Ok(LeastSquares { x, rank, s })
}

/// The relative size of singular values that count as 0.
pub(super) fn tolerance_of<T: MatrixElement>(
    op: &'static str,
    [m, n]: [usize; 2],
    tolerance: Option<f64>,
) -> Result<f64> {
    match tolerance {
        None => Ok(T::EPSILON * m.max(n) as f64),
        Some(tolerance) if tolerance >= 0.0 && tolerance.is_finite() => Ok(tolerance),
        Some(tolerance) => {
            let what = text(format_args!("the tolerance {tolerance:?} is not a finite number from 0 up"));
            Err(Error::Value { op, what })
        }
    }
}

/// The inverse of each matrix.
///
/// # Shapes
/// `[.., n, n] → [.., n, n]`.
///
/// # Errors
/// [`Error::Value`] if a matrix is not square, singular, or not finite; [`Error::Unallocated`],
/// [`Error::OutOfMemory`]. An inverse that overflows has infinities and NaN.
///
/// # Examples
/// ```
/// use rankform::linalg::inv;
/// use rankform::prelude::*;
/// let a = Tensor::from([[[2.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [0.0, 0.0]]]);
/// assert_eq!(inv(a.slice((0, .., ..))?)?, Tensor::from([[0.5, 0.0], [0.0, 0.25]]));
/// let error = inv(&a).unwrap_err();
/// assert_eq!(error.to_string(), "inv: matrix [1] of sizes [2, 2] is singular: pivot 1 is 0");
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn inv<'a, T: MatrixElement + 'a, const RANK: usize, D: MatrixDevice<T> + 'a>(
    a: impl IntoView<'a, T, RANK, D>,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: MatrixRank,
{
    D::inv(a.into_view())
}

/// The pseudoinverse of each matrix, by singular values. Those of at most `tolerance` times the largest count
/// as 0; `None` is ε · max(m, n), ε being the distance from 1 to the next number.
///
/// # Shapes
/// `[.., m, n] → [.., n, m]`.
///
/// # Errors
/// [`Error::Value`] if a matrix is not finite, if its singular values do not converge, or if `tolerance` is
/// negative or not finite; [`Error::Unallocated`], [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::linalg::pinv;
/// use rankform::prelude::*;
/// let a = Tensor::from([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]);
/// let x = pinv(&a, None)?;
/// assert!(x.allclose(&Tensor::from([[0.5, 0.0, 0.0], [0.0, 0.0, 0.25]]), 1e-15, 1e-15, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn pinv<'a, T: MatrixElement + 'a, const RANK: usize>(
    a: impl IntoView<'a, T, RANK, Cpu>,
    tolerance: Option<f64>,
) -> Result<Tensor<T, RANK>>
where
    Dim<RANK>: MatrixRank,
{
    let op = "pinv";
    let a = Batch::matrices(op, a.into_view())?;
    let [m, n] = a.size();
    let tolerance = tolerance_of::<T>(op, [m, n], tolerance)?;
    let mut x = results(op, a.leading(), &[n, m])?;
    T::pseudo_inverse(op, a, tolerance, BatchMut::of(&mut x, a.count(), [n, m])?)?;
    Ok(x)
}
