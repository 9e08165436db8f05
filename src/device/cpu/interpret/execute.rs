//! Runs programs over rows of any length: whole chunks in place, the remainder through chunks in scratch.
// Imports: nothing.

use super::frame::Machine;
use super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::scratch::{ScratchArena, ScratchMemory, splat};

/// Rows of elements: the address of the first row, the bytes from row to row, the bytes of an element, and
/// whether a row is one element for all positions.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) at: *mut u8,
    pub(super) row_step: isize,
    pub(super) width: usize,
    pub(super) is_broadcast: bool,
}

impl Operand {
    /// The address of a row.
    pub(super) fn row(&self, row: usize) -> *mut u8 {
        self.at.wrapping_offset((row as isize).wrapping_mul(self.row_step))
    }

    /// The rows from this one on.
    pub(super) fn from(&self, row: usize) -> Operand {
        Operand { at: self.row(row), ..*self }
    }

    /// The same rows without their first `n` elements.
    pub(super) fn after(&self, n: usize) -> Operand {
        Operand {
            at: if self.is_broadcast { self.at } else { self.at.wrapping_add(n * self.width) },
            ..*self
        }
    }

    /// Copies the first `n` elements of some rows into `chunks` chunks each, from element `from` on. The
    /// other elements of the chunks become the row's first element.
    ///
    /// # Safety
    /// 1. Each row has `n` elements, and at least one.
    /// 2. `to` has room for the chunks of all rows.
    pub(super) unsafe fn gather(&self, to: *mut u8, rows: usize, n: usize, from: usize, chunks: usize) {
        for row in 0..rows {
            let (at, to) = (self.row(row), to.wrapping_add(row * chunks * CHUNK_ELEMENTS * self.width));
            for chunk in 0..chunks {
                // SAFETY: (1) a row has an element; (2) its chunks have room.
                unsafe { splat(to.wrapping_add(chunk * CHUNK_ELEMENTS * self.width), at, self.width) };
            }
            if !self.is_broadcast {
                // SAFETY: (1) and (2).
                unsafe {
                    std::ptr::copy_nonoverlapping(at, to.wrapping_add(from * self.width), n * self.width)
                };
            }
        }
    }
}

/// Runs a program over rows of `n` elements; `operands` are the external inputs and then `outputs` outputs.
///
/// # Safety
/// 1. Every operand has its elements, of the types that the program was compiled for.
/// 2. Outputs overlap no other operand. Those of a program that stores after all loads may coincide with its
///    inputs.
pub(super) unsafe fn run_rows(
    running: &mut Machine<'_>,
    operands: &[Operand],
    outputs: usize,
    rows: usize,
    n: usize,
) {
    let (most, inputs, count) = (running.chunks, operands.len() - outputs, operands.len());
    let (full, tail) = (n / CHUNK_ELEMENTS, n % CHUNK_ELEMENTS);
    let has_rooms = tail > 0 || operands.iter().any(|operand| operand.is_broadcast);
    let room_of = |operand: &Operand| if has_rooms { operand.width * CHUNK_ELEMENTS * most } else { 0 };
    let mut memory = ScratchMemory::new(operands.iter().map(|operand| room_of(operand) + 64).sum());
    let mut room = ScratchArena::new(&mut memory);
    let rooms: Vec<*mut u8> = operands.iter().map(|operand| room.take(room_of(operand))).collect();
    let mut external = vec![RegisterRef::NONE; count];
    // Whole chunks: some chunks of one row, or several rows.
    let side = most.checked_div(full).unwrap_or(0).max(1);
    for row in (0..if full > 0 { rows } else { 0 }).step_by(side) {
        let some = side.min(rows - row);
        for (k, operand) in operands.iter().enumerate() {
            let (here, step) = (operand.from(row), operand.width * CHUNK_ELEMENTS);
            external[k] =
                RegisterRef { address: here.at, chunk_step: step as isize, row_step: operand.row_step };
            if operand.is_broadcast {
                // SAFETY: (1); the scratch has room for a chunk of each row.
                unsafe { here.gather(rooms[k], some, 0, 0, 1) };
                external[k] = RegisterRef { address: rooms[k], chunk_step: 0, row_step: step as isize };
            }
        }
        for start in (0..full).step_by(most) {
            // SAFETY: (1) whole chunks of every operand; (2) is the caller's promise.
            unsafe { running.run(&external, some, most.min(full - start)) };
            for place in &mut external {
                place.address = place.address.wrapping_offset(place.chunk_step * most as isize);
            }
        }
    }
    // The remainder of each row, in a chunk of its own.
    for row in (0..if tail > 0 { rows } else { 0 }).step_by(most) {
        let some = most.min(rows - row);
        for (k, operand) in operands.iter().enumerate() {
            external[k] = RegisterRef {
                address: rooms[k],
                chunk_step: (operand.width * CHUNK_ELEMENTS) as isize,
                row_step: 0,
            };
            if k < inputs {
                // SAFETY: (1) `tail` elements of each row; the scratch has room for a chunk of each.
                unsafe { operand.from(row).after(full * CHUNK_ELEMENTS).gather(rooms[k], some, tail, 0, 1) };
            }
        }
        // SAFETY: every operand has its chunks in scratch.
        unsafe { running.run(&external, 1, some) };
        for (k, operand) in operands.iter().enumerate().skip(inputs) {
            for of in 0..some {
                let (to, from) = (
                    operand.after(full * CHUNK_ELEMENTS).row(row + of),
                    rooms[k].wrapping_add(of * operand.width * CHUNK_ELEMENTS),
                );
                // SAFETY: `tail` elements of a row, which the program computed above.
                unsafe { std::ptr::copy_nonoverlapping(from, to, tail * operand.width) };
            }
        }
    }
}
