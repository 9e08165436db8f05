//! Transforms along one axis.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `expr`.

use super::lines::{Lines, Request, Rows};
use super::{Fft, FourierElement, FourierReal};
use crate::device::Cpu;
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::rank::RemoveAxis;
use crate::tensor::{Tensor, TensorView};
use num_complex::Complex;

/// The length of a transform of lines of length `along`.
fn length<const RANK: usize>(
    op: &'static str,
    size: Dim<RANK>,
    axis: usize,
    length: Option<usize>,
    default: impl Fn(usize) -> usize,
) -> Result<usize> {
    let along = *size.0.get(axis).ok_or(Error::Axis { op, axis, sizes: size.0.into() })?;
    match length.unwrap_or_else(|| default(along)) {
        0 => {
            let what = text(format_args!("a transform of length 0 along axis {axis} of sizes {size}"));
            Err(Error::Value { op, what })
        }
        n => Ok(n),
    }
}

/// Passes the lines along an existing axis and memory for their results, of length `width`, to `run`.
fn along<T: Element, R: Element, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    axis: usize,
    width: usize,
    run: impl FnOnce(&Lines<'_, T>, Rows<'_, R>) -> Result<()>,
) -> Result<Tensor<R, RANK>> {
    x.ensure_allocated(op)?;
    let last = RANK - 1;
    let moved =
        x.permuted(std::array::from_fn(|a| if a == last { axis } else { a + usize::from(a >= axis) }))?;
    let copy;
    let elements = match moved.as_slice() {
        Some(elements) => elements,
        None => {
            copy = moved.to_contiguous()?;
            copy.as_slice().unwrap_or_default()
        }
    };
    let mut size = moved.size().0;
    let length = std::mem::replace(&mut size[last], width);
    let count = size[..last].iter().product();
    Dim(size).numel_of(op, size_of::<R>())?;
    let mut out = Tensor::uninit(op, Layout::row_major(Dim([count, width])), &Cpu)?;
    run(&Lines { elements, length }, out.view_mut()?)?;
    let out = out.into_shape(size)?;
    if axis == last {
        return Ok(out);
    }
    let back = std::array::from_fn(|a| if a == axis { last } else { a - usize::from(a > axis) });
    out.permuted(back)?.to_contiguous()
}

/// The whole spectrum along an axis, or its inverse.
pub(super) fn full<T: FourierElement, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    axis: usize,
    options: Fft,
    is_inverse: bool,
) -> Result<Tensor<Complex<T::Part>, RANK>>
where
    Complex<T::Part>: Element,
{
    let n = length(op, x.size(), axis, options.length, |along| along)?;
    let plan = Request { op, n, is_inverse, factor: options.norm.factor(n, is_inverse) };
    along(op, x, axis, n, |lines, out| T::full(lines, out, plan))
}

/// The half of the spectrum of real numbers along an axis.
pub(super) fn half<T: FourierReal, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    axis: usize,
    options: Fft,
) -> Result<Tensor<Complex<T>, RANK>>
where
    Complex<T>: Element,
{
    let n = length(op, x.size(), axis, options.length, |along| along)?;
    let plan = Request { op, n, is_inverse: false, factor: options.norm.factor(n, false) };
    along(op, x, axis, n / 2 + 1, |lines, out| T::half(lines, out, plan))
}

/// The real numbers of the half of a spectrum along an axis.
pub(super) fn inverse_half<T: FourierReal, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, Complex<T>, RANK, Cpu>,
    axis: usize,
    options: Fft,
) -> Result<Tensor<T, RANK>>
where
    Complex<T>: Element,
{
    let n = length(op, x.size(), axis, options.length, |along| 2 * along.saturating_sub(1))?;
    let plan = Request { op, n, is_inverse: true, factor: options.norm.factor(n, true) };
    along(op, x, axis, n, |lines, out| T::inverse_half(lines, out, plan))
}

/// Transforms along one axis, each for an axis in the type and an axis known at run time.
macro_rules! transforms {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $name_axis:ident<$t:ident: $class:ident>($from:ty) -> $to:ty, $part:ty
            = |$x:ident, $axis:ident, $options:ident| $run:expr;
    )*) => { $(
        $(#[$doc])*
        pub fn $name<'a, $t: $class + 'a, const RANK: usize, const A: usize>(
            x: impl IntoView<'a, $from, RANK, Cpu>,
            axis: Axis<A>,
            options: Fft,
        ) -> Result<Tensor<$to, RANK>>
        where
            Dim<RANK>: RemoveAxis<A>,
            Complex<$part>: Element,
        {
            let (_, $x, $axis, $options) = (axis, x.into_view(), A, options);
            $run
        }

        #[doc = concat!("As [`", stringify!($name), "`], along an axis known at run time.")]
        ///
        /// # Errors
        /// Also [`Error::Axis`].
        pub fn $name_axis<'a, $t: $class + 'a, const RANK: usize>(
            x: impl IntoView<'a, $from, RANK, Cpu>,
            axis: usize,
            options: Fft,
        ) -> Result<Tensor<$to, RANK>>
        where
            Complex<$part>: Element,
        {
            let ($x, $axis, $options) = (x.into_view(), axis, options);
            $run
        }
    )* };
}

transforms! {
    /// The transform of each line along axis `A`, of real or complex numbers.
    ///
    /// # Shapes
    /// The axis has the length of the transform, the others keep their sizes.
    ///
    /// # Errors
    /// [`Error::Value`] for a transform of length 0; [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, fft};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 1.0], [2.0, -2.0]]);
    /// assert_eq!(fft(&x, Axis::<1>, Fft::new())?.re()?.to_vec()?, [2.0, 0.0, 0.0, 4.0]);
    /// assert_eq!(fft(&x, Axis::<0>, Fft::new())?.re()?.to_vec()?, [3.0, -1.0, -1.0, 3.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn fft, fft_axis<T: FourierElement>(T) -> Complex<T::Part>, T::Part
        = |x, axis, options| full("fft", x, axis, options, false);

    /// The inverse of [`fft`].
    ///
    /// # Shapes
    /// The axis has the length of the transform, the others keep their sizes.
    ///
    /// # Errors
    /// As [`fft`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, fft, ifft};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0, 3.0, 5.0]);
    /// let back = ifft(&fft(&x, Axis::<0>, Fft::new())?, Axis::<0>, Fft::new())?;
    /// assert!(back.re()?.allclose(&x, 1e-15, 1e-15, false)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn ifft, ifft_axis<T: FourierElement>(T) -> Complex<T::Part>, T::Part
        = |x, axis, options| full("ifft", x, axis, options, true);

    /// The transform of each real line along axis `A`, at the frequencies from 0 to the highest; the others
    /// are conjugates of these.
    ///
    /// # Shapes
    /// The axis has size `n/2 + 1` for a transform of length `n`, the others keep their sizes.
    ///
    /// # Errors
    /// As [`fft`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, rfft};
    /// use rankform::prelude::*;
    /// let spectrum = rfft(&Tensor::from([1.0, 2.0, 3.0, 4.0]), Axis::<0>, Fft::new())?;
    /// assert_eq!(spectrum.re()?.to_vec()?, [10.0, -2.0, -2.0]);
    /// assert_eq!(spectrum.im()?.to_vec()?, [0.0, 2.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rfft, rfft_axis<T: FourierReal>(T) -> Complex<T>, T
        = |x, axis, options| half("rfft", x, axis, options);

    /// The inverse of [`rfft`]. The imaginary parts at frequency 0, and at the highest frequency of an even
    /// length, are not read.
    ///
    /// # Shapes
    /// The axis has the length of the transform, by default `2 · (m − 1)` for an axis of size `m`: an odd
    /// length is given by [`Fft::length`]. The others keep their sizes.
    ///
    /// # Errors
    /// As [`fft`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, irfft, rfft};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0, 6.0]);
    /// let spectrum = rfft(&x, Axis::<0>, Fft::new())?;
    /// assert!(irfft(&spectrum, Axis::<0>, Fft::new().length(3))?.allclose(&x, 1e-15, 1e-15, false)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn irfft, irfft_axis<T: FourierReal>(Complex<T>) -> T, T
        = |x, axis, options| inverse_half("irfft", x, axis, options);
}
