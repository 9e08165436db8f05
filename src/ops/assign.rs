//! Operators that write into existing tensors: assign, fill, operators in place.
// Imports: `error`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::expr::{Join, Operand, OperandTuple, Split, eval_into, update, update_by, update_with};
use crate::kernel::{Body, Call, ElementTuple, Input, Op};
use crate::tensor::{Tensor, TensorViewMut};

/// Methods of exclusive views, and of tensors through the view of the whole tensor.
macro_rules! in_place {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*)
            $(where $($bound:ty: $trait:path),+)? = |$view:ident| $body:expr;
    )*) => {
        impl<T: Element, const RANK: usize, D: Device> TensorViewMut<'_, T, RANK, D> { $(
            $(#[$doc])*
            #[inline]
            pub fn $name $(<$($generics)*>)? (
                &mut self, $($arg: $type),*
            ) -> Result<()> $(where $($bound: $trait),+)? {
                let $view = self;
                $body
            }
        )* }
        impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            ///
            /// Also [`Error::Shared`](crate::Error::Shared) when other handles share the memory.
            #[inline]
            pub fn $name $(<$($generics)*>)? (
                &mut self, $($arg: $type),*
            ) -> Result<()> $(where $($bound: $trait),+)? {
                self.try_view_mut(stringify!($name))?.$name($($arg),*)
            }
        )* }
    };
}
pub(super) use in_place;

in_place! {
    /// Writes the values of a tensor, view, expression or number into this tensor; sizes of 1 stretch.
    ///
    /// # Errors
    /// [`Error::Output`](crate::Error::Output) when the values do not stretch to the sizes of this tensor.
    fn assign(values: impl Operand<T, RANK, D>) = |view| eval_into("assign", &values.into_expr(), view);

    /// Sets every element to a value.
    ///
    /// # Errors
    /// Those of the device.
    fn fill(value: T) = |view| eval_into("fill", &Operand::<T, RANK, D>::into_expr(value), view);

    /// Applies an operator of one operand in place.
    ///
    /// # Errors
    /// Those of the device.
    fn map_in_place[F: Op<(T,), Out = T>](operator: F) = |view| {
        let _ = operator; // the operator is its type
        update::<F, T, RANK, D>(view)
    };

    /// `self ← operator(self, other)`, in place; `other` stretches to these sizes.
    ///
    /// # Errors
    /// [`Error::Sizes`](crate::Error::Sizes) when the sizes do not broadcast,
    /// [`Error::Output`](crate::Error::Output) when this tensor would have to stretch.
    fn zip_in_place[F: Op<(T, U), Out = T>, U: Element](
        operator: F, other: impl Operand<U, RANK, D>
    ) = |view| {
        let _ = operator;
        update_with::<F, T, U, RANK, D, _>(view, &other.into_expr())
    };

    /// `self ← operator(self, operands…)`, in place, by an operator of up to twelve operands: tensors, views,
    /// expressions and numbers, which stretch to these sizes. For several tensors in place, use the function
    /// [`apply_in_place`](crate::expr::apply_in_place).
    ///
    /// # Cost
    /// One pass over memory; no allocation.
    ///
    /// # Errors
    /// As [`zip_in_place`](Tensor::zip_in_place).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// elementwise! {
    ///     /// Straight line from `a` to `b`.
    ///     fn mix(a, b, t) { a + (b - a) * t }
    /// }
    /// let (mut x, y) = (Tensor::from([[1.0, 10.0], [3.0, 0.0]]), Tensor::from([3.0, 20.0]));
    /// x.apply_in_place(mix, (y.lift(), 0.5))?;
    /// x.view_mut()?.slice((1, ..))?.apply_in_place(mix, (0.0, 1.0))?;
    /// assert_eq!(x, Tensor::from([[2.0, 15.0], [0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn apply_in_place[
        F: Op<IN, Out = T>, IN: ElementTuple + Split<(T,), Rest = BESIDE>, BESIDE, BODIES,
        O: OperandTuple<BESIDE, RANK, D>
    ](
        operator: F, operands: O
    ) where (Input<T>,): Join<O::Bodies, Joined = BODIES>, Call<F, BODIES>: Body<Out = T> = |view| {
        update_by(operator, view, operands)
    };
}
