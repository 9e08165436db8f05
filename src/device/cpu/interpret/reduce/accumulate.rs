//! Interpreted reduction of rows, of blocks of one row, and of columns.
//!
//! The order of additions is that of compiled loops: 64 accumulators of a row (32 wide ones), which are
//! combined by halves after a block, and blocks that are combined pairwise. The results therefore have the
//! same bits.
// Imports: `error`, `kernel`, `device`.

use super::super::execute::{OperandRows, RowMachine};
use super::super::frame::Machine;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{List, Outcome, ScratchArena, splat};
use super::accumulators::{Accumulation, Combiner, Finalizer};
use super::program::ReduceProgram;
use crate::device::cpu::reduce::accumulate::BLOCK_ELEMENTS;
use crate::device::cpu::reduce::columns::strip_start;
use crate::device::cpu::reduce::operands::{ColumnStrips, RowOutput, STRIP_COLUMNS};
use crate::device::cpu::reduce::pairwise::{ErasedPairwiseSum, LEVELS};
use crate::error::{Error, Result};
use crate::kernel::{RunTimeNumber, SLICE_ELEMENTS, SliceFn};

/// Rows that are reduced at the same time.
pub(crate) const ROWS_AT_ONCE: usize = 16;
/// Blocks of one row that are reduced at the same time. More of them would start in the same set of a cache.
const BLOCKS_AT_ONCE: usize = 8;

/// The state of a reduction: the machines, and the accumulators of some rows.
pub(crate) struct ReduceRun<'a> {
    program: &'a ReduceProgram,
    accumulate: Machine<'a>,
    combine: Machine<'a>,
    finalize: Finalizer<'a>,
    /// For a reducer that accumulates slices: the machine of the values, a buffer for a piece of them, and
    /// the combination of accumulators.
    pieces: Option<(RowMachine<'a>, *mut u8, Combiner<'a>)>,
    /// The largest number of rows.
    max_rows: usize,
    /// Registers of the lanes of accumulators, and of their next values: a chunk of each row, then, for 64
    /// accumulators, a second chunk of each row.
    accumulators: List<'a, *mut u8>,
    next: List<'a, *mut u8>,
    /// A register of positions, registers of packed operands, and the finished accumulators of rows.
    numbers: *mut u8,
    packed: List<'a, *mut u8>,
    done: *mut u8,
    /// The operands' values of the next run, and all its operands.
    places: List<'a, RegisterRef>,
    external: List<'a, RegisterRef>,
}

impl<'a> ReduceRun<'a> {
    /// A reduction over operands of these widths, with at most `chunks` chunks of accumulators.
    pub(crate) fn new(
        scratch: &'a ScratchArena,
        program: &'a ReduceProgram,
        numbers: &'a [RunTimeNumber],
        widths: &[usize],
        chunks: usize,
    ) -> Result<ReduceRun<'a>> {
        let column_nbytes = |width: usize| width * CHUNK_ELEMENTS * (chunks + 1);
        let columns = |widths: &[usize]| {
            let mut columns = scratch.list(widths.len())?;
            for &width in widths {
                columns.push(scratch.take(column_nbytes(width))?);
            }
            Ok::<List<'a, *mut u8>, Error>(columns)
        };
        let lanes = &program.reducer.widths;
        let (accumulators, next) = (columns(lanes)?, columns(lanes)?);
        // Chunks are read beyond the accumulators. These elements must be valid booleans where the
        // accumulators are booleans.
        for (&at, &width) in
            accumulators.iter().chain(&*next).zip(lanes.iter().chain(lanes)).filter(|(_, width)| **width == 1)
        {
            // SAFETY: the register has room for as many bytes.
            unsafe { std::ptr::write_bytes(at, 0, column_nbytes(width)) };
        }
        let pieces = match &program.values {
            Some(values) => {
                let most = SLICE_ELEMENTS / CHUNK_ELEMENTS;
                let widest = widths.iter().copied().fold(program.value, usize::max);
                let run = RowMachine::new(scratch, values, numbers, most, (widths.len() + 1, widest))?;
                Some((run, scratch.take(SLICE_ELEMENTS * 16)?, Combiner::new(scratch, program)?))
            }
            None => None,
        };
        Ok(ReduceRun {
            program,
            accumulate: Machine::exactly(scratch, &program.accumulate, numbers, chunks)?,
            combine: Machine::exactly(scratch, &program.reducer.combine, &[], chunks)?,
            finalize: Finalizer::new(scratch, program)?,
            pieces,
            max_rows: chunks * CHUNK_ELEMENTS / program.accumulators_per_row,
            accumulators,
            next,
            packed: columns(widths)?,
            numbers: scratch.take(column_nbytes(8))?,
            // One more accumulator, which is combined with another.
            done: scratch.take((ROWS_AT_ONCE + 1) * program.size)?,
            places: scratch.list_of(widths.len(), std::iter::repeat(RegisterRef::NONE))?,
            // The values, or an accumulator; an accumulator; a position; the result.
            external: scratch.list(widths.len() + 3 * lanes.len() + 1)?,
        })
    }

    /// Sets the accumulators of some rows to the identity.
    fn begin(&mut self, rows: usize) {
        for half in 0..self.program.accumulators_per_row / CHUNK_ELEMENTS {
            self.clear(half * self.max_rows, rows);
        }
    }

    /// Sets some chunks of accumulators to the identity.
    fn clear(&mut self, from: usize, chunks: usize) {
        for ((&to, bytes), &width) in
            self.accumulators.iter().zip(&self.program.reducer.identity).zip(&self.program.reducer.widths)
        {
            for chunk in from..from + chunks {
                // SAFETY: the register has room for these chunks.
                unsafe { splat(to.wrapping_add(chunk * width * CHUNK_ELEMENTS), bytes.as_ptr(), width) };
            }
        }
    }

    /// Accumulates the values at the places into the accumulators from chunk `from` on, `rows` rows of
    /// `chunks` chunks; `number` is the register of positions. The results are in `next`.
    ///
    /// # Safety
    /// As [`Machine::run`].
    unsafe fn accumulate_chunks(&mut self, number: RegisterRef, from: usize, rows: usize, chunks: usize) {
        let place = |(&at, &width): (&*mut u8, &usize)| RegisterRef {
            address: at.wrapping_add(from * width * CHUNK_ELEMENTS),
            chunk_step: (width * CHUNK_ELEMENTS) as isize,
            row_step: (width * CHUNK_ELEMENTS * chunks) as isize,
        };
        self.external.clear();
        self.external.extend(self.places.iter().copied());
        self.external.extend(self.accumulators.iter().zip(&self.program.reducer.widths).map(place));
        self.external.push(number);
        self.external.extend(self.next.iter().zip(&self.program.reducer.widths).map(place));
        // SAFETY: the caller's promise; the accumulators have room for as many chunks.
        unsafe { self.accumulate.run(&self.external, rows, chunks) };
    }

    /// Accumulates one value into each accumulator of some rows; the first value of row `l` has position `at
    /// + l · step`.
    ///
    /// # Safety
    /// The places have a value for each accumulator.
    unsafe fn accumulate_step(&mut self, rows: usize, (at, step): (usize, usize)) {
        let number = RegisterRef {
            address: self.numbers,
            chunk_step: (8 * CHUNK_ELEMENTS) as isize,
            row_step: (8 * CHUNK_ELEMENTS) as isize,
        };
        for half in 0..self.program.accumulators_per_row / CHUNK_ELEMENTS {
            for k in 0..if self.program.counts { rows * CHUNK_ELEMENTS } else { 0 } {
                let value =
                    at.wrapping_add(k / CHUNK_ELEMENTS * step)
                        .wrapping_add(half * CHUNK_ELEMENTS + k % CHUNK_ELEMENTS) as i64;
                // SAFETY: the register of positions has room for a chunk of each row.
                unsafe { self.numbers.cast::<i64>().add(k).write(value) };
            }
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_chunks(number, half * self.max_rows, rows, 1) };
            for place in self.places.iter_mut() {
                place.address = place.address.wrapping_offset(place.chunk_step);
            }
        }
    }

    /// Accumulates `n` values of `rows` rows from row `row` on, a block of each at most; the first value of
    /// the first row has position `at`, that of the next `at + step`.
    ///
    /// # Safety
    /// The rows have `n` elements of every operand.
    unsafe fn accumulate(
        &mut self,
        operands: &[OperandRows],
        [row, rows]: [usize; 2],
        n: usize,
        (at, step): (usize, usize),
    ) {
        let operands = || operands.iter().map(|operand| operand.from(row)).enumerate();
        let (per_row, chunks) =
            (self.program.accumulators_per_row, self.program.accumulators_per_row / CHUNK_ELEMENTS);
        for (k, operand) in operands() {
            let step = (operand.width * CHUNK_ELEMENTS) as isize;
            self.places[k] =
                RegisterRef { address: operand.at, chunk_step: step, row_step: operand.row_step };
            if operand.is_broadcast() {
                // SAFETY: each row has an element; the register has room for a chunk of each row.
                unsafe { operand.pack(self.packed[k], rows, 0, 0, 1) };
                self.places[k] = RegisterRef { address: self.packed[k], chunk_step: 0, row_step: step };
            }
        }
        for start in (0..n / per_row * per_row).step_by(per_row) {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_step(rows, (at.wrapping_add(start), step)) };
            std::mem::swap(&mut self.accumulators, &mut self.next);
        }
        let rest = n % per_row;
        if rest == 0 {
            return;
        }
        // The remainder of a row without a whole group goes to the first accumulators, any other goes to the
        // last ones.
        let from = if n < per_row && at == 0 { 0 } else { per_row - rest };
        for (k, operand) in operands().filter(|(_, operand)| !operand.is_broadcast()) {
            if n >= per_row {
                self.places[k].address =
                    operand.at.wrapping_add(n * operand.width).wrapping_sub(per_row * operand.width);
            } else {
                // SAFETY: each row has `rest` elements; the register has room for the chunks of all rows.
                unsafe { operand.after(n - rest).pack(self.packed[k], rows, rest, from, chunks) };
                self.places[k] = RegisterRef {
                    address: self.packed[k],
                    chunk_step: (operand.width * CHUNK_ELEMENTS) as isize,
                    row_step: (operand.width * per_row) as isize,
                };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_step(rows, (at.wrapping_add(n - rest).wrapping_sub(from), step)) };
        // The accumulators without a value in the remainder keep their value.
        for ((&to, &new), &width) in
            self.accumulators.iter().zip(&*self.next).zip(&self.program.reducer.widths)
        {
            for half in 0..chunks {
                let (first, end) = (
                    from.max(half * CHUNK_ELEMENTS),
                    (from + rest).min(half * CHUNK_ELEMENTS + CHUNK_ELEMENTS),
                );
                for row in 0..if first < end { rows } else { 0 } {
                    let place =
                        ((half * self.max_rows + row) * CHUNK_ELEMENTS + first % CHUNK_ELEMENTS) * width;
                    // SAFETY: the elements are inside both registers.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            new.wrapping_add(place),
                            to.wrapping_add(place),
                            (end - first) * width,
                        )
                    };
                }
            }
        }
    }

    /// Combines the accumulators of each row, each half with the other; the result is the first of each row.
    fn combine_all(&mut self, rows: usize) {
        let mut width = self.program.accumulators_per_row;
        while width > 1 {
            width /= 2;
            // The second half of 64 accumulators is in the second chunks.
            let other = if width < CHUNK_ELEMENTS { width } else { self.max_rows * CHUNK_ELEMENTS };
            let place = |(&at, &bytes): (&*mut u8, &usize), from: usize| RegisterRef {
                address: at.wrapping_add(from * bytes),
                chunk_step: (bytes * CHUNK_ELEMENTS) as isize,
                row_step: (bytes * CHUNK_ELEMENTS) as isize,
            };
            self.external.clear();
            self.external.extend(
                self.accumulators.iter().zip(&self.program.reducer.widths).map(|lane| place(lane, 0)),
            );
            self.external.extend(
                self.accumulators.iter().zip(&self.program.reducer.widths).map(|lane| place(lane, other)),
            );
            self.external
                .extend(self.next.iter().zip(&self.program.reducer.widths).map(|lane| place(lane, 0)));
            // SAFETY: the registers have one more chunk than rows.
            unsafe { self.combine.run(&self.external, rows, 1) };
            std::mem::swap(&mut self.accumulators, &mut self.next);
        }
    }

    /// The accumulator of row `row` of `n` values, a block at most, by the reducer's slice function; the
    /// first value has position `at`.
    ///
    /// # Safety
    /// 1. The row has `n` elements of every operand.
    /// 2. `accumulator` has room for one.
    unsafe fn accumulate_slice(
        &mut self,
        slice: SliceFn,
        (operands, row): (&[OperandRows], usize),
        n: usize,
        at: usize,
        accumulator: *mut u8,
    ) {
        // SAFETY: (2).
        unsafe { self.program.write_identities(accumulator, 1) };
        if n == 0 {
            return;
        }
        let Some((values, piece, combiner)) = &mut self.pieces else {
            // SAFETY: (1): the values are the elements of this operand; (2).
            return unsafe { slice(operands[self.program.operand].row(row), n, at, accumulator) };
        };
        let found = self.done.wrapping_add(ROWS_AT_ONCE * self.program.size);
        for start in (0..n).step_by(SLICE_ELEMENTS) {
            let len = SLICE_ELEMENTS.min(n - start);
            let piece_operand = OperandRows::rows(*piece, 0, self.program.value);
            let here = operands.iter().map(|operand| operand.from(row).after(start));
            values.set(here.chain([piece_operand]));
            // SAFETY: (1); (2); the buffers have room for a piece of values and for an accumulator.
            unsafe {
                values.run(1, 1, len);
                slice(*piece, len, at.wrapping_add(start), found);
                combiner.join(accumulator, found, 1);
                std::ptr::copy_nonoverlapping(found, accumulator, self.program.size);
            }
        }
    }

    /// Reduces `rows` rows of `n` values each, a block at most; the first value of row `r` has position
    /// `at[0] + r · at[1]`.
    ///
    /// # Safety
    /// 1. The rows have `n` elements of every operand.
    /// 2. The output has room for a result, or an accumulator, of each row.
    pub(crate) unsafe fn rows(
        &mut self,
        operands: &[OperandRows],
        rows: usize,
        n: usize,
        at: [usize; 2],
        out: RowOutput,
    ) {
        let size = self.program.size;
        let side = if at[1] == 0 { ROWS_AT_ONCE } else { BLOCKS_AT_ONCE }.min(self.max_rows);
        for row in (0..rows).step_by(side) {
            let group_rows = side.min(rows - row);
            let first = |k: usize| at[0].wrapping_add((row + k).wrapping_mul(at[1]));
            if let Some(slice) = self.program.slice {
                for k in 0..group_rows {
                    let (one, to) = ((operands, row + k), self.done.wrapping_add(k * size));
                    // SAFETY: (1); the scratch has room for the accumulators of all rows.
                    unsafe { self.accumulate_slice(slice, one, n, first(k), to) };
                }
            } else {
                self.begin(group_rows);
                // SAFETY: (1).
                unsafe { self.accumulate(operands, [row, group_rows], n, (first(0), at[1])) };
                self.combine_all(group_rows);
                // SAFETY: the scratch has room for the accumulators of all rows.
                unsafe { self.program.collect(&self.accumulators, CHUNK_ELEMENTS, group_rows, self.done) };
            }
            let to = out.address.wrapping_offset((row as isize).wrapping_mul(out.step));
            // SAFETY: (2); the accumulators were written above.
            unsafe {
                if out.is_accumulator {
                    for k in 0..group_rows {
                        let to = to.wrapping_offset((k as isize).wrapping_mul(out.step));
                        std::ptr::copy_nonoverlapping(self.done.wrapping_add(k * size), to, size);
                    }
                } else {
                    self.finalize.write(self.done, group_rows, n, to, out.step);
                }
            }
        }
    }

    /// As [`rows`](Self::rows), for rows of any length, from position 0 on, with results as outputs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the results are then not written.
    ///
    /// # Safety
    /// As [`rows`](Self::rows).
    pub(crate) unsafe fn whole_rows(
        &mut self,
        operands: &[OperandRows],
        rows: usize,
        n: usize,
        out: RowOutput,
    ) -> Result<()> {
        if n <= BLOCK_ELEMENTS {
            // SAFETY: the caller's promise.
            unsafe { self.rows(operands, rows, n, [0; 2], out) };
            return Ok(());
        }
        let (scratch, outcome, size) = (ScratchArena::new(), Outcome::new(), self.program.size);
        let accumulation = Accumulation { program: self.program, outcome: &outcome };
        let accumulators = accumulation.fns();
        let blocks = scratch.take((BLOCKS_AT_ONCE + LEVELS) * size)?;
        let mut here = scratch.list(operands.len())?;
        let place = |block: usize| blocks.wrapping_add(block * size);
        for row in 0..rows {
            let mut sum = ErasedPairwiseSum::over(&accumulators, place(BLOCKS_AT_ONCE), LEVELS, 1);
            for start in (0..n).step_by(BLOCKS_AT_ONCE * BLOCK_ELEMENTS) {
                let (some, ends) = (
                    (n - start).min(BLOCKS_AT_ONCE * BLOCK_ELEMENTS),
                    start + BLOCKS_AT_ONCE * BLOCK_ELEMENTS >= n,
                );
                let (whole, rest) = (some / BLOCK_ELEMENTS, some % BLOCK_ELEMENTS);
                here.clear();
                here.extend(operands.iter().map(|operand| OperandRows {
                    row_step: (BLOCK_ELEMENTS * operand.step) as isize,
                    ..operand.from(row).after(start)
                }));
                let to = |block: usize| RowOutput {
                    address: place(block),
                    step: size as isize,
                    is_accumulator: true,
                };
                // SAFETY: the caller's promise; the scratch has room for the accumulators of the blocks and
                // of the levels.
                unsafe {
                    self.rows(&here, whole, BLOCK_ELEMENTS, [start, BLOCK_ELEMENTS], to(0));
                    if rest > 0 {
                        here.iter_mut().for_each(|operand| *operand = operand.from(whole));
                        self.rows(&here, 1, rest, [start + whole * BLOCK_ELEMENTS, 0], to(whole));
                    }
                    let count = whole + usize::from(rest > 0);
                    (0..count - usize::from(ends)).for_each(|block| sum.push(place(block)));
                    if ends {
                        sum.join(place(count - 1));
                        let to = out.address.wrapping_offset((row as isize).wrapping_mul(out.step));
                        self.finalize.write(place(count - 1), 1, n, to, 0);
                    }
                }
            }
        }
        outcome.into_result()
    }

    /// Accumulates some rows of columns, each value into the accumulator of its column.
    ///
    /// # Safety
    /// 1. The operands have `n` rows of the columns.
    /// 2. The strips have their accumulators.
    /// 3. The registers of accumulators have room for the chunks of the strips.
    pub(crate) unsafe fn columns(&mut self, operands: &[OperandRows], strips: &ColumnStrips) {
        let ColumnStrips { n, width, at, accumulators, .. } = *strips;
        let (used, per_strip) = (width.div_ceil(STRIP_COLUMNS), STRIP_COLUMNS / CHUNK_ELEMENTS);
        let full = width / STRIP_COLUMNS;
        // SAFETY: (2) and (3).
        unsafe { self.program.spread(accumulators, used * STRIP_COLUMNS, &self.accumulators) };
        let number = RegisterRef { address: self.numbers, chunk_step: 0, row_step: 0 };
        for row in 0..n {
            if self.program.counts {
                // SAFETY: the register of positions has room for a chunk.
                unsafe { splat(self.numbers, ((at + row) as i64).to_ne_bytes().as_ptr(), 8) };
            }
            let chunk_step = |operand: &OperandRows| (operand.width * CHUNK_ELEMENTS) as isize;
            if full > 0 {
                for (place, operand) in self.places.iter_mut().zip(operands) {
                    *place = RegisterRef {
                        address: operand.row(row),
                        chunk_step: chunk_step(operand),
                        row_step: 0,
                    };
                }
                // SAFETY: (1) for whole strips; (3).
                unsafe { self.accumulate_chunks(number, 0, 1, full * per_strip) };
            }
            if full < used {
                for (k, operand) in operands.iter().enumerate() {
                    let mut from = operand.from(row).after(strip_start(full, width)).at;
                    if full == 0 {
                        // SAFETY: (1); the register has room for the chunks of a strip.
                        unsafe { operand.from(row).pack(self.packed[k], 1, width, 0, per_strip) };
                        from = self.packed[k];
                    }
                    self.places[k] =
                        RegisterRef { address: from, chunk_step: chunk_step(operand), row_step: 0 };
                }
                // SAFETY: (1) for the last strip; (3).
                unsafe { self.accumulate_chunks(number, full * per_strip, 1, per_strip) };
            }
            std::mem::swap(&mut self.accumulators, &mut self.next);
        }
        // SAFETY: (2).
        unsafe { self.program.collect(&self.accumulators, 1, used * STRIP_COLUMNS, accumulators) };
    }
}
