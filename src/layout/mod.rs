//! `Layout<RANK>`: the function from an index to a position in memory, in elements.
//!
//! Pure integer arithmetic: no memory, no device, no `unsafe`.
// Imports: `error`, `dim`.   Laws: see each function, checked in `tests/tensors/laws_layout.rs`.

mod coalesce;
mod memory_format;
mod overlap;
mod views;

pub(crate) use coalesce::coalesce;
pub use memory_format::MemoryFormat;

use crate::dim::{Dim, Stride};
use crate::error::{Error, Result};

/// Sizes, strides and offset: the function `index ↦ offset + Σ index[a] · stride[a]`, in elements.
///
/// Invariants: (1) every position of an index inside `size` lies in `0..isize::MAX`, and all partial sums
/// over the axes do too; the offset of an empty layout lies in `0..=isize::MAX`; (2) the product of the
/// non-zero sizes is at most `isize::MAX`.
///
/// # Examples
/// ```
/// use rankform::Layout;
/// let x = Layout::contiguous([2, 3])?;
/// assert_eq!(x.position([1, 2]), Some(5));
/// assert_eq!(x.permuted([1, 0])?.position([2, 1]), Some(5));
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout<const RANK: usize> {
    size: Dim<RANK>,
    stride: Stride<RANK>,
    offset: usize,
}

impl<const RANK: usize> Layout<RANK> {
    /// Row-major: the last axis has stride 1.
    ///
    /// Law: `position(index) = size.linearize(index)`.
    ///
    /// # Errors
    /// [`Error::Overflow`] when the elements cannot be counted in an `isize`.
    pub fn contiguous(size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = size.into();
        size.numel_of("contiguous", 1)?;
        Ok(Self::row_major(size))
    }

    /// Row-major strides, after a check that the elements of `element` bytes can be counted.
    #[inline]
    pub(crate) fn row_major_of(op: &'static str, size: Dim<RANK>, element: usize) -> Result<Self> {
        size.numel_of(op, element)?;
        Ok(Self::row_major(size))
    }

    /// Row-major strides of sizes that are known to satisfy invariant 2.
    #[inline]
    pub(crate) fn row_major(size: Dim<RANK>) -> Self {
        let (mut stride, mut step) = ([0; RANK], 1isize);
        for axis in (0..RANK).rev() {
            stride[axis] = step;
            step = step.saturating_mul(size.0[axis].max(1) as isize);
        }
        Layout { size, stride: Stride(stride), offset: 0 }
    }

    /// A dense layout whose axes are stored in `order`, slowest first. A size of 0 counts as 1 in the
    /// strides.
    #[inline]
    pub(crate) fn dense(size: Dim<RANK>, order: [usize; RANK]) -> Self {
        let (mut stride, mut step) = ([0; RANK], 1isize);
        for place in (0..RANK).rev() {
            let axis = order[place];
            stride[axis] = step;
            step = step.saturating_mul(size.0[axis].max(1) as isize);
        }
        Layout { size, stride: Stride(stride), offset: 0 }
    }

    /// Any sizes, strides and offset whose positions are not negative and fit an `isize`.
    ///
    /// Law: accepted exactly when the elements can be counted and every position, computed in unbounded
    /// integers, lies in `0..isize::MAX`. An empty layout has no positions; its offset lies in
    /// `0..=isize::MAX`.
    ///
    /// # Errors
    /// [`Error::Overflow`] or [`Error::Bounds`].
    pub fn new(size: impl Into<Dim<RANK>>, stride: impl Into<Stride<RANK>>, offset: usize) -> Result<Self> {
        Self::within("Layout::new", size.into(), stride.into(), offset as i128, isize::MAX as usize)
    }

    /// As [`Layout::new`], with every position below `len`; the offset of an empty layout is at most `len`.
    /// `as_strided` accepts these layouts.
    ///
    /// # Errors
    /// [`Error::Overflow`] or [`Error::Bounds`].
    pub fn within(
        op: &'static str,
        size: Dim<RANK>,
        stride: Stride<RANK>,
        offset: i128,
        len: usize,
    ) -> Result<Self> {
        size.numel_of(op, 1)?;
        let outside = || Error::Bounds { op, sizes: size.0.into(), strides: stride.0.into(), offset, len };
        let end = len.min(isize::MAX as usize) as i128; // no memory is longer
        if !(0..=end).contains(&offset) {
            return Err(outside()); // the sums below cannot overflow: all reaches together are less than 2¹²⁶
        }
        let layout = Layout { size, stride, offset: offset as usize };
        if size.0.contains(&0) {
            return Ok(layout);
        }
        let (mut low, mut high) = (offset, offset);
        for axis in 0..RANK {
            let reach = (size.0[axis] as i128 - 1) * stride.0[axis] as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        if low < 0 || high >= end { Err(outside()) } else { Ok(layout) }
    }

    /// A layout from its parts; the caller keeps the invariants.
    #[cfg(feature = "dynamic")]
    #[inline]
    pub(crate) const fn from_parts(size: Dim<RANK>, stride: Stride<RANK>, offset: usize) -> Self {
        Layout { size, stride, offset }
    }

    /// Sizes, first axis first.
    #[inline]
    pub const fn size(&self) -> Dim<RANK> {
        self.size
    }

    /// Strides in elements.
    #[inline]
    pub const fn stride(&self) -> Stride<RANK> {
        self.stride
    }

    /// Sizes and strides, borrowed.
    pub(crate) fn sizes_and_strides(&self) -> (&[usize], &[isize]) {
        (&self.size.0, &self.stride.0)
    }

    /// Position of index `[0; RANK]`, in elements.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Number of indices.
    #[inline]
    pub fn numel(&self) -> usize {
        self.size.0.iter().product()
    }

    /// The position of `index`, or `None` outside the sizes.
    #[inline]
    pub fn position(&self, index: impl Into<Dim<RANK>>) -> Option<usize> {
        let index = index.into();
        self.size.contains(index).then(|| self.at(index.0))
    }

    /// The position of an index inside the sizes, which the caller has checked.
    #[inline]
    pub(crate) fn at(&self, index: [usize; RANK]) -> usize {
        let steps = (0..RANK).map(|axis| (index[axis] as isize).wrapping_mul(self.stride.0[axis]));
        steps.fold(self.offset as isize, isize::wrapping_add) as usize
    }

    /// The lowest position and one past the highest: `start..end` covers every element, and is empty when
    /// there are none.
    ///
    /// Law: `min` and `max + 1` of all positions.
    pub fn span(&self) -> std::ops::Range<usize> {
        if self.size.0.contains(&0) {
            return self.offset..self.offset;
        }
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for axis in 0..RANK {
            let reach = (self.size.0[axis] as isize - 1).wrapping_mul(self.stride.0[axis]);
            if reach < 0 { low += reach } else { high += reach }
        }
        low as usize..high as usize + 1
    }

    /// Whether row-major order visits consecutive positions. Axes of size 1 never decide; empty layouts are
    /// contiguous.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for axis in (0..RANK).rev() {
            let size = self.size.0[axis];
            if size != 1 && self.stride.0[axis] != step {
                return self.size.0.contains(&0);
            }
            step *= size as isize;
        }
        true
    }

    /// Whether the layout is dense when its axes are stored in `order`, slowest first.
    #[inline]
    fn is_dense_in(&self, order: [usize; RANK]) -> bool {
        if self.size.0.contains(&0) {
            return true;
        }
        let (mut step, mut dense) = (1, true);
        for place in (0..RANK).rev() {
            let (size, stride) = (self.size.0[order[place]], self.stride.0[order[place]]);
            dense &= size == 1 || stride == step;
            step *= size as isize;
        }
        dense
    }

    /// The axes from the slowest to the fastest: by falling |stride|, ties in axis order; axes of size 1 keep
    /// their places.
    pub(crate) fn axes_by_stride(&self) -> [usize; RANK] {
        let mut order = std::array::from_fn(|axis| axis);
        // Insertion sort: it is stable and allocates nothing. An axis of size 1 compares as equal to every
        // other, therefore the others move past it.
        for mut at in 1..RANK {
            for earlier in (0..at).rev() {
                if self.is_slower(order[at], order[earlier]) {
                    order.swap(at, earlier);
                    at = earlier;
                }
            }
        }
        order
    }

    fn is_slower(&self, axis: usize, than: usize) -> bool {
        let step = |axis: usize| self.stride.0[axis].unsigned_abs();
        self.size.0[axis] != 1 && self.size.0[than] != 1 && step(axis) > step(than)
    }

    /// Whether every position in the span belongs to exactly one index: some order of the axes has no gaps.
    ///
    /// Law: `numel = span().len()` and all positions differ, with no negative stride. Axes of size 1 never
    /// decide; empty layouts are dense.
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        let forward = self.stride.0.iter().zip(&self.size.0).all(|(&stride, &size)| stride >= 0 || size == 1);
        self.size.0.contains(&0) || forward && by_pointer!(overlap::is_dense, &mut self.axis_steps()[..])
    }

    /// The absolute stride and the size of each axis.
    fn axis_steps(&self) -> [(usize, usize); RANK] {
        let mut steps = [(0, 0); RANK];
        for axis in 0..RANK {
            steps[axis] = (self.stride.0[axis].unsigned_abs(), self.size.0[axis]);
        }
        steps
    }

    /// Whether two indices may address one element. `false` proves that no two do. Strides that interleave
    /// without a collision are decided exactly up to 4 096 elements, and reported as overlapping beyond:
    /// sizes `[2, 3]` collide with strides `[2, 1]`, and do not with `[3, 2]`.
    pub fn may_overlap(&self) -> bool {
        !self.size.0.contains(&0) && by_pointer!(overlap::may_overlap, &mut self.axis_steps()[..])
    }
}

/// The sizes to which two operands of one rank broadcast: equal sizes, or 1 with any size.
///
/// # Errors
/// [`Error::Sizes`] with both sizes.
#[inline]
pub fn joint_size<const RANK: usize>(
    op: &'static str,
    left: Dim<RANK>,
    right: Dim<RANK>,
) -> Result<Dim<RANK>> {
    let mut size = [0; RANK];
    for (axis, size) in size.iter_mut().enumerate() {
        *size = match (left.0[axis], right.0[axis]) {
            (l, r) if l == r => l,
            (1, r) => r,
            (l, 1) => l,
            _ => return Err(Error::Sizes { op, left: left.0.into(), right: right.0.into() }),
        };
    }
    Ok(Dim(size))
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn axes_are_sorted_by_stride_around_those_of_size_1() {
        for (size, stride, order) in [
            ([2, 1, 3, 4], [1, 9, 50, 2], [2, 1, 3, 0]),
            ([1, 2, 1, 3], [0, 1, 0, 2], [0, 3, 2, 1]),
            ([2, 1, 3, 1], [3, 0, 3, 7], [0, 1, 2, 3]), // ties keep their order
            ([5, 4, 3, 2], [1, 5, 20, 60], [3, 2, 1, 0]),
        ] {
            assert_eq!(Layout::new(size, stride, 0).unwrap().axes_by_stride(), order, "{size:?} {stride:?}");
        }
    }
}
