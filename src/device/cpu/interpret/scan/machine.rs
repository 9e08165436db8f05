//! The machines of a scan, and their registers of accumulators.
// Imports: `error`.

use super::super::execute::{OperandRows, RowMachine};
use super::super::frame::Machine;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{List, ScratchArena, splat};
use super::program::{ScanContext, ScanProgram};
use crate::error::Result;

/// The registers of an accumulator's lanes.
pub(super) type LaneRegisters<'a> = List<'a, *mut u8>;

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
    pub(super) values: RowMachine<'a>,
    accumulate: Machine<'a>,
    combine: Machine<'a>,
    finalize: Machine<'a>,
    external: List<'a, RegisterRef>,
    scratch: &'a ScratchArena,
}

impl<'a> ScanMachines<'a> {
    /// Machines for at most `chunks` chunks.
    pub(super) fn new(
        scratch: &'a ScratchArena,
        context: &'a ScanContext<'a>,
        chunks: usize,
    ) -> Result<ScanMachines<'a>> {
        let program = context.program;
        let widest = program.inputs.iter().map(|&(_, width)| width).fold(program.value, usize::max);
        let operands = (program.inputs.len() + 1, widest);
        let lanes = program.reducer.widths.len();
        Ok(ScanMachines {
            program,
            values: RowMachine::new(scratch, &program.values, context.numbers, chunks, operands)?,
            accumulate: Machine::exactly(scratch, &program.accumulate, &[], chunks)?,
            combine: Machine::exactly(scratch, &program.reducer.combine, &[], chunks)?,
            finalize: Machine::exactly(scratch, &program.reducer.finalize, &[], chunks)?,
            // Three accumulators, or two, a value and a number.
            external: scratch.list(3 * lanes + 2)?,
            scratch,
        })
    }

    /// Registers for `chunks` chunks of accumulators.
    pub(super) fn registers(&self, chunks: usize) -> Result<LaneRegisters<'a>> {
        let widths = &self.program.reducer.widths;
        let mut registers = self.scratch.list(widths.len())?;
        for width in widths {
            registers.push(self.scratch.take(width * CHUNK_ELEMENTS * chunks)?);
        }
        Ok(registers)
    }

    /// Computes the values of rows of `n` elements of the loads, from row `row` on, and writes them to
    /// `values`.
    ///
    /// # Safety
    /// As [`RowMachine::run`].
    pub(super) unsafe fn write_values(
        &mut self,
        (pointers, steps): (&[*mut u8], &[isize]),
        row: usize,
        values: OperandRows,
        [rows, n]: [usize; 2],
    ) {
        let of = |input| OperandRows::of_load(input, pointers, steps).from(row);
        self.values.set(self.program.inputs.iter().map(of).chain([values]));
        // SAFETY: the caller's promise.
        unsafe { self.values.run(1, rows, n) };
    }

    /// Adds registers of accumulators to the operands of the next run: from a chunk on, in rows of `chunks`
    /// chunks.
    fn push(&mut self, (columns, chunk): (&LaneRegisters<'_>, usize), repeat: Repeat, chunks: usize) {
        for (&at, &width) in columns.iter().zip(&self.program.reducer.widths) {
            let step = (width * CHUNK_ELEMENTS) as isize;
            self.external.push(RegisterRef {
                address: at.wrapping_offset(chunk as isize * step),
                chunk_step: if repeat == Repeat::Chunk { 0 } else { step },
                row_step: if repeat == Repeat::No { step * chunks as isize } else { 0 },
            });
        }
    }

    /// Sets the first chunks of registers to the identity.
    pub(super) fn reset(&self, columns: &LaneRegisters<'_>, chunks: usize) {
        for ((&to, bytes), &width) in
            columns.iter().zip(&self.program.reducer.identity).zip(&self.program.reducer.widths)
        {
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
        from: (&LaneRegisters<'_>, usize),
        to: (&LaneRegisters<'_>, usize),
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
        (earlier, repeat): (&LaneRegisters<'_>, Repeat),
        later: (&LaneRegisters<'_>, usize),
        to: &LaneRegisters<'_>,
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
        accumulators: (&LaneRegisters<'_>, usize),
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
    pub(super) fn copy(
        &self,
        to: &LaneRegisters<'_>,
        (from, chunk): (&LaneRegisters<'_>, usize),
        chunks: usize,
    ) {
        for ((&to, &from), &width) in to.iter().zip(&**from).zip(&self.program.reducer.widths) {
            let bytes = width * CHUNK_ELEMENTS;
            // SAFETY: both registers have these chunks.
            unsafe { std::ptr::copy_nonoverlapping(from.wrapping_add(chunk * bytes), to, chunks * bytes) };
        }
    }
}
