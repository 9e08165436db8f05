//! One product of two matrices over groups of axes, and the functions that depend on its elements.
// Imports: `error`.

use super::axis_group::AxisGroup;
use super::panels::{PackFn, PanelLayout, UnpackFn};
use crate::error::Result;

/// One product `out[m, n] = Σₖ left[m, k] · right[k, n]`: three groups of axes, and the address of index 0 of
/// each operand. The output has elements.
#[derive(Clone, Copy)]
pub(super) struct GemmProblem {
    /// Strides in the output and the left operand.
    pub(super) m: AxisGroup<2>,
    /// Strides in the output and the right operand.
    pub(super) n: AxisGroup<2>,
    /// Strides in the left and the right operand.
    pub(super) k: AxisGroup<2>,
    pub(super) out: *mut u8,
    pub(super) left: *const u8,
    pub(super) right: *const u8,
}

// SAFETY: it holds addresses and does not follow them; the functions that do are unsafe (see `Device`, safety
// 2).
unsafe impl Send for GemmProblem {}
// SAFETY: as above.
unsafe impl Sync for GemmProblem {}

impl GemmProblem {
    /// The transposed product: `outᵀ = rightᵀ · leftᵀ`.
    pub(super) fn transposed(&self) -> GemmProblem {
        let GemmProblem { m, n, k, out, left, right } = *self;
        GemmProblem { m: n, n: m, k: k.reordered([1, 0]), out, left: right, right: left }
    }

    /// The number of multiply-adds; saturates.
    pub(super) fn work(&self) -> usize {
        self.m.total().saturating_mul(self.n.total()).saturating_mul(self.k.total())
    }
}

/// Computes a product of one row by packed panels of the right operand, with the bits of a vector times a
/// matrix whose rows are contiguous.
pub(super) type RowByPanelsFn =
    unsafe fn(problem: &GemmProblem, panels: *const u8, layout: PanelLayout) -> Result<()>;

/// Writes sums that are `stride` sums apart, narrowed, to the given offsets of the output. `contiguous` says
/// that the offsets are consecutive.
pub(super) type StoreFn =
    unsafe fn(sums: *const u8, stride: usize, to: *mut u8, offsets: &[isize], contiguous: bool);

/// The conversions from elements to panels and from sums to elements.
#[derive(Clone, Copy)]
pub(super) struct PackFns {
    pub(super) pack_left: PackFn,
    pub(super) pack_right: PackFn,
    /// From panels of the right operand to its elements.
    pub(super) unpack_right: UnpackFn,
    /// The product of one row by panels, for kernels whose sums over `k` must have the bits of a GEMV.
    pub(super) row_by_panels: Option<RowByPanelsFn>,
    pub(super) store: StoreFn,
    /// Bytes of an element of the output.
    pub(super) out_nbytes: usize,
    /// Whether the elements of both operands are units of the kernel.
    pub(super) units_are_elements: bool,
    /// Whether the elements of the output are the kernel's sums.
    pub(super) sums_are_elements: bool,
}
