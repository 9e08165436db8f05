//! Linear algebra on tapes: one step for each operator.
// Imports: `error`, `dim`, `element`, `tensor`, `ops`, `autograd`.

use super::{backward, flat, flat_equations, packed, part, sizes, unflat};
use crate::autograd::{Differentiable, Tape};
use crate::dim::Dim;
use crate::element::Float;
use crate::error::{Error, Result, text};
use crate::linalg::{
    Eigh, Factors, MatrixDevice, MatrixElement, MatrixRank, Qr, RightHandSide, Slogdet, Svd, Triangle,
};
use crate::ops::Arithmetic as _;
use crate::tensor::{Tensor, TensorView};

/// An error if the factors asked for are larger than thin ones, which have no derivative.
pub(super) fn ensure_thin(op: &'static str, factors: Factors, is_thin: bool) -> Result<()> {
    if factors == Factors::Thin || is_thin {
        return Ok(());
    }
    let what = text(format_args!("full factors have no derivative; `Factors::Thin` have"));
    Err(Error::Value { op, what })
}

impl<T: MatrixElement + Float + Differentiable, D: MatrixDevice<T>> MatrixDevice<T> for Tape<D> {
    fn inv<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let size = a.size().0;
        let x = a.device().custom(
            (&flat(a)?,),
            |(a,)| D::inv::<RANK>(unflat(a, size)?.view())?.into_shape(a.size()),
            |_, x, g| Ok((backward::inverse(x, g)?,)),
        )?;
        x.into_shape(size)
    }

    fn solve<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let (left, right, size) = flat_equations("solve", a, b)?;
        let x = a.device().custom(
            (&left, &right),
            |(a, b)| {
                let of_a = sizes(&size[..RANK - 2], &a.size().0[1..]);
                D::solve::<RANK, N>(unflat(a, of_a)?.view(), unflat(b, size)?.view())?.into_shape(b.size())
            },
            |(a, _), x, g| backward::solution(a, x, g),
        )?;
        x.into_shape(size)
    }

    fn solve_triangular<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
        triangle: Triangle,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let (left, right, size) = flat_equations("solve_triangular", a, b)?;
        let x = a.device().custom(
            (&left, &right),
            |(a, b)| {
                let of_a: [usize; RANK] = sizes(&size[..RANK - 2], &a.size().0[1..]);
                let (a, flat_b) = (unflat(a, of_a)?, unflat(b, size)?);
                D::solve_triangular::<RANK, N>(a.view(), flat_b.view(), triangle)?.into_shape(b.size())
            },
            move |(a, _), x, g| backward::triangular_solution(a, triangle, x, g),
        )?;
        x.into_shape(size)
    }

    fn det<const RANK: usize, const M: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let size = a.size().0;
        let numbers = a.device().custom(
            (&flat(a)?,),
            |(a,)| D::det::<RANK, M>(unflat(a, size)?.view())?.into_shape([a.size()[0]]),
            move |(a,), det, g| Ok((backward::ln_determinant(("det", size), a, g.mul(det)?)?,)),
        )?;
        numbers.into_shape(sizes(&size[..M], &[]))
    }

    fn slogdet<const RANK: usize, const M: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Slogdet<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let size = a.size().0;
        let rows = a.device().custom(
            (&flat(a)?,),
            |(a,)| {
                let found = D::slogdet::<RANK, M>(unflat(a, size)?.view())?;
                let count = a.size()[0];
                packed([found.sign.into_shape([count, 1])?, found.ln_abs.into_shape([count, 1])?])
            },
            move |(a,), _, g| {
                let of_ln = g.slice((.., 1))?.to_contiguous()?;
                Ok((backward::ln_determinant(("slogdet", size), a, of_ln)?,))
            },
        )?;
        let size = sizes(&size[..M], &[]);
        Ok(Slogdet { sign: part(&rows, 0..1, size)?, ln_abs: part(&rows, 1..2, size)? })
    }

    fn cholesky<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let size = a.size().0;
        let lower = a.device().custom(
            (&flat(a)?,),
            |(a,)| D::cholesky::<RANK>(unflat(a, size)?.view())?.into_shape(a.size()),
            |_, lower, g| Ok((backward::cholesky(lower, g)?,)),
        )?;
        lower.into_shape(size)
    }

    fn qr<const RANK: usize>(a: TensorView<'_, T, RANK, Self>, factors: Factors) -> Result<Qr<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let (size, matrices) = (a.size().0, flat(a)?);
        let (leading, [count, m, n]) = (&size[..RANK - 2], matrices.size().0);
        ensure_thin("qr", factors, m <= n)?;
        let k = m.min(n);
        let (of_q, of_r) = (0..m * k, m * k..m * k + k * n);
        let (q_columns, r_columns) = (of_q.clone(), of_r.clone());
        let rows = a.device().custom(
            (&matrices,),
            |(a,)| {
                let found = D::qr::<RANK>(unflat(a, size)?.view(), Factors::Thin)?;
                packed([found.q.into_shape([count, m * k])?, found.r.into_shape([count, k * n])?])
            },
            move |(a,), rows, g| {
                let both = |rows: &Tensor<T, 2, D>| -> Result<[Tensor<T, 3, D>; 2]> {
                    let q = part(rows, q_columns.clone(), [count, m, k])?;
                    Ok([q, part(rows, r_columns.clone(), [count, k, n])?])
                };
                let (found, gradients) = (both(rows)?, both(g)?);
                Ok((backward::qr(a, found.each_ref(), gradients.each_ref())?,))
            },
        )?;
        let q = part(&rows, of_q, sizes(leading, &[m, k]))?;
        Ok(Qr { q, r: part(&rows, of_r, sizes(leading, &[k, n]))? })
    }

    fn svd<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
        factors: Factors,
    ) -> Result<Svd<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, matrices) = (a.size().0, flat(a)?);
        let (leading, [count, m, n]) = (&size[..RANK - 2], matrices.size().0);
        ensure_thin("svd", factors, m == n)?;
        let k = m.min(n);
        let ends = [m * k, m * k + k, m * k + k + k * n];
        let rows = a.device().custom(
            (&matrices,),
            |(a,)| {
                let found = D::svd::<RANK, V>(unflat(a, size)?.view(), Factors::Thin)?;
                packed([
                    found.u.into_shape([count, m * k])?,
                    found.s.into_shape([count, k])?,
                    found.vh.into_shape([count, k * n])?,
                ])
            },
            move |_, rows, g| {
                let each = |rows: &Tensor<T, 2, D>| -> Result<_> {
                    let u: Tensor<T, 3, D> = part(rows, 0..ends[0], [count, m, k])?;
                    let s: Tensor<T, 2, D> = part(rows, ends[0]..ends[1], [count, k])?;
                    Ok((u, s, part::<T, 3, D>(rows, ends[1]..ends[2], [count, k, n])?))
                };
                let (u, s, vh) = each(rows)?;
                Ok((backward::singular(("svd", &size[..RANK - 2]), (&u, &s, &vh), each(g)?)?,))
            },
        )?;
        let u = part(&rows, 0..ends[0], sizes(leading, &[m, k]))?;
        let s = part(&rows, ends[0]..ends[1], sizes(leading, &[k]))?;
        Ok(Svd { u, s, vh: part(&rows, ends[1]..ends[2], sizes(leading, &[k, n]))? })
    }

    fn svd_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        Ok(Self::svd::<RANK, V>(a, Factors::Thin).map_err(|error| error.with_op("svd_values"))?.s)
    }

    fn eigh<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Eigh<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, matrices) = (a.size().0, flat(a)?);
        let (leading, [count, n, _]) = (&size[..RANK - 2], matrices.size().0);
        let rows = a.device().custom(
            (&matrices,),
            |(a,)| {
                let found = D::eigh::<RANK, V>(unflat(a, size)?.view())?;
                packed([found.values.into_shape([count, n])?, found.vectors.into_shape([count, n * n])?])
            },
            move |_, rows, g| {
                let both = |rows: &Tensor<T, 2, D>| -> Result<_> {
                    let values: Tensor<T, 2, D> = part(rows, 0..n, [count, n])?;
                    Ok((values, part::<T, 3, D>(rows, n..n + n * n, [count, n, n])?))
                };
                let (values, vectors) = both(rows)?;
                Ok((backward::symmetric_eigen(("eigh", &size[..RANK - 2]), &values, &vectors, both(g)?)?,))
            },
        )?;
        let values = part(&rows, 0..n, sizes(leading, &[n]))?;
        Ok(Eigh { values, vectors: part(&rows, n..n + n * n, sizes(leading, &[n, n]))? })
    }

    fn eigh_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        Ok(Self::eigh::<RANK, V>(a).map_err(|error| error.with_op("eigh_values"))?.values)
    }
}
