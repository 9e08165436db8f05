//! The normal form of every product that sums over axes: matrix products, einsum, convolution. Sizes only; strides travel
//! with the operands.
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
