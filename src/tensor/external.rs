//! External memory on the CPU: vectors, foreign pointers, borrowed slices; cells and atomics for shared
//! writing.
//!
//! These tensors hold any element, with or without a destructor.
// Imports: `error`, `fallible`, `dim`, `layout`, `device`, `allocation`, `tensor`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::allocation::Allocation;
use crate::device::{Cpu, Device};
use crate::dim::{Dim, Stride};
use crate::error::{Error, Result, text};
use crate::fallible::FallibleArc;
use crate::layout::Layout;
use std::cell::Cell;
use std::sync::atomic::*;

/// The sizes, after a check that they hold `found` elements.
#[inline]
pub(super) fn checked_size<const RANK: usize>(
    op: &'static str,
    size: Dim<RANK>,
    found: usize,
    element: usize,
) -> Result<Dim<RANK>> {
    let expected = size.numel_of(op, element)?;
    if expected != found {
        return Err(Error::Length { op, sizes: size.0.into(), expected, found, of: None });
    }
    Ok(size)
}

impl<T: Send + Sync + 'static, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// Takes over a vector, without a copy; its elements' destructors run when the last handle is gone.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of elements does not match `size`; the vector is dropped.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let names = Tensor::from_vec(vec!["ada".to_string(), "grace".into()], [1, 2])?;
    /// assert_eq!(names[[0, 1]], "grace");
    /// assert_eq!(names.into_vec()?, ["ada", "grace"]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[inline(always)] // returning a tensor through memory costs as much as its allocation
    pub fn from_vec(values: Vec<T>, size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = checked_size("from_vec", size.into(), values.len(), size_of::<T>())?;
        let memory = Allocation::from_vec(values)?;
        // SAFETY: the vector's elements, row-major.
        Ok(unsafe { Tensor::from_memory(memory, Layout::row_major(size)) })
    }

    /// Returns the elements as a vector, in row-major order: without a copy when this is the only handle on
    /// all of the memory of a vector, by cloning otherwise.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    #[inline]
    pub fn into_vec(self) -> Result<Vec<T>>
    where
        T: Clone,
    {
        self.view().ensure_allocated("into_vec")?;
        let whole = self.layout().is_contiguous()
            && self.layout().offset() == 0
            && self.nbytes() == self.allocation().size();
        // The bytes do not determine the number of elements of size 0.
        if !whole || size_of::<T>() == 0 || !self.is_unique() {
            return self.view().cloned_vec("into_vec");
        }
        let (mut memory, layout) = self.into_memory();
        let parts =
            memory.get_mut().and_then(|allocation| allocation.take_vec(std::alloc::Layout::new::<T>()));
        if let Some((address, len, capacity)) = parts {
            // SAFETY: the parts of a vector whose element had this size and alignment; by invariant 1 all
            // `len` elements are valid.
            return Ok(unsafe { Vec::from_raw_parts(address.as_ptr().cast(), len, capacity) });
        }
        // SAFETY: the memory and layout of this tensor.
        unsafe { Tensor::<T, RANK, Cpu>::from_memory(memory, layout) }.view().cloned_vec("into_vec")
    }
}

impl<T, const RANK: usize> TensorView<'_, T, RANK, Cpu> {
    /// Clones of the elements, in row-major order, for any element on the CPU. A separate function, because
    /// most callers only take the vector.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::OutOfMemory`].
    #[inline(never)]
    pub(super) fn cloned_vec(&self, op: &'static str) -> Result<Vec<T>>
    where
        T: Clone,
    {
        self.ensure_allocated(op)?;
        let mut values = Vec::new();
        let nbytes = self.numel().saturating_mul(size_of::<T>());
        values.try_reserve_exact(self.numel()).map_err(|_| Error::OutOfMemory { op, nbytes })?;
        for index in self.size().indices() {
            let at = self.address_of(self.layout().at(index)).cast_const().cast::<T>();
            // SAFETY: a position of the view, whose element is valid and not written during its lifetime.
            values.push(unsafe { &*at }.clone());
        }
        Ok(values)
    }
}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// A tensor in memory of another owner. `free` releases it exactly once: when the last handle is dropped,
    /// or when this function fails.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Unsupported`] on a device without memory, [`Error::Value`] for an
    /// address that is not aligned for `T`.
    ///
    /// # Safety
    /// 1. Elements `0..numel` at `address` are valid `T`s in row-major order, on `device`, until `free` is
    ///    called.
    /// 2. No other code writes them until then.
    /// 3. If the elements have destructors, `free` runs them.
    pub unsafe fn from_external(
        address: *mut T,
        size: impl Into<Dim<RANK>>,
        device: &D,
        free: impl FnOnce(*mut u8, usize) + Send + 'static,
    ) -> Result<Self> {
        let size = size.into();
        let nbytes = match size.numel_of("from_external", size_of::<T>()) {
            Ok(numel) => numel * size_of::<T>(),
            Err(error) => {
                free(address.cast(), 0);
                return Err(error);
            }
        };
        if !address.is_aligned() {
            free(address.cast(), nbytes);
            let what = text(format_args!("{address:p} is not aligned to {} bytes", align_of::<T>()));
            return Err(Error::Value { op: "from_external", what });
        }
        // SAFETY: (1), (2) and (3) are the caller's promises.
        let memory =
            FallibleArc::new(unsafe { Allocation::external(device, address.cast(), nbytes, free)? })?;
        // SAFETY: (1): `numel` valid elements, row-major.
        Ok(unsafe { Tensor::from_memory(memory, Layout::row_major(size)) })
    }
}

impl<'a, T, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// Borrows a slice as a tensor, without a copy.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of elements does not fit `size`.
    pub fn from_slice(values: &'a [T], size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = checked_size("from_slice", size.into(), values.len(), size_of::<T>())?;
        // SAFETY: the slice's elements, row-major, borrowed for as long as the view.
        Ok(unsafe { TensorView::new(values.as_ptr().cast_mut().cast(), Layout::row_major(size), true, &Cpu) })
    }
}

impl<'a, T, const RANK: usize> TensorViewMut<'a, T, RANK, Cpu> {
    /// Borrows a slice as a tensor for writing, without a copy.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of elements does not fit `size`.
    pub fn from_slice(values: &'a mut [T], size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = checked_size("from_slice", size.into(), values.len(), size_of::<T>())?;
        // SAFETY: the slice's elements, row-major, borrowed exclusively for as long as the view.
        Ok(unsafe { TensorViewMut::new(values.as_mut_ptr().cast(), Layout::row_major(size), &Cpu) })
    }
}

/// The element with the lowest address, and the layout relative to it.
pub(super) fn base_and_layout<T, const RANK: usize>(
    first: *const T,
    size: Dim<RANK>,
    stride: Stride<RANK>,
) -> Result<(*mut u8, Layout<RANK>)> {
    let op = "from_raw_parts";
    let nothing = size.0.contains(&0);
    let behind = (0..RANK)
        .map(|axis| stride.0[axis].min(0).unsigned_abs() as i128 * (size.0[axis] as i128 - 1))
        .sum::<i128>();
    let layout = Layout::within(
        op,
        size,
        stride,
        if nothing { 0 } else { behind },
        isize::MAX as usize / size_of::<T>().max(1),
    )?;
    let base = if nothing { std::ptr::dangling() } else { first.wrapping_sub(layout.offset()) };
    if !base.is_aligned() || base.is_null() {
        return Err(Error::Value {
            op,
            what: text(format_args!("{first:p} is null or not aligned to {} bytes", align_of::<T>())),
        });
    }
    Ok((base.cast_mut().cast(), layout))
}

impl<'a, T, const RANK: usize> TensorView<'a, T, RANK, Cpu> {
    /// Borrows strided elements from the address of index `[0; RANK]`, without a copy.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Bounds`] for sizes and strides that reach beyond any memory,
    /// [`Error::Value`] for an address that is null or not aligned, unless there are no elements.
    ///
    /// # Safety
    /// 1. Every element that sizes and strides address is valid for `'a`, in one object.
    /// 2. No code writes these elements.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let samples = [1, 2, 3, 4, 5, 6];
    /// let last = samples.as_ptr().wrapping_add(5);
    /// // SAFETY: every second element, from the last to the second.
    /// let x = unsafe { TensorView::<i32, 1>::from_raw_parts(last, [3], [-2]) }?;
    /// assert_eq!(x.to_vec()?, [6, 4, 2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub unsafe fn from_raw_parts(
        first: *const T,
        size: impl Into<Dim<RANK>>,
        stride: impl Into<Stride<RANK>>,
    ) -> Result<Self> {
        let (base, layout) = base_and_layout(first, size.into(), stride.into())?;
        // SAFETY: (1) and (2) are the caller's promises; positions are counted from the lowest element.
        Ok(unsafe { TensorView::new(base, layout, true, &Cpu) })
    }
}

impl<'a, T, const RANK: usize> TensorViewMut<'a, T, RANK, Cpu> {
    /// As [`TensorView::from_raw_parts`], for writing.
    ///
    /// # Errors
    /// Those of [`TensorView::from_raw_parts`]; [`Error::Overlap`] when two indices address one element.
    ///
    /// # Safety
    /// 1. Every element that sizes and strides address is valid for `'a`, in one object.
    /// 2. No other code reads or writes these elements.
    pub unsafe fn from_raw_parts(
        first: *mut T,
        size: impl Into<Dim<RANK>>,
        stride: impl Into<Stride<RANK>>,
    ) -> Result<Self> {
        let (base, layout) = base_and_layout(first.cast_const(), size.into(), stride.into())?;
        if layout.may_overlap() {
            return Err(Error::Overlap {
                op: "from_raw_parts",
                sizes: layout.size().0.into(),
                strides: layout.stride().0.into(),
            });
        }
        // SAFETY: (1) and (2) are the caller's promises; no two indices address one element.
        Ok(unsafe { TensorViewMut::new(base, layout, &Cpu) })
    }
}

impl<T, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// Shared writing on one thread: the same memory, with each element in a `Cell`. Handles and views may
    /// then write an element while others read it; the tensor cannot leave its thread.
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1, 2, 3]).into_cells()?;
    /// let y = x.share_data();
    /// x[[0]].set(7);
    /// assert_eq!(y[[0]].get(), 7);
    /// drop(y);
    /// assert_eq!(Tensor::from_cells(x)?.to_vec()?, [7, 2, 3]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn into_cells(self) -> Result<Tensor<Cell<T>, RANK, Cpu>> {
        self.ensure_unique("into_cells")?;
        let layout = *self.layout();
        // SAFETY: `Cell<T>` has the layout of `T`; this was the only handle, therefore all later ones are of
        // cells.
        Ok(unsafe { self.with_layout(layout) })
    }

    /// The inverse of [`into_cells`](Tensor::into_cells).
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory.
    pub fn from_cells(cells: Tensor<Cell<T>, RANK, Cpu>) -> Result<Self> {
        cells.ensure_unique("from_cells")?;
        let layout = *cells.layout();
        // SAFETY: as above; the only handle, therefore no cell is written any more.
        Ok(unsafe { cells.with_layout(layout) })
    }
}

/// A type whose elements several threads may write through an atomic type of the same bytes.
///
/// # Safety
/// `Self` and `Atomic` have the same size, alignment and valid bytes.
pub unsafe trait AsAtomic: Copy {
    /// The atomic type.
    type Atomic: Send + Sync;
}
macro_rules! atomics {
    ($($t:ty: $atomic:ty, $width:literal;)*) => { $(
        // SAFETY: by the standard library, the same in-memory representation; alignment is checked on use.
        #[cfg(target_has_atomic = $width)]
        unsafe impl AsAtomic for $t { type Atomic = $atomic; }
    )* };
}
atomics! {
    bool: AtomicBool, "8";
    i8: AtomicI8, "8";
    u8: AtomicU8, "8";
    i16: AtomicI16, "16";
    u16: AtomicU16, "16";
    i32: AtomicI32, "32";
    u32: AtomicU32, "32";
    i64: AtomicI64, "64";
    u64: AtomicU64, "64";
}

impl<T: AsAtomic, const RANK: usize> Tensor<T, RANK, Cpu> {
    /// Shared writing across threads: the same memory, each element an atomic.
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory, [`Error::Value`] when the atomic needs more
    /// alignment than the memory has (64-bit integers in foreign memory on 32-bit machines).
    pub fn into_atomics(self) -> Result<Tensor<T::Atomic, RANK, Cpu>> {
        self.ensure_unique("into_atomics")?;
        if !self.allocation().ptr().cast::<T::Atomic>().is_aligned() {
            return Err(Error::Value {
                op: "into_atomics",
                what: text(format_args!("the memory is not aligned to {} bytes", align_of::<T::Atomic>())),
            });
        }
        let layout = *self.layout();
        // SAFETY: the same bytes, aligned; this was the only handle.
        Ok(unsafe { self.with_layout(layout) })
    }

    /// The inverse of [`into_atomics`](Tensor::into_atomics).
    ///
    /// # Errors
    /// [`Error::Shared`] when other handles share the memory.
    pub fn from_atomics(atomics: Tensor<T::Atomic, RANK, Cpu>) -> Result<Self> {
        atomics.ensure_unique("from_atomics")?;
        let layout = *atomics.layout();
        // SAFETY: as above; the only handle.
        Ok(unsafe { atomics.with_layout(layout) })
    }
}
