//! Convolutions along the last axis, by sums or by spectra.
// Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::transforms::{full, half, inverse_half};
use super::{Fft, FourierElement, FourierReal};
use crate::device::Cpu;
use crate::dim::{Axis, Dim};
use crate::element::{Number, bf16, f16};
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::ops::{Arithmetic as _, Conv};
use crate::rank::Without;
use crate::tensor::{Tensor, TensorView};
use num_complex::Complex;

/// The part of a convolution that is computed. The full one has `n + m − 1` elements, of operands of `n` and
/// `m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// `n` elements from `(m − 1) / 2` on: the middle.
    Same,
    /// The `n − m + 1` elements that are sums of `m` products.
    Valid,
}

impl Extent {
    /// The first element and the number of elements.
    fn span(self, op: &'static str, n: usize, m: usize) -> Result<(usize, usize)> {
        match self {
            _ if n == 0 || m == 0 => {
                let what = text(format_args!("a convolution of {n} and {m} elements"));
                Err(Error::Value { op, what })
            }
            Extent::Full => Ok((0, n + m - 1)),
            Extent::Same => Ok(((m - 1) / 2, n)),
            Extent::Valid if n >= m => Ok((m - 1, n - m + 1)),
            Extent::Valid => {
                let what = text(format_args!("no element of {n} has {m} neighbors: the weights are longer"));
                Err(Error::Value { op, what })
            }
        }
    }
}

/// An element of convolutions: any number. Those of `f32`, `f64`, `Complex<f32>` and `Complex<f64>` may be
/// computed by spectra.
#[diagnostic::on_unimplemented(
    message = "there are no convolutions of `{Self}`",
    label = "needs integers, floats or complex numbers"
)]
pub trait ConvolutionElement: Number {
    /// The convolution by spectra, for elements that have transforms.
    #[doc(hidden)]
    const CYCLIC: Option<Cyclic<Self>> = None;
}

/// The full convolution of lines, cyclic with the given period.
type Cyclic<T> =
    fn(&'static str, TensorView<'_, T, 2, Cpu>, TensorView<'_, T, 2, Cpu>, usize) -> Result<Tensor<T, 2>>;

macro_rules! elements {
    ($($element:ty $(= $cyclic:expr)?;)*) => { $(
        impl ConvolutionElement for $element {
            $(const CYCLIC: Option<Cyclic<Self>> = Some($cyclic);)?
        }
    )* };
}
elements! {
    i8; i16; i32; i64; u8; u16; u32; u64; usize; f16; bf16;
    f32 = real_cyclic;
    f64 = real_cyclic;
    Complex<f32> = complex_cyclic;
    Complex<f64> = complex_cyclic;
}

fn real_cyclic<T: FourierReal>(
    op: &'static str,
    x: TensorView<'_, T, 2, Cpu>,
    y: TensorView<'_, T, 2, Cpu>,
    n: usize,
) -> Result<Tensor<T, 2>>
where
    Complex<T>: Number,
{
    let options = Fft::new().length(n);
    let product = half(op, x, 1, options)?.mul(&half(op, y, 1, options)?)?;
    inverse_half(op, product.view(), 1, options)
}

fn complex_cyclic<T: FourierReal>(
    op: &'static str,
    x: TensorView<'_, Complex<T>, 2, Cpu>,
    y: TensorView<'_, Complex<T>, 2, Cpu>,
    n: usize,
) -> Result<Tensor<Complex<T>, 2>>
where
    Complex<T>: Number + FourierElement<Part = T>,
{
    let options = Fft::new().length(n);
    let product = full(op, x, 1, options, false)?.mul(&full(op, y, 1, options, false)?)?;
    full(op, product.view(), 1, options, true)
}

/// The smallest number from `n` up without a prime factor above 5.
fn fast_length(n: usize) -> usize {
    let mut best = n.next_power_of_two();
    let mut fives = 1;
    while fives < best {
        let mut threes = fives;
        while threes < best {
            let twos = n.div_ceil(threes).next_power_of_two();
            best = best.min(threes * twos);
            threes *= 3;
        }
        fives *= 5;
    }
    best
}

/// The time of one step of a transform divided by that of a product and its sum: an estimate, not measured. A
/// transform of a line has `n · log₂ n` steps.
const STEP: f64 = 1.5;

/// Whether `count` sums of `terms` products take less time than spectra of `n`.
fn is_direct(count: usize, terms: usize, n: usize) -> bool {
    let by_sums = count as f64 * terms as f64;
    by_sums <= 2.0 * STEP * n as f64 * (n as f64).log2().max(1.0)
}

/// The convolution of each line along the last axis with `y`: `z[k] = Σ x[j] · y[k − j]`.
///
/// Floats and complex numbers of 32 and 64 bits for each part are convolved by sums of products or by the
/// product of spectra, whichever takes fewer operations by an estimate from the lengths alone. Other
/// elements, integers among them, are convolved by sums: integers are exact, and wrap.
///
/// # Shapes
/// `[.., n]` with `[m] → [.., n + m − 1]`, `[.., n]` or `[.., n − m + 1]`, by the [`Extent`].
///
/// # Cost
/// By sums, as many products for each element of the result as the shorter operand has elements; by spectra
/// O(p · log p), where `p` is `n + m`. By spectra the error of an element is a few ε of the products' norms,
/// and not of the element; a NaN or an infinity makes its whole line NaN. By sums the longer operand has
/// zeros at both ends, which are multiplied too: a NaN or an infinity of the shorter one makes elements near
/// the ends NaN, where NumPy's sums leave such products out.
///
/// # Errors
/// [`Error::Value`] for operands without elements, and for a valid extent if `y` is longer than `x`;
/// [`Error::Overflow`], [`Error::Unallocated`], [`Error::OutOfMemory`].
///
/// # Examples
/// ```
/// use rankform::fft::{Extent, convolve};
/// use rankform::prelude::*;
/// let (x, y) = (Tensor::from([1, 2, 3]), Tensor::from([0, 1, 5]));
/// assert_eq!(convolve(&x, &y, Extent::Full)?.to_vec()?, [0, 1, 7, 13, 15]);
/// assert_eq!(convolve(&x, &y, Extent::Same)?.to_vec()?, [1, 7, 13]);
/// assert_eq!(convolve(&x, &y, Extent::Valid)?.to_vec()?, [7]);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// NumPy's `convolve`, whose `same` has the length of the longer operand; SciPy's `signal.convolve`.
pub fn convolve<'a, 'b, T: ConvolutionElement + 'a + 'b, const RANK: usize>(
    x: impl IntoView<'a, T, RANK, Cpu>,
    y: impl IntoView<'b, T, 1, Cpu>,
    extent: Extent,
) -> Result<Tensor<T, RANK>>
where
    Dim<RANK>: Without<1>,
{
    let (op, x, y) = ("convolve", x.into_view(), y.into_view());
    x.ensure_allocated(op)?;
    y.ensure_allocated(op)?;
    let mut size = x.size().0;
    let (n, m) = (size[RANK - 1], y.numel());
    let (first, count) = extent.span(op, n, m)?;
    let lines = x.to_shape([size[..RANK - 1].iter().product(), n])?;
    size[RANK - 1] = count;
    // A cyclic convolution of this period is right at the elements from `first` on: those that it adds to
    // others are before.
    let period = fast_length(if extent == Extent::Valid { n } else { n + m - 1 });
    if let Some(cyclic) = T::CYCLIC
        && !is_direct(count, n.min(m), period)
    {
        let whole = cyclic(op, lines.view(), y.insert_axis(Axis::<0>), period)?;
        return whole.slice((.., first..first + count))?.to_shape(size);
    }
    // The shorter operand is the weights: of one line, or those of a channel for each line.
    let (lines, y) = (lines.insert_axis(Axis::<1>), y.to_shape::<3>([1, 1, m])?);
    let sums =
        if m <= n { by_sums(lines, y.view(), first, count) } else { by_sums(y.view(), lines, first, count) };
    sums?.into_shape(size)
}

/// The elements `first..first + count` of the full convolution of `long` with each of `short`, which is not
/// longer.
fn by_sums<T: Number>(
    long: TensorView<'_, T, 3, Cpu>,
    short: TensorView<'_, T, 3, Cpu>,
    first: usize,
    count: usize,
) -> Result<Tensor<T, 3>> {
    let (n, before) = (long.size()[2], short.size()[2] - 1);
    let read = long.slice((.., .., first.saturating_sub(before)..n.min(first + count)))?;
    let zeros = (before.saturating_sub(first), (first + count).saturating_sub(n));
    let weights = short.reversed(Axis::<2>).to_contiguous()?;
    read.conv1d(&weights, Conv::new().padding_ends([zeros.0], [zeros.1]))
}
