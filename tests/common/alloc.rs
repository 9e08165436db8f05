//! A global allocator for tests, which checks every release of memory and refuses the allocations that a test
//! chooses.
//!
//! * A header before each block keeps its size and alignment, a guard behind it 16 known bytes: a `dealloc`
//!   or `realloc` with another layout, a second `dealloc`, or a write past the end stops the process with a
//!   message.
//! * Fresh memory is 0xA5, freed memory 0xDD; `realloc` always moves. A read of either shows the pattern.
//! * Live bytes are counted for the process and for each thread (a block freed on another thread counts
//!   negative there).
//! * [`fail_once`] and [`fail_from`] make one thread's allocations fail, those of `realloc` and
//!   `alloc_zeroed` too.
//! * Requests beyond [`LIMIT`] fail: tests ask for far more than a machine has, and Linux would promise some
//!   of it.
//!
//! Include it with `#[path = "common/alloc.rs"] mod alloc;`: that also installs it. Under a sanitizer, which
//! has checks of its own, compile with `RANKFORM_PLAIN_ALLOC` set: blocks then come straight from the system,
//! still counted and refused.

#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

#[global_allocator]
static ALLOCATOR: Checked = Checked;

/// The allocator.
pub struct Checked;

/// Whether a sanitizer is active: blocks then come straight from the system.
pub const PLAIN: bool = option_env!("RANKFORM_PLAIN_ALLOC").is_some();
/// The largest request that is served: this test machine has 4 GiB.
pub const LIMIT: usize = if usize::BITS == 64 { 1 << (usize::BITS / 2) } else { 1 << 31 };

const FRESH: u8 = 0xA5;
const FREED: u8 = 0xDD;
const ALIVE: usize = 0xA11C_E5ED;
const DEAD: usize = 0xDEAD_DEAD;
const GUARD: [u8; 16] = [0x5F; 16];

/// The header of a block.
#[derive(Clone, Copy)]
struct Header {
    state: usize,
    size: usize,
    align: usize,
}

static LIVE: AtomicIsize = AtomicIsize::new(0);

#[derive(Clone, Copy)]
enum Fail {
    Never,
    Once,
    From,
}
thread_local! {
    static LIVE_HERE: Cell<isize> = const { Cell::new(0) };
    static PEAK_HERE: Cell<isize> = const { Cell::new(0) };
    static FAIL: Cell<Fail> = const { Cell::new(Fail::Never) };
    static LEFT: Cell<usize> = const { Cell::new(0) };
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that are allocated now, by every thread.
pub fn live() -> isize {
    LIVE.load(Ordering::SeqCst)
}

/// Bytes that this thread has allocated and not freed.
pub fn live_here() -> isize {
    LIVE_HERE.get()
}

/// The peak of this thread's bytes above those at the start while `work` runs, and the result of `work`.
pub fn peak_here<T>(work: impl FnOnce() -> T) -> (isize, T) {
    let before = live_here();
    PEAK_HERE.set(before);
    let result = work();
    (PEAK_HERE.get() - before, result)
}

/// While it lives, allocations of its thread fail; see [`fail_once`] and [`fail_from`].
#[must_use]
pub struct Armed(());

/// Of this thread's next allocations number `n`, counted from 0, fails; those after it succeed.
pub fn fail_once(n: usize) -> Armed {
    arm(Fail::Once, n)
}

/// Of this thread's next allocations number `n`, counted from 0, fails, and all after it.
pub fn fail_from(n: usize) -> Armed {
    arm(Fail::From, n)
}

fn arm(fail: Fail, n: usize) -> Armed {
    LEFT.set(n);
    REFUSED.set(0);
    FAIL.set(fail);
    Armed(())
}

impl Armed {
    /// Ends it; how many allocations failed.
    pub fn refused(self) -> usize {
        REFUSED.get()
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        FAIL.set(Fail::Never);
    }
}

/// Whether a request is to fail.
fn refuses(size: usize) -> bool {
    let fails = match (FAIL.get(), LEFT.get()) {
        (Fail::Never, _) => false,
        (_, left @ 1..) => {
            LEFT.set(left - 1);
            false
        }
        (fail, 0) => {
            if let Fail::Once = fail {
                FAIL.set(Fail::Never);
            }
            REFUSED.set(REFUSED.get() + 1);
            true
        }
    };
    fails || size > LIMIT
}

fn count(bytes: isize) {
    LIVE.fetch_add(bytes, Ordering::SeqCst);
    LIVE_HERE.set(LIVE_HERE.get() + bytes);
    PEAK_HERE.set(PEAK_HERE.get().max(LIVE_HERE.get()));
}

/// The layout with header and guard, and the offset of the block in it.
fn padded(layout: Layout) -> Option<(Layout, usize)> {
    let front = layout.align().max(size_of::<Header>().next_power_of_two());
    let size = layout.size().checked_add(front)?.checked_add(GUARD.len())?;
    Some((Layout::from_size_align(size, front).ok()?, front))
}

#[cold]
fn stop(what: &str, header: Header, layout: Layout) -> ! {
    FAIL.set(Fail::Never);
    let Header { state, size, align } = header;
    let (asked, asked_align) = (layout.size(), layout.align());
    eprintln!(
        "allocator: {what}: given back as {asked} bytes aligned to {asked_align}; header: {size} bytes \
         aligned to {align}, state {state:x}\n{}",
        std::backtrace::Backtrace::force_capture()
    );
    std::process::abort();
}

// SAFETY: blocks come from the system's allocator, each inside a larger one of at least its alignment.
unsafe impl GlobalAlloc for Checked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { serve(layout, false) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { serve(layout, true) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { take_back(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: the new size fits its alignment; both blocks hold the bytes that are
        // copied.
        unsafe {
            let moved = serve(Layout::from_size_align_unchecked(size, layout.align()), false);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, size.min(layout.size()));
                take_back(block, layout);
            }
            moved
        }
    }
}

unsafe fn serve(layout: Layout, zeroed: bool) -> *mut u8 {
    if refuses(layout.size()) {
        return std::ptr::null_mut();
    }
    // SAFETY: the system's allocator gets a layout that is not empty; everything written lies inside its
    // block.
    unsafe {
        let (outer, front) = match padded(layout) {
            _ if PLAIN => (layout, 0),
            Some(padded) => padded,
            None => return std::ptr::null_mut(),
        };
        let start = if zeroed { System.alloc_zeroed(outer) } else { System.alloc(outer) };
        if start.is_null() {
            return start;
        }
        count(layout.size() as isize);
        if PLAIN {
            return start;
        }
        let block = start.add(front);
        block.cast::<Header>().sub(1).write(Header {
            state: ALIVE,
            size: layout.size(),
            align: layout.align(),
        });
        block.add(layout.size()).cast::<[u8; 16]>().write_unaligned(GUARD);
        if !zeroed {
            block.write_bytes(FRESH, layout.size());
        }
        block
    }
}

unsafe fn take_back(block: *mut u8, layout: Layout) {
    count(-(layout.size() as isize));
    // SAFETY: a block that `serve` made; the header says with which layout, which is checked first.
    unsafe {
        if PLAIN {
            return System.dealloc(block, layout);
        }
        let header = block.cast::<Header>().sub(1);
        let found = header.read();
        if found.state != ALIVE {
            stop("a block that is not alive", found, layout);
        }
        if (found.size, found.align) != (layout.size(), layout.align()) {
            stop("another layout", found, layout);
        }
        if block.add(found.size).cast::<[u8; 16]>().read_unaligned() != GUARD {
            stop("written past its end", found, layout);
        }
        (*header).state = DEAD;
        block.write_bytes(FREED, found.size);
        let (outer, front) = padded(layout).expect("it was padded before");
        System.dealloc(block.sub(front), outer);
    }
}
