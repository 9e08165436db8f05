//! Classes as vectors with a single 1.
// Imports: `error`, `dim`, `rank`, `layout`, `element`, `kernel`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::element::Number;
use crate::error::Result;
use crate::kernel::{IndexKind, IndexedAxes};
use crate::layout::Layout;
use crate::ops::Replace;
use crate::ops::indexing::scatter::scatter_of;
use crate::ops::methods::methods_with_into;
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
        let of = IndexedAxes { kind: IndexKind::Element, sizes: &[classes] };
        scatter_of(op, Replace, (out, of), N - 1, column, one.view())
    })
}

methods_with_into! {
    [[const RANK: usize,] i64, RANK -> T]
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
    fn one_hot,
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut batch = Tensor::<f32, 2>::zeros([2, 3], &Cpu)?;
    /// Tensor::from([2, 0]).one_hot_into(3, &mut batch)?;
    /// assert_eq!(batch, Tensor::from([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    one_hot_into [T: Number, const N: usize](classes: usize) -> N
    where [Dim<RANK>: Rank<Next = Dim<N>>]
    = |op, x, place| encoded(op, x, classes, place);
}
