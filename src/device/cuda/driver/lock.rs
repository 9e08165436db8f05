//! Locks of mutexes, also of poisoned ones.
// Imports: nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(in crate::device::cuda) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
