//! The plans of transforms, kept by length.
// Imports: nothing.

use super::lines::Request;
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use std::sync::{Arc, Mutex, PoisonError};

/// The plans of one kind that were used last, the latest first.
struct Recent<P: ?Sized>(Mutex<Vec<(usize, Arc<P>)>>);

/// The number of plans that are kept of one kind and element.
const MAX_PLANS: usize = 64;

impl<P: ?Sized> Recent<P> {
    const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    /// The plan of a length; `make` makes it, if it is not kept.
    fn of(&self, n: usize, make: impl FnOnce(usize) -> Arc<P>) -> Arc<P> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut plans = lock();
            let found = plans.iter().position(|(length, _)| *length == n);
            found.map(|place| {
                plans[..=place].rotate_right(1);
                plans[0].1.clone()
            })
        };
        found.unwrap_or_else(|| {
            let made = make(n);
            let mut plans = lock();
            plans.truncate(MAX_PLANS - 1);
            // Without memory for the list the plan is used once.
            if plans.try_reserve(1).is_ok() {
                plans.insert(0, (n, made.clone()));
            }
            made
        })
    }
}

/// The plans of one element.
pub(super) struct Plans<R> {
    forward: Recent<dyn Fft<R>>,
    inverse: Recent<dyn Fft<R>>,
    half: Recent<dyn RealToComplex<R>>,
    inverse_half: Recent<dyn ComplexToReal<R>>,
}

impl<R: FftNum> Plans<R> {
    pub(super) const fn new() -> Self {
        Plans {
            forward: Recent::new(),
            inverse: Recent::new(),
            half: Recent::new(),
            inverse_half: Recent::new(),
        }
    }

    pub(super) fn full(&self, request: Request) -> Arc<dyn Fft<R>> {
        match request.is_inverse {
            false => self.forward.of(request.n, |n| FftPlanner::new().plan_fft_forward(n)),
            true => self.inverse.of(request.n, |n| FftPlanner::new().plan_fft_inverse(n)),
        }
    }

    pub(super) fn half(&self, request: Request) -> Arc<dyn RealToComplex<R>> {
        self.half.of(request.n, |n| RealFftPlanner::new().plan_fft_forward(n))
    }

    pub(super) fn inverse_half(&self, request: Request) -> Arc<dyn ComplexToReal<R>> {
        self.inverse_half.of(request.n, |n| RealFftPlanner::new().plan_fft_inverse(n))
    }
}
