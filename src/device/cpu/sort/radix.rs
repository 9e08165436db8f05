//! Chooses the sort of items, and has the radix sort. Items are sorted by a sorting network, by partitions, by
//! comparisons, or by digits (LSD radix sort: D. E. Knuth, *The Art of Computer Programming*, volume 3, §5.2.5).
// Imports: nothing.

use super::bitonic::SortingNetwork;
use super::items::Items;
use super::keys::SortItem;
use super::quick::QuickSort;
use std::ops::Range;

/// Up to this many items the standard library sorts by insertion, which is faster than the network.
const MAX_INSERTION_ITEMS: usize = 20;
/// From this many items on, passes over four digits are faster than comparisons.
const MIN_RADIX_ITEMS: usize = 192;
/// From this many items on, partitions are faster than the network.
const MIN_QUICK_ITEMS: usize = 1 << 13;

/// The quicksort, if it sorts `n` items that differ in that many digits faster than other sorts.
fn quick<I: SortItem>(n: usize, digits: usize) -> Option<QuickSort<I>> {
    if n < MIN_QUICK_ITEMS || digits < 4 { None } else { QuickSort::new() }
}

/// The network, if it sorts `n` items faster than a radix sort over that many digits.
fn network<I: SortItem>(n: usize, digits: usize) -> Option<SortingNetwork<I>> {
    // The time of a radix sort is proportional to the digits; that of the network grows slowly with the
    // number of items.
    let most =
        |network: &SortingNetwork<I>| network.max_keys * digits * digits / (size_of::<I>() * size_of::<I>());
    I::network().filter(|network| n > MAX_INSERTION_ITEMS && n <= most(network))
}

/// The capacity that [`sort`] needs for `n` items that differ in that many digits.
pub(super) fn capacity<I: SortItem>(n: usize, digits: usize) -> usize {
    if quick::<I>(n, digits).is_some() {
        return n;
    }
    network::<I>(n, digits).map_or(n, |network| network.padded(n))
}

/// Sorts `items`, which differ only in these digits or are in order in all others. Both vectors have the
/// [`capacity`]; `spare` is scratch. Of many items, those outside `wanted` may stay unsorted, on the right
/// side of the wanted ones.
pub(super) fn sort<I: SortItem>(
    items: &mut Items<I>,
    spare: &mut Items<I>,
    digits: Range<usize>,
    wanted: Range<usize>,
) {
    let n = items.len();
    if I::HAS_NETWORK {
        if let Some(quick) = quick::<I>(n, digits.len()) {
            return quick.sort(items, wanted);
        }
        if let Some(network) = network::<I>(n, digits.len()) {
            items.resize(network.padded(n), I::HIGHEST);
            spare.resize(items.len(), I::HIGHEST);
            // SAFETY: the items were padded to a matrix.
            unsafe { network.sort_into(items, spare) };
            std::mem::swap(items, spare);
            return items.truncate(n);
        }
    }
    if n < MIN_RADIX_ITEMS * digits.len() / 4 {
        return items.sort_unstable();
    }
    spare.resize(n, I::default());
    // The digits become constants.
    let is_in_spare = match (size_of::<I>(), digits.start, digits.len()) {
        (4, 0, 1) => radix_sort(items, spare, 0..1),
        (4, 0, 2) => radix_sort(items, spare, 0..2),
        (4, ..) => radix_sort(items, spare, 0..4),
        (8, 4, 1) => radix_sort(items, spare, 4..5),
        (8, 4, 2) => radix_sort(items, spare, 4..6),
        (8, 4, _) => radix_sort(items, spare, 4..8),
        _ => radix_sort(items, spare, 0..8),
    };
    if is_in_spare {
        std::mem::swap(items, spare);
    }
}

/// Sorts `items` by these digits, from the least significant to the most significant; returns whether the
/// result is in `spare`, which has the same length.
#[inline(always)]
fn radix_sort<I: SortItem>(items: &mut [I], spare: &mut [I], digits: Range<usize>) -> bool {
    let mut counts = [[0u32; 256]; 8];
    for item in items.iter() {
        for (counts, digit) in counts.iter_mut().zip(digits.clone()) {
            counts[item.digit(digit)] += 1;
        }
    }
    let mut swapped = false;
    for (counts, digit) in counts.iter_mut().zip(digits) {
        if counts[items[0].digit(digit)] as usize == items.len() {
            continue; // all items have this digit
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        let (from, to): (&[I], &mut [I]) = if swapped { (spare, items) } else { (items, spare) };
        for &item in from {
            let position = &mut counts[item.digit(digit)];
            to[*position as usize] = item;
            *position += 1;
        }
        swapped = !swapped;
    }
    swapped
}
