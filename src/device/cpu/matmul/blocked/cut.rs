//! How a product is cut into tasks of several threads: along rows and along columns.
// Imports: nothing.

use super::super::super::parallel;
use super::call::GemmCall;
use super::sizes::*;

/// Multiply-adds of a thread in the time in which it receives one element of an operand from another core's
/// cache or from L3.
const MULTIPLY_ADDS_PER_ELEMENT: usize = 19;
/// The same for the time in which a task packs an element.
const MULTIPLY_ADDS_PER_PACKED_ELEMENT: usize = 80;
/// The most tasks of a thread.
const MAX_ROUNDS: usize = 3;

impl GemmCall<'_> {
    /// Rows and columns of a task that computes a part of `m` rows and `n` columns: the cut by which the
    /// threads are done first.
    pub(super) fn task_size(&self, m: usize, n: usize) -> [usize; 2] {
        let packs = !self.reads_left_in_place();
        let most = if packs { ROW_BLOCK } else { IN_PLACE_ROW_BLOCK };
        let units = [self.kernel.mr, self.layout.width];
        fastest_cut([m, n], units, parallel::count(), most, packs)
    }
}

/// Among the cuts into about `threads` parts, or a few times as many, the one with the least time: that of a
/// thread's tasks, each of which multiplies, receives its rows and columns, and packs its rows if it `packs`.
/// A task has whole units of rows and columns and at most `most` rows. Fewer tasks wait longer for a thread
/// that comes late.
fn fastest_cut(
    [m, n]: [usize; 2],
    [mr, width]: [usize; 2],
    threads: usize,
    most: usize,
    packs: bool,
) -> [usize; 2] {
    let (most, panels) = (most / mr * mr, n.div_ceil(width));
    let (mut best, mut least) = ([most.min(m.next_multiple_of(mr)), width], usize::MAX);
    for wanted in (1..=MAX_ROUNDS).map(|rounds| rounds * threads) {
        for groups in 1..=panels.min(wanted) {
            let columns = panels.div_ceil(groups) * width;
            let groups = n.div_ceil(columns);
            let rows = m.div_ceil((wanted / groups).max(1)).next_multiple_of(mr).min(most);
            let rounds = (m.div_ceil(rows) * groups).div_ceil(threads);
            let received = MULTIPLY_ADDS_PER_ELEMENT.saturating_mul(rows + columns);
            let packed = if packs { MULTIPLY_ADDS_PER_PACKED_ELEMENT.saturating_mul(rows) } else { 0 };
            let task = rows.saturating_mul(columns).saturating_add(received + packed);
            let time = task.saturating_mul(8 * rounds + 1) / 8;
            if time < least {
                (best, least) = ([rows, columns], time);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tasks of a cut, and the share of the threads' time that they occupy.
    fn occupied(size: [usize; 2], threads: usize, packs: bool) -> ([usize; 2], f64) {
        let most = if packs { ROW_BLOCK } else { IN_PLACE_ROW_BLOCK };
        let [rows, columns] = fastest_cut(size, [12, 32], threads, most, packs);
        assert!(rows.is_multiple_of(12) && columns.is_multiple_of(32) && rows <= most);
        let tasks = size[0].div_ceil(rows) * size[1].div_ceil(columns);
        let time = tasks.div_ceil(threads) * rows * columns * threads;
        ([rows, columns], (size[0] * size[1]) as f64 / time as f64)
    }

    #[test]
    fn cuts_occupy_all_threads() {
        for n in [512, 1024, 2048] {
            for threads in [2, 3, 4, 8, 16, 32] {
                for packs in [false, true] {
                    let (task, share) = occupied([n, n], threads, packs);
                    assert!(share > 0.85, "{n} on {threads} threads: {share} by tasks of {task:?}");
                }
            }
        }
    }

    #[test]
    fn tasks_of_many_threads_have_about_as_many_rows_as_columns() {
        let ([rows, columns], _) = occupied([512, 512], 16, false);
        assert!(rows.abs_diff(columns) < 32, "{rows} rows, {columns} columns");
        // Few rows are cut along the columns alone.
        assert!(occupied([24, 4096], 16, false).0[0] == 24);
    }

    #[test]
    fn small_and_odd_products_are_covered() {
        for size in [[1, 1], [13, 1], [1, 4000], [5000, 33], [usize::MAX / 2, 5]] {
            for threads in [1, 2, 7, 64] {
                let [rows, columns] = fastest_cut(size, [12, 32], threads, ROW_BLOCK, true);
                assert!(rows > 0 && columns > 0);
            }
        }
    }
}
