//! The length of a transform and its normalization.
// Imports: nothing.

/// The factor of a transform, and of its inverse, of length `n`: their product is always `1/n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norm {
    /// 1, and `1/n` of the inverse.
    #[default]
    Backward,
    /// `1/√n` of both: the transform keeps the 2-norm.
    Ortho,
    /// `1/n`, and 1 of the inverse.
    Forward,
}

impl Norm {
    /// The factor of a transform of length `n`.
    pub(super) fn factor(self, n: usize, is_inverse: bool) -> f64 {
        match (self, is_inverse) {
            (Norm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (Norm::Backward, true) | (Norm::Forward, false) => 1.0 / n as f64,
            (Norm::Backward, false) | (Norm::Forward, true) => 1.0,
        }
    }
}

/// Options of a transform along one axis.
///
/// # Examples
/// ```
/// use rankform::fft::{Fft, Norm, fft};
/// use rankform::prelude::*;
/// let x = Tensor::from([1.0, 1.0]);
/// let spectrum = fft(&x, Axis::<0>, Fft::new().length(4).norm(Norm::Forward))?; // of 1, 1, 0, 0
/// assert_eq!(spectrum.re()?.to_vec()?, [0.5, 0.25, 0.0, 0.25]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fft {
    pub(super) length: Option<usize>,
    pub(super) norm: Norm,
}

impl Fft {
    /// The length of the axis, and [`Norm::Backward`].
    pub fn new() -> Self {
        Fft::default()
    }

    /// The length of the transform, of `irfft` that of its result: a longer line is cut, a shorter one is
    /// followed by zeros.
    #[must_use]
    pub fn length(mut self, n: usize) -> Self {
        self.length = Some(n);
        self
    }

    /// The factor.
    #[must_use]
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }
}
