//! A parallel loop over numbered tasks, run by the caller and by idle workers of `rayon`'s pool.
//!
//! Sleeping until other threads are done, and waking up again, takes longer than an operation on 2¹⁶
//! elements. Running other work of the pool meanwhile could ask for a lock that the caller holds. Therefore
//! the caller runs tasks itself, offers the remaining ones in a slot, and waits only for tasks that have
//! started.
//!
//! A worker that helps a caller from outside the pool spins for a short time in search of further jobs. If
//! the pool has other work meanwhile, the worker does that work, and other workers may be called in its
//! place.
//!
//! The assignment of tasks to threads differs from call to call, so the result of a task must not depend on
//! its thread.
// Imports: `error`.

mod independent;
#[cfg(feature = "threads")]
mod job_slot;
pub(crate) mod partition;

pub(crate) use independent::{for_each_independent_task, try_for_each_task};

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

/// The number of threads that can share work: 1 inside an independent task.
pub(crate) fn count() -> usize {
    #[cfg(feature = "threads")]
    {
        if independent::is_inside() { 1 } else { rayon_core::current_num_threads() }
    }
    #[cfg(not(feature = "threads"))]
    {
        1
    }
}

/// Runs `f` on every number below `tasks`, on all cores. A job that is `short` wakes no thread unless short
/// jobs follow each other quickly, and it is not shared inside a pool.
pub(crate) fn for_each_task(tasks: usize, short: bool, f: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "threads")]
    if let workers @ 1.. = tasks.min(count()).saturating_sub(1) {
        let shared = match rayon_core::current_thread_index() {
            Some(_) => {
                !short
                    && POOL_SLOTS
                        .iter()
                        .any(|pool_slot| pool_slot.slot.run(tasks, f, || pool_slot.ask(workers)))
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

/// The slots for callers from outside the pool. This many callers find help at a time; a nested job takes
/// another slot.
#[cfg(feature = "threads")]
static OUTER_SLOTS: [JobSlot; 4] = [const { JobSlot::new() }; 4];

/// The number of the pool's threads that watch these slots or were called to do it.
#[cfg(feature = "threads")]
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that watch them now. The other workers were called and have not arrived.
#[cfg(feature = "threads")]
static PRESENT: AtomicUsize = AtomicUsize::new(0);

#[cfg(feature = "threads")]
thread_local! {
    /// Whether this thread watches the slots, or will do it after other work of the pool.
    static IS_PRESENT: Cell<bool> = const { Cell::new(false) };
}

/// Whether the previous short job was offered only a moment ago.
#[cfg(feature = "threads")]
fn is_burst() -> bool {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let window = BURST_WINDOW.as_nanos() as u64;
    // The offset makes the first job come long after no other.
    let now = START.elapsed().as_nanos() as u64 + 2 * window;
    now.saturating_sub(BEFORE.swap(now, Ordering::Relaxed)) < window
}

/// Calls two threads of the pool if fewer than `wanted` help. Each of them calls two more.
#[cfg(feature = "threads")]
fn call_workers(wanted: usize) {
    // Either this thread sees that a worker has left, or that worker sees the job that was published before.
    fence(Ordering::SeqCst);
    spawn_two(&WORKERS, wanted, move || run_worker(wanted));
}

/// Spawns `job` in the pool up to twice, and counts each, while fewer than `wanted` are counted.
#[cfg(feature = "threads")]
fn spawn_two(counted: &AtomicUsize, wanted: usize, job: impl FnOnce() + Copy + Send + 'static) {
    for _ in 0..2 {
        if !count_one(counted, wanted) {
            return;
        }
        rayon_core::spawn(job);
    }
}

/// Counts one more if fewer than `wanted` are counted. Returns whether it did.
#[cfg(feature = "threads")]
fn count_one(counted: &AtomicUsize, wanted: usize) -> bool {
    let one_more = |count| (count < wanted).then_some(count + 1);
    counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

/// How a worker's stay ends.
#[cfg(feature = "threads")]
enum StayEnd {
    /// No job came for a moment.
    Idle,
    /// The stay reached its maximum.
    Over,
    /// Other workers arrived while this one did other work of the pool.
    Replaced,
}

/// The main function of a worker, run as a job of the pool.
#[cfg(feature = "threads")]
fn run_worker(wanted: usize) {
    if IS_PRESENT.replace(true) {
        // This thread is a worker already, and found this job while it did other work of the pool. The next
        // caller calls another thread.
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

/// Removes a worker. Calls another one if there is work.
#[cfg(feature = "threads")]
fn unregister(wanted: usize) {
    PRESENT.fetch_sub(1, Ordering::Relaxed);
    WORKERS.fetch_sub(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if OUTER_SLOTS.iter().any(JobSlot::has_tasks) {
        call_workers(wanted);
    }
}

/// Does other work of the pool, which may take long. Returns whether fewer than `wanted` workers help
/// afterwards, so that this one may go on.
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

/// Helps until no job has come for a moment, the stay has reached its maximum, or other workers have replaced
/// this one.
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

/// A slot for a caller inside a pool; there may be several pools.
#[cfg(feature = "threads")]
struct PoolSlot {
    slot: JobSlot,
    /// Jobs of pools that were asked to come to this slot and have not started.
    asked: AtomicUsize,
}

#[cfg(feature = "threads")]
static POOL_SLOTS: [PoolSlot; 16] =
    [const { PoolSlot { slot: JobSlot::new(), asked: AtomicUsize::new(0) } }; 16];

#[cfg(feature = "threads")]
impl PoolSlot {
    /// Asks two threads of the caller's own pool to help, if fewer than `wanted` were asked and have not
    /// come. Each of them asks two more. A thread that arrives late helps the slot's present owner, if it has
    /// one.
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
    fn every_caller_gets_each_task_run_once() {
        let work = |nested: bool| {
            for turn in 0..300 {
                let tasks = turn % 20;
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                for_each_task(tasks, turn % 3 > 0, &|task| {
                    if nested {
                        for_each_task(3, turn % 2 > 0, &|_| _ = done[task].fetch_add(1, Ordering::Relaxed));
                    } else {
                        done[task].fetch_add(3, Ordering::Relaxed);
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

    /// The threads that want the lock may occupy the whole pool, or run in the middle of a caller's wait.
    #[test]
    #[cfg(feature = "threads")]
    fn an_operation_under_a_lock_does_not_wait_for_threads_that_want_the_lock() {
        let lock = std::sync::Mutex::new(0);
        let held = |task: usize| {
            let mut held = lock.lock().unwrap();
            for_each_task(8, task.is_multiple_of(2), &|_| std::hint::spin_loop());
            *held += 1;
        };
        rayon_core::in_place_scope(|scope| {
            for task in 0..200 {
                scope.spawn(move |_| held(task));
                held(task);
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 400);
    }

    /// A worker in search of jobs gets a job of the pool that does not end. From then on another worker
    /// helps.
    #[test]
    #[cfg(feature = "threads")]
    fn a_long_job_of_the_pool_does_not_keep_other_workers_from_helping() {
        if count() == 1 {
            println!("skipped: there is one thread");
            return;
        }
        for _ in 0..5 {
            for_each_task(64, false, &|_| std::thread::sleep(Duration::from_micros(50)));
            let (send, wait) = std::sync::mpsc::channel::<()>();
            rayon_core::spawn(move || assert!(wait.recv().is_err()));
            std::thread::sleep(Duration::from_micros(100));
            // The first task waits until another thread starts the second. The loop repeats, because other
            // tests may occupy all slots.
            let (together, start) = (AtomicUsize::new(0), Instant::now());
            while together.load(Ordering::Relaxed) == 0 {
                assert!(start.elapsed() < Duration::from_secs(20), "no worker helps");
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
