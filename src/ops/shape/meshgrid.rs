//! Coordinate grids: views without memory of their own.
// Imports: `error`, `dim`, `device`, `tensor`, `ops`.

use crate::device::Device;
use crate::dim::Dim;
use crate::error::Result;
use crate::ops::axes::sizes_along;
use crate::tensor::TensorView;

impl<'a, T, D: Device> TensorView<'a, T, 1, D> {
    /// Each vector along its own axis, broadcast along the others: views without memory, as NumPy's
    /// `meshgrid` with `indexing='ij'`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) when the number of elements of the grid overflows.
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([10, 20, 30]));
    /// let [rows, columns] = TensorView::meshgrid([x.view(), y.view()])?;
    /// assert_eq!(rows + columns, Tensor::from([[11, 21, 31], [12, 22, 32]]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn meshgrid<const N: usize>(
        lines: [TensorView<'a, T, 1, D>; N],
    ) -> Result<[TensorView<'a, T, N, D>; N]> {
        let size = Dim(lines.map(|line| line.numel()));
        size.numel_of("meshgrid", size_of::<T>())?;
        let axis = |a: usize| lines[a].reshape(sizes_along::<N>(a, size.0[a]))?.broadcast_to(size);
        Ok(std::array::from_fn(|a| {
            axis(a).expect("a line stands along any axis, and the sizes can be counted")
        }))
    }
}
