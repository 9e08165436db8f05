//! Sort keys: unsigned integers in the order of the elements, alone or together with the position of the
//! element.
// Imports: `element`.

use super::bitonic::{NetworkKey, SortingNetwork};
use super::items::Items;
use crate::element::{Element, bf16, f16};

/// A value that is sorted: a key alone, or a key with its position.
pub(super) trait SortItem: NetworkKey + Ord + Default {
    /// No item is greater.
    const HIGHEST: Self;
    /// A digit of 8 bits; digit 0 is the least significant.
    fn digit(self, digit: usize) -> usize;
    /// The least value that is greater, if there is one.
    fn next(self) -> Option<Self>;
}

/// An item that is an integer.
pub(super) trait RadixKey: SortItem {
    /// The key in the reverse order.
    fn reversed(self) -> Self;
    /// Sorts items that differ only in their lowest `digits` digits, one or two, by counting each value.
    /// `counts` has the capacity for a count of each value.
    fn counting_sort(items: &mut [Self], counts: &mut Items<Self>, digits: usize);
}

macro_rules! integer_items {
    ($($item:ty)*) => { $(
        impl SortItem for $item {
            const HIGHEST: Self = <$item>::MAX;
            #[inline(always)]
            fn digit(self, digit: usize) -> usize { (self >> (8 * digit)) as usize & 0xff }
            #[inline(always)]
            fn next(self) -> Option<Self> { self.checked_add(1) }
        }
        impl RadixKey for $item {
            #[inline(always)]
            fn reversed(self) -> Self { !self }
            fn counting_sort(items: &mut [Self], counts: &mut Items<Self>, digits: usize) {
                debug_assert!(digits <= 2);
                counts.clear();
                counts.resize(1 << (8 * digits), 0);
                let lowest = counts.len() as Self - 1;
                let highest = items.first().map_or(0, |item| item & !lowest);
                items.iter().for_each(|item| counts[(item & lowest) as usize] += 1);
                let mut tail = items;
                for (lowest, &count) in counts.iter().enumerate() {
                    let (same, others) = tail.split_at_mut(count as usize);
                    same.fill(highest | lowest as Self);
                    tail = others;
                }
            }
        }
    )* };
}
integer_items!(u32 u64);

/// A key of 64 bits with its position: both do not fit one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct KeyWithPosition {
    key: u64,
    position: u32,
}

impl NetworkKey for KeyWithPosition {
    const HAS_NETWORK: bool = false;
    fn network() -> Option<SortingNetwork<KeyWithPosition>> {
        None
    }
}

impl SortItem for KeyWithPosition {
    const HIGHEST: Self = KeyWithPosition { key: u64::MAX, position: u32::MAX };
    #[inline(always)]
    fn digit(self, digit: usize) -> usize {
        self.key.digit(digit)
    }
    fn next(self) -> Option<Self> {
        match self.position.checked_add(1) {
            Some(position) => Some(KeyWithPosition { position, ..self }),
            None => Some(KeyWithPosition { key: self.key.checked_add(1)?, position: 0 }),
        }
    }
}

/// The key of an element: an unsigned integer with at least as many bits.
pub(super) trait SortKey: RadixKey + Send + Sync + 'static {
    /// A key with its position. It is ordered by the key first; no two are equal, because positions differ.
    type WithPosition: SortItem;
    /// The number of the key's lowest digit in an item with position.
    const FIRST_DIGIT: usize;
    fn with_position(self, position: u32) -> Self::WithPosition;
    fn position(item: Self::WithPosition) -> u32;
}

impl SortKey for u32 {
    type WithPosition = u64;
    const FIRST_DIGIT: usize = 4;
    #[inline(always)]
    fn with_position(self, position: u32) -> u64 {
        u64::from(self) << 32 | u64::from(position)
    }
    #[inline(always)]
    fn position(item: u64) -> u32 {
        item as u32
    }
}

impl SortKey for u64 {
    type WithPosition = KeyWithPosition;
    const FIRST_DIGIT: usize = 0;
    #[inline(always)]
    fn with_position(self, position: u32) -> KeyWithPosition {
        KeyWithPosition { key: self, position }
    }
    #[inline(always)]
    fn position(item: KeyWithPosition) -> u32 {
        item.position
    }
}

/// An element with a key: `a < b` exactly if the key of `a` is less than that of `b`. NaN has the highest
/// key.
pub(super) trait HasSortKey: Element {
    type Key: SortKey;
    fn key(self) -> Self::Key;
    /// The element of a key, except for the bits in which elements with equal keys differ: the sign of 0, the
    /// bits of NaN.
    fn of_key(key: Self::Key) -> Self;
    /// Keys that elements with different bits share.
    const SHARED: &[Self::Key] = &[];
}

macro_rules! integers {
    ($($t:ty: $bits:ty, $key:ty;)*) => { $(
        impl HasSortKey for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key { (self as $bits ^ <$t>::MIN as $bits) as $key }
            #[inline(always)]
            fn of_key(key: $key) -> Self { (key as $bits ^ <$t>::MIN as $bits) as $t }
        }
    )* };
}
integers! {
    u8: u8, u32;
    u16: u16, u32;
    u32: u32, u32;
    u64: u64, u64;
    i8: u8, u32;
    i16: u16, u32;
    i32: u32, u32;
    i64: u64, u64;
}

macro_rules! floats {
    ($($t:ty: $bits:ty, $key:ty;)*) => { $(
        impl HasSortKey for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let bits = self.to_bits();
                let sign = 1 << (<$bits>::BITS - 1);
                let magnitude = bits & !sign;
                // Keys of negative numbers count down from the middle; −0 has the key of 0.
                let key = if bits & sign == 0 { bits | sign } else { sign - magnitude };
                let infinity = <$t>::INFINITY.to_bits();
                (if magnitude > infinity { <$bits>::MAX } else { key }) as $key
            }
            #[inline(always)]
            fn of_key(key: $key) -> Self {
                let (key, sign) = (key as $bits, 1 << (<$bits>::BITS - 1));
                <$t>::from_bits(if key & sign != 0 { key & !sign } else { (sign - key) | sign })
            }
            const SHARED: &[$key] = &[1 << (<$bits>::BITS - 1), <$bits>::MAX as $key];
        }
    )* };
}
floats! {
    f16: u16, u32;
    bf16: u16, u32;
    f32: u32, u32;
    f64: u64, u64;
}
