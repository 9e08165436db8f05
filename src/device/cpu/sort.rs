//! Lines in order, by keys: whole numbers whose order is that of the elements.
//!
//! An element and its place become one item, so that equal keys stay as they stand. Items are sorted by their digits
//! (LSD radix) where there are many, by the standard library where few; the first of a line are picked without sorting it.
//! The element types are known by name here, so all of this is compiled once.
//! Imports: `error`, `scalar`, `element`, `kernel`, `device`.

use super::pack;
use super::simd::{self, Loop};
use super::walk::{self, Index, Order, Walk};
use crate::device::Slot;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::Sorting;
use crate::scalar::DType;
use half::{bf16, f16};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A whole number as wide as the machine type of the elements.
trait Key: Copy + Ord + Default {
    const BYTES: usize;
    const HIGHEST: Self;
    fn byte(self, digit: usize) -> usize;
    fn reversed(self) -> Self;
}

macro_rules! keys {
    ($($key:ty)*) => { $(
        impl Key for $key {
            const BYTES: usize = size_of::<$key>();
            const HIGHEST: Self = <$key>::MAX;
            #[inline(always)]
            fn byte(self, digit: usize) -> usize { (self >> (8 * digit)) as usize & 0xff }
            #[inline(always)]
            fn reversed(self) -> Self { !self }
        }
    )* };
}
keys!(u16 u32 u64);

/// An element and its key: `a < b` exactly when the key of `a` is less than that of `b`; NaN has the highest.
trait Keyed: Element {
    type Key: Key;
    fn key(self) -> Self::Key;
    /// The element of a key, but for what elements of one key differ in: the sign of 0, the bits of NaN.
    fn of_key(key: Self::Key) -> Self;
    /// Keys that elements of different bits share.
    const SHARED: &[Self::Key] = &[];
}

macro_rules! whole {
    ($($t:ty: $key:ty, $flip:expr;)*) => { $(
        impl Keyed for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key { (self as $key) ^ $flip }
            #[inline(always)]
            fn of_key(key: $key) -> Self { (key ^ $flip) as $t }
        }
    )* };
}
whole! {
    u8: u16, 0;
    u16: u16, 0;
    u32: u32, 0;
    u64: u64, 0;
    i8: u16, 1 << 15;
    i16: u16, 1 << 15;
    i32: u32, 1 << 31;
    i64: u64, 1 << 63;
}

macro_rules! floats {
    ($($t:ty: $key:ty;)*) => { $(
        impl Keyed for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let bits = self.to_bits();
                let sign = 1 << (<$key>::BITS - 1);
                let magnitude = bits & !sign;
                // Negative numbers count down from the middle, and −0 is 0.
                let key = if bits & sign == 0 { bits | sign } else { sign - magnitude };
                let infinity = <$t>::INFINITY.to_bits();
                if magnitude > infinity { <$key>::MAX } else { key }
            }
            #[inline(always)]
            fn of_key(key: $key) -> Self {
                let sign = 1 << (<$key>::BITS - 1);
                <$t>::from_bits(if key & sign != 0 { key & !sign } else { (sign - key) | sign })
            }
            const SHARED: &[$key] = &[1 << (<$key>::BITS - 1), <$key>::MAX];
        }
    )* };
}
floats! {
    f16: u16;
    bf16: u16;
    f32: u32;
    f64: u64;
}

/// What is sorted: a key alone, or with its place.
trait Item: Copy + Ord + Default {
    const DIGITS: usize;
    fn digit(self, digit: usize) -> usize;
}
impl<K: Key> Item for K {
    const DIGITS: usize = K::BYTES;
    #[inline(always)]
    fn digit(self, digit: usize) -> usize {
        self.byte(digit)
    }
}

/// A key and its place; places differ, so no two are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Placed<K> {
    key: K,
    place: u32,
}
impl<K: Key> Item for Placed<K> {
    const DIGITS: usize = K::BYTES;
    #[inline(always)]
    fn digit(self, digit: usize) -> usize {
        self.key.byte(digit)
    }
}

/// Elements of the lines that are taken together, at most.
const TOGETHER: usize = 1 << 18;
/// Items from which digits pay.
const MANY: usize = 192;

/// Sorts `items`; equal ones of the same place in the order stay as they stand. `spare` is as long.
fn sort<I: Item>(items: &mut [I], spare: &mut [I]) {
    let n = items.len();
    if n < MANY * I::DIGITS / 4 {
        return items.sort_unstable();
    }
    let mut counts = [[0u32; 256]; 8];
    for item in items.iter() {
        for digit in 0..I::DIGITS {
            counts[digit][item.digit(digit)] += 1;
        }
    }
    let mut swapped = false;
    for digit in 0..I::DIGITS {
        let counts = &mut counts[digit];
        if counts[items[0].digit(digit)] as usize == n {
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
    if swapped {
        items.copy_from_slice(spare);
    }
}

/// The least `keep` of the keys with their places, in order, into `best`, which has room for `2 · keep` and 64 more.
fn least<K: Key>(keys: &[K], keep: usize, best: &mut Vec<Placed<K>>) {
    const CHUNK: usize = 16;
    best.clear();
    let full = 2 * keep + 64 - CHUNK;
    let mut limit = K::HIGHEST;
    let mut limited = false;
    for (chunk, start) in keys.chunks(CHUNK).zip((0u32..).step_by(CHUNK)) {
        if limited && !chunk.iter().fold(false, |any, key| any | (*key < limit)) {
            continue;
        }
        for (key, place) in chunk.iter().zip(start..) {
            if !limited || *key < limit {
                best.push(Placed { key: *key, place }); // room for a chunk beyond `full`
            }
        }
        if best.len() > full {
            best.select_nth_unstable(keep - 1);
            best.truncate(keep);
            (limit, limited) = (best[keep - 1].key, true);
        }
    }
    best.sort_unstable();
    best.truncate(keep);
}

/// # Safety
/// As [`Device::sort`](crate::device::Device::sort), for elements that `dtype` names.
pub(super) unsafe fn run(
    dtype: DType,
    plan: Sorting<'_>,
    values: Option<Slot<'_>>,
    positions: Option<Slot<'_>>,
    from: Slot<'_>,
) -> Result<()> {
    macro_rules! of {
        ($($name:ident $t:ty,)*) => {
            match dtype {
                // SAFETY: the caller's promise.
                $(DType::$name => unsafe { Lines::<$t>::run(plan, values, positions, from) },)*
                _ => Err(Error::Unsupported { op: "sort", device: "Cpu" }),
            }
        };
    }
    of!(Bool u8, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F16 f16, BF16 bf16, F32 f32, F64 f64,)
}

/// Room for one line, and the steps of the operands along it, in bytes.
struct Lines<T: Keyed> {
    /// Some lines as they stand.
    lines: Vec<T>,
    keys: Vec<T::Key>,
    spare_keys: Vec<T::Key>,
    items: Vec<Placed<T::Key>>,
    spare_items: Vec<Placed<T::Key>>,
    /// The first `keep` of each in order, and where they stood.
    sorted: Vec<T>,
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

impl<T: Keyed> Lines<T> {
    /// # Safety
    /// As [`Device::sort`](crate::device::Device::sort), for elements `T`.
    unsafe fn run(plan: Sorting<'_>, values: Option<Slot<'_>>, positions: Option<Slot<'_>>, from: Slot<'_>) -> Result<()> {
        let axis = plan.lines.len();
        let Sorting { along: n, keep, .. } = plan;
        if keep == 0 {
            return Ok(());
        }
        if u32::try_from(n).is_err() {
            return Err(Error::Value {
                op: "sort", what: text(format_args!("an axis of {n} elements, of which 2³² − 1 are the most"))
            });
        }
        // An output that is not asked for stands where the operand does, and is not written.
        let slots = [from, values.unwrap_or(from), positions.unwrap_or(from)];
        let steps = slots.map(|slot| slot.stride[axis].wrapping_mul(slot.element as isize));
        let outer = slots.map(|slot| Slot { stride: &slot.stride[..axis], ..slot });
        let wanted = [values.is_some(), positions.is_some()];
        let failed = AtomicUsize::new(0);
        walk::each(plan.lines, &outer, Order::RowMajor, &mut |lines| {
            walk::parallel(lines, n.saturating_mul(8), &|part| {
                if let Some(mut lines) = Self::new(part, plan, wanted, steps, &failed) {
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
        keep <= n / 8
    }

    fn new(part: &Walk, plan: Sorting<'_>, [_, places]: [bool; 2], steps: [isize; 3], failed: &AtomicUsize) -> Option<Self> {
        let Sorting { along: n, keep, descending, .. } = plan;
        let picks = Self::picks(n, keep);
        // Lines that stand side by side are read and written a cache line at a time, where they are not too long for it.
        let (element, across) = (size_of::<T>(), part.inner_step(0));
        let crosswise = across == element as isize && steps[0] != across;
        let together = if crosswise { (64 / element).min((TOGETHER / n.max(1)).max(1)) } else { 1 };
        let (spare_keys, items, spare_items) = match (picks, places) {
            (true, _) => (0, 2 * keep + 64, 0),
            (false, true) => (0, n, n),
            (false, false) => (n, 0, 0),
        };
        Some(Lines {
            lines: room(n * together, failed)?,
            keys: room(n, failed)?,
            spare_keys: room(spare_keys, failed)?,
            items: room(items, failed)?,
            spare_items: room(spare_items, failed)?,
            sorted: room(keep * together, failed)?,
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
        let (n, element) = (self.n, size_of::<T>());
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
                self.lines.set_len(n * rows);
            }
            self.sorted.clear();
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
        let [(inner, inner_from), (outer, outer_from)] = if swap { [outside[1], outside[0]] } else { outside };
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
        let Lines { lines, keys, spare_keys, items, spare_items, sorted, places, n, keep, descending, .. } = self;
        let line = &lines[start..start + *n];
        let turned = |key: T::Key| if *descending { key.reversed() } else { key };
        keys.resize(*n, T::Key::default());
        simd::dispatch(Keys { line, keys, descending: *descending });
        if !positions && !Self::picks(*n, *keep) {
            spare_keys.resize(*n, T::Key::default());
            sort(keys, spare_keys);
            let first = sorted.len();
            sorted.extend(keys[..*keep].iter().map(|&key| T::of_key(turned(key))));
            for &shared in T::SHARED {
                let shared = turned(shared);
                let before = keys.partition_point(|&key| key < shared).min(*keep);
                let count = keys[before..*keep].partition_point(|&key| key == shared);
                if count > 0 {
                    // Those that differ in spite of their key come as they stand in the line.
                    let same = line.iter().filter(|element| turned(element.key()) == shared);
                    for (to, from) in sorted[first + before..][..count].iter_mut().zip(same) {
                        *to = *from;
                    }
                }
            }
            return;
        }
        if Self::picks(*n, *keep) {
            least(keys, *keep, items);
        } else {
            items.clear();
            items.extend(keys.iter().zip(0..).map(|(&key, place)| Placed { key, place }));
            spare_items.resize(*n, Placed::default());
            sort(items, spare_items);
        }
        if values {
            sorted.extend(items[..*keep].iter().map(|item| line[item.place as usize]));
        }
        if positions {
            places.extend(items[..*keep].iter().map(|item| i64::from(item.place)));
        }
    }
}

/// The keys of a line, the reverse of them for the reverse order.
struct Keys<'a, T: Keyed> {
    line: &'a [T],
    keys: &'a mut [T::Key],
    descending: bool,
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
