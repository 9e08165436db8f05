//! Combinations of the elements of vectors: the Cartesian product of several, subsets of one.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::ops::indexing::gather::taken;
use crate::ops::methods::methods_with_into;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// All tuples of one element of each vector, one per row.
fn tuples<T: Element, const N: usize, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    lines: [TensorView<'_, T, 1, D>; N],
    destination: P,
) -> Result<P::Done> {
    let first =
        *lines.first().ok_or_else(|| Error::Value { op, what: text(format_args!("there are no lines")) })?;
    for line in lines {
        same_device(op, first.device(), line.device())?;
        line.ensure_allocated(op)?;
    }
    let rows = Dim(lines.map(|line| line.numel())).numel_of(op, size_of::<T>())?;
    destination.put(op, Layout::row_major_of(op, Dim([rows, N]), size_of::<T>())?, first.device(), |out| {
        for (k, grid) in TensorView::meshgrid(lines)?.into_iter().enumerate() {
            out.reborrow().slice((.., k))?.reshape(grid.size())?.assign(grid)?;
        }
        Ok(())
    })
}

impl<T: Element, D: Device> Tensor<T, 2, D> {
    /// All tuples of one element of each vector, one per row; the last element varies fastest.
    ///
    /// # Errors
    /// [`Error::Value`] for an empty list; [`Error::Overflow`], [`Error::Device`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([3, 4]));
    /// let pairs = Tensor::cartesian_prod([x.view(), y.view()])?;
    /// assert_eq!(pairs, Tensor::from([[1, 3], [1, 4], [2, 3], [2, 4]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn cartesian_prod<const N: usize>(lines: [TensorView<'_, T, 1, D>; N]) -> Result<Self> {
        tuples("cartesian_prod", lines, Allocate)
    }

    /// As [`cartesian_prod`](Tensor::cartesian_prod), into an existing tensor or exclusive view. No
    /// allocation.
    ///
    /// # Errors
    /// As [`cartesian_prod`](Tensor::cartesian_prod); [`Error::Output`] when `out` has other sizes,
    /// [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([1, 2]), Tensor::from([[0; 2]; 4]));
    /// Tensor::cartesian_prod_into([x.view(), x.view()], &mut y)?;
    /// assert_eq!(y, Tensor::from([[1, 1], [1, 2], [2, 1], [2, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn cartesian_prod_into<'o, const N: usize>(
        lines: [TensorView<'_, T, 1, D>; N],
        out: impl IntoViewMut<'o, T, 2, D>,
    ) -> Result<()>
    where
        D: 'o,
    {
        tuples("cartesian_prod_into", lines, Existing(out))
    }
}

/// The positions of all combinations of `r` of `n`, row by row; `None` if memory is exhausted.
fn positions(n: usize, r: usize, repeat: bool, rows: usize) -> Option<Vec<i64>> {
    if rows == 0 {
        return Some(Vec::new());
    }
    let mut all = Vec::new();
    all.try_reserve_exact(rows.checked_mul(r)?).ok()?;
    let mut now = Vec::new();
    now.try_reserve_exact(r).ok()?;
    now.extend((0..r).map(|k| if repeat { 0 } else { k }));
    // Advances the last position that can advance, and resets those after it to the smallest ones allowed.
    let last = |k: usize| if repeat { n - 1 } else { n - r + k };
    for row in 0..rows {
        if row > 0
            && let Some(k) = (0..r).rev().find(|&k| now[k] < last(k))
        {
            let start = now[k] + 1;
            now[k..]
                .iter_mut()
                .enumerate()
                .for_each(|(i, position)| *position = if repeat { start } else { start + i });
        }
        all.extend(now.iter().map(|&position| position as i64));
    }
    Some(all)
}

/// The number of combinations.
fn count(n: usize, r: usize, repeat: bool) -> Option<usize> {
    let from = if repeat { n.checked_add(r)?.saturating_sub(usize::from(r > 0)) } else { n };
    if r > from {
        return Some(0);
    }
    // Every intermediate quotient is an integer.
    (0..r.min(from - r))
        .try_fold(1usize, |ways, k| usize::try_from(ways as u128 * (from - k) as u128 / (k as u128 + 1)).ok())
}

/// All combinations of `r` elements of a vector, one per row.
fn combined<T: Element, D: Device, P: Destination<T, 2, D>>(
    op: &'static str,
    line: TensorView<'_, T, 1, D>,
    r: usize,
    repeat: bool,
    destination: P,
) -> Result<P::Done> {
    let n = line.numel();
    let too_many = || Error::Value {
        op,
        what: text(format_args!("more combinations of {r} of {n} elements than can be counted")),
    };
    let size = Dim([count(n, r, repeat).ok_or_else(too_many)?, r]);
    let numel = size.numel_of(op, size_of::<i64>())?;
    let picked = positions(n, r, repeat, size.0[0])
        .ok_or(Error::OutOfMemory { op, nbytes: numel.saturating_mul(size_of::<i64>()) })?;
    taken(op, line, Tensor::from_slice(&picked, size, line.device())?.view(), destination)
}

methods_with_into! {
    [[T: Element,] T, 1 -> T]
    /// All combinations of `r` elements, one per row, in the order of the vector; with `repeat` an element
    /// can be chosen more than once.
    ///
    /// # Errors
    /// [`Error::Value`] when the number of combinations overflows; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.combinations(2, false)?, Tensor::from([[1, 2], [1, 3], [2, 3]]));
    /// assert_eq!(x.combinations(2, true)?.size(), [6, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn combinations,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut pairs = Tensor::from([[0; 2]; 3]);
    /// Tensor::from([1, 2, 3]).combinations_into(2, false, &mut pairs)?;
    /// assert_eq!(pairs, Tensor::from([[1, 2], [1, 3], [2, 3]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    combinations_into [](r: usize, repeat: bool) -> 2
    where []
    = |op, x, place| combined(op, x, r, repeat, place);
}
