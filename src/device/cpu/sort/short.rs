//! Sorts of short lines: each becomes one lane of a matrix, whose lanes the network sorts together.
// Imports: nothing.

use super::super::strided::pack;
use super::bitonic::{Sorted, SortingNetwork};
use super::items::Items;
use super::keys::SortItem;

/// The longest lines that are sorted so.
const MAX_LINE: usize = 128;
/// Items of the lines that are sorted together, in one matrix after another.
const MAX_ITEMS: usize = 2048;

/// The number of lines of `n` items that are sorted together, and the items of their matrix. `None` if this
/// processor has no network, or if `lines` lines would leave most of its lanes empty.
pub(super) fn shape<I: SortItem>(n: usize, lines: usize) -> Option<[usize; 2]> {
    let SortingNetwork { lanes, .. } = I::network()?;
    let is_short = (2..=MAX_LINE).contains(&n) && lines > lanes / 2;
    is_short.then(|| [(MAX_ITEMS / (n * lanes)).max(1) * lanes, n.next_power_of_two() * lanes])
}

/// Sorts each line of `n` items; `matrix` has room for the items of a matrix ([`shape`]).
pub(super) fn sort_lines<I: SortItem>(items: &mut [I], n: usize, matrix: &mut Items<I>) {
    let Some(SortingNetwork { lanes, sort, .. }) = I::network() else {
        return items.chunks_mut(n).for_each(<[I]>::sort_unstable);
    };
    matrix.clear();
    // The rows after the items stay the last ones.
    matrix.resize(n.next_power_of_two() * lanes, I::HIGHEST);
    let width = size_of::<I>();
    let [row, line, item] = [lanes * width, n * width, width].map(|stride| stride as isize);
    for lines in items.chunks_mut(n * lanes) {
        let count = lines.len() / n;
        // SAFETY: the lines have `n` items each, and the matrix as many rows or more, of `lanes` items.
        unsafe {
            pack::rectangle(
                matrix.as_mut_ptr().cast(),
                [row, item],
                lines.as_ptr().cast(),
                [item, line],
                [n, count],
                width,
            );
            sort(matrix.as_mut_ptr(), matrix.len() / lanes, Sorted::Lanes);
            pack::rectangle(
                lines.as_mut_ptr().cast(),
                [line, item],
                matrix.as_ptr().cast(),
                [item, row],
                [count, n],
                width,
            );
        }
    }
}
