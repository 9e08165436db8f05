//! Windows: weights of the samples of a line before its transform.
// Imports: `error`, `element`, `device`, `tensor`.

use crate::device::Cpu;
use crate::element::Float;
use crate::error::Result;
use crate::tensor::Tensor;

/// The period of a window of `n` samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// `n`: one period of a periodic window, for spectra.
    Periodic,
    /// `n − 1`: the last sample equals the first, for filters.
    Symmetric,
}

/// `Σ (−1)^j · a[j] · cos(2π·j·k / period)`.
fn cosines<T: Float>(n: usize, sampling: Sampling, a: &[f64]) -> Result<Tensor<T, 1>> {
    let period = if sampling == Sampling::Periodic { n } else { n.saturating_sub(1) };
    let sample = |k: usize| {
        // Both halves have the same bits: the second one is the first one in reverse.
        let k = if 2 * k > period { period - k } else { k };
        let angle = std::f64::consts::TAU * k as f64 / period as f64;
        let terms = a.iter().enumerate().map(|(j, &a)| match j % 2 {
            0 => a * (j as f64 * angle).cos(),
            _ => -a * (j as f64 * angle).cos(),
        });
        terms.sum::<f64>()
    };
    Tensor::from_fn([n], |[k]| T::constant(if n == 1 { 1.0 } else { sample(k) }), &Cpu)
}

/// Hann's window, `0.5 − 0.5 · cos(2πk / period)`. A window of one sample is 1.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::fft::{Sampling, hann};
/// use rankform::prelude::*;
/// let expected = Tensor::from([0.0, 0.5, 1.0, 0.5]);
/// assert!(hann::<f64>(4, Sampling::Periodic)?.allclose(&expected, 0.0, 1e-15, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn hann<T: Float>(n: usize, sampling: Sampling) -> Result<Tensor<T, 1>> {
    cosines(n, sampling, &[0.5, 0.5])
}

/// Hamming's window, `0.54 − 0.46 · cos(2πk / period)`. A window of one sample is 1.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::fft::{Sampling, hamming};
/// use rankform::prelude::*;
/// let expected = Tensor::from([0.08, 0.54, 1.0, 0.54, 0.08]);
/// assert!(hamming::<f64>(5, Sampling::Symmetric)?.allclose(&expected, 0.0, 1e-15, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn hamming<T: Float>(n: usize, sampling: Sampling) -> Result<Tensor<T, 1>> {
    cosines(n, sampling, &[0.54, 0.46])
}

/// Blackman's window, `0.42 − 0.5 · cos(2πk / period) + 0.08 · cos(4πk / period)`. A window of one sample
/// is 1.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
/// ```
/// use rankform::fft::{Sampling, blackman};
/// use rankform::prelude::*;
/// let expected = Tensor::from([0.0, 0.34, 1.0, 0.34]);
/// assert!(blackman::<f64>(4, Sampling::Periodic)?.allclose(&expected, 0.0, 1e-15, false)?);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn blackman<T: Float>(n: usize, sampling: Sampling) -> Result<Tensor<T, 1>> {
    cosines(n, sampling, &[0.42, 0.5, 0.08])
}
