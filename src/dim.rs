//! Sizes, strides and axes: `Dim`, `Stride`, `Axis`.
//!
//! Pure integers: no memory, no device, no `unsafe`.
// Imports: `error`.   Laws: see each function, checked in `tests/tensors/laws_layout.rs`.

use crate::error::{Error, Result};
use std::fmt;

/// Sizes of a tensor, or an index into it: one number for each axis.
///
/// # Examples
/// ```
/// use rankform::{Dim, dim};
/// let size = dim![2, 3, 4];
/// assert_eq!(size.checked_numel(), Some(24));
/// assert!(size.contains([1, 2, 3]));
/// assert_eq!(size.linearize([1, 0, 2]), 14);
/// assert_eq!((size.head(), size.tail()), (2, dim![3, 4]));
/// let Dim([depth, rows, columns]) = size;
/// assert_eq!((depth, rows, columns, size[2]), (2, 3, 4, 4));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim<const RANK: usize>(pub [usize; RANK]);

impl<const RANK: usize> Dim<RANK> {
    /// The numbers, first axis first.
    pub const fn as_array(&self) -> &[usize; RANK] {
        &self.0
    }

    /// Number of elements, or `None` beyond `usize::MAX`; a rank-0 `Dim` holds one.
    pub fn checked_numel(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
    }

    /// Number of elements, after a check that their bytes can be counted in an `isize`.
    ///
    /// Law: the product of the *non-zero* sizes times `element` is at most `isize::MAX`. No stride, offset or
    /// byte count derived from these sizes can overflow, whether axes are empty or not.
    ///
    /// # Errors
    /// [`Error::Overflow`] beyond that limit.
    #[inline]
    pub fn numel_of(&self, op: &'static str, element: usize) -> Result<usize> {
        self.counted(element).ok_or_else(|| Error::Overflow { op, sizes: self.0.into(), element })
    }

    /// As [`numel_of`](Dim::numel_of), with `None` in place of the error.
    #[inline]
    pub(crate) fn counted(&self, element: usize) -> Option<usize> {
        let (mut numel, mut bytes, mut fits) = (1usize, element.max(1), true);
        for &size in &self.0 {
            let (product, overflows) = bytes.overflowing_mul(size.max(1));
            (numel, bytes, fits) = (numel.wrapping_mul(size), product, fits && !overflows);
        }
        (fits && bytes <= isize::MAX as usize).then_some(numel)
    }

    /// Whether `index` lies inside these sizes: `index[a] < self[a]` for every axis `a`.
    #[inline]
    pub fn contains(&self, index: impl Into<Dim<RANK>>) -> bool {
        let index = index.into();
        (0..RANK).all(|axis| index.0[axis] < self.0[axis])
    }

    /// The row-major number of `index`: `Σ index[a] · Π_{b>a} self[b]`, wrapping.
    ///
    /// Law: over all indices in row-major order it counts 0, 1, 2, …; [`Dim::delinearize`] is its inverse.
    #[inline]
    pub fn linearize(&self, index: impl Into<Dim<RANK>>) -> usize {
        let index = index.into();
        (0..RANK).fold(0, |at: usize, axis| at.wrapping_mul(self.0[axis]).wrapping_add(index.0[axis]))
    }

    /// The index whose row-major number is `at`; sizes of 0 count as 1.
    pub fn delinearize(&self, mut at: usize) -> Dim<RANK> {
        let mut index = [0; RANK];
        for axis in (0..RANK).rev() {
            let size = self.0[axis].max(1);
            index[axis] = at % size;
            at /= size;
        }
        Dim(index)
    }

    /// Products of the sizes before each axis: `[1, s₀, s₀·s₁, …]`, wrapping; the strides of a column-major
    /// layout.
    pub fn prefix_products(&self) -> Dim<RANK> {
        let mut product = 1usize;
        Dim(self.0.map(|size| {
            let before = product;
            product = product.wrapping_mul(size);
            before
        }))
    }

    /// Every index inside these sizes, in row-major order.
    pub fn indices(&self) -> Indices<RANK> {
        Indices { size: *self, next: (!self.0.contains(&0)).then_some([0; RANK]) }
    }
}

/// The indices inside a [`Dim`], in row-major order; see [`Dim::indices`].
#[derive(Clone, Debug)]
pub struct Indices<const RANK: usize> {
    size: Dim<RANK>,
    next: Option<[usize; RANK]>,
}

impl<const RANK: usize> Iterator for Indices<RANK> {
    type Item = [usize; RANK];

    fn next(&mut self) -> Option<[usize; RANK]> {
        let current = self.next?;
        let mut following = current;
        self.next = (0..RANK).rev().find_map(|axis| {
            following[axis] += 1;
            if following[axis] < self.size.0[axis] {
                return Some(following);
            }
            following[axis] = 0;
            None
        });
        Some(current)
    }
}

/// Distances between neighbors along each axis, in **elements**; 0 repeats an element, a negative stride runs
/// backwards.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stride<const RANK: usize>(pub [isize; RANK]);

/// An axis known at compile time: `x.sum(Axis::<1>)`. Axes count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Axis<const AXIS: usize>;

/// Every axis: `x.sum(All)` gives a tensor of rank 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct All;

/// The last axis: `x.softmax(Last)`, `x.mean_along(Last)`, also when the rank is a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Last;

/// An axis known at run time, as a set of axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AxisAt(pub(crate) usize);

/// A set of axes known at run time, and a requested axis that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MarkedAxes<const RANK: usize> {
    pub(crate) marked: [bool; RANK],
    pub(crate) missing: Option<usize>,
}

impl<const RANK: usize> MarkedAxes<RANK> {
    /// # Errors
    /// [`Error::Axis`] when an axis does not exist.
    #[inline(always)]
    pub(crate) fn found(self, op: &'static str, size: impl FnOnce() -> Dim<RANK>) -> Result<[bool; RANK]> {
        match self.missing {
            None => Ok(self.marked),
            Some(axis) => Err(Error::Axis { op, axis, sizes: size().0.into() }),
        }
    }

    /// The same axes of a tensor with more axes before its own.
    #[cfg(feature = "autograd")]
    pub(crate) fn of_rank<const OTHER: usize>(self) -> MarkedAxes<OTHER> {
        let mut marked = [false; OTHER];
        marked[OTHER - RANK..].copy_from_slice(&self.marked);
        MarkedAxes { marked, missing: self.missing }
    }
}

/// A [`Dim`] from its sizes: `dim![2, 3]`.
///
/// ```
/// assert_eq!(rankform::dim![2, 3], rankform::Dim([2, 3]));
/// ```
#[macro_export]
macro_rules! dim {
    ($($size:expr),* $(,)?) => { $crate::Dim([$($size),*]) };
}

impl<const RANK: usize> From<[usize; RANK]> for Dim<RANK> {
    fn from(size: [usize; RANK]) -> Self {
        Dim(size)
    }
}

impl<const RANK: usize> From<[isize; RANK]> for Stride<RANK> {
    fn from(stride: [isize; RANK]) -> Self {
        Stride(stride)
    }
}

impl<const RANK: usize> std::ops::Index<usize> for Dim<RANK> {
    type Output = usize;
    fn index(&self, axis: usize) -> &usize {
        &self.0[axis]
    }
}

impl<const RANK: usize> std::ops::Index<usize> for Stride<RANK> {
    type Output = isize;
    fn index(&self, axis: usize) -> &isize {
        &self.0[axis]
    }
}

impl<const RANK: usize> PartialEq<[usize; RANK]> for Dim<RANK> {
    fn eq(&self, other: &[usize; RANK]) -> bool {
        self.0 == *other
    }
}

impl<const RANK: usize> PartialEq<[isize; RANK]> for Stride<RANK> {
    fn eq(&self, other: &[isize; RANK]) -> bool {
        self.0 == *other
    }
}

impl<const RANK: usize> fmt::Debug for Dim<RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<const RANK: usize> fmt::Display for Dim<RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<const RANK: usize> fmt::Debug for Stride<RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
