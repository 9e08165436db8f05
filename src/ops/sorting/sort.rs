//! Elements in order: sort, argsort, the largest, unique ones, where one would stand.
//!
//! The order is that of `<` in the machine type, with NaN after every number. Equal elements stay as they stand: −0 and 0 are equal here, and
//! all NaN are.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::groups::{firsts, runs};
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval, update_with};
use crate::kernel::{Call, Op, Param, SortPlan};
use crate::layout::{Layout, joint_size};
use crate::ops::axes::{check_axis, with_size};
use crate::ops::indexing::gather::{Line, gather};
use crate::ops::{Add, Indexing, Replace};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// What is wanted of sorted lines.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Wanted {
    pub(in crate::ops) op: &'static str,
    pub(in crate::ops) axis: usize,
    /// How many of each line; `None` for all.
    pub(in crate::ops) keep: Option<usize>,
    pub(in crate::ops) descending: bool,
}

/// A whole number with the order of the element, the highest for NaN.
#[derive(Clone, Copy, Debug)]
struct OrderKey;

impl<T: Comparable> Op<(T,)> for OrderKey {
    const NAME: &'static str = "sort";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, i64> {
        // Zeros of two signs are equal here.
        x.is_nan().select(Lane::highest(), Ordered::one_zero(x).order_key().cast())
    }
}

impl Wanted {
    /// The sizes of what is wanted of lines.
    fn size<T, const RANK: usize, D: Device>(&self, x: &TensorView<'_, T, RANK, D>) -> Result<Dim<RANK>> {
        let Wanted { op, axis, keep, .. } = *self;
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

/// The elements of each line in order.
fn values<T: Comparable, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    x: TensorView<'_, T, RANK, D>,
    wanted: Wanted,
    place: P,
) -> Result<P::Done> {
    let layout = Layout::row_major_of(wanted.op, wanted.size(&x)?, size_of::<T>())?;
    place.put(wanted.op, layout, x.device(), |values| write(x, wanted, Some(values), None))
}

/// Where the elements of each line in order stood.
fn positions<T: Comparable, const RANK: usize, D: Device, P: Destination<i64, RANK, D>>(
    x: TensorView<'_, T, RANK, D>,
    wanted: Wanted,
    place: P,
) -> Result<P::Done> {
    let layout = Layout::row_major_of(wanted.op, wanted.size(&x)?, size_of::<i64>())?;
    place.put(wanted.op, layout, x.device(), |positions| write(x, wanted, None, Some(positions)))
}

/// The elements of each line in order, and where they stood.
pub(in crate::ops) fn ordered<
    T: Comparable,
    const RANK: usize,
    D: Device,
    V: Destination<T, RANK, D>,
    P: Destination<i64, RANK, D>,
>(
    x: TensorView<'_, T, RANK, D>,
    wanted: Wanted,
    (values, positions): (V, P),
) -> Result<(V::Done, P::Done)> {
    let (op, size) = (wanted.op, wanted.size(&x)?);
    let fresh = |element: usize| Layout::row_major_of(op, size, element);
    let (of_values, of_positions) = (fresh(size_of::<T>())?, fresh(size_of::<i64>())?);
    values.put_with(op, of_values, x.device(), |values| {
        positions
            .put(op, of_positions, x.device(), |positions| write(x, wanted, Some(values), Some(positions)))
    })
}

/// Writes what is wanted of the lines of a ready view along an axis that exists: both have room for the same first of each.
fn write<T: Comparable, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    wanted: Wanted,
    values: Option<&mut TensorViewMut<'_, T, RANK, D>>,
    positions: Option<&mut TensorViewMut<'_, i64, RANK, D>>,
) -> Result<()> {
    let Wanted { op, axis, keep, descending } = wanted;
    let n = x.size().0[axis];
    // Devices know the order of plain elements by their name; that of others is in their machine type.
    if !T::PLAIN {
        let keys = eval(op, &Call::<OrderKey, _>::new((x,)), x.device())?;
        if let Some(places) = positions {
            write(keys.view(), wanted, None, Some(&mut *places))?;
            return values.map_or(Ok(()), |values| gather(op, x, axis, places.as_view(), Existing(values)));
        }
        let places = self::positions(keys.view(), wanted, Allocate)?;
        return values.map_or(Ok(()), |values| gather(op, x, axis, places.view(), Existing(values)));
    }
    // The axes of the lines, then the one along them.
    let order: [usize; RANK] =
        std::array::from_fn(|a| if a + 1 == RANK { axis } else { a + usize::from(a >= axis) });
    let sizes = order.map(|axis| x.size().0[axis]);
    let plan = SortPlan { lines: &sizes[..RANK - 1], along: n, keep: keep.unwrap_or(n), descending };
    let steps = |layout: &Layout<RANK>| layout.reordered(order).stride();
    let from = steps(x.layout());
    let value = values.map(|values| (values.leaf(), steps(values.layout())));
    let value = value.as_ref().map(|(leaf, stride)| leaf.slot(&stride.0));
    let position = positions.map(|positions| (positions.leaf(), steps(positions.layout())));
    let position = position.as_ref().map(|(leaf, stride)| leaf.slot(&stride.0));
    let from = x.leaf().slot(&from.0);
    // SAFETY: a ready view, and exclusive ones for `keep` elements of each of its lines.
    unsafe { x.device().sort::<T>(plan, value, position, from) }
}

/// Methods that order the lines along one axis, each for an axis in the type and one known at run time.
macro_rules! sorts {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $name_axis:ident, $name_into:ident($($arg:ident: $type:ty)?) -> $out:ty, ($($place:ident: $element:ty),+)
        = $run:ident($fresh:expr) |$op:ident, $axis:ident| $wanted:expr;
    )*) => {
        /// Elements in order along one axis, of tensors and views.
        ///
        /// The order is that of `<`, and NaN stands after every number (before, in falling order). Every order is stable:
        /// equal elements, to which −0 and 0 count, stay as they stand.
        ///
        /// # Cost
        /// One allocation a result. Lines are sorted by digits, in time proportional to their length; of few elements
        /// wanted the others are not sorted.
        ///
        /// # Errors
        /// [`Error::Unallocated`], [`Error::OutOfMemory`]; [`Error::Value`] for more elements than an axis has;
        /// [`Error::Axis`] for an axis known at run time that does not exist.
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
        /// x.topk_into(Axis::<1>, 2, &mut largest, &mut places)?; // the same, into memory that is there
        /// # Ok::<(), rankform::Error>(())
        /// ```
        pub trait Sorts<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized { $(
            $(#[$doc])*
            fn $name<const A: usize>(self, axis: Axis<A> $(, $arg: $type)?) -> Result<$out>
            where
                T: Comparable,
                Dim<RANK>: RemoveAxis<A>,
            {
                let _ = axis;
                self.$name_axis(A $(, $arg)?)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Sorts::", stringify!($name), "), along an axis known at run time.")]
            fn $name_axis(self, axis: usize $(, $arg: $type)?) -> Result<$out>
            where
                T: Comparable,
            {
                let ($op, $axis) = (stringify!($name), axis);
                $run(self.into_view(), $wanted, $fresh)
            }
            #[doc = concat!("As [`", stringify!($name), "`](Sorts::", stringify!($name), "), into existing tensors or exclusive views.")]
            ///
            /// # Errors
            /// Also [`Error::Output`] when what is written has other sizes, [`Error::Shared`] when it has other handles.
            fn $name_into<'o, const A: usize>(self, axis: Axis<A> $(, $arg: $type)? $(, $place: impl IntoViewMut<'o, $element, RANK, D>)+) -> Result<()>
            where
                T: Comparable + 'o,
                D: 'o,
                Dim<RANK>: RemoveAxis<A>,
            {
                let ($op, $axis, _) = (stringify!($name_into), A, axis);
                $run(self.into_view(), $wanted, ($(Existing($place)),+)).map(|_| ())
            }
        )*
            /// Where each of `values` would stand in the rising line along axis `A` that it belongs to: as
            /// [`searchsorted`](Tensor::searchsorted), with a line for each row.
            ///
            /// # Shapes
            /// Beside axis `A` the sizes of lines and values agree or stretch from 1; along it the result has those of `values`.
            ///
            /// # Cost
            /// As many gathers and passes over `values` as the length of a line has bits.
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
            /// assert_eq!(lines.searchsorted_along(Axis::<1>, &x, Side::Left)?, Tensor::from([[1, 3], [0, 2]]));
            /// # Ok::<(), rankform::Error>(())
            /// ```
            fn searchsorted_along<'b, const A: usize>(self, axis: Axis<A>, values: impl IntoView<'b, T, RANK, D>, side: Side) -> Result<Tensor<i64, RANK, D>>
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
            fn searchsorted_axis<'b>(self, axis: usize, values: impl IntoView<'b, T, RANK, D>, side: Side) -> Result<Tensor<i64, RANK, D>>
            where
                T: Comparable + 'b,
                D: 'b,
            {
                searched_along("searchsorted", self.into_view(), axis, values.into_view(), side, Allocate)
            }

            /// As [`searchsorted_along`](Sorts::searchsorted_along), into an existing tensor or exclusive view. No allocation of a
            /// result.
            ///
            /// # Errors
            /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
            ///
            /// # Examples
            /// ```
            /// use rankform::prelude::*;
            /// use rankform::ops::Side;
            /// let mut places = Tensor::from([[0_i64], [0]]);
            /// let lines = Tensor::from([[1, 2], [3, 4]]);
            /// lines.searchsorted_along_into(Axis::<1>, &Tensor::from([[2], [9]]), Side::Right, &mut places)?;
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
                searched_along("searchsorted_along_into", self.into_view(), A, values.into_view(), side, Existing(out))
            }

            /// The elements without repetition, in order.
            ///
            /// Those that are equal count as one, which is the first; every NaN is unequal to all, as `==` says.
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
                let line = Line::of(self.into_view())?;
                let sorted = values(line.view(), Wanted { op: "unique", axis: 0, keep: None, descending: false }, Allocate)?;
                sorted.masked_select(&firsts(sorted.view(), 0)?)
            }

            /// The elements without repetition, in order, with the place and number of each and the way back.
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
            /// assert_eq!((unique.positions.to_vec()?, unique.counts.to_vec()?), (vec![1, 3, 0], vec![2, 1, 1]));
            /// assert_eq!(unique.values.take(&unique.inverse)?, x);
            /// # Ok::<(), rankform::Error>(())
            /// ```
            fn unique_all(self) -> Result<Unique<T, RANK, D>>
            where
                T: Comparable,
            {
                let x = self.into_view();
                let line = Line::of(x)?;
                let wanted = Wanted { op: "unique", axis: 0, keep: None, descending: false };
                let (sorted, order) = ordered(line.view(), wanted, (Allocate, Allocate))?;
                let first = firsts(sorted.view(), 0)?;
                let [_, counts, group] = runs(&first)?;
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
    };
}
sorts! {
    /// The elements of each line, rising.
    fn sort, sort_axis, sort_into() -> Tensor<T, RANK, D>, (out: T)
    = values(Allocate) |op, axis| Wanted { op, axis, keep: None, descending: false };
    /// The elements of each line, falling.
    fn sort_descending, sort_descending_axis, sort_descending_into() -> Tensor<T, RANK, D>, (out: T)
    = values(Allocate) |op, axis| Wanted { op, axis, keep: None, descending: true };
    /// Where the elements of each line stand, rising: [`gather`](Indexing::gather) takes them from there.
    fn argsort, argsort_axis, argsort_into() -> Tensor<i64, RANK, D>, (out: i64)
    = positions(Allocate) |op, axis| Wanted { op, axis, keep: None, descending: false };
    /// Where the elements of each line stand, falling.
    fn argsort_descending, argsort_descending_axis, argsort_descending_into() -> Tensor<i64, RANK, D>, (out: i64)
    = positions(Allocate) |op, axis| Wanted { op, axis, keep: None, descending: true };
    /// The `k` largest of each line, falling, and where they stand; NaN counts as the largest.
    fn topk, topk_axis, topk_into(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>), (largest: T, places: i64)
    = ordered((Allocate, Allocate)) |op, axis| Wanted { op, axis, keep: Some(k), descending: true };
    /// The `k` smallest of each line, rising, and where they stand.
    fn bottomk, bottomk_axis, bottomk_into(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>), (smallest: T, places: i64)
    = ordered((Allocate, Allocate)) |op, axis| Wanted { op, axis, keep: Some(k), descending: false };
}

/// What [`unique_all`](Sorts::unique_all) finds.
pub struct Unique<T, const RANK: usize, D: Device> {
    /// The elements without repetition, in order.
    pub values: Tensor<T, 1, D>,
    /// The row-major number of the first of each.
    pub positions: Tensor<i64, 1, D>,
    /// Which of `values` each element is: `values.take(&inverse)` is the operand.
    pub inverse: Tensor<i64, RANK, D>,
    /// How often each occurs.
    pub counts: Tensor<i64, 1, D>,
}

/// On which side of equal elements a new one would stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before them.
    Left,
    /// After them.
    Right,
}

/// One step of the search: `by` where what stands here is before `x`, else 0; `AFTER` also where it equals.
#[derive(Clone, Copy, Debug)]
struct Onward<const AFTER: bool>;

impl<T: Comparable, const AFTER: bool> Op<(T, T, i64)> for Onward<AFTER> {
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

/// Where each of `values` would stand in a rising line of `left` elements, of which `at` gives those at certain places.
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
            Side::Left => update_with::<Add, i64, i64, N, D, _>(out, &Call::<Onward<false>, _>::new(call))?,
            Side::Right => update_with::<Add, i64, i64, N, D, _>(out, &Call::<Onward<true>, _>::new(call))?,
        }
        left /= 2;
    }
    Ok(())
}

/// Where each of `values` would stand in the rising line along an axis that it belongs to.
fn searched_along<T: Comparable, const RANK: usize, D: Device, P: Destination<i64, RANK, D>>(
    op: &'static str,
    lines: TensorView<'_, T, RANK, D>,
    axis: usize,
    values: TensorView<'_, T, RANK, D>,
    side: Side,
    place: P,
) -> Result<P::Done> {
    check_axis(op, axis, lines.size())?;
    same_device(op, lines.device(), values.device())?;
    lines.ensure_allocated(op)?;
    values.ensure_allocated(op)?;
    let (n, count) = (lines.size().0[axis], values.size().0[axis]);
    let size = joint_size(op, with_size(lines.size(), axis, count), values.size())?;
    let values = values.broadcast_to(size)?;
    place.put(op, Layout::row_major_of(op, size, size_of::<i64>())?, lines.device(), |out| {
        search(op, n, |middle| gather(op, lines, axis, middle.view(), Allocate), values, side, out)
    })
}

/// Where each of `values` would stand in a rising line.
fn searched<T: Comparable, const N: usize, D: Device, P: Destination<i64, N, D>>(
    op: &'static str,
    line: TensorView<'_, T, 1, D>,
    values: TensorView<'_, T, N, D>,
    side: Side,
    place: P,
) -> Result<P::Done> {
    same_device(op, line.device(), values.device())?;
    line.ensure_allocated(op)?;
    values.ensure_allocated(op)?;
    place.put(op, Layout::row_major_of(op, values.size(), size_of::<i64>())?, line.device(), |out| {
        search(op, line.numel(), |middle| line.take(middle), values, side, out)
    })
}

impl<T: Comparable, D: Device> TensorView<'_, T, 1, D> {
    /// Where each of `values` would stand in this rising line; see [`Tensor::searchsorted`].
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn searchsorted<'b, const N: usize>(
        self,
        values: impl IntoView<'b, T, N, D>,
        side: Side,
    ) -> Result<Tensor<i64, N, D>>
    where
        T: 'b,
        D: 'b,
    {
        searched("searchsorted", self, values.into_view(), side, Allocate)
    }

    /// Where each of `values` would stand in this rising line, into an existing tensor or exclusive view; see
    /// [`Tensor::searchsorted_into`].
    ///
    /// # Errors
    /// As there.
    pub fn searchsorted_into<'b, 'o, const N: usize>(
        self,
        values: impl IntoView<'b, T, N, D>,
        side: Side,
        out: impl IntoViewMut<'o, i64, N, D>,
    ) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        searched("searchsorted_into", self, values.into_view(), side, Existing(out))
    }
}

impl<T: Comparable, D: Device> Tensor<T, 1, D> {
    /// Where each of `values` would stand in this rising line, so that it stays rising: how many elements are less
    /// (`Side::Left`), or not greater (`Side::Right`).
    ///
    /// # Cost
    /// As many gathers and passes over `values` as the length of the line has bits.
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
    pub fn searchsorted<'b, const N: usize>(
        &self,
        values: impl IntoView<'b, T, N, D>,
        side: Side,
    ) -> Result<Tensor<i64, N, D>>
    where
        T: 'b,
        D: 'b,
    {
        self.view().searchsorted(values, side)
    }

    /// As [`searchsorted`](Tensor::searchsorted), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`searchsorted`](Tensor::searchsorted); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has
    /// other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Side;
    /// let mut places = Tensor::from([0_i64; 2]);
    /// Tensor::from([1.0, 2.0, 2.0, 5.0]).searchsorted_into(&Tensor::from([2.0, 9.0]), Side::Left, &mut places)?;
    /// assert_eq!(places.to_vec()?, [1, 4]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn searchsorted_into<'b, 'o, const N: usize>(
        &self,
        values: impl IntoView<'b, T, N, D>,
        side: Side,
        out: impl IntoViewMut<'o, i64, N, D>,
    ) -> Result<()>
    where
        T: 'b,
        D: 'b + 'o,
    {
        self.view().searchsorted_into(values, side, out)
    }
}
