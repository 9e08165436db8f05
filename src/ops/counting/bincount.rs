//! Counts, and sums of weights, by value.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::expr::IntoView;
use crate::layout::Layout;
use crate::ops::Add;
use crate::ops::indexing::scatter::{index_scatter, scatter_size};
use crate::ops::methods::methods_with_into;
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
        index_scatter(op, Add, out, 0, numbers, weights)
    })
}

methods_with_into! {
    [[] i64, 1 -> i64]
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
    fn bincount,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut counts = Tensor::from([[7_i64; 4]; 2]);
    /// Tensor::from([1, 3, 1]).bincount_into(4, counts.view_mut()?.slice((1, ..))?)?;
    /// assert_eq!(counts, Tensor::from([[7, 7, 7, 7], [0, 2, 0, 1]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    bincount_into [](bins: usize) -> 1
    where []
    = |op, x, place| counted(op, x, Tensor::ones([1], x.device())?.view(), bins, place);
}

methods_with_into! {
    [[] i64, 1 -> T]
    /// The sum of the weights of each number in `0..bins`, added in the order of the elements.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) for a number outside `0..bins`;
    /// [`Error::Sizes`](crate::Error::Sizes), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn bincount_of,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut sums = Tensor::from([9.0; 4]);
    /// Tensor::from([1, 3, 1]).bincount_of_into(&Tensor::from([0.5, 2.0, 0.25]), 4, &mut sums)?;
    /// assert_eq!(sums.to_vec()?, [0.0, 0.75, 0.0, 2.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    bincount_of_into ['b, T: Number](weights: impl IntoView<'b, T, 1, D>, bins: usize) -> 1
    where [D: 'b]
    = |op, x, place| counted(op, x, weights.into_view(), bins, place);
}
