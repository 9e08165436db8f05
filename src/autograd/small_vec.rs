//! Short lists, on the heap only if they are long: of sizes or strides, and of outputs.
// Imports: nothing.

use std::ops::{Deref, DerefMut};

/// The number of values without an allocation.
const INLINE: usize = 4;

/// A list of values, one for each axis or operand.
#[derive(Clone, Debug)]
pub(super) enum SmallVec<T> {
    /// The number of values, and the values.
    Short(u8, [T; INLINE]),
    Long(Vec<T>),
}

impl<T: Copy + Default> SmallVec<T> {
    #[inline]
    pub(super) fn new(values: &[T]) -> Self {
        let none = T::default();
        let short = match *values {
            [] => [none; INLINE],
            [a] => [a, none, none, none],
            [a, b] => [a, b, none, none],
            [a, b, c] => [a, b, c, none],
            [a, b, c, d] => [a, b, c, d],
            _ => return SmallVec::Long(values.to_vec()),
        };
        SmallVec::Short(values.len() as u8, short)
    }

    /// The values of several lists, one after the other.
    pub(super) fn concat(lists: &[&[T]]) -> Self {
        lists.iter().flat_map(|list| list.iter().copied()).collect()
    }

    #[inline]
    pub(super) fn push(&mut self, value: T) {
        match self {
            SmallVec::Long(values) => values.push(value),
            SmallVec::Short(len, values) if (*len as usize) < INLINE => {
                values[*len as usize] = value;
                *len += 1;
            }
            SmallVec::Short(_, values) => {
                let mut long = Vec::with_capacity(2 * INLINE);
                long.extend_from_slice(values);
                long.push(value);
                *self = SmallVec::Long(long);
            }
        }
    }
}

impl<T: Copy + Default> Default for SmallVec<T> {
    fn default() -> Self {
        SmallVec::Short(0, [T::default(); INLINE])
    }
}

impl<T: Copy + Default> FromIterator<T> for SmallVec<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = SmallVec::default();
        values.into_iter().for_each(|value| list.push(value));
        list
    }
}

impl<T> Deref for SmallVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            SmallVec::Short(len, values) => &values[..*len as usize],
            SmallVec::Long(values) => values,
        }
    }
}

impl<T> DerefMut for SmallVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            SmallVec::Short(len, values) => &mut values[..*len as usize],
            SmallVec::Long(values) => values,
        }
    }
}

/// A list that has one value in most cases.
pub(super) enum Few<T> {
    One([T; 1]),
    Many(Vec<T>),
}

impl<T> Few<T> {
    pub(super) fn push(&mut self, value: T) {
        match self {
            Few::Many(values) if values.is_empty() => *self = Few::One([value]),
            Few::Many(values) => values.push(value),
            Few::One(_) => {
                if let Few::One([first]) = std::mem::take(self) {
                    *self = Few::Many(vec![first, value]);
                }
            }
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::Many(Vec::new())
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = Few::default();
        values.into_iter().for_each(|value| list.push(value));
        list
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Few::One(value) => value,
            Few::Many(values) => values,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::One(value) => value,
            Few::Many(values) => values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_hold_their_values_in_order() {
        for len in 0..15 {
            let values: Vec<usize> = (10..10 + len).collect();
            let mut pushed = SmallVec::default();
            values.iter().for_each(|&value| pushed.push(value));
            let joined = SmallVec::concat(&[&values[..len / 2], &[], &values[len / 2..]]);
            let few: Few<usize> = values.iter().copied().collect();
            let all = [&*SmallVec::new(&values), &*pushed, &*joined, &*few];
            assert!(all.iter().all(|list| *list == &values[..]), "{values:?}");
        }
    }
}
