//! One job at a time, of numbered parts, which its owner and whoever comes to help take in turn.
//!
//! The owner works too and waits for nobody who has not begun: it closes the board, and from then on nobody enters. Nothing
//! is allocated: the job stands on the owner's stack.
// Imports: nothing of the crate.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A bit of the state: the board has an owner.
const OWNED: usize = 1;
/// A bit of the state: helpers may enter.
const OPEN: usize = 2;
/// Each helper who is inside counts as this in the state.
const HELPER: usize = 4;

/// Invariant: while the board is open or a helper is inside, `job` points to the job of the owner, who waits.
#[repr(align(64))]
pub(crate) struct Board {
    state: AtomicUsize,
    /// How many parts nobody has taken, less how often one was asked for in vain.
    left: AtomicIsize,
    /// How many parts helpers have taken: those are the last ones. So a thread often has the same part of like jobs.
    last: AtomicUsize,
    job: UnsafeCell<*const Job<'static>>,
}
// SAFETY: the job is written by the owner alone, before the board is open, and read by those who entered.
unsafe impl Sync for Board {}

struct Job<'a> {
    parts: usize,
    work: &'a (dyn Fn(usize) + Sync),
    /// What a helper's part panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Board {
    pub(crate) const fn new() -> Board {
        Board {
            state: AtomicUsize::new(0),
            left: AtomicIsize::new(0),
            last: AtomicUsize::new(0),
            job: UnsafeCell::new(std::ptr::null()),
        }
    }

    /// Runs `work` on every number below `parts`, here and where [`help`](Board::help) is called; `call` runs when help can
    /// come. Says `false`, and does nothing, while the board has another owner.
    ///
    /// # Panics
    /// When a part does, after all that have begun are done; the others are not begun then.
    pub(crate) fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync), call: impl FnOnce()) -> bool {
        let Ok(left) = isize::try_from(parts) else { return false };
        if self.state.compare_exchange(0, OWNED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let job = Job { parts, work, panic: Mutex::new(None) };
        // SAFETY: the owner's, and nobody is inside.
        unsafe { *self.job.get() = std::ptr::from_ref(&job).cast() };
        self.last.store(0, Ordering::Relaxed);
        self.left.store(left, Ordering::Relaxed);
        let owner = Owner(self);
        self.state.store(OWNED | OPEN, Ordering::Release);
        call();
        let mut first = 0;
        while self.takes() {
            work(first);
            first += 1;
        }
        drop(owner);
        if let Some(panic) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        true
    }

    /// Takes parts of the job until none is left; says whether there was one to enter.
    pub(crate) fn help(&self) -> bool {
        if !self.has_parts() {
            return false;
        }
        let enter = |state: usize| (state & OPEN != 0).then_some(state + HELPER);
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return false;
        }
        // SAFETY: the board's invariant: this helper is inside.
        let job = unsafe { &**self.job.get() };
        let parts = || {
            while self.takes() {
                (job.work)(job.parts - 1 - self.last.fetch_add(1, Ordering::Relaxed));
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(parts)) {
            self.left.store(0, Ordering::Relaxed);
            let mut first = job.panic.lock().unwrap_or_else(PoisonError::into_inner);
            match *first {
                None => *first = Some(panic),
                // To drop it might panic.
                Some(_) => std::mem::forget(panic),
            }
        }
        self.state.fetch_sub(HELPER, Ordering::Release);
        true
    }

    /// Whether there may be parts that nobody has taken.
    pub(crate) fn has_parts(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Takes a part: the first or the last of those that are left.
    fn takes(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

/// Closes the board when it goes, also by a panic, and waits for those inside.
struct Owner<'a>(&'a Board);

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        let Owner(board) = self;
        board.left.store(0, Ordering::Relaxed);
        board.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut turns = 0;
        while board.state.load(Ordering::Acquire) != OWNED {
            turns += 1;
            if turns < 200 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        board.state.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Runs `owners`, one a thread, while four threads help at one board.
    fn with_helpers(board: &Board, owners: &[&(dyn Fn() + Sync)]) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if !board.help() {
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
        let board = Board::new();
        let owner = || {
            for parts in (0..400).map(|turn| turn % 40) {
                let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                let work = |part: usize| _ = done[part].fetch_add(1, Ordering::Relaxed);
                // Nobody who owns the board can own it again.
                let nested = |part: usize| {
                    assert!(!board.run(1, &|_| unreachable!("the board has an owner"), || ()));
                    work(part);
                };
                if !board.run(parts, &nested, || ()) {
                    (0..parts).for_each(work);
                }
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
            }
        };
        with_helpers(&board, &[&owner, &owner, &owner]);
        assert!(!board.help());
    }

    #[test]
    fn a_panic_comes_to_the_owner_after_what_has_begun_and_the_board_serves_on() {
        let board = Board::new();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        with_helpers(
            &board,
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
                    let panic = catch_unwind(AssertUnwindSafe(|| board.run(20, &work, || ()))).unwrap_err();
                    assert_eq!(panic.downcast_ref(), Some(&(turn % 20)));
                    assert_eq!(begun.into_inner(), ended.into_inner());
                    assert!(board.run(20, &|_| (), || ()));
                }
            }],
        );
        std::panic::set_hook(report);
    }
}
