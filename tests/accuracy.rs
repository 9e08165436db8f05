//! Every named function stays within its published error budget, is right at special values, and has the slope it says.
//!
//! The oracle of `f32` is `pxfm` in `f64` (for `pow` and `atan2` the standard library: `pxfm` 0.1.30 has NaN for pow(1e308, -0.5)),
//! over every 509th bit pattern (every 65 537th in a debug build). `f64` is compared with
//! `pxfm` on random inputs, and with `tests/hard_f64.txt`, where the truth has more digits: the inputs on which these bodies
//! were found to err most, and some others, evaluated with MPFR to 160 bits.

use rankform::ops::functions::*;
use rankform::scalar::{Function, Lane, Real, Run};

const DEBUG: bool = cfg!(debug_assertions);
/// A prime step through the bit patterns of `f32`.
const STRIDE: usize = if DEBUG { 65_537 } else { 61 };
const SAMPLES: usize = if DEBUG { 5_000 } else { 200_000 };

/// A function of one variable.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    f32: fn(&[f32]) -> Vec<f32>,
    f64: fn(&[f64]) -> Vec<f64>,
    slope: fn(f64) -> f64,
    truth: fn(f64) -> f64,
    budget: [f64; 2],
    /// The `f64` inputs tried: `|x|` from 10^a to 10^b, and evenly from -c to c.
    range: (f64, f64, f64),
}

/// A function of two variables; both have the same kind of range.
#[derive(Clone, Copy)]
struct Case2 {
    name: &'static str,
    f32: fn(&[f32], &[f32]) -> Vec<f32>,
    f64: fn(&[f64], &[f64]) -> Vec<f64>,
    slope: fn(f64, f64) -> [f64; 2],
    truth: fn(f64, f64) -> f64,
    budget: [f64; 2],
    range: (f64, f64, f64),
}

fn apply<F: Function<1>, P: Real>(x: &[P]) -> Vec<P> {
    x.iter().map(|x| F::value::<Run, P>([Lane::from_raw(*x)]).value()).collect()
}

fn apply2<F: Function<2>, P: Real>(x: &[P], y: &[P]) -> Vec<P> {
    x.iter().zip(y).map(|(x, y)| F::value::<Run, P>([Lane::from_raw(*x), Lane::from_raw(*y)]).value()).collect()
}

fn slope<F: Function<1>>(x: f64) -> f64 {
    let x = Lane::<Run, f64>::from_raw(x);
    F::slope([x], F::value([x]))[0].value()
}

fn slope2<F: Function<2>>(x: f64, y: f64) -> [f64; 2] {
    let x = [x, y].map(Lane::<Run, f64>::from_raw);
    F::slope(x, F::value(x)).map(Lane::value)
}

/// `pxfm` loses the sign of zero here.
fn sinh(x: f64) -> f64 {
    if x == 0.0 { x } else { pxfm::f_sinh(x) }
}

macro_rules! cases {
    ($case:ident $apply:ident $slope:ident; $($name:literal $f:ident $truth:path, $range:expr;)*) => {
        [$($case {
            name: $name,
            f32: $apply::<$f, f32>,
            f64: $apply::<$f, f64>,
            slope: $slope::<$f>,
            truth: $truth,
            budget: [$f::ULP_F32, $f::ULP_F64],
            range: $range,
        }),*]
    };
}

const UNARY: [Case; 22] = cases! { Case apply slope;
    "exp" ExpFn pxfm::f_exp, (-20.0, 3.0, 745.0);
    "exp2" Exp2Fn pxfm::f_exp2, (-20.0, 3.1, 1075.0);
    "expm1" ExpM1Fn pxfm::f_expm1, (-20.0, 3.0, 3.0);
    "log" LnFn pxfm::f_log, (-323.0, 308.0, 2.0);
    "log2" Log2Fn pxfm::f_log2, (-323.0, 308.0, 2.0);
    "log10" Log10Fn pxfm::f_log10, (-323.0, 308.0, 2.0);
    "log1p" Ln1pFn pxfm::f_log1p, (-20.0, 308.0, 2.0);
    "sin" SinFn pxfm::f_sin, (-20.0, 13.5, 10.0);
    "cos" CosFn pxfm::f_cos, (-20.0, 13.5, 10.0);
    "tan" TanFn pxfm::f_tan, (-20.0, 13.5, 10.0);
    "asin" AsinFn pxfm::f_asin, (-20.0, 0.0, 1.0);
    "acos" AcosFn pxfm::f_acos, (-20.0, 0.0, 1.0);
    "atan" AtanFn pxfm::f_atan, (-20.0, 20.0, 4.0);
    "sinh" SinhFn sinh, (-20.0, 2.9, 3.0);
    "cosh" CoshFn pxfm::f_cosh, (-20.0, 2.9, 3.0);
    "tanh" TanhFn pxfm::f_tanh, (-20.0, 2.0, 3.0);
    "asinh" AsinhFn pxfm::f_asinh, (-20.0, 308.0, 3.0);
    "acosh" AcoshFn pxfm::f_acosh, (-1.0, 308.0, 5.0);
    "atanh" AtanhFn pxfm::f_atanh, (-20.0, 0.0, 1.0);
    "erf" ErfFn pxfm::f_erf, (-20.0, 1.0, 6.0);
    "erfc" ErfcFn pxfm::f_erfc, (-20.0, 1.45, 6.0);
    "cbrt" CbrtFn pxfm::f_cbrt, (-323.0, 308.0, 10.0);
};

const BINARY: [Case2; 3] = cases! { Case2 apply2 slope2;
    "pow" PowFn f64::powf, (-3.0, 3.0, 20.0);
    "atan2" Atan2Fn f64::atan2, (-5.0, 5.0, 5.0);
    "hypot" HypotFn pxfm::f_hypot, (-5.0, 5.0, 5.0);
};

/// Knuth's linear congruential generator, its high bits.
struct Random(u64);

impl Random {
    /// Evenly in [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    fn sample(&mut self, (low, high, even): (f64, f64, f64)) -> f64 {
        let sign = if self.unit() < 0.5 { -1.0 } else { 1.0 };
        let u = self.unit();
        sign * if self.unit() < 0.5 { 10f64.powf(low + (high - low) * u) } else { even * u }
    }
    fn samples(&mut self, range: (f64, f64, f64)) -> Vec<f64> {
        (0..SAMPLES).map(|_| self.sample(range)).collect()
    }
}

/// How floats of one type are laid out: bits of the fraction, the smallest number, the end of the range.
struct Format {
    fraction: i32,
    least: f64,
    end: f64,
}
const F32: Format = Format { fraction: 23, least: 1.401298464324817e-45, end: 3.402823669209385e38 };
const F64: Format = Format { fraction: 52, least: 5e-324, end: f64::MAX };

impl Format {
    /// The unit in the last place of a number as large as `truth`.
    fn unit(&self, truth: f64) -> f64 {
        let binade = f64::from_bits(truth.to_bits() & 0x7ff << 52);
        (binade * 2f64.powi(-self.fraction)).max(self.least)
    }
    /// The error of `y` in units in the last place: infinite for a wrong NaN or a wrong sign of zero. An infinity counts as
    /// the power of two after the largest number.
    fn error(&self, y: f64, truth: f64) -> f64 {
        if truth.is_nan() || y.is_nan() || (y == 0.0 && truth == 0.0) {
            let same = truth.is_nan() && y.is_nan() || y == truth && y.is_sign_negative() == truth.is_sign_negative();
            return if same { 0.0 } else { f64::INFINITY };
        }
        if y == truth {
            return 0.0;
        }
        let [y, truth] = [y, truth].map(|x| x.clamp(-self.end, self.end));
        (y - truth).abs() / self.unit(truth)
    }
}

/// The largest error met, and where.
#[derive(Default)]
struct Worst {
    error: f64,
    at: [f64; 2],
}

impl Worst {
    fn see(&mut self, error: f64, at: [f64; 2]) {
        if error > self.error || error.is_nan() {
            *self = Worst { error, at };
        }
    }
    /// Prints it, and says what is beyond the budget.
    fn report(&self, name: &str, kind: &str, budget: f64) -> Option<String> {
        println!("{name:8} {kind} {:.3} ulp of {budget} at {:?}", self.error, self.at);
        (self.error > budget).then(|| format!("{name} {kind}: {} > {budget} at {:?}", self.error, self.at))
    }
}

fn assert_none(failures: Vec<Option<String>>) {
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn corners() -> Vec<f64> {
    let positive = [
        0.0,
        5e-324,
        1e-310,
        f64::MIN_POSITIVE,
        1e-45,
        1e-39,
        f32::MIN_POSITIVE as f64,
        1e-20,
        0.25,
        0.5,
        1.0 - f64::EPSILON / 2.0,
        1.0,
        1.0 + f64::EPSILON,
        1.5,
        2.0,
        3.0,
        88.72284,
        103.97208,
        709.782712893384,
        745.1332191019411,
        16_777_217.0,
        9_007_199_254_740_991.0,
        1e16,
        f32::MAX as f64,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    positive.iter().flat_map(|x| [*x, -*x]).collect()
}

#[test]
fn f32_functions_stay_within_their_budgets() {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(STRIDE).map(f32::from_bits).collect();
    x.extend(corners().iter().map(|x| *x as f32));
    let check = |case: &Case| {
        let mut worst = Worst::default();
        for (x, y) in x.iter().zip((case.f32)(&x)) {
            let truth = (case.truth)(*x as f64);
            // A result that rounds to 0 or ∞ is compared as such.
            let rounded = truth as f32;
            let truth = if rounded.is_normal() {
                truth
            } else if rounded == y {
                y as f64
            } else {
                truth
            };
            worst.see(F32.error(y as f64, truth), [*x as f64, 0.0]);
        }
        worst.report(case.name, "f32", case.budget[0])
    };
    assert_none(UNARY.iter().map(check).collect());
}

#[test]
fn f64_functions_stay_within_their_budgets() {
    let mut random = Random(1);
    let mut check = |case: &Case| {
        let mut x = random.samples(case.range);
        // Beyond their range `sin`, `cos`, `tan` are NaN: see the test for that.
        let trig = ["sin", "cos", "tan"].contains(&case.name);
        x.extend(corners().iter().filter(|x| !(trig && x.is_finite() && x.abs() > TRIG_LIMIT_F64)));
        let mut worst = Worst::default();
        for (x, y) in x.iter().zip((case.f64)(&x)) {
            worst.see(F64.error(y, (case.truth)(*x)), [*x, 0.0]);
        }
        // The oracle's own rounding is half a unit.
        worst.report(case.name, "f64", case.budget[1] + 0.5)
    };
    assert_none(UNARY.iter().map(&mut check).collect());
}

#[test]
fn functions_of_two_variables_stay_within_their_budgets() {
    let mut random = Random(2);
    let mut check = |case: &Case2| {
        let (mut x, mut y) = (random.samples(case.range), random.samples(case.range));
        for a in corners() {
            for b in corners() {
                x.push(a);
                y.push(b);
            }
        }
        let mut worst = [Worst::default(), Worst::default()];
        for ((x, y), z) in x.iter().zip(&y).zip((case.f64)(&x, &y)) {
            worst[1].see(F64.error(z, (case.truth)(*x, *y)), [*x, *y]);
        }
        let single = |x: &[f64]| -> Vec<f32> { x.iter().map(|x| *x as f32).collect() };
        let (x, y) = (single(&x), single(&y));
        for ((x, y), z) in x.iter().zip(&y).zip((case.f32)(&x, &y)) {
            let truth = (case.truth)(*x as f64, *y as f64);
            let truth = if truth as f32 == z { if z.is_normal() { truth } else { z as f64 } } else { truth };
            worst[0].see(F32.error(z as f64, truth), [*x as f64, *y as f64]);
        }
        [worst[0].report(case.name, "f32", case.budget[0]), worst[1].report(case.name, "f64", case.budget[1] + 0.5)]
    };
    assert_none(BINARY.iter().flat_map(&mut check).collect());
}

#[test]
fn f64_functions_stay_within_their_budgets_on_hard_inputs() {
    let number = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).unwrap());
    let mut worst: Vec<(&str, f64, Worst)> = vec![];
    for line in include_str!("hard_f64.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, residual) = (words[0], words[words.len() - 1].parse::<f64>().unwrap());
        let [x, .., truth] = words[1..words.len() - 1].iter().map(|word| number(word)).collect::<Vec<_>>()[..] else { panic!() };
        let (y, at, budget) = match UNARY.iter().find(|case| case.name == name) {
            Some(case) => ((case.f64)(&[x])[0], [x, 0.0], case.budget[1]),
            None => {
                let case = BINARY.iter().find(|case| case.name == name).unwrap();
                let second = number(words[2]);
                ((case.f64)(&[x], &[second])[0], [x, second], case.budget[1])
            }
        };
        if worst.last().is_none_or(|last| last.0 != name) {
            worst.push((name, budget, Worst::default()));
        }
        worst.last_mut().unwrap().2.see(((y - truth) / F64.unit(truth) - residual).abs(), at);
    }
    assert_eq!(worst.len(), UNARY.len() + BINARY.len());
    assert_none(worst.iter().map(|(name, budget, worst)| worst.report(name, "f64", *budget)).collect());
}

#[test]
fn slopes_agree_with_differences_of_values() {
    // Where every function of the table is smooth, if it is defined at all.
    let points = [-2.5, -0.75, -0.3, -1e-3, 1e-3, 0.2, 0.6, 0.9, 1.2, 1.7, 3.5];
    // Five-point differences: relative errors of 1e-16 by the step and 1e-12 by rounding.
    let derivative = |f: &dyn Fn(f64) -> f64, x: f64| {
        let step = 1e-4 * x.abs();
        (8.0 * (f(x + step) - f(x - step)) - (f(x + 2.0 * step) - f(x - 2.0 * step))) / (12.0 * step)
    };
    let close = |name: &str, slope: f64, expected: f64, at: [f64; 2]| {
        let fine = expected.is_nan() || (slope - expected).abs() <= 1e-8 * expected.abs().max(1.0);
        assert!(fine, "{name} at {at:?}: slope {slope}, difference {expected}");
    };
    for x in points {
        for case in UNARY {
            close(case.name, (case.slope)(x), derivative(&case.truth, x), [x, 0.0]);
        }
        for y in points {
            for case in BINARY {
                let [by_x, by_y] = (case.slope)(x, y);
                close(case.name, by_x, derivative(&|x| (case.truth)(x, y), x), [x, y]);
                // A negative number has powers at isolated exponents only.
                if case.name != "pow" || x > 0.0 {
                    close(case.name, by_y, derivative(&|y| (case.truth)(x, y), y), [x, y]);
                }
            }
        }
    }
}

#[test]
fn slopes_at_singular_points_are_finite_where_a_limit_is() {
    struct Row(&'static str, [f64; 2], [f64; 2]);
    let infinity = f64::INFINITY;
    let rows = [
        Row("pow", [0.0, 2.0], [0.0, 0.0]),
        Row("pow", [0.0, 1.0], [1.0, 0.0]),
        Row("pow", [0.0, 0.0], [0.0, -infinity]),
        Row("pow", [0.0, 0.5], [infinity, 0.0]),
        Row("pow", [-2.0, 3.0], [12.0, f64::NAN]),
        Row("hypot", [0.0, 0.0], [0.0, 0.0]),
        Row("hypot", [3e200, 4e200], [0.6, 0.8]),
        Row("atan2", [1e200, 0.0], [0.0, -1e-200]),
    ];
    for Row(name, [x, y], expected) in rows {
        let case = BINARY.iter().find(|case| case.name == name).unwrap();
        let slope = (case.slope)(x, y);
        for (slope, expected) in slope.iter().zip(expected) {
            assert!(F64.error(*slope, expected) <= 2.0, "{name} at ({x}, {y}): {slope} instead of {expected}");
        }
    }
}

#[test]
fn trigonometric_functions_of_f64_are_nan_beyond_their_limit_and_not_before() {
    for case in UNARY.iter().filter(|case| ["sin", "cos", "tan"].contains(&case.name)) {
        let y = (case.f64)(&[TRIG_LIMIT_F64, -TRIG_LIMIT_F64, TRIG_LIMIT_F64 * 1.01, -1e300]);
        let nan: Vec<bool> = y.iter().map(|y| y.is_nan()).collect();
        assert_eq!(nan, [false, false, true, true], "{}", case.name);
    }
}
