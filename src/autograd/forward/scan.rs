//! Forward mode of scans. The tangents of sums are sums. Those of a scan by a fold, `yⱼ = f(yⱼ₋₁, xⱼ)`,
//! follow a recurrence: `dyⱼ = ∂f/∂x · dxⱼ + ∂f/∂y · dyⱼ₋₁`.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`, `autograd`.

use super::jvp::Jvp;
use super::loads::{LoadOperands, MaskedKernel, depends, run_each_mask, with_mask};
use super::programs::JvpBody;
use super::state::{JvpState, TangentOperands, WriteKind};
use crate::autograd::backward::Temporary;
use crate::autograd::facts::Facts;
use crate::autograd::scan::{Fold, ScanKind, facts_of_scan, folds, no_fold};
use crate::autograd::state::OutputType;
use crate::device::{Device, Inputs, OperandRef};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan, Store};
use std::marker::PhantomData;

impl JvpState {
    fn prepare_scan<'a>(
        &'a self,
        (op, dtype, kind): (&'static str, DType, ScanKind),
        facts: &Facts,
        sizes: &[usize],
        output: OperandRef<'a>,
        inputs: Inputs<'a>,
    ) -> Result<TangentOperands<'a>> {
        let outputs = [(output, OutputType::Is(dtype))];
        self.prepare(sizes, inputs.slots, &outputs, WriteKind::Replaced, &mut |active| match depends(
            facts,
            inputs.reads,
            active,
        ) {
            true if kind == ScanKind::None => Err(no_fold(op, dtype)),
            flows => Ok(flows),
        })
    }

    /// The tangents of a scan by a fold, of which `kernel` computes the tangents. Its loads are those of the
    /// body, and then the earlier result.
    fn scan_by_fold(
        &self,
        kernel: &MaskedKernel<'_>,
        (dtype, plan, sizes): (DType, ScanPlan<'_>, &[usize]),
        loads: LoadOperands<'_>,
        earlier: &Temporary,
        to: OperandRef<'_>,
    ) -> Result<()> {
        let tangents = |loads: &LoadOperands<'_>| {
            let tangents = Temporary::new(&*self.inner, sizes, dtype.size())?;
            run_each_mask(self.pass()?, kernel, loads, &[], (sizes, sizes), &[(tangents.slot(), dtype)])?;
            Ok::<_, crate::Error>(tangents)
        };
        let mut loads = loads;
        loads.values.push(earlier.slot());
        loads.tangents.push(None);
        let by_values = tangents(&loads)?;
        let (one, stride) = (self.inner.number(dtype, 1.0)?, vec![0; sizes.len()]);
        loads.tangents.fill(None);
        let last = loads.tangents.len() - 1;
        loads.tangents[last] =
            Some(OperandRef { address: one.address(), stride: &stride, element: dtype.size() });
        let by_earlier = tangents(&loads)?;
        // SAFETY: (1) two operands of these sizes; (2) to (4) the output is the tangent of the scan's output,
        // to which the caller of the kernel has the only access.
        unsafe { self.recur((dtype, plan, sizes), to, [by_values.slot(), by_earlier.slot()]) }
    }

    /// The results of `u ← c + a · u` for the operands `[c, a]`. Those after each position are computed from
    /// those before it, of which a tape as the inner device has the gradient.
    ///
    /// # Safety
    /// As [`Device::scan`].
    unsafe fn recur(
        &self,
        (dtype, plan, sizes): (DType, ScanPlan<'_>, &[usize]),
        to: OperandRef<'_>,
        [c, a]: [OperandRef<'_>; 2],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.inner.recur(dtype, ScanPlan { exclusive: true, ..plan }, to, [c, a])?;
            if !plan.exclusive {
                self.inner.multiply(dtype, sizes, to, a)?;
                self.inner.add(dtype, sizes, to, c)?;
            }
        }
        Ok(())
    }

    /// The tangents of the recurrence `uₖ₊₁ = cₖ + aₖ · uₖ`: `duₖ₊₁ = (dcₖ + daₖ · uₖ) + aₖ · duₖ`.
    fn scan_by_recurrence(
        &self,
        (dtype, plan, sizes): (DType, ScanPlan<'_>, &[usize]),
        loads: &LoadOperands<'_>,
        to: OperandRef<'_>,
    ) -> Result<()> {
        let maps = [loads.values[0], loads.values[1]];
        let sum = Temporary::new(&*self.inner, sizes, dtype.size())?;
        let zeros = self.pass()?.zeros(sizes.len(), dtype.size());
        // SAFETY: (1) operands of these sizes, or one element 0; (2) to (4) the outputs are new memory, or
        // the tangent of the scan's output, to which the caller of the kernel has the only access.
        unsafe {
            self.inner.copy(sizes, sum.slot(), loads.tangents[0].unwrap_or(zeros))?;
            if let Some(tangent) = loads.tangents[1] {
                let earlier = Temporary::new(&*self.inner, sizes, dtype.size())?;
                let before = ScanPlan { exclusive: true, ..plan };
                self.recur((dtype, before, sizes), earlier.slot(), maps)?;
                self.inner.multiply(dtype, sizes, earlier.slot(), tangent)?;
                self.inner.add(dtype, sizes, sum.slot(), earlier.slot())?;
            }
            self.recur((dtype, plan, sizes), to, [sum.slot(), maps[1]])
        }
    }
}

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::scan`].
    pub(super) unsafe fn scan_with_tangents<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let (facts, shared) = (facts_of_scan::<B, R>(body), &*self.shared);
        let (kind, dtype) = (ScanKind::of::<B, R>(), R::Out::DTYPE);
        let sizes = [plan.lines, &[plan.along]].concat();
        let operands = shared.prepare_scan((R::NAME, dtype, kind), facts, &sizes, output, inputs)?;
        let inner_inputs = Inputs { slots: &operands.inputs, reads: inputs.reads };
        // SAFETY: the caller's promise; the operands are the same memory of the inner device.
        unsafe { self.device.scan(body, reducer, plan, operands.outputs[0], inner_inputs)? };
        let Some(tangent) = operands.output_tangents[0].filter(|_| !sizes.contains(&0)) else {
            return Ok(());
        };
        let loads = LoadOperands::new(&operands, inputs.reads, facts);
        if kind == ScanKind::Recurrence {
            return shared.scan_by_recurrence((dtype, plan, &sizes), &loads, tangent);
        }
        if const { folds::<B, R>() } {
            let earlier = Temporary::new(&*shared.inner, &sizes, dtype.size())?;
            let before = ScanPlan { exclusive: true, ..plan };
            // SAFETY: (1) the operands of the scan; (2) the output is new memory.
            unsafe { self.device.scan(body, reducer, before, earlier.slot(), inner_inputs)? };
            let program = Store(Fold::<B, R>(*body, PhantomData));
            let kernel = |mask, sizes: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
                self.run_tangents::<_, false>(&program, mask, sizes, to, inputs)
            };
            return shared.scan_by_fold(&kernel, (dtype, plan, &sizes), loads, &earlier, tangent);
        }
        if kind == ScanKind::None {
            return Ok(());
        }
        let kernel = |mask: u64, _: &[usize], to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            with_mask!(B::LOADS, 1, false, mask, MASK => {
                let body = JvpBody::<B, MASK>(*body);
                // SAFETY: (1) the operands of the body and their tangents; (2) the output is the tangent of
                // the scan's output, or new memory.
                unsafe { self.device.scan(&body, reducer, plan, to[0], inputs) }
            })
        };
        run_each_mask(shared.pass()?, &kernel, &loads, &[], (&sizes, &sizes), &[(tangent, dtype)])
    }
}
