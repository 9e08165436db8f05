//! The indices and positions of a layout in row-major order, from both ends; they can be split. No memory, no
//! `unsafe`.
// Imports: `layout`.

use crate::layout::Layout;

/// Every index of a layout with its position.
///
/// Law: all parts that are split off return together each index of the layout exactly once.
#[derive(Clone, Debug)]
pub struct Positions<const RANK: usize> {
    layout: Layout<RANK>,
    /// The next index from the front and from the back; unspecified at the end.
    front: IndexCursor<RANK>,
    back: IndexCursor<RANK>,
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct IndexCursor<const RANK: usize> {
    index: [usize; RANK],
    position: usize,
}

impl<const RANK: usize> IndexCursor<RANK> {
    /// The index with number `number` in row-major order.
    fn at(layout: &Layout<RANK>, number: usize) -> Self {
        let index = layout.size().delinearize(number).0;
        IndexCursor { index, position: layout.at(index) }
    }

    fn advance(&mut self, layout: &Layout<RANK>) {
        let (size, stride) = (layout.size().0, layout.stride().0);
        for axis in (0..RANK).rev() {
            self.index[axis] += 1;
            self.position = self.position.wrapping_add_signed(stride[axis]);
            if self.index[axis] < size[axis] {
                return;
            }
            self.index[axis] = 0;
            self.position = self.position.wrapping_sub((stride[axis] as usize).wrapping_mul(size[axis]));
        }
    }

    fn retreat(&mut self, layout: &Layout<RANK>) {
        let (size, stride) = (layout.size().0, layout.stride().0);
        for axis in (0..RANK).rev() {
            if self.index[axis] > 0 {
                self.index[axis] -= 1;
                self.position = self.position.wrapping_sub(stride[axis] as usize);
                return;
            }
            self.index[axis] = size[axis] - 1;
            self.position = self.position.wrapping_add((stride[axis] as usize).wrapping_mul(size[axis] - 1));
        }
    }
}

impl<const RANK: usize> Positions<RANK> {
    pub(super) fn new(layout: Layout<RANK>) -> Self {
        let left = layout.numel();
        let (front, back) = (IndexCursor::at(&layout, 0), IndexCursor::at(&layout, left.saturating_sub(1)));
        Positions { layout, front, back, left }
    }

    /// The first `at` of the remaining indices, and the others; `at` is at most their number.
    #[cfg(feature = "rayon")]
    pub(super) fn split_at(self, at: usize) -> (Self, Self) {
        let Positions { layout, front, back, left } = self;
        let number = layout.size().linearize(front.index) + at;
        let first =
            Positions { layout, front, back: IndexCursor::at(&layout, number.saturating_sub(1)), left: at };
        (first, Positions { layout, front: IndexCursor::at(&layout, number), back, left: left - at })
    }
}

impl<const RANK: usize> Iterator for Positions<RANK> {
    type Item = ([usize; RANK], usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let IndexCursor { index, position } = self.front;
        self.front.advance(&self.layout);
        Some((index, position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// One loop for each row.
    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let Positions { layout, mut front, mut left, .. } = self;
        let (Some(&size), Some(&step)) = (layout.size().0.last(), layout.stride().0.last()) else {
            return if left > 0 { f(init, (front.index, front.position)) } else { init };
        };
        let mut value = init;
        while left > 0 {
            let IndexCursor { mut index, mut position } = front;
            let run = left.min(size - index[RANK - 1]);
            for _ in 1..run {
                value = f(value, (index, position));
                index[RANK - 1] += 1;
                position = position.wrapping_add_signed(step);
            }
            value = f(value, (index, position));
            front = IndexCursor { index, position };
            front.advance(&layout);
            left -= run;
        }
        value
    }
}

impl<const RANK: usize> DoubleEndedIterator for Positions<RANK> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let IndexCursor { index, position } = self.back;
        if self.left > 0 {
            self.back.retreat(&self.layout);
        }
        Some((index, position))
    }
}

impl<const RANK: usize> ExactSizeIterator for Positions<RANK> {}
impl<const RANK: usize> std::iter::FusedIterator for Positions<RANK> {}
