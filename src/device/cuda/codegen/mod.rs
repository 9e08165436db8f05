//! codegen
// Imports: nothing.

pub(super) mod args;
pub(super) mod source;
