//! Softmax, norms and losses.

use crate::case::{Case, CaseDevice, N, Operand, Out, Run, Seen, Stop, axis_of, real_or, unrun, wholes};
use crate::{Row, by_type};
use rankform::prelude::*;
use serde_json::Value;

/// Shares along an axis.
fn shares<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["dim", "dtype"])?;
    let rank = case.spec(0)?.rank();
    let axis = axis_of(case.get(1, "dim"), rank)? + N - rank.max(1);
    by_type!(case.dtype()?, T in [f16 bf16 f32 f64] => {
        shares_along::<T, D>(
            case, case.arg(0), axis, case.op.starts_with("log"), case.op.ends_with("softmin")
        )
    })
}
/// Shares along an axis, which is moved to the end, where it is a constant one.
pub fn shares_along<T: Seen + Float, D: CaseDevice>(
    case: &Case<D>,
    x: &Value,
    axis: usize,
    log: bool,
    of_opposite: bool,
) -> Run {
    let x = case.operand::<T>(x)?;
    let mut order: [usize; N] = std::array::from_fn(|axis| axis);
    order.swap(axis, N - 1);
    let mut x = x.view()?.permuted(order)?.copy()?;
    if of_opposite {
        x = x.neg()?;
    }
    let y = if log { x.log_softmax(Axis::<4>)? } else { x.softmax(Axis::<4>)? };
    let mut out = Out::of(y.view().permuted(order)?);
    // The base of a power is rounded, which moves a share by as many units as its logarithm has.
    let largest = out.values.iter().map(|x| x.magnitude()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let moved = |x: f64| if log { largest } else { x * (1.0 + x.max(1e-300).ln().abs()) / 4.0 };
    out.magnitude = Some(out.values.iter().map(|x| moved(x.magnitude())).collect());
    Ok(vec![out])
}

/// Rows of the last axes brought to mean 0 and variance 1, times a weight, plus a bias.
fn layer_norm<D: CaseDevice>(case: &Case<D>) -> Run {
    case.only(&["eps", "weight", "bias", "normalized_shape"])?;
    let inner: usize = wholes(case.arg(1)).unwrap_or_default().iter().map(|n| *n as usize).product();
    let spec = case.spec(0)?;
    by_type!(spec.dtype, T in [f16 bf16 f32 f64] => {
        let x = case.tensor::<T>(case.arg(0))?;
        let rows = x.view()?.to_shape([spec.numel() / inner.max(1), inner])?;
        let part = |at, name| if case.get(at, name).is_null() {
            Ok(None)
        } else {
            case.operand::<T>(case.get(at, name)).map(Some)
        };
        let rows = rows_normalized(&rows, real_or(case.kw("eps"), 1e-5)?)?;
        scaled(rows, part(2, "weight")?, part(3, "bias")?, spec.size)
    })
}
/// Rows brought to mean 0 and variance 1.
pub fn rows_normalized<T: Seen + Float, D: CaseDevice>(
    rows: &Tensor<T, 2, D>,
    epsilon: f64,
) -> Result<Tensor<T, 2, D>, Stop> {
    Ok(rows.layer_norm(Axis::<1>, T::from_f64(epsilon))?)
}
/// `rows · weight + bias`, both one row.
pub fn scaled<T: Seen + Float, D: CaseDevice>(
    rows: Tensor<T, 2, D>,
    weight: Option<Operand<T, D>>,
    bias: Option<Operand<T, D>>,
    size: Vec<usize>,
) -> Run {
    let mut y = rows;
    let n = y.size()[1];
    let largest = |x: &Tensor<T, 2, D>| {
        let values = x.to_vec().unwrap_or_default().into_iter();
        values.map(|x| x.scalar().magnitude()).filter(|x| x.is_finite()).fold(1.0, f64::max)
    };
    let mut magnitude = largest(&y);
    if let Some(weight) = weight {
        let weight = weight.view()?.to_shape([1, n])?;
        magnitude *= largest(&weight);
        y = y.mul(&weight)?;
    }
    if let Some(bias) = bias {
        let bias = bias.view()?.to_shape([1, n])?;
        magnitude += largest(&bias);
        y = y.add(&bias)?;
    }
    let out = Out::of(y.view());
    let magnitude = vec![magnitude; out.values.len()];
    Ok(vec![Out { magnitude: Some(magnitude), ..out.rounded(4.0) }.sized(size)])
}

elementwise! {
    fn squared_difference(x, y) { (x - y) * (x - y) }
}

/// A difference of predictions and targets: each, their sum or their mean, in one pass.
macro_rules! losses {
    ($($name:ident [$($complex:ident)?] |$x:ident, $y:ident| $each:expr;)*) => { $(
        fn $name<D: CaseDevice>(case: &Case<D>) -> Run {
            case.only(&["reduction"])?;
            if let (Ok(x), Ok(y)) = (case.spec(0), case.spec(1)) && x.rank() != y.rank() {
                return unrun("does not compile: other ranks");
            }
            by_type!(case.spec(0)?.dtype, T in [f16 bf16 f32 f64 $($complex)?] => {
                let (x, y) = (case.tensor::<T>(case.arg(0))?, case.tensor::<T>(case.arg(1))?);
                let ($x, $y) = (x.view()?.lazy(), y.view()?.lazy());
                let each = $each;
                let size = case.spec(0)?.size;
                match case.kw("reduction").as_str() {
                    Some("none") => Ok(vec![Out::of(each.eval()?.view()).sized(size)]),
                    Some("sum") => Ok(vec![Out::of(each.sum(All)?.view())]),
                    Some("mean") | None => Ok(vec![Out::of(each.mean(All)?.view())]),
                    _ => unrun("does not compile: no such reduction"),
                }
            })
        }
    )* };
}
losses! {
    squares [] |x, y| x.zip(squared_difference, y);
    absolutes [c64] |x, y| (x - y).modulus();
}

/// Rows of operators with gradients.
pub fn rows<D: CaseDevice>() -> Vec<Row<D>> {
    let rows: &[Row<D>] = &[
        ("softmax", shares),
        ("softmax.with_dtype", shares),
        ("log_softmax", shares),
        ("log_softmax.with_dtype", shares),
        ("nn.functional.softmin", shares),
        ("nn.functional.layer_norm", layer_norm),
        ("nn.functional.mse_loss", squares),
        ("nn.functional.l1_loss", absolutes),
    ];
    rows.to_vec()
}
