//! Quantized tensors: integers that represent real numbers, `real = (stored − zero point) · scale`.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{All, Dim};
use crate::element::{Compute, Element, Integer, QInt8, QInt32, QUInt8, WideningMul};
use crate::error::{Error, Result, text};
use crate::expr::apply;
use crate::kernel::Op;
use crate::ops::{Arithmetic, Cast, Reductions};
use crate::rank::Matmul;
use crate::scalar::{Lane, Lanes};
use crate::tensor::Tensor;
use std::marker::PhantomData;

/// An element that represents a real number: [`QInt8`], [`QUInt8`], [`QInt32`].
pub trait QuantizedElement: Element {
    /// The type of the stored integer.
    type Int: Integer;
    /// The smallest stored integer.
    const LOW: i64;
    /// The largest stored integer.
    const HIGH: i64;
}
macro_rules! quantized {
    ($($q:ty: $int:ident;)*) => { $(
        impl QuantizedElement for $q {
            type Int = $int;
            const LOW: i64 = $int::MIN as i64;
            const HIGH: i64 = $int::MAX as i64;
        }
    )* };
}
quantized! {
    QInt8: i8;
    QUInt8: u8;
    QInt32: i32;
}

/// The mapping from integers to real numbers: PyTorch's five schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuantScheme {
    /// One scale and one zero point.
    PerTensorAffine,
    /// One scale; the integer 0 represents 0.
    PerTensorSymmetric,
    /// A scale and a zero point for each position of one axis.
    PerChannelAffine,
    /// A scale for each position of one axis; the integer 0 represents 0.
    PerChannelSymmetric,
    /// A scale and a real zero point for each position of one axis.
    PerChannelAffineFloat,
}

/// A scheme with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantization {
    scheme: QuantScheme,
    axis: Option<usize>,
    scales: Vec<f32>,
    zero_points: Vec<f64>,
}

fn refuse(what: std::fmt::Arguments<'_>) -> Error {
    Error::Value { op: "quantization", what: text(what) }
}

impl Quantization {
    fn new(scheme: QuantScheme, axis: Option<usize>, scales: &[f32], zero_points: Vec<f64>) -> Result<Self> {
        if let Some(scale) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
            return Err(refuse(format_args!("the scale {scale} is not positive and finite")));
        }
        if scales.len() != zero_points.len() || zero_points.iter().any(|zero| !zero.is_finite()) {
            return Err(refuse(format_args!("{} scales and the zero points {zero_points:?}", scales.len())));
        }
        Ok(Quantization { scheme, axis, scales: scales.into(), zero_points })
    }

    /// One scale and one zero point.
    ///
    /// # Errors
    /// [`Error::Value`] for a scale that is not positive and finite. The constructors below return the same
    /// error.
    pub fn per_tensor(scale: f32, zero_point: i64) -> Result<Self> {
        Self::new(QuantScheme::PerTensorAffine, None, &[scale], vec![zero_point as f64])
    }
    /// One scale; the integer 0 represents 0.
    ///
    /// # Errors
    /// As [`Quantization::per_tensor`].
    pub fn per_tensor_symmetric(scale: f32) -> Result<Self> {
        Self::new(QuantScheme::PerTensorSymmetric, None, &[scale], vec![0.0])
    }
    /// A scale and a zero point for each position of `axis`.
    ///
    /// # Errors
    /// As [`Quantization::per_tensor`], and if the numbers of scales and zero points differ.
    pub fn per_channel(axis: usize, scales: &[f32], zero_points: &[i64]) -> Result<Self> {
        Self::new(
            QuantScheme::PerChannelAffine,
            Some(axis),
            scales,
            zero_points.iter().map(|&zero| zero as f64).collect(),
        )
    }
    /// A scale for each position of `axis`; the integer 0 represents 0.
    ///
    /// # Errors
    /// As [`Quantization::per_tensor`].
    pub fn per_channel_symmetric(axis: usize, scales: &[f32]) -> Result<Self> {
        Self::new(QuantScheme::PerChannelSymmetric, Some(axis), scales, vec![0.0; scales.len()])
    }
    /// A scale and a real zero point for each position of `axis`.
    ///
    /// # Errors
    /// As [`Quantization::per_channel`].
    pub fn per_channel_float(axis: usize, scales: &[f32], zero_points: &[f32]) -> Result<Self> {
        Self::new(
            QuantScheme::PerChannelAffineFloat,
            Some(axis),
            scales,
            zero_points.iter().map(|&zero| zero.into()).collect(),
        )
    }

    /// The affine scheme whose integers cover the range from the smallest of the numbers to the largest,
    /// extended to include 0.
    ///
    /// # Errors
    /// [`Error::Value`] if one of the numbers is not finite; those of the reduction.
    ///
    /// # Source
    /// ONNX, `DynamicQuantizeLinear`.
    pub fn spanning<Q: QuantizedElement, const RANK: usize, D: Device>(
        x: &Tensor<f32, RANK, D>,
    ) -> Result<Self> {
        let (low, high) = if x.is_empty() { (0.0, 0.0) } else { (x.min(All)?.item()?, x.max(All)?.item()?) };
        if !low.is_finite() || !high.is_finite() {
            return Err(refuse(format_args!("numbers from {low} to {high} are not all finite")));
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = ((f64::from(high) - f64::from(low)) / (Q::HIGH - Q::LOW) as f64) as f32;
        if scale == 0.0 {
            return Self::per_tensor(1.0, 0.clamp(Q::LOW, Q::HIGH));
        }
        let zero = Q::LOW as f32 - low / scale;
        Self::per_tensor(scale, zero.clamp(Q::LOW as f32, Q::HIGH as f32).round_ties_even() as i64)
    }

    /// The scheme.
    pub fn scheme(&self) -> QuantScheme {
        self.scheme
    }
    /// The axis along which scales differ.
    pub fn axis(&self) -> Option<usize> {
        self.axis
    }
    /// One scale, or one for each position of the axis.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }
    /// One zero point, or one for each position of the axis. They are integers except in the scheme with real
    /// zero points.
    pub fn zero_points(&self) -> &[f64] {
        &self.zero_points
    }

    fn is_float(&self) -> bool {
        self.scheme == QuantScheme::PerChannelAffineFloat
    }

    /// Whether it fits a tensor's sizes and integers.
    fn fits<Q: QuantizedElement>(&self, size: &[usize]) -> Result<()> {
        if let Some(axis) = self.axis
            && size.get(axis) != Some(&self.scales.len())
        {
            return Err(refuse(format_args!(
                "{} scales along axis {axis} of sizes {size:?}",
                self.scales.len()
            )));
        }
        let outside = |zero: &&f64| !self.is_float() && !(Q::LOW as f64..=Q::HIGH as f64).contains(*zero);
        match self.zero_points.iter().find(outside) {
            Some(zero) => {
                Err(refuse(format_args!("the zero point {zero} is not in {}..={}", Q::LOW, Q::HIGH)))
            }
            None => Ok(()),
        }
    }

    /// Scales and zero points as tensors that broadcast to rank `RANK`.
    fn operands<const RANK: usize, D: Device>(
        &self,
        device: &D,
    ) -> Result<(Tensor<f32, RANK, D>, Tensor<f64, RANK, D>)> {
        let mut size = [1; RANK];
        if let Some(axis) = self.axis {
            size[axis] = self.scales.len();
        }
        Ok((
            Tensor::from_slice(&self.scales, size, device)?,
            Tensor::from_slice(&self.zero_points, size, device)?,
        ))
    }
}

/// `saturate(round(x / scale) + zero)`, ties to even. A real zero point is added before rounding. NaN gives
/// the zero point.
#[derive(Clone, Copy)]
struct Quantize<Q, const FLOAT_ZERO: bool>(PhantomData<fn() -> Q>);
impl<Q: QuantizedElement, const FLOAT_ZERO: bool> Op<(f32, f32, f64)> for Quantize<Q, FLOAT_ZERO> {
    const NAME: &'static str = "quantize";
    type Out = Q::Int;
    #[inline(always)]
    fn call<L: Lanes>(
        (x, scale, zero): (Lane<L, f32>, Lane<L, f32>, Lane<L, f64>),
    ) -> Lane<L, Compute<Q::Int>> {
        let steps = (x / scale).cast::<f64>();
        let steps = steps.is_nan().select(0.0, steps);
        let stored = if FLOAT_ZERO { (steps + zero).round() } else { steps.round() + zero };
        stored.clamp(Lane::literal(Q::LOW as f64), Lane::literal(Q::HIGH as f64)).cast()
    }
}

/// `(stored − zero) · scale`.
#[derive(Clone, Copy)]
pub(crate) struct Dequantize<Q>(PhantomData<fn() -> Q>);
impl<Q: QuantizedElement> Op<(Q::Int, f32, f64)> for Dequantize<Q> {
    const NAME: &'static str = "dequantize";
    type Out = f32;
    #[inline(always)]
    fn call<L: Lanes>(
        (x, scale, zero): (Lane<L, Compute<Q::Int>>, Lane<L, f32>, Lane<L, f64>),
    ) -> Lane<L, f32> {
        (x.cast::<f64>() - zero).cast::<f32>() * scale
    }
}

/// Converts a sum of products to an integer of the result: `saturate(round(sum · factor) + zero)`, in f64.
#[derive(Clone, Copy)]
struct Rescale<Q>(PhantomData<fn() -> Q>);
impl<Q: QuantizedElement> Op<(i32, f64, f64)> for Rescale<Q> {
    const NAME: &'static str = "requantize";
    type Out = Q::Int;
    #[inline(always)]
    fn call<L: Lanes>(
        (sum, factor, zero): (Lane<L, i32>, Lane<L, f64>, Lane<L, f64>),
    ) -> Lane<L, Compute<Q::Int>> {
        ((sum.cast::<f64>() * factor).round() + zero)
            .clamp(Lane::literal(Q::LOW as f64), Lane::literal(Q::HIGH as f64))
            .cast()
    }
}

/// A tensor of integers `Q` that represent real numbers. Caffe2's int8 tensor is the per-tensor case.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::{QUInt8, quantized::{Quantization, QuantizedTensor}};
/// let x = Tensor::from([-1.0_f32, 0.0, 0.26, 300.0]);
/// let q = QuantizedTensor::<QUInt8, 1>::quantize(&x, Quantization::per_tensor(0.5, 10)?)?;
/// assert_eq!(q.int_repr().to_vec()?, [8, 10, 11, 255]); // 300 is out of range
/// assert_eq!(q.dequantize()?.to_vec()?, [-1.0, 0.0, 0.5, 122.5]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct QuantizedTensor<Q: QuantizedElement, const RANK: usize, D: Device = crate::device::Cpu> {
    /// Invariant: the scheme fits these sizes and integers.
    values: Tensor<Q::Int, RANK, D>,
    quantization: Quantization,
}

impl<Q: QuantizedElement, const RANK: usize, D: Device> QuantizedTensor<Q, RANK, D> {
    /// The nearest integers, ties to even. Numbers out of range saturate, and NaN gives the zero point.
    ///
    /// # Errors
    /// [`Error::Value`] if the scheme does not fit the sizes or the integers; those of operators.
    pub fn quantize(x: &Tensor<f32, RANK, D>, quantization: Quantization) -> Result<Self> {
        quantization.fits::<Q>(&x.size().0)?;
        let (scale, zero) = quantization.operands(x.device())?;
        let values = match quantization.is_float() {
            true => apply(Quantize::<Q, true>(PhantomData), (x, &scale, &zero))?,
            false => apply(Quantize::<Q, false>(PhantomData), (x, &scale, &zero))?,
        };
        Ok(QuantizedTensor { values, quantization })
    }

    /// From integers that already represent real numbers.
    ///
    /// # Errors
    /// [`Error::Value`] if the scheme does not fit them.
    pub fn from_integers(values: Tensor<Q::Int, RANK, D>, quantization: Quantization) -> Result<Self> {
        quantization.fits::<Q>(&values.size().0)?;
        Ok(QuantizedTensor { values, quantization })
    }

    /// The represented real numbers.
    ///
    /// # Errors
    /// Those of operators.
    pub fn dequantize(&self) -> Result<Tensor<f32, RANK, D>> {
        let (scale, zero) = self.quantization.operands(self.values.device())?;
        apply(Dequantize::<Q>(PhantomData), (&self.values, &scale, &zero))
    }

    /// The represented real numbers, as f32, quantized by another scheme or to other integers, as closely as
    /// possible.
    ///
    /// # Errors
    /// As [`QuantizedTensor::quantize`].
    pub fn requantize<P: QuantizedElement>(
        &self,
        quantization: Quantization,
    ) -> Result<QuantizedTensor<P, RANK, D>> {
        QuantizedTensor::quantize(&self.dequantize()?, quantization)
    }

    /// The sum of the real numbers, quantized by the scheme `quantization`, saturating. Sizes of 1 broadcast.
    ///
    /// # Errors
    /// As [`QuantizedTensor::quantize`].
    pub fn add(&self, other: &Self, quantization: Quantization) -> Result<Self> {
        Self::quantize(&self.dequantize()?.add(&other.dequantize()?)?, quantization)
    }

    /// The product of the real numbers, quantized by the scheme `quantization`, saturating. Sizes of 1
    /// broadcast.
    ///
    /// # Errors
    /// As [`QuantizedTensor::quantize`].
    pub fn mul(&self, other: &Self, quantization: Quantization) -> Result<Self> {
        Self::quantize(&self.dequantize()?.mul(&other.dequantize()?)?, quantization)
    }

    /// The stored integers.
    pub fn int_repr(&self) -> &Tensor<Q::Int, RANK, D> {
        &self.values
    }
    /// The scheme and its parameters.
    pub fn quantization(&self) -> &Quantization {
        &self.quantization
    }
    /// The sizes.
    pub fn size(&self) -> Dim<RANK> {
        self.values.size()
    }

    /// `Σ (a − zero_a) · (b − zero_b)`, exactly: the matrix product without the scales.
    ///
    /// The product of the stored integers uses the processor's dot-product instructions if it has them. Zero
    /// points are subtracted afterwards, by the sums of rows and columns.
    ///
    /// # Shapes
    /// `[.., m, k] · [.., k, n] → [.., m, n]`, for ranks 2 to 4. Zero points may differ along `m` on the left
    /// and along `n` on the right.
    ///
    /// # Errors
    /// Those of [`Tensor::matmul`]. [`Error::Value`] for zero points along another axis, for zero points that
    /// are not integers, and if a sum may exceed i32: for integers of more than 8 bits, and for `k` above
    /// 32768.
    pub fn matmul_integer<R: QuantizedElement>(
        &self,
        other: &QuantizedTensor<R, RANK, D>,
    ) -> Result<Tensor<i32, RANK, D>>
    where
        R::Int: WideningMul<Q::Int>,
        Dim<RANK>: Matmul<Dim<RANK>, Output = Dim<RANK>>,
    {
        let (left, right) = (&self.quantization, &other.quantization);
        let beside = |quantization: &Quantization, axis: usize| {
            quantization.axis.is_none_or(|own| own == axis) && !quantization.is_float()
        };
        let k = self.size().0[RANK - 1];
        let short = size_of::<Q::Int>() == 1 && size_of::<R::Int>() == 1;
        if !short || !beside(left, RANK - 2) || !beside(right, RANK - 1) || k > 1 << 15 {
            let (a, b) = (Q::DTYPE, R::DTYPE);
            return Err(refuse(format_args!(
                "no exact product of {a} by {left:?} and {b} by {right:?} along {k} terms"
            )));
        }
        let device = self.values.device();
        let mut sum: Tensor<i32, RANK, D> = self.values.matmul_wide(&other.values)?.cast()?;
        let zeros = |quantization: &Quantization| -> Result<Tensor<i32, RANK, D>> {
            quantization.operands(device)?.1.cast()
        };
        let has = |quantization: &Quantization| quantization.zero_points.iter().any(|&zero| zero != 0.0);
        let (zero_a, zero_b) = (zeros(left)?, zeros(right)?);
        let mut size = [1; RANK];
        size[RANK - 1] = k;
        let ones = Tensor::<i32, RANK, D>::ones(size, device)?;
        if has(right) {
            // Σ a · zero_b: the sums of rows, as a column.
            size.swap(RANK - 2, RANK - 1);
            let rows = self.values.cast::<i32>()?.matmul(&Tensor::<i32, RANK, D>::ones(size, device)?)?;
            sum = sum.sub(&rows.mul(&zero_b)?)?;
        }
        if has(left) {
            // zero_a · Σ (b − zero_b): the sums of columns, as a row.
            let columns = ones.matmul(&other.values.cast::<i32>()?.sub(&zero_b)?)?;
            sum = sum.sub(&columns.mul(&zero_a)?)?;
        }
        Ok(sum)
    }

    /// The matrix product, quantized by the scheme `quantization`, per tensor. Integers are summed, scaled
    /// once, and saturate.
    ///
    /// # Errors
    /// Those of [`QuantizedTensor::matmul_integer`]; [`Error::Value`] for a scheme per channel.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::{QInt8, quantized::{Quantization, QuantizedTensor}};
    /// let a = Tensor::from([[1.0_f32, -2.0], [0.5, 3.0]]);
    /// let qa = QuantizedTensor::<QInt8, 2>::quantize(&a, Quantization::per_tensor(0.25, 3)?)?;
    /// let qy: QuantizedTensor<QInt8, 2> = qa.matmul(&qa, Quantization::per_tensor(0.5, -7)?)?;
    /// assert_eq!(qy.dequantize()?, a.matmul(&a)?); // every number is a multiple of 0.5 here
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn matmul<R: QuantizedElement, O: QuantizedElement>(
        &self,
        other: &QuantizedTensor<R, RANK, D>,
        quantization: Quantization,
    ) -> Result<QuantizedTensor<O, RANK, D>>
    where
        R::Int: WideningMul<Q::Int>,
        Dim<RANK>: Matmul<Dim<RANK>, Output = Dim<RANK>>,
    {
        if quantization.axis.is_some() {
            return Err(refuse(format_args!(
                "a product has one scale and one zero point, not {quantization:?}"
            )));
        }
        let sum = self.matmul_integer(other)?;
        quantization.fits::<O>(&sum.size().0)?;
        let device = self.values.device();
        let (out, zero) = quantization.operands::<RANK, D>(device)?;
        let (left, right) = (
            self.quantization.operands::<RANK, D>(device)?.0,
            other.quantization.operands::<RANK, D>(device)?.0,
        );
        let factor = left.cast::<f64>()?.mul(&right.cast::<f64>()?)?.div(&out.cast::<f64>()?)?;
        let values = apply(Rescale::<O>(PhantomData), (&sum, &factor, &zero))?;
        Ok(QuantizedTensor { values, quantization })
    }
}
