//! Classes as vectors with a single 1.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::layout::Layout;
use crate::ops::Replace;
use crate::rank::Rank;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// Writes 1 at the position of each class along a new last axis.
fn encoded<T: Number, const RANK: usize, const N: usize, D: Device, P: Destination<T, N, D>>(
    op: &'static str,
    index: TensorView<'_, i64, RANK, D>,
    classes: usize,
    destination: P,
) -> Result<P::Done> {
    index.ensure_allocated(op)?;
    let sizes = |last: usize| std::array::from_fn(|a| index.size().0.get(a).copied().unwrap_or(last));
    let (device, column) = (index.device(), index.reshape::<N>(sizes(1))?);
    destination.put(op, Layout::row_major_of(op, Dim(sizes(classes)), size_of::<T>())?, device, |out| {
        out.fill(T::zero())?;
        let one = Tensor::<T, N, D>::ones([1; N], device)?;
        out.scatter_axis(Replace, N - 1, column, &one)
            .map_err(|error| error.outside(None, &[classes]).with_op(op))
    })
}

impl<const RANK: usize, D: Device> TensorView<'_, i64, RANK, D> {
    /// 1 at the position of each class, 0 elsewhere; see [`Tensor::one_hot`].
    ///
    /// # Errors
    /// As [`Tensor::one_hot`].
    pub fn one_hot<T: Number, const N: usize>(self, classes: usize) -> Result<Tensor<T, N, D>>
    where
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        encoded("one_hot", self, classes, Allocate)
    }

    /// As [`one_hot`](Tensor::one_hot), into an existing tensor or exclusive view; see
    /// [`Tensor::one_hot_into`].
    ///
    /// # Errors
    /// As there.
    pub fn one_hot_into<'o, T: Number, const N: usize>(
        self,
        classes: usize,
        out: impl IntoViewMut<'o, T, N, D>,
    ) -> Result<()>
    where
        D: 'o,
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        encoded("one_hot_into", self, classes, Existing(out))
    }
}

impl<const RANK: usize, D: Device> Tensor<i64, RANK, D> {
    /// 1 at the position of each class along a new last axis of size `classes`, 0 elsewhere; `T` is the
    /// element of the result.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) for a class outside `0..classes`;
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let y = Tensor::from([2, 0]).one_hot::<f32, _>(3)?;
    /// assert_eq!(y, Tensor::from([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn one_hot<T: Number, const N: usize>(&self, classes: usize) -> Result<Tensor<T, N, D>>
    where
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        self.view().one_hot(classes)
    }

    /// As [`one_hot`](Tensor::one_hot), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As [`one_hot`](Tensor::one_hot); [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut batch = Tensor::<f32, 2>::zeros([2, 3], &Cpu)?;
    /// Tensor::from([2, 0]).one_hot_into(3, &mut batch)?;
    /// assert_eq!(batch, Tensor::from([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn one_hot_into<'o, T: Number, const N: usize>(
        &self,
        classes: usize,
        out: impl IntoViewMut<'o, T, N, D>,
    ) -> Result<()>
    where
        D: 'o,
        Dim<RANK>: Rank<Next = Dim<N>>,
    {
        self.view().one_hot_into(classes, out)
    }
}
