//! Products by panels: the right operand is packed once, blocks of rows of the left one in turn, tiles run over both.
//!
//! Every sum goes over `k` in the same blocks, whatever the threads do, so results do not depend on their number.
//! Imports: `error`, `device`.

use super::super::memory::CpuBlock;
use super::super::threads;
use super::axes::{Axes, few_runs, is_run, run_end};
use super::pack::{BEYOND, Pack, Restore, WIDEST};
use super::tile::{Form, MOST_BYTES, STARTED_ROWS, Tile, ZEROS};
use super::vector::RowTimesPanels;
use crate::error::Result;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// One product: three groups of axes and where index 0 of each operand stands. The output has elements.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Steps in the output and the left operand.
    pub(super) m: Axes<2>,
    /// Steps in the output and the right operand.
    pub(super) n: Axes<2>,
    /// Steps in the left and the right operand.
    pub(super) k: Axes<2>,
    pub(super) out: *mut u8,
    pub(super) left: *const u8,
    pub(super) right: *const u8,
}

// SAFETY: addresses only; whoever follows them answers for it (see `Device`, safety 2).
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

impl Product {
    /// The transposed product: `outᵀ = rightᵀ · leftᵀ`.
    pub(super) fn turned(&self) -> Product {
        let Product { m, n, k, out, left, right } = *self;
        Product { m: n, n: m, k: k.reordered([1, 0]), out, left: right, right: left }
    }

    /// Multiply-adds.
    pub(super) fn work(&self) -> usize {
        self.m.total().saturating_mul(self.n.total()).saturating_mul(self.k.total())
    }
}

/// From elements to panels and from sums to elements.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) left: Pack,
    pub(super) right: Pack,
    /// From panels of the right operand to its elements.
    pub(super) back: Restore,
    /// One row by panels, where sums over `k` must be those of a vector by a matrix.
    pub(super) row: Option<RowTimesPanels>,
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
const DEEP_BYTES: usize = 2048;
/// As many units of the smallest size.
const DEEP: usize = DEEP_BYTES / 4;
/// As above, where each row of the left operand is read once.
const ONCE: usize = 4096;
/// Panels that are packed together, where they are used at once.
const TOGETHER: usize = 4;
/// Units that are packed together: few, so that the rows they are read from do not push each other out of the cache.
const STRIP: usize = 16;
/// Indices along `k` of the deepest unit.
const MOST_DEPTH: usize = 4;
/// Rows of a product whose right operand is read once, where it stands: no more than share what was read.
const FEW_ROWS: usize = 24;
/// Units of such a right operand that are summed before the next columns: their lines wait in the second cache, where rows
/// that stand a power of two apart have few places.
const STREAM: usize = 32;
/// Panels of it that are asked for ahead.
const AHEAD: usize = 2;
/// Bytes of the sums of such a product that are kept near.
const STREAM_BYTES: usize = 128 << 10;
/// Rows of the left operand that are packed together, at most.
const HIGH: usize = 240;
/// Units of a tile that are summed faster than its output comes: what is asked for is that of the next one.
const SHORT: usize = 128;
/// Bytes of the right operand that are packed together, if one panel is not more.
const RIGHT_BYTES: usize = 8 << 20;
/// Bytes of a right operand that is read where it stands, whatever reads it: with registers of 512 bits the second cache keeps it, and
/// with others the first one; and of few rows of the left operand that are one thread's: packing would take longer than what it saves.
const NEAR_BYTES: usize = 64 << 10;
const NEAR_FEW_BYTES: usize = 1 << 20;
/// Bytes of a right operand whose panels are read again for each few rows, and of an output that is worth it.
const SWEPT_BYTES: usize = 512 << 10;
const LARGE_BYTES: usize = 256 << 10;
/// Bytes of a left operand that is read where it stands.
const LEFT_BYTES: usize = 256 << 10;
/// Rows that are read where they stand, however far apart: as many lines as meet in a set of the first cache.
const FEW_LINES: usize = 8;
/// Columns of a product whose left operand is read where it stands.
const FEW_COLUMNS: usize = 256;
/// Multiply-adds from which other threads help.
pub(super) const PARALLEL: usize = 1 << 22;

/// How the columns of a right operand lie in panels.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    /// Lanes of a panel.
    pub(super) width: usize,
    /// Units of a lane.
    pub(super) units: usize,
    /// Bytes of a panel, at most all that can be counted.
    pub(super) nbytes: usize,
    pub(super) count: usize,
}

impl Panels {
    /// For `k` rows and `n` columns.
    pub(super) fn of(form: Form, k: usize, n: usize) -> Panels {
        let (width, units) = (n.div_ceil(form.lanes).clamp(1, 2) * form.lanes, k.div_ceil(form.depth));
        Panels { width, units, nbytes: units.saturating_mul(width * form.unit), count: n.div_ceil(width) }
    }
}

/// Packs the whole right operand; `to` has room for its panels and [`BEYOND`] bytes.
///
/// # Safety
/// The right operand holds the elements of the transfer at every index.
pub(super) unsafe fn pack_all(form: Form, product: &Product, transfer: Transfer, panels: Panels, to: Address) -> Result<()> {
    let columns = product.n.total();
    let job = Job { form, product, transfer, panels, first: 0, columns, stream: false, ready: false };
    let many = panels.units.saturating_mul(columns) >= PARALLEL / 16;
    // SAFETY: the caller's promise; the units of each panel have their place.
    each(panels.units.div_ceil(STRIP), many, &|strip| unsafe { job.pack_right(to.get(), strip * STRIP) })
}

/// An address that several threads write, each at its own places.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) *mut u8);

// SAFETY: an address only; whoever follows it answers for it.
unsafe impl Sync for Address {}

impl Address {
    pub(super) fn get(&self) -> *mut u8 {
        self.0
    }
}

/// Computes a product with `k > 0`; `ready` are the panels of its right operand, if they were packed before. Sums are then
/// those of a right operand that stands as the product says, which nobody reads.
///
/// # Safety
/// The operands hold the elements of the transfer at every index; the output overlaps neither; panels are those of
/// [`pack_all`].
pub(super) unsafe fn run(form: Form, product: &Product, transfer: Transfer, ready: Option<*const u8>) -> Result<()> {
    let (m, n, k) = (product.m.total(), product.n.total(), product.k.total());
    let panels = Panels::of(form, k, n);
    let many = product.work() >= PARALLEL;
    let mut job = Job { form, product, transfer, panels, first: 0, columns: n, stream: false, ready: ready.is_some() };
    let Panels { width, units, .. } = panels;
    let (size, panel) = (form.unit, units.saturating_mul(width));
    let packed = |panels: *const u8| Right { start: panels, step: width as isize, panel };
    let ready = ready.map(packed);
    let most = if form.lanes * form.sum >= 64 || m <= FEW_ROWS && !many { NEAR_FEW_BYTES } else { NEAR_BYTES };
    let near = k.saturating_mul(n).saturating_mul(size) <= most;
    // Panels that are all read again for each few rows are packed, since rows of a right operand meet in the first cache.
    let swept = units <= SHORT / 4
        && units.saturating_mul(n).saturating_mul(size) <= SWEPT_BYTES
        && m >= 8 * form.rows
        && m.saturating_mul(n).saturating_mul(form.sum) > LARGE_BYTES;
    let mut done = 0;
    if let (true, Some([1, 1]), Some([_, step])) = (form.depth == 1 && transfer.same, product.n.single(), product.k.single()) {
        let right = ready.unwrap_or(Right { start: product.right, step, panel: width });
        if near && !swept {
            done = if ready.is_some() { n } else { n / form.lanes * form.lanes };
            let rows = |block: usize| HIGH.min(m - block * HIGH);
            // SAFETY: the caller's promise; the right operand stands in rows, of which whole vectors are read, or in panels.
            each(m.div_ceil(HIGH), many, &|block| unsafe { job.rows(Some(&right), block * HIGH, rows(block), 0..done) })?;
        } else if m <= FEW_ROWS && n >= width {
            (job.stream, done) = (true, n / width * width);
            let tasks = if many { 2 * threads::count() } else { 1 };
            let most = (STREAM_BYTES / (m * size)).max(done.div_ceil(64));
            let share = done.div_ceil(tasks).min(most).next_multiple_of(width);
            // SAFETY: as above, of whole panels.
            each(done.div_ceil(share), many, &|task| unsafe { job.rows(Some(&right), 0, m, task * share..done.min((task + 1) * share)) })?;
            job.stream = false;
        }
    }
    if done == n {
        return Ok(());
    }
    let highest = HIGH / form.rows * form.rows;
    let blocks = m.div_ceil(highest);
    // Where all rows are one block, a panel is packed when it is used.
    let at_once = ready.is_none() && blocks == 1 && !swept;
    let whole = (n - done).next_multiple_of(width);
    let columns = if at_once { whole } else { (RIGHT_BYTES / units.saturating_mul(size).max(1) / width * width).clamp(width, whole) };
    enum Source {
        Before(Right),
        Now(Room),
        Later,
    }
    let source = match ready {
        Some(right) => Source::Before(right),
        None if at_once => Source::Later,
        None => Source::Now(Room::new(units, columns, size)?),
    };
    for first in (done..n).step_by(columns) {
        (job.first, job.columns) = (first, columns.min(n - first));
        let panels = job.columns.div_ceil(width);
        let right = match &source {
            Source::Before(right) => Some(Right { start: right.start.wrapping_add(first / width * panel * size), ..*right }),
            Source::Later => None,
            Source::Now(room) => {
                // SAFETY: the caller's promise; the units of each panel have their place in the room.
                each(units.div_ceil(STRIP), many, &|strip| unsafe { job.pack_right(room.at(), strip * STRIP) })?;
                Some(packed(room.at()))
            }
        };
        // Few rows: groups of panels are the work of one thread.
        let groups = if many { (4 * threads::count()).div_ceil(blocks).min(panels) } else { 1 };
        let (height, share) = (m.div_ceil(blocks).next_multiple_of(form.rows), panels.div_ceil(groups) * width);
        each(m.div_ceil(height) * groups, many, &|task| {
            let (row, column) = (task / groups * height, task % groups * share);
            if column >= job.columns {
                return Ok(());
            }
            // SAFETY: the caller's promise; the right panels are packed, or will be.
            unsafe { job.rows(right.as_ref(), row, height.min(m - row), column..(column + share).min(job.columns)) }
        })?;
    }
    Ok(())
}

/// What the threads of one product share.
struct Job<'a> {
    form: Form,
    product: &'a Product,
    transfer: Transfer,
    /// How the right operand is packed.
    panels: Panels,
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
struct Right {
    start: *const u8,
    /// From unit to unit, in units.
    step: isize,
    /// From panel to panel.
    panel: usize,
}

// SAFETY: an address only; whoever follows it answers for it.
unsafe impl Sync for Right {}

// SAFETY: addresses only; whoever follows them answers for it.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Packs some units of every panel of the right operand: rows that stand side by side are read one after the other.
    ///
    /// # Safety
    /// `to` has room for the panels.
    unsafe fn pack_right(&self, to: *mut u8, unit: usize) -> Result<()> {
        let (Panels { width, units, .. }, Form { depth, unit: size, .. }) = (self.panels, self.form);
        let from = unit * depth;
        let mut along = [0; STRIP * MOST_DEPTH];
        let along = &mut along[..(STRIP * depth).min(self.product.k.total() - from)];
        self.product.k.offsets(1, from, along);
        for (panel, first) in (0..self.columns).step_by(width).enumerate() {
            let mut lanes = [0; WIDEST];
            let lanes = &mut lanes[..width.min(self.columns - first)];
            self.product.n.offsets(1, self.first + first, lanes);
            let at = (panel * units + unit) * width * size;
            // SAFETY: the caller's promise.
            unsafe { (self.transfer.right)(self.product.right, lanes, along, width, to.add(at)) };
        }
        Ok(())
    }

    /// Packs some units of a few panels of the right operand.
    ///
    /// # Safety
    /// `to` has room for them.
    unsafe fn pack_panels(&self, columns: Range<usize>, unit: usize, units: usize, to: *mut u8) {
        let (width, Form { depth, unit: size, .. }) = (self.panels.width, self.form);
        for done in (0..units).step_by(STRIP) {
            let from = (unit + done) * depth;
            let mut along = [0; STRIP * MOST_DEPTH];
            let along = &mut along[..(STRIP.min(units - done) * depth).min(self.product.k.total() - from)];
            self.product.k.offsets(1, from, along);
            for (panel, column) in columns.clone().step_by(width).enumerate() {
                let mut lanes = [0; WIDEST];
                let lanes = &mut lanes[..width.min(self.columns - column)];
                self.product.n.offsets(1, self.first + column, lanes);
                // SAFETY: the caller's promise.
                unsafe {
                    (self.transfer.right)(self.product.right, lanes, along, width, to.wrapping_add((panel * units + done) * width * size))
                };
            }
        }
    }

    /// Computes some rows and columns (those from `self.first` on); where there is no right operand that can be read, its panels are
    /// packed one after the other.
    ///
    /// # Safety
    /// As [`run`]; the right operand that is given is packed, or stands in rows.
    unsafe fn rows(&self, right: Option<&Right>, row: usize, rows: usize, columns: Range<usize>) -> Result<()> {
        let Job { form, product, transfer, panels: Panels { width, units, .. }, .. } = *self;
        let Form { unit: size, sum: sum_size, rows: most_rows, lanes, .. } = form;
        let all = product.n.total();
        let once = all <= 2 * width;
        // The left operand as it stands, in runs of its fastest axes.
        let ((run, [_, row_step]), (depth, [unit_step, _])) = (product.m.fastest(), product.k.fastest());
        let apart = |row_step: isize| row_step.unsigned_abs().saturating_mul(size) <= 2048;
        let direct = form.direct && transfer.same && !self.stream && {
            let plain = run >= rows && depth == units;
            let reach = rows.saturating_mul(row_step.unsigned_abs()).max(units.saturating_mul(unit_step.unsigned_abs()));
            let near = plain && (unit_step == 1 || row_step == 1) && reach.saturating_mul(size) <= LEFT_BYTES;
            // What is read by few panels is not worth packing; nor are windows whose rows meet in many lines of the cache.
            let few = all <= FEW_COLUMNS;
            let apart = apart(row_step);
            near && few || unit_step == 1 && (plain && (once || apart && few) || !plain && apart && run >= most_rows && depth >= 64)
        };
        let highest = if direct && once && !apart(row_step) { most_rows.min(FEW_LINES) } else { most_rows };
        // Units that are packed, and those that are summed, before the next columns. Panels are read in runs as long as can be.
        let (deep, summed) = match (self.stream, direct && once) {
            (true, _) if self.ready => (DEEP_BYTES / size / STREAM * STREAM, STREAM),
            (true, _) => (STREAM, STREAM),
            (_, true) => (ONCE, ONCE),
            _ => (DEEP_BYTES / size, DEEP_BYTES / size),
        };
        let next = |unit: usize| deep.min(units - unit).min(if direct { depth - unit % depth } else { units });
        // Tiles: their first row and the row after their last one; `HIGH` rows are counted in a byte.
        let (mut tile_rows, mut tiles, mut at) = ([[0u8; 2]; HIGH], 0, 0);
        while at < rows {
            let together = if direct { (run - (row + at) % run).min(rows - at) } else { rows };
            let parts = together.div_ceil(highest);
            for part in 0..parts {
                tile_rows[tiles] = [part, part + 1].map(|part| (at + part * together / parts) as u8);
                tiles += 1;
            }
            at += together;
        }
        // Rows are packed as rows, with a line between them, where they stand so and the kernel reads them: nothing is turned.
        let in_rows = match form.in_rows {
            Some(pack) => (unit_step == 1).then_some(pack),
            None => (form.direct && unit_step == 1).then_some(transfer.left),
        };
        debug_assert!(in_rows.is_none() || form.in_rows.is_some() || form.direct && form.depth == 1);
        let row_units = deep.min(units).next_multiple_of(64 / size) + 64 / size;
        let packed = match (direct, in_rows) {
            (true, _) => None,
            (_, Some(_)) => Some(Room::new(row_units, rows, size)?),
            _ => Some(Room::new(deep.min(units), tiles * most_rows, size)?),
        };
        let panel_of = match right {
            None => Some(Room::new(deep.min(units), (TOGETHER * width).min(columns.len().next_multiple_of(width)), size)?),
            _ => None,
        };
        // Rows of the output that stand in equal steps, of which a tile may write any.
        let out_step = product.m.single().map(|[step, _]| step.wrapping_mul(sum_size as isize));
        let side_by_side = matches!(product.n.single(), Some([1, _]));
        // Where the columns of a panel go, how many they are, and whether their sums can be written there as vectors; then
        // the first place is enough.
        let across = |column: usize, across: &mut [isize; WIDEST]| {
            let here = width.min(columns.end - column);
            let fits = transfer.plain && here.is_multiple_of(lanes) && out_step.is_some();
            if fits && side_by_side {
                across[0] = (self.first + column) as isize;
                return (here, true);
            }
            product.n.offsets(0, self.first + column, &mut across[..here]);
            (here, fits && is_run(&across[..here]))
        };
        let mut places_across = [0; WIDEST];
        let (mut down, mut beside) = ([MaybeUninit::uninit(); HIGH], [MaybeUninit::uninit(); HIGH]);
        let (down, beside) = (places(&product.m, 0, row, &mut down[..rows]), places(&product.m, 1, row, &mut beside[..rows]));
        let tile_size = most_rows * width;
        // Where sums wait for the rest of `k`, when the output cannot hold them.
        let waits = next(0).min(summed) < units && columns.clone().step_by(width).any(|column| !across(column, &mut places_across).1);
        let panels = columns.len().div_ceil(width);
        let waiting = if waits { Some(Room::new(tiles * panels, tile_size, sum_size)?) } else { None };
        let mut starts = [ZEROS; HIGH / STARTED_ROWS];
        let mut unit = 0;
        while unit < units {
            let count = next(unit);
            let mut start_of_units = [0];
            if let Some(room) = &packed {
                let (mut along, from) = ([MaybeUninit::uninit(); DEEP * MOST_DEPTH], unit * form.depth);
                let along = places(&product.k, 0, from, &mut along[..(count * form.depth).min(product.k.total() - from)]);
                if let Some(pack) = in_rows {
                    // SAFETY: the caller's promise; there is room for the rows, whose elements are lanes here.
                    unsafe { pack(product.left, along, beside, row_units * form.depth, room.at()) };
                } else {
                    for (tile, rows) in tile_rows[..tiles].iter().enumerate() {
                        let rows = usize::from(rows[0])..usize::from(rows[1]);
                        let panel = room.at().wrapping_add(tile * count * most_rows * size);
                        // SAFETY: the caller's promise; each tile has its place in the room, and is packed before it is summed.
                        unsafe {
                            (transfer.left)(product.left, &beside[rows], along, most_rows, panel);
                            if let Some(start) = (form.finish)(panel, count) {
                                starts[tile] = start;
                            }
                        }
                    }
                }
            } else {
                product.k.offsets(0, unit, &mut start_of_units);
            }
            let last = unit + count == units;
            // Sums go to a large output row by row, past all panels, where these are near; else all rows go past a panel.
            let by_rows = right.is_some()
                && !self.stream
                && count * columns.len() * size <= SWEPT_BYTES
                && rows * columns.len() * sum_size > LARGE_BYTES;
            let sweeps = if by_rows { tiles } else { 1 };
            let next_out = match out_step {
                Some(_) if by_rows => (width * sum_size) as isize,
                Some(step) => most_rows as isize * step,
                None => 0,
            };
            for (sweep, (panel, column)) in
                (0..sweeps).flat_map(|sweep| columns.clone().step_by(width).enumerate().map(move |panel| (sweep, panel)))
            {
                let tiles_here = if by_rows { sweep..sweep + 1 } else { 0..tiles };
                let (here, whole) = across(column, &mut places_across);
                let across = &places_across[..here];
                // A panel of the right operand, from the first of these units on.
                let (right, right_step) = match (right, &panel_of) {
                    (Some(&Right { start, step, panel }), _) => {
                        let right = start
                            .wrapping_add(column / width * panel * size)
                            .wrapping_offset((unit as isize).wrapping_mul(step).wrapping_mul(size as isize));
                        if self.stream && !self.ready {
                            fetch(right.wrapping_add(AHEAD * panel * size), step.wrapping_mul(size as isize), count, width * size);
                        }
                        (right, step)
                    }
                    (None, room) => {
                        let room = room.as_ref().map_or(std::ptr::null_mut(), Room::at);
                        if panel.is_multiple_of(TOGETHER) {
                            // SAFETY: the caller's promise, and room for the units of these panels.
                            unsafe { self.pack_panels(column..columns.end.min(column + TOGETHER * width), unit, count, room) };
                        }
                        (room.cast_const().wrapping_add(panel % TOGETHER * count * width * size), width as isize)
                    }
                };
                for part in (0..count).step_by(summed) {
                    let here_units = summed.min(count - part);
                    let right = right.wrapping_offset(part as isize * right_step * size as isize);
                    let last = last && part + here_units == count;
                    for tile in tiles_here.clone() {
                        let [first, end] = tile_rows[tile].map(usize::from);
                        let down = &down[first..end];
                        let (left, left_step, started) = match &packed {
                            Some(room) if in_rows.is_some() => {
                                let rows = room.at().cast_const().wrapping_add((first * row_units + part) * size);
                                (rows, [row_units, 1].map(|step| (step * size) as isize), false)
                            }
                            Some(room) => {
                                let panel = room.at().cast_const().wrapping_add((tile * count + part) * most_rows * size);
                                (panel, [1, most_rows].map(|step| (step * size) as isize), form.starts && part == 0)
                            }
                            None => {
                                let offset = beside[first].wrapping_add(start_of_units[0]).wrapping_add(part as isize * unit_step);
                                (
                                    product.left.wrapping_offset(offset * size as isize),
                                    [row_step, unit_step].map(|step| step.wrapping_mul(size as isize)),
                                    false,
                                )
                            }
                        };
                        let mut local = [MaybeUninit::<u64>::uninit(); MOST_BYTES / 8];
                        let aside = match &waiting {
                            Some(room) => room.at().wrapping_add((panel * tiles + tile) * tile_size * sum_size),
                            None => local.as_mut_ptr().cast::<u8>(),
                        };
                        let (out, out_step) = match out_step {
                            Some(step) if whole => {
                                let offset = down[0].wrapping_add(across[0]).wrapping_mul(sum_size as isize);
                                (product.out.wrapping_offset(offset), step)
                            }
                            _ => (aside, (width * sum_size) as isize),
                        };
                        let tile = Tile {
                            rows: down.len(),
                            vectors: here.div_ceil(lanes),
                            units: here_units,
                            left,
                            left_step,
                            right,
                            right_step: right_step.wrapping_mul(size as isize),
                            start: if started { &starts[tile] } else { &ZEROS },
                            out,
                            out_step,
                            soon: if here_units <= SHORT { out.wrapping_offset(next_out) } else { out },
                            add: unit + part > 0,
                        };
                        // SAFETY: the caller's promise: rows and units are there, and room for the tile.
                        unsafe { (form.tile)(&tile) };
                        if !whole && last {
                            // SAFETY: the sums of a tile, and their places in the output.
                            unsafe { self.unload(aside, width, down, across) };
                        }
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
        let (Transfer { unload, element, .. }, size) = (self.transfer, self.form.sum);
        let by_columns = is_run(down) && !is_run(across);
        let (outer, inner, outer_step, inner_step) = if by_columns { (across, down, 1, width) } else { (down, across, width, 1) };
        let few = few_runs(inner);
        let mut first = 0;
        while first < inner.len() {
            let end = if few { run_end(inner, first) } else { inner.len() };
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
fn places<'a>(axes: &Axes<2>, operand: usize, from: usize, room: &'a mut [MaybeUninit<isize>]) -> &'a [isize] {
    axes.each_offset(operand, from, room.iter_mut(), |to, offset| _ = to.write(offset));
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

/// Memory for panels, aligned to a cache line: blocks of the device, which are kept and used again.
pub(super) struct Room(CpuBlock);

impl Room {
    /// For `a · b` things of `size` bytes, and what packing writes beyond them.
    pub(super) fn new(a: usize, b: usize, size: usize) -> Result<Self> {
        let nbytes = a.checked_mul(b).and_then(|n| n.checked_mul(size)).and_then(|n| n.checked_add(BEYOND)).unwrap_or(usize::MAX);
        Ok(Room(CpuBlock::scratch(nbytes)?))
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.0.address()
    }
}
