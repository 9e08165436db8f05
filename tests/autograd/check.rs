//! Gradients against differences of values, and random tensors.

use rankform::autograd::{Tape, Var, grad};
use rankform::prelude::*;

/// The largest error of a gradient relative to its difference, or to 1.
const TOLERANCE: f64 = 1e-8;

/// A number in (0, 1) for each index and seed.
pub fn unit(seed: u64, k: usize) -> f64 {
    let mut z =
        (seed << 32 ^ k as u64).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ z >> 31) >> 12) as f64 / (1u64 << 52) as f64
}

/// Different numbers in (-1, 1).
pub fn random<const RANK: usize>(size: [usize; RANK], seed: u64) -> Tensor<f64, RANK> {
    between(size, seed, -1.0, 1.0)
}

/// Numbers in `(low, high)`.
pub fn between<const RANK: usize>(size: [usize; RANK], seed: u64, low: f64, high: f64) -> Tensor<f64, RANK> {
    let numel: usize = size.iter().product();
    let values: Vec<f64> = (0..numel).map(|k| low + (high - low) * unit(seed, k)).collect();
    Tensor::from_slice(&values, size, &Cpu).unwrap()
}

/// `Σ w · y` with random numbers `w`, so that each element of `y` has its own gradient.
pub fn weighted<const RANK: usize>(y: &Var<f64, RANK>, tape: &Tape) -> Result<Var<f64, 0>> {
    let w = tape.constant(&random(y.size().0, 99))?;
    (y.lazy() * &w).sum(All)
}

/// A five-point difference of a function of one number.
pub fn difference(step: f64, f: impl Fn(f64) -> f64) -> f64 {
    (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)
}

/// A function of a watched or a constant tensor.
type Function<'a, const RANK: usize, const OUT: usize> =
    &'a dyn Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>;

/// Compares the gradient of `Σ w · f(x)` with differences, for each element of `x`.
#[track_caller]
pub fn check<const RANK: usize, const OUT: usize>(
    name: &str,
    x: &Tensor<f64, RANK>,
    f: impl Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>,
) {
    compare(TOLERANCE, name, x, &f);
}

/// As [`check`], with a tolerance for functions whose curvature is large.
#[track_caller]
pub fn check_within<const RANK: usize, const OUT: usize>(
    tolerance: f64,
    name: &str,
    x: &Tensor<f64, RANK>,
    f: impl Fn(&Var<f64, RANK>, &Tape) -> Result<Var<f64, OUT>>,
) {
    compare(tolerance, name, x, &f);
}

/// Compiled once for each pair of ranks, and not for each of the many functions.
#[track_caller]
fn compare<const RANK: usize, const OUT: usize>(
    tolerance: f64,
    name: &str,
    x: &Tensor<f64, RANK>,
    f: Function<'_, RANK, OUT>,
) {
    let found = grad(x, |x, tape| weighted(&f(x, tape)?, tape));
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}")).to_vec().unwrap();
    let values = x.to_vec().unwrap();
    let value = |k: usize, by: f64| {
        let mut moved = values.clone();
        moved[k] += by;
        let tape = Tape::new(&Cpu);
        let moved = tape.constant(&Tensor::from_slice(&moved, x.size().0, &Cpu).unwrap()).unwrap();
        weighted(&f(&moved, &tape).unwrap(), &tape).unwrap().item().unwrap()
    };
    let mut differs_from_zero = values.is_empty();
    for (k, slope) in found.iter().enumerate() {
        let expected = difference(1e-3, |by| value(k, by));
        let error = (slope - expected).abs() / expected.abs().max(1.0);
        assert!(error < tolerance, "{name}: element {k}: {slope}, not {expected}; {found:?}");
        differs_from_zero |= expected.abs() > 1e-3;
    }
    assert!(differs_from_zero, "{name}: the function is constant");
}

/// Values that are close, element by element.
#[track_caller]
pub fn close(name: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (k, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = (a - b).abs() <= 1e-10 * b.abs().max(1.0) || a == b;
        assert!(same, "{name}: element {k}: {a}, not {b}; {found:?}, not {expected:?}");
    }
}
