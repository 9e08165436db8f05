//! Scratch memory of interpreted programs: its parts are free again together, and the thread keeps it.
// Imports: `error`, `fallible`.

use super::instructions::CHUNK_ELEMENTS;
use crate::error::Result;
use crate::fallible::{out_of_memory, try_box};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u8; 64],
}

/// Cache lines of the smallest block: the registers of most programs fit into it.
const MIN_LINES: usize = 2 << 10;
/// Cache lines of the largest block that a thread keeps.
const MAX_KEPT_LINES: usize = 1 << 14;

/// A block of initialized memory, in a list.
struct ScratchBlock {
    lines: Vec<CacheLine>,
    next: Option<Box<ScratchBlock>>,
}

thread_local! {
    /// Blocks that are free.
    static SPARE: Cell<Option<Box<ScratchBlock>>> = const { Cell::new(None) };
}

impl ScratchBlock {
    /// A block of at least so many cache lines.
    fn new(lines: usize) -> Result<Box<ScratchBlock>> {
        // A thread that ends has none.
        let spare = SPARE.try_with(|spare| {
            let mut first = spare.take()?;
            spare.set(first.next.take());
            Some(first)
        });
        // A larger block replaces one that does not suffice, so that a thread has few.
        if let Ok(Some(spare)) = spare
            && spare.lines.len() >= lines
        {
            return Ok(spare);
        }
        let (mut room, lines) = (Vec::new(), lines.max(MIN_LINES));
        room.try_reserve_exact(lines).map_err(|_| out_of_memory::<CacheLine>(lines))?;
        room.resize(lines, CacheLine { _bytes: [0; 64] });
        try_box(ScratchBlock { lines: room, next: None })
    }
}

/// Scratch memory. Its parts are valid as long as it is; they are disjoint, aligned to cache lines, and
/// initialized.
pub(super) struct ScratchArena {
    /// The blocks, the current one first.
    blocks: Cell<Option<Box<ScratchBlock>>>,
    next: Cell<*mut u8>,
    left: Cell<usize>,
}

impl ScratchArena {
    /// Scratch without a block.
    pub(super) fn new() -> ScratchArena {
        let none = std::ptr::dangling_mut::<CacheLine>().cast();
        ScratchArena { blocks: Cell::new(None), next: Cell::new(none), left: Cell::new(0) }
    }

    /// The next `nbytes` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(super) fn take(&self, nbytes: usize) -> Result<*mut u8> {
        let taken = nbytes.next_multiple_of(size_of::<CacheLine>());
        if taken > self.left.get() {
            let mut block = ScratchBlock::new(taken / size_of::<CacheLine>())?;
            self.next.set(block.lines.as_mut_ptr().cast());
            self.left.set(size_of_val(&block.lines[..]));
            block.next = self.blocks.take();
            self.blocks.set(Some(block));
        }
        let at = self.next.get();
        self.next.set(at.wrapping_add(taken));
        self.left.set(self.left.get() - taken);
        Ok(at)
    }

    /// An empty list, of values without padding: all bytes of the memory stay initialized.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(super) fn list<T: Copy>(&self, capacity: usize) -> Result<List<'_, T>> {
        const { assert!(align_of::<T>() <= align_of::<CacheLine>()) };
        let room = self.take(capacity * size_of::<T>())?.cast();
        // SAFETY: the part has so many bytes, is aligned, belongs to this list alone, and lives as long as
        // the scratch.
        Ok(List { room: unsafe { std::slice::from_raw_parts_mut(room, capacity) }, len: 0 })
    }

    /// A list of the first `n` values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(super) fn list_of<T: Copy>(
        &self,
        n: usize,
        values: impl IntoIterator<Item = T>,
    ) -> Result<List<'_, T>> {
        let mut list = self.list(n)?;
        values.into_iter().take(n).for_each(|value| list.push(value));
        Ok(list)
    }
}

impl Drop for ScratchArena {
    fn drop(&mut self) {
        while let Some(mut block) = self.blocks.take() {
            self.blocks.set(block.next.take());
            if block.lines.len() <= MAX_KEPT_LINES {
                // A thread that ends keeps nothing.
                let _ = SPARE.try_with(|spare| {
                    block.next = spare.take();
                    spare.set(Some(block));
                });
            }
        }
    }
}

/// A list in scratch memory, of a capacity that was counted before.
pub(super) struct List<'a, T> {
    room: &'a mut [MaybeUninit<T>],
    len: usize,
}

impl<T> List<'_, T> {
    pub(super) fn push(&mut self, value: T) {
        self.room[self.len].write(value);
        self.len += 1;
    }
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
impl<T> Extend<T> for List<'_, T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}
impl<T> Deref for List<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `push` wrote the first `len` values.
        unsafe { std::slice::from_raw_parts(self.room.as_ptr().cast(), self.len) }
    }
}
impl<T> DerefMut for List<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `push` wrote the first `len` values.
        unsafe { std::slice::from_raw_parts_mut(self.room.as_mut_ptr().cast(), self.len) }
    }
}

/// The result of a call whose tasks run on several threads: that of a task without memory, if there is one.
pub(super) struct Outcome(Mutex<Result<()>>);

impl Outcome {
    pub(super) fn new() -> Outcome {
        Outcome(Mutex::new(Ok(())))
    }
    /// Adds the result of a task.
    pub(super) fn add(&self, done: Result<()>) {
        if done.is_err() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = done;
        }
    }
    /// The result of the tasks.
    pub(super) fn into_result(self) -> Result<()> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
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
