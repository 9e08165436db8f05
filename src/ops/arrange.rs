//! Tensors joined, cut, padded, turned and repeated: copies between views, and nothing else.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, MAX_REDUCED, same_device};
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element};
use crate::error::{Error, Result, text};
use crate::expr::{IntoView, eval_at};
use crate::kernel::{Call, Op};
use crate::layout::Layout;
use crate::ops::axes::{check_axis, sizes_along, with_size};
use crate::rank::{InsertAxis, RemoveAxis};
use crate::scalar::{Lane, Lanes, Prim};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::ops::Range;

/// The parts one after the other along an axis that exists.
fn joined<'a, T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    parts: impl Iterator<Item = TensorView<'a, T, RANK, D>> + Clone,
    axis: usize,
    place: P,
) -> Result<P::Done> {
    let first = parts
        .clone()
        .next()
        .ok_or_else(|| Error::Value { op, what: text(format_args!("there are no parts")) })?;
    let mut size = with_size(first.size(), axis, 0);
    for part in parts.clone() {
        let (left, right) = (first.size(), part.size());
        same_device(op, first.device(), part.device())?;
        part.ready(op)?;
        if with_size(left, axis, 0) != with_size(right, axis, 0) {
            return Err(Error::Value {
                op,
                what: text(format_args!("sizes {left} and {right} differ beside axis {axis}")),
            });
        }
        size.0[axis] = size.0[axis].saturating_add(right.0[axis]);
    }
    place.put(op, Layout::row_major_of(op, size, size_of::<T>())?, first.device(), |out| {
        let mut start = 0;
        for part in parts {
            let end = start + part.size().0[axis];
            out.reborrow().slice_axis(axis, start..end, 1)?.assign(part)?;
            start = end;
        }
        Ok(())
    })
}

/// Parts of one size, one at each position of a new axis.
fn stacked<
    'a,
    T: Element + 'a,
    const A: usize,
    const RANK: usize,
    const N: usize,
    D: Device + 'a,
    P: Destination<T, N, D>,
>(
    op: &'static str,
    parts: &[impl IntoView<'a, T, RANK, D> + Copy],
    axis: Axis<A>,
    place: P,
) -> Result<P::Done>
where
    Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
{
    let mut sizes = parts.iter().map(|part| part.into_view().size());
    if let Some(first) = sizes.next()
        && let Some(other) = sizes.find(|size| *size != first)
    {
        return Err(Error::Value { op, what: text(format_args!("sizes {first} and {other} differ")) });
    }
    joined(op, parts.iter().map(|part| part.into_view().insert_axis(axis)), A, place)
}

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The parts, tensors or views, one after the other along axis `A`, in new memory.
    ///
    /// # Errors
    /// [`Error::Value`] for no parts at all, or parts whose sizes differ along another axis;
    /// [`Error::OutOfMemory`], and those of the device.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[1, 2], [3, 4]]), Tensor::from([[5, 6]]));
    /// assert_eq!(Tensor::concat([&x, &y], Axis::<0>)?, Tensor::from([[1, 2], [3, 4], [5, 6]]));
    /// let error = Tensor::concat([&x, &y], Axis::<1>).unwrap_err();
    /// assert_eq!(error.to_string(), "concat: sizes [2, 2] and [1, 2] differ beside axis 1");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "cat")]
    pub fn concat<'a, const A: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
    ) -> Result<Self>
    where
        T: 'a,
        D: 'a,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        Self::concat_axis(parts, A)
    }

    /// As [`concat`](Tensor::concat), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    pub fn concat_axis<'a, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: usize,
    ) -> Result<Self>
    where
        T: 'a,
        D: 'a,
    {
        check_axis(
            "concat",
            axis,
            parts.as_ref().first().map_or(Dim([0; RANK]), |part| part.into_view().size()),
        )?;
        joined("concat", parts.as_ref().iter().map(|part| part.into_view()), axis, Allocate)
    }

    /// As [`concat`](Tensor::concat), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`concat`](Tensor::concat); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([3]));
    /// let mut both = Tensor::<i32, 1>::zeros([3], &Cpu)?;
    /// Tensor::concat_into([&x, &y], Axis::<0>, &mut both)?;
    /// assert_eq!(both.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn concat_into<'a, 'o, const A: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: 'a,
        D: 'a + 'o,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        joined("concat_into", parts.as_ref().iter().map(|part| part.into_view()), A, Existing(out))
    }

    /// The parts, all of one size, along a new axis at place `A`, in new memory.
    ///
    /// # Errors
    /// As [`concat`](Tensor::concat).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2, 3]), Tensor::from([4, 5, 6]));
    /// assert_eq!(Tensor::stack([&x, &y], Axis::<0>)?, Tensor::from([[1, 2, 3], [4, 5, 6]]));
    /// assert_eq!(Tensor::stack([&x, &y], Axis::<1>)?, Tensor::from([[1, 4], [2, 5], [3, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn stack<'a, const A: usize, const N: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
    ) -> Result<Tensor<T, N, D>>
    where
        T: 'a,
        D: 'a,
        Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
    {
        stacked("stack", parts.as_ref(), axis, Allocate)
    }

    /// As [`stack`](Tensor::stack), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`concat_into`](Tensor::concat_into).
    pub fn stack_into<'a, 'o, const A: usize, const N: usize, X: IntoView<'a, T, RANK, D> + Copy>(
        parts: impl AsRef<[X]>,
        axis: Axis<A>,
        out: impl IntoViewMut<'o, T, N, D>,
    ) -> Result<()>
    where
        T: 'a,
        D: 'a + 'o,
        Dim<RANK>: InsertAxis<A, Output = Dim<N>>,
    {
        stacked("stack_into", parts.as_ref(), axis, Existing(out))
    }
}

/// What stands beyond the ends of an axis; see [`Arrange::pad`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pad<T> {
    /// This number.
    Constant(T),
    /// The first and the last element.
    Edge,
    /// The axis mirrored at its ends, which stand once: `c b | a b c | b a`.
    Reflect,
    /// The axis mirrored with its ends: `b a | a b c | c b`.
    Symmetric,
    /// The axis again: `b c | a b c | a b`.
    Wrap,
}

/// A stretch of a padded axis: `len` elements that begin at `from` and go by `step`.
struct Run {
    len: usize,
    from: usize,
    step: isize,
}

impl<T> Pad<T> {
    /// What stands at position `at` (the operand begins at 0) of an axis of `n` ≥ 1 elements, and for how long it goes on.
    fn run(&self, at: isize, n: usize) -> Run {
        let size = n as isize;
        let place = |period: isize| at.rem_euclid(period) as usize;
        match self {
            Pad::Constant(_) | Pad::Edge if at < 0 => Run { len: at.unsigned_abs(), from: 0, step: 0 },
            _ if (0..size).contains(&at) => Run { len: (size - at) as usize, from: at as usize, step: 1 },
            Pad::Constant(_) | Pad::Edge => Run { len: usize::MAX, from: n - 1, step: 0 },
            _ if n == 1 => Run { len: if at < 0 { at.unsigned_abs() } else { usize::MAX }, from: 0, step: 0 },
            Pad::Wrap => Run { len: n - place(size), from: place(size), step: 1 },
            Pad::Symmetric => match place(2 * size) {
                at if at < n => Run { len: n - at, from: at, step: 1 },
                at => Run { len: 2 * n - at, from: 2 * n - 1 - at, step: -1 },
            },
            Pad::Reflect => match place(2 * size - 2) {
                at if at < n => Run { len: n - at, from: at, step: 1 },
                at => Run { len: 2 * n - 2 - at, from: 2 * n - 2 - at, step: -1 },
            },
        }
    }
}

/// Fills `out`, whose axes from `axis` on are padded, with the runs of `x`.
fn paste<T: Element, const RANK: usize, D: Device>(
    mut out: TensorViewMut<'_, T, RANK, D>,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    widths: &[(usize, usize); RANK],
    pad: Pad<T>,
) -> Result<()> {
    let Some(&(before, _)) = widths.get(axis) else { return out.assign(x) };
    let (n, total) = (x.size().0[axis], out.size().0[axis]);
    let mut done = 0;
    while done < total {
        let at = done as isize - before as isize;
        let Run { len, from, step } = pad.run(at, n);
        let len = len.min(total - done);
        let mut part = out.reborrow().slice_axis(axis, done..done + len, 1)?;
        if let (Pad::Constant(value), 0) = (pad, step) {
            part.fill(value)?;
        } else {
            let run = match step {
                0 => x.slice_axis(axis, from..from + 1, 1)?.broadcast_to(with_size(x.size(), axis, len))?,
                1 => x.slice_axis(axis, from..from + len, 1)?,
                _ => x.slice_axis(axis, from + 1 - len..from + 1, -1)?,
            };
            paste(part, run, axis + 1, widths, pad)?;
        }
        done += len;
    }
    Ok(())
}

/// `x` with something around it.
fn padded<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    widths: [(usize, usize); RANK],
    pad: Pad<T>,
    place: P,
) -> Result<P::Done> {
    x.ready(op)?;
    let size =
        Dim(std::array::from_fn(|a| x.size().0[a].saturating_add(widths[a].0).saturating_add(widths[a].1)));
    let layout = Layout::row_major_of(op, size, size_of::<T>())?;
    match (pad, (0..RANK).find(|&a| x.size().0[a] == 0 && size.0[a] > 0)) {
        (Pad::Constant(value), Some(_)) => place.put(op, layout, x.device(), |out| out.fill(value)),
        (_, Some(axis)) => Err(Error::Value {
            op,
            what: text(format_args!("axis {axis} of sizes {} has nothing to repeat", x.size())),
        }),
        _ if size.0.contains(&0) => place.put(op, layout, x.device(), |_| Ok(())),
        _ => place.put(op, layout, x.device(), |out| paste(out.reborrow(), x, 0, &widths, pad)),
    }
}

/// `x` with each axis `a` repeated `whole[a]` times, each of its elements `each[a]` times.
fn repeated<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    whole: [usize; RANK],
    each: [usize; RANK],
    place: P,
) -> Result<P::Done> {
    x.ready(op)?;
    let size = Dim(std::array::from_fn(|a| x.size().0[a].saturating_mul(whole[a]).saturating_mul(each[a])));
    place.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        if size.0.contains(&0) {
            return Ok(());
        }
        // Each axis becomes three: the repetitions of all, the elements, the repetitions of one.
        let (mut sizes, mut steps, mut axes) = ([1; 3 * MAX_REDUCED], [[0; 3 * MAX_REDUCED]; 2], 0);
        for a in 0..RANK {
            let (n, step) = (x.size().0[a], to.stride().0[a]);
            let inner = step.wrapping_mul(each[a] as isize);
            for (size, there, here) in [
                (whole[a], inner.wrapping_mul(n as isize), 0),
                (n, inner, x.stride().0[a]),
                (each[a], step, 0),
            ] {
                if size != 1 {
                    (sizes[axes], steps[0][axes], steps[1][axes]) = (size, there, here);
                    axes += 1;
                }
            }
        }
        let to = to.leaf().slot(&steps[0][..axes]);
        let from = x.leaf().slot(&steps[1][..axes]);
        // SAFETY: every index of the exclusive view is whole · (n · each) + i · each + j of one axis, for an `i` of the ready one.
        unsafe { x.device().copy(&sizes[..axes], to, from) }
    })
}

/// The whole `times[a]` times along each axis `a`.
fn tiled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    times: [usize; RANK],
    place: P,
) -> Result<P::Done> {
    if RANK > 0 {
        check_axis(op, 0, x.size())?;
    }
    repeated(op, x, times, [1; RANK], place)
}

/// Each element `shift` positions further along an axis.
fn rolled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    shift: isize,
    place: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    let n = x.size().0[axis];
    let kept = n - shift.rem_euclid(n.max(1) as isize) as usize;
    joined(
        op,
        [x.slice_axis(axis, kept.min(n)..n, 1)?, x.slice_axis(axis, 0..kept.min(n), 1)?].into_iter(),
        axis,
        place,
    )
}

/// `x − y`; of booleans whether they differ.
#[derive(Clone, Copy, Debug)]
struct Difference;

impl<T: Element> Op<(T, T)> for Difference {
    const LIGHT: bool = true;
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
    place: P,
) -> Result<P::Done> {
    check_axis(op, axis, x.size())?;
    let n = x.size().0[axis];
    let (after, before) =
        (x.slice_axis(axis, n.min(1)..n, 1)?, x.slice_axis(axis, 0..n.saturating_sub(1), 1)?);
    eval_at(op, &Call::<Difference, _>::new((after, before)), x.device(), place)
}

/// Tensors and views padded, turned, repeated and cut, in new memory or, by the functions that end in `_into`, in memory that
/// is there.
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
    /// `widths[a].0` elements more before axis `a` and `widths[a].1` after it.
    ///
    /// # Cost
    /// One allocation; each element is written once, in runs.
    ///
    /// # Errors
    /// [`Error::Value`] where an empty axis would have to be repeated; [`Error::Overflow`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    fn pad(self, widths: [(usize, usize); RANK], pad: Pad<T>) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
    {
        padded("pad", self.into_view(), widths, pad, Allocate)
    }

    /// As [`pad`](Arrange::pad), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As [`pad`](Arrange::pad); [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
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

    /// Each element `shift` positions further along axis `A`; what leaves one end enters at the other.
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

    /// Each position of axis `A` `times` times, one after the other.
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

    /// The whole `times[a]` times along each axis `a`.
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
    /// [`Error::Value`] unless the sizes make up the axis.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let [left, right] = x.split(Axis::<1>, [1, 2])?;
    /// assert_eq!((left.to_vec()?, right.to_vec()?), (vec![1, 4], vec![2, 3, 5, 6]));
    /// assert_eq!(x.split(Axis::<0>, [1, 2]).unwrap_err().to_string(), "split: parts of [1, 2] do not make up axis 0 of sizes [2, 3]");
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

    /// The differences of neighbors along axis `A`: `y[.., i, ..] = x[.., i + 1, ..] − x[.., i, ..]`, one position less; of booleans whether they
    /// differ.
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
