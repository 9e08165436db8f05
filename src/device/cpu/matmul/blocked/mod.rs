//! Products by blocks and packed panels: the five loops around a microkernel of K. Goto and R. van de Geijn
//! ("Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34 (3), 2008) and of BLIS (F. G. Van Zee
//! and R. van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", ACM TOMS 41 (3),
//! 2015).
//!
//! | loop of BLIS | steps over | where |
//! |---|---|---|
//! | 5 | columns, by the part of the right operand that is packed together | `run_packed` |
//! | 3 | rows, by MC: the tasks of threads | `run_packed`, `run_in_place` |
//! | 4 | `k`, by KC | `GemmCall::rows` |
//! | – | columns, by NC: the part of the packed right operand that stays in L2 | `RowBlock::k_block` |
//! | 1 | rows, by MR | `RowBlock::k_block` |
//! | 2 | columns, by NR | `RowBlock::tile_row` |
//!
//! With respect to BLIS, loops 3 and 4 are exchanged, because a task computes all of `k` for its rows, and so
//! are loops 1 and 2: one panel of the left operand meets all panels of a block of the right operand. Either
//! operand is read in place where packing it would cost more than it saves.
//!
//! The blocks along `k` of every sum do not depend on the number of threads, nor do the results.
// Imports: `error`.

mod call;
mod cut;
mod output;
mod row_block;
mod sizes;

use super::super::parallel;
use super::kernels::KernelInfo;
use super::panels::{PanelBuffer, PanelLayout};
use super::problem::{GemmProblem, PackFns};
use super::tasks::{PARALLEL_MULTIPLY_ADDS, SyncPtr, try_for_each};
use crate::error::Result;
use call::{GemmCall, RightPanels};
use sizes::*;

/// Packs the whole right operand.
///
/// # Safety
/// 1. The right operand holds the elements of `fns` at every index.   2. `to` has room for its panels and
///    [`PANEL_PADDING_BYTES`](super::panels::PANEL_PADDING_BYTES) bytes.
pub(super) unsafe fn pack_all(
    kernel: KernelInfo,
    problem: &GemmProblem,
    fns: PackFns,
    layout: PanelLayout,
    to: SyncPtr<*mut u8>,
) -> Result<()> {
    let columns = problem.n.total();
    let call = GemmCall::new(kernel, problem, fns, layout, false);
    let parallel = layout.units.saturating_mul(columns) >= PARALLEL_MULTIPLY_ADDS / 16;
    // SAFETY: (1), (2) the caller's promise.
    unsafe { call.pack_right(parallel, to) }
}

/// Whether the transposed product is faster: few rows times the transpose of a matrix with contiguous rows,
/// which would have to be packed for these few. They are read in place, as the left operand, instead.
pub(super) fn is_faster_transposed(kernel: KernelInfo, problem: &GemmProblem, fns: PackFns) -> bool {
    let (m, n, units) = (problem.m.total(), problem.n.total(), problem.k.total());
    let is_transpose = problem.k.single_stride(1) == Some(1) && problem.n.innermost().1[1] != 1;
    let reads_rows = kernel.reads_in_place && fns.units_are_elements;
    reads_rows
        && is_transpose
        && (2..=MAX_TRANSPOSED_ROWS).contains(&m)
        && n >= 4 * m
        && units >= MIN_ROW_UNITS
}

/// Computes a product with `k > 0`. `prepacked` are the panels of its right operand, if they were packed
/// before; the sums then have the bits of a product whose right operand has the strides of the problem, and
/// its address is not read.
///
/// # Safety
/// 1. The operands hold the elements of `fns` at every index.   2. The output overlaps neither of the others.
///    3. The panels are those of [`pack_all`].
pub(super) unsafe fn run(
    kernel: KernelInfo,
    problem: &GemmProblem,
    fns: PackFns,
    prepacked: Option<*const u8>,
) -> Result<()> {
    let (n, k) = (problem.n.total(), problem.k.total());
    let layout = kernel.panel_layout(k, n);
    let mut call = GemmCall::new(kernel, problem, fns, layout, prepacked.is_some());
    // All tiles cost nearly the same: threads pay off at half of the work that other algorithms need.
    let parallel = problem.work() >= PARALLEL_MULTIPLY_ADDS / 2;
    let prepacked = prepacked.map(|panels| call.packed(panels));
    // One thread takes all rows at once, if they are read in place and no sums wait in a buffer.
    let alone = !parallel || parallel::count() == 1;
    let direct_output = fns.sums_are_elements
        && problem.m.single_stride(0).is_some()
        && problem.n.single_stride(0) == Some(1);
    let is_tall = alone
        && call.reads_left_in_place()
        && (direct_output || layout.units <= K_BLOCK_BYTES / kernel.unit_nbytes);
    let packs_columns =
        alone && kernel.is_512_bits() && call.reads_left_elements() && problem.m.innermost().1[1] == 1;
    let row_block = match (is_tall, packs_columns) {
        (true, _) => TALL_ROW_BLOCK,
        (_, true) => COLUMNS_ROW_BLOCK,
        _ => ROW_BLOCK,
    };
    // SAFETY: (1) to (3) the caller's promise.
    let done = unsafe { run_in_place(&mut call, prepacked, parallel, alone, row_block)? };
    if done == n {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { run_packed(&mut call, prepacked, [parallel, alone], row_block, done) }
}

impl GemmCall<'_> {
    /// Packs all units of the columns from `first` on. Tasks are some units of some panels.
    ///
    /// # Safety
    /// As [`pack_all`], for these columns.
    unsafe fn pack_right(&self, parallel: bool, to: SyncPtr<*mut u8>) -> Result<()> {
        let PanelLayout { width, units, .. } = self.layout;
        let strips = units.div_ceil(PACK_STRIP_UNITS);
        let tasks = if parallel { 4 * parallel::count() } else { 1 };
        let panels = self.columns.div_ceil(width);
        let share = panels.div_ceil(tasks.div_ceil(strips).min(panels));
        let groups = panels.div_ceil(share);
        try_for_each(strips * groups, parallel, &|task| {
            let (strip, group) = (task / groups, task % groups);
            let columns = group * share * width..self.columns.min((group + 1) * share * width);
            let to = to.get().wrapping_add(group * share * units * width * self.kernel.unit_nbytes);
            // SAFETY: (1), (2) the caller's promise; each task writes its own units of its panels.
            unsafe { self.pack_strip(columns, 0, units, strip * PACK_STRIP_UNITS, to) };
            Ok(())
        })
    }

    /// Packed panels as the microkernel reads them.
    fn packed(&self, panels: *const u8) -> RightPanels {
        let PanelLayout { width, units, .. } = self.layout;
        RightPanels { start: panels, unit_stride: width as isize, panel_stride: units.saturating_mul(width) }
    }

    /// Whether the right operand is small enough to be read in place.
    fn reads_right_in_place(&self, parallel: bool) -> bool {
        let GemmCall { kernel, problem, .. } = *self;
        let (m, n, k) = (problem.m.total(), problem.n.total(), problem.k.total());
        let (unit_nbytes, max_rows) = (kernel.unit_nbytes, max_read_once_rows(kernel));
        // Rows whose vectors would cross cache lines are packed from a smaller size on. The bits of products
        // of few rows must not depend on an address.
        let aligned = |stride: isize| {
            (problem.right as usize | (stride as usize).wrapping_mul(unit_nbytes)).is_multiple_of(64)
        };
        let most = match problem.k.single_stride(1) {
            _ if m <= max_rows && (!parallel || kernel.is_512_bits()) => FEW_ROWS_RIGHT_IN_PLACE_BYTES,
            Some(stride) if m > max_rows && aligned(stride) => {
                ALIGNED_RIGHT_IN_PLACE_BYTES[usize::from(kernel.is_512_bits())]
            }
            _ => RIGHT_IN_PLACE_BYTES[usize::from(kernel.is_512_bits() && m > max_rows)],
        };
        k.saturating_mul(n).saturating_mul(unit_nbytes) <= most
    }
}

/// The most rows for which the right operand is read once.
fn max_read_once_rows(kernel: KernelInfo) -> usize {
    MAX_READ_ONCE_ROWS[usize::from(kernel.is_512_bits())]
}

/// Computes the first columns of a product from a right operand that is read in place, if that is faster than
/// packing it; returns their number.
///
/// # Safety
/// As [`run`].
unsafe fn run_in_place(
    call: &mut GemmCall<'_>,
    prepacked: Option<RightPanels>,
    parallel: bool,
    alone: bool,
    row_block: usize,
) -> Result<usize> {
    let GemmCall { kernel, problem, fns, layout: PanelLayout { width, .. }, .. } = *call;
    let (m, n) = (problem.m.total(), problem.n.total());
    let (true, Some(1), Some(stride)) =
        (kernel.depth == 1 && fns.units_are_elements, problem.n.single_stride(1), problem.k.single_stride(1))
    else {
        return Ok(0);
    };
    let in_place = RightPanels { start: problem.right, unit_stride: stride, panel_stride: width };
    let right = prepacked.unwrap_or(in_place);
    if call.reads_right_in_place(parallel) && (prepacked.is_some() || n >= kernel.lanes) {
        let columns = if prepacked.is_some() { n } else { n / kernel.lanes * kernel.lanes };
        let call = &*call;
        let [height, share] = if alone {
            [m.div_ceil(m.div_ceil(row_block)).next_multiple_of(kernel.mr), columns]
        } else {
            call.task_size(m, columns)
        };
        let groups = columns.div_ceil(share);
        try_for_each(m.div_ceil(height) * groups, parallel, &|task| {
            let (row, column) = (task / groups * height, task % groups * share);
            let here = column..columns.min(column + share);
            // SAFETY: the caller's promise; the right operand has contiguous rows, of which whole vectors are
            // read, or it is packed.
            unsafe { call.rows(Some(&right), row, height.min(m - row), here) }
        })?;
        return Ok(columns);
    }
    if m > max_read_once_rows(kernel) || n < width {
        return Ok(0);
    }
    let columns = n / width * width;
    call.reads_right_once = true;
    let read_once = &*call;
    let tasks = if parallel { 2 * parallel::count() } else { 1 };
    let most = (READ_ONCE_SUM_BYTES / (m * kernel.unit_nbytes)).max(columns.div_ceil(64));
    let share = columns.div_ceil(tasks).min(most).next_multiple_of(width);
    try_for_each(columns.div_ceil(share), parallel, &|task| {
        let here = task * share..columns.min((task + 1) * share);
        // SAFETY: as above, of whole panels.
        unsafe { read_once.rows(Some(&right), 0, m, here) }
    })?;
    call.reads_right_once = false;
    Ok(columns)
}

/// The right operand of a product that is not read in place.
enum PackedRight {
    Prepacked(RightPanels),
    /// Packed before the rows use it.
    Packed(PanelBuffer),
    /// Packed by the task that uses it, panel by panel.
    PackedByTask,
}

/// Computes the columns from `done` on by packed panels of the right operand.
///
/// # Safety
/// As [`run`].
unsafe fn run_packed(
    call: &mut GemmCall<'_>,
    prepacked: Option<RightPanels>,
    [parallel, alone]: [bool; 2],
    row_block: usize,
    done: usize,
) -> Result<()> {
    let GemmCall { kernel, problem, layout: PanelLayout { width, units, .. }, .. } = *call;
    let KernelInfo { unit_nbytes, mr, .. } = kernel;
    let (m, n) = (problem.m.total(), problem.n.total());
    let highest = row_block / mr * mr;
    let blocks = m.div_ceil(highest);
    // If all rows are one block or belong to one thread, panels are packed just before they are used.
    let by_task = prepacked.is_none() && (blocks == 1 || row_block == TALL_ROW_BLOCK);
    let all = (n - done).next_multiple_of(width);
    let together = PACKED_RIGHT_BYTES / units.saturating_mul(unit_nbytes).max(1) / width * width;
    let columns = if by_task { all } else { together.clamp(width, all) };
    let operand = match prepacked {
        Some(right) => PackedRight::Prepacked(right),
        None if by_task => PackedRight::PackedByTask,
        None => PackedRight::Packed(PanelBuffer::new(units, columns, unit_nbytes)?),
    };
    for first in (done..n).step_by(columns) {
        (call.first, call.columns) = (first, columns.min(n - first));
        let call = &*call;
        let panels = call.columns.div_ceil(width);
        let right = match &operand {
            PackedRight::Prepacked(right) => {
                let start = right.start.wrapping_add(first / width * right.panel_stride * unit_nbytes);
                Some(RightPanels { start, ..*right })
            }
            PackedRight::PackedByTask => None,
            PackedRight::Packed(buffer) => {
                // SAFETY: the caller's promise; the buffer has room for all units of these columns.
                unsafe { call.pack_right(parallel, SyncPtr(buffer.start()))? };
                Some(call.packed(buffer.start()))
            }
        };
        // A task that packs panels takes all rows, so that no other one packs them.
        let [height, share] = if alone {
            [m.div_ceil(blocks).next_multiple_of(mr), panels * width]
        } else if by_task {
            [m, panels.div_ceil(TASKS_PER_THREAD * parallel::count()) * width]
        } else {
            call.task_size(m, call.columns)
        };
        let groups = (panels * width).div_ceil(share);
        try_for_each(m.div_ceil(height) * groups, parallel, &|task| {
            let (row, column) = (task / groups * height, task % groups * share);
            let here = column..(column + share).min(call.columns);
            // SAFETY: the caller's promise; the right operand is packed, or the task packs it.
            unsafe { call.rows(right.as_ref(), row, height.min(m - row), here) }
        })?;
    }
    Ok(())
}
