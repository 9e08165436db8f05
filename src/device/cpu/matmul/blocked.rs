//! Products by panels: the right operand is packed once, blocks of rows of the left one in turn, tiles run over both.
//!
//! Every sum goes over `k` in the same blocks, whatever the threads do, so results do not depend on their number.
// Imports: `error`, `device`.

use super::super::threads;
use super::axis_group::{AxisGroup, RowTiles, has_long_spans, is_contiguous, span_end};
use super::gemv::RowByPanelsFn;
use super::kernels::{
    KernelInfo, MAX_INITIAL_ROWS, MAX_TILE_BYTES, MAX_TILE_ROWS, SyncPtr, Tile, ZERO_INITIAL,
};
use super::packing::{MAX_PANEL_WIDTH, PackFn, PanelBuffer, UnpackFn};
use crate::error::Result;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// One product: three groups of axes and where index 0 of each operand stands. The output has elements.
#[derive(Clone, Copy)]
pub(super) struct GemmProblem {
    /// Steps in the output and the left operand.
    pub(super) m: AxisGroup<2>,
    /// Steps in the output and the right operand.
    pub(super) n: AxisGroup<2>,
    /// Steps in the left and the right operand.
    pub(super) k: AxisGroup<2>,
    pub(super) out: *mut u8,
    pub(super) left: *const u8,
    pub(super) right: *const u8,
}

// SAFETY: addresses only; whoever follows them answers for it (see `Device`, safety 2).
unsafe impl Send for GemmProblem {}
// SAFETY: as above.
unsafe impl Sync for GemmProblem {}

impl GemmProblem {
    /// The transposed product: `outᵀ = rightᵀ · leftᵀ`.
    pub(super) fn transposed(&self) -> GemmProblem {
        let GemmProblem { m, n, k, out, left, right } = *self;
        GemmProblem { m: n, n: m, k: k.reordered([1, 0]), out, left: right, right: left }
    }

    /// Multiply-adds.
    pub(super) fn work(&self) -> usize {
        self.m.total().saturating_mul(self.n.total()).saturating_mul(self.k.total())
    }
}

/// From elements to panels and from sums to elements.
#[derive(Clone, Copy)]
pub(super) struct PackFns {
    pub(super) left: PackFn,
    pub(super) right: PackFn,
    /// From panels of the right operand to its elements.
    pub(super) back: UnpackFn,
    /// One row by panels, where sums over `k` must be those of a vector by a matrix.
    pub(super) row: Option<RowByPanelsFn>,
    /// Writes sums that stand `step` apart, narrowed, at offsets of the output, which may be a run.
    pub(super) unload: unsafe fn(sums: *const u8, step: usize, to: *mut u8, offsets: &[isize], run: bool),
    /// Bytes of an element of the output.
    pub(super) element: usize,
    /// Whether the elements of both operands are units of the kernel.
    pub(super) same: bool,
    /// Whether the elements of the output are the kernel's sums.
    pub(super) plain: bool,
}

/// Bytes of units along `k` of one lane whose products are summed before they are added to what there is: two rooms for
/// sums, the output and the registers, cost the less the deeper a block is; blocks of the left operand fit the second cache.
const DEEP_BYTES: usize = 4096;
/// As many units of the smallest size.
const DEEP: usize = DEEP_BYTES / 4;
/// As above, where each row of the left operand is read once.
const ONCE: usize = 4096;
/// Units that are packed together: few, so that the rows they are read from do not push each other out of the cache.
const STRIP: usize = 64;
/// Indices along `k` of the deepest unit.
const MOST_DEPTH: usize = 4;
/// Rows of a product whose right operand is read once, where it stands: no more than share what was read.
const FEW_ROWS: usize = 24;
/// Units of such a right operand that are summed before the next columns: their lines wait in the second cache, where rows
/// that stand a power of two apart have few places.
const STREAM: usize = 32;
/// PanelLayout of it that are asked for ahead.
const AHEAD: usize = 2;
/// Bytes of the sums of such a product that are kept near.
const STREAM_BYTES: usize = 128 << 10;
/// Rows that go past the same columns: those of one of several threads, and of one alone.
const HIGH: usize = 240;
const TALL: usize = 1920;
/// PanelLayout that all packed rows go past before the next ones.
const TOGETHER: usize = 4;
/// Units of a block are as many times this.
const STRIDE: usize = 16;
/// Units of a tile that are summed after its output was asked for.
const LATE: usize = 32;
/// Bytes of the right operand that all rows go past before the next ones, likewise: the second cache keeps them.
const BLOCK_BYTES: [usize; 2] = [256 << 10, 704 << 10];
/// Bytes between rows that are far apart.
const APART_BYTES: usize = 2048;
/// PanelBuffer for what sums start with.
const START_BYTES: usize = 64;
/// Bytes of the right operand that are packed together, if one panel is not more.
const RIGHT_BYTES: usize = 8 << 20;
/// Bytes of a right operand that is read where it stands, whatever reads it, and of one whose rows begin with a line of the cache: with
/// registers of 256 bits or less, and with those of 512, whose processors have larger second caches.
const NEAR_BYTES: [usize; 2] = [64 << 10, 256 << 10];
const ALIGNED_BYTES: [usize; 2] = [256 << 10, 1 << 20];
/// As above, of few rows of the left operand that are one thread's: packing would take longer than what it saves.
const NEAR_FEW_BYTES: usize = 1 << 20;
/// Bytes of a left operand that is read where it stands.
const LEFT_BYTES: usize = 256 << 10;
/// Rows that are read where they stand, however far apart: as many lines as meet in a set of the first cache.
const FEW_LINES: usize = 8;
/// Columns of a product whose left operand is read where it stands.
const FEW_COLUMNS: usize = 256;
/// Multiply-adds from which other threads help.
pub(super) const PARALLEL_MULTIPLY_ADDS: usize = 1 << 22;

/// How the columns of a right operand lie in panels.
#[derive(Clone, Copy)]
pub(super) struct PanelLayout {
    /// Lanes of a panel.
    pub(super) width: usize,
    /// Units of a lane.
    pub(super) units: usize,
    /// Bytes of a panel, at most all that can be counted.
    pub(super) nbytes: usize,
    pub(super) count: usize,
}

impl PanelLayout {
    /// For `k` rows and `n` columns.
    pub(super) fn of(form: KernelInfo, k: usize, n: usize) -> PanelLayout {
        let (width, units) = (n.div_ceil(form.lanes).clamp(1, 2) * form.lanes, k.div_ceil(form.depth));
        PanelLayout {
            width,
            units,
            nbytes: units.saturating_mul(width * form.unit),
            count: n.div_ceil(width),
        }
    }
}

/// Packs the whole right operand; `to` has room for its panels and [`PANEL_PADDING_BYTES`] bytes.
///
/// # Safety
/// The right operand holds the elements of the transfer at every index.
pub(super) unsafe fn pack_all(
    form: KernelInfo,
    product: &GemmProblem,
    transfer: PackFns,
    panels: PanelLayout,
    to: SyncPtr,
) -> Result<()> {
    let columns = product.n.total();
    let job = GemmCall { form, product, transfer, panels, first: 0, columns, stream: false, ready: false };
    let many = panels.units.saturating_mul(columns) >= PARALLEL_MULTIPLY_ADDS / 16;
    each(panels.units.div_ceil(STRIP), many, &|strip| {
        // SAFETY: the caller's promise; the units of each panel have their place.
        unsafe { job.pack_strip(0..columns, 0, panels.units, strip * STRIP, to.get()) };
        Ok(())
    })
}

/// Computes a product with `k > 0`; `ready` are the panels of its right operand, if they were packed before. Sums are then
/// those of a right operand that stands as the product says, which nobody reads.
///
/// # Safety
/// The operands hold the elements of the transfer at every index; the output overlaps neither; panels are those of
/// [`pack_all`].
pub(super) unsafe fn run(
    form: KernelInfo,
    product: &GemmProblem,
    transfer: PackFns,
    ready: Option<*const u8>,
) -> Result<()> {
    let (m, n, k) = (product.m.total(), product.n.total(), product.k.total());
    let panels = PanelLayout::of(form, k, n);
    // Kernels for tiles are so even that half of what is shared elsewhere pays here.
    let many = product.work() >= PARALLEL_MULTIPLY_ADDS / 2;
    let mut job = GemmCall {
        form,
        product,
        transfer,
        panels,
        first: 0,
        columns: n,
        stream: false,
        ready: ready.is_some(),
    };
    let PanelLayout { width, units, .. } = panels;
    let (size, panel) = (form.unit, units.saturating_mul(width));
    let packed = |panels: *const u8| RhsPanels { start: panels, step: width as isize, panel };
    let ready = ready.map(packed);
    // Rows whose lines the kernel's vectors would cross are better packed sooner. What few rows sum must not follow from an address.
    let aligned =
        |step: isize| (product.right as usize | (step as usize).wrapping_mul(size)).is_multiple_of(64);
    let most = match product.k.as_single_axis() {
        _ if m <= FEW_ROWS && (!many || form.is_wide()) => NEAR_FEW_BYTES,
        Some([_, step]) if m > FEW_ROWS && aligned(step) => ALIGNED_BYTES[usize::from(form.is_wide())],
        _ => NEAR_BYTES[usize::from(form.is_wide() && m > FEW_ROWS)],
    };
    let near = k.saturating_mul(n).saturating_mul(size) <= most;
    // One thread takes all rows at once, if they are read where they stand, and sums need not wait in a room.
    let alone = !many || threads::count() == 1;
    let stays = transfer.plain
        && product.m.as_single_axis().is_some()
        && matches!(product.n.as_single_axis(), Some([1, _]));
    let high = if alone && job.is_direct() && (stays || units <= DEEP_BYTES / size) { TALL } else { HIGH };
    let mut done = 0;
    if let (true, Some([1, 1]), Some([_, step])) =
        (form.depth == 1 && transfer.same, product.n.as_single_axis(), product.k.as_single_axis())
    {
        let right = ready.unwrap_or(RhsPanels { start: product.right, step, panel: width });
        if near && (ready.is_some() || n >= form.lanes) {
            done = if ready.is_some() { n } else { n / form.lanes * form.lanes };
            // Equal shares, one at least for each thread.
            let blocks = m.div_ceil(high).max(if alone { 1 } else { threads::count() });
            let share = m.div_ceil(blocks).next_multiple_of(form.rows);
            let rows = |block: usize| share.min(m - block * share);
            // SAFETY: the caller's promise; the right operand stands in rows, of which whole vectors are read, or in panels.
            each(m.div_ceil(share), many, &|block| unsafe {
                job.rows(Some(&right), block * share, rows(block), 0..done)
            })?;
        } else if m <= FEW_ROWS && n >= width {
            (job.stream, done) = (true, n / width * width);
            let tasks = if many { 2 * threads::count() } else { 1 };
            let most = (STREAM_BYTES / (m * size)).max(done.div_ceil(64));
            let share = done.div_ceil(tasks).min(most).next_multiple_of(width);
            // SAFETY: as above, of whole panels.
            each(done.div_ceil(share), many, &|task| unsafe {
                job.rows(Some(&right), 0, m, task * share..done.min((task + 1) * share))
            })?;
            job.stream = false;
        }
    }
    if done == n {
        return Ok(());
    }
    let highest = high / form.rows * form.rows;
    let blocks = m.div_ceil(highest);
    // Where all rows are one block, or one thread's, panels are packed when they are used.
    let at_once = ready.is_none() && (blocks == 1 || high == TALL);
    let whole = (n - done).next_multiple_of(width);
    let columns = if at_once {
        whole
    } else {
        (RIGHT_BYTES / units.saturating_mul(size).max(1) / width * width).clamp(width, whole)
    };
    enum Source {
        Before(RhsPanels),
        Now(PanelBuffer),
        Later,
    }
    let source = match ready {
        Some(right) => Source::Before(right),
        None if at_once => Source::Later,
        None => Source::Now(PanelBuffer::new(units, columns, size)?),
    };
    for first in (done..n).step_by(columns) {
        (job.first, job.columns) = (first, columns.min(n - first));
        let panels = job.columns.div_ceil(width);
        let right = match &source {
            Source::Before(right) => {
                Some(RhsPanels { start: right.start.wrapping_add(first / width * panel * size), ..*right })
            }
            Source::Later => None,
            Source::Now(room) => {
                each(units.div_ceil(STRIP), many, &|strip| {
                    // SAFETY: the caller's promise; the units of each panel have their place in the room.
                    unsafe { job.pack_strip(0..job.columns, 0, units, strip * STRIP, room.at()) };
                    Ok(())
                })?;
                Some(packed(room.at()))
            }
        };
        // Few rows: groups of panels are the work of one thread.
        let groups = if many { (4 * threads::count()).div_ceil(blocks).min(panels) } else { 1 };
        let (height, share) =
            (m.div_ceil(blocks).next_multiple_of(form.rows), panels.div_ceil(groups) * width);
        each(m.div_ceil(height) * groups, many, &|task| {
            let (row, column) = (task / groups * height, task % groups * share);
            if column >= job.columns {
                return Ok(());
            }
            // SAFETY: the caller's promise; the right panels are packed, or will be.
            unsafe {
                job.rows(right.as_ref(), row, height.min(m - row), column..(column + share).min(job.columns))
            }
        })?;
    }
    Ok(())
}

/// What the threads of one product share.
struct GemmCall<'a> {
    form: KernelInfo,
    product: &'a GemmProblem,
    transfer: PackFns,
    /// How the right operand is packed.
    panels: PanelLayout,
    /// The first of the columns that are packed, and how many they are.
    first: usize,
    columns: usize,
    /// Whether the right operand is read once: where it stands, or from panels that were there.
    stream: bool,
    /// Whether panels were there.
    ready: bool,
}

/// The right operand, packed or as it stands.
#[derive(Clone, Copy)]
struct RhsPanels {
    start: *const u8,
    /// From unit to unit, in units.
    step: isize,
    /// From panel to panel.
    panel: usize,
}

// SAFETY: an address only; whoever follows it answers for it.
unsafe impl Sync for RhsPanels {}

// SAFETY: addresses only; whoever follows them answers for it.
unsafe impl Sync for GemmCall<'_> {}

impl GemmCall<'_> {
    /// Packs some columns of the right operand: of a block of `units` from `unit` on those from `done` on, [`STRIP`] at most. Rows that
    /// stand side by side are read one after the other.
    ///
    /// # Safety
    /// `to` has room for the panels of the block.
    unsafe fn pack_strip(&self, columns: Range<usize>, unit: usize, units: usize, done: usize, to: *mut u8) {
        let (width, KernelInfo { depth, unit: size, .. }) = (self.panels.width, self.form);
        let from = (unit + done) * depth;
        let mut along = [0; STRIP * MOST_DEPTH];
        let along = &mut along[..(STRIP.min(units - done) * depth).min(self.product.k.total() - from)];
        self.product.k.offsets(1, from, along);
        for (panel, column) in columns.clone().step_by(width).enumerate() {
            let mut lanes = [0; MAX_PANEL_WIDTH];
            let lanes = &mut lanes[..width.min(self.columns - column)];
            self.product.n.offsets(1, self.first + column, lanes);
            let to = to.wrapping_add((panel * units + done) * width * size);
            // SAFETY: the caller's promise.
            unsafe { (self.transfer.right)(self.product.right, lanes, along, width, to) };
        }
    }

    /// Whether rows of the left operand are far apart.
    fn is_apart(&self) -> bool {
        self.product.m.innermost().1[1].unsigned_abs().saturating_mul(self.form.unit) > APART_BYTES
    }

    /// Whether the left operand is read where it stands.
    fn is_direct(&self) -> bool {
        let (product, form, units) = (self.product, self.form, self.panels.units);
        let ((run, [_, row_step]), (depth, [unit_step, _])) = (product.m.innermost(), product.k.innermost());
        // As many rows as one of several threads has: the bits must not depend on how many there are.
        let rows = product.m.total().min(HIGH);
        let plain = run >= rows && depth == units;
        let reach = rows.max(units.saturating_mul(unit_step.unsigned_abs())).saturating_mul(form.unit);
        let near = plain && row_step == 1 && reach <= LEFT_BYTES && product.n.total() <= FEW_COLUMNS;
        // Windows whose rows meet in many lines of the cache are better packed.
        let windows = !self.is_apart() && run >= form.rows && depth >= 64;
        self.reads() && !self.stream && (near || unit_step == 1 && (plain || windows))
    }

    /// Whether the kernel reads elements of the left operand.
    fn reads(&self) -> bool {
        self.form.direct && self.transfer.same
    }

    /// Computes some rows and columns (those from `self.first` on); where there is no right operand that can be read, its panels are
    /// packed, a block of them at a time, which all rows then go over.
    ///
    /// # Safety
    /// As [`run`]; the right operand that is given is packed, or stands in rows.
    unsafe fn rows(
        &self,
        right: Option<&RhsPanels>,
        row: usize,
        rows: usize,
        columns: Range<usize>,
    ) -> Result<()> {
        let GemmCall { form, product, transfer, panels: PanelLayout { width, units, .. }, .. } = *self;
        let KernelInfo { unit: size, sum: sum_size, rows: most_rows, lanes, .. } = form;
        let once = product.n.total() <= 2 * width;
        // The left operand as it stands, in runs of its fastest axes.
        let ((run, [_, row_step]), (depth, [unit_step, _])) = (product.m.innermost(), product.k.innermost());
        let (apart, direct) = (self.is_apart(), self.is_direct());
        let highest = if direct && once && apart { most_rows.min(FEW_LINES) } else { most_rows };
        let tiles = RowTiles {
            rows: 0..rows,
            end: 0,
            run: if direct { (run, row % run) } else { (rows, 0) },
            highest,
        };
        // Units that are packed, and those that are summed, before the next columns. PanelLayout are read in runs as long as can be.
        let (deep, summed) = match (self.stream, direct && once) {
            (true, _) if self.ready => (DEEP_BYTES / size / STREAM * STREAM, STREAM),
            (true, _) => (STREAM, STREAM),
            (_, true) => (ONCE, ONCE),
            _ => {
                let most = if self.reads() { DEEP_BYTES } else { DEEP_BYTES / 2 } / size;
                let even = units.div_ceil(units.div_ceil(most)).next_multiple_of(STRIDE);
                (even, even)
            }
        };
        let next =
            |unit: usize| deep.min(units - unit).min(if direct { depth - unit % depth } else { units });
        // Columns that all rows go past before the next ones.
        let most = BLOCK_BYTES[usize::from(form.is_wide())] / (deep.min(units) * size) / width * width;
        let wide = match self.stream {
            true => width,
            _ if direct || right.is_some() => most.clamp(width, columns.len().next_multiple_of(width)),
            _ => (TOGETHER * width).min(columns.len().next_multiple_of(width)),
        };
        // Rows are packed as rows, with a line between them, where they stand so and the kernel reads them: nothing is turned.
        let in_rows = match form.in_rows {
            Some(pack) => (unit_step == 1).then_some(pack),
            None => (form.direct && unit_step == 1).then_some(transfer.left),
        };
        debug_assert!(in_rows.is_none() || form.in_rows.is_some() || form.direct && form.depth == 1);
        let row_units = deep.min(units).next_multiple_of(64 / size) + 64 / size;
        // A panel of the left operand, and what its sums start with.
        let left_bytes = deep.min(units) * most_rows * size + START_BYTES;
        let packed = match (direct, in_rows) {
            (true, _) => None,
            (_, Some(_)) => Some(PanelBuffer::new(row_units, rows, size)?),
            _ => Some(PanelBuffer::new(rows.div_ceil(most_rows), left_bytes, 1)?),
        };
        let panels_of = match right {
            None => Some(PanelBuffer::new(deep.min(units), wide, size)?),
            _ => None,
        };
        // Rows of the output that stand in equal steps, of which a tile may write any.
        let out_step = product.m.as_single_axis().map(|[step, _]| step.wrapping_mul(sum_size as isize));
        // Whether the sums of panels that are whole go there as vectors, whatever the column.
        let straight =
            transfer.plain && out_step.is_some() && matches!(product.n.as_single_axis(), Some([1, _]));
        // Where the columns of a panel go, and whether their sums can be written there as vectors.
        let across = |column: usize, places: &mut [isize; MAX_PANEL_WIDTH]| {
            let places = &mut places[..width.min(columns.end - column)];
            product.n.offsets(0, self.first + column, places);
            transfer.plain
                && places.len().is_multiple_of(lanes)
                && out_step.is_some()
                && is_contiguous(places)
        };
        let mut places_across = [0; MAX_PANEL_WIDTH];
        let tile_bytes = most_rows * width * sum_size;
        // Where sums wait for the rest of `k`, when the output cannot hold them: those from this column on.
        let first_waiting = match next(0).min(summed) < units {
            true => columns.clone().step_by(width).find(|&column| {
                !(straight && (columns.end - column >= width || columns.end - column == lanes)
                    || across(column, &mut places_across))
            }),
            false => None,
        };
        let waiting = match first_waiting {
            Some(first) => {
                let tiles = tiles.clone().count();
                Some((
                    first,
                    tiles,
                    PanelBuffer::new(tiles * (columns.end - first).div_ceil(width), tile_bytes, 1)?,
                ))
            }
            None => None,
        };
        let mut unit = 0;
        while unit < units {
            let count = next(unit);
            let mut start_of_units = [0];
            product.k.offsets(0, unit, &mut start_of_units);
            let (mut along, from) = ([MaybeUninit::uninit(); DEEP * MOST_DEPTH], unit * form.depth);
            let along = match packed {
                Some(_) => places(
                    &product.k,
                    0,
                    from,
                    &mut along[..(count * form.depth).min(product.k.total() - from)],
                ),
                None => &[],
            };
            for (block, part) in columns
                .clone()
                .step_by(wide)
                .flat_map(|block| (0..count).step_by(summed).map(move |part| (block, part)))
            {
                let columns_here = block..columns.end.min(block + wide);
                if let (Some(room), 0) = (&panels_of, part) {
                    for done in (0..count).step_by(STRIP) {
                        // SAFETY: the caller's promise, and room for the units of these panels.
                        unsafe { self.pack_strip(columns_here.clone(), unit, count, done, room.at()) };
                    }
                }
                // The first of these panels, from the first of these units on, and from unit to unit and panel to panel.
                let (right_block, right_step, panel_bytes) = match (right, &panels_of) {
                    (Some(&RhsPanels { start, step, panel }), _) => {
                        let right = start.wrapping_add(block / width * panel * size);
                        let units = ((unit + part) as isize).wrapping_mul(step);
                        (right.wrapping_offset(units.wrapping_mul(size as isize)), step, panel * size)
                    }
                    (None, room) => {
                        let room = room.as_ref().map_or(std::ptr::null(), |room| room.at().cast_const());
                        (room.wrapping_add(part * width * size), width as isize, count * width * size)
                    }
                };
                let here_units = summed.min(count - part);
                let last = unit + part + here_units == units;
                for (index, tile) in tiles.clone().enumerate() {
                    let (mut down, mut beside) = ([0; MAX_TILE_ROWS], [0; MAX_TILE_ROWS]);
                    // Of what goes straight from operands that are read to the output, the first row is enough.
                    let needed = |all: bool| if all { tile.len() } else { 1 };
                    let down = &mut down[..needed(!straight || !columns_here.len().is_multiple_of(lanes))];
                    let beside = &mut beside[..needed(packed.is_some())];
                    product.m.offsets(0, row + tile.start, down);
                    product.m.offsets(1, row + tile.start, beside);
                    let (left, left_step, start) = match &packed {
                        Some(room) => {
                            let (panel, steps) = match in_rows {
                                Some(_) => {
                                    (room.at().wrapping_add(tile.start * row_units * size), [row_units, 1])
                                }
                                None => (room.at().wrapping_add(index * left_bytes), [1, most_rows]),
                            };
                            let start = panel
                                .wrapping_add(left_bytes - START_BYTES)
                                .cast::<[i32; MAX_INITIAL_ROWS]>();
                            // SAFETY: the caller's promise; each tile has its place in the room, and is packed before it is summed.
                            unsafe {
                                match in_rows {
                                    _ if block != columns.start || part > 0 => {}
                                    // Elements are lanes here.
                                    Some(pack) => {
                                        pack(product.left, along, beside, row_units * form.depth, panel)
                                    }
                                    None => {
                                        (transfer.left)(product.left, beside, along, most_rows, panel);
                                        if let Some(sums) = (form.finalize)(panel, count) {
                                            start.write(sums);
                                        }
                                    }
                                }
                            }
                            let started = form.starts && in_rows.is_none() && part == 0;
                            let left = panel.cast_const().wrapping_add(part * steps[1] * size);
                            (
                                left,
                                steps.map(|step| (step * size) as isize),
                                if started { start.cast_const().cast() } else { ZERO_INITIAL.as_ptr() },
                            )
                        }
                        None => {
                            let offset = beside[0]
                                .wrapping_add(start_of_units[0])
                                .wrapping_add(part as isize * unit_step);
                            let steps = [row_step, unit_step].map(|step| step.wrapping_mul(size as isize));
                            (
                                product.left.wrapping_offset(offset * size as isize),
                                steps,
                                ZERO_INITIAL.as_ptr(),
                            )
                        }
                    };
                    let after = LATE.min(here_units);
                    let mut tile = Tile {
                        rows: tile.len(),
                        vectors: 2,
                        units: [here_units - after, after],
                        left,
                        left_step,
                        right: right_block,
                        right_step: right_step.wrapping_mul(size as isize),
                        start,
                        out: product.out.wrapping_offset(
                            down[0].wrapping_add(self.first as isize).wrapping_mul(sum_size as isize),
                        ),
                        out_step: out_step.unwrap_or(0),
                        add: unit + part > 0,
                    };
                    let row_out = tile.out;
                    for column in columns_here.clone().step_by(width) {
                        let here = width.min(columns.end - column);
                        let straight = straight && (here == width || here == lanes);
                        let whole = straight || across(column, &mut places_across);
                        let across = &places_across[..here];
                        if self.stream && !self.ready && index == 0 {
                            fetch(
                                tile.right.wrapping_add(AHEAD * panel_bytes),
                                tile.right_step,
                                count,
                                width * size,
                            );
                        }
                        let mut local = [MaybeUninit::<u64>::uninit(); MAX_TILE_BYTES / 8];
                        let aside = match &waiting {
                            Some((first, tiles, room)) if column >= *first => room
                                .at()
                                .wrapping_add(((column - first) / width * tiles + index) * tile_bytes),
                            _ => local.as_mut_ptr().cast::<u8>(),
                        };
                        tile.vectors = if here > lanes { 2 } else { 1 };
                        if straight {
                            tile.out = row_out.wrapping_add(column * sum_size);
                        } else {
                            (tile.out, tile.out_step) = match out_step {
                                Some(step) if whole => {
                                    let offset =
                                        down[0].wrapping_add(across[0]).wrapping_mul(sum_size as isize);
                                    (product.out.wrapping_offset(offset), step)
                                }
                                _ => (aside, (width * sum_size) as isize),
                            };
                        }
                        // SAFETY: the caller's promise: rows and units are there, and room for the tile.
                        unsafe { (form.tile)(&tile) };
                        if !whole && last {
                            // SAFETY: the sums of a tile, and their places in the output.
                            unsafe { self.unload(aside, width, down, across) };
                        }
                        tile.right = tile.right.wrapping_add(panel_bytes);
                    }
                }
            }
            unit += count;
        }
        Ok(())
    }

    /// Writes a tile to its places, along rows or columns, as they stand in memory.
    ///
    /// # Safety
    /// A sum for each row and column, `width` apart from row to row, and a place for it in the output.
    unsafe fn unload(&self, sums: *const u8, width: usize, down: &[isize], across: &[isize]) {
        let (PackFns { unload, element, .. }, size) = (self.transfer, self.form.sum);
        let by_columns = is_contiguous(down) && !is_contiguous(across);
        let (outer, inner, outer_step, inner_step) =
            if by_columns { (across, down, 1, width) } else { (down, across, width, 1) };
        let few = has_long_spans(inner);
        let mut first = 0;
        while first < inner.len() {
            let end = if few { span_end(inner, first) } else { inner.len() };
            for (i, &offset) in outer.iter().enumerate() {
                let to = self.product.out.wrapping_offset(offset.wrapping_mul(element as isize));
                let sums = sums.wrapping_add((i * outer_step + first * inner_step) * size);
                // SAFETY: the caller's promise.
                unsafe { unload(sums, inner_step, to, &inner[first..end], few) };
            }
            first = end;
        }
    }
}

/// Asks for `nbytes` of each of some units, which will be read soon.
fn fetch(from: *const u8, step: isize, units: usize, nbytes: usize) {
    for unit in 0..units as isize {
        super::super::simd::fetch_early(from.wrapping_offset(unit.wrapping_mul(step)), nbytes);
    }
}

/// The places in an operand of the indices from `from` on, as many as `room` has.
fn places<'a>(
    axes: &AxisGroup<2>,
    operand: usize,
    from: usize,
    room: &'a mut [MaybeUninit<isize>],
) -> &'a [isize] {
    axes.for_each_offset(operand, from, room.iter_mut(), |to, offset| _ = to.write(offset));
    // SAFETY: each was written.
    unsafe { room.assume_init_ref() }
}

/// Calls `f` with each number below `count`, on several threads where there are `many` things to do.
pub(super) fn each(count: usize, many: bool, f: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    if !many {
        return (0..count).try_for_each(f);
    }
    let result = Mutex::new(Ok(()));
    let lock = || result.lock().unwrap_or_else(PoisonError::into_inner);
    threads::each(count, false, &|part| {
        if lock().is_ok()
            && let error @ Err(_) = f(part)
        {
            *lock() = error;
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}
