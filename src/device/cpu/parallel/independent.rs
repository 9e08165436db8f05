//! Tasks that return errors, and independent tasks: each of them calls operations, which run on its thread
//! alone.
// Imports: `error`.

use crate::error::Result;
#[cfg(feature = "threads")]
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// Runs `f` on every number below `tasks`, on all cores. Returns one of the errors, if there are any; after
/// the first error no further task starts.
pub(crate) fn try_for_each_task(tasks: usize, f: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let result = Mutex::new(Ok(()));
    let lock = || result.lock().unwrap_or_else(PoisonError::into_inner);
    super::for_each_task(tasks, false, &|task| {
        if lock().is_ok()
            && let error @ Err(_) = f(task)
        {
            *lock() = error;
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// As [`try_for_each_task`], for tasks that call operations. If there are enough tasks for every thread, an
/// operation of a task uses no other thread; otherwise the tasks follow each other, and each operation uses
/// all threads.
pub(crate) fn for_each_independent_task(
    tasks: usize,
    f: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    if tasks < super::count().max(2) {
        return (0..tasks).try_for_each(f);
    }
    try_for_each_task(tasks, &|task| {
        let _inside = Inside::enter();
        f(task)
    })
}

#[cfg(feature = "threads")]
thread_local! {
    /// Whether this thread is in an independent task.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in an independent task.
#[cfg(feature = "threads")]
#[inline]
pub(super) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// The time that this thread spends in an independent task.
struct Inside {
    /// Whether it was in another one.
    #[cfg(feature = "threads")]
    before: bool,
}

impl Inside {
    fn enter() -> Inside {
        Inside {
            #[cfg(feature = "threads")]
            before: IS_INSIDE.replace(true),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        #[cfg(feature = "threads")]
        IS_INSIDE.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::super::count;
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn operations_of_independent_tasks_have_one_thread() {
        let (threads, done) = (count(), AtomicUsize::new(0));
        for tasks in [0, 1, threads, 3 * threads + 1] {
            done.store(0, Ordering::Relaxed);
            let result = for_each_independent_task(tasks, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
                assert_eq!(count(), if tasks < threads.max(2) { threads } else { 1 });
                Ok(())
            });
            assert!(result.is_ok() && done.load(Ordering::Relaxed) == tasks && count() == threads);
        }
    }

    #[test]
    fn an_error_of_a_task_is_returned_and_ends_the_others() {
        for tasks in [1, 100] {
            let error = || Error::OutOfMemory { op: "task", nbytes: 7 };
            let result =
                for_each_independent_task(tasks, &|task| if task == 0 { Err(error()) } else { Ok(()) });
            assert_eq!(result, Err(error()));
        }
    }
}
