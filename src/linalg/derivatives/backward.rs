//! Gradients of operands from results and their gradients.
// Imports: `error`, `dim`, `element`, `tensor`, `ops`.

use super::{
    Matrices, Place, beside, by_gaps, half_lower, quotient, size_of_both, transposed, unflat, varying,
};
use crate::dim::{Axis, Dim};
use crate::element::Float;
use crate::error::Result;
use crate::linalg::{MatrixDevice, MatrixElement, MatrixRank, Triangle, inv, solve, solve_triangular};
use crate::ops::{Arithmetic as _, Triangles as _};
use crate::tensor::Tensor;

/// Of `x = a⁻¹`: `−xᵀ·g·xᵀ`.
pub(super) fn inverse<T: Float + MatrixElement, D: MatrixDevice<T>>(
    x: &Matrices<T, D>,
    gradient: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    transposed(x)?.matmul(gradient)?.matmul(transposed(x)?)?.neg()
}

/// Of `a·x = b`: that of `b` is `y = a⁻ᵀ·g`, that of `a` is `−y·xᵀ`.
pub(super) fn solution<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    x: &Matrices<T, D>,
    gradient: &Matrices<T, D>,
) -> Result<(Matrices<T, D>, Matrices<T, D>)> {
    let of_b = solve(transposed(a)?, gradient)?;
    Ok((of_b.matmul(transposed(x)?)?.neg()?, of_b))
}

/// As [`solution`], for a triangle of `a`.
pub(super) fn triangular_solution<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    triangle: Triangle,
    x: &Matrices<T, D>,
    gradient: &Matrices<T, D>,
) -> Result<(Matrices<T, D>, Matrices<T, D>)> {
    let of_transposed = match triangle {
        Triangle::Lower => Triangle::Upper,
        Triangle::Upper => Triangle::Lower,
        Triangle::UnitLower => Triangle::UnitUpper,
        Triangle::UnitUpper => Triangle::UnitLower,
    };
    let of_b = solve_triangular(transposed(a)?, gradient, of_transposed)?;
    Ok((varying(&of_b.matmul(transposed(x)?)?.neg()?, triangle)?, of_b))
}

/// Of a determinant's logarithm: `g·a⁻ᵀ`; of the determinant, if `g` is multiplied by it.
pub(super) fn ln_determinant<T: Float + MatrixElement, const RANK: usize, D: MatrixDevice<T>>(
    (op, size): (&'static str, [usize; RANK]),
    a: &Matrices<T, D>,
    gradient: Tensor<T, 1, D>,
) -> Result<Matrices<T, D>>
where
    Dim<RANK>: MatrixRank,
{
    let count = gradient.numel();
    let inverse = inv(&unflat(a, size)?).map_err(|error| error.with_op(op))?.into_shape(a.size())?;
    (transposed(&inverse)?.lazy() * &gradient.into_shape([count, 1, 1])?).eval()
}

/// Of `a = l·lᵀ`: `s = l⁻ᵀ·Φ(lᵀ·g)·l⁻¹`, where `Φ` is the lower triangle with half of the diagonal. If `s` is
/// the gradient of all elements, that of the lower triangle of a symmetric matrix is `Φ(s + sᵀ)`.
pub(super) fn cholesky<T: Float + MatrixElement, D: MatrixDevice<T>>(
    l: &Matrices<T, D>,
    gradient: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    let inner = half_lower(&transposed(l)?.matmul(&gradient.tril(0)?)?)?;
    let left = solve_triangular(transposed(l)?, &inner, Triangle::Upper)?;
    let s = solve_triangular(transposed(l)?, transposed(&left)?, Triangle::Upper)?;
    half_lower(&(s.lazy() + transposed(&s)?).eval()?)
}

/// Of `q·r` with at least as many rows as columns: `(g_q + q·c)·r⁻ᵀ`, where `c` is symmetric and has the
/// lower triangle of `r·g_rᵀ − g_qᵀ·q`.
pub(super) fn tall_qr<T: Float + MatrixElement, D: MatrixDevice<T>>(
    [q, r]: [&Matrices<T, D>; 2],
    [of_q, of_r]: [&Matrices<T, D>; 2],
) -> Result<Matrices<T, D>> {
    let of_r = of_r.triu(0)?;
    let inner = (r.matmul(transposed(&of_r)?)?.lazy() - &transposed(of_q)?.matmul(q)?).eval()?;
    let strict = inner.tril(-1)?;
    let symmetric = (inner.tril(0)?.lazy() + transposed(&strict)?).eval()?;
    let right = (of_q.lazy() + &q.matmul(&symmetric)?).eval()?;
    solve_triangular(r, transposed(&right)?, Triangle::Upper)?.into_permuted([0, 2, 1])
}

/// Of `q·r` of any sizes, `q` with as many columns as the smaller one. Of a wide matrix `[x, y]`, `q` is that
/// of `x`, and the rest of `r` is `qᵀ·y`.
pub(super) fn qr<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    [q, r]: [&Matrices<T, D>; 2],
    [of_q, of_r]: [&Matrices<T, D>; 2],
) -> Result<Matrices<T, D>> {
    let [_, m, n] = a.size().0;
    if m >= n {
        return tall_qr([q, r], [of_q, of_r]);
    }
    let rest = of_r.slice((.., .., m..))?;
    let of_rest = q.matmul(rest)?;
    let of_q = (of_q.lazy() + &a.slice((.., .., m..))?.matmul(rest.permuted([0, 2, 1])?)?).eval()?;
    let square = |r: &Matrices<T, D>| r.slice((.., .., ..m))?.to_contiguous();
    let of_first = tall_qr([q, &square(r)?], [&of_q, &square(of_r)?])?;
    Tensor::concat([of_first.view(), of_rest.view()], Axis::<2>)
}

/// Of `a = v·diag(λ)·vᵀ`: `s = v·(diag(g_λ) + (vᵀ·g_v)∘f)·vᵀ` with `f_ij = 1 / (λ_j − λ_i)` beside the
/// diagonal.
pub(super) fn symmetric_eigen<T: Float + MatrixElement, D: MatrixDevice<T>>(
    place: Place<'_>,
    values: &Tensor<T, 2, D>,
    vectors: &Matrices<T, D>,
    (of_values, of_vectors): (Tensor<T, 2, D>, Matrices<T, D>),
) -> Result<Matrices<T, D>> {
    let turned = beside(&transposed(vectors)?.matmul(&of_vectors)?)?;
    let skew = (turned.lazy() - transposed(&turned)?).eval()?;
    let gap = (values.insert_axis(Axis::<1>).lazy() - values.insert_axis(Axis::<2>)).eval()?;
    let inner = quotient(
        place,
        "eigenvalues are equal, and a result depends on their vectors",
        &skew,
        gap.view(),
        &size_of_both(&turned)?,
    )?;
    // s + sᵀ
    let scaled = vectors.lazy() * of_values.insert_axis(Axis::<1>);
    let left = (scaled.mul(T::constant(2.0)) + &vectors.matmul(&inner)?).eval()?;
    half_lower(&left.matmul(transposed(vectors)?)?)
}

/// Of `a = u·diag(s)·v`, `v` by rows: `u·(diag(g_s) + w)·v` with
/// `w_ij = (k_ij·s_j + s_i·h_ij) / (s_j² − s_i²)`, where `k = uᵀ·g_u − g_uᵀ·u` and
/// `h = v·g_vᵀ − g_v·vᵀ`; and, if `a` is not square, what stands at right angles to `u` or `v`.
pub(super) fn singular<T: Float + MatrixElement, D: MatrixDevice<T>>(
    place: Place<'_>,
    (u, s, v): (&Matrices<T, D>, &Tensor<T, 2, D>, &Matrices<T, D>),
    (of_u, of_s, of_v): (Matrices<T, D>, Tensor<T, 2, D>, Matrices<T, D>),
) -> Result<Matrices<T, D>> {
    let (right, down) = (s.insert_axis(Axis::<1>), s.insert_axis(Axis::<2>));
    let (along_u, along_v) = (transposed(u)?.matmul(&of_u)?, v.matmul(transposed(&of_v)?)?);
    let (around_u, around_v) = (beside(&along_u)?, beside(&along_v)?);
    let k = (around_u.lazy() - transposed(&around_u)?).eval()?;
    let h = (around_v.lazy() - transposed(&around_v)?).eval()?;
    let wanted = (size_of_both(&around_u)?.lazy() + &size_of_both(&around_v)?).eval()?;
    let inner = by_gaps(place, s, [&k, &h], &wanted)?;
    let mut left = (u.lazy() * of_s.insert_axis(Axis::<1>) + &u.matmul(&inner)?).eval()?;
    let zero = "a singular value is 0, and a result depends on its vectors";
    let (rows, columns, size) = (u.size()[1], v.size()[2], s.size()[1]);
    if rows > size {
        let outside = (of_u.lazy() - &u.matmul(&along_u)?).eval()?;
        left = (left.lazy() + &quotient(place, zero, &outside, right, &outside)?).eval()?;
    }
    let inside = left.matmul(v)?;
    if columns == size {
        return Ok(inside);
    }
    let outside = (of_v.lazy() - &transposed(&along_v)?.matmul(v)?).eval()?;
    (inside.lazy() + &u.matmul(&quotient(place, zero, &outside, down, &outside)?)?).eval()
}
