//! The operators of Rust, `+ - * / %`, `+=`, `& | ^ << >>`, `-x`, `!x`, for tensors, views and lazy
//! expressions.
//!
//! On tensors and views they compute at once, and panic with the error text of the named methods; use
//! `x.add(&y)?` if the sizes may be wrong. On lazy expressions they build a longer expression.
// Imports: `error`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::element::{Bitwise, Element, Integer, Number, RealNumber};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Operand, RightOperand, eval, update_with};
use crate::kernel::{Body, Call, Op, Param};
use crate::ops::{Add, Arithmetic, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::ops;

/// `F(x, other)` in the memory of `x` if it has no other handle and the result fits; in new memory otherwise.
fn reuse<F, T, const RANK: usize, D, E>(mut x: Tensor<T, RANK, D>, other: E) -> Result<Tensor<T, RANK, D>>
where
    T: Element,
    D: Device,
    F: Op<(T, T), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    // The result must be dense and not frozen, whatever the layout of the operand.
    let fits = x.is_non_overlapping_and_dense() && !x.is_frozen();
    let in_place = match x.try_view_mut(F::NAME) {
        Ok(mut view) if fits => update_with::<F, T, T, RANK, D, E>(&mut view, &other).is_ok(),
        _ => false,
    };
    if in_place {
        return Ok(x);
    }
    eval(F::NAME, &Call::<F, _>::new((x.view(), other)), x.device())
}

/// The value, or a panic with the error's text, at the caller of the operator (a closure would report its own
/// place).
#[inline]
#[track_caller]
fn or_panic<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// `F(x, other)` in new memory.
#[inline]
#[track_caller]
fn binary<F, T, const RANK: usize, D, O>(x: TensorView<'_, T, RANK, D>, other: O) -> Tensor<T, RANK, D>
where
    T: Element,
    D: Device,
    F: Op<(T, T), Out = T>,
    O: RightOperand<T, RANK, D>,
{
    or_panic(eval(F::NAME, &Call::<F, _>::new((x, other.expr())), x.device()))
}

/// `F(x, other)` in the memory of `x`.
#[inline]
#[track_caller]
fn assign<F, T, const RANK: usize, D, O>(op: &'static str, x: &mut TensorViewMut<'_, T, RANK, D>, other: O)
where
    T: Element,
    D: Device,
    F: Op<(T, T), Out = T>,
    O: RightOperand<T, RANK, D>,
{
    or_panic(update_with::<F, T, T, RANK, D, _>(x, &other.expr()).map_err(|error| error.with_op(op)))
}

/// `F(number, x)`.
#[inline]
#[track_caller]
fn with_number_left<F, T, const RANK: usize, D>(
    number: T,
    x: TensorView<'_, T, RANK, D>,
) -> Tensor<T, RANK, D>
where
    T: Element,
    D: Device,
    F: Op<(T, T), Out = T>,
{
    or_panic(eval(F::NAME, &Call::<F, _>::new((Param(number), x)), x.device()))
}

/// `x + y`, `x += y` and the like, for every receiver. A tensor on the left gives its memory to the result.
macro_rules! binary_symbols {
    ($($class:ident: $op:ident $method:ident $assign:ident $assign_method:ident;)*) => { $(
        eager_binary_symbol! {
            $class $op $method: [&Tensor<T, RANK, D>, |x| x.view()] [TensorView<'_, T, RANK, D>, |x| x]
            [&TensorView<'_, T, RANK, D>, |x| *x]
        }
        impl<T: $class, const RANK: usize, D: Device, O: RightOperand<T, RANK, D>> ops::$op<O>
            for Tensor<T, RANK, D>
        {
            type Output = Tensor<T, RANK, D>;
            #[inline]
            #[track_caller]
            fn $method(self, other: O) -> Self::Output {
                or_panic(reuse::<$op, T, RANK, D, _>(self, other.expr()))
            }
        }
        impl<'a, T: $class, const RANK: usize, D: Device, E, O> ops::$op<O> for Lazy<'a, T, RANK, D, E>
        where
            E: Expr<RANK, D, Body: Body<Out = T>>,
            O: Operand<T, RANK, D>,
        {
            type Output = Lazy<'a, T, RANK, D, Call<$op, (E, O::Expr)>>;
            #[inline]
            fn $method(self, other: O) -> Self::Output {
                self.then(|expr| Call::new((expr, other.into_expr())))
            }
        }
        assign_symbol! { $class $op $assign $assign_method }
    )* };
}

/// The symbol that updates tensors and exclusive views.
macro_rules! assign_symbol {
    ($class:ident $op:ident $assign:ident $assign_method:ident) => {
        impl<T: $class, const RANK: usize, D: Device, O: RightOperand<T, RANK, D>> ops::$assign<O>
            for Tensor<T, RANK, D>
        {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                assign::<$op, T, RANK, D, O>(
                    stringify!($assign_method),
                    &mut or_panic(self.try_view_mut(stringify!($assign_method))),
                    other,
                );
            }
        }
        impl<T: $class, const RANK: usize, D: Device, O: RightOperand<T, RANK, D>> ops::$assign<O>
            for TensorViewMut<'_, T, RANK, D>
        {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                assign::<$op, T, RANK, D, O>(stringify!($assign_method), self, other);
            }
        }
    };
}

/// The binary symbol of tensors and views, which is computed at once.
macro_rules! eager_binary_symbol {
    ($class:ident $op:ident $method:ident: $([$receiver:ty, |$x:ident| $view:expr])*) => { $(
        impl<T: $class, const RANK: usize, D: Device, O: RightOperand<T, RANK, D>> ops::$op<O> for $receiver {
            type Output = Tensor<T, RANK, D>;
            #[inline]
            #[track_caller]
            fn $method(self, other: O) -> Self::Output {
                let $x = self;
                binary::<$op, T, RANK, D, O>($view, other)
            }
        }
    )* };
}
binary_symbols! {
    Number: Add add AddAssign add_assign;
    Number: Sub sub SubAssign sub_assign;
    Number: Mul mul MulAssign mul_assign;
    Number: Div div DivAssign div_assign;
    RealNumber: Rem rem RemAssign rem_assign;
    Integer: Shl shl ShlAssign shl_assign;
    Integer: Shr shr ShrAssign shr_assign;
    Bitwise: BitAnd bitand BitAndAssign bitand_assign;
    Bitwise: BitOr bitor BitOrAssign bitor_assign;
    Bitwise: BitXor bitxor BitXorAssign bitxor_assign;
}

/// `-x` and `!x`.
macro_rules! unary_symbols {
    ($($class:ident: $op:ident $method:ident;)*) => { $(
        eager_unary_symbol! {
            $class $op $method: [&Tensor<T, RANK, D>, |x| x] [Tensor<T, RANK, D>, |x| &x]
            [TensorView<'_, T, RANK, D>, |x| x] [&TensorView<'_, T, RANK, D>, |x| *x]
        }
        impl<'a, T: $class, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> ops::$op
            for Lazy<'a, T, RANK, D, E>
        {
            type Output = Lazy<'a, T, RANK, D, Call<$op, (E,)>>;
            fn $method(self) -> Self::Output {
                self.then(|expr| Call::new((expr,)))
            }
        }
    )* };
}

/// The unary symbol of tensors and views, which is computed at once.
macro_rules! eager_unary_symbol {
    ($class:ident $op:ident $method:ident: $([$receiver:ty, |$x:ident| $view:expr])*) => { $(
        impl<T: $class, const RANK: usize, D: Device> ops::$op for $receiver {
            type Output = Tensor<T, RANK, D>;
            #[inline]
            #[track_caller]
            fn $method(self) -> Self::Output {
                let $x = self;
                or_panic(Arithmetic::$method($view))
            }
        }
    )* };
}
unary_symbols! {
    Number: Neg neg;
    Bitwise: Not not;
}

/// Numbers on the left: `1.0 - &x`. One row per type, because the traits of `std::ops` are foreign.
macro_rules! left_numbers {
    ($($t:ty)*) => { $(left_numbers!(@ops $t: Add add Sub sub Mul mul Div div);)* };
    (@ops $t:ty: $($op:ident $method:ident)*) => { $(
        eager_left_number! {
            $t, $op $method: [TensorView<'_, $t, RANK, D>, |x| x] [&TensorView<'_, $t, RANK, D>, |x| *x]
            [&Tensor<$t, RANK, D>, |x| x.view()] [Tensor<$t, RANK, D>, |x| x.view()]
        }
        impl<'a, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = $t>>>
            ops::$op<Lazy<'a, $t, RANK, D, E>> for $t
        {
            type Output = Lazy<'a, $t, RANK, D, Call<$op, (Param<$t>, E)>>;
            fn $method(self, x: Lazy<'a, $t, RANK, D, E>) -> Self::Output {
                x.then(|expr| Call::new((Param(self), expr)))
            }
        }
    )* };
}

/// A number on the left of tensors and views, computed at once.
macro_rules! eager_left_number {
    ($t:ty, $op:ident $method:ident: $([$right:ty, |$x:ident| $view:expr])*) => { $(
        impl<const RANK: usize, D: Device> ops::$op<$right> for $t {
            type Output = Tensor<$t, RANK, D>;
            #[inline]
            #[track_caller]
            fn $method(self, right: $right) -> Self::Output {
                let $x = right;
                with_number_left::<$op, $t, RANK, D>(self, $view)
            }
        }
    )* };
}
left_numbers!(
    f32 f64 crate::element::f16 crate::element::bf16 i8 i16 i32 i64 u8 u16 u32 u64 num_complex::Complex<f32>
    num_complex::Complex<f64>
);
