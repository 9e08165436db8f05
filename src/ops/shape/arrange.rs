//! Tensors padded, rolled, repeated, tiled, split, and differences of neighbors.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::join::joined;
use super::pad::{Pad, padded};
use super::repeat::{repeated, tiled};
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval_at};
use crate::kernel::{Call, Op};
use crate::ops::axes::{check_axis, sizes_along};
use crate::rank::RemoveAxis;
use crate::scalar::{Lane, Lanes, Prim};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::ops::Range;

/// Rolls an axis by `shift` positions.
fn rolled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    shift: isize,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    let n = x.size().0[axis];
    let kept = n - shift.rem_euclid(n.max(1) as isize) as usize;
    joined(
        op,
        [x.slice_axis(axis, kept.min(n)..n, 1)?, x.slice_axis(axis, 0..kept.min(n), 1)?].into_iter(),
        axis,
        destination,
    )
}

/// `x − y`; for booleans, whether they differ.
#[derive(Clone, Copy, Debug)]
struct Difference;

impl<T: Element> Op<(T, T)> for Difference {
    const CHEAP: bool = true;
    const NAME: &'static str = "diff";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        Prim::difference(x, y)
    }
}

/// The differences of neighbors along an axis.
fn differences<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    destination: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    let n = x.size().0[axis];
    let (after, before) =
        (x.slice_axis(axis, n.min(1)..n, 1)?, x.slice_axis(axis, 0..n.saturating_sub(1), 1)?);
    eval_at(op, &Call::<Difference, _>::new((after, before)), x.device(), destination)
}

/// Tensors and views padded, rolled, repeated and split. The functions that end in `_into` write to an
/// existing output, the others allocate it.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::ops::Pad;
/// let x = Tensor::from([1, 2, 3]);
/// assert_eq!(x.pad([(2, 1)], Pad::Reflect)?.to_vec()?, [3, 2, 1, 2, 3, 2]);
/// assert_eq!(x.pad([(1, 2)], Pad::Constant(0))?.to_vec()?, [0, 1, 2, 3, 0, 0]);
/// assert_eq!(x.roll(Axis::<0>, 1)?.to_vec()?, [3, 1, 2]);
/// assert_eq!(x.repeat(Axis::<0>, 2)?.to_vec()?, [1, 1, 2, 2, 3, 3]);
/// assert_eq!(x.tile([2])?.to_vec()?, [1, 2, 3, 1, 2, 3]);
/// assert_eq!(x.diff(Axis::<0>)?.to_vec()?, [1, 1]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait Arrange<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// Adds `widths[a].0` elements before axis `a` and `widths[a].1` after it.
    ///
    /// # Cost
    /// One allocation; each element is written once, in contiguous spans.
    ///
    /// # Errors
    /// [`Error::Value`] if an empty axis would have to be repeated; [`Error::Overflow`],
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn pad(self, widths: [(usize, usize); RANK], pad: Pad<T>) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        padded("pad", self.into_view(), widths, pad, Allocate)
    }

    /// As [`pad`](Arrange::pad), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad`](Arrange::pad); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has
    /// other handles.
    fn pad_into<'o>(
        self,
        widths: [(usize, usize); RANK],
        pad: Pad<T>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
    {
        padded("pad_into", self.into_view(), widths, pad, Existing(out))
    }

    /// Moves each element by `shift` positions along axis `A`; elements that leave one end enter at the
    /// other.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn roll<const A: usize>(self, axis: Axis<A>, shift: isize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.roll_axis(A, shift)
    }

    /// As [`roll`](Arrange::roll), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn roll_axis(self, axis: usize, shift: isize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        rolled("roll", self.into_view(), axis, shift, Allocate)
    }

    /// As [`roll`](Arrange::roll), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad_into`](Arrange::pad_into).
    fn roll_into<'o, const A: usize>(
        self,
        axis: Axis<A>,
        shift: isize,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        rolled("roll_into", self.into_view(), A, shift, Existing(out))
    }

    /// Repeats each position of axis `A` `times` times in sequence.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    #[doc(alias = "repeat_interleave")]
    fn repeat<const A: usize>(self, axis: Axis<A>, times: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.repeat_axis(A, times)
    }

    /// As [`repeat`](Arrange::repeat), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn repeat_axis(self, axis: usize, times: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        let x = self.into_view();
        check_axis("repeat", axis, x.size())?;
        repeated("repeat", x, [1; RANK], sizes_along(axis, times), Allocate)
    }

    /// As [`repeat`](Arrange::repeat), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad_into`](Arrange::pad_into).
    fn repeat_into<'o, const A: usize>(
        self,
        axis: Axis<A>,
        times: usize,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let (_, x) = (axis, self.into_view());
        check_axis("repeat_into", A, x.size())?;
        repeated("repeat_into", x, [1; RANK], sizes_along(A, times), Existing(out))
    }

    /// Repeats the whole tensor `times[a]` times along each axis `a`.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    fn tile(self, times: [usize; RANK]) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        tiled("tile", self.into_view(), times, Allocate)
    }

    /// As [`tile`](Arrange::tile), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad_into`](Arrange::pad_into).
    fn tile_into<'o>(self, times: [usize; RANK], out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
    {
        tiled("tile_into", self.into_view(), times, Existing(out))
    }

    /// Consecutive parts along axis `A`, of these sizes: views.
    ///
    /// # Errors
    /// [`Error::Value`] unless the sizes add up to that of the axis.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let [left, right] = x.split(Axis::<1>, [1, 2])?;
    /// assert_eq!((left.to_vec()?, right.to_vec()?), (vec![1, 4], vec![2, 3, 5, 6]));
    /// let error = x.split(Axis::<0>, [1, 2]).unwrap_err();
    /// assert_eq!(error.to_string(), "split: parts of [1, 2] do not make up axis 0 of sizes [2, 3]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn split<const A: usize, const N: usize>(
        self,
        axis: Axis<A>,
        sizes: [usize; N],
    ) -> Result<[TensorView<'a, T, RANK, D>; N]>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.split_axis(A, sizes)
    }

    /// As [`split`](Arrange::split), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn split_axis<const N: usize>(
        self,
        axis: usize,
        sizes: [usize; N],
    ) -> Result<[TensorView<'a, T, RANK, D>; N]> {
        let x = self.into_view();
        check_axis("split", axis, x.size())?;
        let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
        if total != Some(x.size().0[axis]) {
            let (parts, sizes) = (Dim(sizes), x.size());
            return Err(Error::Value {
                op: "split",
                what: text(format_args!("parts of {parts} do not make up axis {axis} of sizes {sizes}")),
            });
        }
        let (mut parts, mut start) = ([x; N], 0);
        for (part, size) in parts.iter_mut().zip(sizes) {
            let range: Range<usize> = start..start + size;
            start = range.end;
            *part = x.slice_axis(axis, range, 1)?;
        }
        Ok(parts)
    }

    /// The differences of neighbors along axis `A`: `y[.., i, ..] = x[.., i + 1, ..] − x[.., i, ..]`, one
    /// position fewer; for booleans, whether they differ.
    ///
    /// # Errors
    /// Those of elementwise operators.
    fn diff<const A: usize>(self, axis: Axis<A>) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.diff_axis(A)
    }

    /// As [`diff`](Arrange::diff), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad_into`](Arrange::pad_into).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut steps = Tensor::from([0, 0, 0]);
    /// Tensor::from([1, 4, 9]).diff_into(Axis::<0>, steps.view_mut()?.slice((1..,))?)?;
    /// assert_eq!(steps.to_vec()?, [0, 3, 5]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn diff_into<'o, const A: usize>(self, axis: Axis<A>, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        differences("diff_into", self.into_view(), A, Existing(out))
    }

    /// As [`diff`](Arrange::diff), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn diff_axis(self, axis: usize) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        differences("diff", self.into_view(), axis, Allocate)
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Arrange<'a, T, RANK, D> for X {}
