//! The backward pass of a reduction: the slope of its reducer times the derivative of its body.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::backward::{Backward, Target, Temporary, distinct, no_slope, saved_slots, variables};
use super::facts::Facts;
use super::record::{FactsOfLoads, ensure_room, flow_of};
use super::small_vec::SmallVec;
use super::state::{BackwardFn, Begun, OutputType, Step, TapeState};
use super::vjp::{SlopeOf, Total, Variable, VjpReduce};
use crate::device::{Device, Inputs, OperandRef, Reduction};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, ExtraVisitor, Reducer, Slope};
use crate::scalar::{Lane, Need, Needs};
use std::marker::PhantomData;

/// A reduced body with its reducer, on its device.
pub(super) struct ReducedBody<B, R, D, const BY_NAME: bool> {
    body: B,
    device: D,
    reducer: PhantomData<R>,
}

/// The backward pass of a reduction, with its types erased.
pub(super) trait ReduceBackward {
    /// The extra number of the reducer's slope for each result, broadcast along the reduced axes: the result
    /// of its extra reducer, or the sum of the slopes if the values share the gradient.
    fn extra(
        &self,
        b: &Backward,
        sizes: (&[usize], usize),
        loads: &[OperandRef<'_>],
        result: OperandRef<'_>,
    ) -> Result<Option<Temporary>>;

    /// Bytes of the extra number.
    fn element(&self) -> usize;

    /// Adds the gradient by the loads of a mask, which are one operand. `loads` are the operands of the body,
    /// and `numbers` the result, the extra number and the gradient, broadcast along the reduced axes, which
    /// are the last ones.
    #[allow(clippy::too_many_arguments)]
    fn vjp(
        &self,
        b: &mut Backward,
        facts: &Facts,
        mask: u64,
        sizes: (&[usize], usize),
        loads: &[OperandRef<'_>],
        numbers: [OperandRef<'_>; 3],
        target: Target<'_>,
    ) -> Result<()>;
}

impl TapeState {
    pub(super) fn begin_reduce<'a>(
        &'a self,
        (op, slope): (&'static str, Slope),
        facts: &'static Facts,
        axes: Reduction<'_>,
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<Begun<'a>> {
        let sizes = [axes.kept, axes.reduced].concat();
        let outputs = [(output, OutputType::Is(facts.outputs[0]))];
        self.begin(op, &sizes, inputs.slots, &outputs, &mut |active| {
            let mut flow = flow_of(facts, inputs.reads, active);
            flow.reads_result = matches!(slope, Slope::Values | Slope::Shared | Slope::Parts);
            ensure_room(op, facts.loads.len(), 3, &flow)?;
            if matches!(slope, Slope::None) && flow.to.iter().any(Option::is_some) {
                return Err(no_slope(op));
            }
            Ok(flow)
        })
    }

    pub(super) fn end_reduce(
        &self,
        step: Box<Step>,
        output: OperandRef<'_>,
        (facts, reads): FactsOfLoads<'_>,
        kept: usize,
        reduce: Box<dyn ReduceBackward + Send>,
    ) {
        let reads = SmallVec::new(reads);
        let run: BackwardFn = Box::new(move |b, step| {
            let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
            let operands = saved_slots(b, step);
            let loads: SmallVec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
            let axes = step.sizes.len();
            let broadcast = |stride: &[isize]| {
                let mut stride = stride[..kept].to_vec();
                stride.resize(axes, 0);
                stride
            };
            let result = step.result.as_ref().map_or(b.zeros(axes, gradient.element), |saved| saved.slot());
            let strides = [broadcast(result.stride), broadcast(gradient.stride)];
            let result = OperandRef { stride: &strides[0], ..result };
            let gradient = OperandRef { stride: &strides[1], ..gradient };
            let sizes = (&step.sizes[..], axes - kept);
            let extra = reduce.extra(b, sizes, &loads, result)?;
            let extra = extra.as_ref().map_or(b.zeros(axes, reduce.element()), Temporary::slot);
            for &(operand, mask) in variables(&reads, 0..loads.len(), step, facts).iter() {
                if let Some(view) = &step.inputs[operand].view {
                    let numbers = [result, extra, gradient];
                    reduce.vjp(b, facts, mask, sizes, &loads, numbers, Target::BlockView(view))?;
                }
            }
            Ok(())
        });
        self.end(step, &[output], run);
    }
}

impl<B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool> ReducedBody<B, R, D, BY_NAME> {
    pub(super) fn new(body: B, device: D) -> Self {
        ReducedBody { body, device, reducer: PhantomData }
    }

    /// Reduces `body`, or the slopes of its reducer, by another reducer.
    fn reduce_by<C: Body, Q: Reducer<C::Out>>(
        &self,
        b: &Backward,
        body: &C,
        reducer: Q,
        (sizes, row): (&[usize], usize),
        slots: &[OperandRef<'_>],
    ) -> Result<Temporary> {
        let (kept, reduced) = sizes.split_at(sizes.len() - row);
        let out = Temporary::new(&*b.inner, kept, size_of::<Q::Out>())?;
        let (distinct, reads) = distinct(slots)?;
        let (axes, inputs) = (Reduction { kept, reduced }, Inputs { slots: &distinct, reads: &reads });
        // SAFETY: (1) the operands of the body at its sizes; (2) new memory of the sizes that are kept.
        unsafe {
            match BY_NAME {
                true => self.device.reduce_by_name(body, reducer, axes, out.slot(), inputs)?,
                false => self.device.reduce(body, reducer, axes, out.slot(), inputs)?,
            }
        }
        Ok(out)
    }

    /// Whether the slope of the reducer is 1.
    fn is_sum() -> bool {
        let any = Need::RUN_TIME;
        matches!(R::SLOPE, Slope::Constant)
            && R::slope::<Needs>(Lane(any), Lane(any), Lane(any), Lane(any)).raw().literal == Some(1.0)
    }
}

impl<B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool> ReduceBackward
    for ReducedBody<B, R, D, BY_NAME>
{
    fn extra(
        &self,
        b: &Backward,
        sizes: (&[usize], usize),
        loads: &[OperandRef<'_>],
        result: OperandRef<'_>,
    ) -> Result<Option<Temporary>> {
        let buffer = match R::SLOPE {
            Slope::None | Slope::Constant => None,
            Slope::Values | Slope::Parts => R::extra(ReduceExtra { b, reduced: self, sizes, loads })?,
            Slope::Shared => {
                let slots: Vec<OperandRef<'_>> = loads.iter().copied().chain([result]).collect();
                let slopes = SlopeOf::<B, R>(self.body, PhantomData);
                Some(self.reduce_by(b, &slopes, Total, sizes, &slots)?)
            }
        };
        Ok(buffer.map(|buffer| buffer.broadcast(sizes.1)))
    }

    fn element(&self) -> usize {
        size_of::<B::Out>()
    }

    fn vjp(
        &self,
        b: &mut Backward,
        facts: &Facts,
        mask: u64,
        (sizes, row): (&[usize], usize),
        loads: &[OperandRef<'_>],
        numbers: [OperandRef<'_>; 3],
        target: Target<'_>,
    ) -> Result<()> {
        let k = mask.trailing_zeros() as usize;
        if let (1, Target::BlockView(view), true) = (mask.count_ones(), &target, Self::is_sum())
            && facts.slopes[k].is_some_and(|slope| slope.literal == Some(1.0))
            && view.dtype == R::Out::DTYPE
        {
            return b.add_values(view, sizes, numbers[2]);
        }
        let slots = loads.iter().chain(&numbers);
        let (distinct, reads) = distinct(&b.with_read(facts, mask, sizes.len(), slots))?;
        let inputs = Inputs { slots: &distinct, reads: &reads };
        let count = sizes[sizes.len() - row..].iter().product::<usize>() as f64;
        b.each_direction(facts.loads[k], sizes, row, target, &mut |is_imaginary, to| {
            let variable = Variable { mask, is_imaginary };
            let program = VjpReduce::<B, R> { body: self.body, variable, count, reducer: PhantomData };
            // SAFETY: (1) the operands of the body and three numbers for each result, at the sizes of the
            // reduction; (2) and (3) the output is memory of a place for the element of the variable; (4) the pass
            // owns it.
            unsafe {
                match BY_NAME {
                    true => self.device.map_by_name(&program, sizes, &[to], inputs),
                    false => self.device.map_apart(&program, sizes, 0, &[to], inputs),
                }
            }
        })
    }
}

/// Reduces the body by the extra reducer.
struct ReduceExtra<'a, B, R, D: Device, const BY_NAME: bool> {
    b: &'a Backward,
    reduced: &'a ReducedBody<B, R, D, BY_NAME>,
    sizes: (&'a [usize], usize),
    loads: &'a [OperandRef<'a>],
}

impl<B: Body, R: Reducer<B::Out>, D: Device, const BY_NAME: bool> ExtraVisitor<B::Out>
    for ReduceExtra<'_, B, R, D, BY_NAME>
{
    type Result = Result<Option<Temporary>>;
    fn none(self) -> Self::Result {
        Ok(None)
    }
    fn reducer<Q: Reducer<B::Out, Out = B::Out>>(self, reducer: Q) -> Self::Result {
        let ReduceExtra { b, reduced, sizes, loads } = self;
        reduced.reduce_by(b, &reduced.body, reducer, sizes, loads).map(Some)
    }
}
