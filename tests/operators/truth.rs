//! The meaning of each elementwise operator, written a second time: in f64 by other libraries for real
//! numbers, in i128 for integers, by the standard library for booleans.
//!
//! An operator without a row here still passes through everything else in `table.rs`.

use crate::value::{Exact, Value, unit};
use rankform::scalar::DType;

/// The expected result: exact, or within some units in the last place.
pub struct BoolElement {
    pub exact: Exact,
    pub ulp: f64,
}

/// How far a function of the maths library may be off; the oracle's own rounding is half a unit.
const FUNCTION: f64 = 1.5;

/// The truth about one value, where it is known here.
pub fn truth<T: Value>(name: &str, x: T, y: T) -> Option<BoolElement> {
    let sure = |exact| Some(BoolElement { exact, ulp: 0.0 });
    match (x.exact(), y.exact()) {
        (Exact::Real(x), Exact::Real(y)) => {
            if let Some(truth) = compared(name, x.partial_cmp(&y)).or_else(|| classified(name, x)) {
                return sure(Exact::BoolElement(truth));
            }
            real::<T>(name, x, y)
        }
        (Exact::Integer(x), Exact::Integer(y)) => {
            if let Some(truth) = compared(name, x.partial_cmp(&y)).or((name == "is_nan").then_some(false)) {
                return sure(Exact::BoolElement(truth));
            }
            sure(Exact::Integer(wrapped::<T>(whole(name, x, y, 8 * size_of::<T>() as i128)?)))
        }
        (Exact::BoolElement(x), Exact::BoolElement(y)) => sure(Exact::BoolElement(match name {
            "bit_and" => x && y,
            "bit_or" => x || y,
            "bit_xor" | "not_equal" => x != y,
            "equal" => x == y,
            "not" => !x,
            _ => return None,
        })),
        (Exact::Complex(a, b), Exact::Complex(c, d)) => {
            let exact = match name {
                "equal" => return sure(Exact::BoolElement(a == c && b == d)),
                "not_equal" => return sure(Exact::BoolElement(a != c || b != d)),
                "add" => (a + c, b + d),
                "sub" => (a - c, b - d),
                "mul" => (a * c - b * d, a * d + b * c),
                "div" => ((a * c + b * d) / (c * c + d * d), (b * c - a * d) / (c * c + d * d)),
                "neg" => (-a, -b),
                "square" => (a * a - b * b, 2.0 * a * b),
                _ => return None,
            };
            // Infinities and NaNs of complex numbers have no standard.
            let finite = [a, b, c, d, exact.0, exact.1].iter().all(|part| part.is_finite());
            finite.then_some(BoolElement { exact: Exact::Complex(exact.0, exact.1), ulp: 8.0 })
        }
        _ => None,
    }
}

fn compared(name: &str, order: Option<std::cmp::Ordering>) -> Option<bool> {
    Some(match name {
        "equal" => order.is_some_and(|order| order.is_eq()),
        "not_equal" => !order.is_some_and(|order| order.is_eq()),
        "less" => order.is_some_and(|order| order.is_lt()),
        "less_equal" => order.is_some_and(|order| order.is_le()),
        "greater" => order.is_some_and(|order| order.is_gt()),
        "greater_equal" => order.is_some_and(|order| order.is_ge()),
        _ => return None,
    })
}

fn classified(name: &str, x: f64) -> Option<bool> {
    Some(match name {
        "is_nan" => x.is_nan(),
        "is_finite" => x.is_finite(),
        "is_infinite" => x.is_infinite(),
        _ => return None,
    })
}

fn divisor(x: i128, y: i128) -> i128 {
    if y == 0 { x.abs() } else { divisor(y, x % y) }
}

fn whole(name: &str, x: i128, y: i128, width: i128) -> Option<i128> {
    Some(match name {
        "shl" if !(0..width).contains(&y) => 0,
        "shl" => x << y,
        "shr" => x >> if (0..width).contains(&y) { y } else { 127 },
        "fmax" => x.max(y),
        "fmin" => x.min(y),
        "heaviside" => {
            if x == 0 {
                y
            } else {
                (x > 0) as i128
            }
        }
        "gcd" => divisor(x, y),
        "lcm" => {
            if x == 0 || y == 0 {
                0
            } else {
                let product = (x / divisor(x, y)).checked_mul(y)?.abs();
                (product < 1 << (width - 1)).then_some(product)?
            }
        }
        "add" => x + y,
        "sub" => x - y,
        "mul" => x.wrapping_mul(y),
        "div" => x.checked_div(y).unwrap_or(0),
        "rem" => x.checked_rem(y).unwrap_or(0),
        "maximum" => x.max(y),
        "minimum" => x.min(y),
        "neg" => -x,
        "square" => x.wrapping_mul(x),
        "abs" => x.abs(),
        "signum" => x.signum(),
        "relu" => x.max(0),
        "bit_and" => x & y,
        "bit_or" => x | y,
        "bit_xor" => x ^ y,
        "not" => !x,
        _ => return None,
    })
}

/// `x` modulo two to the width of `T`, in its range.
fn wrapped<T: Value>(x: i128) -> i128 {
    let bits = 8 * size_of::<T>() as u32;
    let low = x & ((1i128 << bits) - 1);
    let signed = [DType::I8, DType::I16, DType::I32, DType::I64].contains(&T::DTYPE);
    if signed && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

/// A maximum of IEEE 754-2019; of the negatives it is the minimum.
fn maximum(x: f64, y: f64) -> f64 {
    match x.partial_cmp(&y) {
        None => f64::NAN,
        Some(std::cmp::Ordering::Less) => y,
        Some(std::cmp::Ordering::Greater) => x,
        _ if x.is_sign_negative() => y,
        _ => x,
    }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}
fn softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { pxfm::f_log1p(x.exp()) }
}
/// `x` times a factor that goes to 0 faster as `x` goes to −∞.
fn gated(x: f64, gate: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * gate }
}

/// Compositions of several functions.
fn composed(name: &str, x: f64) -> Option<f64> {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    Some(match name {
        "sigmoid" => sigmoid(x),
        "log_sigmoid" => -softplus(-x),
        "silu" => gated(x, sigmoid(x)),
        "softplus" => softplus(x),
        "gelu" => gated(x, 0.5 * pxfm::f_erfc(-x / std::f64::consts::SQRT_2)),
        "gelu_tanh" => gated(x, sigmoid(2.0 * u)),
        "mish" => gated(x, pxfm::f_tanh(softplus(x))),
        "elu" => {
            if x > 0.0 {
                x
            } else {
                pxfm::f_expm1(x)
            }
        }
        "softsign" => x / (1.0 + x.abs()),
        "hard_sigmoid" => {
            if x.is_nan() {
                x
            } else {
                (x / 6.0 + 0.5).clamp(0.0, 1.0)
            }
        }
        "rsqrt" => 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// Functions of the maths library.
fn function(name: &str, x: f64, y: f64) -> Option<f64> {
    Some(match name {
        "exp" => pxfm::f_exp(x),
        "exp2" => pxfm::f_exp2(x),
        "exp_m1" => pxfm::f_expm1(x),
        "ln" => pxfm::f_log(x),
        "log2" => pxfm::f_log2(x),
        "log10" => pxfm::f_log10(x),
        "ln_1p" => pxfm::f_log1p(x),
        "sin" => pxfm::f_sin(x),
        "cos" => pxfm::f_cos(x),
        "tan" => pxfm::f_tan(x),
        "asin" => pxfm::f_asin(x),
        "acos" => pxfm::f_acos(x),
        "atan" => pxfm::f_atan(x),
        "sinh" => {
            if x == 0.0 {
                x
            } else {
                pxfm::f_sinh(x)
            }
        }
        "cosh" => pxfm::f_cosh(x),
        "tanh" => pxfm::f_tanh(x),
        "asinh" => pxfm::f_asinh(x),
        "acosh" => pxfm::f_acosh(x),
        "atanh" => pxfm::f_atanh(x),
        "erf" => pxfm::f_erf(x),
        "erfc" => pxfm::f_erfc(x),
        "cbrt" => pxfm::f_cbrt(x),
        "powf" => x.powf(y),
        "atan2" => x.atan2(y),
        "hypot" => pxfm::f_hypot(x, y),
        _ => return None,
    })
}

/// A result that is rounded once, or exact.
fn rounded_once(name: &str, x: f64, y: f64) -> Option<f64> {
    Some(match name {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "rem" => x % y,
        "maximum" => maximum(x, y),
        "minimum" => -maximum(-x, -y),
        "fmax" | "fmin" if x.is_nan() => y,
        "fmax" | "fmin" if y.is_nan() => x,
        "fmax" => maximum(x, y),
        "fmin" => -maximum(-x, -y),
        "heaviside" => {
            if x.is_nan() {
                x
            } else if x == 0.0 {
                y
            } else {
                (x > 0.0) as u8 as f64
            }
        }
        "l1_loss" => (x - y).abs(),
        "neg" => -x,
        "square" => x * x,
        "recip" => 1.0 / x,
        "abs" => x.abs(),
        "signum" => {
            if x == 0.0 {
                0.0
            } else {
                x.signum()
            }
        }
        "relu" => maximum(x, 0.0),
        "leaky_relu" => {
            if x > 0.0 {
                x
            } else {
                x * y
            }
        }
        "sqrt" => x.sqrt(),
        "round" => x.round_ties_even(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "trunc" => x.trunc(),
        "copysign" => x.copysign(y),
        _ => return None,
    })
}

fn real<T: Value>(name: &str, x: f64, y: f64) -> Option<BoolElement> {
    // 16-bit floats round once more, from f32.
    let narrow = 2f64.powi(T::FRACTION - 23).min(1.0);
    let at_end = if T::FRACTION < 23 { 0.5 + 1e-3 } else { 0.0 };
    if let Some(truth) = rounded_once(name, x, y) {
        let ulp = if T::DTYPE == DType::F64 { 0.0 } else { 0.5 + 1e-3 };
        return Some(BoolElement { exact: Exact::Real(truth), ulp });
    }
    if let Some(truth) = function(name, x, y) {
        return Some(BoolElement { exact: Exact::Real(truth), ulp: FUNCTION * narrow + at_end });
    }
    let truth = composed(name, x)?;
    // A body rounds its intermediate values: as if `x` were off by some units, and an underflow by one.
    let step = 1e-6;
    let moved =
        composed(name, x * (1.0 + step)).map_or(0.0, |moved| (moved - truth).abs() / (step * truth.abs()));
    let condition = if moved.is_finite() { moved } else { 0.0 };
    let underflow = if truth.abs() < f64::MAX { x.abs().max(1.0) * T::LEAST / unit::<T>(truth) } else { 0.0 };
    Some(BoolElement {
        exact: Exact::Real(truth),
        ulp: (3.0 + 4.0 * condition + underflow) * narrow + at_end,
    })
}
