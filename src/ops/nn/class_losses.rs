//! The parameters of losses by classes, and the losses of log-probabilities.
// Imports: `error`, `dim`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::{All, Dim};
use crate::element::Float;
use crate::error::{Error, Result, text};
use crate::expr::{Reduce as _, Zip as _};
use crate::kernel::Op;
use crate::ops::axes::{sizes_along, with_size};
use crate::ops::indexing::gather::gather;
use crate::ops::{Arithmetic as _, Cast as _, Comparisons as _, Indexing as _, Reductions as _, Sum};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination, Tensor, TensorView};

/// A value times a share. A share of 0 gives 0 for any value, also for an infinite one: the limit of
/// `y · ln p`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share;

impl<T: Float> Op<(T, T)> for Share {
    const NAME: &'static str = "share";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((value, share): (Lane<L, T::Compute>, Lane<L, T::Compute>)) -> Lane<L, T::Compute> {
        share.eq(Lane::zero()).select(Lane::zero(), value * share)
    }
}

/// The parameters of losses by classes: class weights, an ignored target, label smoothing.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::ops::ClassLoss;
/// let weight = Tensor::from([1.0, 2.0]);
/// let plan = ClassLoss::new().weight(weight.view()).ignore(-1).smoothing(0.1);
/// assert_eq!((plan.ignore, plan.smoothing), (-1, 0.1));
/// ```
#[derive(Clone, Copy)]
pub struct ClassLoss<'a, T, D: Device> {
    /// One weight for each class; `None` is 1 for all.
    pub weight: Option<TensorView<'a, T, 1, D>>,
    /// The target that is ignored.
    pub ignore: i64,
    /// Label smoothing: the share of a target that is spread evenly over all classes.
    pub smoothing: f64,
}

impl<'a, T, D: Device> ClassLoss<'a, T, D> {
    /// No weights, no smoothing; targets of −100 are ignored.
    pub const fn new() -> Self {
        ClassLoss { weight: None, ignore: -100, smoothing: 0.0 }
    }
    /// With a weight for each class.
    pub fn weight(self, weight: TensorView<'a, T, 1, D>) -> Self {
        ClassLoss { weight: Some(weight), ..self }
    }
    /// With another ignored target.
    pub fn ignore(self, ignore: i64) -> Self {
        ClassLoss { ignore, ..self }
    }
    /// With smoothed labels.
    pub fn smoothing(self, smoothing: f64) -> Self {
        ClassLoss { smoothing, ..self }
    }
    /// Checks the weights and the smoothing for this number of classes.
    pub(super) fn check(&self, op: &'static str, classes: usize, device: &D) -> Result<()> {
        if let Some(weight) = self.weight {
            same_device(op, device, weight.device())?;
            weight.ensure_allocated(op)?;
            if weight.numel() != classes {
                return Err(Error::Value {
                    op,
                    what: text(format_args!("{} weights of {classes} classes", weight.numel())),
                });
            }
        }
        if !(0.0..=1.0).contains(&self.smoothing) {
            return Err(Error::Value {
                op,
                what: text(format_args!("a smoothing of {}, not from 0 to 1", self.smoothing)),
            });
        }
        Ok(())
    }
}

impl<T, D: Device> Default for ClassLoss<'_, T, D> {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks the sizes of targets for scores with the classes along an axis, and returns them.
pub(super) fn check_targets<const RANK: usize, const M: usize>(
    op: &'static str,
    (x, axis): (Dim<RANK>, usize),
    found: Dim<M>,
) -> Result<[usize; M]> {
    let wanted: [usize; M] = std::array::from_fn(|a| x.0[a + usize::from(a >= axis)]);
    if found.0 == wanted {
        return Ok(wanted);
    }
    let what = text(format_args!(
        "targets of sizes {found:?}; {x:?} with classes along axis {axis} want {wanted:?}"
    ));
    Err(Error::Value { op, what })
}

/// The losses of log-probabilities, classes along an axis, or (`MEAN`) their mean: `Σ loss / Σ weight`, in
/// f64. `OUT` is `M`, or 0 for a mean.
pub(super) fn class_losses<
    T: Float,
    const RANK: usize,
    const M: usize,
    const OUT: usize,
    const MEAN: bool,
    D: Device,
    P: Destination<T, OUT, D>,
>(
    op: &'static str,
    (logs, axis): (TensorView<'_, T, RANK, D>, usize),
    target: TensorView<'_, i64, M, D>,
    plan: ClassLoss<'_, T, D>,
    destination: P,
) -> Result<P::Done> {
    let kept = check_targets(op, (logs.size(), axis), target.size())?;
    let classes = logs.size().0[axis];
    plan.check(op, classes, logs.device())?;
    same_device(op, logs.device(), target.device())?;
    logs.ensure_allocated(op)?;
    target.ensure_allocated(op)?;
    let counts = target.not_equal(plan.ignore)?;
    // If no class exists, every target may be ignored.
    let is_nothing = classes == 0 && counts.any(All)?.item().is_ok_and(|any| !any);
    let [losses, weights] = match is_nothing {
        true => [Tensor::zeros(kept, logs.device())?, Tensor::zeros(kept, logs.device())?],
        false => losses_and_weights(op, (logs, axis), &counts, target, plan)?,
    };
    // The loss of an ignored target is 0, also if the prediction is NaN.
    if const { !MEAN } {
        let size: [usize; OUT] = std::array::from_fn(|axis| kept[axis]);
        let (counts, losses) = (counts.reshape(size)?, losses.reshape(size)?);
        return counts.lazy().select(losses, T::zero()).eval_at(op, destination);
    }
    let total = counts.lazy().select(&losses, T::zero()).cast::<f64>().sum(All)?;
    let weight = weights.lazy().cast::<f64>().sum(All)?;
    let [total, weight] = [total.reshape([1; OUT])?, weight.reshape([1; OUT])?];
    (total.lazy() / weight).cast::<T>().eval_at(op, destination)
}

/// The losses of log-probabilities, classes along an axis, and the weight of each, which is 0 for an ignored
/// target.
fn losses_and_weights<T: Float, const RANK: usize, const M: usize, D: Device>(
    op: &'static str,
    (logs, axis): (TensorView<'_, T, RANK, D>, usize),
    counts: &Tensor<bool, M, D>,
    target: TensorView<'_, i64, M, D>,
    plan: ClassLoss<'_, T, D>,
) -> Result<[Tensor<T, M, D>; 2]> {
    let (size, classes) = (with_size(logs.size(), axis, 1), logs.size().0[axis]);
    let target = counts.select(target, 0)?;
    let kept = target.size();
    let picked = gather(op, logs, axis, target.view().reshape(size)?, Allocate)?.into_shape(kept)?;
    let weights = match plan.weight {
        Some(weight) => counts.select(&weight.take(&target)?, T::zero())?,
        None => counts.cast::<T>()?,
    };
    let losses = picked.lazy().neg().zip(Share, &weights).eval()?;
    if plan.smoothing == 0.0 {
        return Ok([losses, weights]);
    }
    let ones = Tensor::<T, 1, D>::ones([1], logs.device())?;
    let line = match plan.weight {
        Some(weight) => weight.reshape(sizes_along::<RANK>(axis, classes))?,
        None => ones.reshape([1; RANK])?,
    };
    let all = logs.lazy().zip(Share, line).reduce_keepdims_axis(Sum, axis)?;
    let all = all.reshape(kept)?;
    let share = T::constant(-plan.smoothing / classes.max(1) as f64);
    let rest = losses.lazy().zip(Share, T::constant(1.0 - plan.smoothing));
    Ok([(rest + all.lazy() * share).eval()?, weights])
}
