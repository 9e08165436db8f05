//! Pairwise summation: the accumulators of blocks, combined as a binary tree, for any reducer.
//!
//! The error of a sum grows with the logarithm of the number of blocks.
// Imports: `error`.

use super::super::memory::CpuBlock;
use super::super::memory::scratch::StackScratch;
use super::accumulators::{AccumulatorFns, COLUMN_ACCUMULATOR_BYTES};
use crate::error::Result;
use std::mem::MaybeUninit;

/// Levels of the tree of a row: enough for the blocks of any row.
pub(crate) const LEVELS: usize = 48;

/// Combines the accumulators of blocks as they arrive. It works as a binary counter: level `k` holds the
/// accumulator of `2^k` blocks. If the blocks need more levels than exist, the last level accumulates every
/// carry.
pub(crate) struct PairwiseSum<'a, S> {
    accumulators: &'a mut [MaybeUninit<S>],
    blocks: u64,
}

impl<'a, S: Copy> PairwiseSum<'a, S> {
    /// An empty tree, with memory for its levels.
    #[inline(always)]
    pub(crate) fn over(accumulators: &'a mut [MaybeUninit<S>]) -> Self {
        PairwiseSum { accumulators, blocks: 0 }
    }
    #[inline(always)]
    pub(crate) fn push(&mut self, mut accumulator: S, combine: impl Fn(S, S) -> S) {
        let last = self.accumulators.len() - 1;
        let mut level = 0;
        while self.blocks >> level & 1 == 1 {
            // SAFETY: a set bit of the counter means that its level was written.
            accumulator = combine(unsafe { self.accumulators[level].assume_init() }, accumulator);
            if level == last {
                break;
            }
            level += 1;
        }
        self.accumulators[level] = MaybeUninit::new(accumulator);
        // The levels below were carried into this one. If it is the last level, its bit stays set.
        self.blocks = (self.blocks >> level | 1) << level;
    }
    #[inline(always)]
    pub(crate) fn join(&self, identity: S, combine: impl Fn(S, S) -> S) -> S {
        let (mut joined, mut left) = (None, self.blocks);
        while left != 0 {
            // SAFETY: a set bit of the counter means that its level was written.
            let accumulator = unsafe { self.accumulators[left.trailing_zeros() as usize].assume_init() };
            joined = Some(joined.map_or(accumulator, |later| combine(accumulator, later)));
            left &= left - 1;
        }
        joined.unwrap_or(identity)
    }
}

/// Combines the accumulators of `n` blocks as a tree; returns the address of the result, which replaces that
/// of the last block.
///
/// # Safety
/// `blocks` holds `n` accumulators, at least one.
pub(crate) unsafe fn combine_tree(accumulators: &AccumulatorFns<'_>, blocks: *mut u8, n: usize) -> *mut u8 {
    // The accumulator of a node replaces that of its last block.
    let node = |last: usize| blocks.wrapping_add(last * accumulators.size);
    let mut half = 1;
    while half < n {
        for from in (0..n - half).step_by(2 * half) {
            // SAFETY: the caller's promise: both indices are less than `n`.
            unsafe { accumulators.combine(node(from + half - 1), node((from + 2 * half).min(n) - 1), 1) };
        }
        half *= 2;
    }
    node(n - 1)
}

/// Scratch memory for accumulators, on the stack if they fit.
pub(crate) struct AccumulatorScratch {
    words: StackScratch<{ LEVELS * COLUMN_ACCUMULATOR_BYTES / 8 }>,
    block: Option<CpuBlock>,
}

impl AccumulatorScratch {
    /// Scratch of `nbytes` bytes.
    pub(crate) fn new(nbytes: usize) -> Result<Self> {
        let block =
            if nbytes > LEVELS * COLUMN_ACCUMULATOR_BYTES { Some(CpuBlock::scratch(nbytes)?) } else { None };
        Ok(AccumulatorScratch { words: StackScratch::uninit(), block })
    }

    /// Its address, valid until the scratch is moved or dropped.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.block.as_ref().map_or(self.words.as_mut_ptr().cast(), CpuBlock::address)
    }
}

/// As [`PairwiseSum`], for accumulators whose type is erased, and for `width` neighboring trees at once.
pub(crate) struct ErasedPairwiseSum<'a> {
    accumulators: &'a AccumulatorFns<'a>,
    /// Memory of the levels.
    room: *mut u8,
    levels: usize,
    /// The number of trees, whose accumulators are neighbors in memory.
    width: usize,
    blocks: u64,
}

impl<'a> ErasedPairwiseSum<'a> {
    /// Empty trees.
    pub(crate) fn over(
        accumulators: &'a AccumulatorFns<'a>,
        room: *mut u8,
        levels: usize,
        width: usize,
    ) -> Self {
        ErasedPairwiseSum { accumulators, room, levels, width, blocks: 0 }
    }

    fn level(&self, level: usize) -> *mut u8 {
        self.room.wrapping_add(level * self.width * self.accumulators.size)
    }

    /// Adds the accumulators of the next block; they may change in the process.
    ///
    /// # Safety
    /// 1. The memory of the levels has room for `levels · width` accumulators.
    /// 2. `block` holds `width` accumulators outside that memory.
    pub(crate) unsafe fn push(&mut self, block: *mut u8) {
        let mut level = 0;
        while self.blocks >> level & 1 == 1 {
            // SAFETY: (2); a set bit of the counter means that its level was written.
            unsafe { self.accumulators.combine(self.level(level), block, self.width) };
            if level + 1 == self.levels {
                break;
            }
            level += 1;
        }
        // SAFETY: (1) and (2): the level and the block do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(block, self.level(level), self.width * self.accumulators.size)
        };
        // The levels below were carried into this one. If it is the last level, its bit stays set.
        self.blocks = (self.blocks >> level | 1) << level;
    }

    /// Combines all levels with the accumulators of the last block, which then hold the results of all
    /// blocks.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    pub(crate) unsafe fn join(&self, last: *mut u8) {
        let mut left = self.blocks;
        while left != 0 {
            // SAFETY: (2) of [`push`](Self::push), for `last`; a set bit of the counter means that its level
            // was written.
            unsafe {
                self.accumulators.combine(self.level(left.trailing_zeros() as usize), last, self.width)
            };
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PairwiseSum;
    use std::mem::MaybeUninit;

    #[test]
    fn blocks_are_combined_in_order_and_pairwise_as_far_as_levels_go() {
        for blocks in 0..40 {
            let mut room = [const { MaybeUninit::uninit() }; 3];
            let mut sum = PairwiseSum::over(&mut room);
            // The first block, the end of the blocks, and the depth of the tree.
            let combine = |a: (u32, u32, u32), b: (u32, u32, u32)| {
                assert_eq!(a.1, b.0, "neighbors, in order");
                (a.0, b.1, a.2.max(b.2) + 1)
            };
            for block in 0..blocks {
                sum.push((block, block + 1, 0), combine);
            }
            let joined = sum.join((0, 0, 0), combine);
            assert_eq!((joined.0, joined.1), (0, blocks));
            assert!(blocks > 8 || joined.2 <= 4, "{blocks} blocks, {} deep", joined.2);
        }
    }
}
