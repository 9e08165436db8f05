//! The frequencies of a spectrum, and their order.
// Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Cpu, Device};
use crate::dim::Dim;
use crate::element::{Element, Float};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::ops::Arrange as _;
use crate::rank::HasAxes;
use crate::tensor::Tensor;

/// `count` frequencies of a transform of length `n`, of which the first `positive` are not negative.
fn frequencies<T: Float>(
    op: &'static str,
    n: usize,
    spacing: T,
    count: usize,
    positive: usize,
) -> Result<Tensor<T, 1>> {
    let is_usable = spacing.is_finite() && !spacing.is_zero();
    if n == 0 || !is_usable {
        let what =
            text(format_args!("length {n} and spacing {spacing:?}; both must be finite and other than 0"));
        return Err(Error::Value { op, what });
    }
    // In f64: a length may exceed the largest number of an element.
    let range = n as f64 * spacing.to_f64().unwrap_or(f64::NAN);
    let index = |k: usize| if k < positive { k as f64 } else { k as f64 - n as f64 };
    Tensor::from_fn([count], |[k]| T::constant(index(k) / range), &Cpu)
}

/// The frequencies of [`fft`](super::fft) for samples at this distance: 0, the positive ones, and the
/// negative ones, of which the lowest is first.
///
/// # Errors
/// [`Error::Value`] if `n` is 0 or `spacing` is 0 or not finite; [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::fft::fftfreq;
/// assert_eq!(fftfreq(4, 0.25)?.to_vec()?, [0.0, 1.0, -2.0, -1.0]);
/// assert_eq!(fftfreq(5, 0.2_f32)?.to_vec()?, [0.0, 1.0, 2.0, -2.0, -1.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn fftfreq<T: Float>(n: usize, spacing: T) -> Result<Tensor<T, 1>> {
    frequencies("fftfreq", n, spacing, n, n.div_ceil(2))
}

/// The frequencies of [`rfft`](super::rfft) for samples at this distance: from 0 to the highest.
///
/// # Errors
/// As [`fftfreq`].
///
/// # Examples
/// ```
/// use rankform::fft::rfftfreq;
/// assert_eq!(rfftfreq(4, 0.25)?.to_vec()?, [0.0, 1.0, 2.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn rfftfreq<T: Float>(n: usize, spacing: T) -> Result<Tensor<T, 1>> {
    frequencies("rfftfreq", n, spacing, n / 2 + 1, n / 2 + 1)
}

/// Rolls each of the axes by a number of positions that depends on its size.
fn shifted<'a, T: Element + 'a, const RANK: usize, D: Device + 'a, AXES>(
    op: &'static str,
    x: impl IntoView<'a, T, RANK, D>,
    axes: AXES,
    shift: impl Fn(usize) -> usize,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: HasAxes<AXES>,
{
    let (x, mut marked) = (x.into_view(), [false; RANK]);
    let size = x.size().0;
    if let Some(axis) = <Dim<RANK> as HasAxes<AXES>>::mark(axes, &mut marked) {
        return Err(Error::Axis { op, axis, sizes: size.into() });
    }
    let mut out: Option<Tensor<T, RANK, D>> = None;
    for axis in (0..RANK).filter(|&axis| marked[axis]) {
        let shift = shift(size[axis]) as isize;
        out = Some(
            match &out {
                None => x.roll_axis(axis, shift),
                Some(before) => before.view().roll_axis(axis, shift),
            }
            .map_err(|error| error.with_op(op))?,
        );
    }
    match out {
        Some(out) => Ok(out),
        None => x.copy(),
    }
}

/// Moves frequency 0 to the middle of each of the axes, `All`, `Last` or a tuple: the frequencies of
/// [`fftfreq`] ascend. On every device, of every element.
///
/// # Cost
/// A copy for each axis.
///
/// # Errors
/// [`Error::Unallocated`], [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::fft::{fftfreq, fftshift, ifftshift};
/// use rankform::prelude::*;
/// let frequencies = fftfreq(5, 0.2)?;
/// assert_eq!(fftshift(&frequencies, All)?.to_vec()?, [-2.0, -1.0, 0.0, 1.0, 2.0]);
/// assert_eq!(ifftshift(&fftshift(&frequencies, All)?, All)?, frequencies);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn fftshift<'a, T: Element + 'a, const RANK: usize, D: Device + 'a, AXES>(
    x: impl IntoView<'a, T, RANK, D>,
    axes: AXES,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: HasAxes<AXES>,
{
    shifted("fftshift", x, axes, |n| n / 2)
}

/// The inverse of [`fftshift`]; both differ for odd sizes.
///
/// # Errors
/// As [`fftshift`].
///
/// # Examples
/// ```
/// use rankform::fft::ifftshift;
/// use rankform::prelude::*;
/// assert_eq!(ifftshift(&Tensor::from([-1, 0, 1]), Last)?.to_vec()?, [0, 1, -1]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn ifftshift<'a, T: Element + 'a, const RANK: usize, D: Device + 'a, AXES>(
    x: impl IntoView<'a, T, RANK, D>,
    axes: AXES,
) -> Result<Tensor<T, RANK, D>>
where
    Dim<RANK>: HasAxes<AXES>,
{
    shifted("ifftshift", x, axes, |n| n.div_ceil(2))
}
