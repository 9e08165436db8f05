//! Matrices built from their diagonals: from one vector, from many, from blocks.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`.

use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::rank::RemoveAxis;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// A square matrix with a vector on a diagonal.
fn diagonal_matrix<T: Element, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    line: TensorView<'_, T, 1, D>,
    diagonal: isize,
    destination: P,
) -> Result<P::Done> {
    line.ensure_allocated(op)?;
    let n = line.numel();
    let side = n.saturating_add(diagonal.unsigned_abs());
    destination.put(op, Layout::row_major_of(op, Dim([side; 2]), size_of::<T>())?, line.device(), |out| {
        out.fill(T::default())?;
        let (down, right) = ((-diagonal).max(0) as usize, diagonal.max(0) as usize);
        let corner = out.reborrow().slice((down..down + n, right..right + n))?;
        corner.diagonal(Axis::<0>, Axis::<1>)?.assign(line)
    })
}

methods_with_into! {
    [[T: Element,] T, 1 -> T]
    /// A square matrix with this vector on a diagonal, 0 elsewhere; diagonal 0 is the main one, positive ones
    /// are above it.
    ///
    /// The inverse is [`diagonal`](Tensor::diagonal), a view.
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
    fn diag,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[9, 9], [9, 9]]);
    /// Tensor::from([1, 2]).diag_into(0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 0], [0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    diag_into [](diagonal: isize) -> 2
    where []
    = |op, x, place| diagonal_matrix(op, x, diagonal, place);
}

/// Matrices with the vectors along the last axis on a diagonal.
pub(super) fn diagonal_embedding<
    T: Element,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    diagonal: isize,
    destination: P,
) -> Result<P::Done>
where
    Dim<M>: RemoveAxis<0, Output = Dim<RANK>> + RemoveAxis<1>,
{
    x.ensure_allocated(op)?;
    let n = x.size().0[RANK - 1];
    let side = n.saturating_add(diagonal.unsigned_abs());
    let size: [usize; M] = std::array::from_fn(|axis| if axis + 2 < M { x.size().0[axis] } else { side });
    destination.put(op, Layout::row_major_of(op, Dim(size), size_of::<T>())?, x.device(), |out| {
        out.fill(T::default())?;
        let (down, right) = ((-diagonal).max(0) as usize, diagonal.max(0) as usize);
        let corner =
            out.reborrow().slice_axis(M - 2, down..down + n, 1)?.slice_axis(M - 1, right..right + n, 1)?;
        // The two axes of the matrices come first; the diagonal merges them into one axis, which is last.
        let order: [usize; M] = std::array::from_fn(|axis| if axis < 2 { M - 2 + axis } else { axis - 2 });
        corner.permuted(order)?.diagonal(Axis::<0>, Axis::<1>)?.assign(x)
    })
}

/// The matrices in sequence along the diagonal.
fn diagonal_blocks<'a, T: Element, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    parts: impl Iterator<Item = TensorView<'a, T, 2, D>> + Clone,
    destination: P,
) -> Result<P::Done> {
    let first = parts
        .clone()
        .next()
        .ok_or_else(|| Error::Value { op, what: text(format_args!("there are no parts")) })?;
    for part in parts.clone() {
        same_device(op, first.device(), part.device())?;
        part.ensure_allocated(op)?;
    }
    let total = |axis: usize| parts.clone().fold(0usize, |sum, part| sum.saturating_add(part.size().0[axis]));
    destination.put(
        op,
        Layout::row_major_of(op, Dim([total(0), total(1)]), size_of::<T>())?,
        first.device(),
        |out| {
            out.fill(T::default())?;
            let [mut row, mut column] = [0; 2];
            for part in parts {
                let [rows, columns] = part.size().0;
                out.reborrow().slice((row..row + rows, column..column + columns))?.assign(part)?;
                (row, column) = (row + rows, column + columns);
            }
            Ok(())
        },
    )
}

impl<T: Element, D: Device> Tensor<T, 2, D> {
    /// The matrices, tensors or views, in sequence along the diagonal, 0 elsewhere.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty list; [`Error::Overflow`], [`Error::Device`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[1, 2]]), Tensor::from([[3], [4]]));
    /// assert_eq!(Tensor::block_diag([&x, &y])?, Tensor::from([[1, 2, 0], [0, 0, 3], [0, 0, 4]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn block_diag<'a, X: IntoView<'a, T, 2, D> + Copy>(parts: impl AsRef<[X]>) -> Result<Self>
    where
        T: 'a,
        D: 'a,
    {
        diagonal_blocks("block_diag", parts.as_ref().iter().map(|part| part.into_view()), Allocate)
    }

    /// As [`block_diag`](Tensor::block_diag), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`block_diag`](Tensor::block_diag); [`Error::Output`] when `out` has other sizes, [`Error::Shared`]
    /// when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([[1, 2]]), Tensor::from([[9; 4]; 2]));
    /// Tensor::block_diag_into([&x, &x], &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 2, 0, 0], [0, 0, 1, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn block_diag_into<'a, 'o, X: IntoView<'a, T, 2, D> + Copy>(
        parts: impl AsRef<[X]>,
        out: impl IntoViewMut<'o, T, 2, D>,
    ) -> Result<()>
    where
        T: 'a,
        D: 'a + 'o,
    {
        diagonal_blocks("block_diag_into", parts.as_ref().iter().map(|part| part.into_view()), Existing(out))
    }
}
