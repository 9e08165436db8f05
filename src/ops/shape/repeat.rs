//! Repetitions of whole axes and of each position, by one count or by a count for each position.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `ops`.

use crate::device::{Device, MAX_AXES, same_device};
use crate::dim::{All, Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::ops::axes::check_axis;
use crate::ops::indexing::gather::selected;
use crate::ops::{Add, Reductions as _, Scans as _};
use crate::tensor::{Allocate, Destination, Tensor, TensorView};

/// `x` with each axis `a` repeated `whole[a]` times, each of its elements `each[a]` times.
pub(super) fn repeated<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    whole: [usize; RANK],
    each: [usize; RANK],
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let size = Dim(std::array::from_fn(|a| x.size().0[a].saturating_mul(whole[a]).saturating_mul(each[a])));
    destination.put(op, Layout::row_major_of(op, size, size_of::<T>())?, x.device(), |to| {
        if size.0.contains(&0) {
            return Ok(());
        }
        // Each axis becomes three: repetitions of the whole axis, its elements, repetitions of each element.
        let (mut sizes, mut steps, mut axes) = ([1; 3 * MAX_AXES], [[0; 3 * MAX_AXES]; 2], 0);
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
        // SAFETY: along each axis, every index of the exclusive view is `whole · (n · each) + i · each + j`
        // for an index `i` of the allocated view.
        unsafe { x.device().copy(&sizes[..axes], to, from) }
    })
}

/// Repeats the whole tensor `times[a]` times along each axis `a`.
pub(super) fn tiled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    times: [usize; RANK],
    destination: P,
) -> Result<P::Done> {
    if RANK > 0 {
        check_axis(op, 0, x.size())?;
    }
    repeated(op, x, times, [1; RANK], destination)
}

/// Repeats each position of an axis by its own count.
pub(super) fn repeated_by_counts<T: Element, const RANK: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
    counts: TensorView<'_, i64, 1, D>,
) -> Result<Tensor<T, RANK, D>> {
    check_axis(op, axis, x.size())?;
    same_device(op, x.device(), counts.device())?;
    counts.ensure_allocated(op)?;
    let n = x.size().0[axis];
    if counts.numel() != n {
        return Err(Error::Value {
            op,
            what: text(format_args!("{} counts for axis {axis} of sizes {}", counts.numel(), x.size())),
        });
    }
    let (least, all) = if n == 0 { (0, 0) } else { (counts.min(All)?.item()?, counts.sum(All)?.item()?) };
    if least < 0 {
        return Err(Error::Value { op, what: text(format_args!("a count of {least}")) });
    }
    // The ends of the repetitions. The source of a result position is the number of ends at or before it. If
    // the cumulative sum wraps, an end is negative, because one count cannot step over all negative numbers.
    let ends = counts.cumsum(Axis::<0>)?;
    let first = if n == 0 { 0 } else { ends.min(All)?.item()? };
    let room = usize::try_from(all).ok().filter(|_| first >= 0).and_then(|all| all.checked_add(1));
    let room = room.ok_or(Error::OutOfMemory { op, nbytes: usize::MAX })?;
    let mut index = Tensor::<i64, 1, D>::zeros([room], x.device()).map_err(|error| error.with_op(op))?;
    index
        .scatter(Add, Axis::<0>, &ends, &Tensor::ones([1], x.device())?)
        .map_err(|error| error.with_op(op))?;
    let index = index.cumsum(Axis::<0>)?;
    selected(op, x, axis, index.view().slice((..room - 1,))?, Allocate)
}
