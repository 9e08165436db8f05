//! Normalisations along axes: softmax, log-softmax, layer norm, RMS norm, vectors of length 1.
//!
//! Each is one expression and one pass over memory: what is constant along a row is found while the row is in the cache.
//! Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use super::functions::ExpDifferenceFn;
use super::{Arithmetic as _, Math as _, Norm, Reductions as _};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Reduce as _, Stored, Zip as _};
use crate::kernel::Op;
use crate::layout::joint_size;
use crate::rank::RemoveAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Tensor, TensorView};

/// `e^(x − y)` to a unit in the last place, whatever rounding takes off the difference.
#[derive(Clone, Copy, Debug)]
struct ExpDifference;

impl<T: Float> Op<(T, T)> for ExpDifference {
    const NAME: &'static str = "softmax";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        x.call2::<ExpDifferenceFn>(y)
    }
}

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
        let powers = self.lazy().zip(ExpDifference, self.max_along(axes)).once();
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

/// Vectors along axes brought to one length, of tensors and views.
pub trait Lengths<'a, T: 'a, const RANK: usize, D: Device>: Stored<'a, T, RANK, D> + Sized {
    /// `x / √(mean of x² + epsilon)` along axes: one (`Axis::<1>`), several together, or `All`; a weight is one more
    /// expression.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[2.0, -2.0]]).rms_norm(Axis::<1>, 12.0)?, Tensor::from([[0.5, -0.5]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rms_norm<AXES: Copy, const M: usize>(self, axes: AXES, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let x = self.into_view().lazy();
        (x * (x.square().mean_along(axes) + epsilon).rsqrt()).eval()
    }

    /// `x / max(‖x‖, epsilon)`, Euclid's norm along axes: vectors of length 1.
    ///
    /// # Errors
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[3.0, 4.0], [0.0, 0.0]]).normalize(Axis::<1>, 1e-12)?, Tensor::from([[0.6, 0.8], [0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn normalize<AXES: Copy, const M: usize>(self, axes: AXES, epsilon: T) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let x = self.into_view().lazy();
        (x / x.along(Norm, axes).maximum(epsilon)).eval()
    }

    /// The cosine of the angle between vectors along axes: `Σ x · y / (max(‖x‖, epsilon) · max(‖y‖, epsilon))`, in one pass.
    /// Sizes of 1 stretch.
    ///
    /// # Errors
    /// Those of [`Reductions`](super::Reductions).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[3.0, 4.0], [1.0, 0.0]]), Tensor::from([[4.0, -3.0], [7.0, 0.0]]));
    /// assert_eq!(x.cosine_similarity(&y, Axis::<1>, 1e-8)?.to_vec()?, [0.0, 1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cosine_similarity<'b, AXES: Copy, const M: usize>(
        self,
        other: impl Stored<'b, T, RANK, D>,
        axes: AXES,
        epsilon: T,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        let (x, y) = (self.into_view(), other.into_view());
        let size = joint_size("cosine_similarity", x.size(), y.size())?;
        let (x, y) = (x.broadcast_to(size)?.lazy(), y.broadcast_to(size)?.lazy());
        let unit = y / y.along(Norm, axes).maximum(epsilon);
        (x / x.along(Norm, axes).maximum(epsilon) * unit).sum(axes)
    }
}
impl<'a, X: Stored<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Lengths<'a, T, RANK, D> for X {}
