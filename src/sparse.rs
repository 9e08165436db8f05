//! Sparse tensors: coordinate format (COO), which stores nonzero elements with their indices, and compressed
//! rows of a matrix (CSR).
//!
//! Indices are sorted on the host; values never leave their device.
// Imports: `error`, `dim`, `element`, `device`, `tensor`, `ops`.

use crate::device::{Cpu, Device};
use crate::dim::{Axis, Dim};
use crate::element::{Element, Number};
use crate::error::{Error, Result};
use crate::ops::{Add, Arithmetic, Indexing, Sorts};
use crate::tensor::Tensor;

/// A tensor that stores only some elements, each with its index; all others are 0. Elements with equal
/// indices count as their sum, and [`coalesce`](SparseTensor::coalesce) replaces them by it.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::sparse::SparseTensor;
/// // x[0, 2] = 3, x[1, 0] = 4, x[0, 2] += 5
/// let x = SparseTensor::new(Tensor::from([[0, 1, 0], [2, 0, 2]]), Tensor::from([3.0, 4.0, 5.0]), [2, 3])?;
/// assert_eq!(x.to_dense()?, Tensor::from([[0.0, 0.0, 8.0], [4.0, 0.0, 0.0]]));
/// let x = x.coalesce()?;
/// assert_eq!(x.values().to_vec()?, [8.0, 4.0]);
/// assert_eq!(x.matmul(&Tensor::from([[1.0], [10.0], [100.0]]))?, Tensor::from([[800.0], [4.0]]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub struct SparseTensor<T: Element, const RANK: usize, D: Device = Cpu> {
    /// Shape `[RANK, n]`, each index inside `size`, on the host.
    indices: Tensor<i64, 2>,
    /// Shape `[n]`.
    values: Tensor<T, 1, D>,
    size: Dim<RANK>,
    /// Whether the indices rise in row-major order, without duplicates.
    coalesced: bool,
}

/// An empty vector with the capacity `n`.
fn room<T>(n: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(n)
        .map_err(|_| Error::OutOfMemory { op: "sparse", nbytes: n.saturating_mul(size_of::<T>()) })?;
    Ok(room)
}

/// The distinct numbers in rising order, and for each given number its position among them.
pub(crate) fn coalesced(places: &[i64]) -> Result<(Vec<i64>, Vec<i64>)> {
    let order = Tensor::from_slice(places, [places.len()], &Cpu)?.argsort(Axis::<0>)?;
    let (mut unique, mut cells) = (room::<i64>(places.len())?, room::<i64>(places.len())?);
    cells.resize(places.len(), 0);
    for at in order.to_vec()? {
        let at = at as usize;
        if unique.last() != Some(&places[at]) {
            unique.push(places[at]);
        }
        cells[at] = unique.len() as i64 - 1;
    }
    Ok((unique, cells))
}

/// The positions of elements with these indices in a contiguous dense tensor.
pub(crate) fn places<const RANK: usize>(indices: &Tensor<i64, 2>, size: Dim<RANK>) -> Result<Vec<i64>> {
    let count = indices.size().0[1];
    let mut places = room(count)?;
    for at in 0..count {
        places.push(size.linearize(std::array::from_fn(|axis| indices[[axis, at]] as usize)) as i64);
    }
    Ok(places)
}

/// The indices of positions in a contiguous dense tensor.
pub(crate) fn indices_of<const RANK: usize>(places: &[i64], size: Dim<RANK>) -> Result<Tensor<i64, 2>> {
    Tensor::from_fn(
        [RANK, places.len()],
        |[axis, at]| size.delinearize(places[at] as usize).0[axis] as i64,
        &Cpu,
    )
}

impl<T: Element, const RANK: usize, D: Device> SparseTensor<T, RANK, D> {
    /// From parts that satisfy the invariants of the fields.
    #[cfg(feature = "dynamic")]
    pub(crate) fn of_parts(
        indices: Tensor<i64, 2>,
        values: Tensor<T, 1, D>,
        size: Dim<RANK>,
        coalesced: bool,
    ) -> Self {
        SparseTensor { indices, values, size, coalesced }
    }

    /// A sparse tensor of indices `[RANK, n]` and values `[n]`.
    ///
    /// # Errors
    /// [`Error::Sizes`] if the numbers of indices and values differ, [`Error::Index`] for an index outside
    /// the sizes, [`Error::Unallocated`], [`Error::Overflow`] if the elements, zeros included, are too many
    /// to be counted.
    pub fn new(indices: Tensor<i64, 2>, values: Tensor<T, 1, D>, size: impl Into<Dim<RANK>>) -> Result<Self> {
        let size = size.into();
        size.numel_of("sparse", 1)?;
        if indices.size().0 != [RANK, values.numel()] {
            return Err(Error::Sizes {
                op: "sparse",
                left: [RANK, values.numel()].into(),
                right: indices.size().0.into(),
            });
        }
        indices.view().ensure_allocated("sparse")?;
        values.view().ensure_allocated("sparse")?;
        for ([axis, at], &index) in indices.view().indexed_iter() {
            if !usize::try_from(index).is_ok_and(|index| index < size.0[axis]) {
                let found = std::array::from_fn::<_, RANK, _>(|axis| indices[[axis, at]] as isize);
                return Err(Error::Index {
                    op: "sparse",
                    index: found.into(),
                    axis: None,
                    sizes: size.0.into(),
                });
            }
        }
        Ok(SparseTensor { indices, values, size, coalesced: false })
    }

    /// The elements of a dense tensor that are not 0, in row-major order.
    ///
    /// # Errors
    /// Those of operators.
    pub fn from_dense(x: &Tensor<T, RANK, D>) -> Result<Self>
    where
        T: Number,
    {
        let indices = x.nonzero()?.to(&Cpu)?;
        let mut sparse = SparseTensor {
            indices: indices.transposed().to_contiguous()?,
            values: Tensor::zeros([0], x.device())?,
            size: x.size(),
            coalesced: true,
        };
        let places = Tensor::from_vec(sparse.places()?, [indices.size().0[0]])?.to(x.device())?;
        sparse.values = x.take(&places)?;
        Ok(sparse)
    }

    /// The sizes of the dense tensor.
    pub fn size(&self) -> Dim<RANK> {
        self.size
    }
    /// The number of stored elements.
    pub fn kept(&self) -> usize {
        self.values.numel()
    }
    /// The indices of the stored elements, `[RANK, n]`.
    pub fn indices(&self) -> &Tensor<i64, 2> {
        &self.indices
    }
    /// The values of the stored elements, `[n]`.
    pub fn values(&self) -> &Tensor<T, 1, D> {
        &self.values
    }
    /// Whether the indices rise in row-major order, without duplicates.
    pub fn is_coalesced(&self) -> bool {
        self.coalesced
    }

    fn places(&self) -> Result<Vec<i64>> {
        places(&self.indices, self.size)
    }

    /// The same tensor with rising, distinct indices. Elements with equal indices are summed in their order.
    ///
    /// # Cost
    /// One sort of the indices on the host, one pass over the values.
    ///
    /// # Errors
    /// Those of operators.
    pub fn coalesce(&self) -> Result<Self>
    where
        T: Number,
    {
        let places = self.places()?;
        let (unique, cells) = coalesced(&places)?;
        let count = unique.len();
        let mut values = Tensor::zeros([count], self.values.device())?;
        let cells = Tensor::from_vec(cells, [places.len()])?.to(self.values.device())?;
        values.view_mut()?.scatter(Add, Axis::<0>, &cells, &self.values)?;
        Ok(SparseTensor {
            indices: indices_of(&unique, self.size)?,
            values,
            size: self.size,
            coalesced: true,
        })
    }

    /// The dense tensor, with the zeros.
    ///
    /// # Errors
    /// Those of operators.
    pub fn to_dense(&self) -> Result<Tensor<T, RANK, D>>
    where
        T: Number,
    {
        let count = self.kept();
        let mut dense =
            Tensor::zeros([self.size.numel_of("to_dense", size_of::<T>())?], self.values.device())?;
        let places = Tensor::from_vec(self.places()?, [count])?.to(self.values.device())?;
        dense.view_mut()?.scatter(Add, Axis::<0>, &places, &self.values)?;
        dense.into_shape(self.size)
    }

    /// The tensor with permuted axes.
    ///
    /// # Errors
    /// [`Error::Permutation`], [`Error::OutOfMemory`].
    pub fn permuted(&self, order: [usize; RANK]) -> Result<Self> {
        let mut seen = [false; RANK];
        if !order.iter().all(|&axis| axis < RANK && !std::mem::replace(&mut seen[axis], true)) {
            return Err(Error::Permutation { op: "permuted", order: order.into() });
        }
        let rows = Tensor::from(order.map(|axis| axis as i64));
        let indices = self.indices.index_select(Axis::<0>, &rows)?;
        let size = Dim(order.map(|axis| self.size.0[axis]));
        Ok(SparseTensor {
            indices,
            values: self.values.share_data(),
            size,
            coalesced: self.coalesced && order.is_sorted(),
        })
    }

    /// The sum of two sparse tensors of equal sizes, coalesced.
    ///
    /// # Errors
    /// [`Error::Sizes`] if their sizes differ; those of operators.
    pub fn add(&self, other: &Self) -> Result<Self>
    where
        T: Number,
    {
        if self.size != other.size {
            return Err(Error::Sizes { op: "add", left: self.size.0.into(), right: other.size.0.into() });
        }
        let indices = Tensor::concat([self.indices.view(), other.indices.view()], Axis::<1>)?;
        let values = Tensor::concat([self.values.view(), other.values.view()], Axis::<0>)?;
        SparseTensor { indices, values, size: self.size, coalesced: false }.coalesce()
    }

    /// The elementwise product with a dense tensor of equal sizes: elements that are not stored stay 0.
    ///
    /// # Errors
    /// [`Error::Sizes`] if their sizes differ; those of operators.
    pub fn mul(&self, dense: &Tensor<T, RANK, D>) -> Result<Self>
    where
        T: Number,
    {
        if self.size != dense.size() {
            return Err(Error::Sizes { op: "mul", left: self.size.0.into(), right: dense.size().0.into() });
        }
        let places = Tensor::from_vec(self.places()?, [self.kept()])?.to(self.values.device())?;
        let values = self.values.mul(&dense.take(&places)?)?;
        Ok(SparseTensor {
            indices: self.indices.share_data(),
            values,
            size: self.size,
            coalesced: self.coalesced,
        })
    }
}

/// The rows of a sparse matrix: row `i` has the elements `starts[i]..starts[i + 1]`, with rising column
/// indices.
pub struct Rows<T: Element, D: Device = Cpu> {
    /// Shape `[rows + 1]`, rising from 0 to the number of elements.
    pub starts: Tensor<i64, 1>,
    /// The column indices. Shape `[n]`.
    pub columns: Tensor<i64, 1>,
    /// The values. Shape `[n]`.
    pub values: Tensor<T, 1, D>,
}

impl<T: Number, D: Device> SparseTensor<T, 2, D> {
    /// The compressed rows (CSR), for algorithms that go row by row. The values are shared with the coalesced
    /// tensor.
    ///
    /// # Errors
    /// Those of [`SparseTensor::coalesce`].
    ///
    /// # Examples
    /// ```
    /// use rankform::prelude::*;
    /// use rankform::sparse::SparseTensor;
    /// let x = SparseTensor::from_dense(&Tensor::from([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]))?.rows()?;
    /// assert_eq!((x.starts.to_vec()?, x.columns.to_vec()?), (vec![0, 1, 1, 3], vec![1, 0, 1]));
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn rows(&self) -> Result<Rows<T, D>> {
        let sorted = if self.coalesced { None } else { Some(self.coalesce()?) };
        let x = sorted.as_ref().unwrap_or(self);
        let mut starts: Vec<i64> = room(x.size.0[0] + 1)?;
        starts.resize(x.size.0[0] + 1, 0);
        for &row in x.indices.slice((0, ..))?.iter() {
            starts[row as usize + 1] += 1;
        }
        for row in 0..x.size.0[0] {
            starts[row + 1] += starts[row];
        }
        let rows = starts.len();
        let columns = x.indices.slice((1, ..))?.to_contiguous()?;
        Ok(Rows { starts: Tensor::from_vec(starts, [rows])?, columns, values: x.values.share_data() })
    }

    /// The matrix product with a dense matrix, `[m, k] · [k, n] → [m, n]`. The result is dense.
    ///
    /// # Cost
    /// One row of `n` elements for each stored element, in blocks of 4096 rows.
    ///
    /// # Errors
    /// [`Error::Inner`] if the inner sizes differ; those of operators.
    pub fn matmul(&self, dense: &Tensor<T, 2, D>) -> Result<Tensor<T, 2, D>> {
        let ([m, k], [inner, n]) = (self.size.0, dense.size().0);
        if k != inner {
            return Err(Error::Inner {
                op: "matmul",
                inner: [k, inner],
                left: self.size.0.into(),
                right: dense.size().0.into(),
            });
        }
        let mut out = Tensor::zeros([m, n], dense.device())?;
        for start in (0..self.kept()).step_by(4096) {
            let part = start..self.kept().min(start + 4096);
            let line = |axis: usize| -> Result<Tensor<i64, 1, D>> {
                self.indices.slice((axis, part.clone()))?.to(dense.device())
            };
            let values = self.values.slice((part.clone(),))?.insert_axis(Axis::<1>);
            let rows = dense.index_select(Axis::<0>, &line(1)?)?.mul(values)?;
            out.view_mut()?.index_scatter(Add, Axis::<0>, &line(0)?, &rows)?;
        }
        Ok(out)
    }

    /// The transposed matrix.
    ///
    /// # Errors
    /// As [`SparseTensor::permuted`].
    pub fn transposed(&self) -> Result<Self> {
        self.permuted([1, 0])
    }
}
