//! Groups of equal neighbors, unique slices, and the most frequent element of each line.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::groups::{group_starts, groups};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Element};
use crate::error::Result;
use crate::expr::{IntoView, Reduce as _, eval};
use crate::kernel::{Call, Param};
use crate::layout::Layout;
use crate::ops::axes::{check_axis, sizes_along, with_size};
use crate::ops::indexing::gather::{FlatElements, gather};
use crate::ops::sorting::sort::{Unique, ordered, request};
use crate::ops::{Any, Cast as _, Indexing, Replace, Scans as _, Select, Sorts as _};
use crate::rank::{RankMinusOne, RemoveAxis};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// The most frequent element of each line, and the position of its last occurrence.
fn most_frequent<
    T: Comparable,
    const RANK: usize,
    const M: usize,
    D: Device,
    V: Destination<T, M, D>,
    P: Destination<i64, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    (values, positions): (V, P),
) -> Result<(V::Done, P::Done)>
where
    Dim<RANK>: RankMinusOne<Output = Dim<M>>,
{
    let (sorted, places) = ordered(x, request(op, axis, None, false), (Allocate, Allocate))?;
    let (n, device) = (x.size().0[axis], x.device());
    // The distance of each element from the start of its group; the first largest distance is at the end of
    // the longest group.
    let numbers = Tensor::arange(0, n as i64, 1, device)?;
    let numbers = numbers.reshape(sizes_along::<RANK>(axis, n))?;
    let first = group_starts(sorted.view(), axis)?;
    let starts =
        eval(op, &Call::<Select, _>::new((first.view(), numbers, Param(0))), device)?.cummax_axis(axis)?;
    let ends: Tensor<i64, M, D> = (numbers.lazy() - &starts)
        .reduce_axis(crate::ops::ArgMax, axis)
        .map_err(|error| error.with_op(op))?;
    let (layout, beside) = (Layout::row_major(ends.size()), with_size(x.size(), axis, 1));
    let ends = ends.view().reshape(beside)?;
    values.put_with(op, layout, device, |values| {
        positions.put(op, layout, device, |positions| {
            gather(op, sorted.view(), axis, ends, Existing(values.reborrow().reshape(beside)?))?;
            gather(op, places.view(), axis, ends, Existing(positions.reborrow().reshape(beside)?))
        })
    })
}

/// The rank of each element in its row: the number of distinct smaller elements.
fn ranks<T: Comparable, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
) -> Result<Tensor<i64, 2, D>> {
    let (sorted, order) = ordered(x, request(op, 1, None, false), (Allocate, Allocate))?;
    let group = group_starts(sorted.view(), 1)?.lazy().cast::<i64>().cumsum(Axis::<1>)?;
    let mut ranks = Tensor::<i64, 2, D>::zeros(x.size(), x.device())?;
    ranks.scatter(Replace, Axis::<1>, &order, &group)?;
    Ok(ranks)
}

/// A number for each column of a matrix; the numbers have the lexicographic order of the columns.
fn column_numbers<T: Comparable, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, 2, D>,
) -> Result<Tensor<i64, 1, D>> {
    let [rows, n] = x.size().0;
    if rows == 0 {
        return Tensor::zeros([n], x.device());
    }
    let mut numbers = ranks(op, x)?;
    // Two rows become one, half as many at a time: (a, b) is a · (n + 1) + b, and its rank is again at most
    // n.
    while numbers.size().0[0] > 1 {
        let rows = numbers.size().0[0];
        let [first, second] =
            [0, 1].map(|from| numbers.view().slice_axis(0, from..rows - rows % 2 + from.min(rows % 2), 2));
        let pairs = (first?.lazy() * (n as i64 + 1) + second?).eval()?;
        let paired = ranks(op, pairs.view())?;
        numbers = match rows % 2 {
            0 => paired,
            _ => Tensor::concat([paired.view(), numbers.view().slice((rows - 1..rows, ..))?], Axis::<0>)?,
        };
    }
    numbers.into_shape([n])
}

/// The result of [`UniqueConsecutive::unique_consecutive_slices`] and [`UniqueConsecutive::unique_slices`].
pub struct UniqueSlices<T, const RANK: usize, D: Device> {
    /// One slice of each group of equal ones.
    pub values: Tensor<T, RANK, D>,
    /// The position of the first slice of each group.
    pub positions: Tensor<i64, 1, D>,
    /// The index in `values` of each slice.
    pub inverse: Tensor<i64, 1, D>,
    /// The number of slices in each group.
    pub counts: Tensor<i64, 1, D>,
}

/// Groups of equal elements, of tensors and views. A NaN equals no element and forms its own group.
pub trait UniqueConsecutive<'a, T: 'a, const RANK: usize, D: Device>:
    IntoView<'a, T, RANK, D> + Sized
{
    /// One element of each group of equal neighbors, in row-major order, with the position and length of the
    /// group, and the inverse.
    ///
    /// # Errors
    /// Those of [`masked_select`](Indexing::masked_select).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([7, 7, 3, 3, 3, 7]);
    /// let runs = x.unique_consecutive()?;
    /// assert_eq!((runs.values.to_vec()?, runs.counts.to_vec()?), (vec![7, 3, 7], vec![2, 3, 1]));
    /// assert_eq!(runs.positions.to_vec()?, [0, 2, 5]);
    /// assert_eq!(runs.inverse.to_vec()?, [0, 0, 1, 1, 1, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unique_consecutive(self) -> Result<Unique<T, RANK, D>>
    where
        T: Element,
    {
        let x = self.into_view();
        let line = FlatElements::of(x)?;
        let first = group_starts(line.view(), 0)?;
        let [positions, counts, inverse] = groups(&first)?;
        Ok(Unique {
            values: line.view().masked_select(&first)?,
            positions,
            inverse: inverse.into_shape(x.size())?,
            counts,
        })
    }

    /// As [`unique_consecutive`](UniqueConsecutive::unique_consecutive), of whole slices: the positions of
    /// axis `A`.
    ///
    /// # Errors
    /// Those of [`masked_select`](Indexing::masked_select).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [1, 2], [1, 3]]);
    /// let runs = x.unique_consecutive_slices(Axis::<0>)?;
    /// assert_eq!(runs.values, Tensor::from([[1, 2], [1, 3]]));
    /// assert_eq!((runs.counts.to_vec()?, runs.inverse.to_vec()?), (vec![2, 1], vec![0, 0, 1]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unique_consecutive_slices<const A: usize>(self, axis: Axis<A>) -> Result<UniqueSlices<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.unique_consecutive_axis(A)
    }

    /// As [`unique_consecutive_slices`](UniqueConsecutive::unique_consecutive_slices), along an axis known at
    /// run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn unique_consecutive_axis(self, axis: usize) -> Result<UniqueSlices<T, RANK, D>>
    where
        T: Element,
    {
        let (op, x) = ("unique_consecutive", self.into_view());
        check_axis(op, axis, x.size())?;
        x.ensure_allocated(op)?;
        let order: [usize; RANK] =
            std::array::from_fn(|a| if a == 0 { axis } else { a - usize::from(a <= axis) });
        let differs = group_starts(x, axis)?;
        let n = x.size().0[axis];
        let first = match x.numel() {
            // Slices without elements are all equal.
            0 => Tensor::from_fn([n], |[i]| i == 0, x.device())?,
            numel => differs.permuted(order)?.to_shape([n, numel / n])?.reduce(Any, Axis::<1>)?,
        };
        let [positions, counts, inverse] = groups(&first)?;
        Ok(UniqueSlices { values: x.index_select_axis(axis, &positions)?, positions, inverse, counts })
    }

    /// The distinct slices of the tensor along axis `A`, in lexicographic order, with the position of the
    /// first of each, their counts and the inverse. A slice with a NaN equals no other.
    ///
    /// # Cost
    /// `m` slices of `n` elements each: `2·n` sorts of `m` elements, in about log₂ n steps, and one
    /// synchronization with the device.
    ///
    /// # Errors
    /// Those of [`masked_select`](Indexing::masked_select).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[2, 1], [1, 7], [2, 1]]);
    /// let unique = x.unique_slices(Axis::<0>)?;
    /// assert_eq!(unique.values, Tensor::from([[1, 7], [2, 1]]));
    /// assert_eq!((unique.positions.to_vec()?, unique.counts.to_vec()?), (vec![1, 0], vec![1, 2]));
    /// assert_eq!(unique.values.index_select(Axis::<0>, &unique.inverse)?, x);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unique_slices<const A: usize>(self, axis: Axis<A>) -> Result<UniqueSlices<T, RANK, D>>
    where
        T: Comparable,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.unique_axis(A)
    }

    /// As [`unique_slices`](UniqueConsecutive::unique_slices), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn unique_axis(self, axis: usize) -> Result<UniqueSlices<T, RANK, D>>
    where
        T: Comparable,
    {
        let (op, x) = ("unique", self.into_view());
        check_axis(op, axis, x.size())?;
        x.ensure_allocated(op)?;
        // The axis last, the others before it.
        let order: [usize; RANK] =
            std::array::from_fn(|a| if a + 1 == RANK { axis } else { a + usize::from(a >= axis) });
        let n = x.size().0[axis];
        let rows = x.numel().checked_div(n).unwrap_or(0);
        let columns = x.permuted(order)?.to_shape([rows, n])?;
        let Unique { positions, inverse, counts, .. } = column_numbers(op, columns.view())?.unique_all()?;
        Ok(UniqueSlices { values: x.index_select_axis(axis, &positions)?, positions, inverse, counts })
    }

    /// The most frequent element of each line along axis `A`, the smallest of several, and the position of
    /// its last occurrence.
    ///
    /// # Cost
    /// One sort of every line, and three passes over it.
    ///
    /// # Errors
    /// [`Error::Empty`](crate::Error::Empty) for empty lines;
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[5, 1, 1, 5, 2], [4, 4, 3, 3, 4]]);
    /// let (values, places) = x.mode(Axis::<1>)?;
    /// assert_eq!((values.to_vec()?, places.to_vec()?), (vec![1, 4], vec![2, 4]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn mode<const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
    ) -> Result<(Tensor<T, M, D>, Tensor<i64, M, D>)>
    where
        T: Comparable,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        self.mode_axis(A)
    }

    /// As [`mode`](UniqueConsecutive::mode), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`](crate::Error::Axis).
    fn mode_axis<const M: usize>(self, axis: usize) -> Result<(Tensor<T, M, D>, Tensor<i64, M, D>)>
    where
        T: Comparable,
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        most_frequent("mode", self.into_view(), axis, (Allocate, Allocate))
    }

    /// As [`mode`](UniqueConsecutive::mode), into two existing tensors or exclusive views: the elements and
    /// their positions. The sorted lines are allocated.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when one has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (mut values, mut places) = (Tensor::from([0, 0]), Tensor::from([0_i64, 0]));
    /// Tensor::from([[5, 1, 1, 5, 2], [4, 4, 3, 3, 4]]).mode_into(Axis::<1>, &mut values, &mut places)?;
    /// assert_eq!((values.to_vec()?, places.to_vec()?), (vec![1, 4], vec![2, 4]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn mode_into<'o, const A: usize, const M: usize>(
        self,
        axis: Axis<A>,
        values: impl IntoViewMut<'o, T, M, D>,
        places: impl IntoViewMut<'o, i64, M, D>,
    ) -> Result<()>
    where
        T: Comparable,
        D: 'o,
        Dim<RANK>: RemoveAxis<A, Output = Dim<M>>,
    {
        let _ = axis;
        most_frequent("mode_into", self.into_view(), A, (Existing(values), Existing(places))).map(|_| ())
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> UniqueConsecutive<'a, T, RANK, D>
    for X
{
}
