//! Linear algebra on the CPU.
// Imports: `dim`, `error`, `device`, `tensor`.

use super::batch::{Batch, BatchMut, results};
use super::factors::singular_values;
use super::solve::Equations;
use super::{
    Eigh, Factors, MatrixDevice, MatrixElement, MatrixRank, Qr, RightHandSide, Slogdet, Svd, Triangle, square,
};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::Result;
use crate::tensor::{Tensor, TensorView};

impl<T: MatrixElement> MatrixDevice<T> for Cpu {
    fn inv<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let op = "inv";
        let a = Batch::matrices(op, a)?;
        let n = square(op, &a)?;
        let mut x = results(op, a.leading(), &[n, n])?;
        T::inverse(op, a, BatchMut::of(&mut x, a.count(), [n, n])?)?;
        Ok(x)
    }

    fn solve<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let op = "solve";
        let equations = Equations::of(op, a, b)?;
        square(op, &equations.a)?;
        let mut x = equations.solutions(op)?;
        T::solve(op, equations.a, equations.b, equations.written(&mut x)?)?;
        Ok(x)
    }

    fn solve_triangular<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
        triangle: Triangle,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let op = "solve_triangular";
        let equations = Equations::of(op, a, b)?;
        square(op, &equations.a)?;
        let mut x = equations.solutions(op)?;
        T::triangular(op, equations.a, equations.b, triangle, equations.written(&mut x)?)?;
        Ok(x)
    }

    fn det<const RANK: usize, const M: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let op = "det";
        let a = Batch::matrices(op, a)?;
        square(op, &a)?;
        let mut out = results(op, a.leading(), &[])?;
        T::determinant(op, a, BatchMut::of(&mut out, a.count(), [1, 1])?)?;
        Ok(out)
    }

    fn slogdet<const RANK: usize, const M: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Slogdet<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let op = "slogdet";
        let a = Batch::matrices(op, a)?;
        square(op, &a)?;
        let (mut sign, mut ln_abs) = (results(op, a.leading(), &[])?, results(op, a.leading(), &[])?);
        let to = BatchMut::of(&mut sign, a.count(), [1, 1])?;
        T::log_determinant(op, a, to, BatchMut::of(&mut ln_abs, a.count(), [1, 1])?)?;
        Ok(Slogdet { sign, ln_abs })
    }

    fn cholesky<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let op = "cholesky";
        let a = Batch::matrices(op, a)?;
        let n = square(op, &a)?;
        let mut lower = results(op, a.leading(), &[n, n])?;
        T::cholesky(op, a, BatchMut::of(&mut lower, a.count(), [n, n])?)?;
        Ok(lower)
    }

    fn qr<const RANK: usize>(a: TensorView<'_, T, RANK, Self>, factors: Factors) -> Result<Qr<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let op = "qr";
        let a = Batch::matrices(op, a)?;
        let ([m, n], count) = (a.size(), a.count());
        let k = if factors == Factors::Full { m } else { m.min(n) };
        let (mut q, mut r) = (results(op, a.leading(), &[m, k])?, results(op, a.leading(), &[k, n])?);
        T::qr(op, a, BatchMut::of(&mut q, count, [m, k])?, BatchMut::of(&mut r, count, [k, n])?)?;
        Ok(Qr { q, r })
    }

    fn svd<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
        factors: Factors,
    ) -> Result<Svd<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let op = "svd";
        let a = Batch::matrices(op, a)?;
        let ([m, n], count) = (a.size(), a.count());
        let k = m.min(n);
        let [p, q] = if factors == Factors::Full { [m, n] } else { [k, k] };
        let (mut u, mut vh) = (results(op, a.leading(), &[m, p])?, results(op, a.leading(), &[q, n])?);
        let mut s = results(op, a.leading(), &[k])?;
        T::svd(
            op,
            a,
            factors,
            BatchMut::of(&mut u, count, [m, p])?,
            BatchMut::of(&mut s, count, [k, 1])?,
            BatchMut::of(&mut vh, count, [q, n])?,
        )?;
        Ok(Svd { u, s, vh })
    }

    fn svd_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T::Part, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        singular_values("svd_values", a, false)
    }

    fn eigh<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Eigh<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let op = "eigh";
        let a = Batch::matrices(op, a)?;
        let (n, count) = (square(op, &a)?, a.count());
        let (mut values, mut vectors) = (results(op, a.leading(), &[n])?, results(op, a.leading(), &[n, n])?);
        let to = BatchMut::of(&mut values, count, [n, 1])?;
        T::hermitian(op, a, to, BatchMut::of(&mut vectors, count, [n, n])?)?;
        Ok(Eigh { values, vectors })
    }

    fn eigh_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T::Part, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let op = "eigh_values";
        let a = Batch::matrices(op, a)?;
        let n = square(op, &a)?;
        let mut values = results(op, a.leading(), &[n])?;
        T::hermitian_values(op, a, BatchMut::of(&mut values, a.count(), [n, 1])?)?;
        Ok(values)
    }
}
