//! How an iteration space is cut into the tasks of several threads.
// Imports: nothing of the crate.

use super::iteration::Walk;
use crate::device::cpu::parallel::{self, partition};
use crate::device::cpu::tuning::TASK_ELEMENTS;

/// Runs `f` over the parts of an iteration space, on every core when it is large. One index is the work of `weight`
/// elements.
///
/// The number of parts depends on the number of threads, so the result of `f` for an index must not depend on its part.
pub(crate) fn parallel(walk: &Walk, weight: usize, f: &(dyn Fn(&Walk) + Sync)) {
    parallel_by(walk, weight, 1, f);
}

/// As [`parallel`], in parts of about `least` indices or more.
pub(crate) fn parallel_by(walk: &Walk, weight: usize, least: usize, f: &(dyn Fn(&Walk) + Sync)) {
    let worth = (walk.numel().saturating_mul(weight) / TASK_ELEMENTS).min(walk.numel() / least);
    match partition::tasks(worth) {
        1 => f(walk),
        tasks => parallel::each(tasks, partition::is_short(worth), &|task| {
            walk.part(task, tasks).iter().for_each(f)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::OperandRef;
    use crate::device::cpu::strided::{Order, each};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_short_slow_axis_does_not_keep_the_others_whole() {
        let (sizes, stride) = ([3, 1 << 20], [1 << 21, 1]);
        let slot = OperandRef { address: std::ptr::null_mut(), stride: &stride, element: 4 };
        let (indices, largest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        each(&sizes, &[slot], Order::OfOutput, &mut |walk| {
            parallel(walk, 1, &|part| {
                indices.fetch_add(part.numel(), Ordering::Relaxed);
                largest.fetch_max(part.numel(), Ordering::Relaxed);
            });
        });
        assert_eq!(indices.into_inner(), 3 << 20);
        let single = cfg!(not(feature = "threads"))
            || std::thread::available_parallelism().is_ok_and(|threads| threads.get() == 1);
        assert!(largest.into_inner() <= 1 << 20 || single);
    }
}
