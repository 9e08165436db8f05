//! Gather, scatter, and the compaction of the elements that a mask selects.
//!
//! All indices are checked before the first element moves. A row of elements with one index is copied as a
//! whole.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::isa::{self, Loop};
use super::memory::non_temporal;
use super::memory::prefetch;
use super::strided::pack;
use super::strided::{self, AxisOrder, IterSpace};
use crate::device::{MAX_AXES, OperandRef};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{GatherPlan, Op};
use crate::scalar::{Eval, Lane};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, Ordering};

/// Returns [`Error::Index`] with one of the indices that are out of bounds, if there are any.
///
/// # Safety
/// `index` holds `i64` at every index inside the sizes.
unsafe fn check(plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
    // An axis along which the index is broadcast is checked once.
    let mut sizes = [1; MAX_AXES];
    for (axis, size) in sizes[..plan.sizes.len()].iter_mut().enumerate() {
        *size = if index.stride[axis] == 0 { plan.sizes[axis].min(1) } else { plan.sizes[axis] };
    }
    let found = AtomicI64::new(0);
    strided::for_each_space(&sizes[..plan.sizes.len()], &[index], AxisOrder::OfOutput, &mut |walk| {
        strided::parallel(walk, 1, &|part| {
            let mut at = part.index_of(0);
            for _ in 0..part.numel() / part.inner() {
                let row = IndexRow {
                    first: part.address_at(0, &at),
                    stride: part.inner_step(0),
                    n: part.inner(),
                    bound: plan.bound,
                };
                // The loop that finds whether any index is out of bounds vectorizes. The index itself is
                // searched only then.
                if isa::dispatch(row)
                    && let Some(out_of_bounds) = row.out_of_bounds()
                {
                    found.store(out_of_bounds, Ordering::Relaxed);
                }
                part.advance(&mut at, part.inner());
            }
        });
    });
    // 0 means that no index was found. Position 0 itself is out of bounds of an empty axis; a plan with one
    // is refused as a whole.
    match found.into_inner() {
        0 if plan.bound > 0 || sizes.contains(&0) => Ok(()),
        out_of_bounds => Err(plan.outside(out_of_bounds)),
    }
}

/// A row of `n` indices. Constructors promise that they exist.
#[derive(Clone, Copy)]
struct IndexRow {
    first: *mut u8,
    /// In bytes.
    stride: isize,
    n: usize,
    bound: usize,
}

impl IndexRow {
    #[inline(always)]
    fn at(&self, i: usize) -> i64 {
        // SAFETY: the constructor promised this index.
        unsafe { self.first.wrapping_offset((i as isize).wrapping_mul(self.stride)).cast::<i64>().read() }
    }
    fn out_of_bounds(&self) -> Option<i64> {
        (0..self.n).map(|i| self.at(i)).find(|&index| index as u64 >= self.bound as u64)
    }
}

impl Loop for IndexRow {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let bound = self.bound as u64;
        if self.stride == size_of::<i64>() as isize {
            let first = self.first.cast::<i64>();
            return (0..self.n).fold(false, |out_of_bounds, i| {
                // SAFETY: the constructor promised this index.
                let index = unsafe { first.wrapping_add(i).read() };
                out_of_bounds | (index as u64 >= bound)
            });
        }
        (0..self.n).fold(false, |out_of_bounds, i| out_of_bounds | (self.at(i) as u64 >= bound))
    }
}

/// Copies the cells that an index addresses.
///
/// # Safety
/// As [`Device::gather`](crate::device::Device::gather).
pub(super) unsafe fn gather(
    plan: GatherPlan<'_>,
    to: OperandRef<'_>,
    cells: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { check(plan, index)? };
    let axis_stride = plan.step.wrapping_mul(to.element as isize);
    let non_temporal = non_temporal::pays_off(plan.sizes, &to);
    strided::for_each_space(plan.sizes, &[to, cells, index], AxisOrder::OfOutput, &mut |walk| {
        strided::parallel(walk, 1, &|part| {
            // SAFETY: the parts of the iteration space stay inside the operands of the caller's promise;
            // every index is in bounds.
            unsafe { gather_part(part, axis_stride, to.element, non_temporal) }
            non_temporal::fence();
        });
    });
    Ok(())
}

/// Copies a part of the cells. With `non_temporal`, contiguous rows are written by non-temporal stores.
///
/// # Safety
/// As [`gather`], for this part; every index is in bounds.
unsafe fn gather_part(part: &IterSpace, axis_stride: isize, element: usize, non_temporal: bool) {
    let n = part.inner();
    let width = element as isize;
    let (to_stride, from_stride, index_stride) = (part.inner_step(0), part.inner_step(1), part.inner_step(2));
    let mut at = part.index_of(0);
    for _ in 0..part.numel() / n {
        let (to, from) = (part.address_at(0, &at), part.address_at(1, &at));
        let index = part.address_at(2, &at).cast_const().cast::<i64>();
        if index_stride == 0 {
            // Hardware cannot predict the order of the rows: a later row is prefetched.
            let mut ahead = at;
            part.advance(&mut ahead, PREFETCHED_ROWS.saturating_mul(n));
            // SAFETY: `ahead` is a row of this part, after any number of steps; one index addresses a whole
            // row of cells, and both rows are those of the caller's promise.
            unsafe {
                let next = part.address_at(2, &ahead).cast_const().cast::<i64>().read() as isize;
                prefetch::into_l1(
                    part.address_at(1, &ahead).wrapping_offset(next.wrapping_mul(axis_stride)),
                    (n * element).min(MAX_PREFETCH_BYTES),
                );
                let from = from.wrapping_offset((index.read() as isize).wrapping_mul(axis_stride));
                if non_temporal && to_stride == width && from_stride == width {
                    non_temporal::copy(to, from, n * element);
                } else {
                    pack::strided(to, to_stride, from, from_stride, n, element);
                }
            }
        } else {
            let row = GatherRow { to, to_stride, from, from_stride, index, index_stride, axis_stride, n };
            // SAFETY: `n` elements of the caller's promise. Each is moved as a whole, as bytes of any type.
            unsafe {
                match element {
                    1 => row.copy::<1>(),
                    2 => row.copy::<2>(),
                    4 => row.copy::<4>(),
                    8 => row.copy::<8>(),
                    _ => row.copy_any(element),
                }
            }
        }
        part.advance(&mut at, n);
    }
}

/// How many rows ahead a row is prefetched, and the most bytes of it.
const PREFETCHED_ROWS: usize = 4;
const MAX_PREFETCH_BYTES: usize = 1024;

/// A row of cells with one index each. Strides are in bytes. Constructors promise that the elements exist and
/// that the indices are in bounds.
#[derive(Clone, Copy)]
struct GatherRow {
    to: *mut u8,
    to_stride: isize,
    from: *const u8,
    from_stride: isize,
    index: *const i64,
    index_stride: isize,
    /// Of the addressed axis.
    axis_stride: isize,
    n: usize,
}

impl GatherRow {
    /// The address of a cell.
    ///
    /// # Safety
    /// `i` is less than `n`.
    #[inline(always)]
    unsafe fn cell(&self, i: isize) -> *const u8 {
        // SAFETY: the row has index `i`.
        let index = unsafe { self.index.wrapping_byte_offset(i.wrapping_mul(self.index_stride)).read() };
        self.from
            .wrapping_offset(i.wrapping_mul(self.from_stride))
            .wrapping_offset((index as isize).wrapping_mul(self.axis_stride))
    }
    /// Copies all cells, whose elements have `SIZE` bytes.
    ///
    /// # Safety
    /// That is the size of the elements.
    unsafe fn copy<const SIZE: usize>(self) {
        type Bytes<const SIZE: usize> = [std::mem::MaybeUninit<u8>; SIZE];
        for i in 0..self.n as isize {
            // SAFETY: the constructor promised this element; arrays of bytes need no alignment.
            unsafe {
                let cell = self.cell(i).cast::<Bytes<SIZE>>().read();
                self.to.wrapping_offset(i.wrapping_mul(self.to_stride)).cast::<Bytes<SIZE>>().write(cell);
            }
        }
    }
    /// As [`copy`](GatherRow::copy), for elements of any size.
    ///
    /// # Safety
    /// Elements have `element` bytes.
    unsafe fn copy_any(self, element: usize) {
        for i in 0..self.n as isize {
            // SAFETY: as above.
            unsafe {
                self.to
                    .wrapping_offset(i.wrapping_mul(self.to_stride))
                    .copy_from_nonoverlapping(self.cell(i), element)
            };
        }
    }
}

/// Applies `F` to the cells that an index addresses.
///
/// Threads divide the cells among themselves, not the elements. Each cell therefore takes its elements in
/// their order, for any number of threads.
///
/// # Safety
/// As [`Device::scatter`](crate::device::Device::scatter).
pub(super) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
    plan: GatherPlan<'_>,
    cells: OperandRef<'_>,
    from: OperandRef<'_>,
    index: OperandRef<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { check(plan, index)? };
    let shared = plan.sizes.len() - plan.own;
    let outer = [cells, from, index].map(|slot| OperandRef { stride: &slot.stride[shared..], ..slot });
    let inner = [cells, from, index].map(|slot| OperandRef {
        stride: &slot.stride[..shared],
        address: std::ptr::null_mut(),
        ..slot
    });
    let axis_stride = plan.step.wrapping_mul(size_of::<T>() as isize);
    // Axes along which elements share cells are visited in row-major order; all other axes in the order of
    // the cells in memory.
    strided::for_each_space(&plan.sizes[..shared], &inner, AxisOrder::RowMajor, &mut |inner| {
        strided::for_each_space(&plan.sizes[shared..], &outer, AxisOrder::OfOutput, &mut |outer| {
            strided::parallel(outer, inner.numel(), &|part| {
                // SAFETY: the parts of the iteration space stay inside the operands of the caller's promise,
                // and no two parts share a cell.
                unsafe { scatter_part::<T, F>(part, inner, axis_stride) }
            });
        });
    });
    Ok(())
}

/// Applies `F` to a part of the cells.
///
/// # Safety
/// As [`scatter`], for this part; every index is in bounds.
unsafe fn scatter_part<T: Element, F: Op<(T, T), Out = T>>(
    part: &IterSpace,
    inner: &IterSpace,
    axis_stride: isize,
) {
    let run = |walk: &IterSpace, base: [*mut u8; 3]| {
        let [to, from, index] = base;
        let strides = [walk.inner_step(0), walk.inner_step(1), walk.inner_step(2)];
        isa::dispatch(ScatterRow::<T, F> {
            to,
            from,
            index: index.cast(),
            strides,
            axis_stride,
            n: walk.inner(),
            operator: PhantomData,
        });
    };
    let bases = |walk: &IterSpace, at: &strided::SpacePosition| {
        std::array::from_fn::<_, 3, _>(|k| walk.address_at(k, at))
    };
    // The longer rows are the inner loop: along the cells' own axes, or along the axes that share cells.
    let along_cells = part.inner() >= inner.inner().min(16);
    let (slow, fast) = if along_cells { (inner, part) } else { (part, inner) };
    let mut at = slow.index_of(0);
    for _ in 0..slow.numel() {
        let base = bases(slow, &at);
        let mut row = fast.index_of(0);
        for _ in 0..fast.numel() / fast.inner() {
            let from_here = bases(fast, &row);
            let sum = |k: usize| match along_cells {
                true => from_here[k].wrapping_add(base[k].addr()),
                false => base[k].wrapping_add(from_here[k].addr()),
            };
            run(fast, [sum(0), sum(1), sum(2)]);
            fast.advance(&mut row, fast.inner());
        }
        slow.advance(&mut at, 1);
    }
}

/// A row of cells and elements. Constructors promise that they exist and that the indices are in bounds.
struct ScatterRow<T, F> {
    to: *mut u8,
    from: *const u8,
    index: *const i64,
    /// Of `to`, `from` and `index`, in bytes.
    strides: [isize; 3],
    /// Of the addressed axis, in bytes.
    axis_stride: isize,
    n: usize,
    operator: PhantomData<(T, F)>,
}

impl<T: Element, F: Op<(T, T), Out = T>> Loop for ScatterRow<T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ScatterRow {
            to,
            from,
            index,
            strides: [to_stride, from_stride, index_stride],
            axis_stride,
            n,
            ..
        } = self;
        let apply = |to: *mut u8, from: *const u8| {
            let (to, from) = (to.cast::<T>(), from.cast::<T>());
            // SAFETY: the constructor promised a cell and an element.
            unsafe {
                to.write(T::narrow(F::call::<Eval>((Lane(to.read().widen()), Lane(from.read().widen()))).0))
            };
        };
        if index_stride == 0 {
            // SAFETY: the constructor promised an index.
            let to = to.wrapping_offset((unsafe { index.read() } as isize).wrapping_mul(axis_stride));
            let element = size_of::<T>() as isize;
            if to_stride == element && from_stride == element {
                for i in 0..n {
                    apply(to.cast::<T>().wrapping_add(i).cast(), from.cast::<T>().wrapping_add(i).cast());
                }
                return;
            }
            for i in 0..n as isize {
                apply(
                    to.wrapping_offset(i.wrapping_mul(to_stride)),
                    from.wrapping_offset(i.wrapping_mul(from_stride)),
                );
            }
            return;
        }
        for i in 0..n as isize {
            // SAFETY: the constructor promised this index.
            let at = unsafe { index.wrapping_byte_offset(i.wrapping_mul(index_stride)).read() } as isize;
            let cell =
                to.wrapping_offset(i.wrapping_mul(to_stride)).wrapping_offset(at.wrapping_mul(axis_stride));
            apply(cell, from.wrapping_offset(i.wrapping_mul(from_stride)));
        }
    }
}

/// Copies the elements at which a mask is true, in row-major order.
///
/// # Safety
/// As [`Device::compact`](crate::device::Device::compact).
pub(super) unsafe fn compact(
    sizes: &[usize],
    count: usize,
    to: OperandRef<'_>,
    from: OperandRef<'_>,
    mask: OperandRef<'_>,
) {
    let to_stride = to.stride[0].wrapping_mul(to.element as isize);
    let mut done = 0;
    strided::for_each_space(sizes, &[from, mask], AxisOrder::RowMajor, &mut |walk| {
        let start = to.address.wrapping_offset((done as isize).wrapping_mul(to_stride));
        // SAFETY: spaces come in row-major order, and the first `done` elements of the output are written.
        done += unsafe { compact_space(walk, count - done, start, to_stride, to.element) };
    });
}

/// Copies at most `left` elements; returns their number.
///
/// # Safety
/// As [`compact`], for one iteration space; `to` has room for `left` elements.
unsafe fn compact_space(
    walk: &IterSpace,
    left: usize,
    to: *mut u8,
    to_stride: isize,
    element: usize,
) -> usize {
    let (mut at, mut done, n) = (walk.index_of(0), 0, walk.inner());
    for _ in 0..walk.numel() / n {
        let row = CompactRow {
            from: walk.address_at(0, &at),
            mask: walk.address_at(1, &at),
            from_stride: walk.inner_step(0),
            mask_stride: walk.inner_step(1),
            to: to.wrapping_offset((done as isize).wrapping_mul(to_stride)),
            to_stride,
            n,
            left: left - done,
        };
        // SAFETY: the caller's promise. Elements are moved as a whole, as bytes of any type.
        done += unsafe {
            match element {
                1 => row.copy::<1>(),
                2 => row.copy::<2>(),
                4 => row.copy::<4>(),
                8 => row.copy::<8>(),
                _ => row.copy::<16>(),
            }
        };
        walk.advance(&mut at, n);
    }
    done
}

/// A row of elements and of the mask, and an output with room for `left` elements. Strides are in bytes.
/// Constructors promise that all of them exist.
struct CompactRow {
    from: *const u8,
    mask: *const u8,
    from_stride: isize,
    mask_stride: isize,
    to: *mut u8,
    to_stride: isize,
    n: usize,
    left: usize,
}

impl CompactRow {
    /// Copies the selected elements, of `SIZE` bytes; returns their number.
    ///
    /// # Safety
    /// That is the size of the elements.
    unsafe fn copy<const SIZE: usize>(self) -> usize {
        type Bytes<const SIZE: usize> = [std::mem::MaybeUninit<u8>; SIZE];
        let mut done = 0;
        // SAFETY: an element of the row, and room for it in the output.
        let copy = |done: usize, i: usize| unsafe {
            let value = self
                .from
                .wrapping_offset((i as isize).wrapping_mul(self.from_stride))
                .cast::<Bytes<SIZE>>()
                .read();
            self.to
                .wrapping_offset((done as isize).wrapping_mul(self.to_stride))
                .cast::<Bytes<SIZE>>()
                .write(value);
        };
        for start in (0..self.n).step_by(64) {
            let most = (self.n - start).min(64);
            // SAFETY: elements of the mask, which are 0 or 1.
            let mut mask_bits = unsafe { self.mask_bits(start, most) };
            if mask_bits.count_ones() >= 16 && self.left - done >= 64 {
                // Many are selected: each element is written to the next position, which advances only if it
                // was selected.
                for j in 0..most {
                    copy(done, start + j);
                    done += (mask_bits >> j & 1) as usize;
                }
                continue;
            }
            while mask_bits != 0 && done < self.left {
                copy(done, start + mask_bits.trailing_zeros() as usize);
                done += 1;
                mask_bits &= mask_bits - 1;
            }
        }
        done
    }

    /// Up to 64 elements of the mask as bits.
    ///
    /// # Safety
    /// The mask has `count` elements from `start` on.
    unsafe fn mask_bits(&self, start: usize, count: usize) -> u64 {
        let at = |j: usize| self.mask.wrapping_offset(((start + j) as isize).wrapping_mul(self.mask_stride));
        let mut mask_bits = 0;
        if self.mask_stride == 1 && count == 64 {
            for eight in 0..8 {
                // SAFETY: eight bytes of the mask.
                let bytes = u64::from_le_bytes(unsafe { at(8 * eight).cast::<[u8; 8]>().read() });
                // Byte k has bit 0 only; the product brings it to bit 56 + k.
                mask_bits |= (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * eight);
            }
            return mask_bits;
        }
        for j in 0..count {
            // SAFETY: an element of the mask.
            mask_bits |= u64::from(unsafe { at(j).read() } != 0) << j;
        }
        mask_bits
    }
}
