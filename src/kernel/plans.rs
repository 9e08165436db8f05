//! Plans of the mechanisms other than `map` and `reduce`: products, scans, gathers and scatters, sorts.
//!
//! A plan holds sizes and steps only; strides travel with the operands.
// Imports: nothing.

/// How many axes each of the four groups has, at most.
pub const MAX_GROUP: usize = 8;

/// `out[b, i, j] = Σₖ left[b, i, k] · right[b, k, j]`, where `b`, `i`, `j` and `k` are each an index of several axes.
///
/// The factors are cast to the machine type of the output, multiplied and summed there, and the sum is narrowed once.
/// Strides stand in the order of these axes: those of the output are `batch, m, n`, of the left operand `batch, m, k`, of
/// the right one `batch, k, n`. Any stride may be 0 or negative, except in the output. A stride may be that of a window,
/// so a convolution is a contraction too. No elements along `k` give zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContractPlan<'a> {
    /// Sizes of the axes that all three have.
    pub batch: &'a [usize],
    /// Sizes of the axes of the left operand that stay.
    pub m: &'a [usize],
    /// Sizes of the axes that both operands have and that are summed over.
    pub k: &'a [usize],
    /// Sizes of the axes of the right operand that stay.
    pub n: &'a [usize],
}

/// Running states of a reducer along one axis.
///
/// Operands and output come with the strides of `lines`, then that of the axis. Position `i` of a line holds what the
/// reducer's `finalize` makes of the state that has absorbed positions `0..=i`, or `0..i` if `exclusive`.
///
/// A device may cut a line into leaves of a fixed length and combine each with the state of those before it: the result
/// depends on the position in the line, never on the number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanPlan<'a> {
    /// Sizes of the axes beside the one that is scanned.
    pub lines: &'a [usize],
    /// Size of the axis that is scanned.
    pub along: usize,
    /// Whether a position leaves itself out.
    pub exclusive: bool,
}

/// Moves between `cells`, a tensor of which one axis is addressed by an index operand, and plain elements.
///
/// Element `p` of the plain operand belongs to the cell `p + index[p] · step`. All three operands come with the strides
/// of `sizes`; those of the cells are 0 along the axes by which the index varies in place of its own axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatherPlan<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// Sizes of the plain operand.
    pub sizes: &'a [usize],
    /// How many of the last axes of `sizes` are axes of the cells too: along them, no two elements meet in one cell.
    pub own: usize,
    /// The step of the addressed axis, in elements.
    pub step: isize,
    /// The size of the addressed axis: indices lie in `0..bound`.
    pub bound: usize,
}

/// Lines put in order, all of them or the first of each.
///
/// The order is that of `<`, a NaN after every number; equal elements stay as they stand (−0 equals 0, NaN equals NaN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortPlan<'a> {
    /// Sizes of the axes beside the one that is sorted: operands have their strides, then that of the axis.
    pub lines: &'a [usize],
    /// Size of the axis that is sorted.
    pub along: usize,
    /// How many of each line are wanted, from the first in order.
    pub keep: usize,
    /// The reverse order, NaN first; equal elements stay as they stand all the same.
    pub descending: bool,
}
