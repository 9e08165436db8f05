//! The normal form of every matrix product: sizes only; strides travel with the operands.
//!
//! Imports: nothing.

/// `out[b.., i, j] = Σₖ left[b.., i, k] · right[b.., k, j]`, in the element's machine type.
///
/// The operands come with strides in the order of these indices; any stride may be 0 or negative, except in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contraction<'a> {
    /// Sizes of the batch axes, in front.
    pub batch: &'a [usize],
    /// Rows of the left operand and of the result.
    pub m: usize,
    /// Columns of the left operand, rows of the right one.
    pub k: usize,
    /// Columns of the right operand and of the result.
    pub n: usize,
}
