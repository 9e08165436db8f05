//! Which elements the indices of a strided operand address: each once, all of a block.
// Imports: `autograd`.

use super::small_vec::SmallVec;
use super::step::BlockView;

/// The axes of a strided operand that address each element once together, and the others, over which a caller
/// loops. Long axes stay together.
pub(super) fn without_overlap(stride: &[isize], sizes: &[usize]) -> (SmallVec<usize>, SmallVec<usize>) {
    let mut order: SmallVec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(sizes[axis]));
    let (mut free, mut looped) = (SmallVec::default(), SmallVec::default());
    for &axis in order.iter() {
        let with = SmallVec::concat(&[&free, &[axis]]);
        match is_injective(stride, sizes, with.clone()) {
            true => free = with,
            false => looped.push(axis),
        }
    }
    free.sort_unstable();
    (free, looped)
}

/// Whether each index along these axes certainly addresses its own element.
pub(super) fn is_injective(stride: &[isize], sizes: &[usize], mut axes: SmallVec<usize>) -> bool {
    axes.sort_unstable_by_key(|&axis| stride[axis].unsigned_abs());
    let mut reach = 0;
    axes.iter().filter(|&&axis| sizes[axis] > 1).all(|&axis| {
        let step = stride[axis].unsigned_abs();
        let is_beyond = step > reach;
        reach += (sizes[axis] - 1) * step;
        is_beyond
    })
}

/// Whether an operand is all of its block, each element once.
pub(super) fn covers_block(view: &BlockView, sizes: &[usize]) -> bool {
    covers(&view.stride, sizes, view.element, view.nbytes)
}

/// Whether a strided operand is all of a block of `nbytes` bytes, each element once.
pub(super) fn covers(stride: &[isize], sizes: &[usize], element: usize, nbytes: usize) -> bool {
    sizes.iter().product::<usize>() * element == nbytes
        && is_injective(stride, sizes, (0..sizes.len()).collect())
}
