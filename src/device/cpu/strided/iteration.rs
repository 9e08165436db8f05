//! The iteration space of several operands of the same sizes: a few axes, coalesced from many.
//!
//! Axes of size 1 are dropped. The others are sorted by the strides of the first operand (the output), so
//! that memory is written in order. Neighboring axes that are contiguous in *every* operand are merged. Most
//! operations end with a single axis.
// Imports: `layout`, `device`.

use crate::device::{MAX_AXES, MAX_OPERANDS, OperandRef};
use crate::layout::coalesce;
use std::ops::Range;

/// The axes that an iteration space holds. [`for_each_space`] loops over any further axes one index at a
/// time.
const AXES: usize = MAX_AXES;

/// One address for each operand; the last points to the cached values of a row.
pub(crate) type Pointers = [*mut u8; MAX_OPERANDS + 1];

/// One stride in bytes for each address.
pub(crate) type ByteStrides = [isize; MAX_OPERANDS + 1];

/// The strides of a call that has a single row.
pub(crate) const ZERO_STRIDES: ByteStrides = [0; MAX_OPERANDS + 1];

/// Several operands of the same sizes: axes from the slowest to the fastest, strides in bytes.
#[derive(Clone, Copy)]
pub(crate) struct IterSpace {
    rank: usize,
    sizes: [usize; AXES],
    steps: [[isize; MAX_OPERANDS]; AXES],
    operands: usize,
    pub(crate) address: Pointers,
}

// SAFETY: the space contains addresses only; the code that dereferences them is responsible for it (see
// `Device`, safety 2).
unsafe impl Send for IterSpace {}
// SAFETY: as above.
unsafe impl Sync for IterSpace {}

/// The order of the axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisOrder {
    /// By decreasing strides of the first operand, the output: memory is written in order.
    OfOutput,
    /// As they are given.
    RowMajor,
}

/// Calls `f` with iteration spaces that together cover every index inside `sizes` once; with none when a size
/// is 0.
///
/// One space suffices for up to 12 axes that do not merge. `f` gets a reference, because a space takes
/// thousands of bytes.
pub(crate) fn for_each_space(
    sizes: &[usize],
    slots: &[OperandRef<'_>],
    order: AxisOrder,
    f: &mut dyn FnMut(&IterSpace),
) {
    if sizes.contains(&0) {
        return;
    }
    let mut address = [std::ptr::null_mut(); MAX_OPERANDS + 1];
    for (address, slot) in address.iter_mut().zip(slots) {
        *address = slot.address;
    }
    let spare = sizes.len().saturating_sub(AXES);
    for_each_outer(sizes, slots, order, address, 0..spare, f);
}

/// The iteration space of sizes for which one suffices, for instance those of a row. `None` when a size is 0.
pub(crate) fn single_space(sizes: &[usize], slots: &[OperandRef<'_>], order: AxisOrder) -> Option<IterSpace> {
    let mut only = None;
    for_each_space(sizes, slots, order, &mut |space| {
        assert!(only.replace(*space).is_none(), "the axes of a row fit one space");
    });
    only
}

/// Calls `f` with the spaces over the last axes, one for each index of the axes `spare`.
fn for_each_outer(
    sizes: &[usize],
    slots: &[OperandRef<'_>],
    order: AxisOrder,
    address: Pointers,
    spare: Range<usize>,
    f: &mut dyn FnMut(&IterSpace),
) {
    let Range { start: axis, end } = spare;
    if axis == end {
        return f(&IterSpace::new(sizes, slots, order, address, end));
    }
    for index in 0..sizes[axis] {
        let mut moved = address;
        for (address, slot) in moved.iter_mut().zip(slots) {
            *address = address.wrapping_offset((index as isize).wrapping_mul(byte_stride(slot, axis)));
        }
        for_each_outer(sizes, slots, order, moved, axis + 1..end, f);
    }
}

/// The stride of an operand along an axis, in bytes.
pub(crate) fn byte_stride(slot: &OperandRef<'_>, axis: usize) -> isize {
    slot.stride[axis].wrapping_mul(slot.element as isize)
}

impl IterSpace {
    /// The space over the axes from `from` on; there are at most `AXES` of them.
    fn new(
        sizes: &[usize],
        slots: &[OperandRef<'_>],
        order: AxisOrder,
        address: Pointers,
        from: usize,
    ) -> IterSpace {
        let mut space = IterSpace {
            rank: 0,
            sizes: [1; AXES],
            steps: [[0; MAX_OPERANDS]; AXES],
            operands: slots.len(),
            address,
        };
        let (mut axes, mut count) = ([0; AXES], 0);
        for axis in (from..sizes.len()).filter(|&axis| sizes[axis] != 1) {
            axes[count] = axis;
            count += 1;
        }
        let by = (order == AxisOrder::OfOutput && !slots.is_empty()).then_some(0);
        space.add(&mut axes[..count], by, |axis| sizes[axis], |k, axis| byte_stride(&slots[k], axis));
        space
    }

    /// Adds coalesced axes.
    #[inline(always)]
    fn add(
        &mut self,
        axes: &mut [usize],
        by: Option<usize>,
        size: impl Fn(usize) -> usize,
        stride: impl Fn(usize, usize) -> isize,
    ) {
        let operands = self.operands;
        coalesce(axes, by, operands, &size, &stride, |axis, is_merged| {
            let at = if is_merged { self.rank - 1 } else { self.rank };
            self.sizes[at] = if is_merged { self.sizes[at] * size(axis) } else { size(axis) };
            for k in 0..operands {
                self.steps[at][k] = stride(k, axis);
            }
            self.rank = at + 1;
        });
    }

    /// The same space at other addresses.
    pub(crate) fn from(&self, address: Pointers) -> IterSpace {
        IterSpace { address, ..*self }
    }

    /// The number of indices.
    pub(crate) fn numel(&self) -> usize {
        self.sizes[..self.rank].iter().product()
    }

    /// The size of the fastest axis; 1 without axes.
    pub(crate) fn inner(&self) -> usize {
        self.sizes[..self.rank].last().copied().unwrap_or(1)
    }

    /// The stride of operand `k` along the fastest axis, in bytes.
    pub(crate) fn inner_step(&self, k: usize) -> isize {
        if self.rank == 0 { 0 } else { self.steps[self.rank - 1][k] }
    }

    /// Whether operand `k`, of elements of `element` bytes, is contiguous over the whole space.
    pub(crate) fn is_linear(&self, k: usize, element: usize) -> bool {
        self.is_equidistant(k, element as isize)
    }

    /// Whether the elements of operand `k` are `step` bytes apart over the whole space.
    pub(crate) fn is_equidistant(&self, k: usize, step: isize) -> bool {
        let mut expected = step;
        (0..self.rank).rev().all(|axis| {
            let fits = self.steps[axis][k] == expected;
            expected = expected.wrapping_mul(self.sizes[axis] as isize);
            fits
        })
    }

    /// An axis, other than the fastest, along which operand `k` of elements of `element` bytes is contiguous:
    /// the operand is transposed.
    pub(crate) fn transposed_axis(&self, k: usize, element: usize) -> Option<usize> {
        (0..self.rank.saturating_sub(1))
            .rev()
            .find(|&axis| self.steps[axis][k] == element as isize && self.sizes[axis] > 1)
    }

    /// Whether the space reaches elements of operand `k` that lie between those of one row.
    pub(crate) fn has_gaps_within_row(&self, k: usize) -> bool {
        let inner = self.inner_step(k).unsigned_abs();
        (0..self.rank.saturating_sub(1))
            .any(|axis| self.sizes[axis] > 1 && (1..inner).contains(&self.steps[axis][k].unsigned_abs()))
    }

    /// Whether operands `k` and `other`, of elements of `element` and `of_other` bytes, have the same strides
    /// in elements.
    pub(crate) fn same_element_steps(&self, k: usize, element: usize, other: usize, of_other: usize) -> bool {
        self.steps[..self.rank].iter().all(|steps| {
            steps[k].wrapping_mul(of_other as isize) == steps[other].wrapping_mul(element as isize)
        })
    }

    /// Whether every row of operand `k` begins at a multiple of `to` bytes.
    pub(crate) fn is_aligned(&self, k: usize, to: usize) -> bool {
        let outer = &self.steps[..self.rank.saturating_sub(1)];
        self.address[k].addr().is_multiple_of(to)
            && outer.iter().all(|steps| steps[k].unsigned_abs().is_multiple_of(to))
    }

    /// The axis before the fastest, if it exists.
    pub(crate) fn outer_axis(&self) -> Option<usize> {
        self.rank.checked_sub(2)
    }

    /// The size of an axis.
    pub(crate) fn size(&self, axis: usize) -> usize {
        self.sizes[axis]
    }

    /// The stride of operand `k` along an axis, in bytes.
    pub(crate) fn step(&self, axis: usize, k: usize) -> isize {
        self.steps[axis][k]
    }

    /// The space over all axes but `axis` and the fastest.
    pub(crate) fn outer_space(&self, axis: Option<usize>) -> IterSpace {
        let mut outer = *self;
        outer.rank = 0;
        for other in (0..self.rank.saturating_sub(1)).filter(|&other| Some(other) != axis) {
            outer.sizes[outer.rank] = self.sizes[other];
            outer.steps[outer.rank] = self.steps[other];
            outer.rank += 1;
        }
        outer
    }

    /// Whether there are several rows, and operand `k` is the same in all of them.
    pub(crate) fn is_broadcast_row(&self, k: usize) -> bool {
        self.rank > 1 && (0..self.rank - 1).all(|axis| self.step(axis, k) == 0)
    }

    /// Bytes from one row of operand `k` to the next, along the axis before the fastest; without that axis,
    /// the bytes of a row.
    pub(crate) fn row_stride(&self, k: usize) -> isize {
        self.outer_axis()
            .map_or_else(|| self.inner_step(k).wrapping_mul(self.inner() as isize), |axis| self.step(axis, k))
    }

    /// Whether there is at most one axis.
    pub(crate) fn is_line(&self) -> bool {
        self.rank <= 1
    }

    /// The space in which `times` rows of the two fastest axes are one row, and the space of the remaining
    /// rows. Each operand is contiguous over both axes, or broadcast along the slower one; the caller
    /// replaces a broadcast operand by a contiguous row.
    pub(crate) fn repeated(&self, times: usize, slots: &[OperandRef<'_>]) -> [Option<IterSpace>; 2] {
        let (rows, n) = (self.sizes[self.rank - 2], self.sizes[self.rank - 1]);
        let mut down = self.steps[self.rank - 2];
        for step in &mut down[..self.operands] {
            *step = step.wrapping_mul(times as isize);
        }
        let (high, left) = (rows / times, rows % times);
        let (mut whole, mut rest) = (IterSpace { rank: 0, ..*self }, IterSpace { rank: 0, ..*self });
        let stride = |k: usize, axis: usize| if axis == 0 { down[k] } else { slots[k].element as isize };
        let axes = if high > 1 { 0..2 } else { 1..2 };
        whole.add(&mut [0, 1][axes], None, |axis| [high, times * n][axis], stride);
        rest.add(&mut [1], None, |_| left * n, stride);
        for k in 0..self.operands {
            rest.address[k] = rest.address[k].wrapping_offset(down[k].wrapping_mul(high as isize));
        }
        [(high > 0).then_some(whole), (left > 0).then_some(rest)]
    }

    /// The index of position `at`, axis by axis.
    pub(crate) fn index_of(&self, mut at: usize) -> SpacePosition {
        let mut index = SpacePosition { at: [0; AXES] };
        for axis in (0..self.rank).rev() {
            index.at[axis] = at % self.sizes[axis];
            at /= self.sizes[axis];
        }
        index
    }

    /// The address of operand `k` at `index`.
    pub(crate) fn address_at(&self, k: usize, index: &SpacePosition) -> *mut u8 {
        let axes = 0..self.rank;
        let offset = axes.fold(0isize, |sum, axis| {
            sum.wrapping_add((index.at[axis] as isize).wrapping_mul(self.steps[axis][k]))
        });
        self.address[k].wrapping_offset(offset)
    }

    /// The address of every operand at `index`; null for operands that do not exist.
    #[inline(never)] // the loops around it are long
    pub(crate) fn addresses_at(&self, index: &SpacePosition) -> Pointers {
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS + 1];
        for k in 0..self.operands {
            addresses[k] = self.address_at(k, index);
        }
        addresses
    }

    /// Moves `index` by `count` positions along the fastest axis, with carry.
    pub(crate) fn advance(&self, index: &mut SpacePosition, count: usize) {
        let mut carry = count;
        for axis in (0..self.rank).rev() {
            let (at, size) = (index.at[axis] + carry, self.sizes[axis]);
            if at < size {
                index.at[axis] = at;
                return;
            }
            // A division would cost as much as a short row.
            (index.at[axis], carry) = if at - size < size { (at - size, 1) } else { (at % size, at / size) };
        }
    }

    /// The number of positions from `index` to the end of its row.
    pub(crate) fn left_in_row(&self, index: &SpacePosition) -> usize {
        if self.rank == 0 { 1 } else { self.sizes[self.rank - 1] - index.at[self.rank - 1] }
    }

    /// The number of rows from that of `index` to the end of the axis before the fastest.
    pub(crate) fn rows_left(&self, index: &SpacePosition) -> usize {
        self.outer_axis().map_or(1, |axis| self.sizes[axis] - index.at[axis])
    }

    /// The number of positions from `index` on.
    pub(crate) fn numel_from(&self, index: &SpacePosition) -> usize {
        let before = (0..self.rank).fold(0, |before, axis| before * self.sizes[axis] + index.at[axis]);
        self.numel() - before
    }

    /// Part number `part` of `parts` parts of similar sizes; `None` if there are fewer indices.
    ///
    /// The space is halved along its slowest axis of at least two indices, until it is one part.
    pub(super) fn part(&self, mut part: usize, mut parts: usize) -> Option<IterSpace> {
        let mut space = *self;
        while parts > 1 {
            let Some(axis) = (0..space.rank).find(|&axis| space.sizes[axis] > 1) else {
                return (part == 0).then_some(space);
            };
            let (size, half) = (space.sizes[axis], parts / 2);
            // size · half / parts, in an order that cannot overflow.
            let size = (size / parts * half + size % parts * half / parts).max(1);
            if part < half {
                (space.sizes[axis], parts) = (size, half);
            } else {
                space.sizes[axis] -= size;
                space.skip(axis, size);
                (part, parts) = (part - half, parts - half);
            }
        }
        Some(space)
    }

    /// Moves the addresses by `count` indices of an axis.
    fn skip(&mut self, axis: usize, count: usize) {
        for k in 0..self.operands {
            self.address[k] =
                self.address[k].wrapping_offset((count as isize).wrapping_mul(self.steps[axis][k]));
        }
    }

    /// The first `first` indices of the fastest axis, and the others.
    pub(crate) fn cut_inner(&self, first: usize) -> (IterSpace, IterSpace) {
        let (axis, mut front, mut back) = (self.rank - 1, *self, *self);
        front.sizes[axis] = first;
        back.sizes[axis] -= first;
        back.skip(axis, first);
        (front, back)
    }
}

/// A position in an iteration space.
#[derive(Clone, Copy)]
pub(crate) struct SpacePosition {
    at: [usize; AXES],
}

/// The number of indices inside `sizes`, saturated.
pub(crate) fn numel(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |product, &size| product.saturating_mul(size))
}

/// The number of indices, if every operand is contiguous in row-major order. Then no [`IterSpace`] is needed,
/// and its cost is saved.
pub(crate) fn contiguous_numel(
    sizes: &[usize],
    outputs: &[OperandRef<'_>],
    inputs: &[OperandRef<'_>],
) -> Option<usize> {
    let is_run = |slot: &OperandRef<'_>| {
        let mut expected = 1;
        sizes.iter().zip(slot.stride).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected = expected.wrapping_mul(size as isize);
            fits
        })
    };
    (outputs.iter().all(is_run) && inputs.iter().all(is_run)).then(|| numel(sizes))
}

/// The number of indices inside `sizes`, if they form one axis for every operand; not if it is 0. It also
/// sets the stride of each operand along that axis in bytes, where `steps` was 0. The first of `sizes`
/// belongs to axis `first` of the operands.
pub(crate) fn as_single_axis(
    sizes: &[usize],
    first: usize,
    slots: &[OperandRef<'_>],
    steps: &mut [isize; MAX_OPERANDS],
) -> Option<usize> {
    let mut total = 1usize;
    for (axis, &size) in sizes.iter().enumerate().rev().filter(|&(_, &size)| size != 1) {
        for (steps, slot) in steps.iter_mut().zip(slots) {
            let here = byte_stride(slot, first + axis);
            if total == 1 {
                *steps = here;
            } else if here != steps.wrapping_mul(total as isize) {
                return None;
            }
        }
        total = total.saturating_mul(size);
    }
    (total > 0).then_some(total)
}
