//! Operators that update several tensors in place, in one pass.
// Imports: `error`, `dim`, `element`, `kernel`, `device`, `tensor`.

use super::apply::{IntoViewsMut, OperandTuple, Outputs};
use super::leaf_list::{LeafList, row_axes};
use super::operand::{Leaves, RowAxes};
use crate::device::{Device, MAX_OPERANDS};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{Body, Call, ElementTuple, InPlace, Input, Op, OpMany, Program, Store, StoreMany};
use crate::tensor::{Leaf, TensorViewMut};
use std::marker::PhantomData;

/// Two tuples: the tensors to update, and the operands that are only read. Together they are the operands of
/// an operator on `IN`; its outputs are the new elements of the first tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the operands of an operator from `{IN}` to `{OUT}` in place",
    label = "expected two tuples, the tensors to update and the operands to read: `((&mut p, &mut m), (&g, \
        0.5))`"
)]
pub trait Updates<IN: ElementTuple, OUT: ElementTuple, const RANK: usize, D: Device> {
    /// The bodies of all operands, as a tuple.
    type Bodies: Copy + Send + Sync + 'static;
    #[doc(hidden)]
    fn run<F: OpMany<IN, Out = OUT>>(self, operator: F) -> Result<()>
    where
        StoreMany<F, Self::Bodies>: Program;
}

impl<IN, OUT, OTHERS, BODIES, U, O, const RANK: usize, D: Device> Updates<IN, OUT, RANK, D> for (U, O)
where
    IN: ElementTuple + Split<OUT, Rest = OTHERS>,
    OUT: Outputs<Loads: Join<O::Bodies, Joined = BODIES>>,
    BODIES: Copy + Send + Sync + 'static,
    U: IntoViewsMut<OUT, RANK, D>,
    O: OperandTuple<OTHERS, RANK, D>,
{
    type Bodies = BODIES;
    fn run<F: OpMany<IN, Out = OUT>>(self, _: F) -> Result<()>
    where
        StoreMany<F, BODIES>: Program,
    {
        let exprs = self.1.into_exprs();
        let program = InPlace(StoreMany::<F, BODIES>::new(OUT::LOADS.join(O::bodies(&exprs))));
        self.0.update(F::NAME, &mut |updated| {
            let mut list = LeafList::new(F::NAME, updated[0].device(), updated.len());
            updated.iter().for_each(|leaf| list.add(*leaf));
            O::leaves(&exprs, &mut list);
            // SAFETY: the program first loads the exclusive views, with their elements; then come the loads
            // of the bodies, in the order of the leaves.
            unsafe { update(F::NAME, &program, list, updated, |rows| O::rows(&exprs, rows)) }
        })
    }
}

/// A tuple that begins with `FIRST`.
#[diagnostic::on_unimplemented(
    message = "an operator on `{Self}` does not update `{FIRST}` in place",
    label = "it updates its first operands, at most six of twelve"
)]
pub trait Split<FIRST> {
    /// The rest of the tuple.
    type Rest;
}

/// A tuple that can be concatenated with another, to at most twelve members.
#[diagnostic::on_unimplemented(
    message = "`{REST}` is not a tuple of up to eleven operands",
    label = "expected a tuple of the other operands: `(&y, 0.5)`, and `(&y,)` for one"
)]
pub trait Join<REST> {
    /// The concatenation.
    type Joined;
    /// Concatenates both tuples.
    fn join(self, rest: REST) -> Self::Joined;
}

/// Implements both traits for up to six first members and any number of further ones, from one list of names.
macro_rules! joins {
    (@first [$($first:tt)*] [] [$($name:tt)*]) => {};
    (@first [$($first:tt)*] [$at:tt $($left:tt)*] [$name:tt $($names:tt)*]) => {
        joins! { @rest [$($first)* $name $at] [] [0 1 2 3 4 5 6 7 8 9 10] [$($names)*] }
        joins! { @first [$($first)* $name $at] [$($left)*] [$($names)*] }
    };
    (@rest $first:tt [$($rest:tt)*] [$at:tt $($left:tt)*] [$name:tt $($names:tt)*]) => {
        joins! { @of $first [$($rest)*] }
        joins! { @rest $first [$($rest)* $name $at] [$($left)*] [$($names)*] }
    };
    (@rest $first:tt $rest:tt [$($left:tt)*] []) => {
        joins! { @of $first $rest }
    };
    (@of [$($first:ident $index:tt)+] [$($rest:ident $place:tt)*]) => {
        impl<$($first,)+ $($rest,)*> Split<($($first,)+)> for ($($first,)+ $($rest,)*) {
            type Rest = ($($rest,)*);
        }
        impl<$($first,)+ $($rest,)*> Join<($($rest,)*)> for ($($first,)+) {
            type Joined = ($($first,)+ $($rest,)*);
            #[inline]
            fn join(self, _rest: ($($rest,)*)) -> Self::Joined {
                ($(self.$index,)+ $(_rest.$place,)*)
            }
        }
    };
}
joins! { @first [] [0 1 2 3 4 5] [A B C D E F G H I J K M] }

/// # Safety
/// 1. The leaves of the list are the loads of the program, in order.
/// 2. `updated` are the first of them and come from exclusive views.
unsafe fn update<P: Program, const RANK: usize, D: Device>(
    op: &'static str,
    program: &P,
    mut list: LeafList<'_, RANK, D, MAX_OPERANDS>,
    updated: &[Leaf<'_, RANK, D>],
    row_axes_of: impl FnOnce(&mut RowAxes<RANK>),
) -> Result<()> {
    let wanted: Dim<RANK> = updated[0].layout().size();
    let size = list.size()?;
    if let Some(other) = updated.iter().map(|leaf| leaf.layout().size()).find(|&other| other != size) {
        return Err(Error::Output { op, sizes: size.0.into(), found: other.0.into() });
    }
    let rows = row_axes(P::BY_ROWS, op, wanted, row_axes_of)?;
    // SAFETY: (1) and (2) are the caller's promises; the borrow checker keeps exclusive views disjoint from
    // each other and from the other leaves.
    unsafe { list.map(program, wanted, rows, updated) }
}

/// `out ← F(out, operands…)`, in place.
pub(crate) fn update_by<F, IN, OTHERS, BODIES, T, O, const RANK: usize, D: Device>(
    _: F,
    out: &mut TensorViewMut<'_, T, RANK, D>,
    operands: O,
) -> Result<()>
where
    T: Element,
    F: Op<IN, Out = T>,
    IN: ElementTuple + Split<(T,), Rest = OTHERS>,
    O: OperandTuple<OTHERS, RANK, D>,
    (Input<T>,): Join<O::Bodies, Joined = BODIES>,
    Call<F, BODIES>: Body<Out = T>,
{
    let exprs = operands.into_exprs();
    let bodies = (Input::<T>(PhantomData),).join(O::bodies(&exprs));
    let leaf = out.leaf();
    let mut list = LeafList::new(F::NAME, leaf.device(), 1);
    list.add(leaf);
    O::leaves(&exprs, &mut list);
    let program = InPlace(Store(Call::<F, BODIES>::new(bodies)));
    // SAFETY: (1) the program first loads the exclusive view, then the leaves of the bodies in their order;
    // (2) `leaf` is that view.
    unsafe { update(F::NAME, &program, list, &[leaf], |rows| O::rows(&exprs, rows)) }
}

/// Updates up to six tensors in place, in one pass, of up to twelve operands in all, tensors and numbers:
/// `apply_in_place(f, (&mut p, &mut m), (&g, 0.5))`.
///
/// The operator's first operands are the tensors of the first tuple, in order, and its outputs are their new
/// elements. The second tuple has the operands that are only read; it may be empty: `()`. Operator and
/// operands are those of [`apply_many`](super::apply_many), which makes new tensors.
///
/// # Shapes
/// The updated tensors have one size; the other operands broadcast to it.
///
/// # Cost
/// One pass over memory; no allocation.
///
/// # Errors
/// [`Error::Shared`] when other handles share the memory of an updated tensor, [`Error::Overlap`] when two of
/// its indices address one element, [`Error::Sizes`] when sizes do not broadcast, [`Error::Output`] when they
/// broadcast beyond the updated size. In each case nothing is written.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     /// A step of AdamW: the parameter and its two moments. `c1` and `c2` are 1 − β₁ᵗ and 1 − β₂ᵗ.
///     fn adamw(p, m, v, g, rate, decay, beta1, beta2, epsilon, c1, c2) -> (T, T, T) {
///         let m = beta1 * m + (1.0 - beta1) * g;
///         let v = beta2 * v + (1.0 - beta2) * g * g;
///         (p - rate * (decay * p + m / c1 / ((v / c2).sqrt() + epsilon)), m, v)
///     }
/// }
/// let (mut p, g) = (Tensor::from([1.0, 2.0]), Tensor::from([0.5, -4.0]));
/// let (mut m, mut v) = (Tensor::zeros([2], &Cpu)?, Tensor::zeros([2], &Cpu)?);
/// let (rate, decay, beta1, beta2, epsilon) = (0.25, 0.0, 0.9, 0.999, 1e-8);
/// for step in 1..=3 {
///     let [c1, c2] = [beta1, beta2].map(|beta: f64| 1.0 - beta.powi(step));
///     apply_in_place(adamw, (&mut p, &mut m, &mut v), (&g, rate, decay, beta1, beta2, epsilon, c1, c2))?;
/// }
/// // The same gradient three times: three steps of `rate` against its sign.
/// assert!((p[[0]] - 0.25).abs() < 1e-6 && (p[[1]] - 2.75).abs() < 1e-6);
///
/// // One tensor: tuples of one.
/// elementwise! {
///     fn scaled(x, factor, bias) -> (T,) where Number { (x * factor + bias,) }
/// }
/// let mut pixels = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let factors = Tensor::from([2.0, 1.0, 0.5]);
/// apply_in_place(scaled, (&mut pixels,), (&factors.lift(), 1.0))?;
/// assert_eq!(pixels, Tensor::from([[3.0, 3.0, 2.5], [9.0, 6.0, 4.0]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn apply_in_place<F, IN, OUT, U, O, const RANK: usize, D>(
    operator: F,
    updated: U,
    operands: O,
) -> Result<()>
where
    F: OpMany<IN, Out = OUT>,
    IN: ElementTuple,
    OUT: ElementTuple,
    D: Device,
    (U, O): Updates<IN, OUT, RANK, D>,
    StoreMany<F, <(U, O) as Updates<IN, OUT, RANK, D>>::Bodies>: Program,
{
    (updated, operands).run(operator)
}
