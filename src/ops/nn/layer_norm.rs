//! Layer norm and RMS norm along axes.
//!
//! Each is one expression and one pass over memory: row constants are computed while the row is in the cache.
// Imports: `error`, `dim`, `rank`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::norm_rules::{LayerNormRule, RmsNormRule, affine_by_rule};
use crate::device::Device;
use crate::dim::{AxisAt, Dim};
use crate::element::Float;
use crate::error::Result;
use crate::expr::{Expr, Lazy, Operand, Reduce as _, eval};
use crate::kernel::Body;
use crate::ops::define::along_axes;
use crate::ops::{Arithmetic as _, Math as _, MeanF64, Reductions as _};
use crate::rank::HasAxes;
use crate::tensor::{Existing, IntoViewMut, Tensor, TensorView};

along_axes! {
    /// `(x − mean) / √(var + epsilon)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`. The
    /// variance is that of the centered values. A weight and a bias are a separate expression:
    /// `x.layer_norm(Axis::<1>, 1e-5)? * weight.lift() + bias.lift()`.
    ///
    /// The result has the sizes of `x`. One kernel reads each row from memory once.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1.0, 3.0], [10.0, 30.0]]);
    /// assert_eq!(x.layer_norm(Axis::<1>, 0.0)?, Tensor::from([[-1.0, 1.0], [-1.0, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn layer_norm, layer_norm_axis, layer_norm_into(epsilon: T) by LayerNormRule = |x, axes| {
        // In f32, the sum of a repeated number is rounded, and the mean would differ from that number.
        let centered = x - x.along(MeanF64, axes);
        centered * (centered.square().mean_along(axes) + epsilon).rsqrt()
    }

    /// `x / √(mean of x² + epsilon)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`. A
    /// weight is a separate expression. Shapes and cost are those of [`layer_norm`](Tensor::layer_norm).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[2.0, -2.0]]).rms_norm(Axis::<1>, 12.0)?, Tensor::from([[0.5, -0.5]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rms_norm, rms_norm_axis, rms_norm_into(epsilon: T) by RmsNormRule = |x, axes| {
        x * (x.square().mean_along(axes) + epsilon).rsqrt()
    }
}

impl<'a, T: Float, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
    Lazy<'a, T, RANK, D, E>
{
    /// As [`Tensor::layer_norm_affine`], of an expression, in the same pass. Operators after it are fused as
    /// well.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, residual) = (Tensor::from([[1.0, 3.0], [0.0, 8.0]]), Tensor::from([[0.0, 0.0], [2.0, 0.0]]));
    /// let (weight, bias) = (Tensor::from([1.0, 2.0]), Tensor::from([0.0, 10.0]));
    /// let sum = x.lazy() + &residual;
    /// let y = sum.layer_norm_affine(Last, weight.lift(), bias.lift(), 0.0).eval()?; // one pass
    /// assert_eq!(y, Tensor::from([[-1.0, 12.0], [-1.0, 12.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn layer_norm_affine<AXES: Copy>(
        self,
        axes: AXES,
        weight: impl Operand<T, RANK, D>,
        bias: impl Operand<T, RANK, D>,
        epsilon: T,
    ) -> Lazy<'a, T, RANK, D, impl Expr<RANK, D, Body: Body<Out = T>>>
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        self.layer_norm(axes, epsilon).mul(weight).add(bias)
    }
}

/// Calls `then` with the operand where it is stored, or with its values on the device of `x`.
fn with_view<T: Float, R, const RANK: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    operand: impl Operand<T, RANK, D>,
    then: impl FnOnce(TensorView<'_, T, RANK, D>) -> Result<R>,
) -> Result<R> {
    let expr = operand.into_expr();
    match expr.as_view() {
        Some(view) => then(view),
        None => then(eval("layer_norm_affine", &expr, x.device())?.view()),
    }
}

impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> {
    /// See [`Tensor::layer_norm_affine`].
    ///
    /// # Errors
    /// As there.
    pub fn layer_norm_affine<AXES: Copy>(
        self,
        axes: AXES,
        weight: impl Operand<T, RANK, D>,
        bias: impl Operand<T, RANK, D>,
        epsilon: T,
    ) -> Result<Tensor<T, RANK, D>>
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        if const { D::RECORDS } {
            return with_view(self, weight, |weight| {
                with_view(self, bias, |bias| affine_by_rule(self, axes, [weight, bias], epsilon))
            });
        }
        let y = self.lazy().layer_norm_affine(axes, weight, bias, epsilon);
        y.eval().map_err(|error| error.with_op("layer_norm_affine"))
    }
}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// [`layer_norm`](Tensor::layer_norm) times a weight plus a bias, in the same pass. Both have the rank of
    /// the tensor and stretch: `weight.lift()`.
    ///
    /// # Errors
    /// As [`layer_norm`](Tensor::layer_norm); [`Error::Sizes`](crate::Error::Sizes) when weight or bias do
    /// not broadcast.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (weight, bias) = (Tensor::from([1.0, 2.0]), Tensor::from([0.0, 10.0]));
    /// let y = Tensor::from([[1.0, 3.0]]).layer_norm_affine(Last, weight.lift(), bias.lift(), 0.0)?;
    /// assert_eq!(y, Tensor::from([[-1.0, 12.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn layer_norm_affine<AXES: Copy>(
        &self,
        axes: AXES,
        weight: impl Operand<T, RANK, D>,
        bias: impl Operand<T, RANK, D>,
        epsilon: T,
    ) -> Result<Self>
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        self.view().layer_norm_affine(axes, weight, bias, epsilon)
    }
}
