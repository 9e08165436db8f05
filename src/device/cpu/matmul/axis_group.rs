//! A group of axes that several operands share: its axes count as one axis, and it gives the offsets of
//! consecutive indices.
// Imports: `layout`, `kernel`.

use crate::kernel::MAX_GROUP;
use crate::layout::coalesce;
use std::ops::Range;

/// The most axes of a group: its own, and those of the batch that are moved into it.
const GROUP_AXES: usize = 2 * MAX_GROUP;

/// Sizes of some axes, from the outermost to the innermost, and their strides in each of `N` operands, in
/// elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisGroup<const N: usize> {
    count: usize,
    size: [usize; GROUP_AXES],
    stride: [[isize; N]; GROUP_AXES],
}

impl<const N: usize> AxisGroup<N> {
    pub(super) fn new() -> Self {
        AxisGroup { count: 0, size: [1; GROUP_AXES], stride: [[0; N]; GROUP_AXES] }
    }

    /// Adds an axis as the innermost. An axis of size 1 is left out.
    pub(super) fn push(&mut self, size: usize, stride: [isize; N]) {
        if size != 1 {
            (self.size[self.count], self.stride[self.count]) = (size, stride);
            self.count += 1;
        }
    }

    /// Orders the axes by decreasing strides of operand `first`, and merges neighbors that are contiguous in
    /// every operand.
    pub(super) fn coalesce(&mut self, first: usize) {
        if self.count <= 1 {
            return; // the most frequent case; a group takes hundreds of bytes, which are not copied then
        }
        let mut order = [0; GROUP_AXES];
        for axis in 1..self.count {
            order[axis] = axis;
        }
        let mut merged = AxisGroup::new();
        let add = |axis: usize, is_merged: bool| {
            let last = if is_merged { merged.count - 1 } else { merged.count };
            merged.size[last] *= self.size[axis];
            merged.stride[last] = self.stride[axis];
            merged.count = last + 1;
        };
        let axes = &mut order[..self.count];
        coalesce(axes, Some(first), N, |axis| self.size[axis], |k, axis| self.stride[axis][k], add);
        *self = merged;
    }

    /// Moves the axes whose strides satisfy `test` to `take`, and keeps the others.
    pub(super) fn drain_if(
        &mut self,
        test: impl Fn([isize; N]) -> bool,
        mut take: impl FnMut(usize, [isize; N]),
    ) {
        let mut kept = 0;
        for axis in 0..self.count {
            let (size, stride) = (self.size[axis], self.stride[axis]);
            (self.size[axis], self.stride[axis]) = (1, [0; N]);
            if test(stride) {
                take(size, stride);
            } else {
                (self.size[kept], self.stride[kept]) = (size, stride);
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// The number of indices: the product of the sizes.
    pub(super) fn total(&self) -> usize {
        self.size[..self.count].iter().product()
    }

    /// The strides, if there is at most one axis.
    pub(super) fn as_single_axis(&self) -> Option<[isize; N]> {
        (self.count <= 1).then_some(self.stride[0])
    }

    /// The size and the strides of the innermost axis; 1 and 0 without axes.
    pub(super) fn innermost(&self) -> (usize, [isize; N]) {
        let last = self.count.saturating_sub(1);
        (self.size[last], self.stride[last])
    }

    /// The size and the strides of the axis around the innermost one; 1 and 0 if there is none.
    pub(super) fn around_innermost(&self) -> (usize, [isize; N]) {
        match self.count.checked_sub(2) {
            Some(axis) => (self.size[axis], self.stride[axis]),
            None => (1, [0; N]),
        }
    }

    /// The stride of one operand, if all axes are one axis in it.
    pub(super) fn single_stride(&self, operand: usize) -> Option<isize> {
        let axes = 1..self.count.max(1);
        let merges = |axis: usize| {
            let inner = self.stride[axis][operand].wrapping_mul(self.size[axis] as isize);
            self.stride[axis - 1][operand] == inner
        };
        axes.clone().all(merges).then_some(self.stride[axes.end - 1][operand])
    }

    /// The same axes with the operands in another order.
    pub(super) fn reordered<const M: usize>(&self, order: [usize; M]) -> AxisGroup<M> {
        let mut axes = AxisGroup::new();
        for (&size, stride) in self.size.iter().zip(&self.stride).take(self.count) {
            axes.push(size, order.map(|operand| stride[operand]));
        }
        axes
    }

    /// The offsets of index `at` in all operands.
    pub(super) fn offsets_at(&self, at: usize) -> [isize; N] {
        let (mut quotient, mut offsets) = (at, [0isize; N]);
        for axis in (0..self.count).rev() {
            // The outermost axis needs no division.
            let size = if axis == 0 { usize::MAX } else { self.size[axis] };
            let index = if quotient < size { quotient } else { quotient % size };
            for (offset, stride) in offsets.iter_mut().zip(self.stride[axis]) {
                *offset = offset.wrapping_add((index as isize).wrapping_mul(stride));
            }
            if index == quotient {
                break;
            }
            quotient /= size;
        }
        offsets
    }

    /// Writes the offsets in `operand` of the indices from `from` on.
    pub(super) fn offsets(&self, operand: usize, from: usize, to: &mut [isize]) {
        self.for_each_offset(operand, from, to.iter_mut(), |to, offset| *to = offset);
    }

    /// Calls `give` for each item of `to` with the offset in `operand` of the next index, from `from` on.
    pub(super) fn for_each_offset<P>(
        &self,
        operand: usize,
        from: usize,
        to: impl Iterator<Item = P>,
        give: impl Fn(P, isize),
    ) {
        if self.count <= 1 {
            let stride = self.stride[0][operand];
            for (i, to) in to.enumerate() {
                give(to, ((from + i) as isize).wrapping_mul(stride));
            }
            return;
        }
        let (mut index, mut quotient, mut offset) = ([0; GROUP_AXES], from, 0isize);
        for axis in (0..self.count).rev() {
            index[axis] = quotient % self.size[axis];
            quotient /= self.size[axis];
            offset = offset.wrapping_add((index[axis] as isize).wrapping_mul(self.stride[axis][operand]));
        }
        for to in to {
            give(to, offset);
            for axis in (0..self.count).rev() {
                index[axis] += 1;
                offset = offset.wrapping_add(self.stride[axis][operand]);
                if index[axis] < self.size[axis] {
                    break;
                }
                offset = offset.wrapping_sub((index[axis] as isize).wrapping_mul(self.stride[axis][operand]));
                index[axis] = 0;
            }
        }
    }
}

/// Whether the offsets are consecutive.
pub(super) fn is_contiguous(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1))
}

/// The end of the contiguous span that begins at `first`.
pub(super) fn span_end(offsets: &[isize], first: usize) -> usize {
    let next = |at: &usize| offsets.get(*at) != Some(&offsets[at - 1].wrapping_add(1));
    (first + 1..offsets.len()).find(next).unwrap_or(offsets.len())
}

/// Whether the contiguous spans of `offsets` are long enough for a call each. Offsets of windows, for
/// example, jump from one row of an image to the next.
pub(super) fn has_long_spans(offsets: &[isize]) -> bool {
    let ends = offsets.windows(2).filter(|pair| pair[1] != pair[0].wrapping_add(1)).count();
    ends == 0 || (ends + 1) * 8 <= offsets.len()
}

/// Rows, cut into tiles of about the same height. No tile crosses the end of a contiguous span.
#[derive(Clone)]
pub(super) struct RowTiles {
    /// The rows that remain.
    pub(super) rows: Range<usize>,
    /// The end of the span of the first of them.
    pub(super) end: usize,
    /// Rows of a span, and how many rows of the first span come before these.
    pub(super) spans: (usize, usize),
    /// The most rows of a tile.
    pub(super) max_height: usize,
}

impl Iterator for RowTiles {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.rows.start;
        if self.rows.is_empty() {
            return None;
        }
        if start == self.end {
            let (span, before) = self.spans;
            self.end = (start + span - (start + before) % span).min(self.rows.end);
        }
        let left = self.end - start;
        self.rows.start += left.div_ceil(left.div_ceil(self.max_height));
        Some(start..self.rows.start)
    }
}
