//! `Lazy`: an elementwise computation that has not run yet.
// Imports: `error`, `dim`, `rank`, `element`, `kernel`, `device`, `tensor`.

use super::apply::OperandTuple;
use super::eval::{eval, eval_at, eval_into};
use super::in_place::Join;
use super::methods::{Elementwise, Reduce, Scan, Zip};
use super::operand::{Expr, Operand, RightOperand, RowReduceExpr, joint, marked_axes, marked_axis};
use super::reduce::{reduce, reduce_at, reduce_keepdims, scan};
use crate::device::Device;
use crate::dim::{Dim, MarkedAxes};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Cached, Call, ElementTuple, Op, Reducer};
use crate::rank::{HasAxes, RankMinusOne, RemoveAxes};
use crate::tensor::other_names::{NamesOfTensors, OtherNames};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};
use std::marker::PhantomData;

/// The tuple `(X, O…)`.
type Prepended<X, O> = <(X,) as Join<O>>::Joined;

/// An elementwise computation that has not run yet: `eval` or a reduction runs all of it in one pass over
/// memory.
///
/// Element, rank and device are part of its type: a mismatch is reported at the operator, not at `eval`.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let (a, b) = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([4.0, 5.0, 6.0]));
/// let y = (a.lazy() * &b + 1.0).sqrt().eval()?;            // one kernel, no intermediate tensors
/// let d = (a.lazy() - &b).square().sum(All)?.item()?;      // fused into the reduction
/// assert_eq!((y.to_vec()?[0], d), (5.0_f64.sqrt(), 27.0));
/// # Ok::<(), rankform::Error>(())
/// ```
/// A function from expressions to an expression fuses with the code of its caller. It names them by
/// [`Expr`](crate::expr::Expr), or takes every receiver of operators
/// ([`Elementwise`](crate::expr::Elementwise)):
/// ```
/// use rankform::expr::{Elementwise, Expr, Lazy};
/// use rankform::{kernel::Body, ops::Square, prelude::*};
/// /// 1 where `x` is 0, and less beside it.
/// fn bump<'a, const RANK: usize, E>(
///     x: Lazy<'a, f32, RANK, Cpu, E>,
/// ) -> Lazy<'a, f32, RANK, Cpu, impl Expr<RANK, Cpu, Body: Body<Out = f32>> + use<RANK, E>>
/// where
///     E: Expr<RANK, Cpu, Body: Body<Out = f32>>,
/// {
///     (-x.square()).exp()
/// }
/// /// A tensor's square is a tensor, an expression's a longer one.
/// fn squared<const RANK: usize, X: Elementwise<f32, RANK, Cpu>>(x: X) -> X::Mapped<Square> {
///     x.square()
/// }
/// let x = Tensor::from([0.0_f32, 1.0]);
/// assert_eq!(bump(x.lazy() - 1.0).sum(All)?.item()?, bump(x.lazy()).sum(All)?.item()?); // one pass each
/// assert_eq!(squared(&x)?.to_vec()?, [0.0, 1.0]);
/// assert_eq!(squared(x.lazy() + 1.0).eval()?.to_vec()?, [1.0, 4.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[must_use = "a lazy expression computes nothing until `eval`, `eval_into` or a reduction"]
pub struct Lazy<'a, T, const RANK: usize, D: Device, E> {
    expr: E,
    device: &'a D,
    _element: PhantomData<T>,
}

impl<T, const RANK: usize, D: Device, E> OtherNames for Lazy<'_, T, RANK, D, E> {}
impl<T, const RANK: usize, D: Device, E> NamesOfTensors for Lazy<'_, T, RANK, D, E> {}

impl<T, const RANK: usize, D: Device, E: Copy> Clone for Lazy<'_, T, RANK, D, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const RANK: usize, D: Device, E: Copy> Copy for Lazy<'_, T, RANK, D, E> {}

impl<T, const RANK: usize, D: Device> Tensor<T, RANK, D> {
    /// Begins an expression: operators on it are fused into one pass.
    #[inline]
    pub fn lazy(&self) -> Lazy<'_, T, RANK, D, TensorView<'_, T, RANK, D>> {
        self.view().lazy()
    }
}

impl<'a, T, const RANK: usize, D: Device> TensorView<'a, T, RANK, D> {
    /// Begins an expression: operators on it are fused into one pass.
    #[inline]
    pub fn lazy(self) -> Lazy<'a, T, RANK, D, TensorView<'a, T, RANK, D>> {
        Lazy { expr: self, device: self.device(), _element: PhantomData }
    }
}

impl<'a, T, const RANK: usize, D: Device, E> Lazy<'a, T, RANK, D, E> {
    /// The expression that `make` builds around this one.
    #[inline]
    pub(crate) fn then<U, X>(self, make: impl FnOnce(E) -> X) -> Lazy<'a, U, RANK, D, X> {
        Lazy { expr: make(self.expr), device: self.device, _element: PhantomData }
    }
}

impl<'a, T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
    Lazy<'a, T, RANK, D, E>
{
    /// Computes the expression into a new tensor.
    ///
    /// # Cost
    /// One allocation, one pass over the operands, one launch on a device that launches.
    ///
    /// # Errors
    /// [`Error::Sizes`](crate::Error::Sizes), [`Error::Device`](crate::Error::Device),
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::Operands`](crate::Error::Operands) beyond
    /// 23 operands (one that occurs twice counts twice, and is loaded once),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    #[inline]
    pub fn eval(self) -> Result<Tensor<T, RANK, D>> {
        eval("eval", &self.expr, self.device)
    }

    /// Computes the expression into any destination of exactly its sizes.
    pub(crate) fn eval_at<P: Destination<T, RANK, D>>(
        self,
        op: &'static str,
        destination: P,
    ) -> Result<P::Done> {
        eval_at(op, &self.expr, self.device, destination)
    }

    /// Reduces the expression into any destination; errors name `op`.
    pub(crate) fn reduce_at<Q: Reducer<T>, AXES, const M: usize, P: Destination<Q::Out, M, D>>(
        self,
        op: &'static str,
        reducer: Q,
        axes: AXES,
        destination: P,
    ) -> Result<P::Done>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        reduce_at(reducer, &self.expr, self.device, marked_axes(axes), destination)
            .map_err(|error| error.with_op(op))
    }

    /// Applies an operator of up to twelve operands: this expression, and further tensors, views, expressions
    /// and numbers.
    ///
    /// It fuses with the operators before and after it, also into reductions and scans.
    /// [`apply`](super::apply) does the same for a tuple of operands, at once.
    ///
    /// # Shapes
    /// Sizes of 1 broadcast to the joint size.
    ///
    /// # Errors
    /// None here; those of [`eval`](Lazy::eval) when the expression runs.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// elementwise! {
    ///     /// Straight line from `a` to `b`.
    ///     fn mix(a, b, t) { a + (b - a) * t }
    /// }
    /// let (x, y) = (Tensor::from([1.0, 10.0]), Tensor::from([3.0, 20.0]));
    /// assert_eq!(x.lazy().apply(mix, (&y, 0.5)).eval()?.to_vec()?, [2.0, 15.0]);
    /// let sum = (x.lazy() * 2.0).apply(mix, (y.lazy() + 1.0, &x)).sum(All)?; // one pass
    /// assert_eq!(sum.item()?, 4.0 + 30.0);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn apply<F, IN, O>(
        self,
        _: F,
        operands: O,
    ) -> Lazy<'a, F::Out, RANK, D, Call<F, <Prepended<Self, O> as OperandTuple<IN, RANK, D>>::Exprs>>
    where
        F: Op<IN>,
        IN: ElementTuple,
        (Self,): Join<O, Joined: OperandTuple<IN, RANK, D>>,
    {
        let device = self.device;
        Lazy { expr: Call::new((self,).join(operands).into_exprs()), device, _element: PhantomData }
    }

    /// The same expression, whose values along a row are computed once and cached, even if it occurs several
    /// times. This pays off for an expression that is expensive, is reduced along the row, and is used again
    /// with the result.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[0.0, 3.0_f64.ln()], [1.0, 1.0]]);
    /// let powers = (x.lazy() - x.max_along(Axis::<1>)).exp().cached();
    /// let softmax = (powers / powers.sum_along(Axis::<1>)).eval()?;
    /// assert!((softmax[[0, 1]] - 0.75).abs() < 1e-15);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn cached(self) -> Lazy<'a, T, RANK, D, Cached<E>> {
        self.then(Cached::new)
    }

    /// Computes the expression into an existing tensor or exclusive view of the same sizes, or of sizes to
    /// which it broadcasts. No allocation.
    ///
    /// # Errors
    /// As [`Lazy::eval`]; [`Error::Output`](crate::Error::Output) when it does not broadcast to the sizes of
    /// `out`, [`Error::Shared`](crate::Error::Shared) when `out` has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let mut y = Tensor::<f64, 2>::zeros([2, 2], &Cpu)?;
    /// x.lift::<2>().lazy().eval_into(&mut y)?;
    /// (x.lazy() * 10.0).eval_into(y.view_mut()?.slice((1, ..))?)?;
    /// assert_eq!(y, Tensor::from([[1.0, 2.0], [10.0, 20.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[inline]
    pub fn eval_into<'o>(self, out: impl IntoViewMut<'o, T, RANK, D>) -> Result<()>
    where
        D: 'o,
    {
        eval_into("eval_into", &self.expr, &mut out.into_view_mut("eval_into")?)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> Operand<T, RANK, D>
    for Lazy<'_, T, RANK, D, E>
{
    type Expr = E;
    fn into_expr(self) -> E {
        self.expr
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> RightOperand<T, RANK, D>
    for Lazy<'_, T, RANK, D, E>
{
    type Expr<'e>
        = E
    where
        Self: 'e;
    fn expr(&self) -> E {
        self.expr
    }
}

impl<'a, T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
    Elementwise<T, RANK, D> for Lazy<'a, T, RANK, D, E>
{
    type Mapped<F: Op<(T,)>> = Lazy<'a, F::Out, RANK, D, Call<F, (E,)>>;
    fn map<F: Op<(T,)>>(self, _: F) -> Self::Mapped<F> {
        self.then(|expr| Call::new((expr,)))
    }
}

impl<'a, T, U, const RANK: usize, D, E, OTHER> Zip<T, U, RANK, D, OTHER> for Lazy<'a, T, RANK, D, E>
where
    T: Element,
    U: Element,
    D: Device,
    E: Expr<RANK, D, Body: Body<Out = T>>,
    OTHER: Operand<U, RANK, D>,
{
    type Zipped<F: Op<(T, U)>> = Lazy<'a, F::Out, RANK, D, Call<F, (E, OTHER::Expr)>>;
    fn zip<F: Op<(T, U)>>(self, _: F, other: OTHER) -> Self::Zipped<F> {
        self.then(|expr| Call::new((expr, other.into_expr())))
    }
}

impl<'a, T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> Reduce<T, RANK, D>
    for Lazy<'a, T, RANK, D, E>
{
    type Broadcast<Q: Reducer<T>> = Lazy<'a, Q::Out, RANK, D, RowReduceExpr<Q, E, RANK>>;
    fn along<Q: Reducer<T>, AXES>(self, _: Q, axes: AXES) -> Self::Broadcast<Q>
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        self.then(|expr| RowReduceExpr::new(expr, MarkedAxes::of(axes)))
    }
    fn reduce_keepdims<Q: Reducer<T>, AXES>(self, reducer: Q, axes: AXES) -> Result<Tensor<Q::Out, RANK, D>>
    where
        Dim<RANK>: HasAxes<AXES>,
    {
        reduce_keepdims(reducer, &self.expr, self.device, MarkedAxes::of(axes))
    }
    fn reduce<Q: Reducer<T>, AXES, const M: usize>(
        self,
        reducer: Q,
        axes: AXES,
    ) -> Result<Tensor<Q::Out, M, D>>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
    {
        reduce(reducer, &self.expr, self.device, marked_axes(axes))
    }
    fn reduce_into<'o, Q: Reducer<T>, AXES, const M: usize>(
        self,
        reducer: Q,
        axes: AXES,
        out: impl IntoViewMut<'o, Q::Out, M, D>,
    ) -> Result<()>
    where
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
        D: 'o,
    {
        self.reduce_at(Q::NAME, reducer, axes, Existing(out))
    }
    fn reduce_axis<Q: Reducer<T>, const M: usize>(
        self,
        reducer: Q,
        axis: usize,
    ) -> Result<Tensor<Q::Out, M, D>>
    where
        Dim<RANK>: RankMinusOne<Output = Dim<M>>,
    {
        reduce(reducer, &self.expr, self.device, marked_axis(Q::NAME, axis, || joint(&self.expr))?)
    }
}

impl<T: Element, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>> Scan<T, RANK, D>
    for Lazy<'_, T, RANK, D, E>
{
    fn scan_by<Q: Reducer<T>>(
        self,
        reducer: Q,
        axis: usize,
        exclusive: bool,
    ) -> Result<Tensor<Q::Out, RANK, D>> {
        marked_axis(Q::NAME, axis, || joint(&self.expr))?;
        scan(reducer, &self.expr, self.device, (axis, exclusive), Allocate)
    }
    fn scan_by_into<'o, Q: Reducer<T>>(
        self,
        reducer: Q,
        axis: usize,
        exclusive: bool,
        out: impl IntoViewMut<'o, Q::Out, RANK, D>,
    ) -> Result<()>
    where
        D: 'o,
    {
        marked_axis(Q::NAME, axis, || joint(&self.expr))?;
        scan(reducer, &self.expr, self.device, (axis, exclusive), Existing(out))
    }
}
