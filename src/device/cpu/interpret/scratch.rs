//! Scratch memory of interpreted programs, which each thread keeps and reuses.
// Imports: nothing.

use super::instructions::CHUNK_ELEMENTS;
use std::cell::RefCell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u8; 64],
}

thread_local! {
    /// Scratch memory that is free.
    static SPARE: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

/// Scratch memory, returned to its thread when it is dropped.
pub(super) struct ScratchMemory(Vec<CacheLine>);

impl ScratchMemory {
    pub(super) fn new(nbytes: usize) -> ScratchMemory {
        let mut lines = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let wanted = nbytes.div_ceil(64);
        if lines.len() < wanted {
            lines.resize(wanted, CacheLine { _bytes: [0; 64] });
        }
        ScratchMemory(lines)
    }
    pub(super) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for ScratchMemory {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        // Large memory is freed.
        if lines.len() <= 1 << 14 {
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(lines));
        }
    }
}

/// Allocates parts of scratch memory, each aligned to a cache line.
pub(super) struct ScratchArena {
    next: *mut u8,
    left: usize,
}
impl ScratchArena {
    /// An arena over the whole memory.
    pub(super) fn new(memory: &mut ScratchMemory) -> ScratchArena {
        ScratchArena { next: memory.start(), left: memory.0.len() * size_of::<CacheLine>() }
    }
    pub(super) fn take(&mut self, nbytes: usize) -> *mut u8 {
        let (at, taken) = (self.next, nbytes.next_multiple_of(size_of::<CacheLine>()));
        assert!(taken <= self.left, "scratch was counted for every part");
        (self.next, self.left) = (at.wrapping_add(taken), self.left - taken);
        at
    }
}

/// Writes a value of `width` bytes to every element of a chunk.
///
/// # Safety
/// 1. `to` has room for a chunk.
/// 2. `from` holds one value.
pub(super) unsafe fn splat(to: *mut u8, from: *const u8, width: usize) {
    macro_rules! of {
        ($t:ty) => {
            // SAFETY: (1) and (2) are the caller's promise.
            unsafe {
                to.cast::<[$t; CHUNK_ELEMENTS]>()
                    .write_unaligned([from.cast::<$t>().read_unaligned(); CHUNK_ELEMENTS])
            }
        };
    }
    match width {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        _ => of!([u64; 2]),
    }
}
