//! Linear algebra in forward mode: values and tangents by functions on the inner device.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `ops`, `autograd`.

use super::tape::ensure_thin;
use super::{Matrices, flat, flat_equations, forward, sizes, transposed, unflat};
use crate::autograd::{Differentiable, Jvp};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::Float;
use crate::error::Result;
use crate::linalg::{
    Eigh, Factors, MatrixDevice, MatrixElement, MatrixRank, Qr, RightHandSide, Slogdet, Svd, Triangle,
};
use crate::ops::Arithmetic as _;
use crate::tensor::{Tensor, TensorView};

/// Values on the inner device, and the tangent if there is one.
type Parts<T, D> = (Matrices<T, D>, Option<Matrices<T, D>>);

fn parts_of<T: Differentiable, D: Device>(x: &Matrices<T, Jvp<D>>) -> Result<Parts<T, D>> {
    let device = x.device();
    let tangent = if device.has_tangent(x) { Some(device.tangent(x)?) } else { None };
    Ok((device.value(x)?, tangent))
}

/// A tensor of these values and this tangent, under other sizes.
fn dual<T: Differentiable, const N: usize, const M: usize, D: Device>(
    device: &Jvp<D>,
    value: Tensor<T, N, D>,
    tangent: Option<Tensor<T, N, D>>,
    size: [usize; M],
) -> Result<Tensor<T, M, Jvp<D>>> {
    let both = match tangent {
        Some(tangent) => device.dual(&value, &tangent)?,
        None => device.constant(&value)?,
    };
    both.into_shape(size)
}

/// The tangents of both operands, zeros for one of them, if either has one.
fn tangents<T: Differentiable, D: Device>(
    (a, of_a): &Parts<T, D>,
    (b, of_b): &Parts<T, D>,
) -> Result<Option<[Matrices<T, D>; 2]>> {
    if of_a.is_none() && of_b.is_none() {
        return Ok(None);
    }
    let or_zeros = |x: &Matrices<T, D>, of_x: &Option<Matrices<T, D>>| match of_x {
        Some(of_x) => Ok(of_x.share_data()),
        None => Tensor::zeros(x.size(), x.device()),
    };
    Ok(Some([or_zeros(a, of_a)?, or_zeros(b, of_b)?]))
}

impl<T: MatrixElement + Float + Differentiable, D: MatrixDevice<T>> MatrixDevice<T> for Jvp<D> {
    fn inv<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let x = D::inv::<RANK>(unflat(&value, size)?.view())?.into_shape(value.size())?;
        let of_x = tangent.map(|of_a| forward::inverse(&x, &of_a)).transpose()?;
        dual(a.device(), x, of_x, size)
    }

    fn solve<const RANK: usize, const N: usize>(
        a: TensorView<'_, T, RANK, Self>,
        b: TensorView<'_, T, N, Self>,
    ) -> Result<Tensor<T, N, Self>>
    where
        Dim<RANK>: RightHandSide<Dim<N>>,
    {
        let (left, right, size) = flat_equations("solve", a, b)?;
        let (left, right) = (parts_of(&left)?, parts_of(&right)?);
        let of_a: [usize; RANK] = sizes(&size[..RANK - 2], &left.0.size().0[1..]);
        let (of_a, of_b) = (unflat(&left.0, of_a)?, unflat(&right.0, size)?);
        let x = D::solve::<RANK, N>(of_a.view(), of_b.view())?.into_shape(right.0.size())?;
        let tangents = tangents(&left, &right)?;
        let of_x = tangents.map(|both| forward::solution(&left.0, &x, both.each_ref())).transpose()?;
        dual(a.device(), x, of_x, size)
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
        let (left, right) = (parts_of(&left)?, parts_of(&right)?);
        let of_a: [usize; RANK] = sizes(&size[..RANK - 2], &left.0.size().0[1..]);
        let (of_a, of_b) = (unflat(&left.0, of_a)?, unflat(&right.0, size)?);
        let x =
            D::solve_triangular::<RANK, N>(of_a.view(), of_b.view(), triangle)?.into_shape(right.0.size())?;
        let of_x = tangents(&left, &right)?
            .map(|both| forward::triangular_solution(&left.0, triangle, &x, both.each_ref()))
            .transpose()?;
        dual(a.device(), x, of_x, size)
    }

    fn det<const RANK: usize, const M: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let numbers = D::det::<RANK, M>(unflat(&value, size)?.view())?.into_shape([value.size()[0]])?;
        let of_numbers = tangent
            .map(|of_a| forward::ln_determinant(("det", size), &value, &of_a)?.mul(&numbers))
            .transpose()?;
        dual(a.device(), numbers, of_numbers, sizes(&size[..M], &[]))
    }

    fn slogdet<const RANK: usize, const M: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Slogdet<T, M, Self>>
    where
        Dim<RANK>: MatrixRank<Numbers = Dim<M>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let found = D::slogdet::<RANK, M>(unflat(&value, size)?.view())?;
        let count = [value.size()[0]];
        let (sign, ln_abs) = (found.sign.into_shape(count)?, found.ln_abs.into_shape(count)?);
        let of_ln =
            tangent.map(|of_a| forward::ln_determinant(("slogdet", size), &value, &of_a)).transpose()?;
        let size = sizes(&size[..M], &[]);
        let sign = dual(a.device(), sign, None, size)?;
        Ok(Slogdet { sign, ln_abs: dual(a.device(), ln_abs, of_ln, size)? })
    }

    fn cholesky<const RANK: usize>(a: TensorView<'_, T, RANK, Self>) -> Result<Tensor<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let lower = D::cholesky::<RANK>(unflat(&value, size)?.view())?.into_shape(value.size())?;
        let of_lower = tangent.map(|of_a| forward::cholesky(&lower, &of_a)).transpose()?;
        dual(a.device(), lower, of_lower, size)
    }

    fn qr<const RANK: usize>(a: TensorView<'_, T, RANK, Self>, factors: Factors) -> Result<Qr<T, RANK, Self>>
    where
        Dim<RANK>: MatrixRank,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let (leading, [count, m, n]) = (&size[..RANK - 2], value.size().0);
        ensure_thin("qr", factors, m <= n)?;
        let k = m.min(n);
        let Qr { q, r } = D::qr::<RANK>(unflat(&value, size)?.view(), Factors::Thin)?;
        let (q, r) = (q.into_shape([count, m, k])?, r.into_shape([count, k, n])?);
        let (of_q, of_r) = match tangent {
            None => (None, None),
            Some(of_a) => {
                let [of_q, of_r] = forward::qr(&value, [&q, &r], &of_a)?;
                (Some(of_q), Some(of_r))
            }
        };
        let q = dual(a.device(), q, of_q, sizes(leading, &[m, k]))?;
        Ok(Qr { q, r: dual(a.device(), r, of_r, sizes(leading, &[k, n]))? })
    }

    fn svd<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
        factors: Factors,
    ) -> Result<Svd<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let (leading, [count, m, n]) = (&size[..RANK - 2], value.size().0);
        ensure_thin("svd", factors, m == n)?;
        let k = m.min(n);
        let Svd { u, s, vh } = D::svd::<RANK, V>(unflat(&value, size)?.view(), Factors::Thin)?;
        let (u, vh) = (u.into_shape([count, m, k])?, vh.into_shape([count, k, n])?);
        let s = s.into_shape([count, k])?;
        let (of_u, of_s, of_vh) = match tangent {
            None => (None, None, None),
            Some(of_a) => {
                let (of_s, p) = forward::singular_values([&u, &vh], &of_a)?;
                let right = of_a.matmul(transposed(&vh)?)?;
                let left = transposed(&of_a)?.matmul(&u)?;
                let of_u = forward::singular_vectors(("svd", leading), &u, &s, (&p, &right))?;
                let (v, p) = (transposed(&vh)?.to_contiguous()?, transposed(&p)?.to_contiguous()?);
                let of_v = forward::singular_vectors(("svd", leading), &v, &s, (&p, &left))?;
                (Some(of_u), Some(of_s), Some(of_v.into_permuted([0, 2, 1])?))
            }
        };
        let u = dual(a.device(), u, of_u, sizes(leading, &[m, k]))?;
        let s = dual(a.device(), s, of_s, sizes(leading, &[k]))?;
        Ok(Svd { u, s, vh: dual(a.device(), vh, of_vh, sizes(leading, &[k, n]))? })
    }

    fn svd_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let [count, m, n] = value.size().0;
        let (k, under) = (m.min(n), unflat(&value, size)?);
        let (s, of_s) = match tangent {
            None => (D::svd_values::<RANK, V>(under.view())?.into_shape([count, k])?, None),
            Some(of_a) => {
                let Svd { u, s, vh } = D::svd::<RANK, V>(under.view(), Factors::Thin)
                    .map_err(|error| error.with_op("svd_values"))?;
                let (u, vh) = (u.into_shape([count, m, k])?, vh.into_shape([count, k, n])?);
                (s.into_shape([count, k])?, Some(forward::singular_values([&u, &vh], &of_a)?.0))
            }
        };
        dual(a.device(), s, of_s, sizes(&size[..RANK - 2], &[k]))
    }

    fn eigh<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Eigh<T, RANK, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let Eigh { values, vectors } = D::eigh::<RANK, V>(unflat(&value, size)?.view())?;
        let [count, n, _] = value.size().0;
        let (values, vectors) = (values.into_shape([count, n])?, vectors.into_shape([count, n, n])?);
        let (of_values, of_vectors) = match tangent {
            None => (None, None),
            Some(of_a) => {
                let (of_values, p) = forward::symmetric_eigenvalues(&vectors, &of_a)?;
                (
                    Some(of_values),
                    Some(forward::symmetric_eigenvectors(
                        ("eigh", &size[..RANK - 2]),
                        &values,
                        &vectors,
                        &p,
                    )?),
                )
            }
        };
        let vectors = dual(a.device(), vectors, of_vectors, size)?;
        let values = dual(a.device(), values, of_values, sizes(&size[..RANK - 2], &size[RANK - 1..]))?;
        Ok(Eigh { values, vectors })
    }

    fn eigh_values<const RANK: usize, const V: usize>(
        a: TensorView<'_, T, RANK, Self>,
    ) -> Result<Tensor<T, V, Self>>
    where
        Dim<RANK>: MatrixRank<Vectors = Dim<V>>,
    {
        let (size, (value, tangent)) = (a.size().0, parts_of(&flat(a)?)?);
        let (rows, under) = ([value.size()[0], value.size()[1]], unflat(&value, size)?);
        let (values, of_values) = match tangent {
            None => (D::eigh_values::<RANK, V>(under.view())?.into_shape(rows)?, None),
            Some(of_a) => {
                let Eigh { values, vectors } =
                    D::eigh::<RANK, V>(under.view()).map_err(|error| error.with_op("eigh_values"))?;
                let vectors = vectors.into_shape(value.size())?;
                (values.into_shape(rows)?, Some(forward::symmetric_eigenvalues(&vectors, &of_a)?.0))
            }
        };
        dual(a.device(), values, of_values, sizes(&size[..RANK - 2], &size[RANK - 1..]))
    }
}
