//! CUDA C++ from programs: types, the source text, axes, the argument block, operands.
// Imports: nothing.

pub(super) mod args;
pub(super) mod axes;
pub(super) mod element_words;
pub(super) mod operands;
pub(super) mod source;
pub(super) mod types;
pub(super) mod vectors;
