//! Relations between ranks, listed once, for ranks 0 to 8.
//!
//! A function that changes the rank names the new rank in a bound:
//! `Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>`. `typenum` computes the results, and the *rows* are listed
//! one rank at a time: a missing row is reported in this crate's own words instead of type-level arithmetic.
//! Storage, views and elementwise operators work for any rank; only functions that change the rank need a row
//! here.
// Imports: `dim`.

mod slice;

pub use slice::{NewAxis, ResolvedSlice, SliceEntry, SliceList, SliceOfRank, SliceSpec, SliceStep, Stepped};

use crate::dim::{All, Axis, AxisAt, Dim, Last, MarkedAxes};
use typenum::{Add1, Sub1, U0, U1, U2, U3, U4, U5, U6, U7, U8, U9, Unsigned};

mod sealed {
    #[diagnostic::on_unimplemented(
        message = "the relations between ranks are complete: `{Self}` cannot be given one",
        label = "only this crate's ranks and slice entries",
        note = "a false relation could point outside memory; turn `{Self}` into a range, an index or a \
            tuple of them instead"
    )]
    pub trait Sealed {}
    impl<const RANK: usize> Sealed for super::Dim<RANK> {}
    impl Sealed for super::TooManyAxes {}
}

/// A rank that rank-changing operations know: `Dim<0>` to `Dim<8>`.
#[diagnostic::on_unimplemented(
    message = "tensors whose rank changes have at most 8 axes",
    label = "`{Self}` is not a rank from `Dim<0>` to `Dim<8>`"
)]
pub trait Rank: sealed::Sealed {
    /// The rank as a type-level number.
    type Len: Unsigned;
    /// The rank with one axis more.
    type Next: Rank;
    /// The sum of both ranks.
    type Plus<OTHER: Rank>: Rank;
}

/// The successor of rank 8; no tensor has this rank.
#[derive(Clone, Copy, Debug)]
pub struct TooManyAxes;

impl Rank for TooManyAxes {
    type Len = U9;
    type Next = TooManyAxes;
    type Plus<OTHER: Rank> = TooManyAxes;
}

/// From a type-level number to the rank with that number of axes.
pub trait ToRank: Unsigned {
    /// `Dim<N>` for the number N.
    type Rank: Rank;
}

macro_rules! ranks {
    ($($rank:literal $len:ident $plus:ty;)*) => { $(
        impl Rank for Dim<$rank> {
            type Len = $len;
            type Next = <Add1<$len> as ToRank>::Rank;
            type Plus<OTHER: Rank> = $plus;
        }
        impl ToRank for $len { type Rank = Dim<$rank>; }
    )* };
}
ranks! {
    0 U0 OTHER;
    1 U1 OTHER::Next;
    2 U2 <Dim<1> as Rank>::Plus<OTHER::Next>;
    3 U3 <Dim<2> as Rank>::Plus<OTHER::Next>;
    4 U4 <Dim<3> as Rank>::Plus<OTHER::Next>;
    5 U5 <Dim<4> as Rank>::Plus<OTHER::Next>;
    6 U6 <Dim<5> as Rank>::Plus<OTHER::Next>;
    7 U7 <Dim<6> as Rank>::Plus<OTHER::Next>;
    8 U8 <Dim<7> as Rank>::Plus<OTHER::Next>;
}
impl ToRank for U9 {
    type Rank = TooManyAxes;
}

type Less<RANK> = <Sub1<<RANK as Rank>::Len> as ToRank>::Rank;

/// A rank of at least one, required by an axis chosen at run time.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` has no axis to choose from",
    label = "needs a rank from `Dim<1>` to `Dim<8>`"
)]
pub trait RankMinusOne: sealed::Sealed {
    /// `Dim<RANK - 1>`.
    type Output: Rank;
}

/// A rank of at least `K` axes, 1 to 4; without its first `K` axes it is `Output`.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` does not have {K} axes to index",
    label = "more indices than axes, or more than 4"
)]
pub trait Without<const K: usize>: sealed::Sealed {
    /// `Dim<RANK - K>`.
    type Output: Rank;
}

macro_rules! without {
    ($($rank:literal: $($k:literal $left:literal),*;)*) => {
        $($(impl Without<$k> for Dim<$rank> { type Output = Dim<$left>; })*)*
    };
}
without! {
    1: 1 0;
    2: 1 1, 2 0;
    3: 1 2, 2 1, 3 0;
    4: 1 3, 2 2, 3 1, 4 0;
    5: 1 4, 2 3, 3 2, 4 1;
    6: 1 5, 2 4, 3 3, 4 2;
    7: 1 6, 2 5, 3 4, 4 3;
    8: 1 7, 2 6, 3 5, 4 4;
}

/// A rank that has axis `AXIS`; without it, the rank is `Output`.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` has no axis {AXIS}",
    label = "axis {AXIS} is out of range",
    note = "axes count from 0, so the last axis of a rank-R tensor is `Axis::<{{R - 1}}>`; for an axis \
        known only at run time use the method that ends in `_axis`, where there is one"
)]
pub trait RemoveAxis<const AXIS: usize>: RankMinusOne {}

macro_rules! axes {
    ($($rank:literal: $($axis:literal)*;)*) => { $(
        impl RankMinusOne for Dim<$rank> { type Output = Less<Dim<$rank>>; }
        impl RemoveAxes<Last> for Dim<$rank> { type Output = Less<Dim<$rank>>; }
        $(
            impl RemoveAxis<$axis> for Dim<$rank> {}
            impl RemoveAxes<Axis<$axis>> for Dim<$rank> { type Output = Less<Dim<$rank>>; }
        )*
    )* };
}
axes! {
    1: 0;
    2: 0 1;
    3: 0 1 2;
    4: 0 1 2 3;
    5: 0 1 2 3 4;
    6: 0 1 2 3 4 5;
    7: 0 1 2 3 4 5 6;
    8: 0 1 2 3 4 5 6 7;
}

/// A rank that has the axes `AXES`: `Axis<A>`, a tuple of axes in rising order, [`Last`] or [`All`].
///
/// `All` and `Last` need no bound in code for any rank if the result keeps the rank of its operand:
/// `x.mean_along(Last)`, `x.softmax(All)?`. A tensor of rank 0 has no last axis; the call then returns an
/// error.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` has no axes `{AXES}`",
    label = "`{AXES}` is not a set of axes of this tensor",
    note = "write `Axis::<A>` with `A` below the rank, a tuple of axes in rising order such as `(Axis::<0>, \
        Axis::<2>)`, `Last` or `All`",
    note = "for an axis known only at run time use the method that ends in `_axis`, where there is one",
    note = "in code for any rank `Last` and `All` need no bound; `Axis::<A>` needs `Dim<RANK>: \
        rankform::rank::RemoveAxis<A>`"
)]
pub trait HasAxes<AXES>: sealed::Sealed {
    /// Marks each of the axes; returns the first axis that the rank does not have.
    fn mark(axes: AXES, marked: &mut [bool]) -> Option<usize>;
}

impl<const RANK: usize> HasAxes<All> for Dim<RANK> {
    #[inline(always)]
    fn mark(_: All, marked: &mut [bool]) -> Option<usize> {
        marked.fill(true);
        None
    }
}

impl<const RANK: usize> HasAxes<Last> for Dim<RANK> {
    #[inline(always)]
    fn mark(_: Last, marked: &mut [bool]) -> Option<usize> {
        marked.last_mut().map_or(Some(0), |last| {
            *last = true;
            None
        })
    }
}

#[diagnostic::do_not_recommend]
impl<const RANK: usize> HasAxes<AxisAt> for Dim<RANK> {
    #[inline(always)]
    fn mark(AxisAt(axis): AxisAt, marked: &mut [bool]) -> Option<usize> {
        marked.get_mut(axis).map_or(Some(axis), |marked| {
            *marked = true;
            None
        })
    }
}

impl<const RANK: usize> MarkedAxes<RANK> {
    /// The axes of a set.
    #[inline(always)]
    pub(crate) fn of<AXES>(axes: AXES) -> Self
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        let mut marked = [false; RANK];
        let missing = <Dim<RANK> as HasAxes<AXES>>::mark(axes, &mut marked);
        MarkedAxes { marked, missing }
    }
}

#[diagnostic::do_not_recommend]
impl<const RANK: usize> HasAxes<MarkedAxes<RANK>> for Dim<RANK> {
    #[inline(always)]
    fn mark(axes: MarkedAxes<RANK>, marked: &mut [bool]) -> Option<usize> {
        marked.copy_from_slice(&axes.marked);
        axes.missing
    }
}

/// The sets of axes that a rank can lose.
macro_rules! removable {
    ($([$($axis:ident)+] $set:ty where $bound:path;)*) => { $(
        impl<$(const $axis: usize,)+ const RANK: usize> HasAxes<$set> for Dim<RANK>
        where
            Dim<RANK>: $bound,
        {
            #[inline(always)]
            fn mark(_: $set, marked: &mut [bool]) -> Option<usize> {
                $(marked[$axis] = true;)+
                None
            }
        }
    )* };
}
removable! {
    [A] Axis<A> where RemoveAxis<A>;
    [A B] (Axis<A>, Axis<B>) where RemoveAxes<(Axis<A>, Axis<B>)>;
    [A B C] (Axis<A>, Axis<B>, Axis<C>) where RemoveAxes<(Axis<A>, Axis<B>, Axis<C>)>;
}

/// A rank from which the axes `AXES` can be removed: `Axis<A>`, a tuple of axes in rising order, [`Last`] or
/// [`All`].
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` cannot be reduced over `{AXES}`",
    label = "`{AXES}` is not a set of axes of this tensor",
    note = "write `Axis::<A>` with `A` below the rank, a tuple of axes in rising order such as `(Axis::<0>, \
        Axis::<2>)`, `Last` or `All`",
    note = "for an axis known only at run time use the method that ends in `_axis`, where there is one",
    note = "in code for any rank name the rank left, a parameter `const M: usize`, in a bound: `Dim<RANK>: \
        RemoveAxes<Axis<A>, Output = Dim<M>>`; or keep the axes, by `reduce_keepdims` and `mean_along` and \
        its kin, which need no bound for `Last` and `All`"
)]
pub trait RemoveAxes<AXES>: HasAxes<AXES> {
    /// The rank of the remaining axes.
    type Output: Rank;
}

impl<const RANK: usize> RemoveAxes<All> for Dim<RANK> {
    type Output = Dim<0>;
}

/// No value has this type. A second row for every rank keeps inference from assuming [`All`] when the rank is
/// unknown. Another set of axes is then reported in the words above.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum AmbiguousAxes {}

#[diagnostic::do_not_recommend]
impl<const RANK: usize> HasAxes<AmbiguousAxes> for Dim<RANK> {
    fn mark(axes: AmbiguousAxes, _: &mut [bool]) -> Option<usize> {
        match axes {}
    }
}

#[diagnostic::do_not_recommend]
impl<const RANK: usize> RemoveAxes<AmbiguousAxes> for Dim<RANK> {
    type Output = Dim<0>;
}

type Less2<RANK> = Less<Less<RANK>>;
type Less3<RANK> = Less<Less2<RANK>>;

/// Every rising pair and triple of the axes of one rank.
macro_rules! axis_sets {
    ($($rank:literal: $($axis:literal)*;)*) => { $(axis_sets!(@pairs $rank; $($axis)*);)* };
    (@pairs $rank:literal;) => {};
    (@pairs $rank:literal; $a:literal $($later:literal)*) => {
        $(impl RemoveAxes<(Axis<$a>, Axis<$later>)> for Dim<$rank> {
            type Output = Less2<Dim<$rank>>;
        })*
        axis_sets!(@triples $rank; $a; $($later)*);
        axis_sets!(@pairs $rank; $($later)*);
    };
    (@triples $rank:literal; $a:literal;) => {};
    (@triples $rank:literal; $a:literal; $b:literal $($later:literal)*) => {
        $(impl RemoveAxes<(Axis<$a>, Axis<$b>, Axis<$later>)> for Dim<$rank> {
            type Output = Less3<Dim<$rank>>;
        })*
        axis_sets!(@triples $rank; $a; $($later)*);
    };
}
axis_sets! {
    2: 0 1;
    3: 0 1 2;
    4: 0 1 2 3;
    5: 0 1 2 3 4;
    6: 0 1 2 3 4 5;
    7: 0 1 2 3 4 5 6;
    8: 0 1 2 3 4 5 6 7;
}

/// A rank into which a new axis can be inserted at place `AXIS`; with it, the rank is `Output`.
#[diagnostic::on_unimplemented(
    message = "a tensor of rank `{Self}` cannot get a new axis at place {AXIS}",
    label = "place {AXIS} is out of range",
    note = "a rank-R tensor has places 0 to R for a new axis, and a tensor has at most 8 axes"
)]
pub trait InsertAxis<const AXIS: usize>: Rank {
    /// `Dim<RANK + 1>`.
    type Output: Rank;
}

macro_rules! insertions {
    ($($rank:literal: $($axis:literal)*;)*) => { $($(
        impl InsertAxis<$axis> for Dim<$rank> { type Output = <Dim<$rank> as Rank>::Next; }
    )*)* };
}
insertions! {
    0: 0;
    1: 0 1;
    2: 0 1 2;
    3: 0 1 2 3;
    4: 0 1 2 3 4;
    5: 0 1 2 3 4 5;
    6: 0 1 2 3 4 5 6;
    7: 0 1 2 3 4 5 6 7;
}

/// A rank that becomes rank `N` by new leading axes.
#[diagnostic::on_unimplemented(
    message = "`lift` only adds axes: rank `{Self}` cannot become rank {N}",
    label = "rank {N} is smaller, or may be",
    note = "to drop an axis take an index (`x.slice((0, ..))`), remove one of size 1 (`remove_axis`) or \
        reduce it (`sum`)",
    note = "in code for any rank add a bound such as `Dim<1>: LiftTo<RANK>`; rank 0 becomes any rank \
        without one"
)]
pub trait LiftTo<const N: usize>: sealed::Sealed {}

macro_rules! lift {
    ($($rank:literal: $($n:literal)*;)*) => { $($(impl LiftTo<$n> for Dim<$rank> {})*)* };
}
impl<const N: usize> LiftTo<N> for Dim<0> {}
lift! {
    1: 1 2 3 4 5 6 7 8;
    2: 2 3 4 5 6 7 8;
    3: 3 4 5 6 7 8;
    4: 4 5 6 7 8;
    5: 5 6 7 8;
    6: 6 7 8;
    7: 7 8;
    8: 8;
}

/// Two ranks that have a matrix product, and its rank.
#[diagnostic::on_unimplemented(
    message = "`matmul` has no product of ranks `{Self}` · `{OTHER}`",
    label = "products exist for ranks 1·1, 2·1, 1·2, 2·2, R·2 and, batched, 3·3 and 4·4",
    note = "`.insert_axis(Axis::<A>)` adds an axis; `.lift()` makes a matrix on the left a batch of one, \
        which stretches"
)]
pub trait Matmul<OTHER>: sealed::Sealed {
    /// The rank of the product.
    type Output: Rank;
}

macro_rules! matmul {
    ($($left:literal $right:literal => $out:literal;)*) => {
        $(impl Matmul<Dim<$right>> for Dim<$left> { type Output = Dim<$out>; })*
    };
}
matmul! {
    1 1 => 0;
    2 1 => 1;
    1 2 => 1;
    2 2 => 2;
    3 2 => 3;
    4 2 => 4;
    5 2 => 5;
    6 2 => 6;
    7 2 => 7;
    8 2 => 8;
    3 3 => 3;
    4 4 => 4;
}

/// Two ranks that have a product summed over `K` pairs of axes, and its rank.
#[diagnostic::on_unimplemented(
    message = "`tensordot` has no product of ranks `{Self}` · `{OTHER}` over {K} pairs of axes",
    label = "for ranks 1 to 4, with at most as many pairs as the smaller rank has axes",
    note = "`einsum!(\"…,…->…\", &x, &y)` has rows for all ranks"
)]
pub trait Tensordot<OTHER, const K: usize>: sealed::Sealed {
    /// The rank of the product.
    type Output: Rank;
}

macro_rules! tensordot {
    ($($left:literal $right:literal: $($k:literal => $out:literal)*;)*) => { $($(
        impl Tensordot<Dim<$right>, $k> for Dim<$left> { type Output = Dim<$out>; }
    )*)* };
}
tensordot! {
    1 1: 0=>2 1=>0;
    1 2: 0=>3 1=>1;
    1 3: 0=>4 1=>2;
    1 4: 0=>5 1=>3;
    2 1: 0=>3 1=>1;
    2 2: 0=>4 1=>2 2=>0;
    2 3: 0=>5 1=>3 2=>1;
    2 4: 0=>6 1=>4 2=>2;
    3 1: 0=>4 1=>2;
    3 2: 0=>5 1=>3 2=>1;
    3 3: 0=>6 1=>4 2=>2 3=>0;
    3 4: 0=>7 1=>5 2=>3 3=>1;
    4 1: 0=>5 1=>3;
    4 2: 0=>6 1=>4 2=>2;
    4 3: 0=>7 1=>5 2=>3 3=>1;
    4 4: 0=>8 1=>6 2=>4 3=>2 4=>0;
}

/// A rank with `N` axes after batch and channel, over which windows move: `[batch, channel, …]`.
#[diagnostic::on_unimplemented(
    message = "windows over {N} axes need rank {N} + 2, [batch, channel, …], not rank `{Self}`",
    label = "`…1d` is for rank 3, `…2d` for rank 4, `…3d` for rank 5",
    note = "`.insert_axis(Axis::<0>)` makes one image a batch"
)]
pub trait Spatial<const N: usize>: sealed::Sealed {}
impl Spatial<1> for Dim<3> {}
impl Spatial<2> for Dim<4> {}
impl Spatial<3> for Dim<5> {}

/// Rank 4, `[batch, channel, height, width]`: the only rank that has channels-last order.
#[diagnostic::on_unimplemented(
    message = "channels-last order is defined for rank 4, [batch, channel, height, width], not for rank \
        `{Self}`",
    label = "needs rank 4",
    note = "rank 5 has `to_channels_last_3d`; for other orders permute the axes"
)]
pub trait IsRank4: sealed::Sealed {}
impl IsRank4 for Dim<4> {}

/// Rank 5, `[batch, channel, depth, height, width]`: the only rank that has channels-last-3d order.
#[diagnostic::on_unimplemented(
    message = "channels-last-3d order is defined for rank 5, [batch, channel, depth, height, width], not \
        for rank `{Self}`",
    label = "needs rank 5",
    note = "rank 4 has `to_channels_last`; for other orders permute the axes"
)]
pub trait IsRank5: sealed::Sealed {}
impl IsRank5 for Dim<5> {}

impl<const RANK: usize> Dim<RANK> {
    /// The size of the first axis.
    pub fn head(&self) -> usize
    where
        Self: RemoveAxis<0>,
    {
        self.0[0]
    }

    /// The sizes of all axes but the first.
    pub fn tail<const M: usize>(&self) -> Dim<M>
    where
        Self: RemoveAxis<0, Output = Dim<M>>,
    {
        Dim(std::array::from_fn(|axis| self.0[axis + 1]))
    }
}
