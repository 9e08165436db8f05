//! Writing into what exists: assign, fill, operators in place; tensors one after the other.
//!
//! Imports: `error`, `dim`, `rank`, `element`, `kernel`, `device`, `tensor`, `expr`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::{Operand, eval_into, update, update_with};
use crate::kernel::Op;
use crate::rank::RemoveAxis;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// In place, through an exclusive view; a tensor does the same through the view of all of it.
macro_rules! in_place {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) $(where $($bound:ty: $trait:path),+)? = |$view:ident| $body:expr;
    )*) => {
        impl<T: Element, const RANK: usize, D: Device> TensorViewMut<'_, T, RANK, D> { $(
            $(#[$doc])*
            pub fn $name $(<$($generics)*>)? (&mut self, $($arg: $type),*) -> Result<()> $(where $($bound: $trait),+)? {
                let $view = self;
                $body
            }
        )* }
        impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            $(#[$doc])*
            ///
            /// Also [`Error::Shared`](crate::Error::Shared) when other handles share the memory.
            pub fn $name $(<$($generics)*>)? (&mut self, $($arg: $type),*) -> Result<()> $(where $($bound: $trait),+)? {
                self.writable(stringify!($name))?.$name($($arg),*)
            }
        )* }
    };
}
in_place! {
    /// Writes the values of a tensor, view, expression or number here, stretching sizes of 1.
    ///
    /// # Errors
    /// [`Error::Sizes`](crate::Error::Sizes) when they do not stretch to these sizes.
    fn assign(values: impl Operand<T, RANK, D>) = |view| eval_into("assign", &values.into_expr(), view);

    /// Sets every element.
    ///
    /// # Errors
    /// Those of the device.
    fn fill(value: T) = |view| eval_into("fill", &Operand::<T, RANK, D>::into_expr(value), view);

    /// Applies an operator of one operand in place.
    ///
    /// # Errors
    /// Those of the device.
    fn map_in_place[F: Op<(T,), Out = T>](operator: F) = |view| {
        let _ = operator; // its type is the operator
        update::<F, T, RANK, D>(view)
    };

    /// `self ← operator(self, other)`, in place; `other` stretches to these sizes.
    ///
    /// # Errors
    /// [`Error::Sizes`](crate::Error::Sizes) when it does not.
    fn zip_in_place[F: Op<(T, U), Out = T>, U: Element](operator: F, other: impl Operand<U, RANK, D>) = |view| {
        let _ = operator;
        update_with::<F, T, U, RANK, D, _>(view, &other.into_expr())
    };
}

impl<T: Element, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// The parts one after the other along axis `A`, in new memory. Along a new axis, insert it first.
    ///
    /// # Errors
    /// [`Error::Value`] for no parts at all, or parts whose sizes differ along another axis;
    /// [`Error::OutOfMemory`], and those of the device.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([[1, 2], [3, 4]]), Tensor::from([[5, 6]]));
    /// assert_eq!(Tensor::concat(&[x.view(), y.view()], Axis::<0>)?, Tensor::from([[1, 2], [3, 4], [5, 6]]));
    /// let stacked = Tensor::concat(&[x.insert_axis(Axis::<0>), x.insert_axis(Axis::<0>)], Axis::<0>)?;
    /// assert_eq!(stacked.size(), [2, 2, 2]);
    /// let error = Tensor::concat(&[x.view(), y.view()], Axis::<1>).unwrap_err();
    /// assert_eq!(error.to_string(), "concat: sizes [2, 2] and [1, 2] differ beside axis 1");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "stack", alias = "cat")]
    pub fn concat<const A: usize>(parts: &[TensorView<'_, T, RANK, D>], axis: Axis<A>) -> Result<Self>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let op = "concat";
        let first = parts.first().ok_or_else(|| Error::Value { op, what: text(format_args!("there are no parts")) })?;
        let mut size = first.size();
        for part in &parts[1..] {
            let (left, right) = (first.size(), part.size());
            if (0..RANK).any(|axis| axis != A && left.0[axis] != right.0[axis]) {
                return Err(Error::Value { op, what: text(format_args!("sizes {left} and {right} differ beside axis {A}")) });
            }
            size.0[A] = size.0[A].saturating_add(right.0[A]);
        }
        let mut out = Tensor::zeros(size, first.device())?;
        let mut rest = out.view_mut()?;
        for part in parts {
            let (mut here, after) = rest.split_at_mut(axis, part.size().0[A])?;
            here.assign(*part)?;
            rest = after;
        }
        Ok(out)
    }
}
