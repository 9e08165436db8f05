//! How an iteration space is cut into the tasks of several threads.
// Imports: nothing of the crate.

use super::iteration::IterSpace;
use crate::device::cpu::parallel::{self, partition};
use crate::device::cpu::tuning::TASK_ELEMENTS;

/// Runs `f` over the parts of an iteration space, on every core when it is large. One index is the work of
/// `weight` elements.
///
/// The number of parts depends on the number of threads, so the result of `f` for an index must not depend on
/// its part.
pub(crate) fn parallel(space: &IterSpace, weight: usize, f: &(dyn Fn(&IterSpace) + Sync)) {
    parallel_by(space, weight, 1, f);
}

/// As [`parallel`], in parts of about `least` indices or more.
pub(crate) fn parallel_by(space: &IterSpace, weight: usize, least: usize, f: &(dyn Fn(&IterSpace) + Sync)) {
    let worth = (space.numel().saturating_mul(weight) / TASK_ELEMENTS).min(space.numel() / least);
    match partition::tasks(worth) {
        1 => f(space),
        tasks => parallel::for_each_task(tasks, partition::is_short(worth), &|task| {
            space.part(task, tasks).iter().for_each(f)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::OperandRef;
    use crate::device::cpu::strided::{AxisOrder, for_each_space};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_short_slow_axis_does_not_keep_the_others_whole() {
        let (sizes, stride) = ([3, 1 << 20], [1 << 21, 1]);
        let slot = OperandRef { address: std::ptr::null_mut(), stride: &stride, element: 4 };
        let (indices, largest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for_each_space(&sizes, &[slot], AxisOrder::OfOutput, &mut |space| {
            parallel(space, 1, &|part| {
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
