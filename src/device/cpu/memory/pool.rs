//! Large blocks of host memory, kept when they are given back and handed out again.
//!
//! A page that the system gives for the first time costs more than writing it does: 64 MiB of fresh 4 KiB pages take ten
//! times as long as the same 64 MiB again. So blocks from [`POOLED_BYTES`] bytes on are kept, up to a limit, and those from
//! [`HUGE_BYTES`] on stand on 2 MiB pages where the system has them. Smaller blocks come from the global allocator, which keeps
//! its own.
// Imports: nothing.

use std::alloc::Layout;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every block but a small one starts at a multiple of this: a cache line, and the widest vector register.
const ALIGNMENT_BYTES: usize = 64;
/// Blocks below this many bytes are aligned as the widest element is, which allocators do without a detour.
const SMALL_BYTES: usize = 1 << 10;
const SMALL_ALIGNMENT_BYTES: usize = 16;
/// Blocks from here on are kept.
pub(crate) const POOLED_BYTES: usize = 32 << 10;
/// Blocks from here on are aligned to huge pages and ask for them.
const HUGE_BYTES: usize = 4 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// How many blocks are kept at most.
const MAX_KEPT_BLOCKS: usize = 128;
/// Bytes that are kept unless a program says otherwise.
const DEFAULT_LIMIT_BYTES: usize = 1 << 30;

/// The large blocks of the host: those in use, and those kept to be used again; see [`Cpu::memory`](crate::Cpu::memory).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Bytes of large blocks in use.
    pub live: usize,
    /// Bytes of free blocks that are kept.
    pub kept: usize,
    /// How many bytes are kept at most.
    pub limit: usize,
    /// How many blocks came from the system.
    pub fresh: u64,
    /// How many blocks were used again.
    pub reused: u64,
}

thread_local! {
    /// How many blocks this thread has had from the system.
    static FRESH_ON_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A promise that this thread's operations need no new memory from here to the guard's end; see
/// [`Cpu::steady_state`](crate::Cpu::steady_state).
#[must_use = "the promise is checked when the guard is dropped"]
#[derive(Debug)]
pub struct NoAllocGuard {
    before: u64,
    /// It counts one thread.
    here: PhantomData<*const ()>,
}

impl NoAllocGuard {
    pub(crate) fn new() -> Self {
        NoAllocGuard { before: FRESH_ON_THREAD.get(), here: PhantomData }
    }

    /// How many blocks of memory came from the system since.
    pub fn allocations(&self) -> u64 {
        FRESH_ON_THREAD.get() - self.before
    }
}

impl Drop for NoAllocGuard {
    /// # Panics
    /// When memory came from the system, unless the thread panics already.
    fn drop(&mut self) {
        let allocations = self.allocations();
        if allocations > 0 && !std::thread::panicking() {
            panic!("steady state: {allocations} new blocks of memory; see `Cpu::steady_state`");
        }
    }
}

/// What a block of so many bytes is aligned to.
#[inline]
pub(crate) fn alignment(nbytes: usize) -> usize {
    match nbytes {
        0..SMALL_BYTES => SMALL_ALIGNMENT_BYTES,
        SMALL_BYTES..HUGE_BYTES => ALIGNMENT_BYTES,
        _ => HUGE_PAGE_BYTES,
    }
}

/// This thread has had a block from the system.
#[inline]
pub(crate) fn count_fresh() {
    FRESH_ON_THREAD.set(FRESH_ON_THREAD.get() + 1);
}

/// A block of the global allocator. Its layout follows from its capacity.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: NonNull<u8>,
    pub(crate) capacity: usize,
    /// How many bytes at its beginning are known to be zero.
    pub(crate) zeros: usize,
}
// SAFETY: an address and a number; whoever owns the block answers for its bytes.
unsafe impl Send for Block {}

impl Block {
    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity, alignment(capacity)).ok()
    }

    /// Fresh memory; nobody has written it.
    fn fresh(capacity: usize) -> Option<Block> {
        let layout = Block::layout(capacity)?;
        // SAFETY: the layout is not empty: capacities are those of `capacity_for`, of at least one byte.
        let address = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        count_fresh();
        #[cfg(all(target_os = "linux", not(miri)))]
        if capacity >= HUGE_BYTES {
            unsafe extern "C" {
                fn madvise(address: *mut u8, nbytes: usize, advice: i32) -> i32;
            }
            const MADV_HUGEPAGE: i32 = 14;
            // SAFETY: advice about our own fresh pages. A system without huge pages refuses, and nothing is lost.
            unsafe { madvise(address.as_ptr(), capacity, MADV_HUGEPAGE) };
        }
        Some(Block { address, capacity, zeros: 0 })
    }

    /// # Safety
    /// It came from `fresh`, and nobody uses it any more.
    unsafe fn free(self) {
        if let Some(layout) = Block::layout(self.capacity) {
            // SAFETY: the layout that it was allocated with.
            unsafe { std::alloc::dealloc(self.address.as_ptr(), layout) }
        }
    }
}

struct Pool {
    /// The first `count` are there, the longest kept first.
    blocks: [Option<Block>; MAX_KEPT_BLOCKS],
    count: usize,
    statistics: MemoryStatistics,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    blocks: [None; MAX_KEPT_BLOCKS],
    count: 0,
    statistics: MemoryStatistics { live: 0, kept: 0, limit: DEFAULT_LIMIT_BYTES, fresh: 0, reused: 0 },
});

fn pool() -> MutexGuard<'static, Pool> {
    // Nothing in here panics while it holds the lock.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn remove(&mut self, at: usize) -> Option<Block> {
        self.blocks[at..self.count].rotate_left(1);
        self.count -= 1;
        let block = self.blocks[self.count].take();
        self.statistics.kept -= block.map_or(0, |block| block.capacity);
        block
    }

    /// The smallest kept block that serves and wastes at most a quarter; of equals the last, which the caches know best.
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

    /// The longest kept block, if more is kept than may be.
    fn surplus(&mut self) -> Option<Block> {
        let full = self.statistics.kept > self.statistics.limit || self.count == MAX_KEPT_BLOCKS;
        if full && self.count > 0 { self.remove(0) } else { None }
    }
}

/// Capacities are rounded, so that sizes that differ little use each other's blocks.
fn capacity_for(nbytes: usize) -> Option<usize> {
    let unit = match nbytes {
        0..POOLED_BYTES => return Some(nbytes),
        POOLED_BYTES..HUGE_BYTES => 4 << 10,
        _ => 64 << 10,
    };
    nbytes.checked_next_multiple_of(unit)
}

/// A block of at least `nbytes` bytes, which are not 0.
pub(crate) fn take(nbytes: usize) -> Option<Block> {
    let capacity = capacity_for(nbytes)?;
    if capacity < POOLED_BYTES {
        return Block::fresh(capacity);
    }
    let found = pool().find(capacity);
    let block = found.or_else(|| Block::fresh(capacity)).or_else(|| {
        // What is kept may be what is missing.
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
/// It came from `take`, and nobody uses it any more.
pub(crate) unsafe fn give(block: Block) {
    if block.capacity < POOLED_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { block.free() };
    }
    let surplus = {
        let mut pool = pool();
        pool.statistics.live -= block.capacity;
        if block.capacity > pool.statistics.limit {
            drop(pool);
            // SAFETY: the caller's promise.
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
        // SAFETY: a kept block is nobody's.
        unsafe { block.free() };
    }
    free_surplus();
}

/// Frees what is kept beyond the limit; others use the pool meanwhile.
fn free_surplus() {
    loop {
        let Some(block) = pool().surplus() else { return };
        // SAFETY: a kept block is nobody's.
        unsafe { block.free() };
    }
}

/// Frees every kept block; how many bytes that were.
pub(crate) fn trim() -> usize {
    let mut freed = 0;
    loop {
        let block = {
            let mut pool = pool();
            if pool.count == 0 { None } else { pool.remove(0) }
        };
        let Some(block) = block else { return freed };
        freed += block.capacity;
        // SAFETY: a kept block is nobody's.
        unsafe { block.free() };
    }
}

pub(crate) fn statistics() -> MemoryStatistics {
    pool().statistics
}

pub(crate) fn set_limit(nbytes: usize) {
    pool().statistics.limit = nbytes;
    free_surplus();
}
