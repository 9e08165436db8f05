//! The memory pool of one GPU: segments that the driver allocated, cut into blocks; the last uses of each
//! block.
//!
//! Bookkeeping only: `block.rs` allocates, and `stream/ordering.rs` waits. A released block can be handed out
//! at once: its next user waits for the last uses on the GPU, not on the host.
// Imports: `device`.

use crate::device::MemoryStatistics;
use std::collections::{BTreeMap, BTreeSet};

/// Capacities are multiples of the greatest power of two in them divided by this, and of 512.
const SLACK_DIVISOR: usize = 8;
/// Requests of at most this many bytes share segments of [`SMALL_SEGMENT_BYTES`].
const MAX_SMALL_BYTES: usize = 1 << 20;
const SMALL_SEGMENT_BYTES: usize = 2 << 20;
/// Larger requests below this many bytes share segments of [`LARGE_SEGMENT_BYTES`].
const MAX_LARGE_BYTES: usize = 10 << 20;
const LARGE_SEGMENT_BYTES: usize = 20 << 20;
/// The smallest rest of a large block that is worth a block of its own.
const MIN_LARGE_REST_BYTES: usize = 1 << 16;
/// Free bytes beside those in use, beyond which a stream waits for the blocks of another one.
const MAX_SPARE_BYTES: usize = 64 << 20;
/// The bytes of other segments are multiples of this.
const SEGMENT_UNIT_BYTES: usize = 2 << 20;

/// How segments are cut into blocks.
#[derive(Clone, Copy, PartialEq)]
enum SegmentCut {
    /// A segment is one block, of exactly the requested bytes: a write past the end of a block is a write
    /// outside an allocation of the driver.
    Exact,
    /// Blocks of multiples of 512 bytes; a segment has several. Free neighbors are joined.
    Shared,
}

impl SegmentCut {
    /// The bytes of a block for `nbytes` bytes. `None` if they cannot be counted.
    fn capacity(self, nbytes: usize) -> Option<usize> {
        let nbytes = nbytes.max(1);
        match self {
            SegmentCut::Exact => Some(nbytes),
            SegmentCut::Shared => {
                nbytes.checked_next_multiple_of((prev_power_of_two(nbytes) / SLACK_DIVISOR).max(512))
            }
        }
    }

    /// The bytes of a segment for a block of `capacity` bytes.
    fn segment(self, capacity: usize) -> usize {
        match (self, capacity) {
            (SegmentCut::Exact, _) => capacity,
            (_, ..=MAX_SMALL_BYTES) => SMALL_SEGMENT_BYTES,
            (_, ..MAX_LARGE_BYTES) => LARGE_SEGMENT_BYTES,
            _ => capacity.checked_next_multiple_of(SEGMENT_UNIT_BYTES).unwrap_or(capacity),
        }
    }
}

/// The greatest power of two that is at most `n`, which is not 0.
fn prev_power_of_two(n: usize) -> usize {
    1 << n.ilog2()
}

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

    /// The uses of two blocks that become one. `None` if they are of different streams.
    fn joined(&self, other: &BlockUses) -> Option<BlockUses> {
        let last = self.before(true).chain(other.before(true)).max_by_key(|&(_, position)| position);
        let stream = last.map_or(0, |(stream, _)| stream);
        (self.is_only_of(stream) && other.is_only_of(stream))
            .then(|| BlockUses { write: last, reads: Vec::new() })
    }
}

/// Free blocks that a request may take beside those that its own stream used last.
pub(in crate::device::cuda) enum Others<'a> {
    /// Blocks whose last uses are complete.
    Complete(&'a dyn Fn(StreamPosition) -> bool),
    /// All. The request waits for their last uses.
    All,
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

/// Memory that one call of the driver allocated.
struct Segment {
    nbytes: usize,
    /// Whether it serves small requests.
    is_small: bool,
}

/// A block that is free for reuse.
struct Kept {
    capacity: usize,
    uses: BlockUses,
}

/// The pool; see the module.
pub(in crate::device::cuda) struct MemoryPool {
    cut: SegmentCut,
    /// By address.
    segments: BTreeMap<usize, Segment>,
    /// By address.
    live: BTreeMap<usize, Live>,
    /// By address.
    kept: BTreeMap<usize, Kept>,
    /// Capacity and address of each kept block.
    kept_by_capacity: BTreeSet<(usize, usize)>,
    pub(in crate::device::cuda) statistics: MemoryStatistics,
}

impl MemoryPool {
    pub(in crate::device::cuda) fn new() -> MemoryPool {
        MemoryPool::with(if cfg!(debug_assertions) { SegmentCut::Exact } else { SegmentCut::Shared })
    }

    fn with(cut: SegmentCut) -> MemoryPool {
        MemoryPool {
            cut,
            segments: BTreeMap::new(),
            live: BTreeMap::new(),
            kept: BTreeMap::new(),
            kept_by_capacity: BTreeSet::new(),
            statistics: MemoryStatistics { live: 0, kept: 0, limit: usize::MAX, fresh: 0, reused: 0 },
        }
    }

    /// Whether many more bytes are free than in use.
    pub(in crate::device::cuda) fn keeps_much(&self) -> bool {
        self.statistics.kept > self.statistics.live.saturating_add(MAX_SPARE_BYTES)
    }

    /// The bytes of a segment for `nbytes` bytes that the limit allows, if it allows one.
    pub(in crate::device::cuda) fn segment(&self, nbytes: usize) -> Option<usize> {
        let least = self.least_segment(nbytes)?;
        // Under a limit no bytes are set aside for other blocks.
        let segment = if self.statistics.limit == usize::MAX { self.cut.segment(least) } else { least };
        self.allows(segment).then_some(segment)
    }

    /// The bytes of the smallest segment for `nbytes` bytes. `None` if they cannot be counted.
    pub(in crate::device::cuda) fn least_segment(&self, nbytes: usize) -> Option<usize> {
        self.cut.capacity(nbytes)
    }

    /// Takes a kept block, with its last uses: the smallest one that only `stream` has used, or else the
    /// smallest of `others`.
    pub(in crate::device::cuda) fn reuse(
        &mut self,
        nbytes: usize,
        stream: usize,
        others: Others<'_>,
    ) -> Option<(usize, BlockUses)> {
        let capacity = self.cut.capacity(nbytes)?;
        let is_complete = |uses: &BlockUses| match others {
            Others::Complete(is_complete) => {
                uses.before(true).all(|position| position.0 == stream || is_complete(position))
            }
            Others::All => true,
        };
        let most = if self.cut == SegmentCut::Exact { capacity } else { usize::MAX };
        // Large segments are not cut into small blocks, nor small ones into large blocks.
        let is_small = capacity <= MAX_SMALL_BYTES;
        let fits =
            |address: &usize| self.cut == SegmentCut::Exact || self.is_in_small_segment(*address) == is_small;
        let fitting = || {
            let blocks = self.kept_by_capacity.range((capacity, 0)..=(most, usize::MAX));
            blocks.map(|&(_, address)| address).filter(fits)
        };
        let uses = |address: &usize| &self.kept[address].uses;
        let address = fitting()
            .find(|address| uses(address).is_only_of(stream))
            .or_else(|| fitting().find(|address| is_complete(uses(address))))?;
        let Kept { capacity: whole, uses } = self.take(address);
        self.statistics.reused += 1;
        self.insert_live(address, nbytes, self.part(capacity, whole));
        self.keep_rest(address, whole, &uses);
        Some((address, uses))
    }

    fn is_in_small_segment(&self, address: usize) -> bool {
        self.segments.range(..=address).next_back().is_some_and(|(_, segment)| segment.is_small)
    }

    /// Whether a block of `capacity` bytes takes all of `whole` free bytes: the rest would be of no use.
    fn takes_whole(&self, capacity: usize, whole: usize) -> bool {
        let least = if capacity <= MAX_SMALL_BYTES { 512 } else { MIN_LARGE_REST_BYTES };
        match self.cut {
            SegmentCut::Exact => whole == capacity,
            SegmentCut::Shared => whole.checked_sub(capacity).is_some_and(|rest| rest < least),
        }
    }

    /// The bytes of a block for a request of `capacity` bytes from `whole` free bytes.
    fn part(&self, capacity: usize, whole: usize) -> usize {
        if self.takes_whole(capacity, whole) { whole } else { capacity }
    }

    /// Keeps the rest of the `whole` bytes from `address` on, after the block that was cut from them.
    fn keep_rest(&mut self, address: usize, whole: usize, uses: &BlockUses) {
        let used = self.capacity_of(address);
        if used < whole {
            self.statistics.kept += whole - used;
            self.insert_kept(address + used, Kept { capacity: whole - used, uses: uses.clone() });
        }
    }

    fn insert_kept(&mut self, address: usize, kept: Kept) {
        self.kept_by_capacity.insert((kept.capacity, address));
        self.kept.insert(address, kept);
    }

    /// Takes the kept block at an address out of the pool.
    fn take(&mut self, address: usize) -> Kept {
        let kept = self.kept.remove(&address).unwrap_or(Kept { capacity: 0, uses: BlockUses::default() });
        self.kept_by_capacity.remove(&(kept.capacity, address));
        self.statistics.kept -= kept.capacity;
        kept
    }

    /// Whether `capacity` more bytes stay within the limit.
    fn allows(&self, capacity: usize) -> bool {
        let MemoryStatistics { live, kept, limit, .. } = self.statistics;
        live.checked_add(kept).and_then(|held| held.checked_add(capacity)).is_some_and(|held| held <= limit)
    }

    /// Adds a segment that the driver allocated, and takes a block of `nbytes` bytes at its start.
    pub(in crate::device::cuda) fn insert(&mut self, address: usize, nbytes: usize, segment: usize) {
        self.statistics.fresh += 1;
        let capacity = self.cut.capacity(nbytes).map_or(segment, |capacity| capacity.min(segment));
        let is_small = capacity <= MAX_SMALL_BYTES;
        self.segments.insert(address, Segment { nbytes: segment, is_small });
        self.insert_live(address, nbytes, self.part(capacity, segment));
        self.keep_rest(address, segment, &BlockUses::default());
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
        if capacity == 0 {
            return;
        }
        self.statistics.live -= capacity;
        let (mut start, mut kept) = (address, Kept { capacity, uses });
        // Free neighbors in the same segment are joined.
        let before = self.kept.range(..start).next_back().map(|(&at, before)| (at, at + before.capacity));
        if let Some((at, end)) = before
            && end == start
            && !self.segments.contains_key(&start)
            && let Some(uses) = self.kept[&at].uses.joined(&kept.uses)
        {
            let capacity = self.take(at).capacity + kept.capacity;
            (start, kept) = (at, Kept { capacity, uses });
        }
        let end = start + kept.capacity;
        if let Some(after) = self.kept.get(&end)
            && !self.segments.contains_key(&end)
            && let Some(uses) = kept.uses.joined(&after.uses)
        {
            kept = Kept { capacity: kept.capacity + self.take(end).capacity, uses };
        }
        self.statistics.kept += kept.capacity;
        self.insert_kept(start, kept);
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
        let capacity = self.cut.capacity(nbytes)?;
        let fits = |live: &Live| live.released && live.pins == 1 && self.takes_whole(capacity, live.capacity);
        let block = *blocks.iter().find(|block| self.live.get(block).is_some_and(fits))?;
        if let Some(live) = self.live.get_mut(&block) {
            (live.released, live.nbytes) = (false, nbytes);
        }
        self.statistics.reused += 1;
        Some(block)
    }

    /// Removes all segments that have no live block: their addresses, and the sum of their bytes.
    pub(in crate::device::cuda) fn drain(&mut self) -> (Vec<usize>, usize) {
        let is_free = |(&start, segment): (&usize, &Segment)| {
            let kept = self.kept.range(start..start + segment.nbytes).map(|(_, kept)| kept.capacity);
            (kept.sum::<usize>() == segment.nbytes).then_some(start)
        };
        let free: Vec<usize> = self.segments.iter().filter_map(is_free).collect();
        let mut drained = 0;
        for &start in &free {
            let nbytes = self.segments.remove(&start).map_or(0, |segment| segment.nbytes);
            while let Some((&at, _)) = self.kept.range(start..start + nbytes).next() {
                drained += self.take(at).capacity;
            }
        }
        (free, drained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All blocks, and those whose last uses are complete if no use is.
    const ANY: Others<'_> = Others::All;
    const NONE: Others<'_> = Others::Complete(&|_| false);

    #[test]
    fn segments_are_cut_into_blocks_and_free_neighbors_are_joined() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        assert_eq!(pool.segment(1000), Some(SMALL_SEGMENT_BYTES));
        pool.insert(1 << 30, 1000, SMALL_SEGMENT_BYTES);
        let (second, _) = pool.reuse(5000, 0, NONE).unwrap();
        let (third, _) = pool.reuse(100_000, 0, NONE).unwrap();
        assert_eq!((second, third), ((1 << 30) + 1024, (1 << 30) + 1024 + 5120));
        assert_eq!(pool.block_at(second + 4999).map(|(start, _)| start), Some(second));
        assert!(pool.block_at(second + 5000).is_none());
        let MemoryStatistics { live, kept, fresh, reused, .. } = pool.statistics;
        assert_eq!((live + kept, fresh, reused), (SMALL_SEGMENT_BYTES, 1, 2));
        pool.release(second);
        assert_eq!(pool.drain(), (vec![], 0), "the segment has live blocks");
        assert_eq!(pool.reuse(4800, 0, NONE).map(|(at, _)| at), Some(second), "the smallest block that fits");
        [1 << 30, third, second].into_iter().for_each(|block| pool.release(block));
        assert_eq!(pool.kept.len(), 1, "one block again");
        assert_eq!((pool.statistics.live, pool.statistics.kept), (0, SMALL_SEGMENT_BYTES));
        assert_eq!(pool.drain(), (vec![1 << 30], SMALL_SEGMENT_BYTES));
        assert_eq!((pool.statistics.kept, pool.kept_by_capacity.len()), (0, 0));
    }

    #[test]
    fn many_sizes_need_few_segments() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        let mut next = 1 << 40;
        for i in 0..200usize {
            let nbytes = (i * 7919 % 200 + 1) * 15_013;
            let block = match pool.reuse(nbytes, 0, NONE) {
                Some((block, _)) => block,
                None => {
                    let segment = pool.segment(nbytes).unwrap();
                    pool.insert(next, nbytes, segment);
                    next += 2 * segment;
                    next - 2 * segment
                }
            };
            let capacity = pool.capacity_of(block);
            assert!(
                capacity >= nbytes && capacity - nbytes <= nbytes / SLACK_DIVISOR + MIN_LARGE_REST_BYTES,
                "{nbytes} {capacity}"
            );
            pool.release(block);
        }
        assert_eq!(pool.statistics.fresh, 2);
    }

    #[test]
    fn a_block_of_another_stream_is_taken_if_its_uses_are_complete() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        pool.insert(1 << 30, 2 << 20, 2 << 20);
        pool.record_use(1 << 30, (1, 5), true);
        pool.release(1 << 30);
        assert!(pool.reuse(2 << 20, 0, NONE).is_none());
        let found =
            pool.reuse(2 << 20, 0, Others::Complete(&|(stream, position)| (stream, position) == (1, 5)));
        assert_eq!(found.map(|(block, _)| block), Some(1 << 30));
        pool.record_use(1 << 30, (1, 6), false);
        pool.release(1 << 30);
        assert!(pool.reuse(2 << 20, 1, NONE).is_some(), "its own stream need not wait");
    }

    #[test]
    fn small_and_large_requests_have_segments_of_their_own() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        pool.insert(1 << 30, 12 << 20, 14 << 20);
        assert!(pool.reuse(100, 0, ANY).is_none(), "the rest of a large segment is not for small blocks");
        pool.release(1 << 30);
        assert_eq!(pool.drain().1, 14 << 20);
        // Under a limit a segment has one block.
        pool.statistics.limit = 7 << 19;
        assert_eq!((pool.segment(1000), pool.segment(2 << 20)), (Some(1024), Some(2 << 20)));
        pool.insert(1 << 30, 2 << 20, 2 << 20);
        pool.release(1 << 30);
        assert!(pool.reuse(2 << 20, 0, ANY).is_some() && pool.segment(2 << 20).is_none());
    }

    #[test]
    fn a_stream_takes_a_block_that_it_and_another_stream_used() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        pool.insert(1 << 30, 2 << 20, 2 << 20);
        pool.record_use(1 << 30, (0, 5), true);
        pool.record_use(1 << 30, (1, 3), false);
        pool.record_use(1 << 30, (0, 6), false);
        pool.release(1 << 30);
        let is_complete = |(stream, _)| stream == 1;
        assert!(pool.reuse(2 << 20, 0, Others::Complete(&is_complete)).is_some());
    }

    #[test]
    fn blocks_of_different_streams_are_not_joined() {
        let mut pool = MemoryPool::with(SegmentCut::Shared);
        pool.insert(1 << 30, 1000, SMALL_SEGMENT_BYTES);
        let (second, _) = pool.reuse(1000, 0, NONE).unwrap();
        pool.record_use(1 << 30, (1, 1), true);
        pool.record_use(second, (2, 1), true);
        [1 << 30, second].into_iter().for_each(|block| pool.release(block));
        let own = |pool: &mut MemoryPool, stream| pool.reuse(1000, stream, NONE).map(|(block, _)| block);
        assert_eq!((own(&mut pool, 1), own(&mut pool, 2)), (Some(1 << 30), Some(second)));
        [1 << 30, second].into_iter().for_each(|block| pool.release(block));
        assert_eq!(pool.drain().1, SMALL_SEGMENT_BYTES);
    }

    #[test]
    fn a_released_block_is_handed_out_with_its_last_uses() {
        let mut pool = MemoryPool::with(SegmentCut::Exact);
        pool.insert(4096, 1000, 1000);
        pool.record_use(4100, (0, 7), true);
        pool.record_use(4096 + 999, (1, 3), false);
        assert!(pool.block_at(4096 + 1000).is_none() && pool.block_at(4095).is_none());
        let before = |uses: &BlockUses, write| uses.before(write).collect::<Vec<_>>();
        let (_, uses) = pool.block_at(4200).unwrap();
        assert_eq!((before(uses, false), before(uses, true)), (vec![(0, 7)], vec![(0, 7), (1, 3)]));
        pool.release(4096);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (0, 1000));
        let (address, uses) = pool.reuse(1000, 0, ANY).unwrap();
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
        let mut pool = MemoryPool::with(SegmentCut::Exact);
        pool.insert(4096, 64, 64);
        pool.pin(4096);
        pool.release(4096);
        assert!(pool.reuse(64, 0, ANY).is_none());
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
        let mut pool = MemoryPool::with(SegmentCut::Exact);
        pool.statistics.limit = 100;
        pool.insert(4096, 60, 60);
        assert!(pool.allows(40) && !pool.allows(41) && !pool.allows(usize::MAX));
        assert!(!pool.insert_external(4100, 10) && pool.insert_external(8192, 10));
        pool.release(8192);
        assert_eq!((pool.statistics.live, pool.statistics.kept), (60, 0));
    }
}
