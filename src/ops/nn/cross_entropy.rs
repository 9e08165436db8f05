//! The cross entropy of targets that are classes, with its backward pass for devices that record.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use super::class_losses::{ClassLoss, class_losses, mean_loss};
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::{All, Axis, Dim};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::expr::apply_into;
use crate::kernel::Op;
use crate::layout::Layout;
use crate::ops::axes::{sizes_along, with_size};
use crate::ops::{Cast as _, Comparisons as _, Reductions as _};
use crate::rank::RemoveAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Destination, Existing, Tensor, TensorView};
use std::marker::PhantomData;

/// The losses of scores, classes along axis `A`.
pub(super) fn cross_entropy<
    T: Float,
    const A: usize,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, M, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    target: TensorView<'_, i64, M, D>,
    plan: ClassLoss<'_, T, D>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    if const { D::RECORDS } && plan.weight.is_none() {
        let kept: [usize; M] = std::array::from_fn(|a| x.size().0[a + usize::from(a >= A)]);
        return by_rule::<T, A, RANK, M, M, false, D, P>(op, (x, target), plan, Dim(kept), destination);
    }
    let logs = x.log_softmax(Axis::<A>).map_err(|error| error.with_op(op))?;
    Ok(class_losses::<T, A, RANK, M, D, _>(op, logs.view(), target, plan, destination)?.0)
}

/// The mean of the losses of scores, classes along axis `A`.
pub(super) fn cross_entropy_mean<
    T: Float,
    const A: usize,
    const RANK: usize,
    const M: usize,
    D: Device,
    P: Destination<T, 0, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    target: TensorView<'_, i64, M, D>,
    plan: ClassLoss<'_, T, D>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    if const { D::RECORDS } && plan.weight.is_none() {
        return by_rule::<T, A, RANK, M, 0, true, D, P>(op, (x, target), plan, Dim([]), destination);
    }
    let logs = x.log_softmax(Axis::<A>).map_err(|error| error.with_op(op))?;
    mean_loss::<T, A, RANK, M, D, _>(op, logs.view(), target, plan, destination)
}

fn by_rule<
    T: Float,
    const A: usize,
    const RANK: usize,
    const M: usize,
    const OUT: usize,
    const MEAN: bool,
    D: Device,
    P: Destination<T, OUT, D>,
>(
    op: &'static str,
    (x, target): (TensorView<'_, T, RANK, D>, TensorView<'_, i64, M, D>),
    plan: ClassLoss<'_, T, D>,
    size: Dim<OUT>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    x.ensure_allocated(op)?;
    target.ensure_allocated(op)?;
    crate::device::same_device(op, x.device(), target.device())?;
    let (ignore, smoothing) = (plan.ignore, plan.smoothing);
    let rule = CrossEntropyRule::<T, A, RANK, M, MEAN> { ignore, smoothing, element: PhantomData };
    destination.put(op, Layout::row_major(size), x.device(), |out| {
        let operands = [x.rule_operand(), target.rule_operand()];
        x.device().ruled(rule, &operands, out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// `gradient · (p − y)`, by the logarithm of the probability `p`; the share `y` of a class is
/// `spread`, and `rest` more for the target: `(logarithm, is the target, gradient, spread, rest)`.
#[derive(Clone, Copy)]
struct OfScore<T>(PhantomData<fn() -> T>);

impl<T: Float> Op<(T, bool, f64, f64, f64)> for OfScore<T> {
    const NAME: &'static str = "cross_entropy";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (log, is_target, gradient, spread, rest): (
            Lane<L, Compute<T>>,
            Lane<L, bool>,
            Lane<L, f64>,
            Lane<L, f64>,
            Lane<L, f64>,
        ),
    ) -> Lane<L, Compute<T>> {
        // The larger part first: the difference from a probability near 1 is exact.
        let rest = is_target.select(rest.cast(), Lane::zero());
        gradient.cast().flow(log.exp() - rest - spread.cast())
    }
}

/// The rule of a cross entropy without weights of classes: the gradient of a row of scores is
/// `f · (softmax(x) − y)`, where `f` is the gradient of the row's loss and `y` the smoothed target.
#[derive(Debug)]
struct CrossEntropyRule<T, const A: usize, const RANK: usize, const M: usize, const MEAN: bool> {
    ignore: i64,
    smoothing: f64,
    element: PhantomData<fn() -> T>,
}

impl<T, const A: usize, const RANK: usize, const M: usize, const MEAN: bool> Clone
    for CrossEntropyRule<T, A, RANK, M, MEAN>
{
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const A: usize, const RANK: usize, const M: usize, const MEAN: bool> Copy
    for CrossEntropyRule<T, A, RANK, M, MEAN>
{
}

impl<T: Float, const A: usize, const RANK: usize, const M: usize, const MEAN: bool> Rule
    for CrossEntropyRule<T, A, RANK, M, MEAN>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    const NAME: &'static str = "cross_entropy";
    const READS_RESULT: bool = false;
    /// The log-probabilities.
    type Saved<D: Device> = Tensor<T, RANK, D>;
    fn reads(_: usize) -> u64 {
        0b10
    }

    fn forward<D: Device>(
        &self,
        inputs: &[RuleOperand<'_, D>],
        output: RuleOutput<'_, D>,
    ) -> Result<Self::Saved<D>> {
        let (x, target) = (inputs[0].view::<T, RANK>()?, inputs[1].view::<i64, M>()?);
        let plan = ClassLoss::new().ignore(self.ignore).smoothing(self.smoothing);
        let logs = x.log_softmax(Axis::<A>)?;
        if const { MEAN } {
            let out = Existing(output.view_mut::<T, 0>()?);
            mean_loss::<T, A, RANK, M, D, _>(Self::NAME, logs.view(), target, plan, out)?;
        } else {
            let out = Existing(output.view_mut::<T, M>()?);
            class_losses::<T, A, RANK, M, D, _>(Self::NAME, logs.view(), target, plan, out)?;
        }
        Ok(logs)
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, Self::Saved<D>>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let Some(out) = targets.into_iter().flatten().next() else { return Ok(()) };
        let (logs, out) = (recorded.saved, out.view_mut::<T, RANK>()?);
        if logs.is_empty() {
            return Ok(()); // no class, and only ignored targets
        }
        let target = recorded.inputs[1].view::<i64, M>()?;
        let counts = target.not_equal(self.ignore)?;
        // The gradient of each loss; 0 for an ignored target.
        let each: Tensor<f64, M, D> = if const { MEAN } {
            let count = counts.lazy().cast::<f64>().sum(All)?;
            let share = (recorded.gradient.view::<T, 0>()?.lazy().cast::<f64>() / &count).eval()?;
            counts.lazy().select(share.reshape([1; M])?, 0.0).eval()?
        } else {
            counts.lazy().select(recorded.gradient.view::<T, M>()?.lazy().cast::<f64>(), 0.0).eval()?
        };
        let (size, classes) = (with_size(logs.size(), A, 1), logs.size().0[A]);
        let line = Tensor::<i64, 1, D>::arange(0, classes as i64, 1, logs.device())?;
        let line = line.reshape(sizes_along::<RANK>(A, classes))?;
        let is_target = line.lazy().equal(target.reshape(size)?);
        let (spread, rest) = (self.smoothing / classes.max(1) as f64, 1.0 - self.smoothing);
        apply_into(OfScore::<T>(PhantomData), (&logs, is_target, each.reshape(size)?, spread, rest), out)
    }
}
