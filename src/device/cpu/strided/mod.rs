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

// Former names, until the engines use the new ones.
pub(crate) use super::tuning::SHARED_ELEMENTS as SHARED;
pub(crate) use iteration::{
    Position as Index, as_single_axis as one_axis, for_each_space as each, single_space as only,
};
