//! Work on several threads: the caller's, and those of `rayon` that have nothing to do.
//!
//! To sleep until others are done, and to be woken, takes longer than an operation on 2¹⁶ elements. So a caller from outside
//! the pool works itself, and a thread that has helped it stays for a moment and looks for more. A caller inside the pool
//! divides its work by `rayon::join`. Who does which part differs from call to call: what a part computes must not depend
//! on it.
//! Imports: nothing of the crate.

#[cfg(feature = "rayon")]
use super::board::Board;
#[cfg(feature = "rayon")]
use std::{
    cell::Cell,
    ops::Range,
    sync::LazyLock,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// How many threads there are to share work.
pub(super) fn count() -> usize {
    #[cfg(feature = "rayon")]
    {
        rayon::current_num_threads()
    }
    #[cfg(not(feature = "rayon"))]
    {
        1
    }
}

/// Runs `f` on every number below `parts`, on every core. Work that is `short` wakes nobody, unless it comes often.
pub(super) fn each(parts: usize, short: bool, f: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "rayon")]
    if parts > 1 && count() > 1 {
        if rayon::current_thread_index().is_some() {
            return between(0..parts, f);
        }
        let helpers = parts.min(count()) - 1;
        if !short || HELPERS.load(Ordering::Relaxed) > 0 || often() {
            if BOARD.run(parts, f, || call(helpers)) {
                return;
            }
            // Another thread has the board.
            if !short {
                return between(0..parts, f);
            }
        }
    }
    let _ = short;
    (0..parts).for_each(f);
}

#[cfg(feature = "rayon")]
fn between(parts: Range<usize>, f: &(dyn Fn(usize) + Sync)) {
    if parts.len() > 1 {
        let half = parts.start + parts.len() / 2;
        rayon::join(|| between(parts.start..half, f), || between(half..parts.end, f));
        return;
    }
    parts.for_each(f);
}

#[cfg(feature = "rayon")]
static BOARD: Board = Board::new();

/// Threads of the pool that help, or were called.
#[cfg(feature = "rayon")]
static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// How many are wanted for the present job.
#[cfg(feature = "rayon")]
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// How long a helper looks for more to do.
#[cfg(feature = "rayon")]
const MOMENT: Duration = Duration::from_micros(100);

/// How often it looks before others have a turn: a few microseconds.
#[cfg(feature = "rayon")]
const LOOKS: usize = 100;

/// Whether work like this was asked for a moment ago.
#[cfg(feature = "rayon")]
fn often() -> bool {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let now = START.elapsed().as_nanos() as u64;
    now - BEFORE.swap(now, Ordering::Relaxed).min(now) < MOMENT.as_nanos() as u64
}

/// Asks for helpers of the job on the board until there are `wanted`: each who comes asks again.
#[cfg(feature = "rayon")]
fn call(wanted: usize) {
    WANTED.store(wanted, Ordering::Relaxed);
    call_two();
}

#[cfg(feature = "rayon")]
fn call_two() {
    for _ in 0..2 {
        let one_more = |helpers| (helpers < WANTED.load(Ordering::Relaxed)).then_some(helpers + 1);
        if HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return;
        }
        rayon::spawn(stay);
    }
}

/// What a helper does, as a job of the pool.
#[cfg(feature = "rayon")]
fn stay() {
    thread_local! { static STAYS: Cell<bool> = const { Cell::new(false) } }
    // One that stays may find another's call among the pool's jobs.
    if !STAYS.replace(true) {
        call_two();
        let mut since = Instant::now();
        while since.elapsed() < MOMENT {
            for _ in 0..LOOKS {
                if BOARD.help() {
                    since = Instant::now();
                }
                std::hint::spin_loop();
            }
            // The pool's other work, and that of whoever has no core to itself.
            rayon::yield_now();
            std::thread::yield_now();
        }
        STAYS.set(false);
    }
    HELPERS.fetch_sub(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn callers_of_all_kinds_have_each_part_done_once() {
        let work = |nested: bool| {
            for turn in 0..300 {
                let parts = turn % 20;
                let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                each(parts, turn % 3 > 0, &|part| {
                    if nested {
                        each(3, turn % 2 > 0, &|_| _ = done[part].fetch_add(1, Ordering::Relaxed));
                    } else {
                        done[part].fetch_add(3, Ordering::Relaxed);
                    }
                });
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 3));
            }
        };
        std::thread::scope(|scope| {
            for nested in [false, true, false] {
                scope.spawn(move || work(nested));
            }
            #[cfg(feature = "rayon")]
            rayon::join(|| work(true), || work(false));
        });
    }

    /// Helpers may find other work of the pool while they wait, which takes locks; nobody waits for such a one.
    #[test]
    #[cfg(feature = "rayon")]
    fn an_operation_under_a_lock_does_not_wait_for_those_who_want_it() {
        let lock = std::sync::Mutex::new(0);
        rayon::in_place_scope(|scope| {
            for _ in 0..100 {
                let mut held = lock.lock().unwrap();
                scope.spawn(|_| *lock.lock().unwrap() += 1);
                each(8, false, &|_| std::hint::spin_loop());
                *held += 1;
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 200);
    }
}
