//! Coalescing: the axes of several operands, sorted and merged to as few as possible.
// Imports: nothing.

/// Sorts and merges the axes of several operands. `axes` are the numbers of the axes, the slowest first, none
/// of size 1; `stride(operand, axis)` are the strides, in any unit.
///
/// The axes keep their order, or are sorted by decreasing strides of operand `by`; those with equal strides
/// keep their order. `add` gets each axis, and whether it is merged with the axis before: whether every
/// operand is contiguous over both.
#[inline(always)]
pub(crate) fn coalesce(
    axes: &mut [usize],
    by: Option<usize>,
    operands: usize,
    size: impl Fn(usize) -> usize,
    stride: impl Fn(usize, usize) -> isize,
    mut add: impl FnMut(usize, bool),
) {
    if let Some(by) = by {
        // Insertion sort is stable, and fast for the few axes of a tensor.
        for i in 1..axes.len() {
            let mut at = i;
            while at > 0 && stride(by, axes[at]).unsigned_abs() > stride(by, axes[at - 1]).unsigned_abs() {
                axes.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    let mut before = None;
    for &axis in &*axes {
        let continues = |before: usize| {
            (0..operands).all(|k| stride(k, before) == stride(k, axis).wrapping_mul(size(axis) as isize))
        };
        add(axis, before.is_some_and(continues));
        before = Some(axis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes and strides of the merged axes, for the strides of two operands.
    fn merged(sizes: &[usize], strides: [&[isize]; 2], by: Option<usize>) -> Vec<(usize, [isize; 2])> {
        let mut axes: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != 1).collect();
        let mut found: Vec<(usize, [isize; 2])> = Vec::new();
        let add = |axis: usize, merged: bool| {
            let size = if merged { found.pop().unwrap().0 * sizes[axis] } else { sizes[axis] };
            found.push((size, strides.map(|own| own[axis])));
        };
        coalesce(&mut axes, by, 2, |axis| sizes[axis], |k, axis| strides[k][axis], add);
        found
    }

    #[test]
    fn axes_are_merged_if_every_operand_is_contiguous_over_them() {
        let (row_major, broadcast) = ([20, 5, 7, 1], [0, 0, 9, 0]);
        assert_eq!(merged(&[3, 4, 1, 5], [&row_major; 2], None), [(60, [1, 1])]);
        assert_eq!(merged(&[3, 4, 1, 5], [&row_major, &broadcast], None), [(60, [1, 0])]);
        assert_eq!(merged(&[3, 4, 1, 5], [&row_major, &[20, 5, 0, 0]], None), [(12, [5, 5]), (5, [1, 0])]);
        assert_eq!(merged(&[1, 1], [&[3, 4]; 2], None), []);
        // A reversed axis is contiguous with another reversed one only.
        assert_eq!(merged(&[3, 4], [&[-4, -1]; 2], None), [(12, [-1, -1])]);
        assert_eq!(merged(&[3, 4], [&[4, -1]; 2], None), [(3, [4, 4]), (4, [-1, -1])]);
    }

    #[test]
    fn axes_are_sorted_by_one_operand_and_stay_in_order_otherwise() {
        let (columns, rows) = ([1, 3], [4, 1]);
        assert_eq!(merged(&[3, 4], [&columns, &rows], None), [(3, [1, 4]), (4, [3, 1])]);
        assert_eq!(merged(&[3, 4], [&columns, &rows], Some(0)), [(4, [3, 1]), (3, [1, 4])]);
        assert_eq!(merged(&[3, 4], [&columns, &rows], Some(1)), [(3, [1, 4]), (4, [3, 1])]);
        assert_eq!(merged(&[3, 4], [&columns; 2], Some(0)), [(12, [1, 1])]);
        // Equal strides, of different signs too, keep their order.
        assert_eq!(merged(&[2, 3], [&[-1, 1], &[5, 9]], Some(0)), [(2, [-1, 5]), (3, [1, 9])]);
    }
}
