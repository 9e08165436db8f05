//! Plans of the mechanisms other than `map` and `reduce`: products, scans, gathers and scatters, sorts.
//!
//! A plan holds sizes and steps only; the operands carry the strides.
// Imports: `error`.

use crate::error::Error;

/// The most axes of each of the four groups.
pub const MAX_GROUP: usize = 8;

/// `out[b, i, j] = Σₖ left[b, i, k] · right[b, k, j]`, where each of `b`, `i`, `j` and `k` is an index of
/// several axes.
///
/// The factors are cast to the compute type of the output, multiplied and summed in it, and the sum is
/// narrowed once.
///
/// Strides are in the order of these axes: `batch, m, n` for the output, `batch, m, k` for the left operand,
/// `batch, k, n` for the right operand. Any stride may be 0 or negative, except in the output. A stride may
/// be that of a window, which makes a convolution a contraction too. If `k` has no elements, the output is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContractPlan<'a> {
    /// Sizes of the axes that both operands and the output have.
    pub batch: &'a [usize],
    /// Sizes of the axes that the left operand shares with the output alone.
    pub m: &'a [usize],
    /// Sizes of the axes that both operands have and that are summed.
    pub k: &'a [usize],
    /// Sizes of the axes that the right operand shares with the output alone.
    pub n: &'a [usize],
}

/// Running results of a reducer along one axis.
///
/// The strides of operands and output are those of `lines`, then that of the scanned axis. Position `i` of a
/// line holds the reducer's `finalize` of the accumulator of the positions `0..=i`, or `0..i` if `exclusive`.
///
/// A device may cut a line into blocks of a fixed length and combine each with the accumulator of the blocks
/// before it. The result depends on the position in the line, never on the number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanPlan<'a> {
    /// Sizes of the axes other than the scanned one.
    pub lines: &'a [usize],
    /// Size of the scanned axis.
    pub along: usize,
    /// Whether the value at a position is left out of the result there.
    pub exclusive: bool,
}

/// Moves elements between `cells`, a tensor of which one axis is addressed by an index operand, and a plain
/// operand.
///
/// Element `p` of the plain operand belongs to the cell `p + index[p] · step`. All three operands have
/// strides along the axes of `sizes`. The strides of the cells are 0 along the axes by which the index varies
/// in place of its own axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatherPlan<'a> {
    /// The operation, named in errors.
    pub op: &'static str,
    /// Sizes of the plain operand.
    pub sizes: &'a [usize],
    /// The number of the last axes of `sizes` that the cells have too: along them, each element has its own
    /// cell.
    pub own: usize,
    /// The stride of the addressed axis, in elements.
    pub step: isize,
    /// The size of the addressed axis: indices lie in `0..bound`.
    pub bound: usize,
    /// The axes that the indices address, as an error names them.
    pub of: IndexedAxes<'a>,
}

impl GatherPlan<'_> {
    /// The error of an index outside `0..bound`.
    ///
    /// # Examples
    /// ```
    /// use rankform::kernel::{GatherPlan, IndexKind, IndexedAxes};
    /// let of = IndexedAxes { kind: IndexKind::Axis(1), sizes: &[4, 3] };
    /// let plan = GatherPlan { op: "gather", sizes: &[4, 2], own: 0, step: 1, bound: 3, of };
    /// assert_eq!(
    ///     plan.outside(5).to_string(),
    ///     "gather: index 5 is outside axis 1 of size 3, of sizes [4, 3]"
    /// );
    /// ```
    pub fn outside(&self, index: i64) -> Error {
        self.of.outside(self.op, index)
    }
}

/// The axes that indices address, in the caller's terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexedAxes<'a> {
    /// The meaning of an index.
    pub kind: IndexKind,
    /// The sizes of the tensor whose axes they are.
    pub sizes: &'a [usize],
}

/// The meaning of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// A position of this axis.
    Axis(usize),
    /// An element, by its row-major position.
    Element,
    /// A slice along the first axes, by its row-major position. A negative number stands for a position
    /// outside one of these axes, which [`GatherPlan::outside`] reads from it.
    Joint,
}

impl IndexKind {
    /// Negative joint indices hold positions between ± this one, of up to four axes.
    pub(crate) const MAX_JOINT: i64 = (1 << 60) - 1;

    /// The axis and the position in a negative joint index, `!(axis + 4 · (position + MAX_JOINT))`.
    fn outside_joint(index: i64) -> (usize, i64) {
        ((!index & 3) as usize, (!index >> 2) - IndexKind::MAX_JOINT)
    }
}

impl IndexedAxes<'_> {
    /// The error of an index that is outside.
    pub(crate) fn outside(&self, op: &'static str, index: i64) -> Error {
        let (axis, index) = match self.kind {
            IndexKind::Axis(axis) => (Some(axis), index),
            IndexKind::Joint if index < 0 => {
                let (axis, index) = IndexKind::outside_joint(index);
                (Some(axis), index)
            }
            IndexKind::Element | IndexKind::Joint => (None, index),
        };
        Error::Index { op, index: [index as isize].into(), axis, sizes: self.sizes.into() }
    }
}

/// Sorts lines, completely or as far as the wanted elements of each need it.
///
/// The order is that of `<`, with NaN after every number. Equal elements keep their order (−0 equals 0, NaN
/// equals NaN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortPlan<'a> {
    /// Sizes of the axes other than the sorted one. Operands have the strides of these, then that of the
    /// sorted axis.
    pub lines: &'a [usize],
    /// Size of the sorted axis.
    pub along: usize,
    /// The number of elements in order before the wanted ones.
    pub first: usize,
    /// The number of elements wanted of each line.
    pub keep: usize,
    /// The reverse order, NaN first. Equal elements keep their order here too.
    pub descending: bool,
}
