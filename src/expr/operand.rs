//! Operands of operators: tensors, views, lazy expressions, numbers.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`.

use crate::device::Device;
use crate::dim::{AxisAt, Dim, MarkedAxes};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::kernel::{Body, Cached, Call, Input, Op, Param, Reducer, RowReduce};
use crate::layout::joint_size;
use crate::rank::RemoveAxes;
use crate::tensor::{Leaf, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A tree of operators over tensors and numbers of one rank and device.
///
/// Law, on which `eval` relies: `leaves` visits operands in the order in which `Body::eval` loads them, each
/// with its element type. The trait is sealed to keep it.
pub trait Expr<const RANK: usize, D: Device>: Copy + Sealed {
    /// The kernel.
    type Body: Body;
    /// The kernel with its run-time parameters.
    fn body(&self) -> Self::Body;
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(&'s self, visit: &mut impl Leaves<'s, RANK, D>);
    /// The expression as a view, if it is one.
    #[doc(hidden)]
    fn as_view(&self) -> Option<TensorView<'_, <Self::Body as Body>::Out, RANK, D>> {
        None
    }
    /// Adds the axes along which parts of the expression are reduced.
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn rows(&self, _: &mut RowAxes<RANK>) {}
}

/// A visitor of the operands of an expression, in order.
pub(crate) trait Leaves<'a, const RANK: usize, D: Device> {
    fn add(&mut self, leaf: Leaf<'a, RANK, D>);
}

impl<'a, const RANK: usize, D: Device, F: FnMut(Leaf<'a, RANK, D>)> Leaves<'a, RANK, D> for F {
    fn add(&mut self, leaf: Leaf<'a, RANK, D>) {
        self(leaf);
    }
}

/// The axes of a set, marked.
#[inline(always)]
pub(super) fn marked_axes<AXES, const RANK: usize>(axes: AXES) -> [bool; RANK]
where
    Dim<RANK>: RemoveAxes<AXES>,
{
    MarkedAxes::of(axes).marked // by its bound, the rank has all of these axes
}

/// The axis of an operation along one axis known at run time, marked.
pub(super) fn marked_axis<const RANK: usize>(
    op: &'static str,
    axis: usize,
    size: impl FnOnce() -> Dim<RANK>,
) -> Result<[bool; RANK]> {
    MarkedAxes::of(AxisAt(axis)).found(op, size)
}

/// The joint sizes of the operands of an expression; an operand that does not broadcast is left out.
#[inline(never)]
pub(super) fn joint<const RANK: usize, D: Device, E: Expr<RANK, D>>(expr: &E) -> Dim<RANK> {
    let mut size = Dim([1; RANK]);
    expr.leaves(&mut |leaf: Leaf<'_, RANK, D>| {
        size = joint_size("", size, leaf.layout().size()).unwrap_or(size)
    });
    size
}

/// The axes along which the parts of one expression are reduced: one set, or none.
pub(crate) struct RowAxes<const RANK: usize> {
    op: &'static str,
    /// The sizes of the whole expression.
    size: Dim<RANK>,
    found: Result<Option<[bool; RANK]>>,
}

impl<const RANK: usize> RowAxes<RANK> {
    pub(super) fn new(op: &'static str, size: Dim<RANK>) -> Self {
        RowAxes { op, size, found: Ok(None) }
    }

    /// # Errors
    /// [`Error::Value`] when two parts are reduced along different axes, or when a part is shorter than the
    /// whole expression.
    pub(super) fn found(self) -> Result<Option<[bool; RANK]>> {
        self.found
    }

    /// Adds a part of sizes `size`, reduced along the marked axes.
    pub(super) fn add(&mut self, along: MarkedAxes<RANK>, size: Dim<RANK>) {
        let Ok(before) = self.found else { return };
        let op = self.op;
        let along = match along.found(op, || size) {
            Ok(along) => along,
            Err(error) => {
                self.found = Err(error);
                return;
            }
        };
        if before.is_some_and(|before| before != along) {
            let what = text(format_args!(
                "one expression is reduced along different axes; evaluate one of its parts first"
            ));
            self.found = Err(Error::Value { op, what });
        } else if (0..RANK).any(|axis| along[axis] && size.0[axis] != self.size.0[axis]) {
            let what = text(format_args!(
                "a part of sizes {size} is reduced along an axis that has another size in the whole, of \
                    sizes {}; evaluate that part first",
                self.size
            ));
            self.found = Err(Error::Value { op, what });
        } else {
            self.found = Ok(Some(along));
        }
    }
}

/// An expression reduced along some axes, with the result broadcast to every element.
#[derive(Debug)]
pub struct RowReduceExpr<R, E, const RANK: usize> {
    expr: E,
    axes: MarkedAxes<RANK>,
    reducer: PhantomData<R>,
}
impl<R, E, const RANK: usize> RowReduceExpr<R, E, RANK> {
    pub(super) fn new(expr: E, axes: MarkedAxes<RANK>) -> Self {
        RowReduceExpr { expr, axes, reducer: PhantomData }
    }
}
impl<R, E: Copy, const RANK: usize> Clone for RowReduceExpr<R, E, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, E: Copy, const RANK: usize> Copy for RowReduceExpr<R, E, RANK> {}

impl<R, E, const RANK: usize> Sealed for RowReduceExpr<R, E, RANK> {}
impl<R, E, const RANK: usize, D: Device> Expr<RANK, D> for RowReduceExpr<R, E, RANK>
where
    E: Expr<RANK, D>,
    R: Reducer<<E::Body as Body>::Out>,
{
    type Body = RowReduce<R, E::Body>;
    #[inline]
    fn body(&self) -> Self::Body {
        RowReduce::new(self.expr.body())
    }
    #[inline(always)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(&'s self, visit: &mut impl Leaves<'s, RANK, D>) {
        self.expr.leaves(visit);
    }
    #[allow(private_interfaces, private_bounds)]
    fn rows(&self, rows: &mut RowAxes<RANK>) {
        // Collecting the leaves has reported sizes that do not broadcast.
        rows.add(self.axes, joint(&self.expr));
        self.expr.rows(rows);
    }
}

impl<E> Sealed for Cached<E> {}
impl<const RANK: usize, D: Device, E: Expr<RANK, D>> Expr<RANK, D> for Cached<E> {
    type Body = Cached<E::Body>;
    #[inline]
    fn body(&self) -> Self::Body {
        Cached::new(self.inner().body())
    }
    #[inline(always)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(&'s self, visit: &mut impl Leaves<'s, RANK, D>) {
        self.inner().leaves(visit);
    }
    #[allow(private_interfaces, private_bounds)]
    fn rows(&self, rows: &mut RowAxes<RANK>) {
        self.inner().rows(rows);
    }
}

impl<T, const RANK: usize, D: Device> Sealed for TensorView<'_, T, RANK, D> {}
impl<T: Element, const RANK: usize, D: Device> Expr<RANK, D> for TensorView<'_, T, RANK, D> {
    type Body = Input<T>;
    #[inline]
    fn body(&self) -> Input<T> {
        Input(PhantomData)
    }
    #[inline(always)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(&'s self, visit: &mut impl Leaves<'s, RANK, D>) {
        visit.add(self.leaf());
    }
    #[inline]
    fn as_view(&self) -> Option<TensorView<'_, T, RANK, D>> {
        Some(*self)
    }
}

impl<T> Sealed for Param<T> {}
impl<T: Element, const RANK: usize, D: Device> Expr<RANK, D> for Param<T> {
    type Body = Param<T>;
    #[inline]
    fn body(&self) -> Param<T> {
        *self
    }
    #[inline(always)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(&'s self, _: &mut impl Leaves<'s, RANK, D>) {}
}

impl<F, A> Sealed for Call<F, A> {}
macro_rules! calls {
    ($($($expr:ident $index:tt),+;)*) => { $(
        impl<F, $($expr,)+ const RANK: usize, D: Device> Expr<RANK, D> for Call<F, ($($expr,)+)>
        where
            F: Op<($(<$expr::Body as Body>::Out,)+)>,
            $($expr: Expr<RANK, D>,)+
        {
            type Body = Call<F, ($($expr::Body,)+)>;
            #[inline]
            fn body(&self) -> Self::Body {
                Call::new(($(self.1.$index.body(),)+))
            }
            #[inline(always)]
            #[allow(private_interfaces, private_bounds)]
            fn leaves<'s>(&'s self, visit: &mut impl Leaves<'s, RANK, D>) {
                $(self.1.$index.leaves(visit);)+
            }
            #[allow(private_interfaces, private_bounds)]
            fn rows(&self, rows: &mut RowAxes<RANK>) {
                $(self.1.$index.rows(rows);)+
            }
        }
    )* };
}
calls! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, E 3;
    A 0, B 1, C 2, E 3, G 4;
    A 0, B 1, C 2, E 3, G 4, H 5;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6, J 7;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6, J 7, K 8;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6, J 7, K 8, M 9;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6, J 7, K 8, M 9, N 10;
    A 0, B 1, C 2, E 3, G 4, H 5, I 6, J 7, K 8, M 9, N 10, O 11;
}

/// The right operand of an operator on a tensor of element `T`, rank `RANK` on device `D`: `&Tensor`, a view,
/// a lazy expression, a number.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::expr::Operand;
/// /// Takes whatever `x + y` takes.
/// fn squared_distance(x: &Tensor<f64, 1>, y: impl Operand<f64, 1, Cpu>) -> Result<f64> {
///     (x.lazy() - y).square().sum(All)?.item()
/// }
/// let (x, y) = (Tensor::from([3.0, 4.0]), Tensor::from([0.0, 8.0]));
/// assert_eq!(squared_distance(&x, &y)?, 25.0);
/// assert_eq!(squared_distance(&x, y.lazy() * 0.5)?, 9.0);
/// assert_eq!(squared_distance(&x, 0.0)?, 25.0);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with a tensor of element `{T}`, rank {RANK}, on `{D}`",
    label = "expected element `{T}`, rank {RANK}, device `{D}`",
    note = "pass a tensor by reference, `&x`, and a view or lazy expression by value; unwrap a `Result` \
        first, with `?`",
    note = "beside a tensor on a tape: `tape.constant(&x)?`; another device: `.to(&device)?`",
    note = "another rank: `.lift()` adds leading axes, `.insert_axis(Axis::<A>)` adds one at place A",
    note = "another element: `.cast::<{T}>()?`; a number has the element's own type: `2.0`, not `2`, for a \
        float, and `T::constant(2.0)` where it is `T: Float`"
)]
pub trait Operand<T: Element, const RANK: usize, D: Device>: Sized {
    /// The type of the operand as an expression.
    type Expr: Expr<RANK, D, Body: Body<Out = T>>;
    /// The operand as an expression.
    fn into_expr(self) -> Self::Expr;
}

impl<'a, T: Element, const RANK: usize, D: Device> Operand<T, RANK, D> for &'a Tensor<T, RANK, D> {
    type Expr = TensorView<'a, T, RANK, D>;
    #[inline]
    fn into_expr(self) -> Self::Expr {
        self.view()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize, D: Device> Operand<T, RANK, D> for TensorView<'_, T, RANK, D> {
    type Expr = Self;
    #[inline]
    fn into_expr(self) -> Self {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, const RANK: usize, D: Device> Operand<T, RANK, D> for &TensorView<'a, T, RANK, D> {
    type Expr = TensorView<'a, T, RANK, D>;
    #[inline]
    fn into_expr(self) -> Self::Expr {
        *self
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, const RANK: usize, D: Device> Operand<T, RANK, D> for &'a TensorViewMut<'_, T, RANK, D> {
    type Expr = TensorView<'a, T, RANK, D>;
    #[inline]
    fn into_expr(self) -> Self::Expr {
        self.as_view()
    }
}

impl<T: Element, const RANK: usize, D: Device> Operand<T, RANK, D> for T {
    type Expr = Param<T>;
    #[inline]
    fn into_expr(self) -> Param<T> {
        Param(self)
    }
}

/// The right operand of `+`, `*`, `+=`, …: an [`Operand`], or a tensor by value, for example `&y * 2.0`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with a tensor of element `{T}`, rank {RANK}, on `{D}`",
    label = "expected element `{T}`, rank {RANK}, device `{D}`",
    note = "pass a tensor as `&x` or `x`, and a view or lazy expression by value; unwrap a `Result` first, \
        with `?`",
    note = "beside a tensor on a tape: `tape.constant(&x)?`; another device: `.to(&device)?`",
    note = "another rank: `.lift()` adds leading axes, `.insert_axis(Axis::<A>)` adds one at place A",
    note = "another element: `.cast::<{T}>()?`; a number has the element's own type: `2.0`, not `2`, for a \
        float, and `T::constant(2.0)` where it is `T: Float`"
)]
pub trait RightOperand<T: Element, const RANK: usize, D: Device> {
    /// The type of the operand as an expression.
    type Expr<'a>: Expr<RANK, D, Body: Body<Out = T>>
    where
        Self: 'a;
    /// The operand as an expression.
    fn expr(&self) -> Self::Expr<'_>;
}

impl<'a, T: Element, const RANK: usize, D: Device> RightOperand<T, RANK, D> for &'a Tensor<T, RANK, D> {
    type Expr<'e>
        = TensorView<'a, T, RANK, D>
    where
        Self: 'e;
    #[inline]
    fn expr(&self) -> TensorView<'a, T, RANK, D> {
        self.view()
    }
}

macro_rules! right_operands {
    ($([$($life:lifetime),*] $operand:ty;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($life,)* T: Element, const RANK: usize, D: Device> RightOperand<T, RANK, D> for $operand {
            type Expr<'e> = <$operand as Operand<T, RANK, D>>::Expr where Self: 'e;
            #[inline]
            fn expr(&self) -> Self::Expr<'_> {
                Operand::<T, RANK, D>::into_expr(*self)
            }
        }
    )* };
}
right_operands! {
    ['a] TensorView<'a, T, RANK, D>;
    ['a, 'b] &'b TensorView<'a, T, RANK, D>;
    ['a, 'b] &'b TensorViewMut<'a, T, RANK, D>;
    [] T;
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize, D: Device> RightOperand<T, RANK, D> for Tensor<T, RANK, D> {
    type Expr<'a> = TensorView<'a, T, RANK, D>;
    #[inline]
    fn expr(&self) -> TensorView<'_, T, RANK, D> {
        self.view()
    }
}

/// A tensor or a view: an operand with memory, which products, indexing and sorts require.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::expr::IntoView;
/// /// The product of every pair of rows, of a tensor or a view.
/// fn gram<'a>(x: impl IntoView<'a, f64, 2, Cpu>) -> Result<Tensor<f64, 2>> {
///     let x = x.into_view();
///     x.matmul(x.transposed())
/// }
/// let x = Tensor::from([[1.0, 2.0], [0.0, 1.0]]);
/// assert_eq!(gram(&x)?, Tensor::from([[5.0, 2.0], [2.0, 1.0]]));
/// assert_eq!(gram(x.transposed())?, Tensor::from([[1.0, 2.0], [2.0, 5.0]]));
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "expected `&Tensor` or a view of element `{T}`, rank {RANK}, on `{D}`, found `{Self}`",
    label = "expected `&Tensor` or a view of element `{T}`, rank {RANK}, on `{D}`",
    note = "pass a tensor by reference, `&x`, and a view by value; unwrap a `Result` first, with `?`; evaluate \
        a lazy expression first, with `.eval()?`",
    note = "beside a tensor on a tape: `tape.constant(&x)?`; a tensor on a tape, for an operator without a \
        gradient: `tape.value(&x)?`; another device: `.to(&device)?`; another element: `.cast::<{T}>()?`; \
        indices are `i64` and masks `bool`",
    note = "another rank: `.lift()` adds leading axes, `.insert_axis(Axis::<A>)` adds one at place A",
    note = "`matmul` has products of ranks 1·1, 2·1, 1·2, 2·2, R·2 and, batched, 3·3 and 4·4; `.lift()` \
        makes a matrix on the left a batch of one, which stretches; `einsum!` has all"
)]
pub trait IntoView<'a, T, const RANK: usize, D: Device> {
    /// The operand, borrowed.
    fn into_view(self) -> TensorView<'a, T, RANK, D>;
}

impl<'a, T, const RANK: usize, D: Device> IntoView<'a, T, RANK, D> for &'a Tensor<T, RANK, D> {
    #[inline]
    fn into_view(self) -> TensorView<'a, T, RANK, D> {
        self.view()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T, const RANK: usize, D: Device> IntoView<'a, T, RANK, D> for TensorView<'a, T, RANK, D> {
    #[inline]
    fn into_view(self) -> TensorView<'a, T, RANK, D> {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T, const RANK: usize, D: Device> IntoView<'a, T, RANK, D> for &TensorView<'a, T, RANK, D> {
    #[inline]
    fn into_view(self) -> TensorView<'a, T, RANK, D> {
        *self
    }
}
