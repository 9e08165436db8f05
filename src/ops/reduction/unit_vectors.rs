//! Vectors divided by their norm, of any order, and the cosine of the angle between two vectors.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{AxisAt, Dim};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::{Elementwise as _, Expr, IntoView, Lazy, Reduce as _, Zip as _};
use crate::kernel::{Body, Op};
use crate::layout::joint_size;
use crate::ops::define::along_axes;
use crate::ops::reduction::norms::{IsNotZero, NormUnit, order_of};
use crate::ops::{Arithmetic as _, Cast as _, Math as _, Min, NormF64, NormMax, Reductions as _, Sum};
use crate::rank::{HasAxes, RemoveAxes};
use crate::scalar::{DType, Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::marker::PhantomData;

/// The divisor of [`OverNorm`]: the norm for f64, its inverse for other elements. The norm is an f64, because
/// that of f32 elements can exceed f32.
#[derive(Clone, Copy, Debug)]
struct NormDivisor<T>(PhantomData<fn() -> T>);

impl<T> NormDivisor<T> {
    const NEW: Self = NormDivisor(PhantomData);
}

impl<T: Float> Op<(f64,)> for NormDivisor<T> {
    const NAME: &'static str = "normalize";
    type Out = f64;
    #[inline(always)]
    fn call<L: Lanes>((norm,): (Lane<L, f64>,)) -> Lane<L, f64> {
        if T::DTYPE == DType::F64 { norm } else { 1.0 / norm }
    }
}

/// An element over a norm: a quotient for f64, a product rounded once for other elements.
#[derive(Clone, Copy, Debug)]
struct OverNorm;

impl<T: Float> Op<(T, f64)> for OverNorm {
    const NAME: &'static str = "normalize";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((x, divisor): (Lane<L, Compute<T>>, Lane<L, f64>)) -> Lane<L, Compute<T>> {
        let x = x.cast::<f64>();
        if T::DTYPE == DType::F64 { x / divisor } else { x * divisor }.cast()
    }
}

/// The lower bound of the divisor.
fn divisor_bound<T: Float>(epsilon: T) -> f64 {
    num_traits::ToPrimitive::to_f64(&epsilon).unwrap_or(f64::NAN)
}

along_axes! {
    /// `x / max(‖x‖, epsilon)` with the Euclidean norm along axes: vectors of length 1.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let unit = Tensor::from([[3.0, 4.0], [0.0, 0.0]]).normalize(Axis::<1>, 1e-12)?;
    /// assert_eq!(unit, Tensor::from([[0.6, 0.8], [0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn normalize, normalize_axis, normalize_into(epsilon: T) = |x, axes| {
        x.zip(OverNorm, x.along(NormF64, axes).maximum(divisor_bound(epsilon)).map(NormDivisor::<T>::NEW))
    }
}

/// `x / max(‖x‖ₚ, epsilon)` with the norm of `norm_p`; each kind of order has its own expression.
fn normalized<
    T: Float,
    AXES: Copy,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    p: T,
    axes: AXES,
    epsilon: T,
    place: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
{
    let p = order_of(op, p)?;
    let size = x.lazy().cast::<f64>().abs();
    macro_rules! over {
        ($norm:expr) => {
            x.lazy()
                .zip(OverNorm, $norm.maximum(divisor_bound(epsilon)).map(NormDivisor::<T>::NEW))
                .eval_at(op, place)
        };
    }
    if p == 2.0 {
        over!(x.along(NormF64, axes))
    } else if p == 1.0 {
        over!(size.sum_along(axes))
    } else if p == 0.0 {
        over!(size.map(IsNotZero).sum_along(axes))
    } else if p == f64::INFINITY {
        over!(size.along(NormMax, axes))
    } else if p == f64::NEG_INFINITY {
        over!(size.along(Min, axes))
    } else if p > 0.0 {
        let unit = size.along(NormMax, axes).map(NormUnit);
        over!(unit * (size / unit).powf(p).sum_along(axes).powf(1.0 / p))
    } else {
        let unit = size.along(Min, axes).map(NormUnit);
        over!(unit * (size / unit).powf(p).sum_along(axes).powf(1.0 / p))
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
    let unit =
        y.zip(OverNorm, y.along(NormF64, axes).maximum(divisor_bound(epsilon)).map(NormDivisor::<T>::NEW));
    (x.zip(OverNorm, x.along(NormF64, axes).maximum(divisor_bound(epsilon)).map(NormDivisor::<T>::NEW))
        * unit)
        .reduce_at(op, Sum, axes, place)
}

/// Operators on vectors along axes, for tensors and views.
pub trait CosineSimilarity<'a, T: 'a, const RANK: usize, D: Device>:
    IntoView<'a, T, RANK, D> + Sized
{
    /// The cosine of the angle between vectors along axes:
    /// `Σ x · y / (max(‖x‖, epsilon) · max(‖y‖, epsilon))`, in one pass. Sizes of 1 stretch.
    ///
    /// # Errors
    /// Those of [`Reductions`](crate::ops::Reductions).
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

    /// As [`cosine_similarity`](CosineSimilarity::cosine_similarity), into an existing tensor or exclusive
    /// view. No allocation.
    ///
    /// # Errors
    /// As [`cosine_similarity`](CosineSimilarity::cosine_similarity); [`Error::Output`](crate::Error::Output)
    /// when `out` has other sizes, [`Error::Shared`](crate::Error::Shared) when it has other handles.
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

    /// `x / max(‖x‖ₚ, epsilon)` along axes: vectors of length 1 in the norm of any order `p`, as in
    /// [`norm_p`](Tensor::norm_p). For the Euclidean norm see [`normalize`](Tensor::normalize).
    ///
    /// # Cost
    /// One pass, with a power of each element unless `p` is 0, 1, 2 or infinite.
    ///
    /// # Errors
    /// [`Error::Value`](crate::Error::Value) if `p` is NaN; those of [`Reductions`](crate::ops::Reductions).
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
        normalized("normalize_p", self.into_view(), p, axes, epsilon, Allocate)
    }

    /// As [`normalize_p`](CosineSimilarity::normalize_p), into an existing tensor or exclusive view. No
    /// allocation.
    ///
    /// # Errors
    /// As [`normalize_p`](CosineSimilarity::normalize_p); [`Error::Output`](crate::Error::Output) when `out`
    /// has other sizes, [`Error::Shared`](crate::Error::Shared) when it has other handles.
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
        normalized("normalize_p_into", self.into_view(), p, axes, epsilon, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> CosineSimilarity<'a, T, RANK, D>
    for X
{
}
