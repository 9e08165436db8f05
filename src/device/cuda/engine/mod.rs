//! The mechanisms of a GPU, one file each: a plan, a generated source, a launch.
//!
//! | file | mechanism |
//! |---|---|
//! | `map.rs`, `transpose_map.rs`, `rows.rs`, `row_source.rs` | `map`, by the layout and the kind of the program |
//! | `copy.rs` | `copy` |
//! | `reduce.rs`, `scan.rs` | `reduce`, `scan` |
//! | `gather_scatter.rs` | `gather`, `scatter`, `compact` |
//! | `sort.rs`, `radix.cuh` | `sort`, which `scatter` uses too |
//! | `matmul.rs`, `cublas.rs` | `contract`: any axes; plain matrices by cuBLAS |
//! | `product_fma.rs` | the source of products of any elements |
//! | `product_mma.rs`, `tensor_cores.cuh` | the source of products on tensor cores |
//! | `product_args.rs` | the axes and words of both |
//! | `exchange.rs` | the combination of the states of threads, for `row_source.rs` and `reduce.rs` |
//! | `user_kernel.rs` | kernels from CUDA source |
// Imports: nothing.

pub(super) mod copy;
pub(super) mod cublas;
mod exchange;
pub(super) mod gather_scatter;
pub(super) mod map;
mod map_body;
pub(super) mod matmul;
mod product_args;
mod product_fma;
mod product_mma;
pub(super) mod reduce;
mod row_source;
pub(super) mod rows;
pub(super) mod scan;
pub(super) mod sort;
mod transpose_map;
pub(super) mod user_kernel;
