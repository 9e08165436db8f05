//! The memory pool of the host (a caching allocator): large blocks that are freed are kept and used again.
//!
//! The first use of a page costs more than writing it: the system has to map and clear it. Therefore blocks
//! of [`POOLED_BYTES`] bytes and more are kept, up to a limit. Blocks of [`HUGE_BYTES`] bytes and more use 2
//! MiB pages if the system supports them. Smaller blocks come from the global allocator, which has a cache of
//! its own.
// Imports: nothing.

use std::alloc::Layout;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The alignment of blocks of 1 KiB and more: a cache line, which is also the widest vector register.
const ALIGNMENT_BYTES: usize = 64;
/// Blocks with fewer bytes are aligned for the widest element only, which allocators do without extra work.
const SMALL_BYTES: usize = 1 << 10;
const SMALL_ALIGNMENT_BYTES: usize = 16;
/// The size from which on blocks are kept.
pub(crate) const POOLED_BYTES: usize = 32 << 10;
/// The size from which on blocks are aligned to huge pages and ask for them.
const HUGE_BYTES: usize = 4 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The number of blocks that are kept at most.
const MAX_KEPT_BLOCKS: usize = 128;
/// The bytes that are kept at most, unless the program sets another limit.
const DEFAULT_LIMIT_BYTES: usize = 1 << 30;

/// The large blocks of the host, in use or kept for reuse; see [`Cpu::memory`](crate::Cpu::memory).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Bytes of large blocks in use.
    pub live: usize,
    /// Bytes of free blocks that are kept.
    pub kept: usize,
    /// The limit of the bytes that are kept.
    pub limit: usize,
    /// Blocks that came from the system.
    pub fresh: u64,
    /// Blocks that were reused.
    pub reused: u64,
}

thread_local! {
    /// Blocks that this thread has taken from the system.
    static FRESH_ON_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A promise that this thread's operations need no new memory during the life of the guard; see
/// [`Cpu::steady_state`](crate::Cpu::steady_state).
#[must_use = "the promise is checked when the guard is dropped"]
#[derive(Debug)]
pub struct NoAllocGuard {
    before: u64,
    /// The guard counts one thread, so it must not move to another.
    here: PhantomData<*const ()>,
}

impl NoAllocGuard {
    pub(crate) fn new() -> Self {
        NoAllocGuard { before: FRESH_ON_THREAD.get(), here: PhantomData }
    }

    /// The number of blocks that came from the system since the guard was made.
    pub fn allocations(&self) -> u64 {
        FRESH_ON_THREAD.get() - self.before
    }
}

impl Drop for NoAllocGuard {
    /// # Panics
    /// If memory came from the system, unless the thread is panicking already.
    fn drop(&mut self) {
        let allocations = self.allocations();
        if allocations > 0 && !std::thread::panicking() {
            panic!("steady state: {allocations} new blocks of memory; see `Cpu::steady_state`");
        }
    }
}

/// The alignment of a block of `nbytes` bytes.
#[inline]
pub(crate) fn alignment(nbytes: usize) -> usize {
    match nbytes {
        0..SMALL_BYTES => SMALL_ALIGNMENT_BYTES,
        SMALL_BYTES..HUGE_BYTES => ALIGNMENT_BYTES,
        _ => HUGE_PAGE_BYTES,
    }
}

/// Counts a block that this thread has taken from the system.
#[inline]
pub(crate) fn count_fresh() {
    FRESH_ON_THREAD.set(FRESH_ON_THREAD.get() + 1);
}

/// A block of the global allocator. Its layout follows from its capacity.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: NonNull<u8>,
    pub(crate) capacity: usize,
    /// The number of bytes at its beginning that are known to be zero.
    pub(crate) zeros: usize,
}
// SAFETY: a block is an address and two numbers; its owner is responsible for the bytes.
unsafe impl Send for Block {}

impl Block {
    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity, alignment(capacity)).ok()
    }

    /// Uninitialized memory from the system.
    fn fresh(capacity: usize) -> Option<Block> {
        let layout = Block::layout(capacity)?;
        // SAFETY: the layout is not empty: `capacity_for` returns at least one byte.
        let address = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        count_fresh();
        #[cfg(all(target_os = "linux", not(miri)))]
        if capacity >= HUGE_BYTES {
            unsafe extern "C" {
                fn madvise(address: *mut u8, nbytes: usize, advice: i32) -> i32;
            }
            const MADV_HUGEPAGE: i32 = 14;
            // SAFETY: this is advice about pages that this function has just allocated. A system without huge
            // pages refuses it, without further effect.
            unsafe { madvise(address.as_ptr(), capacity, MADV_HUGEPAGE) };
        }
        Some(Block { address, capacity, zeros: 0 })
    }

    /// Returns the memory to the system.
    ///
    /// # Safety
    /// 1. The block came from `fresh`.
    /// 2. It is not used afterwards.
    unsafe fn free(self) {
        if let Some(layout) = Block::layout(self.capacity) {
            // SAFETY: (1) this is the layout that the block was allocated with; (2) by the caller's promise.
            unsafe { std::alloc::dealloc(self.address.as_ptr(), layout) }
        }
    }
}

struct MemoryPool {
    /// The first `count` entries are filled, in the order in which the blocks were freed.
    blocks: [Option<Block>; MAX_KEPT_BLOCKS],
    count: usize,
    statistics: MemoryStatistics,
}

static POOL: Mutex<MemoryPool> = Mutex::new(MemoryPool {
    blocks: [None; MAX_KEPT_BLOCKS],
    count: 0,
    statistics: MemoryStatistics { live: 0, kept: 0, limit: DEFAULT_LIMIT_BYTES, fresh: 0, reused: 0 },
});

fn pool() -> MutexGuard<'static, MemoryPool> {
    // No code panics while it holds the lock.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryPool {
    fn remove(&mut self, at: usize) -> Option<Block> {
        self.blocks[at..self.count].rotate_left(1);
        self.count -= 1;
        let block = self.blocks[self.count].take();
        self.statistics.kept -= block.map_or(0, |block| block.capacity);
        block
    }

    /// The smallest kept block that is large enough and wastes at most a quarter. Of several equal ones it is
    /// the last, because its bytes are most likely in the caches.
    fn find(&mut self, capacity: usize) -> Option<Block> {
        let mut best: Option<(usize, usize)> = None;
        for (at, block) in self.blocks[..self.count].iter().enumerate() {
            let size = block.map_or(0, |block| block.capacity);
            if size >= capacity
                && size <= capacity + capacity / 4
                && best.is_none_or(|(_, other)| size <= other)
            {
                best = Some((at, size));
            }
        }
        best.and_then(|(at, _)| self.remove(at))
    }

    /// The block that was kept for the longest time, if the pool is over its limit.
    fn surplus(&mut self) -> Option<Block> {
        let full = self.statistics.kept > self.statistics.limit || self.count == MAX_KEPT_BLOCKS;
        if full && self.count > 0 { self.remove(0) } else { None }
    }
}

/// Rounds capacities, so that similar sizes can reuse each other's blocks.
fn capacity_for(nbytes: usize) -> Option<usize> {
    let unit = match nbytes {
        0..POOLED_BYTES => return Some(nbytes),
        POOLED_BYTES..HUGE_BYTES => 4 << 10,
        _ => 64 << 10,
    };
    nbytes.checked_next_multiple_of(unit)
}

/// A block of at least `nbytes` bytes; `nbytes` is not 0.
pub(crate) fn take(nbytes: usize) -> Option<Block> {
    let capacity = capacity_for(nbytes)?;
    if capacity < POOLED_BYTES {
        return Block::fresh(capacity);
    }
    let found = pool().find(capacity);
    let block = found.or_else(|| Block::fresh(capacity)).or_else(|| {
        // The kept blocks may hold the memory that the system lacks.
        if trim() > 0 { Block::fresh(capacity) } else { None }
    })?;
    let statistics = &mut pool().statistics;
    statistics.live += block.capacity;
    *(if found.is_some() { &mut statistics.reused } else { &mut statistics.fresh }) += 1;
    Some(block)
}

/// Takes a block back.
///
/// # Safety
/// 1. The block came from `take`.
/// 2. It is not used afterwards.
pub(crate) unsafe fn give(block: Block) {
    if block.capacity < POOLED_BYTES {
        // SAFETY: (1), (2) by the caller's promise.
        return unsafe { block.free() };
    }
    let surplus = {
        let mut pool = pool();
        pool.statistics.live -= block.capacity;
        if block.capacity > pool.statistics.limit {
            drop(pool);
            // SAFETY: (1), (2) by the caller's promise.
            return unsafe { block.free() };
        }
        let surplus = pool.surplus();
        let at = pool.count;
        pool.blocks[at] = Some(block);
        pool.count += 1;
        pool.statistics.kept += block.capacity;
        surplus
    };
    if let Some(block) = surplus {
        // SAFETY: (1) kept blocks came from `take`; (2) they have no other owner.
        unsafe { block.free() };
    }
    free_surplus();
}

/// Frees the blocks beyond the limit, one by block. Other threads can use the pool meanwhile.
fn free_surplus() {
    loop {
        let Some(block) = pool().surplus() else { return };
        // SAFETY: (1) kept blocks came from `take`; (2) they have no other owner.
        unsafe { block.free() };
    }
}

/// Frees every kept block. Returns the number of bytes freed.
pub(crate) fn trim() -> usize {
    let mut freed = 0;
    loop {
        let block = {
            let mut pool = pool();
            if pool.count == 0 { None } else { pool.remove(0) }
        };
        let Some(block) = block else { return freed };
        freed += block.capacity;
        // SAFETY: (1) kept blocks came from `take`; (2) they have no other owner.
        unsafe { block.free() };
    }
}

/// The present state of the pool.
pub(crate) fn statistics() -> MemoryStatistics {
    pool().statistics
}

/// Sets the limit of the bytes that are kept, and frees the blocks beyond it.
pub(crate) fn set_limit(nbytes: usize) {
    pool().statistics.limit = nbytes;
    free_surplus();
}
