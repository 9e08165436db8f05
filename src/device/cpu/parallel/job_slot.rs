//! One job at a time, of numbered tasks, which its owner and whoever comes to help take in turn.
//!
//! The owner works too and waits for nobody who has not begun: it closes the slot, and from then on nobody enters. Nothing
//! is allocated: the job stands on the owner's stack.
// Imports: nothing of the crate.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A bit of the state: the slot has an owner.
const OWNED: usize = 1;
/// A bit of the state: helpers may enter.
const OPEN: usize = 2;
/// Each helper who is inside counts as this in the state.
const WORKER: usize = 4;

/// Invariant: while the slot is open or a helper is inside, `job` points to the job of the owner, who waits.
#[repr(align(64))]
pub(crate) struct JobSlot {
    state: AtomicUsize,
    /// How many tasks nobody has taken, less how often one was asked for in vain.
    untaken: AtomicIsize,
    /// How many tasks helpers have taken: those are the taken_last ones. So a thread often has the same part of like jobs.
    taken_last: AtomicUsize,
    job: UnsafeCell<*const ParallelJob<'static>>,
}
// SAFETY: the job is written by the owner alone, before the slot is open, and read by those who entered.
unsafe impl Sync for JobSlot {}

struct ParallelJob<'a> {
    tasks: usize,
    work: &'a (dyn Fn(usize) + Sync),
    /// What a helper's part panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl JobSlot {
    pub(crate) const fn new() -> JobSlot {
        JobSlot {
            state: AtomicUsize::new(0),
            untaken: AtomicIsize::new(0),
            taken_last: AtomicUsize::new(0),
            job: UnsafeCell::new(std::ptr::null()),
        }
    }

    /// Runs `work` on every number below `tasks`, here and where [`help`](JobSlot::help) is called; `call` runs when help can
    /// come. Says `false`, and does nothing, while the slot has another owner.
    ///
    /// # Panics
    /// When a part does, after all that have begun are done; the others are not begun then.
    pub(crate) fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync), call: impl FnOnce()) -> bool {
        let Ok(untaken) = isize::try_from(tasks) else { return false };
        if self.state.compare_exchange(0, OWNED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let job = ParallelJob { tasks, work, panic: Mutex::new(None) };
        // SAFETY: the owner's, and nobody is inside.
        unsafe { *self.job.get() = std::ptr::from_ref(&job).cast() };
        self.taken_last.store(0, Ordering::Relaxed);
        self.untaken.store(untaken, Ordering::Relaxed);
        let owner = Owner(self);
        self.state.store(OWNED | OPEN, Ordering::Release);
        call();
        let mut first = 0;
        while self.take_task() {
            work(first);
            first += 1;
        }
        drop(owner);
        if let Some(panic) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        true
    }

    /// Takes tasks of the job until none is untaken; says whether there was one to enter.
    pub(crate) fn help(&self) -> bool {
        if !self.has_tasks() {
            return false;
        }
        let enter = |state: usize| (state & OPEN != 0).then_some(state + WORKER);
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return false;
        }
        // SAFETY: the slot's invariant: this helper is inside.
        let job = unsafe { &**self.job.get() };
        let tasks = || {
            while self.take_task() {
                (job.work)(job.tasks - 1 - self.taken_last.fetch_add(1, Ordering::Relaxed));
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(tasks)) {
            self.untaken.store(0, Ordering::Relaxed);
            let mut first = job.panic.lock().unwrap_or_else(PoisonError::into_inner);
            match *first {
                None => *first = Some(panic),
                // To drop it might panic.
                Some(_) => std::mem::forget(panic),
            }
        }
        self.state.fetch_sub(WORKER, Ordering::Release);
        true
    }

    /// Whether there may be tasks that nobody has taken.
    pub(crate) fn has_tasks(&self) -> bool {
        self.untaken.load(Ordering::Relaxed) > 0
    }

    /// Takes a part: the first or the taken_last of those that are untaken.
    fn take_task(&self) -> bool {
        self.untaken.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

/// Closes the slot when it goes, also by a panic, and waits for those inside.
struct Owner<'a>(&'a JobSlot);

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        let Owner(slot) = self;
        slot.untaken.store(0, Ordering::Relaxed);
        slot.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut turns = 0;
        while slot.state.load(Ordering::Acquire) != OWNED {
            turns += 1;
            if turns < 200 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        slot.state.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Runs `owners`, one a thread, while four threads help at one slot.
    fn with_workers(slot: &JobSlot, owners: &[&(dyn Fn() + Sync)]) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if !slot.help() {
                            thread::yield_now();
                        }
                    }
                });
            }
            let owners: Vec<_> = owners.iter().map(|owner| scope.spawn(owner)).collect();
            let results: Vec<_> = owners.into_iter().map(|owner| owner.join()).collect();
            over.store(true, Ordering::Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
        });
    }

    #[test]
    fn each_part_is_done_once_whoever_comes() {
        let slot = JobSlot::new();
        let owner = || {
            for tasks in (0..400).map(|turn| turn % 40) {
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                let work = |part: usize| _ = done[part].fetch_add(1, Ordering::Relaxed);
                // Nobody who owns the slot can own it again.
                let nested = |part: usize| {
                    assert!(!slot.run(1, &|_| unreachable!("the slot has an owner"), || ()));
                    work(part);
                };
                if !slot.run(tasks, &nested, || ()) {
                    (0..tasks).for_each(work);
                }
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
            }
        };
        with_workers(&slot, &[&owner, &owner, &owner]);
        assert!(!slot.help());
    }

    #[test]
    fn a_panic_comes_to_the_owner_after_what_has_begun_and_the_board_serves_on() {
        let slot = JobSlot::new();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        with_workers(
            &slot,
            &[&|| {
                for turn in 0..200 {
                    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                    let work = |part: usize| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        if part == turn % 20 {
                            ended.fetch_add(1, Ordering::Relaxed);
                            std::panic::panic_any(part);
                        }
                        thread::yield_now();
                        ended.fetch_add(1, Ordering::Relaxed);
                    };
                    let panic = catch_unwind(AssertUnwindSafe(|| slot.run(20, &work, || ()))).unwrap_err();
                    assert_eq!(panic.downcast_ref(), Some(&(turn % 20)));
                    assert_eq!(begun.into_inner(), ended.into_inner());
                    assert!(slot.run(20, &|_| (), || ()));
                }
            }],
        );
        std::panic::set_hook(report);
    }
}
