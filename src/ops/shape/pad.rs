//! Padding: elements beyond the ends of the axes.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::ops::axes::with_size;
use crate::tensor::{Destination, TensorView, TensorViewMut};

/// The elements beyond the ends of an axis; see [`Arrange::pad`](crate::ops::Arrange::pad).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pad<T> {
    /// This number.
    Constant(T),
    /// The first and the last element.
    Edge,
    /// The axis mirrored at its ends, without repeating the end elements: `c b | a b c | b a`.
    Reflect,
    /// The axis mirrored at its ends, with the end elements repeated: `b a | a b c | c b`.
    Symmetric,
    /// The axis repeated periodically: `b c | a b c | a b`.
    Wrap,
}

/// A span of a padded axis: `len` elements from index `from` on, `step` apart.
struct Span {
    len: usize,
    from: usize,
    step: isize,
}

impl<T> Pad<T> {
    /// The span that begins at position `at` of a padded axis; the operand has `n` ≥ 1 elements and begins
    /// at 0.
    fn span(&self, at: isize, n: usize) -> Span {
        let size = n as isize;
        let destination = |period: isize| at.rem_euclid(period) as usize;
        match self {
            Pad::Constant(_) | Pad::Edge if at < 0 => Span { len: at.unsigned_abs(), from: 0, step: 0 },
            _ if (0..size).contains(&at) => Span { len: (size - at) as usize, from: at as usize, step: 1 },
            Pad::Constant(_) | Pad::Edge => Span { len: usize::MAX, from: n - 1, step: 0 },
            _ if n == 1 => {
                Span { len: if at < 0 { at.unsigned_abs() } else { usize::MAX }, from: 0, step: 0 }
            }
            Pad::Wrap => Span { len: n - destination(size), from: destination(size), step: 1 },
            Pad::Symmetric => match destination(2 * size) {
                at if at < n => Span { len: n - at, from: at, step: 1 },
                at => Span { len: 2 * n - at, from: 2 * n - 1 - at, step: -1 },
            },
            Pad::Reflect => match destination(2 * size - 2) {
                at if at < n => Span { len: n - at, from: at, step: 1 },
                at => Span { len: 2 * n - 2 - at, from: 2 * n - 2 - at, step: -1 },
            },
        }
    }
}

/// Fills `out`, whose axes from `axis` on are padded, with spans of `x`.
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
        let Span { len, from, step } = pad.span(at, n);
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

/// `x` with padding around it.
pub(super) fn padded<T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    widths: [(usize, usize); RANK],
    pad: Pad<T>,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let size =
        Dim(std::array::from_fn(|a| x.size().0[a].saturating_add(widths[a].0).saturating_add(widths[a].1)));
    let layout = Layout::row_major_of(op, size, size_of::<T>())?;
    match (pad, (0..RANK).find(|&a| x.size().0[a] == 0 && size.0[a] > 0)) {
        (Pad::Constant(value), Some(_)) => destination.put(op, layout, x.device(), |out| out.fill(value)),
        (_, Some(axis)) => Err(Error::Value {
            op,
            what: text(format_args!("axis {axis} of sizes {} has nothing to repeat", x.size())),
        }),
        _ if size.0.contains(&0) => destination.put(op, layout, x.device(), |_| Ok(())),
        _ => destination.put(op, layout, x.device(), |out| paste(out.reborrow(), x, 0, &widths, pad)),
    }
}
