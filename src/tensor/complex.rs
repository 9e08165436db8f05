//! Views of complex numbers as pairs of reals, and of pairs as complex numbers, in the same memory.
// Imports: `error`, `dim`, `layout`, `rank`, `element`, `device`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::dim::{Dim, Stride};
use crate::element::Float;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::rank::{Rank, RankMinusOne};
use num_complex::Complex;

/// The layout of the parts of complex numbers: a new last axis of two.
fn parts<P, const RANK: usize, const N: usize>(op: &'static str, layout: &Layout<RANK>) -> Result<Layout<N>> {
    let size = Dim(std::array::from_fn(|axis| if axis < RANK { layout.size().0[axis] } else { 2 }));
    size.numel_of(op, size_of::<P>())?;
    let mut fits = true;
    let mut twice = |step: isize| {
        fits &= step.checked_mul(2).is_some();
        step.wrapping_mul(2)
    };
    let stride = std::array::from_fn(|axis| if axis < RANK { twice(layout.stride().0[axis]) } else { 1 });
    // An offset is at most `isize::MAX`.
    let offset = twice(layout.offset() as isize) as usize;
    if !fits {
        return Err(Error::Overflow { op, sizes: size.0.into(), element: size_of::<P>() });
    }
    Layout::new(size, Stride(stride), offset).map_err(|error| error.with_op(op))
}

/// The layout of complex numbers whose parts are contiguous along the last axis.
fn pairs<const RANK: usize, const M: usize>(op: &'static str, layout: &Layout<RANK>) -> Result<Layout<M>> {
    let (size, stride) = (layout.size().0, layout.stride().0);
    let wrong = |what: std::fmt::Arguments<'_>| Error::Value { op, what: text(what) };
    if size[RANK - 1] != 2 {
        return Err(wrong(format_args!(
            "the last axis of sizes {} has not the size 2, of a real and an imaginary part",
            layout.size()
        )));
    }
    // The stride of an axis with one index does not matter.
    let odd_stride = |axis: usize| size[axis] > 1 && stride[axis] % 2 != 0;
    if stride[RANK - 1] != 1 || !layout.offset().is_multiple_of(2) || (0..RANK - 1).any(odd_stride) {
        let what = format_args!(
            "strides {:?} and offset {}: parts do not stand side by side, in whole pairs",
            stride,
            layout.offset()
        );
        return Err(wrong(what));
    }
    let size = Dim(std::array::from_fn(|axis| size[axis]));
    Layout::new(size, Stride(std::array::from_fn(|axis| stride[axis] / 2)), layout.offset() / 2)
        .map_err(|error| error.with_op(op))
}

macro_rules! views {
    ($($view:ident: $as_real:literal, $as_complex:literal;)*) => { $(
        impl<'a, P: Float, const RANK: usize, D: Device> $view<'a, Complex<P>, RANK, D> {
            #[doc = $as_real]
            pub fn view_as_real<const N: usize>(self) -> Result<$view<'a, P, N, D>>
            where
                Dim<RANK>: Rank<Next = Dim<N>>,
            {
                let layout = parts::<P, RANK, N>("view_as_real", self.layout())?;
                // SAFETY: a complex number is two parts, the real one first: twice its position, and the next
                // one, are its parts.
                Ok(unsafe { self.retyped(layout) })
            }
        }
        impl<'a, P: Float, const RANK: usize, D: Device> $view<'a, P, RANK, D> {
            #[doc = $as_complex]
            pub fn view_as_complex<const M: usize>(self) -> Result<$view<'a, Complex<P>, M, D>>
            where
                Dim<RANK>: RankMinusOne<Output = Dim<M>>,
            {
                let layout = pairs::<RANK, M>("view_as_complex", self.layout())?;
                // SAFETY: two contiguous parts are a complex number of the same alignment; each pair lies in
                // the view.
                Ok(unsafe { self.retyped(layout) })
            }
        }
    )* };
}
views! {
    TensorView:
        "See [`Tensor::view_as_real`].\n\n# Errors\nAs there.",
        "See [`Tensor::view_as_complex`].\n\n# Errors\nAs there.";
    TensorViewMut:
        "As [`Tensor::view_as_real`], to be written.\n\n# Errors\nAs there.",
        "As [`Tensor::view_as_complex`], to be written.\n\n# Errors\nAs there.";
}

impl<P: Float, const RANK: usize, D: Device> Tensor<Complex<P>, RANK, D> {
    /// The same memory as real numbers: a new last axis holds the real and the imaginary part. No copy.
    ///
    /// # Errors
    /// [`Error::Overflow`] when a broadcast tensor has too many parts to count.
    ///
    /// # Examples
    /// ```
    /// use num_complex::Complex;
    /// use rankform::prelude::*;
    /// let mut z = Tensor::from([Complex::new(1.0, 2.0), Complex::new(3.0, 4.0)]);
    /// assert_eq!(z.view_as_real()?.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
    /// z.view_mut()?.view_as_real()?.slice((.., 1))?.fill(0.0)?; // the imaginary parts, where they stand
    /// assert_eq!(z.to_vec()?, [Complex::new(1.0, 0.0), Complex::new(3.0, 0.0)]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn view_as_real<const N: usize>(&self) -> Result<TensorView<'_, P, N, D>>
    where
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        self.view().view_as_real()
    }
}

impl<P: Float, const RANK: usize, D: Device> Tensor<P, RANK, D> {
    /// The same memory as complex numbers, whose parts are the last axis. No copy.
    ///
    /// # Errors
    /// [`Error::Value`] unless the last axis has size 2 and stride 1, and the other strides and the offset
    /// are even.
    ///
    /// # Examples
    /// ```
    /// use num_complex::Complex;
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.view_as_complex()?.to_vec()?, [Complex::new(1.0, 2.0), Complex::new(3.0, 4.0)]);
    /// assert!(x.transposed().view_as_complex().is_err());
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn view_as_complex<const M: usize>(&self) -> Result<TensorView<'_, Complex<P>, M, D>>
    where
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        self.view().view_as_complex()
    }
}
