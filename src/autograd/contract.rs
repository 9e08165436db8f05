//! The backward function of contractions: the gradient of each operand is a contraction of the other operand
//! with the gradient of the output.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`.

use super::backward::{Backward, Temporary};
use super::real_view::real_of;
use super::small_vec::SmallVec;
use super::state::{BackwardFn, BackwardOperands, Begun, OutputType, Saved, Step, TapeState, has_gradient};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::ContractPlan;
use std::marker::PhantomData;

/// The three contractions of a product, with its types erased.
///
/// # Safety
/// Implementations run [`Device::contract`], with its promises.
pub(super) unsafe trait Contract {
    /// The element types of the output, the left operand and the right operand.
    fn dtypes(&self) -> [DType; 3];
    /// Runs a contraction for the output, the left operand or the right operand: the operand `of` of the
    /// product from the two others, in order.
    ///
    /// # Safety
    /// As [`Device::contract`].
    unsafe fn run(
        &self,
        of: ProductOperand,
        plan: ContractPlan<'_>,
        operands: [OperandRef<'_>; 3],
    ) -> Result<()>;
}

/// An operand of a product.
#[derive(Clone, Copy)]
pub(super) enum ProductOperand {
    Output,
    Left,
    Right,
}

/// A contraction of elements `L` and `R` into elements `T` on a device.
pub(super) struct ContractOf<T, L, R, D>(D, PhantomData<fn(T, L, R)>);

impl<T, L, R, D: Device> ContractOf<T, L, R, D> {
    pub(super) fn new(device: &D) -> Self {
        ContractOf(device.clone(), PhantomData)
    }
}

// SAFETY: each function is a contraction of the device.
unsafe impl<T: Number, L: Number, R: Number, D: Device> Contract for ContractOf<T, L, R, D> {
    fn dtypes(&self) -> [DType; 3] {
        [T::DTYPE, L::DTYPE, R::DTYPE]
    }
    unsafe fn run(
        &self,
        of: ProductOperand,
        plan: ContractPlan<'_>,
        [to, a, b]: [OperandRef<'_>; 3],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match of {
                ProductOperand::Output => self.0.contract::<T, L, R>(plan, to, a, b),
                ProductOperand::Left => self.0.contract::<L, T, R>(plan, to, a, b),
                ProductOperand::Right => self.0.contract::<R, L, T>(plan, to, a, b),
            }
        }
    }
}

/// The groups of axes of a contraction, one after the other, and where each but the first begins.
struct Groups {
    sizes: SmallVec<usize>,
    starts: [usize; 3],
}

impl Groups {
    fn new(ContractPlan { batch, m, k, n }: ContractPlan<'_>) -> Self {
        let starts = [batch.len(), batch.len() + m.len(), batch.len() + m.len() + k.len()];
        Groups { sizes: SmallVec::concat(&[batch, m, k, n]), starts }
    }
    fn plan(&self) -> ContractPlan<'_> {
        let (sizes, [m, k, n]) = (&self.sizes[..], self.starts);
        ContractPlan { batch: &sizes[..m], m: &sizes[m..k], k: &sizes[k..n], n: &sizes[n..] }
    }
}

impl TapeState {
    /// Runs a contraction and records it.
    ///
    /// # Safety
    /// As [`Device::contract`].
    pub(super) unsafe fn contract(
        &self,
        contract: Box<dyn Contract + Send>,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        let ContractPlan { batch, m, k, n } = plan;
        // Operands may have more strides than the plan has axes.
        let [to, left, right] =
            [(output, [batch, m, n]), (left, [batch, m, k]), (right, [batch, k, n])].map(|(slot, groups)| {
                let axes = groups.iter().map(|group| group.len()).sum();
                OperandRef { stride: &slot.stride[..axes], ..slot }
            });
        let dtypes = contract.dtypes();
        let are_smooth = dtypes.into_iter().all(has_gradient);
        let sizes = SmallVec::concat(&[batch, m, n]);
        let outputs = [(to, OutputType::Is(dtypes[0]))];
        let begun = self.begin("contract", &sizes, &[left, right], &outputs, &mut |active| {
            let [l, r] = [active[0].is_some() && are_smooth, active[1].is_some() && are_smooth];
            // The gradient of each operand reads the other one.
            let reads = u64::from(r) | u64::from(l) << 1;
            Ok(BackwardOperands {
                to: SmallVec::new(&[l.then_some(dtypes[1]), r.then_some(dtypes[2])]),
                reads,
                ..BackwardOperands::default()
            })
        })?;
        let Begun { inputs, outputs, step, is_recorded, .. } = begun;
        // SAFETY: the caller's promises; the operands are the same memory of the inner device.
        unsafe { contract.run(ProductOperand::Output, plan, [outputs[0], inputs[0], inputs[1]])? };
        if !is_recorded {
            self.end_unrecorded(step);
            return Ok(());
        }
        let groups = Groups::new(plan);
        let run: BackwardFn = Box::new(move |b, step| backward(b, step, &*contract, groups.plan()));
        self.end(step, &[to], run);
        Ok(())
    }
}

fn backward(
    b: &mut Backward,
    step: &Step,
    contract: &dyn Contract,
    ContractPlan { batch, m, k, n }: ContractPlan<'_>,
) -> Result<()> {
    let Some(gradient) = b.gradient(&step.outputs[0].view) else { return Ok(()) };
    if k.contains(&0) {
        return Ok(()); // An operand without elements has no gradient to add to.
    }
    let dtypes = contract.dtypes();
    if let (Some(view), Some(right)) = (&step.inputs[0].view, &step.inputs[1].saved) {
        let sizes = SmallVec::concat(&[batch, k, n]);
        let right = Conjugated::new(b, right, &sizes, dtypes[2])?;
        let stride = swapped(right.slot().stride, batch.len(), k.len());
        let right = OperandRef { stride: &stride, ..right.slot() };
        let plan = ContractPlan { batch, m, k: n, n: k };
        // SAFETY: (1) the gradient has the layout of the output, and the axes of the other operand are
        // swapped; (2) the output is memory of a place; (3) the groups are those of the forward plan.
        b.add(view, &SmallVec::concat(&[batch, m, k]), &mut |to| unsafe {
            contract.run(ProductOperand::Left, plan, [to, gradient, right])
        })?;
    }
    if let (Some(view), Some(left)) = (&step.inputs[1].view, &step.inputs[0].saved) {
        let sizes = SmallVec::concat(&[batch, m, k]);
        let left = Conjugated::new(b, left, &sizes, dtypes[1])?;
        let stride = swapped(left.slot().stride, batch.len(), m.len());
        let left = OperandRef { stride: &stride, ..left.slot() };
        let plan = ContractPlan { batch, m: k, k: m, n };
        // SAFETY: as above.
        b.add(view, &SmallVec::concat(&[batch, k, n]), &mut |to| unsafe {
            contract.run(ProductOperand::Right, plan, [to, left, gradient])
        })?;
    }
    Ok(())
}

/// The strides of an operand with the two groups after `batch` swapped; the first has `first` axes.
fn swapped(stride: &[isize], batch: usize, first: usize) -> SmallVec<isize> {
    let (head, tail) = stride.split_at(batch);
    let (a, b) = tail.split_at(first);
    SmallVec::concat(&[head, b, a])
}

/// The conjugate of a saved operand: the operand itself if it is real.
enum Conjugated<'s> {
    Real(&'s Saved),
    Complex(Temporary),
}

impl<'s> Conjugated<'s> {
    fn new(b: &Backward, saved: &'s Saved, sizes: &[usize], dtype: DType) -> Result<Self> {
        if real_of(dtype).is_none() {
            return Ok(Conjugated::Real(saved));
        }
        let buffer = Temporary::new(&*b.inner, sizes, dtype.size())?;
        // SAFETY: (1) the saved operand at its sizes; (2) and (3) the output is new memory; (4) the pass owns
        // it.
        unsafe { b.inner.conjugate(dtype, sizes, buffer.slot(), saved.slot())? };
        Ok(Conjugated::Complex(buffer))
    }
    fn slot(&self) -> OperandRef<'_> {
        match self {
            Conjugated::Real(saved) => saved.slot(),
            Conjugated::Complex(buffer) => buffer.slot(),
        }
    }
}
