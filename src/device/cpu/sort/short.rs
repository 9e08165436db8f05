//! Sorts of short lines: each becomes one lane of a matrix, whose lanes the network sorts together.
// Imports: nothing.

use super::super::strided::pack;
use super::bitonic::SortingNetwork;
use super::keys::SortItem;

/// The longest lines that are sorted so.
const MAX_LINE: usize = 128;
/// Items of the lines that are sorted together, in one matrix after another.
const MAX_ITEMS: usize = 2048;

/// The network for short lines, if this processor has one and there are lines for most of its lanes.
pub(super) fn network<I: SortItem>(n: usize, lines: usize) -> Option<SortingNetwork<I>> {
    I::network().filter(|network| (2..=MAX_LINE).contains(&n) && lines > network.lanes / 2)
}

/// The lines of `n` items that are sorted together.
pub(super) fn together<I>(network: &SortingNetwork<I>, n: usize) -> usize {
    (MAX_ITEMS / (n * network.lanes)).max(1) * network.lanes
}

/// Items of a matrix of lines of `n` items.
pub(super) fn matrix_items<I>(network: &SortingNetwork<I>, n: usize) -> usize {
    n.next_power_of_two() * network.lanes
}

/// Sorts each line of `n` items; `matrix` is scratch for [`matrix_items`].
pub(super) fn sort_lines<I: SortItem>(
    network: &SortingNetwork<I>,
    items: &mut [I],
    n: usize,
    matrix: &mut Vec<I>,
) {
    let SortingNetwork { lanes, sort_lanes, .. } = *network;
    matrix.clear();
    // The rows after the items stay the last ones.
    matrix.resize(matrix_items(network, n), I::HIGHEST);
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
            sort_lanes(matrix.as_mut_ptr(), matrix.len() / lanes);
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
