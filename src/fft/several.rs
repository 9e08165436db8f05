//! Transforms along several axes.
// Imports: `error`, `dim`, `rank`, `device`, `tensor`, `expr`.

use super::transforms::full;
use super::{Fft, FourierElement, Norm};
use crate::device::Cpu;
use crate::dim::Dim;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::rank::HasAxes;
use crate::tensor::{Tensor, TensorView};
use num_complex::Complex;

/// Transforms along each marked axis, the last one first.
fn along_all<T: FourierElement, const RANK: usize>(
    op: &'static str,
    x: TensorView<'_, T, RANK, Cpu>,
    marked: [bool; RANK],
    norm: Norm,
    is_inverse: bool,
) -> Result<Tensor<Complex<T::Part>, RANK>>
where
    Complex<T::Part>: FourierElement<Part = T::Part>,
{
    let mut axes = (0..RANK).rev().filter(|&axis| marked[axis]);
    let (options, none) =
        (Fft::new().norm(norm), || Error::Value { op, what: text(format_args!("no axes")) });
    let first = axes.next().ok_or_else(none)?;
    let mut out = full(op, x, first, options, is_inverse)?;
    for axis in axes {
        out = full(op, out.view(), axis, options, is_inverse)?;
    }
    Ok(out)
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

/// Transforms along several axes.
macro_rules! transforms {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($is_inverse:literal);
    )*) => { $(
        $(#[$doc])*
        pub fn $name<'a, T: FourierElement + 'a, const RANK: usize, AXES>(
            x: impl IntoView<'a, T, RANK, Cpu>,
            axes: AXES,
            norm: Norm,
        ) -> Result<Tensor<Complex<T::Part>, RANK>>
        where
            Dim<RANK>: HasAxes<AXES>,
            Complex<T::Part>: FourierElement<Part = T::Part>,
        {
            let (op, x) = (stringify!($name), x.into_view());
            let marked = marked(op, axes, x.size())?;
            along_all(op, x, marked, norm, $is_inverse)
        }
    )* };
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
    fn fftn(false);

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
    fn ifftn(true);
}

/// Transforms along the last two axes.
macro_rules! of_two_axes {
    ($($(#[$doc:meta])* fn $name:ident($is_inverse:literal);)*) => { $(
        $(#[$doc])*
        pub fn $name<'a, T: FourierElement + 'a, const RANK: usize>(
            x: impl IntoView<'a, T, RANK, Cpu>,
            norm: Norm,
        ) -> Result<Tensor<Complex<T::Part>, RANK>>
        where
            Dim<RANK>: crate::rank::Without<2>,
            Complex<T::Part>: FourierElement<Part = T::Part>,
        {
            let marked = std::array::from_fn(|axis| axis + 2 >= RANK);
            along_all(stringify!($name), x.into_view(), marked, norm, $is_inverse)
        }
    )* };
}

of_two_axes! {
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
    fn fft2(false);

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
    fn ifft2(true);
}
