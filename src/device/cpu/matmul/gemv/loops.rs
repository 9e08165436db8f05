//! The loops of a GEMV: over contiguous rows of the matrix, and over contiguous columns.
// Imports: `scalar`.

use super::super::super::isa::{self, Loop};
use super::super::super::memory;
use super::super::super::tuning;
use super::super::packing::Convert;
use super::super::problem::GemmProblem;
use super::task::{GemvTask, ROWS};
use crate::scalar::{Arith, Num};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Terms that are summed before they are added to the total of a row. This fixes the bits of the sums.
const BLOCK_TERMS: usize = 4096;
/// If the next rows have at most this many bytes, they are prefetched while the current rows are read: L2
/// holds both.
const MAX_PREFETCHED_ROWS_BYTES: usize = 256 << 10;

/// Partial sums of one row: 128 bytes of them, two vectors of 512 bits or four of 256.
pub(super) const fn lanes<L: Convert>() -> usize {
    128 / size_of::<L::To>()
}

/// The loop of a task. Each row has `LANES` partial sums.
struct GemvLoop<'a, L, const LANES: usize>(&'a GemvTask<'a>, PhantomData<L>);

/// Runs a task by the widest of three instruction sets.
///
/// # Safety
/// 1. The operands of the task hold the elements of `L` and the output those of its `store`.   2. The matrix
///    is a single axis by a single axis, with contiguous rows or columns as the task says.   3. The vector
///    has an element for each term.
pub(super) unsafe fn three_isas<L: Convert<To: Num>, const LANES: usize>(task: &GemvTask<'_>) {
    isa::dispatch(GemvLoop::<L, LANES>(task, PhantomData));
}

/// As [`three_isas`], by one of two instruction sets.
///
/// # Safety
/// As [`three_isas`].
pub(super) unsafe fn two_isas<L: Convert<To: Num>, const LANES: usize>(task: &GemvTask<'_>) {
    isa::dispatch_up_to_avx2(GemvLoop::<L, LANES>(task, PhantomData));
}

/// The sum of all lanes: pairs at half the distance are added until one is left.
#[inline(always)]
fn sum_lanes<P: Num, const LANES: usize>(mut sums: [P; LANES]) -> P {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = P::arith(Arith::Add, sums[lane], sums[lane + half]);
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
pub(super) fn multiply_add<P: Num>(sum: P, a: P, b: P) -> P {
    P::arith(Arith::Add, sum, P::arith(Arith::Mul, a, b))
}

impl<L: Convert<To: Num>, const LANES: usize> Loop for GemvLoop<'_, L, LANES> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.0.by_rows { self.by_rows() } else { self.by_columns::<8>() }
    }
    /// The same sums, term by term.
    fn run_scalar(self) {
        if self.0.by_rows { self.row_by_row() } else { self.by_columns::<1>() }
    }
}

impl<L: Convert<To: Num>, const LANES: usize> GemvLoop<'_, L, LANES> {
    /// The prefetch distance in the matrix, in bytes ([`tuning::l2_prefetch_bytes`]).
    fn prefetch_distance(&self) -> usize {
        let GemmProblem { m, k, .. } = self.0.problem;
        tuning::l2_prefetch_bytes(m.total().saturating_mul(k.total()).saturating_mul(size_of::<L::From>()))
    }

    #[inline(always)]
    fn by_rows(&self) {
        let &GemvTask { problem: &GemmProblem { m, k, left, out, .. }, vector, first, count, store, .. } =
            self.0;
        let (Some([out_stride, row_stride]), Some([k_stride, _])) = (m.as_single_axis(), k.as_single_axis())
        else {
            return;
        };
        let (terms, vector, far) = (k.total(), vector.cast::<L::To>(), self.prefetch_distance());
        // Short rows: the next rows are prefetched. Long rows: the elements at the prefetch distance in the
        // same rows.
        let is_short = terms.saturating_mul(ROWS * size_of::<L::From>()) <= MAX_PREFETCHED_ROWS_BYTES;
        let prefetch_offset =
            if is_short { (ROWS * size_of::<L::From>()) as isize * row_stride } else { far as isize };
        for from in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - from);
            // Rows after the last one repeat it.
            let row = |r: usize| {
                left.cast::<L::From>()
                    .wrapping_offset(((first + from + r.min(rows - 1)) as isize).wrapping_mul(row_stride))
            };
            let starts: [*const L::From; ROWS] = [row(0), row(1), row(2), row(3)];
            let mut totals = [L::To::default(); ROWS];
            for block in (0..terms).step_by(BLOCK_TERMS) {
                let end = terms.min(block + BLOCK_TERMS);
                let mut sums = [[L::To::default(); LANES]; ROWS];
                let mut p = block;
                let (mut x, mut a);
                while p < end {
                    // Elements of a partial vector, or that are not contiguous, are copied first, one vector
                    // of them.
                    let whole = if k_stride == 1 { (end - p) / LANES } else { 0 };
                    let (mut from_x, mut from_a) = (vector.wrapping_add(p), starts.map_rows(p));
                    if whole == 0 {
                        (x, a) = ([L::To::default(); LANES], [[L::restore(L::To::default()); LANES]; ROWS]);
                        for lane in 0..LANES.min(end - p) {
                            // SAFETY: elements of the vector and of each row.
                            unsafe {
                                x[lane] = vector.add(p + lane).read();
                                for r in 0..ROWS {
                                    a[r][lane] = starts[r].offset((p + lane) as isize * k_stride).read();
                                }
                            }
                        }
                        from_x = x.as_ptr();
                        from_a = [a[0].as_ptr(), a[1].as_ptr(), a[2].as_ptr(), a[3].as_ptr()];
                    }
                    for _ in 0..whole.max(1) {
                        if far > 0 {
                            for r in 0..ROWS {
                                memory::prefetch::into_l2(
                                    from_a[r].wrapping_byte_offset(prefetch_offset).cast(),
                                    LANES * size_of::<L::From>(),
                                );
                            }
                        }
                        // SAFETY: `LANES` elements of the vector and of each row, or of their copies.
                        let x = unsafe { from_x.cast::<[L::To; LANES]>().read_unaligned() };
                        for r in 0..ROWS {
                            // SAFETY: as above.
                            let a = unsafe { from_a[r].cast::<[L::From; LANES]>().read_unaligned() };
                            for lane in 0..LANES {
                                sums[r][lane] = multiply_add(sums[r][lane], L::convert(a[lane]), x[lane]);
                            }
                        }
                        (from_x, from_a) = (from_x.wrapping_add(LANES), from_a.map_rows(LANES));
                    }
                    p += (whole.max(1) * LANES).min(end - p);
                }
                for r in 0..ROWS {
                    totals[r] = L::To::arith(Arith::Add, totals[r], sum_lanes(sums[r]));
                }
            }
            // SAFETY: rows of the output.
            unsafe { store(totals.as_ptr().cast(), rows, out, (first + from) as isize, out_stride) };
        }
    }

    /// As [`Self::by_rows`], one row and one term at a time.
    fn row_by_row(&self) {
        let &GemvTask { problem: &GemmProblem { m, k, left, out, .. }, vector, first, count, store, .. } =
            self.0;
        let (Some([out_stride, row_stride]), Some([k_stride, _])) = (m.as_single_axis(), k.as_single_axis())
        else {
            return;
        };
        let (terms, vector) = (k.total(), vector.cast::<L::To>());
        for i in first as isize..(first + count) as isize {
            let row = left.cast::<L::From>().wrapping_offset(i.wrapping_mul(row_stride));
            let mut total = [L::To::default()];
            for block in (0..terms).step_by(BLOCK_TERMS) {
                let mut sums = [L::To::default(); LANES];
                for p in block..terms.min(block + BLOCK_TERMS) {
                    // SAFETY: an element of the row and one of the vector.
                    let (a, x) = unsafe { (row.offset(p as isize * k_stride).read(), vector.add(p).read()) };
                    sums[p % LANES] = multiply_add(sums[p % LANES], L::convert(a), x);
                }
                total[0] = L::To::arith(Arith::Add, total[0], sum_lanes(sums));
            }
            // SAFETY: a row of the output.
            unsafe { store(total.as_ptr().cast(), 1, out, i, out_stride) };
        }
    }

    /// `COLUMNS` columns are read together.
    #[inline(always)]
    fn by_columns<const COLUMNS: usize>(&self) {
        /// The most rows whose sums are kept at a time. The sums stay in L1; with more rows, longer spans of
        /// a column are read.
        const MAX_ROWS: usize = 4096;
        let &GemvTask {
            problem: &GemmProblem { k, left, out, .. }, vector, first: task, count, store, ..
        } = self.0;
        let Some([k_stride, _]) = k.as_single_axis() else { return };
        let (terms, far, vector) = (k.total(), self.prefetch_distance() > 0, vector.cast::<L::To>());
        let near = if count <= 256 { 256 } else { MAX_ROWS };
        let mut room = [const { MaybeUninit::<L::To>::uninit() }; MAX_ROWS];
        let sums = room.as_mut_ptr().cast::<L::To>();
        for from in (0..count).step_by(near) {
            let rows = near.min(count - from);
            let first = (task + from) as isize;
            let start = left.cast::<L::From>().wrapping_offset(first);
            for i in 0..rows.next_multiple_of(LANES) {
                // SAFETY: there is room for `MAX_ROWS` sums, a multiple of `LANES`.
                unsafe { sums.add(i).write(L::To::default()) };
            }
            let mut p = 0;
            while p < terms {
                // SAFETY: the columns from `p` on, `rows` elements each, as many elements of the vector, and
                // room for the sums.
                unsafe {
                    if const { COLUMNS > 1 } && p + COLUMNS <= terms {
                        Self::columns::<COLUMNS>(start, k_stride, vector, p, rows, sums, far);
                        p += COLUMNS;
                    } else {
                        Self::column(start, k_stride, vector, p, rows, sums);
                        p += 1;
                    }
                }
            }
            // SAFETY: rows of the output, which are contiguous.
            unsafe { store(sums.cast(), rows, out, first, 1) };
        }
    }

    /// Adds the products of column `p` to the sums.
    ///
    /// # Safety
    /// 1. The matrix has a column of `rows` elements from `start` on, and the vector as many elements as the
    ///    matrix has columns.   2. `sums` has room for `rows` sums.
    #[inline(always)]
    unsafe fn column(
        start: *const L::From,
        k_stride: isize,
        vector: *const L::To,
        p: usize,
        rows: usize,
        sums: *mut L::To,
    ) {
        let column = start.wrapping_offset(p as isize * k_stride);
        // SAFETY: (1) an element of the vector.
        let x = unsafe { vector.add(p).read() };
        for i in 0..rows {
            // SAFETY: (1) an element of the column; (2) its sum.
            unsafe {
                let sum = sums.add(i);
                sum.write(multiply_add(sum.read(), L::convert(column.add(i).read()), x));
            }
        }
    }

    /// Adds the products of `N` columns, from column `p` on, to the sums.
    ///
    /// # Safety
    /// 1. The matrix has `N` columns of `rows` elements from `start` on, and the vector as many elements.
    ///    2. `sums` has room for `rows` sums, rounded up to a multiple of `LANES`.
    #[inline(always)]
    unsafe fn columns<const N: usize>(
        start: *const L::From,
        k_stride: isize,
        vector: *const L::To,
        p: usize,
        rows: usize,
        sums: *mut L::To,
        far: bool,
    ) {
        let mut x = [L::To::default(); N];
        let mut column = [start; N];
        for c in 0..N {
            // SAFETY: (1) an element of the vector.
            x[c] = unsafe { vector.add(p + c).read() };
            column[c] = start.wrapping_offset((p + c) as isize * k_stride);
        }
        let mut copy = [[L::restore(L::To::default()); LANES]; N];
        let mut i = 0;
        while i < rows {
            // The rows of a partial vector are copied first.
            let whole = (rows - i) / LANES;
            let mut from = [start; N];
            for c in 0..N {
                from[c] = column[c].wrapping_add(i);
                if whole == 0 {
                    // SAFETY: (1) rows from `i` on.
                    unsafe { from[c].copy_to_nonoverlapping(copy[c].as_mut_ptr(), rows - i) };
                    from[c] = copy[c].as_ptr();
                }
            }
            for _ in 0..whole.max(1) {
                // SAFETY: (1) rows from `i` on, or their copies; (2) room for the sums.
                unsafe {
                    let mut sum = sums.add(i).cast::<[L::To; LANES]>().read();
                    if far {
                        for c in 0..N {
                            memory::prefetch::into_l2(
                                from[c].wrapping_offset(N as isize * k_stride).cast(),
                                LANES * size_of::<L::From>(),
                            );
                        }
                    }
                    // Columns inside lanes: the compiler vectorizes the loop over lanes.
                    for lane in 0..LANES {
                        for c in 0..N {
                            let a = from[c].add(lane).read_unaligned();
                            sum[lane] = multiply_add(sum[lane], L::convert(a), x[c]);
                        }
                    }
                    for c in 0..N {
                        from[c] = from[c].wrapping_add(LANES);
                    }
                    sums.add(i).cast::<[L::To; LANES]>().write(sum);
                }
                i += LANES;
            }
        }
    }
}

/// Moves the pointers of all rows.
trait MapRows {
    fn map_rows(self, by: usize) -> Self;
}
impl<T> MapRows for [*const T; ROWS] {
    #[inline(always)]
    fn map_rows(self, by: usize) -> Self {
        [
            self[0].wrapping_add(by),
            self[1].wrapping_add(by),
            self[2].wrapping_add(by),
            self[3].wrapping_add(by),
        ]
    }
}
