//! Comparisons, logic, choices and casts.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::element::{Compute, Element};
use crate::error::Result;
use crate::expr::{Elementwise, Expr, Lazy, Operand, eval};
use crate::kernel::{Body, Call, Op};
use crate::ops::define::operators;
use crate::ops::functions::sign;
use crate::scalar::{Lane, Lanes, Prim};
use crate::tensor::{Tensor, TensorView};
use std::fmt;
use std::marker::PhantomData;

operators! {
    /// Comparisons, with booleans as results. Comparisons with NaN are false, except that NaN is unequal to
    /// everything.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([-1.0, f64::NAN, 3.0]);
    /// assert_eq!(x.greater(0.0)?.to_vec()?, [false, false, true]);
    /// assert_eq!(x.is_nan()?.count(All)?.item()?, 1);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub trait Comparisons;
    /// x = y.
    fn equal = Equal(x, y) -> bool where Element { x.eq(y) }
    /// x ≠ y.
    fn not_equal = NotEqual(x, y) -> bool where Element { x.ne(y) }
    /// x < y.
    fn less = Less(x, y) -> bool where Comparable { x.lt(y) }
    /// x ≤ y.
    fn less_equal = LessEqual(x, y) -> bool where Comparable { x.le(y) }
    /// x > y.
    fn greater = Greater(x, y) -> bool where Comparable { x.gt(y) }
    /// x ≥ y.
    fn greater_equal = GreaterEqual(x, y) -> bool where Comparable { x.ge(y) }
    /// Whether it is a NaN.
    fn is_nan = IsNan(x) -> bool where Comparable { x.is_nan() }
    /// Whether it is neither infinite nor NaN.
    fn is_finite = IsFinite(x) -> bool where Float { x.abs().lt(Lane::highest()) }
    /// Whether it is infinite.
    fn is_infinite = IsInfinite(x) -> bool where Float { x.abs().eq(Lane::highest()) }
    /// Whether the sign bit is set, including that of −0 and of a NaN.
    fn sign_bit = SignBit(x) -> bool where Float { sign(x).ne(Lane::zero()) }
    /// Whether both are nonzero, or `true`. NaN counts as nonzero.
    fn logical_and = LogicalAnd(x, y) -> bool where Element { x.cast::<bool>() & y.cast::<bool>() }
    /// Whether either is nonzero, or `true`.
    fn logical_or = LogicalOr(x, y) -> bool where Element { x.cast::<bool>() | y.cast::<bool>() }
    /// Whether exactly one of them is nonzero, or `true`.
    fn logical_xor = LogicalXor(x, y) -> bool where Element { x.cast::<bool>() ^ y.cast::<bool>() }
    /// Whether it is 0, or `false`.
    fn logical_not = LogicalNot(x) -> bool where Element { !x.cast::<bool>() }
}

/// `x` as an f32, rounded to odd: if it is not exact, the one of its two neighbors whose last bit is 1.
/// Rounding this f32 to a 16-bit float gives the same as rounding `x` once.
#[inline(always)]
fn to_odd<L: Lanes>(x: Lane<L, f64>) -> Lane<L, f32> {
    let nearest: Lane<L, f32> = x.cast();
    let back: Lane<L, f64> = nearest.cast();
    let bits = nearest.to_bits();
    let one = Lane::<L, u32>::one();
    let below = back.abs().gt(x.abs()).select(bits - one, bits);
    let inexact = back.ne(x) & nearest.abs().lt(Lane::highest());
    // The last bit is added rather than set, to keep the derivative: bits have none.
    let odd = Lane::from_bits(below | one) - Lane::from_bits(bits);
    inexact.select(nearest + odd, nearest)
}

/// The operator of [`Cast::cast`].
pub struct CastTo<U>(PhantomData<U>);

impl<U> Clone for CastTo<U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U> Copy for CastTo<U> {}
impl<U> fmt::Debug for CastTo<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CastTo")
    }
}

impl<T: Element, U: Element> Op<(T,)> for CastTo<U> {
    const CHEAP: bool = true;
    const NAME: &'static str = "cast";
    type Out = U;
    #[inline(always)]
    fn call<L: Lanes>((x,): (Lane<L, Compute<T>>,)) -> Lane<L, Compute<U>> {
        if U::DTYPE.is_half() && <Compute<T> as Prim>::DTYPE.is_wider_than_f32() {
            return to_odd(x.cast()).cast();
        }
        x.cast()
    }
}

/// Conversion of elements.
pub trait Cast<T, const RANK: usize, D: Device>: Elementwise<T, RANK, D> {
    /// The same numbers as elements `U`.
    ///
    /// Float to integer saturates and NaN gives 0; integer to integer wraps; a number is `true` unless it is
    /// 0; a complex number loses its imaginary part when it becomes real; floats round to nearest even, once
    /// (64-bit integers become 16-bit floats through f64).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.9, -1.9, 300.0, f64::NAN]);
    /// assert_eq!(x.cast::<u8>()?.to_vec()?, [1, 0, 255, 0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn cast<U: Element>(self) -> Self::Mapped<CastTo<U>>
    where
        T: Element,
    {
        self.map(CastTo(PhantomData))
    }
}
impl<X: Elementwise<T, RANK, D>, T, const RANK: usize, D: Device> Cast<T, RANK, D> for X {}

/// The operator of `select`: one of two values, chosen by a mask.
#[derive(Clone, Copy, Debug)]
pub struct Select;

impl<T: Element> Op<(bool, T, T)> for Select {
    const CHEAP: bool = true;
    const NAME: &'static str = "select";
    type Out = T;
    #[inline(always)]
    fn call<L: Lanes>(
        (mask, yes, no): (Lane<L, bool>, Lane<L, Compute<T>>, Lane<L, Compute<T>>),
    ) -> Lane<L, Compute<T>> {
        mask.select(yes, no)
    }
}

impl<const RANK: usize, D: Device> Tensor<bool, RANK, D> {
    /// `yes` where the mask holds, `no` elsewhere; sizes of 1 stretch, and either value may be a number.
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, -2.0, 3.0]);
    /// assert_eq!(x.greater(0.0)?.select(&x, 0.0)?.to_vec()?, [1.0, 0.0, 3.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn select<T: Element>(
        &self,
        yes: impl Operand<T, RANK, D>,
        no: impl Operand<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        self.view().select(yes, no)
    }
}

impl<const RANK: usize, D: Device> TensorView<'_, bool, RANK, D> {
    /// `yes` where the mask holds, `no` elsewhere; see [`Tensor::select`].
    ///
    /// # Errors
    /// As every elementwise operator: [`Error::Sizes`](crate::Error::Sizes), …
    pub fn select<T: Element>(
        self,
        yes: impl Operand<T, RANK, D>,
        no: impl Operand<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        eval("select", &Call::<Select, _>::new((self, yes.into_expr(), no.into_expr())), self.device())
    }
}

impl<'a, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = bool>>> Lazy<'a, bool, RANK, D, E> {
    /// `yes` where the mask holds, `no` elsewhere; both are evaluated.
    pub fn select<T: Element, Y: Operand<T, RANK, D>, N: Operand<T, RANK, D>>(
        self,
        yes: Y,
        no: N,
    ) -> Lazy<'a, T, RANK, D, Call<Select, (E, Y::Expr, N::Expr)>> {
        self.then(|mask| Call::new((mask, yes.into_expr(), no.into_expr())))
    }
}
