//! Tensors that know where they stand: triangles, diagonals, grids.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::expr::{IntoView, eval_at};
use crate::kernel::{Call, Op, Param};
use crate::layout::Layout;
use crate::ops::axes::sizes_along;
use crate::rank::{Rank, RemoveAxis};
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
    place: P,
) -> Result<P::Done> {
    let (rows, columns) = (x.size().0[RANK - 2], x.size().0[RANK - 1]);
    let numbers = |n: usize| Tensor::arange(0, n as i64, 1, x.device());
    let (row, column) = (numbers(rows)?, numbers(columns)?);
    let (row, column) = (
        row.reshape(sizes_along::<RANK>(RANK - 2, rows))?,
        column.reshape(sizes_along::<RANK>(RANK - 1, columns))?,
    );
    let call = Call::<Triangle<UPPER>, _>::new((x, row, column, Param(diagonal)));
    eval_at(op, &call, x.device(), place)
}

/// Triangles of the matrices in the last two axes, of tensors and views.
///
/// Diagonal 0 is the main one, positive ones stand above it. Rank 1 has none, and does not compile.
///
/// # Errors
/// Those of elementwise operators; [`Error::Output`](crate::Error::Output) and [`Error::Shared`](crate::Error::Shared) of
/// an output that is there.
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
    /// What stands on the diagonal or below it; 0 above.
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
    /// What stands on the diagonal or above it; 0 below.
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

/// A square matrix with a line on a diagonal.
fn diagonal_matrix<T: Element, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    line: TensorView<'_, T, 1, D>,
    diagonal: isize,
    place: P,
) -> Result<P::Done> {
    line.ready(op)?;
    let n = line.numel();
    let side = n.saturating_add(diagonal.unsigned_abs());
    place.put(op, Layout::row_major_of(op, Dim([side; 2]), size_of::<T>())?, line.device(), |out| {
        out.fill(T::default())?;
        let (down, right) = ((-diagonal).max(0) as usize, diagonal.max(0) as usize);
        let corner = out.reborrow().slice((down..down + n, right..right + n))?;
        corner.diagonal(Axis::<0>, Axis::<1>)?.assign(line)
    })
}

impl<T: Element, D: Device> TensorView<'_, T, 1, D> {
    /// A matrix with this line on a diagonal; see [`Tensor::diag`].
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn diag(self, diagonal: isize) -> Result<Tensor<T, 2, D>> {
        diagonal_matrix("diag", self, diagonal, Allocate)
    }

    /// As [`diag`](Tensor::diag), into an existing tensor or exclusive view; see [`Tensor::diag_into`].
    ///
    /// # Errors
    /// As there.
    pub fn diag_into<'o>(self, diagonal: isize, out: impl IntoViewMut<'o, T, 2, D>) -> Result<()>
    where
        D: 'o,
    {
        diagonal_matrix("diag_into", self, diagonal, Existing(out))
    }
}

impl<T: Element, D: Device> Tensor<T, 1, D> {
    /// A square matrix with this line on a diagonal, 0 elsewhere; diagonal 0 is the main one, positive ones stand above it.
    ///
    /// The other way is [`diagonal`](Tensor::diagonal), a view.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([1, 2]).diag(0)?, Tensor::from([[1, 0], [0, 2]]));
    /// assert_eq!(Tensor::from([7]).diag(-1)?, Tensor::from([[0, 0], [7, 0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn diag(&self, diagonal: isize) -> Result<Tensor<T, 2, D>> {
        self.view().diag(diagonal)
    }

    /// As [`diag`](Tensor::diag), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`diag`](Tensor::diag); [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[9, 9], [9, 9]]);
    /// Tensor::from([1, 2]).diag_into(0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 0], [0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn diag_into<'o>(&self, diagonal: isize, out: impl IntoViewMut<'o, T, 2, D>) -> Result<()>
    where
        D: 'o,
    {
        self.view().diag_into(diagonal, out)
    }
}

impl<'a, T, D: Device> TensorView<'a, T, 1, D> {
    /// Each line along an axis of its own, stretched along the others: views without memory, as NumPy's `meshgrid` with
    /// `indexing='ij'`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) when the grid's elements cannot be counted.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([10, 20, 30]));
    /// let [rows, columns] = TensorView::meshgrid([x.view(), y.view()])?;
    /// assert_eq!(rows + columns, Tensor::from([[11, 21, 31], [12, 22, 32]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn meshgrid<const N: usize>(
        lines: [TensorView<'a, T, 1, D>; N],
    ) -> Result<[TensorView<'a, T, N, D>; N]> {
        let size = Dim(lines.map(|line| line.numel()));
        size.numel_of("meshgrid", size_of::<T>())?;
        let axis = |a: usize| lines[a].reshape(sizes_along::<N>(a, size.0[a]))?.broadcast_to(size);
        Ok(std::array::from_fn(|a| {
            axis(a).expect("a line stands along any axis, and the sizes can be counted")
        }))
    }
}
