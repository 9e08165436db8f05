//! Strided elements to contiguous ones and back, for elements of any type: bytes by their size.
//!
//! Imports: `device`.

use super::walk::{self, Index, Order, Walk};
use crate::device::Slot;

/// Copies every element of `from` to the same index of `to`.
///
/// # Safety
/// As [`Device::copy`](crate::device::Device::copy).
pub(super) unsafe fn copy(sizes: &[usize], to: Slot<'_>, from: Slot<'_>) {
    let element = to.element;
    walk::each(sizes, &[to, from], Order::OfOutput, &mut |walk| {
        walk::parallel(walk, 1, &|part| {
            // SAFETY: the parts of the walk reach only what the caller promised.
            unsafe { copy_walk(&part, element) }
        });
    });
}

unsafe fn copy_walk(walk: &Walk, element: usize) {
    let (rows, n) = (walk.numel() / walk.inner(), walk.inner());
    let mut index = walk.index_of(0);
    for _ in 0..rows {
        let (to, from) = (walk.address_at(0, &index), walk.address_at(1, &index));
        // SAFETY: a row of the walk, of which the caller promised every element.
        unsafe { strided(to, walk.inner_step(0), from, walk.inner_step(1), n, element) };
        walk.advance(&mut index, n);
    }
}

/// Gathers `n` elements of operand `k` from `index` on into contiguous memory at `to`.
///
/// # Safety
/// The operand reaches readable elements; `to` has room for `n`.
pub(super) unsafe fn gather(walk: &Walk, k: usize, mut index: Index, n: usize, element: usize, to: *mut u8) {
    let mut done = 0;
    while done < n {
        let row = walk.left_in_row(&index).min(n - done);
        // SAFETY: `row` elements of this row, and room for them.
        unsafe { strided(to.add(done * element), element as isize, walk.address_at(k, &index), walk.inner_step(k), row, element) };
        walk.advance(&mut index, row);
        done += row;
    }
}

/// The other way: `n` contiguous elements at `from` to operand `k` from `index` on.
///
/// # Safety
/// The operand reaches writable elements; `from` holds `n`.
pub(super) unsafe fn scatter(walk: &Walk, k: usize, mut index: Index, n: usize, element: usize, from: *const u8) {
    let mut done = 0;
    while done < n {
        let row = walk.left_in_row(&index).min(n - done);
        // SAFETY: `row` elements of this row, all of them there.
        unsafe {
            strided(walk.address_at(k, &index), walk.inner_step(k), from.add(done * element).cast_mut(), element as isize, row, element)
        };
        walk.advance(&mut index, row);
        done += row;
    }
}

/// Copies `n` elements between two strided rows; steps in bytes.
///
/// # Safety
/// Both rows are there, they do not overlap, and elements are `element` bytes.
pub(super) unsafe fn strided(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize, element: usize) {
    let width = element as isize;
    if to_step == width && from_step == width {
        // SAFETY: two contiguous rows that do not overlap.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, n * element) };
    }
    // SAFETY: as the caller promises; each element is moved whole, as bytes that may hold any type.
    unsafe {
        match element {
            1 => each::<1>(to, to_step, from, from_step, n),
            2 => each::<2>(to, to_step, from, from_step, n),
            4 => each::<4>(to, to_step, from, from_step, n),
            8 => each::<8>(to, to_step, from, from_step, n),
            16 => each::<16>(to, to_step, from, from_step, n),
            _ => {
                for i in 0..n as isize {
                    std::ptr::copy_nonoverlapping(from.offset(i * from_step), to.offset(i * to_step), element);
                }
            }
        }
    }
}

unsafe fn each<const SIZE: usize>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
    type Bytes<const SIZE: usize> = [std::mem::MaybeUninit<u8>; SIZE];
    let (to, from) = (to.cast::<Bytes<SIZE>>(), from.cast::<Bytes<SIZE>>());
    if from_step == 0 {
        // SAFETY: one element, read once for all.
        let value = unsafe { from.read() };
        if to_step == SIZE as isize {
            for i in 0..n {
                // SAFETY: as the caller of `strided` promises.
                unsafe { to.add(i).write(value) };
            }
            return;
        }
        for i in 0..n as isize {
            // SAFETY: as the caller of `strided` promises.
            unsafe { to.byte_offset(i * to_step).write(value) };
        }
        return;
    }
    for i in 0..n as isize {
        // SAFETY: as the caller of `strided` promises; arrays of bytes need no alignment.
        unsafe { to.byte_offset(i * to_step).write(from.byte_offset(i * from_step).read()) };
    }
}
