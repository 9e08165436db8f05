//! The methods of tensors and views, which run at once: each evaluates an expression of one operator.
// Imports: `error`, `dim`, `rank`, `element`, `kernel`, `device`, `tensor`.

use super::eval::eval;
use super::lazy::Lazy;
use super::methods::{Elementwise, Reduce, Scan, Zip};
use super::operand::{IntoView, Operand, RowReduceExpr, marked_axes, marked_axis};
use super::reduce::{reduce, reduce_at, reduce_keepdims, scan};
use crate::device::Device;
use crate::dim::{Dim, MarkedAxes};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Call, Op, Reducer};
use crate::rank::{HasAxes, RankMinusOne, RemoveAxes};
use crate::tensor::{Allocate, Existing, IntoViewMut, Tensor, TensorView};

/// `map` and `zip` of tensors and views.
macro_rules! elementwise_methods {
    ($([$life:lifetime] $receiver:ty;)*) => { $(
        impl<$life, T, const RANK: usize, D: Device> Elementwise<T, RANK, D> for $receiver {
            type Mapped<F: Op<(T,)>> = Result<Tensor<F::Out, RANK, D>> where T: Element;
            #[inline]
            fn map<F: Op<(T,)>>(self, _: F) -> Self::Mapped<F> where T: Element {
                let view = self.into_view();
                eval(F::NAME, &Call::<F, _>::new((view,)), view.device())
            }
        }
        impl<$life, T: Element, U: Element, const RANK: usize, D: Device, OTHER: Operand<U, RANK, D>>
            Zip<T, U, RANK, D, OTHER> for $receiver
        {
            type Zipped<F: Op<(T, U)>> = Result<Tensor<F::Out, RANK, D>>;
            #[inline]
            fn zip<F: Op<(T, U)>>(self, _: F, other: OTHER) -> Self::Zipped<F> {
                let view = self.into_view();
                eval(F::NAME, &Call::<F, _>::new((view, other.into_expr())), view.device())
            }
        }
    )* };
}
elementwise_methods! {
    ['a] &'a Tensor<T, RANK, D>;
    ['a] TensorView<'a, T, RANK, D>;
}

/// Reductions of tensors and views.
macro_rules! reduce_methods {
    ($([$life:lifetime] $receiver:ty;)*) => { $(
        impl<$life, T, const RANK: usize, D: Device> Reduce<T, RANK, D> for $receiver {
            type Broadcast<Q: Reducer<T>> =
                Lazy<$life, Q::Out, RANK, D, RowReduceExpr<Q, TensorView<$life, T, RANK, D>, RANK>>
            where T: Element;
            #[inline]
            fn along<Q: Reducer<T>, AXES>(self, reducer: Q, axes: AXES) -> Self::Broadcast<Q>
            where T: Element, Dim<RANK>: HasAxes<AXES> {
                self.into_view().lazy().along(reducer, axes)
            }
            #[inline]
            fn reduce_keepdims<Q: Reducer<T>, AXES>(
                self,
                reducer: Q,
                axes: AXES,
            ) -> Result<Tensor<Q::Out, RANK, D>>
            where T: Element, Dim<RANK>: HasAxes<AXES> {
                let view = self.into_view();
                reduce_keepdims(reducer, &view, view.device(), MarkedAxes::of(axes))
            }
            #[inline]
            fn reduce<Q: Reducer<T>, AXES, const M: usize>(
                self,
                reducer: Q,
                axes: AXES,
            ) -> Result<Tensor<Q::Out, M, D>>
            where T: Element, Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>> {
                let view = self.into_view();
                reduce(reducer, &view, view.device(), marked_axes(axes))
            }
            #[inline]
            fn reduce_into<'o, Q: Reducer<T>, AXES, const M: usize>(
                self,
                reducer: Q,
                axes: AXES,
                out: impl IntoViewMut<'o, Q::Out, M, D>,
            ) -> Result<()>
            where T: Element, Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>, D: 'o {
                let view = self.into_view();
                reduce_at(reducer, &view, view.device(), marked_axes(axes), Existing(out))
            }
            #[inline]
            fn reduce_axis<Q: Reducer<T>, const M: usize>(
                self,
                reducer: Q,
                axis: usize,
            ) -> Result<Tensor<Q::Out, M, D>>
            where T: Element, Dim<RANK>: RankMinusOne<Output = Dim<M>> {
                let view = self.into_view();
                reduce(reducer, &view, view.device(), marked_axis(Q::NAME, axis, || view.size())?)
            }
        }
    )* };
}
reduce_methods! {
    ['a] &'a Tensor<T, RANK, D>;
    ['a] TensorView<'a, T, RANK, D>;
}

/// Scans of tensors and views.
macro_rules! scan_methods {
    ($([$life:lifetime] $receiver:ty;)*) => { $(
        impl<$life, T, const RANK: usize, D: Device> Scan<T, RANK, D> for $receiver {
            #[inline]
            fn scan_by<Q: Reducer<T>>(
                self,
                reducer: Q,
                axis: usize,
                exclusive: bool,
            ) -> Result<Tensor<Q::Out, RANK, D>>
            where T: Element {
                let view = self.into_view();
                marked_axis(Q::NAME, axis, || view.size())?;
                scan(reducer, &view, view.device(), (axis, exclusive), Allocate)
            }
            #[inline]
            fn scan_by_into<'o, Q: Reducer<T>>(
                self,
                reducer: Q,
                axis: usize,
                exclusive: bool,
                out: impl IntoViewMut<'o, Q::Out, RANK, D>,
            ) -> Result<()>
            where T: Element, D: 'o {
                let view = self.into_view();
                marked_axis(Q::NAME, axis, || view.size())?;
                scan(reducer, &view, view.device(), (axis, exclusive), Existing(out))
            }
        }
    )* };
}
scan_methods! {
    ['a] &'a Tensor<T, RANK, D>;
    ['a] TensorView<'a, T, RANK, D>;
}
