//! Max pooling with the positions of the largest elements, and its inverse, which writes elements to these
//! positions.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`,
// `ops`.

use crate::device::{Device, same_device};
use crate::dim::Dim;
use crate::element::{Compute, Element, RealNumber};
use crate::error::{Error, Result};
use crate::expr::{IntoView, apply_in_place, reduce_at};
use crate::kernel::{OpMany, Reducer};
use crate::layout::Layout;
use crate::ops::indexing::scatter::scatter;
use crate::ops::nn::pool_windows::{Pool, is_few, output_layout, positions_of_window, window_geometry};
use crate::ops::nn::windows::{input_part, output_part, tap_ranges};
use crate::ops::reduction::slopes::slope;
use crate::ops::{Indexing as _, Max, Replace};
use crate::rank::Spatial;
use crate::scalar::{Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// The larger of two elements and its position: the first of equal ones, the last of NaNs.
/// `(best, its position, x, its position)`.
#[derive(Clone, Copy, Debug)]
struct KeepLargerPosition;

impl<T: RealNumber> OpMany<(T, i64, T, i64)> for KeepLargerPosition {
    const NAME: &'static str = "max_pool";
    type Out = (T, i64);
    #[inline(always)]
    fn call<L: Lanes>(
        (best, at, x, here): (Lane<L, Compute<T>>, Lane<L, i64>, Lane<L, Compute<T>>, Lane<L, i64>),
    ) -> (Lane<L, Compute<T>>, Lane<L, i64>) {
        let better = at.lt(0) | x.gt(best) | x.is_nan();
        (best.max(x), better.select(here, at))
    }
}

/// The position of the largest element, by the same rule; −1 for no elements. A NaN has the highest score.
#[derive(Clone, Copy, Debug)]
struct PositionOfLargest;

impl<T: RealNumber> Reducer<T> for PositionOfLargest {
    const NAME: &'static str = "max_pool";
    type Out = i64;
    type State<L: Lanes> = (Lane<L, i64>, Lane<L, i64>);
    #[inline(always)]
    fn identity<L: Lanes>() -> Self::State<L> {
        (Lane::lowest(), Lane::int(-1))
    }
    #[inline(always)]
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        at: Lane<L, i64>,
    ) -> Self::State<L> {
        // Adding 0 turns −0 into 0: they are equal.
        let score = x.is_nan().select(Lane::highest(), (x + Lane::zero()).order_key().cast());
        <Self as Reducer<T>>::combine(state, (score, at))
    }
    #[inline(always)]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        let last = Lane::literal(!T::DTYPE.is_discrete()) & a.0.eq(Lane::highest());
        let wins = (last & b.1.gt(a.1)) | (!last & b.1.lt(a.1));
        let better = b.0.gt(a.0) | b.0.eq(a.0) & (a.1.lt(0) | b.1.ge(0) & wins);
        (better.select(b.0, a.0), better.select(b.1, a.1))
    }
    #[inline(always)]
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, i64> {
        state.1
    }
    slope! { <T> None }
}

/// The largest element of each window, and its position in the plane of its batch and channel.
pub(super) fn largest_with_positions<T, const RANK: usize, const N: usize, D: Device, A, B>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: Pool<N>,
    (values, indices): (A, B),
) -> Result<(A::Done, B::Done)>
where
    T: RealNumber,
    A: Destination<T, RANK, D>,
    B: Destination<i64, RANK, D>,
{
    x.ensure_allocated(op)?;
    let (layout, pool) = output_layout(op, &x, pool)?;
    layout.size().numel_of(op, size_of::<i64>())?;
    let positions = positions_in_plane(op, x)?;
    let both = |values: &mut TensorViewMut<'_, T, RANK, D>, indices: &mut TensorViewMut<'_, i64, RANK, D>| {
        values.fill(T::narrow(Ordered::LOWEST))?;
        indices.fill(-1)?;
        if is_few(&layout.size().0[2..], &pool.window) {
            return reduce_each_window(x, positions.view(), Some(values), indices, &pool);
        }
        let conv = window_geometry(&pool);
        for tap in Dim(pool.window).indices() {
            let (windows, inputs) = tap_ranges(&conv, tap, layout.size(), x.size());
            let updated =
                (output_part(values.reborrow(), &windows)?, output_part(indices.reborrow(), &windows)?);
            apply_in_place(
                KeepLargerPosition,
                updated,
                (input_part(x, &inputs)?, input_part(positions.view(), &inputs)?),
            )?;
        }
        Ok(())
    };
    values.put_with(op, layout, x.device(), |values| {
        indices.put(op, layout, x.device(), |indices| both(values, indices))
    })
}

/// The position of each element in the plane of its batch and channel.
fn positions_in_plane<T, const RANK: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
) -> Result<Tensor<i64, RANK, D>> {
    let plane = Dim(std::array::from_fn(|axis| if axis < 2 { 1 } else { x.size().0[axis] }));
    let count = plane.numel_of(op, size_of::<i64>())? as i64;
    Tensor::<i64, 1, D>::arange(0, count, 1, x.device())?.into_shape(plane)
}

/// The positions of [`largest_with_positions`] without the elements, by one reduction of each window.
pub(super) fn positions_of_largest<T: RealNumber, const RANK: usize, const N: usize, D: Device>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    pool: &Pool<N>,
    layout: Layout<RANK>,
) -> Result<Tensor<i64, RANK, D>> {
    let mut indices = Tensor::uninit(op, layout, x.device())?;
    indices.fill(-1)?;
    let positions = positions_in_plane(op, x)?;
    reduce_each_window(x, positions.view(), None, &mut indices.try_view_mut(op)?, pool)?;
    Ok(indices)
}

/// As [`largest_with_positions`] for windows that are long and few: a reduction of each to a position, and
/// one to an element.
fn reduce_each_window<T: RealNumber, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    positions: TensorView<'_, i64, RANK, D>,
    mut values: Option<&mut TensorViewMut<'_, T, RANK, D>>,
    indices: &mut TensorViewMut<'_, i64, RANK, D>,
    pool: &Pool<N>,
) -> Result<()> {
    let mut windows = indices.size();
    windows.0[..2].fill(1);
    let plane = std::array::from_fn(|axis| axis >= 2);
    for window in windows.indices() {
        let inside: [_; N] = std::array::from_fn(|axis| {
            positions_of_window(pool, axis, window[axis + 2], x.size().0[axis + 2])
        });
        let windows: [_; N] = std::array::from_fn(|axis| window[axis + 2]..window[axis + 2] + 1);
        let x = input_part(x, &inside)?;
        if x.numel() == 0 {
            continue;
        }
        let line = input_part(positions, &inside)?;
        let line = line.to_shape([line.numel()])?;
        let at: Tensor<i64, 2, D> = reduce_at(PositionOfLargest, &x, x.device(), plane, Allocate)?;
        let flat = [x.size().0[0], x.size().0[1]];
        output_part(indices.reborrow(), &windows)?.reshape(flat)?.assign(&line.take(&at)?)?;
        if let Some(values) = &mut values {
            let largest = output_part(values.reborrow(), &windows)?.reshape(flat)?;
            reduce_at::<_, RANK, 2, D, _, _>(Max, &x, x.device(), plane, Existing(largest))?;
        }
    }
    Ok(())
}

/// Zeros of this size, with the elements of `x` written to `indices` in the plane of each batch and channel.
fn unpooled<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    indices: TensorView<'_, i64, RANK, D>,
    size: [usize; N],
    destination: P,
) -> Result<P::Done> {
    same_device(op, x.device(), indices.device())?;
    x.ensure_allocated(op)?;
    indices.ensure_allocated(op)?;
    if x.size() != indices.size() {
        return Err(Error::Sizes { op, left: x.size().0.into(), right: indices.size().0.into() });
    }
    let [batch, channels] = [x.size().0[0], x.size().0[1]];
    let whole = Dim(std::array::from_fn(|axis| if axis < 2 { x.size().0[axis] } else { size[axis - 2] }));
    let layout = Layout::row_major_of(op, whole, size_of::<T>())?;
    let plane = |size: Dim<RANK>| {
        [batch, channels, size.0[2..].iter().fold(1, |product: usize, n| product.saturating_mul(*n))]
    };
    let (x, indices) = (x.to_shape(plane(x.size()))?, indices.to_shape(plane(indices.size()))?);
    destination.put(op, layout, x.device(), |out| {
        out.fill(T::default())?;
        let put =
            |cells: &mut TensorViewMut<'_, T, 3, D>| scatter(op, Replace, cells, 2, indices.view(), x.view());
        if let Ok(mut cells) = out.reborrow().reshape(plane(whole)) {
            return put(&mut cells);
        }
        // The strides of the result do not merge a plane into one axis.
        let mut cells = Tensor::zeros(plane(whole), x.device())?;
        put(&mut cells.try_view_mut(op)?)?;
        out.assign(cells.reshape(whole)?)
    })
}

/// Max pooling with positions, over `$n` axes.
macro_rules! max_pools_with_indices {
    ($($name:ident $into:ident $pool:ident $n:literal;)*) => { $(
        #[doc = concat!("[`", stringify!($pool), "`](Tensor::", stringify!($pool), "), and the position of")]
        /// each largest element in the plane of its batch and channel, counted row by row: the first of equal
        /// elements, the last of several NaNs. A window with no element inside the input has position −1.
        ///
        /// # Cost
        /// Two allocations, and one of the positions of a plane; one pass over the results for each element
        /// of a window, or two reductions of each window if they are long and few.
        ///
        /// # Errors
        #[doc = concat!("Those of [`", stringify!($pool), "`](Tensor::", stringify!($pool), ").")]
        ///
        /// # Source
        /// PyTorch's `max_pool1d` … `max_pool3d` with `return_indices`.
        fn $name(self, pool: Pool<$n>) -> Result<(Tensor<T, RANK, D>, Tensor<i64, RANK, D>)>
        where T: RealNumber, Dim<RANK>: Spatial<$n> {
            largest_with_positions(stringify!($name), self.into_view(), pool, (Allocate, Allocate))
        }

        #[doc = concat!("As [`", stringify!($name), "`](MaxPools::", stringify!($name), "),")]
        /// into two existing tensors or exclusive views: the largest, then the positions.
        ///
        /// # Errors
        /// As there; [`Error::Output`] when one has other sizes, [`Error::Shared`] when it has other handles.
        fn $into<'o>(
            self,
            pool: Pool<$n>,
            largest: impl IntoViewMut<'o, T, RANK, D>,
            indices: impl IntoViewMut<'o, i64, RANK, D>,
        ) -> Result<()>
        where T: RealNumber, D: 'o, Dim<RANK>: Spatial<$n> {
            let places = (Existing(largest), Existing(indices));
            largest_with_positions(stringify!($into), self.into_view(), pool, places).map(|_| ())
        }
    )* };
}

/// The inverse of max pooling, over `$n` axes.
macro_rules! max_unpools {
    ($($name:ident $into:ident $max:ident $n:literal;)*) => { $(
        /// A tensor of zeros with these elements at `indices`: positions in a plane of `size`, as given by
        #[doc = concat!("[`", stringify!($max), "`](MaxPools::", stringify!($max), ").")]
        /// If several elements have one position, the last one stays.
        ///
        /// # Shapes
        /// `[batch, channel, n, …] → [batch, channel, size, …]`; the indices have the sizes of the elements.
        ///
        /// # Errors
        /// [`Error::Sizes`] when the indices have other sizes, [`Error::Index`] when one is outside the
        /// plane, for example −1; [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
        ///
        /// # Source
        /// PyTorch's `max_unpool1d` … `max_unpool3d`; `size` is `output_size`.
        fn $name<'b>(
            self,
            indices: impl IntoView<'b, i64, RANK, D>,
            size: [usize; $n],
        ) -> Result<Tensor<T, RANK, D>>
        where T: Element, D: 'b, Dim<RANK>: Spatial<$n> {
            unpooled(stringify!($name), self.into_view(), indices.into_view(), size, Allocate)
        }

        #[doc = concat!("As [`", stringify!($name), "`](MaxPools::", stringify!($name), "),")]
        /// into an existing tensor or exclusive view.
        ///
        /// # Errors
        /// As there; [`Error::Output`] for other sizes, [`Error::Shared`] for an output with other handles.
        fn $into<'b, 'o>(
            self,
            indices: impl IntoView<'b, i64, RANK, D>,
            size: [usize; $n],
            out: impl IntoViewMut<'o, T, RANK, D>,
        ) -> Result<()>
        where T: Element, D: 'b + 'o, Dim<RANK>: Spatial<$n> {
            unpooled(stringify!($into), self.into_view(), indices.into_view(), size, Existing(out))
        }
    )* };
}

/// Max pooling with positions, and its inverse, of tensors and views `[batch, channel, n, …]`.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// let x = Tensor::from([[[[1, 2, 0, 5], [9, 4, 5, 0]]]]);
/// let (largest, indices) = x.max_pool2d_with_indices(Pool::new([2, 2]))?;
/// assert_eq!((largest.to_vec()?, indices.to_vec()?), (vec![9, 5], vec![4, 3])); // row-major
/// let y = largest.max_unpool2d(&indices, [2, 4])?;
/// assert_eq!(y, Tensor::from([[[[0, 0, 0, 5], [9, 0, 0, 0]]]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub trait MaxPools<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    max_pools_with_indices! {
        max_pool1d_with_indices max_pool1d_with_indices_into max_pool1d 1;
        max_pool2d_with_indices max_pool2d_with_indices_into max_pool2d 2;
        max_pool3d_with_indices max_pool3d_with_indices_into max_pool3d 3;
    }
    max_unpools! {
        max_unpool1d max_unpool1d_into max_pool1d_with_indices 1;
        max_unpool2d max_unpool2d_into max_pool2d_with_indices 2;
        max_unpool3d max_unpool3d_into max_pool3d_with_indices 3;
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> MaxPools<'a, T, RANK, D> for X {}
