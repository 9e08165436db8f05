//! Integer division that reports an error for quotients that do not exist.
// Imports: `error`, `dim`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::All;
use crate::element::{Compute, Integer};
use crate::error::{Error, Result, text};
use crate::expr::{Expr, IntoView, Operand};
use crate::kernel::{Body, Call, Op};
use crate::ops::{Cast as _, Div, Reductions as _, Replace};
use crate::scalar::{Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// Whether the quotient `x / y` does not exist in the type: `y` is 0, or `y` is −1 and `x` the smallest
/// integer.
#[derive(Clone, Copy, Debug)]
struct Undefined;

impl<T: Integer> Op<(T, T)> for Undefined {
    const NAME: &'static str = "undefined_quotient";
    const CHEAP: bool = true;
    type Out = bool;
    #[inline(always)]
    fn call<L: Lanes>((x, y): (Lane<L, Compute<T>>, Lane<L, Compute<T>>)) -> Lane<L, bool> {
        let negative_one = y.lt(Lane::zero()) & (y + Lane::one()).eq(Lane::zero());
        y.eq(Lane::zero()) | (negative_one & x.eq(Lane::lowest()))
    }
}

fn divided<T: Integer, const RANK: usize, D: Device, Y, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: Y,
    place: P,
) -> Result<P::Done>
where
    Y: Expr<RANK, D, Body: Body<Out = T>>,
{
    let undefined = || x.lazy().then(|x| Call::<Undefined, _>::new((x, y)));
    match undefined().any(All).and_then(|any: Tensor<bool, 0, D>| any.item()) {
        // A device without data divides nothing.
        Ok(false) | Err(Error::NoData { .. }) => {}
        Ok(true) => return Err(refusal(op, x, y)),
        Err(error) => return Err(error.with_op(op)),
    }
    x.lazy().then(|x| Call::<Div, _>::new((x, y))).eval_at(op, place)
}

/// The error with the operands of the first quotient that does not exist.
#[cold]
fn refusal<T: Integer, const RANK: usize, D: Device, Y>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    y: Y,
) -> Error
where
    Y: Expr<RANK, D, Body: Body<Out = T>>,
{
    let found = || {
        let first =
            x.lazy().then(|x| Call::<Undefined, _>::new((x, y))).cast::<u8>().argmax(All)?.item()? as usize;
        let element = |whole: Tensor<T, RANK, D>| whole.reshape([whole.numel()])?.slice((first,))?.item();
        let left = x.lazy().then(|x| Call::<Replace, _>::new((y, x))).eval()?;
        let right = x.lazy().then(|x| Call::<Replace, _>::new((x, y))).eval()?;
        Ok((left.size().delinearize(first), element(left)?, element(right)?))
    };
    match found() {
        Ok((at, left, right)) => {
            Error::Value { op, what: text(format_args!("{left} / {right} at {at} is no {}", T::DTYPE)) }
        }
        Err(error) => error,
    }
}

/// Integer division with an error for quotients that do not exist, for tensors and views.
pub trait CheckedDivision<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// The truncated quotients of integers. The result is an error where a quotient does not exist: for a
    /// divisor of 0 (0 by `/`) and for the smallest integer divided by −1 (which wraps by `/`). `other` is a
    /// tensor, a number or an expression; sizes of 1 stretch.
    ///
    /// # Cost
    /// Two passes, the first of them over all operands to check them, and one wait for the device.
    ///
    /// # Errors
    /// [`Error::Value`] with the first such dividend and divisor and their index; those of elementwise
    /// operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([7, -7, 5]);
    /// assert_eq!(x.checked_div(&Tensor::from([2, 2, -1]))?.to_vec()?, [3, -3, -5]);
    /// let error = x.checked_div(&Tensor::from([2, 2, 0])).unwrap_err();
    /// assert_eq!(error.to_string(), "checked_div: 5 / 0 at [2] is no i32");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn checked_div(self, other: impl Operand<T, RANK, D>) -> Result<Tensor<T, RANK, D>>
    where
        T: Integer,
    {
        divided("checked_div", self.into_view(), other.into_expr(), Allocate)
    }

    /// As [`checked_div`](CheckedDivision::checked_div), into an existing tensor or exclusive view, which
    /// stays unchanged on an error. No allocation of a result.
    ///
    /// # Errors
    /// As [`checked_div`](CheckedDivision::checked_div); [`Error::Output`] when `out` has other sizes,
    /// [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([0_i64, 0]);
    /// Tensor::from([9_i64, -9]).checked_div_into(4, &mut y)?;
    /// assert_eq!(y.to_vec()?, [2, -2]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn checked_div_into<'o>(
        self,
        other: impl Operand<T, RANK, D>,
        out: impl IntoViewMut<'o, T, RANK, D>,
    ) -> Result<()>
    where
        T: Integer,
        D: 'o,
    {
        divided("checked_div_into", self.into_view(), other.into_expr(), Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> CheckedDivision<'a, T, RANK, D>
    for X
{
}
