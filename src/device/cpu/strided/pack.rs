//! Copies between strided and contiguous memory. Elements of any type are copied as words of their size.
// Imports: nothing.

use super::iteration::{IterSpace, SpacePosition};
use super::transpose::transpose;
use crate::device::cpu::isa::{self, Loop};
use crate::device::cpu::tuning::CONSTANT_STRIDE_ELEMENTS;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Packs `n` elements of operand `k` from `index` on into contiguous memory at `to`.
///
/// # Safety
/// 1. The operand has `n` readable elements from `index` on.
/// 2. `to` has room for `n` elements and does not overlap them.
pub(crate) unsafe fn pack_elements(
    space: &IterSpace,
    k: usize,
    index: SpacePosition,
    n: usize,
    element: usize,
    mut to: *mut u8,
) {
    for_each_rectangle(space, index, n, &mut |index, [rows, columns]| {
        let (packed, steps) = packed_and_strided(space, k, columns, element);
        // SAFETY: (1) these rows are readable; (2) `to` has room for them.
        unsafe { rectangle(to, packed, space.address_at(k, index), steps, [rows, columns], element) };
        to = to.wrapping_add(rows * columns * element);
    });
}

/// Unpacks `n` contiguous elements at `from` to operand `k` from `index` on.
///
/// # Safety
/// 1. The operand has `n` writable elements from `index` on.
/// 2. `from` holds `n` elements and does not overlap them.
pub(crate) unsafe fn unpack_elements(
    space: &IterSpace,
    k: usize,
    index: SpacePosition,
    n: usize,
    element: usize,
    mut from: *const u8,
) {
    for_each_rectangle(space, index, n, &mut |index, [rows, columns]| {
        let (packed, steps) = packed_and_strided(space, k, columns, element);
        // SAFETY: (1) these rows are writable; (2) `from` holds their elements.
        unsafe { rectangle(space.address_at(k, index), steps, from, packed, [rows, columns], element) };
        from = from.wrapping_add(rows * columns * element);
    });
}

/// Calls `f` with the first index, the rows and the columns of rectangles along the two fastest axes that
/// together are the `n` positions from `index` on.
fn for_each_rectangle(
    space: &IterSpace,
    mut index: SpacePosition,
    mut n: usize,
    f: &mut dyn FnMut(&SpacePosition, [usize; 2]),
) {
    while n > 0 {
        let left = space.left_in_row(&index).min(n);
        let is_whole = left == space.inner();
        let [rows, columns] = [if is_whole { space.rows_left(&index).min(n / left) } else { 1 }, left];
        f(&index, [rows, columns]);
        space.advance(&mut index, rows * columns);
        n -= rows * columns;
    }
}

/// The strides from row to row and from column to column of packed rows, and those of operand `k`.
fn packed_and_strided(
    space: &IterSpace,
    k: usize,
    columns: usize,
    element: usize,
) -> ([isize; 2], [isize; 2]) {
    ([(columns * element) as isize, element as isize], [space.row_stride(k), space.inner_step(k)])
}

/// Copies `n` elements between two strided rows; the strides are in bytes.
///
/// # Safety
/// 1. Both rows are valid, `from` for reads and `to` for writes.
/// 2. They do not overlap.
/// 3. Elements are `element` bytes.
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
        // SAFETY: (1), (2), (3) by the caller's promise; both rows are contiguous.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, n * element) };
    }
    // SAFETY: (1), (2), (3) by the caller's promise. Each element moves as a whole, as bytes that may hold
    // any type.
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

/// A word at any address, of which any bytes may be uninitialized, as padding is.
///
/// The functions of the standard library that read and write at any address check their arguments where debug
/// assertions are on, element by element. Places of this type are accessed without a call.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct UnalignedWord<WORD: Copy>(MaybeUninit<WORD>);

/// Copies `n` words, each as wide as an element.
///
/// # Safety
/// As for [`strided`].
unsafe fn copy_words<WORD: Copy>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
    let (mut to, mut from) = (to.cast::<UnalignedWord<WORD>>(), from.cast::<UnalignedWord<WORD>>());
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
    if from_step == 0 && n > 0 {
        // SAFETY: (1) by the caller's promise: the row has one element.
        let value = unsafe { *from };
        for _ in 0..n {
            // SAFETY: (1), (2) by the caller's promise.
            unsafe { *to = value };
            to = to.wrapping_byte_offset(to_step);
        }
        return;
    }
    for _ in 0..n {
        // SAFETY: (1), (2) by the caller's promise.
        unsafe { *to = *from };
        (to, from) = (to.wrapping_byte_offset(to_step), from.wrapping_byte_offset(from_step));
    }
}

/// Copies a row of words with a constant stride to contiguous memory. A loop with a constant stride
/// vectorizes.
struct ConstantStride<WORD: Copy, const STEP: isize>(
    (*mut UnalignedWord<WORD>, *const UnalignedWord<WORD>, usize),
);

impl<WORD: Copy, const STEP: isize> Loop for ConstantStride<WORD, STEP> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (to, from, n) = self.0;
        // SAFETY: as for [`strided`]: `n` words at both ends. The first word is read once if it is the only
        // one.
        unsafe {
            let first = *from;
            for i in 0..n {
                let value =
                    if STEP == 0 { first } else { *from.wrapping_offset((i as isize).wrapping_mul(STEP)) };
                *to.wrapping_add(i) = value;
            }
        }
    }
}

/// Bytes behind its destination that [`repeat_each`] may write.
pub(crate) const REPEAT_SLACK_BYTES: usize = 32;

/// Writes rows of `n` elements, each of them `times` times. The destination has stride `pitch` from row to
/// row; the elements have the strides `steps` from row to row and from element to element. All strides are in
/// bytes.
///
/// # Safety
/// 1. The elements are valid for reads; they are `element` bytes.
/// 2. `to` has room for `rows` rows of `n · times` elements and [`REPEAT_SLACK_BYTES`] more, and does not
///    overlap them. A row begins where the one before ends, or later.
pub(crate) unsafe fn repeat_each(
    to: *mut u8,
    pitch: usize,
    from: *const u8,
    steps: [isize; 2],
    [rows, n, times]: [usize; 3],
    element: usize,
) {
    let of = (to, pitch, from, steps, [rows, n, times]);
    match element {
        1 => isa::dispatch_up_to_avx2(RepeatEach::<u8, 32>(of, PhantomData)),
        2 => isa::dispatch_up_to_avx2(RepeatEach::<u16, 16>(of, PhantomData)),
        4 => isa::dispatch_up_to_avx2(RepeatEach::<u32, 8>(of, PhantomData)),
        8 => isa::dispatch_up_to_avx2(RepeatEach::<u64, 4>(of, PhantomData)),
        _ => {
            for i in 0..rows * n {
                let (row, i) = (i / n, i % n);
                let to = to.wrapping_add(row * pitch + i * times * element);
                let from = from
                    .wrapping_offset(steps[0].wrapping_mul(row as isize))
                    .wrapping_offset(steps[1].wrapping_mul(i as isize));
                // SAFETY: (1), (2) by the caller's promise.
                unsafe { strided(to, element as isize, from, 0, times, element) };
            }
        }
    }
}

/// As [`repeat_each`], for words, of which `LANES` fill a vector. Whole vectors are written; the words that
/// they write too many are overwritten by the next element's, or by the next row's.
struct RepeatEach<WORD, const LANES: usize>(
    (*mut u8, usize, *const u8, [isize; 2], [usize; 3]),
    PhantomData<WORD>,
);

impl<WORD: Copy, const LANES: usize> Loop for RepeatEach<WORD, LANES> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (to, pitch, from, steps, [rows, n, times]) = self.0;
        for row in 0..rows {
            let mut to = to.wrapping_add(row * pitch).cast::<MaybeUninit<WORD>>();
            let mut from = from.wrapping_offset(steps[0].wrapping_mul(row as isize));
            for _ in 0..n {
                // SAFETY: (1), (2) of [`repeat_each`]: `LANES` words are `REPEAT_SLACK_BYTES` bytes.
                unsafe {
                    let word = from.cast::<MaybeUninit<WORD>>().read_unaligned();
                    let mut t = 0;
                    while t < times {
                        to.add(t).cast::<[MaybeUninit<WORD>; LANES]>().write_unaligned([word; LANES]);
                        t += LANES;
                    }
                }
                (to, from) = (to.wrapping_add(times), from.wrapping_offset(steps[1]));
            }
        }
    }
}

/// Copies a rectangle of elements. Each end has its strides from row to row and from column to column, in
/// bytes.
///
/// If one end is transposed (contiguous from row to row) and the other is contiguous along rows, squares are
/// transposed in registers. Other transposed rectangles are copied column by column, a whole cache line at a
/// time. If the destination has stride 0 along an axis, it keeps the last element.
///
/// # Safety
/// 1. Both rectangles are valid, `from` for reads and `to` for writes.
/// 2. They do not overlap.
/// 3. Elements are `element` bytes.
pub(crate) unsafe fn rectangle(
    to: *mut u8,
    to_steps: [isize; 2],
    mut from: *const u8,
    from_steps: [isize; 2],
    mut size: [usize; 2],
    element: usize,
) {
    for axis in 0..2 {
        // Squares write their edges in another order, so only the last element is copied.
        if to_steps[axis] == 0 && size[axis] > 1 {
            from = from.wrapping_offset((size[axis] as isize - 1).wrapping_mul(from_steps[axis]));
            size[axis] = 1;
        }
    }
    let [rows, columns] = size;
    let width = element as isize;
    let broadcast = from_steps[1] == 0; // one element for each row, not a column
    if from_steps[0] == width && to_steps[1] == width && !broadcast {
        // SAFETY: (1), (2), (3) by the caller's promise.
        if unsafe { transpose_words(to, to_steps[0], from, from_steps[1], [rows, columns], element) } {
            return;
        }
    }
    if to_steps[0] == width && from_steps[1] == width {
        // SAFETY: (1), (2), (3) by the caller's promise.
        if unsafe { transpose_words(to, to_steps[1], from, from_steps[0], [columns, rows], element) } {
            return;
        }
    }
    if [to_steps[0], from_steps[0]].contains(&width) && !broadcast {
        // SAFETY: (1), (2), (3) by the caller's promise.
        return unsafe { copy_columns(to, to_steps, from, from_steps, [rows, columns], element) };
    }
    // SAFETY: (1), (2), (3) by the caller's promise.
    unsafe {
        match element {
            4 if columns < SHORT_ROW_WORDS => short_rows::<u32>(to, to_steps, from, from_steps, size),
            8 if columns < SHORT_ROW_WORDS => short_rows::<u64>(to, to_steps, from, from_steps, size),
            _ => {
                for r in 0..rows as isize {
                    let (to, from) = (to.offset(r * to_steps[0]), from.offset(r * from_steps[0]));
                    strided(to, to_steps[1], from, from_steps[1], columns, element);
                }
            }
        }
    }
}

/// Words of a row below which a call for each row would take longer than the copy.
const SHORT_ROW_WORDS: usize = CONSTANT_STRIDE_ELEMENTS as usize;

/// Copies a rectangle row by row, a few words at a time.
///
/// # Safety
/// As for [`rectangle`].
unsafe fn short_rows<WORD: Copy>(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
) {
    const TOGETHER: isize = 4;
    let (columns, whole) = (columns as isize, columns as isize / TOGETHER * TOGETHER);
    for r in 0..rows as isize {
        let (to, from) = (to.wrapping_offset(r * to_steps[0]), from.wrapping_offset(r * from_steps[0]));
        let at = |c: isize| {
            let (to, from) = (to.wrapping_offset(c * to_steps[1]), from.wrapping_offset(c * from_steps[1]));
            (to.cast::<MaybeUninit<WORD>>(), from.cast::<MaybeUninit<WORD>>())
        };
        // SAFETY: (1), (2), (3) by the caller's promise, for the words of one row.
        unsafe {
            for c in (0..whole).step_by(TOGETHER as usize) {
                let mut words = [MaybeUninit::uninit(); TOGETHER as usize];
                for i in 0..TOGETHER {
                    words[i as usize] = at(c + i).1.read_unaligned();
                }
                for i in 0..TOGETHER {
                    at(c + i).0.write_unaligned(words[i as usize]);
                }
            }
            for c in whole..columns {
                at(c).0.write_unaligned(at(c).1.read_unaligned());
            }
        }
    }
}

/// Transposes a rectangle. Returns whether there are words of this width.
///
/// # Safety
/// As for [`transpose`], with words of `element` bytes.
unsafe fn transpose_words(
    to: *mut u8,
    to_pitch: isize,
    from: *const u8,
    from_pitch: isize,
    size: [usize; 2],
    element: usize,
) -> bool {
    // SAFETY: by the caller's promise.
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

/// Copies a rectangle column by column; the strides are from row to row and from column to column.
///
/// # Safety
/// As for [`rectangle`].
unsafe fn copy_columns(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
    element: usize,
) {
    // SAFETY: (1), (2), (3) by the caller's promise.
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

/// Copies columns of words; `LINE` words fill a cache line.
///
/// # Safety
/// As for [`rectangle`].
unsafe fn columns_of_words<WORD: Copy, const LINE: usize>(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
) {
    for c in 0..columns as isize {
        // SAFETY: (1), (2), (3) by the caller's promise.
        unsafe {
            let to = to.wrapping_offset(c.wrapping_mul(to_steps[1])).cast::<UnalignedWord<WORD>>();
            let from = from.wrapping_offset(c.wrapping_mul(from_steps[1])).cast::<UnalignedWord<WORD>>();
            let one = |r: isize| {
                let from = from.wrapping_byte_offset(r.wrapping_mul(from_steps[0]));
                *to.wrapping_byte_offset(r.wrapping_mul(to_steps[0])) = *from;
            };
            if rows == LINE {
                // The count is constant: the compiler unrolls the loop and takes the contiguous end by one
                // wide access.
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

    /// Compares all kinds of strides at both ends with the plain loop.
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
                    // SAFETY: (1), (2), (3): the rectangles are inside two different vectors.
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

    /// Repeats elements of one width any number of times, in rows that follow each other; the slack behind
    /// them takes the rest.
    fn repeats<WORD: Copy + PartialEq + std::fmt::Debug>(word: impl Fn(usize) -> WORD) {
        let size = size_of::<WORD>();
        for (n, times) in [(0, 3), (1, 1), (5, 1), (7, 3), (3, 8), (4, 33), (2, 100)] {
            for rows in 0..4 {
                let from: Vec<WORD> = (0..3 * n + rows).map(&word).collect();
                let mut to = vec![word(99); rows * n * times + REPEAT_SLACK_BYTES.div_ceil(size)];
                let (there, pitch) = (to.as_mut_ptr().cast(), n * times * size);
                let steps = [size as isize, 3 * size as isize];
                // SAFETY: (1), (2): elements of `from`, and room for them with the slack.
                unsafe { repeat_each(there, pitch, from.as_ptr().cast(), steps, [rows, n, times], size) };
                let row = |row| (0..n * times).map(move |i| row + i / times * 3);
                let expected: Vec<WORD> = (0..rows).flat_map(row).map(|i| from[i]).collect();
                assert_eq!(to[..rows * n * times], expected, "{rows} rows of {n} elements, {times} times");
            }
        }
    }

    #[test]
    fn elements_of_every_width_are_repeated() {
        repeats(|i| i as u8);
        repeats(|i| i as u16);
        repeats(|i| i as u32);
        repeats(|i| i as u64);
        repeats(|i| i as u128);
        repeats(|i| [i as u8; 3]);
    }
}
