//! The CPU with every program interpreted, in every build: tests compare it with the CPU whose loops are
//! compiled.
// Imports: `error`, `kernel`, `device`.

use super::{map, reduce, scan};
use crate::device::{Cpu, CpuBlock, Deleter, Device, Init, Inputs, OperandRef, Reduction};
use crate::error::Result;
use crate::kernel::{Body, Program, Reducer, ScanPlan};

/// The CPU with every program interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interpreted;

/// Evaluates a call on the CPU.
macro_rules! on_cpu {
    ($own:expr, |$cpu:ident| $call:expr) => {{
        let $cpu = Cpu;
        $call
    }};
}

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
    fn task_nbytes(&self) -> Option<usize> {
        Cpu.task_nbytes()
    }
    crate::delegate_device! { on_cpu: write read copy contract gather scatter compact sort }
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
}
