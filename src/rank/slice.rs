//! Entries of slices: indices, ranges, steps and new axes, and the ranks that they read and leave.
// Imports: `dim`.

use super::{Rank, sealed};
use crate::dim::Dim;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One axis of a slice, resolved at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolvedSlice {
    /// One position; the axis is dropped.
    Index(usize),
    /// `start..end` (`None`: to the end), every `step`-th, from the end of the range when negative.
    Range(usize, Option<usize>, isize),
    /// An inclusive range up to `usize::MAX`; no axis is that long.
    Endless,
    /// A new axis of size 1.
    New,
}

/// An axis of size 1 in the result of a slice: `x.slice((.., NewAxis, ..))`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewAxis;

/// A range with a step, made by [`SliceStep::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stepped<RANGE> {
    range: RANGE,
    step: isize,
}

/// Gives every range of a slice a step: `(..).step(-1)` reverses, `(1..9).step(2)` takes 1, 3, 5, 7.
pub trait SliceStep: SliceEntry + Sized {
    /// Every `step`-th position; a negative step starts at the last one and runs back.
    fn step(self, step: isize) -> Stepped<Self> {
        Stepped { range: self, step }
    }
}

/// One entry of a slice: an index drops its axis, a range keeps it, [`NewAxis`] adds one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index an axis",
    label = "expected an index (`usize`), `..`, a range such as `a..b`, `(a..b).step(n)` or `NewAxis`",
    note = "positions count from 0 and are `usize`: write `i as usize`, and `n - 1` for the last of n"
)]
pub trait SliceEntry: sealed::Sealed {
    /// The rank of the operand once this entry has read its axis.
    type Reads<D: Rank>: Rank;
    /// The rank of the result once this entry has added its axis.
    type Leaves<D: Rank>: Rank;
    /// The resolved entry.
    fn pick(&self) -> ResolvedSlice;
}

/// An entry is the slice of an only axis.
macro_rules! single_entry {
    ($entry:ty; $($range:ident)?) => {
        impl$(<$range: SliceStep>)? SliceSpec for $entry {
            type Reads = <$entry as SliceEntry>::Reads<Dim<0>>;
            type Output = <$entry as SliceEntry>::Leaves<Dim<0>>;
            #[inline]
            fn each(&self, picks: &mut impl SliceList) -> Option<ResolvedSlice> {
                let pick = self.pick();
                (!picks.take(pick)).then_some(pick)
            }
        }
    };
}
macro_rules! entries {
    ($($entry:ty, $reads:ty, $leaves:ty, |$e:ident| $pick:expr;)*) => { $(
        impl sealed::Sealed for $entry {}
        impl SliceEntry for $entry {
            type Reads<D: Rank> = $reads;
            type Leaves<D: Rank> = $leaves;
            #[inline]
            fn pick(&self) -> ResolvedSlice { let $e = self; $pick }
        }
        single_entry!($entry;);
    )* };
}
#[inline]
fn until(start: usize, last: usize) -> ResolvedSlice {
    last.checked_add(1).map_or(ResolvedSlice::Endless, |end| ResolvedSlice::Range(start, Some(end), 1))
}
entries! {
    usize, D::Next, D, |e| ResolvedSlice::Index(*e);
    RangeFull, D::Next, D::Next, |_e| ResolvedSlice::Range(0, None, 1);
    Range<usize>, D::Next, D::Next, |e| ResolvedSlice::Range(e.start, Some(e.end), 1);
    RangeFrom<usize>, D::Next, D::Next, |e| ResolvedSlice::Range(e.start, None, 1);
    RangeTo<usize>, D::Next, D::Next, |e| ResolvedSlice::Range(0, Some(e.end), 1);
    RangeInclusive<usize>, D::Next, D::Next, |e| until(*e.start(), *e.end());
    RangeToInclusive<usize>, D::Next, D::Next, |e| until(0, e.end);
    NewAxis, D, D::Next, |_e| ResolvedSlice::New;
}
impl<RANGE> sealed::Sealed for Stepped<RANGE> {}
impl<RANGE: SliceStep> SliceEntry for Stepped<RANGE> {
    type Reads<D: Rank> = D::Next;
    type Leaves<D: Rank> = D::Next;
    #[inline]
    fn pick(&self) -> ResolvedSlice {
        match self.range.pick() {
            ResolvedSlice::Range(start, end, step) => {
                ResolvedSlice::Range(start, end, step.saturating_mul(self.step))
            }
            other => other,
        }
    }
}
single_entry!(Stepped<RANGE>; RANGE);
macro_rules! steps { ($($range:ty)*) => { $(impl SliceStep for $range {})* }; }
steps!(RangeFull Range<usize> RangeFrom<usize> RangeTo<usize> RangeInclusive<usize> RangeToInclusive<usize>);

/// A visitor of the entries of a slice, in order.
pub trait SliceList {
    /// Takes one entry and returns whether it fits.
    fn take(&mut self, pick: ResolvedSlice) -> bool;
}

/// A tuple of slice entries, `(1, .., 0..3, (..).step(-2), NewAxis)`, or one entry: `..3`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a slice",
    label = "expected a tuple with one entry an axis, each an index, `..`, a range, `(a..b).step(n)` or \
        `NewAxis`",
    note = "positions count from 0 and are `usize`: write `i as usize`, and `n - 1` for the last of n"
)]
pub trait SliceSpec: sealed::Sealed {
    /// The rank of the operand.
    type Reads: Rank;
    /// The rank of the result.
    type Output: Rank;
    /// Visits the entries in order; returns the first that is refused.
    fn each(&self, picks: &mut impl SliceList) -> Option<ResolvedSlice>;
}

/// States that a slice that reads `Self` fits a tensor of rank `RANK`.
#[diagnostic::on_unimplemented(
    message = "this slice reads the axes of a `{Self}`, but the tensor has rank {RANK}",
    label = "needs exactly {RANK} entries (`NewAxis` not counted)",
    note = "write `..` for each axis that is kept whole"
)]
pub trait SliceOfRank<const RANK: usize> {}
impl<const RANK: usize> SliceOfRank<RANK> for Dim<RANK> {}

macro_rules! slice_specs {
    (@fold $which:ident $acc:ty;) => { $acc };
    (@fold $which:ident $acc:ty; $head:ident $($tail:ident)*) => {
        slice_specs!(@fold $which <$head as SliceEntry>::$which<$acc>; $($tail)*)
    };
    ($($($entry:ident)+;)*) => { $(
        impl<$($entry),+> sealed::Sealed for ($($entry,)+) {}
        impl<$($entry: SliceEntry),+> SliceSpec for ($($entry,)+) {
            type Reads = slice_specs!(@fold Reads Dim<0>; $($entry)+);
            type Output = slice_specs!(@fold Leaves Dim<0>; $($entry)+);
            #[allow(non_snake_case)]
            #[inline]
            fn each(&self, picks: &mut impl SliceList) -> Option<ResolvedSlice> {
                let ($($entry,)+) = self;
                $(if !picks.take($entry.pick()) { return Some($entry.pick()); })+
                None
            }
        }
    )* };
}
slice_specs! {
    A;
    A B;
    A B C;
    A B C E;
    A B C E F;
    A B C E F G;
    A B C E F G H;
    A B C E F G H I;
    A B C E F G H I J;
    A B C E F G H I J K;
}
