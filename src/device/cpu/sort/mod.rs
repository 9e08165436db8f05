//! Lines in order, by keys: whole numbers whose order is that of the elements.
//!
//! A key and its place become one item, so that equal keys stay as they stand. Items are sorted by a network of vectors where
//! there are few, by their digits (LSD radix) where there are many; the first of a line are picked without sorting it.
//! The element types are known by name here, so all of this is compiled once.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

mod bitonic;
mod keys;

use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Index, Order, Walk};
use crate::device::OperandRef;
use crate::element::{bf16, f16};
use crate::error::{Error, Result, text};
use crate::kernel::SortPlan;
use crate::scalar::DType;
use bitonic::Network;
use keys::{Item, Key, Keyed, Whole};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements of the lines that are taken together, at most.
const TOGETHER: usize = 1 << 18;
/// Items that the standard library sorts by insertion.
const FEW: usize = 20;
/// Items from which digits pay.
const MANY: usize = 192;

/// The network, if it sorts `n` items faster than counting so many digits of them.
fn network<I: Item>(n: usize, digits: usize) -> Option<Network<I>> {
    // A digit less saves as much of the work on each, and the network grows a little with each doubling.
    let most = |network: &Network<I>| network.most * digits * digits / (size_of::<I>() * size_of::<I>());
    I::network().filter(|network| n > FEW && n <= most(network))
}

/// Room that [`sort`] needs for `n` items that differ in so many digits.
fn padded<I: Item>(n: usize, digits: usize) -> usize {
    network::<I>(n, digits).map_or(n, |network| network.padded(n))
}

/// Sorts `items`, which differ in these digits, and are in order where they do not; both have [`padded`] room.
fn sort<I: Item>(items: &mut Vec<I>, spare: &mut Vec<I>, digits: Range<usize>) {
    // The digits are constants then.
    match (size_of::<I>(), digits.start, digits.len()) {
        (4, 0, 1) => sort_by(items, spare, 0..1),
        (4, 0, 2) => sort_by(items, spare, 0..2),
        (4, ..) => sort_by(items, spare, 0..4),
        (8, 4, 1) => sort_by(items, spare, 4..5),
        (8, 4, 2) => sort_by(items, spare, 4..6),
        (8, 4, _) => sort_by(items, spare, 4..8),
        _ => sort_by(items, spare, 0..8),
    }
}

#[inline(always)]
fn sort_by<I: Item>(items: &mut Vec<I>, spare: &mut Vec<I>, digits: Range<usize>) {
    let n = items.len();
    if let Some(network) = network::<I>(n, digits.len()) {
        let Network { lanes, sort, .. } = network;
        items.resize(network.padded(n), I::HIGHEST);
        spare.resize(items.len(), I::HIGHEST);
        let (rows, width) = (items.len() / lanes, size_of::<I>());
        let [column, row, item] = [rows * width, lanes * width, width].map(|step| step as isize);
        // SAFETY: there are `rows` rows of the network, and as much room to turn them.
        unsafe {
            sort(items.as_mut_ptr(), rows);
            pack::rectangle(
                spare.as_mut_ptr().cast(),
                [column, item],
                items.as_ptr().cast(),
                [item, row],
                [lanes, rows],
                width,
            );
        }
        std::mem::swap(items, spare);
        items.truncate(n);
    } else if n < MANY * digits.len() / 4 {
        items.sort_unstable();
    } else {
        spare.resize(n, I::default());
        if by_digits(items, spare, digits) {
            std::mem::swap(items, spare);
        }
    }
}

/// Sorts `items` by these digits, the last the most significant; whether the sorted ones are in `spare`, which is as long.
#[inline(always)]
fn by_digits<I: Item>(items: &mut [I], spare: &mut [I], digits: Range<usize>) -> bool {
    let mut counts = [[0u32; 256]; 8];
    for item in items.iter() {
        for (counts, digit) in counts.iter_mut().zip(digits.clone()) {
            counts[item.digit(digit)] += 1;
        }
    }
    let mut swapped = false;
    for (counts, digit) in counts.iter_mut().zip(digits) {
        if counts[items[0].digit(digit)] as usize == items.len() {
            continue; // all have this digit
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        let (from, to): (&[I], &mut [I]) = if swapped { (spare, items) } else { (items, spare) };
        for &item in from {
            let place = &mut counts[item.digit(digit)];
            to[*place as usize] = item;
            *place += 1;
        }
        swapped = !swapped;
    }
    swapped
}

/// Keys side by side of which the least is looked at first.
const CHUNK: usize = 16;

/// Puts into `found` the keys that may be among the least `keep`, with their places, at most [`candidates`] of them.
///
/// As many chunks have a key that is not above the `keep`th of the chunks' least keys: what is above it is none of them.
struct Least<'a, K: Key> {
    keys: &'a [K],
    keep: usize,
    minima: &'a mut Vec<K>,
    found: &'a mut Vec<K::Placed>,
}

/// All keys of `keep - 1` chunks that have lesser ones, and as many equal ones as can be wanted.
fn candidates(keep: usize) -> usize {
    keep * (CHUNK + 1)
}

impl<K: Key> Loop for Least<'_, K> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Least { keys, keep, minima, found } = self;
        let (chunks, rest) = keys.as_chunks::<CHUNK>();
        minima.clear();
        minima.extend(chunks.iter().map(|chunk| chunk.iter().fold(K::HIGHEST, |least, &key| least.min(key))));
        let limit = *minima.select_nth_unstable(keep - 1).1;
        found.clear();
        let mut ties = 0;
        let mut look = |keys: &[K], start: usize| {
            for (&key, place) in keys.iter().zip(start as u32..) {
                if key < limit || key == limit && ties < keep {
                    ties += usize::from(key == limit);
                    found.push(key.placed(place));
                }
            }
        };
        for (chunk, start) in chunks.iter().zip((0..).step_by(CHUNK)) {
            if chunk.iter().fold(false, |any, key| any | (*key <= limit)) {
                look(chunk, start);
            }
        }
        look(rest, keys.len() - rest.len());
    }
}

/// # Safety
/// As [`Device::sort`](crate::device::Device::sort), for elements that `dtype` names.
pub(super) unsafe fn run(
    dtype: DType,
    plan: SortPlan<'_>,
    values: Option<OperandRef<'_>>,
    positions: Option<OperandRef<'_>>,
    from: OperandRef<'_>,
) -> Result<()> {
    macro_rules! of {
        ($($name:ident $t:ty,)*) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$name => unsafe { Lines::run(Kind::of::<$t>(), plan, values, positions, from) },)*
                _ => Err(Error::Unsupported { op: "sort", device: "Cpu" }),
            }
        };
    }
    of!(Bool u8, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F16 f16, BF16 bf16, F32 f32, F64 f64,)
}

/// What depends on the elements: lines are sorted by code that knows their keys alone.
#[derive(Clone, Copy)]
struct Kind<K: Key> {
    /// Bytes of an element.
    element: usize,
    /// Writes the keys of elements that stand side by side, the reverse of them for the reverse order.
    keys: unsafe fn(line: *const u8, keys: &mut [K], descending: bool),
    /// Writes the elements of such keys.
    elements: unsafe fn(keys: &[K], to: *mut u8, descending: bool),
    shared: &'static [K],
}

impl<K: Key> Kind<K> {
    fn of<T: Keyed<Key = K>>() -> Self {
        unsafe fn keys<T: Keyed>(line: *const u8, keys: &mut [T::Key], descending: bool) {
            // SAFETY: the caller promises as many elements, aligned.
            let line = unsafe { std::slice::from_raw_parts(line.cast::<T>(), keys.len()) };
            simd::dispatch_two(Keys { line, keys, descending });
        }
        unsafe fn elements<T: Keyed>(keys: &[T::Key], to: *mut u8, descending: bool) {
            // SAFETY: the caller promises room for as many elements.
            let to =
                unsafe { std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<T>>(), keys.len()) };
            simd::dispatch_two(Elements { keys, to, descending });
        }
        Kind { element: size_of::<T>(), keys: keys::<T>, elements: elements::<T>, shared: T::SHARED }
    }
}

/// Copies one element.
///
/// # Safety
/// It is there, and so is room for it.
#[inline(always)]
unsafe fn move_one(from: *const u8, to: *mut u8, element: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match element {
            1 => to.write(from.read()),
            2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
        }
    }
}

/// Room for one line, and the steps of the operands along it, in bytes.
struct Lines<K: Key> {
    kind: Kind<K>,
    /// Some lines as they stand, in words so that elements are aligned.
    lines: Vec<u64>,
    keys: Vec<K>,
    spare_keys: Vec<K>,
    items: Vec<K::Placed>,
    spare_items: Vec<K::Placed>,
    /// The first `keep` of each in order, and where they stood; how many the first are.
    sorted: Vec<u64>,
    count: usize,
    places: Vec<i64>,
    /// How many lines are taken together.
    together: usize,
    n: usize,
    keep: usize,
    descending: bool,
    /// Of the line, the sorted elements and their places.
    steps: [isize; 3],
}

/// Room for `n`, or `None` and how many bytes were asked for.
fn room<X>(n: usize, nbytes: &AtomicUsize) -> Option<Vec<X>> {
    let mut room = Vec::new();
    if room.try_reserve_exact(n).is_err() {
        nbytes.store(n.saturating_mul(size_of::<X>()).max(1), Ordering::Relaxed);
        return None;
    }
    Some(room)
}

impl<K: Key> Lines<K> {
    /// # Safety
    /// As [`Device::sort`](crate::device::Device::sort), for elements of this kind.
    unsafe fn run(
        kind: Kind<K>,
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
        // An output that is not asked for stands where the operand does, and is not written.
        let slots = [from, values.unwrap_or(from), positions.unwrap_or(from)];
        let steps = slots.map(|slot| slot.stride[axis].wrapping_mul(slot.element as isize));
        let outer = slots.map(|slot| OperandRef { stride: &slot.stride[..axis], ..slot });
        let wanted = [values.is_some(), positions.is_some()];
        let failed = AtomicUsize::new(0);
        walk::each(plan.lines, &outer, Order::RowMajor, &mut |lines| {
            walk::parallel(lines, n.saturating_mul(8), &|part| {
                if let Some(mut lines) = Self::new(kind, part, plan, wanted, steps, &failed) {
                    // SAFETY: the parts of the walk reach only what the caller promised.
                    unsafe { lines.part(part, wanted) }
                }
            });
        });
        match failed.into_inner() {
            0 => Ok(()),
            nbytes => Err(Error::OutOfMemory { op: "sort", nbytes }),
        }
    }

    /// Whether few enough of a line are wanted to pick them without sorting it.
    fn picks(n: usize, keep: usize) -> bool {
        keep <= n / (2 * CHUNK)
    }

    fn new(
        kind: Kind<K>,
        part: &Walk,
        plan: SortPlan<'_>,
        [_, places]: [bool; 2],
        steps: [isize; 3],
        failed: &AtomicUsize,
    ) -> Option<Self> {
        let SortPlan { along: n, keep, descending, .. } = plan;
        let picks = Self::picks(n, keep);
        // Lines that stand side by side are read and written a cache line at a time, where they are not too long for it.
        let (element, across) = (kind.element, part.inner_step(0));
        let crosswise = across == element as isize && steps[0] != across;
        let together = if crosswise { (64 / element).min((TOGETHER / n.max(1)).max(1)) } else { 1 };
        let all_keys = padded::<K>(n, element);
        let all_items = padded::<K::Placed>(if picks { candidates(keep) } else { n }, element);
        let (keys, spare_keys, items) = match (picks, places) {
            (true, _) => (n, n / CHUNK, all_items),
            (false, true) => (n, 0, all_items),
            (false, false) => (all_keys, all_keys, 0),
        };
        Some(Lines {
            kind,
            count: 0,
            lines: room((n * together * element).div_ceil(8), failed)?,
            keys: room(keys, failed)?,
            spare_keys: room(spare_keys, failed)?,
            items: room(items, failed)?,
            spare_items: room(items, failed)?,
            sorted: room((keep * together * element).div_ceil(8), failed)?,
            places: room(if places { keep * together } else { 0 }, failed)?,
            together,
            n,
            keep,
            descending,
            steps,
        })
    }

    /// # Safety
    /// That of `run`, for some of the lines.
    unsafe fn part(&mut self, part: &Walk, [values, positions]: [bool; 2]) {
        let (n, element) = (self.n, self.kind.element);
        let (mut at, mut done) = (part.index_of(0), 0);
        while done < part.numel() {
            let rows = part.left_in_row(&at).min(self.together);
            // SAFETY: room for `n` elements of each line, all of which the caller promised.
            unsafe {
                self.lines.clear();
                let room = self.lines.spare_capacity_mut().as_mut_ptr().cast();
                let (wide, narrow) = ((n * element) as isize, element as isize);
                let steps = [part.inner_step(0), self.steps[0]];
                pack::rectangle(room, [wide, narrow], part.address_at(0, &at), steps, [rows, n], element);
            }
            self.count = 0;
            self.places.clear();
            for row in 0..rows {
                self.order(row * n, values, positions);
            }
            // SAFETY: `rows` lines of `keep` elements or places, to where the caller promised room for them.
            unsafe {
                if values {
                    self.put(self.sorted.as_ptr().cast(), element, part, 1, &at, rows);
                }
                if positions {
                    self.put(self.places.as_ptr().cast(), size_of::<i64>(), part, 2, &at, rows);
                }
            }
            part.advance(&mut at, rows);
            done += rows;
        }
    }

    /// Puts `rows` results of `keep` elements each where operand `k` of the lines has them, the nearer steps inside.
    ///
    /// # Safety
    /// They are there, and so are their places.
    unsafe fn put(&self, from: *const u8, element: usize, part: &Walk, k: usize, at: &Index, rows: usize) {
        let (to, across, along) = (part.address_at(k, at), part.inner_step(k), self.steps[k]);
        let (inside, outside) = ([self.keep, rows], [(along, 1), (across, self.keep)]);
        let swap = rows > 1 && across.unsigned_abs() < along.unsigned_abs();
        let [(inner, inner_from), (outer, outer_from)] =
            if swap { [outside[1], outside[0]] } else { outside };
        let [inner_count, outer_count] = if swap { [inside[1], inside[0]] } else { inside };
        for i in 0..outer_count {
            let to = to.wrapping_offset((i as isize).wrapping_mul(outer));
            let from = from.wrapping_add(i * outer_from * element);
            // SAFETY: the caller's promise.
            unsafe { pack::strided(to, inner, from, (inner_from * element) as isize, inner_count, element) };
        }
    }

    /// Appends the first `keep` of the line at `start` to `sorted`, and where they stood to `places`.
    fn order(&mut self, start: usize, values: bool, positions: bool) {
        let Lines {
            kind,
            lines,
            keys,
            spare_keys,
            items,
            spare_items,
            sorted,
            count,
            places,
            n,
            keep,
            descending,
            ..
        } = self;
        let Kind { element, .. } = *kind;
        let line = lines.as_ptr().cast::<u8>().wrapping_add(start * element);
        let to = sorted.as_mut_ptr().cast::<u8>().wrapping_add(*count * element);
        let turned = |key: K| if *descending { key.reversed() } else { key };
        keys.resize(*n, K::default());
        // SAFETY: the line was read.
        unsafe { (kind.keys)(line, keys, *descending) };
        let digits = 0..element;
        if !positions && !Self::picks(*n, *keep) {
            // There is spare room for as many keys as the line has.
            if digits.len() <= 2 && *n >= 1 << (8 * digits.len()) {
                K::by_counts(keys, spare_keys, digits.len());
            } else {
                sort(keys, spare_keys, digits);
            }
            // SAFETY: there is room for `keep` elements of each line.
            unsafe { (kind.elements)(&keys[..*keep], to, *descending) };
            *count += *keep;
            for &shared in kind.shared {
                let shared = turned(shared);
                let before = keys.partition_point(|&key| key < shared).min(*keep);
                let same = keys[before..*keep].partition_point(|&key| key == shared);
                if same > 0 {
                    // Those that differ in spite of their key come as they stand in the line.
                    spare_keys.resize(*n, K::default());
                    // SAFETY: as above.
                    unsafe { (kind.keys)(line, spare_keys, *descending) };
                    let found = spare_keys.iter().enumerate().filter(|&(_, &key)| key == shared);
                    for (i, (place, _)) in found.take(same).enumerate() {
                        // SAFETY: as above.
                        unsafe {
                            move_one(line.add(place * element), to.add((before + i) * element), element)
                        };
                    }
                }
            }
            return;
        }
        if Self::picks(*n, *keep) {
            simd::dispatch_two(Least { keys, keep: *keep, minima: spare_keys, found: items });
        } else {
            items.clear();
            items.extend(keys.iter().zip(0..).map(|(&key, place)| key.placed(place)));
            if *keep < *n / 2 {
                spare_items.clear();
                spare_items.extend_from_slice(items);
                let first_not_wanted = *spare_items.select_nth_unstable(*keep).1;
                items.retain(|item| *item < first_not_wanted);
            }
        }
        sort(items, spare_items, K::FIRST_DIGIT..K::FIRST_DIGIT + element);
        if values {
            for (i, &item) in items[..*keep].iter().enumerate() {
                // SAFETY: a place in the line, and room for `keep` elements of each.
                unsafe {
                    move_one(line.add(K::place(item) as usize * element), to.add(i * element), element)
                };
            }
            *count += *keep;
        }
        if positions {
            places.extend(items[..*keep].iter().map(|&item| i64::from(K::place(item))));
        }
    }
}

/// The keys of a line, the reverse of them for the reverse order.
struct Keys<'a, T: Keyed> {
    line: &'a [T],
    keys: &'a mut [T::Key],
    descending: bool,
}

/// The elements of some keys.
struct Elements<'a, T: Keyed> {
    keys: &'a [T::Key],
    to: &'a mut [std::mem::MaybeUninit<T>],
    descending: bool,
}

impl<T: Keyed> Loop for Elements<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (&key, to) in self.keys.iter().zip(self.to) {
            to.write(T::of_key(if self.descending { key.reversed() } else { key }));
        }
    }
}

impl<T: Keyed> Loop for Keys<'_, T> {
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
