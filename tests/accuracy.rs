//! Every named function stays within its published error budget: against `pxfm`, over the whole `f32` range and over random `f64`.
//!
//! In a debug build every 65 537th `f32` is tried, in an optimised one every 509th.

use rankform::ops::functions::*;
use rankform::scalar::{Function, Lane, Run};

/// A prime step through the bit patterns.
const STRIDE: usize = if cfg!(debug_assertions) { 65_537 } else { 509 };
const SAMPLES: usize = if cfg!(debug_assertions) { 20_000 } else { 200_000 };

fn run<F: Function<1>>(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = F::value::<Run, f32>([Lane::from_raw(*x)]).value();
    }
}

fn run_f64<F: Function<1>>(x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = F::value::<Run, f64>([Lane::from_raw(*x)]).value();
    }
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    f32: fn(&[f32], &mut [f32]),
    f64: fn(&[f64], &mut [f64]),
    truth: fn(f64) -> f64,
    budget: [f64; 2],
    /// The `f64` inputs tried: `|x|` from 10^a to 10^b, and evenly up to c.
    range: (f64, f64, f64),
}

macro_rules! cases {
    ($($name:literal $f:ident $truth:ident $range:expr;)*) => {
        [$(Case { name: $name, f32: run::<$f>, f64: run_f64::<$f>, truth: pxfm::$truth, budget: [$f::ULP_F32, $f::ULP_F64], range: $range }),*]
    };
}

fn cases() -> Vec<Case> {
    Vec::from(cases! {
        "exp" ExpFn f_exp (-20.0, 3.0, 745.0);
        "exp2" Exp2Fn f_exp2 (-20.0, 3.1, 1075.0);
        "exp_m1" ExpM1Fn f_expm1 (-20.0, 3.0, 3.0);
        "ln" LnFn f_log (-323.0, 308.0, 2.0);
        "log2" Log2Fn f_log2 (-323.0, 308.0, 2.0);
        "log10" Log10Fn f_log10 (-323.0, 308.0, 2.0);
        "ln_1p" Ln1pFn f_log1p (-20.0, 308.0, 2.0);
        "tanh" TanhFn f_tanh (-20.0, 2.0, 3.0);
        "sin" SinFn f_sin (-20.0, 13.5, 10.0);
        "cos" CosFn f_cos (-20.0, 13.5, 10.0);
        "erf" ErfFn f_erf (-20.0, 1.0, 6.0);
        "erfc" ErfcFn f_erfc (-20.0, 1.45, 6.0);
        "cbrt" CbrtFn f_cbrt (-323.0, 308.0, 10.0);
        "sinh" SinhFn f_sinh (-20.0, 2.9, 3.0);
        "cosh" CoshFn f_cosh (-20.0, 2.9, 3.0);
        "asinh" AsinhFn f_asinh (-20.0, 308.0, 3.0);
        "acosh" AcoshFn f_acosh (-1.0, 308.0, 5.0);
        "atanh" AtanhFn f_atanh (-20.0, 0.0, 1.0);
        "asin" AsinFn f_asin (-20.0, 0.0, 1.0);
        "acos" AcosFn f_acos (-20.0, 0.0, 1.0);
        "atan" AtanFn f_atan (-20.0, 20.0, 4.0);
        "tan" TanFn f_tan (-20.0, 13.5, 10.0);
    })
}

fn same_class(y: f64, truth: f64) -> bool {
    if truth.is_nan() { y.is_nan() } else { y == truth && y.is_sign_negative() == truth.is_sign_negative() }
}

/// The error of `y` in units in the last place of `truth`, where a unit is `2^-fraction` of the binade, at least `least`.
fn ulps(y: f64, truth: f64, fraction: i32, least: f64) -> f64 {
    let exponent = ((truth.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let unit = if exponent - fraction < -1022 { least } else { 2f64.powi(exponent - fraction).max(least) };
    (y - truth).abs() / unit
}

#[test]
fn f32_functions_stay_within_their_budgets() {
    let corners = [
        0.0,
        1.0,
        0.5,
        2.0,
        1e-45,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        88.72284,
        88.72283,
        103.97208,
        87.33655,
        0.70710677,
        0.70710678,
        1.0000001,
        0.99999994,
    ];
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(STRIDE).map(f32::from_bits).collect();
    x.extend(corners.iter().flat_map(|x| [*x, -*x]));
    let mut y = vec![0.0; x.len()];
    let mut failed = vec![];
    for case in cases() {
        (case.f32)(&x, &mut y);
        let mut worst = (0.0, 0.0);
        for (x, y) in x.iter().zip(&y) {
            let truth = (case.truth)(*x as f64);
            let rounded = truth as f32;
            let error = if !rounded.is_finite() || !y.is_finite() {
                // An overflow that rounding decides counts as one unit.
                if same_class(*y as f64, rounded as f64) {
                    0.0
                } else {
                    ulps((*y as f64).clamp(-2f64.powi(128), 2f64.powi(128)), truth, 23, 1.0)
                }
            } else if rounded == 0.0 && *y == 0.0 {
                if y.is_sign_negative() == truth.is_sign_negative() { 0.0 } else { f64::INFINITY }
            } else {
                ulps(*y as f64, truth, 23, 2f64.powi(-149))
            };
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if error > worst.0 {
                worst = (error, *x);
            }
        }
        println!("{:8} f32 {:.3} ulp at {:e}", case.name, worst.0, worst.1);
        if !(worst.0 <= case.budget[0]) {
            failed.push((case.name, worst));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
