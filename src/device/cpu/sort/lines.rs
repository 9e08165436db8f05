//! Lines of one sort: their elements become keys, keys are sorted or selected, and elements and positions are
//! written.
// Imports: `error`, `kernel`, `device`.

use super::super::isa::{self, Loop};
use super::super::strided::pack;
use super::super::strided::{self, AxisOrder, IterSpace, SpacePosition};
use super::items::{Buffers, Items};
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
    keys: unsafe fn(line: *const u8, keys: &mut [MaybeUninit<K>], descending: bool),
    /// Writes the elements of keys.
    elements: unsafe fn(keys: &[K], to: *mut u8, descending: bool),
    /// [`HasSortKey::SHARED`].
    shared: &'static [K],
}

impl<K: SortKey> KeyFns<K> {
    pub(super) fn of<T: HasSortKey<Key = K>>() -> Self {
        /// # Safety
        /// `line` holds as many elements as `keys`, aligned.
        unsafe fn keys<T: HasSortKey>(line: *const u8, keys: &mut [MaybeUninit<T::Key>], descending: bool) {
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
    keys: &'a mut [MaybeUninit<T::Key>],
    descending: bool,
}

impl<T: HasSortKey> Loop for ToKeys<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.descending {
            for (key, element) in self.keys.iter_mut().zip(self.line) {
                key.write(element.key().reversed());
            }
        } else {
            for (key, element) in self.keys.iter_mut().zip(self.line) {
                key.write(element.key());
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
    /// Some lines of the operand, contiguous, in words of 8 bytes to align the elements. It is empty if the
    /// lines are read where they are.
    lines: Items<u64>,
    keys: Items<K>,
    spare_keys: Items<K>,
    items: Items<K::WithPosition>,
    spare_items: Items<K::WithPosition>,
    /// The first `keep` elements of each sorted line, if they are not written to their places at once, and
    /// the positions of these elements in their lines.
    sorted: Items<u64>,
    positions: Items<i64>,
    /// Whether the lines, the elements and the positions are read and written in their places.
    in_place: [bool; 3],
    /// Whether the lines that are read together are sorted together.
    is_short: bool,
    /// The most lines that are read together.
    together: usize,
    /// Elements of a line.
    n: usize,
    /// Elements in order before the wanted ones, and their number.
    first: usize,
    keep: usize,
    descending: bool,
    /// Strides along a line, in bytes: of the operand, of the values and of the positions.
    strides: [isize; 3],
    _memory: Buffers,
}

/// Some lines and their results: contiguous elements, elements in order, and positions; the last two are null
/// where they are not wanted.
#[derive(Clone, Copy)]
struct LineGroup {
    lines: *const u8,
    values: *mut u8,
    positions: *mut i64,
}

impl LineGroup {
    /// The group without its first `done` lines of `n` elements of `nbytes` bytes, of which `keep` are
    /// results.
    fn from(self, done: usize, [n, keep, nbytes]: [usize; 3]) -> LineGroup {
        let values = self.values.wrapping_add(if self.values.is_null() { 0 } else { done * keep * nbytes });
        let positions = self.positions.wrapping_add(if self.positions.is_null() { 0 } else { done * keep });
        LineGroup { lines: self.lines.wrapping_add(done * n * nbytes), values, positions }
    }
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
        [values, positions]: [bool; 2],
        strides: [isize; 3],
        failed: &AtomicUsize,
    ) -> Option<Self> {
        let SortPlan { along: n, first, keep, descending, .. } = plan;
        let (nbytes, across) = (fns.nbytes, part.inner_step(0));
        let shape = BufferShape::new::<K>(nbytes, [n, first + keep, part.numel()], positions);
        // Lines whose neighbors are contiguous in memory are read and written a cache line at a time, unless
        // they are too long.
        let transposed = across == nbytes as isize && strides[0] != across;
        let together = match shape.short {
            0 if transposed => (64 / nbytes).min((MAX_ELEMENTS_TOGETHER / n.max(1)).max(1)),
            0 => 1,
            together => together,
        };
        let is_dense = |k: usize, n: usize, nbytes: usize| {
            let follows = together == 1 || part.inner_step(k) == (n * nbytes) as isize;
            strides[k] == nbytes as isize && follows
        };
        let in_place =
            [is_dense(0, n, nbytes), is_dense(1, keep, nbytes), is_dense(2, keep, size_of::<i64>())];
        let words = |elements: usize, is_needed: bool| {
            if is_needed { (elements * together * nbytes).div_ceil(8) } else { 0 }
        };
        let lines = words(n, !in_place[0]);
        let sorted = words(keep, values && !in_place[1]);
        let places = if positions && !in_place[2] { keep * together } else { 0 };
        let BufferShape { keys: [keys, spare_keys], items: [items, spare_items], short } = shape;
        let total = [
            Buffers::nbytes::<u64>(lines),
            Buffers::nbytes::<u64>(sorted),
            Buffers::nbytes::<i64>(places),
            Buffers::nbytes::<K>(keys),
            Buffers::nbytes::<K>(spare_keys),
            Buffers::nbytes::<K::WithPosition>(items),
            Buffers::nbytes::<K::WithPosition>(spare_items),
        ];
        let total = total.into_iter().fold(0, usize::saturating_add);
        let Ok(mut memory) = Buffers::new(total) else {
            failed.store(total, Ordering::Relaxed);
            return None;
        };
        Some(SortLines {
            fns,
            lines: memory.take(lines),
            keys: memory.take(keys),
            spare_keys: memory.take(spare_keys),
            items: memory.take(items),
            spare_items: memory.take(spare_items),
            sorted: memory.take(sorted),
            positions: memory.take(places),
            in_place,
            is_short: short > 0,
            together,
            n,
            first,
            keep,
            descending,
            strides,
            _memory: memory,
        })
    }

    /// Sorts the lines of a part.
    ///
    /// # Safety
    /// As [`run`](SortLines::run), for these lines.
    unsafe fn part(&mut self, part: &IterSpace, [values, positions]: [bool; 2]) {
        let (n, keep, nbytes) = (self.n, self.keep, self.fns.nbytes);
        let (mut at, mut done) = (part.index_of(0), 0);
        while done < part.numel() {
            let rows = part.left_in_row(&at).min(self.together);
            let place = |k: usize, buffer: *mut u8| {
                if self.in_place[k] { part.address_at(k, &at) } else { buffer }
            };
            let wanted = |is_wanted: bool, at: *mut u8| if is_wanted { at } else { std::ptr::null_mut() };
            let group = LineGroup {
                lines: place(0, self.lines.as_mut_ptr().cast()),
                values: wanted(values, place(1, self.sorted.as_mut_ptr().cast())),
                positions: wanted(positions, place(2, self.positions.as_mut_ptr().cast())).cast(),
            };
            if !self.in_place[0] {
                let to = [(n * nbytes) as isize, nbytes as isize];
                let strides = [part.inner_step(0), self.strides[0]];
                let from = part.address_at(0, &at);
                // SAFETY: the buffer has room for `n` elements of each line; the lines are those of the
                // caller's promise.
                unsafe { pack::rectangle(group.lines.cast_mut(), to, from, strides, [rows, n], nbytes) };
            }
            if self.is_short {
                self.sort_short_lines(group, rows);
            } else {
                (0..rows).for_each(|row| self.sort_line(group.from(row, [n, keep, nbytes])));
            }
            // SAFETY: `rows` lines of `keep` elements or positions; the outputs have room for them.
            unsafe {
                if values && !self.in_place[1] {
                    self.write(group.values, nbytes, part, 1, &at, rows);
                }
                if positions && !self.in_place[2] {
                    self.write(group.positions.cast(), size_of::<i64>(), part, 2, &at, rows);
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
        at: &SpacePosition,
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

    /// Writes the keys of the first `n` elements of a group to `keys`.
    fn read_keys(&mut self, group: LineGroup, n: usize) {
        let SortLines { fns, keys, descending, .. } = self;
        // SAFETY: the group has the elements, and a key of each is written.
        unsafe { keys.written(n, |keys| (fns.keys)(group.lines, keys, *descending)) };
    }

    /// Sorts the first line of a group, and writes its results.
    fn sort_line(&mut self, group: LineGroup) {
        self.read_keys(group, self.n);
        if group.positions.is_null() && !is_selective(self.n, self.first + self.keep) {
            return self.sort_keys(group);
        }
        self.sort_items();
        self.put_items(0, group);
    }

    /// Sorts the first `rows` lines of a group together, and writes their results.
    fn sort_short_lines(&mut self, group: LineGroup, rows: usize) {
        let (n, sizes) = (self.n, [self.n, self.keep, self.fns.nbytes]);
        self.read_keys(group, rows * n);
        if !group.positions.is_null() {
            let SortLines { keys, items, spare_items, .. } = self;
            items.clear();
            for line in keys.chunks(n) {
                items
                    .extend(line.iter().zip(0..n as u32).map(|(&key, position)| key.with_position(position)));
            }
            short::sort_lines(items, n, spare_items);
            return (0..rows).for_each(|row| self.put_items(row * n, group.from(row, sizes)));
        }
        short::sort_lines(&mut self.keys, n, &mut self.spare_keys);
        if self.keep == n && !self.has_shared_keys() {
            // SAFETY: there is room for all elements.
            return unsafe { (self.fns.elements)(&self.keys, group.values, self.descending) };
        }
        (0..rows).for_each(|row| self.put_keys(row * n..(row + 1) * n, group.from(row, sizes)));
    }

    /// Whether some key is one that different elements share.
    fn has_shared_keys(&self) -> bool {
        let shares = |key: K, shared: K| key == if self.descending { shared.reversed() } else { shared };
        self.fns
            .shared
            .iter()
            .any(|&shared| self.keys.iter().fold(false, |any, &key| any | shares(key, shared)))
    }

    /// Writes the wanted ones of the sorted items from `first` on, which belong to the first line of a group.
    fn put_items(&mut self, first: usize, group: LineGroup) {
        let (nbytes, first) = (self.fns.nbytes, first + self.first);
        let items = &self.items[first..first + self.keep];
        if !group.values.is_null() {
            for (i, &item) in items.iter().enumerate() {
                let from = group.lines.wrapping_add(K::position(item) as usize * nbytes);
                // SAFETY: a position in the line; there is room for `keep` elements of each line.
                unsafe { copy_element(from, group.values.add(i * nbytes), nbytes) };
            }
        }
        if !group.positions.is_null() {
            for (i, &item) in items.iter().enumerate() {
                // SAFETY: there is room for `keep` positions of each line.
                unsafe { group.positions.add(i).write(i64::from(K::position(item))) };
            }
        }
    }

    /// Sorts the keys of a line without their positions, and writes its elements.
    #[inline(always)]
    fn sort_keys(&mut self, group: LineGroup) {
        let SortLines { fns, keys, spare_keys, n, first, keep, .. } = self;
        let digits: Range<usize> = 0..fns.nbytes;
        // `spare_keys` has room for as many keys as the line has.
        if digits.len() <= 2 && *n >= 1 << (8 * digits.len()) {
            K::counting_sort(keys, spare_keys, digits.len());
        } else {
            sort(keys, spare_keys, digits, *first..*first + *keep);
        }
        self.put_keys(0..self.n, group);
    }

    /// Writes the elements of the wanted keys of `range`, which belong to the first line of a group.
    fn put_keys(&mut self, range: Range<usize>, group: LineGroup) {
        let SortLines { fns, keys, spare_keys, n, first, keep, descending, .. } = self;
        let (nbytes, keys, to) = (fns.nbytes, &keys[range], group.values);
        let (lower, keys) = (&keys[..*first], &keys[*first..*first + *keep]);
        // SAFETY: there is room for `keep` elements of each line.
        unsafe { (fns.elements)(keys, to, *descending) };
        for &shared in fns.shared {
            let shared = if *descending { shared.reversed() } else { shared };
            let before = keys.partition_point(|&key| key < shared);
            let same = keys[before..].partition_point(|&key| key == shared);
            if same > 0 {
                let skipped = lower.iter().filter(|&&key| key == shared).count();
                // Elements with this key may have different bits. They are copied in the order of the line.
                // SAFETY: the group has the line, and a key of each element is written.
                unsafe { spare_keys.written(*n, |keys| (fns.keys)(group.lines, keys, *descending)) };
                let found = spare_keys.iter().enumerate().filter(|&(_, &key)| key == shared);
                for (i, (position, _)) in found.skip(skipped).take(same).enumerate() {
                    let from = group.lines.wrapping_add(position * nbytes);
                    // SAFETY: a position in the line; room for `keep` elements.
                    unsafe { copy_element(from, to.add((before + i) * nbytes), nbytes) };
                }
            }
        }
    }

    /// Puts the items of a line, keys with positions, into `items`, those up to the last wanted one at the
    /// front, and sorts the wanted ones.
    #[inline(always)]
    fn sort_items(&mut self) {
        let SortLines { fns, keys, spare_keys, items, spare_items, n, first, keep, .. } = self;
        let end = *first + *keep;
        if is_selective(*n, end) {
            isa::dispatch_up_to_avx2(PartialSelect { keys, keep: end, minima: spare_keys, found: items });
        } else {
            items.clear();
            items.extend(keys.iter().zip(0..*n as u32).map(|(&key, position)| key.with_position(position)));
            if end < *n / 2 {
                spare_items.clear();
                spare_items.extend(items.iter().copied());
                let first_not_wanted = *spare_items.select_nth_unstable(end).1;
                items.retain(|item| *item < first_not_wanted);
            }
        }
        sort(items, spare_items, K::FIRST_DIGIT..K::FIRST_DIGIT + fns.nbytes, *first..end);
    }
}

/// The numbers of items in the buffers of a sort.
struct BufferShape {
    keys: [usize; 2],
    items: [usize; 2],
    /// The lines that are sorted together, 0 if they are sorted one by one.
    short: usize,
}

impl BufferShape {
    /// The buffers for `lines` lines of `n` elements of `nbytes` bytes, of which `keep` are wanted.
    fn new<K: SortKey>(nbytes: usize, [n, keep, lines]: [usize; 3], positions: bool) -> BufferShape {
        let short =
            if positions { short::shape::<K::WithPosition>(n, lines) } else { short::shape::<K>(n, lines) };
        if let Some([together, matrix]) = short {
            let all = together * n;
            let [items, keys] = if positions { [[all, matrix], [all, 0]] } else { [[0, 0], [all, matrix]] };
            return BufferShape { keys, items, short: together };
        }
        let selective = is_selective(n, keep);
        let keys = capacity::<K>(n, nbytes);
        let items = capacity::<K::WithPosition>(if selective { candidates(keep) } else { n }, nbytes);
        let (keys, items) = match (selective, positions) {
            (true, _) => ([n, minima(n)], items),
            (false, true) => ([n, 0], items),
            (false, false) => ([keys, keys], 0),
        };
        BufferShape { keys, items: [items; 2], short: 0 }
    }
}
