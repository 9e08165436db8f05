//! Equal parts, repetitions by counts, diagonal embeddings, and copies within an axis.
// Imports: `error`, `dim`, `rank`, `element`, `device`, `tensor`, `expr`, `ops`.

use super::diagonal::diagonal_embedding;
use super::repeat::repeated_by_counts;
use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::expr::IntoView;
use crate::ops::Arrange as _;
use crate::ops::assign::in_place;
use crate::rank::{Rank, RemoveAxis};
use crate::tensor::{Allocate, Existing, IntoViewMut, Tensor, TensorView, TensorViewMut};
use std::ops::Range;

/// Operators on parts of tensors and views.
pub trait Pieces<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// `N` equal parts along axis `A`, in sequence: views. `chunks` takes a number known at run time and
    /// allows a shorter last part.
    ///
    /// # Errors
    /// [`Error::Value`] unless the size of the axis is a multiple of `N`.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3, 4, 5, 6]]);
    /// let [q, k, v] = x.split_equal(Axis::<1>)?;
    /// assert_eq!((q.to_vec()?, k.to_vec()?, v.to_vec()?), (vec![1, 2], vec![3, 4], vec![5, 6]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn split_equal<const A: usize, const N: usize>(
        self,
        axis: Axis<A>,
    ) -> Result<[TensorView<'a, T, RANK, D>; N]>
    where
        Dim<RANK>: RemoveAxis<A>,
    {
        let (_, x) = (axis, self.into_view());
        let n = x.size().0[A];
        if N == 0 || n % N != 0 {
            let what = text(format_args!("{N} equal parts do not make up axis {A} of sizes {}", x.size()));
            return Err(Error::Value { op: "split_equal", what });
        }
        x.split_axis(A, [n / N; N])
    }

    /// Repeats each position of axis `A` by its own count, in sequence: NumPy's `repeat` and PyTorch's
    /// `repeat_interleave`. With one count for all positions it is [`repeat`](crate::ops::Arrange::repeat).
    ///
    /// # Cost
    /// One allocation of the result, two passes over indices, and one synchronization with the device, to
    /// read the size of the result.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative count, or if the number of counts is not the size of the axis;
    /// [`Error::NoData`] on a device without data; [`Error::Device`], [`Error::Unallocated`],
    /// [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.repeat_each(Axis::<1>, &Tensor::from([2, 0, 1]))?, Tensor::from([[1, 1, 3], [4, 4, 6]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    #[doc(alias = "repeat_interleave")]
    fn repeat_each<'b, const A: usize>(
        self,
        axis: Axis<A>,
        counts: impl IntoView<'b, i64, 1, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
        Dim<RANK>: RemoveAxis<A>,
    {
        let _ = axis;
        self.repeat_each_axis(A, counts)
    }

    /// As [`repeat_each`](Pieces::repeat_each), along an axis known at run time.
    ///
    /// # Errors
    /// Also [`Error::Axis`].
    fn repeat_each_axis<'b>(
        self,
        axis: usize,
        counts: impl IntoView<'b, i64, 1, D>,
    ) -> Result<Tensor<T, RANK, D>>
    where
        T: Element,
        D: 'b,
    {
        repeated_by_counts("repeat_each", self.into_view(), axis, counts.into_view())
    }

    /// Square matrices with the vectors along the last axis on a diagonal, 0 (or `false`) elsewhere:
    /// `y[.., i, i + diagonal] = x[.., i]`. For one vector it is [`diag`](Tensor::diag).
    ///
    /// # Shapes
    /// `x: [.., n]` → `y: [.., m, m]` with m = n + |diagonal|.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::Unallocated`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.diag_embed(0)?, Tensor::from([[[1, 0], [0, 2]], [[3, 0], [0, 4]]]));
    /// assert_eq!(x.diag_embed(-1)?.slice((0, .., ..))?, Tensor::from([[0, 0, 0], [1, 0, 0], [0, 2, 0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn diag_embed<const M: usize>(self, diagonal: isize) -> Result<Tensor<T, M, D>>
    where
        T: Element,
        Dim<RANK>: Rank<Next = Dim<M>>,
        Dim<M>: RemoveAxis<0, Output = Dim<RANK>> + RemoveAxis<1>,
    {
        diagonal_embedding("diag_embed", self.into_view(), diagonal, Allocate)
    }

    /// As [`diag_embed`](Pieces::diag_embed), into an existing tensor or exclusive view. No allocation.
    ///
    /// # Errors
    /// As there; [`Error::Output`] when `out` has other sizes, [`Error::Shared`] when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut y = Tensor::from([[[9; 2]; 2]]);
    /// Tensor::from([[1, 2]]).diag_embed_into(0, &mut y)?;
    /// assert_eq!(y, Tensor::from([[[1, 0], [0, 2]]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn diag_embed_into<'o, const M: usize>(
        self,
        diagonal: isize,
        out: impl IntoViewMut<'o, T, M, D>,
    ) -> Result<()>
    where
        T: Element,
        D: 'o,
        Dim<RANK>: Rank<Next = Dim<M>>,
        Dim<M>: RemoveAxis<0, Output = Dim<RANK>> + RemoveAxis<1>,
    {
        diagonal_embedding("diag_embed_into", self.into_view(), diagonal, Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Pieces<'a, T, RANK, D> for X {}

in_place! {
    /// Copies positions `from` of axis `A` to the positions from `to` on, as if all elements were read before
    /// any is written.
    ///
    /// # Cost
    /// One copy; two where the ranges overlap.
    ///
    /// # Errors
    /// [`Error::Slice`] for positions beyond the axis; [`Error::OutOfMemory`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut x = Tensor::from([[1, 2, 3, 4], [5, 6, 7, 8]]);
    /// x.copy_within(Axis::<1>, 0..3, 1)?;
    /// assert_eq!(x, Tensor::from([[1, 1, 2, 3], [5, 5, 6, 7]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn copy_within[const A: usize](
        axis: Axis<A>, from: Range<usize>, to: usize
    ) where Dim<RANK>: RemoveAxis<A> = |view| {
        let (op, _) = ("copy_within", axis);
        let len = from.len();
        let (source, target) = (from.clone(), to..to.saturating_add(len));
        let part = view.as_view().slice_axis(A, source, 1).map_err(|error| error.with_op(op))?;
        view.as_view().slice_axis(A, target.clone(), 1).map_err(|error| error.with_op(op))?;
        if len == 0 || from.start == to {
            return Ok(());
        }
        if from.start.abs_diff(to) < len {
            let copy = part.copy()?;
            return view.reborrow().slice_axis(A, target, 1)?.assign(&copy);
        }
        let middle = from.start.max(to);
        let (mut low, mut high) = view.reborrow().split_at_mut(Axis::<A>, middle)?;
        let (near, far) = (from.start.min(to), 0..len);
        if to < from.start {
            return low
                .reborrow()
                .slice_axis(A, near..near + len, 1)?
                .assign(high.as_view().slice_axis(A, far, 1)?);
        }
        high.reborrow().slice_axis(A, far, 1)?.assign(low.as_view().slice_axis(A, near..near + len, 1)?)
    };
}
