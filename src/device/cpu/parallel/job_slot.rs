//! A slot in which a caller publishes one job of numbered tasks. The caller and the workers that come to help
//! take tasks in turn.
//!
//! The caller owns the slot while its job runs, and runs tasks itself. It waits only for workers that have
//! entered: it closes the slot first, and afterwards no worker enters. Nothing is allocated; the job is on
//! the owner's stack.
// Imports: nothing of the crate.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A bit of the state: the slot has an owner.
const OWNED: usize = 1;
/// A bit of the state: workers may enter.
const OPEN: usize = 2;
/// The unit by which the state counts the workers inside.
const WORKER: usize = 4;

/// Invariant: while the slot is open or a worker is inside, `job` points to the job of the owner, who waits.
#[repr(align(64))]
pub(crate) struct JobSlot {
    state: AtomicUsize,
    /// The number of tasks that were not taken, minus the number of attempts that found none.
    untaken: AtomicIsize,
    /// The number of tasks that workers have taken, from the last task backwards. A thread often gets the
    /// same task of similar jobs that way.
    taken_last: AtomicUsize,
    /// The most workers that enter: one for each task but the owner's first. More would find no task, and the
    /// owner would wait until they have left.
    places: AtomicUsize,
    job: UnsafeCell<*const ParallelJob<'static>>,
}
// SAFETY: only the owner writes the job, before it opens the slot; only workers that have entered read it.
unsafe impl Sync for JobSlot {}

struct ParallelJob<'a> {
    tasks: usize,
    work: &'a (dyn Fn(usize) + Sync),
    /// The payload of the first panic in a worker's task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl JobSlot {
    pub(crate) const fn new() -> JobSlot {
        JobSlot {
            state: AtomicUsize::new(0),
            untaken: AtomicIsize::new(0),
            taken_last: AtomicUsize::new(0),
            places: AtomicUsize::new(0),
            job: UnsafeCell::new(std::ptr::null()),
        }
    }

    /// Runs `work` on every number below `tasks`, here and in the threads that call [`help`](JobSlot::help).
    /// `call` runs as soon as workers can enter. Returns `false`, without effect, if the slot has another
    /// owner.
    ///
    /// # Panics
    /// If a task panics, after all started tasks have ended. The other tasks do not start then.
    pub(crate) fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync), call: impl FnOnce()) -> bool {
        let Ok(untaken) = isize::try_from(tasks) else { return false };
        if self.state.compare_exchange(0, OWNED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let job = ParallelJob { tasks, work, panic: Mutex::new(None) };
        // SAFETY: this call owns the slot, and no worker is inside.
        unsafe { *self.job.get() = std::ptr::from_ref(&job).cast() };
        self.taken_last.store(0, Ordering::Relaxed);
        self.places.store(tasks.saturating_sub(1), Ordering::Relaxed);
        self.untaken.store(untaken, Ordering::Relaxed);
        let owner = OpenSlot(self);
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

    /// Takes tasks of the job until none remains. Returns whether there was a job to enter.
    pub(crate) fn help(&self) -> bool {
        if !self.has_tasks() {
            return false;
        }
        let places = self.places.load(Ordering::Relaxed);
        let enter = |state: usize| (state & OPEN != 0 && state / WORKER < places).then_some(state + WORKER);
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return false;
        }
        // SAFETY: the slot's invariant: this worker is inside.
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
                // Dropping the payload could panic again.
                Some(_) => std::mem::forget(panic),
            }
        }
        self.state.fetch_sub(WORKER, Ordering::Release);
        true
    }

    /// Whether some tasks may not have been taken.
    pub(crate) fn has_tasks(&self) -> bool {
        self.untaken.load(Ordering::Relaxed) > 0
    }

    /// Takes one of the remaining tasks. Returns whether there was one.
    fn take_task(&self) -> bool {
        self.untaken.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

/// Closes the slot on drop, also during a panic, and waits for the workers inside.
struct OpenSlot<'a>(&'a JobSlot);

impl Drop for OpenSlot<'_> {
    fn drop(&mut self) {
        let OpenSlot(slot) = self;
        slot.untaken.store(0, Ordering::Relaxed);
        slot.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut spins = 0;
        while slot.state.load(Ordering::Acquire) != OWNED {
            spins += 1;
            if spins < 200 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        slot.state.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Runs each of `owners` in a thread of its own, while four workers help at one slot.
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
    fn each_task_runs_once_however_many_workers_come() {
        let slot = JobSlot::new();
        let owner = || {
            for tasks in (0..400).map(|round| round % 40) {
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                let work = |task: usize| _ = done[task].fetch_add(1, Ordering::Relaxed);
                // The owner of the slot cannot own it a second time.
                let nested = |task: usize| {
                    assert!(!slot.run(1, &|_| unreachable!("the slot has an owner"), || ()));
                    work(task);
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
    fn no_more_workers_enter_than_there_are_tasks_for() {
        let slot = JobSlot::new();
        let owner = || {
            for tasks in (0..2000).map(|round| 1 + round % 3) {
                let work = |_| {
                    for _ in 0..10 {
                        let inside = slot.state.load(Ordering::Relaxed) / WORKER;
                        assert!(inside < tasks, "{inside} workers for {tasks} tasks");
                        std::hint::spin_loop();
                    }
                };
                if !slot.run(tasks, &work, || ()) {
                    unreachable!("the slot has one owner");
                }
            }
        };
        with_workers(&slot, &[&owner]);
    }

    #[test]
    fn a_panic_reaches_the_owner_after_started_tasks_and_the_slot_stays_usable() {
        let slot = JobSlot::new();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        with_workers(
            &slot,
            &[&|| {
                for round in 0..200 {
                    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                    let work = |task: usize| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        if task == round % 20 {
                            ended.fetch_add(1, Ordering::Relaxed);
                            std::panic::panic_any(task);
                        }
                        thread::yield_now();
                        ended.fetch_add(1, Ordering::Relaxed);
                    };
                    let panic = catch_unwind(AssertUnwindSafe(|| slot.run(20, &work, || ()))).unwrap_err();
                    assert_eq!(panic.downcast_ref(), Some(&(round % 20)));
                    assert_eq!(begun.into_inner(), ended.into_inner());
                    assert!(slot.run(20, &|_| (), || ()));
                }
            }],
        );
        std::panic::set_hook(report);
    }
}
