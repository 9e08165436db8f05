//! The tape as a device: it runs every mechanism on the inner device, and records those of which an output
//! depends on a variable. There is one backward function for each mechanism, and one for each operator that
//! states its own backward pass (`ruled.rs`).
//!
//! The functions here are generic over kernels, so each program compiles them. They run the kernel; all else
//! is in functions that are compiled once.
// Imports: `error`, `fallible`, `element`, `kernel`, `device`, `allocation`, `erased_memory`.

use super::backward::{Vjp, VjpOf};
use super::blocks::{copy_line, is_device};
use super::contract::ContractOf;
use super::facts::{facts_of, facts_of_reduction};
use super::reduce::ReducedBody;
use super::rows::RowConstants;
use super::scan::{ScanKind, backward_of, facts_of_scan};
use super::scatter::ScatterOperator;
use super::state::{Begun, TapeBlock};
use super::tape::Tape;
use super::vjp::ConstantsAsLoads;
use crate::allocation::Allocation;
use crate::delegate_device;
use crate::device::{
    Deleter, Device, Init, Inputs, OperandRef, OperatorRule, Reduction, RuleOperand, RuleOutput,
};
use crate::element::{Comparable, Element, Number};
use crate::erased_memory::Memory;
use crate::error::Result;
use crate::fallible::FallibleArc;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::mem::MaybeUninit;

impl<D: Device> Tape<D> {
    /// # Safety
    /// As [`Device::map`].
    unsafe fn record_map<P: Program, const BY_NAME: bool>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of(program);
        let run = |to: &[OperandRef<'_>], inputs: Inputs<'_>| {
            // SAFETY: (1) to (4) are the caller's promises; the operands are the same memory of the inner
            // device.
            unsafe {
                match BY_NAME {
                    true => self.device.map_by_name(program, sizes, to, inputs),
                    false => self.device.map_apart(program, sizes, row, to, inputs),
                }
            }
        };
        if const { !P::BY_ROWS } {
            let vjp = || -> Box<dyn Vjp> { Box::new(VjpOf::<P, D, BY_NAME>(*program, self.device.clone())) };
            return self.shared.record_map((facts, P::IN_PLACE), sizes, outputs, inputs, &run, &vjp);
        }
        let begun = self.shared.begin_map(facts, true, sizes, outputs, inputs)?;
        let Begun { inputs: slots, outputs: to, step, is_recorded, .. } = begun;
        let mut constants = RowConstants::new();
        if is_recorded {
            constants.collect(*program, &self.device, &step, (facts, inputs.reads))?;
        }
        run(&to, Inputs { slots: &slots, reads: inputs.reads })?;
        if !is_recorded {
            self.shared.end_unrecorded(step);
            return Ok(());
        }
        let vjp = Box::new(VjpOf::<_, D, false>(ConstantsAsLoads(*program), self.device.clone()));
        self.shared.end_rows((step, P::IN_PLACE), outputs, (facts, inputs.reads), constants, row, vjp);
        Ok(())
    }

    /// # Safety
    /// As [`Device::reduce`].
    unsafe fn record_reduce<B: Body, R: Reducer<B::Out>, const BY_NAME: bool>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let facts = facts_of_reduction::<B, R>(body);
        let begun = self.shared.begin_reduce((R::NAME, R::SLOPE), facts, axes, output, inputs)?;
        let Begun { inputs: slots, outputs: to, step, is_recorded, .. } = begun;
        let inner_inputs = Inputs { slots: &slots, reads: inputs.reads };
        // SAFETY: (1) and (2) are the caller's promises; the operands are the same memory of the inner
        // device.
        unsafe {
            match BY_NAME {
                true => self.device.reduce_by_name(body, reducer, axes, to[0], inner_inputs)?,
                false => self.device.reduce(body, reducer, axes, to[0], inner_inputs)?,
            }
        }
        if !is_recorded {
            self.shared.end_unrecorded(step);
            return Ok(());
        }
        let reduce = Box::new(ReducedBody::<B, R, D, BY_NAME>::new(*body, self.device.clone()));
        self.shared.end_reduce(step, output, (facts, inputs.reads), axes.kept.len(), reduce);
        Ok(())
    }
}

// SAFETY: (1) a block is an allocation of the inner device, under an address of its own, until it is dropped;
// (2) and (3) kernels run on the inner device, on the operands that the caller promised; those of the
// backward pass have the layouts of these operands, in memory of the same sizes.
unsafe impl<D: Device> Device for Tape<D> {
    type Block = TapeBlock;
    const RECORDS: bool = true;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<TapeBlock> {
        let memory = Memory::new(Allocation::fresh(&self.device, nbytes, fresh)?);
        TapeBlock::new(&self.shared, memory, false)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<TapeBlock> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Allocation::external(&self.device, address, nbytes, free)? };
        TapeBlock::new(&self.shared, Memory::new(FallibleArc::new(memory)?), true)
    }

    fn address(block: &TapeBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        let begun = self.shared.begin_write(to, bytes.len())?;
        // SAFETY: the caller's promise.
        unsafe { self.device.write(begun.outputs[0].address, bytes) }
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        let _running = self.shared.running();
        let from = self.shared.lock().inner_address(from);
        // SAFETY: the caller's promise.
        unsafe { self.device.read(from, bytes) }
    }

    /// From the inner device, whose own tape records the copy if it is a tape.
    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        numel: usize,
        element: usize,
    ) -> Result<bool> {
        if !is_device(from, &self.device) {
            return Ok(false);
        }
        let begun = self.shared.begin_write(to, numel * element)?;
        let to = begun.outputs[0].address;
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { copy_line(&self.device, to, address, numel, element)? };
        Ok(true)
    }

    delegate_device! { on_shared: copy gather compact }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_map::<P, false>(program, sizes, row, outputs, inputs) }
    }

    unsafe fn map_by_name<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_map::<P, true>(program, sizes, 0, outputs, inputs) }
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_reduce::<B, R, false>(body, reducer, axes, output, inputs) }
    }

    unsafe fn reduce_by_name<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.record_reduce::<B, R, true>(body, reducer, axes, output, inputs) }
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        let contract = ContractOf::<T, L, R, D>::new(&self.device);
        // SAFETY: the caller's promise.
        unsafe { self.shared.contract(Box::new(contract), plan, output, left, right) }
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        let kind = ScanKind::of::<B, R>();
        let facts = facts_of_scan::<B, R>(body);
        let named = (R::NAME, R::Out::DTYPE, kind);
        let begun = self.shared.begin_scan(named, facts, plan, output, inputs)?;
        let Begun { inputs: slots, outputs: to, step, is_recorded, .. } = begun;
        let inner_inputs = Inputs { slots: &slots, reads: inputs.reads };
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { self.device.scan(body, reducer, plan, to[0], inner_inputs)? };
        if !is_recorded {
            self.shared.end_unrecorded(step);
        } else if kind == ScanKind::Recurrence {
            self.shared.end_recurrence(step, output);
        } else {
            let backward = backward_of(body, reducer, &self.device);
            let scan = (kind == ScanKind::Sum, plan.exclusive);
            self.shared.end_scan(step, output, (facts, inputs.reads), scan, backward);
        }
        Ok(())
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        let scatter = |[cells, from, index]: [OperandRef<'_>; 3]| {
            // SAFETY: the caller's promise, on the same memory of the inner device.
            unsafe { self.device.scatter::<T, F>(operator, plan, cells, from, index) }
        };
        self.shared.scatter(ScatterOperator::named::<T, F>()?, &scatter, plan, [cells, from, index])
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let sort =
            |values: Option<OperandRef<'_>>, positions: Option<OperandRef<'_>>, from: OperandRef<'_>| {
                // SAFETY: the caller's promise, on the same memory of the inner device.
                unsafe { self.device.sort::<T>(plan, values, positions, from) }
            };
        self.shared.sort(T::DTYPE, &sort, plan, (values, positions), from)
    }

    fn ruled<R: OperatorRule>(
        &self,
        rule: R,
        inputs: &[RuleOperand<'_, Self>],
        output: RuleOutput<'_, Self>,
    ) -> Result<()> {
        self.record_rule(rule, inputs, output)
    }

    fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }

    fn check(&self) -> Result<()> {
        self.device.check()
    }
}
