//! Tangents of results from operands, results and the tangents of operands.
// Imports: `error`, `dim`, `element`, `tensor`, `ops`.

use super::{
    Matrices, Place, beside, by_gaps, half_lower, quotient, size_of_both, transposed, unflat, varying,
};
use crate::dim::{Axis, Dim};
use crate::element::Float;
use crate::error::Result;
use crate::linalg::{MatrixDevice, MatrixElement, MatrixRank, Triangle, inv, solve, solve_triangular};
use crate::ops::{Arithmetic as _, Reductions as _, Triangles as _};
use crate::tensor::Tensor;

/// Of `x = a⁻¹`: `−x·ȧ·x`.
pub(super) fn inverse<T: Float + MatrixElement, D: MatrixDevice<T>>(
    x: &Matrices<T, D>,
    of_a: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    x.matmul(of_a)?.matmul(x)?.neg()
}

/// Of `a·x = b`: `a⁻¹·(ḃ − ȧ·x)`.
pub(super) fn solution<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    x: &Matrices<T, D>,
    [of_a, of_b]: [&Matrices<T, D>; 2],
) -> Result<Matrices<T, D>> {
    solve(a, &(of_b.lazy() - &of_a.matmul(x)?).eval()?)
}

/// As [`solution`], for a triangle of `a`.
pub(super) fn triangular_solution<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    triangle: Triangle,
    x: &Matrices<T, D>,
    [of_a, of_b]: [&Matrices<T, D>; 2],
) -> Result<Matrices<T, D>> {
    let moved = varying(of_a, triangle)?.matmul(x)?;
    solve_triangular(a, &(of_b.lazy() - &moved).eval()?, triangle)
}

/// Of a determinant's logarithm: the trace of `a⁻¹·ȧ`.
pub(super) fn ln_determinant<T: Float + MatrixElement, const RANK: usize, D: MatrixDevice<T>>(
    (op, size): (&'static str, [usize; RANK]),
    a: &Matrices<T, D>,
    of_a: &Matrices<T, D>,
) -> Result<Tensor<T, 1, D>>
where
    Dim<RANK>: MatrixRank,
{
    let inverse = inv(&unflat(a, size)?).map_err(|error| error.with_op(op))?.into_shape(a.size())?;
    (transposed(&inverse)?.lazy() * of_a).sum((Axis::<1>, Axis::<2>))
}

/// The symmetric matrix of a lower triangle.
fn of_lower_triangle<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    (a.tril(0)?.lazy() + transposed(&a.tril(-1)?)?).eval()
}

/// Of `a = l·lᵀ`: `l·Φ(l⁻¹·ȧ·l⁻ᵀ)`, where `Φ` is the lower triangle with half of the diagonal.
pub(super) fn cholesky<T: Float + MatrixElement, D: MatrixDevice<T>>(
    l: &Matrices<T, D>,
    of_a: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    let left = solve_triangular(l, &of_lower_triangle(of_a)?, Triangle::Lower)?;
    l.matmul(&half_lower(&solve_triangular(l, transposed(&left)?, Triangle::Lower)?)?)
}

/// Of `q·r` with at least as many rows as columns, by `c = ȧ·r⁻¹`, `m = qᵀ·c` and the skew matrix `w` that
/// has the lower triangle of `m`: `q·w + c − q·m` and `(m − w)·r`.
fn tall_qr<T: Float + MatrixElement, D: MatrixDevice<T>>(
    [q, r]: [&Matrices<T, D>; 2],
    of_a: &Matrices<T, D>,
) -> Result<[Matrices<T, D>; 2]> {
    let c = solve_triangular(transposed(r)?, transposed(of_a)?, Triangle::Lower)?.into_permuted([0, 2, 1])?;
    let m = transposed(q)?.matmul(&c)?;
    let lower = m.tril(-1)?;
    let upper = (m.lazy() - &lower + transposed(&lower)?).eval()?; // m − w
    let of_q = (c.lazy() - &q.matmul(&upper)?).eval()?;
    Ok([of_q, upper.matmul(r)?])
}

/// Of `q·r` of any sizes, `q` with as many columns as the smaller one.
pub(super) fn qr<T: Float + MatrixElement, D: MatrixDevice<T>>(
    a: &Matrices<T, D>,
    [q, r]: [&Matrices<T, D>; 2],
    of_a: &Matrices<T, D>,
) -> Result<[Matrices<T, D>; 2]> {
    let [_, m, n] = a.size().0;
    if m >= n {
        return tall_qr([q, r], of_a);
    }
    let first = |a: &Matrices<T, D>| a.slice((.., .., ..m))?.to_contiguous();
    let [of_q, of_r] = tall_qr([q, &first(r)?], &first(of_a)?)?;
    let moved = transposed(&of_q)?.matmul(a.slice((.., .., m..))?)?;
    let of_rest = (transposed(q)?.matmul(of_a.slice((.., .., m..))?)?.lazy() + &moved).eval()?;
    let of_r = Tensor::concat([of_r.view(), of_rest.view()], Axis::<2>)?;
    Ok([of_q, of_r])
}

/// The diagonals.
fn diagonals<T: Float + MatrixElement, D: MatrixDevice<T>>(a: &Matrices<T, D>) -> Result<Tensor<T, 2, D>> {
    a.diagonal(Axis::<1>, Axis::<2>)?.to_contiguous()
}

/// Of the eigenvalues of a symmetric matrix: the diagonal of `p = vᵀ·ȧ·v`; and `p`.
pub(super) fn symmetric_eigenvalues<T: Float + MatrixElement, D: MatrixDevice<T>>(
    vectors: &Matrices<T, D>,
    of_a: &Matrices<T, D>,
) -> Result<(Tensor<T, 2, D>, Matrices<T, D>)> {
    let p = transposed(vectors)?.matmul(&of_lower_triangle(of_a)?)?.matmul(vectors)?;
    Ok((diagonals(&p)?, p))
}

/// Of the eigenvectors: `v·(p∘f)` with `f_ij = 1 / (λ_j − λ_i)` beside the diagonal.
pub(super) fn symmetric_eigenvectors<T: Float + MatrixElement, D: MatrixDevice<T>>(
    place: Place<'_>,
    values: &Tensor<T, 2, D>,
    vectors: &Matrices<T, D>,
    p: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    let gap = (values.insert_axis(Axis::<1>).lazy() - values.insert_axis(Axis::<2>)).eval()?;
    let beside = beside(p)?;
    let equal = "eigenvalues are equal, and a result depends on their vectors";
    vectors.matmul(&quotient(place, equal, &beside, gap.view(), &beside)?)
}

/// Of the singular values, `v` by rows: the diagonal of `p = uᵀ·ȧ·vᵀ`; and `p`.
pub(super) fn singular_values<T: Float + MatrixElement, D: MatrixDevice<T>>(
    [u, v]: [&Matrices<T, D>; 2],
    of_a: &Matrices<T, D>,
) -> Result<(Tensor<T, 2, D>, Matrices<T, D>)> {
    let p = transposed(u)?.matmul(of_a)?.matmul(transposed(v)?)?;
    Ok((diagonals(&p)?, p))
}

/// Of one side of the singular vectors, as columns: `u·(f∘(p·s + s·pᵀ)) + (ȧ·v − u·p) / s` with
/// `f_ij = 1 / (s_j² − s_i²)` beside the diagonal. `turned` is `ȧ·v`.
pub(super) fn singular_vectors<T: Float + MatrixElement, D: MatrixDevice<T>>(
    place: Place<'_>,
    u: &Matrices<T, D>,
    s: &Tensor<T, 2, D>,
    (p, turned): (&Matrices<T, D>, &Matrices<T, D>),
) -> Result<Matrices<T, D>> {
    let beside = beside(p)?;
    let reversed = transposed(&beside)?.to_contiguous()?;
    let inside = u.matmul(&by_gaps(place, s, [&beside, &reversed], &size_of_both(&beside)?)?)?;
    let Dim([_, rows, columns]) = u.size();
    if rows == columns {
        return Ok(inside);
    }
    let outside = (turned.lazy() - &u.matmul(p)?).eval()?;
    let zero = "a singular value is 0, and a result depends on its vectors";
    (inside.lazy() + &quotient(place, zero, &outside, s.insert_axis(Axis::<1>), &outside)?).eval()
}
