//! Operands with strides: the iteration space that they share, its tasks, and copies between strided and
//! contiguous memory.
// Imports: nothing of the crate.

pub(crate) mod copy;
mod iteration;
pub(crate) mod pack;
mod partition;
pub(crate) mod transpose;

pub(crate) use iteration::*;
pub(crate) use partition::{parallel, parallel_by};
