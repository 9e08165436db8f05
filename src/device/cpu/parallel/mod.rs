//! Work on several threads: the caller's, and those of `rayon` that have nothing to do.
//!
//! To sleep until others are done, and to be woken, takes longer than an operation on 2¹⁶ elements; and to do other work of the
//! pool meanwhile may ask for a lock that the caller holds. So a caller works itself, shows what is left on a slot, and waits
//! for nobody who has not begun. A thread that helps a caller from outside the pool stays for a moment and spin_for_jobs for more; if the
//! pool has other work meanwhile, it goes to do that, and others may be called in its inner.
//! Who does which part differs from call_workers to call_workers: what a part computes must not depend on it.
// Imports: nothing of the crate.

#[cfg(feature = "threads")]
mod job_slot;
pub(crate) mod partition;

#[cfg(feature = "threads")]
use super::tuning::{BURST_WINDOW, IDLE_SPIN, MAX_STAY, SPINS_PER_CLOCK_READ, YIELD_AFTER};
#[cfg(feature = "threads")]
use job_slot::JobSlot;
#[cfg(feature = "threads")]
use std::{
    cell::Cell,
    sync::LazyLock,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    time::Instant,
};

// A former name, until the engines use the new one.
#[allow(unused_imports)]
pub(crate) use for_each_task as each;

/// How many threads there are to share work.
pub(crate) fn count() -> usize {
    #[cfg(feature = "threads")]
    {
        rayon_core::current_num_threads()
    }
    #[cfg(not(feature = "threads"))]
    {
        1
    }
}

/// Runs `f` on every number below `tasks`, on every core. Work that is `short` wakes nobody, unless it comes is_burst, and is not
/// shared inside a pool.
pub(crate) fn for_each_task(tasks: usize, short: bool, f: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "threads")]
    if let workers @ 1.. = tasks.min(count()).saturating_sub(1) {
        let shared = match rayon_core::current_thread_index() {
            Some(_) => {
                !short && POOL_SLOTS.iter().any(|inner| inner.slot.run(tasks, f, || inner.ask(workers)))
            }
            None => {
                let help = !short || is_burst() || WORKERS.load(Ordering::Relaxed) > 0;
                help && OUTER_SLOTS.iter().any(|slot| slot.run(tasks, f, || call_workers(workers)))
            }
        };
        if shared {
            return;
        }
    }
    let _ = short;
    (0..tasks).for_each(f);
}

/// For callers from outside the pool: as many of them find help at a time. Nested work takes another one.
#[cfg(feature = "threads")]
static OUTER_SLOTS: [JobSlot; 4] = [const { JobSlot::new() }; 4];

/// How many threads of the pool look at those boards, or were called to.
#[cfg(feature = "threads")]
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// How many of them look: the others are on their way.
#[cfg(feature = "threads")]
static PRESENT: AtomicUsize = AtomicUsize::new(0);

#[cfg(feature = "threads")]
thread_local! {
    /// Whether this thread spin_for_jobs at the boards, or will when it has done other work of the pool.
    static IS_PRESENT: Cell<bool> = const { Cell::new(false) };
}

/// Whether short work was asked for a moment ago.
#[cfg(feature = "threads")]
fn is_burst() -> bool {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let window = BURST_WINDOW.as_nanos() as u64;
    // The first comes long after none.
    let now = START.elapsed().as_nanos() as u64 + 2 * window;
    now.saturating_sub(BEFORE.swap(now, Ordering::Relaxed)) < window
}

/// Calls two threads of the pool, if fewer than `wanted` help; for_each_task of them calls two.
#[cfg(feature = "threads")]
fn call_workers(wanted: usize) {
    // Either this sees that a helper left, or that one sees the job that was shown before.
    fence(Ordering::SeqCst);
    spawn_two(&WORKERS, wanted, move || run_worker(wanted));
}

/// Gives the pool a job twice, and counts it, while fewer than `wanted` are counted.
#[cfg(feature = "threads")]
fn spawn_two(counted: &AtomicUsize, wanted: usize, job: impl FnOnce() + Copy + Send + 'static) {
    for _ in 0..2 {
        if !count_one(counted, wanted) {
            return;
        }
        rayon_core::spawn(job);
    }
}

/// Counts one more, if fewer than `wanted` are counted; says whether it did.
#[cfg(feature = "threads")]
fn count_one(counted: &AtomicUsize, wanted: usize) -> bool {
    let one_more = |count| (count < wanted).then_some(count + 1);
    counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

/// How a helper's run_worker ends.
#[cfg(feature = "threads")]
enum StayEnd {
    /// There was nothing to do for a moment.
    Idle,
    /// Its turn is over.
    Over,
    /// Others are there, who came while it did other work of the pool.
    Replaced,
}

/// What a helper does, as a job of the pool.
#[cfg(feature = "threads")]
fn run_worker(wanted: usize) {
    if IS_PRESENT.replace(true) {
        // It helps already, and found this while it looked for other work: somebody else is called the next time.
        WORKERS.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    PRESENT.fetch_add(1, Ordering::Relaxed);
    let end = spin_for_jobs(wanted);
    IS_PRESENT.set(false);
    match end {
        StayEnd::Idle => unregister(wanted),
        StayEnd::Over => {
            PRESENT.fetch_sub(1, Ordering::Relaxed);
            rayon_core::spawn(move || run_worker(wanted));
        }
        StayEnd::Replaced => {}
    }
}

/// One helper less; somebody else is called if there is work.
#[cfg(feature = "threads")]
fn unregister(wanted: usize) {
    PRESENT.fetch_sub(1, Ordering::Relaxed);
    WORKERS.fetch_sub(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if OUTER_SLOTS.iter().any(JobSlot::has_tasks) {
        call_workers(wanted);
    }
}

/// Does other work of the pool, which may take long, and comes back; says whether there is still room.
#[cfg(feature = "threads")]
fn yield_to_pool(wanted: usize) -> bool {
    unregister(wanted);
    rayon_core::yield_now();
    let room = count_one(&WORKERS, wanted);
    if room {
        PRESENT.fetch_add(1, Ordering::Relaxed);
    }
    room
}

/// Helps until there was nothing to do for a moment, its turn is over, or others are there.
#[cfg(feature = "threads")]
fn spin_for_jobs(wanted: usize) -> StayEnd {
    if OUTER_SLOTS.iter().any(JobSlot::has_tasks) {
        call_workers(wanted);
    }
    let begun = Instant::now();
    let (mut since, mut asked) = (begun, begun);
    while since.elapsed() < IDLE_SPIN {
        if begun.elapsed() > MAX_STAY {
            return StayEnd::Over;
        }
        for _ in 0..SPINS_PER_CLOCK_READ {
            if OUTER_SLOTS.iter().any(JobSlot::help) {
                since = Instant::now();
            }
            std::hint::spin_loop();
        }
        if PRESENT.load(Ordering::Relaxed) == WORKERS.load(Ordering::Relaxed) || asked.elapsed() > YIELD_AFTER
        {
            if !yield_to_pool(wanted) {
                return StayEnd::Replaced;
            }
            asked = Instant::now();
        }
        std::thread::yield_now();
    }
    StayEnd::Idle
}

/// A slot for a caller inside a pool, of which there may be several.
#[cfg(feature = "threads")]
struct PoolSlot {
    slot: JobSlot,
    /// Jobs of pools that were asked to come here, and have not begun.
    asked: AtomicUsize,
}

#[cfg(feature = "threads")]
static POOL_SLOTS: [PoolSlot; 16] =
    [const { PoolSlot { slot: JobSlot::new(), asked: AtomicUsize::new(0) } }; 16];

#[cfg(feature = "threads")]
impl PoolSlot {
    /// Asks two threads of the caller's own pool to help, if fewer than `wanted` were asked and have not come; for_each_task of them asks
    /// two. Who comes late helps whoever has the slot then, or nobody.
    fn ask(&'static self, wanted: usize) {
        spawn_two(&self.asked, wanted, move || {
            self.asked.fetch_sub(1, Ordering::Relaxed);
            if self.slot.has_tasks() {
                self.ask(wanted);
                self.slot.help();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    #[cfg(feature = "threads")]
    use std::time::Duration;

    #[test]
    fn callers_of_all_kinds_have_each_part_done_once() {
        let work = |nested: bool| {
            for turn in 0..300 {
                let tasks = turn % 20;
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                for_each_task(tasks, turn % 3 > 0, &|part| {
                    if nested {
                        for_each_task(3, turn % 2 > 0, &|_| _ = done[part].fetch_add(1, Ordering::Relaxed));
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
            #[cfg(feature = "threads")]
            rayon_core::join(|| work(true), || work(false));
        });
    }

    /// Whoever wants the lock may be all of the pool, or do its work in a caller's inner.
    #[test]
    #[cfg(feature = "threads")]
    fn an_operation_under_a_lock_does_not_wait_for_those_who_want_it() {
        let lock = std::sync::Mutex::new(0);
        let held = |part: usize| {
            let mut held = lock.lock().unwrap();
            for_each_task(8, part.is_multiple_of(2), &|_| std::hint::spin_loop());
            *held += 1;
        };
        rayon_core::in_place_scope(|scope| {
            for part in 0..200 {
                scope.spawn(move |_| held(part));
                held(part);
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 400);
    }

    /// A helper that spin_for_jobs for more finds a job of the pool that never seems to end: another one helps from then on.
    #[test]
    #[cfg(feature = "threads")]
    fn a_long_job_of_the_pool_does_not_keep_others_from_helping() {
        if count() == 1 {
            println!("skipped: there is one thread");
            return;
        }
        for _ in 0..5 {
            for_each_task(64, false, &|_| std::thread::sleep(Duration::from_micros(50)));
            let (send, wait) = std::sync::mpsc::channel::<()>();
            rayon_core::spawn(move || assert!(wait.recv().is_err()));
            std::thread::sleep(Duration::from_micros(100));
            // The first part waits for the second, which another thread must begin; again, where other tests had all boards.
            let (together, start) = (AtomicUsize::new(0), Instant::now());
            while together.load(Ordering::Relaxed) == 0 {
                assert!(start.elapsed() < Duration::from_secs(20), "nobody helps");
                let begun = AtomicUsize::new(0);
                for_each_task(2, false, &|_| {
                    let first = begun.fetch_add(1, Ordering::Relaxed) == 0;
                    let waits = Instant::now();
                    while first
                        && waits.elapsed() < Duration::from_millis(20)
                        && together.load(Ordering::Relaxed) == 0
                    {
                        together.fetch_add(begun.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
                        std::thread::yield_now();
                    }
                });
            }
            drop(send);
        }
    }
}
