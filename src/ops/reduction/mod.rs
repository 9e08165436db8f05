//! Operators along axes: sums, means, extremes, norms, quantiles, statistics, and scans.
// Imports: nothing.

pub(super) mod define;
mod exp_sums;
mod extremes;
mod lanes;
pub(super) mod moments;
mod norms;
mod quantile;
mod reduce;
mod scan;
#[cfg(debug_assertions)]
mod slice_kernels;
pub(super) mod slopes;
mod statistics;
mod unit_vectors;

pub use norms::*;
pub use quantile::{QuantileMethod, Quantiles};
pub use reduce::*;
pub use scan::*;
pub use statistics::{Cov, Covariances};
pub use unit_vectors::CosineSimilarity;
