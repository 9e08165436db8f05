//! Axes of several operands, merged to as few as possible. Pure arithmetic.
//!
//! The CPU engine keeps them in arrays of a fixed length, because allocations would dominate the cost of a
//! small call there.
// Imports: `layout`, `device`.

use crate::device::OperandRef;
use crate::layout::coalesce;
use std::sync::LazyLock;

/// Positions and strides up to this one have 32 bits. The margin is for the positions of the last block.
pub(in crate::device::cuda) const MAX_NARROW: usize = (i32::MAX / 2) as usize;

/// The axes of an iteration space of several operands, from the slowest to the fastest. Strides are in
/// elements.
#[derive(Clone, Debug, Default)]
pub(in crate::device::cuda) struct Axes {
    pub(in crate::device::cuda) sizes: Vec<usize>,
    /// `strides[operand][axis]`.
    pub(in crate::device::cuda) strides: Vec<Vec<isize>>,
}

impl Axes {
    /// The axes whose size is not 1. Two neighbors are merged if every operand is contiguous over both.
    /// `strides[k]` are the strides of operand `k`; an empty slice means that it is broadcast along all axes.
    /// The axes keep their order, or, `by_first`, are sorted by decreasing strides of operand 0.
    pub(in crate::device::cuda) fn coalesced(sizes: &[usize], strides: &[&[isize]], by_first: bool) -> Axes {
        let stride = |own: &[isize], axis: usize| own.get(axis).copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != 1).collect();
        let mut axes = Axes { sizes: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        let add = |axis: usize, is_merged: bool| {
            let size = if is_merged { axes.pop().numel() } else { 1 };
            axes.sizes.push(size * sizes[axis]);
            for (merged, own) in axes.strides.iter_mut().zip(strides) {
                merged.push(stride(own, axis));
            }
        };
        let by = (by_first && !strides.is_empty()).then_some(0);
        coalesce(&mut order, by, strides.len(), |axis| sizes[axis], |k, axis| stride(strides[k], axis), add);
        axes
    }

    /// The coalesced axes of operands.
    pub(in crate::device::cuda) fn of(sizes: &[usize], operands: &[OperandRef<'_>], by_first: bool) -> Axes {
        let strides: Vec<_> = operands.iter().map(|operand| operand.stride).collect();
        Axes::coalesced(sizes, &strides, by_first)
    }

    pub(in crate::device::cuda) fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub(in crate::device::cuda) fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The stride of an operand along the fastest axis; 0 without axes.
    pub(in crate::device::cuda) fn inner_stride(&self, operand: usize) -> isize {
        self.strides[operand].last().copied().unwrap_or(0)
    }

    /// Removes the fastest axis and returns it; an axis of size 1 without axes.
    pub(in crate::device::cuda) fn pop(&mut self) -> Axes {
        let size = self.sizes.pop().unwrap_or(1);
        Axes {
            sizes: vec![size],
            strides: self.strides.iter_mut().map(|steps| vec![steps.pop().unwrap_or(0)]).collect(),
        }
    }

    /// The same axes with vectors of `count` neighbors along the fastest as elements.
    pub(in crate::device::cuda) fn chunked(&self, count: usize) -> Axes {
        let mut chunks = self.clone();
        chunks.sizes.iter_mut().rev().take(1).for_each(|size| *size = size.div_ceil(count));
        chunks
            .strides
            .iter_mut()
            .flat_map(|steps| steps.last_mut())
            .for_each(|step| *step = step.wrapping_mul(count as isize));
        chunks
    }

    /// The fastest axis alone; an axis of size 1 without axes.
    pub(in crate::device::cuda) fn fastest(&self) -> Axes {
        self.clone().pop()
    }

    /// The largest distance of an operand's elements from the first, in elements, or more.
    pub(in crate::device::cuda) fn reach(&self, operand: usize) -> usize {
        let reach =
            |(&step, &size): (&isize, &usize)| step.unsigned_abs().saturating_mul(size.saturating_sub(1));
        self.strides[operand].iter().zip(&self.sizes).map(reach).fold(0usize, usize::saturating_add)
    }
}

/// Whether all positions have 64 bits, by a variable. Tests reach such kernels without tensors of gigabytes.
fn is_always_wide() -> bool {
    static WIDE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("RANKFORM_CUDA_WIDE").is_some());
    *WIDE
}

/// Whether a position in one of `groups`, or the offset of an operand along all of them and `beyond`, needs
/// 64 bits. Every group has the same operands.
pub(in crate::device::cuda) fn is_wide(groups: &[&Axes], beyond: usize) -> bool {
    let operands = groups.first().map_or(0, |axes| axes.strides.len());
    let reach = |operand| groups.iter().map(|axes| axes.reach(operand)).fold(beyond, usize::saturating_add);
    is_always_wide()
        || groups.iter().any(|axes| axes.numel() > MAX_NARROW)
        || (0..operands).any(|operand| reach(operand) > MAX_NARROW)
}
