//! The values of neighboring columns, some rows at a time, packed where an operand is not contiguous across
//! the columns.
//!
//! The columns that are reduced together are a group: a part of one row of the kept axes, or, if the columns
//! are short and the rows too, several whole rows. An operand that is the same in each of these rows, as the
//! centers of a matrix of distances are, is packed once for many groups.
// Imports: `device`.

use super::super::memory::scratch::{ROUNDING_BYTES, Scratch};
use super::super::strided::pack::{self, REPEAT_SLACK_BYTES};
use super::super::strided::{IterSpace, Pointers, SpacePosition};
use super::accumulate::MAX_ACCUMULATORS;
use super::operands::{ReduceInputs, SCRATCH_BYTES, STRIP_COLUMNS};
use crate::device::MAX_OPERANDS;

/// The largest number of strips that are read together, some rows at a time, so that memory is read in longer
/// contiguous spans.
pub(super) const MAX_STRIPS: usize = 16;
/// Bytes of stack memory for accumulators: those of each strip's current block, and those of each level of
/// its tree.
pub(super) const ACCUMULATOR_BYTES: usize = 48 << 10;
/// Rows that one strip accumulates before the next strip does. They are as many concurrent sequences of
/// reads.
pub(super) const STRIP_ROWS: usize = 8;
/// Rows of one block of the pairwise sum.
pub(super) const BLOCK_ROWS: usize = 128;
/// Rows of a tile in which narrow elements are transposed.
const TRANSPOSE_SIDE: usize = 16;

/// The number of strips of columns of `count` values that are read together, and the levels of their trees.
/// `accumulator` is the size of one accumulator in bytes, at most
/// [`COLUMN_ACCUMULATOR_BYTES`](super::accumulators::COLUMN_ACCUMULATOR_BYTES).
pub(super) fn strips_and_levels(count: usize, accumulator: usize) -> (usize, usize) {
    let accumulators = ACCUMULATOR_BYTES / (STRIP_COLUMNS * accumulator.max(1));
    let levels = (count.div_ceil(BLOCK_ROWS).max(1).ilog2() as usize + 1).min(accumulators - 1);
    ((accumulators / (levels + 1)).clamp(1, MAX_STRIPS), levels)
}

/// How the values of one operand reach the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// They are contiguous across the columns of a group.
    Direct,
    /// They are packed, and are equidistant across the columns.
    Line,
    /// They are packed, and are the same in each row of the kept axes.
    SameRow,
    /// They are packed, and each is the same along a row of the kept axes.
    Repeated,
    /// They are packed row by row.
    Rows,
}

/// The columns that are reduced together, and how their values are packed.
#[derive(Clone, Copy)]
pub(super) struct GroupShape {
    /// Whether a group has several whole rows of the kept axes.
    spans_rows: bool,
    /// The most columns of a group.
    pub(super) columns: usize,
    /// The most values of a column that are packed together.
    rows: usize,
    access: [Access; MAX_OPERANDS],
}

impl GroupShape {
    pub(super) fn new(
        operands: &ReduceInputs<'_>,
        outer: &IterSpace,
        inner: &IterSpace,
        count: usize,
        accumulator: usize,
    ) -> Self {
        // Longer columns pay for a group of their own.
        if count < MAX_ACCUMULATORS && !outer.is_line() && outer.inner() < MAX_STRIPS * STRIP_COLUMNS / 2 {
            let shape = Self::of(operands, outer, inner, count, accumulator, true);
            if 2 * outer.inner() <= shape.columns {
                return shape;
            }
        }
        Self::of(operands, outer, inner, count, accumulator, false)
    }

    fn of(
        operands: &ReduceInputs<'_>,
        outer: &IterSpace,
        inner: &IterSpace,
        count: usize,
        accumulator: usize,
        spans_rows: bool,
    ) -> Self {
        let slots = operands.slots;
        let mut access = [Access::Direct; MAX_OPERANDS];
        for (k, slot) in slots.iter().enumerate() {
            let step = outer.inner_step(k + 1);
            access[k] = match step == slot.element as isize {
                true if !spans_rows || outer.is_linear(k + 1, slot.element) => Access::Direct,
                _ if !spans_rows || outer.is_equidistant(k + 1, step) => Access::Line,
                _ if outer.is_broadcast_row(k + 1) => Access::SameRow,
                _ if step == 0 => Access::Repeated,
                _ => Access::Rows,
            };
        }
        let (mut strips, mut rows) = (strips_and_levels(count, accumulator).0, BLOCK_ROWS);
        let packed = || (0..slots.len()).filter(|&k| access[k] != Access::Direct);
        let widths: usize = packed().map(|k| slots[k].element).sum();
        const { assert!(REPEAT_SLACK_BYTES * MAX_OPERANDS <= ROUNDING_BYTES) };
        if let Some(elements) = (SCRATCH_BYTES - 2 * ROUNDING_BYTES).checked_div(widths) {
            // Tiles are transposed where the operand's rows are transposed. Their shape then comes first,
            // otherwise the length of the contiguous spans does.
            let transposed = packed().any(|k| inner.inner_step(k) == slots[k].element as isize);
            let block = elements / STRIP_COLUMNS;
            strips = strips
                .min(block / count.clamp(1, if transposed { 2 * TRANSPOSE_SIDE } else { STRIP_ROWS }))
                .max(1);
            rows = (block / strips).clamp(1, BLOCK_ROWS);
            rows -= if transposed && rows > TRANSPOSE_SIDE { rows % TRANSPOSE_SIDE } else { 0 };
        }
        GroupShape { spans_rows, columns: strips * STRIP_COLUMNS, rows, access }
    }

    /// Whether some packed operand is the same in each row of the kept axes.
    pub(super) fn repeats(&self, outer: &IterSpace) -> bool {
        (0..MAX_OPERANDS).any(|k| self.access[k] != Access::Direct && outer.is_broadcast_row(k + 1))
    }
}

/// The values of the columns of a group.
pub(super) struct PackedColumns<'a> {
    operands: &'a ReduceInputs<'a>,
    outer: &'a IterSpace,
    shape: GroupShape,
    /// The reduced axes, at the addresses of the group's first column.
    walk: IterSpace,
    /// The position in the reduced axes.
    index: SpacePosition,
    /// The position of the group's first column in the kept axes.
    group: SpacePosition,
    count: usize,
    left: usize,
    width: usize,
    scratch: [Option<*mut u8>; MAX_OPERANDS],
    /// The address and the number of the columns whose values the scratch of each operand holds, if it holds
    /// all of them.
    held: [(*mut u8, usize); MAX_OPERANDS],
}

impl<'a> PackedColumns<'a> {
    pub(super) fn new(
        operands: &'a ReduceInputs<'a>,
        outer: &'a IterSpace,
        walk: IterSpace,
        shape: GroupShape,
        room: &Scratch<'_>,
    ) -> Self {
        let mut scratch = [None; MAX_OPERANDS];
        for (k, slot) in operands.slots.iter().enumerate().filter(|&(k, _)| shape.access[k] != Access::Direct)
        {
            scratch[k] = Some(room.take(shape.rows * shape.columns * slot.element + REPEAT_SLACK_BYTES));
        }
        PackedColumns {
            operands,
            outer,
            shape,
            index: walk.index_of(0),
            walk,
            group: outer.index_of(0),
            count: 0,
            left: 0,
            width: 0,
            scratch,
            held: [(std::ptr::null_mut(), 0); MAX_OPERANDS],
        }
    }

    /// Begins the group of columns from `index` on, of `count` values each; returns its width.
    pub(super) fn start(&mut self, index: &SpacePosition, count: usize) -> usize {
        let (outer, most) = (self.outer, self.shape.columns);
        self.width = outer.left_in_row(index).min(most);
        if self.shape.spans_rows {
            // Groups have whole rows, so that each begins at the begin of a row.
            self.width = (most / outer.inner() * outer.inner()).min(outer.numel_from(index));
        }
        self.walk.address = self.operands.addresses(outer, index);
        (self.index, self.group) = (self.walk.index_of(0), *index);
        (self.count, self.left) = (count, count);
        self.width
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn is_packed(&self) -> bool {
        self.scratch.iter().any(Option::is_some)
    }

    /// The next rows, at most `most`: the pointers of the first row, the steps from row to row in bytes, and
    /// the number of rows, which is 0 at the end.
    ///
    /// # Safety
    /// The columns are elements of the operands.
    pub(super) unsafe fn next(&mut self, most: usize) -> (Pointers, [isize; MAX_OPERANDS], usize) {
        let n = self.left.min(self.shape.rows).min(most).min(self.walk.left_in_row(&self.index));
        let mut base = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        let mut step = [0; MAX_OPERANDS];
        for (k, slot) in self.operands.slots.iter().enumerate() {
            let from = self.walk.address_at(k, &self.index);
            let Some(tile) = self.scratch[k] else {
                (base[k], step[k]) = (from, self.walk.inner_step(k));
                continue;
            };
            (base[k], step[k]) = (tile, (self.shape.columns * slot.element) as isize);
            // The address determines the values, but for those of several rows that are not the same.
            let keeps = n == self.count
                && (!self.shape.spans_rows || matches!(self.shape.access[k], Access::Line | Access::SameRow));
            if !keeps || self.held[k].0 != from || self.held[k].1 < self.width {
                // SAFETY: the caller's promise; the tile has room for `n` rows of `columns` elements.
                unsafe { self.pack(k, tile, from, n) };
            }
            self.held[k] = if keeps { (from, self.width) } else { (std::ptr::null_mut(), 0) };
        }
        self.walk.advance(&mut self.index, n);
        self.left -= n;
        let mut steps = [0; MAX_OPERANDS];
        for (to, &read) in steps.iter_mut().zip(self.operands.reads) {
            *to = step[read as usize];
        }
        (self.operands.expand_loads(&base), steps, n)
    }

    /// Packs `n` rows of operand `k`, the first of which begins at `from`, into a tile.
    ///
    /// # Safety
    /// 1. The columns are elements of the operand.
    /// 2. The tile has room for `n` rows of the group's most columns, and [`REPEAT_SLACK_BYTES`] more.
    unsafe fn pack(&self, k: usize, tile: *mut u8, from: *mut u8, n: usize) {
        let (outer, element) = (self.outer, self.operands.slots[k].element);
        let (pitch, across) = (self.shape.columns * element, outer.inner_step(k + 1));
        let (to, steps) = ([pitch as isize, element as isize], [self.walk.inner_step(k), across]);
        let inner = outer.inner();
        match self.shape.access[k] {
            Access::Direct => {}
            // SAFETY: (1), (2).
            Access::Line => unsafe { pack::rectangle(tile, to, from, steps, [n, self.width], element) },
            Access::SameRow => {
                // SAFETY: (1), (2): one row, and room for it.
                unsafe { pack::rectangle(tile, to, from, steps, [n, inner], element) };
                for row in 0..n {
                    let (to, mut done) = (tile.wrapping_add(row * pitch), inner);
                    while done < self.width {
                        let more = done.min(self.width - done);
                        // SAFETY: (2): elements that were written, to the room behind them.
                        unsafe {
                            let end = to.add(done * element);
                            std::ptr::copy_nonoverlapping(to, end, more * element)
                        };
                        done += more;
                    }
                }
            }
            Access::Repeated => {
                // What is written beyond the end of a row is overwritten by the next: several runs are written
                // row by row of the tile.
                let is_one_run = outer.rows_left(&self.group) * inner >= self.width;
                let rows = if is_one_run { n.max(1) } else { 1 };
                for row in (0..n).step_by(rows) {
                    let to = tile.wrapping_add(row * pitch);
                    let along = (row as isize).wrapping_mul(steps[0]);
                    self.each_run(k, from, |done, run, from, step| {
                        // SAFETY: (1), (2).
                        unsafe {
                            pack::repeat_each(
                                to.add(done * element),
                                pitch,
                                from.wrapping_offset(along),
                                [steps[0], step],
                                [rows, run, inner],
                                element,
                            )
                        };
                    });
                }
            }
            Access::Rows => self.each_run(k, from, |done, run, from, step| {
                for row in 0..run {
                    let to_row = tile.wrapping_add((done + row * inner) * element);
                    let from = from.wrapping_offset((row as isize).wrapping_mul(step));
                    // SAFETY: (1), (2).
                    unsafe { pack::rectangle(to_row, to, from, steps, [n, inner], element) };
                }
            }),
        }
    }

    /// Calls `f` with each run of equidistant rows of the group: the number of columns before it, its rows,
    /// the address of operand `k` there, and the step from row to row. `from` is the address at the group's
    /// first column.
    fn each_run(&self, k: usize, from: *mut u8, mut f: impl FnMut(usize, usize, *mut u8, isize)) {
        let (outer, mut index, mut done) = (self.outer, self.group, 0);
        let start = outer.address_at(k + 1, &index);
        while done < self.width {
            let rows = outer.rows_left(&index).min((self.width - done) / outer.inner());
            let offset = outer.address_at(k + 1, &index).addr().wrapping_sub(start.addr());
            f(done, rows, from.wrapping_add(offset), outer.row_stride(k + 1));
            outer.advance(&mut index, rows * outer.inner());
            done += rows * outer.inner();
        }
    }
}
