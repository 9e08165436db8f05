//! Backward passes of operators along axes that keep the sizes, for devices that record.
//!
//! The generic backward pass of a program with row constants splits it into reductions. An operator here
//! states the whole of it as one such program.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `kernel`, `device`, `tensor`, `ops`.

#[cfg(feature = "autograd")]
use crate::device::{COMPILED_RANK, Cpu, ErasedRule, erase_rule, is_compiled};
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput};
use crate::dim::{Dim, MarkedAxes};
use crate::element::{Compute, Float};
use crate::error::Result;
use crate::kernel::Op;
use crate::rank::HasAxes;
#[cfg(feature = "autograd")]
use crate::scalar::Prim as _;
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Destination, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// `gradient · slope`, and 0 where the gradient is 0 and the slope infinite or NaN: no gradient flows to a
/// branch that was not taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow;

impl<T: Float> Op<(T, T)> for Flow {
    const NAME: &'static str = "flow";
    const CHEAP: bool = true;
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>((gradient, slope): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, Compute<T>> {
        gradient.flow(slope)
    }
}

/// The arguments of an operator along axes: none, or a number.
pub(in crate::ops) trait Arguments<T>: Copy + Send + 'static {
    /// The number, if there is one.
    #[cfg(feature = "autograd")]
    fn number(self) -> f64;
    /// The arguments with this number.
    #[cfg(feature = "autograd")]
    fn of(number: f64) -> Self;
}

impl<T> Arguments<T> for () {
    #[cfg(feature = "autograd")]
    fn number(self) -> f64 {
        0.0
    }
    #[cfg(feature = "autograd")]
    fn of(_: f64) -> Self {}
}

impl<T: Float> Arguments<T> for (T,) {
    #[cfg(feature = "autograd")]
    fn number(self) -> f64 {
        self.0.widen().cast::<f64>()
    }
    #[cfg(feature = "autograd")]
    fn of(number: f64) -> Self {
        (T::constant(number),)
    }
}

/// An operator along axes with one operand. `along_axes!` implements it.
pub(in crate::ops) trait ForwardAlong<T: Float>: Copy + 'static {
    /// The name of the operator.
    const NAME: &'static str;
    /// The arguments of the operator besides operand and axes.
    type Arguments: Arguments<T>;
    /// Computes the operator.
    fn forward<const RANK: usize, D: Device>(
        arguments: Self::Arguments,
        axes: MarkedAxes<RANK>,
        x: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()>;
}

/// The backward pass of an operator along axes.
pub(in crate::ops) trait BackwardAlong<T: Float>: ForwardAlong<T> {
    /// Whether the backward pass reads the result; otherwise it reads the operand.
    const READS_RESULT: bool;
    /// The rule of f32 on the CPU, which is compiled with this crate.
    #[cfg(feature = "autograd")]
    const ON_CPU: CompiledAlong;
    /// Computes the gradient of the operand from the values that it reads and the gradient of the result.
    fn backward<const RANK: usize, D: Device>(
        arguments: Self::Arguments,
        axes: MarkedAxes<RANK>,
        values: TensorView<'_, T, RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()>;
}

/// Makes the rule of f32 on the CPU from the argument and the axes.
#[cfg(feature = "autograd")]
pub(in crate::ops) type CompiledAlong = fn(f64, MarkedAxes<COMPILED_RANK>) -> Box<dyn ErasedRule>;

/// Defines rules of f32 on the CPU, which are compiled with this crate: functions from the argument and the
/// axes.
#[cfg(feature = "autograd")]
macro_rules! compiled_along {
    ($($name:ident: $Rule:ident;)*) => { $(
        #[cfg(feature = "autograd")]
        #[inline(never)]
        fn $name(
            number: f64,
            axes: crate::dim::MarkedAxes<{ crate::device::COMPILED_RANK }>,
        ) -> Box<dyn crate::device::ErasedRule> {
            crate::ops::nn::rules::erase_along::<$Rule>(number, axes)
        }
    )* };
}
#[cfg(feature = "autograd")]
pub(super) use compiled_along;

#[cfg(feature = "autograd")]
pub(super) fn erase_along<F: BackwardAlong<f32>>(
    number: f64,
    axes: MarkedAxes<COMPILED_RANK>,
) -> Box<dyn ErasedRule> {
    let arguments = F::Arguments::of(number);
    erase_rule(RuleAlong::<F, f32, COMPILED_RANK> { arguments, axes, operator: PhantomData }, &Cpu)
}

/// The rule of an operator along axes.
#[derive(Clone, Copy)]
struct RuleAlong<F: BackwardAlong<T>, T: Float, const RANK: usize> {
    arguments: F::Arguments,
    axes: MarkedAxes<RANK>,
    operator: PhantomData<fn() -> (F, T)>,
}

impl<F: BackwardAlong<T>, T: Float, const RANK: usize> OperatorRule for RuleAlong<F, T, RANK> {
    const NAME: &'static str = F::NAME;
    const READS_RESULT: bool = F::READS_RESULT;
    type Saved<D: Device> = ();
    #[cfg(feature = "autograd")]
    const ON_CPU: Option<fn(Self) -> Box<dyn ErasedRule>> = match is_compiled::<T>(RANK) {
        true => Some(|rule| F::ON_CPU(rule.arguments.number(), rule.axes.of_rank())),
        false => None,
    };
    fn reads(_: usize) -> u64 {
        !F::READS_RESULT as u64
    }
    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        F::forward(self.arguments, self.axes, inputs[0].view::<T, RANK>()?, output.view_mut()?)
    }
    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let Recorded { inputs, result, gradient, .. } = recorded;
        let values = if F::READS_RESULT { result } else { inputs[0] };
        let (values, gradient) = (values.view::<T, RANK>()?, gradient.view()?);
        targets.into_iter().flatten().try_for_each(|target| {
            F::backward(self.arguments, self.axes, values, gradient, target.view_mut()?)
        })
    }
}

/// An operator along axes of a device that records, by its rule.
pub(in crate::ops) fn along_by_rule<
    F: BackwardAlong<T>,
    T: Float,
    AXES: Copy,
    const RANK: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    arguments: F::Arguments,
    x: TensorView<'_, T, RANK, D>,
    axes: AXES,
    destination: P,
) -> Result<P::Done>
where
    Dim<RANK>: HasAxes<AXES>,
{
    x.ensure_allocated(op)?;
    let axes = MarkedAxes::of(axes);
    axes.found(op, || x.size())?;
    let rule = RuleAlong::<F, T, RANK> { arguments, axes, operator: PhantomData };
    destination.put(op, x.layout().preserved(), x.device(), |out| {
        x.device().ruled(rule, &[x.rule_operand()], out.rule_output()).map_err(|error| error.with_op(op))
    })
}
