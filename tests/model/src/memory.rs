//! Memory of the models: values that no lock guards, and the allocator, which tracks live blocks and their
//! uses, in the order that `loom` sees.

pub use std::alloc::Layout;

use loom::cell::UnsafeCell;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Represents the bytes of a block: `loom` reports two uses of it that no order separates.
type Bytes = Rc<UnsafeCell<()>>;

thread_local! {
    // All threads of a model are one thread of the system.
    static LIVE: RefCell<BTreeMap<usize, (Layout, Bytes)>> = const { RefCell::new(BTreeMap::new()) };
}

pub fn start() {
    LIVE.take();
}

/// # Panics
/// When a block was not given back.
pub fn end() {
    let left = LIVE.take().len();
    assert_eq!(left, 0, "blocks that were not given back");
}

/// # Safety
/// As of `std::alloc::alloc`.
pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: the caller's promise.
    let block = unsafe { std::alloc::alloc(layout) };
    let known =
        LIVE.with_borrow_mut(|live| live.insert(block as usize, (layout, Rc::new(UnsafeCell::new(())))));
    assert!(known.is_none(), "the system gave a live block");
    block
}

/// # Safety
/// As of `std::alloc::dealloc`.
pub unsafe fn dealloc(block: *mut u8, layout: Layout) {
    let (of_alloc, bytes) = LIVE.with_borrow_mut(|live| live.remove(&(block as usize))).expect("freed twice");
    assert_eq!(of_alloc, layout, "freed with another layout");
    bytes.with_mut(|_| ());
    // SAFETY: live until here, with this layout.
    unsafe { std::alloc::dealloc(block, layout) }
}

/// The owner's use of a block's bytes.
pub fn write(block: *mut u8) {
    let bytes =
        LIVE.with_borrow(|live| live.get(&(block as usize)).expect("used after it was freed").1.clone());
    bytes.with_mut(|_| loom::thread::yield_now());
}

/// A value without a lock: `loom` reports a write that is not ordered with every other use.
pub struct Plain(UnsafeCell<u32>);
impl Plain {
    pub fn new() -> Self {
        Plain(UnsafeCell::new(7))
    }
    pub fn read(&self) -> u32 {
        // SAFETY: `loom` stops the model if another thread uses it.
        self.0.with(|value| unsafe { *value })
    }
    pub fn write(&self) {
        // SAFETY: `loom` stops the model if another thread uses it.
        self.0.with_mut(|value| unsafe { *value += 1 })
    }
}
impl Drop for Plain {
    fn drop(&mut self) {
        // A model that has failed is left by unwinding, in which a second panic would stop the process.
        if !std::thread::panicking() {
            self.write();
        }
    }
}
// SAFETY: `loom` stops the model when two threads use it at once.
unsafe impl Sync for Plain {}
