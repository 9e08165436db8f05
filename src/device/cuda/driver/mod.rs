//! driver
// Imports: nothing.

pub(super) mod context;
pub(super) mod loading;
pub(super) mod nvrtc;
pub(super) mod op_names;
