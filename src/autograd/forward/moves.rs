//! Forward mode of the mechanisms that move elements: tangents move as the values do.
// Imports: `error`, `element`, `kernel`, `device`, `ops`, `autograd`.

use super::jvp::Jvp;
use super::state::Write;
use crate::autograd::backward::Buffer;
use crate::autograd::state::{OutputType, has_gradient};
use crate::device::{Device, OperandRef};
use crate::dtype::DType;
use crate::element::{Comparable, Element};
use crate::error::{Error, Result, text};
use crate::kernel::{GatherPlan, Op, SortPlan};
use crate::ops::{Add, Replace};
use std::any::TypeId;

impl<D: Device> Jvp<D> {
    /// # Safety
    /// As [`Device::copy`].
    pub(super) unsafe fn copy_with_tangents(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands = self.0.prepare(sizes, &[from], &outputs, Write::Replaced, &mut |_| Ok(true))?;
        // SAFETY: (1) to (3) are the caller's promises, on the same memory of the inner device; tangents have the
        // layouts of the operands, in memory of their own.
        unsafe {
            self.0.inner.copy(sizes, operands.outputs[0], operands.inputs[0])?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(from)) => self.0.inner.copy(sizes, to, from),
                _ => Ok(()),
            }
        }
    }

    /// # Safety
    /// As [`Device::gather`].
    pub(super) unsafe fn gather_with_tangents(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands =
            self.0.prepare(plan.sizes, &[cells, index], &outputs, Write::Replaced, &mut |active| {
                Ok(active[0].is_some())
            })?;
        let [cells, index] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: as for `copy_with_tangents`.
        unsafe {
            self.0.inner.gather(plan, operands.outputs[0], cells, index)?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(cells)) => self.0.inner.gather(plan, to, cells, index),
                _ => Ok(()),
            }
        }
    }

    /// # Safety
    /// As [`Device::compact`].
    pub(super) unsafe fn compact_with_tangents(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        let outputs = [(to, OutputType::OfFirstOperand)];
        let operands = self.0.prepare(&[count], &[from, mask], &outputs, Write::Replaced, &mut |active| {
            Ok(active[0].is_some())
        })?;
        let [from, mask] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: as for `copy_with_tangents`.
        unsafe {
            self.0.inner.compact(sizes, count, operands.outputs[0], from, mask)?;
            match (operands.output_tangents[0], operands.tangents[0]) {
                (Some(to), Some(from)) => self.0.inner.compact(sizes, count, to, from, mask),
                _ => Ok(()),
            }
        }
    }

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
        let is_sum = TypeId::of::<F>() == TypeId::of::<Add>();
        let replaces = TypeId::of::<F>() == TypeId::of::<Replace>();
        let outputs = [(cells, OutputType::Is(T::DTYPE))];
        let slots = [from, index, cells];
        let operands = self.0.prepare(plan.sizes, &slots, &outputs, Write::Indexed, &mut |active| {
            if active[0].is_none() && active[2].is_none() {
                return Ok(false);
            }
            if !is_sum && !replaces {
                let what = text(format_args!(
                    "scatter with `{}` has no derivative; `Add` and `Replace` have",
                    F::NAME
                ));
                return Err(Error::Value { op: plan.op, what });
            }
            Ok(true)
        })?;
        let [from, index] = [operands.inputs[0], operands.inputs[1]];
        // SAFETY: as for `copy_with_tangents`.
        unsafe { self.0.inner.scatter(operator, plan, operands.outputs[0], from, index)? };
        let Some(cells) = operands.output_tangents[0] else { return Ok(()) };
        let from = match operands.tangents[0] {
            Some(from) => from,
            // A sum with zeros changes nothing.
            None if is_sum => return Ok(()),
            None => OperandRef { element: size_of::<T>(), ..self.0.pass()?.zeros(plan.sizes.len()) },
        };
        // SAFETY: as above; zeros are one element.
        unsafe { self.0.inner.scatter(operator, plan, cells, from, index) }
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
        let sizes = [plan.lines, &[plan.keep]].concat();
        let mut outputs = Vec::new();
        outputs.extend(values.map(|slot| (slot, OutputType::Is(T::DTYPE))));
        outputs.extend(positions.map(|slot| (slot, OutputType::Is(DType::I64))));
        let operands = self.0.prepare(&sizes, &[from], &outputs, Write::Replaced, &mut |_| {
            Ok(values.is_some() && has_gradient(T::DTYPE))
        })?;
        let (inner, from) = (&self.0.inner, operands.inputs[0]);
        let mut inner_outputs = operands.outputs.iter().copied();
        let inner_values = values.and_then(|_| inner_outputs.next());
        let inner_positions = positions.and_then(|_| inner_outputs.next());
        // The tangents are moved by the positions, also where the caller does not want these.
        let beside = match inner_positions {
            None if operands.flows => Some(Buffer::<D>::new(inner, &sizes, size_of::<i64>())?),
            _ => None,
        };
        let found = inner_positions.or(beside.as_ref().map(Buffer::slot));
        // SAFETY: the caller's promise, on the same memory of the inner device; the buffer is new.
        unsafe { inner.sort::<T>(plan, inner_values, found, from)? };
        let (Some(to), Some(tangent), Some(index)) =
            (operands.output_tangents.first().copied().flatten(), operands.tangents[0], found)
        else {
            return Ok(());
        };
        let mut stride = tangent.stride[..sizes.len()].to_vec();
        let step = std::mem::replace(&mut stride[sizes.len() - 1], 0);
        let cells = OperandRef { stride: &stride, ..tangent };
        let gather = GatherPlan { op: "sort", sizes: &sizes, own: 0, step, bound: plan.along };
        // SAFETY: (1) and (2) the positions are inside the lines; (3) the tangent of the output is memory of its
        // own; (4) the caller of the kernel has the only access to its outputs.
        unsafe { inner.gather(gather, to, cells, index) }
    }
}
