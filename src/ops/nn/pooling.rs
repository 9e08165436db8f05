//! Max and average pooling over windows of an input.
//!
//! One pass over the output for each element of a window, along rows of the input, without a copy of windows
//! or padding. If windows are long and few, each is reduced on its own.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use super::pool_windows::{
    Pool, SumF64, each_window, is_few, output_layout, positions_of_window, window_geometry,
};
use super::unpooling::largest_with_positions;
use super::windows::{Ends, for_each_tap, input_part, output_part, tap_ranges};
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::{All, Dim};
use crate::element::{Comparable, Compute, Element, Float, bf16, f16};
use crate::error::{Error, Result, text};
use crate::expr::apply_in_place;
use crate::kernel::OpMany;
use crate::layout::Layout;
use crate::ops::methods::methods_with_into;
use crate::ops::{Add, Arithmetic as _, Cast as _, Comparisons as _, Div, Max, Maximum, Reductions as _};
use crate::rank::Spatial;
use crate::scalar::{DType, Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// Max pooling over `$n` axes.
macro_rules! max_pools {
    ($($name:ident $into:ident $n:literal;)*) => { $(methods_with_into! {
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
        /// are long and few.
        ///
        /// # Errors
        /// [`Error::Value`] when a window does not fit, the padding is more than half its extent, or an axis
        /// is empty; [`Error::Unallocated`], [`Error::OutOfMemory`].
        ///
        /// # Source
        /// PyTorch's `max_pool1d` … `max_pool3d`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| max_pool(op, x, pool, place);
    })* };
}

/// Average pooling over `$n` axes.
macro_rules! avg_pools {
    ($($name:ident $into:ident $n:literal;)*) => { $(methods_with_into! {
        [[T: Float, const RANK: usize,] T, RANK -> T]
        /// The mean of each window, summed in f64. Padding counts as zeros unless `count_padding` is false;
        /// then a dilated window with no element inside the input gives NaN.
        ///
        /// Shapes, cost and errors are those of max pooling; one more allocation, of f64.
        ///
        /// # Errors
        /// As there.
        ///
        /// # Source
        /// PyTorch's `avg_pool1d` … `avg_pool3d`; `count_padding` is `count_include_pad`, `divisor` is
        /// `divisor_override`.
        fn $name, $into [](pool: Pool<$n>) -> RANK where [Dim<RANK>: Spatial<$n>]
        = |op, x, place| avg_pool(op, x, pool, place);
    })* };
}

max_pools! {
    max_pool1d max_pool1d_into 1;
    max_pool2d max_pool2d_into 2;
    max_pool3d max_pool3d_into 3;
}
avg_pools! {
    avg_pool1d avg_pool1d_into 1;
    avg_pool2d avg_pool2d_into 2;
    avg_pool3d avg_pool3d_into 3;
}

fn max_pool<T: Comparable, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    destination: P,
) -> Result<P::Done> {
    x.ensure_allocated(op)?;
    let (layout, pool) = output_layout(op, &x, pool)?;
    layout.size().numel_of(op, size_of::<T>())?;
    if const { D::RECORDS && !T::DTYPE.is_discrete() } {
        return max_pool_by_rule(op, x, pool, layout, destination);
    }
    destination.put(op, layout, x.device(), |out| {
        out.fill(T::narrow(Ordered::LOWEST))?;
        if is_few(&layout.size().0[2..], &pool.window) {
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
    x.ensure_allocated(op)?;
    if pool.divisor == Some(0) {
        return Err(Error::Value { op, what: text(format_args!("a divisor of 0")) });
    }
    let (layout, pool) = output_layout(op, &x, pool)?;
    let size = layout.size();
    size.numel_of(op, size_of::<f64>())?;
    if const { D::RECORDS } {
        return avg_pool_by_rule(op, x, pool, layout, destination);
    }
    destination.put(op, layout, x.device(), |out| {
        let mut sums = Tensor::<f64, RANK, D>::uninit(op, layout, x.device())?;
        sums.fill(0.0)?;
        let add = |_, mut part: TensorViewMut<'_, f64, RANK, D>, seen: TensorView<'_, T, RANK, D>| {
            part.zip_in_place(Add, seen.lazy().cast::<f64>())
        };
        if is_few(&size.0[2..], &pool.window) {
            let range = |axis, window| positions_of_window(&pool, axis, window, x.size().0[axis + 2]);
            each_window(SumF64, x, &mut sums.try_view_mut(op)?, range)?;
        } else {
            for_each_tap(x, &mut sums.try_view_mut(op)?, &window_geometry(&pool), pool.window, add)?;
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

/// Max pooling of floats on a device that records. The padding of `pool` is in numbers.
fn max_pool_by_rule<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    layout: Layout<RANK>,
    destination: P,
) -> Result<P::Done> {
    // A rule of a type without arithmetic: only the one of `T` is compiled.
    macro_rules! of {
        ($($dtype:ident $F:ty),+) => { $(
            if const { matches!(T::DTYPE, DType::$dtype) } {
                let rule = PoolRule::<$F, RANK, N, true> { pool, element: PhantomData };
                return by_rule(op, rule, x, layout, destination);
            }
        )+ };
    }
    of!(F32 f32, F64 f64, F16 f16, BF16 bf16);
    Err(crate::error::Error::NoData { op, device: "Tape" })
}

/// Average pooling on a device that records. The padding of `pool` is in numbers.
fn avg_pool_by_rule<T: Float, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    layout: Layout<RANK>,
    destination: P,
) -> Result<P::Done> {
    by_rule(op, PoolRule::<T, RANK, N, false> { pool, element: PhantomData }, x, layout, destination)
}

fn by_rule<R: Rule, T: Element, const RANK: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    rule: R,
    x: TensorView<'_, T, RANK, D>,
    layout: Layout<RANK>,
    destination: P,
) -> Result<P::Done> {
    destination.put(op, layout, x.device(), |out| {
        x.device().ruled(rule, &[x.rule_operand()], out.rule_output()).map_err(|error| error.with_op(op))
    })
}

/// The rule of max pooling (`MAX`) or average pooling.
struct PoolRule<T, const RANK: usize, const N: usize, const MAX: bool> {
    pool: Pool<N>,
    element: PhantomData<fn() -> T>,
}

impl<T, const RANK: usize, const N: usize, const MAX: bool> Clone for PoolRule<T, RANK, N, MAX> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const RANK: usize, const N: usize, const MAX: bool> Copy for PoolRule<T, RANK, N, MAX> {}

/// Adds the gradient of a window to its first element that is the largest:
/// `(its gradient, whether one was found, the element, the largest, the gradient of the window)`.
#[derive(Clone, Copy, Debug)]
struct ToFirstLargest;

impl<S: Float, T: Float> OpMany<(S, bool, T, T, T)> for ToFirstLargest {
    const NAME: &'static str = "max_pool";
    type Out = (S, bool);
    #[inline(always)]
    fn call<L: Lanes>(
        (to, found, x, largest, gradient): (
            Lane<L, Compute<S>>,
            Lane<L, bool>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
        ),
    ) -> (Lane<L, Compute<S>>, Lane<L, bool>) {
        let here = (x.eq(largest) | x.is_nan()) & !found;
        (to + here.select(gradient, Lane::zero()).cast(), found | here)
    }
}

/// Whether an element is NaN; `false` if the data cannot be read.
fn has_nan<T: Float, const RANK: usize, D: Device>(x: TensorView<'_, T, RANK, D>) -> Result<bool> {
    Ok(x.lazy().is_nan().any(All)?.item().unwrap_or(false))
}

/// The part of a gradient that windows read, from axis 2 on.
fn part_of<'x, T, const RANK: usize, D: Device>(
    mut x: TensorViewMut<'x, T, RANK, D>,
    parts: &[(Range<usize>, usize)],
) -> Result<TensorViewMut<'x, T, RANK, D>> {
    for (axis, (range, step)) in parts.iter().enumerate() {
        x = x.slice_axis(axis + 2, range.clone(), *step as isize)?;
    }
    Ok(x)
}

/// A view of the same windows.
fn windows_of<'x, T, const RANK: usize, D: Device>(
    mut x: TensorView<'x, T, RANK, D>,
    windows: &[Range<usize>],
) -> Result<TensorView<'x, T, RANK, D>> {
    for (axis, range) in windows.iter().enumerate() {
        x = x.slice_axis(axis + 2, range.clone(), 1)?;
    }
    Ok(x)
}

/// The planes of each batch and channel, as one axis.
fn flat<const RANK: usize>(size: Dim<RANK>) -> [usize; 3] {
    [size.0[0], size.0[1], size.0[2..].iter().product()]
}

impl<T: Float, const RANK: usize, const N: usize, const MAX: bool> PoolRule<T, RANK, N, MAX> {
    /// The gradient of the operand, in elements `S`.
    fn sums<S: Float, D: Device>(
        &self,
        inputs: &[RuleOperand<'_, D>],
        result: RuleOperand<'_, D>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, S, RANK, D>,
    ) -> Result<()> {
        if const { MAX } {
            self.of_largest([inputs[0].view()?, result.view()?, gradient], out)
        } else {
            self.of_mean(gradient, out)
        }
    }

    /// The gradient of max pooling, in elements `S`.
    fn of_largest<S: Float, D: Device>(
        &self,
        [x, y, gradient]: [TensorView<'_, T, RANK, D>; 3],
        mut out: TensorViewMut<'_, S, RANK, D>,
    ) -> Result<()> {
        out.fill(S::zero())?;
        if is_few(&y.size().0[2..], &self.pool.window) || has_nan(y)? {
            // By positions, which are those of the last NaN; a window without elements has none.
            let op = "max_pool";
            let (_, at) = largest_with_positions(op, x, self.pool, (Allocate, Allocate))?;
            let (at, gradient) = (at.to_shape(flat(y.size()))?, gradient.to_shape(flat(y.size()))?);
            let (found, inside) = (at.greater_equal(0)?, at.maximum(0)?);
            let gradient = found.lazy().select(gradient.lazy().cast::<S>(), S::zero()).eval()?;
            let mut cells = Tensor::<S, 3, D>::zeros(flat(x.size()), x.device())?;
            cells.try_view_mut(op)?.scatter_axis(Add, 2, &inside, &gradient)?;
            return out.assign(cells.reshape(x.size())?);
        }
        let mut found = Tensor::<bool, RANK, D>::zeros(y.size(), x.device())?;
        let geometry = window_geometry(&self.pool);
        for tap in Dim(self.pool.window).indices() {
            let (windows, inputs) = tap_ranges(&geometry, tap, y.size(), x.size());
            let found = output_part(found.try_view_mut("max_pool")?, &windows)?;
            let updated = (part_of(out.reborrow(), &inputs)?, found);
            let (y, gradient) = (windows_of(y, &windows)?, windows_of(gradient, &windows)?);
            apply_in_place(ToFirstLargest, updated, (input_part(x, &inputs)?, y, gradient))?;
        }
        Ok(())
    }

    /// The gradient of average pooling, in elements `S`.
    fn of_mean<S: Float, D: Device>(
        &self,
        gradient: TensorView<'_, T, RANK, D>,
        mut out: TensorViewMut<'_, S, RANK, D>,
    ) -> Result<()> {
        out.fill(S::zero())?;
        let mut shares = gradient.cast::<f64>()?;
        divide_by_counts(&mut shares, out.size(), &self.pool)?;
        let shares = shares.cast::<S>()?;
        if is_few(&gradient.size().0[2..], &self.pool.window) {
            let mut windows = gradient.size();
            windows.0[..2].fill(1);
            for index in windows.indices() {
                let inputs: [_; N] = std::array::from_fn(|axis| {
                    positions_of_window(&self.pool, axis, index[axis + 2], out.size().0[axis + 2])
                });
                let window: [_; N] = std::array::from_fn(|axis| index[axis + 2]..index[axis + 2] + 1);
                part_of(out.reborrow(), &inputs)?.zip_in_place(Add, windows_of(shares.view(), &window)?)?;
            }
            return Ok(());
        }
        let geometry = window_geometry(&self.pool);
        for tap in Dim(self.pool.window).indices() {
            let (windows, inputs) = tap_ranges(&geometry, tap, gradient.size(), out.size());
            part_of(out.reborrow(), &inputs)?.zip_in_place(Add, windows_of(shares.view(), &windows)?)?;
        }
        Ok(())
    }
}

impl<T: Float, const RANK: usize, const N: usize, const MAX: bool> Rule for PoolRule<T, RANK, N, MAX> {
    const NAME: &'static str = if MAX { "max_pool" } else { "avg_pool" };
    const READS_RESULT: bool = MAX;
    type Saved<D: Device> = ();

    fn reads(_: usize) -> u64 {
        MAX as u64
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let (x, out) = (inputs[0].view::<T, RANK>()?, Existing(output.view_mut()?));
        if const { MAX } {
            max_pool(Self::NAME, x, self.pool, out)
        } else {
            avg_pool(Self::NAME, x, self.pool, out)
        }
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, ()>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let gradient = recorded.gradient.view::<T, RANK>()?;
        for target in targets.into_iter().flatten() {
            let mut out = target.view_mut::<T, RANK>()?;
            if const { size_of::<T>() == size_of::<Compute<T>>() } {
                self.sums(recorded.inputs, recorded.result, gradient, out)?;
            } else {
                // Windows overlap: their sums are not rounded to 16 bits one by one.
                let mut sums =
                    Tensor::<f32, RANK, D>::uninit(Self::NAME, out.layout().preserved(), out.device())?;
                self.sums(recorded.inputs, recorded.result, gradient, sums.try_view_mut(Self::NAME)?)?;
                out.assign(sums.lazy().cast::<T>())?;
            }
        }
        Ok(())
    }
}
