//! Runs programs over rows of any length: whole chunks in place, the remainder through chunks in scratch.
// Imports: `error`, `kernel`, `device`.

use super::frame::{BytecodePair, Machine};
use super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::scratch::{List, ScratchArena, splat};
use crate::device::cpu::memory::scratch::CACHE_LINE_BYTES;
use crate::error::Result;
use crate::kernel::RunTimeNumber;

/// Rows of elements: the address of the first row, the bytes from row to row, the bytes of an element, and
/// those from element to element: 0 if a row is one element for all positions.
#[derive(Clone, Copy)]
pub(super) struct OperandRows {
    pub(super) at: *mut u8,
    pub(super) row_step: isize,
    pub(super) width: usize,
    pub(super) step: usize,
}

impl OperandRows {
    /// Rows of elements that follow each other.
    pub(super) fn rows(at: *mut u8, row_step: isize, width: usize) -> OperandRows {
        OperandRows { at, row_step, width, step: width }
    }

    /// Whether a row is one element for all positions.
    pub(super) fn is_broadcast(&self) -> bool {
        self.step == 0
    }

    /// The operand of a load, of which its number and the bytes of an element are given.
    pub(super) fn of_load(
        &(load, width): &(usize, usize),
        pointers: &[*mut u8],
        steps: &[isize],
    ) -> OperandRows {
        OperandRows::rows(pointers[load], steps[load], width)
    }

    /// The address of a row.
    pub(super) fn row(&self, row: usize) -> *mut u8 {
        self.at.wrapping_offset((row as isize).wrapping_mul(self.row_step))
    }

    /// The rows from this one on.
    pub(super) fn from(&self, row: usize) -> OperandRows {
        OperandRows { at: self.row(row), ..*self }
    }

    /// The same rows without their first `n` elements.
    pub(super) fn after(&self, n: usize) -> OperandRows {
        OperandRows { at: self.at.wrapping_add(n * self.step), ..*self }
    }

    /// Copies the first `n` elements of some rows into `chunks` chunks each, from element `from` on. The
    /// other elements of the chunks become the row's first element.
    ///
    /// # Safety
    /// 1. Each row has `n` elements, and at least one.
    /// 2. `to` has room for the chunks of all rows.
    pub(super) unsafe fn pack(&self, to: *mut u8, rows: usize, n: usize, from: usize, chunks: usize) {
        for row in 0..rows {
            let (at, to) = (self.row(row), to.wrapping_add(row * chunks * CHUNK_ELEMENTS * self.width));
            for chunk in 0..chunks {
                // SAFETY: (1) a row has an element; (2) its chunks have room.
                unsafe { splat(to.wrapping_add(chunk * CHUNK_ELEMENTS * self.width), at, self.width) };
            }
            if !self.is_broadcast() {
                // SAFETY: (1) and (2).
                unsafe {
                    std::ptr::copy_nonoverlapping(at, to.wrapping_add(from * self.width), n * self.width)
                };
            }
        }
    }
}

/// A machine that runs a program over rows of any length.
pub(super) struct RowMachine<'a> {
    machine: Machine<'a>,
    /// The operands of the next run: external inputs, then outputs. Its caller sets them.
    pub(super) operands: List<'a, OperandRows>,
    /// Scratch for the chunks of a block of each operand, and the bytes from operand to operand.
    rooms: *mut u8,
    room_nbytes: usize,
    external: List<'a, RegisterRef>,
}

impl<'a> RowMachine<'a> {
    /// A machine for `count` operands with elements of at most `widest` bytes, and for blocks as of
    /// [`Machine::new`].
    pub(super) fn new(
        scratch: &'a ScratchArena,
        pair: &'a BytecodePair,
        numbers: &'a [RunTimeNumber],
        most: usize,
        (count, widest): (usize, usize),
    ) -> Result<Self> {
        let machine = Machine::new(scratch, pair, numbers, most)?;
        let room_nbytes = widest * CHUNK_ELEMENTS * machine.chunks + CACHE_LINE_BYTES;
        Ok(RowMachine {
            machine,
            operands: scratch.list(count)?,
            rooms: scratch.take(count * room_nbytes)?,
            room_nbytes,
            external: scratch.list(count)?,
        })
    }

    /// Sets the operands of the next run.
    pub(super) fn set(&mut self, operands: impl IntoIterator<Item = OperandRows>) {
        self.operands.clear();
        self.operands.extend(operands);
    }

    /// Runs the program over rows of `n` elements; the last `outputs` operands are outputs.
    ///
    /// # Safety
    /// 1. Every operand has its elements, of the types that the program was compiled for.
    /// 2. Outputs overlap no other operand. Those of a program that stores after all loads may coincide with
    ///    its inputs.
    pub(super) unsafe fn run(&mut self, outputs: usize, rows: usize, n: usize) {
        let RowMachine { machine, operands, rooms, room_nbytes, external } = self;
        let room = |k: usize| rooms.wrapping_add(k * *room_nbytes);
        let (most, inputs) = (machine.chunks, operands.len() - outputs);
        let (full, tail) = (n / CHUNK_ELEMENTS, n % CHUNK_ELEMENTS);
        // Whole chunks: some chunks of one row, or several rows.
        let side = most.checked_div(full).unwrap_or(0).max(1);
        for row in (0..if full > 0 { rows } else { 0 }).step_by(side) {
            let some = side.min(rows - row);
            external.clear();
            for (k, operand) in operands.iter().enumerate() {
                let (here, step) = (operand.from(row), operand.width * CHUNK_ELEMENTS);
                let mut place =
                    RegisterRef { address: here.at, chunk_step: step as isize, row_step: operand.row_step };
                if operand.is_broadcast() {
                    // SAFETY: (1); the scratch has room for a chunk of each row.
                    unsafe { here.pack(room(k), some, 0, 0, 1) };
                    place = RegisterRef { address: room(k), chunk_step: 0, row_step: step as isize };
                }
                external.push(place);
            }
            for start in (0..full).step_by(most) {
                // SAFETY: (1) whole chunks of every operand; (2) is the caller's promise.
                unsafe { machine.run(external, some, most.min(full - start)) };
                for place in external.iter_mut() {
                    place.address = place.address.wrapping_offset(place.chunk_step * most as isize);
                }
            }
        }
        // The remainder of each row, in a chunk of its own.
        for row in (0..if tail > 0 { rows } else { 0 }).step_by(most) {
            let some = most.min(rows - row);
            external.clear();
            for (k, operand) in operands.iter().enumerate() {
                external.push(RegisterRef {
                    address: room(k),
                    chunk_step: (operand.width * CHUNK_ELEMENTS) as isize,
                    row_step: 0,
                });
                if k < inputs {
                    // SAFETY: (1) `tail` elements of each row; the scratch has room for a chunk of each.
                    unsafe { operand.from(row).after(full * CHUNK_ELEMENTS).pack(room(k), some, tail, 0, 1) };
                }
            }
            // SAFETY: every operand has its chunks in scratch.
            unsafe { machine.run(external, 1, some) };
            for (k, operand) in operands.iter().enumerate().skip(inputs) {
                for of in 0..some {
                    let (to, from) = (
                        operand.after(full * CHUNK_ELEMENTS).row(row + of),
                        room(k).wrapping_add(of * operand.width * CHUNK_ELEMENTS),
                    );
                    // SAFETY: `tail` elements of a row, which the program computed above.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, tail * operand.width) };
                }
            }
        }
    }
}
