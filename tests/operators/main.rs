//! Every operator, on every element it takes and on every kind of layout, against oracles that share no code
//! with it.
//!
//! | file | |
//! |---|---|
//! | `value.rs` `arrange.rs` | samples and exact values of elements; one set of elements in many layouts |
//! | `table.rs` `truth.rs` | the crate's own table of elementwise operators, row by row: a new operator is tested without a new test |
//! | `slopes.rs` `reducer_slopes.rs` | derivatives of operators and of reductions against differences; kinks; the chain rule |
//! | `reduce.rs` `positions.rs` | reductions over every set of axes; extremes and their positions, booleans |
//! | `contract.rs` | matrix products of every pair of ranks |
//! | `scans.rs` `ordering.rs` | scans; sorts and operators built on them |
//! | `indexing.rs` `movement.rs` | elements by index and mask; tensors joined, cut, padded, turned |
//! | `contract.rs` `einsum.rs` | matrix products of every pair of ranks; products by labels, and operators built on them |
//! | `conv.rs` | convolutions, pooling, attention |
//! | `pooling.rs` | positions of windows' maxima, padding, grouped queries |
//! | `complex.rs` | parts, means, deviations, norms and closeness of complex numbers |
//! | `normalize.rs` | softmax, log-softmax, layer norm |
//! | `neural.rs` | losses, norms over channels, images in other sizes, covariances |
//! | `parametric.rs` | operators with parameters; sums of powers |
//! | `runs.rs` | runs, modes, reductions by index, combinations; orders of a user's own elements |
//! | `convert.rs` | casts, comparisons, choices, complex parts |
//! | `place.rs` `into.rs` | in place, into existing memory, operators of Rust, memory taken from operands |
//! | `generic.rs` | functions for any float, rank and device; tensors as views |
//! | `linear.rs` | linear layers; products of stacks of rows by a matrix |
//! | `operands.rs` | operators of one to twelve operands, in every way in which they are called |
//! | `arrays.rs` | booleans in order; pairs of indices, parts, repeats, histograms, medians, random orders |
//! | `own.rs` | users' operators: several outputs, run-time numbers, tuples of operands |
//! | `packed.rs` | matrices packed before their products |
//! | `words.rs` | texts of errors; division of integers that refuses 0 |
//! | `threads.rs` | the same bits for any number of threads |
//! | `random.rs` | random expressions on random views, fused and step by step |
//!
//! Under MemorySanitizer (`rankform_plain_stores`) it is half of them: it runs no others, and all need 25 GB
//! to compile. Long tests run some of their cases there (`IS_SANITIZED`).
//!
//! All of it runs under the checking allocator of `common/alloc.rs`, which sees a write past the end of a
//! block.

#[path = "../common/alloc.rs"]
mod alloc;
mod along;
mod arrange;
mod arrays;
#[cfg(not(rankform_plain_stores))]
mod complex;
mod contract;
mod conv;
#[cfg(not(rankform_plain_stores))]
mod convert;
mod edges;
mod einsum;
#[cfg(not(rankform_plain_stores))]
mod generic;
mod indexing;
#[cfg(not(rankform_plain_stores))]
mod into;
mod linear;
mod movement;
#[cfg(not(rankform_plain_stores))]
mod neural;
#[cfg(not(rankform_plain_stores))]
mod normalize;
mod operands;
mod ordering;
mod own;
#[cfg(not(rankform_plain_stores))]
mod packed;
#[cfg(not(rankform_plain_stores))]
mod parametric;
mod place;
#[cfg(not(rankform_plain_stores))]
mod pooling;
#[cfg(not(rankform_plain_stores))]
mod positions;
#[cfg(not(rankform_plain_stores))]
mod random;
mod reduce;
#[cfg(not(rankform_plain_stores))]
mod reducer_slopes;
#[cfg(not(rankform_plain_stores))]
mod runs;
mod scans;
#[cfg(not(rankform_plain_stores))]
mod slopes;
#[cfg(not(rankform_plain_stores))]
mod table;
mod threads;
#[cfg(not(rankform_plain_stores))]
mod truth;
mod value;
mod words;

/// Whether MemorySanitizer is on, under which loops take fifty times as long: tests run some of their cases, or
/// smaller ones.
const IS_SANITIZED: bool = cfg!(rankform_plain_stores);

/// Whether a case is run: under MemorySanitizer one of `n`.
fn is_sampled(case: usize, n: usize) -> bool {
    !IS_SANITIZED || case.is_multiple_of(n)
}

/// The cases that are run: under MemorySanitizer the first of each `n`.
fn sampled<I: IntoIterator>(cases: I, n: usize) -> impl Iterator<Item = I::Item> {
    cases.into_iter().enumerate().filter(move |(case, _)| is_sampled(*case, n)).map(|(_, case)| case)
}
