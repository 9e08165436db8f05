//! The CPU with every program interpreted, in every build: tests compare it with the CPU whose loops are
//! compiled.
// Imports: `error`, `element`, `kernel`, `device`.

use super::{map, reduce, scan};
use crate::device::{Cpu, CpuBlock, Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::element::{Comparable, Element, Number};
use crate::error::Result;
use crate::kernel::{Body, ContractPlan, GatherPlan, Op, Program, Reducer, ScanPlan, SortPlan};
use std::mem::MaybeUninit;

/// The CPU with every program interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interpreted;

// SAFETY: (1) the memory is that of `Cpu`; (2) and (3) calls are those of `Cpu` or of interpreted programs,
// which keep the same promises.
unsafe impl Device for Interpreted {
    type Block = CpuBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<CpuBlock> {
        Cpu.allocate(nbytes, fresh)
    }
    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<CpuBlock> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.external_block(address, nbytes, free) }
    }
    fn address(block: &CpuBlock) -> *mut u8 {
        Cpu::address(block)
    }
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.write(to, bytes) }
    }
    unsafe fn read(&self, from: *const u8, bytes: &mut [MaybeUninit<u8>]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.read(from, bytes) }
    }
    unsafe fn copy(&self, sizes: &[usize], to: OperandRef<'_>, from: OperandRef<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.copy(sizes, to, from) }
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
        unsafe { map(program, sizes, row, outputs, inputs) }
    }
    unsafe fn reduce<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        axes: Reduction<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { reduce::<B, R>(body, axes, output, inputs) }
    }
    unsafe fn contract<T: Number, L: Number, R: Number>(
        &self,
        plan: ContractPlan<'_>,
        output: OperandRef<'_>,
        left: OperandRef<'_>,
        right: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.contract::<T, L, R>(plan, output, left, right) }
    }
    unsafe fn scan<B: Body, R: Reducer<B::Out>>(
        &self,
        body: &B,
        _: R,
        plan: ScanPlan<'_>,
        output: OperandRef<'_>,
        inputs: Inputs<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { scan::<B, R>(body, plan, output, inputs) }
    }
    unsafe fn gather(
        &self,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.gather(plan, to, cells, index) }
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
        unsafe { Cpu.scatter(operator, plan, cells, from, index) }
    }
    unsafe fn compact(
        &self,
        sizes: &[usize],
        count: usize,
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.compact(sizes, count, to, from, mask) }
    }
    unsafe fn sort<T: Comparable>(
        &self,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Cpu.sort::<T>(plan, values, positions, from) }
    }
}
