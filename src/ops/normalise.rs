//! Normalisations along axes: softmax, log-softmax, layer norm.
//!
//! Each is one expression and one pass over memory: what is constant along a row is found while the row is in the cache.
//! Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`.

use super::{Arithmetic as _, Math as _, Reductions as _};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::Float;
use crate::error::Result;
use crate::rank::RemoveAxes;
use crate::tensor::{Tensor, TensorView};

impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// `e^(x − max) / Σ e^(x − max)` along axes: one (`Axis::<1>`), several together, or `All`.
    ///
    /// A row of −∞ alone gives NaN, and so does a row with +∞ or NaN.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn softmax<AXES: Copy, const M: usize>(self, axes: AXES) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let powers = (self.lazy() - self.max_along(axes)).exp().once();
        // One division a row: a product costs a tenth of a quotient.
        (powers * powers.sum_along(axes).recip()).eval()
    }

    /// `x − max − ln Σ e^(x − max)` along axes: one (`Axis::<1>`), several together, or `All`: the logarithm of [`softmax`](TensorView::softmax), exact where that
    /// would be 0.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn log_softmax<AXES: Copy, const M: usize>(self, axes: AXES) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let shifted = self.lazy() - self.max_along(axes);
        (shifted - shifted.exp().sum_along(axes).ln()).eval()
    }

    /// `(x − mean) / √(var + epsilon)` along axes: one (`Axis::<1>`), several together, or `All`, the variance from the centred values.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn layer_norm<AXES: Copy, const M: usize>(self, axes: AXES, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let centred = self.lazy() - self.mean_along(axes);
        (centred * (centred.square().mean_along(axes) + epsilon).rsqrt()).eval()
    }
}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// `e^(x − max) / Σ e^(x − max)` along axes: one (`Axis::<1>`), several together, or `All`; see [`TensorView::softmax`].
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let scores = Tensor::from([[1000.0, 1000.0], [0.0, f64::ln(3.0)]]);
    /// let p = scores.softmax(Axis::<1>)?;
    /// assert_eq!(p.slice((0, ..))?.to_vec()?, [0.5, 0.5]);
    /// assert!((p[[1, 1]] - 0.75).abs() < 1e-15);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn softmax<AXES: Copy, const M: usize>(&self, axes: AXES) -> Result<Self>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        self.view().softmax(axes)
    }

    /// The logarithm of [`softmax`](Tensor::softmax), exact where that would be 0.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn log_softmax<AXES: Copy, const M: usize>(&self, axes: AXES) -> Result<Self>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        self.view().log_softmax(axes)
    }

    /// `(x − mean) / √(var + epsilon)` along axes: one (`Axis::<1>`), several together, or `All`; a weight and a bias are one more expression:
    /// `x.layer_norm(Axis::<1>, 1e-5)? * weight.lift() + bias.lift()`.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn layer_norm<AXES: Copy, const M: usize>(&self, axes: AXES, epsilon: T) -> Result<Self>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        self.view().layer_norm(axes, epsilon)
    }
}
