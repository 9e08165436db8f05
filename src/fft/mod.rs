//! Fourier transforms on the CPU, by the crates rustfft and realfft; frequencies and windows.
//!
//! ```
//! use rankform::fft::{self, Fft};
//! use rankform::prelude::*;
//! let x = Tensor::from([1.0, 0.0, -1.0, 0.0]);
//! let spectrum = fft::rfft(&x, Axis::<0>, Fft::new())?; // Tensor<Complex<f64>, 1> of size [3]
//! assert_eq!(spectrum.re()?.to_vec()?, [0.0, 2.0, 0.0]);
//! assert_eq!(fft::irfft(&spectrum, Axis::<0>, Fft::new())?, x);
//! # Ok::<(), rankform::Error>(())
//! ```
//!
//! | functions | |
//! |---|---|
//! | [`fft`] [`ifft`] [`fft_axis`] [`ifft_axis`] | along one axis, of real or complex numbers |
//! | [`rfft`] [`irfft`] [`rfft_axis`] [`irfft_axis`] | the half of the spectrum that real numbers need |
//! | [`fft2`] [`ifft2`] [`fftn`] [`ifftn`] | along several axes |
//! | [`rfft2`] [`irfft2`] [`rfftn`] [`irfftn`] | along several axes, of real numbers |
//! | [`fftfreq`] [`rfftfreq`] [`fftshift`] [`ifftshift`] | the frequencies of a spectrum, and their order |
//! | [`stft`] [`istft`] | spectra of parts of a line, and the line from them |
//! | [`convolve`] | convolutions by sums or by spectra |
//! | [`hann`] [`hamming`] [`blackman`] | windows |
//!
//! # Operands
//!
//! Tensors and views of rank 1 to 8 on the CPU, of elements `f32`, `f64`, `Complex<f32>` and `Complex<f64>`;
//! any strides, any length. A tensor on another device is copied by [`to`](crate::Tensor::to) first.
//! Transforms are not recorded on tapes: a tensor on a tape does not compile as an operand.
//!
//! # Values
//!
//! `X[k] = Σ x[j] · exp(−2πi · jk/n)` with the factor of [`Norm`]; the inverse has `+` in the exponent. The
//! relative error of a spectrum, in the 2-norm, is a few ε · log₂ n. A NaN makes its line NaN.
//!
//! # Cost
//!
//! O(n log n) for each line, also of prime lengths. Results are new row-major tensors. Lines are shared among
//! threads; one line is the work of one thread. Along another axis than the last one the operand and the
//! result are copied once more. The plans of the lengths that were used last are kept.
// Imports: nothing.

mod convolution;
mod element;
mod frequencies;
mod lines;
mod options;
mod plans;
mod several;
mod short_time;
mod transforms;
mod windows;

pub use convolution::{ConvolutionElement, Extent, convolve};
pub use element::{FourierElement, FourierReal};
pub use frequencies::{fftfreq, fftshift, ifftshift, rfftfreq};
pub use options::{Fft, Norm};
pub use several::{fft2, fftn, ifft2, ifftn, irfft2, irfftn, rfft2, rfftn};
pub use short_time::{Edges, Stft, istft, stft};
pub use transforms::{fft, fft_axis, ifft, ifft_axis, irfft, irfft_axis, rfft, rfft_axis};
pub use windows::{Sampling, blackman, hamming, hann};
