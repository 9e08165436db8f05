//! Elements on the CPU: slices, indexing.
// Imports: `error`, `device`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Cpu;
use crate::error::{Error, Result};
use std::ops::{Index, IndexMut};

impl<'a, T, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// The elements as a slice, if row-major order is the order of memory.
    #[inline]
    pub fn as_slice(self) -> Option<&'a [T]> {
        if !self.layout().is_contiguous() || self.ensure_allocated("as_slice").is_err() {
            return None;
        }
        // SAFETY: a contiguous view: `numel` valid elements from its offset on, which are not written for 'a.
        Some(unsafe { std::slice::from_raw_parts(self.first(), self.numel()) })
    }

    /// The element at `index`, or `None` outside the sizes or before there is memory.
    #[inline]
    pub fn get(self, index: [usize; RANK]) -> Option<&'a T> {
        let position = self.layout().position(index)?;
        self.ensure_allocated("get").ok()?;
        // SAFETY: a position of the view, whose element is valid and not written for 'a.
        Some(unsafe { &*self.address_of(position).cast_const().cast::<T>() })
    }

    /// The address of the first element, never null.
    #[inline]
    fn first(&self) -> *const T {
        if self.is_empty() { std::ptr::dangling() } else { self.raw_ptr() }
    }
}

impl<'a, T, const RANK: usize> TensorViewMut<'a, T, RANK, Cpu> {
    /// The elements as a slice, if row-major order is the order of memory.
    #[inline]
    pub fn into_slice_mut(self) -> Option<&'a mut [T]> {
        let view = self.into_view();
        if !view.layout().is_contiguous() {
            return None;
        }
        // SAFETY: a contiguous exclusive view: `numel` valid elements from its offset on, which no other code
        // uses for 'a.
        Some(unsafe { std::slice::from_raw_parts_mut(view.first().cast_mut(), view.numel()) })
    }

    /// The elements as a slice, if row-major order is the order of memory.
    #[inline]
    pub fn as_slice_mut(&mut self) -> Option<&mut [T]> {
        self.reborrow().into_slice_mut()
    }

    /// The element at `index`, or `None` outside the sizes.
    #[inline]
    pub fn get_mut(&mut self, index: [usize; RANK]) -> Option<&mut T> {
        self.reborrow().into_element_mut(index)
    }

    #[inline]
    fn into_element_mut(self, index: [usize; RANK]) -> Option<&'a mut T> {
        let view = self.into_view();
        let position = view.layout().position(index)?;
        // SAFETY: a position of this exclusive view.
        Some(unsafe { &mut *view.address_of(position).cast::<T>() })
    }
}

impl<T, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// The elements as a slice, if row-major order is the order of memory.
    #[inline]
    pub fn as_slice(&self) -> Option<&[T]> {
        self.view().as_slice()
    }

    /// The elements as a slice for writing.
    ///
    /// # Errors
    /// [`Error::Shared`], [`Error::Unallocated`]; [`Error::NeedsCopy`] when row-major order is not the order
    /// of memory.
    #[inline]
    pub fn data_mut(&mut self) -> Result<&mut [T]> {
        let (size, stride) = (self.size().0, self.stride().0);
        let needs_copy = || Error::NeedsCopy {
            op: "data_mut",
            sizes: size.into(),
            strides: stride.into(),
            to: size.into(),
        };
        self.try_view_mut("data_mut")?.into_slice_mut().ok_or_else(needs_copy)
    }

    /// The element at `index`, or `None` outside the sizes or before there is memory.
    #[inline]
    pub fn get(&self, index: [usize; RANK]) -> Option<&T> {
        self.view().get(index)
    }
}

#[cold]
#[track_caller]
fn out_of_range<const RANK: usize>(index: [usize; RANK], size: [usize; RANK]) -> ! {
    panic!("{}", Error::Index { op: "index", index: index.into(), axis: None, sizes: size.into() })
}

impl<T, const RANK: usize> Index<[usize; RANK]> for Tensor<T, RANK, Cpu> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; RANK]) -> &T {
        match self.view().get(index) {
            Some(element) => element,
            None => out_of_range(index, self.size().0), // no closure: the panic would name the closure's line
        }
    }
}

impl<T, const RANK: usize> Index<[usize; RANK]> for TensorView<'_, T, RANK, Cpu> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; RANK]) -> &T {
        match self.get(index) {
            Some(element) => element,
            None => out_of_range(index, self.size().0),
        }
    }
}

impl<T, const RANK: usize> Index<[usize; RANK]> for TensorViewMut<'_, T, RANK, Cpu> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; RANK]) -> &T {
        match self.as_view().get(index) {
            Some(element) => element,
            None => out_of_range(index, self.size().0),
        }
    }
}

impl<T, const RANK: usize> IndexMut<[usize; RANK]> for Tensor<T, RANK, Cpu> {
    /// Each call checks whether this is the only handle: in a loop, write through one `view_mut()?`.
    ///
    /// # Panics
    /// Outside the sizes; while other handles share the memory; before memory is allocated.
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [usize; RANK]) -> &mut T {
        let size = self.size().0;
        match self.try_view_mut("index").map(|view| view.into_element_mut(index)) {
            Ok(Some(element)) => element,
            Ok(None) => out_of_range(index, size),
            Err(error) => panic!("{error}"),
        }
    }
}

impl<T, const RANK: usize> IndexMut<[usize; RANK]> for TensorViewMut<'_, T, RANK, Cpu> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [usize; RANK]) -> &mut T {
        let size = self.size().0;
        match self.get_mut(index) {
            Some(element) => element,
            None => out_of_range(index, size),
        }
    }
}
