//! A group of axes that two operands walk together: few axes, and the offsets of consecutive indices.
// Imports: `kernel`.

use crate::kernel::MAX_GROUP;
use std::ops::Range;

/// A group, and the batch merged into it.
const AXES: usize = 2 * MAX_GROUP;

/// Sizes of some axes, from the slowest to the fastest, and their steps in each of `N` operands, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisGroup<const N: usize> {
    count: usize,
    size: [usize; AXES],
    step: [[isize; N]; AXES],
}

impl<const N: usize> AxisGroup<N> {
    pub(super) fn new() -> Self {
        AxisGroup { count: 0, size: [1; AXES], step: [[0; N]; AXES] }
    }

    /// Adds an axis as the fastest; one of size 1 is none.
    pub(super) fn push(&mut self, size: usize, step: [isize; N]) {
        if size != 1 {
            (self.size[self.count], self.step[self.count]) = (size, step);
            self.count += 1;
        }
    }

    /// Orders the axes by the falling steps of operand `first` and merges neighbors that are one run in every operand.
    pub(super) fn coalesced(mut self, first: usize) -> Self {
        for i in 1..self.count {
            let mut at = i;
            while at > 0 && self.step[at - 1][first].unsigned_abs() < self.step[at][first].unsigned_abs() {
                self.size.swap(at - 1, at);
                self.step.swap(at - 1, at);
                at -= 1;
            }
        }
        let mut merged = AxisGroup::new();
        for (&size, &step) in self.size.iter().zip(&self.step).take(self.count) {
            let last = merged.count.wrapping_sub(1);
            let is_contiguous =
                |before: &[isize; N]| (0..N).all(|op| before[op] == step[op].wrapping_mul(size as isize));
            if merged.count > 0 && is_contiguous(&merged.step[last]) {
                (merged.size[last], merged.step[last]) = (merged.size[last] * size, step);
            } else {
                merged.push(size, step);
            }
        }
        merged
    }

    /// The axes that do not, and that do, satisfy `test`, by their steps.
    pub(super) fn drain(
        &mut self,
        test: impl Fn([isize; N]) -> bool,
        mut take: impl FnMut(usize, [isize; N]),
    ) {
        let before = *self;
        *self = AxisGroup::new();
        for (&size, &step) in before.size.iter().zip(&before.step).take(before.count) {
            if test(step) { take(size, step) } else { self.push(size, step) }
        }
    }

    /// The number of indices.
    pub(super) fn total(&self) -> usize {
        self.size[..self.count].iter().product()
    }

    /// The steps, when there is one axis or none.
    pub(super) fn as_single_axis(&self) -> Option<[isize; N]> {
        (self.count <= 1).then_some(self.step[0])
    }

    /// The size and the steps of the fastest axis; 1 and 0 where there is none.
    pub(super) fn innermost(&self) -> (usize, [isize; N]) {
        let last = self.count.saturating_sub(1);
        (self.size[last], self.step[last])
    }

    /// The same axes with the operands in another order.
    pub(super) fn reordered<const M: usize>(&self, order: [usize; M]) -> AxisGroup<M> {
        let mut axes = AxisGroup::new();
        for (&size, step) in self.size.iter().zip(&self.step).take(self.count) {
            axes.push(size, order.map(|operand| step[operand]));
        }
        axes
    }

    /// Writes the offsets in `operand` of the indices from `from` on.
    pub(super) fn offsets(&self, operand: usize, from: usize, to: &mut [isize]) {
        self.for_each_offset(operand, from, to.iter_mut(), |to, offset| *to = offset);
    }

    /// Gives each of `to` the offset in `operand` of the next index, from `from` on.
    pub(super) fn for_each_offset<P>(
        &self,
        operand: usize,
        from: usize,
        to: impl Iterator<Item = P>,
        give: impl Fn(P, isize),
    ) {
        if self.count <= 1 {
            let step = self.step[0][operand];
            for (i, to) in to.enumerate() {
                give(to, ((from + i) as isize).wrapping_mul(step));
            }
            return;
        }
        let (mut index, mut rest, mut offset) = ([0; AXES], from, 0isize);
        for axis in (0..self.count).rev() {
            index[axis] = rest % self.size[axis];
            rest /= self.size[axis];
            offset = offset.wrapping_add((index[axis] as isize).wrapping_mul(self.step[axis][operand]));
        }
        for to in to {
            give(to, offset);
            for axis in (0..self.count).rev() {
                index[axis] += 1;
                offset = offset.wrapping_add(self.step[axis][operand]);
                if index[axis] < self.size[axis] {
                    break;
                }
                offset = offset.wrapping_sub((index[axis] as isize).wrapping_mul(self.step[axis][operand]));
                index[axis] = 0;
            }
        }
    }
}

/// Whether consecutive offsets are 1 apart.
pub(super) fn is_contiguous(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1))
}

/// The end of the run that begins at `first`.
pub(super) fn span_end(offsets: &[isize], first: usize) -> usize {
    let next = |at: &usize| offsets.get(*at) != Some(&offsets[at - 1].wrapping_add(1));
    (first + 1..offsets.len()).find(next).unwrap_or(offsets.len())
}

/// Whether each run of `offsets` is worth a call: windows cross from one row of an image to the next.
pub(super) fn has_long_spans(offsets: &[isize]) -> bool {
    let ends = offsets.windows(2).filter(|pair| pair[1] != pair[0].wrapping_add(1)).count();
    ends == 0 || (ends + 1) * 8 <= offsets.len()
}

/// Rows cut into tiles of about the same height, none of which goes past the end of a run.
#[derive(Clone)]
pub(super) struct RowTiles {
    /// Those that are left, and the end of the run that they begin in.
    pub(super) rows: Range<usize>,
    pub(super) end: usize,
    /// Rows of a run, and how many of the first one are not among these.
    pub(super) run: (usize, usize),
    pub(super) highest: usize,
}

impl Iterator for RowTiles {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.rows.start;
        if self.rows.is_empty() {
            return None;
        }
        if start == self.end {
            let (run, before) = self.run;
            self.end = (start + run - (start + before) % run).min(self.rows.end);
        }
        let left = self.end - start;
        self.rows.start += left.div_ceil(left.div_ceil(self.highest));
        Some(start..self.rows.start)
    }
}
