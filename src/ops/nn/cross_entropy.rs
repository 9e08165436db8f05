//! The cross entropy of targets that are classes, with its backward pass for devices that record.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use super::class_losses::{ClassLoss, check_targets, class_losses};
#[cfg(feature = "autograd")]
use crate::device::{COMPILED_RANK, Cpu, ErasedRule, erase_rule, is_compiled};
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput, same_device};
use crate::dim::{All, Axis, Dim, MarkedAxes};
use crate::element::{Compute, Float};
use crate::error::{Error, Result};
use crate::expr::{Reduce as _, apply_into};
use crate::kernel::Op;
use crate::layout::Layout;
use crate::ops::axes::{sizes_along, with_size};
use crate::ops::{Cast as _, Comparisons as _, Indexing as _, Reductions as _, Sum};
use crate::rank::RemoveAxes;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Destination, Existing, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// The losses of scores, classes along axis `A`, or (`MEAN`) their mean. `OUT` is `M`, or 0 for a mean.
pub(super) fn cross_entropy<
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
    x: TensorView<'_, T, RANK, D>,
    target: TensorView<'_, i64, M, D>,
    plan: ClassLoss<'_, T, D>,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: RemoveAxes<Axis<A>, Output = Dim<M>>,
{
    if const { !D::RECORDS } {
        let logs = x.log_softmax(Axis::<A>).map_err(|error| error.with_op(op))?;
        let logs = (logs.view(), A);
        return class_losses::<T, RANK, M, OUT, MEAN, D, P>(op, logs, target, plan, destination);
    }
    x.ensure_allocated(op)?;
    target.ensure_allocated(op)?;
    same_device(op, x.device(), target.device())?;
    let kept = check_targets(op, (x.size(), A), target.size())?;
    plan.check(op, x.size().0[A], x.device())?;
    let (ignore, smoothing) = (plan.ignore, plan.smoothing);
    let rule = CrossEntropyRule::<T, RANK, M, OUT, MEAN> { axis: A, ignore, smoothing, element: PhantomData };
    let size = Dim(std::array::from_fn(|axis| kept[axis]));
    destination.put(op, Layout::row_major(size), x.device(), |out| {
        let mut operands = vec![x.rule_operand(), target.rule_operand()];
        operands.extend(plan.weight.as_ref().map(TensorView::rule_operand));
        x.device().ruled(rule, &operands, out.rule_output()).map_err(|error| match error {
            // A rule that is compiled with this crate has more axes.
            Error::Index { index, axis: Some(_), sizes, .. } if sizes.as_slice().len() > RANK => {
                Error::Index { op, index, axis: Some(A), sizes: x.size().0.into() }
            }
            error => error.with_op(op),
        })
    })
}

/// `gradient · (p − y)`, by the logarithm of the probability `p`; the share `y` of a class is
/// `spread`, and `rest` more for the target: `(logarithm, is the target, gradient, spread, rest)`.
#[derive(Clone, Copy)]
struct OfScore<T, S>(PhantomData<fn() -> (T, S)>);

impl<T: Float, S: Float> Op<(T, bool, S, S, S)> for OfScore<T, S> {
    const NAME: &'static str = "cross_entropy";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (log, is_target, gradient, spread, rest): (
            Lane<L, Compute<T>>,
            Lane<L, bool>,
            Lane<L, Compute<S>>,
            Lane<L, Compute<S>>,
            Lane<L, Compute<S>>,
        ),
    ) -> Lane<L, Compute<T>> {
        // The larger part first: the difference from a probability near 1 is exact.
        let rest = is_target.select(rest.cast(), Lane::zero());
        gradient.cast().flow(log.exp() - rest - spread.cast())
    }
}

/// The gradient of the weight of a class by one target: `−gradient · (share · logarithm + mean)`, where
/// `mean` is that of the losses, for the target's class:
/// `(logarithm, is the target, gradient, mean, rest, spread)`.
#[derive(Clone, Copy)]
struct OfWeight<T>(PhantomData<fn() -> T>);

impl<T: Float> Op<(T, bool, f64, f64, f64, f64)> for OfWeight<T> {
    const NAME: &'static str = "cross_entropy";
    type Out = f64;
    #[inline(always)]
    fn call<L: Lanes>(
        (log, is_target, gradient, mean, rest, spread): (
            Lane<L, Compute<T>>,
            Lane<L, bool>,
            Lane<L, f64>,
            Lane<L, f64>,
            Lane<L, f64>,
            Lane<L, f64>,
        ),
    ) -> Lane<L, f64> {
        let share = spread + is_target.select(rest, Lane::zero());
        // A share of 0 of an infinite loss is 0.
        let loss = share.eq(Lane::zero()).select(Lane::zero(), share * log.cast());
        gradient.flow(-(loss + is_target.select(mean, Lane::zero())))
    }
}

/// The rule of a cross entropy: the gradient of a row of scores is `f · (softmax(x) − y)`, where `y` is the
/// smoothed and weighted target divided by its sum, and `f` the gradient of the row's loss times that sum.
#[derive(Clone, Copy)]
struct CrossEntropyRule<T, const RANK: usize, const M: usize, const OUT: usize, const MEAN: bool> {
    /// That of the classes.
    axis: usize,
    ignore: i64,
    smoothing: f64,
    element: PhantomData<fn() -> T>,
}

/// The rule of the mean of f32 on the CPU, which is compiled with this crate.
#[cfg(feature = "autograd")]
#[inline(never)]
fn mean_of_f32(axis: usize, ignore: i64, smoothing: f64) -> Box<dyn ErasedRule> {
    const M: usize = COMPILED_RANK - 1;
    let element = PhantomData;
    let rule = CrossEntropyRule::<f32, COMPILED_RANK, M, 0, true> { axis, ignore, smoothing, element };
    erase_rule(rule, &Cpu)
}

impl<T: Float, const RANK: usize, const M: usize, const OUT: usize, const MEAN: bool> OperatorRule
    for CrossEntropyRule<T, RANK, M, OUT, MEAN>
{
    const NAME: &'static str = "cross_entropy";
    const READS_RESULT: bool = MEAN;
    /// The log-probabilities.
    type Saved<D: Device> = Option<Tensor<T, RANK, D>>;
    #[cfg(feature = "autograd")]
    const ON_CPU: Option<fn(Self) -> Box<dyn ErasedRule>> = match MEAN && is_compiled::<T>(RANK) {
        true => Some(|rule| mean_of_f32(rule.axis + COMPILED_RANK - RANK, rule.ignore, rule.smoothing)),
        false => None,
    };
    fn reads(_: usize) -> u64 {
        0b110
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        self.forward_and_save(inputs, output).map(drop)
    }

    fn forward_and_save<D: Device>(
        &self,
        inputs: &[RuleOperand<'_, D>],
        output: RuleOutput<'_, D>,
    ) -> Result<Self::Saved<D>> {
        let (x, target) = (inputs[0].view::<T, RANK>()?, inputs[1].view::<i64, M>()?);
        let weight = inputs.get(2).map(RuleOperand::view::<T, 1>).transpose()?;
        let plan = ClassLoss { weight, ignore: self.ignore, smoothing: self.smoothing };
        let logs = x.log_softmax_axis(self.axis)?;
        let out = Existing(output.view_mut::<T, OUT>()?);
        let (op, of) = (Self::NAME, (logs.view(), self.axis));
        class_losses::<T, RANK, M, OUT, MEAN, D, _>(op, of, target, plan, out)?;
        Ok(Some(logs))
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, Self::Saved<D>>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        // Without a score or a class only the weights of classes have elements, and the loss depends on none.
        let Some(logs) = recorded.saved.filter(|logs| !logs.is_empty()) else {
            return targets.into_iter().enumerate().try_for_each(|(of, out)| match out {
                Some(out) if of == 2 => out.view_mut::<T, 1>()?.fill(T::default()),
                Some(out) => out.view_mut::<T, RANK>()?.fill(T::default()),
                None => Ok(()),
            });
        };
        let target = recorded.inputs[1].view::<i64, M>()?;
        let weight = recorded.inputs.get(2).map(RuleOperand::view::<T, 1>).transpose()?;
        let counts = target.not_equal(self.ignore)?;
        // The weight of each target, 0 for an ignored one.
        let weights: Tensor<f64, M, D> = match weight {
            Some(weight) => {
                let taken = weight.take(&counts.select(target, 0)?)?;
                counts.lazy().select(taken.lazy().cast::<f64>(), 0.0).eval()?
            }
            None => counts.cast()?,
        };
        // The gradient of each loss, or of its part of the mean.
        let of_each: Tensor<f64, M, D> = if const { MEAN } {
            let gradient = recorded.gradient.view::<T, OUT>()?.reshape([1; M])?;
            let sum = weights.sum(All)?;
            let share = (gradient.lazy().cast::<f64>() / sum.reshape([1; M])?).eval()?;
            counts.lazy().select(&share, 0.0).eval()?
        } else {
            let gradient = recorded.gradient.view::<T, OUT>()?.reshape(target.size())?;
            counts.lazy().select(gradient.lazy().cast::<f64>(), 0.0).eval()?
        };
        let known = Known { logs, target, weight, of_each, weights };
        for (of, out) in targets.into_iter().enumerate() {
            match out {
                None => {}
                Some(out) if of == 2 => {
                    let mean = match const { MEAN } {
                        true => recorded.result.view::<T, OUT>()?.reshape([1; RANK])?.cast::<f64>()?,
                        false => Tensor::zeros([1; RANK], known.logs.device())?,
                    };
                    self.of_weight(&known, mean, out.view_mut()?)?;
                }
                // Factors of 16 bits would be rounded.
                Some(out) if const { size_of::<T>() == size_of::<Compute<T>>() } => {
                    self.of_scores::<T, D>(&known, out.view_mut()?)?;
                }
                Some(out) => self.of_scores::<f32, D>(&known, out.view_mut()?)?,
            }
        }
        Ok(())
    }
}

/// The operands of the backward pass, the gradient of each loss or of its part of the mean, and the weight of
/// each target, which is 0 for an ignored one.
struct Known<'x, T, const RANK: usize, const M: usize, D: Device> {
    logs: Tensor<T, RANK, D>,
    target: TensorView<'x, i64, M, D>,
    weight: Option<TensorView<'x, T, 1, D>>,
    of_each: Tensor<f64, M, D>,
    weights: Tensor<f64, M, D>,
}

impl<T: Float, const RANK: usize, const M: usize, const OUT: usize, const MEAN: bool>
    CrossEntropyRule<T, RANK, M, OUT, MEAN>
{
    /// The numbers of the classes along their axis, and the shares of each class and of the target.
    fn shares<D: Device>(&self, logs: &Tensor<T, RANK, D>) -> Result<(Tensor<i64, RANK, D>, f64, f64)> {
        let classes = logs.size().0[self.axis];
        let line = Tensor::<i64, 1, D>::arange(0, classes as i64, 1, logs.device())?;
        let line = line.into_shape(Dim(sizes_along::<RANK>(self.axis, classes)))?;
        Ok((line, self.smoothing / classes as f64, 1.0 - self.smoothing))
    }

    /// Writes the gradient of the scores. Factors have elements `S`.
    fn of_scores<S: Float, D: Device>(
        &self,
        known: &Known<'_, T, RANK, M, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        let Known { logs, target, weight, of_each, weights } = known;
        let size = with_size(logs.size(), self.axis, 1);
        let (line, spread, rest) = self.shares(logs)?;
        let is_target = line.lazy().equal(target.reshape(size)?);
        let operator = OfScore::<T, S>(PhantomData);
        let Some(weight) = weight else {
            let each = of_each.cast::<S>()?;
            let operands = (logs, is_target, each.reshape(size)?, S::constant(spread), S::constant(rest));
            return apply_into(operator, operands, out);
        };
        let of_classes = (weight.lazy().cast::<f64>() * spread).eval()?;
        let of_targets = (weights.lazy() * rest).eval()?;
        let total = (of_targets.lazy() + of_classes.sum(All)?.reshape([1; M])?).eval()?;
        // If nothing has a weight, the gradient is 0, and the shares are NaN.
        let each = (of_each.lazy() * &total).cast::<S>().eval()?;
        let rest = (of_targets.lazy() / &total).cast::<S>().eval()?;
        let inverse = (1.0 / total.lazy()).cast::<S>().eval()?;
        let of_classes = of_classes.cast::<S>()?.into_shape(line.size())?;
        let spread = of_classes.lazy() * inverse.reshape(size)?;
        apply_into(operator, (logs, is_target, each.reshape(size)?, spread, rest.reshape(size)?), out)
    }

    /// Writes the gradient of the weights of classes; `mean` is the mean of the losses, or 0.
    fn of_weight<D: Device>(
        &self,
        known: &Known<'_, T, RANK, M, D>,
        mean: Tensor<f64, RANK, D>,
        out: TensorViewMut<'_, T, 1, D>,
    ) -> Result<()> {
        let (logs, size) = (&known.logs, with_size(known.logs.size(), self.axis, 1));
        let (line, spread, rest) = self.shares(logs)?;
        let is_target = line.lazy().equal(known.target.reshape(size)?);
        let operands = (is_target, known.of_each.reshape(size)?, &mean, rest, spread);
        let parts = logs.lazy().apply(OfWeight::<T>(PhantomData), operands);
        let axes = MarkedAxes { marked: std::array::from_fn(|axis| axis != self.axis), missing: None };
        let sums = parts.reduce_keepdims(Sum, axes)?;
        sums.reshape([logs.size().0[self.axis]])?.lazy().cast::<T>().eval_into(out)
    }
}
