//! The machines of a scan, and their registers of accumulators.
// Imports: nothing.

use super::super::execute::Operand;
use super::super::frame::{Machine, NO_NUMBERS};
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{ScratchArena, ScratchMemory, splat};
use super::program::{ScanContext, ScanProgram};

/// The registers of an accumulator's lanes.
pub(super) type LaneRegisters = Vec<*mut u8>;

/// How an operand of an instruction repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It has all chunks of all rows.
    No,
    /// It has one row, which is the same for all rows.
    Row,
    /// It has one chunk, which is the same everywhere.
    Chunk,
}

/// The machines of a scan.
pub(super) struct ScanMachines<'a> {
    pub(super) program: &'a ScanProgram,
    pub(super) values: Machine<'a>,
    accumulate: Machine<'a>,
    combine: Machine<'a>,
    finalize: Machine<'a>,
    external: Vec<RegisterRef>,
    pub(super) memory: ScratchMemory,
}

impl<'a> ScanMachines<'a> {
    /// Machines for at most `chunks` chunks, with `nbytes` bytes of scratch.
    pub(super) fn new(context: &'a ScanContext, chunks: usize, nbytes: usize) -> ScanMachines<'a> {
        let (program, numbers) = (context.program, &context.numbers);
        ScanMachines {
            program,
            values: Machine::new(&program.values, numbers, chunks),
            accumulate: Machine::exactly(&program.accumulate, &NO_NUMBERS, chunks),
            combine: Machine::exactly(&program.combine, &NO_NUMBERS, chunks),
            finalize: Machine::exactly(&program.finalize, &NO_NUMBERS, chunks),
            external: Vec::new(),
            memory: ScratchMemory::new(nbytes),
        }
    }

    /// Registers for `chunks` chunks of accumulators.
    pub(super) fn registers(&self, room: &mut ScratchArena, chunks: usize) -> LaneRegisters {
        self.program.widths.iter().map(|&width| room.take(width * CHUNK_ELEMENTS * chunks)).collect()
    }

    /// The operands, from the pointers and steps of the loads.
    pub(super) fn operands(&self, pointers: &[*mut u8], steps: &[isize]) -> Vec<Operand> {
        let of = |&(load, width): &(usize, usize)| Operand {
            at: pointers[load],
            row_step: steps[load],
            width,
            is_broadcast: false,
        };
        self.program.inputs.iter().map(of).collect()
    }

    /// Adds registers of accumulators to the operands of the next run: from a chunk on, in rows of `chunks`
    /// chunks.
    fn push(&mut self, (columns, chunk): (&LaneRegisters, usize), repeat: Repeat, chunks: usize) {
        for (&at, &width) in columns.iter().zip(&self.program.widths) {
            let step = (width * CHUNK_ELEMENTS) as isize;
            self.external.push(RegisterRef {
                address: at.wrapping_offset(chunk as isize * step),
                chunk_step: if repeat == Repeat::Chunk { 0 } else { step },
                row_step: if repeat == Repeat::No { step * chunks as isize } else { 0 },
            });
        }
    }

    /// Sets the first chunks of registers to the identity.
    pub(super) fn reset(&self, columns: &LaneRegisters, chunks: usize) {
        for ((&to, bytes), &width) in columns.iter().zip(&self.program.identity).zip(&self.program.widths) {
            for chunk in 0..chunks {
                // SAFETY: the register has room for these chunks.
                unsafe { splat(to.wrapping_add(chunk * width * CHUNK_ELEMENTS), bytes.as_ptr(), width) };
            }
        }
    }

    /// `to ← accumulate(from, value)`; accumulators are given as registers and their first chunk.
    ///
    /// # Safety
    /// All registers have `chunks` chunks.
    pub(super) unsafe fn accumulate(
        &mut self,
        value: RegisterRef,
        position: RegisterRef,
        from: (&LaneRegisters, usize),
        to: (&LaneRegisters, usize),
        chunks: usize,
    ) {
        self.external.clear();
        self.external.push(value);
        self.push(from, Repeat::No, chunks);
        self.external.push(position);
        self.push(to, Repeat::No, chunks);
        // SAFETY: the caller's promise.
        unsafe { self.accumulate.run(&self.external, 1, chunks) };
    }

    /// `to ← combine(earlier, later)`; `earlier` may repeat.
    ///
    /// # Safety
    /// All registers have `rows` rows of `chunks` chunks, except for the repeated ones.
    pub(super) unsafe fn combine(
        &mut self,
        (earlier, repeat): (&LaneRegisters, Repeat),
        later: (&LaneRegisters, usize),
        to: &LaneRegisters,
        rows: usize,
        chunks: usize,
    ) {
        self.external.clear();
        self.push((earlier, 0), repeat, chunks);
        self.push(later, Repeat::No, chunks);
        self.push((to, 0), Repeat::No, chunks);
        // SAFETY: the caller's promise.
        unsafe { self.combine.run(&self.external, rows, chunks) };
    }

    /// Writes the results of accumulators of `count` values each.
    ///
    /// # Safety
    /// All registers have `rows` rows of `chunks` chunks.
    pub(super) unsafe fn finalize(
        &mut self,
        accumulators: (&LaneRegisters, usize),
        count: RegisterRef,
        out: RegisterRef,
        rows: usize,
        chunks: usize,
    ) {
        self.external.clear();
        self.push(accumulators, Repeat::No, chunks);
        self.external.extend([count, out]);
        // SAFETY: the caller's promise.
        unsafe { self.finalize.run(&self.external, rows, chunks) };
    }

    /// Copies some chunks of accumulators.
    pub(super) fn copy(&self, to: &LaneRegisters, (from, chunk): (&LaneRegisters, usize), chunks: usize) {
        for ((&to, &from), &width) in to.iter().zip(from).zip(&self.program.widths) {
            let bytes = width * CHUNK_ELEMENTS;
            // SAFETY: both registers have these chunks.
            unsafe { std::ptr::copy_nonoverlapping(from.wrapping_add(chunk * bytes), to, chunks * bytes) };
        }
    }
}
