//! Quicksort by partitions of vectors, and selection: only the part with the wanted keys is sorted.
//!
//! Short parts are sorted by the network. A part that does not become short after twice as many partitions as
//! a balanced sort needs is sorted by comparisons. Many keys are cut into parts for several threads first.
// Imports: nothing.

use super::super::memory::scratch::StackScratch;
use super::super::parallel;
use super::super::tuning::TASKS_PER_THREAD;
use super::bitonic::{Partition, Sorted, SortingNetwork};
use super::keys::SortItem;
use std::ops::Range;

/// Bytes of a part that the network sorts.
const PART_BYTES: usize = 1 << 13;
/// Keys among which the pivot is chosen.
const SAMPLE_KEYS: usize = 33;
/// Keys from which on several threads sort parts of them.
const MIN_SHARED_KEYS: usize = 1 << 17;
/// Keys of the smallest part that is worth a task.
const MIN_TASK_KEYS: usize = 1 << 14;
/// Partitions that cut keys into tasks, one after another.
const TASK_LEVELS: u32 = 8;

/// The address of keys of which each task sorts a part of its own.
#[derive(Clone, Copy)]
struct SharedKeys<I>(*mut I);
// SAFETY: tasks take disjoint parts, and keys are plain words.
unsafe impl<I> Send for SharedKeys<I> {}
// SAFETY: as above.
unsafe impl<I> Sync for SharedKeys<I> {}

/// The parts of keys that tasks sort, as the first key of each and the key after it.
struct Tasks {
    parts: [[usize; 2]; 1 << TASK_LEVELS],
    count: usize,
}

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

    /// Sorts keys; those outside `wanted` go to the right side of the wanted ones only.
    pub(super) fn sort(&self, keys: &mut [I], wanted: Range<usize>) {
        let threads = parallel::count();
        if wanted.len() < MIN_SHARED_KEYS || threads == 1 {
            return self.task(keys, wanted);
        }
        let mut tasks = Tasks { parts: [[0; 2]; 1 << TASK_LEVELS], count: 0 };
        let most = (keys.len() / (TASKS_PER_THREAD * threads)).max(MIN_TASK_KEYS);
        self.cut(keys, 0, most, TASK_LEVELS, &mut tasks);
        let (shared, parts) = (SharedKeys(keys.as_mut_ptr()), &tasks.parts[..tasks.count]);
        parallel::for_each_task(parts.len(), false, &|task| {
            let ([start, end], SharedKeys(keys)) = (parts[task], { shared });
            // SAFETY: the parts are inside the keys, and disjoint.
            let keys = unsafe { std::slice::from_raw_parts_mut(keys.add(start), end - start) };
            self.task(keys, wanted.start.saturating_sub(start)..wanted.end.saturating_sub(start));
        });
    }

    /// Partitions keys, of which `start` come before, until no part has more than `most`.
    fn cut(&self, keys: &mut [I], start: usize, most: usize, levels: u32, tasks: &mut Tasks) {
        if keys.len() <= most || levels == 0 {
            tasks.parts[tasks.count] = [start, start + keys.len()];
            tasks.count += 1;
            return;
        }
        let (below, is_sorted) = self.split(keys, self.pivot(keys));
        let (low, high) = keys.split_at_mut(below);
        if !is_sorted {
            self.cut(low, start, most, levels - 1, tasks);
        }
        self.cut(high, start + below, most, levels - 1, tasks);
    }

    /// Sorts keys on this thread.
    fn task(&self, keys: &mut [I], wanted: Range<usize>) {
        let mut words = StackScratch::<{ 2 * PART_BYTES / 8 }>::uninit();
        let room = words.as_mut_ptr().cast::<I>();
        for k in 0..2 * Self::PART_KEYS {
            // SAFETY: the scratch holds two parts.
            unsafe { room.add(k).write(I::HIGHEST) };
        }
        // SAFETY: as above.
        let room = unsafe { std::slice::from_raw_parts_mut(room, 2 * Self::PART_KEYS) };
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
            let (below, is_sorted) = self.split(keys, self.pivot(keys));
            let (low, high) = std::mem::take(&mut keys).split_at_mut(below);
            if !is_sorted {
                self.part(low, wanted.clone(), room, levels);
            }
            (keys, wanted) = (high, wanted.start.saturating_sub(below)..wanted.end.saturating_sub(below));
        }
    }

    /// The middle one of some keys, spread over all of them.
    fn pivot(&self, keys: &[I]) -> I {
        let step = keys.len() / SAMPLE_KEYS;
        let mut sample = [I::HIGHEST; 2 * SAMPLE_KEYS];
        for (i, key) in sample[..SAMPLE_KEYS].iter_mut().enumerate() {
            // Other places than multiples of the distance, which a pattern of the keys could have.
            *key = keys[i * step + (i * 7919 + step / 2) % step];
        }
        let SortingNetwork { lanes, sort, .. } = self.network;
        let (rows, middle) = (self.network.padded(SAMPLE_KEYS) / lanes, SAMPLE_KEYS / 2);
        let sample = &mut sample[..rows * lanes];
        // SAFETY: the sample has these rows.
        unsafe { sort(sample.as_mut_ptr(), rows, Sorted::Columns) };
        sample[middle % rows * lanes + middle / rows]
    }

    /// Moves the keys below the pivot to the front; returns their number, and whether they are in order. If
    /// the pivot is the least key, those that equal it come first.
    fn split(&self, keys: &mut [I], pivot: I) -> (usize, bool) {
        match (self.partitioned(keys, pivot), pivot.next()) {
            (0, Some(next)) => (self.partitioned(keys, next), true),
            (0, None) => (keys.len(), true),
            (below, _) => (below, false),
        }
    }

    fn partitioned(&self, keys: &mut [I], pivot: I) -> usize {
        // SAFETY: the slice has these keys.
        unsafe { (self.partition)(keys.as_mut_ptr(), keys.len(), pivot) }
    }

    /// Sorts at most [`PART_KEYS`](Self::PART_KEYS) keys by the network.
    fn short_part(&self, keys: &mut [I], room: &mut [I]) {
        let padded = self.network.padded(keys.len());
        let (matrix, columns) = room.split_at_mut(padded);
        matrix[..keys.len()].copy_from_slice(keys);
        matrix[keys.len()..].fill(I::HIGHEST);
        let whole = keys.len() == padded;
        // SAFETY: the keys were padded to a matrix.
        unsafe { self.network.sort_into(matrix, if whole { &mut *keys } else { &mut *columns }) };
        if !whole {
            keys.copy_from_slice(&columns[..keys.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorts<I: SortItem + std::fmt::Debug>(key: impl Fn(u64) -> I) {
        let Some(quick) = QuickSort::<I>::new() else {
            return println!("skipped: this processor has no quicksort by vectors");
        };
        for n in [0, 1, 100, QuickSort::<I>::PART_KEYS as u64 + 1, 20_000, 100_003, 300_000] {
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
                quick.sort(&mut found, 0..keys.len());
                assert_eq!(found, expected, "{n} keys of pattern {number}");
                let wanted = keys.len() / 3..(keys.len() / 3 + 2).min(keys.len());
                found = keys;
                quick.sort(&mut found, wanted.clone());
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
