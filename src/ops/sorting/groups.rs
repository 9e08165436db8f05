//! Groups of equal neighbors.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Axis;
use crate::element::Element;
use crate::error::Result;
use crate::ops::{Arithmetic as _, Cast as _, Comparisons as _, Indexing as _, Scans as _};
use crate::tensor::{Tensor, TensorView};

/// Marks the elements that differ from the previous one along an existing axis; the first element is marked.
pub(super) fn group_starts<T: Element, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    axis: usize,
) -> Result<Tensor<bool, RANK, D>> {
    let n = x.size().0[axis];
    let mut firsts = Tensor::full(x.size(), true, x.device())?;
    if n > 1 {
        let differs = x.slice_axis(axis, 1..n, 1)?.lazy().not_equal(x.slice_axis(axis, 0..n - 1, 1)?);
        differs.eval_into(&mut firsts.try_view_mut("unique")?.slice_axis(axis, 1..n, 1)?)?;
    }
    Ok(firsts)
}

/// The starts of the groups of a vector, their lengths, and the group of each element; `first` marks the
/// starts.
pub(super) fn groups<D: Device>(first: &Tensor<bool, 1, D>) -> Result<[Tensor<i64, 1, D>; 3]> {
    let starts = first.nonzero()?.into_remove_axis(Axis::<1>)?;
    let end = Tensor::from_slice(&[first.numel() as i64], [1], first.device())?;
    let kept = starts.numel();
    let ends =
        Tensor::concat([starts.slice((kept.min(1)..,))?, end.slice((1 - kept.min(1)..,))?], Axis::<0>)?;
    let counts = ends.sub(&starts)?;
    let group = (first.lazy().cast::<i64>()).cumsum(Axis::<0>)?.sub(1)?;
    Ok([starts, counts, group])
}
