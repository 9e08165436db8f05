//! Every named function stays within its published error budget, is right at special values, and has the
//! slope it says.
//!
//! The oracle of `f32` is `pxfm` in `f64` (for `pow` and `atan2` the standard library: `pxfm` 0.1.30 has NaN
//! for pow(1e308, -0.5)), over every 509th bit pattern (every 262 147th in a debug build), and over every
//! pattern where the environment has `RANKFORM_EXHAUSTIVE=1`; f16 and bf16 over every pattern always. With
//! `RANKFORM_FUNCTIONS="tanh erf"` these tests run for those functions alone. `f64` is compared with `pxfm`
//! on random inputs, with own oracles in two words where `pxfm` has none (`silu`, `gelu`, `ndtr`), and with
//! `hard_f64.txt`, where the truth has more digits: the inputs on which these bodies were found to err most,
//! the numbers next to the zeros of `lgamma` and `digamma`, and some others, evaluated with MPFR to 160 bits
//! or more, or with Arb to 400; Bessel functions of large numbers to 1300.

use rankform::kernel::Op;
use rankform::ops::functions::*;
use rankform::prelude::*;
use rankform::scalar::{Eval, Function, Real};
use std::marker::PhantomData;

const DEBUG: bool = cfg!(debug_assertions);
/// A prime step through the bit patterns of `f32`; 1 on demand.
fn stride() -> usize {
    let all = std::env::var("RANKFORM_EXHAUSTIVE").is_ok_and(|value| value == "1");
    if all {
        1
    } else if DEBUG {
        262_147
    } else {
        509
    }
}
const SAMPLES: usize = if DEBUG { 3_000 } else { 100_000 };

/// A function of one variable.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    f32: fn(&[f32]) -> Vec<f32>,
    f64: fn(&[f64]) -> Vec<f64>,
    slope: fn(f64) -> f64,
    truth: fn(f64) -> f64,
    budget: [f64; 2],
    /// The unit of errors where it is larger than the result: the amplitude of a function that crosses 0.
    floor: fn(f64) -> f64,
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

/// A named function as an operator, to run on the widest instruction set, as it does for users.
struct Of<F>(PhantomData<fn() -> F>);
impl<F> Clone for Of<F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for Of<F> {}

impl<F: Function<1>, P: Float<Compute = P> + Real> Op<(P,)> for Of<F> {
    type Out = P;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, P>,)) -> Lane<L, P> {
        x.call::<F>()
    }
}
impl<F: Function<2>, P: Float<Compute = P> + Real> Op<(P, P)> for Of<F> {
    type Out = P;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, P>, Lane<L, P>)) -> Lane<L, P> {
        x.call2::<F>(y)
    }
}

fn apply<F: Function<1>, P: Float<Compute = P> + Real>(x: &[P]) -> Vec<P> {
    let x = Tensor::from_slice(x, [x.len()], &Cpu).unwrap();
    x.map(Of::<F>(PhantomData)).unwrap().to_vec().unwrap()
}

fn apply2<F: Function<2>, P: Float<Compute = P> + Real>(x: &[P], y: &[P]) -> Vec<P> {
    let [x, y] = [x, y].map(|x| Tensor::from_slice(x, [x.len()], &Cpu).unwrap());
    x.zip(Of::<F>(PhantomData), &y).unwrap().to_vec().unwrap()
}

fn slope<F: Function<1>>(x: f64) -> f64 {
    let x = Lane::<Eval, f64>::from_raw(x);
    F::derivative([x], F::value([x]))[0].value()
}

fn slope2<F: Function<2>>(x: f64, y: f64) -> [f64; 2] {
    let x = [x, y].map(Lane::<Eval, f64>::from_raw);
    F::derivative(x, F::value(x)).map(Lane::value)
}

/// `pxfm` loses the sign of zero here.
fn sinh(x: f64) -> f64 {
    if x == 0.0 { x } else { pxfm::f_sinh(x) }
}

/// `√(2/πx)`, beyond `from`.
fn amplitude(x: f64, from: f64) -> f64 {
    if x.abs() >= from { (std::f64::consts::FRAC_2_PI / x.abs()).sqrt() } else { 0.0 }
}
// ---------------------------------------------------------------- oracles of two words

/// `a · b` exactly.
fn product(a: f64, b: f64) -> (f64, f64) {
    let high = a * b;
    (high, a.mul_add(b, -high))
}

/// `e^(high + low)` for a small `low`, to half a unit in the last place and a little: `pxfm`'s is correctly
/// rounded.
fn exp_sum(high: f64, low: f64) -> f64 {
    let y = pxfm::f_exp(high);
    y + y * low
}

/// `Φ(−t)` for `t ≥ 0`.
fn normal_tail(t: f64) -> f64 {
    let t = if t > 1e3 { 1e3 } else { t };
    // t/√2 = s + rest, and erfc along the tangent.
    let s = t * std::f64::consts::FRAC_1_SQRT_2;
    let rest = t.mul_add(std::f64::consts::FRAC_1_SQRT_2, -s) + t * -4.833646656726457e-17;
    0.5 * (pxfm::f_erfc(s) - std::f64::consts::FRAC_2_SQRT_PI * (-s * s).exp() * rest)
}

fn ndtr(x: f64) -> f64 {
    if x < 0.0 { normal_tail(-x) } else { 1.0 - normal_tail(x) }
}

fn log_ndtr(x: f64) -> f64 {
    match x {
        // Φ(x) = φ(x)·e^(s²)·erfc(s)·√(π/2), and φ without its exponential.
        x if x < -1.0 => {
            let (square, rest) = product(x, x);
            let scaled = pxfm::f_erfcx(-x * std::f64::consts::FRAC_1_SQRT_2) * 0.5;
            if x < -1e150 { -0.5 * x * x } else { (pxfm::f_log(scaled) - 0.5 * rest) - 0.5 * square }
        }
        x if x < 0.0 => pxfm::f_log(normal_tail(-x)),
        x => pxfm::f_log1p(-normal_tail(x)),
    }
}

fn gelu(x: f64) -> f64 {
    match x {
        x if x < -1e3 => -0.0,
        x if x > 1e3 || x == 0.0 => x,
        // The distribution itself is subnormal there, and its product with x need not be.
        x if x < -37.0 => {
            let (square, rest) = product(0.5 * x, 0.5 * x);
            let root = pxfm::f_exp(-square);
            x * 0.5 * pxfm::f_erfcx(-x * std::f64::consts::FRAC_1_SQRT_2) * root * (1.0 - 2.0 * rest) * root
        }
        x if x < 0.0 => x * normal_tail(-x),
        x => x - x * normal_tail(x),
    }
}

fn silu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        -0.0
    } else if x < -700.0 {
        pxfm::f_exp(0.5 * x) * x * pxfm::f_exp(0.5 * x)
    } else {
        x / (1.0 + pxfm::f_exp(-x))
    }
}

/// `x · sigmoid(w)` with `w = c·(x + 0.044715·x³)` in two words.
fn gelu_tanh(x: f64) -> f64 {
    if x.is_nan() || x >= 30.0 {
        return x;
    }
    if x <= -30.0 {
        return -0.0;
    }
    let constant = (1.5957691216057308, -9.96930880911092e-17);
    let (square, square_low) = product(x, x);
    let (bend, bend_low) = product(square, 0.044715);
    let sum = 1.0 + bend;
    let sum_low = if bend > 1.0 { 1.0 - (sum - bend) } else { bend - (sum - 1.0) };
    let low = sum_low + bend_low + square_low * 0.044715 + square * 2.1960211427085595e-18;
    let (line, line_low) = product(x, constant.0);
    let line_low = line_low + x * constant.1;
    let (w, w_low) = product(line, sum);
    let w_low = w_low + line * low + line_low * sum;
    // For w far below 0 it is x·e^w·(1 − e^w).
    if w < -36.0 {
        x * exp_sum(0.5 * w, w_low) * pxfm::f_exp(0.5 * w)
    } else {
        x / (1.0 + exp_sum(-w, -w_low))
    }
}

/// `sinh` and others of `pxfm` 0.1.30 lose the sign of zero or the class of special values; here they are put
/// right.
fn gamma(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0 / x;
    }
    let y = pxfm::f_tgamma(x);
    if y == 0.0 && x != x.floor() {
        return if x.floor() % 2.0 == 0.0 { 0.0 } else { -0.0 };
    }
    if x < 0.0 && x == x.floor() { f64::NAN } else { y }
}
fn lgamma(x: f64) -> f64 {
    if x <= 0.0 && x == x.floor() { f64::INFINITY } else { pxfm::f_lgamma(x) }
}
fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return -1.0 / x;
    }
    if x > 1e17 {
        return pxfm::f_log(x);
    }
    if x < 0.0 && x == x.floor() { f64::NAN } else { pxfm::f_digamma(x) }
}
fn sigmoid(x: f64) -> f64 {
    if x < -700.0 { pxfm::f_exp(x) } else { 1.0 / (1.0 + pxfm::f_exp(-x)) }
}
/// The sign of a zero of an odd function.
fn j1(x: f64) -> f64 {
    if x == 0.0 {
        x
    } else if x.is_infinite() {
        0f64.copysign(x)
    } else {
        pxfm::f_j1(x)
    }
}
fn i0(x: f64) -> f64 {
    if x.abs() > 720.0 { f64::INFINITY } else { pxfm::f_i0(x) }
}
fn i1(x: f64) -> f64 {
    if x == 0.0 {
        x
    } else if x.abs() > 720.0 {
        f64::INFINITY.copysign(x)
    } else {
        pxfm::f_i1(x)
    }
}
fn i1e(x: f64) -> f64 {
    if x == 0.0 {
        x
    } else if x.is_infinite() {
        0f64.copysign(x)
    } else {
        pxfm::f_i1e(x)
    }
}
fn y0(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { pxfm::f_y0(x) }
}
fn y1(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { pxfm::f_y1(x) }
}
fn erfinv(x: f64) -> f64 {
    if x == 0.0 { x } else { pxfm::f_erfinv(x) }
}

macro_rules! cases {
    (@floor) => { |_| 0.0 };
    (@floor $floor:expr) => { $floor };
    (Case2 $apply:ident $slope:ident; $($name:literal $f:ident $truth:path, $range:expr;)*) => {
        [$(Case2 {
            name: $name,
            f32: $apply::<$f, f32>,
            f64: $apply::<$f, f64>,
            slope: $slope::<$f>,
            truth: $truth,
            budget: [$f::ULP_F32, $f::ULP_F64],
            range: $range,
        }),*]
    };
    (
        $case:ident $apply:ident $slope:ident;
        $($name:literal $f:ident $truth:path, $range:expr $(, $floor:expr)?;)*
    ) => {
        [$($case {
            floor: cases!(@floor $($floor)?),
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

const UNARY: [Case; 40] = cases! { Case apply slope;
    "exp" ExpFn pxfm::f_exp, (-20.0, 3.0, 745.0);
    "exp2" Exp2Fn pxfm::f_exp2, (-20.0, 3.1, 1075.0);
    "expm1" ExpM1Fn pxfm::f_expm1, (-20.0, 3.0, 3.0);
    "log" LnFn pxfm::f_log, (-323.0, 308.0, 2.0);
    "log2" Log2Fn pxfm::f_log2, (-323.0, 308.0, 2.0);
    "log10" Log10Fn pxfm::f_log10, (-323.0, 308.0, 2.0);
    "log1p" Ln1pFn pxfm::f_log1p, (-20.0, 308.0, 2.0);
    "sin" SinFn pxfm::f_sin, (-20.0, 308.0, 10.0);
    "cos" CosFn pxfm::f_cos, (-20.0, 308.0, 10.0);
    "tan" TanFn pxfm::f_tan, (-20.0, 308.0, 10.0);
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
    "erfinv" ErfInvFn erfinv, (-20.0, 0.0, 1.0);
    "ndtr" NdtrFn ndtr, (-20.0, 1.6, 10.0);
    "log_ndtr" LogNdtrFn log_ndtr, (-20.0, 10.0, 10.0);
    "tgamma" GammaFn gamma, (-20.0, 2.3, 30.0);
    "lgamma" LgammaFn lgamma, (-20.0, 300.0, 10.0);
    // The oracle loses digits near the zeros; hard_f64.txt has the numbers next to them.
    "digamma" DigammaFn digamma, (-20.0, 10.0, 10.0), |x| if x < 0.0 { 0.02 } else { 0.0 };
    "j0" J0Fn pxfm::f_j0, (-10.0, 308.0, 60.0), |x| amplitude(x, 8.0);
    "j1" J1Fn j1, (-10.0, 308.0, 60.0), |x| amplitude(x, 8.0);
    "y0" Y0Fn y0, (-10.0, 308.0, 60.0), |x| amplitude(x, 0.25);
    "y1" Y1Fn y1, (-10.0, 308.0, 60.0), |x| amplitude(x, 0.25);
    "i0" I0Fn i0, (-10.0, 2.9, 30.0);
    "i1" I1Fn i1, (-10.0, 2.9, 30.0);
    "i0e" I0eFn pxfm::f_i0e, (-10.0, 10.0, 30.0);
    "i1e" I1eFn i1e, (-10.0, 10.0, 30.0);
    "sigmoid" SigmoidFn sigmoid, (-20.0, 3.0, 40.0);
    "silu" SiluFn silu, (-20.0, 3.0, 40.0);
    "gelu" GeluFn gelu, (-20.0, 1.6, 10.0);
    "gelu_tanh" GeluTanhFn gelu_tanh, (-20.0, 1.5, 10.0);
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
    /// As [`error`](Format::error), in units of the larger of the result and `floor`.
    fn error_beside(&self, y: f64, truth: f64, floor: f64) -> f64 {
        if floor <= truth.abs() || !truth.is_finite() || !y.is_finite() {
            return self.error(y, truth);
        }
        (y - truth).abs() / self.unit(floor)
    }
    /// The error of `y` in units in the last place: infinite for a wrong NaN or a wrong sign of zero. An
    /// infinity counts as the power of two after the largest number.
    fn error(&self, y: f64, truth: f64) -> f64 {
        if truth.is_nan() || y.is_nan() || (y == 0.0 && truth == 0.0) {
            let same = truth.is_nan() && y.is_nan()
                || y == truth && y.is_sign_negative() == truth.is_sign_negative();
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
    /// Prints it, and reports errors beyond the budget.
    fn report(&self, name: &str, kind: &str, budget: f64) -> Option<String> {
        println!("{name:9} {kind:4} {:.3} ulp of {budget} at {:?}", self.error, self.at);
        (self.error > budget).then(|| format!("{name} {kind}: {} > {budget} at {:?}", self.error, self.at))
    }
}

fn assert_none(failures: Vec<Option<String>>) {
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// One result a unary case, on as many threads as there are; of the functions named by `RANKFORM_FUNCTIONS`
/// alone, if it is set.
fn in_threads(check: impl Fn(&Case) -> Option<String> + Sync) -> Vec<Option<String>> {
    let chosen = std::env::var("RANKFORM_FUNCTIONS").ok();
    let wanted = |case: &&Case| {
        chosen.as_ref().is_none_or(|names| names.split_whitespace().any(|name| name == case.name))
    };
    let cases: Vec<&Case> = UNARY.iter().filter(wanted).collect();
    assert!(!cases.is_empty(), "RANKFORM_FUNCTIONS={:?} names no function", chosen.unwrap_or_default());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut found = vec![];
        while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            found.push(check(case));
        }
        found
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    })
}

/// Every number of a 16-bit float, computed in f32 and rounded once: half a unit and a little.
fn every_half<T>(
    kind: &str,
    format: Format,
    of_bits: fn(u16) -> T,
    to_f32: fn(T) -> f32,
    of_f32: fn(f32) -> T,
) {
    let step = if DEBUG { 17 } else { 1 };
    let check = |case: &Case| {
        let mut worst = Worst::default();
        let x: Vec<f32> = (0..=u16::MAX).step_by(step).map(|bits| to_f32(of_bits(bits))).collect();
        for (x, y) in x.iter().zip((case.f32)(&x)) {
            let (y, truth) = (to_f32(of_f32(y)) as f64, (case.truth)(*x as f64));
            // A result that rounds to 0 or ∞ is compared after rounding.
            let rounded = to_f32(of_f32(truth as f32)) as f64;
            let truth = if rounded == y && (y == 0.0 || y.is_infinite()) { y } else { truth };
            worst.see(format.error_beside(y, truth, (case.floor)(*x as f64)), [*x as f64, 0.0]);
        }
        worst.report(case.name, kind, 0.501)
    };
    assert_none(in_threads(check));
}

#[test]
fn f16_functions_are_rounded_once() {
    let format = Format { fraction: 10, least: 5.960464477539063e-8, end: 65504.0 };
    every_half("f16", format, rankform::f16::from_bits, rankform::f16::to_f32, rankform::f16::from_f32);
}

#[test]
fn bf16_functions_are_rounded_once() {
    let format = Format { fraction: 7, least: 9.183549615799121e-41, end: 3.3895313892515355e38 };
    every_half("bf16", format, rankform::bf16::from_bits, rankform::bf16::to_f32, rankform::bf16::from_f32);
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
    let stride = stride();
    let corners: Vec<f32> = corners().iter().map(|x| *x as f32).collect();
    let check = |case: &Case| {
        let mut worst = Worst::default();
        let mut see = |x: &[f32]| {
            for (x, y) in x.iter().zip((case.f32)(x)) {
                let truth = (case.truth)(*x as f64);
                // A result that rounds to 0 or ∞ is compared after rounding.
                let rounded = truth as f32;
                let truth = if rounded.is_normal() {
                    truth
                } else if rounded == y {
                    y as f64
                } else {
                    truth
                };
                worst.see(F32.error_beside(y as f64, truth, (case.floor)(*x as f64)), [*x as f64, 0.0]);
            }
        };
        see(&corners);
        // A block at a time: all of them would take 16 GiB.
        const BLOCK: usize = 1 << 16;
        for start in (0..1_usize << 32).step_by(stride * BLOCK) {
            let block: Vec<f32> = (start..1 << 32)
                .step_by(stride)
                .take(BLOCK)
                .map(|bits| f32::from_bits(bits as u32))
                .collect();
            see(&block);
        }
        worst.report(case.name, "f32", case.budget[0])
    };
    assert_none(in_threads(check));
}

#[test]
fn f64_functions_stay_within_their_budgets() {
    let mut random = Random(1);
    let mut check = |case: &Case| {
        let mut x = random.samples(case.range);
        x.extend(corners());
        let mut worst = Worst::default();
        for (x, y) in x.iter().zip((case.f64)(&x)) {
            worst.see(F64.error_beside(y, (case.truth)(*x), (case.floor)(*x)), [*x, 0.0]);
        }
        // The oracle's own rounding is half a unit, and that of two words one.
        let own = ["ndtr", "log_ndtr", "sigmoid", "silu", "gelu", "gelu_tanh"].contains(&case.name);
        worst.report(case.name, "f64", case.budget[1] + if own { 1.5 } else { 0.5 })
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
        [
            worst[0].report(case.name, "f32", case.budget[0]),
            worst[1].report(case.name, "f64", case.budget[1] + 0.5),
        ]
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
        let [x, .., truth] =
            words[1..words.len() - 1].iter().map(|word| number(word)).collect::<Vec<_>>()[..]
        else {
            panic!()
        };
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
    assert_eq!(worst.len(), 43, "functions of the file");
    assert_none(worst.iter().map(|(name, budget, worst)| worst.report(name, "f64", *budget)).collect());
}

#[test]
fn slopes_agree_with_differences_of_values() {
    // Numbers at which every function of the table is smooth, if defined.
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
            assert!(
                F64.error(*slope, expected) <= 2.0,
                "{name} at ({x}, {y}): {slope} instead of {expected}"
            );
        }
    }
}

#[test]
fn large_numbers_have_the_same_result_alone_and_among_small_ones() {
    // A row with one of them runs in full, a row without does not.
    for case in UNARY.iter().filter(|case| ["sin", "cos", "tan", "j0", "j1", "y0", "y1"].contains(&case.name))
    {
        let small: Vec<f64> = (0..700).map(|i| (i as f64 - 350.0) * 1.7).collect();
        let mut mixed = small.clone();
        mixed[3] = 1e300;
        mixed[600] = -2f64.powi(46);
        let (alone, among) = ((case.f64)(&small), (case.f64)(&mixed));
        let same = |i: usize| {
            i == 3
                || i == 600
                || alone[i].to_bits() == among[i].to_bits()
                || alone[i].is_nan() && among[i].is_nan()
        };
        assert!((0..700).all(same), "{}", case.name);
        for i in [3, 600] {
            assert_eq!(
                among[i].to_bits(),
                (case.f64)(&[mixed[i]])[0].to_bits(),
                "{} at {}",
                case.name,
                mixed[i]
            );
        }
        let circular = case.name.len() == 3;
        let ends = (case.f64)(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        let expected = [circular, circular || case.name.starts_with('y'), true];
        assert!(
            ends.iter().zip(expected).all(|(y, is_nan)| y.is_nan() == is_nan && (is_nan || *y == 0.0)),
            "{}",
            case.name
        );
    }
}

#[test]
fn special_values_change_no_neighbor_in_exp_and_log_and_softmax() {
    // A block with one value outside the fast path runs in full, a block without one does not.
    for case in UNARY.iter().filter(|case| ["exp", "log"].contains(&case.name)) {
        let plain: Vec<f64> = (0..400).map(|i| 0.01 + f64::from(i) * 0.21).collect();
        for special in [f64::INFINITY, f64::NAN, 0.0, 1e-310, 1e-40, 800.0] {
            let mixed: Vec<f64> = plain.iter().copied().chain([special]).collect();
            let [alone, among] = [&plain, &mixed].map(|x| (case.f64)(x));
            assert_eq!(alone, among[..400], "{} of f64 beside {special}", case.name);
            let [alone, among] =
                [&plain, &mixed].map(|x| (case.f32)(&x.iter().map(|&x| x as f32).collect::<Vec<_>>()));
            assert_eq!(alone, among[..400], "{} of f32 beside {special}", case.name);
        }
    }
    // A term that adds nothing to a row, but is far enough below it that the block takes the full form.
    let row = |last: f32| {
        Tensor::from_fn([1, 300], |[_, i]| if i == 299 { last } else { (i as f32 * 0.37).sin() * 9.0 }, &Cpu)
    };
    let [near, far] =
        [-70.0, -300.0].map(|last| row(last).unwrap().softmax(Axis::<1>).unwrap().to_vec().unwrap());
    assert_eq!(near[..299], far[..299]);
    assert!(near[299] > 0.0 && far[299] == 0.0);
}
