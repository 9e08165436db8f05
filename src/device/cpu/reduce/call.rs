//! The compiled loops of one body and reducer, and a call of them, with their types erased.
// Imports: `element`, `kernel`.

use super::accumulators::AccumulatorFns;
use super::operands::{ColumnStrips, EquidistantRows, ReduceInputs};
use crate::element::Compute;
use crate::kernel::{Body, Reducer};

/// The loops of one body and reducer, with their types erased: one over rows, one over columns, and the
/// functions of accumulators.
#[derive(Clone, Copy)]
pub(crate) struct ReduceKernel<'a> {
    pub(crate) rows: unsafe fn(body: *const (), rows: &EquidistantRows),
    pub(crate) columns: unsafe fn(body: *const (), strips: &ColumnStrips),
    pub(crate) accumulators: AccumulatorFns<'a>,
    /// The number of reduced elements that count as one unit of work when a call is split into tasks; a unit
    /// is the work of a program that computes and stores one element. A cheap reduction only reads, so its
    /// elements count for less, and narrow elements for least.
    pub(crate) work_unit: usize,
}

impl ReduceKernel<'_> {
    pub(crate) const fn work_unit_elements<B: Body, R: Reducer<B::Out>>() -> usize {
        match size_of::<Compute<B::Out>>() {
            _ if !B::CHEAP || !R::CHEAP => 1,
            0..=4 => 8,
            _ => 4,
        }
    }
}

/// A kernel with its body and operands, without their types: everything in `impl ReduceCall` is compiled
/// once.
pub(crate) struct ReduceCall<'a> {
    pub(crate) kernel: &'a ReduceKernel<'a>,
    pub(crate) body: *const (),
    pub(crate) operands: ReduceInputs<'a>,
}
// SAFETY: bodies are `Send + Sync` by the bounds of their trait, and outlive the call; addresses are followed
// only as the caller of `run_kernel` promised.
unsafe impl Sync for ReduceCall<'_> {}
