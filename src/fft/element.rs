//! Elements of transforms, and the transforms of lines that are compiled for each of them.
// Imports: `error`, `element`.

use super::lines::{self, Lines, Request, Rows};
use super::plans::Plans;
use crate::element::{Element, Float};
use crate::error::Result;
use num_complex::Complex;

/// A real element of transforms: `f32` or `f64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of real transforms",
    label = "needs `f32` or `f64`",
    note = "complex numbers have `fft` and `ifft`; `.cast::<f64>()?` converts other elements"
)]
pub trait FourierReal: Float + FourierElement<Part = Self> + Kernels {}

/// An element of transforms: `f32`, `f64`, `Complex<f32>`, `Complex<f64>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of transforms",
    label = "needs `f32`, `f64`, `Complex<f32>` or `Complex<f64>`",
    note = "`.cast::<f64>()?` converts the elements"
)]
pub trait FourierElement: Element {
    /// The element of its parts.
    type Part: FourierReal;
    /// Transforms lines.
    #[doc(hidden)]
    fn full(lines: &Lines<'_, Self>, out: Rows<'_, Complex<Self::Part>>, request: Request) -> Result<()>;
}

/// Transforms of lines, one instance for each element: they are compiled with this crate, not with each
/// program.
#[doc(hidden)]
pub trait Kernels: Sized {
    /// Of real lines.
    fn full(lines: &Lines<'_, Self>, out: Rows<'_, Complex<Self>>, request: Request) -> Result<()>;
    /// Of complex lines.
    fn full_complex(
        lines: &Lines<'_, Complex<Self>>,
        out: Rows<'_, Complex<Self>>,
        request: Request,
    ) -> Result<()>;
    /// Of real lines, to the first half of the spectrum.
    fn half(lines: &Lines<'_, Self>, out: Rows<'_, Complex<Self>>, request: Request) -> Result<()>;
    /// Of the first halves of spectra, to real lines.
    fn inverse_half(lines: &Lines<'_, Complex<Self>>, out: Rows<'_, Self>, request: Request) -> Result<()>;
}

macro_rules! elements {
    ($($part:ident $plans:ident;)*) => { $(
        static $plans: Plans<$part> = Plans::new();

        impl Kernels for $part {
            fn full(lines: &Lines<'_, $part>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                lines::full(lines, out, to, &*$plans.full(to), |x| Complex::new(x, 0.0))
            }
            fn full_complex(
                lines: &Lines<'_, Complex<$part>>,
                out: Rows<'_, Complex<$part>>,
                to: Request,
            ) -> Result<()> {
                lines::full(lines, out, to, &*$plans.full(to), |x| x)
            }
            fn half(lines: &Lines<'_, $part>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                lines::half(lines, out, to, &*$plans.half(to))
            }
            fn inverse_half(
                lines: &Lines<'_, Complex<$part>>,
                out: Rows<'_, $part>,
                to: Request,
            ) -> Result<()> {
                lines::inverse_half(lines, out, to, &*$plans.inverse_half(to))
            }
        }
        impl FourierReal for $part {}
        impl FourierElement for $part {
            type Part = $part;
            fn full(lines: &Lines<'_, Self>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                <$part as Kernels>::full(lines, out, to)
            }
        }
        impl FourierElement for Complex<$part> {
            type Part = $part;
            fn full(lines: &Lines<'_, Self>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                <$part as Kernels>::full_complex(lines, out, to)
            }
        }
    )* };
}
elements! { f32 F32; f64 F64; }
