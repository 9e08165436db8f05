//! Interpreted scans of rows: eight rows, or eight blocks of one row, are transposed and computed as columns.
// Imports: `error`, `device`.

use super::super::compiler::padded_to_16;
use super::super::execute::OperandRows;
use super::super::instructions::{CHUNK_ELEMENTS, RegisterRef};
use super::super::scratch::{ScratchArena, splat};
use super::machine::{LaneRegisters, Repeat, ScanMachines};
use super::program::ScanContext;
use crate::device::cpu::scan::call::{BLOCK_ELEMENTS, CHAINS, ChainGroup, ChainGroups};
use crate::device::cpu::strided::pack;
use crate::error::Result;
use std::ops::Range;

/// Scans groups of chains.
///
/// # Safety
/// 1. `context` points to a [`ScanContext`].
/// 2. The groups give elements of its operands, and outputs with room for the results.
pub(super) unsafe fn rows(context: *const (), groups: &mut ChainGroups<'_>) {
    // SAFETY: (1).
    let context = unsafe { &*context.cast::<ScanContext<'_>>() };
    let scratch = ScratchArena::new();
    let mut scan = match ChainScan::new(&scratch, context) {
        Ok(scan) => scan,
        Err(error) => return context.outcome.add(Err(error)),
    };
    // SAFETY: (2).
    while let Some(group) = unsafe { groups.next() } {
        // SAFETY: (2); the group was computed before it is stored.
        unsafe {
            scan.group(&group);
            groups.store();
        }
    }
}

/// The state of a scan over chains. A chain is an element of a chunk, and its positions are consecutive
/// chunks.
struct ChainScan<'a> {
    context: &'a ScanContext<'a>,
    machines: ScanMachines<'a>,
    /// Accumulators before the piece and after each position, and these combined with those of earlier
    /// blocks.
    accumulators: LaneRegisters<'a>,
    combined: LaneRegisters<'a>,
    /// One chunk each: accumulators of the current block, of the earlier blocks of each row, of the earlier
    /// blocks of each chain, and space for one more.
    local: LaneRegisters<'a>,
    carry: LaneRegisters<'a>,
    earlier: LaneRegisters<'a>,
    one: LaneRegisters<'a>,
    /// The values of the chains, one chain after the other and transposed.
    straight: *mut u8,
    transposed: *mut u8,
    results: *mut u8,
    /// Positions, then numbers of values.
    numbers: *mut u8,
}

impl<'a> ChainScan<'a> {
    fn new(scratch: &'a ScratchArena, context: &'a ScanContext<'a>) -> Result<Self> {
        let program = context.program;
        let machines = ScanMachines::new(scratch, context, BLOCK_ELEMENTS)?;
        let accumulators = machines.registers(BLOCK_ELEMENTS + 1)?;
        let combined = machines.registers(BLOCK_ELEMENTS + 1)?;
        let (local, carry) = (machines.registers(1)?, machines.registers(1)?);
        let (earlier, one) = (machines.registers(1)?, machines.registers(1)?);
        let transposed = scratch.take(program.value * CHUNK_ELEMENTS * BLOCK_ELEMENTS)?;
        let results = scratch.take(program.out * CHUNK_ELEMENTS * BLOCK_ELEMENTS)?;
        let straight = scratch.take(CHAINS * BLOCK_ELEMENTS * program.value)?;
        let numbers = scratch.take(8 * CHUNK_ELEMENTS * BLOCK_ELEMENTS)?;
        for columns in [&carry, &earlier] {
            machines.reset(columns, 1);
        }
        if program.value == 1 {
            // SAFETY: the register has room for as many bytes. Chunks are read beyond the chains, where every
            // element must be a valid boolean.
            unsafe { std::ptr::write_bytes(transposed, 0, CHUNK_ELEMENTS * BLOCK_ELEMENTS) };
        }
        Ok(ChainScan {
            context,
            machines,
            accumulators,
            combined,
            local,
            carry,
            earlier,
            one,
            straight,
            transposed,
            results,
            numbers,
        })
    }

    /// Computes a group of chains.
    ///
    /// # Safety
    /// The group gives elements of the operands, and its output has room.
    unsafe fn group(&mut self, group: &ChainGroup) {
        let &ChainGroup { chains, is_one_row, n, at, .. } = group;
        if at.is_multiple_of(BLOCK_ELEMENTS) {
            self.machines.reset(&self.local, 1);
        }
        // SAFETY: the caller's promise.
        unsafe { self.accumulate(group) };
        if self.context.program.uses_count {
            self.fill_numbers(group, usize::from(!self.context.exclusive));
        }
        // Chains of a row's first block have no earlier blocks.
        let alone = if at >= BLOCK_ELEMENTS {
            0
        } else if is_one_row {
            1
        } else {
            chains
        };
        // SAFETY: the caller's promise.
        unsafe {
            if alone > 0 {
                self.finalize(group, 0..alone, false);
            }
            if is_one_row {
                self.carry_through(group);
            } else {
                self.machines.copy(&self.earlier, (&self.carry, 0), 1);
            }
            if alone < chains {
                self.finalize(group, alone..chains, true);
            }
        }
        if !is_one_row && at.wrapping_add(n).is_multiple_of(BLOCK_ELEMENTS) {
            if at < BLOCK_ELEMENTS {
                self.machines.copy(&self.carry, (&self.local, 0), 1);
            } else {
                let earlier = (&self.earlier, Repeat::Chunk);
                // SAFETY: the registers have one chunk each.
                unsafe { self.machines.combine(earlier, (&self.local, 0), &self.one, 1, 1) };
                self.machines.copy(&self.carry, (&self.one, 0), 1);
            }
        }
    }

    /// Computes the accumulators of a group after each position.
    ///
    /// # Safety
    /// The group gives elements of the operands.
    unsafe fn accumulate(&mut self, group: &ChainGroup) {
        let &ChainGroup { pointers, steps, chains, n, .. } = group;
        let program = self.context.program;
        let width = program.value;
        let values = OperandRows::rows(self.straight, (n * width) as isize, width);
        // SAFETY: the caller promised the elements of every chain; the buffers have room for all chains.
        unsafe {
            self.machines.write_values((&pointers, &steps), 0, values, [chains, n]);
            let to = [width as isize, (width * CHUNK_ELEMENTS) as isize];
            let from = [(n * width) as isize, width as isize];
            pack::rectangle(self.transposed, to, self.straight, from, [chains, n], width);
        }
        if program.uses_position {
            self.fill_numbers(group, 0);
        }
        self.machines.copy(&self.accumulators, (&self.local, 0), 1);
        for i in 0..n {
            let chunk = |at: *mut u8, width: usize| RegisterRef {
                address: at.wrapping_add(i * CHUNK_ELEMENTS * width),
                chunk_step: 0,
                row_step: 0,
            };
            let (value, position) = (chunk(self.transposed, width), chunk(self.numbers, 8));
            let [from, to] = [i, i + 1].map(|i| (&self.accumulators, i));
            // SAFETY: every register has these chunks.
            unsafe { self.machines.accumulate(value, position, from, to, 1) };
        }
        self.machines.copy(&self.local, (&self.accumulators, n), 1);
    }

    /// Writes the positions of a group's values, plus `add`.
    fn fill_numbers(&self, group: &ChainGroup, add: usize) {
        for i in 0..group.n {
            for chain in 0..group.chains {
                let number = first(group, chain).wrapping_add(i + add) as i64;
                // SAFETY: the register has room for the numbers of a block.
                unsafe { self.numbers.cast::<i64>().add(i * CHUNK_ELEMENTS + chain).write(number) };
            }
        }
    }

    /// Stores the results of some chains; `is_combined` says that earlier blocks precede them.
    ///
    /// # Safety
    /// The group's output has room for them.
    unsafe fn finalize(&mut self, group: &ChainGroup, chains: Range<usize>, is_combined: bool) {
        let &ChainGroup { n, out, out_chain, out_step, .. } = group;
        let width = self.context.program.out;
        let accumulators = (&self.accumulators, usize::from(!self.context.exclusive));
        let count =
            RegisterRef { address: self.numbers, chunk_step: (8 * CHUNK_ELEMENTS) as isize, row_step: 0 };
        let step = (width * CHUNK_ELEMENTS) as isize;
        let result = RegisterRef { address: self.results, chunk_step: step, row_step: 0 };
        // SAFETY: every register has the chunks of all positions; the caller promised room for the results.
        unsafe {
            if is_combined {
                let earlier = (&self.earlier, Repeat::Chunk);
                self.machines.combine(earlier, accumulators, &self.combined, 1, n);
                self.machines.finalize((&self.combined, 0), count, result, 1, n);
            } else {
                self.machines.finalize(accumulators, count, result, 1, n);
            }
            let to = out.wrapping_offset((chains.start as isize).wrapping_mul(out_chain));
            let from = self.results.wrapping_add(chains.start * width);
            pack::rectangle(
                to,
                [out_chain, out_step],
                from,
                [width as isize, step],
                [chains.len(), n],
                width,
            );
        }
    }

    /// Carries the accumulators of one row from block to block; `earlier` gets those before each block.
    ///
    /// # Safety
    /// The chains of the group are blocks, and were accumulated.
    unsafe fn carry_through(&mut self, group: &ChainGroup) {
        for chain in 0..group.chains {
            for (k, &width) in self.context.program.reducer.widths.iter().enumerate() {
                let offset = chain * width;
                // SAFETY: the first element of a chunk, and the chain's element of another chunk.
                unsafe {
                    let value = padded_to_16(std::slice::from_raw_parts(self.carry[k], width));
                    let to = self.earlier[k].wrapping_add(offset);
                    std::ptr::copy_nonoverlapping(value.as_ptr(), to, width);
                    let local = self.local[k].wrapping_add(offset);
                    let of_chain = padded_to_16(std::slice::from_raw_parts(local, width));
                    splat(self.one[k], of_chain.as_ptr(), width);
                }
            }
            if first(group, chain) < BLOCK_ELEMENTS {
                self.machines.copy(&self.carry, (&self.one, 0), 1);
            } else {
                let carry = (&self.carry, Repeat::Chunk);
                // SAFETY: the registers have one chunk each, and the result is none of the operands.
                unsafe { self.machines.combine(carry, (&self.one, 0), &self.combined, 1, 1) };
                self.machines.copy(&self.carry, (&self.combined, 0), 1);
            }
        }
    }
}

/// The position of a chain's first value.
fn first(group: &ChainGroup, chain: usize) -> usize {
    if group.is_one_row { group.at.wrapping_add(chain * BLOCK_ELEMENTS) } else { group.at }
}
