//! `TensorView`: a borrowed, strided tensor; `Copy`.
// Imports: `error`, `dim`, `layout`, `device`.

use super::Tensor;
use crate::device::{Cpu, Device, OperandRef};
use crate::dim::{Dim, Stride};
use crate::error::{Error, Result};
use crate::layout::Layout;
use std::marker::PhantomData;

/// A borrowed tensor for reading: the result of slicing, permuting and broadcasting.
///
/// # Examples
/// A view of a borrowed slice, without a copy:
/// ```
/// use rankform::prelude::*;
/// let samples = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let x = TensorView::from_slice(&samples, [2, 3])?;
/// assert_eq!(x.transposed().to_vec()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct TensorView<'a, T, const RANK: usize, D: Device = Cpu> {
    /// The address of position 0 of the layout; null while the elements have no memory, see `Tensor::resize`.
    base: *mut u8,
    /// Invariant 1: if `base` is not null, every position of `layout` lies in memory, at `base` plus the
    /// position times the size of an element.
    layout: Layout<RANK>,
    device: &'a D,
    /// Invariant 2: for `'a` those elements are valid, and no code writes them except through cells.
    _elements: PhantomData<&'a [T]>,
}

// SAFETY: a view is a `&[T]` with a layout: it may be sent wherever `&T` may be.
unsafe impl<T: Sync, const RANK: usize, D: Device> Send for TensorView<'_, T, RANK, D> {}
// SAFETY: as above.
unsafe impl<T: Sync, const RANK: usize, D: Device> Sync for TensorView<'_, T, RANK, D> {}

impl<T, const RANK: usize, D: Device> Clone for TensorView<'_, T, RANK, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const RANK: usize, D: Device> Copy for TensorView<'_, T, RANK, D> {}

/// A view of the whole tensor: a function of `impl Into<TensorView<'a, T, RANK, D>>` takes tensors and views.
///
/// ```
/// use rankform::prelude::*;
/// fn spread<'a>(x: impl Into<TensorView<'a, f64, 1>>) -> Result<f64> {
///     let x = x.into();
///     Ok(x.max(All)?.item()? - x.min(All)?.item()?)
/// }
/// let x = Tensor::from([3.0, 1.0, 7.0]);
/// assert_eq!((spread(&x)?, spread(x.slice((..2,))?)?), (6.0, 2.0));
/// # Ok::<(), rankform::Error>(())
/// ```
impl<'a, T, const RANK: usize, D: Device> From<&'a Tensor<T, RANK, D>> for TensorView<'a, T, RANK, D> {
    #[inline]
    fn from(tensor: &'a Tensor<T, RANK, D>) -> Self {
        tensor.view()
    }
}

impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// # Safety
    /// `base` and `layout` satisfy invariants 1 and 2.
    #[inline]
    pub(crate) unsafe fn new(base: *mut u8, layout: Layout<RANK>, ready: bool, device: &'a D) -> Self {
        // The address of zero bytes may be null.
        let somewhere = if base.is_null() { std::ptr::without_provenance_mut(64) } else { base };
        TensorView {
            base: if ready { somewhere } else { std::ptr::null_mut() },
            layout,
            device,
            _elements: PhantomData,
        }
    }

    /// The same memory under another layout.
    ///
    /// # Safety
    /// `layout` satisfies invariant 1: each of its positions lies in this view's memory.
    #[inline]
    pub(super) unsafe fn with_layout<const M: usize>(self, layout: Layout<M>) -> TensorView<'a, T, M, D> {
        TensorView { base: self.base, layout, device: self.device, _elements: PhantomData }
    }

    /// A view with other axes. Axis `k` has `size[k]` positions, which are `steps[k]` positions of axis
    /// `along[k]` of this view apart; several may go along one axis, as those of windows that overlap. `None`
    /// if they reach beyond this view.
    pub(crate) fn stepped<const M: usize>(
        self,
        size: [usize; M],
        along: [usize; M],
        steps: [usize; M],
    ) -> Option<TensorView<'a, T, M, D>> {
        let (own, mut reach, mut stride) = (self.layout.stride().0, [0usize; RANK], [0; M]);
        for axis in (0..M).filter(|&axis| size[axis] > 1) {
            let of = along[axis];
            stride[axis] = own[of].checked_mul(isize::try_from(steps[axis]).ok()?)?;
            reach[of] = reach[of].checked_add(size[axis].saturating_sub(1).checked_mul(steps[axis])?)?;
        }
        let is_inside = (0..RANK).all(|axis| reach[axis] < self.layout.size().0[axis]);
        if !is_inside && !size.contains(&0) {
            return None;
        }
        let layout = Layout::new(size, stride, self.layout.offset()).ok()?;
        // SAFETY: each position is one of this view, or there is none.
        Some(unsafe { self.with_layout(layout) })
    }

    /// The same memory as elements `U`.
    ///
    /// # Safety
    /// Every position of `layout`, in elements `U`, is a valid, aligned element in this view's memory.
    #[inline]
    pub(super) unsafe fn retyped<U, const M: usize>(self, layout: Layout<M>) -> TensorView<'a, U, M, D> {
        TensorView { base: self.base, layout, device: self.device, _elements: PhantomData }
    }

    /// [`Error::Unallocated`] when the elements have no memory yet.
    #[inline]
    pub(crate) fn ensure_allocated(&self, op: &'static str) -> Result<()> {
        if !self.base.is_null() {
            return Ok(());
        }
        Err(Error::Unallocated { op, sizes: self.size().0.into() })
    }

    /// The address of the element at a position of the layout.
    #[inline]
    pub(super) fn address_of(&self, position: usize) -> *mut u8 {
        self.base.wrapping_add(position.wrapping_mul(size_of::<T>()))
    }

    /// Sizes, first axis first.
    #[inline]
    pub fn size(&self) -> Dim<RANK> {
        self.layout.size()
    }

    /// Strides in elements.
    #[inline]
    pub fn stride(&self) -> Stride<RANK> {
        self.layout.stride()
    }

    /// Sizes, strides and offset.
    #[inline]
    pub fn layout(&self) -> &Layout<RANK> {
        &self.layout
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numel() == 0
    }

    /// The device it is on.
    #[inline]
    pub fn device(&self) -> &'a D {
        self.device
    }

    /// The address of the element with index `[0; RANK]`, in the device's own address space.
    #[inline]
    pub fn raw_ptr(&self) -> *const T {
        self.address_of(self.layout.offset()).cast_const().cast()
    }

    /// The view with its element type erased, as a kernel reads it.
    #[inline]
    pub(crate) fn leaf(&self) -> Leaf<'a, RANK, D> {
        let address = self.address_of(self.layout.offset());
        Leaf {
            address,
            layout: self.layout,
            element: size_of::<T>(),
            ready: !self.base.is_null(),
            device: self.device,
        }
    }
}

/// An operand of a kernel before its strides are broadcast; the kernel has its element type.
pub(crate) struct Leaf<'a, const RANK: usize, D: Device> {
    address: *mut u8,
    layout: Layout<RANK>,
    element: usize,
    ready: bool,
    device: &'a D,
}

impl<const RANK: usize, D: Device> Clone for Leaf<'_, RANK, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const RANK: usize, D: Device> Copy for Leaf<'_, RANK, D> {}

impl<'a, const RANK: usize, D: Device> Leaf<'a, RANK, D> {
    /// Elements of `element` bytes, with positions counted from `base`; `ready` states that they have memory.
    #[cfg(feature = "dynamic")]
    pub(crate) fn of_width(
        base: *mut u8,
        layout: Layout<RANK>,
        element: usize,
        ready: bool,
        device: &'a D,
    ) -> Self {
        Leaf {
            address: base.wrapping_add(layout.offset().wrapping_mul(element)),
            layout,
            element,
            ready,
            device,
        }
    }
    pub(crate) fn layout(&self) -> &Layout<RANK> {
        &self.layout
    }
    pub(crate) fn device(&self) -> &'a D {
        self.device
    }
    #[inline]
    pub(crate) fn is_allocated(&self) -> bool {
        self.ready
    }
    /// Whether both address the same elements under the same layout.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.element == other.element && self.layout == other.layout
    }
    /// The operand of a kernel, with `stride` in place of its own (for axes that are broadcast or reordered).
    #[inline]
    pub(crate) fn slot<'s>(&self, stride: &'s [isize]) -> OperandRef<'s> {
        OperandRef { address: self.address, stride, element: self.element }
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    #[test]
    fn several_axes_along_one_stay_inside() -> Result<()> {
        let x = Tensor::from_vec((0..12).collect::<Vec<i32>>(), [3, 4])?;
        let reversed = x.view().reversed(Axis::<1>);
        // Windows of two columns, two apart.
        let windows = reversed.stepped([3, 2, 2], [0, 1, 1], [1, 1, 2]).unwrap();
        assert_eq!(windows.to_vec()?, [3, 1, 2, 0, 7, 5, 6, 4, 11, 9, 10, 8]);
        assert!(reversed.stepped([3, 3, 2], [0, 1, 1], [1, 1, 2]).is_none());
        assert!(reversed.stepped([4], [0], [1]).is_none());
        assert!(reversed.stepped([2, 2], [0, 1], [usize::MAX, 1]).is_none());
        assert_eq!(reversed.stepped([1, 4], [0, 1], [usize::MAX, 1]).unwrap().to_vec()?, [3, 2, 1, 0]);
        assert_eq!(reversed.stepped([0, 9], [0, 1], [1, 1]).unwrap().numel(), 0);
        Ok(())
    }
}
