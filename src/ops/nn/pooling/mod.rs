//! Max and average pooling over windows of an input.
//!
//! One pass over the output for each element of a window, along rows of the input, without a copy of windows
//! or padding. If windows are long and few, each is reduced on its own.
// Imports: `error`, `dim`, `rank`, `scalar`, `element`, `device`, `tensor`, `ops`.

mod rule;
mod unpooling;

use super::pool_windows::{
    Pool, SumF64, all_windows, each_window, is_few, output_layout, positions_of_window, window_geometry,
};
use super::windows::{Ends, for_each_tap};
use crate::device::Device;
use crate::dim::Dim;
use crate::element::{Comparable, Element, Float};
use crate::error::{Error, Result, text};
use crate::ops::methods::methods_with_into;
use crate::ops::{Add, Cast as _, Div, Max, Maximum};
use crate::rank::Spatial;
use crate::scalar::Ordered;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use rule::pool_by_rule;
pub use unpooling::MaxPools;

/// Max pooling over `$n` axes.
macro_rules! max_pools {
    ($($name:ident $into:ident $n:literal, $example:literal;)*) => { $(methods_with_into! {
        [[T: Comparable, const RANK: usize,] T, RANK -> T]
        /// The largest element of each window; NaN if any element is. A dilated window may have no element
        /// inside the input; then the result is the lowest number, −∞ for floats.
        ///
        /// # Shapes
        /// `[batch, channel, n, …] → [batch, channel, n', …]`,
        /// `n' = (n + padding at both ends − dilation · (window − 1) − 1) / stride + 1`; with `ceil` the
        /// quotient is rounded up if that window starts inside.
        ///
        /// # Cost
        /// One allocation; one pass over it for each element of a window, or one reduction per window if they
        /// are long and few. On a GPU one kernel, after a copy with the padding if there is any.
        ///
        /// # Errors
        /// [`Error::Value`] when a window does not fit, the padding is more than half its extent, or an axis
        /// is empty; [`Error::Unallocated`], [`Error::OutOfMemory`].
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// use rankform::ops::Pool;
        #[doc = $example]
        /// # Ok::<(), rankform::Error>(())
        /// ```
        ///
        /// # Source
        /// PyTorch's `max_pool1d` … `max_pool3d`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| max_pool(op, x, pool, place);
    })* };
}

/// Average pooling over `$n` axes.
macro_rules! avg_pools {
    ($($name:ident $into:ident $n:literal, $example:literal;)*) => { $(methods_with_into! {
        [[T: Float, const RANK: usize,] T, RANK -> T]
        /// The mean of each window, summed in f64. Padding counts as zeros unless `count_padding` is false;
        /// then a dilated window with no element inside the input gives NaN.
        ///
        /// # Shapes
        /// `[batch, channel, n, …] → [batch, channel, n', …]`, `n'` as in [`max_pool1d`](Tensor::max_pool1d).
        ///
        /// # Cost
        /// Two allocations, one of f64; one pass over the result for each element of a window, or one
        /// reduction per window if they are long and few. On a GPU one kernel, after a copy with the padding
        /// if there is any, and those of the division.
        ///
        /// # Errors
        /// [`Error::Value`] when a window does not fit, the padding is more than half its extent, or an axis
        /// is empty; [`Error::Unallocated`], [`Error::OutOfMemory`].
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// use rankform::ops::Pool;
        #[doc = $example]
        /// # Ok::<(), rankform::Error>(())
        /// ```
        ///
        /// # Source
        /// PyTorch's `avg_pool1d` … `avg_pool3d`; `count_padding` is `count_include_pad`, `divisor` is
        /// `divisor_override`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| avg_pool(op, x, pool, place);
    })* };
}

max_pools! {
    max_pool1d max_pool1d_into 1,
        "assert_eq!(Tensor::from([[[1, 4, 2, 3]]]).max_pool1d(Pool::new([2]))?, Tensor::from([[[4, 3]]]));";
    max_pool2d max_pool2d_into 2,
        "assert_eq!(Tensor::from([[[[1, 4], [2, 3]]]]).max_pool2d(Pool::new([2, 2]))?, \
         Tensor::from([[[[4]]]]));";
    max_pool3d max_pool3d_into 3,
        "assert_eq!(Tensor::from([[[[[1, 4, 2]]]]]).max_pool3d(Pool::new([1, 1, 3]))?, \
         Tensor::from([[[[[4]]]]]));";
}
avg_pools! {
    avg_pool1d avg_pool1d_into 1,
        "assert_eq!(Tensor::from([[[1.0, 4.0, 2.0, 3.0]]]).avg_pool1d(Pool::new([2]))?, Tensor::from([[[2.5, \
         2.5]]]));";
    avg_pool2d avg_pool2d_into 2,
        "assert_eq!(Tensor::from([[[[1.0, 4.0], [2.0, 3.0]]]]).avg_pool2d(Pool::new([2, 2]))?, \
         Tensor::from([[[[2.5]]]]));";
    avg_pool3d avg_pool3d_into 3,
        "assert_eq!(Tensor::from([[[[[1.0, 3.0]]]]]).avg_pool3d(Pool::new([1, 1, 2]))?, \
         Tensor::from([[[[[2.0]]]]]));";
}

/// A pool, on a device that records by the rule of max pooling (`MAX`) or average pooling. Every other device
/// runs `compute` for the result and the pool with its padding in numbers; it may need `nbytes` bytes for
/// each element.
fn pool_by<
    T: Element,
    const MAX: bool,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    (nbytes, destination): (usize, P),
    compute: impl FnOnce(&mut TensorViewMut<'_, T, RANK, D>, Pool<N>) -> Result<()>,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let (layout, pool) = output_layout(op, &x, pool)?;
    layout.size().numel_of(op, nbytes)?;
    if const { D::RECORDS && !T::DTYPE.is_discrete() } {
        return pool_by_rule::<T, MAX, RANK, N, D, P>(op, x, pool, layout, destination);
    }
    destination.put(op, layout, x.device(), |out| compute(out, pool))
}

fn max_pool<T: Comparable, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    destination: P,
) -> Result<P::Done> {
    pool_by::<T, true, RANK, N, D, P>(op, x, pool, (size_of::<T>(), destination), |out, pool| {
        let lowest = T::narrow(Ordered::LOWEST);
        if all_windows(op, Max, x, (&pool, lowest), out)? {
            return Ok(());
        }
        out.fill(lowest)?;
        if is_few(&out.size().0[2..], &pool.window) {
            return each_window(Max, x, out, |axis, window| {
                positions_of_window(&pool, axis, window, x.size().0[axis + 2])
            });
        }
        for_each_tap(x, out, &window_geometry(&pool), pool.window, |_, mut part, seen| {
            part.zip_in_place(Maximum, seen)
        })
    })
}

fn avg_pool<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    destination: P,
) -> Result<P::Done> {
    if pool.divisor == Some(0) {
        return Err(Error::Value { op, what: text(format_args!("a divisor of 0")) });
    }
    pool_by::<T, false, RANK, N, D, P>(op, x, pool, (size_of::<f64>(), destination), |out, pool| {
        let layout = out.layout().preserved();
        let mut sums = Tensor::<f64, RANK, D>::uninit(op, layout, x.device())?;
        let add = |_, mut part: TensorViewMut<'_, f64, RANK, D>, seen: TensorView<'_, T, RANK, D>| {
            part.zip_in_place(Add, seen.lazy().cast::<f64>())
        };
        let mut view = sums.try_view_mut(op)?;
        if all_windows(op, SumF64, x, (&pool, T::zero()), &mut view)? {
            // Done.
        } else if is_few(&layout.size().0[2..], &pool.window) {
            view.fill(0.0)?;
            let range = |axis, window| positions_of_window(&pool, axis, window, x.size().0[axis + 2]);
            each_window(SumF64, x, &mut view, range)?;
        } else {
            view.fill(0.0)?;
            for_each_tap(x, &mut view, &window_geometry(&pool), pool.window, add)?;
        }
        divide_by_counts(&mut sums, x.size(), &pool)?;
        sums.lazy().cast::<T>().eval_into(out)
    })
}

/// Divides each window by the number of its elements that count, or by the divisor of the pool. The padding
/// of the pool is in numbers.
fn divide_by_counts<const RANK: usize, const N: usize, D: Device>(
    sums: &mut Tensor<f64, RANK, D>,
    of: Dim<RANK>,
    pool: &Pool<N>,
) -> Result<()> {
    if let Some(divisor) = pool.divisor {
        return sums.zip_in_place(Div, divisor as f64);
    }
    // One divisor for every window along each axis.
    let Ends::After(after) = pool.ends else { return Ok(()) };
    for axis in 0..N {
        let (n, windows) = (of.0[axis + 2], sums.size().0[axis + 2]);
        let mut line = [1; RANK];
        line[axis + 2] = windows;
        let count = |window: usize| {
            let (start, step) = (window * pool.stride[axis], pool.dilation[axis]);
            let padded = (n + pool.padding[axis] + after[axis])
                .saturating_sub(start)
                .div_ceil(step)
                .min(pool.window[axis]);
            let (range, step) = positions_of_window(pool, axis, window, n);
            if pool.count_padding { padded as f64 } else { range.len().div_ceil(step) as f64 }
        };
        let divisors = Tensor::<f64, RANK, D>::from_fn(line, |index| count(index[axis + 2]), sums.device())?;
        sums.zip_in_place(Div, &divisors)?;
    }
    Ok(())
}
