//! Learning rates that depend on the step.
//!
//! Each function gives a factor for the step, counted from 0; factors are multiplied:
//!
//! ```
//! use rankform::optim::{AdamW, schedule};
//! let mut optimizer = AdamW::new(3e-4);
//! for step in 0..1000 {
//!     let factor = schedule::warm_up(step, 100) * schedule::cosine(step, 1000, 0.1);
//!     optimizer.set_learning_rate(3e-4 * factor);
//!     // optimizer.step(&mut net, &gradients)?;
//! }
//! assert!((optimizer.learning_rate() - 3e-5).abs() < 1e-8);
//! ```
// Imports: nothing.

use std::f64::consts::PI;

/// The part of `steps` that is done at `step`, at most 1.
fn done(step: u64, steps: u64) -> f64 {
    if step >= steps { 1.0 } else { step as f64 / steps as f64 }
}

/// `factor` for the first `steps` steps, then 1: PyTorch's `ConstantLR`.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::constant;
/// assert_eq!([0, 4, 5].map(|step| constant(step, 5, 0.25)), [0.25, 0.25, 1.0]);
/// ```
pub fn constant(step: u64, steps: u64, factor: f64) -> f64 {
    if step < steps { factor } else { 1.0 }
}

/// From `first` to `last` along a line, in `steps` steps, then `last`: PyTorch's `LinearLR`.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::linear;
/// assert_eq!([0, 2, 4, 9].map(|step| linear(step, 4, 0.5, 1.0)), [0.5, 0.75, 1.0, 1.0]);
/// ```
pub fn linear(step: u64, steps: u64, first: f64, last: f64) -> f64 {
    first + (last - first) * done(step, steps)
}

/// A linear warm-up: `(step + 1) / steps`, at most 1.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::warm_up;
/// assert_eq!([0, 1, 3, 9].map(|step| warm_up(step, 4)), [0.25, 0.5, 1.0, 1.0]);
/// ```
pub fn warm_up(step: u64, steps: u64) -> f64 {
    done(step.saturating_add(1), steps)
}

/// From 1 to `last` along half a cosine, in `steps` steps, then `last`: PyTorch's `CosineAnnealingLR`, which
/// rises again afterwards.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::cosine;
/// let factors = [0, 5, 10, 15].map(|step| cosine(step, 10, 0.5));
/// assert!(factors.iter().zip([1.0, 0.75, 0.5, 0.5]).all(|(x, y)| (x - y).abs() < 1e-15));
/// ```
pub fn cosine(step: u64, steps: u64, last: f64) -> f64 {
    along_cosine(1.0, last, done(step, steps))
}

/// A factor for every full period of `period` steps: PyTorch's `StepLR`.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::steps;
/// assert_eq!([0, 9, 10, 25].map(|step| steps(step, 10, 0.5)), [1.0, 1.0, 0.5, 0.25]);
/// ```
pub fn steps(step: u64, period: u64, factor: f64) -> f64 {
    factor.powf((step / period.max(1)) as f64)
}

/// A factor for every step: PyTorch's `ExponentialLR`.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::exponential;
/// assert_eq!([0, 1, 3].map(|step| exponential(step, 0.5)), [1.0, 0.5, 0.125]);
/// ```
pub fn exponential(step: u64, factor: f64) -> f64 {
    factor.powf(step as f64)
}

/// One cycle of `steps` steps: from 1/25 to 1 along half a cosine in the first 30 % of them, then to
/// 1/250 000, where it stays. The learning rate is the largest one. These are the defaults of PyTorch's
/// `OneCycleLR`; [`one_cycle_with`] takes others.
///
/// # Examples
/// ```
/// use rankform::optim::schedule::one_cycle;
/// let factors = [0, 29, 99].map(|step| one_cycle(step, 100));
/// assert!(factors.iter().zip([0.04, 1.0, 4e-6]).all(|(x, y)| (x - y).abs() < 1e-15));
/// ```
///
/// # Source
/// Smith, Topin 2019, *Super-Convergence*.
pub fn one_cycle(step: u64, steps: u64) -> f64 {
    one_cycle_with(step, steps, 0.3, 1.0 / 25.0, 1.0 / 25e4)
}

/// As [`one_cycle`], with the part of the steps that rises, the first factor and the last one.
pub fn one_cycle_with(step: u64, steps: u64, rising: f64, first: f64, last: f64) -> f64 {
    let top = rising * steps as f64 - 1.0;
    let end = steps as f64 - 1.0;
    let step = (step as f64).min(end);
    if step <= top {
        along_cosine(first, 1.0, step / top)
    } else {
        along_cosine(1.0, last, (step - top) / (end - top))
    }
}

/// From `first` to `last` along half a cosine; `part` is from 0 to 1.
fn along_cosine(first: f64, last: f64, part: f64) -> f64 {
    last + (first - last) * (1.0 + (PI * part).cos()) / 2.0
}
