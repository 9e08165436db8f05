//! Sums, products, remainders, extremes, bits; and the operators of Rust, `+ - * /`, `+=`, for tensors and expressions.
//!
//! Imports: `error`, `element`, `kernel`, `device`, `tensor`, `expr`.

use super::operators;
use crate::device::Device;
use crate::element::{Element, Number};
use crate::error::Result;
use crate::expr::{Expr, Lazy, Operand, eval, update_with};
use crate::kernel::{Body, Call, Op, Param};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::ops;

operators! {
    /// Operators of two numbers, and `neg`, `square`, `abs`. Integers wrap; an integer divided by 0 is 0.
    pub trait Arithmetic;
    /// `x + y`.
    fn add = Add(x, y) where Number { x + y }
    /// `x − y`.
    fn sub = Sub(x, y) where Number { x - y }
    /// `x · y`.
    fn mul = Mul(x, y) where Number { x * y }
    /// `x / y`; truncated for integers, 0 for an integer divisor of 0.
    fn div = Div(x, y) where Number { x / y }
    /// The remainder with the sign of `x`, as Rust's `%`; 0 for an integer divisor of 0.
    fn rem = Rem(x, y) where Comparable { x % y }
    /// The larger; NaN if either is, +0 above −0 (IEEE 754-2019 `maximum`).
    fn maximum = Maximum(x, y) where Comparable { x.max(y) }
    /// The smaller; NaN if either is, −0 below +0 (IEEE 754-2019 `minimum`).
    fn minimum = Minimum(x, y) where Comparable { x.min(y) }
    /// `−x`; wraps for the smallest integer and for unsigned ones.
    fn neg = Neg(x) where Number { -x }
    /// `x · x`.
    fn square = Square(x) where Number { x * x }
    /// `1 / x`.
    fn recip = Recip(x) where Float { 1.0 / x }
    /// The absolute value; wraps for the smallest integer.
    fn abs = Abs(x) where Comparable {
        // An unsigned number is below its own negative; −0 and NaN take the second way.
        x.gt(Lane::zero()).select(x, -x.min(-x))
    }
    /// −1, 0 or 1 by sign; NaN for NaN, 0 for both zeros.
    fn signum = Signum(x) where Comparable {
        let sign = x.gt(Lane::zero()).select(Lane::one(), Lane::zero());
        let sign = x.lt(Lane::zero()).select(Lane::zero() - Lane::one(), sign);
        x.is_nan().select(x, sign)
    }
    /// `x & y`, bit by bit.
    fn bit_and = BitAnd(x, y) where Bitwise { x & y }
    /// `x | y`, bit by bit.
    fn bit_or = BitOr(x, y) where Bitwise { x | y }
    /// `x ^ y`, bit by bit.
    fn bit_xor = BitXor(x, y) where Bitwise { x ^ y }
    /// `!x`, bit by bit; the other truth value of a boolean.
    fn not = Not(x) where Bitwise { !x }
}

/// `F(x, other)` in the memory of `x` when nobody else has it and the result fits, in new memory otherwise.
fn reuse<F, T, const RANK: usize, D, E>(mut x: Tensor<T, RANK, D>, other: E) -> Result<Tensor<T, RANK, D>>
where
    T: Element,
    D: Device,
    F: Op<(T, T), Out = T>,
    E: Expr<RANK, D, Body: Body<Out = T>>,
{
    let in_place = match x.writable(F::NAME) {
        Ok(mut view) => update_with::<F, T, T, RANK, D, E>(&mut view, &other).is_ok(),
        Err(_) => false,
    };
    if in_place {
        return Ok(x);
    }
    eval(F::NAME, &Call::<F, _>::new((x.view(), other)), x.device())
}

/// The value, or a panic with the error's text at the place that called the operator (a closure would be that place).
#[track_caller]
fn sure<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// The operators of Rust panic, with the text of the named functions' errors; use `x.add(&y)?` where sizes may be wrong.
macro_rules! std_operators {
    ($($op:ident $method:ident $assign:ident $assign_method:ident;)*) => { $(
        impl<T: Number, const RANK: usize, D: Device, O: Operand<T, RANK, D>> ops::$op<O> for &Tensor<T, RANK, D> {
            type Output = Tensor<T, RANK, D>;
            #[track_caller]
            fn $method(self, other: O) -> Self::Output {
                ops::$op::$method(self.view(), other)
            }
        }
        impl<T: Number, const RANK: usize, D: Device, O: Operand<T, RANK, D>> ops::$op<O> for TensorView<'_, T, RANK, D> {
            type Output = Tensor<T, RANK, D>;
            #[track_caller]
            fn $method(self, other: O) -> Self::Output {
                sure(eval(stringify!($method), &Call::<$op, _>::new((self, other.into_expr())), self.device()))
            }
        }
        impl<T: Number, const RANK: usize, D: Device, O: Operand<T, RANK, D>> ops::$op<O> for Tensor<T, RANK, D> {
            type Output = Tensor<T, RANK, D>;
            #[track_caller]
            fn $method(self, other: O) -> Self::Output {
                sure(reuse::<$op, T, RANK, D, _>(self, other.into_expr()))
            }
        }
        impl<'a, T: Number, const RANK: usize, D: Device, E, O> ops::$op<O> for Lazy<'a, T, RANK, D, E>
        where
            E: Expr<RANK, D, Body: Body<Out = T>>,
            O: Operand<T, RANK, D>,
        {
            type Output = Lazy<'a, T, RANK, D, Call<$op, (E, O::Expr)>>;
            fn $method(self, other: O) -> Self::Output {
                self.then(|expr| Call::new((expr, other.into_expr())))
            }
        }
        impl<T: Number, const RANK: usize, D: Device, O: Operand<T, RANK, D>> ops::$assign<O> for Tensor<T, RANK, D> {
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                let mut view = sure(self.writable(stringify!($assign_method)));
                ops::$assign::$assign_method(&mut view, other);
            }
        }
        impl<T: Number, const RANK: usize, D: Device, O: Operand<T, RANK, D>> ops::$assign<O> for TensorViewMut<'_, T, RANK, D> {
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                sure(update_with::<$op, T, T, RANK, D, _>(self, &other.into_expr()));
            }
        }
    )* };
}
std_operators! {
    Add add AddAssign add_assign;
    Sub sub SubAssign sub_assign;
    Mul mul MulAssign mul_assign;
    Div div DivAssign div_assign;
}

/// `-x`, of what has memory.
macro_rules! negations {
    ($($receiver:ty, |$x:ident| $view:expr;)*) => { $(
        impl<T: Number, const RANK: usize, D: Device> ops::Neg for $receiver {
            type Output = Tensor<T, RANK, D>;
            #[track_caller]
            fn neg(self) -> Self::Output {
                let $x = self;
                sure(Arithmetic::neg($view))
            }
        }
    )* };
}
negations! {
    &Tensor<T, RANK, D>, |x| x;
    Tensor<T, RANK, D>, |x| &x;
    TensorView<'_, T, RANK, D>, |x| x;
}
impl<'a, T: Number, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> ops::Neg for Lazy<'a, T, RANK, D, E> {
    type Output = Lazy<'a, T, RANK, D, Call<Neg, (E,)>>;
    fn neg(self) -> Self::Output {
        self.then(|expr| Call::new((expr,)))
    }
}

/// Numbers on the left: `1.0 - &x`. One row a type, since the operators' traits are not ours.
macro_rules! left_numbers {
    ($($t:ty)*) => { $(left_numbers!(@ops $t: Add add Sub sub Mul mul Div div);)* };
    (@ops $t:ty: $($op:ident $method:ident)*) => { $(
        impl<const RANK: usize, D: Device> ops::$op<TensorView<'_, $t, RANK, D>> for $t {
            type Output = Tensor<$t, RANK, D>;
            #[track_caller]
            fn $method(self, x: TensorView<'_, $t, RANK, D>) -> Self::Output {
                sure(eval(stringify!($method), &Call::<$op, _>::new((Param(self), x)), x.device()))
            }
        }
        impl<const RANK: usize, D: Device> ops::$op<&Tensor<$t, RANK, D>> for $t {
            type Output = Tensor<$t, RANK, D>;
            #[track_caller]
            fn $method(self, x: &Tensor<$t, RANK, D>) -> Self::Output {
                ops::$op::$method(self, x.view())
            }
        }
        impl<const RANK: usize, D: Device> ops::$op<Tensor<$t, RANK, D>> for $t {
            type Output = Tensor<$t, RANK, D>;
            #[track_caller]
            fn $method(self, x: Tensor<$t, RANK, D>) -> Self::Output {
                ops::$op::$method(self, x.view())
            }
        }
        impl<'a, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = $t>>> ops::$op<Lazy<'a, $t, RANK, D, E>> for $t {
            type Output = Lazy<'a, $t, RANK, D, Call<$op, (Param<$t>, E)>>;
            fn $method(self, x: Lazy<'a, $t, RANK, D, E>) -> Self::Output {
                x.then(|expr| Call::new((Param(self), expr)))
            }
        }
    )* };
}
left_numbers!(f32 f64 half::f16 half::bf16 i8 i16 i32 i64 u8 u16 u32 u64 num_complex::Complex<f32> num_complex::Complex<f64>);
