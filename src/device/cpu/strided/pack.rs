//! Strided elements to contiguous ones and back, for elements of any type: bytes by their size.
// Imports: nothing.

use super::iteration::{IterSpace, Position};
use super::transpose::transpose;
use crate::device::cpu::isa::{self, Loop};
pub(crate) use crate::device::cpu::memory::non_temporal::{copy as stream, fence};
use crate::device::cpu::tuning::CONSTANT_STRIDE_ELEMENTS;
use std::mem::MaybeUninit;

/// Gathers `n` elements of operand `k` from `index` on into contiguous memory at `to`.
///
/// # Safety
/// The operand reaches readable elements; `to` has room for `n`.
pub(crate) unsafe fn gather(
    space: &IterSpace,
    k: usize,
    mut index: Position,
    n: usize,
    element: usize,
    to: *mut u8,
) {
    let mut done = 0;
    while done < n {
        let row = space.left_in_row(&index).min(n - done);
        // SAFETY: `row` elements of this row, and room for them.
        unsafe {
            strided(
                to.add(done * element),
                element as isize,
                space.address_at(k, &index),
                space.inner_step(k),
                row,
                element,
            )
        };
        space.advance(&mut index, row);
        done += row;
    }
}

/// The other way: `n` contiguous elements at `from` to operand `k` from `index` on.
///
/// # Safety
/// The operand reaches writable elements; `from` holds `n`.
pub(crate) unsafe fn scatter(
    space: &IterSpace,
    k: usize,
    mut index: Position,
    n: usize,
    element: usize,
    from: *const u8,
) {
    let mut done = 0;
    while done < n {
        let row = space.left_in_row(&index).min(n - done);
        // SAFETY: `row` elements of this row, all of them there.
        unsafe {
            strided(
                space.address_at(k, &index),
                space.inner_step(k),
                from.add(done * element).cast_mut(),
                element as isize,
                row,
                element,
            )
        };
        space.advance(&mut index, row);
        done += row;
    }
}

/// Copies `n` elements between two strided rows; steps in bytes.
///
/// # Safety
/// Both rows are there, they do not overlap, and elements are `element` bytes.
pub(crate) unsafe fn strided(
    to: *mut u8,
    to_step: isize,
    from: *const u8,
    from_step: isize,
    n: usize,
    element: usize,
) {
    let width = element as isize;
    if to_step == width && from_step == width {
        // SAFETY: two contiguous rows that do not overlap.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, n * element) };
    }
    // SAFETY: as the caller promises; copy_words element is moved whole, as bytes that may hold any type.
    unsafe {
        match element {
            1 => copy_words::<u8>(to, to_step, from, from_step, n),
            2 => copy_words::<u16>(to, to_step, from, from_step, n),
            4 => copy_words::<u32>(to, to_step, from, from_step, n),
            8 => copy_words::<u64>(to, to_step, from, from_step, n),
            _ => {
                for i in 0..n as isize {
                    std::ptr::copy_nonoverlapping(
                        from.offset(i * from_step),
                        to.offset(i * to_step),
                        element,
                    );
                }
            }
        }
    }
}

/// `WORD` is as wide as an element. StackScratch may be uninitialized, as padding is, and are moved at any address.
unsafe fn copy_words<WORD: Copy>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
    let (to, from) = (to.cast::<MaybeUninit<WORD>>(), from.cast::<MaybeUninit<WORD>>());
    if n as isize >= CONSTANT_STRIDE_ELEMENTS && to_step == size_of::<WORD>() as isize {
        let row = (to, from, n);
        match from_step / to_step {
            _ if from_step % to_step != 0 => {}
            -1 => return isa::dispatch_up_to_avx2(ConstantStride::<WORD, -1>(row)),
            0 => return isa::dispatch_up_to_avx2(ConstantStride::<WORD, 0>(row)),
            2 => return isa::dispatch_up_to_avx2(ConstantStride::<WORD, 2>(row)),
            3 => return isa::dispatch_up_to_avx2(ConstantStride::<WORD, 3>(row)),
            4 => return isa::dispatch_up_to_avx2(ConstantStride::<WORD, 4>(row)),
            _ => {}
        }
    }
    if from_step == 0 {
        // SAFETY: one element, read once for all.
        let value = unsafe { from.read_unaligned() };
        for i in 0..n as isize {
            // SAFETY: as the caller of `strided` promises.
            unsafe { to.byte_offset(i * to_step).write_unaligned(value) };
        }
        return;
    }
    for i in 0..n as isize {
        // SAFETY: as the caller of `strided` promises.
        unsafe {
            to.byte_offset(i * to_step).write_unaligned(from.byte_offset(i * from_step).read_unaligned())
        };
    }
}

/// A row of words to contiguous ones, with a step that is a constant: such a loop vectorizes.
struct ConstantStride<WORD: Copy, const STEP: isize>(
    (*mut MaybeUninit<WORD>, *const MaybeUninit<WORD>, usize),
);

impl<WORD: Copy, const STEP: isize> Loop for ConstantStride<WORD, STEP> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (to, from, n) = self.0;
        // SAFETY: as the caller of `strided` promises: `n` words at both ends; the first is read once if it is all.
        unsafe {
            let first = from.read_unaligned();
            for i in 0..n {
                let value = if STEP == 0 { first } else { from.offset(i as isize * STEP).read_unaligned() };
                to.add(i).write_unaligned(value);
            }
        }
    }
}

/// Copies rows and columns of elements to others; copy_words end has its steps from row to row and from column to column, in bytes.
///
/// Where rows stand crosswise at one end, contiguous from row to row, and along at the other, squares of them are copy_columns;
/// else such rows are copied column by column: a whole cache line at a time. Where an end of step 0 takes many elements the
/// last one is left there.
///
/// # Safety
/// Both ends are there, they do not overlap, and elements are `element` bytes.
pub(crate) unsafe fn rectangle(
    to: *mut u8,
    to_steps: [isize; 2],
    mut from: *const u8,
    from_steps: [isize; 2],
    mut size: [usize; 2],
    element: usize,
) {
    for axis in 0..2 {
        // Squares write their edges in another order, so the others are left out.
        if to_steps[axis] == 0 && size[axis] > 1 {
            from = from.wrapping_offset((size[axis] as isize - 1).wrapping_mul(from_steps[axis]));
            size[axis] = 1;
        }
    }
    let [rows, columns] = size;
    let width = element as isize;
    let still = from_steps[1] == 0; // one element a row, not a column
    if from_steps[0] == width && to_steps[1] == width && !still {
        // SAFETY: as the caller promises.
        if unsafe { transpose_words(to, to_steps[0], from, from_steps[1], [rows, columns], element) } {
            return;
        }
    }
    if to_steps[0] == width && from_steps[1] == width {
        // SAFETY: as the caller promises.
        if unsafe { transpose_words(to, to_steps[1], from, from_steps[0], [columns, rows], element) } {
            return;
        }
    }
    if [to_steps[0], from_steps[0]].contains(&width) && !still {
        // SAFETY: as the caller promises.
        return unsafe { copy_columns(to, to_steps, from, from_steps, [rows, columns], element) };
    }
    for r in 0..rows as isize {
        // SAFETY: as the caller promises.
        unsafe {
            strided(
                to.offset(r * to_steps[0]),
                to_steps[1],
                from.offset(r * from_steps[0]),
                from_steps[1],
                columns,
                element,
            )
        };
    }
}

/// Turns what stands crosswise; whether there are words of this width.
///
/// # Safety
/// As [`transpose`], for words of `element` bytes.
unsafe fn transpose_words(
    to: *mut u8,
    to_pitch: isize,
    from: *const u8,
    from_pitch: isize,
    size: [usize; 2],
    element: usize,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        match element {
            1 => transpose::<u8>(to, to_pitch, from, from_pitch, size),
            2 => transpose::<u16>(to, to_pitch, from, from_pitch, size),
            4 => transpose::<u32>(to, to_pitch, from, from_pitch, size),
            8 => transpose::<u64>(to, to_pitch, from, from_pitch, size),
            _ => return false,
        }
    }
    true
}

/// Copies rows that are columns at the other end, column by column; steps from row to row and from column to column.
///
/// # Safety
/// Both tiles are there, they do not overlap, elements are `element` bytes.
unsafe fn copy_columns(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
    element: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match element {
            1 => columns_of_words::<u8, 64>(to, to_steps, from, from_steps, [rows, columns]),
            2 => columns_of_words::<u16, 32>(to, to_steps, from, from_steps, [rows, columns]),
            4 => columns_of_words::<u32, 16>(to, to_steps, from, from_steps, [rows, columns]),
            8 => columns_of_words::<u64, 8>(to, to_steps, from, from_steps, [rows, columns]),
            16 => columns_of_words::<u128, 4>(to, to_steps, from, from_steps, [rows, columns]),
            _ => {
                for c in 0..columns as isize {
                    let (to, from) = (to.offset(c * to_steps[1]), from.offset(c * from_steps[1]));
                    strided(to, to_steps[0], from, from_steps[0], rows, element);
                }
            }
        }
    }
}

/// `LINE` elements are a cache line.
unsafe fn columns_of_words<WORD: Copy, const LINE: usize>(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
) {
    for c in 0..columns as isize {
        // SAFETY: as the caller of `copy_columns` promises.
        unsafe {
            let (to, from) = (to.offset(c * to_steps[1]), from.offset(c * from_steps[1]));
            let one = |r: isize| {
                let word = from.offset(r * from_steps[0]).cast::<MaybeUninit<WORD>>().read_unaligned();
                to.offset(r * to_steps[0]).cast::<MaybeUninit<WORD>>().write_unaligned(word);
            };
            if rows == LINE {
                // A constant count: unrolled, and whichever end is contiguous is taken at once.
                for r in 0..LINE as isize {
                    one(r);
                }
            } else {
                for r in 0..rows as isize {
                    one(r);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All kinds of steps at both ends, beside the obvious loop.
    fn copies<WORD: Copy + PartialEq + std::fmt::Debug>(word: impl Fn(usize) -> WORD) {
        let size = size_of::<WORD>() as isize;
        for (rows, columns) in [(0, 3), (1, 1), (3, 1), (1, 40), (17, 33), (35, 50), (64, 16)] {
            let (across, down) = (rows as isize, columns as isize);
            let steps = [[down, 1], [1, across], [0, 1], [1, 0], [0, 0], [2 * down, 2], [2, 2 * across]];
            let from: Vec<WORD> = (0..4 * rows * columns + 1).map(&word).collect();
            for to_steps in steps {
                for from_steps in steps {
                    let mut to = vec![word(0); 4 * rows * columns + 1];
                    let mut expected = to.clone();
                    for r in 0..rows as isize {
                        for c in 0..columns as isize {
                            expected[(r * to_steps[0] + c * to_steps[1]) as usize] =
                                from[(r * from_steps[0] + c * from_steps[1]) as usize];
                        }
                    }
                    let [to_bytes, from_bytes] =
                        [to_steps, from_steps].map(|steps| steps.map(|step| step * size));
                    // SAFETY: rectangles inside both vectors.
                    unsafe {
                        rectangle(
                            to.as_mut_ptr().cast(),
                            to_bytes,
                            from.as_ptr().cast(),
                            from_bytes,
                            [rows, columns],
                            size as usize,
                        )
                    };
                    assert_eq!(to, expected, "{rows} × {columns}, {from_steps:?} to {to_steps:?}");
                }
            }
        }
    }

    #[test]
    fn rectangles_are_copied_in_order_for_all_steps_zero_too() {
        copies(|i| i as u8);
        copies(|i| i as u16);
        copies(|i| i as u32);
        copies(|i| i as u64);
        copies(|i| i as u128);
        copies(|i| [i as u8; 3]);
    }
}
