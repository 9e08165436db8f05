//! Triangles of matrices, and their indices.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::expr::{IntoView, eval_at};
use crate::kernel::{Call, Op, Param};
use crate::ops::Indexing as _;
use crate::ops::axes::sizes_along;
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// The elements of a triangle, 0 elsewhere: `(x, row, column, diagonal)`.
#[derive(Clone, Copy, Debug)]
struct Triangle<const UPPER: bool>;

impl<T: Element, const UPPER: bool> Op<(T, i64, i64, i64)> for Triangle<UPPER> {
    const NAME: &'static str = if UPPER { "triu" } else { "tril" };
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (x, row, column, diagonal): (Lane<L, Compute<T>>, Lane<L, i64>, Lane<L, i64>, Lane<L, i64>),
    ) -> Lane<L, Compute<T>> {
        let on = column - row;
        let inside = if UPPER { on.ge(diagonal) } else { on.le(diagonal) };
        inside.select(x, Lane::literal(T::default().widen()))
    }
}

fn triangle<T: Element, const UPPER: bool, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    diagonal: i64,
    destination: P,
) -> Result<P::Done> {
    let (rows, columns) = (x.size().0[RANK - 2], x.size().0[RANK - 1]);
    let numbers = |n: usize| Tensor::arange(0, n as i64, 1, x.device());
    let (row, column) = (numbers(rows)?, numbers(columns)?);
    let (row, column) = (
        row.reshape(sizes_along::<RANK>(RANK - 2, rows))?,
        column.reshape(sizes_along::<RANK>(RANK - 1, columns))?,
    );
    let call = Call::<Triangle<UPPER>, _>::new((x, row, column, Param(diagonal)));
    eval_at(op, &call, x.device(), destination)
}

/// Triangles of the matrices in the last two axes, of tensors and views.
///
/// Diagonal 0 is the main one, positive ones are above it. Rank 1 has no diagonal and does not compile.
///
/// # Errors
/// Those of elementwise operators; [`Error::Output`](crate::Error::Output) and
/// [`Error::Shared`](crate::Error::Shared) of an existing output.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::from([[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
/// assert_eq!(x.tril(0)?, Tensor::from([[1, 0, 0], [4, 5, 0], [7, 8, 9]]));
/// let mut y = x.triu(1)?;
/// assert_eq!(y, Tensor::from([[0, 2, 3], [0, 0, 6], [0, 0, 0]]));
/// x.tril_into(-1, &mut y)?; // no allocation of a result
/// assert_eq!(y, Tensor::from([[0, 0, 0], [4, 0, 0], [7, 8, 0]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait Triangles<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The elements on the diagonal or below it; 0 above.
    fn tril(self, diagonal: i64) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<1>,
    {
        triangle::<T, false, RANK, D, _>("tril", self.into_view(), diagonal, Allocate)
    }
    /// As [`tril`](Triangles::tril), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    fn tril_into<'o>(self, diagonal: i64, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        triangle::<T, false, RANK, D, _>("tril_into", self.into_view(), diagonal, Existing(out))
    }
    /// The elements on the diagonal or above it; 0 below.
    fn triu(self, diagonal: i64) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<1>,
    {
        triangle::<T, true, RANK, D, _>("triu", self.into_view(), diagonal, Allocate)
    }
    /// As [`triu`](Triangles::triu), into an existing tensor or exclusive view.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    fn triu_into<'o>(self, diagonal: i64, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: RemoveAxis<1>,
    {
        triangle::<T, true, RANK, D, _>("triu_into", self.into_view(), diagonal, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Triangles<'a, T, RANK, D> for X {}

impl<D: Device> Tensor<i64, 2, D> {
    /// Rows and columns of the elements on a diagonal or below it, in row-major order: `[2, count]`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::OutOfMemory`](crate::Error::OutOfMemory);
    /// [`Error::NoData`](crate::Error::NoData) on a device without data.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::tril_indices(2, 3, 0, &Cpu)?, Tensor::from([[0, 1, 1], [0, 0, 1]]));
    /// assert_eq!(Tensor::triu_indices(2, 3, 1, &Cpu)?, Tensor::from([[0, 0, 1], [1, 2, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn tril_indices(rows: usize, columns: usize, diagonal: i64, device: &D) -> Result<Self> {
        Tensor::full([rows, columns], true, device)?.tril(diagonal)?.nonzero()?.transposed().copy()
    }

    /// Rows and columns of the elements on a diagonal or above it; see
    /// [`tril_indices`](Tensor::tril_indices).
    ///
    /// # Errors
    /// As there.
    pub fn triu_indices(rows: usize, columns: usize, diagonal: i64, device: &D) -> Result<Self> {
        Tensor::full([rows, columns], true, device)?.triu(diagonal)?.nonzero()?.transposed().copy()
    }
}
