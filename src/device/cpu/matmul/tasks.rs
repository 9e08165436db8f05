//! Tasks of one product, on one thread or on several.
// Imports: `error`.

use super::super::parallel;
use crate::error::Result;

/// Multiply-adds from which a product uses several threads.
pub(super) const PARALLEL_MULTIPLY_ADDS: usize = 1 << 22;

/// Calls `f` with each number below `count`, on several threads if `parallel`. Returns one of the errors, if
/// there are any; after the first error no further task starts.
pub(super) fn try_for_each(
    count: usize,
    parallel: bool,
    f: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    if !parallel {
        return (0..count).try_for_each(f);
    }
    parallel::try_for_each_task(count, f)
}

/// A pointer that several threads use. Each thread writes only its own part of the memory, or all of them
/// only read.
#[derive(Clone, Copy)]
pub(super) struct SyncPtr<P>(pub(super) P);

// SAFETY: it holds an address and does not follow it; the functions that do are unsafe.
unsafe impl<T> Sync for SyncPtr<*const T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SyncPtr<*mut T> {}

impl<P: Copy> SyncPtr<P> {
    /// The pointer. A closure that calls this captures the wrapper and not the field.
    pub(super) fn get(&self) -> P {
        self.0
    }
}
