//! Whether strides leave gaps, or give two indices one position. The code is not generic in the rank: it is
//! compiled once.
//!
//! An axis is a pair: the absolute value of its stride, and its size, which is not 0. The sign of a stride
//! does not affect either answer.
// Imports: nothing.

/// [`may_overlap`] compares all positions up to this number of elements.
const EXACT_ELEMENTS: usize = 4096;

/// Whether some order of the axes has no gaps.
pub(super) fn is_dense(axes: &mut [(usize, usize)]) -> bool {
    sort(axes);
    let mut step = 1;
    axes.iter().all(|&(stride, size)| {
        let fits = size == 1 || stride == step;
        step *= size;
        fits
    })
}

/// Whether two indices may have one position; exact up to [`EXACT_ELEMENTS`] elements.
pub(super) fn may_overlap(axes: &mut [(usize, usize)]) -> bool {
    sort(axes);
    let (mut nested, mut numel) = (true, 1);
    let mut reach = 0usize; // the farthest position that the faster axes reach
    for &(stride, size) in axes.iter().filter(|(_, size)| *size > 1) {
        nested &= stride > reach;
        reach = reach.saturating_add(stride.saturating_mul(size - 1));
        numel *= size;
    }
    !nested && (numel > EXACT_ELEMENTS || meet(axes))
}

/// Whether two of at most [`EXACT_ELEMENTS`] positions are equal. They are sorted on the stack, because this
/// function must not allocate.
#[cold]
fn meet(axes: &[(usize, usize)]) -> bool {
    // As `u64`, for which this crate has the sort of `std` already.
    let (mut positions, mut count) = ([0u64; EXACT_ELEMENTS], 1);
    for &(stride, size) in axes {
        for at in 1..size {
            for k in 0..count {
                positions[at * count + k] = positions[k] + (at * stride) as u64;
            }
        }
        count *= size;
    }
    let positions = &mut positions[..count];
    positions.sort_unstable();
    positions.windows(2).any(|pair| pair[0] == pair[1])
}

/// Insertion sort by rising stride; there are few axes.
fn sort(axes: &mut [(usize, usize)]) {
    for end in 1..axes.len() {
        let mut at = end;
        while at > 0 && axes[at - 1] > axes[at] {
            axes.swap(at - 1, at);
            at -= 1;
        }
    }
}
