//! Elements as strings of one width, digit for digit as NumPy 2.4 prints them.
//!
//! Floats have the fewest digits that distinguish them from their neighbors, cut off at the precision; all
//! numbers of an array are positional or all are scientific.
// Imports: `dtype`, `element`.

use super::Cell;
use crate::dtype::DType;
use crate::element::float8::Float8;
use crate::element::{bf16, f16};

/// The elements of one array as strings of the same width.
pub(super) fn aligned(kind: DType, values: &[Cell], precision: usize) -> Vec<String> {
    match kind {
        DType::Bool => values
            .iter()
            .map(|&value| if value.whole == 0 { "False".into() } else { " True".into() })
            .collect(),
        _ if kind.is_complex() => {
            let (re, im): (Vec<f64>, Vec<f64>) = values.iter().map(|&value| value.parts).unzip();
            let (left, right) =
                (Column::new(kind, precision, false, &re), Column::new(kind, precision, true, &im));
            let pairs = re.into_iter().zip(im).map(|(re, im)| (left.word(re), right.word(im)));
            pairs
                .map(|(re, im)| {
                    format!("{re}{:<width$}", format!("{}j", im.trim_end()), width = im.len() + 1)
                })
                .collect()
        }
        kind if kind.is_discrete() || kind.is_quantized() => {
            let numbers: Vec<String> = values.iter().map(|&value| value.whole.to_string()).collect();
            let width = numbers.iter().map(String::len).max().unwrap_or(0);
            numbers.into_iter().map(|number| format!("{number:>width$}")).collect()
        }
        kind => {
            let values: Vec<f64> = values.iter().map(|&value| value.parts.0).collect();
            let column = Column::new(kind, precision, false, &values);
            values.into_iter().map(|value| column.word(value)).collect()
        }
    }
}

/// The only element of a tensor without axes, with all its digits.
pub(super) fn scalar(kind: DType, value: Cell) -> String {
    match kind {
        DType::Bool => if value.whole == 0 { "False" } else { "True" }.into(),
        kind if kind.is_complex() => match value.parts {
            (re, im) if re == 0.0 && re.is_sign_positive() => format!("{}j", standalone(kind, im, "", false)),
            (re, im) => format!("({}{}j)", standalone(kind, re, "", false), standalone(kind, im, "", true)),
        },
        kind if kind.is_discrete() || kind.is_quantized() => value.whole.to_string(),
        kind => standalone(kind, value.parts.0, ".0", false),
    }
}

/// A number without padding, followed by `end` if it has no fraction.
fn standalone(kind: DType, value: f64, end: &str, plus: bool) -> String {
    if !value.is_finite() {
        return not_finite(value, plus);
    }
    let is_positional =
        value == 0.0 || (1e-4..if decimals(kind) == 15 { 1e16 } else { limit(kind) }).contains(&value.abs());
    let Decimal { int, frac, exp } = decimal(kind, value, usize::MAX, !is_positional, plus);
    match (is_positional, frac.is_empty()) {
        (true, true) => int + end,
        (true, false) => format!("{int}.{frac}"),
        (false, true) => format!("{int}e{exp:+03}"),
        (false, false) => format!("{int}.{frac}e{exp:+03}"),
    }
}

fn not_finite(value: f64, plus: bool) -> String {
    let sign = if value == f64::NEG_INFINITY { "-" } else { ["", "+"][plus as usize] };
    format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" })
}

/// The number of decimal digits that every number of this kind keeps.
fn decimals(kind: DType) -> i32 {
    match kind {
        float8 if float8.is_float8() => 1,
        DType::BF16 => 2,
        DType::F16 | DType::C16 => 3,
        DType::F32 | DType::C32 => 6,
        _ => 15,
    }
}

/// From this magnitude on, an array is scientific.
fn limit(kind: DType) -> f64 {
    10_f64.powi(decimals(kind).min(8))
}

/// The nearest number of this kind.
fn rounded(kind: DType, value: f64) -> f64 {
    match kind {
        DType::F16 | DType::C16 => f16::from_f64(value).into(),
        DType::BF16 => bf16::from_f64(value).into(),
        DType::F32 | DType::C32 => value as f32 as f64,
        other => Float8::of(other).map_or(value, |float8| (float8.rounded)(value as f32).into()),
    }
}

/// The decimal parts of a number; the sign is in `int`.
struct Decimal {
    int: String,
    frac: String,
    exp: i32,
}

impl Decimal {
    /// From a magnitude, for example `1.25` or `1.25e-7`.
    fn of(text: &str, is_negative: bool, plus: bool) -> Self {
        let (number, exp) = text.split_once('e').unwrap_or((text, "0"));
        let (int, frac) = number.split_once('.').unwrap_or((number, ""));
        let sign = if is_negative { "-" } else { ["", "+"][plus as usize] };
        Decimal { int: format!("{sign}{int}"), frac: frac.into(), exp: exp.parse().unwrap_or(0) }
    }
}

/// The fewest digits that round to this number only, as `1.25e-7`; of two candidates the nearer, then the
/// even one.
fn shortest(kind: DType, magnitude: f64) -> String {
    let is_it = |text: &str| text.parse().is_ok_and(|parsed| rounded(kind, parsed) == magnitude);
    if decimals(kind) > 3 {
        let found =
            if decimals(kind) == 6 { format!("{:e}", magnitude as f32) } else { format!("{magnitude:e}") };
        let digits = found.find('e').unwrap_or(0).saturating_sub(2);
        let even = format!("{magnitude:.digits$e}");
        return if is_it(&even) { even } else { found };
    }
    // The nearest candidate may round to another number, and the one on the other side to this: below a power
    // of 2 numbers are denser.
    let found = (0..5).find_map(|digits| {
        let near = format!("{magnitude:.digits$e}");
        let (parsed, exp) = (near.parse::<f64>().ok()?, near.split_once('e')?.1.parse::<i32>().ok()?);
        let other = parsed + 10_f64.powi(exp - digits as i32).copysign(magnitude - parsed);
        [near, format!("{other:.digits$e}")].into_iter().find(|text| is_it(text))
    });
    found.unwrap_or_else(|| format!("{magnitude:e}"))
}

/// A finite number with the fewest digits that distinguish it from its neighbors, at most `precision` after
/// the point; without zeros at its end.
fn decimal(kind: DType, value: f64, precision: usize, scientific: bool, plus: bool) -> Decimal {
    let magnitude = value.abs();
    let shortest = shortest(kind, magnitude);
    let (digits, exp) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (digits, exp) = (digits.replace('.', ""), exp.parse::<i32>().unwrap_or(0));
    let after = if scientific { digits.len() - 1 } else { (digits.len() as i32 - 1 - exp).max(0) as usize };
    let text = match (after > precision, scientific) {
        (true, true) => format!("{magnitude:.precision$e}"), // rounded once, from the number itself
        (true, false) => format!("{magnitude:.precision$}"),
        (false, true) => format!("{}.{}e{exp}", &digits[..1], &digits[1..]),
        (false, false) if exp < 0 => format!("0.{}{digits}", "0".repeat((-1 - exp) as usize)),
        (false, false) => {
            let point = exp as usize + 1;
            let digits = format!("{digits:0<point$}");
            format!("{}.{}", &digits[..point], &digits[point..])
        }
    };
    let mut decimal = Decimal::of(&text, value.is_sign_negative(), plus);
    decimal.frac.truncate(decimal.frac.trim_end_matches('0').len());
    decimal
}

/// The format of the numbers of one array.
struct Column {
    kind: DType,
    precision: usize,
    plus: bool,
    /// Digits of the exponent, when the array is scientific.
    exponent: Option<usize>,
    /// Columns before the point and after it; an exponent counts as after it.
    left: usize,
    right: usize,
}

impl Column {
    fn new(kind: DType, precision: usize, plus: bool, values: &[f64]) -> Column {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let sizes = || finite().map(f64::abs).filter(|&value| value != 0.0);
        let (max, min) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
        let is_wide = max >= limit(kind) || min < rounded(kind, 1e-4) || rounded(kind, max / min) > 1000.0;
        let is_scientific = max != 0.0 && is_wide;
        let mut column = Column { kind, precision, plus, exponent: None, left: 0, right: 0 };
        let (mut exponent, mut fraction) = (2, 0);
        for value in finite() {
            let Decimal { int, frac, exp } = decimal(kind, value, precision, is_scientific, plus);
            column.left = column.left.max(int.len());
            fraction = fraction.max(frac.len());
            exponent = exponent.max(exp.unsigned_abs().to_string().len());
        }
        column.right = fraction;
        if is_scientific {
            (column.precision, column.exponent, column.right) =
                (fraction, Some(exponent), fraction + exponent + 2);
        }
        if values.iter().any(|value| !value.is_finite()) {
            let sign = plus || values.contains(&f64::NEG_INFINITY);
            column.left = column.left.max((3 + sign as usize).saturating_sub(column.right + 1));
        }
        column
    }

    fn word(&self, value: f64) -> String {
        let Column { kind, precision, plus, exponent, left, right } = *self;
        if !value.is_finite() {
            return format!("{:>width$}", not_finite(value, plus), width = left + right + 1);
        }
        let mut number = decimal(kind, value, precision, exponent.is_some(), plus);
        let Some(digits) = exponent else {
            return format!("{:>left$}.{:<right$}", number.int, number.frac);
        };
        if number.frac.len() < precision {
            // As many digits as the longest number has: a shorter one is extended by its own digits, not by
            // zeros.
            number = Decimal::of(&format!("{:.precision$e}", value.abs()), value.is_sign_negative(), plus);
        }
        format!("{:>left$}.{}e{:+0width$}", number.int, number.frac, number.exp, width = digits + 1)
    }
}
