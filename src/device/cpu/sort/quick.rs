//! Quicksort by partitions of vectors, and selection: only the part with the wanted keys is sorted.
//!
//! Short parts are sorted by the network. A part that does not become short after twice as many partitions as
//! a balanced sort needs is sorted by comparisons.
// Imports: nothing.

use super::super::strided::pack;
use super::bitonic::{Partition, SortingNetwork};
use super::keys::SortItem;
use std::ops::Range;

/// Bytes of a part that the network sorts.
const PART_BYTES: usize = 1 << 13;
/// Keys among which the pivot is chosen.
const SAMPLE_KEYS: usize = 33;

/// A quicksort of this processor.
pub(super) struct QuickSort<I> {
    network: SortingNetwork<I>,
    partition: Partition<I>,
}

impl<I: SortItem> QuickSort<I> {
    /// The quicksort, if this processor has one.
    pub(super) fn new() -> Option<Self> {
        let network = I::network()?;
        Some(QuickSort { partition: network.partition?, network })
    }

    /// Keys of a part that the network sorts.
    const PART_KEYS: usize = PART_BYTES / size_of::<I>();

    /// Scratch for a sort: two parts.
    pub(super) const ROOM_KEYS: usize = 2 * Self::PART_KEYS;

    /// Sorts keys; those outside `wanted` go to the right side of the wanted ones only. `room` is scratch for
    /// [`ROOM_KEYS`](Self::ROOM_KEYS).
    pub(super) fn sort(&self, keys: &mut [I], wanted: Range<usize>, room: &mut [I]) {
        let levels = 2 * (keys.len() / Self::PART_KEYS + 1).ilog2() + 8;
        self.part(keys, wanted, room, levels);
    }

    fn part(&self, mut keys: &mut [I], mut wanted: Range<usize>, room: &mut [I], mut levels: u32) {
        loop {
            wanted.end = wanted.end.min(keys.len());
            if wanted.is_empty() {
                return;
            }
            if keys.len() <= Self::PART_KEYS {
                return self.short_part(keys, room);
            }
            if levels == 0 {
                return keys.sort_unstable();
            }
            levels -= 1;
            let pivot = pivot(keys);
            let mut below = self.partitioned(keys, pivot);
            let is_least = below == 0;
            if is_least {
                // All keys that equal the pivot are in their places.
                let Some(next) = pivot.next() else { return };
                below = self.partitioned(keys, next);
            }
            let (low, high) = std::mem::take(&mut keys).split_at_mut(below);
            if !is_least {
                self.part(low, wanted.clone(), room, levels);
            }
            (keys, wanted) = (high, wanted.start.saturating_sub(below)..wanted.end.saturating_sub(below));
        }
    }

    fn partitioned(&self, keys: &mut [I], pivot: I) -> usize {
        // SAFETY: the slice has these keys.
        unsafe { (self.partition)(keys.as_mut_ptr(), keys.len(), pivot) }
    }

    /// Sorts at most [`PART_KEYS`](Self::PART_KEYS) keys by the network.
    fn short_part(&self, keys: &mut [I], room: &mut [I]) {
        let SortingNetwork { lanes, sort, .. } = self.network;
        let padded = self.network.padded(keys.len());
        let (matrix, columns) = room.split_at_mut(padded);
        matrix[..keys.len()].copy_from_slice(keys);
        matrix[keys.len()..].fill(I::HIGHEST);
        let (rows, width) = (padded / lanes, size_of::<I>());
        let [column, row, item] = [rows * width, lanes * width, width].map(|stride| stride as isize);
        let whole = keys.len() == padded;
        let to = if whole { keys.as_mut_ptr() } else { columns.as_mut_ptr() };
        // SAFETY: the matrix has `rows` rows of the network; there is room for its transpose.
        unsafe {
            sort(matrix.as_mut_ptr(), rows);
            pack::rectangle(
                to.cast(),
                [column, item],
                matrix.as_ptr().cast(),
                [item, row],
                [lanes, rows],
                width,
            );
        }
        if !whole {
            keys.copy_from_slice(&columns[..keys.len()]);
        }
    }
}

/// The middle one of some keys, spread over all of them.
fn pivot<I: SortItem>(keys: &[I]) -> I {
    let step = keys.len() / SAMPLE_KEYS;
    // Other places than multiples of the distance, which a pattern of the keys could have.
    let mut sample: [I; SAMPLE_KEYS] = std::array::from_fn(|i| keys[i * step + (i * 7919 + step / 2) % step]);
    *sample.select_nth_unstable(SAMPLE_KEYS / 2).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorts<I: SortItem + std::fmt::Debug>(key: impl Fn(u64) -> I) {
        let Some(quick) = QuickSort::<I>::new() else {
            return println!("skipped: this processor has no quicksort by vectors");
        };
        let mut room = vec![I::HIGHEST; QuickSort::<I>::ROOM_KEYS];
        for n in [0, 1, 100, QuickSort::<I>::PART_KEYS as u64 + 1, 20_000, 100_003] {
            let patterns: [&dyn Fn(u64) -> u64; 6] = [
                &|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20,
                &|i| i,
                &|i| n - i,
                &|i| i % 3,
                &|_| u64::MAX,
                &|i| if i % 64 == 0 { i } else { 0 },
            ];
            for (number, pattern) in patterns.iter().enumerate() {
                let keys: Vec<I> = (0..n).map(|i| key(pattern(i))).collect();
                let mut expected = keys.clone();
                expected.sort();
                let mut found = keys.clone();
                quick.sort(&mut found, 0..keys.len(), &mut room);
                assert_eq!(found, expected, "{n} keys of pattern {number}");
                let wanted = keys.len() / 3..(keys.len() / 3 + 2).min(keys.len());
                found = keys;
                quick.sort(&mut found, wanted.clone(), &mut room);
                assert_eq!(found[wanted.clone()], expected[wanted.clone()], "some of {n}, {number}");
                found[..wanted.start].sort();
                found[wanted.end..].sort();
                assert_eq!(found, expected, "the others of {n}, {number}");
            }
        }
    }

    #[test]
    fn keys_of_all_patterns_are_sorted_and_selected() {
        sorts(|n| n);
        sorts(|n| n as u32);
    }
}
