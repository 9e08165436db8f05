//! The memory of one card: which blocks there are, which are free to be used again, and who used them last.
//!
//! Pure bookkeeping: what is said here is done by `card.rs` and `stream.rs`. A block that is given back may be handed
//! out at once, since its next user waits on the card for the last ones, not on the host.
// Imports: `device`.

use crate::device::MemoryStatistics;
use std::collections::{BTreeMap, BTreeSet};

/// Capacities are rounded to this, so that sizes that differ little use each other's blocks; in debug builds they are
/// exact, so that a write behind a block is one outside an allocation.
const UNIT: usize = if cfg!(debug_assertions) { 1 } else { 512 };
/// A block serves requests down to its size less this part of theirs.
const SLACK: usize = if cfg!(debug_assertions) { usize::MAX } else { 4 };

/// A stream, and how much had been queued on it.
pub(in crate::device::cuda) type Mark = (usize, u64);

/// The last uses of a block: the work that wrote it, and all that has read it since.
#[derive(Clone, Default, Debug)]
pub(in crate::device::cuda) struct Uses {
    write: Option<Mark>,
    reads: Vec<Mark>,
}

impl Uses {
    /// What must be done before the block is read, or, if `write`, written.
    pub(in crate::device::cuda) fn before(&self, write: bool) -> impl Iterator<Item = Mark> + '_ {
        self.write.into_iter().chain(self.reads.iter().copied().filter(move |_| write))
    }

    fn note(&mut self, mark: Mark, write: bool) {
        if write {
            *self = Uses { write: Some(mark), reads: Vec::new() };
        } else {
            self.reads.retain(|&(stream, _)| stream != mark.0);
            self.reads.push(mark);
        }
    }

    fn is_of(&self, stream: usize) -> bool {
        self.before(true).all(|(other, _)| other == stream)
    }
}

struct Live {
    nbytes: usize,
    /// 0 for memory that somebody else owns.
    capacity: usize,
    uses: Uses,
    /// How many graphs read or write it.
    pins: usize,
    /// Whether its owner has given it back, so that only graphs keep it.
    given: bool,
}

struct Kept {
    address: usize,
    uses: Uses,
}

/// See the module.
pub(in crate::device::cuda) struct Memory {
    live: BTreeMap<usize, Live>,
    /// By capacity; the last given back at the end.
    kept: BTreeMap<usize, Vec<Kept>>,
    pub(in crate::device::cuda) statistics: MemoryStatistics,
}

impl Memory {
    pub(in crate::device::cuda) fn new() -> Memory {
        let statistics = MemoryStatistics { live: 0, kept: 0, limit: usize::MAX, fresh: 0, reused: 0 };
        Memory { live: BTreeMap::new(), kept: BTreeMap::new(), statistics }
    }

    /// The capacity of a block for so many bytes.
    pub(in crate::device::cuda) fn capacity(nbytes: usize) -> Option<usize> {
        nbytes.max(1).checked_next_multiple_of(UNIT)
    }

    /// A kept block, and what must be done before it is used; rather one whose last user was `stream`.
    pub(in crate::device::cuda) fn reuse(&mut self, nbytes: usize, stream: usize) -> Option<(usize, Uses)> {
        let capacity = Memory::capacity(nbytes)?;
        let most = capacity.saturating_add(capacity / SLACK);
        let (&found, blocks) = self.kept.range_mut(capacity..=most).next()?;
        let at = blocks.iter().rposition(|kept| kept.uses.is_of(stream)).unwrap_or(blocks.len() - 1);
        let Kept { address, uses } = blocks.remove(at);
        if blocks.is_empty() {
            self.kept.remove(&found);
        }
        self.statistics.kept -= found;
        self.statistics.reused += 1;
        self.enter(address, nbytes, found);
        Some((address, uses))
    }

    /// Whether so many more bytes stay within the limit.
    pub(in crate::device::cuda) fn allows(&self, capacity: usize) -> bool {
        let MemoryStatistics { live, kept, limit, .. } = self.statistics;
        live.checked_add(kept).and_then(|held| held.checked_add(capacity)).is_some_and(|held| held <= limit)
    }

    /// A block that the driver gave.
    pub(in crate::device::cuda) fn fresh(&mut self, address: usize, nbytes: usize, capacity: usize) {
        self.statistics.fresh += 1;
        self.enter(address, nbytes, capacity);
    }

    /// Memory that somebody else owns; false where it lies in a block that is known already.
    pub(in crate::device::cuda) fn adopted(&mut self, address: usize, nbytes: usize) -> bool {
        let overlaps = self
            .live
            .range(..address.saturating_add(nbytes))
            .next_back()
            .is_some_and(|(&at, live)| at + live.nbytes > address);
        if !overlaps {
            self.enter(address, nbytes, 0);
        }
        !overlaps
    }

    fn enter(&mut self, address: usize, nbytes: usize, capacity: usize) {
        self.statistics.live += capacity;
        self.live.insert(address, Live { nbytes, capacity, uses: Uses::default(), pins: 0, given: false });
    }

    /// Takes a block back from its owner.
    pub(in crate::device::cuda) fn give(&mut self, address: usize) {
        if let Some(live) = self.live.get_mut(&address) {
            live.given = true;
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

    /// The block that an address lies in, and what must be done before it is read, or written.
    pub(in crate::device::cuda) fn of(&self, address: usize) -> Option<(usize, &Uses)> {
        let (&start, live) = self.live.range(..=address).next_back()?;
        (address < start + live.nbytes).then_some((start, &live.uses))
    }

    /// Notes that work uses the block that an address lies in.
    pub(in crate::device::cuda) fn note(&mut self, address: usize, mark: Mark, write: bool) {
        if let Some((start, _)) = self.of(address)
            && let Some(live) = self.live.get_mut(&start)
        {
            live.uses.note(mark, write);
        }
    }

    /// Whether the block at an address is the card's own, so that a graph can keep it.
    pub(in crate::device::cuda) fn is_own(&self, block: usize) -> bool {
        self.live.get(&block).is_some_and(|live| live.capacity > 0)
    }

    pub(in crate::device::cuda) fn nbytes(&self, block: usize) -> usize {
        self.live.get(&block).map_or(0, |live| live.capacity)
    }

    /// A graph keeps a block, whoever gives it back.
    pub(in crate::device::cuda) fn pin(&mut self, block: usize) {
        if let Some(live) = self.live.get_mut(&block) {
            live.pins += 1;
        }
    }

    pub(in crate::device::cuda) fn unpin(&mut self, block: usize) {
        let Some(live) = self.live.get_mut(&block) else { return };
        live.pins -= 1;
        if live.pins == 0 && live.given {
            self.keep(block);
        }
    }

    /// A block that only the graph being made keeps, for a use that comes after its others there.
    pub(in crate::device::cuda) fn reuse_of(&mut self, blocks: &BTreeSet<usize>, nbytes: usize) -> Option<usize> {
        let fits = |live: &Live| {
            live.given
                && live.pins == 1
                && live.capacity >= nbytes
                && live.capacity - nbytes <= nbytes / SLACK
        };
        let block = *blocks.iter().find(|block| self.live.get(block).is_some_and(fits))?;
        if let Some(live) = self.live.get_mut(&block) {
            (live.given, live.nbytes) = (false, nbytes);
        }
        self.statistics.reused += 1;
        Some(block)
    }

    /// Everything that is kept, which is then nobody's: addresses.
    pub(in crate::device::cuda) fn drain(&mut self) -> (Vec<usize>, usize) {
        let nbytes = std::mem::take(&mut self.statistics.kept);
        (std::mem::take(&mut self.kept).into_values().flatten().map(|kept| kept.address).collect(), nbytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_given_back_is_handed_out_with_its_last_uses() {
        let mut memory = Memory::new();
        memory.fresh(4096, 1000, 1000);
        memory.note(4100, (0, 7), true);
        memory.note(4096 + 999, (1, 3), false);
        assert!(memory.of(4096 + 1000).is_none() && memory.of(4095).is_none());
        let before = |uses: &Uses, write| uses.before(write).collect::<Vec<_>>();
        let (_, uses) = memory.of(4200).unwrap();
        assert_eq!((before(uses, false), before(uses, true)), (vec![(0, 7)], vec![(0, 7), (1, 3)]));
        memory.give(4096);
        assert_eq!((memory.statistics.live, memory.statistics.kept), (0, 1000));
        let (address, uses) = memory.reuse(1000, 0).unwrap();
        assert_eq!((address, before(&uses, true)), (4096, vec![(0, 7), (1, 3)]));
        memory.note(4096, (2, 1), true);
        assert_eq!(before(memory.of(4096).unwrap().1, true), [(2, 1)], "it is written anew");
    }

    #[test]
    fn what_a_graph_keeps_is_nobody_elses_until_the_graph_is_gone() {
        let mut memory = Memory::new();
        memory.fresh(4096, 64, 64);
        memory.pin(4096);
        memory.give(4096);
        assert!(memory.reuse(64, 0).is_none());
        let own = BTreeSet::from([4096]);
        assert_eq!(memory.reuse_of(&own, 64), Some(4096));
        assert_eq!(memory.reuse_of(&own, 64), None);
        memory.unpin(4096);
        assert_eq!((memory.statistics.live, memory.statistics.kept), (64, 0));
        memory.give(4096);
        assert_eq!((memory.statistics.live, memory.statistics.kept), (0, 64));
        assert_eq!(memory.drain(), (vec![4096], 64));
    }

    #[test]
    fn the_limit_counts_what_is_held() {
        let mut memory = Memory::new();
        memory.statistics.limit = 100;
        memory.fresh(4096, 60, 60);
        assert!(memory.allows(40) && !memory.allows(41) && !memory.allows(usize::MAX));
        assert!(!memory.adopted(4100, 10) && memory.adopted(8192, 10));
        memory.give(8192);
        assert_eq!((memory.statistics.live, memory.statistics.kept), (60, 0));
    }
}
