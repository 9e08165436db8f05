//! Numbers at equal distances on a logarithmic scale.
// Imports: `error`, `scalar`, `element`, `device`, `tensor`, `ops`.

use crate::device::{Cpu, Device};
use crate::element::{Compute, RealNumber};
use crate::error::Result;
use crate::ops::{Cast as _, Math as _};
use crate::scalar::Prim as _;
use crate::tensor::Tensor;

/// A number as an integer, rounded towards 0; to the nearest integer if only rounding separates them.
fn whole_part(power: f64) -> f64 {
    let nearest = power.round();
    if (power - nearest).abs() <= 8.0 * f64::EPSILON * power.abs() { nearest } else { power.trunc() }
}

impl<T: RealNumber, D: Device> Tensor<T, 1, D> {
    /// `base` to the powers of [`linspace`](Tensor::linspace), computed in f64: the first element is
    /// `base^start`, the last `base^end`. Integers are rounded towards 0, and saturate.
    ///
    /// # Errors
    /// As [`linspace`](Tensor::linspace).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// assert_eq!(Tensor::<f64, 1>::logspace(-1.0, 2.0, 4, 10.0, &Cpu)?.to_vec()?, [0.1, 1.0, 10.0, 100.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn logspace(start: f64, end: f64, n: usize, base: f64, device: &D) -> Result<Self> {
        if T::DTYPE.is_discrete() {
            let powers =
                Tensor::<f64, 1>::linspace(start, end, n, &Cpu).map_err(|error| error.with_op("logspace"))?;
            let value =
                |[i]: [usize; 1]| T::narrow(Compute::<T>::from_f64(whole_part(base.powf(powers[[i]]))));
            return Self::from_fn([n], value, device);
        }
        let powers = Tensor::<f64, 1, D>::linspace(start, end, n, device)
            .map_err(|error| error.with_op("logspace"))?;
        let base = Tensor::<f64, 1, D>::full([1], base, device)?;
        base.lazy().powf(&powers).cast::<T>().eval()
    }
}
