//! Sort, argsort, top-k, unique elements, and binary search in sorted lines.
//!
//! The order is that of `<` in the compute type, with NaN after every number. The sort is stable; −0 and 0
//! are equal here, as are all NaNs.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use super::groups::{group_starts, groups};
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval, update_with};
use crate::kernel::{Call, Op, Param, SortPlan};
use crate::layout::{Layout, joint_size};
use crate::ops::axes::{check_axis, with_size};
use crate::ops::indexing::gather::{FlatElements, gather};
use crate::ops::methods::methods_with_into;
use crate::ops::{Add, Indexing, Replace};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// The axis, direction and number of elements of a sort. A *line* is a row along the sorted axis.
#[derive(Clone, Copy)]
pub(in crate::ops) struct SortRequest {
    pub(in crate::ops) op: &'static str,
    pub(in crate::ops) axis: usize,
    /// The number of elements in order before those that are kept.
    pub(in crate::ops) first: usize,
    /// The number of elements kept of each line; `None` for all.
    pub(in crate::ops) keep: Option<usize>,
    pub(in crate::ops) descending: bool,
}

/// An integer key in the order of the elements; NaN has the highest one.
#[derive(Clone, Copy, Debug)]
struct OrderKey;

impl<T: Comparable> Op<(T,)> for OrderKey {
    const NAME: &'static str = "sort";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, i64> {
        // −0 and 0 are equal here.
        x.is_nan().select(Lane::highest(), Ordered::one_zero(x).order_key().cast())
    }
}

/// A request of the first `keep` elements of each line, or of all.
pub(in crate::ops) fn request(
    op: &'static str,
    axis: usize,
    keep: Option<usize>,
    descending: bool,
) -> SortRequest {
    SortRequest { op, axis, first: 0, keep, descending }
}

impl SortRequest {
    /// The sizes of the result.
    fn size<T, const RANK: usize, D: Device>(&self, x: &TensorView<'_, T, RANK, D>) -> Result<Dim<RANK>> {
        let SortRequest { op, axis, keep, .. } = *self;
        check_axis(op, axis, x.size())?;
        x.ensure_allocated(op)?;
        let n = x.size().0[axis];
        match keep {
            Some(keep) if keep > n => Err(Error::Value {
                op,
                what: text(format_args!("{keep} wanted of the {n} elements along axis {axis}")),
            }),
            keep => Ok(with_size(x.size(), axis, keep.unwrap_or(n))),
        }
    }
}

/// The sorted elements of each line.
pub(in crate::ops) fn values<T: Comparable, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    x: TensorView<'_, T, RANK, D>,
    request: SortRequest,
    destination: P,
) -> Result<P::Done> {
    let layout = Layout::row_major_of(request.op, request.size(&x)?, size_of::<T>())?;
    destination.put(request.op, layout, x.device(), |values| write(x, request, Some(values), None))
}

/// The original positions of the sorted elements of each line.
fn positions<T: Comparable, const RANK: usize, D: Device, P: Destination<i64, RANK, D>>(
    x: TensorView<'_, T, RANK, D>,
    request: SortRequest,
    destination: P,
) -> Result<P::Done> {
    let layout = Layout::row_major_of(request.op, request.size(&x)?, size_of::<i64>())?;
    destination.put(request.op, layout, x.device(), |positions| write(x, request, None, Some(positions)))
}

/// The sorted elements of each line, and their original positions.
pub(in crate::ops) fn ordered<
    T: Comparable,
    const RANK: usize,
    D: Device,
    V: Destination<T, RANK, D>,
    P: Destination<i64, RANK, D>,
>(
    x: TensorView<'_, T, RANK, D>,
    request: SortRequest,
    (values, positions): (V, P),
) -> Result<(V::Done, P::Done)> {
    let (op, size) = (request.op, request.size(&x)?);
    let fresh = |element: usize| Layout::row_major_of(op, size, element);
    let (of_values, of_positions) = (fresh(size_of::<T>())?, fresh(size_of::<i64>())?);
    values.put_with(op, of_values, x.device(), |values| {
        positions
            .put(op, of_positions, x.device(), |positions| write(x, request, Some(values), Some(positions)))
    })
}

/// Sorts the lines of an allocated view along an existing axis; both outputs have space for the same first
/// elements of each line.
fn write<T: Comparable, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    request: SortRequest,
    values: Option<&mut TensorViewMut<'_, T, RANK, D>>,
    positions: Option<&mut TensorViewMut<'_, i64, RANK, D>>,
) -> Result<()> {
    let SortRequest { op, axis, first, keep, descending } = request;
    let n = x.size().0[axis];
    // Devices sort plain elements by their element type; the others are sorted by keys of their compute type.
    if !T::PLAIN {
        let keys = eval(op, &Call::<OrderKey, _>::new((x,)), x.device())?;
        if let Some(places) = positions {
            write(keys.view(), request, None, Some(&mut *places))?;
            return values.map_or(Ok(()), |values| gather(op, x, axis, places.as_view(), Existing(values)));
        }
        let places = self::positions(keys.view(), request, Allocate)?;
        return values.map_or(Ok(()), |values| gather(op, x, axis, places.view(), Existing(values)));
    }
    // The other axes first, then the sorted one.
    let order: [usize; RANK] =
        std::array::from_fn(|a| if a + 1 == RANK { axis } else { a + usize::from(a >= axis) });
    let sizes = order.map(|axis| x.size().0[axis]);
    let plan = SortPlan { lines: &sizes[..RANK - 1], along: n, first, keep: keep.unwrap_or(n), descending };
    let steps = |layout: &Layout<RANK>| layout.reordered(order).stride();
    let from = steps(x.layout());
    let value = values.map(|values| (values.leaf(), steps(values.layout())));
    let value = value.as_ref().map(|(leaf, stride)| leaf.slot(&stride.0));
    let position = positions.map(|positions| (positions.leaf(), steps(positions.layout())));
    let position = position.as_ref().map(|(leaf, stride)| leaf.slot(&stride.0));
    let from = x.leaf().slot(&from.0);
    // SAFETY: an allocated view, and exclusive views for `keep` elements of each of its lines.
    unsafe { x.device().sort::<T>(plan, value, position, from) }
}

/// Methods that sort the lines along one axis, each for an axis in the type, an axis known at run time, and
/// an existing output.
macro_rules! sorts {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $name_axis:ident, $name_into:ident($($arg:ident: $type:ty)?) -> $out:ty,
        ($($place:ident: $element:ty),+) = $run:ident($fresh:expr) |$op:ident, $axis:ident| $request:expr;
    )*) => { $(
        $(#[$doc])*
        fn $name<const A: usize>(self, axis: Axis<A> $(, $arg: $type)?) -> Result<$out>
        where T: Comparable, Dim<RANK>: RemoveAxis<A> {
            let _ = axis;
            self.$name_axis(A $(, $arg)?)
        }

        #[doc = concat!("As [`", stringify!($name), "`](Sorts::", stringify!($name), "),")]
        /// along an axis known at run time.
        fn $name_axis(self, axis: usize $(, $arg: $type)?) -> Result<$out> where T: Comparable {
            let ($op, $axis) = (stringify!($name), axis);
            $run(self.into_view(), $request, $fresh)
        }

        #[doc = concat!("As [`", stringify!($name), "`](Sorts::", stringify!($name), "),")]
        /// into existing tensors or exclusive views.
        ///
        /// # Errors
        /// Also [`Error::Output`] when an output has other sizes, [`Error::Shared`] when it has other
        /// handles.
        fn $name_into<'o, const A: usize>(
            self,
            axis: Axis<A> $(, $arg: $type)? $(, $place: impl IntoViewMut<'o, $element, RANK, D>)+,
        ) -> Result<()>
        where T: Comparable + 'o, D: 'o, Dim<RANK>: RemoveAxis<A> {
            let ($op, $axis, _) = (stringify!($name_into), A, axis);
            $run(self.into_view(), $request, ($(Existing($place)),+)).map(|_| ())
        }
    )* };
}

/// Sorts along one axis, of tensors and views.
///
/// The order is that of `<`, and NaN comes after every number (before them in descending order).
/// Every sort is stable: equal elements, also −0 and 0, keep their order.
///
/// # Cost
/// One allocation per result. Lines are sorted by a radix sort, in time proportional to their length;
/// if few elements are requested, the others are not sorted.
///
/// # Errors
/// [`Error::Unallocated`], [`Error::OutOfMemory`]; [`Error::Value`] when `k` exceeds the size of the
/// axis; [`Error::Axis`] for an axis known at run time that does not exist.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::from([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]);
/// assert_eq!(x.sort(Axis::<1>)?, Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]));
/// let order = x.argsort(Axis::<1>)?;
/// assert_eq!(x.gather(Axis::<1>, &order)?, x.sort(Axis::<1>)?);
/// let (mut largest, mut places) = x.topk(Axis::<1>, 2)?;
/// assert_eq!((largest.to_vec()?, places.to_vec()?), (vec![3.0, 2.0, 6.0, 5.0], vec![0, 2, 1, 0]));
/// x.topk_into(Axis::<1>, 2, &mut largest, &mut places)?; // the same, into existing tensors
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait Sorts<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    sorts! {
        /// The elements of each line in ascending order.
        fn sort, sort_axis, sort_into() -> Tensor<T, RANK, D>, (out: T)
        = values(Allocate) |op, axis| request(op, axis, None, false);
        /// The elements of each line in descending order.
        fn sort_descending, sort_descending_axis, sort_descending_into() -> Tensor<T, RANK, D>, (out: T)
        = values(Allocate) |op, axis| request(op, axis, None, true);
        /// The positions of the elements of each line in ascending order: [`gather`](Indexing::gather) by
        /// them sorts the lines.
        fn argsort, argsort_axis, argsort_into() -> Tensor<i64, RANK, D>, (out: i64)
        = positions(Allocate) |op, axis| request(op, axis, None, false);
        /// The positions of the elements of each line in descending order.
        fn argsort_descending, argsort_descending_axis, argsort_descending_into() -> Tensor<i64, RANK, D>,
        (out: i64) = positions(Allocate) |op, axis| request(op, axis, None, true);
        /// The `k` largest elements of each line in descending order, and their positions; NaN counts as the
        /// largest.
        fn topk, topk_axis, topk_into(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>),
        (largest: T, places: i64)
        = ordered((Allocate, Allocate)) |op, axis| request(op, axis, Some(k), true);
        /// The `k` smallest elements of each line in ascending order, and their positions.
        fn bottomk, bottomk_axis, bottomk_into(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>),
        (smallest: T, places: i64)
        = ordered((Allocate, Allocate)) |op, axis| request(op, axis, Some(k), false);
    }

    /// The insertion position of each of `values` in its ascending line along axis `A`:
    /// [`searchsorted`](Tensor::searchsorted) with one line for each row.
    ///
    /// # Shapes
    /// On the other axes, the sizes of lines and values agree or stretch from 1; along axis `A` the
    /// result has the size of `values`.
    ///
    /// # Cost
    /// One gather and one pass over `values` for each bit of the length of a line.
    ///
    /// # Errors
    /// [`Error::Sizes`], [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Side;
    /// let lines = Tensor::from([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]);
    /// let x = Tensor::from([[2.0, 9.0], [2.0, 25.0]]);
    /// let places = lines.searchsorted_along(Axis::<1>, &x, Side::Left)?;
    /// assert_eq!(places, Tensor::from([[1, 3], [0, 2]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn searchsorted_along<'b, const A: usize>(
        self,
        axis: Axis<A>,
        values: impl IntoView<'b, T, RANK, D>,
        side: Side,
    ) -> Result<Tensor<i64, RANK, D>>
    where
        T: Comparable + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.searchsorted_axis(A, values, side)
    }

    /// As [`searchsorted_along`](Sorts::searchsorted_along), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn searchsorted_axis<'b>(
        self,
        axis: usize,
        values: impl IntoView<'b, T, RANK, D>,
        side: Side,
    ) -> Result<Tensor<i64, RANK, D>>
    where
        T: Comparable + 'b,
        D: 'b,
    {
        search_lines("searchsorted", self.into_view(), axis, values.into_view(), side, Allocate)
    }

    /// As [`searchsorted_along`](Sorts::searchsorted_along), into an existing tensor or exclusive
    /// view. No allocation of a result.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other
    /// handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Side;
    /// let mut places = Tensor::from([[0_i64], [0]]);
    /// let lines = Tensor::from([[1, 2], [3, 4]]);
    /// let x = Tensor::from([[2], [9]]);
    /// lines.searchsorted_along_into(Axis::<1>, &x, Side::Right, &mut places)?;
    /// assert_eq!(places.to_vec()?, [2, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn searchsorted_along_into<'b, 'o, const A: usize>(
        self,
        axis: Axis<A>,
        values: impl IntoView<'b, T, RANK, D>,
        side: Side,
        out: impl IntoViewMut<'o, i64, RANK, D>,
    ) -> Result<()>
    where
        T: Comparable + 'b,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        search_lines("searchsorted_along_into", self.into_view(), A, values.into_view(), side, Existing(out))
    }

    /// The elements without repetition, in order.
    ///
    /// Equal elements are represented by the first of them; a NaN equals no element, as with `==`.
    ///
    /// # Errors
    /// Those of [`masked_select`](Indexing::masked_select).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[3, 1], [1, 2]]).unique()?.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unique(self) -> Result<Tensor<T, 1, D>>
    where
        T: Comparable,
    {
        let line = FlatElements::of(self.into_view())?;
        let sorted = values(line.view(), request("unique", 0, None, false), Allocate)?;
        sorted.masked_select(&group_starts(sorted.view(), 0)?)
    }

    /// The elements without repetition, in order, with the position of the first of each, their
    /// counts and the inverse.
    ///
    /// # Errors
    /// Those of [`masked_select`](Indexing::masked_select).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([30, 10, 10, 20]);
    /// let unique = x.unique_all()?;
    /// assert_eq!(unique.values.to_vec()?, [10, 20, 30]);
    /// assert_eq!(unique.positions.to_vec()?, [1, 3, 0]);
    /// assert_eq!(unique.counts.to_vec()?, [2, 1, 1]);
    /// assert_eq!(unique.values.take(&unique.inverse)?, x);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn unique_all(self) -> Result<Unique<T, RANK, D>>
    where
        T: Comparable,
    {
        let x = self.into_view();
        let line = FlatElements::of(x)?;
        let request = request("unique", 0, None, false);
        let (sorted, order) = ordered(line.view(), request, (Allocate, Allocate))?;
        let first = group_starts(sorted.view(), 0)?;
        let [_, counts, group] = groups(&first)?;
        let mut inverse = Tensor::<i64, 1, D>::zeros(group.size(), x.device())?;
        inverse.scatter(Replace, Axis::<0>, &order, &group)?;
        Ok(Unique {
            values: sorted.masked_select(&first)?,
            positions: order.masked_select(&first)?,
            inverse: inverse.into_shape(x.size())?,
            counts,
        })
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Sorts<'a, T, RANK, D> for X {}

/// The result of [`unique_all`](Sorts::unique_all).
pub struct Unique<T, const RANK: usize, D: Device> {
    /// The elements without repetition, in order.
    pub values: Tensor<T, 1, D>,
    /// The row-major position of the first occurrence of each.
    pub positions: Tensor<i64, 1, D>,
    /// The index in `values` of each element: `values.take(&inverse)` is the operand.
    pub inverse: Tensor<i64, RANK, D>,
    /// The number of occurrences of each.
    pub counts: Tensor<i64, 1, D>,
}

/// The side of equal elements on which a new one is inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before them.
    Left,
    /// After them.
    Right,
}

/// One step of the binary search: `by` if the element is before `x` (with `AFTER`, also if it is equal),
/// otherwise 0.
#[derive(Clone, Copy, Debug)]
struct SearchStep<const AFTER: bool>;

impl<T: Comparable, const AFTER: bool> Op<(T, T, i64)> for SearchStep<AFTER> {
    const NAME: &'static str = "searchsorted";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>(
        (here, x, by): (Lane<L, Compute<T>>, Lane<L, Compute<T>>, Lane<L, i64>),
    ) -> Lane<L, i64> {
        let less = |a: Lane<L, Compute<T>>, b: Lane<L, Compute<T>>| a.lt(b) | (b.is_nan() & !a.is_nan());
        let passes = if AFTER { !less(x, here) } else { less(here, x) };
        passes.select(by, Lane::zero())
    }
}

/// The insertion position of each of `values` in an ascending line of `left` elements; `at` reads the
/// elements at given positions.
fn search<T: Comparable, const N: usize, D: Device>(
    op: &'static str,
    mut left: usize,
    at: impl Fn(&Tensor<i64, N, D>) -> Result<Tensor<T, N, D>>,
    values: TensorView<'_, T, N, D>,
    side: Side,
    out: &mut TensorViewMut<'_, i64, N, D>,
) -> Result<()> {
    out.fill(0)?;
    // The answer lies in `out ..= out + left`, for every value at once.
    while left > 0 {
        let half = left.div_ceil(2) as i64;
        let middle = eval(op, &Call::<Add, _>::new((out.as_view(), Param(half - 1))), values.device())?;
        let here = at(&middle)?;
        let call = (here.view(), values, Param(half));
        match side {
            Side::Left => {
                update_with::<Add, i64, i64, N, D, _>(out, &Call::<SearchStep<false>, _>::new(call))?
            }
            Side::Right => {
                update_with::<Add, i64, i64, N, D, _>(out, &Call::<SearchStep<true>, _>::new(call))?
            }
        }
        left /= 2;
    }
    Ok(())
}

/// The insertion position of each of `values` in its ascending line along an axis.
fn search_lines<T: Comparable, const RANK: usize, D: Device, P: Destination<i64, RANK, D>>(
    op: &'static str,
    lines: TensorView<'_, T, RANK, D>,
    axis: usize,
    values: TensorView<'_, T, RANK, D>,
    side: Side,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, lines.size())?;
    same_device(op, lines.device(), values.device())?;
    lines.ensure_allocated(op)?;
    values.ensure_allocated(op)?;
    let (n, count) = (lines.size().0[axis], values.size().0[axis]);
    let size = joint_size(op, with_size(lines.size(), axis, count), values.size())?;
    let values = values.broadcast_to(size)?;
    destination.put(op, Layout::row_major_of(op, size, size_of::<i64>())?, lines.device(), |out| {
        search(op, n, |middle| gather(op, lines, axis, middle.view(), Allocate), values, side, out)
    })
}

/// The insertion position of each of `values` in an ascending line.
fn search_line<T: Comparable, const N: usize, D: Device, P: Destination<i64, N, D>>(
    op: &'static str,
    line: TensorView<'_, T, 1, D>,
    values: TensorView<'_, T, N, D>,
    side: Side,
    destination: P,
) -> Result<P::Done> {
    same_device(op, line.device(), values.device())?;
    line.ensure_allocated(op)?;
    values.ensure_allocated(op)?;
    destination.put(op, Layout::row_major_of(op, values.size(), size_of::<i64>())?, line.device(), |out| {
        search(op, line.numel(), |middle| line.take(middle), values, side, out)
    })
}

methods_with_into! {
    [[T: Comparable,] T, 1 -> i64]
    /// The insertion position of each of `values` that keeps this line ascending: the number of elements that
    /// are less (`Side::Left`), or not greater (`Side::Right`).
    ///
    /// # Cost
    /// One gather and one pass over `values` for each bit of the length of the line.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Side;
    /// let line = Tensor::from([1.0, 2.0, 2.0, 5.0]);
    /// let x = Tensor::from([[2.0, 0.0], [9.0, 3.0]]);
    /// assert_eq!(line.searchsorted(&x, Side::Left)?, Tensor::from([[1, 0], [4, 3]]));
    /// assert_eq!(line.searchsorted(&x, Side::Right)?, Tensor::from([[3, 0], [4, 3]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn searchsorted,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Side;
    /// let mut places = Tensor::from([0_i64; 2]);
    /// let line = Tensor::from([1.0, 2.0, 2.0, 5.0]);
    /// line.searchsorted_into(&Tensor::from([2.0, 9.0]), Side::Left, &mut places)?;
    /// assert_eq!(places.to_vec()?, [1, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    searchsorted_into ['b, const N: usize](values: impl IntoView<'b, T, N, D>, side: Side) -> N
    where [T: 'b, D: 'b]
    = |op, x, place| search_line(op, x, values.into_view(), side, place);
}
