//! Where the largest of each window stands, and the way back: elements put where the largest stood.
// Imports: `error`, `dim`, `rank`, `layout`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

use super::pooling::{Pool, is_few, places_of, result, steps};
use super::windows::{cut, part, seen};
use crate::device::{Device, same_device};
use crate::dim::{Axis, Dim};
use crate::element::{Compute, Element, RealNumber};
use crate::error::{Error, Result};
use crate::expr::{IntoView, apply_in_place, reduce_at};
use crate::kernel::{OpMany, Reducer};
use crate::layout::Layout;
use crate::ops::{Indexing as _, Max, Replace};
use crate::rank::Spatial;
use crate::scalar::{Lane, Lanes, Ordered};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};

/// The larger of two elements, and where it stands: of equals the first, of NaNs the last. `(best, its position, x, its position)`.
#[derive(Clone, Copy, Debug)]
struct Larger;

impl<T: RealNumber> OpMany<(T, i64, T, i64)> for Larger {
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

/// Where the largest stands, by the same rule; −1 for no elements. A NaN has the highest score.
#[derive(Clone, Copy, Debug)]
struct LargestAt;

impl<T: RealNumber> Reducer<T> for LargestAt {
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
        // Zeros of two signs are equal.
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
}

/// The largest of each window, and where it stands in the plane of its batch and channel.
fn largest<T, const RANK: usize, const N: usize, D: Device, A, B>(
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
    let (layout, pool) = result(op, &x, pool)?;
    layout.size().numel_of(op, size_of::<i64>())?;
    let plane = Dim(std::array::from_fn(|axis| if axis < 2 { 1 } else { x.size().0[axis] }));
    let positions =
        Tensor::<i64, 1, D>::arange(0, plane.numel_of(op, size_of::<i64>())? as i64, 1, x.device())?
            .into_shape(plane)?;
    let both = |values: &mut TensorViewMut<'_, T, RANK, D>, indices: &mut TensorViewMut<'_, i64, RANK, D>| {
        values.fill(T::narrow(Ordered::LOWEST))?;
        indices.fill(-1)?;
        if is_few(&layout.size().0[2..], &pool.window) {
            return one_by_one(x, positions.view(), values, indices, &pool);
        }
        let conv = steps(&pool);
        for place in Dim(pool.window).indices() {
            let (own, other) = cut(&conv, place, layout.size(), x.size());
            let updated = (part(values.reborrow(), &own)?, part(indices.reborrow(), &own)?);
            apply_in_place(Larger, updated, (seen(x, &other)?, seen(positions.view(), &other)?))?;
        }
        Ok(())
    };
    values.put_with(op, layout, x.device(), |values| {
        indices.put(op, layout, x.device(), |indices| both(values, indices))
    })
}

/// As [`largest`], where windows are long and few: two reductions of each.
fn one_by_one<T: RealNumber, const RANK: usize, const N: usize, D: Device>(
    x: TensorView<'_, T, RANK, D>,
    positions: TensorView<'_, i64, RANK, D>,
    values: &mut TensorViewMut<'_, T, RANK, D>,
    indices: &mut TensorViewMut<'_, i64, RANK, D>,
    pool: &Pool<N>,
) -> Result<()> {
    let mut windows = values.size();
    windows.0[..2].fill(1);
    let plane = std::array::from_fn(|axis| axis >= 2);
    for window in windows.indices() {
        let inside: [_; N] =
            std::array::from_fn(|axis| places_of(pool, axis, window[axis + 2], x.size().0[axis + 2]));
        let own: [_; N] = std::array::from_fn(|axis| window[axis + 2]..window[axis + 2] + 1);
        let x = seen(x, &inside)?;
        if x.numel() == 0 {
            continue;
        }
        let line = seen(positions, &inside)?;
        let line = line.to_shape([line.numel()])?;
        let at: Tensor<i64, 2, D> = reduce_at(LargestAt, &x, x.device(), plane, Allocate)?;
        let flat = [x.size().0[0], x.size().0[1]];
        part(indices.reborrow(), &own)?.reshape(flat)?.assign(&line.take(&at)?)?;
        reduce_at::<_, RANK, 2, D, _, _>(
            Max,
            &x,
            x.device(),
            plane,
            Existing(part(values.reborrow(), &own)?.reshape(flat)?),
        )?;
    }
    Ok(())
}

/// Zeros of this size, and the elements of `x` at `indices` in the plane of each batch and channel.
fn unpooled<T: Element, const RANK: usize, const N: usize, D: Device, P: Destination<T, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    indices: TensorView<'_, i64, RANK, D>,
    size: [usize; N],
    place: P,
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
    place.put(op, layout, x.device(), |out| {
        out.fill(T::default())?;
        let put = |cells: &mut TensorViewMut<'_, T, 3, D>| {
            cells.scatter(Replace, Axis::<2>, &indices, &x).map_err(|error| error.with_op(op))
        };
        if let Ok(mut cells) = out.reborrow().reshape(plane(whole)) {
            return put(&mut cells);
        }
        // The result stands where no strides make a plane one axis.
        let mut cells = Tensor::zeros(plane(whole), x.device())?;
        put(&mut cells.try_view_mut(op)?)?;
        out.assign(cells.reshape(whole)?)
    })
}

macro_rules! pools {
    ($($max:ident $max_into:ident $unpool:ident $unpool_into:ident $pool:ident $n:literal;)*) => {
        /// Largest of windows with where they stand, and the way back, of tensors and views `[batch, channel, n, …]`.
        ///
        /// # Examples
        /// ```
        /// use rankform::prelude::*;
        /// let x = Tensor::from([[[[1, 2, 0, 5], [9, 4, 5, 0]]]]);
        /// let (largest, indices) = x.max_pool2d_with_indices(Pool::new([2, 2]))?;
        /// assert_eq!((largest.to_vec()?, indices.to_vec()?), (vec![9, 5], vec![4, 3])); // row-major in the plane; of equals the first
        /// assert_eq!(largest.max_unpool2d(&indices, [2, 4])?, Tensor::from([[[[0, 0, 0, 5], [9, 0, 0, 0]]]]));
        /// # Ok::<(), rankform::Error>(())
        /// ```
        pub trait MaxPools<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized { $(
            #[doc = concat!("[`", stringify!($pool), "`](Tensor::", stringify!($pool), "), and the position of each largest element in the")]
            /// plane of its batch and channel, counted row by row. Of equal elements it is the first, of several NaNs the last.
            /// A window with no place inside the input has position −1.
            ///
            /// # Cost
            /// Two allocations, and one of the positions of a plane; as many passes over the results as a window has
            /// places, or two reductions of each window where they are long and few.
            ///
            /// # Errors
            #[doc = concat!("Those of [`", stringify!($pool), "`](Tensor::", stringify!($pool), ").")]
            ///
            /// # Source
            /// PyTorch's `max_pool1d` … `max_pool3d` with `return_indices`.
            fn $max(self, pool: Pool<$n>) -> Result<(Tensor<T, RANK, D>, Tensor<i64, RANK, D>)>
            where
                T: RealNumber,
                Dim<RANK>: Spatial<$n>,
            {
                largest(stringify!($max), self.into_view(), pool, (Allocate, Allocate))
            }

            #[doc = concat!("As [`", stringify!($max), "`](MaxPools::", stringify!($max), "), into two existing tensors or exclusive views: the largest, then the positions.")]
            ///
            /// # Errors
            /// As there; [`Error::Output`] when one has other sizes, [`Error::Shared`] when it has other handles.
            fn $max_into<'o>(
                self,
                pool: Pool<$n>,
                largest: impl IntoViewMut<'o, T, RANK, D>,
                indices: impl IntoViewMut<'o, i64, RANK, D>,
            ) -> Result<()>
            where
                T: RealNumber,
                D: 'o,
                Dim<RANK>: Spatial<$n>,
            {
                self::largest(stringify!($max_into), self.into_view(), pool, (Existing(largest), Existing(indices))).map(|_| ())
            }

            #[doc = concat!("A tensor of zeros with these elements where `indices` say, positions in a plane of `size` as [`", stringify!($max), "`](MaxPools::", stringify!($max), ") gives them.")]
            /// Of elements with one position the last stays.
            ///
            /// # Shapes
            /// `[batch, channel, n, …] → [batch, channel, size, …]`; the indices have the sizes of the elements.
            ///
            /// # Errors
            /// [`Error::Sizes`] when the indices have other sizes, [`Error::Index`] when one lies outside the plane, as −1 does;
            /// [`Error::Device`], [`Error::Unallocated`], [`Error::OutOfMemory`].
            ///
            /// # Source
            /// PyTorch's `max_unpool1d` … `max_unpool3d`; `size` is `output_size`.
            fn $unpool<'b>(self, indices: impl IntoView<'b, i64, RANK, D>, size: [usize; $n]) -> Result<Tensor<T, RANK, D>>
            where
                T: Element,
                D: 'b,
                Dim<RANK>: Spatial<$n>,
            {
                unpooled(stringify!($unpool), self.into_view(), indices.into_view(), size, Allocate)
            }

            #[doc = concat!("As [`", stringify!($unpool), "`](MaxPools::", stringify!($unpool), "), into an existing tensor or exclusive view.")]
            ///
            /// # Errors
            /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
            fn $unpool_into<'b, 'o>(
                self,
                indices: impl IntoView<'b, i64, RANK, D>,
                size: [usize; $n],
                out: impl IntoViewMut<'o, T, RANK, D>,
            ) -> Result<()>
            where
                T: Element,
                D: 'b + 'o,
                Dim<RANK>: Spatial<$n>,
            {
                unpooled(stringify!($unpool_into), self.into_view(), indices.into_view(), size, Existing(out))
            }
        )* }
        impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> MaxPools<'a, T, RANK, D> for X {}
    };
}
pools! {
    max_pool1d_with_indices max_pool1d_with_indices_into max_unpool1d max_unpool1d_into max_pool1d 1;
    max_pool2d_with_indices max_pool2d_with_indices_into max_unpool2d max_unpool2d_into max_pool2d 2;
    max_pool3d_with_indices max_pool3d_with_indices_into max_unpool3d max_unpool3d_into max_pool3d 3;
}
