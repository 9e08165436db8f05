//! The backward passes of max and average pooling, for devices that record: one pass over the windows for each
//! element of a window.
// Imports: `error`, `dim`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::pooling::{
    Pool, avg_pool, divide_by_counts, is_few, max_pool, positions_of_window, window_geometry,
};
use super::unpooling::largest_with_positions;
use super::windows::{input_part, output_part, tap_ranges};
use crate::device::{Device, Recorded, Rule, RuleOperand, RuleOutput};
use crate::dim::Dim;
use crate::element::{Compute, Element, Float, bf16, f16};
use crate::error::Result;
use crate::expr::apply_in_place;
use crate::kernel::OpMany;
use crate::layout::Layout;
use crate::ops::{Add, Arithmetic as _, Cast as _, Comparisons as _};
use crate::scalar::{DType, Lane, Lanes};
use crate::tensor::{Allocate, Destination, Existing, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// Max pooling of floats on a device that records. The padding of `pool` is in numbers.
pub(super) fn max_pool_by_rule<
    T: Element,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
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
                return by_rule(op, PoolRule::<$F, RANK, N, true> { pool, element: PhantomData }, x, layout, destination);
            }
        )+ };
    }
    of!(F32 f32, F64 f64, F16 f16, BF16 bf16);
    Err(crate::error::Error::NoData { op, device: "Tape" })
}

/// Average pooling on a device that records. The padding of `pool` is in numbers.
pub(super) fn avg_pool_by_rule<
    T: Float,
    const RANK: usize,
    const N: usize,
    D: Device,
    P: Destination<T, RANK, D>,
>(
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

impl<T: Float> OpMany<(T, bool, T, T, T)> for ToFirstLargest {
    const NAME: &'static str = "max_pool";
    type Out = (T, bool);
    #[inline(always)]
    fn call<L: Lanes>(
        (to, found, x, largest, gradient): (
            Lane<L, Compute<T>>,
            Lane<L, bool>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
            Lane<L, Compute<T>>,
        ),
    ) -> (Lane<L, Compute<T>>, Lane<L, bool>) {
        let here = (x.eq(largest) | x.is_nan()) & !found;
        (to + here.select(gradient, Lane::zero()), found | here)
    }
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
    fn of_largest<D: Device>(
        &self,
        [x, y, gradient]: [TensorView<'_, T, RANK, D>; 3],
        mut out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        out.fill(T::zero())?;
        if is_few(&y.size().0[2..], &self.pool.window) {
            // By positions; a window without elements has none.
            let op = "max_pool";
            let (_, at) = largest_with_positions(op, x, self.pool, (Allocate, Allocate))?;
            let (at, gradient) = (at.to_shape(flat(y.size()))?, gradient.to_shape(flat(y.size()))?);
            let (found, inside) = (at.greater_equal(0)?, at.maximum(0)?);
            let gradient = found.select(&gradient, T::zero())?;
            let mut cells = Tensor::<T, 3, D>::zeros(flat(x.size()), x.device())?;
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

    fn of_mean<D: Device>(
        &self,
        gradient: TensorView<'_, T, RANK, D>,
        mut out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<()> {
        out.fill(T::zero())?;
        let mut shares = gradient.cast::<f64>()?;
        divide_by_counts(&mut shares, out.size(), &self.pool)?;
        let shares = shares.cast::<T>()?;
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
            let out = target.view_mut()?;
            if const { MAX } {
                self.of_largest([recorded.inputs[0].view()?, recorded.result.view()?, gradient], out)?;
            } else {
                self.of_mean(gradient, out)?;
            }
        }
        Ok(())
    }
}
