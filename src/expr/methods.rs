//! The traits on which all operators are defined: implement `map`, `zip`, `reduce` and `scan`, get every
//! operator. Tensors, views and lazy expressions differ only in the results of these four.
//!
//! Implemented for `&Tensor`, never for `Tensor`: `x.exp()` does not consume `x`.
// Imports: `error`, `dim`, `rank`, `element`, `kernel`, `device`, `tensor`.

use crate::device::Device;
use crate::dim::{Axis, AxisAt, Dim};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Op, Reducer};
use crate::rank::{HasAxes, RankMinusOne, RemoveAxes, RemoveAxis};
use crate::tensor::{IntoViewMut, Tensor};

/// A receiver of elementwise operators of one operand.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! { fn cube(x) { x * x * x } }
/// let x = Tensor::from([1.0, 2.0]);
/// assert_eq!(x.map(cube)?.to_vec()?, [1.0, 8.0]);
/// assert_eq!((x.lazy() + 1.0).map(cube).eval()?.to_vec()?, [8.0, 27.0]); // one pass
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no elementwise operators",
    label = "expected `&Tensor`, a view or a lazy expression; in a body, what `Lane` has, or `<ops::Name as \
        Op<(T,)>>::call::<L>((x,))`"
)]
pub trait Elementwise<T, const RANK: usize, D: Device>: Sized {
    /// The result of an operator: a tensor, or a longer expression.
    type Mapped<F: Op<(T,)>>
    where
        T: Element;
    /// Applies an operator to every element.
    fn map<F: Op<(T,)>>(self, operator: F) -> Self::Mapped<F>
    where
        T: Element;
}

/// A receiver of elementwise operators of two operands, the second of type `OTHER`.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! { fn weighed(x, y) { x * 0.75 + y * 0.25 } }
/// let (x, y) = (Tensor::from([[4.0, 8.0]]), Tensor::from([[0.0], [4.0]]));
/// assert_eq!(x.zip(weighed, &y)?, Tensor::from([[3.0, 6.0], [4.0, 7.0]])); // sizes of 1 stretch
/// assert_eq!(x.zip(weighed, 4.0)?.to_vec()?, [4.0, 7.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with `{OTHER}`",
    label = "expected element `{U}`, rank {RANK}, device `{D}`",
    note = "pass a tensor by reference, `&x`, and a view or lazy expression by value; unwrap a `Result` \
        first, with `?`",
    note = "beside a tensor on a tape: `tape.constant(&x)?`; another device: `.to(&device)?`",
    note = "another rank: `.lift()` adds leading axes, `.insert_axis(Axis::<A>)` adds one at place A",
    note = "another element: `.cast::<{U}>()?`; a number has the element's own type: `2.0`, not `2`, for a \
        float, and `T::constant(2.0)` where it is `T: Float`"
)]
pub trait Zip<T: Element, U: Element, const RANK: usize, D: Device, OTHER>: Elementwise<T, RANK, D> {
    /// The result of an operator.
    type Zipped<F: Op<(T, U)>>;
    /// Applies an operator to every pair of elements; sizes of 1 broadcast.
    fn zip<F: Op<(T, U)>>(self, operator: F, other: OTHER) -> Self::Zipped<F>;
}

/// A receiver of reductions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be reduced",
    label = "expected `&Tensor`, a view or a lazy expression"
)]
pub trait Reduce<T, const RANK: usize, D: Device>: Sized {
    /// The result of a reduction that keeps its axes.
    type Broadcast<Q: Reducer<T>>
    where
        T: Element;
    /// Reduces over `Axis::<A>`, a tuple of axes in rising order, `Last`, or `All`.
    fn reduce<Q: Reducer<T>, AXES, const M: usize>(
        self,
        reducer: Q,
        axes: AXES,
    ) -> Result<Tensor<Q::Out, M, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>;
    /// Reduces along axes and broadcasts the result back: an expression of the same sizes, in which each
    /// element of a row is the reduction of that row. All such parts of one expression must be reduced along
    /// the same axes; they run in one pass.
    fn along<Q: Reducer<T>, AXES>(self, reducer: Q, axes: AXES) -> Self::Broadcast<Q>
    where
        T: Element,
        Dim<RANK>: HasAxes<AXES>;
    /// As [`along`](Reduce::along), over an axis known at run time. An axis that does not exist is an error
    /// when the expression is evaluated.
    ///
    /// # Examples
    /// ```
    /// use rankform::{ops::Mean, prelude::*};
    /// /// Each element's distance to the mean along an axis.
    /// fn centered<T: Float, const RANK: usize, D: Device>(
    ///     x: &Tensor<T, RANK, D>,
    ///     axis: usize,
    /// ) -> Result<Tensor<T, RANK, D>> {
    ///     (x.lazy() - x.along_axis(Mean, axis)).eval()
    /// }
    /// let x = Tensor::from([[1.0, 3.0], [5.0, 9.0]]);
    /// assert_eq!(centered(&x, 0)?, Tensor::from([[-2.0, -3.0], [2.0, 3.0]]));
    /// assert_eq!(centered(&x, 2).unwrap_err().to_string(), "eval: axis 2 does not fit sizes [2, 2]");
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn along_axis<Q: Reducer<T>>(self, reducer: Q, axis: usize) -> Self::Broadcast<Q>
    where
        T: Element,
    {
        self.along(reducer, AxisAt(axis))
    }
    /// Reduces over axes and keeps them with size 1: a tensor of the same rank, which broadcasts over its
    /// operand. No bound on the rank is needed in code for any rank.
    ///
    /// # Errors
    /// Those of the reduction; [`Error::Axis`](crate::Error::Axis) for [`Last`](crate::Last) of rank 0.
    ///
    /// # Examples
    /// ```
    /// use rankform::{ops::Max, prelude::*};
    /// /// Each row in units of its largest element.
    /// fn scaled<T: Float, const RANK: usize, D: Device>(
    ///     x: &Tensor<T, RANK, D>,
    /// ) -> Result<Tensor<T, RANK, D>> {
    ///     let largest = x.reduce_keepdims(Max, Last)?;
    ///     x.div(&largest)
    /// }
    /// let x = Tensor::from([[1.0, 2.0], [2.0, 8.0]]);
    /// assert_eq!(x.reduce_keepdims(Max, Last)?, Tensor::from([[2.0], [8.0]]));
    /// assert_eq!(scaled(&x)?, Tensor::from([[0.5, 1.0], [0.25, 1.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn reduce_keepdims<Q: Reducer<T>, AXES>(self, reducer: Q, axes: AXES) -> Result<Tensor<Q::Out, RANK, D>>
    where
        T: Element,
        Dim<RANK>: HasAxes<AXES>;
    /// As [`reduce_keepdims`](Reduce::reduce_keepdims), over an axis known at run time.
    ///
    /// # Errors
    /// Those of the reduction; [`Error::Axis`](crate::Error::Axis) when there is no such axis.
    fn reduce_keepdims_axis<Q: Reducer<T>>(self, reducer: Q, axis: usize) -> Result<Tensor<Q::Out, RANK, D>>
    where
        T: Element,
    {
        self.reduce_keepdims(reducer, AxisAt(axis))
    }
    /// Reduces into an existing tensor or exclusive view with the sizes of the remaining axes. No allocation.
    ///
    /// # Errors
    /// Those of the reduction; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::{ops::Sum, prelude::*};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let mut sums = Tensor::<f64, 1>::zeros([2], &Cpu)?;
    /// x.reduce_into(Sum, Axis::<1>, &mut sums)?;
    /// assert_eq!(sums.to_vec()?, [3.0, 7.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn reduce_into<'o, Q: Reducer<T>, AXES, const M: usize>(
        self,
        reducer: Q,
        axes: AXES,
        out: impl IntoViewMut<'o, Q::Out, M, D>,
    ) -> Result<()>
    where
        T: Element,
        Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
        D: 'o;
    /// Reduces over an axis known at run time.
    fn reduce_axis<Q: Reducer<T>, const M: usize>(
        self,
        reducer: Q,
        axis: usize,
    ) -> Result<Tensor<Q::Out, M, D>>
    where
        T: Element,
        Dim<RANK>: RankMinusOne<Output = Dim<M>>;
}

/// A receiver of running reductions along an axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be scanned",
    label = "expected `&Tensor`, a view or a lazy expression"
)]
pub trait Scan<T, const RANK: usize, D: Device>: Sized {
    /// The reduction of all elements up to and including each position of an axis.
    ///
    /// The elements of a line are accumulated in order, in blocks of a fixed length whose accumulators are
    /// combined. The result depends neither on the number of threads nor on the layout.
    ///
    /// # Errors
    /// Those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Mean;
    /// let x = Tensor::from([[1.0, 3.0, 5.0], [2.0, 2.0, 8.0]]);
    /// assert_eq!(x.scan(Mean, Axis::<1>)?, Tensor::from([[1.0, 2.0, 3.0], [2.0, 2.0, 4.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn scan<Q: Reducer<T>, const A: usize>(self, reducer: Q, axis: Axis<A>) -> Result<Tensor<Q::Out, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.scan_by(reducer, A, false)
    }
    /// The reduction of all elements before each position of an axis; at the first position, of no elements.
    ///
    /// # Errors
    /// Those of elementwise operators.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::ops::Sum;
    /// assert_eq!(Tensor::from([5, 7, 9]).scan_exclusive(Sum, Axis::<0>)?.to_vec()?, [0, 5, 12]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn scan_exclusive<Q: Reducer<T>, const A: usize>(
        self,
        reducer: Q,
        axis: Axis<A>,
    ) -> Result<Tensor<Q::Out, RANK, D>>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.scan_by(reducer, A, true)
    }
    /// An inclusive or exclusive scan along an axis known at run time.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) when there is no such axis.
    fn scan_by<Q: Reducer<T>>(
        self,
        reducer: Q,
        axis: usize,
        exclusive: bool,
    ) -> Result<Tensor<Q::Out, RANK, D>>
    where
        T: Element;
    /// As [`scan`](Scan::scan), into an existing tensor or exclusive view of the same sizes. No allocation of
    /// a result.
    ///
    /// # Errors
    /// Those of the scan; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::{ops::CumSum, prelude::*};
    /// let mut y = Tensor::<i32, 2>::zeros([2, 3], &Cpu)?;
    /// Tensor::from([1, 2, 3]).scan_into(CumSum, Axis::<0>, y.view_mut()?.slice((1, ..))?)?;
    /// assert_eq!(y, Tensor::from([[0, 0, 0], [1, 3, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn scan_into<'o, Q: Reducer<T>, const A: usize>(
        self,
        reducer: Q,
        axis: Axis<A>,
        out: impl IntoViewMut<'o, Q::Out, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        Dim<RANK>: RemoveAxis<A>,
        D: 'o,
    {
        let _ = axis;
        self.scan_by_into(reducer, A, false, out)
    }
    /// As [`scan_by`](Scan::scan_by), into an existing tensor or exclusive view of the same sizes. No
    /// allocation of a result.
    ///
    /// # Errors
    /// Those of [`scan_into`](Scan::scan_into) and [`scan_by`](Scan::scan_by).
    fn scan_by_into<'o, Q: Reducer<T>>(
        self,
        reducer: Q,
        axis: usize,
        exclusive: bool,
        out: impl IntoViewMut<'o, Q::Out, RANK, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o;
}
