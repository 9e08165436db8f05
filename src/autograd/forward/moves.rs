//! Forward mode of the mechanisms that move elements: tangents move as the values do.
// Imports: `error`, `dtype`, `element`, `kernel`, `device`.

use super::jvp::Jvp;
use super::state::{JvpState, WriteKind};
use crate::autograd::backward::Temporary;
use crate::autograd::moves::{Sort, own_indices};
use crate::autograd::scatter::ScatterOperator;
use crate::autograd::state::{OutputType, has_gradient};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::element::{Comparable, Element};
use crate::error::Result;
use crate::kernel::{GatherPlan, Op, SortPlan};

impl JvpState {
    /// # Safety
    /// As [`Device::copy`](crate::Device::copy).
    pub(super) unsafe fn copy(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands = self.prepare(sizes, &[from], &outputs, WriteKind::Replaced, &mut |_| Ok(true))?;
        // SAFETY: (1) to (3) are the caller's promises, on the same memory of the inner device; tangents have
        // the layouts of the operands, in memory of their own.
        unsafe {
            self.inner.copy(sizes, operands.outputs[0], operands.inputs[0])?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(from)) => self.inner.copy(sizes, to, from),
                _ => Ok(()),
            }
        }
    }

    /// # Safety
    /// As [`Device::gather`](crate::Device::gather).
    pub(super) unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands =
            self.prepare(plan.sizes, &[cells, index], &outputs, WriteKind::Replaced, &mut |active| {
                Ok(active[0].is_some())
            })?;
        let [cells, index] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: as for `copy`.
        unsafe {
            self.inner.gather(plan, operands.outputs[0], cells, index)?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(cells)) => self.inner.gather(plan, to, cells, index),
                _ => Ok(()),
            }
        }
    }

    /// # Safety
    /// As [`Device::compact`](crate::Device::compact).
    pub(super) unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands =
            self.prepare(&[count], &[from, mask], &outputs, WriteKind::Replaced, &mut |active| {
                Ok(active[0].is_some())
            })?;
        let [from, mask] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: as for `copy`.
        unsafe {
            self.inner.compact(sizes, count, operands.outputs[0], from, mask)?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(from)) => self.inner.compact(sizes, count, to, from, mask),
                _ => Ok(()),
            }
        }
    }

    /// Runs `run` on the cells, the elements and the indices of the inner device, and on the tangents.
    fn scatter(
        &self,
        operator: ScatterOperator,
        run: &dyn Fn([OperandRef<'_>; 3]) -> Result<()>,
        plan: GatherPlan<'_>,
        [cells, from, index]: [OperandRef<'_>; 3],
    ) -> Result<()> {
        let outputs = [(cells, OutputType::Is(operator.dtype()))];
        let slots = [from, index, cells];
        let operands = self.prepare(plan.sizes, &slots, &outputs, WriteKind::Indexed, &mut |active| {
            let is_active = active[0].is_some() || active[2].is_some();
            if is_active {
                operator.ensure_linear(plan.op)?
            };
            Ok(is_active)
        })?;
        let [from, index] = [operands.inputs[0], operands.inputs[1]];
        run([operands.outputs[0], from, index])?;
        let Some(cells) = operands.output_tangents[0] else { return Ok(()) };
        match operands.tangents[0] {
            Some(from) => run([cells, from, index]),
            // A sum with zeros changes nothing.
            None if operator.is_sum() => Ok(()),
            None => {
                let zeros = self.pass()?.zeros(plan.sizes.len(), cells.element);
                run([cells, zeros, index])
            }
        }
    }

    /// Runs `run` on the values, the positions and the input of the inner device.
    fn sort(
        &self,
        dtype: DType,
        run: &Sort<'_>,
        plan: SortPlan<'_>,
        (values, positions): (Option<OperandRef<'_>>, Option<OperandRef<'_>>),
        from: OperandRef<'_>,
    ) -> Result<()> {
        let sizes = [plan.lines, &[plan.keep]].concat();
        let mut outputs = Vec::new();
        outputs.extend(values.map(|slot| (slot, OutputType::Is(dtype))));
        outputs.extend(positions.map(|slot| (slot, OutputType::Is(DType::I64))));
        let operands = self.prepare(&sizes, &[from], &outputs, WriteKind::Replaced, &mut |_| {
            Ok(values.is_some() && has_gradient(dtype))
        })?;
        let mut inner_outputs = operands.outputs.iter().copied();
        let inner_values = values.and_then(|_| inner_outputs.next());
        let inner_positions = positions.and_then(|_| inner_outputs.next());
        // The tangents are moved by the positions, also where the caller does not want these.
        let beside = match inner_positions {
            None if operands.flows => Some(Temporary::new(&*self.inner, &sizes, size_of::<i64>())?),
            _ => None,
        };
        let found = inner_positions.or(beside.as_ref().map(Temporary::slot));
        run(inner_values, found, operands.inputs[0])?;
        let (Some(to), Some(tangent), Some(index)) =
            (operands.output_tangents.first().copied().flatten(), operands.tangents[0], found)
        else {
            return Ok(());
        };
        let mut stride = tangent.stride[..sizes.len()].to_vec();
        let step = std::mem::replace(&mut stride[sizes.len() - 1], 0);
        let cells = OperandRef { stride: &stride, ..tangent };
        let line = [plan.along];
        let gather = own_indices("sort", &sizes, step, &line);
        // SAFETY: (1) and (2) the positions are inside the lines; (3) the tangent of the output is memory of
        // its own; (4) the caller of the kernel has the only access to its outputs.
        unsafe { self.inner.gather(gather, to, cells, index) }
    }
}

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::scatter`].
    pub(super) unsafe fn scatter_with_tangents<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        let run = |[cells, from, index]: [OperandRef<'_>; 3]| {
            // SAFETY: the caller's promise, on the same memory of the inner device; tangents have the layouts
            // of the operands, in memory of their own.
            unsafe { self.device.scatter(operator, plan, cells, from, index) }
        };
        self.shared.scatter(ScatterOperator::named::<T, F>()?, &run, plan, [cells, from, index])
    }

    /// # Safety
    /// As [`Device::sort`].
    pub(super) unsafe fn sort_with_tangents<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let run =
            |values: Option<OperandRef<'_>>, positions: Option<OperandRef<'_>>, from: OperandRef<'_>| {
                // SAFETY: the caller's promise, on the same memory of the inner device; other positions are
                // new memory.
                unsafe { self.device.sort::<T>(plan, values, positions, from) }
            };
        self.shared.sort(T::DTYPE, &run, plan, (values, positions), from)
    }
}
