//! The rule of contractions: the gradient of each operand is a contraction of the other operand with the
//! gradient of the output.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`.

use super::axes::Axes;
use super::backward::{Backward, Buffer, no_gradient};
use super::state::{Begun, Flow, OutputType, Saved, Step, has_gradient};
use super::tape::Tape;
use crate::device::{Device, Inputs, OperandRef};
use crate::dtype::DType;
use crate::element::{Element, Number};
use crate::error::Result;
use crate::kernel::{Call, ContractPlan, Input, Store};
use crate::ops::Conj;
use num_complex::Complex;
use std::marker::PhantomData;

/// Runs a contraction and records it.
///
/// # Safety
/// As [`Device::contract`].
pub(super) unsafe fn record<T: Number, L: Number, R: Number, D: Device>(
    tape: &Tape<D>,
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<()> {
    let ContractPlan { batch, m, k, n } = plan;
    // Operands may have more strides than the plan has axes.
    let strided = |slot: OperandRef<'_>, groups: [&[usize]; 3]| {
        let axes = groups.iter().map(|group| group.len()).sum();
        Axes::new(&slot.stride[..axes])
    };
    let strides =
        [strided(output, [batch, m, n]), strided(left, [batch, m, k]), strided(right, [batch, k, n])];
    let sizes = [batch, m, n].concat();
    let [to, left, right] = [(output, 0), (left, 1), (right, 2)]
        .map(|(slot, which)| OperandRef { stride: &strides[which], ..slot });
    let are_smooth = [T::DTYPE, L::DTYPE, R::DTYPE].into_iter().all(has_gradient);
    let outputs = [(to, OutputType::Is(T::DTYPE))];
    let begun = tape.begin("contract", &sizes, &[left, right], &outputs, &mut |active| {
        let [l, r] = [active[0].is_some() && are_smooth, active[1].is_some() && are_smooth];
        // The gradient of each operand reads the other one.
        let reads = u64::from(r) | u64::from(l) << 1;
        Ok(Flow { to: vec![l.then_some(L::DTYPE), r.then_some(R::DTYPE)], reads })
    })?;
    let Begun { inputs, outputs: inner_output, step, is_recorded } = begun;
    // SAFETY: (1) to (3) are the caller's promises; the operands are the same memory of the inner device.
    unsafe { tape.0.inner.contract::<T, L, R>(plan, inner_output[0], inputs[0], inputs[1])? };
    tape.end(step, is_recorded, &[to], || {
        let groups = [batch, m, k, n].map(Axes::new);
        Box::new(move |b, step| backward::<T, L, R, D>(b, step, &groups))
    });
    Ok(())
}

fn backward<T: Number, L: Number, R: Number, D: Device>(
    b: &mut Backward<D>,
    step: &Step<D>,
    [batch, m, k, n]: &[Axes<usize>; 4],
) -> Result<()> {
    let Some(gradient) = b.gradient(&step.outputs[0].spot) else { return Ok(()) };
    if k.contains(&0) {
        return Ok(()); // An operand without elements has no gradient to add to.
    }
    if let (Some(spot), Some(right)) = (&step.inputs[0].spot, &step.inputs[1].saved) {
        let sizes = [&batch[..], k, n].concat();
        let right = Conjugated::new(b, right, &sizes, R::DTYPE)?;
        let stride = swapped(right.slot().stride, batch.len(), k.len());
        let right = OperandRef { stride: &stride, ..right.slot() };
        let plan = ContractPlan { batch, m, k: n, n: k };
        // SAFETY: (1) the gradient has the layout of the output, and the axes of the other operand are
        // swapped; (2) the output is new memory; (3) the groups are those of the forward plan.
        b.add(spot, &[&batch[..], m, k].concat(), &mut |inner, to| unsafe {
            inner.contract::<L, T, R>(plan, to, gradient, right)
        })?;
    }
    if let (Some(spot), Some(left)) = (&step.inputs[1].spot, &step.inputs[0].saved) {
        let sizes = [&batch[..], m, k].concat();
        let left = Conjugated::new(b, left, &sizes, L::DTYPE)?;
        let stride = swapped(left.slot().stride, batch.len(), m.len());
        let left = OperandRef { stride: &stride, ..left.slot() };
        let plan = ContractPlan { batch, m: k, k: m, n };
        // SAFETY: as above.
        b.add(spot, &[&batch[..], k, n].concat(), &mut |inner, to| unsafe {
            inner.contract::<R, L, T>(plan, to, left, gradient)
        })?;
    }
    Ok(())
}

/// The strides of an operand with the two groups after `batch` swapped; the first has `first` axes.
fn swapped(stride: &[isize], batch: usize, first: usize) -> Vec<isize> {
    let (head, tail) = stride.split_at(batch);
    let (a, b) = tail.split_at(first);
    [head, b, a].concat()
}

/// The conjugate of a saved operand: the operand itself if it is real.
enum Conjugated<'s, D: Device> {
    Real(&'s Saved<D>),
    Complex(Buffer<D>),
}

impl<'s, D: Device> Conjugated<'s, D> {
    fn new(b: &Backward<D>, saved: &'s Saved<D>, sizes: &[usize], dtype: DType) -> Result<Self> {
        match dtype {
            DType::C32 => conjugate::<Complex<f32>, D>(b, saved, sizes),
            DType::C64 => conjugate::<Complex<f64>, D>(b, saved, sizes),
            dtype if has_gradient(dtype) => Ok(Conjugated::Real(saved)),
            dtype => Err(no_gradient(dtype)),
        }
    }
    fn slot(&self) -> OperandRef<'_> {
        match self {
            Conjugated::Real(saved) => saved.slot(),
            Conjugated::Complex(buffer) => buffer.slot(),
        }
    }
}

fn conjugate<'s, T: Element, D: Device>(
    b: &Backward<D>,
    saved: &'s Saved<D>,
    sizes: &[usize],
) -> Result<Conjugated<'s, D>>
where
    Conj: crate::kernel::Op<(T,), Out = T>,
{
    let buffer = Buffer::new(&b.inner, sizes, size_of::<T>())?;
    let program = Store(Call::<Conj, _>::new((Input::<T>(PhantomData),)));
    let inputs = Inputs { slots: &[saved.slot()], reads: &[0] };
    // SAFETY: (1) the saved operand at its sizes; (2) and (3) the output is new memory; (4) the pass owns it.
    unsafe { b.inner.map(&program, sizes, 0, &[buffer.slot()], inputs)? };
    Ok(Conjugated::Complex(buffer))
}
