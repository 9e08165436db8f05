//! Pixel shuffle and its inverse: elements moved between channels and spatial axes.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::tensor::{Destination, TensorView};

/// The elements of `x`, reshaped to `cut`, permuted by `order` and reshaped to `size`.
pub(super) fn rearranged<
    T: Element,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, N, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    (cut, order, size): ([usize; 6], [usize; 6], [usize; N]),
    destination: P,
) -> Result<P::Done> {
    let parts = x.reshape(cut).map_err(|error| error.with_op(op))?.permuted(order)?;
    let layout = Layout::row_major_of(op, Dim(size), size_of::<T>())?;
    destination.put(op, layout, x.device(), |out| out.reborrow().reshape(parts.size())?.assign(parts))
}

/// [`Channels::pixel_shuffle`] for any destination.
pub(super) fn shuffled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    factor: usize,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
    match factor.checked_mul(factor) {
        Some(block) if block > 0 && c.is_multiple_of(block) => {
            let size = [n, c / block, h.saturating_mul(factor), w.saturating_mul(factor)];
            let cut = [n, c / block, factor, factor, h, w];
            rearranged(op, x, (cut, [0, 1, 4, 2, 5, 3], std::array::from_fn(|a| size[a])), destination)
        }
        _ => Err(Error::Value {
            op,
            what: text(format_args!("{c} channels are no blocks of {factor} × {factor}")),
        }),
    }
}

/// [`Channels::pixel_unshuffle`] for any destination.
pub(super) fn unshuffled<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    factor: usize,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let [n, c, h, w] = std::array::from_fn(|a| x.size().0[a]);
    if factor == 0 || !h.is_multiple_of(factor) || !w.is_multiple_of(factor) {
        return Err(Error::Value {
            op,
            what: text(format_args!("{h} × {w} pixels are no blocks of {factor} × {factor}")),
        });
    }
    let size = [n, c.saturating_mul(factor).saturating_mul(factor), h / factor, w / factor];
    let cut = [n, c, h / factor, factor, w / factor, factor];
    rearranged(op, x, (cut, [0, 1, 3, 5, 2, 4], std::array::from_fn(|a| size[a])), destination)
}
