//! Elements of transforms, the plans of their lengths, and the transforms of lines that are compiled for each
//! of them.
// Imports: `error`, `element`.

use super::lines::{self, Lines, Request, Rows};
use crate::element::{Element, Float};
use crate::error::Result;
use num_complex::Complex;
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use std::sync::{Arc, Mutex, PoisonError};

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

/// The plans of one kind that were used last, the latest first.
struct Recent<P: ?Sized>(Mutex<Vec<(usize, Arc<P>)>>);

/// The number of plans that are kept of one kind and element.
const MAX_PLANS: usize = 64;

impl<P: ?Sized> Recent<P> {
    const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    /// The plan of a length; `make` makes it, if it is not kept.
    fn of(&self, n: usize, make: impl FnOnce(usize) -> Arc<P>) -> Arc<P> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut plans = lock();
            let found = plans.iter().position(|(length, _)| *length == n);
            found.map(|place| {
                plans[..=place].rotate_right(1);
                plans[0].1.clone()
            })
        };
        found.unwrap_or_else(|| {
            let made = make(n);
            let mut plans = lock();
            plans.truncate(MAX_PLANS - 1);
            // Without memory for the list the plan is used once.
            if plans.try_reserve(1).is_ok() {
                plans.insert(0, (n, made.clone()));
            }
            made
        })
    }
}

/// The plans of one element.
struct Kept<R> {
    forward: Recent<dyn Fft<R>>,
    inverse: Recent<dyn Fft<R>>,
    half: Recent<dyn RealToComplex<R>>,
    inverse_half: Recent<dyn ComplexToReal<R>>,
}

impl<R: FftNum> Kept<R> {
    const fn new() -> Self {
        Kept {
            forward: Recent::new(),
            inverse: Recent::new(),
            half: Recent::new(),
            inverse_half: Recent::new(),
        }
    }

    fn full(&self, request: Request) -> Arc<dyn Fft<R>> {
        match request.is_inverse {
            false => self.forward.of(request.n, |n| FftPlanner::new().plan_fft_forward(n)),
            true => self.inverse.of(request.n, |n| FftPlanner::new().plan_fft_inverse(n)),
        }
    }

    fn half(&self, request: Request) -> Arc<dyn RealToComplex<R>> {
        self.half.of(request.n, |n| RealFftPlanner::new().plan_fft_forward(n))
    }

    fn inverse_half(&self, request: Request) -> Arc<dyn ComplexToReal<R>> {
        self.inverse_half.of(request.n, |n| RealFftPlanner::new().plan_fft_inverse(n))
    }
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
    ($($part:ident $kept:ident;)*) => { $(
        static $kept: Kept<$part> = Kept::new();

        impl Kernels for $part {
            fn full(lines: &Lines<'_, $part>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                lines::full(lines, out, to, &*$kept.full(to), |x| Complex::new(x, 0.0))
            }
            fn full_complex(
                lines: &Lines<'_, Complex<$part>>,
                out: Rows<'_, Complex<$part>>,
                to: Request,
            ) -> Result<()> {
                lines::full(lines, out, to, &*$kept.full(to), |x| x)
            }
            fn half(lines: &Lines<'_, $part>, out: Rows<'_, Complex<$part>>, to: Request) -> Result<()> {
                lines::half(lines, out, to, &*$kept.half(to))
            }
            fn inverse_half(
                lines: &Lines<'_, Complex<$part>>,
                out: Rows<'_, $part>,
                to: Request,
            ) -> Result<()> {
                lines::inverse_half(lines, out, to, &*$kept.inverse_half(to))
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
