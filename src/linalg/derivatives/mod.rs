//! Derivatives of linear algebra: tapes and forward mode, for real elements.
//!
//! Each operator runs on the device inside and is one step of a tape. Its derivative is a program of tensors
//! and of functions of this module on that device, so that a tape inside a tape has second derivatives. The
//! formulas are those of Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
//! differentiation" (2008), for singular vectors of Townsend, "Differentiating the singular value
//! decomposition" (2016), and for QR of Walter and Lehmann, "Algorithmic differentiation of linear algebra
//! functions" (2010).
//!
//! Matrices have rank 3 here: all leading axes are one. Several results are the parts of one tensor of rows.
//!
//! | content | file |
//! |---|---|
//! | tapes | `tape.rs`, formulas in `backward.rs` |
//! | forward mode | `jvp.rs`, formulas in `forward.rs` |
//! | sizes, parts, quotients | this file |
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `ops`.

mod backward;
mod forward;
mod jvp;
mod tape;

use super::solve::joint_leading;
use super::{MatrixElement, RightHandSide, Triangle};
use crate::device::Device;
use crate::dim::{All, Axis, Dim};
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::ops::{Arithmetic as _, Comparisons as _, Reductions as _, Triangles as _};
use crate::tensor::{Tensor, TensorView};
use std::ops::Range;

/// Matrices of one leading axis.
type Matrices<T, D> = Tensor<T, 3, D>;

/// The operator that an error names, and the sizes of the leading axes of its operand.
type Place<'a> = (&'static str, &'a [usize]);

/// Matrices of any leading axes, as a copy with one.
fn flat<T: Element, const RANK: usize, D: Device>(a: TensorView<'_, T, RANK, D>) -> Result<Matrices<T, D>> {
    let size = a.size().0;
    let (leading, last) = size.split_at(RANK - 2);
    a.to_shape([leading.iter().product(), last[0], last[1]])
}

/// The matrices under their own leading axes: an error of a function names their index.
fn unflat<T: Element, const RANK: usize, D: Device>(
    a: &Matrices<T, D>,
    size: [usize; RANK],
) -> Result<Tensor<T, RANK, D>> {
    a.share_data().into_shape(size)
}

/// Both operands of equations with their leading axes broadcast, and the sizes of the solutions.
fn flat_equations<T: MatrixElement, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    a: TensorView<'_, T, RANK, D>,
    b: TensorView<'_, T, N, D>,
) -> Result<(Matrices<T, D>, Matrices<T, D>, [usize; N])>
where
    Dim<RANK>: RightHandSide<Dim<N>>,
{
    let (mut of_a, mut of_b) = (a.size().0, b.size().0);
    let are_vectors = <Dim<RANK> as RightHandSide<Dim<N>>>::ARE_VECTORS;
    let joint = joint_leading(op, &of_a, &of_b)?;
    let leading = RANK - 2;
    of_a[..leading].copy_from_slice(&joint[..leading]);
    of_b[..leading].copy_from_slice(&joint[..leading]);
    let columns = if are_vectors { 1 } else { of_b[N - 1] };
    let count = joint[..leading].iter().product();
    let flat_b = b.broadcast_to(of_b)?.to_shape([count, of_b[leading], columns])?;
    Ok((flat(a.broadcast_to(of_a)?)?, flat_b, of_b))
}

/// The sizes `leading`, then `last`.
fn sizes<const N: usize>(leading: &[usize], last: &[usize]) -> [usize; N] {
    std::array::from_fn(|axis| if axis < leading.len() { leading[axis] } else { last[axis - leading.len()] })
}

/// Several results as the parts of one tensor: a row for each matrix.
fn packed<T: Element, const K: usize, D: Device>(parts: [Tensor<T, 2, D>; K]) -> Result<Tensor<T, 2, D>> {
    Tensor::concat(parts.each_ref().map(Tensor::view), Axis::<1>)
}

/// A part of a packed tensor, under its sizes.
fn part<T: Element, const N: usize, D: Device>(
    rows: &Tensor<T, 2, D>,
    columns: Range<usize>,
    size: [usize; N],
) -> Result<Tensor<T, N, D>> {
    rows.view().slice((.., columns))?.to_shape(size)
}

/// The transposed matrices.
fn transposed<T: Element, D: Device>(a: &Matrices<T, D>) -> Result<TensorView<'_, T, 3, D>> {
    a.permuted([0, 2, 1])
}

/// The lower triangle with the diagonal halved.
fn half_lower<T: Float, D: Device>(a: &Matrices<T, D>) -> Result<Matrices<T, D>> {
    (a.tril(0)?.lazy() + &a.tril(-1)?).mul(T::constant(0.5)).eval()
}

/// The elements of a triangle that vary; 0 elsewhere.
fn varying<T: Float, D: Device>(a: &Matrices<T, D>, triangle: Triangle) -> Result<Matrices<T, D>> {
    match triangle {
        Triangle::Lower => a.tril(0),
        Triangle::Upper => a.triu(0),
        Triangle::UnitLower => a.tril(-1),
        Triangle::UnitUpper => a.triu(1),
    }
}

/// The elements beside the diagonal; 0 on it.
fn beside<T: Float, D: Device>(a: &Matrices<T, D>) -> Result<Matrices<T, D>> {
    (a.tril(-1)?.lazy() + &a.triu(1)?).eval()
}

/// `|a_ij| + |a_ji|`.
fn size_of_both<T: Float, D: Device>(a: &Matrices<T, D>) -> Result<Matrices<T, D>> {
    (a.lazy().abs() + transposed(a)?.lazy().abs()).eval()
}

/// `(x_ij·s_j + s_i·y_ij) / (s_j² − s_i²)` for matrices with a diagonal of 0, as
/// `((x + y)_ij / (s_j − s_i) + (x − y)_ij / (s_j + s_i)) / 2`: squares of `s` may overflow or be 0.
/// `wanted` is 0 where singular vectors `i` and `j` are not used.
fn by_gaps<T: Float, D: Device>(
    place: Place<'_>,
    s: &Tensor<T, 2, D>,
    [x, y]: [&Matrices<T, D>; 2],
    wanted: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    let (right, down) = (s.insert_axis(Axis::<1>), s.insert_axis(Axis::<2>));
    let equal = "singular values are equal, and a result depends on their vectors";
    let (gap, sum) = ((right.lazy() - down).eval()?, (right.lazy() + down).eval()?);
    let of_gap = quotient(place, equal, &(x.lazy() + y).eval()?, gap.view(), wanted)?;
    let of_sum = quotient(place, equal, &(x.lazy() - y).eval()?, sum.view(), wanted)?;
    (of_gap.lazy() + &of_sum).mul(T::constant(0.5)).eval()
}

/// `of / by`, and 0 where `by` and `wanted` are 0. A NaN in `wanted` is one in `of`, and passes.
///
/// # Errors
/// [`Error::Value`] where `by` is 0 and `wanted` is not.
fn quotient<T: Float, D: Device>(
    (op, leading): Place<'_>,
    what: &'static str,
    of: &Matrices<T, D>,
    by: TensorView<'_, T, 3, D>,
    wanted: &Matrices<T, D>,
) -> Result<Matrices<T, D>> {
    let zero = T::constant(0.0);
    let by = by.broadcast_to(of.size())?;
    let is_zero = by.equal(zero)?;
    let has_no_value = is_zero.logical_and(&wanted.abs()?.greater(zero)?)?;
    if has_no_value.any(All)?.item()? {
        let [_, rows, columns] = of.size().0;
        let first = has_no_value.to_vec()?.iter().position(|&it| it).unwrap_or_default();
        let [mut number, i, j] = [first / (rows * columns), first / columns % rows, first % columns];
        let mut index = leading.to_vec();
        for axis in index.iter_mut().rev() {
            (*axis, number) = (number % *axis, number / *axis);
        }
        let what = match &index[..] {
            [] => text(format_args!("the matrix has no derivative: {what} ({i}, {j})")),
            index => text(format_args!("matrix {index:?} has no derivative: {what} ({i}, {j})")),
        };
        return Err(Error::Value { op, what });
    }
    let is_unused = is_zero.logical_and(&wanted.equal(zero)?)?;
    is_unused.select(zero, &(of.lazy() / by).eval()?)
}
