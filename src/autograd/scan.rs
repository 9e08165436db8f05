//! Scans: their recording and their backward pass.
//!
//! A result of a scan comes from the result before it and one value, `yⱼ = f(yⱼ₋₁, xⱼ)`, where `f` is the
//! [fold](Reducer::fold) of the reducer. With `aⱼ = ∂f/∂yⱼ₋₁`, the gradient `z` that reaches `yⱼ₋₁` through
//! `yⱼ` is `zⱼ = aⱼ · (gⱼ + zⱼ₊₁)`: a recurrence of the first order, which is a scan again, from the end.
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`.

use super::backward::{Backward, Target, Temporary, Vjp, VjpOf, distinct, saved_slots, variables};
use super::facts::{Facts, facts_of};
use super::record::{FactsOfLoads, flow_of};
use super::recurrence::Recurrence;
use super::small_vec::SmallVec;
use super::state::{BackwardFn, BackwardOperands, Begun, OutputType, Step, TapeState};
use super::vjp::{ConstantsAsLoads, Variable};
use crate::device::{Device, Inputs, OperandRef};
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::error::{Error, Result, text};
use crate::kernel::{Body, Io, Program, Reducer, Row, ScanPlan, Slope, Store};
use crate::scalar::{Lane, Lanes, Need, Needs};
use std::any::TypeId;
use std::marker::PhantomData;

/// The derivative of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScanKind {
    /// Sums of the values.
    Sum,
    /// The reducer folds.
    Fold,
    /// A [`Recurrence`], whose loads are `c` and `a`.
    Recurrence,
    /// There is none.
    None,
}

impl ScanKind {
    pub(super) fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        let any = Lane::<Needs, _>::from_raw(Need::RUN_TIME);
        let count = Lane::<Needs, f64>::from_raw(Need::RUN_TIME);
        if TypeId::of::<R>() == TypeId::of::<Recurrence<R::Out>>() {
            return ScanKind::Recurrence;
        }
        if const { matches!(R::SLOPE, Slope::Constant) } {
            let slope = R::slope::<Needs>(any, Lane::from_raw(Need::RUN_TIME), any, count);
            return if slope.raw().literal == Some(1.0) { ScanKind::Sum } else { ScanKind::None };
        }
        if folds::<B, R>() { ScanKind::Fold } else { ScanKind::None }
    }
}

/// Whether a scan has a derivative by the fold of its reducer, whose results have the elements of its values.
pub(super) const fn folds<B: Body, R: Reducer<B::Out>>() -> bool {
    let is_real = R::Out::DTYPE as u8 == B::Out::DTYPE as u8 && !R::Out::DTYPE.is_complex();
    R::FOLDS && is_real && !matches!(R::SLOPE, Slope::Constant)
}

/// The fold of a reducer over the values of a body: the loads of the body, then the result before them.
#[derive(Debug)]
pub(super) struct Fold<B, R>(pub(super) B, pub(super) PhantomData<R>);

impl<B: Clone, R> Clone for Fold<B, R> {
    fn clone(&self) -> Self {
        Fold(self.0.clone(), PhantomData)
    }
}
impl<B: Copy, R> Copy for Fold<B, R> {}

impl<B: Body, R: Reducer<B::Out>> Body for Fold<B, R> {
    type Out = B::Out;
    const LOADS: usize = B::LOADS + 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        let x = self.0.eval::<L>(io);
        let earlier = io.load::<B::Out>();
        R::fold::<L>(earlier, x)
    }
}

/// A scan, with its types erased.
pub(super) trait ScanBackward: Send {
    /// The kernels of the body of a sum, or of the fold.
    fn vjp(&self) -> &dyn Vjp;
    /// Runs the scan again.
    ///
    /// # Safety
    /// As [`Device::scan`].
    unsafe fn run(&self, plan: ScanPlan<'_>, to: OperandRef<'_>, inputs: Inputs<'_>) -> Result<()>;
}

/// A scan of a body by a reducer on a device.
pub(super) struct ScanOf<B, R, D, P> {
    body: B,
    reducer: R,
    device: D,
    vjp: VjpOf<P, D, false>,
}

/// The facts of the body of a scan, or of its fold.
pub(super) fn facts_of_scan<B: Body, R: Reducer<B::Out>>(body: &B) -> &'static Facts {
    if const { folds::<B, R>() } {
        facts_of(&Store(Fold::<B, R>(*body, PhantomData)))
    } else {
        facts_of(&Store(ConstantsAsLoads(*body)))
    }
}

/// The backward function of a scan that is a sum or folds.
pub(super) fn backward_of<B: Body, R: Reducer<B::Out>, D: Device>(
    body: &B,
    reducer: R,
    device: &D,
) -> Box<dyn ScanBackward> {
    macro_rules! boxed {
        ($program:expr) => {{
            let vjp = VjpOf($program, device.clone());
            Box::new(ScanOf { body: *body, reducer, device: device.clone(), vjp })
        }};
    }
    if const { folds::<B, R>() } {
        boxed!(Store(Fold::<B, R>(*body, PhantomData)))
    } else {
        boxed!(Store(ConstantsAsLoads(*body)))
    }
}

impl<B: Body, R: Reducer<B::Out>, D: Device, P: Program> ScanBackward for ScanOf<B, R, D, P> {
    fn vjp(&self) -> &dyn Vjp {
        &self.vjp
    }
    unsafe fn run(&self, plan: ScanPlan<'_>, to: OperandRef<'_>, inputs: Inputs<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.scan(&self.body, self.reducer, plan, to, inputs) }
    }
}

impl TapeState {
    /// See [`State::begin`](super::state::State::begin).
    pub(super) fn begin_scan<'a>(
        &'a self,
        (op, dtype, kind): (&'static str, DType, ScanKind),
        facts: &'static Facts,
        plan: ScanPlan<'_>,
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<Begun<'a>> {
        let sizes = [plan.lines, &[plan.along]].concat();
        let outputs = [(output, OutputType::Is(dtype))];
        self.begin(op, &sizes, inputs.slots, &outputs, &mut |active| {
            let flow = flow_of(facts, inputs.reads, active);
            match kind {
                ScanKind::None if flow.to.iter().any(Option::is_some) => Err(no_fold(op, dtype)),
                // The backward pass computes the earlier results again.
                ScanKind::Fold => Ok(BackwardOperands { reads: u64::MAX, ..flow }),
                // It reads `a`.
                ScanKind::Recurrence => Ok(BackwardOperands { reads: 0b10, ..flow }),
                ScanKind::Sum | ScanKind::None => Ok(flow),
            }
        })
    }

    pub(super) fn end_scan(
        &self,
        step: Box<Step>,
        output: OperandRef<'_>,
        (facts, reads): FactsOfLoads<'_>,
        (is_sum, exclusive): (bool, bool),
        scan: Box<dyn ScanBackward>,
    ) {
        let reads = SmallVec::new(reads);
        let run: BackwardFn = Box::new(move |b, step| {
            let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
            let operands = saved_slots(b, step);
            let mut slots: SmallVec<OperandRef<'_>> = reads.iter().map(|&k| operands[k as usize]).collect();
            let (sums, earlier);
            if is_sum {
                sums = sums_from_the_end(b, step, gradient, exclusive)?;
            } else {
                earlier = Temporary::new(&*b.inner, &step.sizes, gradient.element)?;
                let (distinct, reads) = distinct(&slots)?;
                let inputs = Inputs { slots: &distinct, reads: &reads };
                // SAFETY: (1) the operands of the forward pass; (2) the output is new memory.
                unsafe { scan.run(plan_of(step, true), earlier.slot(), inputs)? };
                slots.push(earlier.slot());
                sums = fold_from_the_end(b, step, &*scan, (facts, &slots), gradient, exclusive)?;
            }
            slots.push(sums.slot());
            for &(operand, mask) in variables(&reads, 0..reads.len(), step, facts).iter() {
                if let Some(view) = &step.inputs[operand].view {
                    b.vjp(scan.vjp(), facts, mask, (&step.sizes, 0), &slots, Target::BlockView(view))?;
                }
            }
            Ok(())
        });
        self.end(step, &[output], run);
    }

    /// The backward function of `uₖ₊₁ = cₖ + aₖ · uₖ`, whose results are those before each position.
    pub(super) fn end_recurrence(&self, mut step: Box<Step>, output: OperandRef<'_>) {
        step.result = self.lock().save(&output);
        let run: BackwardFn = Box::new(move |b, step| {
            let (Some(result), Some(a)) = (&step.result, &step.inputs[1].saved) else { return Ok(()) };
            let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
            let (sizes, dtype) = (&step.sizes[..], step.outputs[0].view.dtype);
            let through = recur_from_the_end(b, step, [gradient, a.slot()])?;
            if let Some(c) = &step.inputs[0].view {
                b.add_values(c, sizes, through.slot())?;
            }
            if let Some(a) = &step.inputs[1].view {
                // SAFETY: (1) two operands of these sizes; (2) to (4) the output is memory of the pass.
                unsafe { b.inner.multiply(dtype, sizes, through.slot(), result.slot())? };
                b.add_values(a, sizes, through.slot())?;
            }
            Ok(())
        });
        self.end(step, &[output], run);
    }
}

/// The error for a reducer whose scans have no derivative.
pub(super) fn no_fold(name: &'static str, dtype: DType) -> Error {
    let what = match dtype.is_complex() {
        true => text(format_args!("a scan of complex numbers by `{name}` has no derivative; sums have")),
        false => {
            text(format_args!("a scan by `{name}` has no derivative: its reducer does not fold (`FOLDS`)"))
        }
    };
    Error::Value { op: name, what }
}

/// The plan of a scan in the order of the forward pass or in the reverse order.
fn plan_of(step: &Step, exclusive: bool) -> ScanPlan<'_> {
    let last = step.sizes.len() - 1;
    ScanPlan { lines: &step.sizes[..last], along: step.sizes[last], exclusive }
}

/// A value contributes to all later sums: the sums of the gradients in the reverse order.
fn sums_from_the_end(
    b: &Backward,
    step: &Step,
    gradient: OperandRef<'_>,
    exclusive: bool,
) -> Result<Temporary> {
    let sums = Temporary::new(&*b.inner, &step.sizes, gradient.element)?;
    let (plan, from) = (plan_of(step, exclusive), FromTheEnd::new(gradient, step));
    let to = FromTheEnd::new(sums.slot(), step);
    // SAFETY: (1) both operands begin at their last element along the axis, with its stride reversed; (2) the
    // output is new memory.
    unsafe { b.inner.running_sum(step.outputs[0].view.dtype, plan, to.slot(), from.slot())? };
    Ok(sums)
}

/// The gradients of the results of the fold at each position, through all later results. `slots` are the
/// operands of the fold.
fn fold_from_the_end(
    b: &Backward,
    step: &Step,
    scan: &dyn ScanBackward,
    (facts, slots): (&Facts, &[OperandRef<'_>]),
    gradient: OperandRef<'_>,
    exclusive: bool,
) -> Result<Temporary> {
    let (sizes, dtype) = (&step.sizes[..], step.outputs[0].view.dtype);
    let earlier = facts.loads.len() - 1;
    let by_earlier = |gradient: OperandRef<'_>| {
        let to = Temporary::new(&*b.inner, sizes, gradient.element)?;
        let slots = [slots, &[gradient]].concat();
        let (distinct, reads) = distinct(&slots)?;
        let inputs = Inputs { slots: &distinct, reads: &reads };
        let variable = Variable { mask: 1 << earlier, is_imaginary: false };
        scan.vjp().run(earlier, variable, sizes, to.slot(), inputs)?;
        Ok::<_, Error>(to)
    };
    let one = b.inner.number(dtype, 1.0)?;
    let stride = vec![0; sizes.len()];
    let a = by_earlier(OperandRef { address: one.address(), stride: &stride, element: dtype.size() })?;
    if exclusive {
        return recur_from_the_end(b, step, [gradient, a.slot()]);
    }
    let c = by_earlier(gradient)?;
    let through = recur_from_the_end(b, step, [c.slot(), a.slot()])?;
    // SAFETY: (1) two operands of these sizes; (2) to (4) the output is memory of the pass.
    unsafe { b.inner.add(dtype, sizes, through.slot(), gradient)? };
    Ok(through)
}

/// The results of a recurrence in the reverse order, before each position.
fn recur_from_the_end(b: &Backward, step: &Step, maps: [OperandRef<'_>; 2]) -> Result<Temporary> {
    let results = Temporary::new(&*b.inner, &step.sizes, maps[0].element)?;
    let [c, a, to] = [maps[0], maps[1], results.slot()].map(|slot| FromTheEnd::new(slot, step));
    // SAFETY: (1) the operands begin at their last element along the axis, with its stride reversed; (2) the
    // output is new memory.
    unsafe {
        b.inner.recur(step.outputs[0].view.dtype, plan_of(step, true), to.slot(), [c.slot(), a.slot()])?;
    }
    Ok(results)
}

/// An operand from its last element along the last axis, with the stride reversed.
struct FromTheEnd {
    address: *mut u8,
    stride: SmallVec<isize>,
    element: usize,
}

impl FromTheEnd {
    fn new(slot: OperandRef<'_>, step: &Step) -> Self {
        let last = step.sizes.len() - 1;
        let mut stride = slot.stride.to_vec();
        let bytes = stride[last] * (step.sizes[last] as isize - 1) * slot.element as isize;
        stride[last] = -stride[last];
        let address = slot.address.wrapping_offset(bytes);
        FromTheEnd { address, stride: SmallVec::new(&stride), element: slot.element }
    }
    fn slot(&self) -> OperandRef<'_> {
        OperandRef { address: self.address, stride: &self.stride, element: self.element }
    }
}
