//! One product as its threads share it: the operands, the kernel, and the form in which each operand is read.
// Imports: nothing.

use super::super::kernels::KernelInfo;
use super::super::panels::{MAX_PANEL_LANES, PanelLayout};
use super::super::problem::{GemmProblem, PackFns};
use super::sizes::*;
use std::ops::Range;

/// The parts of a product that all tasks share.
pub(super) struct GemmCall<'a> {
    pub(super) kernel: KernelInfo,
    pub(super) problem: &'a GemmProblem,
    pub(super) fns: PackFns,
    /// How the right operand is packed.
    pub(super) layout: PanelLayout,
    /// The first of the columns that are packed together.
    pub(super) first: usize,
    /// The number of these columns.
    pub(super) columns: usize,
    /// Whether the right operand is read once, in place or from panels that were packed before.
    pub(super) reads_right_once: bool,
    /// Whether the right operand was packed before this product.
    pub(super) is_prepacked: bool,
}

// SAFETY: it holds addresses and does not follow them; the functions that do are unsafe.
unsafe impl Sync for GemmCall<'_> {}

/// The right operand as the microkernel reads it: packed, or in place.
#[derive(Clone, Copy)]
pub(super) struct RightPanels {
    pub(super) start: *const u8,
    /// From unit to unit, in units.
    pub(super) unit_stride: isize,
    /// From panel to panel, in units.
    pub(super) panel_stride: usize,
}

// SAFETY: it holds an address and does not follow it; the functions that do are unsafe.
unsafe impl Sync for RightPanels {}

impl<'a> GemmCall<'a> {
    pub(super) fn new(
        kernel: KernelInfo,
        problem: &'a GemmProblem,
        fns: PackFns,
        layout: PanelLayout,
        is_prepacked: bool,
    ) -> Self {
        let columns = problem.n.total();
        GemmCall { kernel, problem, fns, layout, first: 0, columns, reads_right_once: false, is_prepacked }
    }

    /// Packs one strip of a block of the right operand: for each of the columns, at most [`PACK_STRIP_UNITS`]
    /// units from `done` on. The block has `units` units from `unit` on. Contiguous rows are read one after
    /// the other.
    ///
    /// # Safety
    /// 1. The right operand holds its elements at every index.   2. `to` has room for the panels of the
    ///    block.
    pub(super) unsafe fn pack_strip(
        &self,
        columns: Range<usize>,
        unit: usize,
        units: usize,
        done: usize,
        to: *mut u8,
    ) {
        let (width, KernelInfo { depth, unit_nbytes, .. }) = (self.layout.width, self.kernel);
        let from = (unit + done) * depth;
        let mut k = [0; PACK_STRIP_UNITS * MAX_DEPTH];
        let k = &mut k[..(PACK_STRIP_UNITS.min(units - done) * depth).min(self.problem.k.total() - from)];
        self.problem.k.offsets(1, from, k);
        for (panel, column) in columns.clone().step_by(width).enumerate() {
            let mut lanes = [0; MAX_PANEL_LANES];
            let lanes = &mut lanes[..width.min(self.columns - column)];
            self.problem.n.offsets(1, self.first + column, lanes);
            let to = to.wrapping_add((panel * units + done) * width * unit_nbytes);
            // SAFETY: (1) the offsets are indices of the operand; (2) these units of the panel lie inside the
            // block.
            unsafe { (self.fns.pack_right)(self.problem.right, lanes, k, width, to) };
        }
    }

    /// Whether neighboring rows of the left operand are far apart.
    pub(super) fn has_far_apart_rows(&self) -> bool {
        let row_stride = self.problem.m.innermost().1[1];
        row_stride.unsigned_abs().saturating_mul(self.kernel.unit_nbytes) > FAR_APART_BYTES
    }

    /// Whether the microkernel reads the left operand in place.
    pub(super) fn reads_left_in_place(&self) -> bool {
        let (problem, kernel, units) = (self.problem, self.kernel, self.layout.units);
        let ((span, [_, row_stride]), (k_span, [unit_stride, _])) =
            (problem.m.innermost(), problem.k.innermost());
        // As many rows as a task of several threads has: the bits must not depend on the number of threads.
        let rows = problem.m.total().min(ROW_BLOCK);
        let plain = span >= rows && k_span == units;
        let reach =
            rows.max(units.saturating_mul(unit_stride.unsigned_abs())).saturating_mul(kernel.unit_nbytes);
        let near = plain
            && row_stride == 1
            && reach <= LEFT_IN_PLACE_BYTES
            && problem.n.total() <= LEFT_IN_PLACE_COLUMNS;
        // Windows are read span by span, if a span is worth the jump to it, or if packing would be for few
        // columns and the sums of all spans stay in registers.
        let single_pass = problem.n.total() <= 2 * self.layout.width;
        let long = k_span >= MIN_SPAN_UNITS;
        let short = single_pass && k_span.saturating_mul(problem.k.around_innermost().0) == units;
        let is_high = span >= MIN_SPAN_ROWS;
        let windows = unit_stride == 1 && !self.has_far_apart_rows() && is_high && (long || short);
        let transposed_windows =
            row_stride == 1 && !plain && is_high && long && unit_stride.unsigned_abs() <= MAX_UNIT_STRIDE;
        self.reads_left_elements()
            && !self.reads_right_once
            && (near || unit_stride == 1 && plain || windows || transposed_windows)
    }

    /// Whether elements of the left operand are units that the microkernel can read without packing.
    pub(super) fn reads_left_elements(&self) -> bool {
        self.kernel.reads_in_place && self.fns.units_are_elements
    }
}
