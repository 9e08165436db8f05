//! The backward passes of max and average pooling, for devices that record.
// Imports: `error`, `dim`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::unpooling::{largest_with_positions, positions_of_largest};
use super::{avg_pool, divide_by_counts, max_pool};
use crate::device::{Device, OperatorRule, Recorded, RuleOperand, RuleOutput};
use crate::dim::Dim;
use crate::element::{Compute, Element, Float, bf16, f16};
use crate::error::{Error, Result};
use crate::expr::apply_in_place;
use crate::kernel::OpMany;
use crate::layout::Layout;
use crate::ops::nn::pool_windows::{Pool, is_few, positions_of_window, window_geometry};
use crate::ops::nn::windows::{input_part, output_part, tap_ranges};
use crate::ops::{Add, Arithmetic as _, Cast as _, Comparisons as _};
use crate::scalar::{DType, Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, Tensor, TensorView, TensorViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// A pool of floats on a device that records, as [`PoolRule`]. The padding of `pool` is in numbers.
pub(super) fn pool_by_rule<
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
    layout: Layout<RANK>,
    destination: P,
) -> Result<P::Done> {
    // A rule of a type with arithmetic, which `T` need not have: only the one of `T` is compiled.
    macro_rules! of {
        ($out:ident: $($dtype:ident $F:ty),+) => { $(
            if const { matches!(T::DTYPE, DType::$dtype) } {
                let rule = PoolRule::<$F, RANK, N, MAX> { pool, element: PhantomData };
                let done = x.device().ruled(rule, &[x.rule_operand()], $out.rule_output());
                return done.map_err(|error| error.with_op(op));
            }
        )+ };
    }
    destination.put(op, layout, x.device(), |out| {
        of!(out: F32 f32, F64 f64, F16 f16, BF16 bf16);
        Err(Error::NoData { op, device: "Tape" })
    })
}

/// The rule of max pooling (`MAX`) or average pooling.
#[derive(Clone, Copy)]
struct PoolRule<T, const RANK: usize, const N: usize, const MAX: bool> {
    pool: Pool<N>,
    element: PhantomData<fn() -> T>,
}

/// The element of each window that receives its gradient.
enum Largest<const RANK: usize, D: Device> {
    /// Its number among those of the window, [`NONE`] for a window without elements.
    Taps(Tensor<u8, RANK, D>),
    /// Its position in the plane of its batch and channel, or −1.
    Positions(Tensor<i64, RANK, D>),
}

/// No element of a window.
const NONE: u8 = u8::MAX;

/// The larger of two elements and its number: the first of equal ones, the last of NaNs.
/// `(best, its number, x, its number)`.
#[derive(Clone, Copy, Debug)]
struct KeepLargerNumber;

impl<T: Float> OpMany<(T, u8, T, u8)> for KeepLargerNumber {
    const NAME: &'static str = "max_pool";
    type Out = (T, u8);
    #[inline(always)]
    fn call<L: Lanes>(
        (best, at, x, here): (Lane<L, Compute<T>>, Lane<L, u8>, Lane<L, Compute<T>>, Lane<L, u8>),
    ) -> (Lane<L, Compute<T>>, Lane<L, u8>) {
        let better = at.eq(i64::from(NONE)) | x.gt(best) | x.is_nan();
        (best.max(x), better.select(here, at))
    }
}

/// The number of the largest element, which is known, by the same rule:
/// `(the number so far, the largest element, x, its number)`.
#[derive(Clone, Copy, Debug)]
struct NumberOfLargest;

impl<T: Float> OpMany<(u8, T, T, u8)> for NumberOfLargest {
    const NAME: &'static str = "max_pool";
    type Out = (u8,);
    #[inline(always)]
    fn call<L: Lanes>(
        (at, best, x, here): (Lane<L, u8>, Lane<L, Compute<T>>, Lane<L, Compute<T>>, Lane<L, u8>),
    ) -> (Lane<L, u8>,) {
        let found = at.eq(i64::from(NONE)) & x.eq(best) | x.is_nan();
        (found.select(here, at),)
    }
}

/// Adds the gradient of a window to its element with this number: `(gradient, at, of the window, number)`.
#[derive(Clone, Copy, Debug)]
struct ToLargest;

impl<S: Float, T: Float> OpMany<(S, u8, T, u8)> for ToLargest {
    const NAME: &'static str = "max_pool";
    type Out = (S,);
    #[inline(always)]
    fn call<L: Lanes>(
        (to, at, gradient, here): (Lane<L, Compute<S>>, Lane<L, u8>, Lane<L, Compute<T>>, Lane<L, u8>),
    ) -> (Lane<L, Compute<S>>,) {
        (to + at.eq(here).select(gradient, Lane::zero()).cast(),)
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

/// The numbers of the elements of a window, in the order of their taps.
fn numbered<const N: usize>(pool: &Pool<N>) -> impl Iterator<Item = (u8, [usize; N])> {
    (0..NONE).zip(Dim(pool.window).indices())
}

impl<T: Float, const RANK: usize, const N: usize, const MAX: bool> PoolRule<T, RANK, N, MAX> {
    /// Computes the largest element of each window, and which one it is.
    fn largest<D: Device>(
        &self,
        x: TensorView<'_, T, RANK, D>,
        mut out: TensorViewMut<'_, T, RANK, D>,
    ) -> Result<Largest<RANK, D>> {
        let (windows, op, geometry) = (out.size(), Self::NAME, window_geometry(&self.pool));
        let taps = self.pool.window.iter().fold(1, |taps: usize, n| taps.saturating_mul(*n));
        if const { D::RECORDS } {
            // The device inside records the values by this rule. It does not record how the numbers are
            // found, which are no floats.
            max_pool(op, x, self.pool, Existing(out.reborrow()))?;
            if taps > usize::from(NONE) {
                let at = positions_of_largest(op, x, &self.pool, out.layout().preserved())?;
                return Ok(Largest::Positions(at));
            }
        } else {
            if is_few(&windows.0[2..], &self.pool.window) || taps > usize::from(NONE) {
                let (_, at) = largest_with_positions(op, x, self.pool, (Existing(out), Allocate))?;
                return Ok(Largest::Positions(at));
            }
            out.fill(T::narrow(Ordered::LOWEST))?;
        }
        let mut at = Tensor::<u8, RANK, D>::uninit(op, out.layout().preserved(), x.device())?;
        at.fill(NONE)?;
        for (number, tap) in numbered(&self.pool) {
            let (windows, inputs) = tap_ranges(&geometry, tap, windows, x.size());
            let (x, at) = (input_part(x, &inputs)?, output_part(at.try_view_mut(op)?, &windows)?);
            if const { D::RECORDS } {
                let largest = windows_of(out.as_view(), &windows)?;
                apply_in_place(NumberOfLargest, (at,), (largest, x, number))?;
            } else {
                apply_in_place(KeepLargerNumber, (output_part(out.reborrow(), &windows)?, at), (x, number))?;
            }
        }
        Ok(Largest::Taps(at))
    }

    /// Writes the gradient of the operand, in elements `S`.
    fn spread<S: Float, D: Device>(
        &self,
        largest: &Option<Largest<RANK, D>>,
        gradient: TensorView<'_, T, RANK, D>,
        out: TensorViewMut<'_, S, RANK, D>,
    ) -> Result<()> {
        match largest {
            Some(largest) => self.of_largest(largest, gradient, out),
            None => self.of_mean(gradient, out),
        }
    }

    /// The gradient of max pooling, in elements `S`.
    fn of_largest<S: Float, D: Device>(
        &self,
        largest: &Largest<RANK, D>,
        gradient: TensorView<'_, T, RANK, D>,
        mut out: TensorViewMut<'_, S, RANK, D>,
    ) -> Result<()> {
        let (op, size) = (Self::NAME, out.size());
        match largest {
            Largest::Positions(at) => {
                let (at, gradient) = (at.to_shape(flat(at.size()))?, gradient.to_shape(flat(at.size()))?);
                let (found, inside) = (at.greater_equal(0)?, at.maximum(0)?);
                let gradient = found.lazy().select(gradient.lazy().cast::<S>(), S::zero()).eval()?;
                let mut cells = Tensor::<S, 3, D>::zeros(flat(size), out.device())?;
                cells.try_view_mut(op)?.scatter_axis(Add, 2, &inside, &gradient)?;
                out.assign(cells.reshape(size)?)
            }
            Largest::Taps(at) => {
                out.fill(S::zero())?;
                for (number, tap) in numbered(&self.pool) {
                    let (windows, inputs) = tap_ranges(&window_geometry(&self.pool), tap, at.size(), size);
                    let updated = part_of(out.reborrow(), &inputs)?;
                    let operands =
                        (windows_of(at.view(), &windows)?, windows_of(gradient, &windows)?, number);
                    apply_in_place(ToLargest, (updated,), operands)?;
                }
                Ok(())
            }
        }
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

impl<T: Float, const RANK: usize, const N: usize, const MAX: bool> OperatorRule
    for PoolRule<T, RANK, N, MAX>
{
    const NAME: &'static str = if MAX { "max_pool" } else { "avg_pool" };
    const READS_RESULT: bool = false;
    /// For max pooling.
    type Saved<D: Device> = Option<Largest<RANK, D>>;

    fn reads(_: usize) -> u64 {
        0
    }

    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()> {
        let (x, out) = (inputs[0].view::<T, RANK>()?, Existing(output.view_mut()?));
        if const { MAX } {
            max_pool(Self::NAME, x, self.pool, out)
        } else {
            avg_pool(Self::NAME, x, self.pool, out)
        }
    }

    fn forward_and_save<D: Device>(
        &self,
        inputs: &[RuleOperand<'_, D>],
        output: RuleOutput<'_, D>,
    ) -> Result<Self::Saved<D>> {
        if const { !MAX } {
            self.forward(inputs, output)?;
            return Ok(None);
        }
        self.largest(inputs[0].view()?, output.view_mut()?).map(Some)
    }

    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, Self::Saved<D>>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()> {
        let (largest, gradient) = (recorded.saved, recorded.gradient.view::<T, RANK>()?);
        for target in targets.into_iter().flatten() {
            let mut out = target.view_mut::<T, RANK>()?;
            if const { size_of::<T>() == size_of::<Compute<T>>() } {
                self.spread(&largest, gradient, out)?;
            } else {
                // Windows overlap: their sums are not rounded to 16 bits one by one.
                let mut sums =
                    Tensor::<f32, RANK, D>::uninit(Self::NAME, out.layout().preserved(), out.device())?;
                self.spread(&largest, gradient, sums.try_view_mut(Self::NAME)?)?;
                out.assign(sums.lazy().cast::<T>())?;
            }
        }
        Ok(())
    }
}
