//! Whether a result is right: shapes, integers, booleans and moved elements exactly, floats against the true
//! value.
//!
//! A float is right when it is the reference's own, or off the truth by no more than 4 units in the last
//! place, the operator's documented budget or the reference's own worst error, whichever is most. Sums may be
//! off by a few roundings of their terms. The truth is the reference's result in double precision where the
//! file has one.

use crate::case::{Case, CaseDevice, Out, Scalar, Spec};
use rankform::scalar::DType;

/// Bits of the fraction, and the exponent of the smallest number, of a float or of the parts of a complex
/// number.
fn format(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F16 => (10, -24),
        DType::BF16 => (7, -133),
        DType::F32 | DType::C32 => (23, -149),
        _ => (52, -1074),
    }
}

/// The unit in the last place of a number as large as `x`.
fn unit(dtype: DType, x: f64) -> f64 {
    let (fraction, least) = format(dtype);
    let exponent = if x == 0.0 || !x.is_finite() {
        least
    } else {
        (x.abs().log2().floor() as i32 - fraction).max(least)
    };
    2f64.powi(exponent)
}

/// Whether `found` is near enough to `truth`; the reference has `given`.
fn near(dtype: DType, found: f64, given: f64, truth: f64, ulp: f64, magnitude: f64) -> bool {
    if found == given || found.is_nan() && given.is_nan() {
        return true;
    }
    if !found.is_finite() || !given.is_finite() || !truth.is_finite() {
        // At the end of the range one unit decides between the largest number and infinity.
        let largest = match dtype {
            DType::F16 => 65504.0,
            DType::BF16 => 3.3895313892515355e38,
            DType::F32 | DType::C32 => f32::MAX as f64,
            _ => f64::MAX,
        };
        let capped = |x: f64| x.clamp(-largest, largest);
        return ulp > 0.0
            && !found.is_nan()
            && !given.is_nan()
            && (capped(found) - capped(given)).abs() <= ulp * unit(dtype, largest);
    }
    // 16-bit floats are computed in single precision.
    let step = if dtype == DType::F64 || dtype == DType::C64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let allowed = ulp * unit(dtype, if truth == given { truth.abs().max(found.abs()) } else { truth })
        + 4.0 * step * magnitude;
    (found - truth).abs() <= allowed
}

/// Compares the results of a case with the reference's; describes the difference.
pub fn judge<D: CaseDevice>(case: &Case<D>, found: &[Out]) -> Result<(), String> {
    let Some(expected) = case.expected() else { return plain(case, found) };
    if expected.len() != found.len() {
        return Err(format!("{} results, expected {}", found.len(), expected.len()));
    }
    found.iter().enumerate().try_for_each(|(k, out)| one(case, k, out))
}

/// Compares one of the results.
pub fn one<D: CaseDevice>(case: &Case<D>, k: usize, found: &Out) -> Result<(), String> {
    let Some(spec) = case.expected().and_then(|all| all.into_iter().nth(k).flatten()) else { return Ok(()) };
    let truth = case.json["out64"].get(k).and_then(Spec::of).map(|truth| case.values(&truth));
    compare(case, found, &spec, truth).map_err(|wrong| format!("result {k}: {wrong}"))
}

fn compare<D: CaseDevice>(
    case: &Case<D>,
    out: &Out,
    spec: &Spec,
    truth: Option<Vec<Scalar>>,
) -> Result<(), String> {
    if out.dtype != spec.dtype {
        return Err(format!("element {}, expected {}", out.dtype, spec.dtype));
    }
    let new = out.size.len().saturating_sub(spec.rank());
    if out.size[..new].iter().any(|&n| n != 1) || out.size[new..] != spec.size {
        return Err(format!("sizes {:?}, expected {:?}", out.size, spec.size));
    }
    if let Some((stride, offset)) = &out.layout {
        // A step along an axis of one position or none, and the place of nothing, say nothing.
        let steps = |stride: &[isize]| {
            let decides = |axis: &usize| spec.numel() > 0 && spec.size[*axis] > 1;
            (0..spec.rank()).filter(decides).map(|axis| stride[axis]).collect::<Vec<_>>()
        };
        if steps(&stride[new..]) != steps(&spec.stride) || spec.numel() > 0 && *offset != spec.offset {
            return Err(format!(
                "strides {stride:?} from {offset}, expected {:?} from {}",
                spec.stride, spec.offset
            ));
        }
    }
    let given = case.values(spec);
    let reference = case.json["ulp"].as_f64().unwrap_or(0.0);
    // Without a truth, 16-bit results may be off by the reference's error, and by their own rounding.
    let narrow = matches!(spec.dtype, DType::F16 | DType::BF16);
    let ulp = if out.budget == 0.0 {
        0.0
    } else {
        if narrow { 1.0 + reference } else { reference.max(out.budget) }
    };
    for (at, (&found, &given)) in out.values.iter().zip(&given).enumerate() {
        let truth = truth.as_ref().map_or(given, |truth| truth[at]);
        let magnitude = out.magnitude.as_ref().map_or(0.0, |magnitude| magnitude[at]);
        let magnitude = if narrow {
            magnitude * (1.0 + out.roundings * 2f64.powi(20 - format(spec.dtype).0))
        } else {
            magnitude
        };
        let right = match (found, given, truth) {
            (Scalar::Real(found), Scalar::Real(given), Scalar::Real(truth)) => {
                near(spec.dtype, found, given, truth, ulp, magnitude)
            }
            (
                Scalar::Complex(re, im),
                Scalar::Complex(given_re, given_im),
                Scalar::Complex(true_re, true_im),
            ) => {
                // The parts of a product are sums: each may be off in proportion to the whole.
                let size = if ulp == 0.0 { 0.0 } else { true_re.hypot(true_im) };
                let magnitude = if size.is_finite() { magnitude + size } else { magnitude };
                near(spec.dtype, re, given_re, true_re, ulp, magnitude)
                    && near(spec.dtype, im, given_im, true_im, ulp, magnitude)
            }
            (found, given, _) => found == given,
        };
        if !right {
            return Err(format!(
                "element {at} of {:?} is {found:?}, expected {given:?}, truth {truth:?} (± {ulp} ulp)",
                spec.size
            ));
        }
    }
    Ok(())
}

/// A result that is not a tensor: a truth value.
fn plain<D: CaseDevice>(case: &Case<D>, found: &[Out]) -> Result<(), String> {
    let expected = case.json["outv"]
        .as_array()
        .map(|values| values.iter().map(|value| value.as_bool()).collect::<Vec<_>>());
    let found: Vec<_> =
        found.iter().map(|out| (out.values == [Scalar::Integer(1)]) as u8 != 0).map(Some).collect();
    if expected.as_ref() == Some(&found) { Ok(()) } else { Err(format!("{found:?}, expected {expected:?}")) }
}
