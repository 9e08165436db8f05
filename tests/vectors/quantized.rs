//! ONNX's operators of quantized tensors, a row each.

use crate::Row;
use crate::by_type;
use crate::case::{Case, N, Out, Run, Stop, axis_of, moved, number, unrun, wholes};
use rankform::ops::Pad;
use rankform::prelude::*;
use rankform::quantized::{Quantization, QuantizedElement, QuantizedTensor};
use rankform::scalar::DType;
use rankform::{QInt8, QUInt8};

/// The device of these cases.
type D = Cpu;

/// A scale, or one for each position of an axis, of f32 or f16.
fn scales(case: &Case, at: usize) -> Result<Vec<f32>, Stop> {
    by_type!(
        case.spec(at)?.dtype,
        T in [f16 f32] => Ok(case.tensor::<T>(case.arg(at))?.view()?.cast::<f32>()?.to_vec()?)
    )
}
/// Zero points; 0 where there are none.
fn zeros(case: &Case, at: usize, count: usize) -> Result<Vec<i64>, Stop> {
    if case.arg(at).is_null() {
        return Ok(vec![0; count]);
    }
    by_type!(
        case.spec(at)?.dtype,
        T in [i8 u8 i32] => Ok(
            case.tensor::<T>(case.arg(at))?.view()?.iter().map(|&x| i64::from(x)).collect()
        )
    )
}
/// The scheme in arguments `at` and `at + 1`, for a tensor with `rank` axes.
fn scheme(case: &Case, at: usize, rank: usize) -> Result<Quantization, Stop> {
    if case.kw("block_size").as_i64().unwrap_or(0) != 0 {
        return unrun("a scale a block");
    }
    let scales = scales(case, at)?;
    let zeros = zeros(case, at + 1, scales.len())?;
    if scales.len() == 1 {
        return Ok(Quantization::per_tensor(scales[0], zeros[0])?);
    }
    let axis = if case.kw("axis").is_null() { 1 } else { axis_of(case.kw("axis"), rank)? };
    Ok(Quantization::per_channel(N - rank + axis, &scales, &zeros)?)
}
/// Runs with the quantized element of an integer.
macro_rules! by_integer {
    ($dtype:expr, $Q:ident => $run:expr) => {
        match $dtype {
            DType::I8 => {
                type $Q = QInt8;
                $run
            }
            DType::U8 => {
                type $Q = QUInt8;
                $run
            }
            other => unrun(format!("no quantized {other}")),
        }
    };
}

fn quantize(case: &Case) -> Run {
    let to = case.expected().and_then(|out| out.first().cloned().flatten()).map(|spec| spec.dtype);
    let x = case.tensor::<f32>(case.arg(0))?;
    let x = x.view()?.copy()?;
    by_integer!(to.unwrap_or(DType::U8), Q => {
        moved(
            Ok(
                QuantizedTensor::<Q, N>::quantize(&x, scheme(case, 1, case.spec(0)?.rank())?)?
                    .int_repr().copy()?
            )
        )
    })
}
fn dequantize(case: &Case) -> Run {
    by_integer!(case.spec(0)?.dtype, Q => {
        let x = case.tensor::<<Q as QuantizedElement>::Int>(case.arg(0))?.view()?.copy()?;
        moved(QuantizedTensor::<Q, N>::from_integers(x, scheme(case, 1, case.spec(0)?.rank())?)?.dequantize())
    })
}
fn dynamic(case: &Case) -> Run {
    let x = case.tensor::<f32>(case.arg(0))?;
    let x = x.view()?.copy()?;
    let scheme = Quantization::spanning::<QUInt8, N, Cpu>(&x)?;
    let (scale, zero) = (
        Tensor::<f32, 0>::full([], scheme.scales()[0], &Cpu)?,
        Tensor::<u8, 0>::full([], scheme.zero_points()[0] as u8, &Cpu)?,
    );
    let q = QuantizedTensor::<QUInt8, N>::quantize(&x, scheme)?;
    Ok(vec![Out::of(q.int_repr().view()).exact(), Out::of(scale.view()), Out::of(zero.view()).exact()])
}
/// A matrix, or a stack, of quantized integers.
fn matrix<Q: QuantizedElement>(
    case: &Case,
    at: usize,
    quantization: Quantization,
) -> Result<QuantizedTensor<Q, 4>, Stop>
where
    Q::Int: crate::case::Seen,
{
    let x = case.tensor::<Q::Int>(case.arg(at))?;
    Ok(QuantizedTensor::from_integers(x.at::<4>()?.copy()?, quantization)?)
}
fn matmul_integer(case: &Case) -> Run {
    let of = |at: usize| -> Result<Quantization, Stop> {
        Ok(Quantization::per_tensor(1.0, zeros(case, at, 1)?[0])?)
    };
    moved(Ok(matrix::<QUInt8>(case, 0, of(2)?)?.matmul_integer(&matrix::<QUInt8>(case, 1, of(3)?)?)?))
}
fn matmul(case: &Case) -> Run {
    by_integer!(case.spec(0)?.dtype, Q => {
        let (a, b) = (matrix::<Q>(case, 0, scheme(case, 1, 4)?)?, matrix::<Q>(case, 3, scheme(case, 4, 4)?)?);
        let y: QuantizedTensor<Q, 4> = a.matmul(&b, scheme(case, 6, 4)?)?;
        moved(Ok(y.int_repr().copy()?))
    })
}
/// The sums of a convolution, before scales.
fn sums(case: &Case, x: usize, w: usize, zero_x: i64, zero_w: i64) -> Result<Tensor<i32, 4>, Stop> {
    case.only(&["pads", "kernel_shape"])?;
    let of = |at: usize, zero: i64| -> Result<Tensor<i32, 4>, Stop> {
        let x = case.tensor::<u8>(case.arg(at))?;
        Ok(x.at::<4>()?.cast::<i32>()?.sub(number::<i32>(&zero.into())?)?)
    };
    let pads = wholes(case.kw("pads")).unwrap_or_else(|| vec![0; 4]);
    let padding = [0, 1].map(|axis: usize| (pads[axis] as usize, pads[axis + 2] as usize));
    Ok(of(x, zero_x)?
        .pad([(0, 0), (0, 0), padding[0], padding[1]], Pad::Constant(0))?
        .conv2d(&of(w, zero_w)?, Default::default())?)
}
fn conv_integer(case: &Case) -> Run {
    let zeros = [zeros(case, 2, 1)?, zeros(case, 3, 1)?];
    if zeros[1].iter().any(|zero| *zero != zeros[1][0]) {
        return unrun("a zero point a filter");
    }
    moved(Ok(sums(case, 0, 1, zeros[0][0], zeros[1][0])?))
}

fn conv(case: &Case) -> Run {
    let (sx, sw, out) = (scheme(case, 1, 4)?, scheme(case, 4, 4)?, scheme(case, 6, 4)?);
    if sw.scales().len() != 1 {
        return unrun("a scale a filter");
    }
    let sum = sums(case, 0, 3, sx.zero_points()[0] as i64, sw.zero_points()[0] as i64)?;
    let real = sum.cast::<f32>()?.mul(sx.scales()[0] * sw.scales()[0])?;
    moved(Ok(QuantizedTensor::<QUInt8, 4>::quantize(&real, out)?.int_repr().copy()?))
}

pub const ROWS: &[Row] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", matmul),
    ("ConvInteger", conv_integer),
    ("QLinearConv", conv),
];
