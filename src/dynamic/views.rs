//! Other axes over the same memory, chosen at run time. Each result is another handle: nothing is copied, and
//! no handle may write until the others are dropped.
// Imports: `error`, `layout`, `dynamic`.

use super::axes::{FEW, MAX_RANK, SizesAndStrides, counted, laid_out};
use super::tensor::DynTensor;
use crate::error::{Error, Result, SizeList};
use crate::layout::Layout;

impl DynTensor {
    /// A handle with some axes of this tensor's own layout, given by `size` and `stride`.
    ///
    /// # Safety
    /// Every position that `size` and `stride` reach from `offset` is one of this tensor's.
    unsafe fn part(
        &self,
        op: &'static str,
        size: &[usize],
        stride: &[isize],
        offset: usize,
    ) -> Result<DynTensor> {
        let axes = SizesAndStrides::new(op, size, stride)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.another(axes, offset) })
    }

    fn axis_in(&self, op: &'static str, axis: usize) -> Result<()> {
        if axis < self.rank() { Ok(()) } else { Err(Error::Axis { op, axis, sizes: self.size().into() }) }
    }

    /// Permutes the axes.
    ///
    /// # Errors
    /// [`Error::Permutation`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::DynTensor;
    /// let x = DynTensor::from(Tensor::<f32, 3>::zeros([2, 3, 4], &Cpu)?);
    /// assert_eq!(x.permuted(&[2, 0, 1])?.size(), [4, 2, 3]);
    /// assert_eq!(x.reshaped(&[6, 4])?.size(), [6, 4]);
    /// assert_eq!(x.at(1, 2)?.ranged(1, 0, 4, 2)?.size(), [2, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn permuted(&self, order: &[usize]) -> Result<DynTensor> {
        let op = "permuted";
        let (mut seen, mut size, mut stride) = ([false; MAX_RANK], [0; MAX_RANK], [0; MAX_RANK]);
        let rank = self.rank();
        let fits = order.len() == rank
            && order.iter().all(|&axis| axis < rank && !std::mem::replace(&mut seen[axis], true));
        if !fits {
            return Err(Error::Permutation { op, order: order.into() });
        }
        for (at, &axis) in order.iter().enumerate() {
            (size[at], stride[at]) = (self.size()[axis], self.stride()[axis]);
        }
        // SAFETY: the same axes.
        let permuted = unsafe { self.part(op, &size[..rank], &stride[..rank], self.offset())? };
        self.names_of(permuted, order.iter().map(|&axis| Some(axis)))
    }

    /// Swaps two axes.
    ///
    /// # Errors
    /// [`Error::Axis`].
    pub fn transposed(&self, first: usize, second: usize) -> Result<DynTensor> {
        self.axis_in("transposed", first)?;
        self.axis_in("transposed", second)?;
        let mut order: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        order.swap(first, second);
        self.permuted(&order[..self.rank()])
    }

    /// The positions `start..end` of an axis, every `step`-th. A negative step runs backwards from the last.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Slice`].
    pub fn ranged(&self, axis: usize, start: usize, end: usize, step: isize) -> Result<DynTensor> {
        let op = "ranged";
        self.axis_in(op, axis)?;
        laid_out!(self.axes(), self.offset(), |layout| {
            let new = layout.size().0.len() - self.rank();
            let layout = match layout.ranged(op, axis + new, start, end, step) {
                Err(Error::Slice { op, entry, size, .. }) => {
                    return Err(Error::Slice { op, entry, axis, size });
                }
                layout => layout?,
            };
            // SAFETY: the positions are a subset of this tensor's.
            let part =
                unsafe { self.another(SizesAndStrides::last(op, &layout, self.rank())?, layout.offset()) };
            self.names_of(part, (0..self.rank()).map(Some))
        })
    }

    /// The position `index` of an axis; the axis disappears.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Index`].
    pub fn at(&self, axis: usize, index: usize) -> Result<DynTensor> {
        let op = "at";
        self.axis_in(op, axis)?;
        if index >= self.size()[axis] {
            return Err(Error::Index {
                op,
                index: [index].into(),
                axis: Some(axis),
                sizes: self.size().into(),
            });
        }
        let one = self.ranged(axis, index, index + 1, 1)?;
        one.without(op, axis)
    }

    /// Removes an axis of size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] if the axis does not exist or has another size.
    pub fn removed(&self, axis: usize) -> Result<DynTensor> {
        match self.size().get(axis) {
            Some(1) => self.without("removed", axis),
            _ => Err(Error::Axis { op: "removed", axis, sizes: self.size().into() }),
        }
    }

    fn without(&self, op: &'static str, axis: usize) -> Result<DynTensor> {
        let (mut size, mut stride, rank) = ([0; MAX_RANK], [0; MAX_RANK], self.rank() - 1);
        for to in 0..rank {
            let from = to + usize::from(to >= axis);
            (size[to], stride[to]) = (self.size()[from], self.stride()[from]);
        }
        // SAFETY: the axis has size 1, so the positions are the same.
        let rest = unsafe { self.part(op, &size[..rank], &stride[..rank], self.offset())? };
        self.names_of(rest, (0..rank + 1).filter(|&own| own != axis).map(Some))
    }

    /// Inserts a new axis of size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] for a place after the last axis, [`Error::Value`] for more than 64 axes.
    pub fn inserted(&self, axis: usize) -> Result<DynTensor> {
        let op = "inserted";
        if axis > self.rank() {
            return Err(Error::Axis { op, axis, sizes: self.size().into() });
        }
        let (mut size, mut stride, rank) = ([1; MAX_RANK + 1], [0; MAX_RANK + 1], self.rank() + 1);
        for from in 0..rank - 1 {
            let to = from + usize::from(from >= axis);
            (size[to], stride[to]) = (self.size()[from], self.stride()[from]);
        }
        // SAFETY: an axis of size 1 reaches no further positions.
        let longer = unsafe { self.part(op, &size[..rank], &stride[..rank], self.offset())? };
        self.names_of(
            longer,
            (0..rank).map(|to| if to == axis { None } else { Some(to - usize::from(to > axis)) }),
        )
    }

    /// Broadcasts to other sizes as NumPy does: axes of size 1 to any size, and new leading axes.
    ///
    /// # Errors
    /// [`Error::Sizes`], [`Error::Overflow`].
    pub fn broadcast_to(&self, size: &[usize]) -> Result<DynTensor> {
        let op = "broadcast_to";
        counted(op, size, 1)?;
        let differ = || Error::Sizes { op, left: size.into(), right: self.size().into() };
        let (new, mut stride) = (size.len().checked_sub(self.rank()).ok_or_else(differ)?, [0; MAX_RANK]);
        if size.len() > MAX_RANK {
            return Err(differ());
        }
        for (axis, (&have, &step)) in self.size().iter().zip(self.stride()).enumerate() {
            match (have, size[new + axis]) {
                (have, want) if have == want => stride[new + axis] = step,
                (1, _) => {}
                _ => return Err(differ()),
            }
        }
        // SAFETY: strides of 0 reach no further positions.
        let stretched = unsafe { self.part(op, size, &stride[..size.len()], self.offset())? };
        self.names_of(stretched, (0..size.len()).map(|axis| axis.checked_sub(new)))
    }

    /// The same elements, in row-major order, with other sizes of the same number; never a copy.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::NeedsCopy`] if no strides fit: call [`DynTensor::to_contiguous`] first.
    pub fn reshaped(&self, size: &[usize]) -> Result<DynTensor> {
        let op = "reshaped";
        counted(op, size, 1)?;
        let stripped = |error: Error| match error {
            // The layout's leading axes of size 1 are not the caller's, so errors omit them.
            Error::Length { expected, found, .. } => {
                Error::Length { op, sizes: size.into(), expected, found, of: Some(self.size().into()) }
            }
            Error::NeedsCopy { .. } => Error::NeedsCopy {
                op,
                sizes: self.size().into(),
                strides: self.stride().into(),
                to: size.into(),
            },
            error => error,
        };
        let to = |size: &[usize], n: usize| -> Result<SizesAndStrides> {
            SizesAndStrides::new(op, size, &[0; MAX_RANK][..n.min(MAX_RANK)])
        };
        let wanted = to(size, size.len())?;
        let (axes, offset) = match (self.axes().lifted::<FEW>(self.offset()), wanted.lifted::<FEW>(0)) {
            (Some(from), Some(to)) => of_layout(op, from.reshaped(to.size()).map_err(stripped)?, size.len())?,
            _ => of_layout(
                op,
                self.axes().all(self.offset()).reshaped(wanted.all(0).size()).map_err(stripped)?,
                size.len(),
            )?,
        };
        // SAFETY: the positions are the same.
        let reshaped = unsafe { self.another(axes, offset) };
        self.names_of(reshaped, (0..size.len()).map(|_| None))
    }

    /// The diagonal of two axes, as a new last axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis that does not exist, or for the same axis twice.
    pub fn diagonal(&self, first: usize, second: usize) -> Result<DynTensor> {
        let op = "diagonal";
        self.axis_in(op, first)?;
        self.axis_in(op, second)?;
        if first == second {
            return Err(Error::Axis { op, axis: second, sizes: self.size().into() });
        }
        let (mut size, mut stride, mut rank) = ([0; MAX_RANK], [0; MAX_RANK], 0);
        for axis in (0..self.rank()).filter(|&axis| axis != first && axis != second) {
            (size[rank], stride[rank]) = (self.size()[axis], self.stride()[axis]);
            rank += 1;
        }
        (size[rank], stride[rank]) = (
            self.size()[first].min(self.size()[second]),
            self.stride()[first].wrapping_add(self.stride()[second]),
        );
        // SAFETY: the positions are a subset of this tensor's.
        let diagonal = unsafe { self.part(op, &size[..rank + 1], &stride[..rank + 1], self.offset())? };
        let stay = (0..self.rank()).filter(|&axis| axis != first && axis != second).map(Some);
        self.names_of(diagonal, stay.chain([None]))
    }

    /// The sizes to which two tensors broadcast, with new leading axes of size 1 for the shorter one.
    ///
    /// # Errors
    /// [`Error::Sizes`].
    pub fn joint_size(
        op: &'static str,
        left: &DynTensor,
        right: &DynTensor,
    ) -> Result<([usize; MAX_RANK], usize)> {
        let rank = left.rank().max(right.rank());
        let mut size = [1; MAX_RANK];
        for (axis, size) in size[..rank].iter_mut().enumerate() {
            let of = |x: &DynTensor| axis.checked_sub(rank - x.rank()).map_or(1, |axis| x.size()[axis]);
            *size = match (of(left), of(right)) {
                (l, r) if l == r => l,
                (1, r) => r,
                (l, 1) => l,
                _ => {
                    return Err(Error::Sizes {
                        op,
                        left: SizeList::from(left.size()),
                        right: SizeList::from(right.size()),
                    });
                }
            };
        }
        Ok((size, rank))
    }
}

fn of_layout<const N: usize>(
    op: &'static str,
    layout: Layout<N>,
    rank: usize,
) -> Result<(SizesAndStrides, usize)> {
    Ok((SizesAndStrides::last(op, &layout, rank)?, layout.offset()))
}
