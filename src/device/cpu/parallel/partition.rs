//! How work is cut into tasks.
// Imports: nothing of the crate.

use crate::device::cpu::tuning::{LONG_JOB_TASKS, TASK_ELEMENTS, TASKS_PER_THREAD};
use std::ops::Range;

/// Runs `f` over ranges of `0..n` that begin at multiples of 64 elements.
pub(crate) fn parallel_run(n: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    parallel_ranges(n, n / TASK_ELEMENTS, 64, f);
}

/// Runs `f` over ranges of `rows` rows of `n` elements each.
pub(crate) fn parallel_rows(rows: usize, n: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    parallel_ranges(rows, rows.saturating_mul(n) / TASK_ELEMENTS, 1, f);
}

/// Whether there are enough rows for every thread to take only whole rows.
pub(crate) fn shares_rows(rows: usize) -> bool {
    rows >= TASKS_PER_THREAD * super::count()
}

/// Runs `f` over ranges of `0..n` that begin at multiples of `unit`; the work is worth `worth` tasks.
fn parallel_ranges(n: usize, worth: usize, unit: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let tasks = tasks(worth).min(n);
    if tasks <= 1 {
        return f(0..n);
    }
    // n · task / tasks, which a product could overflow.
    let start =
        |task| if task == tasks { n } else { (n / tasks * task + n % tasks * task / tasks) / unit * unit };
    super::for_each_task(tasks, is_short(worth), &|task| f(start(task)..start(task + 1)));
}

/// Whether work that is worth `worth` tasks is too short to wake threads for it.
pub(crate) fn is_short(worth: usize) -> bool {
    worth < LONG_JOB_TASKS
}

/// The number of tasks for work that is worth `worth` of them.
pub(crate) fn tasks(worth: usize) -> usize {
    match if worth < 2 { 1 } else { super::count() } {
        1 => 1,
        threads => worth.min(if is_short(worth) { threads } else { TASKS_PER_THREAD * threads }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::tuning::SHARED_ELEMENTS;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_range_is_cut_at_multiples_of_64_and_covered_once() {
        for n in [
            0,
            1,
            5,
            SHARED_ELEMENTS - 1,
            SHARED_ELEMENTS,
            SHARED_ELEMENTS + 1,
            3 * TASK_ELEMENTS + 77,
            40 * TASK_ELEMENTS + 1,
        ] {
            let taken: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel_run(n, &|part| {
                assert!(
                    part.start % 64 == 0
                        && (part.end % 64 == 0 || part.end == n)
                        && (part.start < part.end || n == 0)
                );
                taken[part].iter().for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
            });
            assert!(taken.into_iter().all(|count| count.into_inner() == 1), "{n}");
        }
    }
}
