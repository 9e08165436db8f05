//! A short list of sizes or strides, on the heap only if it is long.
// Imports: nothing.

use std::ops::{Deref, DerefMut};

/// The number of values without an allocation.
const INLINE: usize = 4;

/// A list of values, one for each axis or operand.
#[derive(Clone, Debug, Default)]
pub(super) struct Axes<T> {
    len: usize,
    inline: [T; INLINE],
    /// All values, if they are more than `INLINE`.
    heap: Vec<T>,
}

impl<T: Copy + Default> Axes<T> {
    pub(super) fn new(values: &[T]) -> Self {
        let (len, mut inline) = (values.len(), [T::default(); INLINE]);
        if len <= INLINE {
            inline[..len].copy_from_slice(values);
            return Axes { len, inline, heap: Vec::new() };
        }
        Axes { len, inline, heap: values.to_vec() }
    }

    pub(super) fn push(&mut self, value: T) {
        if self.len < INLINE {
            self.inline[self.len] = value;
        } else {
            if self.len == INLINE {
                self.heap.extend_from_slice(&self.inline);
            }
            self.heap.push(value);
        }
        self.len += 1;
    }
}

impl<T: Copy + Default> FromIterator<T> for Axes<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = Axes::new(&[]);
        values.into_iter().for_each(|value| list.push(value));
        list
    }
}

impl<T> Deref for Axes<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        if self.len <= INLINE { &self.inline[..self.len] } else { &self.heap }
    }
}

impl<T> DerefMut for Axes<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.len <= INLINE { &mut self.inline[..self.len] } else { &mut self.heap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_hold_their_values_in_order() {
        for len in 0..15 {
            let values: Vec<usize> = (10..10 + len).collect();
            let mut pushed = Axes::new(&[]);
            values.iter().for_each(|&value| pushed.push(value));
            assert_eq!((&*Axes::new(&values), &*pushed), (&values[..], &values[..]));
        }
    }
}
