//! Transforms along several axes.
// Imports: `error`, `dim`, `rank`, `device`, `tensor`, `expr`.

use super::transforms::{full, half, inverse_half};
use super::{Fft, FourierElement, FourierReal, Norm};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::rank::{HasAxes, Without};
use crate::tensor::{Tensor, TensorView};
use num_complex::Complex;

/// The last marked axis, and the others, the last one first.
fn last_and_others<const RANK: usize>(
    op: &'static str,
    marked: [bool; RANK],
) -> Result<(usize, impl Iterator<Item = usize>)> {
    let mut axes = (0..RANK).rev().filter(move |&axis| marked[axis]);
    let last = axes.next().ok_or_else(|| Error::Value { op, what: text(format_args!("no axes")) })?;
    Ok((last, axes))
}

/// The whole spectrum along each marked axis, or its inverse.
fn along_all<T: FourierElement, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    marked: [bool; RANK],
    options: Fft,
    is_inverse: bool,
) -> Result<Tensor<Complex<T::Part>, RANK>>
where
    Complex<T::Part>: FourierElement<Part = T::Part>,
{
    let (last, others) = last_and_others(op, marked)?;
    let mut out = full(op, x, last, options, is_inverse)?;
    for axis in others {
        out = full(op, out.view(), axis, options, is_inverse)?;
    }
    Ok(out)
}

/// The half of the spectrum along the last marked axis, and the whole one along the others.
fn half_along_all<T: FourierReal, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    marked: [bool; RANK],
    options: Fft,
) -> Result<Tensor<Complex<T>, RANK>>
where
    Complex<T>: FourierElement<Part = T>,
{
    let (last, others) = last_and_others(op, marked)?;
    let mut out = half(op, x, last, options)?;
    for axis in others {
        out = full(op, out.view(), axis, options, false)?;
    }
    Ok(out)
}

/// The inverse of [`half_along_all`]; the options have the length along the last marked axis.
fn inverse_half_along_all<T: FourierReal, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, Complex<T>, RANK, Cpu>,
    marked: [bool; RANK],
    options: Fft,
) -> Result<Tensor<T, RANK>>
where
    Complex<T>: FourierElement<Part = T>,
{
    let (last, others) = last_and_others(op, marked)?;
    let mut before: Option<Tensor<Complex<T>, RANK>> = None;
    for axis in others {
        let x = before.as_ref().map_or(x, |before| before.view());
        let along = full(op, x, axis, Fft::new().norm(options.norm), true)?;
        before = Some(along);
    }
    inverse_half(op, before.as_ref().map_or(x, |before| before.view()), last, options)
}

/// The axes that a type names.
fn marked<AXES, const RANK: usize>(op: &'static str, axes: AXES, size: Dim<RANK>) -> Result<[bool; RANK]>
where
    Dim<RANK>: HasAxes<AXES>,
{
    let mut marked = [false; RANK];
    match <Dim<RANK> as HasAxes<AXES>>::mark(axes, &mut marked) {
        None => Ok(marked),
        Some(axis) => Err(Error::Axis { op, axis, sizes: size.0.into() }),
    }
}

/// Transforms along several axes: those of a set, or the last two.
macro_rules! transforms {
    ($(
        $(#[$doc:meta])*
        fn $name:ident<$t:ident: $class:ident>(
            $from:ty, $option:ident: $options:ty $(, along $axes:ident: $set:ident)?
        ) -> $to:ty, $part:ty where $bound:path
            = |$x:ident, $marked:ident| $run:expr;
    )*) => { $(
        $(#[$doc])*
        pub fn $name<'a, $t: $class + 'a, const RANK: usize $(, $set)?>(
            x: impl IntoView<'a, $from, RANK, Cpu>,
            $($axes: $set,)?
            $option: $options,
        ) -> Result<Tensor<$to, RANK>>
        where
            Dim<RANK>: $bound,
            Complex<$part>: FourierElement<Part = $part>,
        {
            let $x = x.into_view();
            let $marked = transforms!(@marked $name, $x $(, $axes)?);
            $run
        }
    )* };
    (@marked $name:ident, $x:ident, $axes:ident) => { marked(stringify!($name), $axes, $x.size())? };
    (@marked $name:ident, $x:ident) => { std::array::from_fn(|axis| axis + 2 >= RANK) };
}

transforms! {
    /// The transform along several axes: `All`, `Last`, or a tuple of axes.
    ///
    /// # Shapes
    /// Those of `x`. Other lengths are made before, by [`pad`](crate::ops::Arrange::pad) or slices.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis of size 0, and without axes; [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, fftn, ifftn};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 8.0]]]);
    /// let spectrum = fftn(&x, (Axis::<1>, Axis::<2>), Norm::Backward)?;
    /// assert_eq!(spectrum.re()?.to_vec()?, [10.0, -2.0, -4.0, 0.0, 8.0, -8.0, -8.0, 8.0]);
    /// let back = ifftn(&fftn(&x, All, Norm::Ortho)?, All, Norm::Ortho)?;
    /// assert!(back.re()?.allclose(&x, 0.0, 1e-14, false)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn fftn<T: FourierElement>(T, norm: Norm, along axes: AXES) -> Complex<T::Part>, T::Part where HasAxes<AXES>
        = |x, marked| along_all("fftn", x, marked, Fft::new().norm(norm), false);

    /// The inverse of [`fftn`].
    ///
    /// # Shapes
    /// Those of `x`.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, ifftn};
    /// use rankform::prelude::*;
    /// let x = ifftn(&Tensor::from([[4.0, 0.0], [0.0, 0.0]]), All, Norm::Backward)?;
    /// assert_eq!(x.re()?, Tensor::from([[1.0, 1.0], [1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn ifftn<T: FourierElement>(T, norm: Norm, along axes: AXES) -> Complex<T::Part>, T::Part where HasAxes<AXES>
        = |x, marked| along_all("ifftn", x, marked, Fft::new().norm(norm), true);

    /// The transform of real numbers along several axes: `All`, `Last`, or a tuple of axes. The last of these
    /// axes has the frequencies from 0 to the highest, the others have all.
    ///
    /// # Shapes
    /// The last of the axes has size `n/2 + 1` for size `n` of `x`, the others keep their sizes.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, rfftn};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 8.0]]);
    /// let spectrum = rfftn(&x, All, Norm::Backward)?;
    /// assert_eq!(spectrum.re()?, Tensor::from([[18.0, -2.0, -10.0], [2.0, -2.0, 6.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rfftn<T: FourierReal>(T, norm: Norm, along axes: AXES) -> Complex<T>, T where HasAxes<AXES>
        = |x, marked| half_along_all("rfftn", x, marked, Fft::new().norm(norm));

    /// The inverse of [`rfftn`].
    ///
    /// # Shapes
    /// The last of the axes has the length of the options, by default `2 · (m − 1)` for size `m` of `x`: an
    /// odd length is given by [`Fft::length`]. The others keep their sizes.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, Norm, irfftn, rfftn};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]);
    /// let spectrum = rfftn(&x, All, Norm::Backward)?;
    /// // Within a few ε of the norm, which is 10.
    /// assert!(irfftn(&spectrum, All, Fft::new().length(3))?.allclose(&x, 0.0, 1e-14, false)?);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn irfftn<T: FourierReal>(Complex<T>, options: Fft, along axes: AXES) -> T, T where HasAxes<AXES>
        = |x, marked| inverse_half_along_all("irfftn", x, marked, options);

    /// The transform along the last two axes: of each image, of a tensor of rank 2 to 8.
    ///
    /// # Shapes
    /// Those of `x`.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, fft2};
    /// use rankform::prelude::*;
    /// let spectrum = fft2(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Norm::Backward)?;
    /// assert_eq!(spectrum.re()?.to_vec()?, [10.0, -2.0, -4.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn fft2<T: FourierElement>(T, norm: Norm) -> Complex<T::Part>, T::Part where Without<2>
        = |x, marked| along_all("fft2", x, marked, Fft::new().norm(norm), false);

    /// The inverse of [`fft2`].
    ///
    /// # Shapes
    /// Those of `x`.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, ifft2};
    /// use rankform::prelude::*;
    /// let x = ifft2(&Tensor::from([[10.0, -2.0], [-4.0, 0.0]]), Norm::Backward)?;
    /// assert_eq!(x.re()?, Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn ifft2<T: FourierElement>(T, norm: Norm) -> Complex<T::Part>, T::Part where Without<2>
        = |x, marked| along_all("ifft2", x, marked, Fft::new().norm(norm), true);

    /// The transform of real numbers along the last two axes, with the frequencies from 0 to the highest
    /// along the last one: of each image, of a tensor of rank 2 to 8.
    ///
    /// # Shapes
    /// The last axis has size `n/2 + 1` for size `n` of `x`, the others keep their sizes.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Norm, rfft2};
    /// use rankform::prelude::*;
    /// let spectrum = rfft2(&Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Norm::Backward)?;
    /// assert_eq!(spectrum.re()?.to_vec()?, [10.0, -2.0, -4.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rfft2<T: FourierReal>(T, norm: Norm) -> Complex<T>, T where Without<2>
        = |x, marked| half_along_all("rfft2", x, marked, Fft::new().norm(norm));

    /// The inverse of [`rfft2`].
    ///
    /// # Shapes
    /// The last axis has the length of the options, by default `2 · (m − 1)` for size `m` of `x`. The others
    /// keep their sizes.
    ///
    /// # Errors
    /// As [`fftn`].
    ///
    /// # Examples
    /// ```
    /// use rankform::fft::{Fft, Norm, irfft2, rfft2};
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(irfft2(&rfft2(&x, Norm::Backward)?, Fft::new())?, x);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn irfft2<T: FourierReal>(Complex<T>, options: Fft) -> T, T where Without<2>
        = |x, marked| inverse_half_along_all("irfft2", x, marked, options);
}
