//! The memory pool of one GPU: the blocks, the blocks free for reuse, and the last uses of each.
//!
//! Bookkeeping only: `block.rs` allocates, and `stream/ordering.rs` waits. A released block can be handed out
//! at once: its next user waits for the last uses on the GPU, not on the host.
// Imports: `device`.

use crate::device::MemoryStatistics;
use std::collections::{BTreeMap, BTreeSet};

/// Capacities are multiples of this, so that similar sizes share blocks. In debug builds capacities are
/// exact, so that a write past the end of a block is a write outside an allocation.
const CAPACITY_UNIT_BYTES: usize = if cfg!(debug_assertions) { 1 } else { 512 };
/// A request of `n` bytes accepts a block of at most `n + n / SLACK_DIVISOR` bytes.
const SLACK_DIVISOR: usize = if cfg!(debug_assertions) { usize::MAX } else { 4 };

/// The number of a stream, and the number of operations queued on it.
pub(in crate::device::cuda) type StreamPosition = (usize, u64);

/// The last uses of a block: the last write, and the last read of each stream since.
#[derive(Clone, Default, Debug)]
pub(in crate::device::cuda) struct BlockUses {
    write: Option<StreamPosition>,
    reads: Vec<StreamPosition>,
}

impl BlockUses {
    /// The positions that must come before a read, or, if `write`, before a write of the block.
    pub(in crate::device::cuda) fn before(&self, write: bool) -> impl Iterator<Item = StreamPosition> + '_ {
        self.write.into_iter().chain(self.reads.iter().copied().filter(move |_| write))
    }

    fn record(&mut self, position: StreamPosition, write: bool) {
        if write {
            *self = BlockUses { write: Some(position), reads: Vec::new() };
        } else {
            self.reads.retain(|&(stream, _)| stream != position.0);
            self.reads.push(position);
        }
    }

    /// Whether all uses are of one stream.
    fn is_only_of(&self, stream: usize) -> bool {
        self.before(true).all(|(other, _)| other == stream)
    }
}

/// A block with an owner, or one that only graphs keep.
struct Live {
    nbytes: usize,
    /// 0 for memory of another owner.
    capacity: usize,
    uses: BlockUses,
    /// The number of graphs that read or write it.
    pins: usize,
    /// Whether its owner has released it, so that only graphs keep it.
    released: bool,
}

/// A block that is free for reuse.
struct Kept {
    address: usize,
    uses: BlockUses,
}

/// The pool; see the module.
pub(in crate::device::cuda) struct Pool {
    /// By address.
    live: BTreeMap<usize, Live>,
    /// By capacity. The block released last is at the end.
    kept: BTreeMap<usize, Vec<Kept>>,
    pub(in crate::device::cuda) statistics: MemoryStatistics,
}

impl Pool {
    pub(in crate::device::cuda) fn new() -> Pool {
        let statistics = MemoryStatistics { live: 0, kept: 0, limit: usize::MAX, fresh: 0, reused: 0 };
        Pool { live: BTreeMap::new(), kept: BTreeMap::new(), statistics }
    }

    /// The capacity of a block for `nbytes` bytes. `None` if it cannot be counted.
    pub(in crate::device::cuda) fn capacity(nbytes: usize) -> Option<usize> {
        nbytes.max(1).checked_next_multiple_of(CAPACITY_UNIT_BYTES)
    }

    /// Takes a kept block, with its last uses. A block that only `stream` has used is preferred.
    pub(in crate::device::cuda) fn reuse(
        &mut self,
        nbytes: usize,
        stream: usize,
    ) -> Option<(usize, BlockUses)> {
        let capacity = Pool::capacity(nbytes)?;
        let most = capacity.saturating_add(capacity / SLACK_DIVISOR);
        let (&found, blocks) = self.kept.range_mut(capacity..=most).next()?;
        let at = blocks.iter().rposition(|kept| kept.uses.is_only_of(stream)).unwrap_or(blocks.len() - 1);
        let Kept { address, uses } = blocks.remove(at);
        if blocks.is_empty() {
            self.kept.remove(&found);
        }
        self.statistics.kept -= found;
        self.statistics.reused += 1;
        self.insert_live(address, nbytes, found);
        Some((address, uses))
    }

    /// Whether `capacity` more bytes stay within the limit.
    pub(in crate::device::cuda) fn allows(&self, capacity: usize) -> bool {
        let MemoryStatistics { live, kept, limit, .. } = self.statistics;
        live.checked_add(kept).and_then(|held| held.checked_add(capacity)).is_some_and(|held| held <= limit)
    }

    /// Adds a block that the driver allocated.
    pub(in crate::device::cuda) fn insert(&mut self, address: usize, nbytes: usize, capacity: usize) {
        self.statistics.fresh += 1;
        self.insert_live(address, nbytes, capacity);
    }

    /// Adds memory of another owner. Returns false, and adds nothing, if it overlaps a block of the pool.
    pub(in crate::device::cuda) fn insert_external(&mut self, address: usize, nbytes: usize) -> bool {
        let overlaps = self
            .live
            .range(..address.saturating_add(nbytes))
            .next_back()
            .is_some_and(|(&at, live)| at + live.nbytes > address);
        if !overlaps {
            self.insert_live(address, nbytes, 0);
        }
        !overlaps
    }

    fn insert_live(&mut self, address: usize, nbytes: usize, capacity: usize) {
        self.statistics.live += capacity;
        self.live
            .insert(address, Live { nbytes, capacity, uses: BlockUses::default(), pins: 0, released: false });
    }

    /// Takes a block back from its owner.
    pub(in crate::device::cuda) fn release(&mut self, address: usize) {
        if let Some(live) = self.live.get_mut(&address) {
            live.released = true;
            if live.pins == 0 {
                self.keep(address);
            }
        }
    }

    fn keep(&mut self, address: usize) {
        let Some(Live { capacity, uses, .. }) = self.live.remove(&address) else { return };
        if capacity > 0 {
            self.statistics.live -= capacity;
            self.statistics.kept += capacity;
            self.kept.entry(capacity).or_default().push(Kept { address, uses });
        }
    }

    /// The block that contains an address, and its last uses.
    pub(in crate::device::cuda) fn block_at(&self, address: usize) -> Option<(usize, &BlockUses)> {
        let (&start, live) = self.live.range(..=address).next_back()?;
        (address < start + live.nbytes).then_some((start, &live.uses))
    }

    /// Records a use of the block that contains an address.
    pub(in crate::device::cuda) fn record_use(
        &mut self,
        address: usize,
        position: StreamPosition,
        write: bool,
    ) {
        if let Some((start, _)) = self.block_at(address)
            && let Some(live) = self.live.get_mut(&start)
        {
            live.uses.record(position, write);
        }
    }

    /// Whether the pool owns the block, so that a graph can keep it.
    pub(in crate::device::cuda) fn is_own(&self, block: usize) -> bool {
        self.live.get(&block).is_some_and(|live| live.capacity > 0)
    }

    /// The capacity of a block, in bytes; 0 for memory of another owner.
    pub(in crate::device::cuda) fn capacity_of(&self, block: usize) -> usize {
        self.live.get(&block).map_or(0, |live| live.capacity)
    }

    /// Keeps a block for a graph, also after its owner releases it.
    pub(in crate::device::cuda) fn pin(&mut self, block: usize) {
        if let Some(live) = self.live.get_mut(&block) {
            live.pins += 1;
        }
    }

    /// Ends one [`pin`](Self::pin). A released block without pins is free for reuse.
    pub(in crate::device::cuda) fn unpin(&mut self, block: usize) {
        let Some(live) = self.live.get_mut(&block) else { return };
        live.pins -= 1;
        if live.pins == 0 && live.released {
            self.keep(block);
        }
    }

    /// Takes one of `blocks` that is released and that only the graph being recorded keeps. Its new use comes
    /// after its other uses in the graph.
    pub(in crate::device::cuda) fn reuse_captured(
        &mut self,
        blocks: &BTreeSet<usize>,
        nbytes: usize,
    ) -> Option<usize> {
        let fits = |live: &Live| {
            live.released
                && live.pins == 1
                && live.capacity >= nbytes
                && live.capacity - nbytes <= nbytes / SLACK_DIVISOR
        };
        let block = *blocks.iter().find(|block| self.live.get(block).is_some_and(fits))?;
        if let Some(live) = self.live.get_mut(&block) {
            (live.released, live.nbytes) = (false, nbytes);
        }
        self.statistics.reused += 1;
        Some(block)
    }

    /// Removes all kept blocks: their addresses, and the sum of their bytes.
    pub(in crate::device::cuda) fn drain(&mut self) -> (Vec<usize>, usize) {
        let nbytes = std::mem::take(&mut self.statistics.kept);
        (std::mem::take(&mut self.kept).into_values().flatten().map(|kept| kept.address).collect(), nbytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_block_is_handed_out_with_its_last_uses() {
        let mut pool = Pool::new();
        pool.insert(4096, 1000, 1000);
        pool.record_use(4100, (0, 7), true);
        pool.record_use(4096 + 999, (1, 3), false);
        assert!(pool.block_at(4096 + 1000).is_none() && pool.block_at(4095).is_none());
        let before = |uses: &BlockUses, write| uses.before(write).collect::<Vec<_>>();
        let (_, uses) = pool.block_at(4200).unwrap();
        assert_eq!((before(uses, false), before(uses, true)), (vec![(0, 7)], vec![(0, 7), (1, 3)]));
        pool.release(4096);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (0, 1000));
        let (address, uses) = pool.reuse(1000, 0).unwrap();
        assert_eq!((address, before(&uses, true)), (4096, vec![(0, 7), (1, 3)]));
        pool.record_use(4096, (2, 1), true);
        assert_eq!(
            before(pool.block_at(4096).unwrap().1, true),
            [(2, 1)],
            "a write replaces the earlier uses"
        );
    }

    #[test]
    fn a_block_that_a_graph_keeps_is_not_reused_until_the_graph_is_dropped() {
        let mut pool = Pool::new();
        pool.insert(4096, 64, 64);
        pool.pin(4096);
        pool.release(4096);
        assert!(pool.reuse(64, 0).is_none());
        let own = BTreeSet::from([4096]);
        assert_eq!(pool.reuse_captured(&own, 64), Some(4096));
        assert_eq!(pool.reuse_captured(&own, 64), None);
        pool.unpin(4096);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (64, 0));
        pool.release(4096);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (0, 64));
        assert_eq!(pool.drain(), (vec![4096], 64));
    }

    #[test]
    fn the_limit_counts_live_and_kept_bytes() {
        let mut pool = Pool::new();
        pool.statistics.limit = 100;
        pool.insert(4096, 60, 60);
        assert!(pool.allows(40) && !pool.allows(41) && !pool.allows(usize::MAX));
        assert!(!pool.insert_external(4100, 10) && pool.insert_external(8192, 10));
        pool.release(8192);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (60, 0));
    }
}
