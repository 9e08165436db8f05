//! The inner device of a tape without its type, and the mechanisms of the backward pass for element types
//! that are known at run time only.
//!
//! The recording and the backward pass depend on neither the device nor the program. They are compiled once,
//! and not in each crate that uses them.
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `allocation`, `erased_memory`, `ops`.

use super::cells::{CellMap, OneFor, map_cells, no_gradient, scatter_multiply};
use super::real_view::{RealView, real_of};
use super::recurrence::{AffineMaps, Recurrence};
use super::sums::sum_of_16_bits;
use crate::allocation::Allocation;
use crate::device::{Cpu, Device, Init, Inputs, OperandRef, Reduction};
use crate::dtype::DType;
use crate::element::{Element, bf16, f16};
use crate::erased_memory::Memory;
use crate::error::Result;
use crate::kernel::{Call, GatherPlan, InPlace, Input, Op, Param, ScanPlan, Store};
use crate::ops::{Add, Conj, CumSum, Equal, Mul, Replace, Select, Sum};
use crate::scalar::Prim;
use num_complex::Complex;
use std::marker::PhantomData;
use std::sync::Arc;

/// A device without its type. Element types are those of gradients.
///
/// # Safety
/// Implementations run the mechanisms of a [`Device`], with its promises.
pub(super) unsafe trait Inner: Send + Sync {
    /// New memory.
    fn fresh(&self, nbytes: usize, init: Init) -> Result<Memory>;
    /// See [`Device::task_nbytes`].
    fn task_nbytes(&self) -> Option<usize>;
    /// See [`Device::for_each_task`].
    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()>;
    /// Memory that holds one real number.
    fn number(&self, dtype: DType, value: f64) -> Result<Memory>;
    /// The numbers 0, 1, 2, … of `i64` in `numel` elements. `zero` is one byte, which is 0.
    ///
    /// # Safety
    /// As [`Device::scan`].
    unsafe fn count_up(&self, numel: usize, to: OperandRef<'_>, zero: OperandRef<'_>) -> Result<()>;
    /// # Safety
    /// As [`Device::copy`].
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()>;
    /// # Safety
    /// As [`Device::gather`].
    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;
    /// # Safety
    /// As [`Device::compact`].
    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← to + from`.
    ///
    /// # Safety
    /// As [`Device::map`], for a program in place.
    unsafe fn add(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← to · from`, of real numbers.
    ///
    /// # Safety
    /// As [`Device::map`], for a program in place.
    unsafe fn multiply(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← Σ from` over the reduced axes. Of elements of 16 bits, either operand may be f32.
    ///
    /// # Safety
    /// As [`Device::reduce`].
    unsafe fn sum(
        &self,
        dtype: DType,
        axes: Reduction<'_>,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
    /// Running sums along the axis of the plan.
    ///
    /// # Safety
    /// As [`Device::scan`].
    unsafe fn running_sum(
        &self,
        dtype: DType,
        plan: ScanPlan<'_>,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
    /// The results of `u ← c + a · u` along the axis of the plan, from 0, for the operands `[c, a]`.
    ///
    /// # Safety
    /// As [`Device::scan`].
    unsafe fn recur(
        &self,
        dtype: DType,
        plan: ScanPlan<'_>,
        to: OperandRef<'_>,
        maps: [OperandRef<'_>; 2],
    ) -> Result<()>;
    /// Adds elements to cells by index.
    ///
    /// # Safety
    /// As [`Device::scatter`].
    unsafe fn scatter_add(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;
    /// Multiplies cells by elements, by index; of f32 and f64.
    ///
    /// # Safety
    /// As [`Device::scatter`].
    unsafe fn scatter_multiply(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;
    /// Runs a function at each element, of f32 and f64.
    ///
    /// # Safety
    /// As [`Device::map`].
    unsafe fn map_cells(
        &self,
        map: CellMap,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        operands: &[OperandRef<'_>],
    ) -> Result<()>;
    /// Replaces cells by elements, by index.
    ///
    /// # Safety
    /// As [`Device::scatter`].
    unsafe fn scatter_replace(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;
    /// Replaces cells of `i64`, by index.
    ///
    /// # Safety
    /// As [`Device::scatter`].
    unsafe fn scatter_numbers(
        &self,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← a = b`, of `i64`.
    ///
    /// # Safety
    /// As [`Device::map`].
    unsafe fn equal_numbers(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        a: OperandRef<'_>,
        b: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← from` where `mask` is true, 0 elsewhere.
    ///
    /// # Safety
    /// As [`Device::map`].
    unsafe fn keep_where(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        mask: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
    /// `to ← conj(from)` of complex numbers.
    ///
    /// # Safety
    /// As [`Device::map`].
    unsafe fn conjugate(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>;
}

/// The inner device of a tape.
pub(super) fn inner_of<D: Device>(device: &D) -> Arc<dyn Inner> {
    // The mechanisms of the CPU are compiled with this crate.
    let inner: fn(&D) -> Arc<dyn Inner> =
        const { if D::IS_CPU { |_| cpu() } else { |d| Arc::new(InnerOf(d.clone())) } };
    inner(device)
}

#[inline(never)]
fn cpu() -> Arc<dyn Inner> {
    Arc::new(InnerOf(Cpu))
}

struct InnerOf<D>(D);

/// Runs code for the real element type of a gradient. Complex numbers are pairs of real ones.
macro_rules! with_real {
    ($dtype:expr, $T:ident => $run:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $run
            }
            DType::F64 => {
                type $T = f64;
                $run
            }
            DType::F16 => {
                type $T = f16;
                $run
            }
            DType::BF16 => {
                type $T = bf16;
                $run
            }
            dtype => Err(no_gradient(dtype)),
        }
    };
}

/// An operator of two real numbers of any element type of gradients.
trait RealOp:
    Op<(f32, f32), Out = f32>
    + Op<(f64, f64), Out = f64>
    + Op<(f16, f16), Out = f16>
    + Op<(bf16, bf16), Out = bf16>
{
}
impl<F> RealOp for F where
    F: Op<(f32, f32), Out = f32>
        + Op<(f64, f64), Out = f64>
        + Op<(f16, f16), Out = f16>
        + Op<(bf16, bf16), Out = bf16>
{
}

impl<D: Device> InnerOf<D> {
    /// Applies an operator to cells by index.
    ///
    /// # Safety
    /// As [`Device::scatter`].
    unsafe fn scatter<F: RealOp>(
        &self,
        operator: F,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        if let Some(part) = real_of(dtype) {
            let axes = plan.sizes.len();
            let (cell_parts, from_parts) = (RealView::new(cells, axes), RealView::new(from, axes));
            let sizes = [plan.sizes, &[2]].concat();
            let stride = [index.stride, &[0]].concat();
            let index = OperandRef { stride: &stride, ..index };
            let plan = GatherPlan { sizes: &sizes, own: plan.own + 1, step: plan.step * 2, ..plan };
            // SAFETY: as above; the parts of the same elements.
            return unsafe {
                self.scatter(operator, part, plan, cell_parts.slot(cells), from_parts.slot(from), index)
            };
        }
        // SAFETY: the caller's promise.
        with_real!(dtype, T => unsafe { self.0.scatter::<T, F>(operator, plan, cells, from, index) })
    }

    /// `to ← F(to, from)`, of real numbers.
    ///
    /// # Safety
    /// As [`Device::map`], for a program in place.
    unsafe fn update<F: RealOp>(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let inputs = Inputs { slots: &[to, from], reads: &[0, 1] };
        with_real!(dtype, T => {
            let two = (Input::<T>(PhantomData), Input::<T>(PhantomData));
            let program = InPlace(Store(Call::<F, _>::new(two)));
            // SAFETY: the caller's promise.
            unsafe { self.0.map_apart(&program, sizes, 0, &[to], inputs) }
        })
    }

    /// # Safety
    /// As [`Device::map`].
    unsafe fn conjugate_of<T: Element>(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()>
    where
        Conj: Op<(T,), Out = T>,
    {
        let program = Store(Call::<Conj, _>::new((Input::<T>(PhantomData),)));
        // SAFETY: the caller's promise.
        unsafe { self.0.map_apart(&program, sizes, 0, &[to], Inputs { slots: &[from], reads: &[0] }) }
    }
}

// SAFETY: each function is a mechanism of the device.
unsafe impl<D: Device> Inner for InnerOf<D> {
    fn fresh(&self, nbytes: usize, init: Init) -> Result<Memory> {
        Ok(Memory::new(Allocation::fresh(&self.0, nbytes, init)?))
    }
    fn task_nbytes(&self) -> Option<usize> {
        self.0.task_nbytes()
    }
    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        self.0.for_each_task(count, task)
    }
    fn number(&self, dtype: DType, value: f64) -> Result<Memory> {
        let memory = self.fresh(dtype.size(), Init::Unspecified)?;
        // SAFETY: new memory of one element.
        with_real!(dtype, T => unsafe {
            self.0.write(memory.address(), bytemuck::bytes_of(&T::narrow(Prim::from_f64(value))))
        })?;
        Ok(memory)
    }
    unsafe fn count_up(&self, numel: usize, to: OperandRef<'_>, zero: OperandRef<'_>) -> Result<()> {
        let ones = Call::<OneFor, _>::new((Input::<u8>(PhantomData),));
        let plan = ScanPlan { lines: &[], along: numel, exclusive: true };
        // SAFETY: the caller's promise, also in the functions below.
        unsafe { self.0.scan(&ones, CumSum, plan, to, Inputs { slots: &[zero], reads: &[0] }) }
    }
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.copy(sizes, to, from) }
    }
    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.gather(plan, to, cells, index) }
    }
    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.compact(sizes, count, to, from, mask) }
    }

    unsafe fn add(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        if let Some(part) = real_of(dtype) {
            let (to_parts, from_parts) = (RealView::new(to, sizes.len()), RealView::new(from, sizes.len()));
            let sizes = [sizes, &[2]].concat();
            // SAFETY: as above; the parts of the same elements.
            return unsafe { self.add(part, &sizes, to_parts.slot(to), from_parts.slot(from)) };
        }
        // SAFETY: as above.
        unsafe { self.update::<Add>(dtype, sizes, to, from) }
    }

    unsafe fn multiply(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.update::<Mul>(dtype, sizes, to, from) }
    }

    unsafe fn sum(
        &self,
        dtype: DType,
        axes: Reduction<'_>,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let Reduction { kept, reduced } = axes;
        if let Some(part) = real_of(dtype) {
            let (to_parts, from_parts) = (RealView::new(to, kept.len()), RealView::new(from, kept.len()));
            let kept = [kept, &[2]].concat();
            let axes = Reduction { kept: &kept, reduced };
            // SAFETY: as above; the parts of the same elements.
            return unsafe { self.sum(part, axes, to_parts.slot(to), from_parts.slot(from)) };
        }
        let inputs = Inputs { slots: &[from], reads: &[0] };
        // SAFETY: as above.
        unsafe {
            match dtype {
                DType::F16 if from.element != to.element => sum_of_16_bits::<f16, D>(&self.0, axes, to, from),
                DType::BF16 if from.element != to.element => {
                    sum_of_16_bits::<bf16, D>(&self.0, axes, to, from)
                }
                _ => with_real!(dtype, T => self.0.reduce(&Input::<T>(PhantomData), Sum, axes, to, inputs)),
            }
        }
    }

    unsafe fn running_sum(
        &self,
        dtype: DType,
        plan: ScanPlan<'_>,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        if let Some(part) = real_of(dtype) {
            let (to_parts, from_parts) =
                (RealView::new(to, plan.lines.len()), RealView::new(from, plan.lines.len()));
            let lines = [plan.lines, &[2]].concat();
            let plan = ScanPlan { lines: &lines, ..plan };
            // SAFETY: as above; the parts of the same elements.
            return unsafe { self.running_sum(part, plan, to_parts.slot(to), from_parts.slot(from)) };
        }
        let inputs = Inputs { slots: &[from], reads: &[0] };
        // SAFETY: as above.
        with_real!(dtype, T => unsafe { self.0.scan(&Input::<T>(PhantomData), CumSum, plan, to, inputs) })
    }

    unsafe fn recur(
        &self,
        dtype: DType,
        plan: ScanPlan<'_>,
        to: OperandRef<'_>,
        maps: [OperandRef<'_>; 2],
    ) -> Result<()> {
        let inputs = Inputs { slots: &maps, reads: &[0, 1] };
        with_real!(dtype, T => {
            let body = AffineMaps::<T>::new((Input(PhantomData), Input(PhantomData)));
            // SAFETY: as above.
            unsafe { self.0.scan(&body, Recurrence::<T>::new(), plan, to, inputs) }
        })
    }

    unsafe fn scatter_add(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.scatter(Add, dtype, plan, cells, from, index) }
    }

    unsafe fn scatter_multiply(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { scatter_multiply(&self.0, dtype, plan, cells, from, index) }
    }

    unsafe fn map_cells(
        &self,
        map: CellMap,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        operands: &[OperandRef<'_>],
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { map_cells(&self.0, map, dtype, sizes, to, operands) }
    }

    unsafe fn scatter_replace(
        &self,
        dtype: DType,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.scatter(Replace, dtype, plan, cells, from, index) }
    }

    unsafe fn scatter_numbers(
        &self,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.scatter::<i64, Replace>(Replace, plan, cells, from, index) }
    }

    unsafe fn equal_numbers(
        &self,
        sizes: &[usize],
        to: OperandRef<'_>,
        a: OperandRef<'_>,
        b: OperandRef<'_>,
    ) -> Result<()> {
        let two = (Input::<i64>(PhantomData), Input::<i64>(PhantomData));
        let program = Store(Call::<Equal, _>::new(two));
        let inputs = Inputs { slots: &[a, b], reads: &[0, 1] };
        // SAFETY: as above.
        unsafe { self.0.map_apart(&program, sizes, 0, &[to], inputs) }
    }

    unsafe fn keep_where(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        mask: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        if let Some(part) = real_of(dtype) {
            let (to_parts, from_parts) = (RealView::new(to, sizes.len()), RealView::new(from, sizes.len()));
            let sizes = [sizes, &[2]].concat();
            let stride = [mask.stride, &[0]].concat();
            let mask = OperandRef { stride: &stride, ..mask };
            // SAFETY: as above; the parts of the same elements.
            return unsafe { self.keep_where(part, &sizes, to_parts.slot(to), mask, from_parts.slot(from)) };
        }
        let inputs = Inputs { slots: &[mask, from], reads: &[0, 1] };
        with_real!(dtype, T => {
            let body = (Input::<bool>(PhantomData), Input::<T>(PhantomData), Param::<T>(T::default()));
            let program = Store(Call::<Select, _>::new(body));
            // SAFETY: as above.
            unsafe { self.0.map_apart(&program, sizes, 0, &[to], inputs) }
        })
    }

    unsafe fn conjugate(
        &self,
        dtype: DType,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe {
            match dtype {
                DType::C32 => self.conjugate_of::<Complex<f32>>(sizes, to, from),
                DType::C64 => self.conjugate_of::<Complex<f64>>(sizes, to, from),
                dtype => Err(no_gradient(dtype)),
            }
        }
    }
}
