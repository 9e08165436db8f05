//! Elements in order: sort, argsort, the largest, unique ones, where one would stand.
//!
//! The order is that of `<` in the machine type, with NaN after every number. Equal elements stay as they stand: −0 and 0 are equal here, and
//! all NaN are.
//! Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::index::{Line, exists, with};
use super::runs::{firsts, runs};
use super::{Indexing, Replace};
use crate::device::{Device, Slot};
use crate::dim::{Axis, Dim};
use crate::element::{Comparable, Compute};
use crate::error::{Error, Result, text};
use crate::expr::{Stored, eval};
use crate::kernel::{Call, Op, Param, Sorting};
use crate::layout::Layout;
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Tensor, TensorView};

/// What is wanted of sorted lines.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) op: &'static str,
    pub(super) axis: usize,
    /// How many of each line; `None` for all.
    pub(super) keep: Option<usize>,
    pub(super) descending: bool,
    pub(super) values: bool,
    pub(super) positions: bool,
}

/// A whole number with the order of the element, the highest for NaN.
#[derive(Clone, Copy, Debug)]
struct OrderKey;

impl<T: Comparable> Op<(T,)> for OrderKey {
    const NAME: &'static str = "sort";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, i64> {
        // −0 + 0 is 0: zeros of two signs are equal here.
        x.is_nan().select(Lane::highest(), (x + Lane::zero()).order_key().cast())
    }
}

/// The elements of each line in order, and where they stood; an output that is not wanted stays empty.
pub(super) fn ordered<T: Comparable, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    wanted: Wanted,
) -> Result<(Tensor<T, RANK, D>, Tensor<i64, RANK, D>)> {
    let Wanted { op, axis, keep, descending, values: with_values, positions: with_positions } = wanted;
    exists(op, axis, x.size())?;
    x.ready(op)?;
    let n = x.size().0[axis];
    let keep = keep.unwrap_or(n);
    if keep > n {
        return Err(Error::Value { op, what: text(format_args!("{keep} of the {n} elements along axis {axis}")) });
    }
    // Devices know the order of plain elements by their name; that of others is in their machine type.
    if !T::PLAIN {
        let keys = eval(op, &Call::<OrderKey, _>::new((x,)), x.device())?;
        let (_, positions) = ordered(keys.view(), Wanted { values: false, positions: true, ..wanted })?;
        let none = || Tensor::zeros(with(x.size(), axis, 0), x.device());
        return Ok((if with_values { x.gather_axis(axis, &positions)? } else { none()? }, positions));
    }
    let size = |is_wanted: bool| if is_wanted { with(x.size(), axis, keep) } else { with(x.size(), axis, 0) };
    let fresh = |size: Dim<RANK>, element: usize| Layout::row_major_of(op, size, element);
    let mut values = Tensor::<T, RANK, D>::unwritten(op, fresh(size(with_values), size_of::<T>())?, x.device())?;
    let mut positions = Tensor::<i64, RANK, D>::unwritten(op, fresh(size(with_positions), size_of::<i64>())?, x.device())?;
    // The axes of the lines, then the one along them.
    let order: [usize; RANK] = std::array::from_fn(|a| if a + 1 == RANK { axis } else { a + usize::from(a >= axis) });
    let sizes = order.map(|axis| x.size().0[axis]);
    let plan = Sorting { lines: &sizes[..RANK - 1], along: n, keep, descending };
    let [from, value, position] = [x.layout(), values.layout(), positions.layout()].map(|layout| layout.reordered(order).stride());
    let value = Slot { address: values.writable(op)?.raw_ptr().cast(), stride: &value.0, element: size_of::<T>() };
    let position = Slot { address: positions.writable(op)?.raw_ptr().cast(), stride: &position.0, element: size_of::<i64>() };
    let from = Slot { address: x.raw_ptr().cast_mut().cast(), stride: &from.0, element: size_of::<T>() };
    // SAFETY: a ready view, and fresh memory for `keep` elements of each of its lines.
    unsafe { x.device().sort::<T>(plan, with_values.then_some(value), with_positions.then_some(position), from)? };
    Ok((values, positions))
}

/// Methods that order the lines along one axis, each for an axis in the type and one known at run time.
macro_rules! sorts {
    ($($(#[$doc:meta])* fn $name:ident, $name_axis:ident($($arg:ident: $type:ty)?) -> $out:ty = |$x:ident, $axis:ident| $body:expr;)*) => {
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
        /// let (largest, places) = x.topk(Axis::<1>, 2)?;
        /// assert_eq!((largest.to_vec()?, places.to_vec()?), (vec![3.0, 2.0, 6.0, 5.0], vec![0, 2, 1, 0]));
        /// # Ok::<(), rankform::Error>(())
        /// ```
        pub trait Sorts<'a, T: 'a, const RANK: usize, D: Device>: Stored<'a, T, RANK, D> + Sized { $(
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
                let ($x, $axis) = (self.into_view(), axis);
                $body
            }
        )*
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
                let wanted = Wanted { op: "unique", axis: 0, keep: None, descending: false, values: true, positions: false };
                let sorted = ordered(line.view(), wanted)?.0;
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
                let wanted = Wanted { op: "unique", axis: 0, keep: None, descending: false, values: true, positions: true };
                let (sorted, order) = ordered(line.view(), wanted)?;
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
        impl<'a, X: Stored<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Sorts<'a, T, RANK, D> for X {}
    };
}
sorts! {
    /// The elements of each line, rising.
    fn sort, sort_axis() -> Tensor<T, RANK, D> = |x, axis| {
        Ok(ordered(x, Wanted { op: "sort", axis, keep: None, descending: false, values: true, positions: false })?.0)
    };
    /// The elements of each line, falling.
    fn sort_descending, sort_descending_axis() -> Tensor<T, RANK, D> = |x, axis| {
        Ok(ordered(x, Wanted { op: "sort", axis, keep: None, descending: true, values: true, positions: false })?.0)
    };
    /// Where the elements of each line stand, rising: [`gather`](Indexing::gather) takes them from there.
    fn argsort, argsort_axis() -> Tensor<i64, RANK, D> = |x, axis| {
        Ok(ordered(x, Wanted { op: "argsort", axis, keep: None, descending: false, values: false, positions: true })?.1)
    };
    /// Where the elements of each line stand, falling.
    fn argsort_descending, argsort_descending_axis() -> Tensor<i64, RANK, D> = |x, axis| {
        Ok(ordered(x, Wanted { op: "argsort", axis, keep: None, descending: true, values: false, positions: true })?.1)
    };
    /// The `k` largest of each line, falling, and where they stand; NaN counts as the largest.
    fn topk, topk_axis(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>) = |x, axis| {
        ordered(x, Wanted { op: "topk", axis, keep: Some(k), descending: true, values: true, positions: true })
    };
    /// The `k` smallest of each line, rising, and where they stand.
    fn bottomk, bottomk_axis(k: usize) -> (Tensor<T, RANK, D>, Tensor<i64, RANK, D>) = |x, axis| {
        ordered(x, Wanted { op: "bottomk", axis, keep: Some(k), descending: false, values: true, positions: true })
    };
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

/// One step of the search: `from + by` where what stands before it is before `x`, else `from`; `AFTER` also where it equals.
#[derive(Clone, Copy, Debug)]
struct Onward<const AFTER: bool>;

impl<T: Comparable, const AFTER: bool> Op<(T, T, i64, i64)> for Onward<AFTER> {
    const NAME: &'static str = "searchsorted";
    type Out = i64;
    #[inline(always)]
    fn call<L: Lanes>((here, x, from, by): (Lane<L, Compute<T>>, Lane<L, Compute<T>>, Lane<L, i64>, Lane<L, i64>)) -> Lane<L, i64> {
        let less = |a: Lane<L, Compute<T>>, b: Lane<L, Compute<T>>| a.lt(b) | (b.is_nan() & !a.is_nan());
        let passes = if AFTER { !less(x, here) } else { less(here, x) };
        passes.select(from + by, from)
    }
}

impl<T: Comparable, D: Device> TensorView<'_, T, 1, D> {
    /// Where each of `values` would stand in this rising line; see [`Tensor::searchsorted`].
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    pub fn searchsorted<'b, const N: usize>(self, values: impl Stored<'b, T, N, D>, side: Side) -> Result<Tensor<i64, N, D>>
    where
        T: 'b,
        D: 'b,
    {
        let values = values.into_view();
        let mut at = Tensor::<i64, N, D>::zeros(values.size(), self.device())?;
        // The answer lies in `at ..= at + left`, for every value at once.
        let mut left = self.numel();
        while left > 0 {
            let half = left.div_ceil(2) as i64;
            let middle = eval("searchsorted", &Call::<super::Add, _>::new((at.view(), Param(half - 1))), self.device())?;
            let here = self.take(&middle)?;
            let call = (here.view(), values, at.view(), Param(half));
            at = match side {
                Side::Left => eval("searchsorted", &Call::<Onward<false>, _>::new(call), self.device())?,
                Side::Right => eval("searchsorted", &Call::<Onward<true>, _>::new(call), self.device())?,
            };
            left /= 2;
        }
        Ok(at)
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
    pub fn searchsorted<'b, const N: usize>(&self, values: impl Stored<'b, T, N, D>, side: Side) -> Result<Tensor<i64, N, D>>
    where
        T: 'b,
        D: 'b,
    {
        self.view().searchsorted(values, side)
    }
}
