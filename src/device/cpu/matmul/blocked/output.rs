//! The output of a task: which sums go to it directly, which wait in a buffer, and how tiles are written.
// Imports: `error`.

use super::super::axis_group::{has_long_spans, is_contiguous, span_end};
use super::super::packing::transpose_units;
use super::super::panels::{MAX_PANEL_LANES, PanelBuffer, PanelLayout};
use super::super::problem::PackFns;
use super::call::GemmCall;
use crate::error::Result;
use std::ops::Range;

/// Offsets of the columns of one panel in the output.
pub(super) type ColumnOffsets = [isize; MAX_PANEL_LANES];

impl GemmCall<'_> {
    /// Writes a tile of sums to the output, along rows or along columns, whichever is contiguous there.
    ///
    /// # Safety
    /// 1. `sums` holds a sum for each row and column; rows are `width` sums apart.
    /// 2. Each row offset plus each column offset is an element of the output.
    pub(super) unsafe fn store_tile(&self, sums: *const u8, width: usize, rows: &[isize], columns: &[isize]) {
        let (PackFns { store, out_nbytes, .. }, sum_nbytes) = (self.fns, self.kernel.sum_nbytes);
        let by_columns = is_contiguous(rows) && !is_contiguous(columns);
        let (outer, inner, outer_stride, inner_stride) =
            if by_columns { (columns, rows, 1, width) } else { (rows, columns, width, 1) };
        let by_spans = has_long_spans(inner);
        let mut first = 0;
        while first < inner.len() {
            let end = if by_spans { span_end(inner, first) } else { inner.len() };
            for (i, &offset) in outer.iter().enumerate() {
                let to = self.problem.out.wrapping_offset(offset.wrapping_mul(out_nbytes as isize));
                let sums = sums.wrapping_add((i * outer_stride + first * inner_stride) * sum_nbytes);
                // SAFETY: (1) the sums of this line from `first` on; (2) their elements.
                unsafe { store(sums, inner_stride, to, &inner[first..end], by_spans) };
            }
            first = end;
        }
    }

    /// Writes a tile of sums, which are elements, to contiguous columns of the output that are `stride` bytes
    /// apart: `count` of them from `first` on. The tile has `rows` rows from the offset `row` on.
    ///
    /// # Safety
    /// As [`store_tile`](GemmCall::store_tile), with consecutive row offsets.
    pub(super) unsafe fn store_transposed(
        &self,
        sums: *const u8,
        width: usize,
        (row, rows): (isize, usize),
        stride: isize,
        [first, count]: [usize; 2],
    ) {
        let nbytes = self.kernel.sum_nbytes;
        let to = self.problem.out.wrapping_offset(
            row.wrapping_mul(nbytes as isize).wrapping_add((first as isize).wrapping_mul(stride)),
        );
        // SAFETY: (1), (2) the caller's promise.
        unsafe {
            transpose_units(to, stride, sums, (width * nbytes) as isize, [count, rows], nbytes);
        }
    }
}

/// The output, and a buffer for sums that cannot wait there.
pub(super) struct OutputTiles {
    /// Bytes between rows, if they are at equal distances: a tile may then write any of them.
    pub(super) row_stride: Option<isize>,
    /// Whether the sums of whole panels are written to the output as vectors, whatever the column.
    pub(super) is_direct: bool,
    /// Bytes between columns, if they are at equal distances and contiguous: a tile whose rows are
    /// neighbors there is transposed.
    pub(super) column_stride: Option<isize>,
    /// If sums of a block along `k` wait for the next block and the output cannot hold them: the first of
    /// these columns, the number of tiles of rows, and memory for the sums.
    pub(super) waiting: Option<(usize, usize, PanelBuffer)>,
}

impl OutputTiles {
    /// The output of some columns. `waiting_tiles` is the number of tiles of rows, if sums of a block along
    /// `k` wait for the next block.
    #[inline(always)]
    pub(super) fn new(
        call: &GemmCall<'_>,
        waiting_tiles: Option<usize>,
        columns: &Range<usize>,
        offsets: &mut ColumnOffsets,
    ) -> Result<Self> {
        let GemmCall { kernel, problem, fns, layout: PanelLayout { width, .. }, .. } = call;
        let bytes = |stride: isize| stride.wrapping_mul(kernel.sum_nbytes as isize);
        let row_stride = problem.m.single_stride(0).map(bytes);
        let column_stride = problem.n.single_stride(0).filter(|_| fns.sums_are_elements);
        let is_direct = row_stride.is_some() && column_stride == Some(1);
        let has_columns = problem.m.innermost().1[0] == 1;
        let column_stride = column_stride.map(bytes).filter(|_| !is_direct && has_columns);
        let mut output = OutputTiles { row_stride, is_direct, column_stride, waiting: None };
        if let Some(tiles) = waiting_tiles {
            let first = columns.clone().step_by(*width).find(|&column| {
                let here = columns.end - column;
                let direct = is_direct && (here >= *width || here == kernel.lanes);
                !(direct || output.place_columns(call, column, columns.end, offsets))
            });
            if let Some(first) = first {
                let count = tiles * (columns.end - first).div_ceil(*width);
                output.waiting = Some((first, tiles, PanelBuffer::new(count, tile_nbytes(call), 1)?));
            }
        }
        Ok(output)
    }

    /// Writes the offsets of the columns of the panel at `column`; whether its sums can be written to the
    /// output as vectors.
    #[inline(always)]
    pub(super) fn place_columns(
        &self,
        call: &GemmCall<'_>,
        column: usize,
        end: usize,
        offsets: &mut ColumnOffsets,
    ) -> bool {
        let offsets = &mut offsets[..call.layout.width.min(end - column)];
        call.problem.n.offsets(0, call.first + column, offsets);
        call.fns.sums_are_elements
            && offsets.len().is_multiple_of(call.kernel.lanes)
            && self.row_stride.is_some()
            && is_contiguous(offsets)
    }
}

/// Bytes of the sums of one tile.
pub(super) fn tile_nbytes(call: &GemmCall<'_>) -> usize {
    call.kernel.mr * call.layout.width * call.kernel.sum_nbytes
}
