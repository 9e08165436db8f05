//! Interpreted scans of columns: neighboring columns are computed together, several rows at a time.
// Imports: `error`, `device`.

use super::super::execute::OperandRows;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{ScratchArena, splat};
use super::machine::{LaneRegisters, Repeat, ScanMachines};
use super::program::ScanContext;
use crate::device::cpu::scan::call::{BLOCK_ELEMENTS, ColumnTile, ColumnTiles};
use crate::error::Result;

/// Chunks of columns that are computed together.
const MAX_CHUNKS: usize = 64;

/// Scans tiles of columns.
///
/// # Safety
/// 1. `context` points to a [`ScanContext`].
/// 2. The tiles give elements of its operands, and outputs with room for the results.
pub(super) unsafe fn columns(context: *const (), tiles: &mut ColumnTiles<'_>) {
    // SAFETY: (1).
    let context = unsafe { &*context.cast::<ScanContext<'_>>() };
    let scratch = ScratchArena::new();
    let mut scan = match ColumnScan::new(&scratch, context, tiles.most.div_ceil(CHUNK_ELEMENTS)) {
        Ok(scan) => scan,
        Err(error) => return context.outcome.add(Err(error)),
    };
    // SAFETY: (2).
    while let Some(tile) = unsafe { tiles.next() } {
        let n = tile.n;
        // SAFETY: (2); the tile was computed before it is stored.
        unsafe {
            scan.tile(&tile);
            tiles.store(n);
        }
    }
}

/// A scan of columns that runs.
struct ColumnScan<'a> {
    context: &'a ScanContext<'a>,
    machines: ScanMachines<'a>,
    /// Rows that are computed together.
    side: usize,
    /// Accumulators before these rows and after each of them, and these combined with `carry`.
    accumulators: LaneRegisters<'a>,
    combined: LaneRegisters<'a>,
    /// Accumulators of the current block, of the earlier blocks, and space for their combination.
    local: LaneRegisters<'a>,
    carry: LaneRegisters<'a>,
    spare: LaneRegisters<'a>,
    values: *mut u8,
    results: *mut u8,
    /// A chunk of positions, and of numbers of values, for each row.
    positions: *mut u8,
    counts: *mut u8,
}

impl<'a> ColumnScan<'a> {
    /// A scan of at most `widest` chunks of columns.
    fn new(scratch: &'a ScratchArena, context: &'a ScanContext<'a>, widest: usize) -> Result<Self> {
        let program = context.program;
        let side = (MAX_CHUNKS / widest).clamp(1, BLOCK_ELEMENTS);
        let most = side * widest;
        let machines = ScanMachines::new(scratch, context, most)?;
        let (accumulators, combined) =
            (machines.registers(most + widest)?, machines.registers(most + widest)?);
        let (local, carry) = (machines.registers(widest)?, machines.registers(widest)?);
        let spare = machines.registers(widest)?;
        let values = scratch.take(program.value * CHUNK_ELEMENTS * most)?;
        let results = scratch.take(program.out * CHUNK_ELEMENTS * most)?;
        let positions = scratch.take(8 * CHUNK_ELEMENTS * side)?;
        let counts = scratch.take(8 * CHUNK_ELEMENTS * side)?;
        // SAFETY: the register has room for as many bytes. Chunks are read beyond the values, where every
        // element must be valid, also a boolean.
        unsafe { std::ptr::write_bytes(values, 0, program.value * CHUNK_ELEMENTS * most) };
        Ok(ColumnScan {
            context,
            machines,
            side,
            accumulators,
            combined,
            local,
            carry,
            spare,
            values,
            results,
            positions,
            counts,
        })
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The tile gives elements of the operands, and its output has room.
    unsafe fn tile(&mut self, tile: &ColumnTile) {
        let &ColumnTile { width, n, at, .. } = tile;
        let chunks = width.div_ceil(CHUNK_ELEMENTS);
        if at.is_multiple_of(BLOCK_ELEMENTS) {
            self.machines.reset(&self.local, chunks);
        }
        for row in (0..n).step_by(self.side) {
            // SAFETY: the caller's promise.
            unsafe { self.rows(tile, row, self.side.min(n - row)) };
        }
        if at.wrapping_add(n).is_multiple_of(BLOCK_ELEMENTS) {
            if at < BLOCK_ELEMENTS {
                self.machines.copy(&self.carry, (&self.local, 0), chunks);
            } else {
                let carry = (&self.carry, Repeat::Row);
                // SAFETY: the registers have these chunks.
                unsafe { self.machines.combine(carry, (&self.local, 0), &self.spare, 1, chunks) };
                std::mem::swap(&mut self.carry, &mut self.spare);
            }
        }
    }

    /// Computes `rows` rows of a tile, from row `row` on.
    ///
    /// # Safety
    /// 1. The operands have these rows.
    /// 2. The output has room for them.
    unsafe fn rows(&mut self, tile: &ColumnTile, row: usize, rows: usize) {
        let &ColumnTile { width, at, out, out_step, .. } = tile;
        let (program, exclusive) = (self.context.program, self.context.exclusive);
        let chunks = width.div_ceil(CHUNK_ELEMENTS);
        // Rows that follow each other in memory are computed as one row, and so are their values.
        let joint =
            program.inputs.iter().all(|&(load, element)| tile.steps[load] == (width * element) as isize);
        let pitch = program.value * if joint { width } else { chunks * CHUNK_ELEMENTS };
        let values = OperandRows::rows(self.values, pitch as isize, program.value);
        let (n, length) = if joint { (1, rows * width) } else { (rows, width) };
        // SAFETY: (1); the register of values has room for as many chunks.
        unsafe { self.machines.write_values((&tile.pointers, &tile.steps), row, values, [n, length]) };
        for k in 0..if program.uses_position || program.uses_count { rows } else { 0 } {
            let position = at.wrapping_add(row + k);
            let count = position.wrapping_add(usize::from(!exclusive));
            for (to, value) in [(self.positions, position), (self.counts, count)] {
                let bytes = (value as i64).to_ne_bytes();
                // SAFETY: the register has room for a chunk of each row.
                unsafe { splat(to.wrapping_add(k * 8 * CHUNK_ELEMENTS), bytes.as_ptr(), 8) };
            }
        }
        self.machines.copy(&self.accumulators, (&self.local, 0), chunks);
        for k in 0..rows {
            let value = RegisterRef {
                address: self.values.wrapping_add(k * pitch),
                chunk_step: (program.value * CHUNK_ELEMENTS) as isize,
                row_step: 0,
            };
            let at = self.positions.wrapping_add(k * 8 * CHUNK_ELEMENTS);
            let position = RegisterRef { address: at, chunk_step: 0, row_step: 0 };
            let [from, to] = [k, k + 1].map(|k| (&self.accumulators, k * chunks));
            // SAFETY: the registers have room for the chunks of all rows. If a row ends within a chunk, the
            // memory after it is initialized.
            unsafe { self.machines.accumulate(value, position, from, to, chunks) };
        }
        self.machines.copy(&self.local, (&self.accumulators, rows * chunks), chunks);
        let accumulators = (&self.accumulators, if exclusive { 0 } else { chunks });
        let count =
            RegisterRef { address: self.counts, chunk_step: 0, row_step: (8 * CHUNK_ELEMENTS) as isize };
        let step = program.out * CHUNK_ELEMENTS;
        let result = RegisterRef {
            address: self.results,
            chunk_step: step as isize,
            row_step: (step * chunks) as isize,
        };
        // SAFETY: the registers have room for the chunks of all rows; (2).
        unsafe {
            if at < BLOCK_ELEMENTS {
                self.machines.finalize(accumulators, count, result, rows, chunks);
            } else {
                self.machines.combine((&self.carry, Repeat::Row), accumulators, &self.combined, rows, chunks);
                self.machines.finalize((&self.combined, 0), count, result, rows, chunks);
            }
            for k in 0..rows {
                let to = out.wrapping_offset(((row + k) as isize).wrapping_mul(out_step));
                let from = self.results.wrapping_add(k * step * chunks);
                std::ptr::copy_nonoverlapping(from, to, width * program.out);
            }
        }
    }
}
