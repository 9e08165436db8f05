//! engine
// Imports: nothing.

pub(super) mod cublas;
pub(super) mod gather_scatter;
pub(super) mod map;
pub(super) mod matmul;
pub(super) mod reduce;
pub(super) mod rows;
pub(super) mod scan;
pub(super) mod sort;
pub(super) mod transpose_map;
pub(super) mod user_kernel;
