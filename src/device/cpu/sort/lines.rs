//! Lines of one sort: their elements become keys, keys are sorted or selected, and elements and positions are
//! written.
// Imports: `error`, `kernel`, `device`.

use super::super::isa::{self, Loop};
use super::super::strided::pack;
use super::super::strided::{self, AxisOrder, IterSpace, Position};
use super::keys::{HasSortKey, RadixKey, SortKey};
use super::radix::{capacity, sort};
use super::select::{PartialSelect, candidates, is_selective, minima};
use super::short;
use crate::device::OperandRef;
use crate::error::{Error, Result, text};
use crate::kernel::SortPlan;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most elements of lines that are read together.
const MAX_ELEMENTS_TOGETHER: usize = 1 << 18;

/// The functions that depend on the element type. All other code depends only on the type of the keys.
#[derive(Clone, Copy)]
pub(super) struct KeyFns<K: SortKey> {
    /// Bytes of an element.
    nbytes: usize,
    /// Writes the keys of contiguous elements, reversed for a descending sort.
    keys: unsafe fn(line: *const u8, keys: &mut [K], descending: bool),
    /// Writes the elements of keys.
    elements: unsafe fn(keys: &[K], to: *mut u8, descending: bool),
    /// [`HasSortKey::SHARED`].
    shared: &'static [K],
}

impl<K: SortKey> KeyFns<K> {
    pub(super) fn of<T: HasSortKey<Key = K>>() -> Self {
        /// # Safety
        /// `line` holds as many elements as `keys`, aligned.
        unsafe fn keys<T: HasSortKey>(line: *const u8, keys: &mut [T::Key], descending: bool) {
            // SAFETY: the caller promises as many elements, aligned.
            let line = unsafe { std::slice::from_raw_parts(line.cast::<T>(), keys.len()) };
            isa::dispatch_up_to_avx2(ToKeys { line, keys, descending });
        }
        /// # Safety
        /// `to` has room for as many elements as `keys`, aligned.
        unsafe fn elements<T: HasSortKey>(keys: &[T::Key], to: *mut u8, descending: bool) {
            // SAFETY: the caller promises room for as many elements, aligned.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<T>>(), keys.len()) };
            isa::dispatch_up_to_avx2(ToElements { keys, to, descending });
        }
        KeyFns { nbytes: size_of::<T>(), keys: keys::<T>, elements: elements::<T>, shared: T::SHARED }
    }
}

/// Writes the keys of a line, reversed for a descending sort.
struct ToKeys<'a, T: HasSortKey> {
    line: &'a [T],
    keys: &'a mut [T::Key],
    descending: bool,
}

impl<T: HasSortKey> Loop for ToKeys<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.descending {
            for (key, element) in self.keys.iter_mut().zip(self.line) {
                *key = element.key().reversed();
            }
        } else {
            for (key, element) in self.keys.iter_mut().zip(self.line) {
                *key = element.key();
            }
        }
    }
}

/// Writes the elements of keys.
struct ToElements<'a, T: HasSortKey> {
    keys: &'a [T::Key],
    to: &'a mut [MaybeUninit<T>],
    descending: bool,
}

impl<T: HasSortKey> Loop for ToElements<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (&key, to) in self.keys.iter().zip(self.to) {
            to.write(T::of_key(if self.descending { key.reversed() } else { key }));
        }
    }
}

/// Copies one element.
///
/// # Safety
/// 1. `from` is an element of `nbytes` bytes.   2. `to` has room for it.
#[inline(always)]
unsafe fn copy_element(from: *const u8, to: *mut u8, nbytes: usize) {
    // SAFETY: (1), (2) the caller's promise.
    unsafe {
        match nbytes {
            1 => to.write(from.read()),
            2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
        }
    }
}

/// The buffers of one thread for some lines, and the strides of the operands along a line.
pub(super) struct SortLines<K: SortKey> {
    fns: KeyFns<K>,
    /// Some lines of the operand, contiguous, in words of 8 bytes to align the elements.
    lines: Vec<u64>,
    keys: Vec<K>,
    spare_keys: Vec<K>,
    items: Vec<K::WithPosition>,
    spare_items: Vec<K::WithPosition>,
    /// The first `keep` elements of each sorted line, and their number in all.
    sorted: Vec<u64>,
    count: usize,
    /// Whether the lines that are read together are sorted together.
    is_short: bool,
    /// The positions of these elements in their lines.
    positions: Vec<i64>,
    /// The most lines that are read together.
    together: usize,
    /// Elements of a line.
    n: usize,
    keep: usize,
    descending: bool,
    /// Strides along a line, in bytes: of the operand, of the values and of the positions.
    strides: [isize; 3],
}

/// A vector with a capacity of `n`; on failure `None`, and the bytes of the request are stored in `nbytes`.
fn with_capacity<X>(n: usize, nbytes: &AtomicUsize) -> Option<Vec<X>> {
    let mut vec = Vec::new();
    if vec.try_reserve_exact(n).is_err() {
        nbytes.store(n.saturating_mul(size_of::<X>()).max(1), Ordering::Relaxed);
        return None;
    }
    Some(vec)
}

impl<K: SortKey> SortLines<K> {
    /// Sorts all lines.
    ///
    /// # Safety
    /// As [`Device::sort`](crate::device::Device::sort), for the elements of `fns`.
    pub(super) unsafe fn run(
        fns: KeyFns<K>,
        plan: SortPlan<'_>,
        values: Option<OperandRef<'_>>,
        positions: Option<OperandRef<'_>>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        let axis = plan.lines.len();
        let SortPlan { along: n, keep, .. } = plan;
        if keep == 0 {
            return Ok(());
        }
        if u32::try_from(n).is_err() {
            return Err(Error::Value {
                op: "sort",
                what: text(format_args!("an axis of {n} elements, of which 2³² − 1 are the most")),
            });
        }
        // An output that is not wanted has the address of the operand, and is not written.
        let operands = [from, values.unwrap_or(from), positions.unwrap_or(from)];
        let strides = operands.map(|operand| operand.stride[axis].wrapping_mul(operand.element as isize));
        let outer = operands.map(|operand| OperandRef { stride: &operand.stride[..axis], ..operand });
        let wanted = [values.is_some(), positions.is_some()];
        let failed = AtomicUsize::new(0);
        strided::for_each_space(plan.lines, &outer, AxisOrder::RowMajor, &mut |lines| {
            strided::parallel(lines, n.saturating_mul(8), &|part| {
                if let Some(mut lines) = Self::new(fns, part, plan, wanted, strides, &failed) {
                    // SAFETY: the parts of the iteration space stay inside the operands of the caller's
                    // promise.
                    unsafe { lines.part(part, wanted) }
                }
            });
        });
        match failed.into_inner() {
            0 => Ok(()),
            nbytes => Err(Error::OutOfMemory { op: "sort", nbytes }),
        }
    }

    fn new(
        fns: KeyFns<K>,
        part: &IterSpace,
        plan: SortPlan<'_>,
        [_, positions]: [bool; 2],
        strides: [isize; 3],
        failed: &AtomicUsize,
    ) -> Option<Self> {
        let SortPlan { along: n, keep, descending, .. } = plan;
        let selective = is_selective(n, keep);
        // Lines whose neighbors are contiguous in memory are read and written a cache line at a time, unless
        // they are too long.
        let (nbytes, across) = (fns.nbytes, part.inner_step(0));
        let transposed = across == nbytes as isize && strides[0] != across;
        let together =
            if transposed { (64 / nbytes).min((MAX_ELEMENTS_TOGETHER / n.max(1)).max(1)) } else { 1 };
        let short = if positions {
            short::network::<K::WithPosition>(n, part.numel())
                .map(|network| [short::together(&network, n), short::matrix_items(&network, n)])
        } else {
            short::network::<K>(n, part.numel())
                .map(|network| [short::together(&network, n), short::matrix_items(&network, n)])
        };
        if let Some([together, matrix]) = short {
            let all = together * n;
            let (items, matrix_keys, matrix_items) =
                if positions { (all, n, matrix) } else { (0, matrix.max(n), 0) };
            return Some(SortLines {
                fns,
                count: 0,
                is_short: true,
                lines: with_capacity((all * nbytes).div_ceil(8), failed)?,
                keys: with_capacity(all, failed)?,
                spare_keys: with_capacity(matrix_keys, failed)?,
                items: with_capacity(items, failed)?,
                spare_items: with_capacity(matrix_items, failed)?,
                sorted: with_capacity((keep * together * nbytes).div_ceil(8), failed)?,
                positions: with_capacity(if positions { keep * together } else { 0 }, failed)?,
                together,
                n,
                keep,
                descending,
                strides,
            });
        }
        let all_keys = capacity::<K>(n, nbytes);
        let all_items = capacity::<K::WithPosition>(if selective { candidates(keep) } else { n }, nbytes);
        let (keys, spare_keys, items) = match (selective, positions) {
            (true, _) => (n, minima(n), all_items),
            (false, true) => (n, 0, all_items),
            (false, false) => (all_keys, all_keys, 0),
        };
        Some(SortLines {
            fns,
            count: 0,
            is_short: false,
            lines: with_capacity((n * together * nbytes).div_ceil(8), failed)?,
            keys: with_capacity(keys, failed)?,
            spare_keys: with_capacity(spare_keys, failed)?,
            items: with_capacity(items, failed)?,
            spare_items: with_capacity(items, failed)?,
            sorted: with_capacity((keep * together * nbytes).div_ceil(8), failed)?,
            positions: with_capacity(if positions { keep * together } else { 0 }, failed)?,
            together,
            n,
            keep,
            descending,
            strides,
        })
    }

    /// Sorts the lines of a part.
    ///
    /// # Safety
    /// As [`run`](SortLines::run), for these lines.
    unsafe fn part(&mut self, part: &IterSpace, [values, positions]: [bool; 2]) {
        let (n, nbytes) = (self.n, self.fns.nbytes);
        let (mut at, mut done) = (part.index_of(0), 0);
        while done < part.numel() {
            let rows = part.left_in_row(&at).min(self.together);
            // SAFETY: the buffer has room for `n` elements of each line; the lines are those of the caller's
            // promise.
            unsafe {
                self.lines.clear();
                let buffer = self.lines.spare_capacity_mut().as_mut_ptr().cast();
                let (wide, narrow) = ((n * nbytes) as isize, nbytes as isize);
                let strides = [part.inner_step(0), self.strides[0]];
                pack::rectangle(buffer, [wide, narrow], part.address_at(0, &at), strides, [rows, n], nbytes);
            }
            self.count = 0;
            self.positions.clear();
            if self.is_short {
                self.sort_short_lines(rows, values, positions);
            } else {
                (0..rows).for_each(|row| self.sort_line(row * n, values, positions));
            }
            // SAFETY: `rows` lines of `keep` elements or positions; the outputs have room for them.
            unsafe {
                if values {
                    self.write(self.sorted.as_ptr().cast(), nbytes, part, 1, &at, rows);
                }
                if positions {
                    self.write(self.positions.as_ptr().cast(), size_of::<i64>(), part, 2, &at, rows);
                }
            }
            part.advance(&mut at, rows);
            done += rows;
        }
    }

    /// Writes `rows` results of `keep` values each to operand `k`, with the smaller stride as the inner loop.
    ///
    /// # Safety
    /// 1. `from` holds the results, contiguous.   2. The operand has these lines from `at` on.
    unsafe fn write(
        &self,
        from: *const u8,
        nbytes: usize,
        part: &IterSpace,
        k: usize,
        at: &Position,
        rows: usize,
    ) {
        let (to, across, along) = (part.address_at(k, at), part.inner_step(k), self.strides[k]);
        let (counts, strides) = ([self.keep, rows], [(along, 1), (across, self.keep)]);
        let swap = rows > 1 && across.unsigned_abs() < along.unsigned_abs();
        let [(inner, inner_from), (outer, outer_from)] =
            if swap { [strides[1], strides[0]] } else { strides };
        let [inner_count, outer_count] = if swap { [counts[1], counts[0]] } else { counts };
        for i in 0..outer_count {
            let to = to.wrapping_offset((i as isize).wrapping_mul(outer));
            let from = from.wrapping_add(i * outer_from * nbytes);
            // SAFETY: (1), (2) the caller's promise.
            unsafe { pack::strided(to, inner, from, (inner_from * nbytes) as isize, inner_count, nbytes) };
        }
    }

    /// Appends the first `keep` elements of the line at `start` to `sorted`, and their positions to
    /// `positions`.
    fn sort_line(&mut self, start: usize, values: bool, positions: bool) {
        let line = self.lines.as_ptr().cast::<u8>().wrapping_add(start * self.fns.nbytes);
        self.keys.resize(self.n, K::default());
        // SAFETY: the buffer holds the line.
        unsafe { (self.fns.keys)(line, &mut self.keys, self.descending) };
        let to = self.sorted.as_mut_ptr().cast::<u8>().wrapping_add(self.count * self.fns.nbytes);
        if !positions && !is_selective(self.n, self.keep) {
            self.sort_keys(line, to);
            self.count += self.keep;
            return;
        }
        self.sort_items();
        self.put_items(0, start, values, positions);
    }

    /// Appends the first `keep` of the sorted items from `first` on, which belong to the line at `start`, to
    /// `sorted` and to `positions`.
    fn put_items(&mut self, first: usize, start: usize, values: bool, positions: bool) {
        let SortLines { fns: KeyFns { nbytes, .. }, items, keep, .. } = self;
        let (nbytes, items) = (*nbytes, &items[first..first + *keep]);
        let line = self.lines.as_ptr().cast::<u8>().wrapping_add(start * nbytes);
        let to = self.sorted.as_mut_ptr().cast::<u8>().wrapping_add(self.count * nbytes);
        if values {
            for (i, &item) in items.iter().enumerate() {
                // SAFETY: a position in the line; there is room for `keep` elements of each line.
                unsafe {
                    copy_element(line.add(K::position(item) as usize * nbytes), to.add(i * nbytes), nbytes)
                };
            }
            self.count += *keep;
        }
        if positions {
            self.positions.extend(items.iter().map(|&item| i64::from(K::position(item))));
        }
    }

    /// As [`sort_line`](Self::sort_line), for the first `rows` lines of the buffer together.
    fn sort_short_lines(&mut self, rows: usize, values: bool, positions: bool) {
        let (n, keep, total) = (self.n, self.keep, rows * self.n);
        let lines = self.lines.as_ptr().cast::<u8>();
        self.keys.resize(total, K::default());
        // SAFETY: the buffer holds the lines.
        unsafe { (self.fns.keys)(lines, &mut self.keys, self.descending) };
        if positions {
            let SortLines { keys, items, spare_items, .. } = self;
            items.clear();
            for line in keys.chunks(n) {
                items.extend(line.iter().zip(0..).map(|(&key, position)| key.with_position(position)));
            }
            if let Some(network) = short::network::<K::WithPosition>(n, usize::MAX) {
                short::sort_lines(&network, items, n, spare_items);
            }
            (0..rows).for_each(|row| self.put_items(row * n, row * n, values, positions));
            return;
        }
        if let Some(network) = short::network::<K>(n, usize::MAX) {
            short::sort_lines(&network, &mut self.keys, n, &mut self.spare_keys);
        }
        let SortLines { fns, keys, .. } = self;
        let shares = |key: &K| fns.shared.iter().any(|&shared| *key == shared || *key == shared.reversed());
        let any_shared = keys.iter().fold(false, |any, key| any | shares(key));
        for row in 0..rows {
            let to = self.sorted.as_mut_ptr().cast::<u8>().wrapping_add(self.count * self.fns.nbytes);
            self.put_keys(
                row * n..(row + 1) * n,
                lines.wrapping_add(row * n * self.fns.nbytes),
                to,
                any_shared,
            );
            self.count += keep;
        }
    }

    /// Sorts the keys of a line without their positions, and writes the first `keep` elements to `to`.
    #[inline(always)]
    fn sort_keys(&mut self, line: *const u8, to: *mut u8) {
        let SortLines { fns, keys, spare_keys, n, keep, .. } = self;
        let digits: Range<usize> = 0..fns.nbytes;
        // `spare_keys` has room for as many keys as the line has.
        if digits.len() <= 2 && *n >= 1 << (8 * digits.len()) {
            K::counting_sort(keys, spare_keys, digits.len());
        } else {
            sort(keys, spare_keys, digits, 0..*keep);
        }
        self.put_keys(0..self.n, line, to, true);
    }

    /// Writes the elements of the first `keep` sorted keys of `range`, those of a line, to `to`. Keys that
    /// different elements share are looked for if there are some.
    fn put_keys(&mut self, range: Range<usize>, line: *const u8, to: *mut u8, any_shared: bool) {
        let SortLines { fns, keys, spare_keys, n, keep, descending, .. } = self;
        let (nbytes, keys) = (fns.nbytes, &keys[range]);
        // SAFETY: there is room for `keep` elements of each line.
        unsafe { (fns.elements)(&keys[..*keep], to, *descending) };
        for &shared in if any_shared { fns.shared } else { &[] } {
            let shared = if *descending { shared.reversed() } else { shared };
            let before = keys.partition_point(|&key| key < shared).min(*keep);
            let same = keys[before..*keep].partition_point(|&key| key == shared);
            if same > 0 {
                // Elements with this key may have different bits. They are copied in the order of the line.
                spare_keys.resize(*n, K::default());
                // SAFETY: as above.
                unsafe { (fns.keys)(line, spare_keys, *descending) };
                let found = spare_keys.iter().enumerate().filter(|&(_, &key)| key == shared);
                for (i, (position, _)) in found.take(same).enumerate() {
                    // SAFETY: a position in the line; room for `keep` elements.
                    unsafe {
                        copy_element(line.add(position * nbytes), to.add((before + i) * nbytes), nbytes)
                    };
                }
            }
        }
    }

    /// Puts the first `keep` items of a line, keys with positions, to the front of `items`, sorted.
    #[inline(always)]
    fn sort_items(&mut self) {
        let SortLines { fns, keys, spare_keys, items, spare_items, n, keep, .. } = self;
        if is_selective(*n, *keep) {
            isa::dispatch_up_to_avx2(PartialSelect { keys, keep: *keep, minima: spare_keys, found: items });
        } else {
            items.clear();
            items.extend(keys.iter().zip(0..).map(|(&key, position)| key.with_position(position)));
            if *keep < *n / 2 {
                spare_items.clear();
                spare_items.extend_from_slice(items);
                let first_not_wanted = *spare_items.select_nth_unstable(*keep).1;
                items.retain(|item| *item < first_not_wanted);
            }
        }
        sort(items, spare_items, K::FIRST_DIGIT..K::FIRST_DIGIT + fns.nbytes, 0..*keep);
    }
}
