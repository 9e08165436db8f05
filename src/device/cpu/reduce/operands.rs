//! The operands of a reduction, and the groups of rows and columns that its loops receive.
// Imports: `device`.

use super::super::memory::scratch::ROUNDING_BYTES;
use super::super::strided::{IterSpace, Pointers, SpacePosition};
use super::accumulate::MAX_ACCUMULATORS;
use crate::device::{MAX_OPERANDS, OperandRef};

/// Bytes of scratch for the packed elements of all operands together.
pub(crate) const SCRATCH_BYTES: usize = 32 * 1024;
/// Columns of a strip, whose accumulators are kept in registers.
pub(crate) const STRIP_COLUMNS: usize = 64;

/// The inputs of a reduction, as rows and columns share them.
#[derive(Clone, Copy)]
pub(crate) struct ReduceInputs<'a> {
    /// The operands, each different one once.
    pub(crate) slots: &'a [OperandRef<'a>],
    /// `slots[reads[k]]` is the operand of the k-th load.
    pub(crate) reads: &'a [u8],
    /// The prefetch distance of contiguous rows in bytes, 0 for none
    /// ([`tuning::l2_prefetch_bytes`](super::super::tuning::l2_prefetch_bytes)).
    pub(crate) prefetch_bytes: usize,
}

impl ReduceInputs<'_> {
    /// The address of each operand's first value for the output at `index`.
    pub(crate) fn addresses(&self, outer: &IterSpace, index: &SpacePosition) -> Pointers {
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for k in 0..self.slots.len() {
            addresses[k] = outer.address_at(k + 1, index);
        }
        addresses
    }

    /// The number of elements of every operand that fit into `scratch` bytes together, in whole groups of
    /// accumulators.
    pub(crate) fn block(&self, scratch: usize) -> usize {
        let widths: usize = self.slots.iter().map(|slot| slot.element).sum();
        ((scratch - ROUNDING_BYTES) / widths.max(1)) / MAX_ACCUMULATORS * MAX_ACCUMULATORS
    }

    /// Whether some operand is not contiguous along a row.
    pub(crate) fn needs_packing(&self, row: &IterSpace) -> bool {
        self.slots.iter().enumerate().any(|(k, slot)| !row.is_linear(k, slot.element))
    }

    /// The pointers of the body's loads, from those of the operands.
    pub(crate) fn expand_loads(&self, base: &Pointers) -> Pointers {
        let mut pointers = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for (pointer, &read) in pointers.iter_mut().zip(self.reads) {
            *pointer = base[read as usize];
        }
        pointers
    }
}

/// Equidistant contiguous rows, one output each. A kernel's rows have at most one block of values.
pub(crate) struct EquidistantRows {
    /// The address of the first row for each load, and the steps from row to row, in bytes.
    pub(crate) pointers: Pointers,
    pub(crate) steps: [isize; MAX_OPERANDS],
    pub(crate) rows: usize,
    pub(crate) count: usize,
    /// The position of the first row's first value, and the step to that of the next row. They are not 0
    /// where the rows are blocks of a longer row.
    pub(crate) at: [usize; 2],
    pub(crate) out: RowOutput,
    /// The prefetch distance in bytes.
    pub(crate) prefetch_bytes: usize,
}

/// The address of the first row's result, and the step to that of the next row, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct RowOutput {
    pub(crate) address: *mut u8,
    pub(crate) step: isize,
    /// Whether the accumulator itself is stored, before `finalize`.
    pub(crate) is_accumulator: bool,
}

/// Some rows of neighboring columns, in strips, with the accumulators of the columns.
#[derive(Clone, Copy)]
pub(crate) struct ColumnStrips {
    pub(crate) pointers: Pointers,
    pub(crate) steps: [isize; MAX_OPERANDS],
    pub(crate) n: usize,
    pub(crate) width: usize,
    pub(crate) at: usize,
    /// Whether the loop prefetches the following rows.
    pub(crate) prefetch: bool,
    /// The accumulators of each strip.
    pub(crate) accumulators: *mut u8,
}
