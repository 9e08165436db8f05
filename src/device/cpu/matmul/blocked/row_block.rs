//! The work of one task: some rows and columns of the output, over all of `k`.
// Imports: `error`.

use super::super::super::memory;
use super::super::axis_group::{AxisGroup, RowTiles, is_contiguous};
use super::super::kernels::{
    KernelInfo, MAX_INITIAL_ROWS, MAX_TILE_BYTES, MAX_TILE_ROWS, Tile, ZERO_INITIAL,
};
use super::super::panels::{MAX_PANEL_LANES, PackFn, PanelBuffer, PanelLayout};
use super::call::{GemmCall, RightPanels};
use super::output::{ColumnOffsets, OutputTiles, tile_nbytes};
use super::sizes::*;
use crate::error::Result;
use std::mem::MaybeUninit;
use std::ops::Range;

impl GemmCall<'_> {
    /// Computes some rows and columns; columns count from `self.first`. Without a right operand that can be
    /// read, its panels are packed, a block of them at a time, and all rows use each block.
    ///
    /// # Safety
    /// As [`run`](super::run). A right operand that is given is packed, or has contiguous rows.
    pub(super) unsafe fn rows(
        &self,
        right: Option<&RightPanels>,
        row: usize,
        rows: usize,
        columns: Range<usize>,
    ) -> Result<()> {
        let (units, unit_nbytes) = (self.layout.units, self.kernel.unit_nbytes);
        let sizes = BlockSizes::new(self, right.is_some(), row, rows, &columns);
        let left = LeftSource::new(self, &sizes, rows)?;
        let right = match right {
            Some(&panels) => RightSource::Ready(panels),
            None => {
                RightSource::Packed(PanelBuffer::new(sizes.k_block.min(units), sizes.columns, unit_nbytes)?)
            }
        };
        let mut column_offsets = [0; MAX_PANEL_LANES];
        let sums_wait = sizes.next(0, units).min(sizes.summed) < units;
        let waiting_tiles = sums_wait.then(|| sizes.tiles.clone().count());
        let output = OutputTiles::new(self, waiting_tiles, &columns, &mut column_offsets)?;
        let block = RowBlock { call: self, row, columns, sizes, left, right, output };
        let mut unit = 0;
        while unit < units {
            let count = block.sizes.next(unit, units);
            // SAFETY: the caller's promise.
            unsafe { block.k_block(unit, count, &mut column_offsets) };
            unit += count;
        }
        Ok(())
    }
}

/// Sizes of the blocks of one task.
struct BlockSizes {
    /// Units that are packed together: KC.
    k_block: usize,
    /// Units that are summed before the next columns.
    summed: usize,
    /// Columns that all rows use before the next ones: NC.
    columns: usize,
    /// Whether the left operand is read in place, the contiguous elements along `k` of it, and the number of
    /// such spans at equal distances.
    left_in_place: bool,
    k_span: usize,
    k_spans: usize,
    /// The rows, cut into tiles of at most MR.
    tiles: RowTiles,
}

impl BlockSizes {
    #[inline(always)]
    fn new(call: &GemmCall<'_>, has_right: bool, row: usize, rows: usize, columns: &Range<usize>) -> Self {
        let GemmCall { kernel, problem, layout: PanelLayout { width, units, .. }, .. } = *call;
        let KernelInfo { unit_nbytes, mr, .. } = kernel;
        let single_pass = problem.n.total() <= 2 * width;
        let (span, k_span) = (problem.m.innermost().0, problem.k.innermost().0);
        let k_spans = problem.k.around_innermost().0;
        let (far_apart, left_in_place) = (call.has_far_apart_rows(), call.reads_left_in_place());
        let max_height =
            if left_in_place && single_pass && far_apart { mr.min(MAX_FAR_APART_ROWS) } else { mr };
        let spans = if left_in_place { (span, row % span) } else { (rows, 0) };
        let tiles = RowTiles { rows: 0..rows, end: 0, spans, max_height };
        // Panels are read in spans as long as possible.
        let (k_block, summed) = match (call.reads_right_once, left_in_place && single_pass) {
            (true, _) if call.is_prepacked => {
                (K_BLOCK_BYTES / unit_nbytes / READ_ONCE_UNITS * READ_ONCE_UNITS, READ_ONCE_UNITS)
            }
            (true, _) => (READ_ONCE_UNITS, READ_ONCE_UNITS),
            (_, true) => (SINGLE_PASS_UNITS, SINGLE_PASS_UNITS),
            _ => {
                let nbytes = if call.reads_left_elements() { K_BLOCK_BYTES } else { K_BLOCK_BYTES / 2 };
                let most = nbytes / unit_nbytes;
                let even = |all: usize, most: usize| all.div_ceil(all.div_ceil(most));
                let size = if left_in_place && 2 * k_span <= most {
                    even(k_spans, most / k_span) * k_span
                } else {
                    let span = if left_in_place { k_span } else { units };
                    even(span, most).next_multiple_of(K_BLOCK_MULTIPLE)
                };
                (size, size)
            }
        };
        let most = COLUMN_BLOCK_BYTES[usize::from(kernel.is_512_bits())]
            / (k_block.min(units) * unit_nbytes)
            / width
            * width;
        let all = columns.len().next_multiple_of(width);
        let columns = match call.reads_right_once {
            true => width,
            _ if left_in_place || has_right => most.clamp(width, all),
            _ => (PANELS_PACKED_TOGETHER * width).min(all),
        };
        BlockSizes { k_block, summed, columns, left_in_place, k_span, k_spans, tiles }
    }

    /// Units of the block along `k` that begins at `unit`. A block of an operand that is read in place is one
    /// span or a part of it, or several spans at equal distances.
    #[inline(always)]
    fn next(&self, unit: usize, units: usize) -> usize {
        let BlockSizes { k_block, k_span, k_spans, .. } = *self;
        let most = match (self.left_in_place, unit % k_span) {
            (false, _) => units,
            (_, 0) if k_block >= 2 * k_span => {
                (k_spans - unit / k_span % k_spans).min(k_block / k_span) * k_span
            }
            (_, done) => k_span - done,
        };
        k_block.min(units - unit).min(most)
    }
}

/// The left operand, as the microkernel reads it.
enum LeftSource {
    InPlace,
    /// Rows of the operand, packed as rows with a cache line between them: the operand is contiguous along
    /// `k`, the kernel reads rows, and no transpose is needed. `row_units` is the distance of two rows.
    Rows {
        buffer: PanelBuffer,
        pack: PackFn,
        row_units: usize,
    },
    /// Panels of `nbytes` bytes. The last [`INITIAL_SUM_BYTES`] of them are the initial sums of a panel.
    Panels {
        buffer: PanelBuffer,
        nbytes: usize,
    },
}

impl LeftSource {
    #[inline(always)]
    fn new(call: &GemmCall<'_>, sizes: &BlockSizes, rows: usize) -> Result<Self> {
        let GemmCall { kernel, problem, fns, layout, .. } = call;
        let KernelInfo { unit_nbytes, mr, pack_in_rows, reads_in_place, .. } = *kernel;
        let unit_stride = problem.k.innermost().1[0];
        let rows_fn = match pack_in_rows {
            Some(pack) => (unit_stride == 1).then_some(pack),
            None => (reads_in_place && unit_stride == 1).then_some(fns.pack_left),
        };
        debug_assert!(rows_fn.is_none() || pack_in_rows.is_some() || reads_in_place && kernel.depth == 1);
        let units = sizes.k_block.min(layout.units);
        Ok(match (sizes.left_in_place, rows_fn) {
            (true, _) => LeftSource::InPlace,
            (_, Some(pack)) => {
                let row_units = units.next_multiple_of(64 / unit_nbytes) + 64 / unit_nbytes;
                let buffer = PanelBuffer::new(row_units, rows, unit_nbytes)?;
                LeftSource::Rows { buffer, pack, row_units }
            }
            _ => {
                let nbytes = units * mr * unit_nbytes + INITIAL_SUM_BYTES;
                LeftSource::Panels { buffer: PanelBuffer::new(rows.div_ceil(mr), nbytes, 1)?, nbytes }
            }
        })
    }
}

/// The right operand, as the microkernel reads it.
enum RightSource {
    Ready(RightPanels),
    /// The buffer of one block of columns and units.
    Packed(PanelBuffer),
}

/// One task of a product.
struct RowBlock<'a> {
    call: &'a GemmCall<'a>,
    /// The first row.
    row: usize,
    columns: Range<usize>,
    sizes: BlockSizes,
    left: LeftSource,
    right: RightSource,
    output: OutputTiles,
}

/// Some units of a block along `k`.
struct KStep<'a> {
    /// The first unit of the block, and the number of its units.
    unit: usize,
    count: usize,
    /// The first of these units in the block, and their number.
    part: usize,
    units: usize,
    /// The offset of the block in the left operand, and the offsets of all its elements if they are packed.
    left_offset: isize,
    k_offsets: &'a [isize],
}

/// Panels of a block of the right operand, from the first unit of a step on; strides are in bytes.
struct RightBlock {
    start: *const u8,
    unit_stride: isize,
    panel_stride: usize,
}

impl RowBlock<'_> {
    /// Adds the products of a block along `k` to all rows and columns: a block of columns after the other, in
    /// it the tiles of rows.
    ///
    /// # Safety
    /// As [`GemmCall::rows`].
    #[inline(always)]
    unsafe fn k_block(&self, unit: usize, count: usize, column_offsets: &mut ColumnOffsets) {
        let RowBlock { call, sizes, columns, .. } = self;
        let (kernel, k) = (&call.kernel, &call.problem.k);
        let mut left_offset = [0];
        k.offsets(0, unit, &mut left_offset);
        let mut k_offsets = [MaybeUninit::uninit(); MAX_K_BLOCK_UNITS * MAX_DEPTH];
        let k_offsets = match self.left {
            LeftSource::InPlace => &[],
            _ => {
                let from = unit * kernel.depth;
                write_offsets(k, 0, from, &mut k_offsets[..(count * kernel.depth).min(k.total() - from)])
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.pack_left(k_offsets, count) };
        for first in columns.clone().step_by(sizes.columns) {
            let here = first..columns.end.min(first + sizes.columns);
            for part in (0..count).step_by(sizes.summed) {
                if let (RightSource::Packed(buffer), 0) = (&self.right, part) {
                    for done in (0..count).step_by(PACK_STRIP_UNITS) {
                        // SAFETY: the caller's promise; the buffer has room for the units of these panels.
                        unsafe { call.pack_strip(here.clone(), unit, count, done, buffer.start()) };
                    }
                }
                let units = sizes.summed.min(count - part);
                let step = KStep { unit, count, part, units, left_offset: left_offset[0], k_offsets };
                let right = self.right_block(&step, here.start);
                for (index, tile) in sizes.tiles.clone().enumerate() {
                    // SAFETY: the caller's promise; the right operand is packed, or it is read in place.
                    unsafe { self.tile_row(index, tile, here.clone(), &step, &right, column_offsets) };
                }
            }
        }
    }

    /// Packs the panels of all rows for a block along `k` of `count` units: some units of one panel after the
    /// other, then the next units. A panel has a part of a cache line, and the next panels read the rest.
    ///
    /// # Safety
    /// As [`GemmCall::rows`]; `k_offsets` are those of the block in the left operand.
    unsafe fn pack_left(&self, k_offsets: &[isize], count: usize) {
        let RowBlock { call, sizes, row, .. } = self;
        let LeftSource::Panels { buffer, nbytes } = &self.left else { return };
        let GemmCall { kernel, problem, fns, .. } = *call;
        let KernelInfo { unit_nbytes, mr, depth, .. } = *kernel;
        for (strip, k) in k_offsets.chunks(PACK_LEFT_STRIP_UNITS * depth).enumerate() {
            let from = strip * PACK_LEFT_STRIP_UNITS * mr * unit_nbytes;
            for (index, tile) in sizes.tiles.clone().enumerate() {
                let mut rows = [MaybeUninit::uninit(); MAX_TILE_ROWS];
                let rows = write_offsets(&problem.m, 1, row + tile.start, &mut rows[..tile.len()]);
                let to = buffer.start().wrapping_add(index * nbytes + from);
                // SAFETY: the caller's promise; each tile has its own panel of the buffer, with the initial
                // sums behind it.
                unsafe { (fns.pack_left)(problem.left, rows, k, mr, to) };
            }
        }
        for index in 0..sizes.tiles.clone().count() {
            let panel = buffer.start().wrapping_add(index * nbytes);
            let initial = panel.wrapping_add(nbytes - INITIAL_SUM_BYTES).cast::<[i32; MAX_INITIAL_ROWS]>();
            // SAFETY: the panel is packed; its initial sums are behind it.
            unsafe {
                if let Some(sums) = (kernel.finish_panel)(panel, count) {
                    initial.write(sums);
                }
            }
        }
    }

    #[inline(always)]
    fn right_block(&self, step: &KStep<'_>, column: usize) -> RightBlock {
        let (width, unit_nbytes) = (self.call.layout.width, self.call.kernel.unit_nbytes);
        match &self.right {
            RightSource::Ready(RightPanels { start, unit_stride, panel_stride }) => {
                let panel = start.wrapping_add(column / width * panel_stride * unit_nbytes);
                let units = ((step.unit + step.part) as isize).wrapping_mul(*unit_stride);
                RightBlock {
                    start: panel.wrapping_offset(units.wrapping_mul(unit_nbytes as isize)),
                    unit_stride: unit_stride.wrapping_mul(unit_nbytes as isize),
                    panel_stride: panel_stride * unit_nbytes,
                }
            }
            RightSource::Packed(buffer) => RightBlock {
                start: buffer.start().cast_const().wrapping_add(step.part * width * unit_nbytes),
                unit_stride: (width * unit_nbytes) as isize,
                panel_stride: step.count * width * unit_nbytes,
            },
        }
    }

    /// The spans of the left operand before the last one of a step, and the bytes between two of them.
    #[inline(always)]
    fn further_spans(&self, step: &KStep<'_>) -> (usize, isize) {
        let (k, span) = (&self.call.problem.k, self.sizes.k_span);
        if !matches!(self.left, LeftSource::InPlace) || step.units <= span {
            return (0, 0);
        }
        let [inner, outer] = [k.innermost().1[0], k.around_innermost().1[0]];
        let gap = outer.wrapping_sub(inner.wrapping_mul(span as isize));
        (step.units / span - 1, gap.wrapping_mul(self.call.kernel.unit_nbytes as isize))
    }

    /// The left operand of a tile: the address of its first unit, the strides from row to row and from unit
    /// to unit in bytes, and the initial sums. Packs the rows of `packed`, if there are any, as rows.
    ///
    /// # Safety
    /// As [`GemmCall::rows`]; `first_row` is the offset of the tile's first row, and `packed` are those of
    /// all rows at the first use of the block along `k`, if they are packed as rows.
    #[inline(always)]
    unsafe fn left_tile(
        &self,
        index: usize,
        row: usize,
        (first_row, packed): (isize, &[isize]),
        step: &KStep<'_>,
    ) -> (*const u8, [isize; 2], *const i32) {
        let GemmCall { kernel, problem, .. } = self.call;
        let KernelInfo { unit_nbytes, mr, .. } = *kernel;
        let bytes = |strides: [usize; 2]| strides.map(|stride| (stride * unit_nbytes) as isize);
        match &self.left {
            LeftSource::Rows { buffer, pack, row_units } => {
                let panel = buffer.start().wrapping_add(row * row_units * unit_nbytes);
                if !packed.is_empty() {
                    // The rows of the tile are the units of this panel, and the elements along `k` are its
                    // lanes.
                    // SAFETY: the caller's promise; each tile has its own rows of the buffer.
                    unsafe { pack(problem.left, step.k_offsets, packed, row_units * kernel.depth, panel) };
                }
                let start = panel.cast_const().wrapping_add(step.part * unit_nbytes);
                (start, bytes([*row_units, 1]), ZERO_INITIAL.as_ptr())
            }
            LeftSource::Panels { buffer, nbytes } => {
                let panel = buffer.start().wrapping_add(index * nbytes);
                let initial = panel.wrapping_add(nbytes - INITIAL_SUM_BYTES);
                let has_initial = kernel.has_initial && step.part == 0;
                let initial = if has_initial { initial.cast_const().cast() } else { ZERO_INITIAL.as_ptr() };
                let start = panel.cast_const().wrapping_add(step.part * mr * unit_nbytes);
                (start, bytes([1, mr]), initial)
            }
            LeftSource::InPlace => {
                let [row_stride, unit_stride] = [problem.m.innermost().1[1], problem.k.innermost().1[0]];
                let offset =
                    first_row.wrapping_add(step.left_offset).wrapping_add(step.part as isize * unit_stride);
                let strides =
                    [row_stride, unit_stride].map(|stride| stride.wrapping_mul(unit_nbytes as isize));
                let start = problem.left.wrapping_offset(offset * unit_nbytes as isize);
                (start, strides, ZERO_INITIAL.as_ptr())
            }
        }
    }

    /// Computes one tile of rows for each panel of some columns.
    ///
    /// # Safety
    /// As [`GemmCall::rows`]; `right` are the panels of these columns.
    #[inline(always)]
    unsafe fn tile_row(
        &self,
        index: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        step: &KStep<'_>,
        right: &RightBlock,
        column_offsets: &mut ColumnOffsets,
    ) {
        let RowBlock { call, sizes, output, .. } = self;
        let GemmCall { kernel, problem, layout: PanelLayout { width, units, .. }, .. } = **call;
        let KernelInfo { unit_nbytes, sum_nbytes, lanes, .. } = kernel;
        let first_row = self.row + rows.start;
        let is_last = step.unit + step.part + step.units == units;
        let [out_row, left_row] = problem.m.offsets_at(first_row);
        // The offset of the first row is enough where the microkernel reads in place or writes to the output,
        // where sums wait in a buffer, and where the rows of a tile are neighbors in the output: those that
        // are read in place are of one span.
        let in_place = matches!(self.left, LeftSource::InPlace);
        let packs_rows = matches!(self.left, LeftSource::Rows { .. })
            && columns.start == self.columns.start
            && step.part == 0;
        let stores = is_last && (!output.is_direct || !columns.len().is_multiple_of(lanes));
        let needs_rows = stores && !(in_place && output.column_stride.is_some());
        let (mut out_rows, mut left_rows) = (
            [const { MaybeUninit::uninit() }; MAX_TILE_ROWS],
            [const { MaybeUninit::uninit() }; MAX_TILE_ROWS],
        );
        let needed = |all: bool| if all { rows.len() } else { 0 };
        let out_rows = write_offsets(&problem.m, 0, first_row, &mut out_rows[..needed(needs_rows)]);
        let left_rows = write_offsets(&problem.m, 1, first_row, &mut left_rows[..needed(packs_rows)]);
        // SAFETY: the caller's promise.
        let (left, left_stride, initial) =
            unsafe { self.left_tile(index, rows.start, (left_row, left_rows), step) };
        let (spans, gap) = self.further_spans(step);
        let last = step.units - spans * sizes.k_span;
        let after = UNITS_AFTER_PREFETCH.min(last);
        let first_column = output.column_stride.map_or(call.first as isize, |stride| {
            (call.first as isize).wrapping_mul(stride) / sum_nbytes as isize
        });
        let row_out =
            problem.out.wrapping_offset(out_row.wrapping_add(first_column).wrapping_mul(sum_nbytes as isize));
        let mut tile = Tile {
            rows: rows.len(),
            vectors: 2,
            spans,
            span_units: sizes.k_span,
            span_gap: gap,
            units: [last - after, after],
            left,
            left_stride,
            right: right.start,
            right_stride: right.unit_stride,
            initial,
            out: row_out,
            out_stride: output.row_stride.unwrap_or(0),
            accumulate: step.unit + step.part > 0,
        };
        let column_stride = output.column_stride.filter(|_| is_contiguous(out_rows));
        for column in columns.step_by(width) {
            let here = width.min(self.columns.end - column);
            let direct = output.is_direct && (here == width || here == lanes);
            let in_output = direct
                || column_stride.is_none()
                    && output.place_columns(call, column, self.columns.end, column_offsets);
            let offsets = &column_offsets[..here];
            if call.reads_right_once && !call.is_prepacked && index == 0 {
                let ahead = tile.right.wrapping_add(PREFETCHED_PANELS * right.panel_stride);
                prefetch(ahead, tile.right_stride, step.count, width * unit_nbytes);
            }
            let mut local = [MaybeUninit::<u64>::uninit(); MAX_TILE_BYTES / 8];
            let buffer = match &output.waiting {
                Some((first, tiles, buffer)) if column >= *first => {
                    let tile = (column - first) / width * tiles + index;
                    buffer.start().wrapping_add(tile * tile_nbytes(call))
                }
                _ => local.as_mut_ptr().cast::<u8>(),
            };
            tile.vectors = if here > lanes { 2 } else { 1 };
            if direct {
                tile.out = row_out.wrapping_add(column * sum_nbytes);
            } else {
                (tile.out, tile.out_stride) = match output.row_stride {
                    Some(stride) if in_output => {
                        let offset = out_row.wrapping_add(offsets[0]).wrapping_mul(sum_nbytes as isize);
                        (problem.out.wrapping_offset(offset), stride)
                    }
                    _ => (buffer, (width * sum_nbytes) as isize),
                };
            }
            if let (Some(stride), true) = (column_stride, is_last) {
                prefetch_columns(row_out, stride, column..column + here);
            }
            // SAFETY: the caller's promise: the rows and units of the operands, and room for the sums.
            unsafe { (kernel.tile)(&tile) };
            if !in_output && is_last {
                // SAFETY: (1) the sums of this tile; (2) their elements of the output.
                unsafe {
                    match column_stride {
                        Some(stride) => {
                            let columns = [call.first + column, here];
                            call.store_transposed(buffer, width, (out_row, rows.len()), stride, columns);
                        }
                        None => call.store_tile(buffer, width, out_rows, offsets),
                    }
                }
            }
            tile.right = tile.right.wrapping_add(right.panel_stride);
        }
    }
}

/// Prefetches `nbytes` bytes of each of some units.
fn prefetch(from: *const u8, stride: isize, units: usize, nbytes: usize) {
    for unit in 0..units as isize {
        memory::prefetch::into_l2(from.wrapping_offset(unit.wrapping_mul(stride)), nbytes);
    }
}

/// Prefetches the rows of a tile in some columns, which are `stride` bytes apart.
fn prefetch_columns(from: *const u8, stride: isize, columns: Range<usize>) {
    for column in columns {
        memory::prefetch::into_l1(from.wrapping_offset((column as isize).wrapping_mul(stride)), 1);
    }
}

/// Writes the offsets in an operand of the indices from `from` on; as many as `to` has.
fn write_offsets<'a>(
    axes: &AxisGroup<2>,
    operand: usize,
    from: usize,
    to: &'a mut [MaybeUninit<isize>],
) -> &'a [isize] {
    axes.for_each_offset(operand, from, to.iter_mut(), |to, offset| _ = to.write(offset));
    // SAFETY: each value was written.
    unsafe { to.assume_init_ref() }
}
