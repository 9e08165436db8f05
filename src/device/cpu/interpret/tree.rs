//! States of leaves, combined pairwise, as bytes.
//!
//! Imports: nothing of the crate.

/// States of leaves, combined pairwise as they come, in the order of [`Cascade`](crate::device::cpu::fold::Cascade).
pub(super) struct Tree {
    digits: Vec<Vec<u8>>,
    leaves: u64,
}

impl Tree {
    pub(super) fn new(digits: usize) -> Tree {
        Tree { digits: vec![Vec::new(); digits], leaves: 0 }
    }

    pub(super) fn push(&mut self, mut state: Vec<u8>, mut combine: impl FnMut(&[u8], &[u8]) -> Vec<u8>) {
        let last = self.digits.len() - 1;
        let mut digit = 0;
        while self.leaves >> digit & 1 == 1 {
            state = combine(&self.digits[digit], &state);
            if digit == last {
                break;
            }
            digit += 1;
        }
        self.digits[digit] = state;
        self.leaves = (self.leaves >> digit | 1) << digit;
    }

    pub(super) fn join(&self, mut combine: impl FnMut(&[u8], &[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
        let (mut joined, mut left) = (None, self.leaves);
        while left != 0 {
            let state = &self.digits[left.trailing_zeros() as usize];
            joined = Some(joined.map_or_else(|| state.clone(), |later: Vec<u8>| combine(state, &later)));
            left &= left - 1;
        }
        joined
    }
}
