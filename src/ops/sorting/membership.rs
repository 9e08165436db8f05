//! Membership of elements in a set.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `expr`, `ops`.

use crate::device::{Device, same_device};
use crate::dim::Axis;
use crate::element::Comparable;
use crate::error::Result;
use crate::expr::IntoView;
use crate::ops::indexing::gather::FlatElements;
use crate::ops::{Arithmetic as _, Comparisons as _, Indexing as _, Side, Sorts as _};
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Tensor, TensorView};

/// Returns whether each element is in the set.
fn is_member<T: Comparable, const RANK: usize, const N: usize, D: Device, P: Destination<bool, RANK, D>>(
    op: &'static str,
    x: TensorView<'_, T, RANK, D>,
    set: TensorView<'_, T, N, D>,
    destination: P,
) -> Result<P::Done> {
    same_device(op, x.device(), set.device())?;
    x.ensure_allocated(op)?;
    set.ensure_allocated(op)?;
    let Some(last) = set.numel().checked_sub(1) else {
        return x.lazy().not_equal(x).bit_and(false).eval_at(op, destination);
    };
    let sorted = FlatElements::of(set)?.view().sort(Axis::<0>)?;
    let at = sorted.searchsorted(x, Side::Left)?.minimum(last as i64)?;
    sorted.take(&at)?.lazy().equal(x).eval_at(op, destination)
}

/// Membership, of tensors and views.
pub trait Membership<'a, T: 'a, const RANK: usize, D: Device>: IntoView<'a, T, RANK, D> + Sized {
    /// Returns whether each element is in `set`; a NaN never is.
    ///
    /// # Cost
    /// One sort of the set, and one gather for each bit of its length.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Unallocated`](crate::Error::Unallocated),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let x = Tensor::from([[1, 5], [7, 2]]);
    /// assert_eq!(x.isin(&Tensor::from([2, 7, 9]))?, Tensor::from([[false, false], [true, true]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn isin<'b, const N: usize>(self, set: impl IntoView<'b, T, N, D>) -> Result<Tensor<bool, RANK, D>>
    where
        T: Comparable + 'b,
        D: 'b,
    {
        is_member("isin", self.into_view(), set.into_view(), Allocate)
    }

    /// As [`isin`](Membership::isin), into an existing tensor or exclusive view. No allocation of a result.
    ///
    /// # Errors
    /// As there; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
    /// [`Error::Shared`](crate::Error::Shared) when it has other handles.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let mut found = Tensor::from([true, true]);
    /// Tensor::from([1, 7]).isin_into(&Tensor::from([2, 7, 9]), &mut found)?;
    /// assert_eq!(found.to_vec()?, [false, true]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    fn isin_into<'b, 'o, const N: usize>(
        self,
        set: impl IntoView<'b, T, N, D>,
        out: impl IntoViewMut<'o, bool, RANK, D>,
    ) -> Result<()>
    where
        T: Comparable + 'b,
        D: 'b + 'o,
    {
        is_member("isin_into", self.into_view(), set.into_view(), Existing(out))
    }
}
impl<'a, X: IntoView<'a, T, RANK, D>, T: 'a, const RANK: usize, D: Device> Membership<'a, T, RANK, D> for X {}
