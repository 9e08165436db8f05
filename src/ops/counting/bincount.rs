//! Counts, and sums of weights, by value.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::{Axis, Dim};
use crate::element::Number;
use crate::error::Result;
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::Add;
use crate::ops::indexing::scatter::scatter_size;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// The sum of the weights of each number in `0..bins`.
fn counted<T: Number, D: Device, P: Destination<T, 1, D>>(
    op: &'static str,
    numbers: TensorView<'_, i64, 1, D>,
    weights: TensorView<'_, T, 1, D>,
    bins: usize,
    destination: P,
) -> Result<P::Done> {
    destination.put(op, Layout::row_major_of(op, Dim([bins]), size_of::<T>())?, numbers.device(), |out| {
        scatter_size(op, out, 0, &numbers, &weights)?;
        out.fill(T::zero())?;
        out.index_scatter(Add, Axis::<0>, numbers, weights).map_err(|error| error.with_op(op))
    })
}

impl<D: Device> TensorView<'_, i64, 1, D> {
    /// The number of occurrences of each number; see [`Tensor::bincount`].
    ///
    /// # Errors
    /// As [`Tensor::bincount`].
    pub fn bincount(self, bins: usize) -> Result<Tensor<i64, 1, D>> {
        counted("bincount", self, Tensor::ones([1], self.device())?.view(), bins, Allocate)
    }

    /// As [`bincount`](Tensor::bincount), into an existing tensor or exclusive view; see
    /// [`Tensor::bincount_into`].
    ///
    /// # Errors
    /// As there.
    pub fn bincount_into<'o>(self, bins: usize, out: impl IntoViewMut<'o, i64, 1, D>) -> Result<()>
    where
        D: 'o,
    {
        counted("bincount_into", self, Tensor::ones([1], self.device())?.view(), bins, Existing(out))
    }

    /// The sum of the weights of each number; see [`Tensor::bincount_of`].
    ///
    /// # Errors
    /// As [`Tensor::bincount_of`].
    pub fn bincount_of<'b, T: Number>(
        self,
        weights: impl IntoView<'b, T, 1, D>,
        bins: usize,
    ) -> Result<Tensor<T, 1, D>>
    where
        D: 'b,
    {
        counted("bincount_of", self, weights.into_view(), bins, Allocate)
    }

    /// As [`bincount_of`](Tensor::bincount_of), into an existing tensor or exclusive view; see
    /// [`Tensor::bincount_of_into`].
    ///
    /// # Errors
    /// As there.
    pub fn bincount_of_into<'b, 'o, T: Number>(
        self,
        weights: impl IntoView<'b, T, 1, D>,
        bins: usize,
        out: impl IntoViewMut<'o, T, 1, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
    {
        counted("bincount_of_into", self, weights.into_view(), bins, Existing(out))
    }
}

impl<D: Device> Tensor<i64, 1, D> {
    /// The number of occurrences of each number in `0..bins`.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) for a number outside `0..bins`;
    /// [`Error::Unallocated`](crate::Error::Unallocated), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1, 3, 1]);
    /// assert_eq!(x.bincount(4)?.to_vec()?, [0, 2, 0, 1]);
    /// assert_eq!(x.bincount_of(&Tensor::from([0.5, 2.0, 0.25]), 4)?.to_vec()?, [0.0, 0.75, 0.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn bincount(&self, bins: usize) -> Result<Tensor<i64, 1, D>> {
        self.view().bincount(bins)
    }

    /// As [`bincount`](Tensor::bincount), into an existing tensor or exclusive view of `bins` elements, which
    /// are overwritten.
    ///
    /// # Errors
    /// As [`bincount`](Tensor::bincount); [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other
    /// handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut counts = Tensor::from([[7_i64; 4]; 2]);
    /// Tensor::from([1, 3, 1]).bincount_into(4, counts.view_mut()?.slice((1, ..))?)?;
    /// assert_eq!(counts, Tensor::from([[7, 7, 7, 7], [0, 2, 0, 1]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn bincount_into<'o>(&self, bins: usize, out: impl IntoViewMut<'o, i64, 1, D>) -> Result<()>
    where
        D: 'o,
    {
        self.view().bincount_into(bins, out)
    }

    /// The sum of the weights of each number in `0..bins`, added in the order of the elements.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) for a number outside `0..bins`;
    /// [`Error::Sizes`](crate::Error::Sizes), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn bincount_of<'b, T: Number>(
        &self,
        weights: impl IntoView<'b, T, 1, D>,
        bins: usize,
    ) -> Result<Tensor<T, 1, D>>
    where
        D: 'b,
    {
        self.view().bincount_of(weights, bins)
    }

    /// As [`bincount_of`](Tensor::bincount_of), into an existing tensor or exclusive view of `bins` elements,
    /// which are overwritten.
    ///
    /// # Errors
    /// As [`bincount_of`](Tensor::bincount_of); [`Error::Output`](crate::Error::Output) when `out` has other
    /// sizes, [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut sums = Tensor::from([9.0; 4]);
    /// Tensor::from([1, 3, 1]).bincount_of_into(&Tensor::from([0.5, 2.0, 0.25]), 4, &mut sums)?;
    /// assert_eq!(sums.to_vec()?, [0.0, 0.75, 0.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn bincount_of_into<'b, 'o, T: Number>(
        &self,
        weights: impl IntoView<'b, T, 1, D>,
        bins: usize,
        out: impl IntoViewMut<'o, T, 1, D>,
    ) -> Result<()>
    where
        D: 'b + 'o,
    {
        self.view().bincount_of_into(weights, bins, out)
    }
}
