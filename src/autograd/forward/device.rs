//! The forward-mode device: it runs every mechanism on the inner device, and once more for tangents where an
//! operand has one.
// Imports: `error`, `fallible`, `element`, `kernel`, `device`, `allocation`, `erased_memory`,
// `autograd`.

use super::jvp::Jvp;
use super::state::JvpBlock;
use crate::allocation::Allocation;
use crate::autograd::blocks::{copy_line, is_device};
use crate::delegate_device;
use crate::device::{Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::erased_memory::Memory;
use crate::error::Result;
use crate::fallible::FallibleArc;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::mem::MaybeUninit;

// SAFETY: (1) a block is an allocation of the inner device, under an address of its own, until it is dropped;
// (2) and (3) kernels run on the inner device, on the operands that the caller promised; those of tangents
// have the layouts of these operands, in memory of the same sizes.
unsafe impl<D: Device> Device for Jvp<D> {
    type Block = JvpBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<JvpBlock> {
        JvpBlock::new(&self.shared, Memory::new(Allocation::fresh(&self.device, nbytes, fresh)?), None)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<JvpBlock> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Allocation::external(&self.device, address, nbytes, free)? };
        JvpBlock::new(&self.shared, Memory::new(FallibleArc::new(memory)?), None)
    }

    fn address(block: &JvpBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        let operands = self.shared.prepare_write(to, bytes.len())?;
        // SAFETY: the caller's promise.
        unsafe { self.device.write(operands.outputs[0].address, bytes) }
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        let _running = self.shared.running();
        // SAFETY: the caller's promise.
        unsafe { self.device.read(self.shared.inner_address(from), bytes) }
    }

    /// From the inner device. The copies have tangents of zero.
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
        let operands = self.shared.prepare_write(to, numel * element)?;
        let to = operands.outputs[0].address;
        // SAFETY: the caller's promise, on the same memory of the inner device.
        unsafe { copy_line(&self.device, to, address, numel, element)? };
        Ok(true)
    }

    delegate_device! { on_shared: copy gather compact }

    /// That of the inner device: operators are cut as they are there. The parts run one after the other.
    fn task_nbytes(&self) -> Option<usize> {
        self.device.task_nbytes()
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map_with_tangents::<P, false>(program, sizes, row, outputs, inputs) }
    }

    unsafe fn map_by_name<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map_with_tangents::<P, true>(program, sizes, 0, outputs, inputs) }
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
        unsafe { self.reduce_with_tangents::<B, R, false>(body, reducer, axes, output, inputs) }
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
        unsafe { self.reduce_with_tangents::<B, R, true>(body, reducer, axes, output, inputs) }
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.contract_with_tangents::<T, L, R>(plan, output, left, right) }
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.scan_with_tangents(body, reducer, plan, output, inputs) }
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.scatter_with_tangents::<T, F>(operator, plan, cells, from, index) }
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sort_with_tangents::<T>(plan, values, positions, from) }
    }

    fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }

    fn check(&self) -> Result<()> {
        self.device.check()
    }
}
