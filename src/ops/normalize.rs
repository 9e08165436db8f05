//! Normalizations along axes: softmax, log-softmax, layer norm, RMS norm, vectors of length 1.
//!
//! Each is one expression and one pass over memory: what is constant along a row is found while the row is in the cache.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{AxisAt, Dim};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Elementwise as _, Expr, IntoView, Lazy, Operand, Reduce as _, Zip as _};
use crate::kernel::{Body, Op};
use crate::layout::joint_size;
use crate::ops::functions::ExpDifferenceFn;
use crate::ops::unit_vectors::by_norm;
use crate::ops::{Arithmetic as _, Math as _, MeanF64, NormF64, Reductions as _, Sum};
use crate::rank::{HasAxes, RemoveAxes};
use crate::scalar::{DType, Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::marker::PhantomData;

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

/// What [`Over`] takes for a norm: the norm, or its inverse where elements are not f64. The norm of an f32 may be none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor<T>(PhantomData<fn() -> T>);

impl<T> Divisor<T> {
    pub(super) const NEW: Self = Divisor(PhantomData);
}

impl<T: Float> Op<(f64,)> for Divisor<T> {
    const NAME: &'static str = "normalize";
    type Out = f64;
    #[inline(always)]
    fn call<L: Lanes>((norm,): (Lane<L, f64>,)) -> Lane<L, f64> {
        if T::DTYPE == DType::F64 { norm } else { 1.0 / norm }
    }
}

/// An element over a norm: a quotient in f64, a product rounded once elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over;

impl<T: Float> Op<(T, f64)> for Over {
    const NAME: &'static str = "normalize";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, divisor): (Lane<L, Compute<T>>, Lane<L, f64>)) -> Lane<L, Compute<T>> {
        let x = x.cast::<f64>();
        if T::DTYPE == DType::F64 { x / divisor } else { x * divisor }.cast()
    }
}

/// The least norm that is divided by.
pub(super) fn least<T: Float>(epsilon: T) -> f64 {
    num_traits::ToPrimitive::to_f64(&epsilon).unwrap_or(f64::NAN)
}

/// Normalizations, each an expression of an expression and axes.
macro_rules! normalizations {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?) = |$x:ident, $axes:ident| $body:block
    )*) => {
        impl<'a, T: Float, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> Lazy<'a, T, RANK, D, E> { $(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`], of an expression, in the same pass. Operators after it are fused as well.")]
            pub fn $name<AXES: Copy>(self, axes: AXES $(, $arg: $type)?) -> Lazy<'a, T, RANK, D, impl Expr<RANK, D, Body: Body<Out = T>>>
            where
                Dim<RANK>: HasAxes<AXES>,
            {
                let ($x, $axes) = (self.cached(), axes); // it occurs several times
                $body
            }

            #[doc = concat!("As [`", stringify!($name), "`](Lazy::", stringify!($name), "), along an axis known at run time.")]
            pub fn $of_axis(self, axis: usize $(, $arg: $type)?) -> Lazy<'a, T, RANK, D, impl Expr<RANK, D, Body: Body<Out = T>>> {
                self.$name(AxisAt(axis) $(, $arg)?)
            }
        )* }
        impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> { $(
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $name<AXES: Copy>(self, axes: AXES $(, $arg: $type)?) -> Result<Tensor<T, RANK, D>>
            where
                Dim<RANK>: HasAxes<AXES>,
            {
                let ($x, $axes) = (self.lazy(), axes);
                $body.eval().map_err(|error| error.renamed(stringify!($name)))
            }

            #[doc = concat!("See [`Tensor::", stringify!($of_axis), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $of_axis(self, axis: usize $(, $arg: $type)?) -> Result<Tensor<T, RANK, D>> {
                self.$name(AxisAt(axis) $(, $arg)?).map_err(|error| error.renamed(stringify!($of_axis)))
            }

            #[doc = concat!("See [`Tensor::", stringify!($into), "`].")]
            ///
            /// # Errors
            /// As there.
            pub fn $into<'o, AXES: Copy>(self, axes: AXES $(, $arg: $type)?, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
            where
                Dim<RANK>: HasAxes<AXES>,
                D: 'o,
            {
                let ($x, $axes) = (self.lazy(), axes);
                $body.eval_at(stringify!($into), Existing(out))
            }
        )* }
        impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory);
            /// [`Error::Axis`](crate::Error::Axis) for [`Last`](crate::Last) of rank 0.
            pub fn $name<AXES: Copy>(&self, axes: AXES $(, $arg: $type)?) -> Result<Self>
            where
                Dim<RANK>: HasAxes<AXES>,
            {
                self.view().$name(axes $(, $arg)?)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), along an axis known at run time.")]
            ///
            /// # Errors
            /// As there; [`Error::Axis`](crate::Error::Axis) when there is no such axis.
            pub fn $of_axis(&self, axis: usize $(, $arg: $type)?) -> Result<Self> {
                self.view().$of_axis(axis $(, $arg)?)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), into an existing tensor or exclusive view. No allocation of a result.")]
            ///
            /// # Errors
            /// [`Error::Output`](crate::Error::Output) when `out` has other sizes, [`Error::Device`](crate::Error::Device),
            /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::Shared`](crate::Error::Shared) when `out` has other handles.
            pub fn $into<'o, AXES: Copy>(&self, axes: AXES $(, $arg: $type)?, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
            where
                Dim<RANK>: HasAxes<AXES>,
                D: 'o,
            {
                self.view().$into(axes $(, $arg)?, out)
            }
        )* }
    };
}
normalizations! {
    /// `e^(x − max) / Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`.
    ///
    /// A row of −∞ alone gives NaN, and so does a row with +∞ or NaN.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let scores = Tensor::from([[1000.0, 1000.0], [0.0, f64::ln(3.0)]]);
    /// let mut p = scores.softmax(Axis::<1>)?;
    /// assert_eq!(p.slice((0, ..))?.to_vec()?, [0.5, 0.5]);
    /// assert!((p[[1, 1]] - 0.75).abs() < 1e-15);
    /// scores.softmax_into(Axis::<0>, &mut p)?; // no allocation
    /// assert_eq!(p[[0, 1]], 1.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn softmax, softmax_axis, softmax_into() = |x, axes| {
        let powers = x.zip(ExpDifference, x.max_along(axes)).cached();
        // One division a row: a product costs a tenth of a quotient.
        powers * powers.sum_along(axes).recip()
    }

    /// `x − max − ln Σ e^(x − max)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`: the logarithm of
    /// [`softmax`](Tensor::softmax), exact where that would be 0.
    fn log_softmax, log_softmax_axis, log_softmax_into() = |x, axes| {
        let shifted = x - x.max_along(axes);
        shifted - shifted.exp().sum_along(axes).ln()
    }

    /// `(x − mean) / √(var + epsilon)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`, the variance from the
    /// centered values; a weight and a bias are one more expression: `x.layer_norm(Axis::<1>, 1e-5)? * weight.lift() + bias.lift()`.
    fn layer_norm, layer_norm_axis, layer_norm_into(epsilon: T) = |x, axes| {
        // The sum of one number, repeated, is rounded in f32, and its mean would be another number.
        let centered = x - x.along(MeanF64, axes);
        centered * (centered.square().mean_along(axes) + epsilon).rsqrt()
    }

    /// `x / √(mean of x² + epsilon)` along axes: one (`Axis::<1>`, `Last`), several together, or `All`; a weight is one more
    /// expression.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[2.0, -2.0]]).rms_norm(Axis::<1>, 12.0)?, Tensor::from([[0.5, -0.5]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn rms_norm, rms_norm_axis, rms_norm_into(epsilon: T) = |x, axes| {
        x * (x.square().mean_along(axes) + epsilon).rsqrt()
    }

    /// `x / max(‖x‖, epsilon)`, Euclid's norm along axes: vectors of length 1.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::from([[3.0, 4.0], [0.0, 0.0]]).normalize(Axis::<1>, 1e-12)?, Tensor::from([[0.6, 0.8], [0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn normalize, normalize_axis, normalize_into(epsilon: T) = |x, axes| {
        x.zip(Over, x.along(NormF64, axes).maximum(least(epsilon)).map(Divisor::<T>::NEW))
    }
}

impl<'a, T: Float, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
    Lazy<'a, T, RANK, D, E>
{
    /// As [`Tensor::layer_norm_affine`], of an expression, in the same pass. Operators after it are fused as well.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, residual) = (Tensor::from([[1.0, 3.0], [0.0, 8.0]]), Tensor::from([[0.0, 0.0], [2.0, 0.0]]));
    /// let (weight, bias) = (Tensor::from([1.0, 2.0]), Tensor::from([0.0, 10.0]));
    /// let y = (x.lazy() + &residual).layer_norm_affine(Last, weight.lift(), bias.lift(), 0.0).eval()?; // one pass
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
        let y = self.lazy().layer_norm_affine(axes, weight, bias, epsilon);
        y.eval().map_err(|error| error.renamed("layer_norm_affine"))
    }
}

impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// [`layer_norm`](Tensor::layer_norm) times a weight plus a bias, in the same pass. Both have the rank of the tensor and
    /// stretch: `weight.lift()`.
    ///
    /// # Errors
    /// As [`layer_norm`](Tensor::layer_norm); [`Error::Sizes`](crate::Error::Sizes) when weight or bias do not broadcast.
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

/// The cosine of the angle between vectors along axes.
fn cosine<T: Float, AXES: Copy, const RANK: usize, const M: usize, D: Device, P: Destination<T, M, D>>(
    op: &'static str,
    (x, y): (TensorView<'_, T, RANK, D>, TensorView<'_, T, RANK, D>),
    axes: AXES,
    epsilon: T,
    place: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
{
    let size = joint_size(op, x.size(), y.size())?;
    let (x, y) = (x.broadcast_to(size)?.lazy(), y.broadcast_to(size)?.lazy());
    let unit = y.zip(Over, y.along(NormF64, axes).maximum(least(epsilon)).map(Divisor::<T>::NEW));
    (x.zip(Over, x.along(NormF64, axes).maximum(least(epsilon)).map(Divisor::<T>::NEW)) * unit)
        .reduce_at(op, Sum, axes, place)
}

/// Vectors along axes beside each other, of tensors and views.
pub trait CosineSimilarity<'a, T: 'a, const RANK: usize, D: Device>:
    IntoView<'a, T, RANK, D> + Sized
{
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
        other: impl IntoView<'b, T, RANK, D>,
        axes: AXES,
        epsilon: T,
    ) -> Result<Tensor<T, M, D>>
    where
        T: Float + 'b,
        D: 'b,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        cosine("cosine_similarity", (self.into_view(), other.into_view()), axes, epsilon, Allocate)
    }

    /// As [`cosine_similarity`](CosineSimilarity::cosine_similarity), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes, [`Error::Shared`](crate::Error::Shared)
    /// when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, mut y) = (Tensor::from([[3.0, 4.0], [1.0, 0.0]]), Tensor::from([9.0, 9.0]));
    /// x.cosine_similarity_into(&x, Axis::<1>, 1e-8, &mut y)?;
    /// assert_eq!(y.to_vec()?, [1.0, 1.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cosine_similarity_into<'b, 'o, AXES: Copy, const M: usize>(
        self,
        other: impl IntoView<'b, T, RANK, D>,
        axes: AXES,
        epsilon: T,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Float + 'b,
        D: 'b + 'o,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        cosine("cosine_similarity_into", (self.into_view(), other.into_view()), axes, epsilon, Existing(out))
    }

    /// `x / max(‖x‖ₚ, epsilon)` along axes: vectors of length 1 by the norm of any order `p`, as
    /// [`norm_p`](Tensor::norm_p) has it. For Euclid's there is [`normalize`](Tensor::normalize).
    ///
    /// # Cost
    /// One pass; a power of each element where `p` is not 0, 1, 2 or infinite.
    ///
    /// # Errors
    /// [`Error::Value`](crate::Error::Value) for a `p` that is no number; those of [`Reductions`](super::Reductions).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[3.0, -1.0], [0.0, 0.0]]);
    /// assert_eq!(x.normalize_p(1.0, Axis::<1>, 1e-12)?, Tensor::from([[0.75, -0.25], [0.0, 0.0]]));
    /// assert_eq!(x.normalize_p(f64::INFINITY, All, 1e-12)?.to_vec()?, [1.0, -1.0 / 3.0, 0.0, 0.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    ///
    /// # Source
    /// PyTorch's `normalize`, ONNX's `LpNormalization`.
    fn normalize_p<AXES: Copy, const M: usize>(
        self,
        p: T,
        axes: AXES,
        epsilon: T,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Float,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        by_norm("normalize_p", self.into_view(), p, axes, epsilon, Allocate)
    }

    /// As [`normalize_p`](CosineSimilarity::normalize_p), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes, [`Error::Shared`](crate::Error::Shared)
    /// when it has other handles.
    fn normalize_p_into<'o, AXES: Copy, const M: usize>(
        self,
        p: T,
        axes: AXES,
        epsilon: T,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Float,
        D: 'o,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        by_norm("normalize_p_into", self.into_view(), p, axes, epsilon, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> CosineSimilarity<'a, T, RANK, D>
    for X
{
}
