//! A test double of the CPU: its memory is the host's, and its kernels run on a GPU that shares it (`--cfg
//! rankform_through_cuda`, for the test suite only).
//!
//! The simulator in `tools/cuda-sim` uses the host's memory, so every test of an operator also tests its CUDA
//! kernel.
// Imports: `error`, `element`, `kernel`, `device`.

use super::{Cpu, CpuBlock};
use crate::device::{Cuda, Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::Result;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::mem::MaybeUninit;

// SAFETY: (1) the memory is that of the CPU device; (2) the GPU's implementation keeps the promise; (3) every
// call waits for its work.
unsafe impl Device for Cpu {
    type Block = CpuBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<CpuBlock> {
        CpuBlock::new(nbytes, fresh)
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CpuBlock> {
        Ok(CpuBlock::external(address, nbytes, free))
    }

    fn address(block: &CpuBlock) -> *mut u8 {
        block.address()
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.copy(sizes, to, from) })
    }

    unsafe fn map<P: Program>(
        &self,
        program: &P,
        sizes: &[usize],
        row: usize,
        outputs: &[OperandRef<'_>],
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.map(program, sizes, row, outputs, inputs) })
    }

    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.reduce(body, reducer, axes, output, inputs) })
    }

    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.contract::<T, L, R>(plan, output, left, right) })
    }

    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        reducer: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.scan(body, reducer, plan, output, inputs) })
    }

    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.gather(plan, to, cells, index) })
    }

    unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        &self,
        operator: F,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.scatter::<T, F>(operator, plan, cells, from, index) })
    }

    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.compact(sizes, count, to, from, mask) })
    }

    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: by the caller's promise.
        gpu(|gpu| unsafe { gpu.sort::<T>(plan, values, positions, from) })
    }
}

/// Runs `work` on the first GPU and waits for it.
fn gpu(work: impl FnOnce(&Cuda) -> Result<()>) -> Result<()> {
    let gpu = Cuda::new(0)?;
    work(&gpu)?;
    gpu.synchronize()
}
