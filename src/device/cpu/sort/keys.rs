//! Sort keys: unsigned integers in the order of the elements, alone or above their place.
// Imports: `element`, `device`.

use super::bitonic::{Network, Sorted};
use crate::element::{Element, bf16, f16};

/// What is sorted: a key alone, or above its place.
pub(super) trait Item: Sorted + Ord + Default {
    const HIGHEST: Self;
    fn digit(self, digit: usize) -> usize;
}

/// An item that is a number.
pub(super) trait Whole: Item {
    fn reversed(self) -> Self;
    /// Sorts items that differ in this many of their lowest digits alone, one or two, by how many there are of each; `counts` has
    /// room for one of each.
    fn by_counts(items: &mut [Self], counts: &mut Vec<Self>, digits: usize);
}

macro_rules! whole_items {
    ($($item:ty)*) => { $(
        impl Item for $item {
            const HIGHEST: Self = <$item>::MAX;
            #[inline(always)]
            fn digit(self, digit: usize) -> usize { (self >> (8 * digit)) as usize & 0xff }
        }
        impl Whole for $item {
            #[inline(always)]
            fn reversed(self) -> Self { !self }
            fn by_counts(items: &mut [Self], counts: &mut Vec<Self>, digits: usize) {
                debug_assert!(digits <= 2);
                counts.clear();
                counts.resize(1 << (8 * digits), 0);
                let lowest = counts.len() as Self - 1;
                let highest = items.first().map_or(0, |item| item & !lowest);
                items.iter().for_each(|item| counts[(item & lowest) as usize] += 1);
                let mut rest = items;
                for (lowest, &count) in counts.iter().enumerate() {
                    let (same, others) = rest.split_at_mut(count as usize);
                    same.fill(highest | lowest as Self);
                    rest = others;
                }
            }
        }
    )* };
}
whole_items!(u32 u64);

/// A key that leaves no room for its place in a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Placed {
    key: u64,
    place: u32,
}

impl Sorted for Placed {
    fn network() -> Option<Network<Placed>> {
        None
    }
}

impl Item for Placed {
    const HIGHEST: Self = Placed { key: u64::MAX, place: u32::MAX };
    #[inline(always)]
    fn digit(self, digit: usize) -> usize {
        self.key.digit(digit)
    }
}

/// A whole number at least as wide as the elements.
pub(super) trait Key: Whole + Send + Sync + 'static {
    /// A key before its place; places differ, so no two are equal.
    type Placed: Item;
    /// The number there of the key's first digit.
    const FIRST_DIGIT: usize;
    fn placed(self, place: u32) -> Self::Placed;
    fn place(placed: Self::Placed) -> u32;
}

impl Key for u32 {
    type Placed = u64;
    const FIRST_DIGIT: usize = 4;
    #[inline(always)]
    fn placed(self, place: u32) -> u64 {
        u64::from(self) << 32 | u64::from(place)
    }
    #[inline(always)]
    fn place(placed: u64) -> u32 {
        placed as u32
    }
}

impl Key for u64 {
    type Placed = Placed;
    const FIRST_DIGIT: usize = 0;
    #[inline(always)]
    fn placed(self, place: u32) -> Placed {
        Placed { key: self, place }
    }
    #[inline(always)]
    fn place(placed: Placed) -> u32 {
        placed.place
    }
}

/// An element and its key: `a < b` exactly when the key of `a` is less than that of `b`; NaN has the highest.
pub(super) trait Keyed: Element {
    type Key: Key;
    fn key(self) -> Self::Key;
    /// The element of a key, but for what elements of one key differ in: the sign of 0, the bits of NaN.
    fn of_key(key: Self::Key) -> Self;
    /// Keys that elements of different bits share.
    const SHARED: &[Self::Key] = &[];
}

macro_rules! whole {
    ($($t:ty: $bits:ty, $key:ty;)*) => { $(
        impl Keyed for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key { (self as $bits ^ <$t>::MIN as $bits) as $key }
            #[inline(always)]
            fn of_key(key: $key) -> Self { (key as $bits ^ <$t>::MIN as $bits) as $t }
        }
    )* };
}
whole! {
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
        impl Keyed for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let bits = self.to_bits();
                let sign = 1 << (<$bits>::BITS - 1);
                let magnitude = bits & !sign;
                // Negative numbers count down from the middle, and −0 is 0.
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
