//! Gradients of limited size, and sums of gradients.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `expr`, `ops`, `autograd`, `optim`.

use super::operator::updates;
use super::parts::{ensure_same_sizes, parts_of, update_parts};
use crate::autograd::{Differentiable, Name, ParameterTree, ParameterVisitor};
use crate::device::Device;
use crate::dim::All;
use crate::element::Float;
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::ops::{Cast as _, Norms as _};
use crate::tensor::Tensor;

updates! {
    /// Multiplies by a number.
    fn Scaled(x;; ; factor) {
        (x * factor,)
    }
    /// Limits the magnitude; NaN stays.
    fn Limited(x;; ; limit) {
        (x.gt(limit).select(limit, x.lt(-limit).select(-limit, x)),)
    }
    /// A sum.
    fn Added(x;; y; factor) {
        (x + factor * y,)
    }
}

/// Multiplies gradients by one factor so that their norm is at most `max_norm`. Returns the norm before, that
/// of the vector of all elements of all gradients.
///
/// The factor is `max_norm / (norm + 1e-6)`, at most 1. Sums of squares are in f64. If a gradient has an
/// element that is not finite, neither is the norm, and the gradients are useless, as with PyTorch: compare
/// the norm before a step.
///
/// # Cost
/// One pass to read the gradients, one to write them if the norm is too large. One small tensor for each
/// call. The norm is read from the device, once for all gradients.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter), with the name of the gradient:
/// [`Error::Shared`](crate::Error::Shared) when its memory has other handles.
///
/// # Examples
/// ```
/// use rankform::optim::clip_norm;
/// use rankform::prelude::*;
/// let mut gradients = (Tensor::from([3.0_f64, 0.0]), Tensor::from(4.0_f64));
/// assert_eq!(clip_norm(&mut gradients, 1.0)?, 5.0);
/// assert!((gradients.0[[0]] - 0.6).abs() < 1e-6);
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.nn.utils.clip_grad_norm_`; Pascanu et al. 2013.
pub fn clip_norm<P: ParameterTree<D>, D: Device>(gradients: &mut P, max_norm: f64) -> Result<f64> {
    let norm = global_norm(gradients)?;
    let factor = max_norm / (norm + 1e-6);
    // A factor of NaN multiplies too.
    if factor < 1.0 || factor.is_nan() {
        gradients.visit_mut(&mut ScaleBy(factor))?;
    }
    Ok(norm)
}

/// The norm of the vector of all elements.
fn global_norm<P: ParameterTree<D>, D: Device>(tree: &P) -> Result<f64> {
    let mut count = CountParameters(0);
    tree.visit(&mut count)?;
    let Some(device) = tree.device_of_tensors() else { return Ok(0.0) };
    let mut norms = ParameterNorms { norms: Tensor::zeros([count.0], device)?, next: 0 };
    tree.visit(&mut norms)?;
    Ok(norms.norms.to_vec()?.iter().fold(0.0, |length: f64, &norm| length.hypot(norm)))
}

/// Counts parameters.
struct CountParameters(usize);
impl<D: Device> ParameterVisitor<D, 0, 1> for CountParameters {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        _: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// The norm of each parameter, on the device.
struct ParameterNorms<D: Device> {
    norms: Tensor<f64, 1, D>,
    next: usize,
}
impl<D: Device> ParameterVisitor<D, 0, 1> for ParameterNorms<D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [x]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        let norm = self.norms.view_mut()?.slice((self.next,))?;
        self.next += 1;
        parts_of(x, |x| x.lazy().cast::<f64>().norm_into(All, norm))
    }
}

/// Multiplies by a number.
struct ScaleBy(f64);
impl<D: Device> ParameterVisitor<D, 1, 0> for ScaleBy {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        [x]: [&mut Tensor<T, RANK, D>; 1],
        _: [&Tensor<T, RANK, D>; 0],
    ) -> Result<()> {
        update_parts("clip_norm", x, |x| apply_in_place(Scaled, (x,), (T::State::constant(self.0),)))
    }
}

/// Limits each element of gradients to `-limit ..= limit`; of complex elements, each part. NaN stays.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter), with the name of the gradient:
/// [`Error::Shared`](crate::Error::Shared) when its memory has other handles.
///
/// # Examples
/// ```
/// use rankform::optim::clip_value;
/// use rankform::prelude::*;
/// let mut gradients = vec![Tensor::from([3.0, -0.5]), Tensor::from([-4.0])];
/// clip_value(&mut gradients, 1.0)?;
/// assert_eq!((gradients[0].to_vec()?, gradients[1].to_vec()?), (vec![1.0, -0.5], vec![-1.0]));
/// # Ok::<(), rankform::Error>(())
/// ```
///
/// # Source
/// `torch.nn.utils.clip_grad_value_`.
pub fn clip_value<P: ParameterTree<D>, D: Device>(gradients: &mut P, limit: f64) -> Result<()> {
    gradients.visit_mut(&mut Limit(limit))
}

/// Limits the magnitude.
struct Limit(f64);
impl<D: Device> ParameterVisitor<D, 1, 0> for Limit {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        [x]: [&mut Tensor<T, RANK, D>; 1],
        _: [&Tensor<T, RANK, D>; 0],
    ) -> Result<()> {
        update_parts("clip_value", x, |x| apply_in_place(Limited, (x,), (T::State::constant(self.0),)))
    }
}

/// `sum ← sum + factor · gradients`: sums of the gradients of several batches, for a step of all of them.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter), with the name of the gradient:
/// [`Error::Shared`](crate::Error::Shared) when the memory of a sum has other handles,
/// [`Error::Value`](crate::Error::Value) when sizes differ.
///
/// # Examples
/// ```
/// use rankform::autograd::grad;
/// use rankform::optim::accumulate;
/// use rankform::prelude::*;
/// let w = Tensor::from([1.0, 2.0]);
/// let mut sum = w.zeros_like()?;
/// for batch in [Tensor::from([1.0, 0.0]), Tensor::from([3.0, 4.0])] {
///     let gradient = grad(&w, |w, tape| (w.lazy() * &tape.constant(&batch)?).sum(All))?;
///     accumulate(&mut sum, 0.5, &gradient)?;
/// }
/// assert_eq!(sum.to_vec()?, [2.0, 2.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn accumulate<P: ParameterTree<D>, D: Device>(sum: &mut P, factor: f64, gradients: &P) -> Result<()> {
    P::walk([sum], [gradients], Name::ROOT, &mut Accumulate(factor))
}

/// Adds a multiple.
struct Accumulate(f64);
impl<D: Device> ParameterVisitor<D, 1, 1> for Accumulate {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        [x]: [&mut Tensor<T, RANK, D>; 1],
        [y]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        ensure_same_sizes("accumulate", x, y)?;
        let factor = T::State::constant(self.0);
        parts_of(y, |y| update_parts("accumulate", x, |x| apply_in_place(Added, (x,), (y, factor))))
    }
}
